// SPDX-License-Identifier: MIT
#include "tuning.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

namespace swift {

namespace {

std::string settings_text(const TargetSettings &s)
{
	return fmt::format("target_policy={} base_target_ns={} hop_target_ns={}", s.policy, s.base_target_ns,
			   s.hop_target_ns);
}

std::optional<Prefix> prefix_in(const Config::Tune &config)
{
	if (config.prefix.empty())
		return std::nullopt;
	auto prefix = Prefix::parse(config.prefix);

	return prefix ? std::optional(*prefix) : std::nullopt;
}

} // namespace

TuneOptions tuner_options(const Config::Tune &config)
{
	TuneOptions o;

	o.min_ns = static_cast<std::uint32_t>(config.min_us * 1e3 + 0.5);
	o.max_ns = static_cast<std::uint32_t>(config.max_us * 1e3 + 0.5);
	o.tolerance = config.tolerance_percent / 100;
	o.step = 1 + config.step_percent / 100;
	o.measure = static_cast<unsigned>(config.measure);
	o.hold_s = static_cast<double>(config.hold_s);
	return o;
}

Tuning::Tuning(System &system, MakeKnob make_knob, const Config::Tune &config)
	: system_(system), make_knob_(std::move(make_knob)), config_(config)
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
	auto run = TuneRun::begin(system_, *knob_, tuner_options(config_), prefix_in(config_), config_.apply);

	if (!run)
		return trouble("unavailable", run.error().text());
	run_ = std::move(*run);
	rest_s_.reset();
	learnt_s_ = 0;
	if (!run_->mended().empty())
		spdlog::warn("tune: {}", run_->mended());
	spdlog::info("tune: {}: {} now; learning for {} s", knob_->name(), settings_text(run_->now()), config_.learn_s);
	enter("learning", fmt::format("learning the paths for {} s", config_.learn_s));
}

void Tuning::learn(const FlowSet &set, const TelemetryReading *reading)
{
	run_->learn(set);
	if (reading)
		run_->learn(*reading);
	learnt_s_ += set.interval_s;
	if (learnt_s_ < static_cast<double>(config_.learn_s))
		return;
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
		return trouble("failed", events.error().text());
	enter("waiting", proposed->reason);
	note(*events);
}

bool Tuning::knob_is_ours()
{
	const auto there = knob_->read();

	if (!there) {
		run_->let_go();
		trouble("unavailable", there.error().text());
		return false;
	}
	if (*there == run_->now())
		return true;
	const std::string text = fmt::format("{} was changed by somebody else, to {}", knob_->name(),
					     settings_text(*there));

	run_->let_go();
	trouble("unavailable", text);
	return false;
}

void Tuning::walk(const FlowSet &set)
{
	if (!knob_is_ours())
		return;
	auto events = run_->step(set);

	if (!events) {
		const std::string why = events.error().text();

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

void Tuning::observe(const FlowSet &set, const TelemetryReading *reading, double time_s)
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
		learn(set, reading);
	else
		walk(set);
	if (run_)
		row_.base_target_ns = run_->now().base_target_ns;
}

void Tuning::end(const std::string &reason)
{
	if (!run_)
		return;
	if (run_->started()) {
		auto last = run_->end(reason, false);

		if (last)
			note(*last);
		else
			spdlog::error("tune: {}: {}", knob_->name(), last.error().text());
		spdlog::info("tune: {}: kept {}: {}", knob_->name(), settings_text(run_->now()), reason);
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
