// SPDX-License-Identifier: MIT
// What an experiment measures: the table of what there is without being told, and a user's own.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>

#include "fleet_plan.h"
#include "text.h"

namespace swift {

namespace {

constexpr std::size_t metric_name_max = 64;
constexpr std::size_t query_max = 4096;

// Of classic and of native histograms, whichever there are.
std::string quantile_of(double q, const std::string &metric, const std::string &more = "")
{
	return fmt::format("histogram_quantile({0}, sum by (le, $by) (rate({1}_bucket{{$match{2}}}[$range]))) or "
			   "histogram_quantile({0}, sum by ($by) (rate({1}{{$match{2}}}[$range])))",
			   q, metric, more);
}

bool is_metric_name(const std::string &name)
{
	return !name.empty() && name.size() <= metric_name_max && all_plain(name, "_");
}

} // namespace

const std::vector<FleetMetric> &fleet_metrics()
{
	constexpr auto second = FleetRole::secondary;
	constexpr auto ratio = FleetScale::ratio;
	static const std::vector<FleetMetric> all = {
		{"rtt_p99", quantile_of(0.99, "swift_rtt_seconds"), FleetRole::primary, ratio, true},
		{"goodput", "sum by ($by) (rate(swift_acked_bytes_total{$match}[$range]))", FleetRole::guardrail, ratio, false, 0.02},
		{"retransmits",
		 "sum by ($by) (rate(swift_retransmitted_packets_total{$match}[$range])) / "
		 "sum by ($by) (rate(swift_sent_segments_total{$match}[$range]))",
		 FleetRole::guardrail, FleetScale::difference, true, 0.001},
		{"rtt_p50", quantile_of(0.5, "swift_rtt_seconds"), second, ratio, true},
		{"fabric_p99", quantile_of(0.99, "swift_fabric_delay_seconds"), second, ratio, true},
		{"host_p99", quantile_of(0.99, "swift_host_delay_seconds", ", side=\"both\""), second, ratio, true},
	};

	return all;
}

Result<FleetMetric> parse_fleet_metric(const std::string &option, const std::string &text, FleetRole role)
{
	static const std::string allowed = "NAME[:lower|higher][:ratio|difference][:MARGIN][=QUERY], the query with $by and $range";
	const std::size_t equals = text.find('=');
	const std::vector<std::string> parts = split(std::string_view(text).substr(0, equals), ':');
	FleetMetric metric;
	const auto &known = fleet_metrics();
	const auto same = std::find_if(known.begin(), known.end(), [&](const FleetMetric &m) { return m.name == parts[0]; });
	std::string margin;

	if (!is_metric_name(parts[0]))
		return Error{option, text, allowed};
	if (same != known.end())
		metric = *same;
	metric.name = parts[0];
	metric.role = role;
	if (equals != std::string::npos)
		metric.query = text.substr(equals + 1);
	if (metric.query.empty())
		return Error{option + ": unknown metric", parts[0],
			     fmt::format("{}; or with =QUERY", "rtt_p99, rtt_p50, fabric_p99, host_p99, goodput, retransmits")};
	for (const char *part : {"$by", "$range"})
		if (metric.query.find(part) == std::string::npos)
			return Error{fmt::format("{} {}: no {} in its query", option, parts[0], part), "", ""};
	if (metric.query.size() > query_max)
		return Error{option + " " + parts[0] + ": a query of more than " + std::to_string(query_max) + " bytes"};
	for (std::size_t i = 1; i < parts.size(); i++) {
		if (parts[i] == "lower" || parts[i] == "higher")
			metric.lower_is_better = parts[i] == "lower";
		else if (parts[i] == "ratio" || parts[i] == "difference")
			metric.scale = parts[i] == "ratio" ? FleetScale::ratio : FleetScale::difference;
		else if (role == FleetRole::guardrail && margin.empty())
			margin = parts[i];
		else
			return Error{option, text, allowed};
	}
	if (margin.empty())
		return metric;

	const bool percent = margin.ends_with('%');
	ASSIGN_OR_RETURN(const auto number, parse_decimal(option + " " + parts[0] + ": margin", percent ? margin.substr(0, margin.size() - 1) : margin, 0,
					  percent ? 100 : 1e12));

	metric.margin = percent ? number / 100 : number;
	if (metric.scale == FleetScale::ratio && metric.margin >= 1)
		return Error{option + " " + parts[0] + ": margin", margin, "0 to 99 % of a ratio"};
	return metric;
}

Result<std::int64_t> parse_utc(const std::string &option, const std::string &text)
{
	for (const char *form : {"%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%MZ"}) {
		std::tm parts{};
		const char *end = strptime(text.c_str(), form, &parts);

		if (end && *end == '\0' && parts.tm_year >= 100)
			return static_cast<std::int64_t>(timegm(&parts));
	}
	return Error{option, text, "a time in UTC: 2026-11-25T10:00Z"};
}

Result<std::int64_t> parse_span_s(const std::string &option, const std::string &text, std::int64_t min_s, std::int64_t max_s)
{
	constexpr std::array<std::pair<char, std::int64_t>, 4> units = {{{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}}};
	const Error wrong{option, text, fmt::format("{} s to {} s; 90, 15m, 1h, 2d", min_s, max_s)};
	std::string_view digits = text;
	std::int64_t unit = 1;

	for (const auto &[letter, seconds] : units)
		if (text.ends_with(letter)) {
			unit = seconds;
			digits.remove_suffix(1);
		}

	const auto number = parse_int(option, digits, 0, max_s / unit);

	if (!number || *number * unit < min_s)
		return wrong;
	return *number * unit;
}

} // namespace swift
