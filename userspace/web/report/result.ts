// SPDX-License-Identifier: MIT
// What a result file says, in one form: the demo's and an A/B test's runs[], and the lab's
// experiments[]. A measure may be a number, with its spread beside it, or an object with
// median and ci95, or min and max. What is not understood is left out, never guessed.

export interface Value { mid: number; lo?: number; hi?: number }

export interface Row {
	name: string;
	n: number | null;
	failed: number; // beside them
	goodput_bps: Value | null;
	avg_ns: Value | null;
	p50_ns: Value | null;
	p99_ns: Value | null;
	p999_ns: Value | null;
	answers_per_s: Value | null;
	answer_p50_ns: Value | null;
	answer_p90_ns: Value | null;
	answer_p99_ns: Value | null;
	answer_p999_ns: Value | null;
	fabric_ns: Value | null;
	host_ns: Value | null;
	retransmits: Value | null;
	loss_ratio: Value | null;
	jain: Value | null;
	verdict: string;
}

export interface Split { title: string; bars: { name: string; fabric_ns: number; host_ns: number }[] }

export interface Section {
	title: string;
	notes: string[];
	verdicts: string[];
	leftOut: string[]; // what failed, and why
	spread: string; // what lo and hi are
	rows: Row[];
	splits: Split[];
	parameters: unknown;
}

type Json = unknown;
type Fields = Record<string, Json>;

const fields = (j: Json): Fields => (typeof j === "object" && j !== null && !Array.isArray(j) ? (j as Fields) : {});
const list = (j: Json): Json[] => (Array.isArray(j) ? j : []);
const text = (j: Json): string => (typeof j === "string" ? j : "");
const number = (j: Json): number | null => (typeof j === "number" && Number.isFinite(j) ? j : null);
const at = (j: Json, path: string): Json => path.split(".").reduce<Json>((o, name) => fields(o)[name], j);

export function value(j: Json): Value | null {
	const plain = number(j);
	if (plain !== null)
		return { mid: plain };
	const o = fields(j);
	const mid = number(o["median"]) ?? number(o["mean"]) ?? number(o["p50"]);
	if (mid === null)
		return null;
	const [lo, hi] = Array.isArray(o["ci95"]) ? o["ci95"].map(number) : [number(o["min"]), number(o["max"])];
	return lo !== null && hi !== null && lo !== undefined && hi !== undefined ? { mid, lo, hi } : { mid };
}

function spreadOf(rows: Row[], from: Json): string {
	if (!rows.some((r) => Object.values(r).some((v) => fields(v)["lo"] !== undefined)))
		return "";
	return JSON.stringify(from).includes('"ci95"') ? "95 % confidence interval" : "smallest to largest of the runs";
}

function verdict(j: Json): string {
	return text(j) || text(fields(j)["text"]);
}

// GET looks a measure up by its path: runs nest them, the lab's summary has flat names.
function row(name: string, n: number | null, failed: number, get: (path: string) => Value | null, said: string): Row {
	const first = (...paths: string[]): Value | null => {
		const v = paths.map(get).find((x) => x !== null) ?? null;
		return v && n === 1 ? { mid: v.mid } : v; // one run has no spread
	};
	return {
		name, n, failed, verdict: said,
		goodput_bps: first("goodput_bps"), avg_ns: first("rtt_ns.avg"), p50_ns: first("rtt_ns.p50"), p99_ns: first("rtt_ns.p99"),
		p999_ns: first("rtt_ns.p999"), answers_per_s: first("rr_per_s"), answer_p50_ns: first("rr_ns.p50"), answer_p90_ns: first("rr_ns.p90"),
		answer_p99_ns: first("rr_ns.p99"), answer_p999_ns: first("rr_ns.p999"), fabric_ns: first("fabric_ns", "law.fabric_ns.p50"),
		host_ns: first("host_ns", "endpoint_ns", "law.endpoint_ns.p50"), retransmits: first("retransmits", "counters.retrans"), loss_ratio: first("loss_ratio"), jain: first("jain"),
	};
}

