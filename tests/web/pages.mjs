// SPDX-License-Identifier: MIT
// The dashboard's pages in a headless Chromium; TAP. Run by ./run:
//   pages.mjs OUT [BASE]   OUT: where npm installed playwright-core, and the embedded files
//                          are built; BASE: a running swiftd, instead of the mock
import { execFileSync, spawnSync } from "node:child_process";
import { accessSync, constants, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { delimiter, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import assert from "node:assert/strict";
import { dist, Mock } from "./mock.mjs";

const [out, given] = [resolve(process.argv[2]), process.argv[3]?.replace(/\/$/, "")];
const { chromium } = createRequire(join(out, "package.json"))("playwright-core");
const here = fileURLToPath(new URL(".", import.meta.url));
const pictures = fileURLToPath(new URL("../../out/web", import.meta.url));
mkdirSync(pictures, { recursive: true });

function findChromium() {
	for (const name of [process.env.CHROMIUM, "chromium", "chromium-browser", "google-chrome"].filter(Boolean))
		for (const dir of name.includes("/") ? [""] : process.env.PATH.split(delimiter))
			try {
				accessSync(join(dir, name), constants.X_OK);
				return join(dir, name);
			} catch {
				// not there
			}
	console.log("Bail out! no chromium (scripts/setup browser installs it; CHROMIUM names another)");
	process.exit(1);
}

const browser = await chromium.launch({
	executablePath: findChromium(), // a profile of its own each time
	args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});

// --- what the tests stand on

// For any machine: the suite ends for its silence anyway.
async function until(what, condition, patience_ms = 180000) {
	const end = Date.now() + patience_ms;
	for (let last; ; await new Promise((done) => setTimeout(done, 50))) {
		try {
			if (await condition())
				return;
			last = "still not so";
		} catch (error) {
			last = error.message;
		}
		if (Date.now() > end)
			assert.fail(`${what}: ${last}`);
	}
}

// A page, and all that may not happen on it: errors, dialogs, requests to elsewhere.
class View {
	static async open(base, hash = "#/", { width = 1440, height = 1000, colorScheme = "light", prepare } = {}) {
		const v = new View();
		v.context = await browser.newContext({ viewport: { width, height }, colorScheme });
		v.page = await v.context.newPage();
		v.page.setDefaultTimeout(180000);
		Object.assign(v, { base, wrong: [] });
		v.page.on("pageerror", (error) => v.wrong.push(`error: ${error.message}`));
		// What fails to load is told by the browser itself; tests that take the server away expect it.
		v.page.on("console", (m) => m.type() === "error" && !/^Failed to load resource/.test(m.text()) && v.wrong.push(`console: ${m.text()}`));
		v.page.on("dialog", (d) => { v.wrong.push(`dialog: ${d.message()}`); void d.dismiss(); });
		v.page.on("request", (r) => !r.url().startsWith(`${base}/`) && v.wrong.push(`request to ${r.url()}`));
		await prepare?.(v);
		await v.page.goto(`${base}/${hash}`);
		return v;
	}

	async close() {
		await this.context.close();
		assert.deepEqual(this.wrong, []);
	}

	text = (selector) => this.page.locator(selector).first().innerText();
	count = (selector) => this.page.locator(selector).count();
	state = (word) => until(`state ${word}`, async () => (await this.text("#state")).startsWith(word));
	// As when another tab is in front.
	hide = (hidden = true) => this.page.evaluate((h) => {
		Object.defineProperty(document, "hidden", { value: h, configurable: true });
		document.dispatchEvent(new Event("visibilitychange"));
	}, hidden);
	go = (hash) => this.page.evaluate((h) => { location.hash = h; }, hash);
	picture = (name) => this.page.screenshot({ path: join(pictures, `${name}.png`), fullPage: true });
	// The numbers of each row, as their elements' values say: null where nothing is known.
	numbers = (rows) => this.page.locator(rows).evaluateAll((found) => found.map((row) => [...row.querySelectorAll("data")].map((d) => (d.value === "" ? null : Number(d.value)))));
	attributes = (selector, name) => this.page.locator(selector).evaluateAll((found, n) => found.map((e) => e.getAttribute(n)), name);
}

// The API's answers are kept as they were first given, so that what the page shows can be
// compared with them however fast a live swiftd moves on.
async function frozen(v) {
	const kept = new Map(), log = [];
	await v.page.route(`${v.base}/api/v1/**`, async (route) => {
		const path = route.request().url().slice(v.base.length);
		if (path === "/api/v1/stream")
			return route.abort();
		const key = path === "/api/v1/summary" ? "/api/v1/summary?history=1" : path;
		if (!kept.has(key)) {
			const response = await route.fetch();
			kept.set(key, { status: response.status(), body: await response.text() });
		}
		log.push(key);
		const { status, body } = kept.get(key);
		return route.fulfill({ status, body, contentType: "application/json" });
	});
	v.answer = (path) => JSON.parse(kept.get(path).body);
	v.asked = (start) => log.filter((k) => k.startsWith(start)).at(-1);
}

const key = (r) => `${r.dst_prefix}|${r.cc}|${r.iface}`;
const scale = { "%": 0.01, ppm: 1e3, "b/s": 1, "kb/s": 1e3, "Mb/s": 1e6, "Gb/s": 1e9, "Tb/s": 1e12, M: 1e6, G: 1e9, T: 1e12, us: 1e3, ms: 1e6, "/s": 1 };
// What a number's text says, in the unit of its value; times in ns, ages in s.
function said(text, value) {
	const [, number, unit = ""] = /^(-?[\d.,]+) ?(\S+)?$/.exec(text) ?? [];
	const n = Number(number?.replaceAll(",", ""));
	return unit === "s" ? (Math.abs(value) >= 1e8 ? n * 1e9 : n) : n * (scale[unit] ?? 1);
}

async function everyTextIsItsValue(v) {
	const all = await v.page.locator("data").evaluateAll((found) => found.map((d) => [d.value, d.innerText.trim()]));
	for (const [value, text] of all) {
		if (value === "") {
			assert.equal(text, "\u2013");
		} else if (/ (min|h|d) /.test(text)) { // 1 h 5 min
			const seconds = [...text.matchAll(/(\d+) (\w+)/g)].reduce((sum, [, n, unit]) => sum + n * { s: 1, min: 60, h: 3600, d: 86400 }[unit], 0);
			assert.ok(seconds <= value && seconds > value * 0.94 - 60, `${text} for ${value} s`);
		} else {
			const of = Number(value), half = Math.abs(of) * 0.0051 + (/us$/.test(text) ? 5 : /^[\d,.]+$/.test(text) || / s$/.test(text) ? 0.5 : 0.005);
			assert.ok(Math.abs(said(text, of) - of) <= half, `${text} for ${value}`);
		}
	}
	return all.length;
}

const tests = [];
const portable = (name, run) => tests.push({ name, run, everywhere: true });
const mocked = (name, run) => tests.push({ name, run });

// --- what holds for any swiftd

portable("overview: its numbers are the API's", async (base) => {
	const v = await View.open(base, "#/", { prepare: frozen });
	await v.page.locator("#clocks").waitFor();
	const s = v.answer("/api/v1/summary?history=1"), of = (q, k) => (q ? q[k] : null);
	assert.ok((await v.text(".where")).includes(s.host));
	for (const [id, value] of [["flows", s.totals.flows], ["swift", s.totals.swift_flows], ["guarded", s.totals.guarded_flows], ["rate", s.totals.rate_bps], ["retrans", s.totals.retrans_pkts]])
		assert.deepEqual(await v.numbers(`#total-${id}`), [[value]], id);

	const added = (r) => (r.verdict.limit === "fabric" ? r.verdict.fabric_ns : r.verdict.limit === "host" ? r.verdict.host_ns : (r.verdict.fabric_ns ?? 0) + (r.verdict.host_ns ?? 0)) ?? 0;
	const shown = await v.attributes("#destinations tr[data-prefix]", "data-prefix");
	assert.deepEqual([...shown].sort(), s.prefixes.map(key).sort());
	const rows = shown.map((k) => s.prefixes.find((r) => key(r) === k));
	for (let i = 1; i < rows.length; i++) {
		const [a, b] = [rows[i - 1], rows[i]].map((r) => (["fabric", "host", "mixed"].includes(r.verdict.limit) ? added(r) : -1));
		assert.ok(a >= b, `${shown[i - 1]} before ${shown[i]}`);
	}
	assert.deepEqual(await v.numbers("#destinations tr[data-prefix]"),
		rows.map((r) => [of(r.fabric_ns, "p50"), of(r.host_ns, "p50"), of(r.target_ns, "p50"), of(r.rtt_ns, "p50"), of(r.rtt_ns, "p99"), r.flows, r.rate_bps]));
	for (const [i, r] of rows.entries())
		assert.ok((await v.page.locator("#destinations tr[data-prefix]").nth(i).innerText()).includes(r.verdict.text));
	assert.deepEqual(await v.numbers("#clocks tr[data-clock]"), s.clocks.map((c) => [c.offset_ns, c.drift_ppb, c.error_ns, c.age_s]));

	if (rows[0]) {
		const [r] = rows, names = ["rtt_ns", "fabric_ns", "host_ns", "remote_host_ns", "local_host_ns", "tx_host_ns", "tx_nic_ns", "target_ns"];
		assert.ok((await v.text("#verdict")).endsWith(r.verdict.text));
		assert.deepEqual(await v.numbers("#quantiles tbody tr"), names.map((n) => ["p50", "p90", "p99", "mean", "n"].map((k) => of(r[n], k))));
		const h = s.history.prefixes[key(r)];
		if (h && h.fabric_ns.at(-1) !== null) {
			assert.deepEqual(await v.numbers("#history .chart:nth-of-type(1) figcaption"), [[h.host_ns.at(-1), h.fabric_ns.at(-1), h.fabric_ns.at(-1) + h.host_ns.at(-1), h.target_ns.at(-1)]]);
			assert.deepEqual(await v.numbers("#history .chart:nth-of-type(2) figcaption"), [[h.rate_bps.at(-1)]]);
		}
		await until("its slowest flows", async () => {
			const list = v.answer(v.asked("/api/v1/flows?"));
			const ids = await v.attributes("#slowest tr[data-flow]", "data-flow");
			return list.flows.length === 0 || (ids.length > 0 && assert.deepEqual(ids, list.flows.slice(0, 8).map((f) => f.id)) === undefined);
		});
	}
	assert.ok((await everyTextIsItsValue(v)) > 4);
	await v.close();
});

const flowNumbers = (f) => [f.rtt_ns, f.fabric_ns, f.host_ns, f.target_ns, f.fcwnd_pkts, f.ecwnd_pkts, f.rate_bps, f.retrans_pkts, f.age_s];

async function tableIsAnswer(v) {
	await until("the table is the newest answer", async () => {
		const list = v.answer(v.asked("/api/v1/flows?"));
		assert.deepEqual(await v.attributes("#flows tr[data-flow]", "data-flow"), list.flows.map((f) => f.id));
		assert.deepEqual(await v.numbers("#flows tr[data-flow]"), list.flows.map(flowNumbers));
		return true;
	});
	return v.answer(v.asked("/api/v1/flows?"));
}

portable("flows: its numbers are the API's, by every sort, both ways", async (base) => {
	const v = await View.open(base, "#/flows", { prepare: frozen });
	await v.page.locator("#flows .filters").waitFor();
	await until("an answer", () => v.asked("/api/v1/flows?"));
	if (v.answer(v.asked("/api/v1/flows?")).total === 0)
		return v.close();
	await tableIsAnswer(v);
	for (const sort of ["rtt", "fabric", "host", "window", "rate", "retrans", "age"]) {
		const button = v.page.locator(`th button[data-sort=${sort}]`);
		const sorted = () => v.page.locator(`th:has(button[data-sort=${sort}])`).getAttribute("aria-sort");
		for (let i = 0; i < 2; i++) {
			const before = await sorted();
			await button.click();
			await until("another order", async () => (await sorted()) !== before); // drawn after the click
			const order = (await sorted()) === "ascending" ? "asc" : "desc";
			await until(`a question for ${sort} ${order}`, () => v.asked(`/api/v1/flows?sort=${sort}&order=${order}`));
			await tableIsAnswer(v);
		}
		assert.ok(v.asked(`/api/v1/flows?sort=${sort}&order=asc`) && v.asked(`/api/v1/flows?sort=${sort}&order=desc`), sort);
	}
	await everyTextIsItsValue(v);

	// And of one: its own page.
	const [first] = (await tableIsAnswer(v)).flows;
	await v.page.locator(`tr[data-flow="${first.id}"] a`).click();
	await v.page.locator("#numbers, .empty").first().waitFor();
	if (await v.count("#numbers")) {
		const { flow: f, verdict } = v.answer(`/api/v1/flows/${first.id}`);
		assert.ok((await v.text("#verdict")).endsWith(verdict.text));
		assert.deepEqual((await v.numbers("#numbers tr")).flat(), [f.rtt_ns, f.min_rtt_ns, f.fabric_ns, f.host_ns, f.target_ns, f.fabric_ns !== null && f.target_ns ? f.fabric_ns / f.target_ns : null,
			f.fcwnd_pkts, f.ecwnd_pkts, f.snd_cwnd_pkts, f.rate_bps, f.retrans_pkts, f.retrans_per_s, f.age_s]);
		await everyTextIsItsValue(v);
	}
	await v.close();
});

portable("configuration: every option, its value and default", async (base) => {
	const v = await View.open(base, "#/config", { prepare: frozen });
	await v.page.locator("#config tbody tr").first().waitFor();
	const { options } = v.answer("/api/v1/config");
	const rows = await v.page.locator("#config tbody tr").evaluateAll((found) => found.map((r) => [...r.cells].map((c) => c.innerText.trim())));
	const text = (x) => (x === "" || x === null ? "\u2013" : Array.isArray(x) ? x.join(", ") || "none" : String(x));
	assert.deepEqual(rows.map((r) => r.slice(0, 3)), options.map((o) => [o.name, text(o.value), text(o.default)]));
	assert.deepEqual(rows.map((r) => r[6]), options.map((o) => o.help));
	await v.close();
});

portable("it goes live over the stream", async (base) => {
	const v = await View.open(base);
	await v.state("live");
	await v.close();
});

portable("the pages come with a policy that allows no other host, and no inline script", async (base) => {
	const policy = (await fetch(`${base}/`)).headers.get("content-security-policy") ?? "";
	assert.match(policy, /default-src 'self'/);
	assert.doesNotMatch(policy, /unsafe|\*|https?:/);
	for (const path of ["app.js", "app.css", "favicon.svg"])
		assert.equal((await fetch(`${base}/${path}`)).status, 200, path);
});

// What is wider than the screen or than what holds it. What scrolls on its own may be where
// the screen is NARROW; what ends in an ellipsis says so.
const sticksOut = (v, narrow) => v.page.evaluate((mayScroll) => {
	const found = [], of = (e) => `${e.tagName.toLowerCase()}${e.id ? `#${e.id}` : ""}.${e.className.baseVal ?? e.className} "${e.textContent.slice(0, 40)}"`;
	const page = document.scrollingElement;
	if (page.scrollWidth > innerWidth)
		found.push(`the page: ${page.scrollWidth} of ${innerWidth}`);
	for (const e of document.querySelectorAll("#app *")) {
		const box = e.getBoundingClientRect(), style = getComputedStyle(e);
		if (!box.width || style.position === "absolute" || e.closest(".skip, .u-wrap, svg, .split > *"))
			continue;
		if (style.overflowX === "auto") {
			if (!mayScroll && e.scrollWidth > e.clientWidth)
				found.push(`${of(e)} scrolls: ${e.scrollWidth} of ${e.clientWidth}`);
		} else if (style.textOverflow !== "ellipsis" && e.scrollWidth > e.clientWidth + 1 && e.clientWidth) {
			found.push(`${of(e)}: ${e.scrollWidth} of ${e.clientWidth}`);
		}
		// What is in a cell, chips and bars too, stays in it.
		const cell = e.parentElement.closest("td, th");
		if (cell && getComputedStyle(cell).textOverflow !== "ellipsis") {
			const outer = cell.getBoundingClientRect();
			if (box.right > outer.right + 0.5 || box.left < outer.left - 0.5)
				found.push(`${of(e)} out of its cell: ${box.left} to ${box.right} of ${outer.left} to ${outer.right}`);
		}
	}
	return found;
}, narrow);

async function everythingFits(base, hashes, done) {
	const wrong = [];
	for (const width of [390, 1280, 1440, 1920])
		for (const hash of hashes) {
			const v = await View.open(base, hash, { width, height: 900 });
			await v.page.locator("main .panel").first().waitFor();
			await done?.(v, hash);
			wrong.push(...(await sticksOut(v, width < 1000)).map((what) => `${hash} at ${width}: ${what}`));
			await v.close();
		}
	assert.deepEqual(wrong, []);
}

portable("narrow and wide: nothing is cut, no page is wider than the screen", async (base) => {
	const { flows } = await (await fetch(`${base}/api/v1/flows?limit=1`)).json();
	await everythingFits(base, ["#/", "#/flows", "#/probes", "#/tuning", "#/config", ...flows.map((f) => `#/flow/${f.id}`)]);
});

const luminance = (rgb) => rgb.map((c) => (c / 255 <= 0.03928 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4)).reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
const contrast = (a, b) => (Math.max(luminance(a), luminance(b)) + 0.05) / (Math.min(luminance(a), luminance(b)) + 0.05);

portable("dark and light: the system's, else the chosen one, kept; text stands out in both", async (base) => {
	const v = await View.open(base, "#/", { colorScheme: "dark" });
	const theme = () => v.page.evaluate(() => document.documentElement.dataset.theme);
	await v.page.locator("#theme").waitFor();
	const readable = async () => {
		const colours = await v.page.evaluate(() => {
			const probe = document.body.appendChild(document.createElement("span"));
			const rgb = (name) => {
				probe.style.color = `var(--${name})`;
				return getComputedStyle(probe).color.match(/\d+/g).slice(0, 3).map(Number);
			};
			const found = Object.fromEntries(["panel", "bg", "text", "dim", "link", "warn"].map((n) => [n, rgb(n)]));
			probe.remove();
			return found;
		});
		for (const name of ["text", "dim", "link", "warn"])
			assert.ok(contrast(colours[name], colours.panel) >= 4.5, `${name} on panel, ${await theme()}: ${contrast(colours[name], colours.panel).toFixed(2)}`);
		return luminance(colours.bg);
	};
	assert.equal(await theme(), "dark");
	assert.ok((await readable()) < 0.05);
	await v.page.emulateMedia({ colorScheme: "light" });
	// Changes of media queries are told with a frame, and a page that has nothing new paints none: a picture wants one.
	await until("light", async () => {
		await v.page.screenshot({ clip: { x: 0, y: 0, width: 8, height: 8 } });
		return (await theme()) === "light";
	});
	assert.ok((await readable()) > 0.8);
	await v.page.locator("#theme").click();
	assert.equal(await theme(), "dark");
	await v.page.reload();
	await v.page.locator("#theme").waitFor();
	assert.equal(await theme(), "dark");
	await v.close();
});

// --- what needs a server that does as it is told

mocked("owners: pods and units, the way to their flows by keyboard, and a flow says whose it is", async (base, mock) => {
	mock.pods = true;
	const v = await View.open(base);
	await v.page.locator("#owners tr[data-owner]").first().waitFor();
	const { owners } = mock.summary();
	assert.equal(owners.length, 5);
	const rows = await v.page.locator("#owners tbody tr").evaluateAll((found) => found.map((r) => [...r.cells].map((c) => c.innerText.trim())));
	assert.deepEqual(rows.map((r) => [r[0], r[1] === "\u2013" ? null : r[1], Number(r[6])]), owners.map((o) => [o.owner, o.netns, o.flows]));
	await everyTextIsItsValue(v);
	const cart = owners.find((o) => o.owner.startsWith("shop/cart"));
	await v.page.locator(`#owners tr[data-owner="${cart.owner}"] a`).focus();
	await v.page.keyboard.press("Enter");
	await until("its flows", async () => (await v.count("#flows tr[data-flow]")) === cart.flows);
	const offered = (name) => v.page.locator(`select[name=${name}] option`).evaluateAll((all) => all.map((o) => o.value).filter(Boolean));
	assert.deepEqual(await offered("owner"), owners.map((o) => o.owner).sort());
	assert.deepEqual(await offered("netns"), [...new Set(owners.map((o) => o.netns).filter(Boolean))].sort());
	const [flow] = mock.flows().filter((f) => f.owner === cart.owner);
	await v.go(`#/flow/${flow.id}`);
	await v.page.locator("#numbers tr").first().waitFor();
	const facts = await v.page.locator("table").evaluateAll((tables) => tables.map((t) => t.innerText).join("\n"));
	for (const text of [flow.netns, flow.pod, flow.container, flow.cgroup])
		assert.ok(facts.includes(text), text);
	await v.close();
});

mocked("owners at the narrowest and the widest, light and dark: nothing is cut", async (base, mock) => {
	mock.pods = true;
	const [flow] = mock.flows(), wrong = [];
	for (const colorScheme of ["light", "dark"])
		for (const width of [360, 1400])
			for (const hash of ["#/", "#/flows", `#/flow/${flow.id}`]) {
				const v = await View.open(base, hash, { width, height: 900, colorScheme });
				await v.page.locator("main .panel").first().waitFor();
				wrong.push(...(await sticksOut(v, width < 1000)).map((what) => `${hash} at ${width}: ${what}`));
				await v.picture(`owners-${hash.split("/")[1] || "overview"}-${width}-${colorScheme}`);
				await v.close();
			}
	assert.deepEqual(wrong, []);
});

mocked("every text stands out from what is behind it, dark and light", async (base, mock) => {
	const [flow] = mock.flows();
	for (const colorScheme of ["dark", "light"])
		for (const blind of [false, true]) {
			const v = await View.open(base, "#/", { colorScheme });
			for (const hash of ["#/", "#/flows", `#/flow/${flow.id}`, "#/probes", "#/tuning", "#/config"]) {
				await v.go(hash);
				await until(hash, async () => (await v.count({ "#/tuning": "#policy-history tr, #tune tr", "#/": "#slowest tr[data-flow]", "#/flows": "#flows tr[data-flow]", "#/probes": "#peers tr[data-peer]", "#/config": "#config tr[data-option]" }[hash] ?? "#numbers tr")) > 5);
				if (blind) {
					mock.fail("no sockets are listed");
					await v.page.locator("#banner.bad").waitFor();
				}
				const texts = await v.page.evaluate(() => {
					const found = new Map(), walker = document.createTreeWalker(document.getElementById("app"), NodeFilter.SHOW_TEXT);
					for (let node; (node = walker.nextNode());) {
						const e = node.parentElement;
						if (!node.data.trim() || !e.getClientRects().length || e.closest("svg, option, :disabled, .skip"))
							continue;
						const behind = [];
						for (let p = e; p; p = p.parentElement)
							behind.unshift(getComputedStyle(p).backgroundColor);
						found.set(JSON.stringify([getComputedStyle(e).color, behind]), `${e.tagName}.${e.className} "${node.data}"`);
					}
					return [...found];
				});
				// rgb() has 0 to 255, color(srgb) 0 to 1.
				const rgba = (s) => s.match(/[\d.]+/g).map(Number).map((c, i) => (i < 3 && s.startsWith("color(") ? 255 * c : c));
				const over = (below, [r, g, b, a = 1]) => [r, g, b].map((c, i) => a * c + (1 - a) * below[i]);
				for (const [colours, where] of texts) {
					const [text, behind] = JSON.parse(colours), ground = behind.map(rgba).reduce(over, [255, 255, 255]);
					const ratio = contrast(over(ground, rgba(text)), ground);
					assert.ok(ratio >= 4.5, `${colorScheme}, ${hash}: ${where}: ${ratio.toFixed(2)}`);
				}
				assert.ok(texts.length > 5);
			}
			mock.tick();
			await v.close();
		}
});

mocked("no label of a chart is cut off at its edge, whatever the time", async (base, mock) => {
	const prepare = (v) => v.page.addInitScript(() => {
		window.labels = 0;
		window.cut = [];
		const draw = CanvasRenderingContext2D.prototype.fillText;
		CanvasRenderingContext2D.prototype.fillText = function (text, x, y, ...more) {
			const m = this.measureText(text);
			window.labels++;
			if (text && (x + m.actualBoundingBoxRight > this.canvas.width || x - m.actualBoundingBoxLeft < 0))
				window.cut.push(`${text}: ${x - m.actualBoundingBoxLeft} to ${x + m.actualBoundingBoxRight} of ${this.canvas.width}`);
			return draw.call(this, text, x, y, ...more);
		};
	});
	for (const width of [390, 1280, 1440]) {
		const v = await View.open(base, "#/", { width, prepare });
		await v.state("live");
		for (let i = 0; i < 30; i++) { // from one label to the next
			mock.tick();
			await until("it is drawn", async () => (await v.numbers("#total-rate"))[0][0] === mock.summary().totals.rate_bps);
		}
		if (width >= 1280) // its caption is one line
			assert.ok((await v.page.locator("#history figcaption").first().boundingBox()).height < 30, `${width}`);
		assert.ok((await v.page.evaluate(() => window.labels)) > 100);
		assert.deepEqual(await v.page.evaluate(() => window.cut), [], `${width}`);
		await v.close();
	}
});

mocked("a flow that runs no swift: no empty charts, and no verdict", async (base, mock) => {
	const flow = mock.flows().find((f) => f.cc === "cubic");
	const v = await View.open(base, `#/flow/${flow.id}`);
	await until("advice", async () => /not measured in parts \(cubic\)[\s\S]*swiftctl enable/.test(await v.text("#next")));
	assert.doesNotMatch(await v.text("#next"), /holds it back/);
	assert.match(await v.text("#history"), /No delay in parts to draw/);
	assert.equal(await v.count("#history canvas"), 1); // its rate
	await v.go(`#/?dst=${encodeURIComponent("10.9.0.0/24|cubic|eth0")}`);
	await until("a word", async () => /None of its flows has both a window and a target/.test(await v.page.locator("#windows svg").textContent()));
	await v.close();
});

mocked("live: each interval's numbers appear, in the charts too", async (base, mock) => {
	const v = await View.open(base);
	await v.state("live");
	mock.requests.length = 0;
	for (let i = 0; i < 3; i++) {
		mock.tick();
		const worst = mock.summary().prefixes.find((r) => r.dst_prefix === "10.0.1.0/24");
		await until("the new rate", async () => (await v.numbers("#total-rate"))[0][0] === mock.summary().totals.rate_bps);
		await until("the new row", async () => (await v.numbers("#destinations tr.chosen"))[0][0] === worst.fabric_ns.p50);
		await until("the chart's last", async () => (await v.numbers("#history .chart:nth-of-type(1) figcaption"))[0][1] === worst.fabric_ns.p50);
	}
	assert.equal(mock.requests.filter((r) => r === "/api/v1/summary").length, 0); // none was polled for
	await v.picture("overview-light");
	await v.page.emulateMedia({ colorScheme: "dark" });
	await v.picture("overview-dark");
	await v.close();
});

mocked("each chart says in words what it draws", async (base, mock) => {
	const id = mock.flows()[0].id;
	for (const [hash, titles] of [["#/", ["Delay", "Rate"]], [`#/flow/${id}`, ["Delay", "Rate", "Windows (packets, logarithmic)"]]]) {
		const v = await View.open(base, hash);
		await v.state("live");
		await v.page.locator(".chart").first().waitFor();
		const drawn = await v.page.locator(".chart canvas").count(), said = await v.attributes(".chart [role=img]", "aria-label");
		assert.equal(said.length, drawn, hash);
		assert.deepEqual([...said.map((t) => t.split(",")[0])].sort(), titles.map((t) => t.split(",")[0]).sort(), hash);
		for (const [i, text] of said.entries()) {
			// The legend's numbers, which are those of the last point.
			const lines = await v.page.locator(".chart").nth(i).locator(".key").evaluateAll((keys) => keys.map((k) => [k.childNodes[1].textContent, k.querySelector("data").innerText]));
			assert.match(text, /, \d+:\d\d:\d\d.* to \d+:\d\d:\d\d/, hash);
			for (const [label, value] of lines)
				assert.ok(text.includes(`${label} ${value}, before from `), `${hash}: ${label} ${value} in ${text}`);
		}
		mock.tick();
		await until("words of the new numbers", async () => (await v.attributes(".chart [role=img]", "aria-label"))[0] !== said[0]);
		await v.close();
	}
});

mocked("the stream breaks: it is had again, nothing is missing", async (base, mock) => {
	const v = await View.open(base);
	await v.state("live");
	mock.tick();
	mock.refuseStreams = true;
	mock.dropStreams();
	await v.state("polling");
	const before = mock.requests.filter((r) => r === "/api/v1/stream").length;
	for (let i = 0; i < 2; i++) {
		mock.now++; // nothing is pushed
		await until("polled numbers", async () => (await v.numbers("#total-rate"))[0][0] === mock.summary().totals.rate_bps);
	}
	mock.refuseStreams = false;
	await until("a new stream", () => mock.streams.size === 1 && mock.requests.filter((r) => r === "/api/v1/stream").length > before);
	mock.tick();
	await v.state("live");
	await until("pushed numbers", async () => (await v.numbers("#total-rate"))[0][0] === mock.summary().totals.rate_bps);
	await v.close();
});

mocked("a stream that a proxy keeps back is not waited for: the page polls, and calls nothing old", async (base, mock) => {
	mock.silentStreams = true;
	const v = await View.open(base, "#/", { prepare: (view) => view.page.addInitScript(() => {
		Object.assign(window, { banners: 0, states: new Set(), oldest_s: 0 });
		setInterval(() => {
			const [, word, age_s] = /^(\w+)[^\d]*([\d.]+) s old/.exec(document.getElementById("state")?.innerText ?? "") ?? [];
			window.banners += document.getElementById("banner")?.hidden === false;
			window.states.add(word);
			window.oldest_s = Math.max(window.oldest_s, Number(age_s ?? 0));
		}, 100);
	}) });
	mock.beat();
	const streams = () => mock.requests.filter((r) => r === "/api/v1/stream").length;
	await until("a stream", () => streams() === 1);
	const tries = mock.now + 60; // nine seconds: it is given up after five
	await until("polled numbers", () => mock.now > tries && mock.requests.filter((r) => r === "/api/v1/summary").length > 5);
	const seen = await v.page.evaluate(() => ({ banners: window.banners, states: [...window.states], oldest_s: window.oldest_s }));
	assert.equal(streams(), 1); // the next is tried for in a minute
	assert.equal(seen.banners, 0);
	assert.ok(!seen.states.includes("live"), seen.states.join());
	assert.ok(seen.oldest_s < 3, `${seen.oldest_s} s`);
	await v.close();
});

mocked("the host's clock is set back: charts go on", async (base, mock) => {
	const shown = (v) => v.attributes("#history .chart [role=img]", "aria-label").then(([label]) => /^Delay, (\S+) to (\d+:\d+:\d+)/.exec(label).slice(1));
	const times = (v) => v.page.evaluate((all) => all.map((t) => new Date(t * 1000).toLocaleTimeString([], { hour12: false })), [mock.time_s(0), mock.time_s()]);
	for (const word of ["live", "polling"]) {
		mock.refuseStreams = word === "polling";
		const v = await View.open(base);
		await v.state(word);
		mock.start_s -= 1234;
		for (let i = 0; i < 3; i++) {
			mock.tick();
			await until(`${word}: the chart ends now`, async () => assert.deepEqual(await shown(v), await times(v)) === undefined);
		}
		await v.state(word);
		await v.close();
		await until("the page is gone", () => mock.streams.size === 0);
	}
});

mocked("swiftd is started anew: what the page knew stays in its charts", async (base, mock) => {
	const v = await View.open(base);
	await v.state("live");
	const label = () => v.attributes("#history .chart [role=img]", "aria-label").then(([text]) => text);
	const [, since] = /^Delay, ([\d:]+) to /.exec(await label());
	await mock.stop();
	await v.state("no answer");
	mock.memory = 1;
	mock.now += 20;
	await mock.start();
	await v.state("live");
	mock.tick();
	const now = await v.page.evaluate((t) => new Date(t * 1000).toLocaleTimeString([], { hour12: false }), mock.time_s());
	await until("the newest beside the oldest", async () => (await label()).startsWith(`Delay, ${since} to ${now}`));
	await v.close();
});

mocked("of what ages nothing is read out", async (base, mock) => {
	const v = await View.open(base);
	await v.state("live");
	await mock.stop();
	await until("the banner", async () => (await v.text("#banner")).includes("swiftd does not answer"));
	await v.page.evaluate(() => {
		Object.assign(window, { read: 0, ages: new Set() });
		new MutationObserver(() => window.read++).observe(document.querySelector("[role=status]"), { childList: true, characterData: true, subtree: true });
		new MutationObserver(() => window.ages.add(document.getElementById("banner").innerText)).observe(document.getElementById("banner"), { childList: true, characterData: true, subtree: true });
	});
	await until("five ages", async () => (await v.page.evaluate(() => window.ages.size)) >= 5);
	assert.equal(await v.page.evaluate(() => window.read), 0);
	await mock.start();
	await v.close();
});

mocked("the server goes away and comes back: a banner, and the gap is filled", async (base, mock) => {
	const v = await View.open(base);
	mock.beat();
	await v.state("live");
	await until("no banner", async () => !(await v.page.locator("#banner").isVisible()));
	await mock.stop();
	await v.state("no answer");
	await until("the banner", async () => (await v.text("#banner")).includes("swiftd does not answer"));
	assert.ok(await v.count("#destinations tr[data-prefix]") > 0); // what was known stays
	await v.picture("no-answer");
	mock.requests.length = 0;
	mock.now += 20;
	await mock.start();
	await until("the history, again", () => mock.requests.includes("/api/v1/summary?history=1"));
	mock.beat();
	await until("no banner", async () => !(await v.page.locator("#banner").isVisible()));
	await v.state("live");
	await v.close();
});

mocked("a tab that nobody sees asks for nothing, and has all that it missed when it is seen again", async (base, mock) => {
	const id = mock.flows()[0].id;
	for (const [hash, streams, seconds] of [["#/", true, 4], ["#/flows", true, 2], [`#/flow/${id}`, true, 2], ["#/", false, 4]]) {
		const where = `${hash}, ${streams ? "a stream" : "polling"}`;
		mock.refuseStreams = !streams;
		const v = await View.open(base, hash);
		mock.beat();
		await v.state(streams ? "live" : "polling");
		await v.hide();
		await until(`${where}: no stream`, () => mock.streams.size === 0);
		await new Promise((done) => setTimeout(done, 500)); // what was asked before is answered
		mock.requests.length = 0;
		await new Promise((done) => setTimeout(done, 1000 * seconds));
		assert.deepEqual(mock.requests, [], where);
		// What it has is old, which nobody is told who comes back.
		await v.page.evaluate(() => {
			window.banners = 0;
			new MutationObserver(() => document.getElementById("banner").hidden || window.banners++).observe(document.getElementById("banner"), { attributes: true, childList: true, subtree: true });
		});
		await v.hide(false);
		await until(`${where}: the history`, () => mock.requests.includes("/api/v1/summary?history=1"));
		await v.state(streams ? "live" : "polling");
		assert.equal(mock.streams.size, streams ? 1 : 0, where);
		clearInterval(mock.heart);
		await until(`${where}: the newest numbers`, async () => (hash !== "#/" ? /^\D*[0-2]?(\.\d+)? s old/.test(await v.text("#state")) : (await v.numbers("#total-rate"))[0][0] === mock.summary().totals.rate_bps));
		assert.equal(await v.page.evaluate(() => window.banners), 0, where);
		await v.close();
		await until(`${where}: the page is gone`, () => mock.streams.size === 0);
	}
});

mocked("a tab that is opened behind another asks for nothing until it is seen", async (base, mock) => {
	const id = mock.flows()[0].id, prepare = (v) => v.page.addInitScript(() => Object.defineProperty(document, "hidden", { value: true, configurable: true }));
	for (const [hash, there] of [["#/", "#slowest tr[data-flow]"], ["#/flows", "#flows tr[data-flow]"], [`#/flow/${id}`, "#numbers tr"], ["#/probes", "#peers tr[data-peer]"], ["#/tuning", "#policy-state"], ["#/config", "#config tr[data-option]"]]) {
		const v = await View.open(base, hash, { prepare });
		await v.page.locator("header.top").waitFor();
		await new Promise((done) => setTimeout(done, 1000));
		assert.deepEqual(mock.requests.filter((r) => r.startsWith("/api/")), [], hash);
		await v.hide(false);
		await v.page.locator(there).first().waitFor();
		await v.close();
		await until(`${hash}: the page is gone`, () => mock.streams.size === 0);
		mock.requests.length = 0;
	}
});

mocked("nothing new is collected: the page says how old its numbers are", async (base, mock) => {
	const v = await View.open(base);
	await v.state("live");
	await until("the banner", async () => /has collected nothing since [\s\S]* The numbers below are \d[\d.]* s old/.test(await v.text("#banner")));
	mock.tick();
	await until("no banner", async () => !(await v.page.locator("#banner").isVisible()));
	await v.close();
});

mocked("an interval that swiftd has stretched does not make the numbers old", async (base, mock) => {
	mock.interval_ms = 60000;
	const v = await View.open(base);
	await v.state("live");
	await until("five seconds", async () => /[5-9](\.\d)? s old/.test(await v.text("#state")));
	assert.equal(await v.page.locator("#banner").isVisible(), false);
	await v.close();
});

mocked("swiftd cannot look at the flows: the page says so, and why, until it can", async (base, mock) => {
	mock.interval_ms = 60000; // old numbers alone would not be said
	const v = await View.open(base);
	await v.state("live");
	mock.fail("this kernel cannot list TCP sockets");
	await until("the banner", async () => /cannot look at the flows: this kernel cannot list TCP sockets\./.test(await v.text("#banner")));
	mock.tick();
	await until("no banner", async () => !(await v.page.locator("#banner").isVisible()));
	await v.close();
});

mocked("opened, polled or with a new stream while swiftd cannot look: one line says why, and how old", async (base, mock) => {
	const why = "this kernel cannot list TCP sockets", says = /cannot look at the flows: this kernel cannot list TCP sockets\. It goes on trying\. The numbers below are (\d+) min \d+ s old\./;
	mock.interval_ms = 60000; // old numbers alone would not be said
	mock.refuseStreams = true;
	mock.fail(why, 125);
	for (const hash of ["#/", "#/flows", "#/probes", "#/tuning", "#/config"]) {
		const v = await View.open(base, hash);
		await v.state("polling");
		await until(`the banner, by the summary alone, on ${hash}`, async () => says.exec(await v.text("#banner"))?.[1] === "2");
		assert.equal((await v.text("body")).split(why).length - 1, 1, hash);
		await v.close();
	}
	Object.assign(mock, { interval_ms: 1000, requests: [] });
	const v = await View.open(base);
	const gone = () => until("no banner", async () => !(await v.page.locator("#banner").isVisible()));
	const said = (minutes) => until(`the banner, ${minutes} min`, async () => says.exec(await v.text("#banner"))?.[1] === `${minutes}`);
	await said(2);
	mock.fail(why, 305); // and its own clock tells better than the page's
	await said(5);
	assert.match(await v.attributes("#state", "class").then(([c]) => c), /bad/);
	mock.tick();
	await gone();
	mock.fail(why, 185);
	await said(3);
	// The stream's first summary bears no error: what was known stays.
	await v.page.evaluate(() => {
		window.flickers = 0;
		new MutationObserver(() => { window.flickers += document.getElementById("banner").hidden; }).observe(document.getElementById("banner"), { attributes: true });
	});
	mock.refuseStreams = false;
	await v.state("live");
	await until("the stream's state", async () => mock.told > 0);
	assert.equal((await v.text("body")).split(why).length - 1, 1);
	await v.picture("blind");
	mock.tick(); // behind the state in the stream
	await gone();
	assert.equal(await v.page.evaluate(() => window.flickers), 1); // now, and not before
	await v.state("live");
	await v.close();
});

mocked("data that was old when the page came is called old", async (base, mock) => {
	const time_s = mock.time_s.bind(mock);
	mock.summary = ((original) => (history) => ({ ...original(history), time_s: time_s() - 90 }))(mock.summary.bind(mock));
	const v = await View.open(base);
	await until("the banner", async () => /The numbers below are 1 min 3\d s old/.test(await v.text("#banner")));
	await v.close();
});

mocked("nothing is cut where all that is shown is at its widest", async (base, mock) => {
	Object.assign(mock, { samples: 123456789, wide: true, moduleLoaded: false, histograms: "sampled", dropped: 123456 });
	const [flow] = mock.flows();
	await everythingFits(base, ["#/", "#/flows", `#/flow/${flow.id}`, "#/probes", "#/tuning", "#/config"], async (v, hash) => {
		await until("it is there", async () => (await v.count({ "#/tuning": "#policy-history tr, #tune tr", "#/": "#slowest tr[data-flow]", "#/flows": "#flows tr[data-flow]", "#/probes": "#peers tr[data-peer]", "#/config": "#config tr[data-option]" }[hash] ?? "#numbers tr")) > 5);
		if (hash === "#/")
			assert.equal(await v.text("#quantiles tbody tr td:last-child"), "4.44 G");
	});
});

mocked("no module, sampled histograms, left out destinations are said", async (base, mock) => {
	Object.assign(mock, { moduleLoaded: false, histograms: "sampled", dropped: 7 });
	const v = await View.open(base);
	await until("the banner", async () => (await v.text("#banner")).includes("tcp_swift is not loaded"));
	const facts = await v.text(".facts");
	assert.match(facts, /not loaded/);
	assert.match(facts, /sampled/);
	assert.match(facts, /not told apart\s+7 flows/);
	assert.match(facts, /1 of 2 fed/);
	await v.close();
});

mocked("no flow runs swift: the page says what to do", async (base, mock) => {
	mock.empty = true;
	const v = await View.open(base);
	await until("overview", async () => (await v.text("#main")).includes("swiftctl enable"));
	await v.picture("empty");
	await v.go("#/flows");
	await until("flows", async () => (await v.text("#flows")).includes("swiftctl enable"));
	await v.close();
});

mocked("flows: filters and pages", async (base, mock) => {
	const v = await View.open(base, "#/flows?limit=25");
	const ids = () => v.attributes("#flows tr[data-flow]", "data-flow");
	const all = (text) => mock.list(new URLSearchParams(`sort=rtt&limit=1000&${text}`))[1].flows.map((f) => f.id);
	const shows = (what, expected) => until(what, async () => assert.deepEqual(await ids(), expected) === undefined);
	const whole = all("");
	assert.ok(whole.length > 50);
	await shows("page 1", whole.slice(0, 25));
	assert.equal(await v.text("#range"), `1\u201325 of ${whole.length}`);
	assert.ok(await v.page.locator("button[name=previous]").isDisabled());
	await v.page.locator("button[name=next]").click();
	await shows("page 2", whole.slice(25, 50));
	await v.page.locator("button[name=previous]").click();
	await shows("page 1 again", whole.slice(0, 25));
	for (let i = 0; i < Math.ceil(whole.length / 25) - 1; i++) {
		await v.page.locator("button[name=next]").click();
		await shows(`page ${i + 2}`, whole.slice(25 * (i + 1), 25 * (i + 2)));
	}
	assert.ok(await v.page.locator("button[name=next]").isDisabled());

	await v.page.locator("select[name=limit]").selectOption("500");
	await v.page.locator("select[name=cc]").selectOption("bpf_swift");
	await shows("cc", all("cc=bpf_swift"));
	await v.page.locator("select[name=cc]").selectOption("");
	await v.page.locator("select[name=held_by]").selectOption("host");
	await shows("held by", all("held_by=host"));
	await v.page.locator("select[name=prefix]").selectOption("10.0.1.0/24");
	await shows("nothing", all("held_by=host&prefix=10.0.1.0/24"));
	await v.page.locator("select[name=held_by]").selectOption("");
	await v.page.locator("input[name=q]").fill("10.0.1.1");
	await shows("text", all("prefix=10.0.1.0/24&q=10.0.1.1"));
	assert.match(v.page.url(), /q=10\.0\.1\.1/); // a link to what is seen
	await v.page.reload();
	await shows("the same after a reload", all("prefix=10.0.1.0/24&q=10.0.1.1"));
	await v.page.locator("input[name=q]").fill("nowhere");
	await until("no match", async () => (await v.text("#flows .empty")).includes("No flow matches"));
	await v.page.locator("#flows .empty button").click();
	await shows("all again", whole);
	await v.go("#/flows?sort=colour");
	await until("the API's own words", async () => (await v.text(".wrong")).includes("sort=colour: allowed are rate"));
	await v.go("#/flows");
	await shows("50 of all", whole.slice(0, 50));
	await v.picture("flows");
	await v.close();
});

mocked("flows that are searched for longer than an interval are shown, and one search is made at a time", async (base, mock) => {
	mock.slow_ms = 225; // of 150 each
	const [first] = mock.flows();
	for (const [hash, cell] of [["#/flows?limit=500", `tr[data-flow="${first.id}"] data`], [`#/flow/${first.id}`, "#numbers data"], ["#/", "#slowest data"]]) {
		const v = await View.open(base, hash);
		mock.beat();
		await v.page.locator(cell).first().waitFor();
		for (const which of ["newer", "newer still"]) {
			const before = await v.text(cell);
			await until(`${hash}: ${which} numbers`, async () => (await v.text(cell)) !== before);
		}
		assert.equal(mock.mostSearches, 1, hash);
		clearInterval(mock.heart);
		await v.close();
		await until("the page is gone", () => mock.streams.size === 0 && mock.searches === 0);
	}
	// Another question does not wait for the answer to the one before.
	mock.slow_ms = 1e6;
	const v = await View.open(base, "#/flows");
	await until("a search", () => mock.searches === 1);
	mock.slow_ms = 1;
	await v.go("#/flows?cc=cubic");
	await until("its answer", async () => (await v.count("#flows tr[data-flow]")) === 12);
	await v.close();
});

mocked("flows: behind the last page is the last page, and no filter is hidden", async (base, mock) => {
	const all = mock.flows().length, select = (v, name) => v.page.locator(`select[name=${name}]`).inputValue();
	const v = await View.open(base, "#/flows?offset=1000");
	await until("the last page", async () => (await v.text("#range")) === `101\u2013${all} of ${all}`);
	assert.equal(await v.count("#flows tr[data-flow]"), all - 100);
	assert.match(v.page.url(), /offset=100$/);
	mock.pods = true;
	await v.go("#/flows?owner=%2F&netns=%2F&prefix=other&iface=other");
	await until("no match", async () => (await v.text("#flows .empty")).includes("No flow matches"));
	assert.deepEqual([await select(v, "owner"), await select(v, "netns"), await select(v, "prefix"), await select(v, "iface")], ["/", "/", "other", "other"]);
	await v.page.locator("#flows .empty button").click();
	await until("all again", async () => (await v.text("#range")).endsWith(`of ${all}`));
	assert.deepEqual([await select(v, "owner"), await select(v, "netns"), await select(v, "prefix"), await select(v, "iface")], ["", "", "", ""]);
	await v.close();
});

mocked("a row's flows are its own: neither another interface's nor another namespace's", async (base, mock) => {
	mock.pods = true;
	const { flows, summary } = Object.fromEntries(["flows", "summary"].map((name) => [name, mock[name].bind(mock)]));
	const split = "10.0.1.0/24";
	mock.flows = () => flows().map((f, i) => (f.dst_prefix === split && i % 3 === 0 ? { ...f, iface: "eth1" } : f));
	const of = (r) => mock.flows().filter((f) => f.dst_prefix === split && f.iface === r.iface && !f.netns === !r.netns);
	mock.summary = (history) => {
		const s = summary(history), whole = s.prefixes.find((r) => r.dst_prefix === split);
		const rows = ["eth0", "eth1"].flatMap((iface) => [null, "others"].map((netns) => ({ ...whole, iface, netns })));
		return { ...s, netns: 4, prefixes: rows.map((r) => ({ ...r, flows: of(r).length })) };
	};
	const v = await View.open(base);
	await v.page.locator("#destinations tr[data-prefix]").first().waitFor();
	for (const r of mock.summary().prefixes) {
		const ids = of(r).sort((a, b) => b.rtt_ns - a.rtt_ns).map((f) => f.id), where = `${r.iface} ${r.netns ?? "own"}`;
		assert.ok(ids.length > 3 && ids.length < 36);
		await v.go(`#/?dst=${encodeURIComponent(`${split}|swift|${r.iface}${r.netns ? `|${r.netns}` : ""}`)}`);
		await until(`${where}: the slowest`, async () => assert.deepEqual(await v.attributes("#slowest tr[data-flow]", "data-flow"), ids.slice(0, 8)) === undefined);
		assert.match(await v.text("#slowest .note"), new RegExp(`^all ${ids.length},`));
		assert.equal(await v.count("#windows circle"), ids.length, where);
		await v.page.locator("#slowest .note a").click();
		await until(`${where}: all`, async () => assert.deepEqual(await v.attributes("#flows tr[data-flow]", "data-flow"), ids) === undefined);
		assert.deepEqual([await v.page.locator("select[name=iface]").inputValue(), await v.page.locator("select[name=netns]").inputValue()], [r.iface, r.netns ?? "own"]);
	}
	await v.close();
});

mocked("a flow's page: history, verdict, what to do; and when it has ended", async (base, mock) => {
	const flow = mock.flows().find((f) => f.held_by === "host" && f.cc === "bpf_swift");
	const v = await View.open(base, `#/flow/${flow.id}`);
	await until("verdict", async () => (await v.text("#verdict")).includes("host-bound"));
	const steps = await v.text("#next");
	for (const what of ["swiftctl doctor --iface eth1", "echoes no delay", "Stamps are software's"])
		assert.ok(steps.includes(what), what);
	const last = mock.detail(flow.id)[1].history;
	assert.deepEqual(await v.numbers("#history .chart:nth-of-type(2) figcaption"), [[last.fcwnd_pkts.at(-1), last.ecwnd_pkts.at(-1)]]);
	assert.equal(await v.count("#history canvas"), 3);
	// What is drawn goes up and down: each line's colour is seen at as many heights.
	const heights = (chart, [r, g, b]) => v.page.locator("#history canvas").nth(chart).evaluate((c, [rr, gg, bb]) => {
		const { data } = c.getContext("2d").getImageData(0, 0, c.width, c.height), seen = new Set();
		for (let i = 0; i < data.length; i += 4)
			if (Math.abs(data[i] - rr) + Math.abs(data[i + 1] - gg) + Math.abs(data[i + 2] - bb) < 24 && data[i + 3] > 200)
				seen.add(Math.floor(i / 4 / c.width));
		return seen.size;
	}, [r, g, b]);
	const fabric = [0x2f, 0x74, 0xd0], host = [0xd9, 0x80, 0x1f], rate = [0x4b, 0x8a, 0x76];
	for (const [chart, colour] of [[0, fabric], [0, host], [1, fabric], [1, host], [2, rate]])
		await until(`line ${colour} in chart ${chart}`, async () => (await heights(chart, colour)) > 10);
	await v.picture("flow");
	await v.go("#/flow/dead");
	await until("ended", async () => (await v.text("#main")).includes("flow dead is not live"));
	await v.close();
});

mocked("credit: of the receiver, or short because this host's own link is congested", async (base, mock) => {
	for (const [held, chip, said, step] of [["credit", "credit", "waits for credit", "swiftctl credit"],
		["own_link", "uplink", "lends it less", "own link is full"]]) {
		const flow = mock.flows().find((f) => f.held_by === held);
		const v = await View.open(base, `#/flow/${flow.id}`);
		await until("verdict", async () => (await v.text("#verdict")).includes(said));
		assert.ok((await v.text("#verdict")).includes(chip), chip);
		assert.ok((await v.text("#next")).includes(step), step);
		assert.ok((await v.text("#main")).includes(held === "credit" ? "waits for more" : "own link is congested"));
		await v.go(`#/flows?held_by=${held}`);
		await until("those that wait", async () => (await v.count("tr[data-flow]")) === mock.flows().filter((f) => f.held_by === held).length);
		await v.close();
	}
});

mocked("the keyboard reaches it all", async (base, mock) => {
	const v = await View.open(base);
	await v.state("live");
	const button = v.page.locator("#destinations button.plain").nth(1);
	await button.focus();
	await v.page.keyboard.press("Enter");
	await until("another destination", async () => (await v.attributes("#destinations tr.chosen", "data-prefix"))[0].startsWith("10.0.0.0/24"));
	await until("its flows", async () => (await v.attributes("#slowest tr[data-flow]", "data-flow")).join() === mock.list(new URLSearchParams("sort=rtt&prefix=10.0.0.0/24&limit=8"))[1].flows.map((f) => f.id).join());
	await v.go("#/flows");
	await v.page.locator("th button[data-sort=host]").focus();
	await v.page.keyboard.press("Space");
	await until("sorted", async () => (await v.attributes("#flows tr[data-flow]", "data-flow"))[0] === mock.list(new URLSearchParams("sort=host"))[1].flows[0].id);
	// By tabs alone: every link and button of the header, and a first flow.
	await v.page.locator(".skip").focus();
	const seen = [];
	for (let i = 0; i < 40 && !seen.at(-1)?.startsWith("#/flow/"); i++) {
		await v.page.keyboard.press("Tab");
		seen.push(await v.page.evaluate(() => document.activeElement.getAttribute("href") ?? document.activeElement.id ?? ""));
	}
	for (const stop of ["#/", "#/flows", "#/probes", "#/tuning", "#/config", "theme"])
		assert.ok(seen.includes(stop), `${stop} in ${seen}`);
	await v.page.keyboard.press("Enter");
	await v.page.locator("#numbers").waitFor();
	await v.close();
});

mocked("names are text, whatever is in them", async (base, mock) => {
	mock.nasty = `<script>document.title="owned"</script><img src=x onerror="window.owned=1">"'&lt;<b>`;
	const v = await View.open(base);
	for (const [hash, where] of [["#/", "#destinations"], ["#/flows", "#flows"], [`#/flow/${mock.flows()[0].id}`, "#numbers"], ["#/probes", "#peers"], ["#/tuning", "#policy"], ["#/tuning", "#policy-history"], ["#/tuning", "#tune"], ["#/config", "#config"]]) {
		await v.go(hash);
		await until(`${hash} shows it as it is`, async () => (await v.page.locator(where).textContent()).includes(mock.nasty));
		assert.equal(await v.count("#app script, #app img, #app b"), 0, hash);
	}
	await v.go(`#/flows?q=${encodeURIComponent(mock.nasty)}&cc=${encodeURIComponent(mock.nasty)}`);
	await until("in a filter", async () => (await v.page.locator("input[name=q]").inputValue()) === mock.nasty);
	await v.go(`#/flow/${encodeURIComponent(mock.nasty)}`);
	await until("in the address", async () => (await v.page.locator("#main").textContent()).includes(`flow ${mock.nasty} is not live`));
	assert.equal(await v.page.evaluate(() => window.owned), undefined);
	assert.doesNotMatch(await v.page.title(), /^owned/);
	await v.close();
});

// --- probes

const probeRows = async (v) => JSON.parse(await (await fetch(`${v.base}/api/v1/probes?limit=200`)).text());

portable("probes: the mesh and the peers are the API's", async (base) => {
	const v = await View.open(base, "#/probes", { prepare: frozen });
	await v.page.locator("#mesh").waitFor();
	const s = v.answer("/api/v1/probes?limit=200");
	assert.deepEqual(await v.attributes("#mesh [data-pair]", "data-pair"), s.pairs.map((p) => `${p.rack} ${p.peer_rack}`).sort());
	for (const p of s.pairs) {
		const cell = v.page.locator(`#mesh [data-pair="${p.rack} ${p.peer_rack}"]`);
		assert.equal(await cell.getAttribute("aria-label"), `rack ${p.rack} to rack ${p.peer_rack}: ${p.verdict.text}`);
	}
	assert.deepEqual(await v.numbers("#peers tr[data-peer]"), s.peers.map((p) => [p.fabric_ns?.min ?? null, p.fabric_ns?.p50 ?? null, p.fabric_ns?.p99 ?? null, p.host_ns?.p50 ?? null, p.host_ns?.p99 ?? null, p.sent, p.lost]));
	await everyTextIsItsValue(v);
	await v.close();
});

mocked("probes: network or host, by hue, in words, and peer by peer", async (base) => {
	const v = await View.open(base, "#/probes");
	const cell = (rack) => v.page.locator(`#mesh [data-pair="a1 ${rack}"]`);
	await cell("b1").waitFor();
	const s = await probeRows(v), pair = (rack) => s.pairs.find((p) => p.peer_rack === rack);
	const says = async (rack, classes, word, ns) => {
		const [c, text] = [await cell(rack).getAttribute("class"), await cell(rack).innerText()];
		for (const one of classes.split(" "))
			assert.ok(c.split(" ").includes(one), `${rack}: ${one} in ${c}`);
		assert.ok(text.includes(word), `${rack}: ${word} in ${text}`);
		assert.deepEqual(await v.numbers(`#mesh [data-pair="a1 ${rack}"]`), [[ns]], rack);
	};
	await says("b1", "fabric level4", "slow: network", pair("b1").fabric_ns.p90);
	await says("b2", "host level4", "slow: hosts", pair("b2").host_ns.p90);
	await says("a1", "fabric level0", "network", pair("a1").fabric_ns.p90);
	await says("c1", "lossy", "lossy", pair("c1").fabric_ns.p90);
	await says("eu1/backup-and-archive.3", "mixed level3", "slow: both", pair("eu1/backup-and-archive.3").fabric_ns.p90 + pair("eu1/backup-and-archive.3").host_ns.p90);
	assert.ok((await v.text("#verdict")).includes("hosts in rack b2"), await v.text("#verdict"));
	// One part alone; a link to it shows another the same.
	await v.page.locator("input[name=part][value=host]").check();
	await says("b1", "host level0", "hosts", pair("b1").host_ns.p90);
	await says("b2", "host level4", "slow: hosts", pair("b2").host_ns.p90);
	assert.match(await v.page.evaluate(() => location.hash), /part=host/);
	await cell("a1").click();
	assert.deepEqual(await v.attributes("#peers tr[data-peer]", "data-peer"), s.peers.filter((p) => p.peer_rack === "a1").map((p) => p.peer));
	assert.ok((await v.text("#peers tr[data-peer='10.0.0.13']")).includes("nobody answers on that port"));
	assert.ok((await v.text("#peers tr[data-peer='10.0.0.14']")).includes("too few"));
	await cell("a1").click();
	assert.equal(await v.count("#peers tr[data-peer]"), s.peers.length);
	// What another swiftd says is in its row, and leads there.
	await v.page.locator("#mesh [data-pair='b2 c1']").click();
	assert.deepEqual(await v.attributes("#peers a", "href"), ["https://b2-1:9464/#/probes"]);
	await v.close();
});

mocked("probes: the mesh goes by keyboard", async (base) => {
	const v = await View.open(base, "#/probes");
	await v.page.locator("#mesh [data-pair]").first().waitFor();
	assert.equal(await v.count("#mesh [data-pair][tabindex='0']"), 1);
	const focused = () => v.page.evaluate(() => document.activeElement.dataset.pair ?? document.activeElement.name ?? "");
	for (let i = 0; i < 30 && (await focused()) !== "a1 a1"; i++)
		await v.page.keyboard.press("Tab");
	assert.equal(await focused(), "a1 a1");
	for (const [key, at] of [["ArrowRight", "a1 a2"], ["ArrowRight", "a1 b1"], ["ArrowLeft", "a1 a2"], ["ArrowUp", "a1 a2"], ["ArrowDown", "a2 a2"], ["ArrowDown", "b2 a2"], ["ArrowDown", "b2 a2"], ["ArrowUp", "a2 a2"], ["ArrowUp", "a1 a2"]]) {
		await v.page.keyboard.press(key);
		assert.equal(await focused(), at, key);
	}
	await v.page.keyboard.press("Enter");
	assert.equal(await v.page.locator("#mesh [data-pair='a1 a2']").getAttribute("aria-pressed"), "true");
	assert.equal(await v.text("#peers h2"), "Peers in a2");
	await v.close();
});

mocked("probes: at 360 px all goes by keyboard, and what has the focus is seen", async (base) => {
	const v = await View.open(base, "#/probes", { width: 360, height: 740 });
	await v.page.locator("#mesh [data-pair]").first().waitFor();
	const seen = () => v.page.evaluate(() => {
		const e = document.activeElement, r = e.getBoundingClientRect(), s = getComputedStyle(e);
		return { what: e.dataset.pair ?? e.name ?? e.getAttribute("aria-label") ?? e.textContent, inside: r.width > 0 && r.right > 0 && r.left < innerWidth && r.bottom > 0 && r.top < innerHeight, outlined: s.outlineStyle !== "none" || s.boxShadow !== "none" };
	});
	const reached = [];
	await v.page.locator(".skip").focus();
	for (let i = 0; i < 12; i++) {
		await v.page.keyboard.press("Tab");
		reached.push(await seen());
		if (reached.at(-1).what === "Peers")
			break;
	}
	for (const at of reached)
		assert.ok(at.inside && at.outlined, JSON.stringify(at));
	for (const what of ["part", "a1 a1", "Peers"])
		assert.ok(reached.some((r) => r.what.startsWith(what)), `${what} in ${JSON.stringify(reached.map((r) => r.what))}`);
	// A cell far to the right comes into view as it gets the focus, and the page stays as wide as the screen.
	await v.page.locator("#mesh [data-pair='a1 a1']").focus();
	for (let i = 0; i < 5; i++)
		await v.page.keyboard.press("ArrowRight");
	const last = await seen();
	assert.equal(last.what, "a1 eu1/backup-and-archive.3");
	assert.ok(last.inside && last.outlined, JSON.stringify(last));
	assert.ok((await v.page.evaluate(() => document.documentElement.scrollWidth)) <= 360);
	await v.page.keyboard.press("Enter");
	assert.match(await v.text("#peers h2"), /^Peers in eu1/);
	await v.close();
});

mocked("probes: a tab that nobody sees asks for nothing", async (base, mock) => {
	const v = await View.open(base, "#/probes");
	const asked = () => mock.requests.filter((r) => r.startsWith("/api/v1/probes")).length;
	await v.page.locator("#mesh [data-pair]").first().waitFor();
	await until("a second question", () => asked() >= 2);
	await v.hide();
	const before = asked();
	await new Promise((done) => setTimeout(done, 6000)); // longer than the time between two
	assert.equal(asked(), before);
	await v.hide(false);
	await until("at once again", () => asked() > before, 2000);
	// Nor does another page.
	await v.go("#/config");
	await v.page.locator("#config").waitFor();
	const left = asked();
	await new Promise((done) => setTimeout(done, 6000));
	assert.equal(asked(), left);
	await v.close();
});

mocked("probes: narrow and wide, light and dark", async (base, mock) => {
	for (const [width, colorScheme] of [[360, "light"], [360, "dark"], [1400, "light"], [1400, "dark"]]) {
		const v = await View.open(base, "#/probes", { width, height: width === 360 ? 740 : 1000, colorScheme });
		await v.page.locator("#mesh [data-pair]").first().waitFor();
		assert.ok((await v.page.evaluate(() => document.documentElement.scrollWidth)) <= width, `${width}: the page is as wide as the screen`);
		await v.picture(`probes-${width}-${colorScheme}`);
		await v.close();
	}
	mock.probing = false;
	const v = await View.open(base, "#/probes");
	await until("what to do", async () => (await v.text("#mesh")).includes("This host probes nobody."));
	await v.close();
});

// --- tuning

portable("tuning: policy and tuning are the API's", async (base) => {
	const v = await View.open(base, "#/tuning", { prepare: frozen });
	await v.page.locator("#policy-state").waitFor();
	const told = v.answer("/api/v1/policy"), { tune } = v.answer("/api/v1/summary?history=1");
	assert.ok((await v.text("#policy-state")).startsWith(told.policy.state.replaceAll("_", " ")));
	assert.deepEqual(await v.attributes("tr[data-target]", "data-target"), told.targets.map((t) => `${t.place} ${t.tunable}`));
	assert.deepEqual(await v.attributes("tr[data-event]", "data-event"), told.events.map((e) => e.event).reverse());
	assert.deepEqual(await v.page.locator("tr[data-event] time").evaluateAll((found) => found.map((e) => Date.parse(e.dateTime))), told.events.map((e) => Math.floor(e.time_s * 1000)).reverse());
	assert.deepEqual(await v.numbers("tr[data-tune-event]"), tune.events.map((e) => [e.from_ns, e.to_ns]).reverse());
	assert.ok((await v.text("#tune-state")).startsWith(tune.state));
	await v.close();
});

mocked("tuning: the policy's state in words, what it has set, what became of it", async (base, mock) => {
	const v = await View.open(base, "#/tuning");
	const rows = () => v.page.locator("#policy-history tbody tr").evaluateAll((found) => found.map((r) => [...r.cells].map((c) => c.innerText.trim())));
	const says = (text) => until(text, async () => (await v.text("#policy-state")).includes(text));
	await says("in force 2026-11-24.2 by net-eng@example.com is in force, watched by its guard");
	assert.deepEqual(await v.page.locator("tr[data-target]").evaluateAll((found) => found.map((r) => [...r.cells].map((c) => c.innerText.trim()))), [
		["net.ipv4.tcp_swift", "base_target_ns", "25000", "60000", "as the policy has it"],
		["net.ipv4.tcp_swift", "target_policy", "topology", "static", "as the policy has it"],
		["bpf_swift 10.2.0.0/16", "base_target_ns", "the variant's", "120000", "it is base_target_ns=77000, which somebody else has set"],
	]);
	assert.match(await v.text("#policy-facts"), /expires\s+2023-12-14 22:13:20 UTC\s+in\s+29 d 23 h/);
	assert.deepEqual((await rows()).map((r) => [r[1], r[2], r[4]]), [["in force", "2026-11-24.2", "the file was read"], ["acquitted", "2026-11-03.1", "the policy stays: after 7 fours of turns: no harm"], ["in force", "2026-11-03.1", "the file was read"]]);
	assert.equal((await rows())[0][0], "2023-11-14 21:33:20 UTC");

	// As the summary tells that something is new, all of it is asked for again; and not before.
	const asked = () => mock.requests.filter((r) => r === "/api/v1/policy").length, before = asked();
	mock.tick();
	mock.tick();
	await until("the second interval", async () => (await v.text("#state")).startsWith("live"));
	await new Promise((done) => setTimeout(done, 500));
	assert.equal(asked(), before);
	mock.policyState = "put_back";
	mock.tick();
	await says("Put back by its guard: net.ipv4.tcp_swift: throughput 18.2 % less (standard error 3.1 %, n=12), and 5 % less is allowed; in force is 2026-11-03.1 by net-eng@example.com");
	assert.equal(asked(), before + 1);
	assert.deepEqual((await rows()).slice(0, 2).map((r) => [r[1], r[2]]), [["in force", "2026-11-03.1"], ["put back", "2026-11-24.2"]]);
	mock.policyState = "expired";
	mock.tick();
	await says("Expired: it expired at 2023-11-14T22:10:00Z; targets are as they were before any policy");
	assert.equal(await v.count("#policy-facts, tr[data-target]"), 0);
	mock.policyState = "refused";
	mock.tick();
	await says("The file is refused: /etc/tcp_swift/policy.toml:7: target.base_target_ns: '9' (allowed: 1000 to 1000000000); in force is 2026-11-24.2 by net-eng@example.com");
	assert.deepEqual((await rows())[0].slice(1, 4), ["refused", "\u2013", "\u2013"]);
	mock.empty = true;
	mock.tick();
	await says("No policy: policy.file names none");
	await until("what to do", async () => (await v.text("#policy")).includes("This host has no policy."));
	assert.match(await v.text("#policy-history"), /Nothing has happened yet/);
	assert.match(await v.text("#tune-state"), /swiftd does not tune/);
	await v.close();
});

mocked("tuning: a tab that nobody sees asks for nothing, and is told all when it is seen again", async (base, mock) => {
	const v = await View.open(base, "#/tuning");
	await v.page.locator("#policy-state").waitFor();
	await v.state("live");
	await v.hide();
	await until("the stream's end", () => mock.streams.size === 0);
	const before = mock.requests.length;
	mock.policyState = "expired";
	mock.tick(5);
	await new Promise((done) => setTimeout(done, 2500));
	assert.deepEqual(mock.requests.slice(before), []);
	await v.hide(false);
	await until("what has happened", async () => (await v.text("#policy-state")).includes("it expired at"));
	// Nor does another page.
	await v.go("#/config");
	await v.page.locator("#config").waitFor();
	const left = mock.requests.filter((r) => r === "/api/v1/policy").length;
	mock.policyState = "in_force";
	mock.tick();
	await new Promise((done) => setTimeout(done, 500));
	assert.equal(mock.requests.filter((r) => r === "/api/v1/policy").length, left);
	await v.close();
});

mocked("tuning: narrow and wide, light and dark, by keyboard", async (base, mock) => {
	mock.policyState = "put_back";
	for (const [width, colorScheme] of [[360, "light"], [360, "dark"], [1400, "light"], [1400, "dark"]]) {
		const v = await View.open(base, "#/tuning", { width, height: width === 360 ? 740 : 1000, colorScheme });
		await v.page.locator("tr[data-tune-event]").first().waitFor();
		assert.ok((await v.page.evaluate(() => document.documentElement.scrollWidth)) <= width, `${width}: the page is as wide as the screen`);
		assert.deepEqual(await sticksOut(v, width < 1000), []);
		const reached = [];
		await v.page.locator(".skip").focus();
		for (let i = 0; i < 12 && reached.at(-1)?.what !== "Steps of the tuning"; i++) {
			await v.page.keyboard.press("Tab");
			reached.push(await v.page.evaluate(() => {
				const e = document.activeElement, r = e.getBoundingClientRect();
				return { what: e.getAttribute("aria-label") ?? e.textContent, inside: r.right > 0 && r.left < innerWidth && r.bottom > 0 && r.top < innerHeight, outlined: getComputedStyle(e).outlineStyle !== "none" };
			}));
		}
		for (const at of reached)
			assert.ok(at.inside && at.outlined, JSON.stringify(at));
		for (const what of ["Tuning", "Targets of the policy", "Policy history", "Steps of the tuning"])
			assert.ok(reached.some((r) => r.what === what), `${what} in ${JSON.stringify(reached.map((r) => r.what))}`);
		await v.page.locator("#theme").focus();
		await v.picture(`tuning-${width}-${colorScheme}`);
		await v.close();
	}
});

mocked("nothing jumps while numbers change", async (base, mock) => {
	const v = await View.open(base);
	mock.beat();
	await v.state("live");
	await v.page.locator("#slowest tr[data-flow]").first().waitFor();
	await v.page.evaluate(() => {
		window.shifts = [];
		// Bars and dots move with what they show, figures grow to the left, rows change places
		// when one is worse.
		const mayMove = ".split *, svg *, data, tbody *, #verdict *";
		const say = (node) => (node.nodeType === Node.TEXT_NODE ? node.parentElement : node);
		new PerformanceObserver((list) => {
			for (const source of list.getEntries().flatMap((e) => e.sources))
				if (source.node && !say(source.node).matches(mayMove))
					window.shifts.push(say(source.node).outerHTML.slice(0, 200));
		}).observe({ type: "layout-shift", buffered: false });
	});
	const heights = () => v.page.evaluate(() => [...document.querySelectorAll(".panel, .facts > div, #destinations th")].map((e) => { const r = e.getBoundingClientRect(); return [r.x, r.y, r.width, r.height].map(Math.round).join(); }));
	const before = await heights();
	const until_tick = mock.now + 60;
	await until("many intervals", () => mock.now > until_tick);
	assert.deepEqual(await heights(), before);
	assert.deepEqual(await v.page.evaluate(() => window.shifts), []);
	await v.close();
});

mocked("destinations change places only when one has become clearly worse", async (base, mock) => {
	let factor = 1;
	const summary = mock.summary.bind(mock);
	mock.summary = (history) => {
		const s = summary(history);
		for (const r of s.prefixes)
			if (r.dst_prefix === "10.0.0.0/24")
				Object.assign(r.verdict, { limit: "host", host_ns: Math.round(100000 * factor), fabric_ns: 0 });
			else if (r.dst_prefix === "10.0.1.0/24")
				Object.assign(r.verdict, { limit: "fabric", fabric_ns: 100500, host_ns: 0 });
		return s;
	};
	const v = await View.open(base);
	await v.state("live");
	const order = async () => (await v.attributes("#destinations tr[data-prefix]", "data-prefix")).map((k) => k.split("|")[0]).slice(0, 2);
	const shown = async (f) => {
		factor = f;
		mock.tick();
		await until("new numbers", async () => (await v.numbers("#total-rate"))[0][0] === mock.summary().totals.rate_bps);
	};
	assert.deepEqual(await order(), ["10.0.1.0/24", "10.0.0.0/24"]);
	await shown(1.05);
	assert.deepEqual(await order(), ["10.0.1.0/24", "10.0.0.0/24"]);
	await shown(1.5);
	assert.deepEqual(await order(), ["10.0.0.0/24", "10.0.1.0/24"]);
	// What one looks at stays, and so stay the charts.
	assert.deepEqual(await v.attributes("#destinations tr.chosen", "data-prefix"), ["10.0.1.0/24|swift|eth0"]);
	await v.close();
});

mocked("a history of an hour is drawn whole", async (base, mock) => {
	Object.assign(mock, { step: 12, now: 3000 }); // 251 points of 300
	const v = await View.open(base);
	await v.page.locator("#history canvas").first().waitFor();
	await until("a line over five sixths of the chart", async () => {
		const share = await v.page.locator("#history canvas").first().evaluate((c) => {
			const { data } = c.getContext("2d").getImageData(0, 0, c.width, c.height), seen = new Set();
			for (let i = 0; i < data.length; i += 4)
				if (Math.abs(data[i] - 0x2f) + Math.abs(data[i + 1] - 0x74) + Math.abs(data[i + 2] - 0xd0) < 40 && data[i + 3] > 200)
					seen.add((i / 4) % c.width);
			return seen.size / (c.width - 74); // without the axis
		});
		return share > 0.7 && share < 0.95;
	});
	await v.close();
});

// Columns of a chart in which there is fabric's blue, as shares of what is drawn on.
const blue = (v, chart = 0) => v.page.locator("#history canvas").nth(chart).evaluate((c) => {
	const { data } = c.getContext("2d").getImageData(0, 0, c.width, c.height), seen = new Set();
	for (let i = 0; i < data.length; i += 4)
		if (Math.abs(data[i] - 0x2f) + Math.abs(data[i + 1] - 0x74) + Math.abs(data[i + 2] - 0xd0) < 40 && data[i + 3] > 200)
			seen.add((i / 4) % c.width);
	return [...seen].sort((a, b) => a - b).map((x) => (x - 66) / (c.width - 74));
});

mocked("points that are further apart, as swiftd has stretched its interval, are joined; a gap is one", async (base, mock) => {
	const [flow] = mock.flows(), widest = (at) => Math.max(...at.map((x, i) => x - (at[i - 1] ?? x)));
	Object.assign(mock, { stretch: 5, interval_ms: 5000 });
	for (const hash of ["#/", `#/flow/${flow.id}`]) {
		const v = await View.open(base, hash);
		await v.page.locator("#history canvas").first().waitFor();
		await until(`${hash}: a line`, async () => (await blue(v)).length > 300);
		assert.ok(widest(await blue(v)) < 0.02, hash);
		await v.picture(`stretched-${hash.split("/")[1] || "overview"}`);
		await v.close();
	}
	Object.assign(mock, { stretch: 1, interval_ms: 1000 });
	const since = mock.now - 100;
	mock.time_s = (tick = mock.now) => mock.start_s + tick + (tick > since ? 60 : 0);
	const v = await View.open(base);
	await v.page.locator("#history canvas").first().waitFor();
	await until("a gap of a minute of five", async () => Math.abs(widest(await blue(v)) - 0.2) < 0.02);
	await v.close();
});

mocked("what is beyond max_prefixes is one row, and asks for no prefix", async (base, mock) => {
	const summary = mock.summary.bind(mock);
	mock.summary = (history) => {
		const s = summary(history);
		s.prefixes = s.prefixes.filter((r) => r.dst_prefix === "10.0.1.0/24").map((r) => ({ ...r, dst_prefix: "other" }));
		return s;
	};
	const v = await View.open(base);
	await v.page.locator("tr[data-prefix^=other]").waitFor();
	await v.page.locator("#clocks").waitFor();
	assert.equal(await v.count("#slowest, #windows"), 0);
	await v.go("#/flows");
	await v.page.locator("#flows tr[data-flow]").first().waitFor();
	assert.deepEqual(await v.attributes("select[name=prefix] option", "value"), [""]);
	assert.deepEqual(mock.requests.filter((r) => r.includes("other")), []);
	await v.close();
});

mocked("a server that wants a token gets it", async (base, mock) => {
	mock.token = "s3cret";
	const v = await View.open(base);
	await v.page.locator("#banner input[name=token]").fill("s3cret");
	await v.page.keyboard.press("Enter");
	await until("a stream with it", () => mock.streams.size === 1);
	mock.tick();
	await v.state("live");
	await v.close();
});

mocked("without the token only the banner says so: no flow is called ended", async (base, mock) => {
	mock.token = "s3cret";
	const path = `flows/${mock.flows()[0].id}`, hash = path.replace("flows", "#/flow");
	const v = await View.open(base);
	for (const [page, asks] of [["#/config", "config"], ["#/tuning", "policy"], [hash, path]]) {
		await v.go(page);
		await until(`${page} asks`, () => mock.requests.includes(`/api/v1/${asks}`));
		await until("the next poll", ((before) => () => mock.requests.length > before + 1)(mock.requests.length));
		assert.equal(await v.text("#main"), "", page);
	}
	await v.page.locator("#banner input[name=token]").fill("s3cret");
	await v.page.keyboard.press("Enter");
	await v.page.locator("#numbers").waitFor();
	await v.close();
});

mocked("configuration: an answer that fails is told and asked for again; what SIGHUP changes comes", async (base, mock) => {
	mock.refused["/api/v1/config"] = "too many wait";
	const v = await View.open(base, "#/config");
	await v.state("live");
	await until("the error", async () => (await v.text("#config")).includes("too many wait"));
	mock.refused = {};
	mock.tick();
	await v.page.locator("#config tr[data-option]").first().waitFor();
	assert.ok(!(await v.text("#config")).includes("too many wait"));
	const asked = () => mock.requests.filter((r) => r === "/api/v1/config").length, before = asked();
	mock.interval_s = 2; // its clock jumps, too
	for (let i = 0; i < 3; i++)
		mock.tick(4);
	await until("the new value", async () => (await v.text("tr[data-option='collect.interval_s']")).split("\t")[1] === "2");
	assert.ok(asked() - before <= 3, `${asked() - before}`);
	await v.close();
});

mocked("many destinations: the list scrolls, the page does not grow", async (base, mock) => {
	mock.summary = ((original) => (history) => {
		const s = original(history);
		s.prefixes = Array.from({ length: 256 }, (_, i) => ({ ...s.prefixes[i % 5], dst_prefix: `10.${100 + (i >> 8)}.${i}.0/24` }));
		return s;
	})(mock.summary.bind(mock));
	const v = await View.open(base);
	await until("all rows", async () => (await v.count("#destinations tr[data-prefix]")) === 256);
	assert.ok((await v.page.locator("#destinations").boundingBox()).height < 450);
	await v.close();
});

// --- what is built into programs

mocked("the embedded files are the bundle's, and a build without has none", async (base) => {
	const program = join(out, "assets/assets");
	const listed = execFileSync(program, { encoding: "utf8" }).trim().split("\n").map((l) => l.split("\t"));
	assert.deepEqual(listed.map(([path]) => path), ["/index.html", "/app.js", "/app.css", "/favicon.svg"]);
	for (const [path, type] of listed) {
		assert.ok(execFileSync(program, [path], { maxBuffer: 1 << 26 }).equals(readFileSync(join(dist, path))), path);
		assert.equal((await fetch(base + path)).headers.get("content-type"), type);
	}
	assert.equal(execFileSync(join(out, "assets/no_assets"), { encoding: "utf8" }), "");
	assert.equal(execFileSync(join(out, "assets/no_assets"), ["--report"], { input: "{}", encoding: "utf8" }), "");
});

mocked("without npm a build stops with one line, and goes on when told to do without", async () => {
	const configure = (...more) => {
		const dir = mkdtempSync(join(tmpdir(), "swift-web-"));
		const tools = join(dir, "tools");
		mkdirSync(tools);
		for (const tool of ["cmake", "ninja", "g++", "as", "ld"])
			symlinkSync(execFileSync("which", [tool], { encoding: "utf8" }).trim(), join(tools, tool));
		try {
			const args = ["-S", here, "-B", join(dir, "build"), "-G", "Ninja", "-DCMAKE_FIND_USE_CMAKE_SYSTEM_PATH=OFF", "-DCMAKE_CXX_COMPILER=g++", ...more];
			return spawnSync(join(tools, "cmake"), args, { env: { PATH: tools }, encoding: "utf8" });
		} finally {
			rmSync(dir, { recursive: true });
		}
	};
	const without = configure();
	assert.notEqual(without.status, 0);
	assert.match(without.stderr.replace(/\s+/g, " "), /swiftd's dashboard needs node >= 18 and npm \(scripts\/setup web\); -DSWIFT_WEB=OFF builds without it/);
	const off = configure("-DSWIFT_WEB=OFF");
	assert.equal(off.status, 0, off.stderr);
});

// The page that `swiftctl report` writes, opened from a file.
async function openReport(name, result) {
	const file = join(pictures, `report-${name}.html`);
	writeFileSync(file, execFileSync(join(out, "assets/assets"), ["--report"], { input: JSON.stringify(result), maxBuffer: 1 << 26 }));
	return View.open(`file://${resolve(pictures)}`, `report-${name}.html`, { width: 1000 });
}

const nasty = `</script><script>window.owned=1</script><img src=x onerror="window.owned=1"><!--`;
const run = (cc, goodput, p, more = {}) => ({ cc, n: 3, goodput_bps: goodput, rtt_ns: { avg: p[0], p50: p[0], p99: p[1], p999: p[2] }, loss_ratio: 0.001, jain: 0.98, ...more });

mocked("report: an A/B test's, with confidence intervals, splits and a verdict", async () => {
	const ci = (median, d) => ({ median, ci95: [median - d, median + d] });
	const v = await openReport("ab", {
		version: 1, title: "swift against cubic", kernel: "6.12", verdict: "swift: p99 RTT 14 times lower (95 % CI 12 to 16), at 1 % less goodput",
		runs: [
			{ ...run("swift", ci(9.4e9, 1e8), [0, 0, 0]), n: 20, rtt_ns: { p50: ci(84000, 2000), p99: ci(140000, 9000), p999: ci(190000, 30000) }, fabric_ns: ci(52000, 900), host_ns: ci(31000, 700) },
			{ ...run("cubic", ci(9.5e9, 2e8), [0, 0, 0]), n: 20, rtt_ns: { p50: ci(1200000, 30000), p99: ci(1960000, 90000), p999: ci(2400000, 300000) }, verdict: nasty },
		],
	});
	assert.match(await v.text(".verdict"), /14 times lower/);
	const asked = await openReport("answers", {
		schema: 1, kind: "ab", title: "answers", runs: [], summary: [{ cc: "swift", n: 10, failed: 0, metrics: {
			goodput_bps: ci(1e9, 1e7), rr_per_s: ci(12000, 100), "rr_ns.p50": ci(80000, 1000), "rr_ns.p90": ci(90000, 1000), "rr_ns.p99": ci(120000, 2000), "rr_ns.p999": ci(300000, 9000) } }],
	});
	assert.deepEqual(await asked.numbers("tr[data-row]"), [[1e9, 12000, 80000, 90000, 120000, 300000]]);
	assert.equal(await asked.count("svg[aria-label='From question to answer'] .whisker"), 3);
	assert.equal(await asked.count("svg[aria-label='Round-trip times']"), 0);
	await everyTextIsItsValue(asked);
	await asked.picture("report-answers");
	await asked.close();
	assert.deepEqual(await v.numbers("tr[data-row]"), [[9.4e9, 84000, 140000, 190000, 52000, 31000, 0.001, 0.98], [9.5e9, 1200000, 1960000, 2400000, null, null, 0.001, 0.98]]);
	assert.match(await v.text("#report"), /95 % confidence interval/);
	assert.equal(await v.count("svg[aria-label=Goodput] .whisker"), 2);
	assert.equal(await v.count("svg[aria-label='Round-trip times'] .whisker"), 6);
	assert.equal(await v.count("svg[aria-label='Fabric and host delay'] rect"), 2);
	assert.ok((await v.page.locator("#report").textContent()).includes(nasty));
	assert.equal(await v.page.evaluate(() => window.owned), undefined);
	assert.equal(await v.count("img"), 0);
	await everyTextIsItsValue(v);
	await v.picture("report-ab");
	await v.close();
});

mocked("report: the demo's, with its spread beside, and both bottlenecks", async () => {
	const flows = (fabric_ns, endpoint_ns) => ({ goodput_bps: 9e7, flows: [{ flow: "s1:1", fabric_ns, endpoint_ns }, { flow: nasty, fabric_ns: 2 * fabric_ns, endpoint_ns }] });
	const v = await openReport("demo", {
		schema: 1, kernel: nasty, splits: { fabric: flows(3e6, 2e5), host: flows(2e5, 5e6) },
		runs: [run("swift", 95e6, [3e6, 6e6, 9e6], { spread: { goodput_bps: { min: 94e6, max: 96e6 }, rtt_p99_ns: { min: 5e6, max: 7e6 } }, parameters: { rate_bps: 1e8 } }), run(nasty, 97e6, [15e6, 19e6, 21e6])],
	});
	assert.deepEqual(await v.numbers("tr[data-row]"), [[95e6, 3e6, 3e6, 6e6, 9e6, 0.001, 0.98], [97e6, 15e6, 15e6, 19e6, 21e6, 0.001, 0.98]]);
	assert.equal(await v.count("svg[aria-label=Goodput] .whisker"), 1);
	assert.equal(await v.count("svg[aria-label=fabric] rect, svg[aria-label=host] rect"), 8);
	assert.match(await v.text("tr[data-row=swift]"), /5.00 ms to 7.00 ms/);
	assert.match(await v.page.locator("pre").textContent(), /"rate_bps": 100000000/);
	assert.equal(await v.page.evaluate(() => window.owned), undefined);
	await v.close();
});

mocked("report: the lab's, by its summary, and seeds without one", async () => {
	const metric = (median, min, max) => ({ median, min, max });
	const v = await openReport("lab", { version: 1, experiments: [
		{ title: "incast", question: "how long?", runs: [run("swift", 1, [1, 1, 1])], summary: [{ cc: "swift", case: "16", seeds: 3, metrics: { goodput_bps: metric(98e9, 97e9, 99e9), "rtt_ns.p99": metric(53000, 50000, 55000), "law.fabric_ns.p50": metric(41000, 1, 2), "law.endpoint_ns.p50": metric(900, 1, 2) } }] },
		{ title: "seeds", runs: [run("swift", 1e9, [1e4, 2e4, 3e4]), run("swift", 3e9, [1e4, 2e4, 3e4]), run("swift", 2e9, [1e4, 2e4, 3e4])] },
		{ title: "nothing", runs: [] },
	] });
	assert.deepEqual(await v.page.locator("h1").allInnerTexts(), ["incast", "seeds"]);
	assert.deepEqual(await v.numbers("tr[data-row]"), [[98e9, 53000, 41000, 900], [2e9, 1e4, 1e4, 2e4, 3e4, 0.001, 0.98]]);
	assert.match(await v.text("tr[data-row='swift, 16']"), /97.0 Gb\/s to 99.0 Gb\/s/);
	assert.match(await v.text("tr[data-row=swift]"), /1.00 Gb\/s to 3.00 Gb\/s/);
	await v.close();
	// What went wrong, as the text has it.
	const wrong = await openReport("wrong", { experiments: [
		{ title: "incast", expectations: [{ verdict: "no", what: "no loss at 16 to 1" }, { verdict: "yes", what: "p99 below 60 us" }], failed: [{ cc: "cubic", block: 3, reason: nasty }],
			summary: [{ cc: "swift", n: 3, failed: 2, metrics: { goodput_bps: metric(98e9, 97e9, 99e9), retransmits: metric(12, 0, 31) } }, { cc: "cubic", n: 4, failed: 0, metrics: { goodput_bps: metric(99e9, 97e9, 99e9), "counters.retrans": metric(4e6, 3e6, 5e6) } }] },
		{ title: "all failed", runs: [], failed: [{ cc: "swift", block: 1, reason: "no connection" }] },
	] });
	assert.deepEqual(await wrong.page.locator(".verdict").allInnerTexts(), ["no: no loss at 16 to 1", "yes: p99 below 60 us"]);
	assert.deepEqual(await wrong.page.locator(".lead p:not(.verdict)").allInnerTexts(), [`left out: cubic, block 3: ${nasty}`, "left out: swift, block 1: no connection"]);
	assert.deepEqual(await wrong.page.locator("tr[data-row] td:nth-child(2)").allInnerTexts(), ["3 (2 failed)", "4"]);
	assert.deepEqual(await wrong.page.locator("thead th").allInnerTexts(), ["", "n", "goodput", "retransmits"]);
	assert.deepEqual(await wrong.numbers("tr[data-row]"), [[98e9, 12], [99e9, 4e6]]);
	assert.equal(await wrong.page.evaluate(() => window.owned), undefined);
	await wrong.picture("report-wrong");
	await wrong.close();
	const none = await openReport("none", { runs: "7" });
	assert.match(await none.text("#report"), /no result in it/);
	await none.close();
});

// --- run them

const chosen = given ? tests.filter((t) => t.everywhere) : tests;
const filter = process.env.ONLY; // a part of a name, while working on one
let number = 0, failed = 0;
console.log("TAP version 13");
for (const { name, run: test } of chosen.filter((t) => !filter || t.name.includes(filter))) {
	const mock = given ? null : new Mock();
	const base = given ?? (await mock.start());
	const contexts = new Set(browser.contexts());
	const began = Date.now();
	let why = "";
	try {
		await test(base, mock);
	} catch (error) {
		why = String(error.stack ?? error);
		for (const context of browser.contexts().filter((c) => !contexts.has(c)))
			for (const page of context.pages())
				await page.screenshot({ path: join(pictures, `failed-${number + 1}.png`), fullPage: true }).catch(() => {});
	}
	for (const context of browser.contexts())
		await context.close();
	await mock?.stop();
	console.log(`${why ? "not ok" : "ok"} ${++number} - ${name}`);
	if (process.env.TIMES)
		console.log(`# ${Date.now() - began} ms`);
	if (why) {
		failed++;
		console.log(why.split("\n").slice(0, 40).map((l) => `# ${l}`).join("\n"));
	}
}
console.log(`1..${number}`);
await browser.close();
process.exit(failed ? 1 : 0);
