// SPDX-License-Identifier: MIT
// `swiftctl ab --fleet`: from options to files.
#include "fleet_ab.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <filesystem>

#include "fleet_plan.h"
#include "fleet_result.h"
#include "process.h"
#include "report.h"
#include "say.h"
#include "system.h"
#include "text.h"

namespace swift {

namespace {

constexpr std::size_t arm_name_max = 32;
constexpr std::int64_t span_max_s = 90LL * 86400;

bool plain_name(std::string_view name, std::string_view more)
{
	return !name.empty() && name.size() <= arm_name_max && all_plain(name, more);
}

Result<std::string> file_text(const std::string &path)
{
	return real_system()->read_file(std::filesystem::absolute(path).string());
}

// The metrics of the experiment: the primary ones, the guardrails, the rest of what there is.
Result<std::vector<FleetMetric>> take_metrics(const FleetOptions &o)
{
	std::vector<FleetMetric> all;

	for (const auto &[option, texts, role] :
	     {std::tuple("--metric", &o.metrics, FleetRole::primary), {"--guardrail", &o.guardrails, FleetRole::guardrail}})
		for (const std::string &text : *texts) {
			if (role == FleetRole::guardrail && text == "none" && texts->size() == 1)
				continue;
			ASSIGN_OR_RETURN(auto metric, parse_fleet_metric(option, text, role));
			if (std::any_of(all.begin(), all.end(), [&](const FleetMetric &m) { return m.name == metric.name; }))
				return Error{fmt::format("{}: given twice", option), metric.name, "each metric once"};
			all.push_back(std::move(metric));
		}
	for (FleetMetric m : fleet_metrics()) {
		const bool given = std::any_of(all.begin(), all.end(), [&](const FleetMetric &a) { return a.name == m.name; });

		if (given)
			continue;
		// What was asked for takes the place of what there is without being told.
		if ((m.role == FleetRole::primary && !o.metrics.empty()) || (m.role == FleetRole::guardrail && !o.guardrails.empty()))
			m.role = FleetRole::secondary;
		all.push_back(std::move(m));
	}
	return all;
}

Result<void> take_arms(const FleetOptions &o, FleetPlan &plan)
{
	for (const std::string &text : o.arms) {
		const std::size_t equals = std::min(text.find('='), text.size());
		FleetArm arm{text.substr(0, equals), std::string(trim(std::string_view(text).substr(std::min(equals + 1, text.size()))))};

		if (!plain_name(arm.name, "_") || arm.command.empty() || arm.command.find('\n') != std::string::npos)
			return Error{"--arm", text, "NAME=COMMAND: letters, digits and _, and one line for a host's shell"};
		if (std::any_of(plan.arms.begin(), plan.arms.end(), [&](const FleetArm &a) { return a.name == arm.name; }))
			return Error{"--arm: given twice", arm.name, "each arm once"};
		plan.arms.push_back(std::move(arm));
	}
	return {};
}

Result<FleetPlan> plan_of(const FleetOptions &o, std::int64_t now_s, std::uint64_t random_seed)
{
	FleetPlan plan;

	if (o.inventory.empty())
		return Error{"--fleet plan: which --inventory?"};
	RETURN_IF_ERROR(take_arms(o, plan));
	if (o.by != "racks" && o.by != "time")
		return Error{"--by", o.by, "racks or time; not by host: hosts of both arms would meet on one link"};
	if (!plain_name(o.name, "_-."))
		return Error{"--name", o.name, fmt::format("1 to {} letters, digits, _, - and .", arm_name_max)};
	if (!plain_name(o.rack_label, "_"))
		return Error{"--rack-label", o.rack_label, "the name of a label"};
	if (o.match.empty() || o.match.find_first_of("{}\n$") != std::string::npos)
		return Error{"--match", o.match, "what stands between the braces of a selector, such as job=\"swiftd\""};
	plan.design = o.by == "time" ? FleetDesign::time : FleetDesign::racks;
	plan.name = o.name;
	plan.rack_label = o.rack_label;
	plan.match = o.match;

	plan.seed = random_seed;
	ASSIGN_OR_RETURN(plan.metrics, take_metrics(o));
	ASSIGN_OR_RETURN(plan.period_s, parse_span_s("--period", o.period, 60, span_max_s));
	ASSIGN_OR_RETURN(const auto periods, parse_int("--periods", o.periods, 1, static_cast<std::int64_t>(fleet_periods_max)));
	plan.periods = static_cast<std::size_t>(periods);
	ASSIGN_OR_RETURN(plan.carry_over_s, parse_span_s("--carry-over", o.carry_over, 0, span_max_s));
	RETURN_IF_ERROR(take_int(plan.seed, "--seed", o.seed, 0, 1LL << 53));
	ASSIGN_OR_RETURN(plan.start_s, o.start.empty() ? (now_s / 3600 + 1) * 3600 : parse_utc("--start", o.start));
	return plan;
}

// An inventory in JSON is what ansible-inventory has said; any other form is its to read.
Result<std::vector<FleetRack>> racks_of(const FleetOptions &o)
{
	ASSIGN_OR_RETURN(auto text, file_text(o.inventory));

	if (!trim(text).starts_with('{')) {
		// Ansible refuses to run where the locale is none of UTF-8.
		const auto listed = run_command({"env", "LC_ALL=C.UTF-8", "ansible-inventory", "-i", std::filesystem::absolute(o.inventory).string(), "--list"});

		if (!listed || listed->status == status_not_found)
			return Error{o.inventory + ": reading it needs ansible-inventory, which is not there (or give what it says, as JSON)"};
		if (listed->status != 0)
			return Error{fmt::format("{}: ansible-inventory: {}", o.inventory, trim(listed->err))};
		text = listed->out;
	}
	return read_fleet_racks(o.inventory, text, o.group, o.rack_var);
}

struct FleetSource {
	std::unique_ptr<MetricSource> source;
	std::vector<std::string> warnings; // of the source, which knows where they are
};

Result<std::unique_ptr<FleetSource>> source_of(const FleetOptions &o)
{
	auto s = std::make_unique<FleetSource>();
	PrometheusAccess access{o.prometheus, {}, o.ca_file};

	if (o.prometheus.find("://") == std::string::npos) {
		if (!o.token_file.empty() || !o.ca_file.empty())
			return Error{"--token-file and --ca-file go with the URL of a --prometheus"};
		ASSIGN_OR_RETURN(const auto text, file_text(o.prometheus));
		ASSIGN_OR_RETURN(s->source, dump_source(o.prometheus, text));
		return s;
	}
	RETURN_IF_ERROR(check_url("--prometheus", o.prometheus));
	if (!o.ca_file.empty())
		RETURN_IF_ERROR(file_text(o.ca_file));
	if (!o.token_file.empty()) {
		if (!o.prometheus.starts_with("https://") && !is_loopback_url(o.prometheus))
			return Error{"--token-file", o.prometheus, "an https:// URL: the token would be sent in clear"};
		ASSIGN_OR_RETURN(const auto text, file_text(o.token_file));
		ASSIGN_OR_RETURN(access.authorization, bearer_header(o.token_file, text));
	}
	ASSIGN_OR_RETURN(auto post, http_client());
	s->source = prometheus_source(std::move(access), std::move(post), s->warnings);
	return s;
}

void say_notes(const Verb &verb, const std::vector<std::string> &notes)
{
	for (const std::string &text : notes)
		note(verb, text);
}

Result<int> plan_fleet(const FleetOptions &o, std::uint64_t random_seed, const Verb &verb)
{
	const std::int64_t now_s = std::time(nullptr);
	ASSIGN_OR_RETURN(auto plan, as_usage(plan_of(o, now_s, random_seed)));
	ASSIGN_OR_RETURN(plan.racks, racks_of(o));
	RETURN_IF_ERROR(as_usage(fleet_check(plan)));

	std::vector<std::string> notes;

	if (o.prometheus.empty()) {
		fleet_draw(plan, fleet_order_by_size(plan));
	} else {
		Json dump;
		ASSIGN_OR_RETURN(const auto s, source_of(o));
		const auto recorded = recording_source(*s->source, dump);

		RETURN_IF_ERROR(fleet_learn(plan, *recorded, now_s, notes));
		notes.insert(notes.end(), s->warnings.begin(), s->warnings.end());
		if (!o.save.empty())
			RETURN_IF_ERROR(write_report(o.save, json_text(dump)));
	}

	const std::filesystem::path folder = std::filesystem::absolute(o.out.empty() ? plan.name : o.out);

	for (const auto &[name, text] :
	     {std::pair("inventory.yml", fleet_inventory(plan)), std::pair("plan.json", json_text(fleet_plan_json(plan)))})
		RETURN_IF_ERROR(real_system()->replace_file((folder / name).string(), text, 0644));
	if (!o.json_file.empty())
		RETURN_IF_ERROR(write_report(o.json_file, json_text(fleet_plan_json(plan))));
	say_notes(verb, notes);
	return leave(fleet_plan_text(plan));
}

Result<int> read_fleet(const FleetOptions &o)
{
	if (o.plan.empty() || o.prometheus.empty())
		return usage_error(o.plan.empty() ? "--fleet read: which --plan? (plan.json of --fleet plan)" :
						    "--fleet read: which --prometheus?");
	for (const std::string &file : {o.json_file, o.save})
		if (!file.empty())
			RETURN_IF_ERROR(can_write_report(file));

	const std::int64_t now_s = std::time(nullptr);
	ASSIGN_OR_RETURN(const auto text, file_text(o.plan));
	ASSIGN_OR_RETURN(const auto plan, read_fleet_plan(o.plan, text));

	if (plan.end_s() > now_s)
		return Error{fmt::format("{}: it ends at {}: a look before that, again and again, finds differences that are none", o.plan,
					 utc_text(plan.end_s()))};
	Json dump;
	ASSIGN_OR_RETURN(const auto s, source_of(o));
	const auto recorded = recording_source(*s->source, dump);
	ASSIGN_OR_RETURN(auto result, fleet_read(plan, *recorded));

	result.from = o.prometheus;
	result.read_s = now_s;
	result.notes.insert(result.notes.end(), s->warnings.begin(), s->warnings.end());
	for (const auto &[file, json] : {std::pair(o.save, dump), std::pair(o.json_file, fleet_result_json(result))})
		if (!file.empty())
			RETURN_IF_ERROR(write_report(file, json_text(json)));
	if (!print(fleet_result_text(result, standard_output())))
		return exit_failed;
	for (const FleetVerdict &v : result.verdicts)
		if (!v.known)
			return Error{v.text};
	return exit_ok;
}

} // namespace

Result<int> run_fleet_ab(const FleetOptions &options, std::uint64_t random_seed, const Verb &verb)
{
	if (options.action == "plan")
		return plan_fleet(options, random_seed, verb);
	if (options.action == "read")
		return read_fleet(options);
	return usage_error(Error{"--fleet", options.action, "plan or read"});
}

} // namespace swift
