// SPDX-License-Identifier: MIT
// swiftd's options as they are.
import { useEffect, useState } from "preact/hooks";
import { getJson, type Config, type Option } from "./api";
import { unknown } from "./format";
import { Panel, useLive } from "./parts";

const shown = (v: unknown): string => (v === undefined || v === null || v === "" ? unknown : Array.isArray(v) ? (v.length ? v.map(String).join(", ") : "none") : String(v));
const allowed = (o: Option): string => (o.min !== undefined && o.max !== undefined ? `${shown(o.min)} to ${shown(o.max)}` : "");

export function ConfigPage() {
	const { mode } = useLive();
	const [config, set] = useState<Config | null>(null);
	const down = mode === "down";
	useEffect(() => {
		if (!down)
			getJson<Config>("/api/v1/config").then(({ body }) => set(body), () => {});
	}, [down]);
	if (!config)
		return null;
	return (
		<Panel title="Configuration" note="read-only; /etc/swiftd.toml, then SIGHUP" id="config">
			<div class="scroll" tabIndex={0} role="region" aria-label="Options">
				<table class="options">
					<colgroup>{["15rem", "14rem", "12rem", "8rem", "5rem", "6rem", "auto"].map((w, i) => <col key={i} style={{ width: w }} />)}</colgroup>
					<thead><tr>{["Option", "Value", "Default", "Allowed", "Unit", "On SIGHUP", "What it does"].map((h) => <th key={h} class="left" scope="col">{h}</th>)}</tr></thead>
					<tbody>
						{config.options.map((o) => {
							const changed = shown(o.value) !== shown(o.default);
							return (
								<tr key={o.name} data-option={o.name}>
									<td class="left"><code>{o.name}</code></td>
									<td class={`left wrap ${changed ? "changed" : ""}`}>{shown(o.value)}</td>
									<td class="left wrap dim">{shown(o.default)}</td>
									<td class="left dim">{allowed(o)}</td>
									<td class="left dim">{o.unit ?? ""}</td>
									<td class="left dim">{o.reloadable ? "reloaded" : "restart"}</td>
									<td class="left wrap">{o.help}</td>
								</tr>
							);
						})}
					</tbody>
				</table>
			</div>
		</Panel>
	);
}
