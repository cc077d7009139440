// SPDX-License-Identifier: MIT
// Answers like swiftd, with numbers that depend on nothing but the tick: the dashboard's
// tests know what has to be on the page. By itself it is a server to look at the pages with:
//   node tests/web/mock.mjs [PORT]
import { readFile } from "node:fs/promises";
import http from "node:http";
import { extname, join } from "node:path";
import { fileURLToPath } from "node:url";

const types = { ".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml" };
const policy = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'";
export const dist = fileURLToPath(new URL("../../out/build/web/dist", import.meta.url));

// What each destination is like: medians in ns.
const places = [
	{ dst_prefix: "10.0.0.0/24", net: (i) => `10.0.0.${10 + (i % 40)}`, cc: "swift", iface: "eth0", flows: 48, fabric: 31000, remote: 84000, local: 6000, limit: "host", text: "host-bound: receivers in 10.0.0.0/24 add 84 us" },
	{ dst_prefix: "10.0.1.0/24", net: (i) => `10.0.1.${10 + (i % 40)}`, cc: "swift", iface: "eth0", flows: 36, fabric: 128000, remote: 7000, local: 5000, limit: "fabric", text: "fabric-bound: the path to 10.0.1.0/24 adds 97 us" },
	{ dst_prefix: "10.0.2.0/24", net: (i) => `10.0.2.${10 + (i % 40)}`, cc: "swift", iface: "eth1", flows: 24, fabric: 22000, remote: 5000, local: 4000, limit: "application", text: "application-bound: 20 of 24 flows to 10.0.2.0/24 send all they have" },
	{ dst_prefix: "2001:db8:1::/64", net: (i) => `[2001:db8:1::${(10 + i).toString(16)}]`, cc: "bpf_swift", iface: "eth1", flows: 17, fabric: 61000, remote: 24000, local: 31000, limit: "mixed", text: "mixed: the path to 2001:db8:1::/64 adds 30 us, this host 31 us" },
	{ dst_prefix: "10.9.0.0/24", net: (i) => `10.9.0.${10 + (i % 40)}`, cc: "cubic", iface: "eth0", flows: 12, fabric: null, remote: null, local: null, limit: "none", text: "not measured: its flows run cubic" },
];

// Whose flows are: pods of three namespaces, a container and a unit of the host's own; a flow's by its number.
const pod = (name, container, netns) => ({ netns, owner: name, pod: name, container, unit: null, cgroup: `/kubepods.slice/kubepods-burstable.slice/${name.replace("/", "-")}/${container}` });
const owned = [
	pod("shop/web-7c9f-xk2", "nginx", "cni-1f0c"), pod("shop/cart-5d8b-9qp", "cart", "cni-77aa"), pod("batch/etl-nightly-28733100-hj4vt", "spark", "cni-b3d1"),
	{ netns: null, owner: "registry", pod: null, container: "registry", unit: null, cgroup: "/system.slice/docker-8f1.scope" },
	{ netns: null, owner: "nginx.service", pod: null, container: null, unit: "nginx.service", cgroup: "/system.slice/nginx.service" },
];
const nobody = { netns: null, owner: null, pod: null, container: null, unit: null, cgroup: null };

