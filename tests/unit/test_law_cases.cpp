/* SPDX-License-Identifier: GPL-2.0 */
/*
 * One case for each sentence of the paper that the law implements, and for each
 * deviation D1..D9 of kmod/core/swift.h, with the numbers worked out by hand.
 * Named function, then case.
 */
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <queue>
#include <vector>

#include "draw.hpp"
#include "flow.hpp"

namespace {

constexpr double kCwndError = 2e-4; /* packets: a few units of 2^-16, on small windows */
constexpr auto kStatic = SWIFT_TARGET_STATIC;

/* A static target of 50 us and nothing added to it. */
swift_tunables plain(std::initializer_list<std::pair<std::string_view, u32>> changes = {})
{
	swift_tunables t = tunables({{"target_policy", kStatic}, {"fs_range_ns", 0},
				     {"hop_target_ns", 0}});

	for (auto [name, value] : changes)
		EXPECT_TRUE(set_tunable(t, name, value)) << name;
	return t;
}

/* --- Increase: Algorithm 1, lines 7 to 11; D2, D3 -------------------------------------- */

TEST(increase, is_ai_over_cwnd_per_packet_above_one_packet)
{
	struct {
		u32 ai_milli;
		double cwnd;
		u32 acked;
		double want;
	} cases[] = {
		{1000, 10, 1, 10.1}, {1000, 10, 5, 10.5}, {1000, 1, 1, 2},
		{500, 10, 2, 10.1},  {2000, 4, 1, 4.5},	  {1000, 1000, 10, 1000.01},
	};

	for (auto &c : cases) {
		Flow f(plain({{"ai_milli", c.ai_milli}}));

		f.windows(c.cwnd, c.cwnd).ack({.rtt_ns = us(40), .acked_pkts = c.acked});
		EXPECT_NEAR(f.fcwnd(), c.want, kCwndError) << c.cwnd;
		EXPECT_NEAR(f.ecwnd(), c.want, kCwndError) << c.cwnd;
		EXPECT_EQ(f.v.fabric_action, SWIFT_INCREASE);
		EXPECT_EQ(f.v.endpoint_action, SWIFT_INCREASE);
	}
}

TEST(increase, is_ai_per_packet_below_one_packet)
{
	Flow f(plain({{"ai_milli", 10}}));

	f.windows(0.5, 0.25).ack({.acked_pkts = 1});
	EXPECT_NEAR(f.fcwnd(), 0.51, kCwndError);
	EXPECT_NEAR(f.ecwnd(), 0.26, kCwndError);
}

/* Half below one packet, and from there by the root of the window; with a learnt base alone. */
TEST(increase, D15_is_gentle_below_four_packets)
{
	struct {
		double cwnd;
		u32 acked;
		double want;
	} cases[] = {
		{4, 1, 4.25}, {3.9999, 1, 4.2499}, {2.25, 1, 2.5833}, {1, 1, 1.5}, {0.5, 1, 1}, {0.01, 1, 0.51},
		/* D3 */
		{2.25, 2, 2.9167}, {2.25, 3, 3}, {2.25, SWIFT_U32_MAX, 3}, {0.5, 100, 1},
	};

	for (auto &c : cases) {
		Flow f;

		f.ack({.cwnd_limited = false});
		/* The fabric's is D16's. */
		f.windows(std::max(c.cwnd, 1.), c.cwnd).ack({.acked_pkts = c.acked});
		EXPECT_NEAR(f.ecwnd(), c.want, 1e-4) << c.cwnd << " packets, " << c.acked;
		EXPECT_NEAR(to_q16(c.cwnd) + swift_increase_q16(&f.p, to_q16(c.cwnd), c.acked * u64(f.p.ai_q24), false),
			    to_q16(c.want), 8);
	}
	for (u32 policy : {SWIFT_TARGET_STATIC, SWIFT_TARGET_BASE_RTT}) {
		Flow f(tunables({{"target_policy", policy}}));

		f.windows(1, 1).ack({.acked_pkts = 1});
		EXPECT_NEAR(f.fcwnd(), 2, 1e-4);
	}

	/* A flow that begins doubles (D12). */
	Flow f;

	f.ack({.cwnd_limited = false});
	f.windows(2, 2);
	f.s.starting = 1;
	f.ack({.acked_pkts = 2});
	EXPECT_EQ(f.fcwnd(), 4);
}

TEST(increase, over_a_round_trip_adds_up_to_ai)
{
	for (double cwnd : {2.0, 10.0, 100.0, 1000.0}) {
		Flow f(plain());

		f.windows(cwnd, cwnd);
		for (int i = 0; i < int(cwnd); i++)
			f.ack({.acked_pkts = 1});
		/* The window grows on the way, so the steps shrink: from 1/w to 1/(w + 1). */
		EXPECT_LT(f.fcwnd(), cwnd + 1 + kCwndError) << cwnd;
		EXPECT_GT(f.fcwnd(), cwnd + cwnd / (cwnd + 1) - cwnd / 65536) << cwnd;
	}
}

TEST(increase, is_never_rounded_to_nothing)
{
	Flow f(plain({{"ai_milli", 1}, {"max_cwnd", 65535}}));

	f.windows(60000, 60000).ack({.acked_pkts = 1});
	EXPECT_EQ(f.s.fabric.cwnd_q16, to_q16(60000) + 1);
}

TEST(increase, stops_at_max_cwnd)
{
	Flow f(plain({{"max_cwnd", 10}}));

	f.windows(9.95, 10).ack({.acked_pkts = 5});
	EXPECT_EQ(f.fcwnd(), 10);
	EXPECT_EQ(f.ecwnd(), 10);
}

TEST(increase, D2_needs_a_flow_that_its_window_holds_back)
{
	Flow f(plain());

	f.windows(10, 10).ack({.acked_pkts = 5, .cwnd_limited = false});
	EXPECT_EQ(f.fcwnd(), 10);
	EXPECT_EQ(f.ecwnd(), 10);
	EXPECT_EQ(f.v.fabric_action, SWIFT_HOLD);

	/* It still makes room when there is congestion. */
	f.ack({.rtt_ns = us(100), .cwnd_limited = false});
	EXPECT_LT(f.fcwnd(), 10);
}

TEST(increase, without_newly_acked_packets_holds)
{
	Flow f(plain());

	f.windows(10, 10).ack({.acked_pkts = 0});
	EXPECT_EQ(f.fcwnd(), 10);
	EXPECT_EQ(f.v.fabric_action, SWIFT_HOLD);
}

TEST(increase, D3_one_ack_adds_ai_at_most)
{
	struct {
		double cwnd;
		u32 acked;
		double want;
	} cases[] = {
		{10, 10, 11}, {10, 11, 11}, {10, 1000, 11}, {10, SWIFT_U32_MAX, 11},
		{0.5, 1, 1.5}, {0.5, 2, 1.5},
	};

	for (auto &c : cases) {
		Flow f(plain());

		f.windows(c.cwnd, c.cwnd).ack({.acked_pkts = c.acked});
		EXPECT_NEAR(f.fcwnd(), c.want, kCwndError) << c.cwnd << " " << c.acked;
	}
}

/* --- Starting: D12 -------------------------------------------------------------------------- */

TEST(D12_start, doubles_the_window_each_rtt)
{
	Flow f(plain({{"init_cwnd", 2}}));

	for (u32 window : {2, 4, 8, 16, 32}) {
		EXPECT_EQ(f.fcwnd(), window);
		EXPECT_EQ(f.ecwnd(), window);
		for (u32 i = 0; i < window; i++)
			f.ack({});
	}
}

TEST(D12_start, one_ack_doubles_at_most)
{
	Flow f(plain({{"init_cwnd", 2}}));

	f.ack({.acked_pkts = 1000});
	EXPECT_EQ(f.fcwnd(), 4);
}

TEST(D12_start, ends_when_a_delay_reaches_its_target)
{
	struct {
		Flow::Ack ack;
		const char *what;
	} cases[] = {
		{{.rtt_ns = us(50)}, "the fabric's"},
		{{.rtt_ns = us(240), .remote_ns = us(200)}, "the host's"},
	};

	for (auto &c : cases) {
		Flow f(plain({{"init_cwnd", 8}, {"endpoint_ewma_milli", 1000}}));

		f.ack(c.ack);
		EXPECT_FALSE(f.s.starting) << c.what;
		f.windows(8, 8).ack({});
		EXPECT_NEAR(f.fcwnd(), 8 + 1.0 / 8, kCwndError) << c.what;
	}
}

TEST(D12_start, ends_with_a_loss)
{
	Flow lost(plain()), timed_out(plain());

	lost.loss(us(40));
	EXPECT_FALSE(lost.s.starting);
	timed_out.timeout(us(40));
	EXPECT_FALSE(timed_out.s.starting);
}

TEST(D12_start, comes_again_after_silence)
{
	Flow f(plain({{"init_cwnd", 2}}));

	f.windows(16, 16);
	EXPECT_TRUE(swift_on_idle_restart(&f.s, &f.p, 2));
	EXPECT_TRUE(f.s.starting);

	f.windows(1, 1); /* congested: below the initial window nothing begins */
	EXPECT_FALSE(swift_on_idle_restart(&f.s, &f.p, 2));
	EXPECT_FALSE(f.s.starting);
}

TEST(D12_start, of_v0_is_the_same)
{
	Flow f(plain({{"init_cwnd", 2}, {"split", 0}}));

	f.ack({}).ack({});
	EXPECT_EQ(f.fcwnd(), 4);
	f.ack({.rtt_ns = us(50)});
	EXPECT_FALSE(f.s.starting);
}

/* --- Decrease: lines 12 to 14, 26 to 28; D1 ----------------------------------------------- */

TEST(decrease, follows_how_far_the_delay_is_from_the_target)
{
	struct {
		u32 beta_milli, max_mdf_milli;
		double delay_us, want; /* of a window of 10, target 50 us */
	} cases[] = {
		{800, 500, 50, 10},	    {800, 500, 62.5, 10 * (1 - 0.8 * 0.2)},
		{800, 500, 100, 6},	    {800, 500, 133, 10 * (1 - 0.8 * 83 / 133)},
		{800, 500, 200, 5},	    {800, 500, 4e6, 5}, /* max_mdf */
		{400, 500, 100, 8},	    {1000, 1000, 100, 5},
		{1000, 1000, 1000, 0.5},    {800, 100, 100, 9},
	};

	for (auto &c : cases) {
		Flow f(plain({{"beta_milli", c.beta_milli}, {"max_mdf_milli", c.max_mdf_milli}}));

		f.s.fabric.last_decrease_ns = u32(f.now_ns) - us(c.delay_us); /* an RTT ago: of 32 bits */
		f.windows(10, 10).ack({.rtt_ns = us(c.delay_us)});
		EXPECT_NEAR(f.fcwnd(), c.want, kCwndError) << c.delay_us;
		EXPECT_EQ(f.v.fabric_action, SWIFT_DECREASE);
	}
}

TEST(decrease, happens_once_an_rtt)
{
	Flow f(plain());

	f.windows(16, 16).ack({.rtt_ns = us(100)});
	EXPECT_NEAR(f.fcwnd(), 16 * 0.6, kCwndError);

	f.wait(us(100) - 1).ack({.rtt_ns = us(100)});
	EXPECT_NEAR(f.fcwnd(), 16 * 0.6, kCwndError);
	EXPECT_EQ(f.v.fabric_action, SWIFT_HOLD);

	f.wait(1).ack({.rtt_ns = us(100)});
	EXPECT_NEAR(f.fcwnd(), 16 * 0.6 * 0.6, kCwndError);
	EXPECT_EQ(f.v.fabric_action, SWIFT_DECREASE);
}

TEST(decrease, of_one_window_does_not_wait_for_the_other)
{
	Flow f(plain({{"endpoint_ewma_milli", 1000}}));

	f.windows(16, 16).ack({.rtt_ns = us(100)}); /* fabric */
	f.wait(us(10)).ack({.rtt_ns = us(400), .remote_ns = us(400)}); /* endpoint */
	EXPECT_EQ(f.v.endpoint_action, SWIFT_DECREASE);
	EXPECT_NEAR(f.ecwnd(), (16 + 1.0 / 16) * 0.6, kCwndError);
}

TEST(decrease, D1_acks_that_may_not_decrease_do_not_postpone_it)
{
	Flow f(plain());

	f.windows(16, 16).ack({.rtt_ns = us(100)});
	for (int i = 0; i < 9; i++)
		f.wait(us(10)).ack({.rtt_ns = us(100)});
	EXPECT_NEAR(f.fcwnd(), 16 * 0.6, kCwndError);
	f.wait(us(10)).ack({.rtt_ns = us(100)});
	EXPECT_NEAR(f.fcwnd(), 16 * 0.6 * 0.6, kCwndError);
}

TEST(decrease, D1_by_nothing_is_not_noted)
{
	Flow f(plain());

	f.windows(16, 16).ack({.rtt_ns = us(50)}); /* delay == target */
	EXPECT_EQ(f.v.fabric_action, SWIFT_DECREASE);
	EXPECT_EQ(f.fcwnd(), 16);
	EXPECT_EQ(f.s.fabric.last_decrease_ns, 0U);

	f.wait(1).ack({.rtt_ns = us(100)});
	EXPECT_NEAR(f.fcwnd(), 16 * 0.6, kCwndError);
}

/* The clock's low half just began anew: that says nothing of a window that was never cut. */
TEST(decrease, the_first_one_waits_for_nothing)
{
	for (u32 past_ns : {0U, 1U, us(10)}) {
		Flow f(plain());

		f.now_ns = (9ULL << 32) + past_ns;
		f.windows(16, 16).ack({.rtt_ns = us(100)});
		EXPECT_NEAR(f.fcwnd(), 16 * 0.6, kCwndError) << past_ns;
		EXPECT_NE(f.s.fabric.last_decrease_ns, 0U) << past_ns;
		f.wait(1).ack({.rtt_ns = us(100)}); /* and the second one does */
		EXPECT_NEAR(f.fcwnd(), 16 * 0.6, kCwndError) << past_ns;
	}
}

TEST(decrease, at_the_minimum_is_not_noted)
{
	Flow f(plain());

	f.windows(0.001, 16).ack({.rtt_ns = us(100)});
	EXPECT_EQ(f.s.fabric.cwnd_q16, f.p.min_cwnd_q16);
	EXPECT_EQ(f.s.fabric.last_decrease_ns, 0U);
}

TEST(decrease, stops_at_min_cwnd)
{
	Flow f(plain({{"min_cwnd_micro", 100000}}));

	f.windows(0.15, 0.15).ack({.rtt_ns = us(1000)});
	EXPECT_EQ(f.s.fabric.cwnd_q16, f.p.min_cwnd_q16);
	EXPECT_NEAR(f.fcwnd(), 0.1, kCwndError);
}

TEST(decrease, survives_a_clock_that_wraps)
{
	Flow f(plain());

	f.now_ns = ~0ULL - us(30);
	f.windows(16, 16).ack({.rtt_ns = us(100)});
	f.wait(us(99)).ack({.rtt_ns = us(100)});
	EXPECT_NEAR(f.fcwnd(), 16 * 0.6, kCwndError);
	f.wait(us(1)).ack({.rtt_ns = us(100)});
	EXPECT_NEAR(f.fcwnd(), 16 * 0.6 * 0.6, kCwndError);
}

/* --- Splitting the RTT: 3.1, 3.3; D4, D5 ---------------------------------------------------- */

TEST(split_rtt, endpoint_is_remote_plus_local_and_fabric_the_rest)
{
	Flow f(plain());

	f.ack({.rtt_ns = us(100), .remote_ns = us(30), .local_ns = us(10)});
	EXPECT_EQ(f.v.endpoint_ns, us(40));
	EXPECT_EQ(f.v.fabric_ns, us(60));
	EXPECT_FALSE(f.v.clamped);
}

TEST(split_rtt, a_slow_host_costs_the_endpoint_window_alone)
{
	Flow f(plain());

	f.windows(16, 16).ack({.rtt_ns = us(440), .remote_ns = us(390), .local_ns = us(10)});
	EXPECT_EQ(f.v.fabric_action, SWIFT_INCREASE); /* 40 us of 50 */
	EXPECT_EQ(f.v.endpoint_action, SWIFT_DECREASE); /* 400 us of 200 */
	EXPECT_NEAR(f.fcwnd(), 16 + 1.0 / 16, kCwndError);
	EXPECT_NEAR(f.ecwnd(), 16 * 0.6, kCwndError);
	EXPECT_EQ(f.cwnd(), f.ecwnd());
}

TEST(split_rtt, a_full_fabric_costs_the_fabric_window_alone)
{
	Flow f(plain());

	f.windows(16, 16).ack({.rtt_ns = us(110), .remote_ns = us(10)});
	EXPECT_NEAR(f.fcwnd(), 16 * 0.6, kCwndError);
	EXPECT_NEAR(f.ecwnd(), 16 + 1.0 / 16, kCwndError);
	EXPECT_EQ(f.cwnd(), f.fcwnd());
}

TEST(split_rtt, a_peer_that_claims_more_than_the_rtt_slows_itself)
{
	for (u32 remote_ns : {us(60), us(1e6), SWIFT_U32_MAX}) {
		Flow f(plain());

		f.ack({.rtt_ns = us(50), .remote_ns = remote_ns, .local_ns = us(5)});
		EXPECT_TRUE(f.v.clamped);
		EXPECT_EQ(f.v.endpoint_ns, us(50));
		EXPECT_EQ(f.v.fabric_ns, 0U);
	}

	Flow f(plain());

	f.windows(16, 16).ack({.rtt_ns = us(400), .remote_ns = SWIFT_U32_MAX});
	EXPECT_NEAR(f.ecwnd(), 16 * 0.6, kCwndError);
}

TEST(split_rtt, claims_that_just_fit_are_not_clamped)
{
	Flow f(plain());

	f.ack({.rtt_ns = us(50), .remote_ns = us(45), .local_ns = us(5)});
	EXPECT_FALSE(f.v.clamped);
	EXPECT_EQ(f.v.fabric_ns, 0U);
}

TEST(split_rtt, without_an_option_the_remote_part_counts_as_fabric)
{
	Flow f(plain());

	f.ack({.rtt_ns = us(100), .remote_ns = us(30), .local_ns = us(10), .echo_expected = false,
	       .has_echo = false});
	EXPECT_EQ(f.v.endpoint_ns, us(10));
	EXPECT_EQ(f.v.fabric_ns, us(90));
	EXPECT_EQ(f.s.endpoint_ns, us(10));
}

TEST(refuse_echo, is_of_what_exceeds_the_rtt_by_more_than_an_eighth_and_2_us)
{
	struct {
		u32 rtt_ns, remote_ns;
		bool refused;
	} cases[] = {
		{us(80), us(92), false},
		{us(80), us(92) + 1, true},
		{us(80), UINT32_MAX, true},
		{1, 2001, false},
		{1, 2002, true},
		{0, UINT32_MAX, false}, /* no RTT to hold it against */
		/* Nine eighths of it are more than 2^32. */
		{3900000000, 1000000000, false},
		{UINT32_MAX, UINT32_MAX, false},
	};

	for (auto &c : cases) {
		swift_sample in = {};

		in.rtt_ns = c.rtt_ns;
		in.remote_ns = c.remote_ns;
		in.echo_expected = 1;
		in.has_echo = 1;
		EXPECT_EQ(swift_refuse_echo(&in), c.refused) << c.rtt_ns << ' ' << c.remote_ns;
		EXPECT_EQ(in.has_echo, !c.refused);
		EXPECT_EQ(in.echo_expected, !c.refused); /* the last one's delay does not count, either */
		EXPECT_EQ(in.remote_ns, c.refused ? 0 : c.remote_ns);
	}
}

TEST(refuse_echo, leaves_an_ack_without_one_alone)
{
	swift_sample in = {};

	in.rtt_ns = us(80);
	in.remote_ns = us(1000);
	in.echo_expected = 1;
	EXPECT_FALSE(swift_refuse_echo(&in));
	EXPECT_TRUE(in.echo_expected);
}

TEST(split_rtt, D5_the_filtered_delay_stands_in_for_a_missing_echo)
{
	Flow f(plain());

	f.ack({.rtt_ns = us(100), .remote_ns = us(60)});
	f.ack({.rtt_ns = us(100), .local_ns = us(5), .has_echo = false});
	EXPECT_EQ(f.v.endpoint_ns, us(60));
	EXPECT_EQ(f.v.fabric_ns, us(40));
	EXPECT_EQ(f.s.endpoint_ns, us(60)); /* not fed */

	f.ack({.rtt_ns = us(100), .local_ns = us(70), .has_echo = false});
	EXPECT_EQ(f.v.endpoint_ns, us(70)); /* what is known to be larger is believed */
	EXPECT_EQ(f.s.endpoint_ns, us(60));
}

TEST(on_ack, D4_without_an_rtt_changes_nothing_but_the_timeout_counter)
{
	Flow f;

	f.ack({.rtt_ns = us(40), .remote_ns = us(5)});
	f.timeout(us(40));

	swift_state before = f.s;

	f.wait(seconds(1)).ack({.rtt_ns = 0, .remote_ns = us(500), .acked_pkts = 7});
	before.retx_cnt = 0;
	EXPECT_EQ(std::memcmp(&before, &f.s, sizeof(before)), 0);
	EXPECT_EQ(f.v.fabric_action, SWIFT_NO_SAMPLE);
	EXPECT_EQ(f.v.endpoint_action, SWIFT_NO_SAMPLE);
}

/* --- EWMA: 3.3 ----------------------------------------------------------------------------- */

TEST(endpoint_feed, starts_at_the_first_delay_and_moves_by_its_weight)
{
	struct {
		u32 ewma_milli;
		double second_us, want_us;
	} cases[] = {
		{125, 180, 110}, {125, 20, 90}, {1000, 180, 180}, {1000, 20, 20}, {500, 180, 140},
	};

	for (auto &c : cases) {
		Flow f(plain({{"endpoint_ewma_milli", c.ewma_milli}}));

		f.windows(16, 16).ack({.rtt_ns = us(200), .remote_ns = us(100)});
		EXPECT_EQ(f.s.endpoint_ns, us(100));
		f.windows(16, 16).ack({.rtt_ns = us(200), .remote_ns = us(c.second_us)});
		EXPECT_NEAR(f.s.endpoint_ns, us(c.want_us), 1) << c.ewma_milli;
		EXPECT_EQ(f.v.endpoint_ns, us(c.second_us)); /* the verdict's is not filtered */
	}
}

TEST(endpoint_feed, D9_weighs_at_least_a_packet_of_the_window)
{
	struct {
		double cwnd, want_us;
	} cases[] = {
		{0.01, 20}, {1, 20}, {1.5, 46.667}, {2, 60}, {4, 80}, {8, 90}, {100, 90},
	};

	for (auto &c : cases) {
		Flow f(plain());

		f.windows(100, c.cwnd).ack({.rtt_ns = us(200), .remote_ns = us(100)});
		f.windows(100, c.cwnd).ack({.rtt_ns = us(200), .remote_ns = us(20)});
		EXPECT_NEAR(f.s.endpoint_ns, us(c.want_us), 2) << c.cwnd;

		Flow g(plain()); /* whichever of the two is in charge */

		g.windows(c.cwnd, 100).ack({.rtt_ns = us(200), .remote_ns = us(100)});
		g.windows(c.cwnd, 100).ack({.rtt_ns = us(200), .remote_ns = us(20)});
		EXPECT_EQ(g.s.endpoint_ns, f.s.endpoint_ns) << c.cwnd;
	}
}

TEST(endpoint_feed, a_first_delay_of_nothing_counts_as_fed)
{
	Flow f(plain());

	f.windows(16, 16).ack({.rtt_ns = us(200), .remote_ns = 0});
	f.windows(16, 16).ack({.rtt_ns = us(200), .remote_ns = us(80)});
	EXPECT_NEAR(f.s.endpoint_ns, us(10), 1);
}

/* Of 3.5, by the host's own window, and only where the default policy leads and it decides. */
TEST(host_target, D19_scales_with_the_hosts_window)
{
	auto target_ns = [](Flow &f, double ecwnd, double delay_us) {
		f.windows(8, ecwnd);
		f.s.has_endpoint = 0;
		f.ack({.rtt_ns = us(1000), .remote_ns = us(delay_us)});
		return f.v.endpoint_target_ns;
	};
	Flow f(tunables()), paper(tunables({{"target_policy", SWIFT_TARGET_STATIC}}));

	for (double ecwnd : {0.01, 0.25, 1.0, 16.0, 300.0}) {
		EXPECT_EQ(target_ns(f, ecwnd, 200), us(200) + swift_flow_scaling_ns(&f.p, to_q16(ecwnd))) << ecwnd;
		EXPECT_EQ(target_ns(f, ecwnd, 199), us(200)) << ecwnd;
		EXPECT_EQ(target_ns(paper, ecwnd, 200), us(200)) << ecwnd;
	}
	EXPECT_EQ(target_ns(f, 0.01, 200), us(650));
	EXPECT_EQ(target_ns(f, 300, 200), us(200));
	/* 300 us are too long for 16 packets, and not for an eighth of one. */
	target_ns(f, 16, 300);
	EXPECT_EQ(f.v.endpoint_action, SWIFT_DECREASE);
	target_ns(f, 0.125, 300);
	EXPECT_EQ(f.v.endpoint_action, SWIFT_INCREASE);
	target_ns(paper, 0.125, 300);
	EXPECT_EQ(paper.v.endpoint_action, SWIFT_DECREASE);
}

/* Flows whose windows differ meet: at one delay of the host the larger one shrinks and the smaller one grows. */
TEST(host_target, D19_windows_of_flows_into_a_slow_host_meet)
{
	Flow large(tunables()), small(tunables());
	double larger = 0, smaller = 0;

	large.windows(64, 0.8);
	small.windows(64, 0.1);
	for (int i = 0; i < 4000; i++) {
		u32 delay_ns = us(500 * (large.ecwnd() + small.ecwnd())); /* a host that takes 500 us a packet */

		for (Flow *f : {&large, &small})
			f->wait(us(1000)).ack({.rtt_ns = delay_ns + us(20), .remote_ns = delay_ns});
		if (i >= 2000) {
			larger += large.ecwnd();
			smaller += small.ecwnd();
		}
	}
	EXPECT_NEAR(larger / smaller, 1, 0.1);
}

/* A delay that stays however little the host holds is its own. */
TEST(host_target, D20_what_a_host_takes_by_itself_is_added)
{
	auto own_us = [](const swift_tunables &t, double ecwnd, double delay_us, double before_us = 0, bool limited = true) {
		Flow f(t);

		f.windows(8, ecwnd);
		f.s.own_64ns = u16(us(before_us) / 64);
		f.wait(us(5000)).ack({.rtt_ns = us(delay_us) + us(20), .remote_ns = us(delay_us), .cwnd_limited = limited});
		return f.s.own_64ns * 64 / 1000.;
	};

	EXPECT_NEAR(own_us(tunables(), 0.0038, 704), 704, 0.07);
	EXPECT_NEAR(own_us(tunables(), 0.001, 704), 704, 0.07);
	EXPECT_EQ(own_us(tunables(), 0.007, 704), 0); /* 0.0066 are more than 1/256 */
	EXPECT_EQ(own_us(tunables(), 0.001, 640), 0); /* 200 us, and 450 of flow scaling */
	EXPECT_EQ(own_us(tunables(), 0.001, 640, 0, false), 0); /* nor where the window stays */
	EXPECT_NEAR(own_us(tunables(), 0.001, 1000, 704), 704, 0.07); /* below 1354 us */
	EXPECT_NEAR(own_us(tunables(), 0.001, 1000, 320), 1000, 0.07);
	EXPECT_NEAR(own_us(tunables(), 8, 300, 704), 300, 0.07); /* a shorter one is believed at once */
	EXPECT_NEAR(own_us(tunables(), 8, 1000, 704), 704, 0.07); /* nor is a longer one of a large window */
	EXPECT_NEAR(own_us(tunables(), 0.001, 50000), 1048.576, 0.07);
	EXPECT_EQ(own_us(tunables({{"target_policy", SWIFT_TARGET_STATIC}}), 0.001, 704), 0);

	/* An ACK without an echo tells nothing of the host. */
	Flow f(tunables());

	f.windows(8, 0.001);
	f.s.has_endpoint = 1;
	f.s.endpoint_ns = us(704);
	f.ack({.rtt_ns = us(1000), .has_echo = false});
	EXPECT_EQ(f.s.own_64ns, 0);
}

/* Hosts that take 700 us for any packet, one or eight: nothing that a smaller window could help. */
TEST(host_target, D20_a_flow_comes_back_from_a_host_that_is_slow_by_itself)
{
	Flow f(tunables());

	f.windows(8, 8);
	for (int i = 0; i < 300; i++)
		f.wait(us(30000)).ack({.rtt_ns = us(720), .remote_ns = us(700)});
	EXPECT_GT(f.ecwnd(), 8);
	EXPECT_NEAR(f.s.own_64ns * 64, us(700), 64);
}

TEST(endpoint_feed, the_endpoint_window_reacts_to_the_filtered_delay)
{
	Flow f(plain());

	f.windows(16, 16).ack({.rtt_ns = us(900), .remote_ns = us(100)});
	f.windows(16, 16).ack({.rtt_ns = us(900), .remote_ns = us(820)}); /* EWMA: 190 us */
	EXPECT_EQ(f.v.endpoint_action, SWIFT_INCREASE);
	f.windows(16, 16).ack({.rtt_ns = us(900), .remote_ns = us(820)}); /* 268.75 us */
	EXPECT_EQ(f.v.endpoint_action, SWIFT_DECREASE);
	EXPECT_NEAR(f.ecwnd(), 16 * (1 - 0.8 * 68.75 / 268.75), kCwndError);
}

/* --- Ceiling: 3.3 footnote 3; D6 -------------------------------------------------------------- */

TEST(ceiling, D6_the_other_window_is_at_most_32_times_the_smaller)
{
	Flow f(plain());

	f.windows(100, 2).ack({.rtt_ns = us(400), .remote_ns = us(400)});
	EXPECT_NEAR(f.ecwnd(), 1.2, kCwndError);
	EXPECT_EQ(f.s.fabric.cwnd_q16, 32 * f.s.endpoint.cwnd_q16);

	Flow g(plain());

	g.windows(2, 100).ack({.rtt_ns = us(100)});
	EXPECT_EQ(g.s.endpoint.cwnd_q16, 32 * g.s.fabric.cwnd_q16);
}

TEST(ceiling, D6_leaves_what_is_within_it)
{
	Flow f(plain());

	f.windows(64, 2.5).ack({.rtt_ns = us(40)});
	EXPECT_NEAR(f.fcwnd(), 64 + 1.0 / 64, kCwndError);
}

TEST(ceiling, D6_is_back_in_charge_after_five_full_decreases)
{
	Flow f(plain());

	f.windows(320, 10);
	for (int i = 0; i < 5; i++)
		f.wait(us(4000)).ack({.rtt_ns = us(4000)});
	EXPECT_NEAR(f.fcwnd(), 10, kCwndError);
	EXPECT_LT(f.fcwnd(), f.ecwnd());
}

/* --- Target: 3.5; D7 ------------------------------------------------------------------------------ */

TEST(flow_scaling, has_the_shape_of_figure_5)
{
	struct {
		double fs_min, fs_max, range_us;
	} curves[] = {{0.1, 100, 40}, {0.001, 256, 100}, {1, 2, 1000}, {0.5, 50, 7}};

	for (auto &c : curves) {
		swift_tunables t = tunables({{"fs_range_ns", us(c.range_us)},
					     {"fs_min_cwnd_milli", u32(c.fs_min * 1000 + .5)},
					     {"fs_max_cwnd_milli", u32(c.fs_max * 1000 + .5)}});
		Flow f(t);
		u32 last_ns = SWIFT_U32_MAX;

		EXPECT_EQ(swift_flow_scaling_ns(&f.p, 1), us(c.range_us));
		EXPECT_EQ(swift_flow_scaling_ns(&f.p, to_q16(c.fs_min)), us(c.range_us));
		EXPECT_EQ(swift_flow_scaling_ns(&f.p, to_q16(c.fs_max)), 0U);
		EXPECT_EQ(swift_flow_scaling_ns(&f.p, SWIFT_U32_MAX), 0U);
		for (double w = c.fs_min / 2; w < c.fs_max * 2; w *= 1.001) {
			u32 add_ns = swift_flow_scaling_ns(&f.p, to_q16(w));

			ASSERT_LE(add_ns, last_ns) << w;
			last_ns = add_ns;
		}
	}
}

TEST(flow_scaling, is_linear_in_one_over_the_root_of_the_window)
{
	/* alpha = 100 / (1/sqrt(1) - 1/sqrt(100)) = 111.11 us, beta = -11.11 us */
	Flow f(tunables({{"fs_range_ns", us(100)}, {"fs_min_cwnd_milli", 1000},
			 {"fs_max_cwnd_milli", 100000}}));
	struct {
		double cwnd, want_us;
	} cases[] = {{4, 44.444}, {16, 16.667}, {25, 11.111}, {64, 2.7778}, {2, 67.456}};

	for (auto &c : cases)
		EXPECT_NEAR(swift_flow_scaling_ns(&f.p, to_q16(c.cwnd)), us(c.want_us), 3) << c.cwnd;
}

TEST(flow_scaling, is_off_when_its_range_is_nothing)
{
	Flow f(tunables({{"fs_range_ns", 0}}));

	for (double w : {0.0005, 0.001, 0.002, 1.0, 100.0, 300.0})
		EXPECT_EQ(swift_flow_scaling_ns(&f.p, to_q16(w)), 0U);
}

TEST(target, scales_with_the_fabric_window_alone)
{
	Flow f(tunables({{"target_policy", kStatic}}));

	f.windows(0.5, 100);
	u32 small_ns = swift_target_ns(&f.s, &f.p, 0, 0, 0);
	f.windows(0.5, 1);
	EXPECT_EQ(swift_target_ns(&f.s, &f.p, 0, 0, 0), small_ns);
	f.windows(100, 100);
	EXPECT_LT(swift_target_ns(&f.s, &f.p, 0, 0, 0), small_ns);
}

TEST(target, static_adds_hops_up_to_16)
{
	Flow f(tunables({{"target_policy", kStatic}, {"fs_range_ns", 0},
			 {"hop_target_ns", 1500}}));

	for (u32 hops = 0; hops < 256; hops++)
		EXPECT_EQ(swift_target_ns(&f.s, &f.p, u8(hops), 0, 0),
			  us(50) + 1500 * std::min(hops, 16U));
}

TEST(target, D7_learnt_targets_ignore_hops)
{
	for (u32 policy : {SWIFT_TARGET_BASE_RTT, SWIFT_TARGET_BASE_RTT_PLUS}) {
		Flow f(tunables({{"target_policy", policy}, {"fs_range_ns", 0}}));

		f.ack({.rtt_ns = us(300)});
		EXPECT_EQ(swift_target_ns(&f.s, &f.p, 7, 0, 0), swift_target_ns(&f.s, &f.p, 0, 0, 0));
	}
}

TEST(target, D7_base_rtt_is_what_fabric_delays_fall_to)
{
	Flow f(tunables({{"target_policy", SWIFT_TARGET_BASE_RTT}, {"fs_range_ns", 0}}));

	f.ack({.rtt_ns = us(300), .remote_ns = us(100)});
	EXPECT_EQ(f.v.fabric_target_ns, us(200));
	f.ack({.rtt_ns = us(300), .remote_ns = us(170)}); /* 130 us: half way */
	EXPECT_EQ(f.v.fabric_target_ns, us(165));
	f.ack({.rtt_ns = us(500)});
	EXPECT_EQ(f.v.fabric_target_ns, us(165));
	for (int i = 0; i < 17; i++)
		f.ack({.rtt_ns = us(130)});
	EXPECT_EQ(f.v.fabric_target_ns, us(130)); /* and all of it, to the ns */
}

TEST(target, D7_base_rtt_plus_adds_room_but_not_less_than_base_target)
{
	struct {
		double delay_us, epsilon_us, want_us;
	} cases[] = {{300, 50, 350}, {20, 10, 50}, {20, 50, 70}, {300, 0, 300}};

	for (auto &c : cases) {
		Flow f(tunables({{"target_policy", SWIFT_TARGET_BASE_RTT_PLUS},
				 {"fs_range_ns", 0}, {"rtt_epsilon_ns", us(c.epsilon_us)}}));

		f.ack({.rtt_ns = us(c.delay_us)});
		EXPECT_EQ(f.v.fabric_target_ns, us(c.want_us));
	}
}

TEST(target, D22_room_and_flow_scaling_grow_with_a_long_path)
{
	struct {
		double path_us, times;
	} cases[] = {{0, 1}, {20, 1}, {119, 1}, {120, 1}, {200, 2}, {240, 2.5}, {400, 3.5}, {1000, 7.25}, {2000, 13.5}, {2500, 16.625}, {10000, 16.625}};
	Flow f(tunables({{"rtt_epsilon_ns", us(20)}, {"base_target_ns", us(1)}}));

	f.windows(4, 4).s.base.delay_ns[0] = us(2000);
	u32 scaling_ns = swift_flow_scaling_ns(&f.p, f.s.fabric.cwnd_q16);

	ASSERT_GT(scaling_ns, us(10));
	for (auto &c : cases)
		EXPECT_NEAR(swift_target_ns(&f.s, &f.p, 0, 0, us(c.path_us)), us(2000) + c.times * (us(20) + scaling_ns), 2) << c.path_us;
	f.p.base_target_ns = us(4000); /* is of room alone */
	EXPECT_NEAR(swift_target_ns(&f.s, &f.p, 0, 0, us(1000)), us(4000) + 7.25 * scaling_ns, 2);
}

/* A queue that stands is in the learnt base, but no long path. */
TEST(target, D22_is_of_the_smallest_delay_ever_and_the_default_policy)
{
	Flow f(tunables({{"base_target_ns", us(1)}}));

	f.windows(4, 4);
	u32 target_ns = swift_target_ns(&f.s, &f.p, 0, us(1000), us(120));

	f.ack({.rtt_ns = us(1000), .path_base_ns = us(1000), .path_least_ns = us(30)});
	EXPECT_EQ(f.v.fabric_target_ns, target_ns);
	for (u32 policy : {u32(kStatic), u32(SWIFT_TARGET_BASE_RTT)}) {
		Flow g(tunables({{"target_policy", policy}, {"base_target_ns", us(1)}}));

		g.windows(4, 4).ack({.rtt_ns = us(1000), .path_least_ns = us(1000)});
		EXPECT_EQ(g.v.fabric_target_ns - us(policy == kStatic ? 1 : 1000), swift_flow_scaling_ns(&g.p, to_q16(4)));
	}
}

/* Of a window of half a packet, a 16th of the scale below the target: as far on a path of 1 ms as on a short one. */
TEST(small, D22_a_step_is_by_the_longer_scale)
{
	double grown[2];

	for (int i : {0, 1}) {
		Flow f(tunables({{"rtt_epsilon_ns", us(20)}, {"base_target_ns", us(1)}}));
		u32 path_least_ns = us(i ? 1000 : 80);

		f.windows(0.5, 100).s.starting = 0;
		f.s.base = {.since_ns = f.now_ns, .delay_ns = {path_least_ns, SWIFT_U32_MAX}};
		u32 off_ns = swift_small_ns(&f.s, &f.p) * (i ? 29 : 4) / 64;
		u32 delay_ns = swift_target_ns(&f.s, &f.p, 0, 0, path_least_ns) - off_ns;

		f.s.fabric_ns = delay_ns;
		f.ack({.rtt_ns = delay_ns, .path_least_ns = path_least_ns});
		grown[i] = f.s.fabric.cwnd_q16 * 0x1p-16 - 0.5;
	}
	EXPECT_GT(grown[0], 0.003);
	EXPECT_NEAR(grown[0], grown[1], 0.05 * grown[0]);
}

TEST(target, saturates_before_any_delay_was_seen)
{
	Flow f;

	EXPECT_EQ(swift_target_ns(&f.s, &f.p, 0, 0, 0), SWIFT_U32_MAX);
}

/* A flow on hosts that come late: @noise_us of noise that turns by @turns_us, @above_us above the base. */
Flow late_flow(double cwnd, double noise_us = 40, double turns_us = 30, double above_us = 80, double base_us = 80)
{
	Flow f(tunables({{"rtt_epsilon_ns", us(20)}, {"fs_range_ns", 0}}));

	f.ack({.rtt_ns = us(base_us), .cwnd_limited = false}).windows(cwnd, 1000);
	f.s.noise_ns = us(noise_us);
	f.s.turns_16ns = u16(us(turns_us) / 16);
	f.s.fabric_ns = us(base_us + above_us);
	return f;
}

double late_room_us(const Flow &f)
{
	return swift_late_room_ns(&f.s, &f.p, swift_path_base_ns(&f.s, 0)) / 1000.;
}

TEST(target, D18_hosts_that_come_late_have_room)
{
	/* (40 - 12.5)^2 / 40 * 10 */
	EXPECT_NEAR(late_room_us(late_flow(1)), 189, 0.1);
	EXPECT_NEAR(late_room_us(late_flow(4)), 10 * 21.25 * 21.25 / 33.75, 0.1); /* 54 of 64 parts count */
	EXPECT_NEAR(late_room_us(late_flow(64)), 10 * 8.75 * 8.75 / 21.25, 0.1); /* 34 */
	EXPECT_NEAR(late_room_us(late_flow(60000, 100, 80)), 10 * 12.5 * 12.5 / 25, 0.1); /* and 16 at least */
	EXPECT_NEAR(late_room_us(late_flow(1, 100, 80)), 320, 0.1); /* 16 rtt_epsilons at most */
	EXPECT_EQ(late_room_us(late_flow(1, 12.5)), 0);
	EXPECT_EQ(late_room_us(late_flow(0.999, 100, 80)), 0);

	/* It is in the target, beside that of D14. */
	Flow f = late_flow(1), g = late_flow(1, 40, 0);

	EXPECT_NEAR(swift_target_ns(&f.s, &f.p, 0, 0, 0) - swift_target_ns(&g.s, &g.p, 0, 0, 0), us(189), 100);
}

TEST(target, D18_a_queue_has_none)
{
	/* It stands: 3.5 to 4.75 times the noise above the base. */
	EXPECT_NEAR(late_room_us(late_flow(1, 40, 30, 140)), 189, 0.1);
	EXPECT_NEAR(late_room_us(late_flow(1, 40, 30, 165)), 189 / 2., 0.5);
	EXPECT_EQ(late_room_us(late_flow(1, 40, 30, 190)), 0);
	/* It goes one way: turns of 5/16 to 7/16 of the noise. */
	EXPECT_NEAR(late_room_us(late_flow(1, 40, 18)), 189, 0.1);
	EXPECT_NEAR(late_room_us(late_flow(1, 40, 15)), 189 / 2., 1);
	EXPECT_EQ(late_room_us(late_flow(1, 40, 12.5)), 0);
	/* It is a slow link's, of packets that take a part of the base each: noise of 3/8 to a half of it. */
	EXPECT_NEAR(late_room_us(late_flow(1, 40, 30, 80, 20)), 189, 0.1);
	EXPECT_NEAR(late_room_us(late_flow(1, 40, 30, 80, 80)), 189, 0.1);
	EXPECT_NEAR(late_room_us(late_flow(1, 35, 30, 80, 80)), 10 * 22.5 * 22.5 / 35 / 2, 0.5);
	EXPECT_EQ(late_room_us(late_flow(1, 40, 30, 80, 107)), 0);
	/* And by four times what its base is beyond six rtt_epsilons. */
	EXPECT_NEAR(late_room_us(late_flow(1, 100, 80, 80, 120)), 320, 0.1);
	EXPECT_NEAR(late_room_us(late_flow(1, 100, 80, 80, 130)), 320 * (100 - 130 * 0.375 - 40) / (130 / 8.), 2);
	EXPECT_EQ(late_room_us(late_flow(1, 100, 80, 80, 134)), 0);
	EXPECT_EQ(late_room_us(late_flow(1, 4e6, 4e6, 80, 4e6)), 0);
}

TEST(target, D18_a_busy_host_has_none)
{
	auto room_us = [](double endpoint_us) {
		Flow f = late_flow(1);

		f.s.endpoint_ns = us(endpoint_us);
		return late_room_us(f);
	};

	/* What a packet waits for after its stamp: 5/8 to 7/8 of the noise. */
	EXPECT_NEAR(room_us(25), 189, 0.1);
	EXPECT_NEAR(room_us(30), 189 / 2., 0.1);
	EXPECT_GT(room_us(34.9), 0);
	EXPECT_EQ(room_us(35), 0);
	EXPECT_EQ(room_us(4e6), 0);
}

TEST(target, D18_who_waits_for_his_own_link_has_none)
{
	Flow f = late_flow(10, 40);
	auto acks = [&f](int n, bool own_queue) {
		for (int i = 0; i < n; i++) {
			f.wait(us(1)).ack({.rtt_ns = us(160), .own_queue = own_queue}).windows(10, 1000);
			f.s.noise_ns = us(40);
			f.s.turns_16ns = u16(us(30) / 16);
			f.s.fabric_ns = us(160);
		}
		return late_room_us(f);
	};
	double all_us = acks(1, false);

	EXPECT_GT(all_us, 50);
	EXPECT_EQ(acks(7, true), all_us);
	EXPECT_NEAR(acks(4, true), all_us / 2, 0.1);
	EXPECT_EQ(acks(4, true), 0);
	EXPECT_EQ(acks(100, true), 0);
	EXPECT_NEAR(acks(2, false), all_us / 2, 0.1);
	EXPECT_EQ(acks(2, false), all_us);
	/* At two of three ACKs it stays. Where there is no noise nobody asks. */
	for (int i = 0; i < 30; i++) {
		acks(2, true);
		acks(1, false);
	}
	EXPECT_EQ(f.s.own_queue, 7);
	f.s.noise_ns = us(12.5);
	f.ack({.rtt_ns = us(160), .own_queue = true});
	EXPECT_EQ(f.s.own_queue, 7);
	f.s.noise_ns = us(12.5);
	EXPECT_FALSE(swift_asks_own_queue(&f.s, &f.p));
	f.s.noise_ns++;
	EXPECT_TRUE(swift_asks_own_queue(&f.s, &f.p));
	f.p.target_policy = SWIFT_TARGET_BASE_RTT;
	EXPECT_FALSE(swift_asks_own_queue(&f.s, &f.p));
}

/* @delays_us: the first one of each round. Returns what they turn by. */
double turns_us(const std::vector<double> &delays_us, u64 apart_ns = us(1000), int samples = 1)
{
	Flow f = late_flow(10, 40, 0);

	for (double delay_us : delays_us) {
		for (int i = 0; i < samples; i++) {
			f.ack({.rtt_ns = us(i ? 1000 - delay_us : delay_us)});
			f.s.noise_ns = us(40);
		}
		f.wait(apart_ns);
	}
	return f.s.turns_16ns * 0.016;
}

TEST(target, D18_noise_turns_back_and_a_queue_goes_on)
{
	std::vector<double> noise, queue, one_way;

	for (int i = 0; i < 400; i++) {
		noise.push_back(i % 2 ? 120 : 150);
		queue.push_back(120 + 10 * (i % 20 < 10 ? i % 10 : 10 - i % 10));
		one_way.push_back(120 + i);
	}
	EXPECT_NEAR(turns_us(noise), 30, 1);
	EXPECT_LT(turns_us(queue), 3);
	EXPECT_EQ(turns_us(one_way), 0);
	/* A round's other samples do not count; nor does what is 3 ms apart, nor more than the noise. */
	EXPECT_NEAR(turns_us(noise, us(1000), 3), 30, 1);
	EXPECT_EQ(turns_us(noise, us(3200)), 0);
	EXPECT_NEAR(turns_us(noise, us(3100)), 30, 1);
	for (double &delay_us : noise)
		delay_us = delay_us > 130 ? 900 : 120;
	EXPECT_NEAR(turns_us(noise), 41, 1);
}

TEST(base_delay, D7_goes_an_eighth_of_the_way_as_far_as_it_may_be_luck)
{
	Flow f;

	f.windows(10, 10).ack({.rtt_ns = us(200)});
	f.s.noise_ns = us(8);
	f.ack({.rtt_ns = us(184)}); /* 16 us: twice the noise */
	EXPECT_EQ(swift_base_ns(&f.s.base), us(198));
	EXPECT_EQ(f.v.base_luck_ns, us(16)); /* for others, as for itself */
	f.s.noise_ns = us(8);
	f.ack({.rtt_ns = us(162)}); /* 16 us of luck, 20 more */
	EXPECT_EQ(swift_base_ns(&f.s.base), us(186));
	for (int i = 0; i < 150; i++)
		f.ack({.rtt_ns = us(162)});
	EXPECT_EQ(swift_base_ns(&f.s.base), us(162)); /* and all of it, to the ns */
}

TEST(base_delay, D7_v0_tells_others_what_it_went_by)
{
	Flow f(tunables({{"split", 0}}));

	f.windows(10, 10).ack({.rtt_ns = us(200)});
	f.s.noise_ns = us(8);
	f.ack({.rtt_ns = us(184)});
	EXPECT_EQ(f.v.base_sample_ns, us(184));
	EXPECT_EQ(f.v.base_luck_ns, us(16));
}

TEST(base_delay, D7_who_sends_less_than_two_packets_goes_half_the_way)
{
	for (double ecwnd : {1.99, 100.}) {
		Flow f;

		f.windows(10, 10).ack({.rtt_ns = us(200)});
		f.windows(ecwnd > 2 ? 1.99 : 100, ecwnd);
		f.s.noise_ns = us(100);
		f.ack({.rtt_ns = us(190)});
		EXPECT_EQ(swift_base_ns(&f.s.base), us(195)) << ecwnd;
		EXPECT_EQ(f.v.base_luck_ns, 0U);
	}
}

TEST(base_delay, D7_knows_of_luck_where_noise_is_measured)
{
	Flow f(tunables({{"target_policy", SWIFT_TARGET_BASE_RTT}, {"fs_range_ns", 0}}));

	swift_on_handshake(&f.s, &f.p, f.now_ns, us(200), 0, 0); /* and an eighth of that is noise for ever */
	f.windows(10, 10).ack({.rtt_ns = us(180)});
	EXPECT_EQ(swift_base_ns(&f.s.base), us(190));
}

TEST(base_delay, D7_of_a_handshake_is_no_luck)
{
	Flow f;

	f.windows(10, 10).ack({.rtt_ns = us(200)});
	f.s.noise_ns = us(100);
	swift_on_handshake(&f.s, &f.p, f.now_ns, us(100), 0, 0);
	EXPECT_EQ(swift_base_ns(&f.s.base), us(150));
}

TEST(base_delay, is_forgotten_after_its_window)
{
	Flow f(tunables({{"target_policy", SWIFT_TARGET_BASE_RTT}, {"fs_range_ns", 0},
			 {"rtt_window_ms", 10000}}));

	f.ack({.rtt_ns = us(100)});
	for (int s = 1; s < 10; s++) { /* believed for half a window at the least */
		f.wait(seconds(1)).ack({.rtt_ns = us(300)});
		if (s <= 5) {
			EXPECT_EQ(f.v.fabric_target_ns, us(100)) << s;
		}
	}
	f.wait(seconds(1)).ack({.rtt_ns = us(300)});
	EXPECT_EQ(f.v.fabric_target_ns, us(300)); /* the path has changed */
}

TEST(base_delay, is_forgotten_after_a_long_silence)
{
	Flow f(tunables({{"target_policy", SWIFT_TARGET_BASE_RTT}, {"fs_range_ns", 0}}));

	f.ack({.rtt_ns = us(100)});
	f.wait(seconds(10)).ack({.rtt_ns = us(300)});
	EXPECT_EQ(f.v.fabric_target_ns, us(300));
}

TEST(base_delay, D5_is_not_learnt_from_a_guessed_remote_part)
{
	Flow f(tunables({{"fs_range_ns", 0}, {"target_policy", SWIFT_TARGET_BASE_RTT}}));

	/* The host is slow (EWMA 300 us), the path takes 400 us. */
	f.ack({.rtt_ns = us(700), .remote_ns = us(300)});
	EXPECT_EQ(f.v.fabric_target_ns, us(400));
	/* The host was quick this once, but the ACK had no room to say so. */
	f.wait(us(700)).ack({.rtt_ns = us(410), .has_echo = false});
	EXPECT_EQ(f.v.fabric_target_ns, us(400));
}

/* Who is slow to answer is no long path; a claim of more than all is not less than none. */
TEST(guard, judges_what_is_not_the_hosts)
{
	swift_sample in = {};

	in.rtt_ns = us(6000);
	EXPECT_EQ(swift_path_rtt_ns(&in), us(6000));
	in.local_ns = us(500);
	in.remote_ns = us(5400);
	EXPECT_EQ(swift_path_rtt_ns(&in), us(100));
	in.remote_ns = us(5500);
	EXPECT_EQ(swift_path_rtt_ns(&in), 0U);
	in.remote_ns = SWIFT_U32_MAX;
	EXPECT_EQ(swift_path_rtt_ns(&in), 0U);
}

/* The last piece of a message is on a link of 1 Gb/s for a part of the time that a full packet is. */
TEST(base_delay, of_short_packets_is_never_less_than_of_full_ones)
{
	for (u32 split : {0, 1}) {
		Flow f(plain({{"split", split}, {"target_policy", SWIFT_TARGET_BASE_RTT_PLUS}}));
		const u64 half_ns = u64(f.p.rtt_window_ns) / 2;

		f.ack({.rtt_ns = us(40), .short_sized = true}); /* nothing else is known */
		EXPECT_EQ(swift_base_ns(&f.s.base), us(40));
		EXPECT_EQ(f.v.base_sample_ns, 0U); /* others have full ones to go by */
		f.wait(2 * half_ns).ack({.rtt_ns = us(150)});
		f.ack({.rtt_ns = us(70), .short_sized = true});
		EXPECT_EQ(swift_base_ns(&f.s.base), us(150));
		f.wait(half_ns).ack({.rtt_ns = us(70), .short_sized = true}); /* begins a half */
		f.wait(half_ns).ack({.rtt_ns = us(70), .short_sized = true});
		EXPECT_EQ(swift_base_ns(&f.s.base), us(150));
		f.wait(half_ns).ack({.rtt_ns = us(400), .short_sized = true}); /* the path is longer now */
		f.wait(half_ns).ack({.rtt_ns = us(400), .short_sized = true});
		EXPECT_EQ(swift_base_ns(&f.s.base), us(400));
		f.s.noise_ns = 0;
		f.ack({.rtt_ns = us(300)});
		EXPECT_EQ(swift_base_ns(&f.s.base), us(350)); /* half way, as ever */
	}
}

TEST(base_delay, is_not_learnt_from_an_impossible_claim)
{
	Flow f(tunables({{"fs_range_ns", 0}, {"target_policy", SWIFT_TARGET_BASE_RTT}}));

	f.ack({.rtt_ns = us(400)});
	f.wait(us(400)).ack({.rtt_ns = us(400), .remote_ns = us(401)});
	EXPECT_EQ(f.v.fabric_target_ns, us(400));
}

/* --- D14: noise of hosts ------------------------------------------------------------------------------- */

/* Where delays are those of the path, the law is the paper's: no room but the given, no filter but for bunches. */
TEST(noise, D14_none_is_learnt_from_equal_delays)
{
	Flow f(tunables({{"fs_range_ns", 0}}));

	f.windows(20, 20);
	for (int i = 0; i < 1000; i++)
		f.wait(us(100)).ack({.rtt_ns = us(100)});
	EXPECT_EQ(f.s.noise_ns, 0U);
	EXPECT_EQ(f.v.fabric_target_ns, us(150));
	f.windows(7, 7).wait(us(100)).ack({.rtt_ns = us(300)});
	EXPECT_EQ(f.s.fabric_ns, us(300));
}

/* Nor is there an outlier where a flow begins, with a packet or so. */
TEST(noise, D14_no_outlier_is_cut_where_nothing_is_averaged)
{
	Flow f;

	f.windows(1, 4096);
	f.s.starting = true;
	f.ack({.rtt_ns = us(100), .cwnd_limited = false});
	f.s.noise_ns = us(50);
	f.ack({.rtt_ns = us(1000), .cwnd_limited = false});
	EXPECT_EQ(f.s.fabric_ns, us(1000));
}

/* What comes at once, and stays, is a queue: no outlier where there is no noise. */
TEST(noise, D14_without_noise_each_delay_counts_in_full)
{
	Flow f(tunables({{"fs_range_ns", 0}}));

	for (int i = 0; i < 1000; i++)
		f.windows(64, 64).wait(us(100)).ack({.rtt_ns = us(100)});
	EXPECT_EQ(f.s.noise_ns, 0U);
	f.wait(us(100)).ack({.rtt_ns = us(420)});
	EXPECT_EQ(f.s.fabric_ns, us(140));
}

/* Delays of 100 and 180 us by turns: 40 us around their average. */
TEST(noise, D14_has_room_and_is_averaged)
{
	Flow f(tunables({{"fs_range_ns", 0}}));

	for (int i = 0; i < 2000; i++) {
		f.windows(128, 128).wait(us(100)).ack({.rtt_ns = us(100 + 80.0 * (i % 2))});
	}
	EXPECT_NEAR(f.s.fabric_ns, us(140), us(8));
	EXPECT_NEAR(f.s.noise_ns, us(40), us(4));
	EXPECT_NEAR(f.v.fabric_target_ns, us(150) + (us(12.5) + (f.s.noise_ns - us(12.5)) / 3) * 3 / 2, 2);
	for (int i = 0; i < 2000; i++)
		f.windows(128, 128).wait(us(100)).ack({.rtt_ns = us(140)});
	EXPECT_LT(f.s.noise_ns, us(1)); /* and is forgotten */
}

/* Half of the noise for each doubling that is left to 1024 packets, and five at most. */
TEST(noise, D14_large_windows_have_less_room)
{
	Flow f(tunables({{"fs_range_ns", 0}}));

	f.ack({.rtt_ns = us(100)});
	f.s.noise_ns = us(8);
	for (auto [cwnd, want_us] : {std::pair{3000.0, 0.0}, {1024.0, 0.0}, {512.0, 4.0}, {384.0, 6.0}, {128.0, 12.0},
				     {64.0, 16.0}, {32.0, 20.0}, {1.0, 20.0}}) {
		f.windows(cwnd, 4096);
		EXPECT_NEAR(swift_target_ns(&f.s, &f.p, 0, 0, 0), us(150 + want_us), 1) << cwnd;
	}
}

TEST(noise, D14_above_a_quarter_of_rtt_epsilon_counts_a_third)
{
	Flow f(tunables({{"fs_range_ns", 0}, {"rtt_epsilon_ns", us(40)}, {"base_target_ns", us(50)}}));

	f.ack({.rtt_ns = us(100)});
	for (auto [noise_us, cwnd, want_us] : {std::tuple{10.0, 32.0, 25.0}, {13.0, 32.0, 27.5}, {16.0, 32.0, 30.0},
					       {16.0, 3.0, 30.0}, {13.0, 2.9, 32.5}}) {
		f.s.noise_ns = us(noise_us);
		f.windows(cwnd, 4096);
		EXPECT_NEAR(swift_target_ns(&f.s, &f.p, 0, 0, 0), us(140 + want_us), 1) << noise_us << ' ' << cwnd;
	}
}

/* Or a flow in a fabric that just began would take what its hosts add for a queue. */
TEST(noise, D14_is_an_eighth_of_the_path_until_it_is_known)
{
	Flow f(tunables({{"fs_range_ns", 0}}));

	swift_on_handshake(&f.s, &f.p, f.now_ns, us(40), 1448, SWIFT_U32_MAX);
	EXPECT_EQ(f.s.noise_ns, us(5));
	for (int i = 0; i < 2000; i++)
		f.windows(100, 100).wait(us(100)).ack({.rtt_ns = us(40)});
	EXPECT_LT(f.s.noise_ns, us(0.5));
}

TEST(noise, D14_a_host_that_was_away_once_is_an_outlier)
{
	Flow f(tunables({{"fs_range_ns", 0}}));

	for (int i = 0; i < 1000; i++)
		f.windows(20, 20).wait(us(100)).ack({.rtt_ns = us(100)});
	f.wait(us(100)).ack({.rtt_ns = us(5000)});
	EXPECT_LE(f.s.noise_ns, 1024U / 64);
}

/* Where samples are averaged one alone does not move the average far, either; without noise it is the signal. */
TEST(noise, D14_an_outlier_moves_the_average_by_four_times_the_noise_at_most)
{
	Flow f(tunables({{"fs_range_ns", 0}}));

	for (int i = 0; i < 2000; i++)
		f.windows(100, 100).wait(us(100)).ack({.rtt_ns = us(100 + 80.0 * (i % 2))});
	u32 before_ns = f.s.fabric_ns, noise_ns = f.s.noise_ns;
	f.wait(us(100)).ack({.rtt_ns = us(5000)});
	EXPECT_GT(f.s.fabric_ns, before_ns);
	EXPECT_LE(f.s.fabric_ns - before_ns, (4 * noise_ns + 1024) / 4);
}

/*
 * Twice as many samples for each quarter of epsilon (12.5 us), at least an eighth of the window's packets, no more than
 * it has, and 16 at most.
 */
TEST(noise, D14_the_filter_remembers_a_window_at_most)
{
	for (auto [cwnd, noise_us, samples] : {std::tuple{1000.0, 1000.0, 16}, {128.0, 12.0, 16}, {127.0, 12.0, 8},
					       {64.0, 12.0, 8}, {32.0, 12.0, 4}, {16.0, 12.0, 2}, {15.9, 12.0, 1}, {15.9, 13.0, 2},
					       {32.0, 26.0, 4}, {32.0, 38.0, 8}, {32.0, 51.0, 16}, {15.9, 51.0, 8}, {9.0, 1000.0, 8},
					       {4.0, 1000.0, 4}, {3.9, 1000.0, 2}, {1.0, 1000.0, 1}, {0.5, 1000.0, 1}}) {
		Flow f;

		f.windows(cwnd, 4096);
		f.s.starting = true; /* else a small window has a filter of its own (D16) */
		f.ack({.rtt_ns = us(100), .cwnd_limited = false});
		f.s.noise_ns = us(noise_us);
		f.ack({.rtt_ns = us(100 + noise_us), .cwnd_limited = false});
		EXPECT_EQ(f.s.fabric_ns, us(100) + us(noise_us) / u32(samples)) << cwnd << " packets, " << noise_us;
	}
}

TEST(noise, D14_small_windows_without_a_curve_have_no_more_than_epsilon)
{
	Flow f(tunables({{"fs_range_ns", 0}}));

	f.ack({.rtt_ns = us(100)});
	f.s.noise_ns = us(1000);
	for (double cwnd : {0.01, 0.5, 1.0, 3.0}) {
		f.windows(cwnd, 4096);
		EXPECT_EQ(swift_target_ns(&f.s, &f.p, 0, 0, 0), us(200)) << cwnd;
	}
	/* Below one packet it has that in any case. */
	f.s.noise_ns = 0;
	f.windows(0.5, 1);
	EXPECT_EQ(swift_target_ns(&f.s, &f.p, 0, 0, 0), us(200));
	f.windows(1, 1);
	EXPECT_EQ(swift_target_ns(&f.s, &f.p, 0, 0, 0), us(150));
}

/* alpha = 111.11 us, beta = -11.11 us: scaling adds 53.04 us to 3 packets, 20.96 to 12, none to 100; 100 to one. */
TEST(noise, D14_other_windows_have_three_quarters_of_what_scaling_takes_or_gives)
{
	Flow f(tunables({{"fs_range_ns", us(100)}, {"fs_min_cwnd_milli", 1000}, {"fs_max_cwnd_milli", 100000}}));

	f.ack({.rtt_ns = us(100)});
	f.s.noise_ns = us(1000);
	for (auto [cwnd, want_us] : {std::pair{3.0, 200 + 53.04}, {12.0, 200 + 53.04 * .75 + 20.96 * .25},
				     {100.0, 200 + 53.04 * .75}, {128.0, 200 + 53.04 * .75}, {2.0, 200 + 67.46 * 1.75 - 53.04 * .75},
				     {1.0, 200 + 100 + 46.96 * .75}}) {
		f.windows(cwnd, 4096);
		EXPECT_NEAR(swift_target_ns(&f.s, &f.p, 0, 0, 0), us(want_us), 20) << cwnd;
	}

	/* Half a packet is the least that counts. */
	Flow small(tunables({{"fs_range_ns", us(100)}, {"fs_min_cwnd_milli", 10}, {"fs_max_cwnd_milli", 1000000}}));

	small.ack({.rtt_ns = us(100)});
	small.s.noise_ns = us(1000);
	auto scaling_us = [](double cwnd) { return 100 / (10 - 1 / std::sqrt(1000)) * (1 / std::sqrt(cwnd) - 1 / std::sqrt(1000)); };
	for (double cwnd : {0.05, 0.4, 0.5, 0.7}) {
		small.windows(cwnd, 4096);
		EXPECT_NEAR(swift_target_ns(&small.s, &small.p, 0, 0, 0),
			    us(200 + scaling_us(cwnd) + (scaling_us(std::max(cwnd, 0.5)) - scaling_us(3)) * .75), 40) << cwnd;
	}
}

/* Who once has more than others would be given more, and a few flows would take all. */
TEST(noise, D14_the_target_never_grows_with_the_window)
{
	for (double noise_us : {0.0, 1.0, 5.0, 10.0, 20.0, 50.0, 200.0, 1000.0}) {
		swift_tunables t;
		swift_tunables_default(&t);
		Flow f(t);
		u32 last_ns = SWIFT_U32_MAX;

		f.ack({.rtt_ns = us(40)});
		f.s.noise_ns = us(noise_us);
		for (double w = 0.01; w < 1000; w *= w < 1 ? 1.05 : 1.002) {
			f.windows(w, 4096);
			u32 target_ns = swift_target_ns(&f.s, &f.p, 0, 0, 0);

			if (w > 1.05) { /* below one packet there is room without noise */
				ASSERT_LE(target_ns, last_ns) << w << " packets, noise " << noise_us;
			}
			last_ns = target_ns;
		}
	}
}

TEST(noise, D14_changes_nothing_for_the_other_policies)
{
	for (u32 policy : {SWIFT_TARGET_STATIC, SWIFT_TARGET_BASE_RTT}) {
		Flow f(tunables({{"fs_range_ns", 0}, {"target_policy", policy}}));
		u32 target_ns;

		f.windows(100, 100).ack({.rtt_ns = us(100)});
		target_ns = f.v.fabric_target_ns;
		for (int i = 0; i < 200; i++) {
			u32 rtt_ns = us(100 + 80.0 * (i % 2));

			f.windows(100, 100).wait(us(100)).ack({.rtt_ns = rtt_ns});
			EXPECT_EQ(f.s.fabric_ns, rtt_ns);
			EXPECT_EQ(f.v.fabric_target_ns, target_ns);
		}
	}
}

/*
 * The reason for all that: an empty path of 30 us, whose packets are up to 100 us late for
 * their hosts' sake, and a window that nothing else holds. The paper's law stays at some packets.
 */
TEST(noise, D14_late_hosts_do_not_throttle)
{
	auto average_cwnd = [](u32 policy) {
		Flow f(tunables({{"base_target_ns", us(50)}, {"rtt_epsilon_ns", us(20)}, {"target_policy", policy}}));
		u32 random = 1;
		double sum = 0;

		for (int i = 0; i < 20000; i++) {
			random = random * 1664525 + 1013904223;
			f.wait(us(80 / std::max(f.fcwnd() / 4, 1.0)))
				.ack({.rtt_ns = us(30 + (random >> 16) / 655.36), .acked_pkts = 4});
			sum += f.fcwnd();
		}
		return sum / 20000;
	};

	EXPECT_LT(average_cwnd(SWIFT_TARGET_STATIC), 15);
	EXPECT_GT(average_cwnd(SWIFT_TARGET_BASE_RTT_PLUS), 40);
}

/* --- D16: small windows ---------------------------------------------------------------------------------- */

/* The defaults' alpha / sqrt(w): 450 us between 0.01 and 256 packets. */
double scale_us(double cwnd) { return 450 / (1 / std::sqrt(0.01) - 1 / 16.0) / std::sqrt(cwnd); }

/* With a learnt base of 40 us. */
Flow small_flow(double cwnd, u32 policy = SWIFT_TARGET_BASE_RTT_PLUS)
{
	Flow f(tunables({{"target_policy", policy}}));

	f.ack({.rtt_ns = us(40), .cwnd_limited = false});
	return f.windows(cwnd, 100);
}

/* The newest delay is this far above the target, and the mean, which by then has it, is at @mean_us. */
void ack_off_target(Flow &f, double off_us, double mean_us, bool cwnd_limited = true)
{
	u32 target_ns = swift_target_ns(&f.s, &f.p, 0, 0, 0);

	f.s.small = SWIFT_SMALL_AWAY;
	f.s.fabric_ns = u32(target_ns + (mean_us * 8 - off_us) * 1000 / 7);
	f.wait(us(1000)).ack({.rtt_ns = u32(target_ns + off_us * 1000), .cwnd_limited = cwnd_limited});
}

TEST(small, D16_moves_by_as_much_as_it_is_off_its_target)
{
	for (auto [cwnd, part] : {std::pair{0.05, 0.2}, {0.25, 0.2}, {0.25, -0.2}, {0.5, 0.9}, {0.5, -0.9}, {0.9, 1.5},
				  {1.0, 0.5}, {1.0, -0.5}, {2.5, 0.2}, {2.5, -0.2}, {3.9, 0.1}, {3.9, -0.1}}) {
		Flow f = small_flow(cwnd);

		ack_off_target(f, part * scale_us(cwnd), 0);
		EXPECT_NEAR(f.fcwnd(), cwnd - std::min(cwnd * cwnd, 1.0) / 4 * part, 1e-3) << cwnd << " packets, " << part;
		EXPECT_EQ(f.v.fabric_action, part > 0 ? SWIFT_DECREASE : SWIFT_INCREASE);
	}
}

TEST(small, D16_no_farther_than_the_paper_would)
{
	Flow above = small_flow(0.5), below = small_flow(0.25), two = small_flow(2);
	Flow gentle(tunables({{"ai_milli", 10}})), flat(tunables({{"fs_range_ns", 10}}));

	ack_off_target(above, 10 * scale_us(0.5), 0);
	EXPECT_NEAR(above.fcwnd(), 0.25, 1e-3);
	/* Of a packet at most, and once in its RTT: the rest of a flight that a host kept waiting tells the same. */
	ack_off_target(two, 10 * scale_us(2), 0);
	EXPECT_NEAR(two.fcwnd(), 1.5, 1e-3);
	two.wait(us(1)).ack({.rtt_ns = us(1000)});
	EXPECT_NEAR(two.fcwnd(), 1.5, 1e-3);
	EXPECT_EQ(two.v.fabric_action, SWIFT_HOLD);
	two.wait(us(1000)).ack({.rtt_ns = us(1000)});
	EXPECT_NEAR(two.fcwnd(), 1, 1e-3);

	/* So it is where the window was not small before. */
	Flow eight = small_flow(7.9);

	for (int i = 0; i < 8; i++)
		eight.wait(us(1)).ack({.rtt_ns = us(1000)});
	EXPECT_NEAR(eight.fcwnd(), 3.95, 1e-2);
	below.s.base.delay_ns[0] = us(1000);
	ack_off_target(below, -5 * scale_us(0.25), -5 * scale_us(0.25));
	EXPECT_NEAR(below.fcwnd(), 0.75, 1e-3); /* D15: half of ai */
	/* 2^20 of its scales, of 1 ns. */
	flat.ack({.rtt_ns = us(40), .cwnd_limited = false});
	flat.windows(0.5, 100).ack({.rtt_ns = swift_target_ns(&flat.s, &flat.p, 0, 0, 0) + (1 << 20)});
	EXPECT_NEAR(flat.fcwnd(), 0.25, 1e-3);
	gentle.ack({.rtt_ns = us(40), .cwnd_limited = false});
	gentle.windows(0.5, 100);
	ack_off_target(gentle, -scale_us(0.5), 0);
	EXPECT_NEAR(gentle.fcwnd(), 0.505, 1e-3);
}

/* Of a flow that a loss left behind, or all of whose neighbours have gone. */
TEST(small, D16_who_has_far_less_than_others_gets_it_soon)
{
	Flow f = small_flow(0.1);

	/* Within an eighth of the scale it may be chance, and so it may where one delay alone is short, or the mean. */
	ack_off_target(f, -0.12 * scale_us(0.1), -0.12 * scale_us(0.1));
	EXPECT_NEAR(f.fcwnd(), 0.1, 1e-3);
	for (auto [newest, mean] : {std::pair{-0.5, 0.0}, {-0.1, -0.5}}) {
		f = small_flow(0.1);
		ack_off_target(f, newest * scale_us(0.1), mean * scale_us(0.1));
		EXPECT_NEAR(f.fcwnd(), 0.1 + 0.01 / 4 * -newest, 1e-3);
	}
	/* Twice what is more than that. */
	for (auto [newest, mean] : {std::pair{-0.375, -0.5}, {-0.5, -0.375}}) {
		f = small_flow(0.1);
		ack_off_target(f, newest * scale_us(0.1), mean * scale_us(0.1));
		EXPECT_NEAR(f.fcwnd(), 0.15, 1e-3) << newest << ", " << mean;
	}
}

/* Below fs_min_cwnd targets are all the same: there is no reason to stay there. */
TEST(small, D16_no_smaller_than_fs_min_cwnd_where_the_delay_allows_for_more)
{
	Flow f = small_flow(0.001);

	ack_off_target(f, 1, 0);
	EXPECT_LT(f.fcwnd(), 0.0011);
	ack_off_target(f, -1, 0);
	EXPECT_NEAR(f.fcwnd(), 0.01, 1e-4);
	f = small_flow(0.005);
	ack_off_target(f, 0.26 * scale_us(0.01), 0.26 * scale_us(0.01));
	EXPECT_EQ(f.s.small, SWIFT_SMALL_AWAY);
	ack_off_target(f, 0.24 * scale_us(0.01), 0.24 * scale_us(0.01));
	EXPECT_EQ(f.s.small, SWIFT_SMALL_NEAR);
}

/* A window of @pkts whose hosts have 10 us of noise, after an ACK of all of it at @below_us below its target. */
struct Grown {
	double by; /* packets */
	double even; /* what line 13 takes of it that far above */
};

static Grown grown(double pkts, double below_us, u32 policy = SWIFT_TARGET_BASE_RTT_PLUS, bool starting = false)
{
	Flow f(tunables({{"fs_range_ns", 0}, {"target_policy", policy}, {"base_target_ns", us(100)},
			 {"rtt_epsilon_ns", us(20)}, {"ai_milli", 1000}, {"beta_milli", 800}, {"max_mdf_milli", 500}}));

	f.ack({.rtt_ns = us(100), .cwnd_limited = false}).windows(pkts, 1000);
	f.s.noise_ns = us(10);
	f.s.starting = starting;
	f.s.fabric_ns = u32(swift_target_ns(&f.s, &f.p, 0, 0, 0) - 1e3 * below_us);
	f.ack({.rtt_ns = f.s.fabric_ns, .acked_pkts = u32(pkts)});
	return {f.fcwnd() - pkts, pkts * 0.8 * (double(f.v.fabric_target_ns) / f.s.fabric_ns - 1)};
}

TEST(even, D17_an_RTT_adds_what_a_decrease_would_take)
{
	Grown near = grown(10, 3), far = grown(4, 19), above = grown(10, -3), large = grown(100, 3);

	EXPECT_LT(near.even, 0.5);
	EXPECT_NEAR(near.by, near.even, 1e-3);
	EXPECT_LT(far.even, 0.7);
	EXPECT_NEAR(far.by, far.even, 1e-3);
	EXPECT_NEAR(above.by, above.even, 1e-3);
	EXPECT_LT(above.by, -0.1);
	EXPECT_GT(large.even, 1.5);
	EXPECT_NEAR(large.by, 1, 1e-3); /* but ai at most */
}

TEST(even, D17_is_of_what_may_be_noise)
{
	for (double below_us : {21., 28.}) { /* twice the noise, and a little or more */
		EXPECT_LT(grown(4, below_us).even, 0.9);
		EXPECT_NEAR(grown(4, below_us).by, 1, 1e-3);
	}
}

TEST(even, D17_is_of_windows_that_are_not_small_and_of_one_policy)
{
	EXPECT_NEAR(grown(3, 3).by, std::sqrt(3) / 2, 1e-3); /* no curve here, and so no D16; but D15 */
	EXPECT_NEAR(grown(10, 3, SWIFT_TARGET_STATIC).by, 1, 1e-3);
	EXPECT_NEAR(grown(10, 3, SWIFT_TARGET_BASE_RTT).by, 1, 1e-3);
	EXPECT_NEAR(grown(10, 3, SWIFT_TARGET_BASE_RTT_PLUS, true).by, 10, 1e-3);
}

TEST(even, D17_adds_something_and_at_most_max_mdf)
{
	Flow f(tunables({{"fs_range_ns", 0}, {"base_target_ns", us(100)}, {"ai_milli", 100000}, {"max_mdf_milli", 500}}));

	f.ack({.rtt_ns = us(10), .cwnd_limited = false}).windows(10, 1000);
	f.s.starting = 0;
	f.s.noise_ns = us(1000);
	f.ack({.rtt_ns = us(10), .acked_pkts = 10}); /* 0.8 * 90 / 10 is 7 */
	EXPECT_NEAR(f.fcwnd(), 15, 1e-3);

	swift_sample in = {};

	in.acked_pkts = 1;
	f.windows(4, 1000);
	EXPECT_EQ(swift_even_step_q24(&f.s, &f.p, &in, us(1000000), us(1000000) + 1, 1 << 24), 1U);
	EXPECT_EQ(swift_even_step_q24(&f.s, &f.p, &in, 0, 1, 100U << 24), 2U << 24); /* a delay of 0: max_mdf */
	EXPECT_EQ(swift_even_step_q24(&f.s, &f.p, &in, us(100), us(101), 0), 0U); /* D2 */
}

TEST(small, D16_a_window_of_four_packets_or_one_that_begins_is_not)
{
	Flow large = small_flow(4), begins = small_flow(0.5);

	ack_off_target(large, 1, 1);
	EXPECT_EQ(large.s.small, SWIFT_NOT_SMALL);
	begins.s.starting = 1;
	ack_off_target(begins, -1, -1);
	EXPECT_EQ(begins.s.small, SWIFT_NOT_SMALL);
	EXPECT_NEAR(begins.fcwnd(), 1.5, 1e-3);
	for (u32 policy : {SWIFT_TARGET_STATIC, SWIFT_TARGET_BASE_RTT}) {
		Flow f = small_flow(0.5, policy);

		f.ack({.rtt_ns = us(1000)});
		EXPECT_EQ(f.s.small, SWIFT_NOT_SMALL);
	}

	/* Nor one without a curve. */
	Flow flat(tunables({{"fs_range_ns", 0}}));

	flat.ack({.rtt_ns = us(40), .cwnd_limited = false}).windows(0.5, 100);
	flat.ack({.rtt_ns = us(40)});
	EXPECT_EQ(flat.s.small, SWIFT_NOT_SMALL);
	EXPECT_NEAR(flat.fcwnd(), 1, 1e-3);
}

/* However small: 0.01 packet's square is nothing in q16. */
TEST(small, D16_never_by_nothing_but_at_its_target)
{
	Flow f = small_flow(0.011);
	const double before = f.fcwnd();

	ack_off_target(f, -1, 0);
	EXPECT_GT(f.fcwnd(), before);
	ack_off_target(f, 1, 0);
	EXPECT_EQ(f.fcwnd(), before);
	f.windows(0.5, 100);
	ack_off_target(f, 0, 0);
	EXPECT_EQ(f.fcwnd(), 0.5);
	EXPECT_EQ(f.v.fabric_action, SWIFT_HOLD);
}

/* An undo in between: the filter is the large window's again. */
TEST(small, D16_a_window_that_grew_meanwhile_is_not)
{
	Flow f = small_flow(2);

	ack_off_target(f, 0, 0);
	/* By the newest delay it would be a half. */
	f.windows(100, 100).wait(us(1000)).ack({.rtt_ns = us(300)});
	EXPECT_GT(f.fcwnd(), 60);
}

TEST(small, D16_an_idle_application_is_no_reason_to_grow)
{
	Flow f = small_flow(0.5);

	ack_off_target(f, -5, -5, false);
	EXPECT_EQ(f.fcwnd(), 0.5);
	EXPECT_EQ(f.v.fabric_action, SWIFT_HOLD);
	ack_off_target(f, 5, 5, false);
	EXPECT_LT(f.fcwnd(), 0.5);
}

/* A loss in the same RTT cuts. */
TEST(small, D16_is_not_the_cut_of_an_RTT)
{
	Flow f = small_flow(0.5);
	double small;

	ack_off_target(f, 5, 5);
	small = f.fcwnd();
	EXPECT_LT(small, 0.5);
	EXPECT_TRUE(f.loss(us(100)));
	EXPECT_NEAR(f.fcwnd(), small / 2, 1e-4);
}

TEST(small, D16_goes_by_the_newest_and_keeps_the_mean_of_eight_delays)
{
	Flow f = small_flow(0.5);
	u32 target_ns = swift_target_ns(&f.s, &f.p, 0, 0, 0);

	f.s.small = SWIFT_SMALL_NEAR;
	f.s.fabric_ns = target_ns - us(16);
	f.ack({.rtt_ns = target_ns + us(8)});
	EXPECT_EQ(f.s.fabric_ns, target_ns - us(13));
	EXPECT_EQ(f.v.fabric_action, SWIFT_DECREASE);
	/* No outlier is cut. */
	f = small_flow(0.5);
	f.s.small = SWIFT_SMALL_NEAR;
	f.s.fabric_ns = us(50);
	f.ack({.rtt_ns = us(850)});
	EXPECT_EQ(f.s.fabric_ns, us(150));
	/* A queue that was there is forgotten with the first delay that is short. */
	f = small_flow(0.1);
	f.s.small = SWIFT_SMALL_AWAY;
	f.s.fabric_ns = us(5000);
	target_ns = swift_target_ns(&f.s, &f.p, 0, 0, 0);
	f.ack({.rtt_ns = target_ns + 1});
	EXPECT_GT(f.s.fabric_ns, us(4000));
	target_ns = swift_target_ns(&f.s, &f.p, 0, 0, 0);
	f.ack({.rtt_ns = us(50)});
	EXPECT_EQ(f.s.fabric_ns, target_ns);
}

/* Elsewhere two samples differ by what the queue moved meanwhile. */
TEST(small, D16_noise_is_measured_near_the_target)
{
	Flow f = small_flow(0.5);
	u32 noise_ns;

	noise_ns = f.s.noise_ns = us(10);
	f.s.small = SWIFT_SMALL_AWAY;
	f.s.fabric_ns = us(50);
	f.ack({.rtt_ns = us(80)});
	EXPECT_EQ(f.s.noise_ns, noise_ns);
	f.s.small = SWIFT_SMALL_NEAR;
	f.wait(us(1000)).ack({.rtt_ns = f.s.fabric_ns});
	EXPECT_LT(f.s.noise_ns, noise_ns);
}

TEST(small, D16_packets_are_spaced_by_the_target)
{
	const u32 middle = 0x8000, target_ns = us(100);
	Flow f = small_flow(0.25);
	auto paced_by_ns = [&](bool split, double cwnd, u32 rtt_ns, u32 random) {
		return swift_pacing_rtt_ns(&f.s, split, to_q16(cwnd), rtt_ns, target_ns, random, false);
	};

	f.s.endpoint_ns = us(20);
	for (u8 small : {SWIFT_SMALL_AWAY, SWIFT_SMALL_NEAR}) {
		f.s.small = small;
		/* Of 160 us 20 are the host's: with the target 120, and a quarter of what is more. */
		EXPECT_EQ(paced_by_ns(true, 0.25, us(160), middle), us(130));
		EXPECT_EQ(paced_by_ns(true, 0.25, us(100), middle), us(115));
		EXPECT_EQ(paced_by_ns(false, 0.25, us(160), middle), us(115));
		/* An eighth more or less of what is not the newest's. */
		EXPECT_EQ(paced_by_ns(true, 0.25, us(120), 0), us(120) - us(120) * 3 / 32);
		EXPECT_NEAR(paced_by_ns(true, 0.25, us(120), ~0U), us(120) + us(120) * 3 / 32, 2);
		EXPECT_EQ(paced_by_ns(true, 1, us(160), 0), us(160));
		/* The host's delay may be of an earlier ACK. */
		EXPECT_EQ(paced_by_ns(true, 0.25, us(10), middle), us(85));
		/* The host is the limit: as in the paper. */
		EXPECT_EQ(paced_by_ns(true, 0.125, us(160), 0), us(160));
	}
	/* Nor is there a target without a base. */
	EXPECT_EQ(swift_pacing_rtt_ns(&f.s, true, to_q16(0.25), us(160), SWIFT_U32_MAX, 0, false), us(160));
	f.s.small = SWIFT_NOT_SMALL;
	EXPECT_EQ(paced_by_ns(true, 0.25, us(160), 0), us(160));
}

/* B8 of bpf/bpf_swift.bpf.c. */
TEST(small, D16_where_news_are_a_gap_old_steps_are_an_eighth)
{
	Flow f = small_flow(0.9);

	f.p.late_news = 1;
	ack_off_target(f, 0.5 * scale_us(0.9), 0);
	EXPECT_NEAR(f.fcwnd(), 0.9 - 0.81 / 32 * 0.5, 1e-3);
	/* A quarter of a packet: of what 180 us are more than 100 an eighth counts. */
	f.windows(0.25, 100);
	f.s.small = SWIFT_SMALL_NEAR;
	f.s.endpoint_ns = 0;
	EXPECT_EQ(swift_pacing_rtt_ns(&f.s, true, to_q16(0.25), us(180), us(100), 0x8000, true), us(110));
}

/*
 * The reason for all that: flows share a link, each of which hears of the queue once in rtt / w. What
 * they make of it when they have met.
 */
struct Shared {
	int flows;
	double packet_us, base_us, cwnd;
	int packets;
};

struct Outcome {
	double swing_us, least_share, most_share, jain;
};

Outcome share_a_link(const Shared &link, int starved = -1)
{
	std::vector<Flow> all;
	std::vector<double> sent(link.flows);
	std::priority_queue<std::pair<double, int>> due; /* us, negative: the first comes first */
	double free_us = 0, least_us = 1e9, most_us = 0, sum = 0, squares = 0;
	Draw d = {u64(link.flows)};

	for (int i = 0; i < link.flows; i++) {
		all.emplace_back();
		all[i].ack({.rtt_ns = us(link.base_us), .cwnd_limited = false});
		all[i].windows(i == starved ? 0.001 : link.cwnd, 100);
		due.emplace(-i * link.packet_us, i);
	}
	for (int packets = 0; packets < link.packets; packets++) {
		auto [negative_us, i] = due.top();
		double sent_us = -negative_us, rtt_us;
		u32 cwnd_q16, paced_by_ns;

		due.pop();
		free_us = std::max(free_us, sent_us) + link.packet_us;
		rtt_us = link.base_us + free_us - sent_us;
		all[i].now_ns = u64(1000 * (sent_us + rtt_us));
		all[i].ack({.rtt_ns = us(rtt_us)});
		cwnd_q16 = swift_cwnd_q16(&all[i].s);
		paced_by_ns = swift_pacing_rtt_ns(&all[i].s, true, cwnd_q16, us(rtt_us),
						  swift_target_ns(&all[i].s, &all[i].p, 0, 0, 0), u32(d.below(1ULL << 32)), false);
		due.emplace(-sent_us - std::max(rtt_us, double(swift_pacing_delay_ns(cwnd_q16, paced_by_ns)) / 1000), i);
		if (packets >= link.packets * 3 / 4) {
			least_us = std::min(least_us, rtt_us);
			most_us = std::max(most_us, rtt_us);
			sent[i]++;
		}
	}
	for (double share : sent) {
		sum += share;
		squares += share * share;
	}
	auto [least, most] = std::minmax_element(sent.begin(), sent.end());
	return {most_us - least_us, *least * link.flows / sum, *most * link.flows / sum,
		sum * sum / (link.flows * squares)};
}

TEST(small, D16_flows_of_a_part_of_a_packet_keep_a_steady_queue_and_have_equal_shares)
{
	/* 512 at 10 Gb/s; 512 at 1 Gb/s, a 20th of a packet each; eight at 100 Mbit/s with packets of 4 KB. */
	Outcome ten = share_a_link({512, 1.2, 20, 0.3, 400000});
	Outcome one = share_a_link({512, 12, 20, 0.1, 400000});
	Outcome slow = share_a_link({8, 120, 20, 0.1, 40000});

	EXPECT_LT(ten.swing_us, 60);
	EXPECT_GT(ten.jain, 0.999);
	EXPECT_LT(one.swing_us, 600);
	EXPECT_GT(one.jain, 0.995);
	EXPECT_LT(slow.swing_us, 800);
	EXPECT_GT(slow.jain, 0.99);
}

/* Begun at the smallest window, among others that keep a queue. */
TEST(small, D16_nobody_is_left_behind)
{
	EXPECT_GT(share_a_link({512, 1.2, 20, 0.3, 400000}, 7).least_share, 0.8);
	EXPECT_GT(share_a_link({16, 12, 20, 0.7, 200000}, 7).least_share, 0.8);
}

/* --- D10: what the host's flows know together, and the handshake ---------------------------------------- */

Flow learner(u32 policy = SWIFT_TARGET_BASE_RTT)
{
	return Flow(tunables({{"target_policy", policy}, {"fs_range_ns", 0}}));
}

TEST(D10_path, a_flow_believes_no_more_than_another_saw)
{
	Flow f = learner();

	f.ack({.rtt_ns = us(300), .path_base_ns = us(100)}); /* its own first delay is a queue's */
	EXPECT_EQ(f.v.fabric_target_ns, us(100));
	EXPECT_EQ(f.v.fabric_action, SWIFT_DECREASE);
}

TEST(D10_path, what_others_saw_does_not_lengthen_a_target)
{
	Flow f = learner();

	f.ack({.rtt_ns = us(100), .path_base_ns = us(300)});
	EXPECT_EQ(f.v.fabric_target_ns, us(100));
}

TEST(D10_path, what_others_saw_is_not_kept)
{
	Flow f = learner();

	f.ack({.rtt_ns = us(300), .path_base_ns = us(100)});
	f.ack({.rtt_ns = us(300)}); /* nobody knows any more */
	EXPECT_EQ(f.v.fabric_target_ns, us(300));
}

TEST(D10_path, a_static_target_learns_nothing)
{
	Flow f = learner(kStatic);

	f.ack({.rtt_ns = us(300), .path_base_ns = us(1)});
	EXPECT_EQ(f.v.fabric_target_ns, us(50));
}

TEST(D10_path, others_are_told_what_the_base_learnt_from)
{
	Flow f = learner();

	f.ack({.rtt_ns = us(300), .remote_ns = us(100)});
	EXPECT_EQ(f.v.base_sample_ns, us(200));
	f.ack({.rtt_ns = us(400), .has_echo = false}); /* guessed: D5 */
	EXPECT_EQ(f.v.base_sample_ns, 0U);
	f.ack({.rtt_ns = us(400), .remote_ns = us(401)}); /* impossible */
	EXPECT_EQ(f.v.base_sample_ns, 0U);
	f.ack({.rtt_ns = us(250), .path_base_ns = us(10)}); /* not what they told us */
	EXPECT_EQ(f.v.base_sample_ns, us(250));
	f.ack({.rtt_ns = 0});
	EXPECT_EQ(f.v.base_sample_ns, 0U);
}

TEST(D10_path, v0_tells_the_rtt)
{
	Flow f(tunables({{"split", 0}}));

	f.ack({.rtt_ns = us(300), .remote_ns = us(100)});
	EXPECT_EQ(f.v.base_sample_ns, us(300));
}

TEST(D10_handshake, bounds_the_base_by_its_rtt_and_two_links)
{
	Flow f = learner();

	swift_on_handshake(&f.s, &f.p, f.now_ns, us(20), 1448, 1000);
	EXPECT_EQ(swift_target_ns(&f.s, &f.p, 0, 0, 0), us(20) + 16 * 1448);
	f.ack({.rtt_ns = us(300)});
	EXPECT_EQ(f.v.fabric_target_ns, us(20) + 16 * 1448);
	for (int i = 0; i < 90; i++)
		f.ack({.rtt_ns = us(25)});
	EXPECT_EQ(f.v.fabric_target_ns, us(25));
}

TEST(D10_handshake, allows_for_the_rate_of_the_link)
{
	struct {
		u32 mss_bytes, mbps, want_ns;
	} cases[] = {
		{1448, 0, 23168}, /* unknown: 1 Gb/s */
		{1448, 100, 231680}, {1448, 10000, 2316}, {8948, 400000, 357},
		{SWIFT_U32_MAX, 1, 1048560000}, {1448, SWIFT_U32_MAX, 0},
	};

	for (auto &c : cases) {
		Flow f = learner();

		swift_on_handshake(&f.s, &f.p, f.now_ns, us(20), c.mss_bytes, c.mbps);
		EXPECT_EQ(swift_target_ns(&f.s, &f.p, 0, 0, 0), us(20) + c.want_ns) << c.mbps;
	}
}

TEST(D10_handshake, saturates)
{
	Flow f = learner();

	swift_on_handshake(&f.s, &f.p, f.now_ns, SWIFT_U32_MAX, 1448, 0);
	EXPECT_EQ(swift_target_ns(&f.s, &f.p, 0, 0, 0), SWIFT_U32_MAX);
}

/* --- D11: draining together -------------------------------------------------------------------------------- */

constexpr u32 kPeriod = 1000000000 / 64;

TEST(D11_drain, is_at_each_multiple_of_a_period_for_two_RTTs)
{
	Flow f = learner();
	const u32 start = 7 * kPeriod;

	EXPECT_FALSE(swift_in_drain(&f.p, us(20), us(40), start - 1));
	EXPECT_TRUE(swift_in_drain(&f.p, us(20), us(40), start));
	EXPECT_TRUE(swift_in_drain(&f.p, us(20), us(40), start + us(80) - 1));
	EXPECT_FALSE(swift_in_drain(&f.p, us(20), us(40), start + us(80)));
}

TEST(D11_drain, comes_more_rarely_on_long_paths_and_then_with_all_others)
{
	Flow f = learner();
	struct {
		u32 base_ns;
		u32 periods;
	} cases[] = {{1, 1}, {122070, 1}, {122071, 2}, {us(300), 4}, {us(5000), 64}, {SWIFT_U32_MAX - 1, 64}};

	for (auto &c : cases) {
		for (u32 k = 0; k < 64; k++)
			EXPECT_EQ(swift_in_drain(&f.p, c.base_ns, us(1), k * kPeriod), k % c.periods == 0) << c.base_ns << ' ' << k;
	}
}

TEST(D11_drain, is_none_for_a_static_target_or_before_anything_is_known)
{
	Flow fixed = learner(kStatic), f = learner();

	EXPECT_FALSE(swift_in_drain(&fixed.p, us(20), us(40), 0));
	EXPECT_FALSE(swift_in_drain(&f.p, SWIFT_U32_MAX, us(40), 0));
	EXPECT_TRUE(swift_in_drain(&f.p, us(20), us(40), 0));
}

TEST(D11_drain, is_at_no_moment_that_could_not_be_one)
{
	Flow f = learner();
	u32 drains = 0;

	for (u32 n = 0; n < 200000; n++) {
		u32 second_ns = u32(n * 2654435761ULL % 1000000000), rtt_ns = us(1 + n % 3000);
		bool drain = swift_in_drain(&f.p, us(1) << n % 24, rtt_ns, second_ns);

		drains += drain;
		EXPECT_TRUE(!drain || swift_may_drain(rtt_ns, second_ns)) << n;
	}
	EXPECT_GT(drains, 100U);
	EXPECT_FALSE(swift_may_drain(us(100), us(200)));
}

TEST(D11_drain, is_no_longer_than_a_32nd_of_its_period)
{
	Flow f = learner();

	EXPECT_TRUE(swift_in_drain(&f.p, us(20), us(50000), kPeriod / 32 - 1));
	EXPECT_FALSE(swift_in_drain(&f.p, us(20), us(50000), kPeriod / 32));
	EXPECT_FALSE(swift_in_drain(&f.p, us(20), SWIFT_U32_MAX, kPeriod - 1));
}

TEST(D11_drain, leaves_a_quarter_of_the_window)
{
	Flow f = learner();

	EXPECT_EQ(swift_drain_q16(&f.p, to_q16(40), true), to_q16(10));
	EXPECT_EQ(swift_drain_q16(&f.p, to_q16(1), true), to_q16(.25));
}

TEST(D11_drain, leaves_windows_below_one_packet_alone)
{
	Flow f = learner();

	EXPECT_EQ(swift_drain_q16(&f.p, to_q16(.9), true), to_q16(.9));
	EXPECT_EQ(swift_drain_q16(&f.p, to_q16(.9), false), to_q16(.9));
}

TEST(D11_drain, leaves_the_smallest_window)
{
	Flow f(tunables({{"min_cwnd_micro", 10000000}}));

	EXPECT_EQ(swift_drain_q16(&f.p, to_q16(12), true), to_q16(10));
	EXPECT_EQ(swift_drain_q16(&f.p, to_q16(12), false), to_q16(10));
}

TEST(D11_drain, leaves_two_packets_to_a_peer_that_may_delay_ACKs)
{
	Flow f = learner();

	EXPECT_EQ(swift_drain_q16(&f.p, to_q16(40), false), to_q16(10));
	EXPECT_EQ(swift_drain_q16(&f.p, to_q16(5), false), to_q16(2));
	EXPECT_EQ(swift_drain_q16(&f.p, to_q16(1.5), false), to_q16(1.5));
}

TEST(base_delay, is_not_forgotten_by_an_ACK_that_came_before_the_last_turn)
{
	Flow f = learner();
	swift_base b;

	swift_base_init(&b);
	swift_base_feed(&b, &f.p, seconds(1000), us(100), 0);
	swift_base_feed(&b, &f.p, seconds(1000) - us(3), us(300), 0); /* another CPU's, which is late */
	EXPECT_EQ(swift_base_ns(&b), us(100));
}

/* --- Loss: 3.6, lines 15 to 25; D8 --------------------------------------------------------------------- */

TEST(fast_recovery, cuts_both_windows_by_max_mdf)
{
	Flow f(plain({{"max_mdf_milli", 300}}));

	f.windows(10, 20);
	EXPECT_TRUE(f.loss(us(100)));
	EXPECT_NEAR(f.fcwnd(), 7, kCwndError);
	EXPECT_NEAR(f.ecwnd(), 14, kCwndError);
}

TEST(fast_recovery, D8_cuts_once_an_rtt_for_as_long_as_losses_are_found)
{
	Flow f(plain());

	f.windows(16, 16);
	EXPECT_TRUE(f.loss(us(100)));
	EXPECT_FALSE(f.wait(us(100) - 1).loss(us(100)));
	EXPECT_NEAR(f.fcwnd(), 8, kCwndError);
	EXPECT_TRUE(f.wait(1).loss(us(100)));
	EXPECT_NEAR(f.fcwnd(), 4, kCwndError);
}

TEST(fast_recovery, does_not_cut_again_what_delay_has_just_cut)
{
	Flow f(plain());

	f.windows(10, 10).ack({.rtt_ns = us(100)});
	f.wait(us(50)).loss(us(100));
	EXPECT_NEAR(f.fcwnd(), 6, kCwndError);
	EXPECT_NEAR(f.ecwnd(), 10.1 / 2, kCwndError);
}

TEST(fast_recovery, resets_the_timeout_counter)
{
	Flow f(plain());

	f.timeout(us(100));
	f.timeout(us(100));
	f.loss(us(100));
	EXPECT_EQ(f.s.retx_cnt, 0);
}

TEST(timeout, cuts_by_max_mdf_when_an_rtt_has_passed)
{
	Flow f(plain());

	f.windows(16, 16);
	EXPECT_FALSE(f.timeout(us(100)));
	EXPECT_NEAR(f.fcwnd(), 8, kCwndError);
	EXPECT_NEAR(f.ecwnd(), 8, kCwndError);
	EXPECT_FALSE(f.wait(us(99)).timeout(us(100))); /* the can_decrease gate of line 20 */
	EXPECT_NEAR(f.fcwnd(), 8, kCwndError);
	EXPECT_EQ(f.s.retx_cnt, 2);
}

TEST(timeout, at_the_threshold_resets_to_min_cwnd_without_asking)
{
	for (u32 threshold : {1U, 3U, 255U}) {
		Flow f(plain({{"retx_reset_threshold", threshold}}));

		f.windows(16, 16);
		for (u32 i = 1; i < threshold; i++) {
			EXPECT_FALSE(f.timeout(us(100))) << i;
		}
		if (threshold > 1) {
			EXPECT_NEAR(f.fcwnd(), 8, kCwndError);
		}
		EXPECT_TRUE(f.timeout(us(100))); /* the same ns: no can_decrease */
		EXPECT_EQ(f.s.fabric.cwnd_q16, f.p.min_cwnd_q16);
		EXPECT_EQ(f.s.endpoint.cwnd_q16, f.p.min_cwnd_q16);
		EXPECT_EQ(f.s.fabric.last_decrease_ns, u32(f.now_ns));
		EXPECT_TRUE(f.timeout(us(100)));
	}
}

TEST(timeout, counter_does_not_wrap)
{
	Flow f(plain({{"retx_reset_threshold", 255}}));

	for (int i = 0; i < 600; i++)
		f.timeout(us(100));
	EXPECT_EQ(f.s.retx_cnt, 255);
}

TEST(timeout, counter_is_reset_by_an_ack)
{
	Flow f(plain());

	f.windows(16, 16).timeout(us(100));
	f.timeout(us(100));
	f.ack({.rtt_ns = us(40)});
	EXPECT_EQ(f.s.retx_cnt, 0);
	EXPECT_FALSE(f.timeout(us(100)));
	EXPECT_FALSE(f.timeout(us(100)));
	EXPECT_TRUE(f.timeout(us(100)));
}

TEST(undo, takes_the_windows_back_to_before_the_episode)
{
	Flow f(plain());

	f.windows(10, 20);
	swift_note_undo(&f.s);
	f.loss(us(100));
	f.wait(us(200));
	f.timeout(us(100));
	EXPECT_NEAR(f.fcwnd(), 2.5, kCwndError);
	swift_undo(&f.s, &f.p);
	EXPECT_EQ(f.fcwnd(), 10);
	EXPECT_EQ(f.ecwnd(), 20);
	EXPECT_EQ(f.s.retx_cnt, 0);
}

TEST(undo, never_shrinks_a_window_and_keeps_to_max_cwnd)
{
	Flow f(plain({{"max_cwnd", 100}}));

	f.windows(10, 10);
	swift_note_undo(&f.s);
	f.windows(30, 5);
	swift_undo(&f.s, &f.p);
	EXPECT_EQ(f.fcwnd(), 30);
	EXPECT_EQ(f.ecwnd(), 10);

	f.s.fabric.undo_cwnd_q16 = to_q16(200); /* max_cwnd was lowered meanwhile */
	swift_undo(&f.s, &f.p);
	EXPECT_EQ(f.fcwnd(), 100);
}

TEST(undo, of_nothing_noted_does_nothing)
{
	Flow f(plain());

	f.windows(10, 12);
	swift_undo(&f.s, &f.p);
	EXPECT_EQ(f.fcwnd(), 10);
	EXPECT_EQ(f.ecwnd(), 12);
}

/* --- Start and restart --------------------------------------------------------------------------------- */

TEST(init, takes_the_parameter_or_the_route)
{
	struct {
		u32 param, route;
		double want;
	} cases[] = {{2, 0, 2}, {2, 10, 10}, {40, 0, 40}, {2, 5000, 4096}, {2, SWIFT_U32_MAX, 4096}};

	for (auto &c : cases) {
		Flow f(tunables({{"init_cwnd", c.param}}));

		swift_init(&f.s, &f.p, c.route);
		EXPECT_EQ(f.fcwnd(), c.want);
		EXPECT_EQ(f.ecwnd(), c.want);
	}
}

TEST(init, may_decrease_at_the_first_ack)
{
	Flow f(plain({{"init_cwnd", 2}}));

	f.ack({.rtt_ns = us(100)});
	EXPECT_NEAR(f.fcwnd(), 2 * 0.6, kCwndError);
}

TEST(idle_restart, halves_towards_the_initial_window)
{
	struct {
		double cwnd;
		u32 rtos;
		double want;
	} cases[] = {{64, 0, 64}, {64, 1, 32}, {64, 3, 8},  {64, 5, 2},
		     {64, 40, 2}, {64, SWIFT_U32_MAX, 2}, {2, 3, 2}, {0.5, 3, 0.5}};

	for (auto &c : cases) {
		Flow f(plain({{"init_cwnd", 2}}));

		f.windows(c.cwnd, c.cwnd * 2);
		swift_on_idle_restart(&f.s, &f.p, c.rtos);
		EXPECT_EQ(f.fcwnd(), c.want) << c.cwnd << " " << c.rtos;
		EXPECT_GE(f.ecwnd(), f.fcwnd());
	}
}

TEST(idle_restart, keeps_to_min_cwnd)
{
	Flow f(plain({{"min_cwnd_micro", 10000000}, {"init_cwnd", 1}}));

	f.windows(20, 10);
	swift_on_idle_restart(&f.s, &f.p, 10);
	EXPECT_EQ(f.fcwnd(), 10);
	EXPECT_EQ(f.ecwnd(), 10);
}

/* --- Swift-v0: one window, one target, the whole RTT ------------------------------------------------------ */

TEST(v0, reacts_to_the_whole_rtt)
{
	Flow f(plain({{"split", 0}}));

	f.windows(10, 10).ack({.rtt_ns = us(100), .remote_ns = us(90)});
	EXPECT_NEAR(f.fcwnd(), 6, kCwndError);
	EXPECT_EQ(f.s.endpoint.cwnd_q16, f.s.fabric.cwnd_q16);
	EXPECT_EQ(f.v.endpoint_action, SWIFT_NO_SAMPLE);
}

TEST(v0, has_no_endpoint_target)
{
	Flow f(plain({{"split", 0}, {"base_target_ns", us(1000)}}));

	f.windows(10, 10).ack({.rtt_ns = us(900), .remote_ns = us(890)});
	EXPECT_NEAR(f.fcwnd(), 10.1, kCwndError);
}

TEST(v0, learns_the_smallest_rtt)
{
	Flow f(tunables({{"split", 0}, {"target_policy", SWIFT_TARGET_BASE_RTT},
			 {"fs_range_ns", 0}}));

	f.ack({.rtt_ns = us(300), .remote_ns = us(100)});
	EXPECT_EQ(f.v.fabric_target_ns, us(300));
}

TEST(v0, a_loss_does_not_cut_again_what_delay_has_just_cut)
{
	Flow f(plain({{"split", 0}}));

	f.windows(10, 10).ack({.rtt_ns = us(100)});
	EXPECT_FALSE(f.wait(us(50)).loss(us(100)));
	EXPECT_NEAR(f.cwnd(), 6, kCwndError);
}

/* --- Sending: 3.4, lines 29 to 32 -------------------------------------------------------------------------- */

TEST(pacing_delay, is_rtt_over_cwnd_below_one_packet)
{
	EXPECT_EQ(swift_pacing_delay_ns(to_q16(0.5), us(30)), us(60)); /* 3.4's example */
	EXPECT_EQ(swift_pacing_delay_ns(to_q16(0.25), us(30)), us(120));
}

TEST(D13_pacing_delay, is_17_to_34_ms_at_most)
{
	const u64 most = 1U << 25;

	EXPECT_NEAR(double(swift_pacing_delay_ns(to_q16(0.5), most / 2 - 1)), double(most - 2), 1);
	EXPECT_EQ(swift_pacing_delay_ns(to_q16(0.5), most / 2), most);
	EXPECT_EQ(swift_pacing_delay_ns(to_q16(0.5), most / 2 + 1), most - 2);
	EXPECT_EQ(swift_pacing_delay_ns(to_q16(0.5), most / 2 + most / 4 - 1), most / 2 + 2);
	EXPECT_EQ(swift_pacing_delay_ns(to_q16(0.5), most / 2 + most / 4), most);
	EXPECT_GT(swift_pacing_delay_ns(to_q16(0.001), SWIFT_U32_MAX), most / 2);
	EXPECT_LE(swift_pacing_delay_ns(to_q16(0.001), SWIFT_U32_MAX), most);
}

TEST(D13_pacing_delay, differs_where_RTTs_do)
{
	double sum_ns = 0;

	for (u32 i = 0; i < 1000; i++)
		sum_ns += double(swift_pacing_delay_ns(to_q16(0.001), us(1000) + 137 * i));
	EXPECT_NEAR(sum_ns / 1000, 0x1.8p24, 0x1p20);
}

TEST(pacing_delay, is_nothing_from_one_packet_on)
{
	EXPECT_EQ(swift_pacing_delay_ns(to_q16(1), us(30)), 0U);
	EXPECT_EQ(swift_pacing_delay_ns(to_q16(50), us(30)), 0U);
	EXPECT_GT(swift_pacing_delay_ns(to_q16(1) - 1, us(300)), us(300));
}

TEST(pacing_rate, is_a_packet_each_pacing_delay)
{
	EXPECT_EQ(swift_pacing_rate_Bps(to_q16(0.5), us(50), 1500), 15000000U);
	EXPECT_EQ(swift_pacing_rate_Bps(to_q16(1), us(50), 1500), ~0ULL);
	EXPECT_EQ(swift_pacing_rate_Bps(to_q16(0.5), 0, 1500), ~0ULL);
	EXPECT_GT(swift_pacing_rate_Bps(66, SWIFT_U32_MAX, 1), 0U); /* never stopped */
	EXPECT_GT(swift_pacing_rate_Bps(to_q16(0.5), 1, SWIFT_U32_MAX), 1ULL << 60);
}

/* New rounds until one has the packet more; false if none has. */
bool reach_extra(swift_dither &d, double cwnd)
{
	for (int round = 0; round < 10; round++)
		if (swift_snd_cwnd_pkts(&d, to_q16(cwnd), true) > u32(cwnd))
			return true;
	return false;
}

TEST(snd_cwnd, averages_to_the_window)
{
	const int rounds = 200;

	for (int centi = 100; centi <= 1000; centi++) {
		double cwnd = centi / 100.0;
		swift_dither d = {};
		u64 sent = 0;

		for (int i = 0; i < rounds; i++) {
			u32 pkts = swift_snd_cwnd_pkts(&d, to_q16(cwnd), true);

			ASSERT_GE(pkts, u32(cwnd));
			ASSERT_LE(pkts, u32(cwnd) + 1);
			sent += pkts;
		}
		EXPECT_NEAR(double(sent) / rounds, cwnd, 1.0 / rounds + 1e-5) << cwnd;
	}
}

TEST(snd_cwnd, is_constant_within_a_round)
{
	swift_dither d = {};

	for (int round = 0; round < 20; round++) {
		u32 pkts = swift_snd_cwnd_pkts(&d, to_q16(2.5), true);

		for (int ack = 0; ack < 3; ack++)
			EXPECT_EQ(swift_snd_cwnd_pkts(&d, to_q16(2.5), false), pkts);
	}
}

TEST(snd_cwnd, a_decrease_acts_at_once)
{
	swift_dither d = {};

	EXPECT_EQ(swift_snd_cwnd_pkts(&d, to_q16(10), true), 10U);
	EXPECT_EQ(swift_snd_cwnd_pkts(&d, to_q16(5), false), 5U);

	ASSERT_TRUE(reach_extra(d, 9.5));
	EXPECT_LE(swift_snd_cwnd_pkts(&d, to_q16(4.75), false), 5U);
}

TEST(snd_cwnd, is_one_packet_below_one)
{
	swift_dither d = {};

	for (double w : {0.999, 0.5, 0.001})
		EXPECT_EQ(swift_snd_cwnd_pkts(&d, to_q16(w), true), 1U) << w;

	/* and the carry of a larger window is not left over */
	ASSERT_TRUE(reach_extra(d, 1.5));
	EXPECT_EQ(swift_snd_cwnd_pkts(&d, to_q16(0.5), false), 1U);
	EXPECT_EQ(swift_snd_cwnd_pkts(&d, to_q16(1.5), false), 1U);
}

/* --- Parameters ------------------------------------------------------------------------------------------------- */

struct Row {
	const char *name;
	u32 def, lo, hi;
};

constexpr Row kRows[] = {
#define SWIFT_X(name, def, lo, hi, doc) {#name, def, lo, hi},
	SWIFT_TUNABLES(SWIFT_X)
#undef SWIFT_X
};

/* Refused by this name, and nothing written. */
void expect_refused(const swift_tunables &t, const char *name)
{
	swift_params p, untouched;
	const char *refused;

	std::memset(&p, 0xa5, sizeof(p));
	untouched = p;
	refused = swift_params_prepare(&p, &t);
	ASSERT_NE(refused, nullptr) << name;
	EXPECT_STREQ(refused, name);
	EXPECT_EQ(std::memcmp(&p, &untouched, sizeof(p)), 0) << name;
}

TEST(params_prepare, accepts_the_defaults_and_each_end_of_each_range)
{
	swift_params p;
	swift_tunables t = tunables();

	EXPECT_EQ(swift_params_prepare(&p, &t), nullptr);
	for (const Row &row : kRows) {
		EXPECT_LE(row.lo, row.def) << row.name;
		EXPECT_LE(row.def, row.hi) << row.name;
		for (u32 value : {row.lo, row.hi}) {
			t = tunables({{row.name, value}});
			/* the partners that the two cross rules need */
			t.fs_max_cwnd_milli = std::max(t.fs_max_cwnd_milli,
						       2 * t.fs_min_cwnd_milli);
			t.max_cwnd = std::max(t.max_cwnd, t.min_cwnd_micro / 1000000);
			EXPECT_EQ(swift_params_prepare(&p, &t), nullptr) << row.name << value;
		}
	}
}

TEST(params_prepare, refuses_what_is_out_of_range_by_name)
{
	for (const Row &row : kRows) {
		expect_refused(tunables({{row.name, row.lo - 1}}), row.name);
		expect_refused(tunables({{row.name, row.hi + 1}}), row.name);
		expect_refused(tunables({{row.name, SWIFT_U32_MAX}}), row.name);
	}
}

TEST(params_prepare, refuses_rows_that_contradict_each_other)
{
	swift_params p;
	swift_tunables t;

	expect_refused(tunables({{"fs_min_cwnd_milli", 500}, {"fs_max_cwnd_milli", 999}}),
		       "fs_max_cwnd_milli");
	expect_refused(tunables({{"fs_min_cwnd_milli", 1000000}}), "fs_max_cwnd_milli");
	t = tunables({{"fs_min_cwnd_milli", 500}, {"fs_max_cwnd_milli", 1000}});
	EXPECT_EQ(swift_params_prepare(&p, &t), nullptr);

	expect_refused(tunables({{"min_cwnd_micro", 1000001}, {"max_cwnd", 1}}), "min_cwnd_micro");
	t = tunables({{"min_cwnd_micro", 1000000}, {"max_cwnd", 1}});
	EXPECT_EQ(swift_params_prepare(&p, &t), nullptr);
}

TEST(params_prepare, converts_to_the_units_of_the_law)
{
	Flow f(tunables({{"min_cwnd_micro", 250000}, {"ai_milli", 1500}, {"rtt_window_ms", 250}}));

	EXPECT_EQ(f.p.min_cwnd_q16, to_q16(0.25));
	EXPECT_EQ(f.p.max_cwnd_q16, to_q16(4096));
	EXPECT_EQ(f.p.ai_q24, 3U << 23);
	EXPECT_EQ(f.p.beta_q24, 13421773U); /* 0.8 * 2^24, to nearest */
	EXPECT_EQ(f.p.max_mdf_q24, 1U << 23);
	EXPECT_EQ(f.p.rtt_window_ns, 250000000U);
	EXPECT_EQ(f.p.late_news, 0);
}

} /* namespace */
