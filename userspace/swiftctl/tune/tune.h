// SPDX-License-Identifier: MIT
// `swiftctl tune`: proposes a base target for this host's flows, and with --apply looks for
// the best one by trying. How it is looked for is libswift's (tuner.h, tune_run.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tune_run.h"
#include "verb.h"

namespace swift {

// As the command line gave them.
struct TuneVerbOptions {
	std::string variant; // "": the module
	std::string dst; // a prefix; with a variant alone
	std::string interval_s = "1";
	std::string learn_s = "10";
	std::string duration_s; // "": until it has settled, or is stopped
	std::string min_us;
	std::string max_us;
	std::string tolerance_percent;
	std::string step_percent;
	std::string measure;
	std::string hold_s;
	std::string netns;
	bool apply = false;
	bool keep_on = false; // after it has settled
	bool restore = false;
	bool undo = false;
	bool json = false;
};

struct TunePlan {
	TuneOptions tuner;
	std::optional<Prefix> prefix;
	double interval_s = 1;
	double learn_s = 10;
	double duration_s = 0; // 0: no limit

	static Result<TunePlan> from(const TuneVerbOptions &options);
};

// What to do with a proposal that @command, of the knob, would set.
[[nodiscard]] std::string try_text(const TuneVerbOptions &options, const std::string &command);
// A line of the log.
[[nodiscard]] std::string event_text(const TuneEvent &event);
[[nodiscard]] std::string event_json(const TuneEvent &event, std::int64_t time_ns);

void add_options(CLI::App &verb, TuneVerbOptions &o);
Result<int> run_tune(const TuneVerbOptions &options);
extern const Verb tune_verb;

} // namespace swift
