// SPDX-License-Identifier: MIT
#include "otlp.h"

#include <prometheus/metric_family.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "flow.h"
#include "flow_json.h"
#include "json.h"

namespace swift {

namespace {

constexpr int cumulative = 2; // AggregationTemporality
constexpr const char *netns_unknown = "unknown"; // of a flow that no look has seen: another than our own
constexpr int severity_info = 9; // SeverityNumber

std::string nano_text(double seconds)
{
	return std::to_string(static_cast<std::int64_t>(std::llround(seconds * 1e6)) * 1000);
}

Json text_attribute(const std::string &key, std::string_view value)
{
	return {{"key", key}, {"value", {{"stringValue", value}}}};
}

Json int_attribute(const std::string &key, std::uint64_t value)
{
	return {{"key", key}, {"value", {{"intValue", std::to_string(value)}}}};
}

Json double_attribute(const std::string &key, double value)
{
	return {{"key", key}, {"value", {{"doubleValue", value}}}};
}

Json otlp_resource(const HostFacts &facts)
{
	return {{"attributes",
		 {text_attribute("service.name", "swiftd"), text_attribute("service.version", SWIFT_VERSION), text_attribute("host.name", facts.host),
		  text_attribute("os.type", "linux"), text_attribute("os.version", facts.kernel)}}};
}

Json otlp_scope()
{
	return {{"name", "tcp_swift"}, {"version", SWIFT_VERSION}};
}

// As the names of Prometheus' metrics end with their unit.
std::string_view unit_of(std::string_view name)
{
	if (name.ends_with("_total"))
		name.remove_suffix(6);
	if (name.ends_with("_bytes_per_second"))
		return "By/s";
	return name.ends_with("_seconds") ? "s" : name.ends_with("_bytes") ? "By" : "1";
}

Json point_of(const prometheus::ClientMetric &m, const std::string &time)
{
	Json point = {{"attributes", Json::array()}, {"timeUnixNano", time}};

	for (const auto &label : m.label)
		point["attributes"].push_back(text_attribute(label.name, label.value));
	return point;
}

Json histogram_point(const prometheus::ClientMetric &m, Json point)
{
	std::uint64_t before = 0;

	point["count"] = std::to_string(m.histogram.sample_count);
	point["sum"] = m.histogram.sample_sum;
	point["bucketCounts"] = Json::array();
	point["explicitBounds"] = Json::array();
	// Prometheus' buckets have all below them as well; the last one's bound goes without saying.
	for (const auto &bucket : m.histogram.bucket) {
		point["bucketCounts"].push_back(std::to_string(bucket.cumulative_count - before));
		before = bucket.cumulative_count;
		if (std::isfinite(bucket.upper_bound))
			point["explicitBounds"].push_back(bucket.upper_bound);
	}
	return point;
}

std::string series_of(const std::string &name, const prometheus::ClientMetric &m)
{
	std::string series = name;

	for (const auto &label : m.label)
		series += '\0' + label.name + '\0' + label.value;
	return series;
}

Json metric_of(const prometheus::MetricFamily &f, OtlpStarts &starts, const std::string &time)
{
	using Type = prometheus::MetricType;
	Json points = Json::array();
	Json metric = {{"name", f.name}, {"description", f.help}, {"unit", unit_of(f.name)}};

	for (const prometheus::ClientMetric &m : f.metric) {
		const double value = f.type == Type::Counter ? m.counter.value : f.type == Type::Gauge ? m.gauge.value : m.untyped.value;
		Json point = point_of(m, time);

		if (!std::isfinite(value))
			continue; // JSON has no word for it
		if (f.type == Type::Counter || f.type == Type::Histogram)
			point["startTimeUnixNano"] = nano_text(starts.of(
				series_of(f.name, m), f.type == Type::Counter ? value : static_cast<double>(m.histogram.sample_count)));
		if (f.type == Type::Histogram)
			point = histogram_point(m, std::move(point));
		else
			point["asDouble"] = value;
		points.push_back(std::move(point));
	}
	if (f.type == Type::Counter)
		metric["sum"] = {{"dataPoints", std::move(points)}, {"aggregationTemporality", cumulative}, {"isMonotonic", true}};
	else if (f.type == Type::Histogram)
		metric["histogram"] = {{"dataPoints", std::move(points)}, {"aggregationTemporality", cumulative}};
	else
		metric["gauge"] = {{"dataPoints", std::move(points)}};
	return metric;
}

// What is known of it.
void add_owner(Json &attributes, const Owner &who)
{
	const std::size_t slash = who.pod.find('/'); // without: its name is not known, and this is its uid
	const bool named = slash != std::string::npos;
	const std::pair<const char *, std::string> all[] = {
		{"k8s.namespace.name", named ? who.pod.substr(0, slash) : ""},
		{"k8s.pod.name", named ? who.pod.substr(slash + 1) : ""},
		{"k8s.pod.uid", who.pod_uid},
		{"container.name", who.container_id.starts_with(who.container) ? "" : who.container},
		{"container.id", who.container_id},
		{"swift.unit", who.unit},
		{"swift.cgroup", who.cgroup},
	};

	for (const auto &[name, value] : all)
		if (!value.empty())
			attributes.push_back(text_attribute(name, value));
}

// Names of attributes: OpenTelemetry's semantic conventions where they have one.
Json record_of(const GoneFlow &ended, const std::string &observed)
{
	const FlowRow &row = ended.row;
	Json a = {text_attribute("network.transport", "tcp"),
		  text_attribute("network.type", row.local_v6 ? "ipv6" : "ipv4"),
		  text_attribute("source.address", row.local().address.text()),
		  int_attribute("source.port", row.local_port),
		  text_attribute("destination.address", row.remote().address.text()),
		  int_attribute("destination.port", row.remote_port),
		  text_attribute("swift.flow.id", flow_id_text(row.cookie)),
		  text_attribute("swift.cc", ended.group.cc),
		  text_attribute("swift.dst_prefix", ended.group.dst_prefix),
		  text_attribute("network.interface.name", ended.group.iface),
		  double_attribute("swift.seen_seconds", ended.seen_s)};

	if (!ended.netns.empty())
		a.push_back(text_attribute("swift.netns", ended.netns));
	add_owner(a, ended.who);
	if (row.sender.known) {
		a.push_back(int_attribute("swift.acked_bytes", row.bytes_acked));
		a.push_back(int_attribute("swift.sent_segments", row.segments_sent));
		a.push_back(int_attribute("swift.retransmitted_packets", row.retrans_total));
	}
	if (ended.busy_s)
		a.push_back(double_attribute("swift.busy_seconds", *ended.busy_s));
	if (row.srtt_us > 0)
		a.push_back(double_attribute("swift.rtt_seconds", row.srtt_us / 1e6));
	if (row.has_min_rtt())
		a.push_back(double_attribute("swift.min_rtt_seconds", row.min_rtt_us / 1e6));
	if (row.measured) {
		a.push_back(double_attribute("swift.fabric_delay_seconds", row.swift.fabric_ns / 1e9));
		a.push_back(double_attribute("swift.host_delay_seconds", row.swift.endpoint_ns / 1e9));
		a.push_back(double_attribute("swift.target_seconds", row.swift.target_ns / 1e9));
	}
	return {{"timeUnixNano", nano_text(ended.ended_s)},
		{"observedTimeUnixNano", observed},
		{"severityNumber", severity_info},
		{"severityText", "INFO"},
		{"body", {{"stringValue", "flow ended"}}},
		{"attributes", std::move(a)}};
}

std::string one_line(const Json &j)
{
	return j.dump(-1, ' ', false, Json::error_handler_t::replace);
}

} // namespace

std::vector<GoneFlow> ended_flows(const FlowSet &before, const FlowSet &now, double now_s, std::size_t most, std::uint64_t &left_out)
{
	std::vector<GoneFlow> ended;
	std::vector<std::uint64_t> there;

	there.reserve(now.rows.size() + now.missed.size());
	for (const auto *rows : {&now.rows, &now.missed})
		for (const FlowRow &row : *rows)
			there.push_back(row.cookie);
	std::sort(there.begin(), there.end());
	for (const auto *rows : {&before.rows, &before.missed})
		for (const FlowRow &row : *rows) {
			if (std::binary_search(there.begin(), there.end(), row.cookie))
				continue;
			if (ended.size() < most)
				ended.push_back({row, before.groups[row.group], before.netns[row.netns], before.owners[row.owner].who,
						 static_cast<double>(before.now_ns - row.first_seen_ns) / 1e9, now_s});
			else
				left_out++;
		}
	return ended;
}

std::vector<GoneFlow> short_flows(std::span<const EndedCount> ended, double now_s, std::size_t most, std::uint64_t &left_out)
{
	std::vector<GoneFlow> out;

	for (const EndedCount &e : ended) {
		GoneFlow gone;

		if (out.size() >= most) {
			left_out++;
			continue;
		}
		gone.row.cookie = e.flow.cookie;
		gone.row.local_v6 = e.flow.local.address.v6;
		gone.row.local_bytes = e.flow.local.address.bytes;
		gone.row.remote_bytes = e.flow.remote.address.bytes;
		gone.row.local_port = e.flow.local.port;
		gone.row.remote_port = e.flow.remote.port;
		gone.row.bytes_acked = e.bytes;
		gone.row.segments_sent = e.flow.segments_sent;
		gone.row.retrans_total = e.flow.retrans_total;
		gone.row.sender.known = true;
		gone.group = e.labels;
		gone.netns = e.flow.other_netns ? netns_unknown : "";
		gone.busy_s = static_cast<double>(e.flow.busy_us) / 1e6;
		gone.ended_s = now_s;
		out.push_back(std::move(gone));
	}
	return out;
}

double OtlpStarts::of(const std::string &series, double sum)
{
	const auto at = before_.find(series);
	const double start_s = at != before_.end() && sum >= at->second.sum ? at->second.start_s : before_s_;

	now_[series] = {sum, start_s};
	return start_s;
}

void OtlpStarts::next(double now_s)
{
	before_ = std::exchange(now_, {});
	before_s_ = now_s;
}

std::string otlp_metrics(std::span<const MetricFamily> families, const HostFacts &facts, OtlpStarts &starts, double now_s)
{
	Json metrics = Json::array();
	const std::string now = nano_text(now_s);

	for (const MetricFamily &f : families)
		metrics.push_back(metric_of(f.family, starts, now));
	starts.next(now_s);
	return one_line({{"resourceMetrics",
			  Json::array({{{"resource", otlp_resource(facts)},
					{"scopeMetrics", Json::array({{{"scope", otlp_scope()}, {"metrics", std::move(metrics)}}})}}})}});
}

std::string otlp_logs(std::span<const GoneFlow> flows, const HostFacts &facts, double now_s)
{
	Json records = Json::array();
	const std::string now = nano_text(now_s);

	for (const GoneFlow &f : flows)
		records.push_back(record_of(f, now));
	return one_line({{"resourceLogs",
			  Json::array({{{"resource", otlp_resource(facts)},
					{"scopeLogs", Json::array({{{"scope", otlp_scope()}, {"logRecords", std::move(records)}}})}}})}});
}

} // namespace swift
