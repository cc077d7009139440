// SPDX-License-Identifier: MIT
// A fleet's result, as people and as programs read it.
#include <fmt/format.h>

#include <cmath>

#include "fleet_result.h"
#include "table.h"
#include "text.h"

namespace swift {

namespace {

std::string_view guard_word(FleetGuard guard)
{
	return guard == FleetGuard::holds ? "holds" : guard == FleetGuard::worsened ? "worsened" : "open";
}

std::string_view shown_word(FleetShown shown)
{
	return shown == FleetShown::better ? "better" : shown == FleetShown::worse ? "worse" : "none";
}

// A factor or a difference, of what the analysis has.
double unscaled(FleetScale scale, double v)
{
	return scale == FleetScale::ratio ? std::exp(v) : v;
}

std::string change_text(FleetScale scale, double v)
{
	return scale == FleetScale::ratio ? fmt::format("{:+.2f} %", std::expm1(v) * 100) : fmt::format("{:+.3g}", v);
}

Cell outcome_cell(const FleetMetric &m, const FleetComparison &c)
{
	if (!c.why_not.empty())
		return {"not known", Colour::yellow};
	if (m.role == FleetRole::guardrail)
		return {fmt::format("{}; worse by {} at most", guard_word(c.guard), change_text(m.scale, m.lower_is_better ? c.worse_at_most : -c.worse_at_most)),
			c.guard == FleetGuard::holds ? Colour::green : c.guard == FleetGuard::worsened ? Colour::red : Colour::yellow};
	if (c.shown == FleetShown::nothing)
		return {"no difference shown", Colour::dim};
	return {c.shown == FleetShown::better ? "better" : "worse", c.shown == FleetShown::better ? Colour::green : Colour::red};
}

} // namespace

std::string fleet_result_text(const FleetResult &r, const Terminal &terminal)
{
	const FleetPlan &plan = r.plan;
	Table table{{{"arm"},
		     {"metric"},
		     {"role", false, 3},
		     {plan.arms[0].name, true, 2},
		     {"here", true, 2},
		     {"difference", true},
		     {"95 % CI", true},
		     {"p", true, 1},
		     {"p drawn", true, 4},
		     {"clusters", true, 5},
		     {"outcome"}},
		    {}};
	std::string text = fmt::format("{}: {} by {}, {} to {}, {} periods of {} s\n\n", plan.name, "arms",
				       plan.design == FleetDesign::racks ? "rack" : "time", utc_text(plan.start_s), utc_text(plan.end_s()), plan.periods,
				       plan.period_s);

	for (std::size_t arm = 1; arm < plan.arms.size(); arm++)
		for (const FleetComparison &c : r.comparisons) {
			const FleetMetric &m = plan.metrics[c.metric];
			std::vector<Cell> row = {{plan.arms[arm].name}, {m.name}, {std::string(fleet_word(m.role))}};

			if (c.arm != arm)
				continue;
			if (c.why_not.empty())
				for (const std::string &cell :
				     {fmt::format("{:.4g}", c.control_level), fmt::format("{:.4g}", c.arm_level), change_text(m.scale, c.effect.effect),
				      change_text(m.scale, c.effect.effect - c.effect.half_width()) + " to " +
					      change_text(m.scale, c.effect.effect + c.effect.half_width()),
				      fmt::format("{:.2g}", m.role == FleetRole::primary ? c.p_adjusted : c.effect.p()),
				      c.randomised ? fmt::format("{:.2g}", c.randomised->p) : std::string(no_value),
				      fmt::format("{}+{}", c.effect.untreated, c.effect.treated)})
					row.push_back({cell});
			else
				row.resize(10, {no_value});
			row.push_back(outcome_cell(m, c));
			table.rows.push_back(std::move(row));
		}

	text += table_text(table, terminal) + "\n";
	for (const FleetVerdict &v : r.verdicts)
		text += v.text + "\n";
	text += fmt::format("\nA {} is one value: intervals and p of t with CR2 errors and Satterthwaite's degrees of freedom; \"p drawn\" by drawing the arms again.\n",
			    plan.design == FleetDesign::racks ? "rack" : "period");
	for (const std::string &note : r.notes)
		text += note + "\n";
	return text;
}

Json fleet_result_json(const FleetResult &r)
{
	const FleetPlan &plan = r.plan;
	Json j = {{"schema", 1},
		  {"kind", "fleet"},
		  {"plan", fleet_plan_json(plan)},
		  {"from", r.from},
		  {"read", r.read_s},
		  {"as_planned", r.as_planned ? Json(*r.as_planned) : Json(nullptr)},
		  {"comparisons", Json::array()},
		  {"verdicts", Json::array()},
		  {"notes", r.notes}};

	for (const FleetComparison &c : r.comparisons) {
		const FleetMetric &m = plan.metrics[c.metric];
		Json row = {{"arm", plan.arms[c.arm].name},
			    {"control", plan.arms[0].name},
			    {"metric", m.name},
			    {"role", fleet_word(m.role)},
			    {"scale", fleet_word(m.scale)},
			    {"better", m.lower_is_better ? "lower" : "higher"},
			    {"why_not", c.why_not.empty() ? Json(nullptr) : Json(c.why_not)}};

		if (c.why_not.empty()) {
			const ClusterEffect &e = c.effect;

			row.update(Json{{"control_level", c.control_level},
					{"arm_level", c.arm_level},
					{"effect", unscaled(m.scale, e.effect)},
					{"low", unscaled(m.scale, e.effect - e.half_width())},
					{"high", unscaled(m.scale, e.effect + e.half_width())},
					{"se", e.se},
					{"df", e.df},
					{"p", e.p()},
					{"p_randomisation", c.randomised ? Json(c.randomised->p) : Json(nullptr)},
					{"control_clusters", e.untreated},
					{"arm_clusters", e.treated},
					{"blocks", e.blocks},
					{"before_used", e.before_used},
					{"detectable", unscaled(m.scale, e.detectable())},
					{"shown", shown_word(c.shown)}});
			if (m.role == FleetRole::primary)
				row["p_holm"] = c.p_adjusted;
			if (m.role == FleetRole::guardrail)
				row["guardrail"] = {{"margin", m.margin},
						    {"worse_at_most", unscaled(m.scale, m.lower_is_better ? c.worse_at_most : -c.worse_at_most)},
						    {"p_worse", c.p_worse},
						    {"state", guard_word(c.guard)}};
		}
		j["comparisons"].push_back(std::move(row));
	}
	for (const FleetVerdict &v : r.verdicts)
		j["verdicts"].push_back({{"arm", plan.arms[v.arm].name},
					 {"shown", shown_word(v.shown)},
					 {"guardrails", guard_word(v.guard)},
					 {"known", v.known},
					 {"text", v.text}});
	return j;
}

} // namespace swift
