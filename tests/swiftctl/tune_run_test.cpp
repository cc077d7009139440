// SPDX-License-Identifier: MIT
// One tuning around the tuner: what is written where and when, so that whatever happens (a
// kill, a knob that fails, somebody else) the target ends at a value that somebody wanted.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "fake_bpf_host.h"
#include "fake_knob.h"
#include "fake_system.h"
#include "tune.h"
#include "tune_run.h"

using namespace swift;
using namespace swift_test;

namespace {

constexpr const char *state_file = "/var/lib/tcp_swift/tune-fake.json"; // root's
constexpr const char *service_file = "/run/tcp_swift/tune-fake.json"; // that swiftd can write

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
	std::unique_ptr<TuneRun> begin(bool apply = true, Keeper keeper = Keeper::tools)
	{
		auto run = TuneRun::begin(system, knob, options, std::nullopt, apply, keeper);

		EXPECT_TRUE(run) << (run ? "" : run.error().text());
		return run ? std::move(*run) : nullptr;
	}
	// Learnt from a path of @path_ns, and started.
	std::unique_ptr<TuneRun> started(std::uint32_t path_ns = 20'000, Keeper keeper = Keeper::tools)
	{
		auto run = begin(true, keeper);

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
	// That the next run finds what was rejected, and does not keep it.
	void next_takes_back(std::uint32_t tried, std::uint32_t kept)
	{
		EXPECT_EQ(knob.settings.base_target_ns, tried);
		ASSERT_NE(tried, kept);
		knob.fails = knob.gone = false;
		EXPECT_NE(begin()->mended().find(std::to_string(tried)), std::string::npos);
		EXPECT_EQ(knob.settings.base_target_ns, kept);
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
	EXPECT_EQ(started.error().text(), "max_us is less than the longest path needs, which takes 450 us unloaded: '500' "
					  "(allowed: 563 or more; or a BPF variant's target for each destination)");
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
	EXPECT_EQ(undone->now, before);
	EXPECT_FALSE(undone->others);
	EXPECT_EQ(knob.settings, before);
	EXPECT_FALSE(TuneRun::undo(system, knob)) << "not twice";
}

TEST_F(TuneRunTest, UndoLeavesAloneWhatSomebodyHasSetSince)
{
	const TargetSettings before = knob.settings = {"base_rtt_plus", 25'000, 1'000, 30'000};
	const TargetSettings others = {"static", 90'000, 0, 0};

	(void)!started()->end("settled", false);
	knob.settings = others;
	auto undone = TuneRun::undo(system, knob);
	ASSERT_TRUE(undone);
	EXPECT_TRUE(undone->others);
	EXPECT_EQ(undone->now, others);
	EXPECT_EQ(knob.settings, others);
	EXPECT_FALSE(system.files.contains(state_file));

	// Between two tunings: that is what was there before then.
	knob.settings = before;
	(void)!started()->end("settled", false);
	knob.settings = others;
	(void)!started()->end("settled", false);
	undone = TuneRun::undo(system, knob);
	ASSERT_TRUE(undone);
	EXPECT_EQ(undone->now, others);

	// While it is tuned.
	auto run = started();

	until_trying(*run);
	knob.settings = before;
	EXPECT_FALSE(run->end("stopped", true));
	run.reset();
	undone = TuneRun::undo(system, knob);
	ASSERT_TRUE(undone);
	EXPECT_TRUE(undone->others);
	EXPECT_EQ(knob.settings, before);
}

// swiftd cannot write where root's tools keep theirs, nor do these write where swiftd can.
TEST_F(TuneRunTest, EachRemembersInAFolderOfItsOwn)
{
	(void)!started()->end("settled", false);
	EXPECT_TRUE(system.files.contains(state_file));
	EXPECT_FALSE(system.files.contains(service_file));
	EXPECT_TRUE(TuneRun::undo(system, knob));
	(void)!started(20'000, Keeper::service)->end("settled", false);
	EXPECT_FALSE(system.files.contains(state_file));
	EXPECT_TRUE(system.files.contains(service_file));
}

TEST_F(TuneRunTest, WhoeverTunesNextGoesOnFromTheOthersRecord)
{
	const TargetSettings before = knob.settings = {"base_rtt_plus", 25'000, 1'000, 30'000};

	for (const auto &[first_one, then] : {std::pair(Keeper::service, Keeper::tools), {Keeper::tools, Keeper::service}}) {
		auto run = started(20'000, first_one);

		until_trying(*run);
		const std::uint32_t kept = run->tuner().kept_ns();

		run.reset(); // killed
		run = started(20'000, then);
		EXPECT_FALSE(run->mended().empty());
		EXPECT_EQ(run->tuner().kept_ns(), kept);
		EXPECT_EQ(run->before(), before);
		(void)!run->end("settled", false);
		run.reset(); // it holds the target's lock
		const auto undone = TuneRun::undo(system, knob);

		ASSERT_TRUE(undone);
		EXPECT_EQ(undone->now, before);
		EXPECT_FALSE(system.files.contains(state_file) || system.files.contains(service_file));
	}
}

// Root obeys what swiftd remembers only where a tuning could have set it.
TEST_F(TuneRunTest, AForgedRecordSetsNothing)
{
	(void)!started(20'000, Keeper::service)->end("settled", false);
	const auto good = nlohmann::json::parse(system.files.at(service_file));
	const TargetSettings now = knob.settings;
	const unsigned writes = knob.writes;

	for (const auto &[key, value] : {std::pair<const char *, nlohmann::json>("target_policy", "static\n"),
					 {"target_policy", "|/tmp/x"},
					 {"base_target_ns", 0},
					 {"base_target_ns", 4'000'000'000U},
					 {"hop_target_ns", 1'000'000'000U},
					 {"hop_target_ns", -1}}) {
		auto forged = good;

		forged["before"][key] = value;
		forged["running"] = true;
		system.files[service_file] = forged.dump();
		EXPECT_FALSE(TuneRun::undo(system, knob)) << forged["before"];
		EXPECT_FALSE(TuneRun::begin(system, knob, options, std::nullopt, true)) << forged["before"];
	}
	auto forged = good;

	forged["schema"] = "1";
	system.files[service_file] = forged.dump();
	EXPECT_FALSE(TuneRun::undo(system, knob));
	EXPECT_EQ(knob.settings, now);
	EXPECT_EQ(knob.writes, writes);
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

// And then it cannot be written for as long as this run lives.
TEST_F(TuneRunTest, WhatCannotBeTakenBackAfterAStepIsTakenBackByTheNextRun)
{
	auto run = started();

	until_trying(*run);
	const std::uint32_t tried = knob.settings.base_target_ns;
	const std::uint32_t kept = run->tuner().kept_ns();
	bool failed = false;

	knob.fails = true;
	for (int i = 0; i < 20 && !failed; i++)
		failed = !run->step(flows(20'000));
	ASSERT_TRUE(failed);
	EXPECT_EQ(run->tuner().kept_ns(), kept);
	EXPECT_FALSE(run->end("the target could not be set", false));
	run.reset();
	next_takes_back(tried, kept);
}

TEST_F(TuneRunTest, WhatCannotBeTakenBackInTheEndIsTakenBackByTheNextRun)
{
	for (const bool restore : {false, true}) {
		knob.settings = {"static", 100'000, 0, 0};
		auto run = started();

		until_trying(*run);
		const std::uint32_t tried = knob.settings.base_target_ns;
		const std::uint32_t kept = run->tuner().kept_ns();

		knob.fails = true;
		EXPECT_FALSE(run->end("stopped", restore));
		run.reset();
		next_takes_back(tried, kept);
	}
}

// A rescue goes from one attempt to the next, with what was kept never in between.
TEST_F(TuneRunTest, ARescueThatIsStuckIsTakenBackByTheNextRun)
{
	auto run = started();
	bool failed = false;

	for (int i = 0; i < 400 && run->tuner().state() != TuneState::rescuing; i++)
		ASSERT_TRUE(run->step(flows(20'000, run->tuner().state() == TuneState::holding ? 1e5F : 1e6F)));
	ASSERT_EQ(run->tuner().state(), TuneState::rescuing);
	const std::uint32_t tried = knob.settings.base_target_ns;
	const std::uint32_t kept = run->tuner().kept_ns();

	knob.fails = true;
	for (int i = 0; i < 20 && !failed; i++)
		failed = !run->step(flows(20'000, 1e5F));
	ASSERT_TRUE(failed);
	run.reset();
	next_takes_back(tried, kept);
}

TEST_F(TuneRunTest, AKnobThatCannotBeReadForAWhileIsPutBackByTheNextRun)
{
	for (const bool for_a_moment : {false, true}) {
		auto run = started();

		until_trying(*run);
		const std::uint32_t tried = knob.settings.base_target_ns;
		const std::uint32_t kept = run->tuner().kept_ns();

		knob.gone = !for_a_moment;
		knob.failing_reads = 1;
		EXPECT_FALSE(run->step(flows(20'000)));
		EXPECT_FALSE(run->started());
		run.reset();
		knob.failing_reads = 0;
		next_takes_back(tried, kept);
	}
}

// As it was written before there was "from".
TEST_F(TuneRunTest, AStateOfAnEarlierVersionIsUnderstood)
{
	auto run = started();

	until_trying(*run);
	const std::uint32_t tried = knob.settings.base_target_ns;
	const std::uint32_t kept = run->tuner().kept_ns();
	nlohmann::json state = nlohmann::json::parse(system.files.at(state_file));

	state.erase("from");
	system.files[state_file] = state.dump();
	run.reset();
	next_takes_back(tried, kept);
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
	const std::uint32_t tried = knob.settings.base_target_ns;
	const unsigned writes = knob.writes;

	knob.settings.base_target_ns = 123'456;
	const auto refused = run->step(flows(20'000));

	ASSERT_FALSE(refused);
	for (const std::string &says : {std::string("base_target_ns=123456"),
					"base_target_ns=" + std::to_string(tried), std::string("somebody else")})
		EXPECT_NE(refused.error().text().find(says), std::string::npos) << refused.error().text();
	EXPECT_FALSE(run->started());
	EXPECT_TRUE(run->end("stopped", true)) << "nothing is left to end";
	run.reset();
	EXPECT_TRUE(begin()->mended().empty());
	EXPECT_EQ(knob.settings.base_target_ns, 123'456U);
	EXPECT_EQ(knob.writes, writes);
}

// Each value that tells a target from another is in the sentence.
TEST_F(TuneRunTest, WhatSomebodyElseHasSetIsNamed)
{
	auto run = started();

	knob.settings.rtt_epsilon_ns = 777;
	const auto refused = run->step(flows(20'000));

	ASSERT_FALSE(refused);
	EXPECT_NE(refused.error().text().find("rtt_epsilon_ns=777"), std::string::npos) << refused.error().text();
	EXPECT_NE(refused.error().text().find("rtt_epsilon_ns=0"), std::string::npos) << refused.error().text();
}

TEST_F(TuneRunTest, WhatSomebodyElseHasSetStaysAtTheBeginningAndAtTheEnd)
{
	auto run = begin();

	run->learn(flows(20'000));
	knob.settings.base_target_ns = 123'456;
	EXPECT_FALSE(run->start());
	EXPECT_EQ(knob.settings.base_target_ns, 123'456U);
	run.reset();
	for (const bool restore : {false, true}) {
		run = started();
		until_trying(*run);
		knob.settings.base_target_ns = 234'567;
		const auto last = run->end("stopped", restore);

		ASSERT_FALSE(last);
		EXPECT_NE(last.error().text().find("base_target_ns=234567"), std::string::npos) << last.error().text();
		EXPECT_EQ(knob.settings.base_target_ns, 234'567U);
		run.reset(); // one at a time
	}
}

// After a reboot the cookies of network namespaces begin anew, and nothing is in force of before.
TEST_F(TuneRunTest, AStateOfBeforeTheRebootIsNoState)
{
	system.files["/proc/sys/kernel/random/boot_id"] = "one\n";
	auto run = started();

	until_trying(*run);
	const TargetSettings tried = knob.settings;

	run.reset();
	system.files["/proc/sys/kernel/random/boot_id"] = "two\n";
	EXPECT_FALSE(TuneRun::undo(system, knob));
	EXPECT_TRUE(begin()->mended().empty());
	EXPECT_EQ(knob.settings, tried);
	system.files["/proc/sys/kernel/random/boot_id"] = "one\n";
	EXPECT_FALSE(begin()->mended().empty());
}

// The telemetry sees all network namespaces of a host.
TEST(PathLearner, FlowsOfOtherNamespacesTeachNothing)
{
	TelemetryFlow flow;

	flow.cc = "swift";
	flow.remote.address = *Address::parse("10.0.0.1");
	flow.netns = 7;
	flow.hops = 3;
	flow.counts.histograms[static_cast<std::size_t>(Telemetered::fabric)].add(30'000);
	PathLearner learner;

	learner.add(flow, "swift", std::nullopt, 8);
	EXPECT_TRUE(learner.samples().empty());
	learner.add(flow, "swift", std::nullopt, 7);
	ASSERT_EQ(learner.samples().size(), 1U);
	EXPECT_EQ(learner.samples()[0].hops, 3U);
}

// Copied, both lines are about the flows that were looked at.
TEST(Tune, AProposalIsTriedWhereItWasMade)
{
	TuneVerbOptions o;

	EXPECT_EQ(try_text(o, "turn it"), "to try it turn it\n"
					  "or        swiftctl tune --apply   (looks for the best one from there)\n");
	o.netns = "left";
	EXPECT_EQ(try_text(o, "turn it"), "to try it ip netns exec left turn it\n"
					  "or        swiftctl tune --apply --netns left   (looks for the best one from there)\n");
	o.netns = "/proc/7/ns/net";
	EXPECT_EQ(try_text(o, "turn it").find("to try it nsenter --net=/proc/7/ns/net turn it\n"), 0U);
	o.variant = "bpf_swift"; // all namespaces' alike
	o.dst = "10.0.0.0/8";
	EXPECT_EQ(try_text(o, "turn it"), "to try it turn it\n"
					  "or        swiftctl tune --apply --bpf bpf_swift --dst 10.0.0.0/8 --netns /proc/7/ns/net   "
					  "(looks for the best one from there)\n");
}

/* --- What keeps knobs apart, and who is in the way ---------------------------------------- */

TEST(TargetKnob, ANetworkNamespaceIsKnownByItsCookie)
{
	const std::string here = this_netns();
	std::string there;
	bool entered = false;

	EXPECT_NE(here, "0");
	EXPECT_EQ(here, this_netns());
	EXPECT_NE(this_netns_inode(), 0U);
	std::thread([&] {
		entered = unshare(CLONE_NEWNET) == 0;
		there = this_netns();
	}).join();
	if (!entered)
		GTEST_SKIP() << "cannot make a network namespace";
	EXPECT_NE(here, there);
	FakeSystem system;

	EXPECT_NE(sysctl_knob(system, here)->key(), sysctl_knob(system, there)->key());
}

// Another swiftctl is at work for a while.
class BusySystem final : public FakeBpfSystem {
public:
	using FakeBpfSystem::FakeBpfSystem;

	Result<std::shared_ptr<void>> lock(const std::string &path) override
	{
		asked++;
		if (busy_for == 0)
			return FakeBpfSystem::lock(path);
		busy_for--;
		return Error{"another swiftctl (pid 12) is changing this host", {}, {}, EWOULDBLOCK};
	}

	unsigned busy_for = 0; // attempts
	unsigned asked = 0;
};

TEST(TargetKnob, AVariantThatIsBeingChangedIsTriedAgain)
{
	FakeBpfHost host;
	BusySystem system(host);
	BpfVariants variants(system, system, host);
	BpfLoadRequest load;

	load.name = "bpf_swift";
	ASSERT_FALSE(variants.load(load).error);
	const auto patient = bpf_knob(variants, "bpf_swift", "", 60);
	auto wanted = patient->read();

	ASSERT_TRUE(wanted) << wanted.error().text();
	wanted->base_target_ns += 1000;
	system.busy_for = 3;
	EXPECT_TRUE(patient->write(*wanted));
	EXPECT_EQ(*patient->read(), *wanted);

	// Not for ever; and then it says who it is.
	const auto hasty = bpf_knob(variants, "bpf_swift", "", 0);

	system.busy_for = 1000;
	system.asked = 0;
	const auto refused = hasty->write(*wanted);

	ASSERT_FALSE(refused);
	EXPECT_NE(refused.error().text().find("swiftctl (pid 12)"), std::string::npos);
	EXPECT_EQ(system.asked, 1U);
}

TEST(RealSystem, WhoHoldsALockIsTold)
{
	const std::string text = "1: POSIX  ADVISORY  WRITE 11 00:1a:77 0 EOF\n"
				 "2: FLOCK  ADVISORY  WRITE 12 00:1a:77 0 EOF\n"
				 "2: -> FLOCK  ADVISORY  WRITE 13 00:1a:78 0 EOF\n3: bad\n";

	EXPECT_EQ(flock_holder(text, 0, 0x1a, 77), 12U);
	EXPECT_FALSE(flock_holder(text, 0, 0x1b, 77));
	EXPECT_FALSE(flock_holder(text, 0, 0x1a, 78));

	char dir[] = "/tmp/swift-lock-XXXXXX";

	ASSERT_TRUE(mkdtemp(dir));
	const auto system = real_system(dir);
	const auto held = system->lock("/run/lock");
	const auto second = system->lock("/run/lock");

	ASSERT_TRUE(held);
	ASSERT_FALSE(second);
	EXPECT_EQ(second.error().code, EWOULDBLOCK);
	EXPECT_NE(second.error().text().find("/run/lock"), std::string::npos) << second.error().text();
	EXPECT_NE(second.error().text().find("another "), std::string::npos) << second.error().text();
	std::filesystem::remove_all(dir);
}

// A confined program may put there what it likes.
TEST(RealSystem, ARecordIsAPlainFile)
{
	char dir[] = "/tmp/swift-record-XXXXXX";

	ASSERT_TRUE(mkdtemp(dir));
	const auto system = real_system(dir);
	const auto path = [&](const char *name) { return std::string(dir) + name; };

	ASSERT_TRUE(system->replace_file("/plain", "text", 0600));
	ASSERT_TRUE(system->read_record("/plain"));
	EXPECT_EQ(*system->read_record("/plain"), "text");
	ASSERT_EQ(symlink("plain", path("/link").c_str()), 0);
	EXPECT_TRUE(system->read_file("/link"));
	EXPECT_FALSE(system->read_record("/link"));
	ASSERT_EQ(mkfifo(path("/pipe").c_str(), 0600), 0);
	EXPECT_FALSE(system->read_record("/pipe")); // nor is it waited for
	ASSERT_TRUE(system->replace_file("/large", std::string(2 << 20, ' '), 0600));
	EXPECT_FALSE(system->read_record("/large"));
	std::filesystem::remove_all(dir);
}

// It tunes for as long as it runs: "try again when it is done" would be never.
TEST(RealSystem, ASwiftdThatTunesHasToBeToldToStop)
{
	char name[16] = {}, dir[] = "/tmp/swift-lock-XXXXXX";

	ASSERT_TRUE(mkdtemp(dir));
	ASSERT_EQ(prctl(PR_GET_NAME, name), 0);
	const auto system = real_system(dir);
	FakeKnob knob;
	const auto run = TuneRun::begin(*system, knob, small_steps(), std::nullopt, true);

	ASSERT_TRUE(run) << run.error().text();
	const auto by_other = TuneRun::undo(*system, knob);

	prctl(PR_SET_NAME, "swiftd");
	const auto by_swiftd = TuneRun::undo(*system, knob);

	prctl(PR_SET_NAME, name);
	std::filesystem::remove_all(dir);
	ASSERT_FALSE(by_other);
	ASSERT_FALSE(by_swiftd);
	EXPECT_NE(by_other.error().text().find("; try again when it is done"), std::string::npos);
	if (by_swiftd.error().text().find("another swiftd (pid ") == std::string::npos)
		GTEST_SKIP() << "this file system's locks name no process: " << by_swiftd.error().text();
	EXPECT_NE(by_swiftd.error().text().find("; switch [tune] and [policy] off in its configuration, or stop it"), std::string::npos)
		<< by_swiftd.error().text();
	EXPECT_EQ(by_swiftd.error().text().find("try again"), std::string::npos) << by_swiftd.error().text();
}

} // namespace
