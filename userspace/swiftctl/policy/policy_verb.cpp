// SPDX-License-Identifier: MIT
#include "policy_verb.h"

#include <fmt/format.h>

#include <cerrno>

#include "clock_ns.h"
#include "json.h"
#include "netns.h"
#include "say.h"
#include "table.h"
#include "terminal.h"
#include "text.h"

namespace swift {

namespace {

constexpr double patience_s = 2; // with others who change BPF variants

std::int64_t now_s()
{
	return clock_ns(CLOCK_REALTIME) / 1'000'000'000;
}

std::string set_text(const Targets &set)
{
	std::string all;

	for (const std::string &name : policy_tunables())
		if (const auto at = set.find(name); at != set.end())
			all += fmt::format("{}{}={}", all.empty() ? "" : " ", name, at->second);
	return all;
}

std::string place_text(const std::string &of, const std::string &prefix)
{
	return prefix.empty() ? of : of + " " + prefix;
}

Json targets_json(const Targets &targets)
{
	Json j = Json::object();

	for (const std::string &name : policy_tunables())
		if (const auto at = targets.find(name); at != targets.end()) {
			if (name == "target_policy")
				j[name] = at->second;
			else
				j[name] = std::stoll(at->second); // checked when it was read
		}
	return j;
}

Json values_json(const PlaceValues &v)
{
	return v.there ? targets_json(v.targets) : Json();
}

Json rule_json(const PolicyRule &r)
{
	Json j = {{"of", r.of},
		  {"prefix", r.prefix.empty() ? Json() : Json(r.prefix)},
		  {"line", r.line},
		  {"targets", targets_json(r.set)}};

	if (r.dscp)
		j["class"] = *r.dscp < 0 ? Json("default") : Json(*r.dscp);
	return j;
}

Json policy_json(const Policy &p)
{
	return {{"version", p.version},
		{"author", p.author},
		{"expires", utc_text(p.expires_s)},
		{"expires_s", p.expires_s}};
}

std::vector<PolicyTarget> targets_now(const PolicyRecord &record, const MakePlace &make_place)
{
	std::vector<PolicyTarget> all;

	for (const PolicyRecord::Place &p : record.places) {
		const auto place = make_place(p.of, p.prefix);

		all.push_back({p, place->name(), place->read()});
	}
	return all;
}

Result<int> check(const PolicyOptions &options, const Files &files, const MakePlace &make_place)
{
	ASSIGN_OR_RETURN(const auto text, files.read_file(options.file));
	const auto read = parse_policy(text, now_s());
	PolicyHere here;

	if (read.policy && options.here)
		here = PolicyRun::fitting(*read.policy, make_place);
	const bool good = read.policy && (!here || *here);

	if (options.json)
		return print(check_json(read, options.file, here)) && good ? exit_ok : exit_failed;
	if (!read.policy)
		return Error{read.error.text(options.file)};
	if (here && !*here)
		return Error{fmt::format("{}: {}", options.file, here->error().text())};
	return leave(check_text(options.file, *read.policy, here));
}

Result<int> show(const PolicyOptions &options, const Files &files, const std::string &netns,
		 const MakePlace &make_place)
{
	ASSIGN_OR_RETURN(const auto record, load_policy_record(files, netns));
	const auto targets = record ? targets_now(*record, make_place) : std::vector<PolicyTarget>();

	if (options.json)
		return leave(show_json(record, targets));
	if (!record)
		return leave("no policy was ever in force here\n");
	return leave(show_text(*record, targets, static_cast<double>(now_s())));
}

Result<int> undo(const PolicyOptions &options, const System &system, Files &files, const std::string &netns,
		 const MakePlace &make_place)
{
	if (!system.is_root())
		return Error{"changing targets needs root"};
	if (!files.exists(policy_record_path(netns))) {
		const std::string nothing = "nothing to put back: no policy was ever in force here\n";

		return leave(options.json ? json_text({{"undone", false}}, true) : nothing);
	}
	auto run = PolicyRun::begin(files, make_place, netns, false);

	if (!run && run.error().code == EWOULDBLOCK)
		return Error{run.error().text() +
			     "; swiftd takes it back itself once policy.file is unset or gone, and it was reloaded"};
	RETURN_IF_ERROR(run);
	const auto lost = (*run)->lost();
	const bool any = (*run)->policy().has_value();

	RETURN_IF_ERROR((*run)->undo());
	for (const std::string &each : lost)
		note(policy_verb, each + ": left alone");
	if (options.json)
		return leave(json_text({{"undone", any}, {"left", lost}}, true));
	return leave(!any	    ? "forgotten: no policy was in force\n" :
		     lost.empty() ? "targets are as before the policy\n" :
				    "all other targets are as before the policy\n");
}

} // namespace

std::string check_text(const std::string &file, const Policy &policy, const PolicyHere &here)
{
	Table table;
	const std::vector<PolicyRule> &rules = here ? **here : policy.rules;
	std::string text =
		fmt::format("{}: {} by {}, until {}; guard {}\n", file, policy.version, policy.author,
			    utc_text(policy.expires_s),
			    policy.guard.enabled ?
				    fmt::format("at {:g} % of throughput, {:g} % of p99 RTT",
						100 * policy.guard.throughput, 100 * policy.guard.tail) :
				    "off");

	table.columns = {{"LINE", true}, {"OF"}, {"PREFIX"}, {"CLASS"}, {here ? "WOULD SET" : "SETS"}};
	for (const PolicyRule &r : rules)
		table.rows.push_back({{std::to_string(r.line)},
				      {r.of},
				      {r.prefix.empty() ? no_value : r.prefix},
				      {r.dscp ? class_text(*r.dscp) : no_value},
				      {set_text(r.set)}});
	return text + table_text(table, standard_output());
}

std::string check_json(const PolicyFile &read, const std::string &file, const PolicyHere &here)
{
	Json j = {{"file", file}, {"valid", read.policy.has_value()}};

	if (!read.policy) {
		const PolicyError &e = read.error;

		j["error"] = {{"line", e.line ? Json(e.line) : Json()},
			      {"field", e.field},
			      {"value", e.value},
			      {"allowed", e.allowed},
			      {"text", e.text(file)}};
		return json_text(j);
	}
	j.update(policy_json(*read.policy));
	j["guard"] = {{"enabled", read.policy->guard.enabled},
		      {"throughput_percent", 100 * read.policy->guard.throughput},
		      {"tail_percent", 100 * read.policy->guard.tail}};
	j["targets"] = json_list(read.policy->rules, rule_json);
	if (here) {
		j["here"] = {{"can", static_cast<bool>(*here)}};
		if (*here) {
			j["here"]["targets"] = json_list(**here, rule_json);
		} else {
			j["here"]["error"] = here->error().text();
		}
	}
	return json_text(j);
}

std::string show_text(const PolicyRecord &record, const std::vector<PolicyTarget> &targets, double now)
{
	std::string text;
	Table table;

	if (const auto policy = record.current.empty() ? std::nullopt :
							 parse_policy(record.current, 0).policy) {
		const double left_s = static_cast<double>(policy->expires_s) - now;

		text += fmt::format(
			"in force  {} by {}, since {}, until {} ({})\n", policy->version, policy->author,
			utc_text(static_cast<std::int64_t>(record.since_s)), utc_text(policy->expires_s),
			left_s > 0 ? span_text(static_cast<std::int64_t>(left_s) * 1'000'000'000, false) +
					     " left" :
				     "over");
		text += fmt::format("guard     {}\n", !policy->guard.enabled ? "off" :
						      record.acquitted	     ? "watches" :
									       "tries it");
		if (const auto before = record.previous.empty() ? std::nullopt :
								  parse_policy(record.previous, 0).policy)
			text += fmt::format("before    {} by {}\n", before->version, before->author);
	} else {
		text += "in force  none\n";
	}
	if (const auto ended = record.ended.empty() ? std::nullopt : parse_policy(record.ended, 0).policy)
		text += fmt::format("ended     {} by {}, at {}, by {}: {}\n", ended->version, ended->author,
				    utc_text(static_cast<std::int64_t>(record.ended_s)), printable(record.ended_by),
				    printable(record.ended_why));
	table.columns = {{"TARGET"}, {"POLICY"}, {"NOW"}};
	for (const PolicyTarget &t : targets) {
		if (!t.place.ruled)
			continue;
		const std::string now_text = !t.now		   ? t.now.error().text() :
					     *t.now == t.place.now ? "as the policy" :
					     *t.now == t.place.old ? "as before, in the guard's trial" :
								     "otherwise: " + t.now->text();

		table.rows.push_back(
			{{place_text(t.place.of, t.place.prefix)}, {t.place.now.text()}, {now_text}});
	}
	return table.rows.empty() ? text : text + table_text(table, standard_output());
}

std::string show_json(const std::optional<PolicyRecord> &record, const std::vector<PolicyTarget> &targets)
{
	Json j = {{"in_force", nullptr}, {"ended", nullptr}, {"targets", Json::array()}};

	if (!record)
		return json_text(j);
	if (const auto policy = record->current.empty() ? std::nullopt :
							  parse_policy(record->current, 0).policy) {
		j["in_force"] = policy_json(*policy);
		j["in_force"]["since_s"] = record->since_s;
		j["in_force"]["acquitted"] = record->acquitted;
	}
	if (const auto ended = record->ended.empty() ? std::nullopt : parse_policy(record->ended, 0).policy) {
		j["ended"] = policy_json(*ended);
		j["ended"]["by"] = record->ended_by;
		j["ended"]["why"] = record->ended_why;
		j["ended"]["time_s"] = record->ended_s;
	}
	for (const PolicyTarget &t : targets)
		if (t.place.ruled)
			j["targets"].push_back(
				{{"of", t.place.of},
				 {"prefix", t.place.prefix.empty() ? Json() : Json(t.place.prefix)},
				 {"policy", values_json(t.place.now)},
				 {"before", values_json(t.place.base)},
				 {"now", t.now ? values_json(*t.now) : Json()},
				 {"as_policy", t.now && *t.now == t.place.now}});
	return json_text(j);
}

Result<int> run_policy(const PolicyOptions &options)
{
	RETURN_IF_ERROR(take_netns(options.netns));

	const auto system = real_system(options.root);
	const auto host = real_bpf_host();
	const auto sockets = real_sockets();
	BpfVariants variants(*system, *sockets, *host);
	const std::string netns = this_netns();
	const auto make_place = real_places(*system, variants, netns, patience_s);

	switch (options.action) {
	case PolicyOptions::Action::check:
		return check(options, *real_system(), make_place);
	case PolicyOptions::Action::undo:
		return undo(options, *system, *system, netns, make_place);
	case PolicyOptions::Action::show:
		break;
	}
	return show(options, *system, netns, make_place);
}

} // namespace swift
