// SPDX-License-Identifier: MIT
// uPlot in a panel: charts over time with one cursor for all, their own legend (a line of
// fixed places, so that nothing moves), and the colours of the style sheet.
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { useEffect, useRef, useState } from "preact/hooks";
import type { DelaySeries, FlowSeries } from "./api";
import * as f from "./format";
import { Empty } from "./parts";
import { colour, onTheme } from "./theme";

type Values = (number | null)[];

export interface Line {
	label: string;
	colour: string; // a custom property's name
	values: Values; // what the legend shows
	drawn?: Values; // what is drawn, where it differs: the top of a stack
	area?: boolean; // filled down to the next area below, or to zero
	dash?: boolean;
	hidden?: boolean; // in the legend alone
}

interface Props {
	title: string;
	time_s: number[];
	lines: Line[];
	format: f.Format;
	height: number;
	log?: boolean;
	step_s: number;
}

// Half of a time at the right edge would be cut off.
const time_px = 56, right_px = 8;

const points = 300; // at most what swiftd keeps; fewer have room at the left

// Where points are missing for longer than a few steps, a gap says so. Where swiftd has stretched its interval
// steps are longer, for more than one.
function withGaps(time_s: number[], columns: Values[], step_s: number): { time_s: number[]; columns: Values[] } {
	const step = (i: number): number => time_s[i]! - time_s[i - 1]! || 0;
	const far = (i: number): boolean => step(i) > 3.5 * Math.max(1, step_s, step(i - 1), step(i + 1));
	if (!time_s.some((_t, i) => far(i)))
		return { time_s, columns };
	const times: number[] = [], out: Values[] = columns.map(() => []);
	time_s.forEach((t, i) => {
		if (far(i)) {
			times.push(time_s[i - 1]! + step_s);
			out.forEach((c) => c.push(null));
		}
		times.push(t);
		out.forEach((c, k) => c.push(columns[k]![i] ?? null));
	});
	return { time_s: times, columns: out };
}

// What is drawn, in words: who does not see it gets the same.
function inWords(p: Props): string {
	const [first, last] = [p.time_s[0], p.time_s.at(-1)];
	if (first === undefined || last === undefined)
		return `${p.title}: nothing yet`;
	const lines = p.lines.map((l) => {
		const known = l.values.filter((v): v is number => v !== null);
		return known.length ? `${l.label} ${p.format(known.at(-1))}, before from ${p.format(Math.min(...known))} to ${p.format(Math.max(...known))}` : `${l.label} not known`;
	});
	return `${p.title}, ${f.clockTime(first)} to ${f.clockTime(last)}: ${lines.join("; ")}`;
}

