// SPDX-License-Identifier: MIT
#include "policing.h"
#include "text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace swift {

namespace {

constexpr std::size_t longest_reason = 1000;

GuardOptions guard_options(const PolicyGuardRules &rules)
{
	GuardOptions o;

	o.throughput = rules.throughput;
	o.tail = rules.tail;
	return o;
}

// What the unit as it is shipped does not allow.
std::string refusal_text(const Error &e)
{
	if (e.code != EROFS && e.code != EACCES)
		return e.text();
	return e.text() + "; swiftd's unit has to allow it: ProtectKernelTunables=no, in a drop-in such as "
			  "swiftd-tune.conf (see swiftd.md, Policy)";
}

std::string named(const Policy &p)
{
	return fmt::format("{} by {}", p.version, p.author);
}

// Of PolicyRecord's ended_by.
std::string ended_event(const std::string &by)
{
	return by == "guard" ? "put_back" : by == "expiry" ? "expired" : "withdrawn";
}

} // namespace

Policing::Policing(Files &files, MakePlace make_place, std::string netns, const Config &config)
	: files_(files), make_place_(std::move(make_place)), netns_(std::move(netns)), config_(config.policy),
	  ccs_(config.collect.ccs)
{
}

void Policing::enter(const std::string &state, const std::string &reason)
{
	row_.state = state;
	row_.reason = reason;
}

// Told once, however often it is met. @of: whose it is, if that is known; @event: if it is not called as @state.
void Policing::trouble(const std::string &state, const std::string &reason, const Policy *of,
		       const std::string &event)
{
	if (row_.reason != reason) {
		spdlog::warn("policy: {}", reason);
		note(event.empty() ? state : event, of, reason);
	}
	enter(state, reason);
}

void Policing::note(const std::string &event, const Policy *of, const std::string &reason)
{
	const bool fits = reason.size() <= longest_reason; // which may quote the file
	PolicyRow::Past past{time_s_, event, of ? of->version : "", of ? of->author : "",
			     fits ? reason : reason.substr(0, longest_reason) + "..."};

	row_.events.push_back(std::move(past));
	if (row_.events.size() > PolicyRow::most_events)
		row_.events.pop_front();
}

// What was before this swiftd, and so before anything that it has met.
void Policing::remember()
{
	const PolicyRecord &record = run_->record();

	if (std::exchange(remembered_, true))
		return;
	if (!record.ended.empty()) {
		const auto ended = parse_policy(record.ended, 0);

		note(ended_event(record.ended_by), ended.policy ? &*ended.policy : nullptr, record.ended_why);
		row_.events.back().time_s = record.ended_s;
	}
	if (run_->policy()) {
		note("in_force", &*run_->policy(), "");
		row_.events.back().time_s = record.since_s;
	}
	std::stable_sort(row_.events.begin(), row_.events.end(),
			 [](const auto &a, const auto &b) { return a.time_s < b.time_s; });
}

void Policing::show()
{
	const auto &policy = run_ ? run_->policy() : std::nullopt;

	row_.version = policy ? policy->version : "";
	row_.author = policy ? policy->author : "";
	row_.expires_s = policy ? policy->expires_s : 0;
	row_.since_s = policy ? run_->record().since_s : 0;
	row_.targets = policy ? run_->scopes().size() : 0;
	row_.set = policy ? run_->targets() : std::vector<PolicySetting>();
	row_.guard = !policy ? "" : guard_ ? std::string(guard_state_text(guard_->state())) : "off";
}

// What is in force is watched from here on.
void Policing::in_force()
{
	const auto &policy = run_->policy();
	std::vector<std::string> names;

	guard_.reset();
	scopes_ = run_->scopes();
	unchecked_s_ = 0;
	if (!policy)
		return;
	for (const auto &scope : scopes_)
		names.push_back(scope.name);
	if (policy->guard.enabled && !scopes_.empty())
		guard_.emplace(guard_options(policy->guard), std::move(names), run_->record().acquitted);
	if (const auto lost = run_->lost(); !lost.empty()) {
		const std::string reason = fmt::format("{}", fmt::join(lost, "; "));

		if (scopes_.empty())
			trouble("overridden", reason, &*policy);
		else
			note("overridden", &*policy, reason);
	}
}

Result<void> Policing::begin()
{
	if (run_ || (config_.file.empty() && !files_.exists(policy_record_path(netns_))))
		return {};
	ASSIGN_OR_RETURN(run_, PolicyRun::begin(files_, make_place_, netns_, true));
	remember();
	if (run_->policy())
		spdlog::info("policy: {} is in force still", named(*run_->policy()));
	in_force();
	return {};
}

void Policing::load()
{
	const bool asked = std::exchange(reloaded_, false);

	rest_s_.reset();
	if (auto ok = begin(); !ok) {
		trouble("unavailable", refusal_text(ok.error()));
		rest_s_ = retry_s;
		return;
	}
	if (!run_)
		return enter("off", "");

	auto text = config_.file.empty() ? Result<std::string>(std::string()) :
					   files_.read_file(config_.file);

	if (config_.file.empty() || (!text && text.error().code == ENOENT)) {
		if (run_->policy())
			return end("withdrawal",
				   config_.file.empty() ? "policy.file names none" :
							  config_.file + " is gone",
				   true);
		if (config_.file.empty())
			run_.reset();
		return enter("off", config_.file.empty() ? "" : config_.file + " is not there");
	}
	if (!text)
		return trouble("refused", text.error().text());

	const PolicyRecord &record = run_->record();

	if (*text == record.current && (run_->lost().empty() || !asked)) {
		if (row_.state != "overridden")
			enter("in_force", "");
		return;
	}
	if (*text == record.ended && record.ended_by != "withdrawal")
		return enter(record.ended_by == "expiry" ? "expired" : "put_back", record.ended_why);
	take(*text);
}

