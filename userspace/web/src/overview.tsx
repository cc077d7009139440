// SPDX-License-Identifier: MIT
// The first page: is it the network or the host? One row a destination, worst first, and
// what is behind the chosen one.
import { useState } from "preact/hooks";
import { holders, prefixKey, query, type Clock, type Flow, type FlowList, type Bound, type Held, type OwnerRow, type PrefixRow, type Quantiles, type Summary } from "./api";
import { useAnswer } from "./asked";
import { DelayChart, RateChart } from "./chart";
import * as f from "./format";
import { Empty, FlowTable, HeadRow, LimitChip, noFlows, Num, ownerText, Panel, SplitBar, useLive, type Column } from "./parts";
import { flowLink, setParams, type Route } from "./route";

// Worst first: what is limited before what is not, then by the delay that the limit adds.
function added_ns({ verdict, fabric_ns, host_ns }: PrefixRow): number {
	const fabric = verdict.fabric_ns ?? fabric_ns?.p50 ?? 0, host = verdict.host_ns ?? host_ns?.p50 ?? 0;
	return verdict.limit === "fabric" ? fabric : verdict.limit === "host" ? host : fabric + host;
}

const networkBound = (r: PrefixRow): boolean => r.verdict.limit === "fabric" || r.verdict.limit === "host" || r.verdict.limit === "mixed";

// As they stood BEFORE (their keys) while nobody has become clearly worse than who stands
// above: rows that change places with every breath cannot be read.
function worstFirst(rows: PrefixRow[], before: string[]): PrefixRow[] {
	const rank = (r: PrefixRow): number => (networkBound(r) ? 0 : ["receiver", "send_buffer", "credit", "own_link"].includes(r.verdict.limit) ? 1 : 2);
	const stood = before.flatMap((key) => rows.find((r) => prefixKey(r) === key) ?? []);
	const settled = stood.length === rows.length && stood.every((r, i) => {
		const above = stood[i - 1];
		return !above || rank(r) > rank(above) || (rank(r) === rank(above) && added_ns(r) <= 1.15 * added_ns(above));
	});
	return settled ? stood : [...rows].sort((a, b) => rank(a) - rank(b) || added_ns(b) - added_ns(a) || (prefixKey(a) < prefixKey(b) ? -1 : 1));
}

const limitOf = (r: PrefixRow): Bound => r.verdict.limit;

// The row of all destinations beyond max_prefixes: no prefix to ask for.
const other = "other";

const columns: Column[] = [
	{ key: "limit", title: "Limit", left: true, width: "4.4rem" },
	{ key: "verdict", title: "Verdict", left: true, width: "auto" },
	{ key: "dst", title: "Destination", left: true, width: "14rem" },
	{ key: "bar", title: "Fabric | host", left: true, width: "7.5rem", help: "Medians, to the scale of the slowest; the tick is the target" },
	{ key: "fabric", title: "Fabric", width: "4.9rem", help: "Median delay in the fabric" },
	{ key: "host", title: "Host", width: "4.9rem", help: "Median delay in both hosts" },
	{ key: "target", title: "Target", width: "4.9rem", help: "What fabric delay is steered to (median)" },
	{ key: "p50", title: "RTT p50", width: "4.9rem" },
	{ key: "p99", title: "RTT p99", width: "4.9rem" },
	{ key: "flows", title: "Flows", width: "4.4rem" },
	{ key: "rate", title: "Rate", width: "5.8rem" },
];

