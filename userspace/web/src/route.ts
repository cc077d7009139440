// SPDX-License-Identifier: MIT
// Where we are: "#/flows?sort=rtt". All that a page can be asked to show is in there, so
// that a link shows another the same.
import { useEffect, useState } from "preact/hooks";

export interface Route { path: string[]; params: URLSearchParams }

export function parse(hash: string): Route {
	const [path = "", query = ""] = hash.replace(/^#\/?/, "").split(/\?(.*)/s);
	return { path: path.split("/").filter(Boolean).map(decode), params: new URLSearchParams(query) };
}

function decode(part: string): string {
	try {
		return decodeURIComponent(part);
	} catch {
		return part;
	}
}

export function useRoute(): Route {
	const [route, set] = useState(() => parse(location.hash));
	useEffect(() => {
		const changed = (): void => set(parse(location.hash));
		addEventListener("hashchange", changed);
		return () => removeEventListener("hashchange", changed);
	}, []);
	return route;
}

// The same page with some parameters changed; "" takes one away. REPLACE leaves no trace in
// the browser's history: for what is typed.
export function setParams(route: Route, changes: Record<string, string | number>, replace = false): void {
	const hash = withParams(route, changes);
	if (hash === location.hash)
		return;
	if (!replace) {
		location.hash = hash;
		return;
	}
	history.replaceState(null, "", hash);
	dispatchEvent(new HashChangeEvent("hashchange"));
}

export function withParams(route: Route, changes: Record<string, string | number>): string {
	const params = new URLSearchParams(route.params);
	for (const [name, value] of Object.entries(changes))
		if (value === "")
			params.delete(name);
		else
			params.set(name, String(value));
	const query = params.toString();
	return `#/${route.path.map(encodeURIComponent).join("/")}${query ? `?${query}` : ""}`;
}

export const flowLink = (id: string): string => `#/flow/${encodeURIComponent(id)}`;
