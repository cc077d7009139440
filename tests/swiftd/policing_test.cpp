// SPDX-License-Identifier: MIT
// [policy]: the service's policies, on a host that is made up.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "api.h"
#include "config.h"
#include "fake_bpf_host.h"
#include "fake_knob.h"
#include "metrics.h"
#include "policing.h"
#include "schema.h"

using namespace swift;
using namespace swift_test;

namespace {

constexpr double start_s = 1'790'000'000; // 2026-09-21
constexpr const char *file = "/etc/tcp_swift/policy.toml";

class PolicingTest : public testing::Test
{
protected:
	PolicingTest()
	{
		system.load();
		system.files["/proc/sys/kernel/random/boot_id"] = "boot-1\n";
		config.policy.file = file;
	}

	void start()
	{
		policing = std::make_unique<Policing>(system, real_places(system, variants, "7", 0), "7",
						      config);
	}
	static std::string policy(const std::string &version, int base_target_ns,
				  const std::string &expires = "2026-10-21T00:00:00Z")
	{
		return "version = \"" + version + "\"\nauthor = \"me\"\nexpires = " + expires +
		       "\n[[target]]\nbase_target_ns = " + std::to_string(base_target_ns) + "\n";
	}
	void put(const std::string &text) { system.files[file] = text; }
	// @rate_Bps as a function of whether the policy's targets are in force.
	const PolicyRow &look(float with_policy = 1e6F, float with_old = 1e6F)
	{
		const bool old = sysctl("base_target_ns") == "25000";

		policing->observe(flows(20'000, old ? with_old : with_policy), start_s + looks++);
		return policing->row();
	}
	void look_until(std::string_view state, int most, float with_policy = 1e6F)
	{
		for (int i = 0; i < most && policing->row().state != state; i++)
			look(with_policy);
		ASSERT_EQ(policing->row().state, state) << policing->row().reason;
	}
	std::string sysctl(const std::string &name)
	{
		return std::string(trim(system.files["/proc/sys/net/ipv4/tcp_swift/" + name]));
	}
	// "swift_policy_state{state="in_force"}" or all that begins so
	std::string metric(const std::string &begin)
	{
		Snapshot s;
		std::string all;

		s.policy = policing->row();
		for (const std::string &line : split(write_metrics(metric_families(s, {}, {}, 0), MetricsForm::text, false), '\n'))
			if (line.starts_with(begin))
				all += (all.empty() ? "" : "\n") + line;
		return all;
	}

	// What /api/v1/policy says.
	nlohmann::json told()
	{
		Store store;
		auto s = std::make_shared<Snapshot>();

		s->number = 1;
		s->time_s = start_s + looks;
		s->flows = std::make_shared<FlowSet>();
		s->policy = policing->row();
		store.put(std::move(s));
		return nlohmann::json::parse(
			*respond({"GET", "/api/v1/policy"}, {store, {"host", "6.12"}, {}, 0, 0}).body);
	}
	// "in_force 1, put_back 1"
	std::string events()
	{
		const nlohmann::json j = told();
		std::string all;

		for (const auto &e : j["events"])
			all += (all.empty() ? "" : ", ") + e["event"].get<std::string>() + " " +
			       (e["version"].is_null() ? "-" : e["version"].get<std::string>());
		return all;
	}

	FakeSystem system;
	FakeBpfHost host;
	BpfVariants variants{system, system, host};
	Config config;
	std::unique_ptr<Policing> policing;
	int looks = 0;
};

TEST_F(PolicingTest, IsOffUnlessAFileIsNamed)
{
	config.policy.file.clear();
	start();
	for (int i = 0; i < 5; i++)
		EXPECT_EQ(look().state, "off");
	EXPECT_EQ(system.operations, 0);
	EXPECT_EQ(metric("swift_policy_info"), "");
	EXPECT_EQ(metric("swift_policy_state"), "");
}

TEST_F(PolicingTest, AFileThatIsNotThereIsNoTrouble)
{
	start();
	EXPECT_EQ(look().state, "off");
	EXPECT_NE(policing->row().reason.find("is not there"), std::string::npos);
	put(policy("1", 30'000));
	look();
	EXPECT_EQ(policing->row().state, "off") << "a file is read when that is asked for";
	policing->reconfigure(config);
	look();
	EXPECT_EQ(policing->row().state, "in_force");
}

TEST_F(PolicingTest, IsInForceAtOnceAndTellsItself)
{
	put(policy("1", 30'000));
	start();
	EXPECT_EQ(look().state, "in_force");
	EXPECT_EQ(sysctl("base_target_ns"), "30000");
	EXPECT_EQ(policing->row().version, "1");
	EXPECT_EQ(policing->row().guard, "trying");
	EXPECT_EQ(metric("swift_policy_info"), "swift_policy_info{version=\"1\",author=\"me\"} 1");
	EXPECT_EQ(metric("swift_policy_state"), "swift_policy_state{state=\"in_force\"} 1");
	EXPECT_EQ(metric("swift_policy_targets"), "swift_policy_targets 1");
	EXPECT_NE(metric("swift_policy_expiry_timestamp_seconds"), "");
	for (int i = 0; i < 300 && policing->row().guard == "trying"; i++)
		look();
	EXPECT_EQ(policing->row().guard, "watching");
	EXPECT_EQ(sysctl("base_target_ns"), "30000");
}

TEST_F(PolicingTest, AWrongFileChangesNothingAndIsNamed)
{
	put(policy("1", 30'000));
	start();
	look();
	put(policy("2", 9));
	policing->reconfigure(config);
	look();
	EXPECT_EQ(policing->row().state, "refused");
	EXPECT_EQ(policing->row().reason,
		  "/etc/tcp_swift/policy.toml:5: target.base_target_ns: '9' (allowed: 1000 to 1000000000)");
	EXPECT_EQ(policing->row().version, "1");
	EXPECT_EQ(metric("swift_policy_info"), "swift_policy_info{version=\"1\",author=\"me\"} 1");
	EXPECT_EQ(metric("swift_policy_state"), "swift_policy_state{state=\"refused\"} 1");
	for (int i = 0; i < 100; i++)
		look();
	EXPECT_EQ(sysctl("base_target_ns"), "30000");
	EXPECT_EQ(policing->row().state, "refused");
	// Nor does a restart, which has the file to read alone.
	policing.reset();
	start();
	look();
	EXPECT_EQ(policing->row().state, "refused");
	EXPECT_EQ(sysctl("base_target_ns"), "30000");
	EXPECT_EQ(policing->row().version, "1");
	// The right one is taken.
	put(policy("3", 31'000));
	policing->reconfigure(config);
	look();
	EXPECT_EQ(policing->row().state, "in_force");
	EXPECT_EQ(sysctl("base_target_ns"), "31000");
}

TEST_F(PolicingTest, TheGuardPutsTheOldTargetsBack)
{
	put(policy("1", 30'000));
	start();
	for (int i = 0; i < 40 && policing->row().state != "put_back"; i++)
		look(0.4e6F);
	EXPECT_EQ(policing->row().state, "put_back") << policing->row().reason;
	EXPECT_EQ(sysctl("base_target_ns"), "25000");
	EXPECT_EQ(policing->row().version, "");
	EXPECT_NE(policing->row().reason.find("net.ipv4.tcp_swift: throughput"), std::string::npos)
		<< policing->row().reason;
	EXPECT_EQ(metric("swift_policy_info"), "");
	EXPECT_EQ(metric("swift_policy_ended_total{by=\"guard\"}"),
		  "swift_policy_ended_total{by=\"guard\"} 1");
	// It stays away: over looks, reloads, and restarts.
	for (int i = 0; i < 100; i++)
		look();
	policing->reconfigure(config);
	look();
	EXPECT_EQ(policing->row().state, "put_back");
	policing.reset();
	start();
	look();
	EXPECT_EQ(policing->row().state, "put_back");
	EXPECT_EQ(sysctl("base_target_ns"), "25000");
	EXPECT_EQ(system.files["/proc/sys/net/ipv4/tcp_swift/base_target_ns"], "25000\n");
	// Another version is another policy.
	put(policy("2", 28'000));
	policing->reconfigure(config);
	look();
	EXPECT_EQ(policing->row().state, "in_force");
	EXPECT_EQ(sysctl("base_target_ns"), "28000");
}

TEST_F(PolicingTest, ItExpires)
{
	put(policy("1", 30'000, "2026-09-21T14:14:00Z")); // 40 s after the start
	start();
	for (int i = 0; i < 30; i++)
		look();
	EXPECT_EQ(policing->row().state, "in_force");
	look_until("expired", 20);
	EXPECT_EQ(looks, 41);
	EXPECT_EQ(sysctl("base_target_ns"), "25000");
	EXPECT_EQ(metric("swift_policy_ended_total{by=\"expiry\"}"),
		  "swift_policy_ended_total{by=\"expiry\"} 1");
	policing->reconfigure(config);
	look();
	EXPECT_EQ(policing->row().state, "expired");

	// While nobody could look at the flows, too; and while swiftd was not there.
	put(policy("2", 30'000, "2026-09-21T14:15:00Z"));
	policing->reconfigure(config);
	look();
	EXPECT_EQ(sysctl("base_target_ns"), "30000");
	policing->cannot_look(start_s + 101);
	EXPECT_EQ(sysctl("base_target_ns"), "25000");
	looks = 102;
	put(policy("3", 30'000, "2026-09-21T14:16:00Z"));
	policing->reconfigure(config);
	look();
	EXPECT_EQ(sysctl("base_target_ns"), "30000");
	policing.reset();
	EXPECT_EQ(sysctl("base_target_ns"), "30000");
	looks = 200;
	start();
	look();
	EXPECT_EQ(sysctl("base_target_ns"), "25000");
	EXPECT_EQ(policing->row().state, "expired");
}

TEST_F(PolicingTest, AFileThatGoesTakesItsTargetsWithIt)
{
	put(policy("1", 30'000));
	start();
	look();
	system.files.erase(file);
	look();
	EXPECT_EQ(sysctl("base_target_ns"), "30000") << "nobody has asked";
	policing->reconfigure(config);
	look();
	EXPECT_EQ(sysctl("base_target_ns"), "25000");
	EXPECT_EQ(policing->row().state, "off");
	put(policy("1", 30'000)); // the same again
	policing->reconfigure(config);
	look();
	EXPECT_EQ(sysctl("base_target_ns"), "30000");
	config.policy.file.clear();
	policing->reconfigure(config);
	look();
	EXPECT_EQ(sysctl("base_target_ns"), "25000");
	EXPECT_EQ(policing->row().state, "off");
}

TEST_F(PolicingTest, LeavingAndComingAgainKeepsIt)
{
	put(policy("1", 30'000));
	start();
	look();
	while (sysctl("base_target_ns") == "30000")
		look();
	policing.reset(); // in a turn of the old ones
	EXPECT_EQ(sysctl("base_target_ns"), "30000");
	start();
	EXPECT_EQ(look().state, "in_force");
	EXPECT_EQ(policing->row().version, "1");
	for (int i = 0; i < 300 && policing->row().guard == "trying"; i++)
		look();
	policing.reset();
	start();
	look();
	EXPECT_EQ(policing->row().guard, "watching") << "it was acquitted";
}

TEST_F(PolicingTest, UnwatchedThePolicysTargetsAreInForce)
{
	put(policy("1", 30'000));
	start();
	look();
	while (sysctl("base_target_ns") == "30000")
		look();
	policing->cannot_look(start_s + looks);
	EXPECT_EQ(sysctl("base_target_ns"), "30000");
	EXPECT_EQ(policing->row().state, "in_force");
}

TEST_F(PolicingTest, WhatTheHostCannotHaveIsTriedAgain)
{
	put("version = \"1\"\nauthor = \"me\"\nexpires = 2026-10-21T00:00:00Z\n[[target]]\nof = \"bpf_swift\"\nbase_target_ns = 30000\n");
	start();
	look();
	EXPECT_EQ(policing->row().state, "refused");
	EXPECT_EQ(policing->row().reason,
		  "/etc/tcp_swift/policy.toml: target of bpf_swift (line 4): not loaded: 'bpf_swift'");
	ASSERT_FALSE(variants.load({.name = "bpf_swift", .file = "", .set = {}, .cgroup = "/sys/fs/cgroup"})
			     .error);
	look_until("in_force", 12);
}

TEST_F(PolicingTest, AGuardThatWouldSeeNothingIsRefused)
{
	config.collect.ccs = {"cubic"};
	put(policy("1", 30'000));
	start();
	look();
	EXPECT_EQ(policing->row().state, "refused");
	EXPECT_EQ(
		policing->row().reason,
		"/etc/tcp_swift/policy.toml:4: the guard would not see the flows of this target: collect.ccs "
		"has to contain \"swift\" or \"*\"");
	put(policy("1", 30'000) + "[guard]\nenabled = false\n");
	policing->reconfigure(config);
	look();
	EXPECT_EQ(policing->row().state, "in_force");
	EXPECT_EQ(policing->row().guard, "off");
}

TEST_F(PolicingTest, SomebodyElsesTargetStaysAndIsSaid)
{
	put(policy("1", 30'000));
	start();
	look();
	system.files["/proc/sys/net/ipv4/tcp_swift/base_target_ns"] = "77000\n";
	look_until("overridden", 70);
	EXPECT_NE(policing->row().reason.find("base_target_ns=77000"), std::string::npos)
		<< policing->row().reason;
	EXPECT_EQ(policing->row().targets, 0U);
	EXPECT_EQ(sysctl("base_target_ns"), "77000");
	// Until it is asked for again.
	policing->reconfigure(config);
	look();
	EXPECT_EQ(policing->row().state, "in_force");
	EXPECT_EQ(sysctl("base_target_ns"), "30000");
}

TEST_F(PolicingTest, TargetsThatCannotBeTakenBackAreAfterAll)
{
	put(policy("1", 30'000, "2026-09-21T14:14:00Z"));
	start();
	look();
	looks = 50;
	system.operations = 0;
	system.fail_at = 1;
	system.dead_after = true;
	look();
	EXPECT_EQ(sysctl("base_target_ns"), "30000");
	EXPECT_NE(policing->row().reason.find("cannot be taken back, and will be"), std::string::npos)
		<< policing->row().reason;
	system.fail_at = 0;
	look();
	EXPECT_EQ(sysctl("base_target_ns"), "25000");
	EXPECT_EQ(policing->row().state, "expired");
}

TEST_F(PolicingTest, WithoutAPolicyThereIsNothingToTell)
{
	config.policy.file.clear();
	start();
	look();
	const auto j = told();

	EXPECT_EQ(j["version"], 1);
	EXPECT_EQ(j["time_s"], start_s + 1);
	EXPECT_EQ(j["policy"]["state"], "off");
	EXPECT_EQ(j["policy"]["version"], nullptr);
	EXPECT_EQ(j["targets"], nlohmann::json::array());
	EXPECT_EQ(j["events"], nlohmann::json::array());
}

TEST_F(PolicingTest, TellsWhatItHasSet)
{
	put(policy("1", 30'000) +
	    "target_policy = \"static\"\n[[target]]\nclass = 26\nbase_target_ns = 60000\n");
	start();
	look();
	auto j = told();

	EXPECT_EQ(events(), "in_force 1");
	EXPECT_EQ(j["events"][0]["time_s"], start_s);
	EXPECT_EQ(j["events"][0]["author"], "me");
	EXPECT_EQ(j["policy"]["since_s"], start_s);
	// Not the other class's, nor what no rule names.
	EXPECT_EQ(j["targets"], (nlohmann::json{{{"place", "net.ipv4.tcp_swift"},
						 {"tunable", "base_target_ns"},
						 {"before", "25000"},
						 {"value", "30000"},
						 {"lost", nullptr}},
						{{"place", "net.ipv4.tcp_swift"},
						 {"tunable", "target_policy"},
						 {"before", "base_rtt_plus"},
						 {"value", "static"},
						 {"lost", nullptr}}}));
	system.files["/proc/sys/net/ipv4/tcp_swift/base_target_ns"] = "77000\n";
	look_until("overridden", 70);
	EXPECT_EQ(events(), "in_force 1, overridden 1");
	j = told();
	EXPECT_NE(j["targets"][0]["lost"].get<std::string>().find("base_target_ns=77000"), std::string::npos);

	SchemaClaims claims;

	claims.claim("policy_detail", j);
	j["targets"][0]["lost"] = 1;
	claims.claim("policy_detail", j, false);
	EXPECT_TRUE(claims.hold());
}

TEST_F(PolicingTest, TellsWhatTheGuardPutBackAndWhatIsInForceThen)
{
	put(policy("1", 26'000));
	start();
	for (int i = 0; i < 300 && policing->row().guard != "watching"; i++)
		look();
	EXPECT_EQ(events(), "in_force 1, acquitted 1");
	put(policy("2", 30'000));
	policing->reconfigure(config);
	for (int i = 0; i < 40 && policing->row().state != "put_back"; i++) {
		const bool old = sysctl("base_target_ns") == "26000";

		policing->observe(flows(20'000, old ? 1e6F : 0.4e6F), start_s + looks++);
	}
	EXPECT_EQ(events(), "in_force 1, acquitted 1, in_force 2, put_back 2, in_force 1");
	auto j = told();

	EXPECT_EQ(j["events"][3]["reason"], policing->row().reason);
	EXPECT_NE(j["events"][3]["reason"].get<std::string>().find("net.ipv4.tcp_swift: throughput"),
		  std::string::npos);
	EXPECT_EQ(j["events"][4]["reason"], "again, after 2");
	EXPECT_EQ(j["policy"]["version"], "1");
	EXPECT_EQ(j["targets"][0]["value"], "26000");

	SchemaClaims claims;

	claims.claim("policy_detail", j);
	j["events"][0]["event"] = "born";
	claims.claim("policy_detail", j, false);
	EXPECT_TRUE(claims.hold());
	j = told();
	// A restart knows the end of it.
	const double put_back_s = j["events"][3]["time_s"];

	policing.reset();
	start();
	looks += 1000;
	look();
	EXPECT_EQ(events(), "put_back 2, in_force 1");
	EXPECT_EQ(told()["events"][0]["time_s"], put_back_s);
	EXPECT_EQ(told()["events"][1]["time_s"], put_back_s);
	EXPECT_EQ(told()["events"][0]["reason"], j["events"][3]["reason"]);
}

TEST_F(PolicingTest, TellsExpiryWithdrawalAndRefusal)
{
	put(policy("1", 30'000, "2026-09-21T14:14:00Z"));
	start();
	look();
	looks = 50;
	look();
	EXPECT_EQ(events(), "in_force 1, expired 1");
	EXPECT_EQ(told()["events"][1]["reason"], "it expired at 2026-09-21T14:14:00Z");
	EXPECT_EQ(told()["targets"], nlohmann::json::array());
	put(policy("2", 9));
	policing->reconfigure(config);
	for (int i = 0; i < 30; i++)
		look();
	EXPECT_EQ(events(), "in_force 1, expired 1, refused -");
	EXPECT_EQ(told()["events"][2]["reason"], policing->row().reason);
	put(policy("3", 31'000));
	policing->reconfigure(config);
	look();
	system.files.erase(file);
	policing->reconfigure(config);
	look();
	EXPECT_EQ(events(), "in_force 1, expired 1, refused -, in_force 3, withdrawn 3");
}

TEST_F(PolicingTest, TheHistoryIsBounded)
{
	start();
	for (int i = 0; i < 100; i++) {
		put(policy(std::to_string(i), i % 2 ? 30'000 : 31'000) + "[" +
		    std::string(i % 2 ? 9000 : 0, 'x') + "]\n");
		policing->reconfigure(config);
		look();
		put(policy(std::to_string(i), 9));
		policing->reconfigure(config);
		look();
	}
	const auto j = told();

	EXPECT_EQ(j["events"].size(), PolicyRow::most_events);
	EXPECT_EQ(j["events"].back()["time_s"], start_s + 199);
	EXPECT_LT(j.dump().size(), 100'000U);
}

TEST_F(PolicingTest, IsToldWhileTheFlowsCannotBeLookedAt)
{
	Store store;
	const auto get = [&](const char *target) {
		return respond({"GET", target}, {store, {"host", "6.12"}, {}, 0, 0});
	};

	EXPECT_EQ(get("/api/v1/policy").status, 503U);
	EXPECT_EQ(get("/api/v1/policy?x=1").status, 400U);
	put(policy("1", 30'000));
	start();
	policing->cannot_look(start_s);
	store.fail({"no sockets", start_s, {}, {}, policing->row()});
	const auto j = nlohmann::json::parse(*get("/api/v1/policy").body);

	EXPECT_EQ(get("/api/v1/policy").status, 200U);
	EXPECT_EQ(j["policy"]["state"], "in_force");
	EXPECT_EQ(j["events"].size(), 1U);
}

TEST(PolicyOptions, WhatWillNotDoIsNamed)
{
	const auto refusal = [](const std::string &toml) {
		const auto config = parse_config(toml, "swiftd.toml");

		return config ? std::string() : config.error().text();
	};

	EXPECT_EQ(refusal("[policy]\nfile = \"/etc/p.toml\"\n"), "");
	EXPECT_EQ(refusal("[policy]\nfile = \"p.toml\"\n"),
		  "swiftd.toml: policy.file = \"p.toml\": allowed are absolute paths");
	EXPECT_EQ(
		refusal("[policy]\nfile = \"/etc/p.toml\"\n[tune]\nenabled = true\napply = true\n"),
		"swiftd.toml: policy.file with tune.apply = true: both would set targets; allowed is one of them");
}

} // namespace
