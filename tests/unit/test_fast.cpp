/* SPDX-License-Identifier: GPL-2.0 */
/*
 * FAST*: the law of kmod/core/fast.h against an oracle in doubles, written from the
 * papers and from F1..F4; cases worked out by hand; and a closed loop over a queue.
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
#include "fast.h"

namespace {

constexpr double kMbps = 1e6 / 8; /* bytes/s */

/* --- The oracle ------------------------------------------------------------------- */

struct Oracle {
	const fast_tunables &t;
	double rate, last, base, acked;

	Oracle(const fast_tunables &tunables, const fast_state &s)
		: t(tunables), rate(double(s.rate_Bps)), last(double(s.last_ns)), base(s.base_rtt_ns),
		  acked(s.acked_bytes)
	{
	}

	double bound(double r) const
	{
		return std::min(std::max(r, t.min_rate_mbps * kMbps), t.max_rate_mbps * kMbps);
	}

	bool on_ack(const fast_sample &in)
	{
		double gamma = t.gamma_milli / 1e3, alpha = t.alpha_mbps * kMbps, rtt = in.rtt_ns;

		acked = std::min(acked + in.acked_bytes, 4294967295.0);
		if (rtt == 0)
			return false;
		base = std::min(base, rtt); /* F2 */
		if (acked < t.seg_bytes)
			return false;
		acked = 0;
		gamma *= std::min(1.0, (double(in.now_ns) - last) / rtt); /* F1 */
		last = double(in.now_ns);

		double next = std::min(2 * rate, (1 - gamma) * rate + gamma * (base / rtt * rate + alpha));

		if (next > rate && double(in.app_Bps) < t.app_share_milli / 1e3 * rate)
			next = rate;
		rate = bound(next);
		return true;
	}

	void on_loss() { rate = bound(rate / 2); }
};

/* --- Random steps ----------------------------------------------------------------- */

fast_state draw_state(Draw &d, const fast_params &p)
{
	fast_state s;

	fast_init(&s, &p);
	if (d.one_in(8))
		return s;
	s.rate_Bps = d.any(p.min_Bps, p.max_Bps);
	s.last_ns = d.below(1ULL << 50);
	s.base_rtt_ns = d.any32(1, SWIFT_U32_MAX);
	s.acked_bytes = d.any32(0, d.one_in(8) ? SWIFT_U32_MAX : p.seg_bytes);
	return s;
}

fast_sample draw_sample(Draw &d, const fast_state &s)
{
	fast_sample in;

	in.now_ns = s.last_ns + d.any(0, 1ULL << 33);
	in.rtt_ns = d.one_in(16) ? 0 :
		    d.one_in(2) ? d.any32(1, SWIFT_U32_MAX) :
				  u32(std::min(s.base_rtt_ns * (1 + d.unit()), 4294967295.0));
	in.acked_bytes = d.any32(0, d.one_in(8) ? SWIFT_U32_MAX : 65536);
	in.app_Bps = d.one_in(2) ? ~0ULL : d.any(0, 2 * s.rate_Bps);
	return in;
}