// A rack's hosts and the way to them: what is told of the mesh of probes, us.
const racks = ["a1", "a2", "b1", "b2", "c1", "eu1/backup-and-archive.3"];
const limits = { fabric_ns: 500000, host_ns: 1000000 };
function probed(state, fabric_us, host_us, { sent = 240, lost = 0, remote = 0.7 } = {}) {
	const times = (us) => (us === null ? null : { n: sent - lost, min: Math.round(us * 420), p50: Math.round(us * 610), p90: us * 1000, p99: Math.round(us * 1370) });
	const limit = state !== "slow" ? "none" : fabric_us > 500 && host_us > 1000 ? "mixed" : fabric_us > 500 ? "fabric" : "host";
	return { limit, sent, lost, other_stamps: 0, stamps: { local: "hardware", remote: fabric_us === null ? "none" : "hardware" }, fabric_ns: times(fabric_us), host_ns: times(host_us), remote_host_ns: times(host_us && Math.round(host_us * remote)), local_host_ns: times(host_us && Math.round(host_us * (1 - remote))) };
}
const said_of = {
	good: (to, p) => `good: the path to ${to} takes ${p.fabric_ns.p90 / 1000} us, this host and ${to} add ${p.host_ns.p90 / 1000} us`,
	slow: (to, p) => (p.limit === "host" ? `host-bound: ${to} add ${p.host_ns.p90 / 1000} us (more than 1.00 ms)` : `${p.limit === "mixed" ? "mixed" : "fabric-bound"}: the path to ${to} takes ${p.fabric_ns.p90 / 1000} us (more than 500 us)`),
	lossy: (to, p) => `lossy: ${p.lost} of ${p.sent} probes to ${to} are lost`,
	silent: (to, p) => `none of ${p.sent} probes to ${to} is answered`,
	unmeasured: (_to, p) => `not measured: ${p.sent} probes are too few`,
};
const told = (state, to, p) => { const { limit, ...rest } = p; return { ...rest, verdict: { state, limit, text: said_of[state](to, p) } }; };

// 0 .. 1, the same each time for the same arguments.
function noise(...seed) {
	let h = 2166136261;
	for (const s of seed)
		h = Math.imul(h ^ s, 16777619) ^ (h >>> 13);
	h = Math.imul(h ^ (h >>> 16), 2246822507);
	return ((h ^ (h >>> 13)) >>> 0) / 4294967296;
}
// Slow waves and a little noise, around 1.
const wave = (place, tick) => 1 + 0.22 * Math.sin(tick / 17 + place) + 0.1 * Math.sin(tick / 5 + 2 * place) + 0.06 * (noise(place, tick) - 0.5);

const quantiles = (p50, n) => (p50 === null ? null : { p50: Math.round(p50), p90: Math.round(p50 * 1.42), p99: Math.round(p50 * 2.3), mean: Math.round(p50 * 1.08), n });

export class Mock {
	constructor({ start_s = 1.7e9, tick = 240 } = {}) {
		Object.assign(this, { start_s, now: tick, interval_s: 1, interval_ms: 1000, port: 0, streams: new Set(), requests: [] });
		// What a test may change.
		Object.assign(this, { empty: false, moduleLoaded: true, histograms: "bpf", refuseStreams: false, told: 0, token: "", nasty: "", dropped: 0, step: 1, samples: 40, wide: false, probing: true, policyState: "in_force", pods: false });
		// Intervals between two looks, of a swiftd that stretches them; points that it keeps; how long flows are
		// searched for, and how many searches there were at a time.
		Object.assign(this, { stretch: 1, memory: 300, slow_ms: 0, searches: 0, mostSearches: 0 });
		// Streams that tell nothing; paths that get a 503, and its error.
		Object.assign(this, { silentStreams: false, refused: {} });
		// Why no look has succeeded since `now`, and for how long.
		Object.assign(this, { trouble: "", blind_s: 0 });
	}

	time_s(tick = this.now) {
		return this.start_s + tick * this.interval_s * this.stretch;
	}

	flows() {
		if (this.empty)
			return [];
		return places.flatMap((p, place) => Array.from({ length: p.flows }, (_, i) => this.flow(p, place, i)));
	}

