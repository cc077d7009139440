// SPDX-License-Identifier: MIT
// [tune]: libswift's TuneRun in the rhythm of the collector. Whatever keeps it from tuning (no
// module, no flows, somebody else who sets the target) is a state; once that is over, it begins
// anew.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "flow_table.h"
#include "interface.h"
#include "options.h"
#include "store.h"
#include "files.h"
#include "target_knob.h"
#include "telemetry.h"
#include "tune_run.h"

namespace swift {

[[nodiscard]] TuneOptions tuner_options(const Config::Tune &config);
// How long one write of a target may wait for others who change BPF variants. A look may have a few
// of them, all of which systemd's watchdog has to live through.
[[nodiscard]] double knob_patience_s(double interval_s);

class Tuning : NonCopyable {
public:
	using MakeKnob = std::function<std::unique_ptr<TargetKnob>(const Config::Tune &config)>;

	Tuning(Files &files, MakeKnob make_knob, const Config::Tune &config);
	~Tuning() { end("swiftd leaves"); }

	// Shows the telemetry's flows, which are many; an Error if it is not loaded.
	using ReadFlows = std::function<Result<void>(const Telemetry::ShowFlow &show)>;

	// Once per collection. @read_flows is called now and then while it learns; may be empty.
	void observe(const FlowSet &set, const ReadFlows &read_flows, double time_s);
	// Instead of observe(), when there was nothing to see: nothing is tried unwatched.
	void cannot_look(double time_s);
	// What is being tried is taken back, what was accepted stays. If anything has changed,
	// it begins anew.
	void reconfigure(const Config::Tune &config);
	void end(const std::string &reason);

	[[nodiscard]] const TuneRow &row() const { return row_; }

	static constexpr double retry_s = 10; // after something went wrong
	static constexpr double flows_every_s = 60; // of telemetry: it has counted since it was loaded

private:
	void begin();
	void learn(const FlowSet &set, const ReadFlows &read_flows);
	void walk(const FlowSet &set);
	void note(const std::vector<TuneEvent> &events);
	void enter(std::string_view state, const std::string &reason);
	void trouble(std::string_view state, const std::string &reason);

	Files &files_;
	MakeKnob make_knob_;
	Config::Tune config_;
	std::unique_ptr<TargetKnob> knob_;
	std::unique_ptr<TuneRun> run_;
	double learnt_s_ = 0;
	double flows_due_s_ = 0; // of that time
	std::optional<double> rest_s_; // until it may begin anew
	double time_s_ = 0; // of the newest look, since 1970
	TuneRow row_;
};

} // namespace swift