export function Chart(p: Props) {
	const box = useRef<HTMLDivElement>(null);
	const plot = useRef<uPlot | null>(null);
	const step_s = useRef(p.step_s);
	step_s.current = p.step_s; // SIGHUP changes it while the chart is there
	const [cursor, setCursor] = useState<number | null>(null);

	const shown = p.lines.filter((l) => !l.hidden);
	const gapless = withGaps(p.time_s, [...shown.map((l) => l.drawn ?? l.values), ...p.lines.map((l) => l.values)], p.step_s);
	const data = [gapless.time_s, ...gapless.columns.slice(0, shown.length)] as uPlot.AlignedData;
	const legend = gapless.columns.slice(shown.length);
	const at = cursor !== null && cursor < gapless.time_s.length ? cursor : gapless.time_s.length - 1;

	useEffect(() => {
		const axis = (more: Partial<uPlot.Axis>): uPlot.Axis => ({
			stroke: () => colour("dim"),
			grid: { stroke: () => colour("grid"), width: 1 },
			ticks: { show: false },
			font: "11px system-ui, sans-serif",
			...more,
		});
		const areas = shown.map((l, i) => (l.area ? i : -1)).filter((i) => i >= 0);
		const u = new uPlot({
			width: box.current!.clientWidth,
			height: p.height,
			legend: { show: false },
			cursor: { sync: { key: "time" }, drag: { x: false, y: false }, points: { size: 6 }, y: false },
			padding: [8, right_px, 0, 0],
			scales: {
				x: { time: true, range: (_u, _min, max) => [(max ?? 0) - points * step_s.current, max ?? 0] },
				y: p.log
					? { distr: 3, range: (_u, min, max) => [10 ** Math.floor(Math.log10(Math.max(min ?? 1, 1e-4))), 10 ** Math.ceil(Math.log10(Math.max(max ?? 10, 1e-3) * 1.01))] }
					: { range: (_u, _min, max) => [0, (max ?? 0) > 0 ? max * 1.12 : 1] },
			},
			axes: [
				axis({ size: 24, space: 70, values: (u, ticks) => ticks.map((t) => (u.valToPos(t, "x") + time_px / 2 > u.bbox.width / devicePixelRatio + right_px ? "" : f.clockTime(t))) }),
				axis({ size: 66, space: p.log ? 18 : 28, values: (_u, ticks) => ticks.map((t) => (t === null ? "" : f.short(p.format(t)))) }),
			],
			series: [
				{},
				...shown.map((l): uPlot.Series => ({
					label: l.label,
					stroke: () => colour(l.colour),
					width: 1.5,
					points: { show: false },
					...(l.dash ? { dash: [5, 4] } : {}),
					...(l.area && l === shown[areas.at(-1)!] ? { fill: () => colour(`${l.colour}-fill`) } : {}),
				})),
			],
			bands: areas.slice(0, -1).map((from, k) => ({
				series: [from + 1, areas[k + 1]! + 1] as uPlot.Band.Bounds,
				fill: () => colour(`${shown[from]!.colour}-fill`),
			})),
			hooks: { setCursor: [(self) => setCursor(self.cursor.idx ?? null)] },
		}, data, box.current!);
		plot.current = u;
		const resized = new ResizeObserver(() => u.setSize({ width: box.current!.clientWidth, height: p.height }));
		resized.observe(box.current!);
		const unsubscribe = onTheme(() => u.redraw(false));
		return () => {
			unsubscribe();
			resized.disconnect();
			u.destroy();
			plot.current = null;
		};
	}, []);
	useEffect(() => plot.current?.setData(data));

	return (
		<figure class="chart">
			<figcaption>
				<span class="title">{p.title}</span>
				{p.lines.map((l, i) => (
					<span class="key" key={l.label}>
						<i class={l.dash ? "swatch dashed" : "swatch"} style={{ color: `var(--${l.colour})` }} />
						{l.label}<data value={legend[i]?.[at] ?? ""}>{p.format(legend[i]?.[at])}</data>
					</span>
				))}
				<span class="at">{at >= 0 ? f.clockTime(gapless.time_s[at]!) : ""}</span>
			</figcaption>
			<div ref={box} role="img" aria-label={inWords(p)} style={{ height: `${p.height}px` }} />
		</figure>
	);
}

const sum = (a: Values, b: Values): Values => a.map((x, i) => (x === null && (b[i] ?? null) === null ? null : (x ?? 0) + (b[i] ?? 0)));

export function DelayChart(p: { series: DelaySeries; step_s: number; height: number }) {
	const { fabric_ns, host_ns, target_ns, time_s } = p.series;
	if (time_s.length && fabric_ns.every((v) => v === null))
		return <Empty title="No delay in parts to draw.">These flows run no Swift: their kernel measures one RTT, not where it comes from.</Empty>;
	const both = sum(fabric_ns, host_ns);
	return (
		<Chart title="Delay" time_s={time_s} step_s={p.step_s} height={p.height} format={f.time} lines={[
			{ label: "host", colour: "host", values: host_ns, drawn: both, area: true },
			{ label: "fabric", colour: "fabric", values: fabric_ns, area: true },
			{ label: "both", colour: "text", values: both, hidden: true },
			{ label: "fabric target", colour: "target", values: target_ns, dash: true },
		]} />
	);
}

export function RateChart(p: { series: DelaySeries; step_s: number; height: number }) {
	return (
		<Chart title="Rate" time_s={p.series.time_s} step_s={p.step_s} height={p.height} format={f.rate} lines={[
			{ label: "rate", colour: "rate", values: p.series.rate_bps, area: true },
		]} />
	);
}

// Windows below a thousandth of a packet do not exist; a logarithm needs more than none.
const positive = (values: Values): Values => values.map((v) => (v === null ? null : Math.max(v, 1e-3)));

export function WindowChart(p: { series: FlowSeries; step_s: number; height: number }) {
	// The delay chart says why.
	if (p.series.time_s.length && [...p.series.fcwnd_pkts, ...p.series.ecwnd_pkts].every((v) => v === null))
		return null;
	return (
		<Chart title="Windows (packets, logarithmic)" time_s={p.series.time_s} step_s={p.step_s} height={p.height} format={f.packets} log lines={[
			{ label: "fabric", colour: "fabric", values: p.series.fcwnd_pkts, drawn: positive(p.series.fcwnd_pkts) },
			{ label: "host", colour: "host", values: p.series.ecwnd_pkts, drawn: positive(p.series.ecwnd_pkts) },
		]} />
	);
}