	flow(p, place, i, tick = this.now) {
		const own = 0.55 + noise(place, i, 7) * 1.1, w = wave(place, tick) * own;
		const fabric_ns = p.fabric === null ? null : Math.round(p.fabric * w);
		const host_ns = p.fabric === null ? null : Math.round((p.remote + p.local) * w * (0.8 + 0.4 * noise(place, i, tick)));
		const target_ns = p.fabric === null ? null : 50000 + Math.round(20000 * noise(place, i, 3));
		const fcwnd_pkts = fabric_ns === null ? null : +((12 * target_ns) / fabric_ns / own ** 3).toFixed(3);
		const ecwnd_pkts = fabric_ns === null ? null : +((10 * 60000) / host_ns / own).toFixed(3);
		const id = ((place + 1) * 0x1000 + i * 7 + 1).toString(16);
		const credit = fabric_ns === null ? null : place === 1 && i % 12 === 5 ? "waits" : place === 1 && i % 12 === 7 ? "congested" : "none";
		const lent = { waits: "credit", congested: "own_link" }[credit];
		const flow = {
			id, local: `${p.iface === "eth0" ? "10.0.0.1" : p.cc === "bpf_swift" ? "[2001:db8::1]" : "10.0.2.1"}:${40000 + place * 1000 + i}`,
			remote: `${p.net(i)}:443`, iface: p.iface, dst_prefix: p.dst_prefix, cc: p.cc, state: "ESTAB",
			rtt_ns: fabric_ns === null ? Math.round(240000 * w) : fabric_ns + host_ns, min_rtt_ns: Math.round(18000 * own),
			fabric_ns, host_ns, target_ns, fcwnd_pkts, ecwnd_pkts,
			snd_cwnd_pkts: fcwnd_pkts === null ? 10 + i : Math.max(1, Math.floor(Math.min(fcwnd_pkts, ecwnd_pkts))),
			rate_bps: Math.round(1e9 * (0.2 + 2 * noise(place, i, 5)) / w), retrans_pkts: i % 9 === 0 ? i * 3 : 0,
			retrans_per_s: i % 9 === 0 ? +(noise(place, i, tick) * 4).toFixed(2) : 0, age_s: Math.round(20 + 9000 * noise(place, i, 11)),
			limit: fcwnd_pkts === null ? null : fcwnd_pkts < ecwnd_pkts ? "fabric" : "host", credit,
			held_by: lent ?? (fcwnd_pkts === null ? null : p.limit === "application" ? "application" : fcwnd_pkts < ecwnd_pkts ? "fabric" : "host"),
			local_stamp: p.fabric === null ? null : p.iface === "eth0" ? "hardware" : "software",
			echo_stamp: p.fabric === null ? null : place === 3 ? "none" : "hardware", from_bpf: p.cc === "bpf_swift",
		};
		Object.assign(flow, this.pods ? owned[(place + i) % owned.length] : nobody, { process: null });
		if (this.nasty && place === 0 && i === 0)
			Object.assign(flow, { cc: this.nasty, remote: this.nasty, local: this.nasty, iface: this.nasty, state: this.nasty, rtt_ns: 9e9 });
		return this.wide ? this.widest(flow) : flow;
	}

	// As long as names and numbers come.
	widest(row) {
		const times = Object.keys(row).filter((k) => k.endsWith("_ns")), longest = (v) => (v === null ? null : typeof v === "number" ? 88.8e6 : { ...v, p50: 88.8e6, p90: 88.8e6, p99: 888e6, mean: 88.8e6 });
		const more = { cc: "bpf_swift_cubic", iface: "enp129s0f0np0", dst_prefix: row.dst_prefix.includes("/64") ? "2001:db8:8888:8888::/64" : row.dst_prefix, rate_bps: 888.8e9 };
		if (row.remote)
			Object.assign(more, { local: "[2001:db8:8888:8888:8888:8888:8888:8888]:48888", remote: "[2001:db8:8888:8888:8888:8888:8888:8889]:48888", state: "CLOSE_WAIT", fcwnd_pkts: row.fcwnd_pkts && 8888, ecwnd_pkts: row.ecwnd_pkts && 8888, retrans_pkts: 8888888, retrans_per_s: 88888, age_s: 59 * 60 + 58 });
		return Object.assign(row, more, Object.fromEntries(times.map((k) => [k, longest(row[k])])));
	}

