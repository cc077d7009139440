// SPDX-License-Identifier: MIT
// One tuning around the tuner: what is written where and when, so that whatever happens (a
// kill, a knob that fails, somebody else) the target ends at a value that somebody wanted.
#include <gtest/gtest.h>

#include "fake_knob.h"
#include "fake_system.h"
#include "tune_run.h"

using namespace swift;
using namespace swift_test;

namespace {

constexpr const char *state_file = "/run/tcp_swift/tune-fake.json";

TuneOptions small_steps()
{
	TuneOptions o;

	o.min_ns = 10'000;
	o.max_ns = 500'000;
	o.settle = 0;
	o.measure = 1;
	return o;
}

class TuneRunTest : public testing::Test {
protected:
	std::unique_ptr<TuneRun> begin(bool apply = true)
	{
		auto run = TuneRun::begin(system, knob, options, std::nullopt, apply);

		EXPECT_TRUE(run) << (run ? "" : run.error().text());
		return run ? std::move(*run) : nullptr;
	}
	// Learnt from a path of @path_ns, and started.
	std::unique_ptr<TuneRun> started(std::uint32_t path_ns = 20'000)
	{
		auto run = begin();

		run->learn(flows(path_ns));
		first = run->start();
		EXPECT_TRUE(first) << (first ? "" : first.error().text());
		return run;
	}
	// Until @run has a new value in force that is not kept.
	void until_trying(TuneRun &run)
	{
		for (int i = 0; i < 20 && run.now().base_target_ns == run.tuner().kept_ns(); i++)
			ASSERT_TRUE(run.step(flows(20'000)));
		ASSERT_NE(run.now().base_target_ns, run.tuner().kept_ns());
		ASSERT_EQ(knob.settings, run.now());
	}

	FakeSystem system;
	FakeKnob knob;
	TuneOptions options = small_steps();
	Result<std::vector<TuneEvent>> first = std::vector<TuneEvent>();
};

TEST_F(TuneRunTest, WithoutApplyNothingIsEverWritten)
{
	auto run = begin(false);

	EXPECT_FALSE(run->proposal()) << "from nothing";
	run->learn(flows(30'000));
	const auto p = run->proposal();

	ASSERT_TRUE(p);
	EXPECT_GE(p->base_target_ns, 30'000U);
	EXPECT_EQ(knob.writes, 0U);
	EXPECT_EQ(system.operations, 0);
	run.reset();
	EXPECT_FALSE(system.files.contains(state_file));
}

TEST_F(TuneRunTest, ThePathsThatCountAreThoseOfItsFlows)
{
	auto run = begin(false);
	FlowSet others = flows(1'000);

	others.ccs = {"cubic"};
	run->learn(others);
	EXPECT_FALSE(run->proposal());
	const auto to_net = Prefix::parse("10.1.0.0/16"); // flows() go to 10.0.0.0/24
	auto elsewhere = TuneRun::begin(system, knob, options, *to_net, false);

	(*elsewhere)->learn(flows(1'000));
	ASSERT_FALSE((*elsewhere)->proposal());
	EXPECT_NE((*elsewhere)->proposal().error().text().find("10.1.0.0/16"), std::string::npos);
}

TEST_F(TuneRunTest, AStaticTargetStaysUntilABetterOneIsKnown)
{
	knob.settings = {"static", 100'000, 0, 5'000};
	auto run = started();

	EXPECT_EQ(knob.settings.base_target_ns, 100'000U);
	EXPECT_EQ(knob.writes, 0U);
	EXPECT_TRUE(system.files.contains(state_file)) << "before anything is changed";
}

TEST_F(TuneRunTest, BaseRttPlusBecomesTheStaticTargetThatIsNearest)
{
	knob.settings = {"base_rtt_plus", 25'000, 1'000, 30'000};
	auto run = started(60'000);

	EXPECT_EQ(knob.settings.policy, "static");
	EXPECT_EQ(knob.settings.base_target_ns, 90'000U) << "the path's 60 us and rtt_epsilon_ns";
	EXPECT_EQ(knob.settings.hop_target_ns, 0U);
	EXPECT_EQ(run->before().policy, "base_rtt_plus");
	ASSERT_EQ(first->size(), 1U) << "and says so";
	EXPECT_NE(first->front().reason.find("target_policy was base_rtt_plus"), std::string::npos);
}

// One target for all: no destination may be left without a window.
TEST_F(TuneRunTest, TheLongestPathIsTheLeast)
{
	knob.settings = {"base_rtt_plus", 25'000, 0, 50'000};
	auto run = begin();
	FlowSet both = flows(25'000);

	both.rows[3].srtt_us = both.rows[3].min_rtt_us = 300;
	both.rows[3].swift.fabric_ns = 300'000;
	run->learn(both);
	ASSERT_TRUE(run->start());
	for (int i = 0; i < 200; i++) {
		ASSERT_GE(knob.settings.base_target_ns, 375'000U) << "1.25 times the longest";
		ASSERT_TRUE(run->step(both));
	}
	run.reset();

	// What needs more than is allowed is not begun.
	FakeSystem elsewhere;
	FakeKnob other;
	auto refused = TuneRun::begin(elsewhere, other, options, std::nullopt, true);

	ASSERT_TRUE(refused);
	both.rows[3].min_rtt_us = 450;
	both.rows[3].swift.fabric_ns = 450'000;
	(*refused)->learn(both);
	const auto started = (*refused)->start();

	ASSERT_FALSE(started);
	EXPECT_NE(started.error().text().find("tune.max_ns"), std::string::npos);
	EXPECT_EQ(other.writes, 0U);
}

// Nor is it put back what somebody has set after the kill.
TEST_F(TuneRunTest, AKillAndThenAnotherValueStays)
{
	auto run = started();

	until_trying(*run);
	run.reset();
	knob.settings.base_target_ns = 333'000;
	EXPECT_TRUE(begin()->mended().empty());
	EXPECT_EQ(knob.settings.base_target_ns, 333'000U);
}

// Held for hours, then killed: it is the accepted value that is kept.
TEST_F(TuneRunTest, AKillWhileHoldingChangesNothing)
{
	auto run = started();

	for (int i = 0; i < 300 && run->tuner().state() != TuneState::holding; i++)
		ASSERT_TRUE(run->step(flows(20'000)));
	ASSERT_EQ(run->tuner().state(), TuneState::holding);
	const std::uint32_t settled = knob.settings.base_target_ns;

	ASSERT_LT(settled, 100'000U);
	run.reset();
	begin();
	EXPECT_EQ(knob.settings.base_target_ns, settled);
}

TEST_F(TuneRunTest, ATargetBelowThePathsLengthJumps)
{
	knob.settings = {"static", 20'000, 0, 0};
	auto run = started(60'000);

	ASSERT_EQ(first->size(), 1U);
	EXPECT_EQ(first->front().kind, TuneEvent::Kind::accepted);
	EXPECT_EQ(first->front().from_ns, 20'000U);
	EXPECT_EQ(first->front().to_ns, knob.settings.base_target_ns);
	EXPECT_GE(knob.settings.base_target_ns, 75'000U) << "1.25 times the path";
	for (int i = 0; i < 200; i++) {
		ASSERT_TRUE(run->step(flows(60'000)));
		ASSERT_GE(knob.settings.base_target_ns, 75'000U) << "nor is such a value ever tried";
	}
}

TEST_F(TuneRunTest, AKilledRunIsMendedByTheNext)
{
	knob.settings = {"static", 100'000, 0, 0};
	auto run = started();

	until_trying(*run);
	const std::uint32_t tried = knob.settings.base_target_ns;
	const std::uint32_t kept = run->tuner().kept_ns();

	run.reset(); // as a kill leaves it: nothing is written any more
	ASSERT_EQ(knob.settings.base_target_ns, tried);
	auto next = begin();

	EXPECT_EQ(knob.settings.base_target_ns, kept);
	EXPECT_NE(next->mended().find(std::to_string(tried)), std::string::npos) << next->mended();
	EXPECT_EQ(next->before().base_target_ns, 100'000U) << "the first run's";
}

TEST_F(TuneRunTest, WithoutApplyAKilledRunIsNotMended)
{
	auto run = started();

	until_trying(*run);
	const TargetSettings tried = knob.settings;

	run.reset();
	begin(false);
	EXPECT_EQ(knob.settings, tried);
}

TEST_F(TuneRunTest, EndingTakesTheAttemptBack)
{
	auto run = started();

	until_trying(*run);
	const std::uint32_t kept = run->tuner().kept_ns();
	const auto last = run->end("stopped", false);

	ASSERT_TRUE(last);
	ASSERT_EQ(last->size(), 1U);
	EXPECT_EQ(last->front().kind, TuneEvent::Kind::rolled_back);
	EXPECT_EQ(knob.settings.base_target_ns, kept);
	run.reset();
	EXPECT_TRUE(begin()->mended().empty());
}

TEST_F(TuneRunTest, EndingWithRestorePutsBackWhatWasThereBeforeTheFirst)
{
	const TargetSettings before = knob.settings = {"base_rtt_plus", 25'000, 1'000, 30'000};

	(void)!started()->end("settled", false);
	EXPECT_NE(knob.settings, before);
	EXPECT_TRUE(started()->end("stopped", true));
	EXPECT_EQ(knob.settings, before);
	EXPECT_FALSE(system.files.contains(state_file));
}

TEST_F(TuneRunTest, Undo)
{
	const TargetSettings before = knob.settings = {"base_rtt_plus", 25'000, 1'000, 30'000};

	EXPECT_FALSE(TuneRun::undo(system, knob));
	EXPECT_EQ(knob.writes, 0U);
	(void)!started()->end("settled", false);
	const auto undone = TuneRun::undo(system, knob);

	ASSERT_TRUE(undone);
	EXPECT_EQ(*undone, before);
	EXPECT_EQ(knob.settings, before);
	EXPECT_FALSE(TuneRun::undo(system, knob)) << "not twice";
}

TEST_F(TuneRunTest, AKnobThatCannotBeWritten)
{
	knob.settings = {"base_rtt_plus", 25'000, 0, 30'000};
	auto run = begin();

	run->learn(flows(20'000));
	knob.fails = true;
	EXPECT_FALSE(run->start());
	EXPECT_EQ(knob.settings.policy, "base_rtt_plus");
	EXPECT_FALSE(run->started());
	run.reset();
	knob.fails = false;
	EXPECT_TRUE(begin()->mended().empty()) << "nothing had been changed";
}

TEST_F(TuneRunTest, AKnobThatFailsUnderWay)
{
	auto run = started();

	knob.fails = true;
	bool failed = false;

	for (int i = 0; i < 20 && !failed; i++)
		failed = !run->step(flows(20'000));
	EXPECT_TRUE(failed);
	EXPECT_EQ(knob.settings.base_target_ns, run->tuner().kept_ns()) << "what was kept is in force";
}

TEST_F(TuneRunTest, AStateThatCannotBeSavedChangesNothing)
{
	knob.settings = {"base_rtt_plus", 25'000, 0, 30'000};
	auto run = begin();

	run->learn(flows(20'000));
	system.fail_at = system.operations + 1;
	EXPECT_FALSE(run->start());
	EXPECT_EQ(knob.writes, 0U);
}

TEST_F(TuneRunTest, ASpoiltStateIsAnErrorThatNamesTheFile)
{
	system.files[state_file] = "{\"schema\": 1, \"running\": \"yes\"}";
	const auto run = TuneRun::begin(system, knob, options, std::nullopt, true);

	ASSERT_FALSE(run);
	EXPECT_NE(run.error().text().find(state_file), std::string::npos);
	EXPECT_EQ(knob.writes, 0U);
}

TEST_F(TuneRunTest, WhatSomebodyElseHasSetStays)
{
	auto run = started();

	until_trying(*run);
	knob.settings.base_target_ns = 123'456;
	run->let_go();
	EXPECT_FALSE(run->started());
	run.reset();
	EXPECT_TRUE(begin()->mended().empty());
	EXPECT_EQ(knob.settings.base_target_ns, 123'456U);
}

} // namespace