const nameOf = (r: Json): string => [text(at(r, "cc")) || "?", text(at(r, "case"))].filter(Boolean).join(", ");

function median(values: number[]): Value {
	const sorted = [...values].sort((a, b) => a - b), half = sorted.length >> 1;
	const mid = sorted.length % 2 ? sorted[half]! : (sorted[half - 1]! + sorted[half]!) / 2;
	return sorted.length > 1 ? { mid, lo: sorted[0]!, hi: sorted.at(-1)! } : { mid };
}

// One row a name: repeats (seeds) of the same are their median and their spread.
function rowsOf(runs: Json[]): Row[] {
	return [...new Set(runs.map(nameOf))].map((name) => {
		const same = runs.filter((r) => nameOf(r) === name);
		const [one] = same;
		const get = (path: string): Value | null => {
			if (same.length > 1) {
				const values = same.map((r) => value(at(r, path))?.mid).filter((v) => v !== undefined);
				return values.length ? median(values) : null;
			}
			const v = value(at(one, path));
			// The demo has the spread beside: spread.goodput_bps, spread.rtt_p99_ns.
			const beside = fields(at(one, `spread.${path.replace(/^rtt_ns\.(.*)$/, "rtt_$1_ns")}`));
			const [lo, hi] = Array.isArray(beside["ci95"]) ? beside["ci95"].map(number) : [number(beside["min"]), number(beside["max"])];
			return v && v.lo === undefined && lo != null && hi != null ? { ...v, lo, hi } : v;
		};
		return row(name, same.length > 1 ? same.length : number(at(one, "n")), 0, get, verdict(at(one, "verdict")));
	});
}

function splitsOf(j: Json): Split[] {
	return Object.entries(fields(at(j, "splits"))).map(([title, split]) => ({
		title,
		bars: list(at(split, "flows")).flatMap((flow) => {
			const fabric_ns = number(at(flow, "fabric_ns")), host_ns = number(at(flow, "host_ns")) ?? number(at(flow, "endpoint_ns"));
			return fabric_ns !== null && host_ns !== null ? [{ name: text(at(flow, "flow")) || "?", fabric_ns, host_ns }] : [];
		}),
	})).filter((s) => s.bars.length);
}

function section(j: Json, kernel: string): Section {
	const runs = list(at(j, "runs")), summary = list(at(j, "summary"));
	const rows = summary.length
		? summary.map((s) => row(nameOf(s), number(at(s, "n")) ?? number(at(s, "seeds")), number(at(s, "failed")) ?? 0, (path) => value(fields(at(s, "metrics"))[path]), verdict(at(s, "verdict"))))
		: rowsOf(runs);
	const said = [verdict(at(j, "verdict")), ...list(at(j, "verdict")).map(verdict), ...list(at(j, "verdicts")).map(verdict),
		// The lab's: what the paper said, and whether it came out so.
		...list(at(j, "expectations")).map((e) => `${text(at(e, "verdict"))}: ${text(at(e, "what"))}`)];
	return {
		title: text(at(j, "title")) || text(at(j, "experiment")) || `${rows.map((r) => r.name).join(", ")}: a comparison`,
		notes: [text(at(j, "question")), text(at(j, "notes")), ...list(at(j, "notes")).map(text), text(at(j, "source")), kernel && `Kernel ${kernel}.`].filter(Boolean),
		verdicts: said.filter(Boolean),
		leftOut: list(at(j, "failed")).map((e) => `left out: ${text(at(e, "cc"))}, block ${number(at(e, "block")) ?? "?"}: ${text(at(e, "reason"))}`),
		spread: spreadOf(rows, summary.length ? summary : runs),
		rows,
		splits: splitsOf(j),
		parameters: at(j, "parameters") ?? at(runs[0], "parameters") ?? null,
	};
}

export function sections(result: Json): Section[] {
	const experiments = list(at(result, "experiments"));
	return (experiments.length ? experiments : [result])
		.map((e) => section(e, text(at(e, "kernel")) || text(at(result, "kernel"))))
		.filter((s) => s.rows.length || s.splits.length || s.leftOut.length);
}
