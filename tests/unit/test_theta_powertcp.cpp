/* SPDX-License-Identifier: GPL-2.0 */
/*
 * theta-PowerTCP: the law of tests/lab/laws/theta_powertcp.h against an oracle in doubles,
 * written from Algorithm 2 of the paper and P1..P6; cases worked out by hand; and a
 * closed loop over a queue.
 *
 * SWIFT_PROPERTY_STEPS sets the number of random steps (default 1.2 million).
 */
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "draw.hpp"
#include "theta_powertcp.h"

namespace {

constexpr double kMbps = 1e6 / 8; /* bytes/s */

/* --- The oracle ------------------------------------------------------------------- */

struct Oracle {
	const theta_tunables &t;
	double cwnd, smooth, base, prev_rtt, prev_ns;
	u32 updated;

	Oracle(const theta_tunables &tunables, const theta_state &s)
		: t(tunables), cwnd(double(s.cwnd_bytes)), smooth(double(s.smooth_q16) / 65536),
		  base(s.base_rtt_ns), prev_rtt(s.prev_rtt_ns), prev_ns(double(s.prev_ns)),
		  updated(s.updated_seq)
	{
	}

	double most() const { return t.host_mbps * kMbps * base * 1e-9; }

	double bound(double bytes) const
	{
		double least = std::max(1.0, std::floor(t.min_rate_mbps * kMbps * base * 1e-9));

		return std::max(std::min(bytes, std::max(most(), least)), least);
	}

	bool on_ack(const theta_sample &in)
	{
		double rtt = in.rtt_ns, gamma = t.gamma_milli / 1e3;

		if (rtt == 0)
			return false;
		if (!t.base_rtt_ns && (base == 0 || rtt < base)) /* P4 */
			base = rtt;
		if (prev_rtt == 0) {
			smooth = rtt / base;
		} else {
			double since = double(in.now_ns) - prev_ns;
			double dt = std::min(since, base); /* P2 */
			/* dt times the power: of 0, the change alone */
			double change = (rtt - prev_rtt) * (since > base ? base / since : 1);

			smooth = smooth * (base - dt) / base + (dt + change) / base * rtt / base;
		}
		prev_rtt = rtt;
		prev_ns = double(in.now_ns);
		if (s32(in.ack_seq - updated) <= 0) /* P5 */
			return false;
		updated = in.next_seq;
		cwnd = bound(gamma * (cwnd / std::max(smooth, 0.5) + most() / t.flows) +
			     (1 - gamma) * cwnd);
		return true;
	}

	void on_loss() { cwnd = base > 0 ? bound(std::floor(cwnd / 2)) : cwnd; }
};

/* --- Random steps ----------------------------------------------------------------- */

theta_sample draw_sample(Draw &d, const theta_state &s)
{
	theta_sample in;
	u32 near = s.prev_rtt_ns ? s.prev_rtt_ns : 20000;

	in.now_ns = s.prev_ns + (d.one_in(4) ? d.any(0, 1ULL << 33) : d.any(0, 2 * near));
	in.rtt_ns = d.one_in(16) ? 0 :
		    d.one_in(32) ? d.any32(1, 1U << 30) :
				  std::max(u32(std::min(near * (0.5 + d.unit()), double(~0U))), 1U);
	in.ack_seq = s.updated_seq + d.any32(0, 3) - 1;
	in.next_seq = in.ack_seq + d.any32(0, 1U << 20);
	return in;
}

TEST(theta_powertcp_property, agrees_with_the_oracle_and_keeps_its_bounds)
{
	const char *env = std::getenv("SWIFT_PROPERTY_STEPS");
	u64 steps = env ? std::strtoull(env, nullptr, 10) : 1200000;
	Draw d{20220404};
	u64 cuts = 0, rises = 0, wrong = 0, losses = 0, cut = 0;
	theta_tunables t{};
	theta_params p{};
	theta_state s{};

	for (u64 i = 0; i < steps && wrong < 5; i++) {
		if (i % 16 == 0) { /* walks of sixteen steps */
			do {
#define THETA_X(name, def, lo, hi, doc) t.name = d.any32(lo, hi);
				THETA_TUNABLES(THETA_X)
#undef THETA_X
				t.base_rtt_ns = d.one_in(2) ? 0 : d.any32(1000, 10000000);
			} while (theta_params_prepare(&p, &t));
			theta_init(&s, &p, d.one_in(2) ? 0 : d.any32(1000, 1000000), 14480,
				   d.any32(0, SWIFT_U32_MAX));
		}

		theta_state before = s;
		theta_sample in = draw_sample(d, s);
		Oracle want(t, before);
		bool same = true, loss = d.one_in(16);

		if (loss) {
			theta_on_loss(&s, &p);
			want.on_loss();
			losses++;
		} else {
			same = theta_on_ack(&s, &p, &in) == want.on_ack(in);
			cuts += s.cwnd_bytes < before.cwnd_bytes;
			rises += s.cwnd_bytes > before.cwnd_bytes;
		}
		/* Powers of thousands are cut short. */
		if (std::max(in.rtt_ns, before.prev_rtt_ns) > 64.0 * s.base_rtt_ns ||
		    std::abs(before.smooth_q16) > THETA_POWER_MAX_Q16 / 4) {
			cut++;
			EXPECT_LE(std::abs(s.smooth_q16), THETA_POWER_MAX_Q16);
			continue;
		}

		/* A step of 1/65536 in each of four terms, and of a ns in one, some times RTT / tau. */
		double base = std::max(s.base_rtt_ns, 1U);
		double grain = (4 + 4.0 * in.rtt_ns / base) / 65536 + in.rtt_ns / base / base;
		double power = std::max(want.smooth, 0.5);
		double tolerance = 8 + double(before.cwnd_bytes) / power * (grain / power + 0x1p-14) +
				   want.most() * 1e-4;
		bool agrees = same && std::abs(double(s.smooth_q16) / 65536 - want.smooth) <= grain &&
			      std::abs(double(s.cwnd_bytes) - want.cwnd) <= tolerance &&
			      s.base_rtt_ns == want.base && s.updated_seq == want.updated &&
			      theta_cwnd_pkts(&s, 1448) >= 4;

		if (!agrees) {
			wrong++;
			ADD_FAILURE() << "step " << i << (loss ? " loss" : "") << " cwnd "
				      << before.cwnd_bytes << " -> " << s.cwnd_bytes << ", want " << want.cwnd << " within " << tolerance
				      << "; power " << double(s.smooth_q16) / 65536 << ", want "
				      << want.smooth << "; rtt " << before.prev_rtt_ns << " -> " << in.rtt_ns
				      << " base " << s.base_rtt_ns << " since " << in.now_ns - before.prev_ns;
		}
	}
	EXPECT_GT(cuts, steps / 20);
	EXPECT_GT(rises, steps / 20);
	EXPECT_GT(losses, steps / 40);
	EXPECT_LT(cut, steps / 2);
}

/* --- Cases -------------------------------------------------------------------------- */

/* 10 Gb/s and 20 us: 25000 bytes, and beta is 2500. */
struct Flow {
	theta_tunables t;
	theta_params p{};
	theta_state s{};
	u64 now_ns = 1000000000;
	u32 seq = 1000;

