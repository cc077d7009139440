// SPDX-License-Identifier: MIT
// `swiftctl tune`: looks at the flows each interval, and says what becomes of the target.
#include "tune.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <functional>

#include "clock_ns.h"
#include "flow_observer.h"
#include "json.h"
#include "netns.h"
#include "say.h"
#include "terminal.h"
#include "text.h"
#include "watch.h"

namespace swift {

namespace {

Result<void> read(std::string_view name, const std::string &text, double min, double max,
		  double scale, const std::function<void(double)> &put)
{
	if (text.empty())
		return {};
	ASSIGN_OR_RETURN(auto value, parse_decimal(name, text, min, max));
	put(value * scale);
	return {};
}

// The flows that @knob is about.
Result<FlowObserver> observe(const TargetKnob &knob)
{
	FlowTableOptions o;

	o.ccs = {knob.cc()};
	return FlowObserver::open(std::move(o), bpf_flow_storages);
}

class Tuning {
public:
	Tuning(const TuneVerbOptions &options, const TunePlan &plan, TargetKnob &knob, TuneRun &run,
	       FlowObserver flows, const BpfHost &host)
		: options_(options), plan_(plan), knob_(knob), run_(run), flows_(std::move(flows))
	{
		if (auto telemetry = Telemetry::open(host))
			telemetry_ = *telemetry;
	}

	int go()
	{
		const StopSignals stop;

		if (!run_.mended().empty())
			note(tune_verb, run_.mended());
		if (const int status = learn(stop); status >= 0)
			return status;
		auto proposed = run_.proposal();

		if (!proposed)
			return fail(tune_verb, proposed.error().text());
		if (!say_proposal(*proposed))
			return exit_failed;
		if (!options_.apply)
			return exit_ok;
		auto events = run_.start();

		if (!events)
			return fail(tune_verb, events.error().text());
		if (!say(*events))
			return finish("nobody listens");
		return walk(stop);
	}

private:
	// -1: go on.
	int learn(const StopSignals &stop)
	{
		for (double waited_s = 0;; waited_s += plan_.interval_s) {
			const auto seen = flows_.look();

			if (!seen)
				return fail(tune_verb, seen.error().text());
			run_.learn(*seen->flows);
			if (waited_s >= plan_.learn_s) {
				// It has counted since it was loaded: once is enough.
				if (telemetry_)
					(void)!telemetry_->visit_flows(this_netns_inode(), {},
								       [&](TelemetryFlow &&f) { run_.learn(f); });
				return -1;
			}
			if (stop.sleep(plan_.interval_s))
				return fail(tune_verb, "stopped before anything was learnt; nothing was changed");
		}
	}

	bool say_proposal(const TargetProposal &p)
	{
		TargetSettings wanted = run_.before();

		wanted.policy = "static";
		wanted.base_target_ns = p.base_target_ns;
		wanted.hop_target_ns = p.hop_target_ns;
		if (options_.json)
			return print(Json{{"event", "proposal"},
					  {"time_ns", clock_ns(CLOCK_REALTIME)},
					  {"of", knob_.name()},
					  {"target_policy", run_.before().policy},
					  {"base_target_ns", run_.before().base_target_ns},
					  {"proposed_base_target_ns", p.base_target_ns},
					  {"proposed_hop_target_ns", p.hop_target_ns},
					  {"reason", p.reason}}
					     .dump() +
				     "\n");
		std::string text = fmt::format(
			"now       {}: target_policy={} base_target_ns={}\nproposal  base_target_ns={}: {}\n",
			knob_.name(), run_.before().policy, run_.before().base_target_ns,
			p.base_target_ns, p.reason);

		if (!options_.apply)
			text += fmt::format("to try it {}\nor        swiftctl tune --apply   "
					    "(looks for the best one from there)\n",
					    knob_.command(wanted));
		return print(text);
	}

	bool say(const std::vector<TuneEvent> &events)
	{
		for (const TuneEvent &e : events) {
			const std::int64_t now_ns = clock_ns(CLOCK_REALTIME);
			const std::string line =
				options_.json ? event_json(e, now_ns) :
						local_time(now_ns) + "  " + event_text(e);

			if (!print(line + "\n"))
				return false;
		}
		return true;
	}

	int finish(const std::string &reason)
	{
		auto last = run_.end(reason, options_.restore);

		if (!last)
			return fail(tune_verb, last.error().text());
		say(*last);
		if (options_.restore || options_.json)
			return exit_ok;

		TargetSettings kept = run_.before();

		kept.policy = "static";
		kept.base_target_ns = run_.tuner().kept_ns();
		return print(fmt::format("kept      base_target_ns={} (was {}, {}); to put it back: "
					 "swiftctl tune --undo{}{}\n",
					 kept.base_target_ns, run_.before().base_target_ns,
					 run_.before().policy,
					 options_.variant.empty() ? "" : " --bpf " + options_.variant,
					 options_.dst.empty() ? "" : " --dst " + options_.dst)) ?
			       exit_ok :
			       exit_failed;
	}

	int walk(const StopSignals &stop)
	{
		for (double walked_s = 0;; walked_s += plan_.interval_s) {
			if (stop.sleep(plan_.interval_s))
				return finish("stopped");
			if (plan_.duration_s > 0 && walked_s >= plan_.duration_s)
				return finish("its time is over");
			const auto seen = flows_.look();

			if (!seen) {
				finish("the flows cannot be seen");
				return fail(tune_verb, seen.error().text());
			}
			auto events = run_.step(*seen->flows);

			if (!events) {
				if (run_.started())
					finish("the target could not be set");
				return fail(tune_verb, events.error().text());
			}
			if (!say(*events)) {
				finish("nobody listens");
				return exit_failed;
			}
			if (run_.tuner().state() == TuneState::holding && !options_.keep_on)
				return finish("settled");
			tell_waiting();
		}
	}

