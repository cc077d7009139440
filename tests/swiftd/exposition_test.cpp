// SPDX-License-Identifier: MIT
// What Prometheus is given: in which form, how many series and bytes at most, and which groups have some of
// their own.
#include <google/protobuf/io/coded_stream.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <cmath>
#include <memory>
#include <set>

#include "api.h"
#include "collector.h"
#include "exposition.h"
#include "gzip.h"
#include "metrics.h"
#include "metrics.pb.h"

namespace swift {
namespace {

namespace wire = io::prometheus::client;
using WireFamilies = std::vector<wire::MetricFamily>;

constexpr std::int64_t a_second_ns = 1'000'000'000;

WireFamilies read_delimited(const std::string &text)
{
	WireFamilies out;
	google::protobuf::io::CodedInputStream in(reinterpret_cast<const std::uint8_t *>(text.data()), static_cast<int>(text.size()));
	std::uint64_t size = 0;

	while (in.ReadVarint64(&size)) {
		const auto limit = in.PushLimit(static_cast<int>(size));

		EXPECT_TRUE(out.emplace_back().ParseFromCodedStream(&in));
		in.PopLimit(limit);
	}
	return out;
}

const wire::MetricFamily *find(const WireFamilies &all, const std::string &name)
{
	for (const wire::MetricFamily &f : all)
		if (f.name() == name)
			return &f;
	return nullptr;
}

// Index and count of each bucket, as who reads them adds them up.
std::map<int, std::int64_t> buckets_of(const wire::Histogram &h)
{
	std::map<int, std::int64_t> out;
	std::int64_t count = 0;
	int index = 0;
	int delta = 0;

	for (const wire::BucketSpan &s : h.positive_span()) {
		index += s.offset();
		for (unsigned i = 0; i < s.length(); i++)
			out[index++] = count += h.positive_delta(delta++);
	}
	EXPECT_EQ(delta, h.positive_delta_size());
	return out;
}

GroupSummary group_of(const std::string &prefix, std::size_t flows, std::uint64_t bytes, const std::string &cc = "swift")
{
	GroupSummary g;

	g.labels = {prefix, cc, "eth0"};
	g.flows = g.measured = flows;
	g.bytes_new = bytes;
	g.samples[Part::rtt].add(100'000, flows);
	return g;
}

Summary look_of(std::int64_t second, std::vector<GroupSummary> groups)
{
	Summary s;

	s.now_ns = second * a_second_ns;
	s.interval_s = 1;
	s.groups = std::move(groups);
	return s;
}

std::set<std::string> placed(const Counters &counters)
{
	std::set<std::string> out;

	for (const GroupCounters &c : counters.all())
		out.insert(c.labels.dst_prefix);
	return out;
}

TEST(NativeHistogram, ABoundIsInTheBucketBelowIt)
{
	NativeHistogram h;

	for (const double v : {1.0, 1.0001, 2.0, 0.5, 0.0, -1.0})
		h.add(v);
	EXPECT_EQ(h.buckets(), (std::map<int, std::uint64_t>{{-8, 1}, {0, 1}, {1, 1}, {8, 1}}));
	EXPECT_EQ(h.zero(), 2U);
}

// Both kinds of buckets are of the same samples: whatever the telemetry tells apart stays apart.
TEST(NativeHistogram, DelaysStayWhereTheyWere)
{
	LogHistogram h;
	std::set<int> seen;

	for (std::uint64_t ns = 32; ns < 2'000'000'000; ns += ns / 20 + 1)
		h.add(static_cast<std::uint32_t>(ns));
	const NativeHistogram native(h);
	std::uint64_t n = 0;

	for (const auto &[index, count] : native.buckets()) {
		n += count;
		EXPECT_TRUE(seen.insert(index).second);
	}
	EXPECT_EQ(n, h.count());
	EXPECT_EQ(native.zero(), 0U);
	for (const std::uint32_t ns : {1000U, 25'000U, 4'000'000U, 900'000'000U}) {
		LogHistogram one;

		one.add(ns);
		const int index = NativeHistogram(one).buckets().begin()->first;

		EXPECT_NEAR(std::exp2((index - 0.5) / 8) * 1e9 / ns, 1, 0.2) << ns;
	}
}

TEST(Exposition, TheClientChooses)
{
	const std::string protobuf = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";

	// Prometheus 2.42 with native histograms, and without; 3; a browser; nobody.
	EXPECT_EQ(accepted_form(protobuf + ",application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"),
		  MetricsForm::protobuf);
	EXPECT_EQ(accepted_form("application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"), MetricsForm::text);
	EXPECT_EQ(accepted_form(protobuf + ";q=0.6, text/plain;version=0.0.4;q=0.3"), MetricsForm::protobuf);
	EXPECT_EQ(accepted_form(protobuf + ";q=0.2,text/plain"), MetricsForm::text);
	EXPECT_EQ(accepted_form(protobuf + ";q=0"), MetricsForm::text);
	EXPECT_EQ(accepted_form(protobuf + ";q=x"), MetricsForm::text);
	EXPECT_EQ(accepted_form("application/vnd.google.protobuf"), MetricsForm::text) << "of whose messages?";
	EXPECT_EQ(accepted_form("application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=text"), MetricsForm::text);
	EXPECT_EQ(accepted_form("text/html,*/*;q=0.8"), MetricsForm::text);
	for (const char *odd : {"", ",", ";", ";;q=", "a;q", ",;,"})
		EXPECT_EQ(accepted_form(odd), MetricsForm::text);
	EXPECT_TRUE(accepts_gzip("gzip"));
	EXPECT_TRUE(accepts_gzip("deflate, gzip;q=1.0, *;q=0.5"));
	EXPECT_FALSE(accepts_gzip("gzip;q=0"));
	EXPECT_FALSE(accepts_gzip("identity"));
	EXPECT_FALSE(accepts_gzip(""));
}

TEST(Exposition, ZippedIsTheSame)
{
	std::string text;
	std::string back(100'000, '\0');

	for (unsigned i = 0; i < 5000; i++)
		text += std::to_string(i * 2654435761U) + "\n";
	const auto zipped = gzip(text);
	z_stream z{};

	ASSERT_TRUE(zipped);
	EXPECT_LT(zipped->size(), text.size());
	ASSERT_EQ(inflateInit2(&z, 15 + 16), Z_OK);
	z.next_in = reinterpret_cast<Bytef *>(const_cast<char *>(zipped->data()));
	z.avail_in = static_cast<uInt>(zipped->size());
	z.next_out = reinterpret_cast<Bytef *>(back.data());
	z.avail_out = static_cast<uInt>(back.size());
	EXPECT_EQ(inflate(&z, Z_FINISH), Z_STREAM_END);
	inflateEnd(&z);
	EXPECT_EQ(back.substr(0, z.total_out), text);
}

TEST(Exposition, FormsOfOneHistogram)
{
	Snapshot s;
	HttpStats http;
	Counters counters;
	Summary look = look_of(1, {group_of("10.0.0.0/24", 3, 0)});

	look.groups[0].samples[Part::rtt].add(3'000'000, 4);
	counters.add(look, 300 * a_second_ns);
	s.counters = counters.all();
	const auto families = metric_families(s, {}, http, 0);
	const WireFamilies native = read_delimited(write_metrics(families, MetricsForm::protobuf, false));
	const wire::MetricFamily *rtt = find(native, "swift_rtt_seconds");

	ASSERT_TRUE(rtt);
	ASSERT_EQ(rtt->metric_size(), 1);
	const wire::Histogram &h = rtt->metric(0).histogram();
	const auto buckets = buckets_of(h);

	EXPECT_EQ(rtt->type(), wire::HISTOGRAM);
	EXPECT_EQ(rtt->metric(0).label(2).name() + rtt->metric(0).label(2).value(), "dst_prefix10.0.0.0/24");
	EXPECT_EQ(h.bucket_size(), 0);
	EXPECT_EQ(h.schema(), 3);
	EXPECT_GT(h.zero_threshold(), 0) << "or one without samples would pass for a classic one";
	EXPECT_EQ(h.sample_count(), 7U);
	EXPECT_NEAR(h.sample_sum(), 0.0123, 1e-9);
	ASSERT_EQ(buckets.size(), 2U);
	EXPECT_EQ(buckets.begin()->second, 3);
	EXPECT_EQ(buckets.rbegin()->second, 4);
	EXPECT_NEAR(std::exp2(buckets.begin()->first / 8.), 100e-6, 20e-6);
	EXPECT_NEAR(std::exp2(buckets.rbegin()->first / 8.), 3e-3, 0.6e-3);

	const WireFamilies classic = read_delimited(write_metrics(families, MetricsForm::protobuf, true));
	const wire::Histogram &c = find(classic, "swift_rtt_seconds")->metric(0).histogram();

	EXPECT_EQ(c.bucket_size(), static_cast<int>(delay_edges) + 1);
	EXPECT_FALSE(c.has_schema());
	EXPECT_EQ(c.bucket(c.bucket_size() - 1).cumulative_count(), 7U);

	const std::string text = write_metrics(families, MetricsForm::text, false);
	const std::string more = write_metrics(families, MetricsForm::text, true);

	EXPECT_NE(text.find("swift_rtt_seconds_count{cc=\"swift\",iface=\"eth0\",dst_prefix=\"10.0.0.0/24\"} 7\n"), std::string::npos) << text;
	EXPECT_EQ(text.find("le=\"0.00"), std::string::npos) << text;
	EXPECT_NE(more.find("swift_rtt_seconds_bucket{cc=\"swift\",iface=\"eth0\",dst_prefix=\"10.0.0.0/24\",le=\"0.000131072\"} 3\n"),
		  std::string::npos) << more;
}

// 20,000 flows to 256 prefixes from two interfaces, half of them in other namespaces, of more owners than are
// told apart, all measured, with telemetry: the most that the default configuration makes of any of them.
class Crowded : public testing::Test {
protected:
	Crowded()
	{
		auto s = std::make_shared<Snapshot>();
		Counters counters;
		OwnerBook book;
		OwnerBook pairs;
		std::vector<GroupSummary> groups;
		std::uint32_t seed = 1;

		for (unsigned p = 0; p < 256; p++)
			for (unsigned i = 0; i < 4; i++) {
				GroupSummary g = group_of("10." + std::to_string(p) + ".0.0/24", 20, 1000 + p);

				g.labels.iface = i % 2 ? "enp129s0f0np0" : "enp129s0f1np1";
				g.labels.netns = i / 2 ? label_others : "";
				g.decreases.emplace();
				g.held.fill(3);
				for (unsigned part = 0; part < parts; part++)
					for (unsigned n = 0; n < 1000; n++) { // over all that a u32 of ns can be
						seed = seed * 1664525 + 1013904223;
						g.samples[static_cast<Part>(part)].add(seed >> (n % 25));
					}
				groups.push_back(std::move(g));
			}
		s->summary = look_of(100, groups);
		for (unsigned i = 0; i < 200; i++) {
			OwnerSummary o;

			o.name = "namespace-of-some-team/deployment-of-it-7d9f8b6c5-" + std::to_string(i);
			o.netns = "cni-6f1c0d5e-0000-4000-8000-" + std::to_string(100000 + i);
			o.flows = 100;
			o.held.fill(i % 3 == 0);
			s->summary.owners.push_back(o);
			for (unsigned k = 0; k < 4; k++) {
				o.dst_prefix = "fd00:1234:5678:" + std::to_string(1000 + k) + "::/64";
				s->summary.owner_prefixes.push_back(o);
			}
		}
		std::vector<EndedCount> ended;

		for (const GroupSummary &g : groups)
			for (unsigned n = 0; n < 60; n++) {
				EndedCount e;

				e.labels = g.labels;
				e.sent = true;
				e.flow.busy_us = std::uint64_t{1} << (n % 28);
				e.bytes = std::uint64_t{100} << (n % 30);
				ended.push_back(e);
			}
		counters.add(s->summary, 300 * a_second_ns, ended);
		s->counters = counters.all();
		s->owners = book.add(s->summary, s->summary.owners, static_cast<std::size_t>(Config::Collect().max_owners), 300 * a_second_ns);
		s->owner_counters = book.all();
		s->owner_prefixes = pairs.add(s->summary, s->summary.owner_prefixes,
					      static_cast<std::size_t>(Config::Collect().max_owner_prefixes), 300 * a_second_ns);
		s->owner_prefix_counters = pairs.all();
		s->module_loaded = true;
		std::vector<CreditLink> links(100);

		for (unsigned i = 0; i < 100; i++)
			links[i].ifindex = 1 + i;
		s->credit = credit_rows(links, [](std::uint32_t n) { return "enp129s0f" + std::to_string(n) + "np0"; });
		for (unsigned i = 0; i < 50; i++)
			s->module_counters["counter_of_the_module_" + std::to_string(i)] = 1'000'000 + i;
		s->flows = std::make_shared<FlowSet>();
		store_.put(s);
		s = std::make_shared<Snapshot>(*s);
		s->probes = std::make_shared<ProbeNews>(probes(seed));
		with_probes_.put(s);
	}
	// As many peers as are probed by default, each in a rack of its own.
	static ProbeNews probes(std::uint32_t seed)
	{
		ProbeNews news;

		news.rack = "building-4-room-2-rack-17";
		news.places = {"[::]:9465"};
		for (std::int64_t i = 0; i < Config::Probe().sample; i++) {
			ProbePairRow row;
			ProbeCounters c;

			row.peer_rack = c.peer_rack = "building-4-room-2-rack-" + std::to_string(20 + i);
			for (auto *both : {&c.fabric, &c.host})
				for (LogHistogram &h : *both)
					for (unsigned n = 0; n < 1000; n++) { // 16 us to 131 ms
						seed = seed * 1664525 + 1013904223;
						h.add(seed >> (5 + n % 13));
					}
			news.pairs.push_back(row);
			news.counters.push_back(std::move(c));
		}
		return news;
	}
	Response get(const std::string &target, const char *accept = "") { return get(store_, target, accept); }
	Response get(const Store &store, const std::string &target, const char *accept = "")
	{
		return respond({"GET", target, accept}, {store, facts_, {}, 101 * a_second_ns, 1.7e9});
	}
	static std::size_t lines(const std::string &text)
	{
		std::size_t n = 0;

		for (std::size_t i = 0; i < text.size(); i = text.find('\n', i) + 1)
			n += text[i] != '#';
		return n;
	}

	static constexpr const char *protobuf_ = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";
	static constexpr std::size_t most_series = 2000;
	static constexpr std::size_t most_bytes = 300'000;
	Store store_;
	Store with_probes_;
	HostFacts facts_{"host", "6.12"};
};

TEST_F(Crowded, CostsAFleetLittle)
{
	const Response native = get("/metrics", protobuf_);
	const Response text = get("/metrics");
	std::size_t series = 0;

	EXPECT_EQ(native.content_type, content_type(MetricsForm::protobuf));
	EXPECT_TRUE(native.by_accept);
	for (const wire::MetricFamily &f : read_delimited(*native.body))
		series += static_cast<std::size_t>(f.metric_size());
	RecordProperty("native_series", static_cast<int>(series));
	RecordProperty("native_bytes", static_cast<int>(native.body->size()));
	RecordProperty("text_series", static_cast<int>(lines(*text.body)));
	RecordProperty("text_bytes", static_cast<int>(text.body->size()));
	EXPECT_GT(series, 1000U);
	EXPECT_LT(series, most_series);
	EXPECT_LT(native.body->size(), most_bytes);
	EXPECT_LT(lines(*text.body), most_series);
	EXPECT_LT(text.body->size(), most_bytes);
	const std::string classic = *get("/metrics?histograms=classic").body;

	RecordProperty("classic_series", static_cast<int>(lines(classic)));
	RecordProperty("classic_bytes", static_cast<int>(classic.size()));
	RecordProperty("zipped_bytes", static_cast<int>(gzip(*native.body)->size()));
	EXPECT_GT(lines(classic), 2 * lines(*text.body));
	EXPECT_EQ(get("/metrics?histograms=native").status, 400U);
	EXPECT_EQ(get("/metrics?a=b").status, 400U);
}

// Who probes, which is off by default, has as few series, but more bytes.
TEST_F(Crowded, WithProbesToo)
{
	const Response native = get(with_probes_, "/metrics", protobuf_);
	const Response text = get(with_probes_, "/metrics");
	std::size_t series = 0;

	for (const wire::MetricFamily &f : read_delimited(*native.body))
		series += static_cast<std::size_t>(f.metric_size());
	RecordProperty("probes_native_series", static_cast<int>(series));
	RecordProperty("probes_native_bytes", static_cast<int>(native.body->size()));
	RecordProperty("probes_text_series", static_cast<int>(lines(*text.body)));
	EXPECT_GT(series, 1000U);
	EXPECT_LT(series, most_series);
	EXPECT_LT(lines(*text.body), most_series);
}

TEST_F(Crowded, TheRestIsOne)
{
	const WireFamilies all = read_delimited(*get("/metrics", protobuf_).body);
	double flows = 0;
	std::set<std::string> prefixes;
	std::uint64_t rtts = 0;

	for (const wire::Metric &m : find(all, "swift_flows")->metric()) {
		flows += m.gauge().value();
		prefixes.insert(m.label(2).value());
	}
	for (const wire::Metric &m : find(all, "swift_rtt_seconds")->metric())
		rtts += m.histogram().sample_count();
	EXPECT_EQ(flows, 256 * 4 * 20);
	EXPECT_EQ(rtts, 256U * 4 * 1020) << "nothing is lost";
	EXPECT_EQ(prefixes, (std::set<std::string>{"10.252.0.0/24", "10.253.0.0/24", "10.254.0.0/24", "10.255.0.0/24", "other"}))
		<< "those with most traffic";
	EXPECT_EQ(find(all, "swift_flows")->metric_size(), 18);
	EXPECT_EQ(find(all, "swift_flows_in_other")->metric(0).gauge().value(), 252 * 4 * 20);
}

TEST(Credit, AsMetricsOfLinks)
{
	Snapshot s;
	HttpStats http;
	std::vector<CreditLink> links(CreditRow::most + 3);
	const auto text = [&] { return write_metrics(metric_families(s, {}, http, 0), MetricsForm::text, true); };

	s.flows = std::make_shared<FlowSet>();
	EXPECT_EQ(text().find("swift_credit"), std::string::npos) << "it is off";
	for (std::uint32_t i = 0; i < links.size(); i++) {
		links[i].ifindex = 1 + i;
		links[i].lent_bytes = 4'000'000'000 + i;
		links[i].most_bytes = 4'200'000'000;
	}
	s.credit = credit_rows(links, [](std::uint32_t n) { return "eth" + std::to_string(n); });
	ASSERT_EQ(s.credit.size(), CreditRow::most + 1);
	const std::string all = text();

	for (const char *line : {"swift_credit_lent_bytes{iface=\"eth1\"} 4000000000\n", "swift_credit_limit_bytes{iface=\"eth64\"} 4200000000\n",
				 "swift_credit_lent_bytes{iface=\"other\"} 12000000195\n", "swift_credit_limit_bytes{iface=\"other\"} 12600000000\n",
				 "# TYPE swift_credit_lent_bytes gauge\n"})
		EXPECT_NE(all.find(line), std::string::npos) << line << all;
	EXPECT_EQ(all.find("eth65"), std::string::npos);
}

// Each byte is counted once, wherever its group is just then.
TEST(Places, WhoHasOneKeepsItForAWhile)
{
	Counters counters;
	std::uint64_t sum = 0;
	std::map<FlowGroup, std::uint64_t> before;
	const auto look = [&](std::int64_t second, std::uint64_t a, std::uint64_t b, std::uint64_t c) {
		std::map<FlowGroup, std::uint64_t> now;

		counters.add(look_of(second, {group_of("a", 1, a), group_of("b", 1, b), group_of("c", 1, c)}), 60 * a_second_ns, {}, 2);
		for (const GroupCounters &g : counters.all()) {
			now[g.labels] = g.bytes;
			if (before.contains(g.labels)) {
				EXPECT_GE(g.bytes, before[g.labels]) << g.labels.key();
			}
			sum += g.bytes - (before.contains(g.labels) ? before[g.labels] : 0);
		}
		before = std::move(now);
	};
	using Names = std::set<std::string>;

	look(1, 1000, 900, 10);
	EXPECT_EQ(placed(counters), (Names{"a", "b", "other"}));
	for (std::int64_t t = 2; t < 30; t++)
		look(t, 1000, 0, 50'000);
	EXPECT_EQ(placed(counters), (Names{"a", "b", "other"})) << "not yet";
	for (std::int64_t t = 30; t < 70; t++)
		look(t, 1000, 0, 50'000);
	EXPECT_EQ(placed(counters), (Names{"a", "c", "other"}));
	for (std::int64_t t = 70; t < 400; t++)
		look(t, 1000, 1500, 50'000);
	EXPECT_EQ(placed(counters), (Names{"a", "c", "other"})) << "less than twice as much";
	EXPECT_EQ(sum, 1000U * 399 + 900 + 1500 * 330 + 10 + 50'000 * 398);
	// Fewer places, and all of them empty in the end.
	counters.add(look_of(400, {group_of("a", 1, 1), group_of("c", 1, 1)}), 60 * a_second_ns, {}, 1);
	EXPECT_EQ(placed(counters), (Names{"c", "other"}));
	counters.add(look_of(460, {}), 60 * a_second_ns, {}, 1);
	EXPECT_EQ(placed(counters), Names{});
}

// As of groups: most bytes, not who came first; and no place changes hands again and again.
TEST(Places, OwnersWithMostTrafficHaveOne)
{
	OwnerBook book;
	std::uint64_t sum = 0;
	int moved = 0;
	std::map<std::string, std::uint64_t> before;
	const auto look = [&](std::int64_t second, const std::vector<std::pair<std::string, std::uint64_t>> &owners, std::size_t most = 2) {
		Summary s = look_of(second, {});
		std::map<std::string, std::uint64_t> now;
		std::string shown;

		for (const auto &[name, bytes] : owners) {
			OwnerSummary o;

			o.netns = "n";
			o.name = name;
			o.flows = 1;
			o.bytes_new = bytes;
			s.owners.push_back(o);
		}
		for (const OwnerSummary &o : book.add(s, s.owners, most, 60 * a_second_ns))
			shown += o.name + (o.name == "other" ? "*" + std::to_string(o.flows) : "") + " ";
		for (const OwnerCounters &c : book.all()) {
			now[c.name] = c.bytes;
			EXPECT_EQ(c.netns, c.name == "other" ? "" : "n");
			EXPECT_GE(c.bytes, before[c.name]) << c.name;
			sum += c.bytes - before[c.name];
		}
		moved += !before.empty() && std::any_of(now.begin(), now.end(), [&](const auto &c) { return before[c.first] == 0; });
		before = std::move(now);
		return shown;
	};

	// Of those that move nothing the first by name; then there is no room.
	EXPECT_EQ(look(1, {{"b", 0}, {"a", 0}, {"c", 0}}), "b a other*1 ");
	for (std::int64_t t = 2; t < 61; t++)
		EXPECT_EQ(look(t, {{"a", 1000}, {"b", 10}, {"c", 50'000}}), "a b other*1 ") << t; // not yet
	for (std::int64_t t = 61; t < 70; t++)
		EXPECT_EQ(look(t, {{"a", 1000}, {"b", 10}, {"c", 50'000}}), "a c other*1 ") << t;
	// Two that take turns for the one place have it as it was: none has twice the other's.
	moved = 0;
	for (std::int64_t t = 70; t < 400; t++)
		look(t, {{"a", t % 4 < 2 ? 900 : 1100}, {"b", t % 4 < 2 ? 1100 : 900}, {"c", 50'000}});
	EXPECT_EQ(moved, 0);
	EXPECT_EQ(sum, 1000U * 68 + 10 * 68 + 50'000 * 398 + 330 * 2000);
	// A reload to one place, and to more.
	EXPECT_EQ(look(400, {{"a", 1}, {"b", 1}, {"c", 1}}, 1), "c other*2 ");
	EXPECT_EQ(look(401, {{"a", 1}, {"b", 1}, {"c", 1}}, 3), "a b c ");
	// What is told apart no more anyway is of the rest.
	EXPECT_EQ(look(402, {{"other", 7}, {"c", 1}}, 4), "c other*1 ");
	look(470, {});
	EXPECT_TRUE(book.all().empty());
}

// Pairs of an owner and a prefix, as owners: what has no place is one, of any owner to any prefix.
TEST(Places, OwnersByPrefix)
{
	OwnerBook book;
	Summary s = look_of(1, {});

	for (const auto &[name, prefix, bytes] : {std::tuple("a", "10.1.0.0/24", 300U), {"a", "10.2.0.0/24", 200U}, {"b", "10.1.0.0/24", 100U}}) {
		OwnerSummary o;

		o.netns = "n";
		o.name = name;
		o.dst_prefix = prefix;
		o.flows = 1;
		o.bytes_new = bytes;
		s.owner_prefixes.push_back(o);
	}
	std::string shown;

	for (const OwnerSummary &o : book.add(s, s.owner_prefixes, 1, 60 * a_second_ns))
		shown += o.netns + " " + o.name + " " + o.dst_prefix + " " + std::to_string(o.flows) + "; ";
	EXPECT_EQ(shown, "n a 10.1.0.0/24 1;  other other 2; ");
	shown.clear();
	for (const OwnerCounters &c : book.all())
		shown += c.netns + " " + c.name + " " + c.dst_prefix + " " + std::to_string(c.bytes) + "; ";
	EXPECT_EQ(shown, " other other 300; n a 10.1.0.0/24 300; ");
}

TEST(Places, OwnersThatComeAndGoAreBounded)
{
	OwnerBook book;
	std::size_t flows = 0;

	for (int look = 0; look < 5; look++) {
		Summary s = look_of(1 + look, {});

		for (int i = 0; i < 6000; i++) {
			OwnerSummary o;

			o.name = std::to_string(look) + "-" + std::to_string(i);
			o.flows = 1;
			s.owners.push_back(o);
		}
		flows = 0;
		for (const OwnerSummary &o : book.add(s, s.owners, 64, 300 * a_second_ns))
			flows += o.flows;
		EXPECT_EQ(flows, 6000U);
		EXPECT_EQ(book.all().size(), 65U);
	}
}

} // namespace
} // namespace swift
