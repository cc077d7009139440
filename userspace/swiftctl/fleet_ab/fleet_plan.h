// SPDX-License-Identifier: MIT
// A fleet's experiment before it starts: which racks, or which periods, have which arm, drawn with a
// seed; what will be measured. Pure functions, but for those that are given a source of metrics.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "clustered.h"
#include "json.h"
#include "prometheus.h"
#include "result.h"

namespace swift {

// Arms by rack, all the time; or by time, the whole fleet at once (a switchback). Never by host:
// hosts of both arms would meet in the queue of one link, and each would change the other's delay.
enum class FleetDesign { racks, time };
// What the experiment is about; what must not worsen; what is only told.
enum class FleetRole { primary, guardrail, secondary };
// The arm's effect is a factor, or a difference.
enum class FleetScale { ratio, difference };

struct FleetArm {
	std::string name;
	std::string command; // makes a host one of this arm
};

struct FleetRack {
	std::string name;
	std::vector<std::string> hosts;
	std::size_t block = 0;
	std::size_t arm = 0; // with FleetDesign::racks
};

struct FleetTurn { // a period, with FleetDesign::time
	std::size_t block = 0;
	std::size_t arm = 0;
};

struct FleetMetric {
	std::string name;
	std::string query; // PromQL, with $by, $match and $range
	FleetRole role = FleetRole::secondary;
	FleetScale scale = FleetScale::ratio;
	bool lower_is_better = true;
	double margin = 0; // of a guardrail: a worsening up to here is none; 0.02: 2 %
};

// What the experiment would show 4 times in 5, told from the past.
struct FleetDetectable {
	std::string metric;
	double effect = 0; // as FleetScale has it: 0.05 is 5 %
};

struct FleetPlan {
	std::string name;
	FleetDesign design = FleetDesign::racks;
	std::uint64_t seed = 0;
	std::vector<FleetArm> arms; // the first is the control
	std::vector<FleetRack> racks;
	std::vector<FleetTurn> turns;
	std::int64_t start_s = 0; // Unix time
	std::int64_t period_s = 3600;
	std::int64_t carry_over_s = 0; // of each period (by rack: of the whole), at its beginning: dropped
	std::size_t periods = 24;
	std::string rack_label = "rack"; // of Prometheus
	std::string match; // of its series: 'job="swiftd"'
	std::vector<FleetMetric> metrics;
	// metric -> rack -> its value before, on the metric's scale; by rack alone
	std::map<std::string, std::map<std::string, double>> before;
	std::vector<FleetDetectable> detectable;

	[[nodiscard]] std::int64_t end_s() const; // of all
	[[nodiscard]] std::int64_t window_s() const; // of a period, what is looked at
	[[nodiscard]] std::int64_t window_end_s(std::size_t period) const;
};

inline constexpr std::size_t fleet_arms_max = 8;
inline constexpr std::size_t fleet_racks_max = 2000;
inline constexpr std::size_t fleet_periods_max = 2000;

// Blocks of racks that are alike (@order: the most alike are neighbours), or of neighbouring periods,
// with each arm once, in random order. What is left over is in the last block.
void fleet_draw(FleetPlan &plan, const std::vector<std::size_t> &order);
// By size, the largest first.
[[nodiscard]] std::vector<std::size_t> fleet_order_by_size(const FleetPlan &plan);

// Values by rack and period, on the metric's scale (logarithms for ratios).
struct FleetCells {
	Cells cells;
	std::size_t not_positive = 0; // that a ratio cannot be made of
};
Result<FleetCells> fleet_cells(MetricSource &source, const FleetPlan &plan, const FleetMetric &metric,
			       std::int64_t first_end_s, std::size_t periods);
// The query as Prometheus is asked it.
[[nodiscard]] std::string fleet_query(const FleetPlan &plan, const std::string &pattern);

// Blocks by what was before, what each rack had then, and what could be detected. The past is as many
// periods as the experiment, up to @now_s or its start. What it cannot tell is said in @notes.
Result<void> fleet_learn(FleetPlan &plan, MetricSource &source, std::int64_t now_s, std::vector<std::string> &notes);

// Has to have room for an interval: two blocks.
Result<void> fleet_check(const FleetPlan &plan);

[[nodiscard]] Json fleet_plan_json(const FleetPlan &plan);
Result<FleetPlan> read_fleet_plan(const std::string &name, std::string_view text);
[[nodiscard]] std::string fleet_plan_text(const FleetPlan &plan);
// For Ansible: hosts by rack, their arms by time, and each arm's command.
[[nodiscard]] std::string fleet_inventory(const FleetPlan &plan);

// Racks and their hosts, of what `ansible-inventory --list` says: those of @group, by their variable @rack_var.
Result<std::vector<FleetRack>> read_fleet_racks(const std::string &name, std::string_view text, const std::string &group,
						const std::string &rack_var);

// What there is without being told.
[[nodiscard]] const std::vector<FleetMetric> &fleet_metrics();
// "NAME[:lower|higher][:ratio|difference][:MARGIN][=QUERY]", of --metric and --guardrail.
Result<FleetMetric> parse_fleet_metric(const std::string &option, const std::string &text, FleetRole role);
// "2026-11-25T10:00Z"; "90", "15m", "1h", "2d".
Result<std::int64_t> parse_utc(const std::string &option, const std::string &text);
Result<std::int64_t> parse_span_s(const std::string &option, const std::string &text, std::int64_t min_s, std::int64_t max_s);

[[nodiscard]] std::string_view fleet_word(FleetDesign design);
[[nodiscard]] std::string_view fleet_word(FleetRole role);
[[nodiscard]] std::string_view fleet_word(FleetScale scale);

} // namespace swift
