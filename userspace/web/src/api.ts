// SPDX-License-Identifier: MIT
// What swiftd answers (version 1 of its API), and how to ask it.
import type * as schema from "#schema"; // made of Documentation/api/v1.schema.json

export type Held = schema.Holder; // who holds a flow back
export type Bound = Held | "none"; // nobody knows
export const holders: Held[] = ["fabric", "host", "mixed", "application", "receiver", "send_buffer", "credit", "own_link"];

export type Quantiles = schema.Quantiles;
export type PrefixRow = schema.Group;
export type OwnerRow = schema.Owner;
export type Clock = schema.Clock;
export type DelaySeries = schema.Series;
export type Summary = schema.Summary;
export type Flow = schema.FlowRow;
export type FlowList = schema.Flows;
export type FlowSeries = schema.FlowSeries;
export type FlowDetail = schema.Flow;
export type Probes = schema.Probes;
export type ProbePair = schema.ProbePair;
export type ProbePeer = schema.ProbePeer;
export type Policy = schema.Policy;
export type PolicyDetail = schema.PolicyDetail;
export type PolicyEvent = schema.PolicyEvent;
export type PolicyTarget = schema.PolicyTarget;
export type Tune = schema.Tune;
export type Config = schema.Config;
export type Option = Config["options"][number];

export class ApiError extends Error {
	constructor(message: string, readonly status = 0) {
		super(message);
	}
}

export const prefixKey = (p: PrefixRow): string => `${p.dst_prefix}|${p.cc}|${p.iface}${p.netns ? `|${p.netns}` : ""}`;

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

const patience_ms = 10000;

// `age_s`: how old the data was by the server's own clock when it answered. SIGNAL: nobody wants it any more.
export async function getJson<T extends { version: number }>(path: string, signal?: AbortSignal): Promise<Answer<T>> {
	const abort = new AbortController();
	signal?.addEventListener("abort", () => abort.abort(new ApiError("not wanted any more")));
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
