// SPDX-License-Identifier: MIT
// `swiftctl tune`: looks at the flows each interval, and says what becomes of the target.
#include "tune.h"

#include <fmt/format.h>

#include "clock_ns.h"
#include "flow_observer.h"
#include "json.h"
#include "netns.h"
#include "say.h"
#include "shell_word.h"
#include "terminal.h"
#include "text.h"
#include "watch.h"

namespace swift {

namespace {

// The flows that @knob is about.
Result<FlowObserver> observe(const TargetKnob &knob)
{
	FlowTableOptions o;

	o.ccs = {knob.cc()};
	return FlowObserver::open(std::move(o), bpf_flow_storages);
}

// As options say it again.
std::string which_flows(const TuneVerbOptions &o)
{
	return (o.variant.empty() ? "" : " --bpf " + o.variant) + (o.dst.empty() ? "" : " --dst " + o.dst) +
	       (o.netns.empty() ? "" : " --netns " + shell_word(o.netns));
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

	Result<int> go()
	{
		const StopSignals stop;

		if (!run_.mended().empty())
			note(tune_verb, run_.mended());
		RETURN_IF_ERROR(learn(stop));
		ASSIGN_OR_RETURN(auto proposed, run_.proposal());
		if (!say_proposal(proposed))
			return exit_failed;
		if (!options_.apply)
			return exit_ok;
		ASSIGN_OR_RETURN(auto events, run_.start());
		if (!say(events))
			return finish("nobody listens");
		return walk(stop);
	}

private:
	Result<void> learn(const StopSignals &stop)
	{
		for (double waited_s = 0;; waited_s += plan_.interval_s) {
			ASSIGN_OR_RETURN(const auto seen, flows_.look());

			run_.learn(*seen.flows);
			if (waited_s >= plan_.learn_s) {
				// It has counted since it was loaded: once is enough.
				if (telemetry_)
					(void)!telemetry_->visit_flows(this_netns_inode(), {},
								       [&](TelemetryFlow &&f) { run_.learn(f); });
				return {};
			}
			if (stop.sleep(plan_.interval_s))
				return Error{"stopped before anything was learnt; nothing was changed"};
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
			text += try_text(options_, knob_.command(wanted));
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

	Result<int> finish(const std::string &reason)
	{
		ASSIGN_OR_RETURN(auto last, run_.end(reason, options_.restore));

		const bool said = say(last);

		if (options_.restore || options_.json)
			return said ? exit_ok : exit_failed;

		TargetSettings kept = run_.before();

		kept.policy = "static";
		kept.base_target_ns = run_.tuner().kept_ns();
		return leave(fmt::format("kept      base_target_ns={} (was {}, {}); to put it back: "
					 "swiftctl tune --undo{}\n",
					 kept.base_target_ns, run_.before().base_target_ns,
					 run_.before().policy, which_flows(options_)));
	}

	// Of a tuning that ends for another reason than its own; why goes to the caller.
	static void say_end(const Result<int> &end) { (void)exit_status(tune_verb, end); }

	Result<int> walk(const StopSignals &stop)
	{
		for (double walked_s = 0;; walked_s += plan_.interval_s) {
			if (stop.sleep(plan_.interval_s))
				return finish("stopped");
			if (plan_.duration_s > 0 && walked_s >= plan_.duration_s)
				return finish("its time is over");
			const auto seen = flows_.look();

			if (!seen) {
				say_end(finish("the flows cannot be seen"));
				return seen.error();
			}
			auto events = run_.step(*seen->flows);

			if (!events) {
				if (run_.started())
					say_end(finish("the target could not be set"));
				return events.error();
			}
			if (!say(*events)) {
				say_end(finish("nobody listens"));
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

Result<int> undo(TargetKnob &knob, Files &files)
{
	ASSIGN_OR_RETURN(const auto undone, TuneRun::undo(files, knob));
	const TargetSettings &now = undone.now;

	return leave(fmt::format("{}: target_policy={} base_target_ns={} hop_target_ns={}, {}\n", knob.name(), now.policy,
				 now.base_target_ns, now.hop_target_ns,
				 undone.others ? "which somebody else has set since: left alone, the tuning is forgotten" :
						 "as before"));
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

	double larger_by = t.step - 1;

	for (const auto &taken :
	     {take_decimal(plan.interval_s, "--interval", o.interval_s, 0.001, 3600),
	      take_decimal(plan.learn_s, "--learn", o.learn_s, 0, 86400),
	      take_decimal(plan.duration_s, "--duration", o.duration_s, 0.001, 1e9),
	      take_decimal(t.min_ns, "--min-us", o.min_us, 1, 1e6, 1e3),
	      take_decimal(t.max_ns, "--max-us", o.max_us, 1, 1e6, 1e3),
	      take_decimal(t.tolerance, "--tolerance", o.tolerance_percent, 0.1, 20, 0.01),
	      take_decimal(larger_by, "--step", o.step_percent, 6, 100, 0.01),
	      take_decimal(t.measure, "--measure", o.measure, 1, 1000),
	      take_decimal(t.hold_s, "--hold", o.hold_s, 0, 1e9)})
		RETURN_IF_ERROR(taken);
	if (t.min_ns > t.max_ns)
		return Error{"--min-us", fmt::format("{}", t.min_ns / 1e3),
			     fmt::format("at most --max-us, {}", t.max_ns / 1e3)};
	t.step = 1 + larger_by;
	RETURN_IF_ERROR(t.check());
	return plan;
}

std::string try_text(const TuneVerbOptions &o, const std::string &command)
{
	// A variant is the host's.
	return fmt::format("to try it {}\nor        swiftctl tune --apply{}   (looks for the best one from there)\n",
			   netns_command(o.variant.empty() ? o.netns : "", command), which_flows(o));
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

Result<int> run_tune(const TuneVerbOptions &options)
{
	ASSIGN_OR_RETURN(auto plan, as_usage(TunePlan::from(options)));

	RETURN_IF_ERROR(take_netns(options.netns));

	const auto system = real_system();
	const auto host = real_bpf_host();
	const auto sockets = real_sockets();
	BpfVariants variants(*system, *sockets, *host);
	const auto knob = options.variant.empty() ? sysctl_knob(*system, this_netns()) :
						    bpf_knob(variants, options.variant, options.dst,
							     plan.interval_s / 2);

	if (options.variant.empty() && !module_loaded(*system))
		return Error{"the module tcp_swift is not loaded (" + module_hint(*system) +
			     "); for a BPF variant: --bpf bpf_swift"};
	if ((options.apply || options.undo) && !system->is_root())
		return Error{"changing targets needs root; without --apply it only proposes"};
	if (options.undo)
		return undo(*knob, *system);

	ASSIGN_OR_RETURN(auto run, TuneRun::begin(*system, *knob, plan.tuner, plan.prefix, options.apply));
	ASSIGN_OR_RETURN(auto flows, observe(*knob));

	return Tuning(options, plan, *knob, *run, std::move(flows), *host).go();
}

} // namespace swift
