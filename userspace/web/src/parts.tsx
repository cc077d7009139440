// SPDX-License-Identifier: MIT
// The small parts that all pages share.
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Bound, Flow } from "./api";
import * as f from "./format";
import { live } from "./live";
import { flowLink } from "./route";

// Redraws whenever there is news, and twice a second for what ages.
export function useLive(): typeof live {
	const [, set] = useState(0);
	useEffect(() => {
		const redraw = (): void => set((n) => n + 1);
		const timer = setInterval(redraw, 500);
		const unsubscribe = live.subscribe(redraw);
		return () => {
			clearInterval(timer);
			unsubscribe();
		};
	}, []);
	return live;
}

// A number with its unit; the element's value is what the API said.
export function Num(p: { v: number | null | undefined; as: f.Format; class?: string; title?: string | undefined }) {
	const text = p.as(p.v);
	const [, digits, unit] = /^(\S+) ([^\d\s]\S*)$/.exec(text) ?? [];
	return (
		<data class={p.class} value={p.v ?? ""} title={p.title}>
			{unit ? <>{digits} <span class="unit">{unit}</span></> : text}
		</data>
	);
}

// `null`: nothing measured it, which is not the same as "ok".
const chips: Partial<Record<Bound, string>> = { application: "app", send_buffer: "sndbuf", own_link: "uplink" };

export function LimitChip(p: { limit: Bound | null }) {
	return <span class={`chip ${p.limit ?? ""}`}>{p.limit === null || p.limit === "none" ? f.unknown : chips[p.limit] ?? p.limit}</span>;
}

// Fabric and host delay in a row, against SCALE_NS; the tick is the target.
export function SplitBar(p: { fabric: number | null | undefined; host: number | null | undefined; target?: number | null | undefined; scale_ns: number }) {
	const share = (ns: number | null | undefined): string => `${Math.min(100, Math.max(0, (100 * (ns ?? 0)) / (p.scale_ns || 1)))}%`;
	return (
		<span class="split" title={`fabric ${f.time(p.fabric)}, host ${f.time(p.host)}${p.target ? `, target ${f.time(p.target)}` : ""}`}>
			<i class="fabric" style={{ width: share(p.fabric) }} />
			<i class="host" style={{ width: share(p.host) }} />
			{p.target ? <i class="tick" style={{ left: share(p.target) }} /> : null}
		</span>
	);
}

export function Panel(p: { title: string; note?: ComponentChildren; id?: string; children?: ComponentChildren; class?: string }) {
	return (
		<section class={`panel ${p.class ?? ""}`} id={p.id} aria-label={p.title}>
			<header><h2>{p.title}</h2>{p.note ? <span class="note">{p.note}</span> : null}</header>
			{p.children}
		</section>
	);
}

export function Empty(p: { title: string; children?: ComponentChildren }) {
	return <div class="empty"><strong>{p.title}</strong><div>{p.children}</div></div>;
}

export const noFlows = (
	<Empty title="No flow runs swift yet.">
		<code>swiftctl enable --iface DEV</code> makes it this host's default; connections that are opened from then on run it.
		A single socket asks with <code>setsockopt(TCP_CONGESTION, "swift")</code>.
	</Empty>
);

export interface Column {
	key: string;
	title: string;
	sort?: string; // the API's name for it
	help?: string;
	left?: boolean;
	width: string;
}

export function HeadRow(p: { columns: Column[]; sort?: string; order?: string; onSort?: (sort: string, order: "asc" | "desc") => void }) {
	return (
		<>
			<colgroup>{p.columns.map((c) => <col key={c.key} style={{ width: c.width }} />)}</colgroup>
			<thead>
				<tr>
					{p.columns.map((c) => {
						const active = c.sort !== undefined && c.sort === p.sort;
						const down = p.order !== "asc";
						return (
							<th key={c.key} scope="col" class={c.left ? "left" : ""} title={c.help}
								aria-sort={active ? (down ? "descending" : "ascending") : undefined}>
								{c.sort && p.onSort ? (
									<button type="button" data-sort={c.sort} onClick={() => p.onSort!(c.sort!, active && down ? "asc" : "desc")}>
										<span class="arrow" aria-hidden="true">{active ? (down ? "\u25be" : "\u25b4") : ""}</span>{c.title}
									</button>
								) : c.title}
							</th>
						);
					})}
				</tr>
			</thead>
		</>
	);
}

