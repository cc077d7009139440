// SPDX-License-Identifier: MIT
// Targets that are set for this host: by a policy, with what has become of it so far, and by tuning.
import "./tuning.css";
import type { Policy, PolicyDetail, PolicyEvent, PolicyTarget, Tune } from "./api";
import { useAnswer } from "./asked";
import * as f from "./format";
import { Empty, HeadRow, Num, Panel, useLive, type Column } from "./parts";

const of = (p: { version: string | null; author: string | null }): string => `${p.version} by ${p.author}`;

const guards: Record<string, string> = { trying: "on trial", watching: "watched by its guard", ended: "condemned by its guard", off: "not guarded" };

// What has become of the policy, in a line.
function stateText(p: Policy): string {
	const there = p.version !== null;
	const now = there ? `; in force is ${of(p)}` : "; targets are as they were before any policy";
	const why = p.reason ? `: ${p.reason}` : "";
	switch (p.state) {
	case "off": return `No policy${why || ": policy.file names none"}`;
	case "in_force": return `${of(p)} is in force, ${guards[p.guard ?? "off"]}${why}`;
	case "refused": return `The file is refused${why}${now}`;
	case "put_back": return `Put back by its guard${why}${now}`;
	case "expired": return `Expired${why}${now}`;
	case "overridden": return `Somebody else has set targets of ${there ? of(p) : "the policy"}${why}`;
	case "unavailable": return `No policy can be set${why}`;
	}
}

const mood = (what: string): string =>
	["in_force", "acquitted", "holding"].includes(what) ? "good"
		: ["refused", "put_back", "expired", "overridden", "unavailable", "failed"].includes(what) ? "bad" : "";
const spoken = (what: string): string => what.replaceAll("_", " ");

function StateChip(p: { state: string }) {
	return <span class={`chip ${mood(p.state)}`}>{spoken(p.state)}</span>;
}

const When = (p: { time_s: number }) => <time dateTime={new Date(p.time_s * 1000).toISOString()}>{f.dateTime(p.time_s)}</time>;

function PolicyFacts(p: { policy: Policy; time_s: number }) {
	const { policy: { version, author, since_s, expires_s, guard, targets, ended }, time_s } = p;
	const left_s = expires_s === null ? 0 : expires_s - time_s;
	return (
		<dl class="facts" id="policy-facts">
			<div><dt>version</dt><dd class="wrap">{version ?? f.unknown}</dd></div>
			<div><dt>author</dt><dd class="wrap">{author ?? f.unknown}</dd></div>
			<div><dt>in force since</dt><dd>{since_s === null ? f.unknown : <When time_s={since_s} />}</dd></div>
			<div><dt>expires</dt><dd>{expires_s === null ? f.unknown : <When time_s={expires_s} />}</dd></div>
			<div><dt>in</dt><dd class={left_s < 7 * 86400 ? "warn" : ""}>{expires_s === null ? f.unknown : f.span(Math.max(0, left_s))}</dd></div>
			<div><dt>targets set</dt><dd><Num v={targets} as={f.count} /></dd></div>
			<div><dt>guard</dt><dd>{guard ?? f.unknown}</dd></div>
			<div title="Since swiftd runs"><dt>taken back</dt><dd><Num v={ended.guard + ended.expiry + ended.withdrawal} as={f.count} /></dd></div>
		</dl>
	);
}

const targetColumns: Column[] = [
	{ key: "place", title: "Of", left: true, width: "16rem", help: "The module in this network namespace, or a BPF variant and its destinations" },
	{ key: "tunable", title: "Target", left: true, width: "12rem" },
	{ key: "before", title: "Before", width: "8rem", help: "Before any policy" },
	{ key: "value", title: "Policy's", width: "8rem" },
	{ key: "lost", title: "Now", left: true, width: "auto" },
];

function Targets(p: { rows: PolicyTarget[] }) {
	return (
		<div class="scroll tall" tabIndex={0} role="region" aria-label="Targets of the policy">
			<table class="policy-targets stacks">
				<HeadRow columns={targetColumns} />
				<tbody>
					{p.rows.map((t) => (
						<tr key={`${t.place} ${t.tunable}`} data-target={`${t.place} ${t.tunable}`}>
							<td class="left wrap">{t.place}</td>
							<td class="left"><code>{t.tunable}</code></td>
							<td class="dim">{t.before ?? "the variant's"}</td>
							<td class="changed">{t.value}</td>
							<td class="left wrap">{t.lost === null ? "as the policy has it" : <span class="warn">{t.lost}</span>}</td>
						</tr>
					))}
				</tbody>
			</table>
		</div>
	);
}