function Destinations(p: { rows: PrefixRow[]; chosen: PrefixRow; route: Route }) {
	const scale_ns = Math.max(1, ...p.rows.map((r) => Math.max((r.fabric_ns?.p50 ?? 0) + (r.host_ns?.p50 ?? 0), r.target_ns?.p50 ?? 0)));
	return (
		<Panel title="Destinations" note="worst first; choose one to see it below" id="destinations">
			<div class="scroll tall" tabIndex={0} role="region" aria-label="Destinations">
				<table class="destinations">
					<HeadRow columns={columns} />
					<tbody>
						{p.rows.map((r) => {
							const key = prefixKey(r), chosen = r === p.chosen;
							const choose = (): void => setParams(p.route, { dst: key }, true);
							return (
								<tr key={key} data-prefix={key} class={chosen ? "chosen" : ""} onClick={choose}>
									<td class="left"><LimitChip limit={limitOf(r)} /></td>
									<td class="left wrap">{r.verdict.text}</td>
									<td class="left clip">
										<button type="button" class="plain" aria-pressed={chosen} onClick={choose}>{r.dst_prefix}</button>{" "}
										<span class="dim">{r.cc}, {r.iface}{r.netns ? ", other namespaces" : ""}</span>
									</td>
									<td class="left"><SplitBar fabric={r.fabric_ns?.p50} host={r.host_ns?.p50} target={r.target_ns?.p50} scale_ns={scale_ns} /></td>
									<td><Num v={r.fabric_ns?.p50} as={f.time} /></td>
									<td><Num v={r.host_ns?.p50} as={f.time} /></td>
									<td class="dim"><Num v={r.target_ns?.p50} as={f.time} /></td>
									<td><Num v={r.rtt_ns?.p50} as={f.time} /></td>
									<td><Num v={r.rtt_ns?.p99} as={f.time} /></td>
									<td><Num v={r.flows} as={f.count} /></td>
									<td><Num v={r.rate_bps} as={f.rate} /></td>
								</tr>
							);
						})}
					</tbody>
				</table>
			</div>
		</Panel>
	);
}

function Facts(p: { s: Summary }) {
	const { totals, module, clocks, histograms } = p.s;
	const fed = clocks.filter((c) => c.state === "fed").length;
	return (
		<dl class="facts">
			<div><dt>TCP flows</dt><dd id="total-flows"><Num v={totals.flows} as={f.count} /></dd></div>
			<div><dt>run swift</dt><dd id="total-swift"><Num v={totals.swift_flows} as={f.count} /></dd></div>
			<div title="Too long a handshake RTT for a datacenter: they run Reno"><dt>guarded</dt><dd id="total-guarded"><Num v={totals.guarded_flows} as={f.count} /></dd></div>
			{(p.s.netns ?? 1) > 1 ? <div title="Network namespaces of this host whose flows are seen"><dt>namespaces</dt><dd id="total-netns"><Num v={p.s.netns} as={f.count} /></dd></div> : null}
			<div><dt>rate</dt><dd id="total-rate"><Num v={totals.rate_bps} as={f.rate} /></dd></div>
			<div><dt>retransmitted</dt><dd id="total-retrans"><Num v={totals.retrans_pkts} as={f.count} /> <span class="unit">pkts</span></dd></div>
			<div title={histograms === "bpf" ? "Every window decision is counted, in BPF" : "From the flows' state once an interval: short spikes may be missed"}>
				<dt>histograms</dt><dd class={histograms === "bpf" ? "" : "warn"}>{histograms === "bpf" ? "from BPF" : "sampled"}</dd>
			</div>
			<div><dt>module</dt><dd class={module.loaded ? "" : "warn"}>{module.loaded ? `loaded${module.version ? `, ${module.version}` : ""}` : "not loaded"}</dd></div>
			<div title={clocks.length ? clocks.map((c) => `${c.dev}: ${c.state}`).join("\n") : "swiftd feeds no NIC's clock: [clocks] devices"}>
				<dt>NIC clocks</dt><dd class={fed < clocks.length ? "warn" : ""}>{clocks.length ? `${fed} of ${clocks.length} fed` : "none"}</dd>
			</div>
			{totals.dropped_prefixes > 0 ? (
				<div title="More destinations than [collect] max_prefixes: flows to the rest are in one row, other"><dt>not told apart</dt><dd class="warn"><Num v={totals.dropped_prefixes} as={f.count} /> <span class="unit">flows</span></dd></div>
			) : null}
		</dl>
	);
}

