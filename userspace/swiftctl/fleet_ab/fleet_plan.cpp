// SPDX-License-Identifier: MIT
#include "fleet_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "printable.h"
#include "statistics.h"

namespace swift {

namespace {

constexpr unsigned past_draws = 40; // of arms, over the past
constexpr double enough_cells = 0.75; // of a rack's, for its value before

std::string with(std::string text, std::string_view what, const std::string &instead)
{
	for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += instead.size())
		text.replace(at, what.size(), instead);
	return text;
}

// The arms of @n clusters in blocks of one of each; the last block has what is left over as well.
std::vector<FleetTurn> drawn(std::size_t n, std::size_t arms, Shuffler &shuffler)
{
	std::vector<FleetTurn> turns;
	std::vector<std::size_t> each(arms);

	std::iota(each.begin(), each.end(), std::size_t{0});
	for (std::size_t block = 0; turns.size() < n; block++) {
		const std::size_t left = n - turns.size();
		std::vector<std::size_t> some = each;

		if (left < 2 * arms) { // the last one
			shuffler.shuffle(some);
			some.resize(left > arms ? left - arms : 0);
			some.insert(some.end(), each.begin(), each.end());
		}
		shuffler.shuffle(some);
		for (const std::size_t arm : some)
			turns.push_back({block, arm});
	}
	turns.resize(n);
	return turns;
}

// The part of the rows or columns from @from on, each as two_way() has it.
Cells columns_of(const Cells &cells, std::size_t from, std::size_t to)
{
	Cells part;

	for (const auto &row : cells)
		part.emplace_back(row.begin() + static_cast<std::ptrdiff_t>(from), row.begin() + static_cast<std::ptrdiff_t>(to));
	return part;
}

// Racks by their value, those without one at the end.
std::vector<std::size_t> order_by(const std::vector<std::optional<double>> &values)
{
	std::vector<std::size_t> order(values.size());

	std::iota(order.begin(), order.end(), std::size_t{0});
	std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
		return values[a] && values[b] ? *values[a] < *values[b] : values[a].has_value() && !values[b];
	});
	return order;
}

// Over the past, as if each drawing had been one: how large an effect would show between control and arm.
std::optional<double> past_detectable(const FleetPlan &plan, const std::vector<std::optional<double>> &values,
				      const std::vector<std::optional<double>> &before, const std::vector<std::size_t> &order)
{
	Shuffler shuffler(plan.seed ^ 0x9a57); // not the drawing that is made
	double sum = 0;
	double n = 0;

	for (unsigned i = 0; i < past_draws; i++) {
		const auto turns = drawn(order.size(), plan.arms.size(), shuffler);
		std::vector<Cluster> clusters;

		for (std::size_t k = 0; k < order.size(); k++)
			if (values[order[k]] && turns[k].arm <= 1)
				clusters.push_back({turns[k].block, turns[k].arm == 1, *values[order[k]],
						    before.empty() ? 0 : before[order[k]].value_or(*values[order[k]])});
		if (const auto e = cluster_effect(clusters)) {
			sum += e->detectable() * e->detectable();
			n++;
		}
	}
	return n > 0 ? std::optional(std::sqrt(sum / n)) : std::nullopt;
}

} // namespace

std::int64_t FleetPlan::end_s() const
{
	return start_s + (design == FleetDesign::racks ? carry_over_s : 0) + static_cast<std::int64_t>(periods) * period_s;
}

std::int64_t FleetPlan::window_s() const
{
	return design == FleetDesign::racks ? period_s : period_s - carry_over_s;
}

std::int64_t FleetPlan::window_end_s(std::size_t period) const
{
	return start_s + (design == FleetDesign::racks ? carry_over_s : 0) + static_cast<std::int64_t>(period + 1) * period_s;
}

std::string_view fleet_word(FleetDesign design)
{
	return design == FleetDesign::racks ? "racks" : "time";
}

std::string_view fleet_word(FleetRole role)
{
	return role == FleetRole::primary ? "primary" : role == FleetRole::guardrail ? "guardrail" : "secondary";
}

std::string_view fleet_word(FleetScale scale)
{
	return scale == FleetScale::ratio ? "ratio" : "difference";
}

std::vector<std::size_t> fleet_order_by_size(const FleetPlan &plan)
{
	std::vector<std::size_t> order(plan.racks.size());

	std::iota(order.begin(), order.end(), std::size_t{0});
	std::stable_sort(order.begin(), order.end(),
			 [&](std::size_t a, std::size_t b) { return plan.racks[a].hosts.size() > plan.racks[b].hosts.size(); });
	return order;
}

void fleet_draw(FleetPlan &plan, const std::vector<std::size_t> &order)
{
	Shuffler shuffler(plan.seed);

	if (plan.design == FleetDesign::time) {
		plan.turns = drawn(plan.periods, plan.arms.size(), shuffler);
		return;
	}

	const auto turns = drawn(order.size(), plan.arms.size(), shuffler);

	for (std::size_t i = 0; i < order.size(); i++) {
		plan.racks[order[i]].block = turns[i].block;
		plan.racks[order[i]].arm = turns[i].arm;
	}
}

