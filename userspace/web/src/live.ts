// SPDX-License-Identifier: MIT
// The newest summary and the short history of each destination: over the stream when it
// can be had, else by polling; it goes on trying for the stream, and says how it does. While
// nobody sees the page it asks for nothing.
import { getJson, prefixKey, type DelaySeries, type Summary } from "./api";
import { readEvents } from "./events";

const max_points = 300;
const stream_retry_s = 5;
const silent_retry_s = 60; // of a stream that told nothing: a proxy may keep it back

const empty = (): DelaySeries => ({ time_s: [], fabric_ns: [], host_ns: [], target_ns: [], rate_bps: [] });
const columns = Object.keys(empty()) as (keyof DelaySeries)[];

export type Mode = "connecting" | "live" | "polling" | "down";

const now_s = (): number => performance.now() / 1000;
const longest_ms = 2 ** 31 - 1; // that a timer takes

// Or until the page is seen, or is not any more.
function sleep(ms: number): Promise<void> {
	return new Promise((done) => {
		const end = (): void => {
			clearTimeout(timer);
			document.removeEventListener("visibilitychange", end);
			done();
		};
		const timer = setTimeout(end, ms);
		document.addEventListener("visibilitychange", end);
	});
}

export class Live {
	summary: Summary | null = null;
	readonly history = new Map<string, DelaySeries>();
	mode: Mode = "connecting";
	error = "";
	trouble = ""; // why swiftd could not look at the flows since
	status = 0; // HTTP's, of that error

	private away = false; // nothing was asked for, nor has anything come since
	step_s = 1; // between two points of the history
	private fresh_at_s = now_s(); // when time_s last moved, by our clock
	private fresh_age_s = 0; // how old the data was then
	private readonly listeners = new Set<() => void>();

	subscribe(listener: () => void): () => void {
		this.listeners.add(listener);
		return () => this.listeners.delete(listener);
	}

	age_s(): number {
		return now_s() - this.fresh_at_s + this.fresh_age_s;
	}

	// To the next summary: swiftd stretches its interval when a look is costly.
	interval_s(): number {
		return Math.max(this.summary?.interval_s ?? 1, (this.summary?.interval_ms ?? 0) / 1000);
	}

	// As swiftd's own /healthz: late by three intervals. Who has not been asked is not late.
	stale(): boolean {
		return this.summary !== null && !this.away && this.age_s() > Math.max(3 * this.interval_s(), 3);
	}

	async run(): Promise<never> {
		let stream_at_s = 0;
		for (;;) {
			if (document.hidden) {
				this.away = true;
				while (document.hidden)
					await sleep(longest_ms);
				this.set("connecting", "");
			}
			const answered = await this.poll();
			if (document.hidden)
				continue;
			if (answered && now_s() >= stream_at_s) {
				const began_s = now_s();
				const silent = await this.stream();
				// One that was good for a while, or that nobody saw, is had again at once; else not too often.
				stream_at_s = document.hidden ? 0 : silent ? now_s() + silent_retry_s : Math.max(now_s(), began_s + stream_retry_s);
				continue;
			}
			await sleep(answered ? this.pause_ms() : 1000);
		}
	}

	private pause_ms(): number {
		return Math.max(1000, this.interval_s() * 1000);
	}

	// What comes when it is not WANTED any more is thrown away.
	private async poll(wanted = (): boolean => true): Promise<boolean> {
		try {
			const path = "/api/v1/summary";
			let answer = await getJson<Summary>(path + (this.summary ? "" : "?history=1"));
			// What went by unseen is still with swiftd; and of a clock that was set back it knows what was when.
			const past_s = this.summary ? answer.body.time_s - this.summary.time_s : 0;
			if (!document.hidden && (past_s < 0 || past_s > 2.5 * Math.max(this.step_s, this.interval_s())))
				answer = await getJson<Summary>(`${path}?history=1`);
			if (!wanted())
				return true;
			if (answer.body.history)
				this.merge(answer.body.history, answer.body.time_s);
			this.take(answer.body, answer.age_s ?? 0);
			this.set("polling", "");
			return true;
		} catch (error) {
			if (!wanted())
				return true;
			this.status = (error as { status?: number }).status ?? 0;
			this.set("down", (error as Error).message);
			return false;
		}
	}

