// SPDX-License-Identifier: MIT
// What a page asks for beside the summary.
import { useEffect, useState } from "preact/hooks";
import { getJson, type ApiError } from "./api";
import { useLive } from "./parts";

export interface Asked<T> {
	path: string; // that BODY answers
	body: T | null; // the newest
	error: ApiError | null; // of the question after it
}

// PATH ("": none) is asked for as the page comes, when WHEN is another, and after an error with the next
// summary; never two questions at a time, and none while nobody sees the page. An answer that takes longer
// than an interval is shown all the same: only another PATH makes it worthless.
export function useAnswer<T extends { version: number }>(path: string, when: string | number | undefined): Asked<T> {
	const { summary } = useLive();
	const [state, set] = useState<Asked<T>>({ path: "", body: null, error: null });
	const under_way = null as AbortController | null;
	const [last] = useState({ path: "", when, time_s: summary?.time_s, again: false, under_way });

	const ask = async (): Promise<void> => {
		const abort = (last.under_way = new AbortController());
		last.again = false;
		const next = await getJson<T>(path, abort.signal).then(
			({ body }) => ({ path, body, error: null }), (error: ApiError) => ({ error }));
		if (abort.signal.aborted)
			return;
		last.under_way = null;
		set((was) => ({ ...was, ...next }));
	};
	useEffect(() => {
		const failed = state.error !== null && last.time_s !== summary?.time_s;
		const due = failed || (last.again && !last.under_way);
		if (!path || document.hidden || (last.path === path && last.when === when && !due))
			return;
		const other = last.path !== path;
		Object.assign(last, { path, when, time_s: summary?.time_s });
		if (other)
			last.under_way?.abort();
		if (other || !last.under_way)
			void ask();
		else
			last.again = true;
	});
	useEffect(() => () => last.under_way?.abort(), []);
	return state;
}
