/* SPDX-License-Identifier: GPL-2.0 */
/*
 * TIMELY: the law of kmod/core/timely.h against an oracle in doubles, written from
 * the papers and from T1..T5; cases worked out by hand; and closed loops over a
 * modelled bottleneck, shaped as the paper's experiments.
 *
 * SWIFT_PROPERTY_STEPS sets the number of random steps (default 1.2 million).
 */
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <initializer_list>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "draw.hpp"
#include "timely.h"

namespace {

constexpr double kMbps = 125000; /* bytes/s */
constexpr double kDiffGrain = 1.0 / 16; /* ns */
constexpr u64 kAppBusy = ~0ULL;

/* --- The oracle ------------------------------------------------------------------- */

struct Oracle {
	const timely_tunables &t;
	double rate, rtt_diff;
	u64 last_ns;
	u32 prev_rtt, acked, falling;
	double tolerance = 1; /* of the rate, bytes/s */

	Oracle(const timely_tunables &tunables, const timely_state &s)
		: t(tunables), rate(double(s.rate_Bps)), rtt_diff(double(s.rtt_diff_q4) / 16),
		  last_ns(s.last_ns), prev_rtt(s.prev_rtt_ns), acked(s.acked_bytes),
		  falling(s.falling)
	{
	}

	double bound(double r) const
	{
		return std::min(std::max(r, t.min_rate_mbps * kMbps), t.max_rate_mbps * kMbps);
	}

	double max_mdf() const { return t.max_mdf_milli / 1e3; }

