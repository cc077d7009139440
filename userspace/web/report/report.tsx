// SPDX-License-Identifier: MIT
// The report's page: a result's figures as charts and as a table.
import { Fragment, render } from "preact";
import "./report.css";
import * as f from "../src/format";
import { sections, type Row, type Section, type Split, type Value } from "./result";

const w = 860, left = 190, right = 110, rowHeight = 26;

interface Scale { (v: number): number; ticks: number[] }

function linear(max: number): Scale {
	const raw = (max || 1) / 5, base = 10 ** Math.floor(Math.log10(raw));
	const step = base * ([1, 2, 5, 10].find((m) => m * base >= raw) ?? 10);
	const top = Math.ceil((max || 1) / step) * step;
	const scale = (v: number): number => left + ((w - left - right) * v) / top;
	return Object.assign(scale, { ticks: Array.from({ length: Math.round(top / step) + 1 }, (_, i) => i * step) });
}

// Where the largest is far above the smallest, a linear axis shows one of them alone.
function times(values: number[]): Scale {
	const positive = values.filter((v) => v > 0), max = Math.max(1, ...positive), min = Math.min(max, ...positive);
	if (max / min < 30)
		return linear(max);
	const low = Math.floor(Math.log10(min)), high = Math.ceil(Math.log10(max));
	const scale = (v: number): number => left + ((w - left - right) * (Math.log10(Math.max(v, 10 ** low)) - low)) / (high - low);
	return Object.assign(scale, { ticks: Array.from({ length: high - low + 1 }, (_, i) => 10 ** (low + i)) });
}

const bounds = (v: Value | null): number[] => (v ? [v.mid, v.lo ?? v.mid, v.hi ?? v.mid] : []);

function Whisker(p: { v: Value; x: Scale; y: number }) {
	if (p.v.lo === undefined || p.v.hi === undefined)
		return null;
	const [a, b] = [p.x(p.v.lo), p.x(p.v.hi)];
	return <path class="whisker" d={`M${a} ${p.y - 4}v8M${a} ${p.y}H${b}M${b} ${p.y - 4}v8`} />;
}

function Axis(p: { x: Scale; rows: number; format: f.Format }) {
	const bottom = p.rows * rowHeight + 4;
	return (
		<>
			{p.x.ticks.map((t) => (
				<g key={t}><line class="grid" x1={p.x(t)} x2={p.x(t)} y1={0} y2={bottom} /><text class="dim middle" x={p.x(t)} y={bottom + 15}>{t === 0 ? "0" : f.short(p.format(t))}</text></g>
			))}
		</>
	);
}

const clipped = (name: string): string => (name.length > 28 ? `${name.slice(0, 27)}\u2026` : name);
const Name = (p: { name: string; y: number }) => <text x={left - 10} y={p.y + 4} class="end"><title>{p.name}</title>{clipped(p.name)}</text>;
const height = (rows: number): number => rows * rowHeight + 24;
const middle = (i: number): number => i * rowHeight + rowHeight / 2;

function Goodput(p: { rows: Row[] }) {
	const rows = p.rows.filter((r) => r.goodput_bps);
	const x = linear(Math.max(...rows.flatMap((r) => bounds(r.goodput_bps))));
	return (
		<svg viewBox={`0 0 ${w} ${height(rows.length)}`} role="img" aria-label="Goodput">
			<Axis x={x} rows={rows.length} format={f.rate} />
			{rows.map((r, i) => (
				<g key={r.name}>
					<Name name={r.name} y={middle(i)} />
					<rect class="goodput" x={left} y={middle(i) - 7} width={x(r.goodput_bps!.mid) - left} height={14} />
					<Whisker v={r.goodput_bps!} x={x} y={middle(i)} />
					<text x={w - 4} y={middle(i) + 4} class="end">{f.rate(r.goodput_bps!.mid)}</text>
				</g>
			))}
		</svg>
	);
}

