// SPDX-License-Identifier: MIT
// The JSON that programs rely on: keys and types.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "diag.h"
#include "doctor.h"
#include "dump_builder.h"
#include "enable.h"
#include "fake_system.h"
#include "flows.h"
#include "schema.h"

using namespace swift;
using Parsed = nlohmann::json;

namespace {

FlowSnapshot snapshot()
{
	const auto dump = swift_test::six_flows();
	std::vector<Flow> flows;
	FlowsOptions all;
	FlowSnapshot s;

	all.all = true;
	parse_diag(dump.span(), flows);
	s.time_ns = 1700000000123456789;
	choose(std::move(flows), *FlowQuery::from(all), s);
	return s;
}

} // namespace

TEST(json, flows)
{
	const Parsed j = Parsed::parse(flows_json(snapshot(), false));

	EXPECT_EQ(j["schema"], 1);
	EXPECT_EQ(j["time_ns"], 1700000000123456789);
	EXPECT_EQ(j["swift_flows"], 4);
	EXPECT_EQ(j["guarded_flows"], 1);
	ASSERT_EQ(j["flows"].size(), 6U);

	const Parsed &f = j["flows"][0];

	for (const char *key :
	     {"local_port", "remote_port", "fcwnd", "ecwnd", "window", "fabric_ns", "endpoint_ns", "target_ns",
	      "snd_cwnd", "snd_mss_bytes", "srtt_us", "rttvar_us", "min_rtt_us",
	      "delivery_rate_bytes_per_s", "pacing_rate_bytes_per_s", "bytes_acked", "retrans"})
		EXPECT_TRUE(f.contains(key) && f[key].is_number()) << key;
	for (const char *key :
	     {"local_addr", "remote_addr", "state", "cc", "limit", "local_stamp", "echo_stamp"})
		EXPECT_TRUE(f.contains(key) && f[key].is_string()) << key;
	EXPECT_EQ(f["fabric_ns"], 62000);
	EXPECT_EQ(f["limit"], "fabric");
	EXPECT_EQ(f["state"], "established");
	EXPECT_EQ(f["guarded"], false);

	const Parsed &guarded = j["flows"][4];

	EXPECT_EQ(guarded["guarded"], true);
	EXPECT_FALSE(guarded.contains("fabric_ns"));
}

// The schema has the vocabulary of the API, and of this.
TEST(json, a_flow_speaks_the_vocabulary_of_the_api)
{
	const Parsed j = Parsed::parse(flows_json(snapshot(), false));
	Parsed wrong = j;
	swift_test::SchemaClaims claims;

	wrong["flows"][0]["local_stamp"] = "hw";
	claims.claim("swiftctl_flows", j);
	claims.claim("swiftctl_flows", wrong, false);
	EXPECT_TRUE(claims.hold());
}

TEST(json, flows_on_one_line)
{
	const std::string text = flows_json(snapshot(), true);

	EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
	EXPECT_TRUE(Parsed::parse(text).is_object());
}

TEST(json, enable_and_disable)
{
	swift_test::FakeSystem s;
	const Parsed on = Parsed::parse(outcome_json(enable(s, {}), false));
	const Parsed off = Parsed::parse(outcome_json(disable(s, s, {}), false));

	for (const Parsed &j : {on, off}) {
		EXPECT_EQ(j["schema"], 1);
		EXPECT_EQ(j["ok"], true);
		EXPECT_TRUE(j["error"].is_null());
		ASSERT_FALSE(j["changes"].empty());
		for (const Parsed &c : j["changes"])
			for (const char *key : {"kind", "key", "result"})
				EXPECT_TRUE(c[key].is_string()) << key;
	}
	EXPECT_EQ(on["changes"][0]["kind"], "module");
	EXPECT_EQ(on["changes"][0]["before"], "unloaded");
	EXPECT_EQ(on["changes"][0]["result"], "set");
}

TEST(json, enable_that_failed)
{
	swift_test::FakeSystem s;

	s.fail_at = 4;
	const Parsed j = Parsed::parse(outcome_json(enable(s, {}), false));

	EXPECT_EQ(j["ok"], false);
	EXPECT_EQ(j["rolled_back"], true);
	EXPECT_TRUE(j["error"].is_string());
}

TEST(json, doctor)
{
	const Parsed j = Parsed::parse(doctor_json({{Severity::ok, "a", "b"}, {Severity::fail, "c", "d", "e", "f"}}));

	EXPECT_EQ(j["schema"], 1);
	EXPECT_EQ(j["summary"]["ok"], 1);
	EXPECT_EQ(j["summary"]["warn"], 0);
	EXPECT_EQ(j["summary"]["fail"], 1);
	EXPECT_EQ(j["findings"][1]["severity"], "fail");
	EXPECT_EQ(j["findings"][1]["fix"], "f");
}
