/* SPDX-License-Identifier: GPL-2.0 */
/*
 * GCN: the law of kmod/core/gcn.h against an oracle in doubles, written from the
 * papers and from G1..G4; cases worked out by hand; and a closed loop over a queue
 * that marks.
 *
 * SWIFT_PROPERTY_STEPS sets the number of random steps (default 1.2 million).
 */
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "draw.hpp"
#include "gcn.h"

namespace {

constexpr double kUnit = 1.0 / 65536; /* the last place of a window, packets */

double packets(u32 q16) { return q16 * kUnit; }
u32 to_q16(double pkts) { return u32(std::llround(pkts * 65536)); }

/* --- The oracle ------------------------------------------------------------------- */

struct Oracle {
	const gcn_tunables &t;
	double cwnd, ssthresh, undo, pkts, marked; /* packets */
	u32 round_end;

	Oracle(const gcn_tunables &tunables, const gcn_state &s)
		: t(tunables), cwnd(packets(s.cwnd_q16)),
		  ssthresh(s.ssthresh_q16 == SWIFT_U32_MAX ? HUGE_VAL : packets(s.ssthresh_q16)),
		  undo(packets(s.undo_cwnd_q16)), pkts(s.round_pkts), marked(s.round_marked),
		  round_end(s.round_end)
	{
	}

	double bound(double w) const { return std::min(std::max(w, 1.0), double(t.max_cwnd)); }

	bool on_ack(const gcn_sample &in)
	{
		double ai = t.ai_milli / 1e3, mdf = t.mdf_milli / 1e3;
		double acked = in.acked_pkts, ce = std::min(in.marked_pkts, in.acked_pkts);

		pkts = std::min(pkts + acked, 4294967295.0);
		marked = std::min(marked + ce, 4294967295.0);
		if (ce > 0) /* "upon the first mark": slow start is over */
			ssthresh = std::min(ssthresh, cwnd);
		if (acked > ce && in.cwnd_limited) { /* G2 */
			if (cwnd < ssthresh)
				cwnd = std::min(cwnd + acked - ce, ssthresh);
			else
				cwnd += std::max(kUnit, std::min(ai, ai * (acked - ce) / cwnd));
			cwnd = bound(cwnd);
		}
		if (s32(in.una - round_end) < 0)
			return false;
		bool cut = marked > 0;
		if (cut) /* cwnd <- cwnd (1 - F / 2), F of this round alone */
			ssthresh = cwnd = bound(cwnd * (1 - mdf * marked / pkts));
		pkts = marked = 0;
		round_end = in.nxt;
		return cut;
	}

	void on_loss(u32 nxt)
	{
		ssthresh = cwnd = bound(cwnd * (1 - t.mdf_milli / 1e3));
		pkts = marked = 0;
		round_end = nxt;
	}

	void on_timeout(u32 nxt)
	{
		if (cwnd > 1)
			on_loss(nxt);
		cwnd = 1;
	}

	void on_undo()
	{
		cwnd = bound(std::max(cwnd, undo));
		ssthresh = std::max(ssthresh, cwnd);
	}

