// SPDX-License-Identifier: MIT
// What the verbs say with --json, and what `swiftctl report` reads, is what the schema says; and the schema
// refuses what is not. The flows' vocabulary is json_test.cpp's.
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>

#include "ab_result.h"
#include "bpf.h"
#include "clock.h"
#include "delays.h"
#include "doctor.h"
#include "enable.h"
#include "fake_bpf_host.h"
#include "fake_system.h"
#include "policy_verb.h"
#include "probe.h"
#include "report.h"
#include "schema.h"
#include "tune.h"

using namespace swift;
using Parsed = nlohmann::json;

namespace {

class schema : public testing::Test {
protected:
	void TearDown() override { EXPECT_TRUE(claims_.hold()); }
	// @text fits, and does not any more once @spoil has been at it, or, where it is @closed, a member more is there.
	void expect_fits(const std::string &definition, const std::string &text, const std::function<void(Parsed &)> &spoil,
			 bool closed = true)
	{
		const Parsed j = Parsed::parse(text);
		Parsed wrong = j;

		claims_.claim(definition, j);
		spoil(wrong);
		claims_.claim(definition, wrong, false);
		wrong = j;
		wrong["nobody_told_the_schema"] = 1;
		if (closed)
			claims_.claim(definition, wrong, false);
	}

	swift_test::SchemaClaims claims_;
};

std::string data(const std::string &name)
{
	std::ifstream file(SWIFT_TEST_DATA "/results/" + name);

	return {std::istreambuf_iterator<char>(file), {}};
}

TelemetryReading schema_reading()
{
	TelemetryReading r;
	TelemetryFlow f;

	r.prefixes = {{*Prefix::parse("10.1.0.0/24"), "swift", {}, 4026531840}, {std::nullopt, "swift", {}}};
	r.prefixes[0].counts.decisions = {0, 60, 20, 15, 4, 1};
	r.prefixes[0].counts.losses = 2;
	for (std::uint32_t i = 0; i < 100; i++)
		r.prefixes[0].counts.histograms[0].add(80000 + i * 100);
	f.local = {*Address::parse("10.0.0.1"), 1};
	f.remote = {*Address::parse("fd00::7"), 80};
	f.cc = "bpf_swift";
	f.prefix = r.prefixes[0].prefix;
	f.counts = r.prefixes[0].counts;
	r.flows = {f, f};
	r.flows[0].cookie = 0x1f;
	r.tx_one_in = 8;
	return r;
}

DelaysQuery schema_query()
{
	return *DelaysQuery::from({});
}

} // namespace