const eventColumns: Column[] = [
	{ key: "when", title: "When", left: true, width: "12rem" },
	{ key: "event", title: "What", left: true, width: "7rem" },
	{ key: "version", title: "Version", left: true, width: "10rem" },
	{ key: "author", title: "Author", left: true, width: "12rem" },
	{ key: "reason", title: "Why", left: true, width: "auto" },
];

const ofItself: Partial<Record<PolicyEvent["event"], string>> = { in_force: "the file was read" };

function History(p: { events: PolicyEvent[] }) {
	return (
		<Panel title="Policy history" id="policy-history" note="newest first; since swiftd runs, and how it found the host">
			{p.events.length ? (
				<div class="scroll tall" tabIndex={0} role="region" aria-label="Policy history">
					<table class="policy-events stacks">
						<HeadRow columns={eventColumns} />
						<tbody>
							{[...p.events].reverse().map((e, i) => (
								<tr key={p.events.length - i} data-event={e.event}>
									<td class="left"><When time_s={e.time_s} /></td>
									<td class="left"><StateChip state={e.event} /></td>
									<td class="left wrap">{e.version ?? f.unknown}</td>
									<td class="left wrap">{e.author ?? f.unknown}</td>
									<td class="left wrap">{e.reason || <span class="dim">{ofItself[e.event] ?? ""}</span>}</td>
								</tr>
							))}
						</tbody>
					</table>
				</div>
			) : <Empty title="Nothing has happened yet.">What a policy sets, what its guard puts back, and what expires is told here.</Empty>}
		</Panel>
	);
}

const tuneWords: Record<Tune["state"], string> = {
	off: "swiftd does not tune: tune.enabled is false",
	unavailable: "The target cannot be tuned",
	learning: "It learns this host's paths",
	proposing: "It proposes a base target, and sets none",
	waiting: "It waits for flows that the fabric holds back",
	trying: "It tries another base target, in turns with the last good one",
	holding: "The best base target is found, and held",
	rescuing: "Throughput fell: larger targets are tried",
	failed: "A target could not be set",
};

const tuneColumns: Column[] = [
	{ key: "when", title: "When", left: true, width: "12rem" },
	{ key: "event", title: "What", left: true, width: "7rem" },
	{ key: "from", title: "From", width: "6rem" },
	{ key: "to", title: "To", width: "6rem" },
	{ key: "reason", title: "Why", left: true, width: "auto" },
];

function TunePanel(p: { tune: Tune }) {
	const { state, reason, knob, base_target_ns, proposal_ns, events } = p.tune;
	return (
		<Panel title="Tuning" id="tune" note={knob ? `of ${knob}` : "one host's own search for its base target"}>
			<p id="tune-state"><StateChip state={state} /> {tuneWords[state]}{reason ? `: ${reason}` : ""}</p>
			{base_target_ns !== null || proposal_ns !== null ? (
				<p class="dim">base target <Num v={base_target_ns} as={f.time} />, proposed <Num v={proposal_ns} as={f.time} /></p>
			) : null}
			{events.length ? (
				<div class="scroll tall" tabIndex={0} role="region" aria-label="Steps of the tuning">
					<table class="tune-events stacks">
						<HeadRow columns={tuneColumns} />
						<tbody>
							{[...events].reverse().map((e, i) => (
								<tr key={events.length - i} data-tune-event={e.event}>
									<td class="left"><When time_s={e.time_s} /></td>
									<td class="left">{spoken(e.event)}</td>
									<td><Num v={e.from_ns} as={f.time} /></td>
									<td><Num v={e.to_ns} as={f.time} /></td>
									<td class="left wrap">{e.reason}</td>
								</tr>
							))}
						</tbody>
					</table>
				</div>
			) : null}
		</Panel>
	);
}

export function TuningPage() {
	const { summary: s } = useLive();
	// As the summary tells of something new.
	const { body: detail, error } = useAnswer<PolicyDetail>("/api/v1/policy", JSON.stringify(s?.policy));
	if (!s || (!detail && !error))
		return null;
	return (
		<>
			<Panel title="Policy" id="policy" note="targets that the site gives its hosts">
				{detail ? (
					<>
						<p id="policy-state"><StateChip state={detail.policy.state} /> {stateText(detail.policy)}</p>
						{error ? <p class="warn">{error.message}: this is old</p> : null}
						{detail.policy.version === null ? null : <PolicyFacts policy={detail.policy} time_s={s.time_s} />}
						{detail.targets.length ? <Targets rows={detail.targets} />
							: detail.policy.state === "off" ? <Empty title="This host has no policy."><code>[policy] file</code> of swiftd's configuration names one; <code>swiftctl policy check</code> says whether it is right.</Empty> : null}
					</>
				) : <Empty title="swiftd does not tell of its policy.">{error?.message}</Empty>}
			</Panel>
			{detail ? <History events={detail.events} /> : null}
			<TunePanel tune={s.tune} />
		</>
	);
}
