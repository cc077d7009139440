// SPDX-License-Identifier: MIT
// [tune]: the service's tunings, with a knob that nobody steers by.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "api.h"
#include "config.h"
#include "fake_knob.h"
#include "fake_system.h"
#include "tuning.h"

using namespace swift;
using namespace swift_test;

namespace {

// Hands on to a knob that outlives it.
class KnobView final : public TargetKnob {
public:
	explicit KnobView(FakeKnob &knob) : knob_(knob) {}
	std::string name() const override { return knob_.name(); }
	std::string cc() const override { return knob_.cc(); }
	std::string key() const override { return knob_.key(); }
	Result<TargetSettings> read() const override { return knob_.read(); }
	Result<void> write(const TargetSettings &s) override { return knob_.write(s); }
	std::string command(const TargetSettings &s) const override { return knob_.command(s); }

private:
	FakeKnob &knob_;
};

class TuningTest : public testing::Test {
protected:
	TuningTest()
	{
		config.enabled = config.apply = true;
		config.learn_s = 3;
		config.measure = 1;
		config.min_us = 10;
		config.max_us = 500;
	}

	void start()
	{
		tuning = std::make_unique<Tuning>(
			system, [this](const Config::Tune &) { return std::make_unique<KnobView>(knob); }, config);
	}
	const TuneRow &look(double interval_s = 1)
	{
		FlowSet set = flows(20'000);

		set.interval_s = interval_s;
		tuning->observe(set, read_flows, 1.7e9 + ++looks);
		return tuning->row();
	}
	void look_until(std::string_view state, int most = 100)
	{
		for (int i = 0; i < most && tuning->row().state != state; i++)
			look();
		ASSERT_EQ(tuning->row().state, state) << tuning->row().reason;
	}
	void look_until_new_target()
	{
		const auto tries_new = [&] {
			const TuneRow &row = tuning->row();

			return row.state == "trying" && row.base_target_ns != row.events.back().event.from_ns;
		};

		for (int i = 0; i < 100 && !tries_new(); i++)
			look();
		ASSERT_TRUE(tries_new()) << tuning->row().state << ": " << tuning->row().reason;
		ASSERT_EQ(tuning->row().base_target_ns, knob.settings.base_target_ns);
	}

	FakeSystem system;
	FakeKnob knob;
	Config::Tune config;
	std::unique_ptr<Tuning> tuning;
	Tuning::ReadFlows read_flows;
	int looks = 0;
};

TEST_F(TuningTest, IsOffUnlessSwitchedOn)
{
	config.enabled = false;
	start();
	for (int i = 0; i < 20; i++)
		EXPECT_EQ(look().state, "off");
	EXPECT_EQ(knob.writes, 0U);
	EXPECT_EQ(system.operations, 0);
}

TEST_F(TuningTest, WithoutApplyItProposes)
{
	config.apply = false;
	start();
	EXPECT_EQ(look().state, "learning");
	look_until("proposing");
	EXPECT_GT(tuning->row().proposal_ns, 20'000U);
	EXPECT_EQ(tuning->row().base_target_ns, 100'000U);
	EXPECT_EQ(tuning->row().knob, "fake");
	EXPECT_FALSE(tuning->row().reason.empty());
	for (int i = 0; i < 50; i++)
		look();
	EXPECT_EQ(knob.writes, 0U);
	EXPECT_EQ(system.operations, 0);
}

TEST_F(TuningTest, WalksAndHolds)
{
	start();
	look_until("holding", 2000);
	// Throughput does not depend on the target here: the smallest one that may be is best.
	EXPECT_LT(knob.settings.base_target_ns, 40'000U);
	EXPECT_EQ(tuning->row().base_target_ns, knob.settings.base_target_ns);
	EXPECT_LE(tuning->row().events.size(), TuneRow::most_events);
	EXPECT_EQ(tuning->row().events.back().event.kind, TuneEvent::Kind::settled);
	EXPECT_EQ(tuning->row().reason, tuning->row().events.back().event.reason);
	EXPECT_EQ(tuning->row().events.back().time_s, 1.7e9 + looks);
}

TEST_F(TuningTest, TheFirstLookHasNoInterval)
{
	start();
	for (int i = 0; i < 50; i++)
		EXPECT_EQ(look(0).state, "off");
}

TEST_F(TuningTest, LeavingTakesTheAttemptBack)
{
	start();
	look_until_new_target();
	tuning.reset();
	EXPECT_EQ(knob.settings.base_target_ns, 100'000U);
	EXPECT_NE(system.files["/run/tcp_swift/tune-fake.json"].find("\"running\": false"), std::string::npos);
}

TEST_F(TuningTest, SwitchedOffWhileItRuns)
{
	start();
	look_until_new_target();
	tuning->reconfigure(config);
	EXPECT_EQ(tuning->row().state, "trying") << "nothing has changed";
	config.enabled = false;
	tuning->reconfigure(config);
	EXPECT_EQ(tuning->row().state, "off");
	EXPECT_EQ(tuning->row().events.back().event.kind, TuneEvent::Kind::rolled_back);
	EXPECT_EQ(knob.settings.base_target_ns, 100'000U);
	const unsigned writes = knob.writes;

	for (int i = 0; i < 20; i++)
		EXPECT_EQ(look().state, "off");
	EXPECT_EQ(knob.writes, writes);
	config.enabled = true;
	tuning->reconfigure(config);
	look_until_new_target();
}

TEST_F(TuningTest, AKnobThatIsGoneIsAStateUntilItIsBack)
{
	start();
	look_until_new_target();
	knob.gone = true;
	EXPECT_EQ(look().state, "unavailable");
	EXPECT_EQ(tuning->row().reason, "the knob is gone");
	for (int i = 0; i < 30; i++)
		EXPECT_EQ(look().state, "unavailable");
	knob.gone = false;
	knob.settings = {"base_rtt_plus", 25'000, 0, 30'000}; // a module that was loaded anew
	look_until("learning");
	EXPECT_EQ(knob.settings.policy, "base_rtt_plus");
	look_until_new_target();
}

TEST_F(TuningTest, WhatSomebodyElseSetsStays)
{
	start();
	look_until_new_target();
	knob.settings.base_target_ns = 123'456;
	EXPECT_EQ(look().state, "unavailable");
	EXPECT_NE(tuning->row().reason.find("somebody else"), std::string::npos) << tuning->row().reason;
	EXPECT_EQ(knob.settings.base_target_ns, 123'456U);
	look_until("learning");
	EXPECT_EQ(knob.settings.base_target_ns, 123'456U) << "the walk begins from there";
}

// Flows may starve, and nobody would see it.
TEST_F(TuningTest, NothingIsTriedUnwatched)
{
	start();
	tuning->cannot_look(1.7e9);
	EXPECT_EQ(tuning->row().state, "off") << "nothing has been tried";
	look_until("learning");
	const std::string learning = tuning->row().reason;

	tuning->cannot_look(1.7e9);
	EXPECT_EQ(tuning->row().state, "unavailable");
	EXPECT_EQ(tuning->row().reason, "the flows cannot be looked at");
	EXPECT_EQ(look().state, "learning") << "what was learnt is not lost";
	EXPECT_EQ(tuning->row().reason, learning);
	look_until_new_target();
	EXPECT_NE(knob.settings.base_target_ns, 100'000U);
	tuning->cannot_look(1.8e9);
	EXPECT_EQ(knob.settings.base_target_ns, 100'000U);
	EXPECT_EQ(tuning->row().state, "unavailable");
	EXPECT_EQ(tuning->row().reason, "the flows cannot be looked at");
	EXPECT_EQ(tuning->row().base_target_ns, 100'000U);
	EXPECT_EQ(tuning->row().events.back().event.kind, TuneEvent::Kind::rolled_back);
	EXPECT_EQ(tuning->row().events.back().time_s, 1.8e9);
	EXPECT_NE(system.files["/run/tcp_swift/tune-fake.json"].find("\"running\": false"), std::string::npos);
	tuning->cannot_look(1.8e9);
	look_until("learning");
	look_until_new_target();
}

// What is rejected does not become what the next attempts are compared with.
TEST_F(TuningTest, WhatCannotBeTakenBackIsNotKept)
{
	start();
	look_until_new_target();
	knob.fails = true;
	look_until("failed");
	EXPECT_NE(knob.settings.base_target_ns, 100'000U);
	knob.fails = false;
	look_until("learning", 20);
	EXPECT_EQ(knob.settings.base_target_ns, 100'000U);
}

// A look that finds the knob busy each time (two to take an attempt back, one to end the run, one to
// begin anew) is far from what systemd's watchdog takes for a hang, see swiftd.service.
TEST_F(TuningTest, ABusyKnobDoesNotLookLikeAHang)
{
	for (const double interval_s : {0.1, 1.0, 60.0}) {
		EXPECT_LE(knob_patience_s(interval_s), interval_s / 2);
		EXPECT_LT(4 * knob_patience_s(interval_s), 60.0 / 4);
	}
}

TEST_F(TuningTest, AKnobThatCannotBeWrittenIsTriedAgain)
{
	knob.settings = {"base_rtt_plus", 25'000, 0, 30'000};
	knob.fails = true;
	start();
	look_until("failed");
	EXPECT_EQ(tuning->row().reason, "the knob is stuck");
	const double retry_looks = Tuning::retry_s;

	for (int i = 1; i < retry_looks; i++)
		EXPECT_EQ(look().state, "failed");
	knob.fails = false;
	look_until("learning", 3);
	look_until_new_target();
}

TEST_F(TuningTest, AReadOnlyProcIsToldWithWhatHelps)
{
	knob.settings = {"base_rtt_plus", 25'000, 0, 30'000};
	knob.fails = true;
	knob.fails_with = EROFS;
	start();
	look_until("failed");
	EXPECT_NE(tuning->row().reason.find("ProtectKernelTunables=no"), std::string::npos) << tuning->row().reason;
	knob.fails_with = EINVAL;
	look_until("learning", 20);
	look_until("failed", 20);
	EXPECT_EQ(tuning->row().reason.find("ProtectKernelTunables"), std::string::npos) << tuning->row().reason;
}

// All of them are 62 MB; it has counted since it was loaded, so that once is as good as always.
TEST_F(TuningTest, TheTelemetrysFlowsAreReadOnceInAWhile)
{
	int reads = 0;

	config.apply = false;
	read_flows = [&](const auto &) {
		reads++;
		return Result<void>();
	};
	start();
	EXPECT_EQ(look().state, "learning");
	EXPECT_EQ(reads, 0);
	look_until("proposing");
	EXPECT_EQ(reads, 1);
	for (int i = 0; i < 150; i++)
		look();
	EXPECT_EQ(reads, 3);

	config.apply = true;
	reads = 0;
	tuning->reconfigure(config);
	look_until_new_target();
	EXPECT_EQ(reads, 1);
	for (int i = 0; i < 200; i++)
		look();
	EXPECT_EQ(reads, 1) << "while it walks nobody asks";
}

TEST_F(TuningTest, OthersFlowsTeachNothing)
{
	start();
	FlowSet set = flows(20'000);

	set.ccs = {"cubic"};
	for (int i = 0; i < 20; i++)
		tuning->observe(set, {}, 1.7e9);
	EXPECT_EQ(tuning->row().state, "learning");
	EXPECT_NE(tuning->row().reason.find("no flow of swift"), std::string::npos) << tuning->row().reason;
	EXPECT_EQ(knob.writes, 0U);
}

TEST_F(TuningTest, Options)
{
	const TuneOptions o = tuner_options(config);

	EXPECT_EQ(o.min_ns, 10'000U);
	EXPECT_EQ(o.max_ns, 500'000U);
	EXPECT_DOUBLE_EQ(o.tolerance, 0.01);
	EXPECT_DOUBLE_EQ(o.step, 2);
	EXPECT_TRUE(tuner_options(Config::Tune{}).check());
	for (const auto &[toml, says] : {std::pair<const char *, const char *>
		{"[tune]\nmin_us = 100.0\nmax_us = 50.0\n", "tune.min_us = 100"},
		{"[tune]\nprefix = \"10.0.0.0/8\"\n", "tune.prefix"},
		{"[tune]\nknob = \"bpf_swift\"\nprefix = \"ten\"\n", "tune.prefix = \"ten\""},
		{"[tune]\nknob = \"cubic\"\n", "tune.knob"},
		{"[tune]\nenabled = true\n[collect]\nccs = [\"cubic\"]\n", "collect.ccs has to contain \"swift\""}}) {
		const auto parsed = parse_config(toml, "f");

		ASSERT_FALSE(parsed) << toml;
		EXPECT_NE(parsed.error().text().find(says), std::string::npos) << parsed.error().text();
	}
	EXPECT_TRUE(parse_config("[tune]\nenabled = true\nknob = \"bpf_swift\"\nprefix = \"10.0.0.0/8\"\n", "f"));
	EXPECT_TRUE(parse_config("[tune]\nenabled = true\n[collect]\nccs = [\"*\"]\n", "f"));
}

TEST_F(TuningTest, IsInTheSummary)
{
	start();
	look_until_new_target();
	Snapshot s;

	s.flows = std::make_shared<const FlowSet>(flows(20'000));
	s.tune = tuning->row();
	const nlohmann::json j = summary_json(s, {})["tune"];

	EXPECT_EQ(j["state"], "trying");
	EXPECT_EQ(j["knob"], "fake");
	EXPECT_EQ(j["base_target_ns"], knob.settings.base_target_ns);
	EXPECT_TRUE(j["proposal_ns"].is_number());
	EXPECT_EQ(j["events"].back()["event"], "try");
	s.tune = {};
	EXPECT_TRUE(summary_json(s, {})["tune"]["proposal_ns"].is_null());
}

} // namespace