	/* @sign: of the law's rtt_diff, which decides where the oracle's is nearly 0. */
	bool on_ack(const timely_sample &in, int sign, bool held)
	{
		acked = u32(std::min(double(acked) + in.acked_bytes, 4294967295.0));
		if (!in.rtt_ns || acked < t.seg_bytes)
			return false;
		acked = 0;

		/* new_rtt_diff, its EWMA, and the gradient */
		double alpha = t.alpha_milli / 1e3, beta = t.beta_milli / 1e3;
		double rtt = in.rtt_ns, before = rate;
		double new_diff = prev_rtt ? rtt - prev_rtt : 0; /* T3 */

		double diff_error = 2 * kDiffGrain +
				    (std::abs(rtt_diff) + std::abs(new_diff)) * 0x1p-23;
		rtt_diff = (1 - alpha) * rtt_diff + alpha * new_diff;
		prev_rtt = in.rtt_ns;
		double g = rtt_diff / t.min_rtt_ns, g_error = diff_error / t.min_rtt_ns;

		if (std::abs(rtt_diff) > diff_error) /* T4 */
			sign = rtt_diff > 0 ? 1 : -1;
		falling = sign < 0 ? std::min(falling + 1, t.hai_events) : 0;

		/* T1: completions in a min_rtt share one update. */
		double share = std::min(1.0, double(in.now_ns - last_ns) / t.min_rtt_ns);
		double delta = t.delta_mbps * kMbps * share;

		last_ns = in.now_ns;
		/* The grain of fractions: of the rate, and of a share of increments. */
		tolerance = 1 + before * 0x1p-22 + t.hai_n * t.delta_mbps * kMbps * 0x1p-23;
		if (rtt < t.t_low_ns) {
			rate += delta;
		} else if (rtt > t.t_high_ns) {
			rate *= 1 - share * beta * (1 - t.t_high_ns / rtt);
		} else if (t.patched) {
			double w = g <= -0.25 ? 0 : g >= 0.25 ? 1 : 2 * g + 0.5;
			double error = (rtt - t.rtt_ref_ns) / t.rtt_ref_ns;

			/* A rate cannot be multiplied by less than nothing. */
			rate = delta * (1 - w) +
			       rate * std::max(0.0, 1 - share * beta * w * error);
			tolerance += 2 * g_error * t.delta_mbps * kMbps +
				     before * std::abs(error) * (2 * beta * g_error + 0x1p-22);
		} else if (sign <= 0) {
			rate += falling >= t.hai_events ? t.hai_n * delta : delta;
		} else {
			rate *= 1 - beta * g;
			tolerance += before * (beta * g_error + g * 0x1p-24); /* beta's own grain */
		}

		/* Section 5, 80 %; T2; bounds */
		double used = before * t.app_share_milli / 1e3, app = double(in.app_Bps);

		if (std::abs(app - used) <= 1 + before * 0x1p-22 ? held : app < used)
			rate = std::min(rate, before);
		rate = bound(std::max(rate, before * (1 - max_mdf())));
		tolerance += 1e-3 * rate;
		return true;
	}
};

/* --- Random steps ----------------------------------------------------------------- */

timely_tunables draw_tunables(Draw &d)
{
	timely_tunables t;
	timely_params p;

	do {
		timely_tunables_default(&t);
#define TIMELY_X(name, def, lo, hi, doc) \
	if (!d.one_in(3))                \
		t.name = d.any32(lo, hi);
		TIMELY_TUNABLES(TIMELY_X)
#undef TIMELY_X
	} while (timely_params_prepare(&p, &t));
	return t;
}

u32 draw_rtt(Draw &d, const timely_tunables &t)
{
	switch (d.below(6)) {
	case 0:
		return t.t_low_ns - (t.t_low_ns ? u32(d.below(2)) : 0);
	case 1:
		return t.t_high_ns + u32(d.below(2));
	case 2:
		return d.any32(0, SWIFT_U32_MAX);
	default: /* where the gradient decides */
		return t.t_low_ns + u32(d.below(u64(t.t_high_ns) - t.t_low_ns + 1));
	}
}

timely_state draw_state(Draw &d, const timely_tunables &t, const timely_params &p, u64 now_ns)
{
	timely_state s;

	timely_init(&s, &p);
	if (d.one_in(8))
		return s;
	s.rate_Bps = d.any(p.min_Bps, p.max_Bps);
	s.last_ns = now_ns - (d.one_in(2) ? d.any(0, 2 * u64(t.min_rtt_ns)) : d.bits());
	s.prev_rtt_ns = draw_rtt(d, t);
	s.rtt_diff_q4 = s64(d.any(0, d.one_in(2) ? 16 * u64(t.min_rtt_ns) : 1ULL << 36));
	if (d.one_in(2))
		s.rtt_diff_q4 = -s.rtt_diff_q4;
	s.acked_bytes = d.any32(0, t.seg_bytes);
	s.falling = d.any32(0, t.hai_events);
	return s;
}

timely_sample draw_sample(Draw &d, const timely_tunables &t, const timely_params &p,
			  const timely_state &s, u64 now_ns)
{
	timely_sample in;

	in.now_ns = now_ns;
	in.rtt_ns = d.one_in(4) && s.prev_rtt_ns ? s.prev_rtt_ns : draw_rtt(d, t);
	in.acked_bytes = d.one_in(3) ? d.any32(0, SWIFT_U32_MAX) : t.seg_bytes;
	in.app_Bps = d.one_in(2) ? kAppBusy : d.any(0, 2 * s.rate_Bps);
	if (d.one_in(16))
		in.app_Bps = timely_part(s.rate_Bps, p.app_share_q24) + d.below(3) - 1;
	return in;
}

TEST(timely_property, agrees_with_the_oracle_and_keeps_its_bounds)
{
	const char *env = std::getenv("SWIFT_PROPERTY_STEPS");
	u64 steps = env ? std::strtoull(env, nullptr, 10) : 1200000;
	Draw d{20150817};
	u64 updates = 0, cuts = 0, rises = 0, hai = 0, patched = 0, wrong = 0, now_ns = 0;
	timely_tunables t{};
	timely_params p{};
	timely_state s{};

	for (u64 i = 0; i < steps && wrong < 5; i++) {
		if (i % 8 == 0) { /* walks of eight steps */
			t = draw_tunables(d);
			ASSERT_EQ(timely_params_prepare(&p, &t), nullptr);
			now_ns = d.bits();
			s = draw_state(d, t, p, now_ns);
		}
		now_ns += d.one_in(4) ? 0 : d.any(0, 3 * u64(t.min_rtt_ns));

		timely_state before = s;
		timely_sample in = draw_sample(d, t, p, s, now_ns);
		bool done = timely_on_ack(&s, &p, &in);
		Oracle want(t, before);
		bool want_done = want.on_ack(in, (s.rtt_diff_q4 > 0) - (s.rtt_diff_q4 < 0),
					     s.rate_Bps <= before.rate_Bps);

		bool agrees = done == want_done && s.acked_bytes == want.acked &&
			      s.falling == want.falling && s.prev_rtt_ns == want.prev_rtt &&
			      s.last_ns == want.last_ns && s.rate_Bps >= p.min_Bps &&
			      s.rate_Bps <= p.max_Bps &&
			      std::abs(double(s.rate_Bps) - want.rate) <= want.tolerance &&
			      std::abs(double(s.rtt_diff_q4) / 16 - want.rtt_diff) <=
				      2 * kDiffGrain + std::abs(want.rtt_diff) * 1e-3 +
				      std::abs(double(before.rtt_diff_q4) / 16) * 0x1p-22 +
				      double(in.rtt_ns) * 0x1p-22 +
				      double(before.prev_rtt_ns) * 0x1p-22;
		if (!agrees) {
			wrong++;
			ADD_FAILURE() << "step " << i << " rtt " << in.rtt_ns << " rate "
				      << before.rate_Bps << " -> " << s.rate_Bps << ", want "
				      << want.rate << " +- " << want.tolerance << "; diff "
				      << before.rtt_diff_q4 << " -> " << s.rtt_diff_q4 << ", want "
				      << want.rtt_diff * 16 << "; falling " << s.falling << ", want "
				      << want.falling << "; patched " << t.patched;
		}
		updates += done;
		cuts += s.rate_Bps < before.rate_Bps;
		rises += s.rate_Bps > before.rate_Bps;
		hai += done && s.falling >= t.hai_events;
		patched += done && t.patched;
		if (d.one_in(16))
			timely_on_loss(&s, &p);
	}
	/* The steps went everywhere. */
	EXPECT_GT(updates, steps / 3);
	EXPECT_GT(cuts, steps / 20);
	EXPECT_GT(rises, steps / 20);
	EXPECT_GT(hai, steps / 100);
	EXPECT_GT(patched, steps / 10);
}

/* --- Cases -------------------------------------------------------------------------- */

struct Flow {
	timely_tunables t;
	timely_params p{};
	timely_state s{};
	u64 now_ns = 1000000000;