type Percentiles = [name: string, key: "p50_ns" | "p99_ns" | "p999_ns" | "answer_p50_ns" | "answer_p99_ns" | "answer_p999_ns"][];
const roundTrips: Percentiles = [["p50", "p50_ns"], ["p99", "p99_ns"], ["p999", "p999_ns"]];
const answers: Percentiles = [["p50", "answer_p50_ns"], ["p99", "answer_p99_ns"], ["p999", "answer_p999_ns"]];

function Times(p: { rows: Row[]; of: Percentiles; title: string; bars: string }) {
	const rows = p.rows.filter((r) => p.of.some(([, key]) => r[key]));
	if (!rows.length)
		return null;
	const x = times(rows.flatMap((r) => p.of.flatMap(([, key]) => bounds(r[key]))));
	return (
		<section class="panel">
			<header><h2>{p.title}</h2><span class="note">{p.bars}</span></header>
			<div class="legend">
				<span><i class="hollow" style={{ color: "var(--fabric)" }} />p50</span><span><i style={{ color: "var(--fabric)" }} />p99</span><span><i style={{ color: "var(--bad)" }} />p99.9, and its value at the right</span>
			</div>
			<svg viewBox={`0 0 ${w} ${height(rows.length)}`} role="img" aria-label={p.title}>
				<Axis x={x} rows={rows.length} format={f.time} />
				{rows.map((r, i) => {
					const known = p.of.flatMap(([name, key]) => {
						const v = r[key];
						return v ? [{ name, v }] : [];
					});
					return (
						<g key={r.name}>
							<Name name={r.name} y={middle(i)} />
							<line class="span" x1={x(known[0]!.v.mid)} x2={x(known.at(-1)!.v.mid)} y1={middle(i)} y2={middle(i)} />
							{known.map(({ name, v }) => <Fragment key={name}><Whisker v={v} x={x} y={middle(i)} /><circle class={name} cx={x(v.mid)} cy={middle(i)} r={5} /></Fragment>)}
							<text x={w - 4} y={middle(i) + 4} class="end">{f.time(known.at(-1)!.v.mid)}</text>
						</g>
					);
				})}
			</svg>
		</section>
	);
}

function Stacked(p: { bars: Split["bars"]; title: string }) {
	const x = linear(Math.max(...p.bars.map((b) => b.fabric_ns + b.host_ns)));
	return (
		<svg viewBox={`0 0 ${w} ${height(p.bars.length)}`} role="img" aria-label={p.title}>
			<Axis x={x} rows={p.bars.length} format={f.time} />
			{p.bars.map((b, i) => (
				<g key={i}>
					<Name name={b.name} y={middle(i)} />
					<rect class="fabric" x={left} y={middle(i) - 7} width={x(b.fabric_ns) - left} height={14}><title>{`fabric ${f.time(b.fabric_ns)}`}</title></rect>
					<rect class="host" x={x(b.fabric_ns)} y={middle(i) - 7} width={x(b.host_ns) - left} height={14}><title>{`host ${f.time(b.host_ns)}`}</title></rect>
					<text x={w - 4} y={middle(i) + 4} class="end">{f.time(b.fabric_ns)} + {f.time(b.host_ns)}</text>
				</g>
			))}
		</svg>
	);
}

const legendSplit = (
	<div class="legend">
		<span><i class="square" style={{ color: "var(--fabric)" }} />fabric</span>
		<span><i class="square" style={{ color: "var(--host)" }} />host</span>
	</div>
);

const measures: [string, keyof Row, f.Format][] = [
	["goodput", "goodput_bps", f.rate], ["RTT mean", "avg_ns", f.time], ["p50", "p50_ns", f.time], ["p99", "p99_ns", f.time], ["p99.9", "p999_ns", f.time],
	["answers/s", "answers_per_s", f.count], ["answer p50", "answer_p50_ns", f.time], ["answer p90", "answer_p90_ns", f.time], ["answer p99", "answer_p99_ns", f.time],
	["answer p99.9", "answer_p999_ns", f.time],
	["fabric", "fabric_ns", f.time], ["host", "host_ns", f.time], ["retransmits", "retransmits", f.count], ["loss", "loss_ratio", f.ratio], ["fairness (Jain)", "jain", (v) => (v == null ? f.unknown : v.toFixed(3))],
];