Result<void> fleet_check(const FleetPlan &plan)
{
	const std::size_t n = plan.design == FleetDesign::racks ? plan.racks.size() : plan.periods;
	const std::size_t least = 2 * plan.arms.size();

	if (plan.arms.size() < 2 || plan.arms.size() > fleet_arms_max)
		return Error{"--arm", std::to_string(plan.arms.size()) + " given", fmt::format("2 to {}, the first is the control", fleet_arms_max)};
	if (plan.racks.empty() || plan.racks.size() > fleet_racks_max)
		return Error{"--inventory", std::to_string(plan.racks.size()) + " racks", fmt::format("1 to {}", fleet_racks_max)};
	if (n < least)
		return plan.design == FleetDesign::racks ?
			       Error{"--by racks", std::to_string(n) + " racks", fmt::format("{} or more for {} arms; or --by time", least, plan.arms.size())} :
			       Error{"--periods", std::to_string(n), fmt::format("{} or more for {} arms", least, plan.arms.size())};
	if (plan.design == FleetDesign::time && plan.carry_over_s * 2 > plan.period_s)
		return Error{"--carry-over", fmt::format("{} s", plan.carry_over_s), fmt::format("half of a period ({} s) at most", plan.period_s / 2)};
	return {};
}

std::string fleet_query(const FleetPlan &plan, const std::string &pattern)
{
	return with(with(with(pattern, "$by", plan.rack_label), "$match", plan.match), "$range", std::to_string(plan.window_s()) + "s");
}

Result<FleetCells> fleet_cells(MetricSource &source, const FleetPlan &plan, const FleetMetric &metric, std::int64_t first_end_s,
			       std::size_t periods)
{
	// One value for each period, of all its counts: they are asked for at its end.
	const RangeQuery query{fleet_query(plan, metric.query), first_end_s,
			       first_end_s + static_cast<std::int64_t>(periods - 1) * plan.period_s, plan.period_s};
	ASSIGN_OR_RETURN(const auto series, source.range(query));
	std::map<std::string, std::size_t> rows;
	FleetCells out{Cells(plan.racks.size(), std::vector<std::optional<double>>(periods)), 0};

	for (std::size_t i = 0; i < plan.racks.size(); i++)
		rows[plan.racks[i].name] = i;
	for (const PromSeries &s : series) {
		const auto label = s.labels.find(plan.rack_label);

		if (label == s.labels.end())
			return Error{fmt::format("{}: its series have no label {}: it has to be in the query's `by ($by)`, and on what Prometheus scrapes",
						 metric.name, plan.rack_label)};
		const auto row = rows.find(label->second);

		if (row == rows.end())
			continue; // a rack that is not in the experiment
		for (const auto &[time, value] : s.values) {
			const double at = (time - static_cast<double>(first_end_s)) / static_cast<double>(plan.period_s);
			const auto period = static_cast<std::size_t>(std::llround(std::max(at, 0.0)));

			if (period >= periods || std::abs(at - static_cast<double>(period)) > 1e-3)
				return Error{fmt::format("{}: a value at {}, which was not asked for", metric.name, time)};
			auto &cell = out.cells[row->second][period];

			if (cell)
				return Error{fmt::format("{}: two series of the rack {}: it has to be `by ($by)` alone", metric.name,
							 printable(label->second))};
			if (metric.scale == FleetScale::ratio && !(value > 0))
				out.not_positive++;
			else
				cell = metric.scale == FleetScale::ratio ? std::log(value) : value;
		}
	}
	return out;
}

Result<void> fleet_learn(FleetPlan &plan, MetricSource &source, std::int64_t now_s, std::vector<std::string> &notes)
{
	const std::int64_t past_end = std::min(now_s, plan.start_s);
	const std::int64_t first_end = past_end - static_cast<std::int64_t>(plan.periods - 1) * plan.period_s;
	const std::size_t half = plan.periods / 2;
	std::vector<std::size_t> order = fleet_order_by_size(plan);
	bool ordered = false;

	plan.before.clear();
	plan.detectable.clear();
	for (const FleetMetric &metric : plan.metrics) {
		ASSIGN_OR_RETURN(const auto cells,
				 fleet_cells(source, plan, metric, first_end, plan.periods));

		const TwoWay all = two_way(cells.cells);
		std::optional<double> shown;

		if (plan.design == FleetDesign::racks) {
			std::size_t known = 0;

			for (std::size_t r = 0; r < plan.racks.size(); r++) {
				const auto &row = cells.cells[r];
				const auto n = static_cast<double>(std::count_if(row.begin(), row.end(), [](const auto &c) { return c.has_value(); }));

				known += n >= enough_cells * static_cast<double>(plan.periods);
			}
			// All or none: a rack without a value before could not be compared at it.
			if (known == plan.racks.size())
				for (std::size_t r = 0; r < plan.racks.size(); r++)
					plan.before[metric.name][plan.racks[r].name] = *all.rows[r];
			else
				notes.push_back(fmt::format("{}: {} of {} racks have a past; what was before is not taken into account", metric.name, known,
							    plan.racks.size()));
			if (!ordered && metric.role == FleetRole::primary && known == plan.racks.size()) {
				order = order_by(all.rows);
				ordered = true;
			}
			if (known == plan.racks.size() && half > 0) {
				// Its second half, given the first: half as long as the experiment, so on the safe side.
				const auto first = two_way(columns_of(cells.cells, 0, half)).rows;

				shown = past_detectable(plan, two_way(columns_of(cells.cells, half, plan.periods)).rows, first,
							ordered ? order_by(first) : order);
			} else if (known == plan.racks.size()) {
				shown = past_detectable(plan, all.rows, {}, order);
			}
		} else {
			std::vector<std::size_t> in_time(plan.periods);

			std::iota(in_time.begin(), in_time.end(), std::size_t{0});
			shown = past_detectable(plan, all.columns, {}, in_time);
		}
		if (shown)
			plan.detectable.push_back({metric.name, metric.scale == FleetScale::ratio ? std::expm1(*shown) : *shown});
		else
			notes.push_back(metric.name + ": its past does not tell what can be shown");
	}
	fleet_draw(plan, order);
	return {};
}

} // namespace swift