TEST(fast_property, agrees_with_the_oracle_and_keeps_its_bounds)
{
	const char *env = std::getenv("SWIFT_PROPERTY_STEPS");
	u64 steps = env ? std::strtoull(env, nullptr, 10) : 1200000;
	Draw d{20060701};
	u64 cuts = 0, rises = 0, wrong = 0, losses = 0;
	fast_tunables t{};
	fast_params p{};
	fast_state s{};

	for (u64 i = 0; i < steps && wrong < 5; i++) {
		if (i % 8 == 0) { /* walks of eight steps */
			do {
#define FAST_X(name, def, lo, hi, doc) t.name = d.any32(lo, hi);
				FAST_TUNABLES(FAST_X)
#undef FAST_X
			} while (fast_params_prepare(&p, &t));
			s = draw_state(d, p);
		}

		fast_state before = s;
		fast_sample in = draw_sample(d, s);
		Oracle want(t, before);
		bool same = true;

		if (d.one_in(16)) {
			fast_on_loss(&s, &p);
			want.on_loss();
			losses++;
		} else {
			/* At the edge of what counts as the application's: either is right. */
			if (std::abs(double(in.app_Bps) - t.app_share_milli / 1e3 * want.rate) <
			    2 + want.rate * 1e-6)
				in.app_Bps = ~0ULL;
			same = fast_on_ack(&s, &p, &in) == want.on_ack(in);
			cuts += s.rate_Bps < before.rate_Bps;
			rises += s.rate_Bps > before.rate_Bps;
		}

		double tolerance = 4 + double(before.rate_Bps) * 0x1p-22 +
				   double(p.alpha_Bps) * 0x1p-22;
		u32 cwnd = fast_cwnd_pkts(&s, &p, in.rtt_ns, 1448);
		double grain = double(s.rate_Bps) * 1e-6 / 1448; /* the window's time is in us */
		double outstanding = double(s.rate_Bps) * 1e-9 *
				     std::max(2.0 * in.rtt_ns, double(t.in_flight_ns)) / 1448;
		bool agrees = same && std::abs(double(s.rate_Bps) - want.rate) <= tolerance &&
			      s.rate_Bps >= p.min_Bps && s.rate_Bps <= p.max_Bps &&
			      s.base_rtt_ns == want.base && s.acked_bytes == want.acked &&
			      double(s.last_ns) == want.last && cwnd >= 4 &&
			      (cwnd == 4 ? outstanding < 5 + grain :
					   std::abs(cwnd - outstanding) < 1 + grain ||
						   (cwnd == SWIFT_U32_MAX && outstanding > cwnd));

		if (!agrees) {
			wrong++;
			ADD_FAILURE() << "step " << i << " rate " << before.rate_Bps << " -> "
				      << s.rate_Bps << ", want " << want.rate << "; rtt " << in.rtt_ns
				      << " base " << before.base_rtt_ns << " acked " << in.acked_bytes
				      << " cwnd " << cwnd << " for " << outstanding;
		}
	}
	EXPECT_GT(cuts, steps / 20);
	EXPECT_GT(rises, steps / 20);
	EXPECT_GT(losses, steps / 40);
}

/* --- Cases -------------------------------------------------------------------------- */

struct Flow {
	fast_tunables t;
	fast_params p{};
	fast_state s{};
	u64 now_ns = 1000000000;

	explicit Flow(u32 alpha_mbps = 50, u32 gamma_milli = 500)
	{
		fast_tunables_default(&t);
		t.alpha_mbps = alpha_mbps;
		t.gamma_milli = gamma_milli;
		EXPECT_EQ(fast_params_prepare(&p, &t), nullptr);
		fast_init(&s, &p);
	}

	double mbps() const { return double(s.rate_Bps) / kMbps; }
	void set_mbps(double mbps) { s.rate_Bps = u64(mbps * kMbps); }

	/* A segment, @after_ns the one before. */
	bool segment(u32 rtt_ns, u64 after_ns = 1000000, u64 app_Bps = ~0ULL)
	{
		fast_sample in = {now_ns += after_ns, app_Bps, rtt_ns, t.seg_bytes};

		return fast_on_ack(&s, &p, &in);
	}
};

TEST(fast, grows_by_gamma_alpha_while_nothing_is_queued)
{
	Flow f(50);

	EXPECT_TRUE(f.segment(20000));
	EXPECT_NEAR(f.mbps(), 1025, 0.001);
	EXPECT_TRUE(f.segment(20000));
	EXPECT_NEAR(f.mbps(), 1050, 0.001);
}

TEST(fast, shrinks_by_what_of_it_is_queued)
{
	Flow f(50);

	f.segment(20000);
	f.set_mbps(1000);
	f.segment(40000); /* half of an RTT is queueing */
	EXPECT_NEAR(f.mbps(), 1000 + 0.5 * (50 - 500), 0.001);
}

TEST(fast, rests_where_alpha_is_queued)
{
	Flow f(100);

	f.segment(20000);
	f.set_mbps(500);
	f.segment(25000); /* 500 (1 - 20 / 25) = 100 */
	EXPECT_NEAR(f.mbps(), 500, 0.001);
}

TEST(fast, at_most_doubles)
{
	Flow f(1000, 1000);

	f.segment(20000);
	f.set_mbps(10);
	f.segment(20000);
	EXPECT_NEAR(f.mbps(), 20, 0.001);
}

TEST(fast, F1_an_update_sooner_than_an_RTT_counts_for_less)
{
	Flow f(50);

	f.segment(20000);
	f.set_mbps(1000);
	f.segment(20000, 5000);
	EXPECT_NEAR(f.mbps(), 1000 + 25 * 0.25, 0.001);
}

TEST(fast, F2_the_smallest_RTT_is_of_every_ACK)
{
	Flow f(50);
	fast_sample part = {f.now_ns, ~0ULL, 10000, 1448};

	EXPECT_FALSE(fast_on_ack(&f.s, &f.p, &part)); /* no segment's end */
	EXPECT_EQ(f.s.base_rtt_ns, 10000U);
	f.set_mbps(1000);
	f.segment(20000);
	EXPECT_NEAR(f.mbps(), 1000 + 0.5 * (50 - 500), 0.001);
}