function Table(p: { section: Section }) {
	const shown = measures.filter(([, key]) => p.section.rows.some((r) => r[key] !== null));
	const said = p.section.rows.some((r) => r.verdict);
	return (
		<div class="scroll">
			<table>
				<thead><tr><th class="left" scope="col"></th><th scope="col">n</th>{shown.map(([title]) => <th key={title} scope="col">{title}</th>)}{said ? <th class="left" scope="col">verdict</th> : null}</tr></thead>
				<tbody>
					{p.section.rows.map((r) => (
						<tr key={r.name} data-row={r.name}>
							<th scope="row" class="left">{r.name}</th>
							<td>{r.n ?? f.unknown}{r.failed ? ` (${f.count(r.failed)} failed)` : ""}</td>
							{shown.map(([title, key, format]) => {
								const v = r[key] as Value | null;
								return (
									<td key={title}>
										<data value={v?.mid ?? ""}>{format(v?.mid)}</data>
										{v?.lo !== undefined && v.hi !== undefined ? <span class="pm">{format(v.lo)} to {format(v.hi)}</span> : null}
									</td>
								);
							})}
							{said ? <td class="left said">{r.verdict}</td> : null}
						</tr>
					))}
				</tbody>
			</table>
		</div>
	);
}

function SectionView(p: { section: Section }) {
	const s = p.section;
	const split = s.rows.flatMap((r) => (r.fabric_ns && r.host_ns ? [{ name: r.name, fabric_ns: r.fabric_ns.mid, host_ns: r.host_ns.mid }] : []));
	const bars = s.spread ? `bars: ${s.spread}` : "";
	return (
		<>
			<div class="lead">
				<h1>{s.title}</h1>
				{s.verdicts.map((v, i) => <p class="verdict" key={i}>{v}</p>)}
				{[...s.notes, ...s.leftOut].map((n, i) => <p key={i}>{n}</p>)}
			</div>
			{s.rows.some((r) => r.goodput_bps) ? <section class="panel"><header><h2>Goodput</h2><span class="note">{bars}</span></header><Goodput rows={s.rows} /></section> : null}
			<Times rows={s.rows} of={roundTrips} title="Round-trip times" bars={bars} />
			<Times rows={s.rows} of={answers} title="From question to answer" bars={bars} />
			{split.length ? <section class="panel"><header><h2>Where the delay is: fabric or host</h2><span class="note">medians, as the law saw them</span></header>{legendSplit}<Stacked bars={split} title="Fabric and host delay" /></section> : null}
			{s.splits.map((x) => <section class="panel" key={x.title}><header><h2>Bottleneck: {x.title}</h2><span class="note">delay of each flow</span></header>{legendSplit}<Stacked bars={x.bars} title={x.title} /></section>)}
			{s.rows.length ? <section class="panel"><header><h2>All figures</h2><span class="note">{s.spread ? `small: ${s.spread}` : ""}</span></header><Table section={s} /></section> : null}
			{s.parameters ? <details class="panel"><summary>Parameters</summary><pre>{JSON.stringify(s.parameters, null, 2)}</pre></details> : null}
		</>
	);
}

const dark = matchMedia("(prefers-color-scheme: dark)");
const apply = (): void => {
	document.documentElement.dataset["theme"] = dark.matches ? "dark" : "light";
};
dark.addEventListener("change", apply);
apply();

const found = sections(JSON.parse(document.getElementById("result")!.textContent ?? "null"));
if (found[0])
	document.title = found[0].title;
render(
	found.length
		? <>{found.map((s, i) => <SectionView section={s} key={i} />)}</>
		: <p>This report has no result in it: neither runs nor experiments.</p>,
	document.getElementById("report")!,
);