	prefix(p, place, tick = this.now) {
		const w = wave(place, tick), n = this.samples * p.flows;
		const ns = (v) => (v === null ? null : v * w);
		const host = p.fabric === null ? null : p.remote + p.local;
		const row = {
			dst_prefix: p.dst_prefix, cc: p.cc, iface: p.iface, flows: p.flows, rate_bps: Math.round(p.flows * 1.1e9 / w),
			rtt_ns: quantiles(p.fabric === null ? 240000 * w : ns(p.fabric) + ns(host), n), fabric_ns: quantiles(ns(p.fabric), n), host_ns: quantiles(ns(host), n),
			remote_host_ns: quantiles(ns(p.remote), n), local_host_ns: quantiles(ns(p.local), n), tx_host_ns: p.cc === "bpf_swift" ? quantiles(1800 * w, n) : null, tx_nic_ns: p.cc === "bpf_swift" ? quantiles(2600 * w, n) : null,
			target_ns: quantiles(p.fabric === null ? null : 58000, n),
			limited: { fabric: p.limit === "fabric" ? p.flows : 0, host: p.limit === "host" ? p.flows : 0, both: 0 },
			held: { ...Object.fromEntries(["fabric", "host", "mixed", "application", "receiver", "send_buffer", "credit", "own_link"].map((k) => [k, k === p.limit ? p.flows - 4 : 0])) }, idle: p.limit === "none" ? 0 : 4,
			stamps: { hardware: p.iface === "eth0" && p.fabric ? p.flows : 0, software: p.iface === "eth1" ? p.flows : 0, none: p.fabric ? 0 : p.flows },
			echo: { hardware: place < 3 ? p.flows : 0, software: 0, none: place < 3 ? 0 : p.flows },
			verdict: { limit: p.limit, text: p.text, host_ns: p.limit === "host" || p.limit === "mixed" ? Math.round(w * p.remote) : 0, fabric_ns: p.limit === "fabric" || p.limit === "mixed" ? Math.round(0.75 * w * p.fabric) : 0 },
		};
		return this.wide ? this.widest(row) : row;
	}

	owners(flows) {
		const mean = (values) => (values.length ? values.reduce((a, b) => a + b, 0) / values.length : null), holders = ["fabric", "host", "mixed", "application", "receiver", "send_buffer", "credit", "own_link"];
		const rows = owned.map((who) => {
			const its = flows.filter((f) => f.owner === who.owner), times = (name) => mean(its.map((f) => f[name]).filter((v) => v !== null));
			return { ...who, flows: its.length, idle: 0, held: Object.fromEntries(holders.map((h) => [h, its.filter((f) => f.held_by === h).length])), fabric_ns: times("fabric_ns"), host_ns: times("host_ns"), rtt_ns: times("rtt_ns"), rate_bps: its.reduce((sum, f) => sum + f.rate_bps, 0) };
		});
		return rows.filter((r) => r.flows).sort((a, b) => b.flows - a.flows || (a.owner < b.owner ? -1 : 1));
	}

	summary(history = false) {
		const flows = this.flows();
		const prefixes = this.empty ? [] : places.map((p, i) => this.prefix(p, i));
		// In no order: worst first is the page's.
		prefixes.reverse();
		if (this.nasty && prefixes.length)
			Object.assign(prefixes[0], { dst_prefix: this.nasty, cc: this.nasty, iface: this.nasty, verdict: { limit: "host", text: this.nasty, host_ns: 9e9, fabric_ns: 0 } });
		const s = {
			version: 1, time_s: this.time_s(), interval_s: this.interval_s, interval_ms: this.interval_ms, host: this.nasty || "rack7-host12", kernel: "6.12.48-amd64",
			module: this.moduleLoaded ? { loaded: true, version: "0.1.0" } : { loaded: false }, histograms: this.histograms,
			totals: {
				flows: flows.length + 61, swift_flows: flows.filter((f) => f.cc !== "cubic").length, guarded_flows: this.empty ? 0 : 3,
				rate_bps: flows.reduce((sum, f) => sum + f.rate_bps, 0), retrans_pkts: flows.reduce((sum, f) => sum + f.retrans_pkts, 0), dropped_prefixes: this.dropped,
			},
			prefixes, owners: this.pods ? this.owners(flows) : [],
			clocks: this.empty ? [] : [
				{ dev: "eth0", state: "fed", offset_ns: -37000412345, drift_ppb: 11840, error_ns: 210, age_s: 0.2 },
				{ dev: "eth1", state: "unfit", offset_ns: null, drift_ppb: null, error_ns: null, age_s: null },
			],
			tune: this.tune(), policy: this.policy().policy,
		};
		if (history) {
			s.history = { step_s: this.step * this.interval_s, prefixes: {} };
			for (const [i, p] of this.empty ? [] : places.entries()) {
				const ticks = Array.from({ length: Math.min(this.memory, Math.floor(this.now / this.step) + 1) }, (_, k) => this.now - k * this.step).reverse();
				const rows = ticks.map((t) => this.prefix(p, i, t));
				s.history.prefixes[`${p.dst_prefix}|${p.cc}|${p.iface}`] = {
					time_s: ticks.map((t) => this.time_s(t)), fabric_ns: rows.map((r) => r.fabric_ns?.p50 ?? null), host_ns: rows.map((r) => r.host_ns?.p50 ?? null),
					target_ns: rows.map((r) => r.target_ns?.p50 ?? null), rate_bps: rows.map((r) => r.rate_bps),
				};
			}
		}
		return s;
	}

