// SPDX-License-Identifier: MIT
// The plan as files: its JSON, there and back; what Ansible reads and what it says; the plan in words.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "ab_json.h"
#include "fleet_plan.h"
#include "printable.h"
#include "shell_word.h"
#include "text.h"

namespace swift {

namespace {

constexpr std::size_t label_max = 128; // a rack's name
constexpr double whole_max = 9007199254740992; // that JSON's numbers hold
constexpr const char *plan_kind = "fleet-plan";

// A Prometheus label's value that PromQL, YAML and a table can have as it is.
bool good_label(const std::string &name)
{
	return !name.empty() && name.size() <= label_max && name == printable(name) && name.find_first_of("\"\\'") == std::string::npos;
}

std::string yaml(const std::string &text)
{
	return Json(text).dump(); // a JSON string is one of YAML
}

// [{from, arm}], the control again at the end.
Json schedule_of(const FleetPlan &plan, std::size_t arm)
{
	Json list = Json::array();

	if (plan.design == FleetDesign::racks) {
		list.push_back({{"from", plan.start_s}, {"arm", plan.arms[arm].name}});
	} else {
		for (std::size_t i = 0; i < plan.turns.size(); i++)
			if (i == 0 || plan.turns[i].arm != plan.turns[i - 1].arm)
				list.push_back({{"from", plan.start_s + static_cast<std::int64_t>(i) * plan.period_s},
						{"arm", plan.arms[plan.turns[i].arm].name}});
	}
	list.push_back({{"from", plan.end_s()}, {"arm", plan.arms[0].name}});
	return list;
}

// The hosts of @group and of its children.
void hosts_of(const Json &inventory, const std::string &group, std::set<std::string> &groups, std::set<std::string> &hosts)
{
	if (!groups.insert(group).second || !inventory.contains(group) || !inventory[group].is_object())
		return;
	for (const char *what : {"hosts", "children"}) {
		if (!inventory[group].contains(what) || !inventory[group][what].is_array())
			continue;
		for (const Json &name : inventory[group][what])
			if (name.is_string() && what == std::string_view("hosts"))
				hosts.insert(name.get<std::string>());
			else if (name.is_string())
				hosts_of(inventory, name.get<std::string>(), groups, hosts);
	}
}

template <typename E> E word_of(const JsonNode &node, std::initializer_list<E> all)
{
	const std::string word = node.text();
	std::vector<std::string_view> words;

	for (const E e : all) {
		if (word == fleet_word(e))
			return e;
		words.push_back(fleet_word(e));
	}
	node.complain(fmt::format("one of {}", fmt::join(words, ", ")));
	return *all.begin();
}

std::size_t index_of(const std::vector<FleetArm> &arms, const JsonNode &node)
{
	const std::string name = node.text();
	const auto arm = std::find_if(arms.begin(), arms.end(), [&](const FleetArm &a) { return a.name == name; });

	if (arm != arms.end())
		return static_cast<std::size_t>(arm - arms.begin());
	node.complain("the name of an arm");
	return 0;
}

std::string share_text(const FleetMetric &m, double v)
{
	return m.scale == FleetScale::ratio ? fmt::format("{:.2g} %", v * 100) : fmt::format("{:.2g}", v);
}

} // namespace

Result<std::vector<FleetRack>> read_fleet_racks(const std::string &name, std::string_view text, const std::string &group,
						const std::string &rack_var)
{
	ASSIGN_OR_RETURN(const auto json, prefixed(name + ": ", parse_json(text)));

	if (!json.is_object() || !json.contains("_meta") || !json["_meta"].is_object() || !json["_meta"].contains("hostvars"))
		return Error{name + ": not what `ansible-inventory --list` says: no _meta.hostvars in it"};
	if (!json.contains(group))
		return Error{name + ": --group", group, "one of the inventory's groups"};

	const Json &vars = json["_meta"]["hostvars"];
	std::set<std::string> groups;
	std::set<std::string> hosts;
	std::map<std::string, FleetRack> racks;
	std::vector<FleetRack> out;

	hosts_of(json, group, groups, hosts);
	for (const std::string &host : hosts) {
		std::string rack;

		RETURN_IF_ERROR(check_host_name(name + ": host", host));
		if (vars.is_object() && vars.contains(host) && vars[host].is_object() && vars[host].contains(rack_var)) {
			const Json &v = vars[host][rack_var];

			rack = v.is_string() ? v.get<std::string>() : v.is_number() ? v.dump() : "";
		}
		if (!good_label(rack))
			return Error{fmt::format("{}: host {}: variable {}", name, host, rack_var), rack.empty() ? "not there" : rack,
				     fmt::format("the rack's name: 1 to {} printable characters without quotes", label_max)};
		racks[rack].hosts.push_back(host);
	}
	for (auto &[rack, r] : racks) {
		r.name = rack;
		out.push_back(std::move(r));
	}
	if (out.empty())
		return Error{name + ": no host in the group " + group};
	return out;
}

std::string fleet_inventory(const FleetPlan &plan)
{
	std::string text = fmt::format("# swiftctl ab --fleet plan: {}, seed {}. Beside the hosts' own inventory:\n"
				       "#   ansible-playbook -i INVENTORY -i THIS arms.yml\n"
				       "swift_experiment:\n  vars:\n    swift_experiment: {}\n    swift_arms:\n",
				       plan.name, plan.seed, yaml(plan.name));

	for (const FleetArm &a : plan.arms)
		text += fmt::format("      {}: {}\n", yaml(a.name), yaml(a.command)); // as it is, "no" is a truth value
	if (plan.design == FleetDesign::time)
		text += "    swift_schedule: " + schedule_of(plan, 0).dump() + "\n";
	text += "  children:\n";
	for (std::size_t i = 0; i < plan.racks.size(); i++) {
		const FleetRack &r = plan.racks[i];

		text += fmt::format("    swift_rack_{:04}:\n      vars:\n        swift_rack: {}\n", i + 1, yaml(r.name));
		if (plan.design == FleetDesign::racks)
			text += fmt::format("        swift_arm: {}\n        swift_schedule: {}\n", yaml(plan.arms[r.arm].name), schedule_of(plan, r.arm).dump());
		text += "      hosts:\n";
		for (const std::string &host : r.hosts)
			text += "        " + yaml(host) + ":\n";
	}
	if (plan.design != FleetDesign::racks)
		return text;
	for (std::size_t arm = 0; arm < plan.arms.size(); arm++) {
		text += fmt::format("swift_arm_{}:\n  children:\n", plan.arms[arm].name);
		for (std::size_t i = 0; i < plan.racks.size(); i++)
			if (plan.racks[i].arm == arm)
				text += fmt::format("    swift_rack_{:04}:\n", i + 1);
	}
	return text;
}

Json fleet_plan_json(const FleetPlan &plan)
{
	Json j = {{"schema", 1},
		  {"kind", plan_kind},
		  {"name", plan.name},
		  {"by", fleet_word(plan.design)},
		  {"seed", plan.seed},
		  {"start", plan.start_s},
		  {"end", plan.end_s()},
		  {"period_s", plan.period_s},
		  {"periods", plan.periods},
		  {"carry_over_s", plan.carry_over_s},
		  {"rack_label", plan.rack_label},
		  {"match", plan.match},
		  {"arms", Json::array()},
		  {"racks", Json::array()},
		  {"turns", Json::array()},
		  {"metrics", Json::array()},
		  {"before", plan.before},
		  {"detectable", Json::array()}};

	for (const FleetArm &a : plan.arms)
		j["arms"].push_back({{"name", a.name}, {"command", a.command}});
	for (const FleetRack &r : plan.racks) {
		Json rack = {{"name", r.name}, {"hosts", r.hosts}};

		if (plan.design == FleetDesign::racks) {
			rack["block"] = r.block;
			rack["arm"] = plan.arms[r.arm].name;
		}
		j["racks"].push_back(std::move(rack));
	}
	for (std::size_t i = 0; i < plan.turns.size(); i++)
		j["turns"].push_back({{"start", plan.start_s + static_cast<std::int64_t>(i) * plan.period_s},
				      {"block", plan.turns[i].block},
				      {"arm", plan.arms[plan.turns[i].arm].name}});
	for (const FleetMetric &m : plan.metrics) {
		Json metric = {{"name", m.name},
			       {"role", fleet_word(m.role)},
			       {"scale", fleet_word(m.scale)},
			       {"better", m.lower_is_better ? "lower" : "higher"},
			       {"query", m.query}};

		if (m.role == FleetRole::guardrail)
			metric["margin"] = m.margin;
		j["metrics"].push_back(std::move(metric));
	}
	for (const FleetDetectable &d : plan.detectable)
		j["detectable"].push_back({{"metric", d.metric}, {"effect", d.effect}});
	return j;
}

Result<FleetPlan> read_fleet_plan(const std::string &name, std::string_view text)
{
	ASSIGN_OR_RETURN(const auto json, prefixed(name + ": ", parse_json(text)));
	std::optional<Error> wrong;
	const JsonNode j(json, wrong);
	FleetPlan plan;

	if (const std::string kind = j["kind"].text(); !wrong && kind != plan_kind)
		return Error{name + ": kind", kind, plan_kind};
	if (j["schema"].number(0, whole_max) != 1 && !wrong)
		return Error{name + ": schema", j["schema"].json().dump(), "1"};
	plan.name = j["name"].text();
	plan.design = word_of(j["by"], {FleetDesign::racks, FleetDesign::time});
	plan.seed = static_cast<std::uint64_t>(j["seed"].number(0, whole_max));
	plan.start_s = static_cast<std::int64_t>(j["start"].number(0, whole_max / 1024));
	plan.period_s = static_cast<std::int64_t>(j["period_s"].number(1, whole_max / 1024 / 1024));
	plan.carry_over_s = static_cast<std::int64_t>(j["carry_over_s"].number(0, whole_max / 1024 / 1024));
	plan.periods = static_cast<std::size_t>(j["periods"].number(1, static_cast<double>(fleet_periods_max)));
	plan.rack_label = j["rack_label"].text();
	plan.match = j["match"].text();
	for (const JsonNode &a : j["arms"].required("a list").list())
		plan.arms.push_back({a["name"].text(), a["command"].text()});
	if (plan.arms.empty() && !wrong)
		return Error{name + ": no arms in it"};
	for (const JsonNode &r : j["racks"].required("a list").list()) {
		FleetRack rack{r["name"].text(), {}, 0, 0};

		for (const JsonNode &host : r["hosts"].required("a list").list())
			rack.hosts.push_back(host.text());
		if (plan.design == FleetDesign::racks) {
			rack.block = static_cast<std::size_t>(r["block"].number(0, static_cast<double>(fleet_racks_max)));
			rack.arm = index_of(plan.arms, r["arm"]);
		}
		plan.racks.push_back(std::move(rack));
	}
	for (const JsonNode &t : j["turns"].required("a list").list())
		plan.turns.push_back({static_cast<std::size_t>(t["block"].number(0, static_cast<double>(fleet_periods_max))), index_of(plan.arms, t["arm"])});
	for (const JsonNode &m : j["metrics"].required("a list").list()) {
		FleetMetric metric;
		const std::string better = m["better"].text();

		metric.name = m["name"].text();
		metric.query = m["query"].text();
		metric.role = word_of(m["role"], {FleetRole::primary, FleetRole::guardrail, FleetRole::secondary});
		metric.scale = word_of(m["scale"], {FleetScale::ratio, FleetScale::difference});
		metric.lower_is_better = better == "lower";
		if (better != "lower" && better != "higher")
			m["better"].complain("lower or higher");
		if (metric.role == FleetRole::guardrail)
			metric.margin = m["margin"].number(0, metric.scale == FleetScale::ratio ? 0.99 : whole_max);
		plan.metrics.push_back(std::move(metric));
	}
	for (const auto &[metric, racks] : j["before"].members())
		for (const auto &[rack, value] : racks.members())
			plan.before[metric][rack] = value.number();
	if (wrong)
		return Error{name + ": " + wrong->text()};
	if (plan.design == FleetDesign::time && plan.turns.size() != plan.periods)
		return Error{name + ": turns", std::to_string(plan.turns.size()), std::to_string(plan.periods) + ", as its periods"};
	RETURN_IF_ERROR(prefixed(name + ": ", fleet_check(plan)));
	return plan;
}

std::string fleet_plan_text(const FleetPlan &plan)
{
	std::size_t hosts = 0;
	std::string text;
	std::vector<std::string> names;

	for (const FleetRack &r : plan.racks)
		hosts += r.hosts.size();
	for (const FleetArm &a : plan.arms)
		names.push_back(a.name);
	text = fmt::format("{}: {} by {}, {} hosts in {} racks (seed {})\n", plan.name, fmt::join(names, ", "),
			   plan.design == FleetDesign::racks ? "rack" : "time, all racks at once", hosts, plan.racks.size(), plan.seed);
	text += fmt::format("from {} to {}: {} periods of {} s, without the first {} s{}\n\n", utc_text(plan.start_s), utc_text(plan.end_s()), plan.periods,
			    plan.period_s, plan.carry_over_s, plan.design == FleetDesign::racks ? "" : " of each");
	if (plan.design == FleetDesign::racks) {
		const std::size_t blocks = std::max_element(plan.racks.begin(), plan.racks.end(), [](const auto &a, const auto &b) {
						   return a.block < b.block;
					   })->block + 1;

		for (std::size_t block = 0; block < blocks; block++) {
			std::vector<std::string> members;

			for (const FleetRack &r : plan.racks)
				if (r.block == block)
					members.push_back(fmt::format("{} {}", plan.arms[r.arm].name, r.name));
			std::sort(members.begin(), members.end());
			text += fmt::format("block {}: {}\n", block + 1, fmt::join(members, ", "));
		}
	} else {
		for (std::size_t i = 0; i < plan.turns.size(); i++)
			text += fmt::format("{}  {}\n", utc_text(plan.start_s + static_cast<std::int64_t>(i) * plan.period_s), plan.arms[plan.turns[i].arm].name);
		text += fmt::format("{}  {} again\n", utc_text(plan.end_s()), plan.arms[0].name);
	}
	text += '\n';
	for (const FleetMetric &m : plan.metrics) {
		const auto d = std::find_if(plan.detectable.begin(), plan.detectable.end(), [&](const auto &v) { return v.metric == m.name; });

		text += fmt::format("{} ({}, {} is better)", m.name, fleet_word(m.role), m.lower_is_better ? "lower" : "higher");
		if (m.role == FleetRole::guardrail)
			text += fmt::format(": may worsen by {}", share_text(m, m.margin));
		text += d != plan.detectable.end() ? fmt::format("; a change of {} would be shown 4 times in 5, as the past was\n", share_text(m, d->effect)) :
						     "; what can be shown is not known\n";
	}
	return text;
}

} // namespace swift
