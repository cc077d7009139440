// SPDX-License-Identifier: MIT
// swiftd's options as they are.
import type { Config, Option } from "./api";
import { useAnswer } from "./asked";
import { unknown } from "./format";
import { Panel, useLive } from "./parts";

const shown = (v: unknown): string => (v === undefined || v === null || v === "" ? unknown : Array.isArray(v) ? (v.length ? v.map(String).join(", ") : "none") : String(v));
const allowed = (o: Option): string => (o.min !== undefined && o.max !== undefined ? `${shown(o.min)} to ${shown(o.max)}` : "");

const every_s = 10; // SIGHUP changes them while the page is open

export function ConfigPage() {
	const { summary, mode } = useLive();
	const { body: config, error } = useAnswer<Config>("/api/v1/config", summary ? Math.floor(summary.time_s / every_s) : undefined);
	const wrong = mode !== "down" && error ? error.message : ""; // else it is the banner's
	if (!config && !wrong)
		return null;
	return (
		<Panel title="Configuration" note="read-only; /etc/swiftd.toml, then SIGHUP" id="config">
			{wrong ? <p class="wrong" role="alert">{wrong}</p> : null}
			{config ? (
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
			) : null}
		</Panel>
	);
}