	explicit Flow(std::initializer_list<std::pair<u32 timely_tunables::*, u32>> changes = {})
	{
		timely_tunables_default(&t);
		t.alpha_milli = 1000; /* the gradient is that of the latest difference */
		for (auto [field, value] : changes)
			t.*field = value;
		EXPECT_EQ(timely_params_prepare(&p, &t), nullptr);
		timely_init(&s, &p);
	}

	/* A segment later than the last one by a min_rtt. Returns the change in Mbit/s. */
	double rtt_us(double us, u64 after_ns = 20000, u64 app_Bps = kAppBusy)
	{
		timely_sample in = {now_ns += after_ns, app_Bps, u32(us * 1000), t.seg_bytes};
		double before = double(s.rate_Bps);

		timely_on_ack(&s, &p, &in);
		return (double(s.rate_Bps) - before) / kMbps;
	}
};

TEST(timely, below_t_low_adds_delta_whatever_the_gradient)
{
	Flow f;

	EXPECT_NEAR(f.rtt_us(20), 10, 0.01);
	EXPECT_NEAR(f.rtt_us(49), 10, 0.01); /* rising */
	EXPECT_LT(f.rtt_us(50), 0); /* the threshold itself is not below */
}

TEST(timely, above_t_high_cuts_by_how_far_whatever_the_gradient)
{
	Flow f;

	f.rtt_us(2000);
	f.s.rate_Bps = u64(1000 * kMbps);
	EXPECT_NEAR(f.rtt_us(1000), -1000 * 0.8 * 0.5, 0.01); /* falling */
	f.s.rate_Bps = u64(1000 * kMbps);
	EXPECT_NEAR(f.rtt_us(625), -1000 * 0.8 * 0.2, 0.01);
	EXPECT_NEAR(f.rtt_us(500), 10, 0.01); /* the threshold itself is not above */
}

TEST(timely, between_them_a_gradient_of_zero_or_less_adds_delta)
{
	Flow f;

	f.rtt_us(100);
	EXPECT_NEAR(f.rtt_us(100), 10, 0.01);
	EXPECT_NEAR(f.rtt_us(90), 10, 0.01);
}

TEST(timely, between_them_a_rising_rtt_cuts_by_beta_times_gradient)
{
	Flow f;

	f.rtt_us(100);
	f.s.rate_Bps = u64(1000 * kMbps);
	EXPECT_NEAR(f.rtt_us(102), -1000 * 0.8 * 2 / 20, 0.01);
}

TEST(timely, gradient_is_a_moving_average_over_min_rtt)
{
	Flow f({{&timely_tunables::alpha_milli, 250}});

	f.rtt_us(100);
	f.rtt_us(108); /* rtt_diff = 2 us */
	f.s.rate_Bps = u64(1000 * kMbps);
	EXPECT_NEAR(f.rtt_us(108), -1000 * 0.8 * 1.5 / 20, 0.01);
}

TEST(timely, T2_no_cut_takes_more_than_max_mdf)
{
	Flow f;

	f.rtt_us(60);
	f.s.rate_Bps = u64(1000 * kMbps);
	EXPECT_NEAR(f.rtt_us(400), -500, 0.01);
	EXPECT_NEAR(f.rtt_us(100000), -250, 0.01);
}

TEST(timely, hai_begins_with_the_fifth_segment_of_falling_rtt)
{
	Flow f;

	f.rtt_us(200);
	for (int i = 1; i <= 4; i++)
		EXPECT_NEAR(f.rtt_us(200 - i), 10, 0.01) << i;
	EXPECT_NEAR(f.rtt_us(195), 50, 0.01);
	EXPECT_NEAR(f.rtt_us(194), 50, 0.01);
	EXPECT_NEAR(f.rtt_us(194), 10, 0.01); /* no longer falling */
	EXPECT_NEAR(f.rtt_us(193), 10, 0.01); /* counted anew */
}

TEST(timely, T1_an_update_weighs_as_much_as_its_time)
{
	Flow f;

	f.rtt_us(40);
	EXPECT_NEAR(f.rtt_us(40, 5000), 2.5, 0.01);
	EXPECT_NEAR(f.rtt_us(40, 0), 0, 0.01);
	EXPECT_NEAR(f.rtt_us(40, 1000000), 10, 0.01);
	f.s.rate_Bps = u64(1000 * kMbps);
	EXPECT_NEAR(f.rtt_us(1000, 5000), -1000 * 0.8 * 0.5 / 4, 0.01);

	f.rtt_us(100);
	f.s.rate_Bps = u64(1000 * kMbps);
	EXPECT_NEAR(f.rtt_us(102, 5000), -1000 * 0.8 * 2 / 20, 0.01); /* not the gradient's */
}

TEST(timely, T3_the_first_segment_has_no_gradient)
{
	Flow f;

	EXPECT_NEAR(f.rtt_us(400), 10, 0.01);
}

TEST(timely, T4_a_constant_rtt_ends_with_no_gradient)
{
	for (double first : {90.0, 110.0}) {
		Flow f({{&timely_tunables::alpha_milli, 20}});

		f.rtt_us(first);
		for (int i = 0; i < 1000; i++)
			f.rtt_us(100);
		EXPECT_EQ(f.s.rtt_diff_q4, 0);
		f.s.rate_Bps = u64(1000 * kMbps);
		EXPECT_NEAR(f.rtt_us(100), 10, 0.01);
	}
}

TEST(timely, T5_a_loss_takes_max_mdf)
{
	Flow f;

	f.s.rate_Bps = u64(1000 * kMbps);
	timely_on_loss(&f.s, &f.p);
	EXPECT_NEAR(double(f.s.rate_Bps), 500 * kMbps, 1);
	for (int i = 0; i < 20; i++)
		timely_on_loss(&f.s, &f.p);
	EXPECT_EQ(f.s.rate_Bps, f.p.min_Bps);
}

TEST(timely, an_application_below_four_fifths_of_the_rate_does_not_raise_it)
{
	Flow f;

	f.s.rate_Bps = u64(1000 * kMbps);
	EXPECT_EQ(f.rtt_us(20, 20000, u64(799 * kMbps)), 0);
	EXPECT_NEAR(f.rtt_us(20, 20000, u64(801 * kMbps)), 10, 0.01);
	EXPECT_LT(f.rtt_us(1000, 20000, 0), 0); /* it is cut as any other */
}

TEST(timely, updates_once_in_seg_bytes_and_only_with_an_rtt)
{
	Flow f;
	timely_sample in = {f.now_ns, kAppBusy, 20000, 8192};

	EXPECT_FALSE(timely_on_ack(&f.s, &f.p, &in));
	in.rtt_ns = 0;
	EXPECT_FALSE(timely_on_ack(&f.s, &f.p, &in)); /* complete, but without a sample */
	in.rtt_ns = 20000;
	in.acked_bytes = 0;
	EXPECT_TRUE(timely_on_ack(&f.s, &f.p, &in));
	EXPECT_FALSE(timely_on_ack(&f.s, &f.p, &in));
}

TEST(timely, patched_follows_the_weight_of_the_gradient)
{
	struct {
		double g, rtt, want; /* Mbit/s, from 1000 at rtt_ref = 50, beta = 0.008 */
	} cases[] = {
		{-0.30, 100, 10},
		{-0.25, 100, 10},
		{0, 100, 10 * 0.5 - 1000 * 0.008 * 0.5 * 1},
		{0.125, 100, 10 * 0.25 - 1000 * 0.008 * 0.75 * 1},
		{0.25, 150, -1000 * 0.008 * 2},
		{1, 60, -1000 * 0.008 * 0.2},
		{0.125, 40, 10 * 0.25 + 1000 * 0.008 * 0.75 * 0.2},
	};

	for (auto &c : cases) {
		Flow f({{&timely_tunables::patched, 1}, {&timely_tunables::beta_milli, 8},
			{&timely_tunables::t_low_ns, 10000}});

		f.rtt_us(c.rtt - c.g * 20);
		f.s.rate_Bps = u64(1000 * kMbps);
		EXPECT_NEAR(f.rtt_us(c.rtt), c.want, 0.01) << c.g;
	}
}

TEST(timely, tunables_are_checked)
{
	timely_tunables t;
	timely_params p;

	timely_tunables_default(&t);
	EXPECT_EQ(timely_params_prepare(&p, &t), nullptr);
	t.beta_milli = 1001;
	EXPECT_STREQ(timely_params_prepare(&p, &t), "beta_milli");
	t.beta_milli = 0;
	EXPECT_STREQ(timely_params_prepare(&p, &t), "beta_milli");
	timely_tunables_default(&t);
	t.t_low_ns = t.t_high_ns + 1;
	EXPECT_STREQ(timely_params_prepare(&p, &t), "t_high_ns");
	timely_tunables_default(&t);
	t.init_rate_mbps = t.max_rate_mbps + 1;
	EXPECT_STREQ(timely_params_prepare(&p, &t), "init_rate_mbps");
}

TEST(timely, window_is_twice_the_rate_times_the_longer_of_rtt_and_t_high)
{
	Flow f;

	f.s.rate_Bps = u64(500 * kMbps);
	EXPECT_EQ(timely_cwnd_pkts(&f.s, &f.p, 100000, 1000), 62); /* 2 x 62.5 MB/s x 0.5 ms */
	EXPECT_EQ(timely_cwnd_pkts(&f.s, &f.p, 1000000, 1000), 125);
	f.s.rate_Bps = u64(1 * kMbps);
	EXPECT_EQ(timely_cwnd_pkts(&f.s, &f.p, 100000, 1000), 4);
	f.s.rate_Bps = u64(400000 * kMbps);
	EXPECT_EQ(timely_cwnd_pkts(&f.s, &f.p, SWIFT_U32_MAX, 1), SWIFT_U32_MAX);
}

/* --- Closed loops -------------------------------------------------------------------- */

/*
 * Flows that send whole segments, spaced by their rates, through one queue. The RTT is
 * the wire's, the queue's and the segment's own time at the bottleneck.
 */
struct Fabric {
	static constexpr double kLine = 20000 * kMbps, kWire = 20e-6; /* bytes/s, s */
	struct Sent {
		double at;
		size_t flow;
		double rtt; /* 0 = to be sent, otherwise to be acknowledged */