	// Once, when it begins: otherwise nothing would be seen for as long as it lasts.
	void tell_waiting()
	{
		const bool waits = run_.tuner().state() == TuneState::waiting;

		if (waits && !waiting_)
			note(tune_verb, fmt::format("waiting: {} flows, {:.0f} % of them held back by the fabric "
					       "window ({:.0f} % are needed)",
					       run_.seen().flows, 100 * run_.seen().fabric_limited,
					       100 * plan_.tuner.min_limited));
		waiting_ = waits;
	}

	const TuneVerbOptions &options_;
	const TunePlan &plan_;
	TargetKnob &knob_;
	TuneRun &run_;
	FlowObserver flows_;
	std::optional<Telemetry> telemetry_; // where it is loaded: it knows the hops
	bool waiting_ = false;
};

int undo(TargetKnob &knob, Files &files)
{
	auto before = TuneRun::undo(files, knob);

	if (!before)
		return fail(tune_verb, before.error().text());
	return print(fmt::format("{}: target_policy={} base_target_ns={} hop_target_ns={}, as before\n",
				 knob.name(), before->policy, before->base_target_ns,
				 before->hop_target_ns)) ?
		       exit_ok :
		       exit_failed;
}

} // namespace

Result<TunePlan> TunePlan::from(const TuneVerbOptions &o)
{
	TunePlan plan;
	TuneOptions &t = plan.tuner;

	if (!o.dst.empty()) {
		if (o.variant.empty())
			return Error{"--dst: the module has one target for all destinations", o.dst,
				     "with --bpf NAME"};
		ASSIGN_OR_RETURN(plan.prefix, Prefix::parse(o.dst));
	}
	if (o.undo && (o.apply || o.restore))
		return Error{"--undo goes alone: it changes back, and tunes nothing"};

	const auto u32 = [](double v) { return static_cast<std::uint32_t>(std::lround(v)); };

	for (const auto &ok :
	     {read("--interval", o.interval_s, 0.001, 3600, 1, [&](double v) { plan.interval_s = v; }),
	      read("--learn", o.learn_s, 0, 86400, 1, [&](double v) { plan.learn_s = v; }),
	      read("--duration", o.duration_s, 0.001, 1e9, 1, [&](double v) { plan.duration_s = v; }),
	      read("--min-us", o.min_us, 1, 1e6, 1e3, [&](double v) { t.min_ns = u32(v); }),
	      read("--max-us", o.max_us, 1, 1e6, 1e3, [&](double v) { t.max_ns = u32(v); }),
	      read("--tolerance", o.tolerance_percent, 0.1, 20, 0.01, [&](double v) { t.tolerance = v; }),
	      read("--step", o.step_percent, 6, 100, 0.01, [&](double v) { t.step = 1 + v; }),
	      read("--measure", o.measure, 1, 1000, 1, [&](double v) { t.measure = u32(v); }),
	      read("--hold", o.hold_s, 0, 1e9, 1, [&](double v) { t.hold_s = v; })})
		if (!ok)
			return ok.error();
	RETURN_IF_ERROR(t.check());
	return plan;
}

std::string event_text(const TuneEvent &e)
{
	if (e.from_ns == e.to_ns)
		return fmt::format("{:<11}  base_target_ns={}: {}", tune_event_text(e.kind), e.to_ns,
				   e.reason);
	return fmt::format("{:<11}  base_target_ns {} -> {}: {}", tune_event_text(e.kind), e.from_ns,
			   e.to_ns, e.reason);
}

std::string event_json(const TuneEvent &e, std::int64_t time_ns)
{
	return Json{{"event", tune_event_text(e.kind)},
		    {"time_ns", time_ns},
		    {"from_ns", e.from_ns},
		    {"to_ns", e.to_ns},
		    {"reason", e.reason}}
		.dump();
}

int run_tune(const TuneVerbOptions &options)
{
	auto plan = TunePlan::from(options);

	if (!plan)
		return fail_usage(tune_verb, plan.error().text());
	if (!options.netns.empty())
		if (auto entered = enter_netns(options.netns); !entered)
			return fail(tune_verb, entered.error().text());

	const auto system = real_system();
	const auto host = real_bpf_host();
	const auto sockets = real_sockets();
	BpfVariants variants(*system, *sockets, *host);
	const auto knob = options.variant.empty() ? sysctl_knob(*system, this_netns()) :
						    bpf_knob(variants, options.variant, options.dst,
							     plan->interval_s / 2);

	if (options.variant.empty() && !module_loaded(*system))
		return fail(tune_verb, "the module tcp_swift is not loaded (" + module_hint(*system) +
					  "); for a BPF variant: --bpf bpf_swift");
	if ((options.apply || options.undo) && !system->is_root())
		return fail(tune_verb, "changing targets needs root; without --apply it only proposes");
	if (options.undo)
		return undo(*knob, *system);

	auto run = TuneRun::begin(*system, *knob, plan->tuner, plan->prefix, options.apply);

	if (!run)
		return fail(tune_verb, run.error().text());
	auto flows = observe(*knob);

	if (!flows)
		return fail(tune_verb, flows.error().text());
	return Tuning(options, *plan, *knob, **run, std::move(*flows), *host).go();
}

} // namespace swift