	void on_idle(u32 rtos, u32 restart)
	{
		double floor = bound(restart);

		if (cwnd > floor)
			cwnd = std::max(cwnd * std::exp2(-double(rtos)), floor);
	}
};

/* --- Random steps ----------------------------------------------------------------- */

gcn_state draw_state(Draw &d, const gcn_params &p)
{
	gcn_state s;

	gcn_init(&s, &p, d.any32(0, SWIFT_U32_MAX), u32(d.bits()));
	if (d.one_in(8))
		return s;
	s.cwnd_q16 = d.any32(SWIFT_Q16_ONE, p.max_cwnd_q16);
	s.ssthresh_q16 = d.one_in(4) ? SWIFT_U32_MAX :
			 d.one_in(2) ? s.cwnd_q16 : d.any32(SWIFT_Q16_ONE, p.max_cwnd_q16);
	s.undo_cwnd_q16 = d.one_in(2) ? 0 : d.any32(SWIFT_Q16_ONE, p.max_cwnd_q16);
	s.round_pkts = d.any32(0, d.one_in(8) ? SWIFT_U32_MAX : 10000);
	s.round_marked = d.one_in(2) ? 0 : d.any32(0, s.round_pkts);
	return s;
}

gcn_sample draw_sample(Draw &d, const gcn_state &s)
{
	gcn_sample in;

	in.una = s.round_end + (d.one_in(2) ? u32(d.below(5)) - 2 : u32(d.bits()));
	in.nxt = in.una + u32(d.below(1 << 24));
	in.acked_pkts = d.one_in(8) ? d.any32(0, SWIFT_U32_MAX) : u32(d.below(64));
	in.marked_pkts = d.one_in(2) ? 0 : d.one_in(8) ? d.any32(0, SWIFT_U32_MAX) :
							 d.any32(0, in.acked_pkts);
	in.cwnd_limited = !d.one_in(4);
	return in;
}

TEST(gcn_property, agrees_with_the_oracle_and_keeps_its_bounds)
{
	const char *env = std::getenv("SWIFT_PROPERTY_STEPS");
	u64 steps = env ? std::strtoull(env, nullptr, 10) : 1200000;
	Draw d{20200810};
	u64 cuts = 0, rises = 0, wrong = 0, events[6] = {};
	gcn_tunables t{};
	gcn_params p{};
	gcn_state s{};

	for (u64 i = 0; i < steps && wrong < 5; i++) {
		if (i % 8 == 0) { /* walks of eight steps */
#define GCN_X(name, def, lo, hi, doc) t.name = d.any32(lo, hi);
			GCN_TUNABLES(GCN_X)
#undef GCN_X
			ASSERT_EQ(gcn_params_prepare(&p, &t), nullptr);
			s = draw_state(d, p);
		}

		gcn_state before = s;
		gcn_sample in = draw_sample(d, s);
		Oracle want(t, before);
		bool same = true;
		u64 event = std::min<u64>(d.below(16), 5);
		u32 nxt = u32(d.bits()), rtos = d.any32(0, 100), restart = d.any32(1, 65535);

		events[event]++;
		switch (event) {
		case 0:
			gcn_on_loss(&s, &p, nxt);
			want.on_loss(nxt);
			break;
		case 1:
			gcn_on_timeout(&s, &p, nxt);
			want.on_timeout(nxt);
			break;
		case 2:
			gcn_undo(&s, &p);
			want.on_undo();
			break;
		case 3:
			gcn_note_undo(&s);
			want.undo = want.cwnd;
			break;
		case 4:
			gcn_on_idle_restart(&s, &p, rtos, restart);
			want.on_idle(rtos, restart);
			break;
		default:
			same = gcn_on_ack(&s, &p, &in) == want.on_ack(in);
			cuts += s.cwnd_q16 < before.cwnd_q16;
			rises += s.cwnd_q16 > before.cwnd_q16;
		}

		/* 0.1 % or one unit, and the grain of the part that goes. */
		double tolerance = kUnit + 1e-3 * want.cwnd + packets(before.cwnd_q16) * 0x1p-22;
		bool agrees =
			same && std::abs(packets(s.cwnd_q16) - want.cwnd) <= tolerance &&
			s.cwnd_q16 >= SWIFT_Q16_ONE && s.cwnd_q16 <= p.max_cwnd_q16 &&
			(s.ssthresh_q16 == SWIFT_U32_MAX ?
				 want.ssthresh == HUGE_VAL :
				 std::abs(packets(s.ssthresh_q16) - want.ssthresh) <=
					 tolerance + 1e-3 * want.ssthresh) &&
			packets(s.undo_cwnd_q16) == want.undo && s.round_end == want.round_end &&
			s.round_pkts == want.pkts && s.round_marked == want.marked;

		if (!agrees) {
			wrong++;
			ADD_FAILURE() << "step " << i << " event " << event << " cwnd "
				      << packets(before.cwnd_q16) << " -> " << packets(s.cwnd_q16)
				      << ", want " << want.cwnd << "; ssthresh "
				      << packets(before.ssthresh_q16) << " -> "
				      << packets(s.ssthresh_q16) << ", want " << want.ssthresh
				      << "; acked " << in.acked_pkts << " marked " << in.marked_pkts;
		}
	}
	EXPECT_GT(cuts, steps / 20);
	EXPECT_GT(rises, steps / 20);
	for (u64 n : events)
		EXPECT_GT(n, steps / 20);
}

/* --- Cases -------------------------------------------------------------------------- */

struct Flow {
	gcn_tunables t;
	gcn_params p{};
	gcn_state s{};
	u32 una = 4294960000U; /* sequence numbers wrap */