const flowColumns: Column[] = [
	{ key: "flow", title: "Flow", left: true, width: "auto" },
	{ key: "cc", title: "CC", left: true, width: "5.6rem" },
	{ key: "limit", title: "Held by", left: true, width: "4.9rem", help: "Who holds it back: fabric, host, both (mixed), its application, the receiver's window, the send buffer, the receiver's credit, or its own link (receivers lend it less)" },
	{ key: "bar", title: "Fabric | host", left: true, width: "7.5rem", help: "Delay, to the scale of the slowest of these; the tick is the target" },
	{ key: "rtt", title: "RTT", sort: "rtt", width: "4.8rem" },
	{ key: "fabric", title: "Fabric", sort: "fabric", width: "4.8rem" },
	{ key: "host", title: "Host", sort: "host", width: "4.8rem" },
	{ key: "target", title: "Target", width: "4.8rem", help: "What fabric delay is steered to" },
	{ key: "fcwnd", title: "fcwnd", sort: "window", width: "4.6rem", help: "Fabric window, packets (sorted by the smaller of the two)" },
	{ key: "ecwnd", title: "ecwnd", width: "4.6rem", help: "Endpoint window, packets" },
	{ key: "rate", title: "Rate", sort: "rate", width: "5.8rem" },
	{ key: "retrans", title: "Retrans", sort: "retrans", width: "5.2rem", help: "Retransmitted packets" },
	{ key: "age", title: "Age", sort: "age", width: "5.5rem" },
];

const ownerColumn: Column = { key: "owner", title: "Owner", left: true, width: "9rem", help: "Pod, container, systemd unit or control group whose socket it is" };

// "/", the root of all control groups, tells nothing.
export const ownerText = (x: { owner?: string | null }): string => (x.owner && x.owner !== "/" ? x.owner : "");

export function FlowTable(p: { flows: Flow[]; sort?: string; order?: string; onSort?: (sort: string, order: "asc" | "desc") => void; caption: string }) {
	const delay = (x: Flow): number => Math.max((x.fabric_ns ?? 0) + (x.host_ns ?? 0), x.target_ns ?? 0);
	const scale_ns = Math.max(1, ...p.flows.map(delay));
	const owners = p.flows.some((x) => ownerText(x));
	const columns = owners ? [...flowColumns.slice(0, 1), ownerColumn, ...flowColumns.slice(1)] : flowColumns;
	return (
		<div class="scroll" tabIndex={0} role="region" aria-label={p.caption}>
			<table class={owners ? "flows wide" : "flows"}>
				<HeadRow columns={columns} {...(p.sort ? { sort: p.sort } : {})} {...(p.order ? { order: p.order } : {})} {...(p.onSort ? { onSort: p.onSort } : {})} />
				<tbody>
					{p.flows.map((x) => (
						<tr key={x.id} data-flow={x.id}>
							<td class="left clip" title={`${x.local} \u2192 ${x.remote}${x.iface ? ` by ${x.iface}` : ""}`}>
								<a href={flowLink(x.id)}>{x.remote}</a> <span class="dim">from {x.local}</span>
							</td>
							{owners ? <td class="left clip" title={`${x.cgroup ?? ""}${x.netns ? ` in network namespace ${x.netns}` : ""}`}>{ownerText(x) || <span class="dim">{f.unknown}</span>}</td> : null}
							<td class="left clip" title={x.cc}>{x.cc}</td>
							<td class="left"><LimitChip limit={x.held_by} /></td>
							<td class="left"><SplitBar fabric={x.fabric_ns} host={x.host_ns} target={x.target_ns} scale_ns={scale_ns} /></td>
							<td><Num v={x.rtt_ns} as={f.time} /></td>
							<td><Num v={x.fabric_ns} as={f.time} /></td>
							<td><Num v={x.host_ns} as={f.time} /></td>
							<td class="dim"><Num v={x.target_ns} as={f.time} /></td>
							<td class={x.limit === "fabric" || x.limit === "both" ? "binds" : ""}><Num v={x.fcwnd_pkts} as={f.packets} /></td>
							<td class={x.limit === "host" || x.limit === "both" ? "binds" : ""}><Num v={x.ecwnd_pkts} as={f.packets} /></td>
							<td><Num v={x.rate_bps} as={f.rate} /></td>
							<td class={x.retrans_pkts ? "" : "dim"} title={`${f.perSecond(x.retrans_per_s)} now`}><Num v={x.retrans_pkts} as={f.count} /></td>
							<td class="dim"><Num v={x.age_s} as={f.span} /></td>
						</tr>
					))}
				</tbody>
			</table>
		</div>
	);
}