function QuantileTable(p: { row: PrefixRow }) {
	const lines: [string, Quantiles | null, string?][] = [
		["RTT", p.row.rtt_ns],
		["fabric", p.row.fabric_ns, "fabric"],
		["host, both", p.row.host_ns, "host"],
		["  receiver", p.row.remote_host_ns],
		["  this host, in", p.row.local_host_ns],
		["  this host, out", p.row.tx_host_ns],
		["  this NIC, out", p.row.tx_nic_ns],
		["target", p.row.target_ns, "target"],
	];
	return (
		<table class="small quantiles" id="quantiles">
			<colgroup>{["auto", "4.5rem", "4.5rem", "4.5rem", "4.5rem", "4.7rem"].map((w, i) => <col key={i} style={{ width: w }} />)}</colgroup>
			<thead><tr><th class="left" scope="col">Delay</th>{["p50", "p90", "p99", "mean", "samples"].map((h) => <th key={h} scope="col">{h}</th>)}</tr></thead>
			<tbody>
				{lines.map(([name, q, mark]) => (
					<tr key={name}>
						<th scope="row" class={`left ${name.startsWith(" ") ? "indent" : ""}`}>{mark ? <i class="swatch" style={{ color: `var(--${mark})` }} /> : null}{name.trim()}</th>
						{(["p50", "p90", "p99", "mean"] as const).map((k) => <td key={k}><Num v={q?.[k]} as={f.time} /></td>)}
						<td class="dim"><Num v={q?.n} as={f.big} title={q ? f.count(q.n) : undefined} /></td>
					</tr>
				))}
			</tbody>
		</table>
	);
}

function Counts(p: { row: PrefixRow }) {
	const { limited, held, idle, stamps, echo } = p.row;
	const line = (name: string, parts: [string, number][]) => (
		<div key={name}><dt>{name}</dt>{parts.map(([what, n]) => <dd key={what} class={n ? "" : "dim"}><Num v={n} as={f.count} /> {what}</dd>)}</div>
	);
	return (
		<dl class="counts">
			{line("Held by", [["fabric", held.fabric], ["host", held.host], ["both", held.mixed]])}
			{line("Not by the window", [["application", held.application], ["receiver", held.receiver], ["send buffer", held.send_buffer], ["idle", idle]])}
			{held.credit + held.own_link > 0 ? line("By credit", [["of the receiver", held.credit], ["short: own link", held.own_link]]) : null}
			{line("Smaller window", [["fabric", limited.fabric], ["host", limited.host], ["both", limited.both]])}
			{line("Stamps here", [["hardware", stamps.hardware], ["software", stamps.software], ["none", stamps.none]])}
			{line("Echoed by peer", [["hardware", echo.hardware], ["software", echo.software], ["none", echo.none]])}
		</dl>
	);
}

// One dot a flow: how near its fabric delay is to its target, and how small its window.
function WindowsAgainstTargets(p: { flows: Flow[] | undefined }) {
	const w = 420, h = 208, left = 46, bottom = 30, top = 8, right = 10;
	const dots = (p.flows ?? []).flatMap((x) => {
		const windows = [x.fcwnd_pkts, x.ecwnd_pkts].filter((v) => v !== null);
		return x.target_ns && x.fabric_ns !== null && windows.length
			? [{ x, ratio: x.fabric_ns / x.target_ns, window: Math.max(1e-3, Math.min(...windows)) }] : [];
	});
	const most = Math.max(2, Math.ceil(Math.max(0, ...dots.map((d) => d.ratio))));
	const low = Math.floor(Math.log10(Math.min(1, ...dots.map((d) => d.window))));
	const high = Math.max(low + 2, Math.ceil(Math.log10(Math.max(10, ...dots.map((d) => d.window)))));
	const px = (ratio: number): number => left + ((w - left - right) * ratio) / most;
	const py = (window: number): number => top + ((h - top - bottom) * (high - Math.log10(window))) / (high - low);
	const every = Math.ceil(most / 6);
	return (
		<svg class="scatter" viewBox={`0 0 ${w} ${h}`} role="img" aria-label={`Windows against targets of ${f.plural(dots.length, "flow")}`}>
			{Array.from({ length: high - low + 1 }, (_, i) => low + i).map((e) => (
				<g key={e}><line class="grid" x1={left} x2={w - right} y1={py(10 ** e)} y2={py(10 ** e)} /><text x={left - 6} y={py(10 ** e) + 4} class="end">{+(10 ** e).toPrecision(1)}</text></g>
			))}
			{Array.from({ length: Math.floor(most / every) + 1 }, (_, i) => i * every).map((r) => (
				<g key={r}><line class="grid" x1={px(r)} x2={px(r)} y1={top} y2={h - bottom} /><text x={px(r)} y={h - bottom + 14} class="middle">{r}</text></g>
			))}
			<line class="one" x1={px(1)} x2={px(1)} y1={top} y2={h - bottom} />
			<text x={(left + w - right) / 2} y={h - 3} class="middle">fabric delay / target</text>
			<text transform={`translate(11 ${(top + h - bottom) / 2}) rotate(-90)`} class="middle">window, packets</text>
			{p.flows && !dots.length ? <text x={(left + w - right) / 2} y={(top + h - bottom) / 2} class="middle none">None of its flows has both a window and a target.</text> : null}
			{dots.map(({ x, ratio, window }) => (
				<a key={x.id} href={flowLink(x.id)} tabIndex={-1}>
					<circle class={`dot ${x.held_by ?? "none"}`} cx={px(ratio)} cy={py(window)} r="3.5">
						<title>{`${x.remote}\nfabric ${f.time(x.fabric_ns)} of target ${f.time(x.target_ns)}\nfcwnd ${f.packets(x.fcwnd_pkts)}, ecwnd ${f.packets(x.ecwnd_pkts)} packets`}</title>
					</circle>
				</a>
			))}
		</svg>
	);
}

