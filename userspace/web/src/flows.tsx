// SPDX-License-Identifier: MIT
// All flows, sorted, filtered and paged by swiftd; the question is in the address.
import { useEffect, useState } from "preact/hooks";
import { getJson, holders, query, type FlowList } from "./api";
import * as f from "./format";
import { Empty, FlowTable, noFlows, Panel, useLive } from "./parts";
import { setParams, type Route } from "./route";

const sizes = [25, 50, 100, 500];

export function Flows(p: { route: Route }) {
	const { summary } = useLive();
	const get = (name: string): string => p.route.params.get(name) ?? "";
	const sort = get("sort") || "rtt", order = get("order") || "desc";
	const limit = Number(get("limit")) || 50, offset = Number(get("offset")) || 0;
	const asked = query({ sort, order, limit, offset, cc: get("cc"), prefix: get("prefix"), held_by: get("held_by"), netns: get("netns"), owner: get("owner"), q: get("q") });

	const [list, set] = useState<FlowList | null>(null);
	const [wrong, setWrong] = useState("");
	useEffect(() => {
		let current = true;
		getJson<FlowList>(`/api/v1/flows?${asked}`).then(
			({ body }) => {
				if (!current)
					return;
				set(body);
				setWrong("");
			},
			// Others than a bad question are the banner's.
			(error) => current && setWrong(error.status === 400 ? error.message : ""));
		return () => {
			current = false;
		};
	}, [asked, summary?.time_s]);

	// A new question begins at its first page.
	const change = (name: string) => (event: Event): void =>
		setParams(p.route, { [name]: (event.currentTarget as HTMLInputElement).value.trim(), offset: "" }, true);
	const page = (to: number): void => setParams(p.route, { offset: to > 0 ? to : "" });
	const names = (of: (row: { cc: string; dst_prefix: string }) => string, now: string): string[] =>
		[...new Set([...(summary?.prefixes.map(of) ?? []), ...(now ? [now] : [])])].sort();
	const select = (name: string, label: string, values: (string | number)[], all: string | null, now: string | number) => (
		<label>{label}
			<select name={name} value={now} onChange={change(name)}>
				{all !== null ? <option value="">{all}</option> : null}
				{values.map((v) => <option key={v} value={v}>{v}</option>)}
			</select>
		</label>
	);
	const ofOwners = (name: "netns" | "owner"): string[] =>
		[...new Set([...(summary?.owners?.map((o) => o[name] ?? "") ?? []), get(name)])].filter((v) => v && v !== "/" && v !== "other").sort();
	const namespaces = ofOwners("netns"), owners = ofOwners("owner");
	const last = list ? Math.min(offset + list.flows.length, list.matched) : 0;
	return (
		<Panel title="Flows" note={list ? `${f.count(list.matched)} of ${f.count(list.total)}` : ""} id="flows">
			<form class="filters" role="search" onSubmit={(e) => e.preventDefault()}>
				<label>Text<input type="search" name="q" value={get("q")} placeholder="address, port, interface" onInput={change("q")} autocomplete="off" spellcheck={false} /></label>
				{select("cc", "CC", names((r) => r.cc, get("cc")), "all", get("cc"))}
				{select("prefix", "Destination", names((r) => r.dst_prefix, get("prefix")).filter((n) => n !== "other"), "all", get("prefix"))}
				{select("held_by", "Held by", holders, "any", get("held_by"))}
				{owners.length > 1 || get("owner") ? select("owner", "Owner", owners, "any", get("owner")) : null}
				{namespaces.length > 1 || get("netns") ? select("netns", "Namespace", namespaces, "all", get("netns")) : null}
				{select("limit", "Rows", sizes.includes(limit) ? sizes : [...sizes, limit], null, limit)}
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
					{list.flows.length === 0 ? (
						<Empty title="No flow matches."><button type="button" onClick={() => setParams(p.route, { q: "", cc: "", prefix: "", held_by: "", netns: "", owner: "", offset: "" })}>Show all {f.count(list.total)}</button></Empty>
					) : null}
				</>
			)}
		</Panel>
	);
}