TEST_F(schema, delays)
{
	for (const std::uint64_t interval_ns : {0ULL, 2'500'000'000ULL}) {
		TelemetryReading r = schema_reading();

		r.interval_ns = interval_ns;
		expect_fits("swiftctl_delays", delays_json(r, schema_query()),
			    [](Parsed &j) { j["prefixes"][0]["fabric_ns"]["buckets"][0]["below"] = "64"; });
	}
	TelemetryReading nothing;

	expect_fits("swiftctl_delays", delays_json(nothing, schema_query()), [](Parsed &j) { j.erase("flows"); });
}

TEST_F(schema, enable_and_disable)
{
	swift_test::FakeSystem s;
	EnableOptions dry;

	dry.dry_run = true;
	for (const std::string &text : {outcome_json(enable(s, dry), true), outcome_json(enable(s, {}), false),
					outcome_json(disable(s, s, {}), false), outcome_json(disable(s, s, {}), false)})
		expect_fits("swiftctl_outcome", text, [](Parsed &j) { j["ok"] = "yes"; });
}

TEST_F(schema, doctor)
{
	expect_fits("swiftctl_findings",
		    doctor_json({{Severity::fail, "module", "not loaded", "why", "fix"}, {Severity::ok, "hz", "1000", "", ""}}),
		    [](Parsed &j) { j["findings"][0]["severity"] = "worse"; });
}

TEST_F(schema, bpf)
{
	swift_test::FakeBpfHost host;
	swift_test::FakeBpfSystem system(host);
	BpfVariants variants(system, system, host);
	BpfLoadRequest load;
	BpfSetRequest set;

	load.name = set.name = "bpf_swift";
	set.prefix = "10.1.0.0/16";
	set.set = {"base_target_ns=60000"};
	expect_fits("swiftctl_bpf_list", bpf_list_json(*variants.list()), [](Parsed &j) { j.erase("loaded"); });
	expect_fits("swiftctl_bpf_report", bpf_report_json(variants.load(load), load.name, false),
		    [](Parsed &j) { j["registration"] = "none"; });
	expect_fits("swiftctl_bpf_report", bpf_report_json(variants.load(load), load.name, false), // it is there
		    [](Parsed &j) { j["error"] = 17; });
	ASSERT_FALSE(variants.set(set).error);
	expect_fits("swiftctl_bpf_list", bpf_list_json(*variants.list()),
		    [](Parsed &j) { j["loaded"][0]["struct_ops"]["state"] = 1; });
	expect_fits("swiftctl_bpf_settings", bpf_settings_json(*variants.get(load.name), load.name),
		    [](Parsed &j) { j["profiles"][0]["values"]["base_target_ns"] = 0.5; });
}

TEST_F(schema, clock)
{
	const HostNow now = {1'000'000'000, 1'700'000'000'000'000'000};
	const ClockLine line = {900'000'000, 1'000'000'000, 1ULL << 32, 40};
	ClockSnapshot s;
	ClockRow row;

	row.iface = "eth0";
	row.ifindex = 2;
	s.now = now;
	s.rows = {row};
	row.stamps.emplace();
	row.clock.emplace();
	row.clock->line = line;
	row.bpf.emplace_back();
	row.bpf.back().variant = "bpf_swift";
	row.bpf.back().clock.line = line;
	s.rows.push_back(row);
	for (const bool one_line : {true, false})
		expect_fits("swiftctl_clocks", clocks_json(s, one_line), [](Parsed &j) { j["nics"][1]["line"]["owner_port"] = "-"; });
	expect_fits("swiftctl_clock_measurements",
		    measurements_json({{"eth0", 0, "precise", line, 80, 11, {}}, {"eth1", 1, "", {}, 0, 0, Error{"gone"}}}, now),
		    [](Parsed &j) { j["nics"][0]["method"] = 3; });
	expect_fits("swiftctl_clock_event", feed_event_json({true, "eth0", "failed", "why"}, now.realtime_ns),
		    [](Parsed &j) { j["trouble"] = 1; });
	expect_fits("swiftctl_clock_plans", plans_json({{"eth0", true, 0, Stamping{}, {1, 1}, ""}, {"lo", false, -1, {}, {}, "no"}}, 250),
		    [](Parsed &j) { j["nics"][1]["why_not"] = false; });
}

TEST_F(schema, probe)
{
	ProbeReport report;

	report.targets.resize(2);
	report.targets[0].name = "10.0.0.2";
	report.targets[0].stats.tx_qdisc.add(1500);
	report.targets[1].failure = "no route";
	report.targets[1].nic = "eth0";
	expect_fits("swiftctl_probe", probe_json(report, {}, false), [](Parsed &j) { j["targets"][0]["stamps"]["tx"] = "soft"; });
}

TEST_F(schema, tune)
{
	expect_fits("swiftctl_tune_event", event_json({TuneEvent::Kind::accepted, 50000, 25000, "better"}, 1),
		    [](Parsed &j) { j["to_ns"] = -1; });
}

TEST_F(schema, policy)
{
	const std::string text = "version = \"1\"\nauthor = \"me\"\nexpires = 2099-01-01T00:00:00Z\n"
				 "[[target]]\nof = \"bpf_swift\"\nprefix = \"10.2.0.0/16\"\nbase_target_ns = 30000\nclass = 8\n";
	const PolicyFile good = parse_policy(text, 1);
	PolicyRecord record;
	PolicyTarget target;

	ASSERT_TRUE(good.policy);
	for (const PolicyHere &here : {PolicyHere(), PolicyHere(good.policy->rules), PolicyHere(Error{"not here"})})
		expect_fits("swiftctl_policy_check", check_json(good, "p.toml", here),
			    [](Parsed &j) { j["targets"][0]["targets"]["base_target_ns"] = "30000"; });
	expect_fits("swiftctl_policy_check", check_json(parse_policy("version = 1", 1), "p.toml", {}),
		    [](Parsed &j) { j["error"]["line"] = "1"; });
	record.current = record.ended = text;
	target.place.of = "bpf_swift";
	target.place.prefix = "10.2.0.0/16";
	target.place.ruled = true;
	target.place.base.there = false;
	target.place.now.targets = {{"base_target_ns", "30000"}, {"target_policy", "static"}};
	expect_fits("swiftctl_policy", show_json(record, {target}), [](Parsed &j) { j["targets"][0]["as_policy"] = 0; });
	expect_fits("swiftctl_policy", show_json({}, {}), [](Parsed &j) { j["targets"] = nullptr; });
}

// Whatever report reads, whoever has written it; and whatever ab writes.
TEST_F(schema, results_that_report_reads)
{
	AbResult ab;

	ab.plan.ccs = {"swift", "cubic"};
	for (unsigned block = 1; block <= 6; block++)
		for (const std::string &cc : ab.plan.ccs) {
			AbRun &run = ab.runs.emplace_back();

			run.block = block;
			run.cc = cc;
			run.goodput_bps = 1e9 + block * (cc == "swift" ? 2e6 : 1e6);
			run.rtt_ns = AbRtt{5e5 + block, 4e5, std::nullopt, std::nullopt, 9};
		}
	for (const std::string &text : {data("demo.json"), ab_json(ab)}) {
		EXPECT_TRUE(read_report("a result", text));
		expect_fits("result", text, [](Parsed &j) { j["runs"][0]["cc"] = 5; }, false);
		expect_fits("result", text, [](Parsed &j) { j["runs"][0]["goodput_bps"] = "fast"; }, false);
	}
	EXPECT_TRUE(read_report("a result", data("lab.json")));
	expect_fits("result", data("lab.json"), [](Parsed &j) { j["experiments"][0]["summary"][0]["metrics"] = 5; }, false);
}
