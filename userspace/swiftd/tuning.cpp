// SPDX-License-Identifier: MIT
#include "tuning.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cerrno>
#include <cmath>

namespace swift {

namespace {

// What the unit as it is shipped does not allow.
std::string refusal_text(const Error &e, const Config::Tune &config)
{
	if (config.knob != "module" || (e.code != EROFS && e.code != EACCES))
		return e.text();
	return e.text() + "; swiftd's unit has to allow it: ProtectKernelTunables=no, in a drop-in such as "
			  "swiftd-tune.conf (see swiftd.md, Tuning)";
}

std::optional<Prefix> prefix_in(const Config::Tune &config)
{
	if (config.prefix.empty())
		return std::nullopt;
	auto prefix = Prefix::parse(config.prefix);

	return prefix ? std::optional(*prefix) : std::nullopt;
}

std::string learning_text(const Config::Tune &config)
{
	return fmt::format("learning the paths for {} s", config.learn_s);
}

} // namespace

TuneOptions tuner_options(const Config::Tune &config)
{
	TuneOptions o;

	o.min_ns = static_cast<std::uint32_t>(std::lround(config.min_us * 1e3));
	o.max_ns = static_cast<std::uint32_t>(std::lround(config.max_us * 1e3));
	o.tolerance = config.tolerance_percent / 100;
	o.step = 1 + config.step_percent / 100;
	o.measure = static_cast<unsigned>(config.measure);
	o.hold_s = static_cast<double>(config.hold_s);
	return o;
}

double knob_patience_s(double interval_s)
{
	return std::min(interval_s / 2, 2.0);
}

Tuning::Tuning(Files &files, MakeKnob make_knob, const Config::Tune &config)
	: files_(files), make_knob_(std::move(make_knob)), config_(config)
{
}

void Tuning::enter(std::string_view state, const std::string &reason)
{
	row_.state = state;
	row_.reason = reason;
}

// Told once, however often it is met.
void Tuning::trouble(std::string_view state, const std::string &reason)
{
	if (row_.reason != reason)
		spdlog::warn("tune: {}", reason);
	enter(state, reason);
	run_.reset();
	rest_s_ = retry_s;
}

void Tuning::note(const std::vector<TuneEvent> &events)
{
	for (const TuneEvent &e : events) {
		spdlog::info("tune: {}: {} base_target_ns {} -> {}: {}", row_.knob, tune_event_text(e.kind), e.from_ns,
			     e.to_ns, e.reason);
		row_.events.push_back({time_s_, e});
		if (row_.events.size() > TuneRow::most_events)
			row_.events.pop_front();
		row_.reason = e.reason;
	}
}

void Tuning::begin()
{
	knob_ = make_knob_(config_);
	row_.knob = knob_->name();
	row_.base_target_ns.reset();
	row_.proposal_ns.reset();
	auto run = TuneRun::begin(files_, *knob_, tuner_options(config_), prefix_in(config_), config_.apply,
				  Keeper::service);

	if (!run)
		return trouble("unavailable", run.error().text());
	run_ = std::move(*run);
	rest_s_.reset();
	learnt_s_ = 0;
	flows_due_s_ = static_cast<double>(config_.learn_s);
	if (!run_->mended().empty())
		spdlog::warn("tune: {}", run_->mended());
	spdlog::info("tune: {}: {} now; learning for {} s", knob_->name(), run_->now().text(), config_.learn_s);
	enter("learning", learning_text(config_));
}

void Tuning::learn(const FlowSet &set, const ReadFlows &read_flows)
{
	run_->learn(set);
	learnt_s_ += set.interval_s;
	if (learnt_s_ < static_cast<double>(config_.learn_s)) {
		if (row_.state != "learning") // nothing could be seen for a while
			enter("learning", learning_text(config_));
		return;
	}
	if (read_flows && learnt_s_ >= flows_due_s_) {
		(void)!read_flows([&](TelemetryFlow &&f) { run_->learn(f); });
		flows_due_s_ = learnt_s_ + flows_every_s;
	}
	auto proposed = run_->proposal();

	if (!proposed)
		return enter("learning", proposed.error().text()); // goes on until there is something
	row_.proposal_ns = proposed->base_target_ns;
	if (!config_.apply) {
		if (row_.state != "proposing")
			spdlog::info("tune: {}: proposal base_target_ns={}: {}", knob_->name(),
				     proposed->base_target_ns, proposed->reason);
		return enter("proposing", proposed->reason);
	}
	auto events = run_->start();

	if (!events)
		return trouble("failed", refusal_text(events.error(), config_));
	enter("waiting", proposed->reason);
	note(*events);
}

void Tuning::walk(const FlowSet &set)
{
	auto events = run_->step(set);

	if (!events) {
		const std::string why = refusal_text(events.error(), config_);

		if (!run_->started())
			return trouble("unavailable", why);
		if (auto last = run_->end("the target could not be set", false))
			note(*last);
		return trouble("failed", why);
	}
	const TuneState state = run_->tuner().state();

	row_.state = tune_state_text(state);
	note(*events);
	if (state == TuneState::waiting && events->empty())
		row_.reason = fmt::format("{} flows, {:.0f} % of them held back by the fabric window",
					  run_->seen().flows, 100 * run_->seen().fabric_limited);
}

void Tuning::observe(const FlowSet &set, const ReadFlows &read_flows, double time_s)
{
	time_s_ = time_s;
	if (!config_.enabled || !(set.interval_s > 0))
		return;
	if (rest_s_) {
		*rest_s_ -= set.interval_s;
		if (*rest_s_ > 0)
			return;
	}
	if (!run_)
		begin();
	if (!run_)
		return;
	if (!run_->started())
		learn(set, read_flows);
	else
		walk(set);
	if (run_)
		row_.base_target_ns = run_->now().base_target_ns;
}

void Tuning::cannot_look(double time_s)
{
	const std::string reason = "the flows cannot be looked at";

	time_s_ = time_s;
	if (!run_)
		return;
	if (run_->started())
		end(reason);
	enter("unavailable", reason);
}

void Tuning::end(const std::string &reason)
{
	if (!run_)
		return;
	if (run_->started()) {
		auto last = run_->end(reason, false);

		if (last) {
			note(*last);
			spdlog::info("tune: {}: kept {}: {}", knob_->name(), run_->now().text(), reason);
		} else {
			spdlog::error("tune: {}: {}", knob_->name(), last.error().text());
		}
	}
	row_.base_target_ns = run_->now().base_target_ns;
	run_.reset();
}

void Tuning::reconfigure(const Config::Tune &config)
{
	if (config == config_)
		return;
	end(config.enabled ? "its options change" : "it is switched off");
	config_ = config;
	rest_s_.reset();
	enter("off", config.enabled ? "its options have changed" : "it is switched off");
	if (!config.enabled)
		row_.proposal_ns.reset();
}

} // namespace swift