	list(q) {
		const key = { rate: (f) => f.rate_bps, fabric: (f) => f.fabric_ns, host: (f) => f.host_ns, rtt: (f) => f.rtt_ns, window: (f) => (f.fcwnd_pkts === null ? null : Math.min(f.fcwnd_pkts, f.ecwnd_pkts)), retrans: (f) => f.retrans_pkts, age: (f) => f.age_s }[q.get("sort") ?? "rate"];
		if (!key)
			return [400, { version: 1, error: `sort=${q.get("sort")}: allowed are rate, fabric, host, rtt, window, retrans, age` }];
		const limit = Number(q.get("limit") ?? 50), offset = Number(q.get("offset") ?? 0);
		if (!(limit >= 1 && limit <= 1000))
			return [400, { version: 1, error: `limit=${q.get("limit")}: allowed are 1 to 1000` }];
		const all = this.flows(), sign = q.get("order") === "asc" ? 1 : -1, text = q.get("q") ?? "";
		const matched = all.filter((f) => (!q.get("cc") || f.cc === q.get("cc")) && (!q.get("prefix") || f.dst_prefix === q.get("prefix")) && (!q.get("limit_by") || f.limit === q.get("limit_by")) && (!q.get("held_by") || f.held_by === q.get("held_by")) &&
			(!q.get("owner") || f.owner === q.get("owner")) && (!q.get("netns") || f.netns === q.get("netns") || q.get("netns") === (f.netns ? "others" : "own")) &&
			(!q.get("iface") || f.iface === q.get("iface")) &&
			(!text || [f.local, f.remote, f.iface, f.cc].some((s) => s.includes(text))));
		matched.sort((a, b) => (key(a) === null ? 1 : 0) - (key(b) === null ? 1 : 0) || sign * (key(a) - key(b)) || (a.id < b.id ? -1 : 1));
		return [200, { version: 1, time_s: this.time_s(), interval_s: this.interval_s, total: all.length, matched: matched.length, offset, flows: matched.slice(offset, offset + limit) }];
	}

	detail(id) {
		const flow = this.flows().find((f) => f.id === id);
		if (!flow)
			return [404, { version: 1, error: `flow ${id} is not live` }];
		const place = (parseInt(id, 16) >> 12) - 1, i = ((parseInt(id, 16) & 0xfff) - 1) / 7, p = places[place];
		const ticks = Array.from({ length: 180 }, (_, k) => this.now - 179 + k), rows = ticks.map((t) => this.flow(p, place, i, t));
		const history = { step_s: this.interval_s, time_s: ticks.map((t) => this.time_s(t)) };
		for (const name of ["fabric_ns", "host_ns", "target_ns", "fcwnd_pkts", "ecwnd_pkts", "rate_bps"])
			history[name] = rows.map((r) => r[name]);
		const where = {
			credit: "credit-bound: it waits for credit of its receiver", own_link: "credit-bound: its receiver lends it less", application: "application-bound: it sends all that it has", host: `host-bound: both hosts add ${Math.round((flow.host_ns ?? 0) / 1000)} us`, fabric: `fabric-bound: the path adds ${Math.round((flow.fabric_ns ?? 0) / 1000)} us`,
		};
		return [200, { version: 1, time_s: this.time_s(), flow, history, verdict: { limit: flow.held_by ?? "none", text: this.nasty || (where[flow.held_by] ?? "not measured") } }];
	}