TEST(fast, a_segment_is_acked_in_parts)
{
	Flow f;
	fast_sample part = {f.now_ns, ~0ULL, 20000, 8192};

	EXPECT_FALSE(fast_on_ack(&f.s, &f.p, &part));
	EXPECT_TRUE(fast_on_ack(&f.s, &f.p, &part));
	part.rtt_ns = 0; /* without an RTT there is nothing to decide by */
	part.acked_bytes = 60000;
	EXPECT_FALSE(fast_on_ack(&f.s, &f.p, &part));
	part.rtt_ns = 20000;
	part.acked_bytes = 1;
	EXPECT_TRUE(fast_on_ack(&f.s, &f.p, &part));
}

TEST(fast, an_application_that_sends_less_does_not_raise_it)
{
	Flow f(50);
	u64 app_Bps = u64(799 * kMbps);

	f.segment(20000, 1000000, app_Bps);
	EXPECT_NEAR(f.mbps(), 1000, 0.001);
	f.segment(40000, 1000000, app_Bps); /* but it falls */
	EXPECT_NEAR(f.mbps(), 775, 0.001);
}

TEST(fast, F3_a_loss_halves)
{
	Flow f;

	fast_on_loss(&f.s, &f.p);
	EXPECT_NEAR(f.mbps(), 500, 0.001);
	for (int i = 0; i < 40; i++)
		fast_on_loss(&f.s, &f.p);
	EXPECT_NEAR(f.mbps(), 1, 0.001); /* min_rate_mbps */
}

TEST(fast, the_window_does_not_bind_but_is_four_packets_at_least)
{
	Flow f;

	f.set_mbps(1000); /* 125 bytes/us */
	EXPECT_EQ(fast_cwnd_pkts(&f.s, &f.p, 20000, 1250), 100U); /* in 1 ms */
	EXPECT_EQ(fast_cwnd_pkts(&f.s, &f.p, 2000000, 1250), 400U); /* two RTTs */
	f.set_mbps(1);
	EXPECT_EQ(fast_cwnd_pkts(&f.s, &f.p, 20000, 1250), 4U);
}

TEST(fast, tunables_are_checked)
{
	fast_tunables t;
	fast_params p;

	fast_tunables_default(&t);
	EXPECT_EQ(fast_params_prepare(&p, &t), nullptr);
	t.alpha_mbps = 0;
	EXPECT_STREQ(fast_params_prepare(&p, &t), "alpha_mbps");
	fast_tunables_default(&t);
	t.gamma_milli = 1001;
	EXPECT_STREQ(fast_params_prepare(&p, &t), "gamma_milli");
	fast_tunables_default(&t);
	t.max_rate_mbps = 10;
	t.min_rate_mbps = 11;
	EXPECT_STREQ(fast_params_prepare(&p, &t), "max_rate_mbps");
	fast_tunables_default(&t);
	t.init_rate_mbps = t.max_rate_mbps + 1;
	EXPECT_STREQ(fast_params_prepare(&p, &t), "init_rate_mbps");
}

/* --- Closed loop ---------------------------------------------------------------------- */

/*
 * @n flows over one bottleneck, a fluid: at rest each keeps alpha of its rate queued, so
 * n alpha / C of the RTT is queueing.
 */
TEST(fast_loop, rests_with_alpha_of_each_flow_queued)
{
	constexpr size_t n = 40;
	constexpr double line = 20000 * kMbps, base_ns = 20000;

	for (u32 alpha : {10U, 50U, 100U}) {
		std::vector<Flow> flows(n, Flow(alpha));
		double queue = 0; /* bytes */

		for (Flow &f : flows)
			f.segment(u32(base_ns));
		for (int r = 0; r < 20000; r++) {
			double sum = 0, rtt = base_ns + queue / line * 1e9;

			for (Flow &f : flows) {
				f.segment(u32(std::lround(rtt)), u64(std::lround(rtt)));
				sum += double(f.s.rate_Bps);
			}
			queue = std::max(0.0, queue + (sum - line) * rtt * 1e-9 * 0.1);
		}

		double want_ns = base_ns / (1 - n * alpha / 20000.0);
		double rtt_ns = base_ns + queue / line * 1e9;

		EXPECT_NEAR(rtt_ns, want_ns, 0.02 * want_ns) << alpha;
		EXPECT_NEAR(flows[0].mbps(), 500, 10) << alpha;
		EXPECT_EQ(flows[0].s.rate_Bps, flows[n - 1].s.rate_Bps);
	}
}

} /* namespace */
