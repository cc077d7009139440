// SPDX-License-Identifier: MIT
// The result of an A/B test: its runs, and what they say about the congestion controls. The
// JSON of it is the common form of results: runs[], summary[], and comparisons[].
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ab_plan.h"
#include "ab_rr.h"
#include "ab_samples.h"
#include "iperf_run.h"
#include "statistics.h"

namespace swift {

struct AbRtt {
	double avg = 0;
	std::optional<double> p50;
	std::optional<double> p99;
	std::optional<double> p999;
	std::size_t count = 0;
	std::optional<double> p90 = {}; // of answers alone
};

struct AbRun {
	unsigned block = 0;
	unsigned position = 0; // in the whole order, from 1
	std::string cc;
	unsigned attempts = 1;
	std::size_t flows = 0;
	double goodput_bps = 0;
	double loss_ratio = 0;
	std::uint64_t retransmits = 0;
	double jain = 0;
	std::optional<AbRtt> rtt_ns; // iperf3 has none of a server that sends
	std::optional<AbLaw> law; // of the sending ends
	std::optional<AbRtt> rr_ns; // from a question to its whole answer
	double rr_per_s = 0;
	std::vector<AbEnd> ends;
};

// One run out of what all its iperf3 clients said.
[[nodiscard]] AbRun ab_run(const AbTurn &turn, const std::vector<IperfRun> &legs);
// And what its clients that asked said.
void ab_add_answers(AbRun &run, const std::vector<RrRun> &legs, const AbPlan &plan);

struct AbFailure {
	unsigned block = 0;
	std::string cc;
	std::string reason;
	unsigned attempts = 0;
};

struct AbResult {
	AbPlan plan;
	std::vector<AbRun> runs;
	std::vector<AbFailure> failed;
	std::vector<std::string> notes;
	bool complete = true;
	unsigned looks_made = 0;
	std::string started; // RFC 3339
	std::string host;
	std::string kernel;
	std::string iperf;
};

struct AbFigure {
	std::size_t n = 0;
	double median = 0;
	double min = 0;
	double max = 0;
	std::optional<ConfidenceInterval> ci95;
};

struct AbSummary {
	std::string cc;
	std::size_t n = 0;
	std::size_t failed = 0;
	std::vector<std::pair<std::string, AbFigure>> metrics; // "rtt_ns.p99"
};

struct Estimate {
	double value = 0;
	std::optional<ConfidenceInterval> ci95;
};

// Of two congestion controls, a and b, in the blocks in which both ran.
struct AbComparison {
	std::string a;
	std::string b;
	std::string metric;
	std::size_t pairs = 0;
	Estimate shift; // a - b, Hodges-Lehmann
	std::optional<Estimate> ratio; // a / b; none where a value is 0
	double cliffs_delta = 0;
	double p = 1;
	double p_holm = 1;
	bool shown = false; // p_holm < 0.05
	// The smallest that would have been shown 4 times in 5: of the ratio as a share (0.1 = 10 %),
	// else of the shift.
	std::optional<double> detectable;
	std::string text;
};

[[nodiscard]] std::vector<AbSummary> ab_summary(const AbResult &result);
[[nodiscard]] std::vector<AbComparison> ab_comparisons(const AbResult &result);
// A sentence for each pair.
[[nodiscard]] std::vector<std::string> ab_verdicts(const std::vector<AbComparison> &comparisons);
// What all p are multiplied by: how often somebody may have looked whether it is time to stop. One who stops it
// by hand may have after each block.
[[nodiscard]] unsigned ab_look_factor(const AbResult &result);
// Whether each two of the congestion controls differ in something.
[[nodiscard]] bool ab_decided(const AbResult &result);
// The fewest blocks with which any difference can be shown at all.
[[nodiscard]] unsigned ab_least_runs(const AbPlan &plan);
[[nodiscard]] std::string ab_json(const AbResult &result);

} // namespace swift