	explicit Flow(double cwnd = 10, bool slow_start = false)
	{
		gcn_tunables_default(&t);
		EXPECT_EQ(gcn_params_prepare(&p, &t), nullptr);
		gcn_init(&s, &p, 10, una + 1000);
		s.cwnd_q16 = to_q16(cwnd);
		if (!slow_start)
			s.ssthresh_q16 = s.cwnd_q16;
	}

	double cwnd() const { return packets(s.cwnd_q16); }

	/* Within the round. */
	bool ack(u32 acked, u32 marked = 0, bool limited = true)
	{
		gcn_sample in = {una, una + 1000, acked, marked, limited};

		return gcn_on_ack(&s, &p, &in);
	}

	/* The last of it. */
	bool end_round(u32 acked, u32 marked = 0, bool limited = true)
	{
		una = s.round_end;
		return ack(acked, marked, limited);
	}
};

TEST(gcn, cuts_by_half_of_the_marked_fraction_of_the_round)
{
	struct {
		u32 acked, marked;
		double want;
	} cases[] = {{100, 100, 50}, {100, 50, 75}, {100, 1, 99.5}, {4, 1, 87.5}};

	for (auto &c : cases) {
		Flow f(100);

		EXPECT_TRUE(f.end_round(c.acked, c.marked, false));
		EXPECT_NEAR(f.cwnd(), c.want, 1e-3) << c.marked;
	}
}

TEST(gcn, does_not_remember_the_rounds_before)
{
	Flow f(100);

	for (int i = 0; i < 20; i++)
		EXPECT_FALSE(f.end_round(100, 0, false));
	EXPECT_TRUE(f.end_round(100, 100, false)); /* DCTCP's average would be at 1/16 */
	EXPECT_NEAR(f.cwnd(), 50, 1e-3);
	EXPECT_FALSE(f.end_round(50, 0, false));
	EXPECT_NEAR(f.cwnd(), 50, 1e-3);
}

TEST(gcn, G1_cuts_once_at_the_end_of_the_round)
{
	Flow f(100);

	for (int i = 0; i < 49; i++)
		EXPECT_FALSE(f.ack(2, 1, false));
	EXPECT_EQ(f.cwnd(), 100);
	EXPECT_TRUE(f.end_round(2, 1, false));
	EXPECT_NEAR(f.cwnd(), 75, 1e-3);
}

TEST(gcn, adds_ai_a_round_without_marks)
{
	Flow f(100);

	for (int i = 0; i < 99; i++)
		f.ack(1);
	f.end_round(1);
	EXPECT_NEAR(f.cwnd(), 101, 0.01);
}

TEST(gcn, G2_a_marked_packet_does_not_grow_the_window)
{
	Flow f(100);

	f.ack(10, 10);
	EXPECT_EQ(f.cwnd(), 100);
	f.ack(10, 5);
	EXPECT_NEAR(f.cwnd(), 100.05, 1e-3);
}

TEST(gcn, G4_one_ack_adds_ai_at_most)
{
	Flow f(4);

	f.ack(60);
	EXPECT_EQ(f.cwnd(), 5);
}

TEST(gcn, slow_start_doubles_until_the_first_mark)
{
	Flow f(10, true);

	f.ack(10);
	EXPECT_EQ(f.cwnd(), 20);
	f.ack(2, 1);
	EXPECT_NEAR(f.cwnd(), 20 + 1.0 / 20, 1e-3); /* at once, not at the end of the round */
	EXPECT_TRUE(f.end_round(8, 0, false));
	EXPECT_NEAR(f.cwnd(), 20.05 * (1 - 0.5 * 1 / 20), 1e-3);
}

TEST(gcn, needs_a_flow_that_its_window_holds_back)
{
	Flow f(10);

	f.ack(10, 0, false);
	EXPECT_EQ(f.cwnd(), 10);
}

TEST(gcn, G3_is_never_below_one_packet)
{
	Flow f(1.25);

	for (int i = 0; i < 10; i++)
		f.end_round(1, 1);
	EXPECT_EQ(f.cwnd(), 1);
	EXPECT_EQ(gcn_cwnd_pkts(&f.s), 1U);
	gcn_on_loss(&f.s, &f.p, 0);
	gcn_on_timeout(&f.s, &f.p, 0);
	EXPECT_EQ(f.cwnd(), 1);
}

TEST(gcn, a_loss_halves_and_answers_the_marks_of_its_round)
{
	Flow f(100);

	f.ack(50, 50);
	gcn_on_loss(&f.s, &f.p, f.una + 1000);
	EXPECT_NEAR(f.cwnd(), 50, 1e-3);
	EXPECT_FALSE(f.end_round(50, 0, false));
	EXPECT_NEAR(f.cwnd(), 50, 1e-3);
}

TEST(gcn, a_timeout_starts_slowly_up_to_half)
{
	Flow f(100);

	gcn_on_timeout(&f.s, &f.p, f.una + 1000);
	EXPECT_EQ(f.cwnd(), 1);
	gcn_on_timeout(&f.s, &f.p, f.una + 1000); /* in a row: half of the hundred still */
	for (int i = 0; i < 5; i++)
		f.ack(gcn_cwnd_pkts(&f.s));
	EXPECT_EQ(f.cwnd(), 32);
	f.ack(32);
	EXPECT_NEAR(f.cwnd(), 50, 1e-3);
}

TEST(gcn, an_undo_restores_what_was_noted_and_never_shrinks)
{
	Flow f(100);

	gcn_note_undo(&f.s);
	gcn_on_timeout(&f.s, &f.p, 0);
	gcn_undo(&f.s, &f.p);
	EXPECT_EQ(f.cwnd(), 100);
	f.s.cwnd_q16 = to_q16(200);
	gcn_undo(&f.s, &f.p);
	EXPECT_EQ(f.cwnd(), 200);
}

TEST(gcn, silence_halves_towards_the_restart_window)
{
	Flow f(100);

	gcn_on_idle_restart(&f.s, &f.p, 1, 10);
	EXPECT_EQ(f.cwnd(), 50);
	gcn_on_idle_restart(&f.s, &f.p, 60, 10);
	EXPECT_EQ(f.cwnd(), 10);
	f.s.cwnd_q16 = to_q16(2);
	gcn_on_idle_restart(&f.s, &f.p, 60, 10);
	EXPECT_EQ(f.cwnd(), 2);
}

TEST(gcn, tunables_are_checked)
{
	gcn_tunables t;
	gcn_params p;

	gcn_tunables_default(&t);
	EXPECT_EQ(gcn_params_prepare(&p, &t), nullptr);
	t.mdf_milli = 1001;
	EXPECT_STREQ(gcn_params_prepare(&p, &t), "mdf_milli");
	t.mdf_milli = 0;
	EXPECT_STREQ(gcn_params_prepare(&p, &t), "mdf_milli");
	gcn_tunables_default(&t);
	t.max_cwnd = 0;
	EXPECT_STREQ(gcn_params_prepare(&p, &t), "max_cwnd");
}

/* --- Closed loop ---------------------------------------------------------------------- */

/* Rounds over a bottleneck of @bdp packets per RTT that marks above @k queued ones. */
struct Loop {
	double utilization = 0, queue = 0, least = HUGE_VAL;