	explicit Flow(u32 base_rtt_ns = 20000, u32 gamma_milli = 1000)
	{
		theta_tunables_default(&t);
		t.host_mbps = 10000;
		t.base_rtt_ns = base_rtt_ns;
		t.gamma_milli = gamma_milli;
		EXPECT_EQ(theta_params_prepare(&p, &t), nullptr);
		theta_init(&s, &p, 0, 14480, seq);
	}

	/* An ACK of something sent after the last update, or not. */
	bool ack(u32 rtt_ns, u64 after_ns = 20000, bool newer = true)
	{
		theta_sample in = {now_ns += after_ns, rtt_ns, newer ? ++seq : s.updated_seq, seq};

		return theta_on_ack(&s, &p, &in);
	}

	double power() const { return double(s.smooth_q16) / 65536; }
};

TEST(theta_powertcp, begins_at_the_hosts_rate)
{
	Flow f, unknown(0);

	EXPECT_EQ(f.s.cwnd_bytes, 25000U);
	EXPECT_EQ(theta_rate_Bps(&f.s, &f.p), 1250000000U);
	EXPECT_EQ(unknown.s.cwnd_bytes, 14480U);
	EXPECT_EQ(theta_rate_Bps(&unknown.s, &unknown.p), 1250000000U);
}

TEST(theta_powertcp, power_of_a_constant_rtt_is_the_rtt_over_the_base)
{
	Flow f;

	f.ack(20000);
	EXPECT_NEAR(f.power(), 1, 1e-4);
	f.ack(30000);
	f.ack(30000);
	EXPECT_NEAR(f.power(), 1.5, 1e-4);
}

TEST(theta_powertcp, a_rising_rtt_has_more_power)
{
	Flow f;

	f.ack(20000);
	f.ack(30000); /* 10 us in 20: (1 + 1/2) 3/2 */
	EXPECT_NEAR(f.power(), 2.25, 1e-4);
	f.ack(20000); /* (1 - 1/2) 1 */
	EXPECT_NEAR(f.power(), 0.5, 1e-4);
}

TEST(theta_powertcp, an_ack_counts_for_its_part_of_the_base_rtt)
{
	Flow f;

	f.ack(20000);
	f.ack(30000, 0);
	EXPECT_NEAR(f.power(), 1 + 0.5 * 1.5, 1e-4); /* no time, but the change */
	f.ack(30000, 5000); /* a quarter of 1.5, and three of what was */
	EXPECT_NEAR(f.power(), 0.75 * 1.75 + 0.25 * 1.5, 1e-4);
}

TEST(theta_powertcp, P2_more_than_the_base_rtt_is_no_more)
{
	Flow f;

	f.ack(20000);
	f.ack(30000, 100000); /* 10 us in 100: (1 + 1/10) 3/2 */
	EXPECT_NEAR(f.power(), 1.65, 1e-4);
}

TEST(theta_powertcp, the_window_goes_by_power_and_beta)
{
	Flow f;

	f.s.cwnd_bytes = 10000;
	f.ack(20000);
	EXPECT_NEAR(f.s.cwnd_bytes, 12500, 2); /* nothing queued: beta */
	f.ack(40000, 1000000);
	EXPECT_NEAR(f.s.cwnd_bytes, 12500 / (2 * 1.02) + 2500, 2);
	EXPECT_NEAR(theta_rate_Bps(&f.s, &f.p), f.s.cwnd_bytes / 20e-6, 2);
}

TEST(theta_powertcp, P1_gamma_is_the_part_that_is_new)
{
	Flow f(20000, 900);

	f.s.cwnd_bytes = 10000;
	f.ack(40000);
	EXPECT_NEAR(f.s.cwnd_bytes, 0.9 * (5000 + 2500) + 0.1 * 10000, 2);
}

TEST(theta_powertcp, P2_at_most_doubles)
{
	Flow f;

	f.ack(40000);
	f.s.cwnd_bytes = 1000;
	f.ack(20000, 12000); /* 2 x 8/20 - 8/20 */
	EXPECT_NEAR(f.power(), 0.4, 1e-4);
	EXPECT_NEAR(f.s.cwnd_bytes, 2000 + 2500, 2);
}

TEST(theta_powertcp, P3_no_more_than_the_host_sends)
{
	Flow f;

	for (int i = 0; i < 10; i++)
		f.ack(20000);
	EXPECT_EQ(f.s.cwnd_bytes, 25000U);
}

TEST(theta_powertcp, P4_the_least_rtt_is_the_base)
{
	Flow f(0);

	f.ack(30000);
	EXPECT_EQ(f.s.base_rtt_ns, 30000U);
	f.ack(20000);
	f.ack(25000);
	EXPECT_EQ(f.s.base_rtt_ns, 20000U);
}

TEST(theta_powertcp, P5_once_an_rtt)
{
	Flow f;

	f.s.cwnd_bytes = 10000;
	EXPECT_FALSE(f.ack(20000, 20000, false));
	EXPECT_EQ(f.s.cwnd_bytes, 10000U);
	EXPECT_TRUE(f.ack(20000));
	EXPECT_FALSE(f.ack(0)); /* without an RTT there is nothing to decide by */
}

TEST(theta_powertcp, P6_a_loss_halves)
{
	Flow f;

	theta_on_loss(&f.s, &f.p);
	EXPECT_EQ(f.s.cwnd_bytes, 12500U);
	for (int i = 0; i < 40; i++)
		theta_on_loss(&f.s, &f.p);
	EXPECT_EQ(theta_rate_Bps(&f.s, &f.p), 100000U); /* 2 bytes in 20 us: 1 Mbit/s, cut off */
	EXPECT_EQ(theta_cwnd_pkts(&f.s, 1448), 4U);
}

TEST(theta_powertcp, tunables_are_checked)
{
	theta_tunables t;
	theta_params p;

	theta_tunables_default(&t);
	EXPECT_EQ(theta_params_prepare(&p, &t), nullptr);
	t.gamma_milli = 1001;
	EXPECT_STREQ(theta_params_prepare(&p, &t), "gamma_milli");
	theta_tunables_default(&t);
	t.flows = 0;
	EXPECT_STREQ(theta_params_prepare(&p, &t), "flows");
	theta_tunables_default(&t);
	t.min_rate_mbps = t.host_mbps + 1;
	EXPECT_STREQ(theta_params_prepare(&p, &t), "min_rate_mbps");
}

/* --- Closed loop ---------------------------------------------------------------------- */

/*
 * @n flows over one bottleneck, a fluid with 20 ACKs a base RTT: at rest their betas are what
 * is queued (section 3.4).
 */
TEST(theta_powertcp_loop, rests_with_beta_of_each_flow_queued)
{
	constexpr u64 step_ns = 1000;

	for (size_t n : {4U, 10U, 40U}) {
		std::vector<Flow> flows(n, Flow(20000, 900));
		std::vector<double> next_ns(n);
		double rtt_ns = 20000, mean_ns = 0;
		int steps = 40000;

		for (size_t i = 0; i < n; i++)
			next_ns[i] = 20000.0 * double(i) / double(n);
		for (int k = 0; k < steps; k++) {
			double sum = 0;

			for (size_t i = 0; i < n; i++) {
				bool newer = double(k * step_ns) >= next_ns[i];

				flows[i].ack(u32(std::lround(rtt_ns)), step_ns, newer);
				next_ns[i] += newer ? rtt_ns : 0;
				sum += double(flows[i].s.cwnd_bytes);
			}
			rtt_ns = std::max(20000.0, sum / 1.25); /* what is out, at 1.25 bytes a ns */
			mean_ns += k < steps / 2 ? 0 : 2 * rtt_ns / steps;
		}
		EXPECT_NEAR(mean_ns, 20000 + double(n) * 2500 / 1.25, 0.05 * mean_ns) << n;
		EXPECT_NEAR(double(flows[0].s.cwnd_bytes), double(flows[n - 1].s.cwnd_bytes),
			    0.1 * double(flows[0].s.cwnd_bytes)) << n;
	}
}

} /* namespace */