		bool operator<(const Sent &other) const { return at > other.at; }
	};
	std::vector<timely_state> flows;
	timely_params p;
	std::priority_queue<Sent> events;
	double now = 1, busy_until = 0, delivered = 0, rtt_sum = 0;
	u64 segments = 0;
	size_t active;

	Fabric(const timely_tunables &t, size_t n, double init_mbps) : flows(n), active(n)
	{
		Draw d{7};

		EXPECT_EQ(timely_params_prepare(&p, &t), nullptr);
		for (size_t i = 0; i < n; i++) {
			timely_init(&flows[i], &p);
			flows[i].rate_Bps = u64(init_mbps * kMbps);
			events.push({now + d.unit() * 1e-3, i, 0});
		}
	}

	void run(double seconds)
	{
		double end = now + seconds;

		delivered = rtt_sum = 0;
		segments = 0;
		while (!events.empty() && events.top().at < end) {
			Sent e = events.top();

			events.pop();
			now = e.at;
			timely_state &s = flows[e.flow];
			if (e.rtt > 0) {
				timely_sample in = {u64(now * 1e9), kAppBusy, u32(e.rtt * 1e9),
						    p.seg_bytes};

				timely_on_ack(&s, &p, &in);
				delivered += p.seg_bytes;
				rtt_sum += e.rtt;
				segments++;
			} else if (e.flow < active) {
				busy_until = std::max(busy_until, now) + p.seg_bytes / kLine;
				double rtt = busy_until - now + kWire;

				events.push({now + rtt, e.flow, rtt});
				events.push({now + p.seg_bytes / double(s.rate_Bps), e.flow, 0});
			}
		}
		now = end;
	}

