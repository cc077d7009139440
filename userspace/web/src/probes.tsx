// SPDX-License-Identifier: MIT
// The mesh of probes: which pair of racks is slow, and whether it is the network or a host; then peer by peer.
import { useEffect, useRef, useState } from "preact/hooks";
import "./probes.css";
import { getJson, query, type ProbePair, type ProbePeer, type Probes } from "./api";
import * as f from "./format";
import { Empty, HeadRow, Num, Panel, type Column } from "./parts";
import { setParams, type Route } from "./route";

const poll_ms = 5000;
const most_peers = 200;

type Part = "both" | "fabric" | "host";
const parts: [Part, string][] = [["both", "Both"], ["fabric", "Network"], ["host", "Hosts"]];

type Probed = ProbePair | ProbePeer;
interface Shown { limit: "fabric" | "host" | "mixed"; value_ns: number; level: number }

// What a cell shows of PART: nine of ten probes' delay, who has most of it, and how much of what is allowed that is.
function shown(p: Probed, part: Part, limits: Probes["limits"]): Shown | null {
	const fabric = p.fabric_ns?.p90, host = p.host_ns?.p90;
	if (fabric === undefined || host === undefined || p.verdict.state === "unmeasured" || p.verdict.state === "silent")
		return null;
	const of_fabric = fabric / limits.fabric_ns, of_host = host / limits.host_ns;
	const limit = part !== "both" ? part : p.verdict.limit === "mixed" ? "mixed" : of_fabric >= of_host ? "fabric" : "host";
	const ratio = part === "fabric" ? of_fabric : part === "host" ? of_host : Math.max(of_fabric, of_host);
	const value_ns = limit === "mixed" ? fabric + host : limit === "fabric" ? fabric : host;
	return { limit, value_ns, level: ratio > 4 ? 4 : ratio > 1 ? 3 : ratio > 0.5 ? 2 : ratio > 0.25 ? 1 : 0 };
}

const words = { fabric: "network", host: "hosts", mixed: "both" };
const pairKey = (p: ProbePair): string => `${p.rack} ${p.peer_rack}`;

// Asked for while somebody can see it.
function useProbes(): { probes: Probes | null; error: string } {
	const [state, set] = useState<{ probes: Probes | null; error: string }>({ probes: null, error: "" });
	useEffect(() => {
		let timer = 0, gone = false;
		const ask = async (): Promise<void> => {
			clearTimeout(timer);
			if (document.hidden || gone)
				return;
			try {
				const { body } = await getJson<Probes>(`/api/v1/probes?${query({ limit: most_peers })}`);
				if (!gone)
					set({ probes: body, error: "" });
			} catch (error) {
				if (!gone)
					set((was) => ({ probes: was.probes, error: (error as Error).message }));
			}
			if (!gone && !document.hidden) {
				clearTimeout(timer);
				timer = window.setTimeout(() => void ask(), poll_ms);
			}
		};
		const seen = (): void => void (document.hidden ? clearTimeout(timer) : ask());
		document.addEventListener("visibilitychange", seen);
		void ask();
		return () => {
			gone = true;
			clearTimeout(timer);
			document.removeEventListener("visibilitychange", seen);
		};
	}, []);
	return state;
}

function Cell(p: { pair: ProbePair; part: Part; limits: Probes["limits"]; chosen: boolean; tab: boolean; onChoose: () => void }) {
	const { pair } = p;
	const s = shown(pair, p.part, p.limits), { state } = pair.verdict;
	const dead = state === "silent" || state === "lossy";
	return (
		<button type="button" data-pair={pairKey(pair)} tabIndex={p.tab ? 0 : -1} aria-pressed={p.chosen} onClick={p.onChoose} title={pair.verdict.text}
			class={`${s ? `${s.limit} level${s.level}` : ""} ${dead ? state : ""}`}
			aria-label={`rack ${pair.rack} to rack ${pair.peer_rack}: ${pair.verdict.text}`}>
			{s ? <Num v={s.value_ns} as={f.time} /> : <span>{state === "silent" ? "silent" : f.unknown}</span>}
			<small>{state === "lossy" ? "lossy" : s ? (s.level >= 3 ? `slow: ${words[s.limit]}` : words[s.limit]) : state === "silent" ? `${pair.lost} lost` : "too few"}</small>
		</button>
	);
}

