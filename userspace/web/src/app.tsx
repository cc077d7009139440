// SPDX-License-Identifier: MIT
// The frame: header, banner, and the page that the address names.
import { render, type ComponentChild } from "preact";
import { useEffect, useState } from "preact/hooks";
import "./app.css";
import { setToken } from "./api";
import { ConfigPage } from "./config";
import { FlowPage } from "./flow";
import { Flows } from "./flows";
import * as f from "./format";
import { live } from "./live";
import { Overview } from "./overview";
import { Empty, Panel, useLive } from "./parts";
import { ProbesPage } from "./probes";
import { useRoute } from "./route";
import { onTheme, theme, toggleTheme } from "./theme";
import { TuningPage } from "./tuning";

function TokenForm() {
	return (
		<form class="token" onSubmit={(e) => {
			e.preventDefault();
			setToken(new FormData(e.currentTarget as HTMLFormElement).get("token") as string);
		}}>
			<label>Token <input type="password" name="token" autocomplete="off" required /></label><button>Use it</button>
		</form>
	);
}

// One at a time, the gravest: without an answer nothing else is known to be true.
function Banner() {
	const { summary: s, mode, error, status, age_s } = { ...useLive(), summary: live.summary, age_s: live.age_s() };
	let kind = "", text: ComponentChild = null, old = false;
	if (mode === "down" && status === 401) {
		[kind, text] = ["bad", <>swiftd wants a token. <TokenForm /></>];
	} else if (mode === "down") {
		[kind, old, text] = ["bad", s !== null, <><strong>swiftd {status ? "cannot answer" : "does not answer"}</strong> ({error}); trying again each second. On its host: <code>systemctl status swiftd</code>.</>];
	} else if (s && live.trouble) {
		[kind, old, text] = ["bad", true, <><strong>swiftd cannot look at the flows</strong>: {live.trouble}. It goes on trying.</>];
	} else if (s && live.stale()) {
		[kind, old, text] = ["bad", true, <><strong>swiftd answers, but has collected nothing</strong> since {f.clockTime(s.time_s)}. Its log says why: <code>journalctl -u swiftd</code>.</>];
	} else if (s && !s.module.loaded) {
		[kind, text] = ["notice", <><strong>The module tcp_swift is not loaded</strong>: flows of BPF variants are shown, but have no hardware stamps. <code>swiftctl enable</code> loads it.</>];
	}
	// The age, which is another all the time, is not read out.
	return (
		<div id="banner" class={kind} hidden={!kind}>
			<span role="status" aria-live="polite">{text}</span>{old ? <strong> The numbers below are {f.span(age_s)} old.</strong> : null}
		</div>
	);
}

function Header(p: { page: string }) {
	const { summary: s, mode } = { ...useLive(), summary: live.summary, mode: live.mode };
	const [, redraw] = useState(0);
	useEffect(() => onTheme(() => redraw((n) => n + 1)), []);
	const words = { connecting: "connecting", live: "live", polling: "polling", down: "no answer" }[mode];
	const old = s && (live.trouble || live.stale());
	const link = (href: string, name: string, title: string) => <a href={href} aria-current={p.page === name ? "page" : undefined}>{title}</a>;
	return (
		<header class="top">
			<a class="skip" href="#main" onClick={(e) => { e.preventDefault(); document.getElementById("main")?.focus(); }}>Skip to the page</a>
			<span class="brand">swiftd</span>
			<nav aria-label="Pages">{link("#/", "", "Overview")}{link("#/flows", "flows", "Flows")}{link("#/probes", "probes", "Probes")}{link("#/tuning", "tuning", "Tuning")}{link("#/config", "config", "Configuration")}</nav>
			<span class="where"><strong>{s?.host}</strong> <span class="dim">{s ? `Linux ${s.kernel}` : ""}</span></span>
			<span class={`state ${mode === "down" || old ? "bad" : mode === "live" ? "good" : ""}`} id="state" title={s ? `An interval is ${f.span(live.interval_s())}` : ""}>
				<i class="lamp" /><span>{words}</span><span class="dim age">{s ? `${f.span(Math.max(0, live.age_s()))} old` : ""}</span>
			</span>
			<button type="button" id="theme" onClick={toggleTheme} aria-label={`Theme: ${theme()}; switch to ${theme() === "dark" ? "light" : "dark"}`}>{theme() === "dark" ? "Light" : "Dark"}</button>
		</header>
	);
}

function App() {
	const route = useRoute();
	const [page = "", id] = route.path;
	const { summary } = useLive();
	useEffect(() => {
		document.title = `${page === "flow" ? "flow" : page || "overview"}${summary ? ` on ${summary.host}` : ""} | swiftd`;
	}, [page, summary?.host]);
	return (
		<>
			<Header page={page === "flow" ? "flows" : page} />
			<Banner />
			<main id="main" tabIndex={-1}>
				{page === "" ? <Overview route={route} />
					: page === "flows" ? <Flows route={route} />
						: page === "flow" && id ? <FlowPage key={id} id={id} />
							: page === "probes" ? <ProbesPage route={route} />
								: page === "tuning" ? <TuningPage />
									: page === "config" ? <ConfigPage />
										: <Panel title="No such page"><Empty title="There is no such page."><a href="#/">Overview</a></Empty></Panel>}
			</main>
		</>
	);
}

render(<App />, document.getElementById("app")!);
void live.run();
