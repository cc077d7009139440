// SPDX-License-Identifier: MIT
// A fleet's experiment afterwards: the metrics of its racks and periods, the difference between arms,
// what may be said of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "clustered.h"
#include "fleet_plan.h"
#include "json.h"
#include "prometheus.h"
#include "result.h"
#include "terminal.h"

namespace swift {

enum class FleetShown { nothing, better, worse }; // a difference, at 5 %
enum class FleetGuard { holds, open, worsened };

// One arm against the control, in one metric. Factors are exp() of what `effect` has.
struct FleetComparison {
	std::size_t arm = 0;
	std::size_t metric = 0; // of the plan
	std::string why_not; // there is no effect then
	ClusterEffect effect;
	std::optional<Randomisation> randomised;
	double control_level = 0; // in the metric's own unit: a geometric mean for ratios
	double arm_level = 0;
	double p_adjusted = 1; // Holm's, among the primary metrics of all arms
	FleetShown shown = FleetShown::nothing;
	// Of a guardrail: by how much it is worse at most, one-sided at 95 %.
	double worse_at_most = 0;
	double p_worse = 1;
	FleetGuard guard = FleetGuard::open;
};

struct FleetVerdict { // of an arm
	std::size_t arm = 0;
	FleetShown shown = FleetShown::nothing;
	FleetGuard guard = FleetGuard::holds; // the worst of them
	bool known = true; // no primary metric was without its data
	std::string text;
};

struct FleetResult {
	FleetPlan plan;
	std::string from; // a URL or a file
	std::int64_t read_s = 0;
	std::vector<FleetComparison> comparisons;
	std::vector<FleetVerdict> verdicts;
	// Of looks with a label `arm`, how many were of the planned one; empty: no series has that label.
	std::optional<double> as_planned;
	std::vector<std::string> notes;
};

// Asks for every metric of the plan and compares.
Result<FleetResult> fleet_read(const FleetPlan &plan, MetricSource &source);

[[nodiscard]] Json fleet_result_json(const FleetResult &result);
[[nodiscard]] std::string fleet_result_text(const FleetResult &result, const Terminal &terminal);

} // namespace swift