	// From a1, whose own pair is the first; b1 is behind a slow network, b2 has slow hosts, c1 loses.
	probes(limit = 1000) {
		const row = { a1: ["good", 34, 61], a2: ["good", 48, 77], b1: ["slow", 2400, 90], b2: ["slow", 52, 5300], c1: ["lossy", 61, 80, { lost: 9 }], "eu1/backup-and-archive.3": ["slow", 880, 1900] };
		const w = 1 + 0.1 * noise(this.now), of = (rack) => { const [state, fabric, host, more] = row[rack]; return told(state, `hosts in rack ${rack}`, probed(state, Math.round(fabric * w), Math.round(host * w), more)); };
		const on = this.probing && !this.empty, states = (n, state) => ({ unmeasured: 0, silent: 0, slow: 0, lossy: 0, good: 0, [state]: n });
		const rank = { slow: 0, silent: 1, lossy: 2, unmeasured: 3, good: 4 };
		const pairs = on ? racks.map((r) => ({ ...of(r), rack: "a1", peer_rack: r, peers: 6, states: states(6, row[r][0]), told_by: null })) : [];
		// What swiftds of two other racks say; a1 is not slow for b2, whose own hosts are.
		const others = { a2: ["good", 41, 66], b2: ["slow", 49, 4100] };
		for (const [rack, [state, fabric, host]] of Object.entries(on ? others : {}))
			for (const [i, r] of racks.entries())
				pairs.push({ ...told(state, `hosts in rack ${r}`, probed(state, fabric + i, host + 3 * i)), rack, peer_rack: r, peers: 6, states: states(6, state), told_by: `https://${rack}-1:9464` });
		const peers = on ? racks.flatMap((r, i) => Array.from({ length: 6 }, (_, k) => {
			const peer = this.nasty && i === 0 && k === 0 ? this.nasty : `10.${i}.0.${10 + k}`;
			const dead = i === 0 && k === 3, few = i === 0 && k === 4;
			const p = dead ? told("silent", peer, probed("silent", null, null, { sent: 40, lost: 40 })) : few ? told("unmeasured", peer, probed("unmeasured", null, null, { sent: 3 })) : of(r);
			return { ...p, peer, peer_rack: r, trouble: dead ? "nobody answers on that port (probe.listen of its swiftd)" : null };
		})).sort((a, b) => rank[a.verdict.state] - rank[b.verdict.state] || (a.peer < b.peer ? -1 : 1)) : [];
		const none = { malformed: 0, unsigned: 0, signature: 0, replay: 0, time: 0, crowded: 0, source_rate: 0, rate: 0, not_sent: 0 };
		return {
			version: 1, time_s: this.time_s(), rack: on ? "a1" : "none", answering: on ? ["0.0.0.0:21335"] : [], signed: on, answered: on ? 4321 : 0,
			refused: { ...none, signature: on ? 3 : 0 }, unbelieved: none, rate_pps: 10, cycle_s: 18, window_s: 900, limits, total: peers.length, pairs, peers: peers.slice(0, limit),
		};
	}

