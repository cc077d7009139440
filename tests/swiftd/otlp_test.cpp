// SPDX-License-Identifier: MIT
// OTLP: which flows have ended, what its JSON says of metrics, and that who makes snapshots never waits
// for who delivers them, nor memory for a collector.
#include <gtest/gtest.h>
#include <prometheus/metric_family.h>

#include <condition_variable>
#include <limits>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>

#include "otlp.h"
#include "otlp_exporter.h"

using namespace swift;
using nlohmann::json;

namespace {

std::shared_ptr<const FlowSet> flows_of(std::int64_t now_s, std::uint64_t first, std::uint64_t end)
{
	auto set = std::make_shared<FlowSet>();

	set->now_ns = now_s * 1'000'000'000;
	set->groups = {{"10.1.0.0/24", "swift", "eth0"}};
	for (std::uint64_t cookie = first; cookie < end; cookie++) {
		FlowRow row;

		row.cookie = cookie;
		row.first_seen_ns = 1'000'000'000;
		row.remote_port = static_cast<std::uint16_t>(cookie);
		set->rows.push_back(row);
	}
	return set;
}

std::shared_ptr<const Snapshot> snapshot_of(std::shared_ptr<const FlowSet> flows)
{
	auto s = std::make_shared<Snapshot>();

	s->flows = std::move(flows);
	s->time_s = 1.8e9;
	s->interval_ms = 1000;
	return s;
}

// Of requests that wait until they are let through.
class CollectorGate {
public:
	Result<HttpReply> pass(const HttpRequest &request)
	{
		std::unique_lock lock(mutex_);

		asked_.push_back(request);
		news_.notify_all();
		news_.wait(lock, [&] { return open_ || request.cancelled(); });
		return request.cancelled() ? Result<HttpReply>(Error{"cancelled"}) : HttpReply{200, "{}"};
	}
	void open()
	{
		const std::lock_guard lock(mutex_);

		open_ = true;
		news_.notify_all();
	}
	// Once there are so many of them.
	std::vector<HttpRequest> asked(std::size_t n)
	{
		std::unique_lock lock(mutex_);

		news_.wait(lock, [&] { return asked_.size() >= n; });
		return asked_;
	}

private:
	std::mutex mutex_;
	std::condition_variable news_;
	bool open_ = false;
	std::vector<HttpRequest> asked_;
};

Config::Otlp often()
{
	Config::Otlp config;

	config.endpoint = "http://collector:4318";
	config.interval_s = 0; // with each look
	return config;
}

} // namespace

TEST(Otlp, FlowsThatAreNotThereAnyMoreHaveEnded)
{
	std::uint64_t left_out = 0;
	const auto ended = ended_flows(*flows_of(5, 1, 100), *flows_of(6, 50, 200), 7, 1000, left_out);

	ASSERT_EQ(ended.size(), 49u);
	EXPECT_EQ(ended[0].row.cookie, 1u);
	EXPECT_EQ(ended[48].row.cookie, 49u);
	EXPECT_EQ(ended[0].group.dst_prefix, "10.1.0.0/24");
	EXPECT_EQ(ended[0].seen_s, 4);
	EXPECT_EQ(ended[0].ended_s, 7);
	EXPECT_EQ(left_out, 0u);
	EXPECT_EQ(ended_flows(*flows_of(5, 1, 100), *flows_of(6, 50, 200), 7, 9, left_out).size(), 9u);
	EXPECT_EQ(left_out, 40u);
	EXPECT_TRUE(ended_flows(*flows_of(5, 1, 1), *flows_of(6, 1, 5), 7, 9, left_out).empty());
}