	double jain() const
	{
		double sum = 0, squares = 0;

		for (size_t i = 0; i < active; i++) {
			sum += double(flows[i].rate_Bps);
			squares += double(flows[i].rate_Bps) * double(flows[i].rate_Bps);
		}
		return sum * sum / (double(active) * squares);
	}

	double mean_mbps() const
	{
		double sum = 0;

		for (size_t i = 0; i < active; i++)
			sum += double(flows[i].rate_Bps);
		return sum / double(active) / kMbps;
	}
};

timely_tunables defaults()
{
	timely_tunables t;

	timely_tunables_default(&t);
	return t;
}

/* Table 1: 40 connections fill 20 Gbit/s at an RTT near t_low. */
TEST(timely_loop, incast_of_40_fills_the_line_with_a_short_queue)
{
	for (u32 patched : {0, 1}) {
		timely_tunables t = defaults();

		t.patched = patched;
		t.beta_milli = patched ? 8 : 800;
		Fabric f(t, 40, 500);

		f.run(0.3);
		f.run(0.3);
		double gbps = f.delivered * 8 / 0.3 / 1e9, rtt_us = f.rtt_sum / double(f.segments) * 1e6;

		RecordProperty(patched ? "patched_gbps" : "gbps", std::to_string(gbps));
		RecordProperty(patched ? "patched_rtt_us" : "rtt_us", std::to_string(rtt_us));
		RecordProperty(patched ? "patched_jain" : "jain", std::to_string(f.jain()));
		EXPECT_GT(gbps, 17) << patched;
		EXPECT_LT(rtt_us, 200) << patched;
		EXPECT_GT(f.jain(), 0.8) << patched;
	}
}

/* Figure 18: of 100 connections 90 stop. HAI is at three quarters of the fair share sooner. */
TEST(timely_loop, hai_takes_a_tenfold_share_sooner)
{
	auto time_to_share = [](u32 hai_n) {
		timely_tunables t = defaults();

		t.hai_n = hai_n;
		t.t_low_ns = 0; /* below t_low there is no HAI */
		Fabric f(t, 100, 200);
		f.run(0.2);
		f.active = 10;
		for (int ms = 1; ms <= 1000; ms++) {
			f.run(0.001);
			if (f.mean_mbps() >= 1500)
				return ms;
		}
		return 1001;
	};
	int with_hai = time_to_share(5), without = time_to_share(1);

	RecordProperty("hai_ms", with_hai);
	RecordProperty("no_hai_ms", without);
	EXPECT_LT(with_hai, without);
	EXPECT_LE(with_hai, 200);
}

} /* namespace */