	// Version 2 is in force after 1, unless its guard put it back, it expired, or there never was one.
	policy() {
		const state = this.empty ? "off" : this.policyState, at = (minutes) => this.start_s - 60 * minutes;
		const [author, place] = this.nasty ? [this.nasty, this.nasty] : ["net-eng@example.com", "net.ipv4.tcp_swift"];
		const long = this.wide ? "w".repeat(60) : "", first = `2026-11-03.1${long}`, second = `2026-11-24.2${long}`;
		const loss = "net.ipv4.tcp_swift: throughput 18.2 % less (standard error 3.1 %, n=12), and 5 % less is allowed";
		const event = (minutes, what, version, reason = "") => ({ time_s: at(minutes), event: what, version, author: version && author, reason });
		const ends = { put_back: [event(3, "put_back", second, loss), event(3, "in_force", first, `again, after ${second}`)], expired: [event(3, "expired", second, "it expired at 2023-11-14T22:10:00Z")], refused: [event(3, "refused", null, "/etc/tcp_swift/policy.toml:7: target.base_target_ns: '9' (allowed: 1000 to 1000000000)")] }[state] ?? [];
		const version = { in_force: second, refused: second, put_back: first }[state] ?? null, put_back = state === "put_back", there = version !== null;
		const target = (of, tunable, before, value, lost = null) => ({ place: of, tunable, before, value, lost });
		return {
			version: 1, time_s: this.time_s(),
			policy: {
				state, reason: ends[0]?.reason ?? "", version, author: there ? author : null, expires_s: there ? this.start_s + 30 * 86400 : null, since_s: there ? at(put_back ? 3 : 40) : null,
				targets: there ? 3 : 0, guard: there ? "watching" : null, ended: { guard: +put_back, expiry: +(state === "expired"), withdrawal: 0 },
			},
			targets: there ? [
				target(place, "base_target_ns", "25000", put_back ? "30000" : "60000"),
				target(place, "target_policy", "topology", "static"),
				target(`bpf_swift ${this.wide ? "2001:db8:8888:8888:8888:8888:8888:0/112" : "10.2.0.0/16"}`, "base_target_ns", null, "120000", "it is base_target_ns=77000, which somebody else has set"),
			] : [],
			events: state === "off" ? [] : [event(900, "in_force", first), event(880, "acquitted", first, "the policy stays: after 7 fours of turns: no harm"), event(40, "in_force", second), ...ends],
		};
	}

	tune() {
		const on = !this.empty, past = (minutes, event, from_ns, to_ns, reason) => ({ time_s: this.start_s - 60 * minutes, event, from_ns, to_ns, reason });
		return { state: on ? "holding" : "off", knob: on ? "net.ipv4.tcp_swift.base_target_ns" : "", base_target_ns: on ? 25000 : null, proposal_ns: on ? 22000 : null, reason: on ? "for another 40 min" : "",
			events: on ? [past(50, "try", 50000, 25000, "half of it"), past(45, "accepted", 50000, 25000, this.nasty || "throughput 0.1 % less (standard error 0.4 %, n=9), p99 RTT 31 % shorter"), past(44, "settled", 25000, 25000, "the next smaller one cost 2.1 % of throughput")] : [] };
	}

	config() {
		const o = (name, value, dflt, unit, reloadable, help, more = {}) => ({ name, value, default: dflt, unit, reloadable, help, ...more });
		return { version: 1, options: [
			o("collect.interval_s", this.interval_s, 1, "s", true, "how often flows are looked at", { min: 0.1, max: 60 }),
			o("collect.ccs", ["swift", "bpf_swift", this.nasty || "cubic"], ["swift", "bpf_swift"], "", true, "congestion controls to show; * is all TCP"),
			o("collect.max_prefixes", 256, 256, "", true, "destinations that are told apart; the rest are one, other", { min: 1, max: 4096 }),
			o("collect.max_groups", 16, 16, "", true, "groups (prefix, congestion control, interface) with metrics of their own, those with most traffic; the rest are one, other", { min: 1, max: 4096 }),
			o("http.listen", "127.0.0.1:9464", "127.0.0.1:9464", "", false, "address and port to serve"),
			o("http.token_file", "set", "", "", true, "file with the token that requests have to bear"),
			o("clocks.devices", ["eth0", "eth1"], [], "", false, "NICs whose clocks are fed; none: they are left alone"),
		] };
	}

