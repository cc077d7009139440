// SPDX-License-Identifier: MIT
// Bundles the dashboard (index.html, app.js, app.css, favicon.svg) and the report (one
// html file with all in it) into OUT/dist. Run by ./build, which installs OUT/npm before.
import { createHash } from "node:crypto";
import { cp, mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";

const out = process.argv[2];
const esbuild = createRequire(join(out, "npm/package.json"))("esbuild");
const fresh = join(out, "dist.new");
const options = {
	bundle: true,
	minify: true,
	format: "iife",
	target: ["chrome100", "firefox100", "safari15.4"],
	legalComments: "none",
	logLevel: "error",
	// The style sheet of a dependency is on no tsconfig path.
	nodePaths: [join(out, "npm/node_modules")],
};

await rm(fresh, { recursive: true, force: true });
await mkdir(fresh, { recursive: true });
await esbuild.build({ ...options, entryPoints: { app: "src/app.tsx" }, outdir: fresh });
await cp("src/index.html", join(fresh, "index.html"));
await cp("src/favicon.svg", join(fresh, "favicon.svg"));

// The report stands alone and is opened from a file, so its policy travels in the page:
// this script and this style, nothing else, from nowhere.
const report = await esbuild.build({
	...options,
	entryPoints: { report: "report/report.tsx" },
	outdir: fresh,
	write: false,
});
const text = (end) => report.outputFiles.find((f) => f.path.endsWith(end)).text.trim();
const script = text(".js").replaceAll("</script", "<\\/script");
const style = text(".css");
const hash = (s) => `'sha256-${createHash("sha256").update(s).digest("base64")}'`;
const parts = {
	POLICY: `default-src 'none'; script-src ${hash(script)}; style-src ${hash(style)}; base-uri 'none'; form-action 'none'`,
	STYLE: style,
	SCRIPT: script,
};
const page = (await readFile("report/report.html", "utf8")).replace(/\{\{(\w+)\}\}/g, (_, name) => parts[name]);
await writeFile(join(fresh, "report.html"), page);

await rm(join(out, "dist"), { recursive: true, force: true });
await rename(fresh, join(out, "dist"));
