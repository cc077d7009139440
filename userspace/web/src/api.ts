// SPDX-License-Identifier: MIT
// What swiftd answers (version 1 of its API), and how to ask it.

// Which window is the smaller; and who holds a flow back ("none": nobody knows).
export type Limit = "fabric" | "host" | "both";
export type Held = "fabric" | "host" | "mixed" | "application" | "receiver" | "send_buffer";
export type Bound = Held | "none";
export const holders: Held[] = ["fabric", "host", "mixed", "application", "receiver", "send_buffer"];

export interface Quantiles { p50: number; p90: number; p99: number; mean: number; n: number }
export interface Verdict { limit: Bound; text: string; host_ns?: number | null; fabric_ns?: number | null }
export interface StampCounts { hardware: number; software: number; none: number }

export interface PrefixRow {
	dst_prefix: string;
	cc: string;
	iface: string;
	flows: number;
	rate_bps: number | null;
	rtt_ns: Quantiles | null;
	fabric_ns: Quantiles | null;
	host_ns: Quantiles | null;
	remote_host_ns: Quantiles | null;
	local_host_ns: Quantiles | null;
	tx_host_ns: Quantiles | null;
	tx_nic_ns: Quantiles | null;
	target_ns: Quantiles | null;
	limited: { fabric: number; host: number; both: number };
	held: Record<Held, number>; // of flows that have something to send
	idle: number;
	stamps: StampCounts;
	echo: StampCounts;
	verdict: Verdict;
}

export interface Clock {
	dev: string;
	state: string;
	offset_ns: number | null;
	drift_ppb: number | null;
	error_ns: number | null;
	age_s: number | null;
}

export interface DelaySeries {
	time_s: number[];
	fabric_ns: (number | null)[];
	host_ns: (number | null)[];
	target_ns: (number | null)[];
	rate_bps: (number | null)[];
}

export interface Summary {
	version: number;
	error?: string; // why swiftd could not look since: all below is old then
	time_s: number;
	interval_s: number;
	interval_ms: number; // until the next look: may be longer than was wished for
	host: string;
	kernel: string;
	module: { loaded: boolean; version?: string | null };
	histograms: "bpf" | "sampled";
	totals: {
		flows: number;
		swift_flows: number;
		guarded_flows: number;
		rate_bps: number | null;
		retrans_pkts: number | null;
		dropped_prefixes: number;
	};
	prefixes: PrefixRow[];
	clocks: Clock[];
	history?: { step_s: number; prefixes: Record<string, DelaySeries> };
}

export interface Flow {
	id: string;
	local: string;
	remote: string;
	iface: string | null;
	dst_prefix: string | null;
	cc: string;
	state: string;
	rtt_ns: number | null;
	min_rtt_ns: number | null;
	fabric_ns: number | null;
	host_ns: number | null;
	target_ns: number | null;
	fcwnd_pkts: number | null;
	ecwnd_pkts: number | null;
	snd_cwnd_pkts: number | null;
	rate_bps: number | null;
	retrans_pkts: number | null;
	retrans_per_s: number | null;
	age_s: number | null;
	limit: Limit | null;
	held_by: Held | null;
	local_stamp: string | null;
	echo_stamp: string | null;
	from_bpf: boolean | null;
}

export interface FlowList {
	version: number;
	time_s: number;
	interval_s: number;
	total: number;
	matched: number;
	offset: number;
	flows: Flow[];
}

export interface FlowSeries extends DelaySeries {
	step_s: number;
	fcwnd_pkts: (number | null)[];
	ecwnd_pkts: (number | null)[];
}

export interface FlowDetail {
	version: number;
	time_s: number;
	flow: Flow;
	history: FlowSeries;
	verdict: Verdict;
}

export interface Option {
	name: string;
	value: unknown;
	default: unknown;
	min?: unknown;
	max?: unknown;
	unit: string | null;
	reloadable: boolean;
	help: string;
}

export interface Config { version: number; options: Option[] }

export class ApiError extends Error {
	constructor(message: string, readonly status = 0) {
		super(message);
	}
}

export const prefixKey = (p: PrefixRow): string => `${p.dst_prefix}|${p.cc}|${p.iface}`;

const tokenKey = "swiftd-token";
export function setToken(token: string): void {
	sessionStorage.setItem(tokenKey, token);
}

// Answers of what is no error; the caller reads the body.
export async function request(path: string, signal: AbortSignal): Promise<Response> {
	const token = sessionStorage.getItem(tokenKey);
	let response: Response;
	try {
		response = await fetch(path, {
			signal,
			cache: "no-store",
			headers: token ? { Authorization: `Bearer ${token}` } : {},
		});
	} catch (error) {
		if (signal.aborted && signal.reason instanceof ApiError)
			throw signal.reason;
		throw new ApiError(error instanceof Error ? error.message : String(error));
	}
	if (response.ok)
		return response;
	let said = "";
	try {
		said = String(((await response.json()) as { error?: unknown }).error ?? "");
	} catch {
		// Not ours to explain: a proxy's page, perhaps.
	}
	throw new ApiError(said || `${path} answered ${response.status}`, response.status);
}

export interface Answer<T> { body: T; age_s: number | null }

// `age_s`: how old the data was by the server's own clock when it answered.
export async function getJson<T extends { version: number }>(path: string, patience_ms = 10000): Promise<Answer<T>> {
	const abort = new AbortController();
	const timer = setTimeout(() => abort.abort(new ApiError(`no answer within ${patience_ms / 1000} s`)), patience_ms);
	try {
		const response = await request(path, abort.signal);
		const body = (await response.json()) as T & { time_s?: number };
		if (body.version !== 1)
			throw new ApiError(`swiftd speaks version ${body.version} of its API, this page version 1: reload it`);
		const date = Date.parse(response.headers.get("date") ?? "");
		const age_s = body.time_s && !Number.isNaN(date) ? Math.max(0, date / 1000 - body.time_s) : null;
		return { body, age_s };
	} catch (error) {
		if (error instanceof ApiError)
			throw error;
		throw new ApiError(abort.signal.aborted ? String(abort.signal.reason.message) : `not JSON: ${String(error)}`);
	} finally {
		clearTimeout(timer);
	}
}

export function query(parameters: Record<string, string | number | undefined>): string {
	const q = new URLSearchParams();
	for (const [name, value] of Object.entries(parameters))
		if (value !== undefined && value !== "")
			q.set(name, String(value));
	return q.toString();
}