// Arrows move from cell to cell, as in a sheet; one of them is what Tab reaches.
function Mesh(p: { pairs: ProbePair[]; part: Part; limits: Probes["limits"]; chosen: string; route: Route }) {
	const rows = [...new Set(p.pairs.map((x) => x.rack))].sort(), columns = [...new Set(p.pairs.map((x) => x.peer_rack))].sort();
	const at = new Map(p.pairs.map((x) => [pairKey(x), x]));
	const table = useRef<HTMLTableElement>(null);
	const tab = at.has(p.chosen) ? p.chosen : p.pairs[0] ? pairKey(p.pairs[0]) : "";
	const move = (e: KeyboardEvent): void => {
		const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[e.key];
		const key = (e.target as HTMLElement).dataset["pair"];
		const from = key ? at.get(key) : undefined;
		if (!step || !from)
			return;
		e.preventDefault();
		let [r, c] = [rows.indexOf(from.rack), columns.indexOf(from.peer_rack)];
		for (;;) {
			[r, c] = [r + step[0]!, c + step[1]!];
			if (r < 0 || c < 0 || r >= rows.length || c >= columns.length)
				return;
			const next = `${rows[r]} ${columns[c]}`;
			if (!at.has(next))
				continue;
			[...table.current!.querySelectorAll<HTMLElement>("[data-pair]")].find((b) => b.dataset["pair"] === next)?.focus();
			return;
		}
	};
	const what = p.part === "both" ? "Delay of nine of ten probes, of whoever is nearer to his limit" : p.part === "fabric" ? "Delay of nine of ten probes in the network" : "Delay of nine of ten probes in both hosts";
	return (
		<>
			<p class="dim" id="mesh-what">{what}; from rack (row) to rack (column)</p>
			<div class="scroll" role="region" aria-label="Mesh of racks">
				<table class="mesh" ref={table} onKeyDown={move} aria-describedby="mesh-what">
					<thead><tr><td class="corner" />{columns.map((c) => <th key={c} scope="col" title={c}>{c}</th>)}</tr></thead>
					<tbody>
						{rows.map((r) => (
							<tr key={r}>
								<th scope="row" title={r}>{r}</th>
								{columns.map((c) => {
									const pair = at.get(`${r} ${c}`);
									return (
										<td key={c}>
											{pair ? <Cell pair={pair} part={p.part} limits={p.limits} chosen={p.chosen === pairKey(pair)} tab={tab === pairKey(pair)}
												onChoose={() => setParams(p.route, { pair: p.chosen === pairKey(pair) ? "" : pairKey(pair) }, true)} /> : <div class="nothing">{f.unknown}</div>}
										</td>
									);
								})}
							</tr>
						))}
					</tbody>
				</table>
			</div>
		</>
	);
}

const peerColumns: Column[] = [
	{ key: "state", title: "State", left: true, width: "7.6rem" },
	{ key: "peer", title: "Peer", left: true, width: "12rem" },
	{ key: "rack", title: "Rack", left: true, width: "7rem" },
	{ key: "verdict", title: "Verdict", left: true, width: "auto" },
	{ key: "fmin", title: "Network min", width: "6rem", help: "NIC to NIC and back, without both hosts" },
	{ key: "f50", title: "p50", width: "4.9rem" },
	{ key: "f99", title: "p99", width: "4.9rem" },
	{ key: "h50", title: "Hosts p50", width: "5.2rem", help: "Both hosts: out of this one, through the peer, and in again" },
	{ key: "h99", title: "p99", width: "4.9rem" },
	{ key: "sent", title: "Probes", width: "4.4rem" },
	{ key: "lost", title: "Lost", width: "3.8rem" },
];

function Peers(p: { probes: Probes; chosen: string }) {
	const pair = p.probes.pairs.find((x) => pairKey(x) === p.chosen);
	if (pair?.told_by)
		return <Panel title={`From rack ${pair.rack} to rack ${pair.peer_rack}`} id="peers"><p>{pair.verdict.text}</p><p class="dim">Its peers are on the page of who told it, <a href={`${pair.told_by.replace(/\/$/, "")}/#/probes`}>{pair.told_by}</a>.</p></Panel>;
	const rows = p.probes.peers.filter((x) => !p.chosen || `${p.probes.rack} ${x.peer_rack}` === p.chosen);
	const listed = p.probes.peers.length < p.probes.total ? `the worst ${f.count(p.probes.peers.length)} of ${f.count(p.probes.total)}` : "the worst first";
	return (
		<Panel title={p.chosen ? `Peers in ${p.chosen.split(" ")[1]}` : "Peers"} id="peers" note={listed}>
			<div class="scroll tall" tabIndex={0} role="region" aria-label="Peers">
				<table class="peers">
					<HeadRow columns={peerColumns} />
					<tbody>
						{rows.map((x) => (
							<tr key={x.peer} data-peer={x.peer}>
								<td class="left"><span class={`chip ${x.verdict.state}`}>{x.verdict.state}</span></td>
								<td class="left clip" title={x.peer}>{x.peer}</td>
								<td class="left clip" title={x.peer_rack}>{x.peer_rack}</td>
								<td class="left wrap">{x.verdict.text}{x.trouble ? <span class="warn">{`; ${x.trouble}`}</span> : null}</td>
								<td><Num v={x.fabric_ns?.min} as={f.time} /></td><td><Num v={x.fabric_ns?.p50} as={f.time} /></td><td><Num v={x.fabric_ns?.p99} as={f.time} /></td>
								<td><Num v={x.host_ns?.p50} as={f.time} /></td><td><Num v={x.host_ns?.p99} as={f.time} /></td>
								<td class="dim"><Num v={x.sent} as={f.count} /></td><td class={x.lost ? "warn" : "dim"}><Num v={x.lost} as={f.count} /></td>
							</tr>
						))}
					</tbody>
				</table>
			</div>
		</Panel>
	);
}

