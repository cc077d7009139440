// SPDX-License-Identifier: MIT
#include "fleet_result.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "statistics.h"

namespace swift {

namespace {

constexpr double significant = 0.05;
constexpr double enough = 0.5; // of a rack's periods, of a period's racks: any two then share some

// What stays of the cells: racks and periods with too little are emptied, which is said.
void without_sparse(const FleetPlan &plan, const FleetMetric &metric, Cells &cells, std::vector<std::string> &notes)
{
	std::vector<std::string> racks;
	std::size_t periods = 0;
	std::size_t present = 0;
	double looked = 0; // periods with any data: an arm may have none of a metric

	for (std::size_t p = 0; p < plan.periods; p++)
		looked += std::any_of(cells.begin(), cells.end(), [&](const auto &row) { return row[p].has_value(); });
	for (std::size_t r = 0; r < cells.size(); r++) {
		const auto n = static_cast<double>(std::count_if(cells[r].begin(), cells[r].end(), [](const auto &c) { return c.has_value(); }));

		present += n > 0;
		if (n > enough * looked)
			continue;
		std::fill(cells[r].begin(), cells[r].end(), std::nullopt);
		racks.push_back(plan.racks[r].name);
	}

	const auto left = static_cast<double>(cells.size() - racks.size());

	for (std::size_t p = 0; p < plan.periods && left > 0; p++) {
		double n = 0;

		for (const auto &row : cells)
			n += row[p].has_value();
		if (n > enough * left || n == 0)
			continue;
		for (auto &row : cells)
			row[p].reset();
		periods++;
	}
	// Without any data at all there is a reason of its own.
	if (!racks.empty() && present > 0)
		notes.push_back(fmt::format("{}: left out, with data of half of the periods or less: {}", metric.name, fmt::join(racks, ", ")));
	if (periods > 0 && present > 0)
		notes.push_back(fmt::format("{}: left out {} periods, with data of half of the racks or less", metric.name, periods));
}

// Clusters of @arm and of the control.
std::vector<Cluster> clusters_of(const FleetPlan &plan, const FleetMetric &metric, const TwoWay &fit, std::size_t arm)
{
	std::vector<Cluster> clusters;
	const auto before = plan.before.find(metric.name);

	if (plan.design == FleetDesign::time) {
		for (std::size_t p = 0; p < plan.periods; p++)
			if (fit.columns[p] && (plan.turns[p].arm == arm || plan.turns[p].arm == 0))
				clusters.push_back({plan.turns[p].block, plan.turns[p].arm == arm, *fit.columns[p], 0});
		return clusters;
	}

	bool known = before != plan.before.end();

	for (std::size_t r = 0; r < plan.racks.size(); r++) {
		const FleetRack &rack = plan.racks[r];

		if (!fit.rows[r] || (rack.arm != arm && rack.arm != 0))
			continue;
		clusters.push_back({rack.block, rack.arm == arm, *fit.rows[r], 0});
		if (!known)
			continue;
		const auto value = before->second.find(rack.name);

		if (value == before->second.end())
			known = false;
		else
			clusters.back().before = value->second;
	}
	for (Cluster &c : clusters)
		c.before = known ? c.before : 0;
	return clusters;
}

double level_of(const std::vector<Cluster> &clusters, bool treated, FleetScale scale)
{
	double sum = 0;
	double n = 0;

	for (const Cluster &c : clusters)
		if (c.treated == treated)
			sum += c.value, n++;
	return scale == FleetScale::ratio ? std::exp(sum / n) : sum / n;
}

void guard(FleetComparison &c, const FleetMetric &metric)
{
	ClusterEffect worse = c.effect;
	double margin = metric.margin;

	if (!metric.lower_is_better)
		worse.effect = -worse.effect;
	if (metric.scale == FleetScale::ratio)
		margin = metric.lower_is_better ? std::log1p(margin) : -std::log1p(-margin);
	c.p_worse = worse.p_above(0);
	// The upper end of the two-sided 90 % interval: 95 % on that side.
	c.worse_at_most = worse.effect + worse.half_width(0.9);
	c.guard = c.worse_at_most <= margin ? FleetGuard::holds : c.p_worse < significant ? FleetGuard::worsened : FleetGuard::open;
}

FleetComparison compare(const FleetPlan &plan, std::size_t metric, const FleetCells &cells, std::size_t arm, std::vector<std::string> &notes)
{
	const FleetMetric &m = plan.metrics[metric];
	FleetComparison c;
	const auto clusters = clusters_of(plan, m, two_way(cells.cells), arm);
	const auto treated = std::count_if(clusters.begin(), clusters.end(), [](const Cluster &k) { return k.treated; });

	c.arm = arm;
	c.metric = metric;
	if (cells.not_positive > 0) {
		c.why_not = fmt::format("{} of its values are not above 0, so that there are no ratios: plan it with :difference", cells.not_positive);
		return c;
	}
	if (treated == 0 || treated == std::ssize(clusters)) {
		c.why_not = "no data of " + plan.arms[treated == 0 ? arm : 0].name;
		return c;
	}
	const auto effect = cluster_effect(clusters);

	if (!effect) {
		c.why_not = "too little data for an interval";
		return c;
	}
	c.effect = *effect;
	c.randomised = randomisation_p(clusters, plan.seed);
	c.control_level = level_of(clusters, false, m.scale);
	c.arm_level = level_of(clusters, true, m.scale);
	if (m.role == FleetRole::guardrail)
		guard(c, m);
	if (c.effect.treated + c.effect.untreated < clusters.size())
		notes.push_back(fmt::format("{}: {} of {} {} are alone in their block, and tell nothing of {}", m.name,
					    clusters.size() - c.effect.treated - c.effect.untreated, clusters.size(),
					    plan.design == FleetDesign::racks ? "racks" : "periods", plan.arms[arm].name));
	return c;
}

void judge(FleetResult &r)
{
	std::vector<double> p;
	std::vector<std::size_t> of;

	for (std::size_t i = 0; i < r.comparisons.size(); i++)
		if (r.plan.metrics[r.comparisons[i].metric].role == FleetRole::primary && r.comparisons[i].why_not.empty()) {
			p.push_back(r.comparisons[i].effect.p());
			of.push_back(i);
		}

	const auto adjusted = holm(p);

	for (std::size_t i = 0; i < of.size(); i++)
		r.comparisons[of[i]].p_adjusted = adjusted[i];
	for (FleetComparison &c : r.comparisons) {
		const FleetMetric &m = r.plan.metrics[c.metric];
		const double shown_p = m.role == FleetRole::primary ? c.p_adjusted : c.effect.p();

		if (c.why_not.empty() && shown_p < significant)
			c.shown = (c.effect.effect < 0) == m.lower_is_better ? FleetShown::better : FleetShown::worse;
	}
}

std::string effect_words(const FleetMetric &m, double v)
{
	return m.scale == FleetScale::ratio ? fmt::format("{:+.2f} %", std::expm1(v) * 100) : fmt::format("{:+.3g}", v);
}

std::string interval_words(const FleetMetric &m, const ClusterEffect &e)
{
	return effect_words(m, e.effect - e.half_width()) + " to " + effect_words(m, e.effect + e.half_width());
}

FleetVerdict verdict_of(const FleetResult &r, std::size_t arm)
{
	const FleetPlan &plan = r.plan;
	FleetVerdict v;
	std::vector<std::string> parts;
	bool better = false;
	bool worse = false;

	v.arm = arm;
	for (const FleetComparison &c : r.comparisons) {
		const FleetMetric &m = plan.metrics[c.metric];

		if (c.arm != arm || m.role == FleetRole::secondary)
			continue;
		if (!c.why_not.empty()) {
			v.known &= m.role != FleetRole::primary;
			v.guard = m.role == FleetRole::guardrail ? std::max(v.guard, FleetGuard::open) : v.guard;
			parts.push_back(m.name + ": not known (" + c.why_not + ")");
			continue;
		}
		if (m.role == FleetRole::primary) {
			better |= c.shown == FleetShown::better;
			worse |= c.shown == FleetShown::worse;
			parts.push_back(c.shown == FleetShown::nothing ?
						fmt::format("{}: no difference to {} shown (95 % CI {}; {} would have been)", m.name, plan.arms[0].name,
							    interval_words(m, c.effect), effect_words(m, c.effect.detectable())) :
						fmt::format("{} {} than with {}: {} (95 % CI {})", m.name,
							    c.shown == FleetShown::better ? "better" : "worse", plan.arms[0].name,
							    effect_words(m, c.effect.effect), interval_words(m, c.effect)));
			continue;
		}
		v.guard = std::max(v.guard, c.guard);
		parts.push_back(fmt::format("guardrail {} {}: {} (95 % CI {})", m.name,
					    c.guard == FleetGuard::holds    ? "holds" :
					    c.guard == FleetGuard::worsened ? "has worsened" :
									      "is open",
					    effect_words(m, c.effect.effect), interval_words(m, c.effect)));
	}
	v.shown = worse ? FleetShown::worse : better ? FleetShown::better : FleetShown::nothing;
	v.text = fmt::format("{}: {}", plan.arms[arm].name, fmt::join(parts, "; "));
	return v;
}

// The label `arm` is put on by who makes hosts one of an arm: it tells what was done, not what was planned.
Result<void> check_arms(FleetResult &r, MetricSource &source)
{
	const FleetPlan &plan = r.plan;
	const RangeQuery query{fleet_query(plan, "sum by ($by, arm) (count_over_time(up{$match, arm!=\"\"}[$range]))"), plan.window_end_s(0),
			       plan.window_end_s(plan.periods - 1), plan.period_s};
	ASSIGN_OR_RETURN(const auto series, source.range(query));
	double all = 0;
	double planned = 0;

	for (const PromSeries &s : series) {
		const auto rack = std::find_if(plan.racks.begin(), plan.racks.end(), [&](const FleetRack &k) {
			const auto label = s.labels.find(plan.rack_label);

			return label != s.labels.end() && label->second == k.name;
		});
		const auto arm = s.labels.find("arm");

		if (rack == plan.racks.end() || arm == s.labels.end())
			continue;
		for (const auto &[time, value] : s.values) {
			const auto period = static_cast<std::size_t>(
				std::clamp<double>(std::round((time - static_cast<double>(query.start_s)) / static_cast<double>(plan.period_s)), 0,
						   static_cast<double>(plan.periods - 1)));
			const std::size_t should = plan.design == FleetDesign::racks ? rack->arm : plan.turns[period].arm;

			all += value;
			planned += arm->second == plan.arms[should].name ? value : 0;
		}
	}
	if (all <= 0) {
		r.notes.emplace_back("no series has a label arm: that hosts had the arms that were planned is not known");
		return {};
	}
	r.as_planned = planned / all;
	if (*r.as_planned < 0.99)
		r.notes.push_back(fmt::format("{:.1f} % of the looks were at hosts that had another arm than planned: differences are those of the plan, and smaller than the arms'",
					      100 * (1 - *r.as_planned)));
	return {};
}

} // namespace

Result<FleetResult> fleet_read(const FleetPlan &plan, MetricSource &source)
{
	FleetResult r;

	r.plan = plan;
	for (std::size_t metric = 0; metric < plan.metrics.size(); metric++) {
		ASSIGN_OR_RETURN(auto cells,
				 fleet_cells(source, plan, plan.metrics[metric], plan.window_end_s(0), plan.periods));

		without_sparse(plan, plan.metrics[metric], cells.cells, r.notes);
		for (std::size_t arm = 1; arm < plan.arms.size(); arm++)
			r.comparisons.push_back(compare(plan, metric, cells, arm, r.notes));
	}
	judge(r);
	for (std::size_t arm = 1; arm < plan.arms.size(); arm++)
		r.verdicts.push_back(verdict_of(r, arm));
	for (const FleetComparison &c : r.comparisons)
		if (c.randomised && c.randomised->least_p > significant) {
			r.notes.push_back(fmt::format("so few {} can be drawn in so few ways that no drawing alone has p below {:.2g}: the intervals rest on differences that are distributed normally",
						      plan.design == FleetDesign::racks ? "racks" : "periods", c.randomised->least_p));
			break;
		}
	RETURN_IF_ERROR(check_arms(r, source));
	return r;
}

} // namespace swift
