// SPDX-License-Identifier: MIT
// All flows, sorted, filtered and paged by swiftd; the question is in the address.
import { useEffect } from "preact/hooks";
import { holders, query, type FlowList } from "./api";
import { useAnswer } from "./asked";
import * as f from "./format";
import { Empty, FlowTable, noFlows, Panel, useLive } from "./parts";
import { setParams, type Route } from "./route";

const sizes = [25, 50, 100, 500];

export function Flows(p: { route: Route }) {
	const { summary } = useLive();
	const get = (name: string): string => p.route.params.get(name) ?? "";
	const sort = get("sort") || "rtt", order = get("order") || "desc";
	const limit = Number(get("limit")) || 50, offset = Number(get("offset")) || 0;
	const filters = Object.fromEntries(["cc", "prefix", "iface", "held_by", "netns", "owner", "q"].map((name) => [name, get(name)]));
	const asked = `/api/v1/flows?${query({ sort, order, limit, offset, ...filters })}`;
	const { path, body: list, error } = useAnswer<FlowList>(asked, summary?.time_s);
	const wrong = error?.status === 400 ? error.message : ""; // others are the banner's

	// Behind the last page, as flows have ended, is nothing to see.
	const matched = list && path === asked ? list.matched : 0;
	useEffect(() => {
		if (matched > 0 && offset >= matched)
			setParams(p.route, { offset: matched - 1 - ((matched - 1) % limit) || "" }, true);
	});

	// A new question begins at its first page.
	const change = (name: string) => (event: Event): void =>
		setParams(p.route, { [name]: (event.currentTarget as HTMLInputElement).value.trim(), offset: "" }, true);
	const page = (to: number): void => setParams(p.route, { offset: to > 0 ? to : "" });
	const names = (of: "cc" | "dst_prefix" | "iface"): string[] => [...new Set(summary?.prefixes.map((r) => r[of]))].filter((v) => v !== "other").sort();
	const ofOwners = (of: "netns" | "owner"): string[] =>
		[...new Set(summary?.owners?.map((o) => o[of] ?? ""))].filter((v) => v && v !== "/" && v !== "other").sort();
	// What is asked for now is among the values, whatever it is: a filter that nobody sees misleads.
	const select = (name: string, label: string, values: (string | number)[], all: string | null, now: string | number = get(name)) => (
		<label>{label}
			<select name={name} value={now} onChange={change(name)}>
				{all !== null ? <option value="">{all}</option> : null}
				{[...new Set(now === "" ? values : [...values, now])].map((v) => <option key={v} value={v}>{v}</option>)}
			</select>
		</label>
	);
	// Those of which most hosts have one come where there is a choice.
	const choice = (name: string, label: string, values: string[], all: string) => (values.length > 1 || get(name) ? select(name, label, values, all) : null);
	const last = list ? Math.min(offset + list.flows.length, list.matched) : 0;
	return (
		<Panel title="Flows" note={list ? `${f.count(list.matched)} of ${f.count(list.total)}` : ""} id="flows">
			<form class="filters" role="search" onSubmit={(e) => e.preventDefault()}>
				<label>Text<input type="search" name="q" value={get("q")} placeholder="address, port, interface" onInput={change("q")} autocomplete="off" spellcheck={false} /></label>
				{select("cc", "CC", names("cc"), "all")}
				{select("prefix", "Destination", names("dst_prefix"), "all")}
				{choice("iface", "Interface", names("iface"), "all")}
				{select("held_by", "Held by", holders, "any")}
				{choice("owner", "Owner", ofOwners("owner"), "any")}
				{choice("netns", "Namespace", ofOwners("netns"), "all")}
				{select("limit", "Rows", sizes, null, limit)}
				<span class="pager">
					<span id="range">{list && list.matched ? `${f.count(Math.min(offset + 1, list.matched))}\u2013${f.count(last)} of ${f.count(list.matched)}` : ""}</span>
					<button type="button" name="previous" disabled={offset === 0} onClick={() => page(offset - limit)}>Previous</button>
					<button type="button" name="next" disabled={!list || last >= list.matched} onClick={() => page(offset + limit)}>Next</button>
				</span>
			</form>
			{wrong ? <p class="wrong" role="alert">{wrong}</p> : null}
			{!list ? null : list.total === 0 ? noFlows : (
				<>
					<FlowTable flows={list.flows} sort={sort} order={order} caption="Flows"
						onSort={(s, o) => setParams(p.route, { sort: s, order: o, offset: "" })} />
					{list.matched === 0 ? (
						<Empty title="No flow matches."><button type="button" onClick={() => setParams(p.route, { ...Object.fromEntries(Object.keys(filters).map((name) => [name, ""])), offset: "" })}>Show all {f.count(list.total)}</button></Empty>
					) : null}
				</>
			)}
		</Panel>
	);
}