const rank = { slow: 0, silent: 1, lossy: 2, unmeasured: 3, good: 4 };

function worst(pairs: ProbePair[]): ProbePair | undefined {
	return [...pairs].sort((a, b) => rank[a.verdict.state] - rank[b.verdict.state] ||
		(b.fabric_ns?.p90 ?? 0) + (b.host_ns?.p90 ?? 0) - (a.fabric_ns?.p90 ?? 0) - (a.host_ns?.p90 ?? 0))[0];
}

function Answering(p: { probes: Probes }) {
	const { probes: s } = p;
	const refused = Object.entries(s.refused).filter(([, n]) => n > 0), unbelieved = Object.entries(s.unbelieved).filter(([, n]) => n > 0);
	const list = (why: [string, number][]): string => why.map(([name, n]) => `${f.count(n)} ${name}`).join(", ");
	return (
		<dl class="facts">
			<div><dt>this rack</dt><dd id="probe-rack">{s.rack}</dd></div>
			<div><dt>peers</dt><dd id="probe-total"><Num v={s.total} as={f.count} /></dd></div>
			<div title="Until all of them have had their turn"><dt>a turn of all</dt><dd><Num v={s.cycle_s} as={f.span} /></dd></div>
			<div><dt>at most</dt><dd><Num v={s.rate_pps} as={f.perSecond} /></dd></div>
			<div title={s.answering.join("\n") || "[probe] listen names no address"}><dt>answers others</dt><dd>{s.answering.length ? <Num v={s.answered} as={f.count} /> : "no"}</dd></div>
			<div><dt>signed</dt><dd>{s.signed ? "yes" : "no"}</dd></div>
			{refused.length ? <div title="Probes of others that were not answered"><dt>refused</dt><dd class="warn">{list(refused)}</dd></div> : null}
			{unbelieved.length ? <div title="Answers that were not believed: another key?"><dt>not believed</dt><dd class="warn">{list(unbelieved)}</dd></div> : null}
		</dl>
	);
}

export function ProbesPage(p: { route: Route }) {
	const { probes, error } = useProbes();
	const given = p.route.params.get("part") as Part;
	const part = parts.some(([name]) => name === given) ? given : "both";
	const chosen = p.route.params.get("pair") ?? "";
	if (!probes)
		return error ? <Panel title="Probes"><Empty title="swiftd does not tell of its probes.">{error}</Empty></Panel> : null;
	const first = worst(probes.pairs), bad = probes.pairs.filter((x) => rank[x.verdict.state] < 3).length;
	return (
		<>
			<div class="headline">
				<h1 id="verdict">{first ? <><span class={`chip ${first.verdict.limit === "none" ? first.verdict.state : first.verdict.limit}`}>{first.verdict.limit === "none" ? first.verdict.state : first.verdict.limit}</span> {first.told_by ? `from rack ${first.rack}: ` : ""}{first.verdict.text}</> : "No probes"}</h1>
				<p class="dim">{error ? <span class="warn">{error}: what follows is old</span> : first ? `${bad} of ${f.plural(probes.pairs.length, "pair")} of racks slow, silent or lossy in the last ${f.span(probes.window_s)}${bad ? "; this is the worst" : ""}` : ""}</p>
			</div>
			<Answering probes={probes} />
			{probes.pairs.length ? (
				<>
					<Panel title="Mesh" id="mesh" note="choose a pair to see its peers; arrow keys move">
						<div class="mesh-controls">
							<fieldset>
								<legend>Show</legend>
								{parts.map(([name, title]) => (
									<label key={name}><input type="radio" name="part" value={name} checked={part === name} onChange={() => setParams(p.route, { part: name === "both" ? "" : name }, true)} /> {title}</label>
								))}
							</fieldset>
							<span class="mesh-key" aria-hidden="true"><span><i class="fabric" />network</span><span><i class="host" />hosts</span><span><i class="mixed" />both slow</span><span><i class="dead" />silent or lossy</span></span>
							<span class="dim">slow above <Num v={probes.limits.fabric_ns} as={f.time} /> in the network, <Num v={probes.limits.host_ns} as={f.time} /> in the hosts</span>
						</div>
						<Mesh pairs={probes.pairs} part={part} limits={probes.limits} chosen={chosen} route={p.route} />
					</Panel>
					<Peers probes={probes} chosen={chosen} />
				</>
			) : (
				<Panel title="Mesh" id="mesh">
					<Empty title="This host probes nobody.">Peers are named by <code>[probe] peers</code> or <code>peers_file</code> of swiftd's configuration, each with its rack; they answer where <code>listen</code> says so.</Empty>
				</Panel>
			)}
		</>
	);
}