void Policing::take(const std::string &text)
{
	const auto read = parse_policy(text, static_cast<std::int64_t>(time_s_));

	if (!read.policy)
		return trouble("refused", read.error.text(config_.file));

	const Policy &policy = *read.policy;
	const auto collected = [&](const std::string &cc) {
		return std::any_of(ccs_.begin(), ccs_.end(),
				   [&](const std::string &c) { return c == cc || c == "*"; });
	};

	for (const PolicyRule &rule : policy.rules)
		if (policy.guard.enabled && !collected(rule.cc()))
			return trouble(
				"refused",
				fmt::format(
					"{}:{}: the guard would not see the flows of this target: collect.ccs has to "
					"contain \"{}\" or \"*\"",
					config_.file, rule.line, rule.cc()),
				&policy);
	if (guard_ && guard_->old_in_force())
		turn(false);
	if (auto ok = run_->apply(text, policy, time_s_); !ok) {
		trouble("refused", fmt::format("{}: {}", config_.file, refusal_text(ok.error())), &policy);
		rest_s_ = retry_s;
		return;
	}
	enter("in_force", "");
	note("in_force", &policy, "");
	in_force();
	spdlog::info("policy: {} is in force: {} target{}, until {}", named(policy), scopes_.size(),
		     scopes_.size() == 1 ? "" : "s", utc_text(policy.expires_s));
}

void Policing::end(const std::string &by, const std::string &why, bool to_base)
{
	const Policy policy = *run_->policy();
	const std::string name = named(policy);

	if (auto ok = run_->end(by, why, time_s_, to_base); !ok)
		return trouble(row_.state,
			       fmt::format("{} cannot be taken back, and will be: {}", name,
					   refusal_text(ok.error())),
			       &policy, "failed");
	row_.ended[by]++;
	note(ended_event(by), &policy, why);
	if (run_->policy())
		note("in_force", &*run_->policy(), "again, after " + policy.version);
	spdlog::warn("policy: {} is taken back: {}: {}; {}", name, by, why,
		     run_->policy() ? "in force again is " + named(*run_->policy()) :
				      "targets are as before");
	enter(by == "withdrawal" ? "off" : ended_event(by), why);
	in_force();
}

void Policing::turn(bool old)
{
	if (auto ok = run_->turn(old); !ok) {
		trouble(row_.state,
			"the guard cannot set targets, and judges no more: " + refusal_text(ok.error()),
			&*run_->policy(), "failed");
		guard_.reset();
		(void)!run_->turn(false);
	}
	look_for_others();
}

void Policing::look_for_others()
{
	unchecked_s_ = 0;
	if (run_->scopes().size() == scopes_.size())
		return;
	for (const std::string &lost : run_->lost())
		spdlog::warn("policy: {}: it stays so", lost);
	if (guard_ && guard_->old_in_force())
		(void)!run_->turn(false);
	in_force();
}

void Policing::guard(const FlowSet &set)
{
	const GuardStep step = guard_->observe(observe_scopes(set, scopes_));

	if (!step.reason.empty() && !step.put_back) {
		spdlog::info("policy: guard: {}", step.reason);
		note(step.acquitted ? "acquitted" : "trial", &*run_->policy(), step.reason);
	}
	if (step.put_back) {
		convicted_ = step.reason;
		return end("guard", convicted_, false);
	}
	if (step.acquitted) {
		if (auto ok = run_->acquit(); !ok)
			spdlog::warn("policy: {}", ok.error().text());
	}
	if (step.old)
		turn(*step.old);
	if (guard_ && row_.state == "in_force")
		row_.reason = guard_->state() == GuardState::trying ? guard_->text() : "";
}

void Policing::keep(const FlowSet *set, double interval_s)
{
	const bool rested = rest_s_ && (*rest_s_ -= interval_s) <= 0;

	if (rested || reloaded_)
		load();
	if (!run_ || !run_->policy())
		return;
	if (static_cast<double>(run_->policy()->expires_s) <= time_s_)
		return end("expiry", "it expired at " + utc_text(run_->policy()->expires_s), true);
	unchecked_s_ += interval_s;
	if (unchecked_s_ >= check_s && !(guard_ && guard_->old_in_force())) {
		run_->check();
		look_for_others();
	}
	if (guard_ && guard_->state() == GuardState::ended) // it could not be taken back then
		return end("guard", convicted_, false);
	if (!guard_)
		return;
	if (set)
		return guard(*set);
	if (const GuardStep step = guard_->cannot_look(); step.old)
		turn(*step.old);
}

void Policing::observe(const FlowSet &set, double time_s)
{
	time_s_ = time_s;
	keep(&set, set.interval_s);
	show();
}

void Policing::cannot_look(double time_s)
{
	const double waited_s = std::clamp(time_s - time_s_, 0.0, check_s);

	time_s_ = time_s;
	keep(nullptr, waited_s);
	show();
}

void Policing::reconfigure(const Config &config)
{
	config_ = config.policy;
	ccs_ = config.collect.ccs;
	reloaded_ = true;
}

void Policing::leave()
{
	if (!run_)
		return;
	if (guard_ && guard_->old_in_force())
		if (auto ok = run_->turn(false); !ok)
			spdlog::error("policy: {}", ok.error().text());
	run_.reset();
}

} // namespace swift
