// SPDX-License-Identifier: MIT
// What `swiftctl bpf --json` says, action by action.
#include "bpf.h"
#include "json.h"

namespace swift {

namespace {

Json program_json(const BpfProgramStatus &p)
{
	return {{"name", p.name},	{"id", p.id},	    {"insns", p.xlated_insns},
		{"verified_insns", p.verified_insns},	    {"runs", p.runs},
		{"run_ns", p.run_ns},	{"misses", p.misses}};
}

} // namespace

std::string bpf_report_json(const BpfReport &r, const std::string &name, bool dry_run)
{
	Json j;

	j["schema"] = 1;
	j["ok"] = !r.error;
	j["dry_run"] = dry_run;
	j["name"] = name;
	if (!r.registration.empty())
		j["registration"] = r.registration;
	j["steps"] = r.steps;
	j["notes"] = r.notes;
	j["error"] = r.error ? Json(r.error->text()) : Json(nullptr);
	if (!r.verifier_log.empty())
		j["verifier_log"] = r.verifier_log;
	return json_text(j);
}

std::string bpf_list_json(const BpfListing &l)
{
	static constexpr std::array states = {"unused", "in_use", "leaving", "ready"};
	Json j;

	j["schema"] = 1;
	j["kernel"] = {{"btf", l.abilities.btf},
		       {"struct_ops", l.abilities.struct_ops},
		       {"struct_ops_links", l.abilities.ops_links},
		       {"bpffs", l.abilities.bpffs}};
	j["loaded"] = Json::array();
	for (const BpfStatus &s : l.loaded) {
		Json v = {{"name", s.name}, {"law", s.law}, {"registration", s.registration},
			  {"default", s.is_default}, {"left_by_killed_loader", s.leftover},
			  {"pinned", s.pinned}, {"flows", s.flows}, {"profiles", s.profiles}, {"cgroups", s.cgroups}};

		if (s.since_ns)
			v["loaded_time_ns"] = s.since_ns;
		if (s.ops)
			v["struct_ops"] = {{"map_id", s.ops->id},
					   {"state", states[static_cast<std::size_t>(s.ops->state)]},
					   {"references", s.ops->references}};
		v["stamps"] = s.stamps.empty() ? Json(nullptr) : Json::object();
		for (const auto &[counter, n] : s.stamps)
			v["stamps"][std::string(counter)] = n;
		v["programs"] = json_list(s.programs, program_json);
		j["loaded"].push_back(std::move(v));
	}
	j["loadable"] = l.loadable;
	j["telemetry"] = nullptr;
	if (l.telemetry) {
		const TelemetryStatus &t = *l.telemetry;
		Json v = {{"left_by_killed_loader", t.leftover}, {"module_watched", t.module_attached},
			  {"watched", t.watched}, {"max_flows", t.max_flows}, {"max_prefixes", t.max_prefixes}};

		v["tx_one_in"] = t.tx_one_in ? Json(t.tx_one_in) : Json(nullptr);
		v["tx_nic_watched"] = t.tx_nic_attached;
		if (t.since_ns)
			v["loaded_time_ns"] = t.since_ns;
		v["programs"] = json_list(t.programs, program_json);
		j["telemetry"] = std::move(v);
	}
	return json_text(j);
}

std::string bpf_settings_json(const BpfSettings &s, const std::string &name)
{
	const auto number = [](const BpfTunable &t, std::uint32_t value) {
		return t.name == "target_policy" ? Json(t.text(value)) : Json(t.number(value));
	};
	const BpfValues defaults = s.law->defaults(name);
	Json j;

	j["schema"] = 1;
	j["name"] = name;
	j["law"] = s.law->name;
	j["differs"] = s.differs;
	j["tunables"] = Json::array();
	for (std::size_t i = 0; i < s.values.size(); i++) {
		const BpfTunable &t = s.law->tunables[i];

		j["tunables"].push_back({{"name", t.name},
					 {"value", number(t, s.values[i])},
					 {"default", number(t, defaults[i])},
					 {"min", t.min},
					 {"max", t.max},
					 {"meaning", t.meaning}});
	}
	j["profiles"] = Json::array();
	for (const auto &[prefix, values] : s.profiles) {
		Json p = {{"prefix", prefix.text()}, {"values", Json::object()}};

		for (std::size_t i = 0; i < values.size(); i++)
			p["values"][std::string(s.law->tunables[i].name)] = number(s.law->tunables[i], values[i]);
		j["profiles"].push_back(std::move(p));
	}
	return json_text(j);
}

} // namespace swift