function Clocks(p: { clocks: Clock[] }) {
	return (
		<Panel title="NIC clocks" id="clocks" note="what turns hardware stamps into this host's time">
			{p.clocks.length ? (
				<div class="scroll">
					<table class="small">
						<thead><tr><th class="left" scope="col">NIC</th><th class="left" scope="col">State</th><th scope="col" title="NIC minus this host">Offset</th><th scope="col" title="Above 0: the NIC's is the faster">Drift</th><th scope="col">Error</th><th scope="col" title="Of the newest line from its clock to the host's">Age</th></tr></thead>
						<tbody>
							{p.clocks.map((c) => (
								<tr key={c.dev} data-clock={c.dev}>
									<td class="left">{c.dev}</td><td class={`left ${c.state === "fed" ? "" : "warn"}`}>{c.state}</td>
									<td><Num v={c.offset_ns} as={f.time} /></td><td><Num v={c.drift_ppb} as={f.ppm} /></td>
									<td><Num v={c.error_ns} as={f.time} /></td><td><Num v={c.age_s} as={f.span} /></td>
								</tr>
							))}
						</tbody>
					</table>
				</div>
			) : (
				<Empty title="swiftd feeds no NIC's clock.">Hardware stamps then need <code>swiftctl clock run</code>, or the NICs' names in <code>[clocks] devices</code> of swiftd's configuration.</Empty>
			)}
		</Panel>
	);
}

const ownerColumns: Column[] = [
	{ key: "owner", title: "Owner", left: true, width: "auto" },
	{ key: "netns", title: "Namespace", left: true, width: "12rem", help: "Network namespace" },
	{ key: "held", title: "Held by", left: true, width: "9rem", help: "What holds most of its flows back that have something to send, and how many" },
	{ key: "fabric", title: "Fabric", width: "4.9rem", help: "Mean delay in the fabric" },
	{ key: "host", title: "Host", width: "4.9rem", help: "Mean delay in both hosts" },
	{ key: "rtt", title: "RTT", width: "4.9rem", help: "Mean" },
	{ key: "flows", title: "Flows", width: "4.4rem" },
	{ key: "rate", title: "Rate", width: "5.8rem" },
];

function mostHeld(o: OwnerRow): Held | null {
	const most = holders.reduce((a, b) => (o.held[b] > o.held[a] ? b : a));
	return o.held[most] > 0 ? most : null;
}