TEST(Otlp, AFlowThatNoLookHasSeenHasARecord)
{
	std::vector<EndedCount> ended(2);
	std::uint64_t left_out = 0;
	std::map<std::string, json> values;

	ended[0].labels = {"10.1.0.0/24", "unknown", "eth0"};
	ended[0].bytes = 4711;
	ended[0].flow = {7, {*Address::parse("10.0.0.1"), 40000}, {*Address::parse("10.1.0.2"), 80}, true, 4711, 2500, 5, 1};
	const auto gone = short_flows(ended, 9, 1, left_out);

	ASSERT_EQ(gone.size(), 1u);
	EXPECT_EQ(left_out, 1u);
	const json j = json::parse(otlp_logs(gone, {"host", "6.1"}, 10));

	for (const json &a : j["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0]["attributes"])
		values[a["key"]] = *a["value"].begin();
	EXPECT_EQ(values["source.address"], "10.0.0.1");
	EXPECT_EQ(values["destination.address"], "10.1.0.2");
	EXPECT_EQ(values["destination.port"], "80");
	EXPECT_EQ(values["swift.flow.id"], "7");
	EXPECT_EQ(values["swift.cc"], "unknown");
	EXPECT_EQ(values["swift.netns"], "unknown");
	EXPECT_EQ(values["swift.acked_bytes"], "4711");
	EXPECT_EQ(values["swift.sent_segments"], "5");
	EXPECT_EQ(values["swift.retransmitted_packets"], "1");
	EXPECT_EQ(values["swift.busy_seconds"], 0.0025);
	EXPECT_FALSE(values.contains("swift.rtt_seconds"));
	EXPECT_FALSE(values.contains("k8s.pod.name"));
}

TEST(Otlp, ARecordSaysWhoseTheFlowWas)
{
	const auto attributes_of = [](const FlowOwner &owner, const std::string &netns) {
		FlowSet before = *flows_of(5, 1, 2);
		std::uint64_t left_out = 0;
		std::map<std::string, std::string> texts;

		before.netns.push_back(netns);
		before.owners.push_back(owner);
		before.rows[0].netns = 1;
		before.rows[0].owner = static_cast<std::uint32_t>(before.owners.size() - 1);

		const json j = json::parse(otlp_logs(ended_flows(before, *flows_of(6, 2, 3), 7, 9, left_out), {"host", "6.1"}, 8));

		for (const json &a : j["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0]["attributes"])
			if (a["value"].contains("stringValue"))
				texts[a["key"]] = a["value"]["stringValue"];
		return texts;
	};
	const std::string id(64, 'a');
	auto a = attributes_of({1, 7, {"/kubepods/x", "", "web", "shop/web-1", id, "0123-45"}}, "cni-1");

	EXPECT_EQ(a["swift.netns"], "cni-1");
	EXPECT_EQ(a["k8s.namespace.name"], "shop");
	EXPECT_EQ(a["k8s.pod.name"], "web-1");
	EXPECT_EQ(a["k8s.pod.uid"], "0123-45");
	EXPECT_EQ(a["container.name"], "web");
	EXPECT_EQ(a["container.id"], id);
	EXPECT_EQ(a["swift.cgroup"], "/kubepods/x");
	EXPECT_FALSE(a.contains("swift.unit"));

	// Names that the kubelet has not told: the uid and the id are no names.
	a = attributes_of({1, 7, {"/kubepods/x", "", id.substr(0, 12), "0123-45", id, "0123-45"}}, "");
	for (const char *name : {"swift.netns", "k8s.namespace.name", "k8s.pod.name", "container.name"})
		EXPECT_FALSE(a.contains(name)) << name;
	EXPECT_EQ(a["k8s.pod.uid"], "0123-45");
}

TEST(Otlp, BucketsCountEachForItself)
{
	prometheus::MetricFamily f;
	prometheus::ClientMetric m;

	f.name = "a_seconds";
	f.type = prometheus::MetricType::Histogram;
	m.label = {{"b", "c\xff"}};
	m.histogram.bucket = {{2, 0.5}, {2, 1}, {7, std::numeric_limits<double>::infinity()}};
	m.histogram.sample_count = 7;
	m.histogram.sample_sum = 12.5;
	f.metric = {m};

	prometheus::MetricFamily none;

	none.name = "d_bytes";
	none.type = prometheus::MetricType::Gauge;
	none.metric.resize(2);
	none.metric[0].gauge.value = std::numeric_limits<double>::quiet_NaN();
	none.metric[1].gauge.value = 3;
	OtlpStarts starts(1800000000);
	const json j = json::parse(otlp_metrics(std::vector<MetricFamily>{{f, {}}, {none, {}}}, {"host", "6.1"}, starts, 1800000001.5));
	const json &metrics = j["resourceMetrics"][0]["scopeMetrics"][0]["metrics"];
	const json &point = metrics[0]["histogram"]["dataPoints"][0];

	EXPECT_EQ(point["bucketCounts"], json({"2", "0", "5"}));
	EXPECT_EQ(point["explicitBounds"], json({0.5, 1.0}));
	EXPECT_EQ(point["count"], "7");
	EXPECT_EQ(point["startTimeUnixNano"], "1800000000000000000");
	EXPECT_EQ(point["timeUnixNano"], "1800000001500000000");
	EXPECT_EQ(metrics[0]["unit"], "s");
	ASSERT_EQ(metrics[1]["gauge"]["dataPoints"].size(), 1u); // what is no number is not there
	EXPECT_EQ(metrics[1]["gauge"]["dataPoints"][0]["asDouble"], 3);
	EXPECT_EQ(metrics[1]["unit"], "By");
}

TEST(Otlp, ASumThatBeginsAnewSaysSo)
{
	OtlpStarts starts(1000);
	prometheus::MetricFamily f;

	f.name = "swift_bytes_total";
	f.type = prometheus::MetricType::Counter;
	const auto told = [&](const std::map<std::string, double> &sums, double now_s) {
		std::map<std::string, std::string> start;

		f.metric.clear();
		for (const auto &[prefix, sum] : sums) {
			f.metric.emplace_back();
			f.metric.back().label = {{"dst_prefix", prefix}};
			f.metric.back().counter.value = sum;
		}
		const json j = json::parse(otlp_metrics(std::vector<MetricFamily>{{f, {}}}, {"host", "6.1"}, starts, now_s));

		for (const json &p : j["resourceMetrics"][0]["scopeMetrics"][0]["metrics"][0]["sum"]["dataPoints"])
			start[p["attributes"][0]["value"]["stringValue"]] = p["startTimeUnixNano"];
		return start;
	};
	using Starts = std::map<std::string, std::string>;

	EXPECT_EQ(told({{"a", 5}, {"b", 7}}, 1010), (Starts{{"a", "1000000000000"}, {"b", "1000000000000"}}));
	EXPECT_EQ(told({{"a", 6}, {"c", 1}}, 1020), (Starts{{"a", "1000000000000"}, {"c", "1010000000000"}}));
	EXPECT_EQ(told({{"a", 2}, {"b", 9}}, 1030), (Starts{{"a", "1020000000000"}, {"b", "1020000000000"}}));
	EXPECT_EQ(told({{"a", 2}, {"b", 9}}, 1040), (Starts{{"a", "1020000000000"}, {"b", "1020000000000"}}));
}

TEST(Otlp, NobodyWaitsForACollectorThatHangs)
{
	HttpStats stats;
	CollectorGate gate;
	OtlpExporter exporter(often(), {"h", "k"}, stats, [&](const HttpRequest &r) { return gate.pass(r); }, "Authorization: Bearer t");

	exporter.offer(snapshot_of(flows_of(1, 0, 20000)));
	EXPECT_EQ(gate.asked(1)[0].url, "http://collector:4318/v1/metrics");
	EXPECT_EQ(gate.asked(1)[0].headers.back(), "Authorization: Bearer t");
	for (int i = 2; i < 100; i++)
		exporter.offer(snapshot_of(flows_of(i, 19999, 20000)));
	gate.open();
	// Of 19,999 flows that have ended 10,000 are kept, and delivered in ten parts, after the metrics.
	const auto asked = gate.asked(12);
	std::size_t records = 0;

	for (const HttpRequest &r : asked)
		if (r.url.ends_with("/v1/logs"))
			records += json::parse(r.body)["resourceLogs"][0]["scopeLogs"][0]["logRecords"].size();
	EXPECT_EQ(records, OtlpExporter::most_flows);
	EXPECT_EQ(stats.otlp.lost_flows, 9999u);
}

TEST(Otlp, LeavesWhileACollectorHangs)
{
	HttpStats stats;
	CollectorGate gate;
	const auto exporter = std::make_unique<OtlpExporter>(
		often(), HostFacts{"h", "k"}, stats,
		[&](const HttpRequest &r) -> Result<HttpReply> {
			gate.open();
			(void)gate.pass(r);
			while (!r.cancelled())
				std::this_thread::yield();
			return Error{"cancelled"};
		},
		"");

	exporter->offer(snapshot_of(flows_of(1, 0, 2)));
	gate.asked(1);
}