	Loop(size_t n, double bdp, double k, int rounds)
	{
		std::vector<Flow> flows(n, Flow(2, true));

		for (int r = 0; r < rounds; r++) {
			double sum = 0;

			for (Flow &f : flows)
				sum += gcn_cwnd_pkts(&f.s);
			double over = std::max(0.0, sum - bdp - k); /* of the sum: marked */

			for (Flow &f : flows) {
				u32 pkts = gcn_cwnd_pkts(&f.s);
				u32 marked = u32(std::lround(pkts * std::min(1.0, over / k)));

				f.end_round(pkts, marked);
			}
			if (r >= rounds / 2) {
				utilization += std::min(1.0, sum / bdp) / (rounds - rounds / 2);
				queue += std::max(0.0, sum - bdp) / (rounds - rounds / 2);
				least = std::min(least, sum);
			}
		}
	}
};

TEST(gcn_loop, keeps_the_queue_near_the_marking_threshold)
{
	Loop loop(4, 100, 20, 2000);

	RecordProperty("utilization", std::to_string(loop.utilization));
	RecordProperty("queue", std::to_string(loop.queue));
	EXPECT_GT(loop.utilization, 0.99);
	EXPECT_GT(loop.queue, 5);
	EXPECT_LT(loop.queue, 40);
}

/* Table 3: with more flows than the path holds packets, marks no longer help. */
TEST(gcn_loop, an_incast_beyond_a_packet_each_stands_in_the_queue)
{
	Loop loop(1000, 100, 20, 200);

	EXPECT_EQ(loop.least, 1000);
}

} /* namespace */