// Where more than one has flows: pods, containers, units, control groups.
function OwnersPanel(p: { rows: OwnerRow[] }) {
	const named = p.rows.filter((o) => ownerText(o));
	if (named.length === 0 || p.rows.length < 2)
		return null;
	return (
		<Panel title="Owners" note="pods, containers, units and control groups, most flows first" id="owners">
			<div class="scroll tall" tabIndex={0} role="region" aria-label="Owners">
				<table class="owners">
					<HeadRow columns={ownerColumns} />
					<tbody>
						{p.rows.map((o) => {
							const held = mostHeld(o), name = o.owner ?? f.unknown;
							return (
								<tr key={`${o.netns} ${o.owner}`} data-owner={name}>
									<td class="left clip" title={o.cgroup ?? ""}>
										{o.owner === other ? name : <a href={`#/flows?${query({ owner: o.owner ?? "", netns: o.netns ?? "" })}`}>{name}</a>}
									</td>
									<td class="left clip dim" title={o.netns ?? ""}>{o.netns ?? f.unknown}</td>
									<td class="left"><LimitChip limit={held} />{held ? <span class="dim"> {o.held[held]} of {o.flows}</span> : null}</td>
									<td><Num v={o.fabric_ns} as={f.time} /></td>
									<td><Num v={o.host_ns} as={f.time} /></td>
									<td><Num v={o.rtt_ns} as={f.time} /></td>
									<td><Num v={o.flows} as={f.count} /></td>
									<td><Num v={o.rate_bps} as={f.rate} /></td>
								</tr>
							);
						})}
					</tbody>
				</table>
			</div>
		</Panel>
	);
}

// Which flows are a row's, as the API and the page of flows have it.
const flowsOf = (row: PrefixRow, s: Summary) => ({
	sort: "rtt", prefix: row.dst_prefix, cc: row.cc, iface: row.iface, netns: (s.netns ?? 1) > 1 ? row.netns ?? "own" : "",
});

export function Overview(p: { route: Route }) {
	const { summary: s, history, step_s } = useLive();
	const [kept] = useState({ order: [] as string[], chosen: "" });
	const rows = s ? worstFirst(s.prefixes, kept.order) : [];
	kept.order = rows.map(prefixKey);
	// The worst, when the page is first seen; who reads on is not taken elsewhere.
	const wanted = p.route.params.get("dst") ?? kept.chosen;
	const chosen = rows.find((r) => prefixKey(r) === wanted) ?? rows[0];
	kept.chosen = chosen ? prefixKey(chosen) : "";
	const asked = s && chosen && chosen.dst_prefix !== other ? `/api/v1/flows?${query({ ...flowsOf(chosen, s), order: "desc", limit: 200 })}` : "";
	const { path, body } = useAnswer<FlowList>(asked, s?.time_s); // what goes wrong is the banner's
	const flows = path === asked ? body : null;
	if (!s)
		return null;
	const series = chosen && history.get(prefixKey(chosen));
	const bound = rows.filter(networkBound).length;
	return (
		<>
			<div class="headline">
				{rows[0] ? (
					<>
						<h1 id="verdict"><LimitChip limit={limitOf(rows[0])} /> {rows[0].verdict.text}</h1>
						<p class="dim">{bound ? `${bound} of ${f.plural(rows.length, "destination")} held back by fabric or host; this is the worst` : `none of ${f.plural(rows.length, "destination")} is held back by fabric or host`}</p>
					</>
				) : <h1 id="verdict">Nothing to judge yet</h1>}
			</div>
			<Facts s={s} />
			{!chosen ? <Panel title="Destinations">{noFlows}</Panel> : (
				<>
					<Destinations rows={rows} chosen={chosen} route={p.route} />
					<div class="columns">
						<Panel title={`To ${chosen.dst_prefix}`} note={`${chosen.cc} by ${chosen.iface}: median delay of its flows`} id="history">
							{series ? (
								<div key={prefixKey(chosen)}>
									<DelayChart series={series} step_s={step_s} height={360} />
									<RateChart series={series} step_s={step_s} height={140} />
								</div>
							) : null}
						</Panel>
						<div class="stack">
							<Panel title="Where the delay is" id="where"><div class="scroll"><QuantileTable row={chosen} /></div><Counts row={chosen} /></Panel>
							{chosen.dst_prefix === other ? null : <Panel title="Windows against targets" note="a dot a flow, by its limit" id="windows"><WindowsAgainstTargets flows={flows?.flows} /></Panel>}
						</div>
					</div>
					{chosen.dst_prefix === other ? null : <Panel title="Its slowest flows" id="slowest" note={<a href={`#/flows?${query(flowsOf(chosen, s))}`}>all {f.count(flows?.matched ?? chosen.flows)}, and filters</a>}>
						<FlowTable flows={flows?.flows.slice(0, 8) ?? []} caption="Slowest flows" />
					</Panel>}
				</>
			)}
			<OwnersPanel rows={s.owners ?? []} />
			<Clocks clocks={s.clocks} />
		</>
	);
}