	async answer(request, response) {
		const url = new URL(request.url, "http://mock"), path = url.pathname;
		this.requests.push(request.url);
		response.setHeader("Date", new Date((this.time_s() + this.blind_s) * 1000).toUTCString());
		response.setHeader("X-Content-Type-Options", "nosniff");
		const json = (status, body) => response.writeHead(status, { "Content-Type": "application/json" }).end(JSON.stringify(body));
		if (request.method !== "GET" && request.method !== "HEAD")
			return json(405, { version: 1, error: `${request.method}: allowed are GET and HEAD` });
		if (path.startsWith("/api/") && this.token && request.headers.authorization !== `Bearer ${this.token}`)
			return json(401, { version: 1, error: "a token is needed" });
		if (this.refused[path])
			return json(503, { version: 1, error: this.refused[path] });
		if (path.startsWith("/api/v1/flows") && this.slow_ms) {
			this.mostSearches = Math.max(this.mostSearches, ++this.searches);
			response.on("close", () => this.searches--);
			await new Promise((done) => setTimeout(done, this.slow_ms));
		}
		const flow = /^\/api\/v1\/flows\/([^/]+)$/.exec(path);
		if (path === "/api/v1/summary")
			return json(200, { ...this.summary(url.searchParams.get("history") === "1"), ...(this.trouble ? { error: this.trouble } : {}) });
		if (path === "/api/v1/flows")
			return json(...this.list(url.searchParams));
		if (flow)
			return json(...this.detail(decodeURIComponent(flow[1])));
		if (path === "/api/v1/probes")
			return json(200, this.probes(Number(url.searchParams.get("limit") ?? 1000)));
		if (path === "/api/v1/policy")
			return json(200, this.policy());
		if (path === "/api/v1/config")
			return json(200, this.config());
		if (path === "/api/v1/stream") {
			if (this.refuseStreams)
				return json(503, { version: 1, error: "too many streams" });
			response.writeHead(200, { "Content-Type": "text/event-stream", "Cache-Control": "no-store" });
			if (this.silentStreams)
				return response.flushHeaders();
			response.write(": hello\n\n");
			// What was told last, to who comes late: without the error, which is the state's. That
			// is sent with it, but may be read later.
			response.write(`event: summary\ndata: ${JSON.stringify(this.summary())}\n\n`);
			if (this.trouble)
				setTimeout(() => this.trouble && this.streams.has(response) && response.write(this.state(), () => this.told++), 200);
			this.streams.add(response);
			return response.on("close", () => this.streams.delete(response));
		}
		const file = path === "/" ? "index.html" : path.slice(1);
		if (!/^[\w.]+$/.test(file))
			return json(404, { version: 1, error: `${path}: there is no such page` });
		try {
			const bytes = await readFile(join(dist, file));
			return response.writeHead(200, { "Content-Type": types[extname(file)] ?? "application/octet-stream", "Content-Security-Policy": policy }).end(bytes);
		} catch {
			return json(404, { version: 1, error: `${path}: there is no such page` });
		}
	}

	// An interval goes by.
	tick(n = 1) {
		this.now += n;
		Object.assign(this, { trouble: "", blind_s: 0 });
		const event = `event: summary\ndata: ${JSON.stringify(this.summary())}\n\n`;
		for (const stream of this.streams) {
			// In two pieces: a reader has to put them together.
			stream.write(event.slice(0, 100));
			setImmediate(() => stream.write(event.slice(100)));
		}
	}

	// A look has failed, BLIND_S after the newest that did not.
	fail(error, blind_s = this.interval_s) {
		Object.assign(this, { trouble: error, blind_s });
		for (const stream of this.streams)
			stream.write(this.state());
	}

	state() {
		return `event: state\ndata: ${JSON.stringify({ version: 1, time_s: this.time_s() + this.blind_s, collecting: false, error: this.trouble })}\n\n`;
	}

	// Intervals go by on their own, faster than the page is told they do.
	beat() {
		this.heart = setInterval(() => this.tick(), 150);
	}

	dropStreams() {
		for (const stream of this.streams)
			stream.destroy();
	}

	async start(port = this.port) {
		this.server = http.createServer((request, response) => void this.answer(request, response));
		await new Promise((done, failed) => this.server.once("error", failed).listen(port, "127.0.0.1", done));
		this.port = this.server.address().port;
		return `http://127.0.0.1:${this.port}`;
	}

	async stop() {
		clearInterval(this.heart);
		const closed = new Promise((done) => this.server.close(done));
		this.server.closeAllConnections?.();
		await closed;
	}
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
	const mock = new Mock({ start_s: Math.floor(Date.now() / 1000) - 240 });
	console.log(`${await mock.start(Number(process.argv[2] ?? 9464))}/`);
	setInterval(() => mock.tick(), 1000);
}
