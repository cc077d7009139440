// SPDX-License-Identifier: MIT
#include "policy_record.h"

#include "json.h"
#include "tunables.h"

namespace swift {

namespace {

constexpr int record_schema = 1;
constexpr std::size_t most_places = 2 * most_policy_rules;

Json json_of(const PlaceValues &v)
{
	if (!v.there)
		return nullptr;
	Json j = Json::object();

	for (const auto &[name, value] : v.targets)
		j[name] = value;
	return j;
}

// Nothing that a policy could not have set.
std::optional<PlaceValues> values_of(const Json &j, const char *key)
{
	const auto at = j.find(key);
	PlaceValues v;

	if (at == j.end())
		return std::nullopt;
	if (at->is_null()) {
		v.there = false;
		return v;
	}
	if (!at->is_object() || at->size() != policy_tunables().size())
		return std::nullopt;
	for (const std::string &name : policy_tunables()) {
		const auto text = text_member(*at, name.c_str());

		if (!text || !find_tunable(name)->check(*text))
			return std::nullopt;
		v.targets[name] = *text;
	}
	return v;
}

std::optional<PolicyRecord::Place> place_of(const Json &j)
{
	PolicyRecord::Place p;

	if (!j.is_object())
		return std::nullopt;
	const auto of = text_member(j, "of"), prefix = text_member(j, "prefix");
	auto base = values_of(j, "base"), old = values_of(j, "old"), now = values_of(j, "now");
	const auto ruled = j.find("ruled");

	if (!of || !prefix || !base || !old || !now || ruled == j.end() || !ruled->is_boolean())
		return std::nullopt;
	if (*of != "module" && *of != "bpf_swift" && *of != "bpf_swift_v0")
		return std::nullopt;
	if (!prefix->empty() && (*of == "module" || !BpfPrefix::parse(*prefix)))
		return std::nullopt;
	if (prefix->empty() && !(base->there && old->there && now->there))
		return std::nullopt;
	return PolicyRecord::Place{
		*of, *prefix, std::move(*base), std::move(*old), std::move(*now), ruled->get<bool>()};
}

std::optional<PolicyRecord> record_of(const Json &j)
{
	PolicyRecord r;

	for (const auto &[key, to] : {std::pair("current", &r.current),
				      {"previous", &r.previous},
				      {"ended", &r.ended},
				      {"ended_by", &r.ended_by},
				      {"ended_why", &r.ended_why}}) {
		auto text = text_member(j, key);

		if (!text || text->size() > most_policy_bytes)
			return std::nullopt;
		*to = std::move(*text);
	}
	for (const auto &[key, to] : {std::pair("since_s", &r.since_s), {"ended_s", &r.ended_s}}) {
		if (!j.contains(key) || !j[key].is_number())
			return std::nullopt;
		*to = j[key].get<double>();
	}
	if (!j.contains("acquitted") || !j["acquitted"].is_boolean() || !j.contains("places") ||
	    !j["places"].is_array() || j["places"].size() > most_places)
		return std::nullopt;
	r.acquitted = j["acquitted"].get<bool>();
	for (const Json &each : j["places"]) {
		auto place = place_of(each);

		if (!place)
			return std::nullopt;
		r.places.push_back(std::move(*place));
	}
	// What cannot be read is no policy that was in force.
	if (!r.current.empty() && !parse_policy(r.current, 0).policy)
		return std::nullopt;
	if (!r.previous.empty() && !parse_policy(r.previous, 0).policy)
		return std::nullopt;
	return r;
}

} // namespace

std::string policy_record_path(const std::string &netns)
{
	return std::string(state_dir(Keeper::service)) + "/policy-" + netns + ".json";
}

Result<std::optional<PolicyRecord>> load_policy_record(const Files &files, const std::string &netns)
{
	const std::string path = policy_record_path(netns);

	if (!files.exists(path))
		return std::optional<PolicyRecord>();
	ASSIGN_OR_RETURN(auto text, files.read_record(path));
	const Json j = Json::parse(text, nullptr, false);

	if (j.is_object() && text_member(j, "boot_id") && *text_member(j, "boot_id") != boot_id(files))
		return std::optional<PolicyRecord>();
	if (j.is_object() && j.contains("schema") && j["schema"] == record_schema)
		if (auto record = record_of(j))
			return record;
	return Error{"cannot make sense of " + path + "; remove it to begin anew"};
}

Result<void> save_policy_record(Files &files, const std::string &netns, const PolicyRecord &r)
{
	Json places = Json::array();

	for (const PolicyRecord::Place &p : r.places)
		places.push_back({{"of", p.of},
				  {"prefix", p.prefix},
				  {"ruled", p.ruled},
				  {"base", json_of(p.base)},
				  {"old", json_of(p.old)},
				  {"now", json_of(p.now)}});
	return files.replace_file(
		policy_record_path(netns),
		json_text(
			{{"schema", record_schema},
			 {"what", "the policy in force, and the targets before it; swiftctl policy reads it"},
			 {"boot_id", boot_id(files)},
			 {"current", r.current},
			 {"since_s", r.since_s},
			 {"acquitted", r.acquitted},
			 {"previous", r.previous},
			 {"ended", r.ended},
			 {"ended_by", r.ended_by},
			 {"ended_why", r.ended_why},
			 {"ended_s", r.ended_s},
			 {"places", std::move(places)}}),
		0644);
}

} // namespace swift