	// Returns when the stream ends, for whatever reason; at once, when nobody sees the page any more. Polling goes
	// on until it tells something; true: it never did.
	private async stream(): Promise<boolean> {
		const abort = new AbortController();
		const turned = (): void => {
			if (document.hidden)
				abort.abort();
		};
		document.addEventListener("visibilitychange", turned);
		let heard_at_s = now_s(), heard = false, silent = false, over = false;
		const watch = setInterval(() => {
			if (now_s() - heard_at_s <= 3 * this.interval_s() + 2)
				return;
			silent = !heard;
			abort.abort();
		}, 500);
		const reading = readEvents("/api/v1/stream", abort.signal, (event, data) => {
			heard_at_s = now_s();
			heard = true;
			if (event === "state") {
				this.trouble = (JSON.parse(data) as { error: string }).error;
				this.set("live", "");
			}
			if (event !== "summary")
				return;
			const summary = JSON.parse(data) as Summary;
			// Of a clock that was set back the history tells more, which polling asks for.
			if (summary.version !== 1 || summary.time_s < (this.summary?.time_s ?? 0))
				return abort.abort();
			this.take(summary, 0);
			this.set("live", "");
		}).catch(() => {}).finally(() => (over = true)); // polling tells if that fails too
		const waits = (): boolean => !heard && !over && !abort.signal.aborted;
		for (;;) {
			await Promise.race([reading, sleep(this.pause_ms())]);
			if (!waits())
				break;
			if (!(await this.poll(waits)))
				abort.abort();
		}
		await reading;
		clearInterval(watch);
		document.removeEventListener("visibilitychange", turned);
		abort.abort();
		return silent;
	}

	private set(mode: Mode, error: string): void {
		this.mode = mode;
		this.away &&= mode === "connecting";
		this.error = error;
		for (const listener of this.listeners)
			listener();
	}

	// What swiftd knows at TIME_S goes behind what it has forgotten, as it was started since.
	private merge(history: NonNullable<Summary["history"]>, time_s: number): void {
		this.step_s = history.step_s;
		for (const key of new Set([...this.history.keys(), ...Object.keys(history.prefixes)])) {
			const old = this.history.get(key) ?? empty(), known = history.prefixes[key] ?? empty(), joined = empty();
			const from_s = (known.time_s[0] ?? time_s) - 0.5 * this.step_s;
			const older = old.time_s.filter((t) => t < from_s).length;
			for (const column of columns)
				joined[column] = [...old[column].slice(0, older), ...known[column]].slice(-max_points) as number[];
			this.history.set(key, joined);
		}
	}

	private take(summary: Summary, age_s: number): void {
		const fresh = summary.time_s !== this.summary?.time_s;
		// Our clock may stand still while the machine sleeps; Date has whole seconds.
		if (fresh || age_s > this.age_s() + 2) {
			this.fresh_at_s = now_s();
			this.fresh_age_s = age_s < 2 ? 0 : age_s;
		}
		// A stream repeats the newest summary without its error, and tells that in `state`:
		// only new numbers end it.
		if (fresh || summary.error)
			this.trouble = summary.error ?? "";
		this.summary = summary;
		for (const row of summary.prefixes) {
			const key = prefixKey(row);
			let s = this.history.get(key);
			if (!s)
				this.history.set(key, (s = empty()));
			const last = s.time_s.at(-1) ?? 0;
			if (summary.time_s - last < 0.9 * this.step_s)
				continue;
			// Medians, as swiftd keeps them.
			s.time_s.push(summary.time_s);
			s.fabric_ns.push(row.fabric_ns?.p50 ?? null);
			s.host_ns.push(row.host_ns?.p50 ?? null);
			s.target_ns.push(row.target_ns?.p50 ?? null);
			s.rate_bps.push(row.rate_bps);
			if (s.time_s.length > max_points)
				for (const values of Object.values(s) as unknown[][])
					values.shift();
		}
		// Who has left for longer than the chart is wide is forgotten.
		for (const [key, s] of this.history)
			if (summary.time_s - (s.time_s.at(-1) ?? 0) > max_points * this.step_s)
				this.history.delete(key);
	}
}

export const live = new Live();
