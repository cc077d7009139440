// SPDX-License-Identifier: MIT
// [tune]: libswift's TuneRun in the rhythm of the collector. Whatever keeps it from tuning (no
// module, no flows, somebody else who sets the target) is a state; once that is over, it begins
// anew.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "flow_table.h"
#include "options.h"
#include "store.h"
#include "system.h"
#include "target_knob.h"
#include "telemetry.h"
#include "tune_run.h"

namespace swift {

[[nodiscard]] TuneOptions tuner_options(const Config::Tune &config);

class Tuning {
public:
	using MakeKnob = std::function<std::unique_ptr<TargetKnob>(const Config::Tune &config)>;

	Tuning(System &system, MakeKnob make_knob, const Config::Tune &config);
	Tuning(const Tuning &) = delete;
	Tuning &operator=(const Tuning &) = delete;
	~Tuning() { end("swiftd leaves"); }

	// Once per collection. @reading: of the telemetry, if it is loaded.
	void observe(const FlowSet &set, const TelemetryReading *reading, double time_s);
	// What is being tried is taken back, what was accepted stays. If anything has changed,
	// it begins anew.
	void reconfigure(const Config::Tune &config);
	void end(const std::string &reason);

	[[nodiscard]] const TuneRow &row() const { return row_; }

	static constexpr double retry_s = 10; // after something went wrong

private:
	void begin();
	void learn(const FlowSet &set, const TelemetryReading *reading);
	void walk(const FlowSet &set);
	bool knob_is_ours(); // false: the run is over
	void note(const std::vector<TuneEvent> &events);
	void enter(std::string_view state, const std::string &reason);
	void trouble(std::string_view state, const std::string &reason);

	System &system_;
	MakeKnob make_knob_;
	Config::Tune config_;
	std::unique_ptr<TargetKnob> knob_;
	std::unique_ptr<TuneRun> run_;
	double learnt_s_ = 0;
	std::optional<double> rest_s_; // until it may begin anew
	double time_s_ = 0; // of the newest look, since 1970
	TuneRow row_;
};

} // namespace swift
