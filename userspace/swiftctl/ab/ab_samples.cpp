// SPDX-License-Identifier: MIT
#include "ab_samples.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ab_json.h"
#include "statistics.h"
#include "text.h"

namespace swift {

namespace {

constexpr double u32_max = 4294967295.0;

std::uint32_t u32_of(const JsonNode &node)
{
	return static_cast<std::uint32_t>(node.number(0, u32_max));
}

std::uint32_t q16_of(const JsonNode &node)
{
	return static_cast<std::uint32_t>(std::min(node.number(0, 65536) * 65536, u32_max));
}

Flow flow_of(const JsonNode &node)
{
	Flow f;

	f.local.port = static_cast<std::uint16_t>(node["local_port"].number(0, 65535));
	f.remote.port = static_cast<std::uint16_t>(node["remote_port"].number(0, 65535));
	f.cc = node["cc"].maybe_text();
	if (node["srtt_us"].exists()) {
		f.tcp.emplace();
		f.tcp->srtt_us = u32_of(node["srtt_us"]);
	}
	if (node["fabric_ns"].exists()) {
		f.swift.emplace();
		f.swift->fabric_ns = u32_of(node["fabric_ns"]);
		f.swift->endpoint_ns = u32_of(node["endpoint_ns"]);
		f.swift->target_ns = u32_of(node["target_ns"]);
		f.swift->fcwnd_q16 = q16_of(node["fcwnd"]);
		f.swift->ecwnd_q16 = q16_of(node["ecwnd"]);
	}
	return f;
}

} // namespace

DelayPercentiles percentiles_of(std::span<const double> values)
{
	DelayPercentiles p;

	if (values.empty())
		return p;
	p.avg = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
	p.p50 = median(values);
	p.p99 = percentile(values, 0.99);
	return p;
}

void AbSamples::add(double now_s, std::span<const Flow> flows)
{
	for (const Flow &f : flows) {
		if (!ports_.contains(f.remote.port) && !ports_.contains(f.local.port))
			continue;
		flows_[{f.local.port, f.remote.port}].push_back(
			{now_s, f.tcp ? f.tcp->srtt_us * 1000.0 : 0, f.swift});
	}
}

Result<void> AbSamples::add_json_lines(std::string_view text)
{
	for (const std::string &line : split(text, '\n')) {
		if (trim(line).empty())
			continue;
		const auto json = parse_json(line);

		// The last line may be cut off: it was ended in the middle of it.
		if (!json && !text.ends_with('\n') && text.ends_with(line))
			break;
		if (!json)
			return Error{"swiftctl flows there: " + json.error().text()};

		std::optional<Error> wrong;
		const JsonNode root(*json, wrong);
		const double at_s = root["time_ns"].number() / 1e9;
		std::vector<Flow> flows;

		for (const JsonNode &flow : root["flows"].required("a list").list())
			flows.push_back(flow_of(flow));
		if (wrong)
			return Error{"swiftctl flows there: " + wrong->text()};
		add(at_s, flows);
	}
	return {};
}

void AbSamples::collect(const std::set<PortPair> &flows, double warmup_s, Values &values) const
{
	double first_s = INFINITY;

	for (const auto &[ports, samples] : flows_)
		if (flows.contains(ports))
			first_s = std::min(first_s, samples.front().at_s);
	for (const auto &[ports, samples] : flows_) {
		if (!flows.contains(ports))
			continue;
		for (const Sample &s : samples) {
			if (s.at_s < first_s + warmup_s)
				continue;
			if (s.srtt_ns > 0)
				values.srtt_ns.push_back(s.srtt_ns);
			// All zeros: it has not measured anything yet.
			if (!s.record || (s.record->fabric_ns | s.record->endpoint_ns) == 0)
				continue;
			values.fabric_ns.push_back(s.record->fabric_ns);
			values.endpoint_ns.push_back(s.record->endpoint_ns);
			values.target_ns.push_back(s.record->target_ns);
			values.fcwnd.push_back(s.record->fcwnd_pkts());
			values.ecwnd.push_back(s.record->ecwnd_pkts());
			values.endpoint_limited += s.record->limit() == Limit::host;
		}
	}
}

std::optional<AbLaw> AbSamples::Values::law() const
{
	if (fabric_ns.empty())
		return std::nullopt;
	AbLaw l;

	l.samples = fabric_ns.size();
	l.fabric_ns = percentiles_of(fabric_ns);
	l.endpoint_ns = percentiles_of(endpoint_ns);
	l.target_ns = median(target_ns);
	l.fcwnd = median(fcwnd);
	l.ecwnd = median(ecwnd);
	l.endpoint_limited = static_cast<double>(endpoint_limited) / static_cast<double>(l.samples);
	return l;
}

} // namespace swift
