/* SPDX-License-Identifier: GPL-2.0 */
/*
 * SIRD: kmod/core/sird.h. Cases worked out by hand; the buckets against an oracle in
 * doubles; a receiver's book over random traffic, against positions that do not wrap;
 * and hosts with one link each, where credit does what the paper says.
 *
 * SWIFT_PROPERTY_STEPS sets the number of random steps (default 1.2 million).
 */
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <queue>
#include <string>
#include <vector>

#include "draw.hpp"
#include "sird.h"

namespace {

constexpr u32 kMss = 1000;

u64 property_steps()
{
	const char *env = std::getenv("SWIFT_PROPERTY_STEPS");

	return env ? std::strtoull(env, nullptr, 10) : 1200000;
}

sird_tunables defaults()
{
	sird_tunables t;

	sird_tunables_default(&t);
	return t;
}

sird_link link_of(u32 mbps, u32 rtt_ns, const sird_tunables &t = defaults())
{
	sird_link l = {};

	sird_link_set(&l, &t, mbps, rtt_ns, rtt_ns);
	return l;
}

/* --- Sequence numbers, sizes, clocks ---------------------------------------------- */

TEST(sird, sequence_numbers_wrap)
{
	EXPECT_EQ(sird_ahead(5, 0xfffffffb), 10U);
	EXPECT_EQ(sird_ahead(0xfffffffb, 5), 0U);
	EXPECT_EQ(sird_ahead(7, 7), 0U);
	EXPECT_EQ(sird_later(5, 0xfffffffb), 5U);
	EXPECT_EQ(sird_earlier(5, 0xfffffffb), 0xfffffffbU);
}

TEST(sird, tunables_are_checked)
{
	sird_tunables t = defaults();

	EXPECT_EQ(sird_tunables_check(&t), nullptr);
	EXPECT_EQ(t.credit_b_milli, 1500U); /* table 2 */
	EXPECT_EQ(t.credit_unsched_milli, 1000U);
	EXPECT_EQ(t.credit_sthr_milli, 500U);
	t.credit_b_milli = 999; /* less than a BDP does not fill the link */
	EXPECT_STREQ(sird_tunables_check(&t), "credit_b_milli");
	t = defaults();
	t.credit_unsched_milli = 0;
	EXPECT_EQ(sird_tunables_check(&t), nullptr);
	t.credit_unsched_milli = SWIFT_U32_MAX;
	EXPECT_STREQ(sird_tunables_check(&t), "credit_unsched_milli");
	t = defaults();
	t.credit_policy = 2;
	EXPECT_STREQ(sird_tunables_check(&t), "credit_policy");
}

TEST(sird_link, is_sized_by_rate_and_time)
{
	sird_link l = link_of(100000, 8000);

	EXPECT_EQ(l.bdp_bytes, 100000U);
	EXPECT_EQ(l.b_bytes, 150000U);
	EXPECT_EQ(l.unsched_bytes, 100000U);
	EXPECT_EQ(sird_bytes_at(SWIFT_U32_MAX, SWIFT_U32_MAX), SWIFT_U32_MAX);
}

TEST(sird_link, has_a_least_and_a_most)
{
	sird_tunables t = defaults();

	EXPECT_EQ(link_of(1000, 50000).bdp_bytes, 16384U); /* 6250 */
	EXPECT_EQ(link_of(1000, 50000).b_bytes, 24576U);
	t.credit_b_milli = 16000;
	t.credit_unsched_milli = 64000;
	sird_link l = link_of(400000, 1000000000, t);
	EXPECT_EQ(l.bdp_bytes, 1U << 26);
	EXPECT_EQ(l.b_bytes, 1U << 30);
	EXPECT_EQ(l.unsched_bytes, 1U << 28); /* not 2^32 */
	t.credit_unsched_milli = 0;
	l = link_of(1000, 50000, t);
	EXPECT_EQ(sird_allowance(&l, kMss), kMss); /* TCP has to send something */
}

TEST(sird_link, lends_by_the_loop_and_allows_by_the_rtt)
{
	sird_tunables t = defaults();
	sird_link l = {};

	sird_link_set(&l, &t, 100000, 40000, 8000);
	EXPECT_EQ(l.bdp_bytes, 500000U);
	EXPECT_EQ(l.b_bytes, 750000U);
	EXPECT_EQ(l.unsched_bytes, 100000U);
}

TEST(sird_link, may_lend_b)
{
	sird_link l = link_of(100000, 8000);

	EXPECT_TRUE(sird_link_may_lend(&l, 146000, 4000, kMss));
	EXPECT_FALSE(sird_link_may_lend(&l, 146001, 4000, kMss));
	EXPECT_FALSE(sird_link_may_lend(&l, SWIFT_U32_MAX, 4000, kMss));
	EXPECT_TRUE(sird_link_may_lend(&l, 146000, 60000, kMss)); /* room for four segments */
	EXPECT_FALSE(sird_link_may_lend(&l, 146001, 60000, kMss));
	EXPECT_TRUE(sird_link_may_lend(&l, 149500, 500, kMss));
}

/* Four segments of 9000 bytes are more than B of a slow link: none would ever be sent. */
TEST(sird_link, with_nothing_lent_may_lend_any_quantum)
{
	sird_link l = link_of(1000, 50000);

	EXPECT_TRUE(sird_link_may_lend(&l, 0, 4 * 8948, 8948));
	EXPECT_FALSE(sird_link_may_lend(&l, 1, 4 * 8948, 8948));
}

TEST(sird, rtt_is_averaged)
{
	EXPECT_EQ(sird_rtt_feed(0, 8000), 8000U); /* the first one is the average */
	EXPECT_EQ(sird_rtt_feed(8000, 0), 8000U); /* none known */
	EXPECT_EQ(sird_rtt_feed(0, 0), 0U);
	EXPECT_EQ(sird_rtt_feed(8000, 14400), 8100U);
	EXPECT_EQ(sird_rtt_feed(8000, 1600), 7900U);
	u32 avg = 8000;
	for (int i = 0; i < 1000; i++)
		avg = sird_rtt_feed(avg, 20000);
	EXPECT_NEAR(avg, 20000, 64);
}

TEST(sird, the_link_is_busy_with_what_it_was_handed)
{
	EXPECT_EQ(sird_link_busy_until(0, 1000, 12500, 100000), 2000U);
	EXPECT_EQ(sird_link_busy_until(2000, 1000, 12500, 100000), 3000U);
	EXPECT_EQ(sird_link_busy_until(1000, 5000, 12500, 100000), 6000U);
	EXPECT_EQ(sird_link_busy_until(0, 0, 50000000, 100000), 4000000U);
	EXPECT_EQ(sird_link_busy_until(0, 0, SWIFT_U32_MAX, 1), 4000000U); /* no more, whatever it is handed */
	EXPECT_EQ(sird_link_busy_until(5000, 1000, 50000000, 100000), 4001000U);
	EXPECT_EQ(sird_link_busy_until(u64(1) << 40, 1000, 1, 100000), 4001000U);
}

/* Ten seconds at full rate, each segment counted with a 128th more, as kmod/demand.c does. */
TEST(sird, a_full_link_leaves_no_wait_of_seconds)
{
	constexpr u32 kBytes = 65536, kMbps = 100000;
	const sird_tunables t = defaults();
	const u64 each = u64(kBytes) * 8000 / kMbps;
	u64 now = 1000000, busy = 0;

	for (u64 i = 0; i < 10000000000 / each; i++, now += each)
		busy = sird_link_busy_until(busy, now, kBytes + kBytes / 128, kMbps);
	EXPECT_LE(busy - now, 4000000U);
	/* A receiver that comes 4 ms later finds none. */
	EXPECT_FALSE(sird_csn(&t, busy, now + 4000000, 8000));
}

TEST(sird, the_time_of_a_segment_is_right_on_average)
{
	for (u32 bytes : {64U, 1448U, 1538U, 9038U}) {
		u64 now = 1700000000123456789, sum = 0;

		for (int i = 0; i < 100000; i++, now += 1237)
			sum += sird_link_busy_until(0, now, bytes, 100000) - now;
		EXPECT_NEAR(double(sum) / 100000, bytes * 0.08, 0.002) << bytes;
	}
}

TEST(sird, csn_says_that_more_than_sthr_waits)
{
	sird_tunables t = defaults();

	EXPECT_FALSE(sird_csn(&t, 14000, 10000, 8000)); /* SThr: half of 8 us at the link's rate */
	EXPECT_TRUE(sird_csn(&t, 14001, 10000, 8000));
	EXPECT_FALSE(sird_csn(&t, 10000, 10000, 0)); /* nothing waits */
	EXPECT_FALSE(sird_csn(&t, 10000, 20000, 8000)); /* idle for long */
	t.credit_sthr_milli = 1000000;
	EXPECT_FALSE(sird_csn(&t, 1000000, 0, SWIFT_U32_MAX));
}

/* --- Buckets ------------------------------------------------------------------------ */

constexpr u32 kBdp = 100000;

sird_bucket bucket(u32 size_bytes = kBdp)
{
	sird_bucket k;

	sird_bucket_init(&k, size_bytes);
	return k;
}

/* One look's worth, whole, of which @marked bytes are marked. */
void look(sird_bucket &k, u32 marked, u32 floor_milli = 100)
{
	u32 all = (k.size_bytes * 3 + 1) / 2;

	sird_bucket_feed(&k, marked, true, kMss, kBdp, floor_milli);
	sird_bucket_feed(&k, all - marked, false, kMss, kBdp, floor_milli);
}

TEST(sird_bucket, looks_once_in_three_halves_of_its_size)
{
	sird_bucket k = bucket();

	for (int i = 0; i < 149; i++)
		sird_bucket_feed(&k, kMss, true, kMss, kBdp, 100);
	EXPECT_EQ(k.size_bytes, kBdp);
	sird_bucket_feed(&k, kMss - 1, true, kMss, kBdp, 100);
	EXPECT_EQ(k.size_bytes, kBdp);
	sird_bucket_feed(&k, 1, true, kMss, kBdp, 100);
	EXPECT_NEAR(k.size_bytes, kBdp * 0.96, 2); /* half of g = 0.08 */
	EXPECT_EQ(k.arrived_bytes + k.marked_bytes, 0U);
}

TEST(sird_bucket, is_cut_by_half_of_the_marked_part_averaged)
{
	sird_bucket k = bucket();
	double alpha = 0, size = kBdp;

	for (double part : {1.0, 0.5, 0.5, 0.25}) {
		look(k, u32(k.size_bytes * 1.5 * part));
		alpha += 0.08 * (part - alpha);
		size *= 1 - alpha / 2;
		EXPECT_NEAR(k.size_bytes, size, 10) << part;
	}
}

TEST(sird_bucket, grows_by_a_segment_up_to_a_bdp)
{
	sird_bucket k = bucket(98500);

	look(k, 0);
	EXPECT_EQ(k.size_bytes, 99500U);
	look(k, 0);
	EXPECT_EQ(k.size_bytes, kBdp);
	look(k, 0);
	EXPECT_EQ(k.size_bytes, kBdp);
}

TEST(sird_bucket, has_a_floor)
{
	sird_sender s;
	sird_link l = link_of(100000, 8000);

	sird_sender_init(&s, kBdp);
	for (int i = 0; i < 20000; i++)
		sird_sender_feed(&s, &l, kMss, true, true, kMss);
	EXPECT_EQ(s.host.size_bytes, kBdp / 10); /* the authors' simulator: 0.1 and 0.03 */
	EXPECT_EQ(s.net.size_bytes, kBdp * 3 / 100);
	for (int i = 0; i < 2000; i++)
		sird_sender_feed(&s, &l, 9000, true, true, 9000);
	EXPECT_EQ(s.net.size_bytes, 9000U); /* a segment at least */
	sird_bucket k = bucket(2000);
	for (int i = 0; i < 100; i++)
		sird_bucket_feed(&k, 9000, i % 2, 9000, 1000, 30);
	EXPECT_EQ(k.size_bytes, 9000U); /* even of a smaller BDP */
}

TEST(sird_bucket, csn_and_the_network_each_have_one)
{
	sird_sender s;
	sird_link l = link_of(100000, 8000);

	sird_sender_init(&s, kBdp);
	sird_sender_feed(&s, &l, 150000, true, false, kMss);
	EXPECT_LT(s.host.size_bytes, kBdp);
	EXPECT_EQ(s.net.size_bytes, kBdp);
	EXPECT_EQ(s.lent_bytes, 0U);
	sird_sender_init(&s, kBdp);
	sird_sender_feed(&s, &l, 150000, false, true, kMss);
	EXPECT_EQ(s.host.size_bytes, kBdp);
	EXPECT_LT(s.net.size_bytes, kBdp);
}

TEST(sird_bucket, saturates)
{
	sird_bucket k = bucket(SWIFT_U32_MAX);

	sird_bucket_feed(&k, SWIFT_U32_MAX, true, kMss, kBdp, 100);
	EXPECT_EQ(k.size_bytes, SWIFT_U32_MAX); /* not 3/2 of it yet, nor ever: no wrap */
	sird_bucket_feed(&k, SWIFT_U32_MAX, true, kMss, kBdp, 100);
	EXPECT_EQ(k.arrived_bytes, SWIFT_U32_MAX);
	EXPECT_EQ(k.marked_bytes, SWIFT_U32_MAX);
}

TEST(sird_sender, may_have_what_the_smaller_bucket_has_room_for)
{
	sird_sender s;

	sird_sender_init(&s, kBdp);
	s.lent_bytes = 96000;
	EXPECT_TRUE(sird_sender_may_have(&s, 4000));
	EXPECT_FALSE(sird_sender_may_have(&s, 4001));
	s.net.size_bytes = 99999;
	EXPECT_FALSE(sird_sender_may_have(&s, 4000));
	s.net.size_bytes = kBdp;
	s.host.size_bytes = 99999;
	EXPECT_FALSE(sird_sender_may_have(&s, 4000));
	s.lent_bytes = SWIFT_U32_MAX - 1;
	EXPECT_FALSE(sird_sender_may_have(&s, 4000)); /* the sum has more than 32 bits */
	s.host.size_bytes = kMss;
	s.lent_bytes = 1;
	EXPECT_FALSE(sird_sender_may_have(&s, 4000));
	s.lent_bytes = 0; /* or the bucket would never learn better */
	EXPECT_TRUE(sird_sender_may_have(&s, 4000));
}

/* --- What senders use (S10) ----------------------------------------------------------- */

constexpr u32 kLoop = 10000;

/* From @from_ns on @bytes each @every_ns, until @to_ns. */
void use(sird_used &u, u64 from_ns, u64 to_ns, u64 every_ns, u32 bytes)
{
	for (u64 now = from_ns; now < to_ns; now += every_ns)
		sird_used_feed(&u, bytes, kLoop, now);
}

TEST(sird_used, is_twice_what_the_rate_needs_in_a_loop)
{
	sird_used u;

	sird_used_init(&u);
	EXPECT_EQ(u.most_bytes, 0U);
	use(u, 1000, 500000, 100, 1000); /* 10 bytes a ns */
	EXPECT_NEAR(u.most_bytes, 2 * 10 * kLoop, 1000);
}

TEST(sird_used, does_not_count_what_came_unasked)
{
	sird_used u;

	sird_used_init(&u);
	sird_used_feed(&u, 1U << 30, kLoop, 5000);
	EXPECT_EQ(u.bytes, 0U);
	EXPECT_EQ(u.most_bytes, 0U);
	use(u, 5100, 5000 + 2 * kLoop, 100, 1000);
	EXPECT_EQ(u.most_bytes, 0U); /* a look is two loops */
	sird_used_feed(&u, 1000, kLoop, 5000 + 2 * kLoop);
	EXPECT_NEAR(u.most_bytes, 200000, 1000);
}

TEST(sird_used, rises_at_once_and_falls_by_a_quarter_a_look)
{
	sird_used u;

	sird_used_init(&u);
	use(u, 1000, 200000, 100, 1000);
	u32 before = u.most_bytes;
	u64 from = u.since_ns;
	u.bytes = 0;
	sird_used_feed(&u, 1, kLoop, from + 2 * kLoop);
	EXPECT_EQ(u.most_bytes, before - before / 4);
	sird_used_feed(&u, 400000, kLoop, from + 4 * kLoop);
	EXPECT_NEAR(u.most_bytes, 400000, 1000);
}

TEST(sird_used, is_no_more_than_numbers_hold)
{
	sird_used u;

	sird_used_init(&u);
	sird_used_feed(&u, 1, SWIFT_U32_MAX, 1);
	for (int i = 2; i < 9; i++)
		sird_used_feed(&u, SWIFT_U32_MAX, SWIFT_U32_MAX, u64(i) << 33);
	EXPECT_NEAR(u.most_bytes, 1U << 30, 1);
	sird_used_init(&u);
	sird_used_feed(&u, 1, 0, 1);
	sird_used_feed(&u, 1, 0, 1); /* a loop that is not known, and no time */
	EXPECT_EQ(u.most_bytes, 1U);
}

TEST(sird_sender, has_the_smallest_of_three_buckets)
{
	sird_sender s;

	sird_sender_init(&s, kBdp);
	EXPECT_EQ(sird_sender_most(&s), kBdp); /* nothing is known of what it uses */
	EXPECT_TRUE(sird_sender_is_held(&s));
	s.used.most_bytes = 60000;
	EXPECT_EQ(sird_sender_most(&s), 60000U);
	EXPECT_TRUE(sird_sender_is_held(&s));
	s.used.most_bytes = 1;
	EXPECT_EQ(sird_sender_most(&s), kBdp / 4);
	s.used.most_bytes = 60000;
	s.host.size_bytes = 50000;
	EXPECT_EQ(sird_sender_most(&s), 50000U);
	EXPECT_FALSE(sird_sender_is_held(&s)); /* by csn: not the loop's affair */
	s.net.size_bytes = 20000;
	s.used.most_bytes = 1;
	EXPECT_EQ(sird_sender_most(&s), 20000U); /* less than the least of what it uses */
}

TEST(sird_sender, has_buckets_that_change_with_the_bdp)
{
	sird_link l = link_of(100000, 16000);
	sird_sender s;

	sird_sender_init(&s, kBdp);
	s.host.size_bytes = kBdp / 2;
	sird_sender_feed(&s, &l, 1, false, false, kMss);
	EXPECT_EQ(s.bdp_bytes, 2 * kBdp);
	EXPECT_EQ(s.host.size_bytes, kBdp);
	EXPECT_EQ(s.net.size_bytes, 2 * kBdp);
	l = link_of(100000, 4000);
	sird_sender_feed(&s, &l, 1, false, false, kMss);
	EXPECT_EQ(s.host.size_bytes, kBdp / 4);
	EXPECT_EQ(s.net.size_bytes, kBdp / 2);
}

/* S10 in doubles, over random arrivals. */
TEST(sird_property, what_senders_use_agrees_with_the_oracle)
{
	Draw d{10};
	u64 steps = property_steps() / 8, now = 1, looks = 0, wrong = 0;
	double since = 0, bytes = 0, most = 0;
	u32 loop = kLoop;
	sird_used u;

	sird_used_init(&u);
	for (u64 i = 0; i < steps && wrong < 5; i++) {
		if (d.one_in(1000)) {
			loop = d.any32(1000, 1000000);
			sird_used_init(&u);
			since = bytes = most = 0;
		}
		now += d.any(1, loop);
		u32 came = d.any32(1, 65536);
		double for_ns = double(now) - since;

		sird_used_feed(&u, came, loop, now);
		if (since == 0) {
			since = double(now);
		} else {
			bytes += came;
			if (for_ns >= 2.0 * loop) {
				looks++;
				most = std::max({most * 3 / 4, 2 * bytes * loop / for_ns, 1.0});
				since = double(now);
				bytes = 0;
			}
		}
		if (std::abs(u.most_bytes - most) > 8 + most / 1e3) {
			wrong++;
			ADD_FAILURE() << "step " << i << ": " << u.most_bytes << ", want " << most;
		}
	}
	EXPECT_GT(looks, steps / 20);
}

/* --- How long credit takes (S9) --------------------------------------------------------- */

/*
 * A link of 100 Gb/s whose receiver lends 1.5 BDP of the loop that it believes in, and whose
 * credit takes @true_ns to come back: the rate is what that brings, up to @most_milli.
 */
struct Loop {
	static constexpr u32 kRtt = 10000;
	sird_loop p = {};
	u64 now = 1;
	u32 true_ns, most_milli, looks = 0;
	double sum = 0;

	Loop(u32 true_loop_ns, u32 at_most_milli) : true_ns(true_loop_ns), most_milli(at_most_milli) {}

	double rate() const
	{
		return std::min(1.5 * std::max(p.ns, kRtt) / true_ns, most_milli / 1000.0);
	}

	void run(int how_many)
	{
		sum = looks = 0;
		for (int i = 0; i < how_many; i++, looks++) {
			sum += rate();
			for (int loop = 0; loop < SIRD_LOOP_LOOK_LOOPS; loop++) {
				u64 for_ns = std::max(p.ns, kRtt);

				now += for_ns;
				sird_loop_feed(&p, u32(rate() * 12.5 * double(for_ns)), true, 100000,
					       kRtt, now);
			}
		}
	}

	double mean() const { return sum / looks; }
};

TEST(sird_loop, is_the_rtt_where_the_link_is_full)
{
	Loop l(Loop::kRtt, 1000);

	l.run(100);
	EXPECT_EQ(l.p.ns, Loop::kRtt);
}

TEST(sird_loop, grows_until_the_link_is_full)
{
	for (u32 times : {2, 4, 8}) {
		Loop l(times * Loop::kRtt, 1000);

		l.run(40);
		l.run(200);
		EXPECT_GE(l.mean(), 0.94) << times;
		EXPECT_LE(l.p.ns, times * Loop::kRtt) << times; /* B is 1.5 times that */
	}
}

TEST(sird_loop, is_given_up_where_it_brings_nothing)
{
	Loop l(Loop::kRtt, 600); /* a core is the limit */
	u32 longest = 0;

	for (int i = 0; i < 400; i++) {
		l.run(1);
		longest = std::max(longest, l.p.ns);
	}
	EXPECT_LE(longest, Loop::kRtt * 3 / 2 + 1);
	u64 sum = 0;
	for (int i = 0; i < 400; i++) {
		l.run(1);
		sum += l.p.ns;
	}
	EXPECT_LE(sum / 400, Loop::kRtt * 21 / 20);
}

TEST(sird_loop, comes_down_from_where_nothing_came_of_it)
{
	Loop l(Loop::kRtt, 600);

	l.p.ns = 6 * Loop::kRtt; /* what another load had taught */
	l.run(400);
	EXPECT_LE(l.p.ns, 2 * Loop::kRtt);
}

TEST(sird_loop, is_forgotten_while_the_link_is_full)
{
	Loop l(Loop::kRtt, 1000);

	l.p.ns = 8 * Loop::kRtt;
	l.run(160);
	EXPECT_LE(l.p.ns, Loop::kRtt * 6 / 5);
}

TEST(sird_loop, is_judged_only_while_somebody_waits)
{
	sird_loop p = {};
	u64 now = 1;

	for (int i = 0; i < 10000; i++, now += 1000) /* 8 Gb/s, and all have what they want */
		sird_loop_feed(&p, 1000, false, 100000, 10000, now);
	EXPECT_EQ(p.ns, 10000U);
	for (int i = 0; i < 10000; i++, now += 1000) /* or most of the time */
		sird_loop_feed(&p, 1000, i % 100 != 0, 100000, 10000, now);
	EXPECT_EQ(p.ns, 10000U);
	u32 longest = 0;
	for (int i = 0; i < 1000; i++, now += 1000) {
		sird_loop_feed(&p, 1000, true, 100000, 10000, now);
		longest = std::max(longest, p.ns);
	}
	EXPECT_EQ(longest, 15000U);
}

TEST(sird_loop, what_begins_is_not_judged)
{
	sird_loop p = {};
	u64 now = 1;

	/* The first look would say that it is short; what comes then fills the link. */
	for (int i = 0; i < 2000; i++, now += 1000)
		sird_loop_feed(&p, i < 155 ? 1000 : 12500, true, 100000, 10000, now);
	EXPECT_EQ(p.ns, 10000U);
}

TEST(sird_loop, is_within_bounds_whatever_comes)
{
	Draw d{9};
	sird_loop p = {};
	u64 now = 0;

	for (int i = 0; i < 200000; i++) {
		u32 rtt = d.one_in(100) ? d.any32(0, SWIFT_U32_MAX) : 20000;

		now += d.one_in(1000) ? d.any(0, 1ULL << 40) : d.any(0, 100000);
		sird_loop_feed(&p, d.any32(0, d.one_in(8) ? SWIFT_U32_MAX : 100000), !d.one_in(500),
			       d.one_in(50) ? 0 : 100000, rtt, now);
		ASSERT_GE(p.ns, rtt);
		ASSERT_LE(p.ns, std::min<u64>(8ULL * rtt, SWIFT_U32_MAX));
	}
}

/* One judgement, in doubles. */
TEST(sird_property, steps_of_the_loop_agree_with_the_oracle)
{
	Draw d{99};
	u64 steps = property_steps() / 8, ups = 0, downs = 0, regrets = 0, wrong = 0;

	for (u64 i = 0; i < steps && wrong < 5; i++) {
		sird_loop p = {};
		u32 rtt = d.any32(1000, 100000), rate = d.any32(0, 1100);

		p.ns = rtt + u32(d.below(7 * u64(rtt)));
		p.was_ns = d.one_in(2) ? 0 : rtt + u32(d.below(7 * u64(rtt)));
		p.was_milli = d.any32(1, 980);
		p.rests = d.one_in(4) ? d.any32(1, 16) : 0;
		p.down = d.one_in(2);
		double ns = p.ns;
		bool rests = p.rests, down = p.down;
		/* Less than a third of what was promised; both by was_milli, so that doubles are exact. */
		double got = (double(rate) - p.was_milli) * p.was_ns, promised = (ns - p.was_ns) * p.was_milli;

		if (p.was_ns && rate < 980 && 3 * got < promised) {
			ns = p.was_ns;
			rests = true;
			regrets++;
		}
		if (rate >= 980) {
			ns -= ns / 64;
		} else if (!rests && rate < 950) {
			down = !down && ns > rtt * 1.125;
			ns = down ? ns / 1.125 :
				    ns * std::clamp(980.0 / std::max(rate, 1U), 1.125, 1.5);
			(down ? downs : ups)++;
		}
		sird_loop_judge(&p, rate, rtt);
		if (std::abs(p.ns - ns) > 2 + ns / 500) {
			wrong++;
			ADD_FAILURE() << "step " << i << ": " << p.ns << ", want " << ns;
		}
	}
	EXPECT_GT(std::min({ups, downs, regrets}), steps / 40);
}

TEST(sird, bytes_on_the_wire)
{
	EXPECT_EQ(sird_wire_bytes(999, kMss), 999U);
	EXPECT_EQ(sird_wire_bytes(1440 * 44, 1440), 44U * 1538);
	EXPECT_EQ(sird_wire_bytes(SWIFT_U32_MAX, 1), SWIFT_U32_MAX);
}

/* Algorithm 1, lines 5 and 6, in doubles: one step from where the bucket is. */
TEST(sird_property, buckets_agree_with_the_oracle)
{
	Draw d{2025};
	u64 steps = property_steps() / 4, cuts = 0, rises = 0, wrong = 0;
	u32 bdp = kBdp, mss = kMss, floor_milli = 100, often = 2;
	sird_bucket k = bucket();

	for (u64 i = 0; i < steps && wrong < 5; i++) {
		if (i % 512 == 0) {
			bdp = d.any32(SIRD_BDP_LEAST_BYTES, SIRD_BDP_MOST_BYTES);
			mss = d.any32(536, 65535);
			floor_milli = d.one_in(2) ? SIRD_HOST_FLOOR_MILLI : SIRD_NET_FLOOR_MILLI;
			often = d.any32(1, 64);
			k = bucket(d.any32(mss, bdp + mss));
			k.alpha_q16 = d.any32(0, SWIFT_Q16_ONE);
		}
		u32 bytes = 1 + u32(d.below(k.size_bytes));
		bool marked = d.one_in(often);
		double alpha = k.alpha_q16 / 65536.0, size = k.size_bytes;
		double arrived = double(k.arrived_bytes) + bytes;
		double with_mark = double(k.marked_bytes) + (marked ? bytes : 0);
		u32 before = k.size_bytes;

		sird_bucket_feed(&k, bytes, marked, mss, bdp, floor_milli);
		if (arrived >= 1.5 * size) {
			alpha = 0.92 * alpha + 0.08 * with_mark / arrived;
			size = with_mark > 0 ? size * (1 - alpha / 2) : size + mss;
			size = std::max({double(bdp) * floor_milli / 1e3, double(mss), size});
			size = std::min(size, std::max<double>(bdp, mss));
			arrived = with_mark = 0;
		}
		cuts += k.size_bytes < before;
		rises += k.size_bytes > before;
		if (std::abs(k.size_bytes - size) > 2 + size * 4 / 65536 ||
		    std::abs(k.alpha_q16 / 65536.0 - alpha) > 3.0 / 65536 ||
		    k.arrived_bytes != arrived || k.marked_bytes != with_mark) {
			wrong++;
			ADD_FAILURE() << "step " << i << ": " << before << " -> " << k.size_bytes
				      << ", want " << size << "; alpha " << k.alpha_q16 / 65536.0
				      << ", want " << alpha;
		}
	}
	EXPECT_GT(cuts, steps / 50);
	EXPECT_GT(rises, steps / 50);
}

/* --- A flow's book ------------------------------------------------------------------ */

struct Book {
	static constexpr u32 kStart = 0xfffffa00; /* wraps within two segments */
	static constexpr u32 kAllowance = 10000;
	sird_flow f;

	Book()
	{
		sird_flow_init(&f, kStart, kAllowance);
		f.most = kStart + 1000000;
	}

	/* A segment up to @end of those told; returns what was new. */
	u32 data(u32 end, u32 told, bool announces = false)
	{
		sird_data in = {kStart + end, kStart + told, announces};

		return sird_flow_arrived(&f, &in, kAllowance);
	}

	u32 edge() const { return f.edge - kStart; }
	u32 lent() const { return sird_flow_lent(&f); }
	u32 wants() const { return sird_flow_wants(&f); }
};

TEST(sird_flow, begins_with_an_allowance)
{
	sird_flow f;

	sird_flow_init(&f, 0xfffffff0, 10000);
	EXPECT_EQ(f.edge, 9984U);
	EXPECT_EQ(f.most, f.edge);
	EXPECT_EQ(sird_flow_lent(&f), 0U); /* nothing was told: nothing is under way */
	EXPECT_EQ(sird_flow_wants(&f), 0U);
}

TEST(sird_flow, what_was_told_is_lent_up_to_the_edge_and_wanted_beyond)
{
	Book b;

	EXPECT_EQ(b.data(1000, 5000), 1000U);
	EXPECT_EQ(b.lent(), 4000U); /* unscheduled, and counts */
	EXPECT_EQ(b.wants(), 0U);
	EXPECT_EQ(b.data(2000, 30000), 1000U);
	EXPECT_EQ(b.lent(), 8000U);
	EXPECT_EQ(b.wants(), 20000U);
	sird_flow_grant(&b.f, 4000);
	EXPECT_EQ(b.edge(), 14000U);
	EXPECT_EQ(b.lent(), 12000U);
	EXPECT_EQ(b.wants(), 16000U);
	EXPECT_EQ(b.f.attained_bytes, 4000U);
}

TEST(sird_flow, a_duplicate_brings_nothing)
{
	Book b;

	b.data(2000, 30000);
	EXPECT_EQ(b.data(2000, 30000), 0U);
	EXPECT_EQ(b.data(1000, 20000), 0U); /* an older one, that told less */
	EXPECT_EQ(b.lent(), 8000U);
	EXPECT_EQ(b.wants(), 20000U);
}

TEST(sird_flow, a_hole_is_filled_by_nothing_new)
{
	Book b;

	EXPECT_EQ(b.data(3000, 30000), 3000U);
	EXPECT_EQ(b.data(1000, 30000), 0U);
	EXPECT_EQ(b.lent(), 7000U);
}

TEST(sird_flow, all_that_was_told_is_no_less_than_what_came)
{
	Book b;

	EXPECT_EQ(b.data(1000, 0), 1000U); /* no option: told up to itself, or before */
	EXPECT_EQ(b.f.told, b.f.arrived);
	EXPECT_EQ(b.data(12000, 30000), 11000U); /* beyond its edge */
	EXPECT_EQ(b.edge(), 12000U);
	EXPECT_EQ(b.wants(), 18000U);
	EXPECT_EQ(b.lent(), 0U);
}

TEST(sird_allowance, is_a_segment_for_who_got_more_than_those_who_wait)
{
	sird_link l = link_of(100000, 8000);

	EXPECT_EQ(sird_allowance_among(&l, kMss, true, 1001, 1000), kMss);
	EXPECT_EQ(sird_allowance_among(&l, kMss, true, 1000, 1000), 100000U);
	EXPECT_EQ(sird_allowance_among(&l, kMss, false, 1001, 1000), 100000U);
}

TEST(sird_flow, with_nothing_left_has_an_allowance_again)
{
	Book b;

	b.data(1000, 30000, true);
	sird_flow_grant(&b.f, 29000);
	b.data(30000 - 64, 30000);
	EXPECT_EQ(b.edge(), 30000U); /* 64 bytes are some */
	EXPECT_EQ(b.f.attained_bytes, 29000U);
	b.data(30000 - 63, 30000); /* what is told is rounded up by that */
	EXPECT_EQ(b.edge(), 30000U - 63 + Book::kAllowance);
	EXPECT_EQ(b.f.attained_bytes, 0U);
	EXPECT_EQ(b.lent(), 0U);
	EXPECT_EQ(b.wants(), 0U);
}

TEST(sird_flow, an_announcement_takes_the_allowance_back)
{
	Book b;

	b.data(1000, 30000, true);
	EXPECT_EQ(b.edge(), 1000U);
	EXPECT_EQ(b.lent(), 0U);
	EXPECT_EQ(b.wants(), 29000U);
	sird_flow_grant(&b.f, 4000);
	EXPECT_EQ(b.data(1000, 30000, true), 0U); /* sent twice: credit since is not taken */
	EXPECT_EQ(b.edge(), 5000U);
	EXPECT_EQ(b.lent(), 4000U);
}

TEST(sird_flow, who_announces_nothing_keeps_the_allowance)
{
	Book b;

	b.data(1000, 1063, true);
	EXPECT_EQ(b.edge(), 11000U);
}

TEST(sird_flow, the_receivers_own_window_is_the_end)
{
	Book b;

	b.f.most = Book::kStart + 5000; /* less than the allowance */
	b.data(1000, 30000);
	EXPECT_EQ(b.lent(), 4000U);
	EXPECT_EQ(b.wants(), 0U);
	b.f.most = Book::kStart + 12000; /* the application has read */
	EXPECT_EQ(b.lent(), 9000U);
	EXPECT_EQ(b.wants(), 2000U);
	b.f.most = Book::kStart + 500; /* behind what came */
	EXPECT_EQ(b.lent(), 0U);
	EXPECT_EQ(b.wants(), 0U);
}

TEST(sird_flow, an_edge_does_not_go_back_where_the_allowance_is_less)
{
	Book b;
	sird_data in = {Book::kStart + 1000, Book::kStart + 1000, false};

	sird_flow_arrived(&b.f, &in, 2000); /* the link's RTT has shrunk */
	EXPECT_EQ(b.edge(), 10000U);
}

TEST(sird_flow, what_it_attained_saturates)
{
	Book b;

	b.f.attained_bytes = SWIFT_U32_MAX - 10;
	sird_flow_grant(&b.f, 4000);
	EXPECT_EQ(b.f.attained_bytes, SWIFT_U32_MAX);
}

u32 quantum_of(u32 wants, u32 link_quantum, u32 bucket_bytes = kBdp)
{
	sird_link l = link_of(100000, 8000);
	sird_sender s;
	Book b;

	sird_sender_init(&s, bucket_bytes);
	l.quantum_bytes = link_quantum;
	b.data(1000, 1000000, true);
	b.f.most = b.f.told = b.f.edge + wants;
	return sird_quantum(&b.f, &l, &s, kMss);
}

TEST(sird_quantum, is_four_segments_and_no_runt_behind)
{
	for (auto [wants, quantum] : {std::pair{0U, 0U}, {500U, 500U}, {4000U, 4000U},
				      {4001U, 4001U}, {4999U, 4999U}, {5000U, 4000U},
				      {29000U, 4000U}})
		EXPECT_EQ(quantum_of(wants, 0), quantum) << wants;
}

TEST(sird_quantum, is_whole_segments_of_what_the_link_has_found)
{
	EXPECT_EQ(quantum_of(90000, 20500), 20000U);
	EXPECT_EQ(quantum_of(20999, 20500), 20999U); /* no runt */
	EXPECT_EQ(quantum_of(90000, 20500, 40000), 10000U); /* a quarter of the bucket */
	EXPECT_EQ(quantum_of(90000, 20500, 8000), 4000U);
}

TEST(sird_quantum, of_a_link_is_found_by_what_arrives_as_one)
{
	sird_link l = link_of(100000, 50000);

	EXPECT_EQ(sird_quantum_bytes(&l, 0, kMss), 0U); /* nobody knows yet */
	EXPECT_EQ(sird_quantum_bytes(&l, kMss, kMss), 0U); /* each segment alone: four */
	EXPECT_EQ(sird_quantum_bytes(&l, 5 * kMss, kMss), 32000U);
	EXPECT_EQ(sird_quantum_bytes(&l, 30 * kMss, kMss), 65536U);
	l = link_of(100000, 8000);
	EXPECT_EQ(sird_quantum_bytes(&l, 30 * kMss, kMss), 12500U); /* a twelfth of B */
	EXPECT_EQ(sird_quantum_bytes(&l, SWIFT_U32_MAX, kMss), 12500U);
}

TEST(sird_batch, is_averaged_over_bytes)
{
	u32 avg = 0;

	/* A flow of segments beside one of batches: most bytes are the batches'. */
	for (int i = 0; i < 2000; i++) {
		avg = sird_batch_feed(avg, 1000);
		avg = sird_batch_feed(avg, 30000);
	}
	EXPECT_NEAR(avg, (30000.0 * 30000 + 1000 * 1000) / 31000, 600);
	EXPECT_EQ(sird_batch_feed(1000, 1000), 1000U);
	EXPECT_LE(sird_batch_feed(SWIFT_U32_MAX, 0), SWIFT_U32_MAX);
	EXPECT_LE(sird_batch_feed(0, SWIFT_U32_MAX), SWIFT_U32_MAX / 16 + 1);
}

TEST(sird_key, fair_is_by_what_was_served_srpt_by_what_is_wanted)
{
	Book b;

	b.data(1000, 21000, true);
	EXPECT_EQ(sird_key(SIRD_FAIR, &b.f, 1ULL << 40), 1ULL << 40);
	EXPECT_EQ(sird_key(SIRD_SRPT, &b.f, 1ULL << 40), 20000U);
	b.f.attained_bytes = 159992;
	EXPECT_EQ(sird_key(SIRD_SRPT, &b.f, 0), 20000U);
	b.f.attained_bytes = 1600000; /* short for ever? It is not believed */
	EXPECT_EQ(sird_key(SIRD_SRPT, &b.f, 0), 200000U);
}

TEST(sird, who_announces)
{
	EXPECT_FALSE(sird_announces(10000, 10000, false));
	EXPECT_TRUE(sird_announces(10001, 10000, false));
	EXPECT_TRUE(sird_announces(1000, 10000, true));
}

TEST(sird, odd_bytes_are_held_unless_they_are_the_last)
{
	EXPECT_EQ(sird_odd_bytes(9000, 4500, 1000), 500U);
	EXPECT_EQ(sird_odd_bytes(9000, 4000, 1000), 0U);
	EXPECT_EQ(sird_odd_bytes(4500, 4500, 1000), 0U);
	EXPECT_EQ(sird_odd_bytes(4500, 9000, 1000), 0U);
	EXPECT_EQ(sird_odd_bytes(9000, 300, 1000), 300U);
	EXPECT_EQ(sird_odd_bytes(9000, 4500, 0), 0U);
}

/* --- What is seen of it ----------------------------------------------------------------- */

TEST(sird_limit, waits_with_more_to_send_than_the_window_has_room_for)
{
	EXPECT_EQ(sird_limit_of(9000, 5000, kMss, false, false), SIRD_LIMIT_ENOUGH);
	EXPECT_EQ(sird_limit_of(9000, 1000, kMss, false, false), SIRD_LIMIT_ENOUGH);
	EXPECT_EQ(sird_limit_of(9000, 999, kMss, false, false), SIRD_LIMIT_WAITS); /* not sent */
	EXPECT_EQ(sird_limit_of(9000, 0, kMss, false, false), SIRD_LIMIT_WAITS);
	EXPECT_EQ(sird_limit_of(500, 500, kMss, false, false), SIRD_LIMIT_ENOUGH); /* the last one */
	EXPECT_EQ(sird_limit_of(500, 499, kMss, false, false), SIRD_LIMIT_WAITS);
	EXPECT_EQ(sird_limit_of(0, 0, kMss, false, true), SIRD_LIMIT_ENOUGH);
}

TEST(sird_limit, who_holds_what_he_announced_waits)
{
	EXPECT_EQ(sird_limit_of(9000, 50000, kMss, true, false), SIRD_LIMIT_WAITS);
	EXPECT_EQ(sird_limit_of(0, 50000, kMss, true, false), SIRD_LIMIT_ENOUGH); /* it was all */
}

TEST(sird_limit, tells_whose_link_it_is)
{
	EXPECT_EQ(sird_limit_of(9000, 0, kMss, false, true), SIRD_LIMIT_CONGESTED);
	EXPECT_EQ(sird_limit_of(9000, 0, kMss, true, true), SIRD_LIMIT_CONGESTED);
	EXPECT_EQ(sird_limit_of(9000, 5000, kMss, false, true), SIRD_LIMIT_ENOUGH);
}

TEST(sird_limit, csn_counts_for_64_segments)
{
	u8 left = sird_csn_left(0, false);
	int seen = 0;

	EXPECT_EQ(left, 0);
	left = sird_csn_left(3, true);
	for (; left; left = sird_csn_left(left, false))
		seen++;
	EXPECT_EQ(seen, 64);
}

/* @wants bytes are told of, and not granted; the sender has @lent of its buckets. */
sird_standing standing(u32 wants, sird_sender s, u32 lent = 0)
{
	Book b;

	b.data(1000, Book::kAllowance + wants);
	s.lent_bytes = lent;
	return sird_standing_of(&b.f, &s, 4 * kMss);
}

TEST(sird_standing, is_what_keeps_a_flow_from_more)
{
	sird_sender s;

	sird_sender_init(&s, kBdp);
	EXPECT_EQ(standing(0, s, kBdp), SIRD_STANDING_SERVED);
	EXPECT_EQ(standing(20000, s, kBdp - 4000), SIRD_STANDING_LINK); /* there is room: B's turn */
	EXPECT_EQ(standing(20000, s, kBdp - 3999), SIRD_STANDING_LINK); /* a BDP is under way */
	s.used.most_bytes = 60000;
	EXPECT_EQ(standing(20000, s, 60000), SIRD_STANDING_LATE);
	s.host.size_bytes = 50000;
	EXPECT_EQ(standing(20000, s, 50000), SIRD_STANDING_SENDER);
	EXPECT_EQ(standing(20000, s, 46000), SIRD_STANDING_LINK);
	s.net.size_bytes = 40000;
	EXPECT_EQ(standing(20000, s, 50000), SIRD_STANDING_NETWORK);
	s.used.most_bytes = 1; /* a quarter of a BDP at least */
	EXPECT_EQ(standing(20000, s, 50000), SIRD_STANDING_LATE);
	sird_sender_init(&s, SIRD_BDP_LEAST_BYTES); /* more than a slow link holds */
	s.used.most_bytes = 10000;
	EXPECT_EQ(standing(20000, s, 10000), SIRD_STANDING_LINK);
}

TEST(sird_standing, is_idle_with_nothing_told_and_full_where_nobody_reads)
{
	sird_sender s;
	Book b;

	sird_sender_init(&s, kBdp);
	EXPECT_EQ(sird_standing_of(&b.f, &s, 4 * kMss), SIRD_STANDING_IDLE);
	b.data(1000, 1000);
	EXPECT_EQ(sird_standing_of(&b.f, &s, 4 * kMss), SIRD_STANDING_IDLE);
	b.f.most = Book::kStart + 5000;
	b.data(2000, 5000);
	EXPECT_EQ(sird_standing_of(&b.f, &s, 4 * kMss), SIRD_STANDING_SERVED);
	b.data(3000, 5001);
	EXPECT_EQ(sird_standing_of(&b.f, &s, 4 * kMss), SIRD_STANDING_BUFFER);
}

/* --- The option ----------------------------------------------------------------------- */

using Bytes = std::vector<u8>;

const Bytes kOffer = {253, 4, 0x53, 0x43};
const Bytes kDemand = {253, 8, 0x53, 0x43, 0x43, 0x00, 0x01, 0x02}; /* csn, announces, 258 * 64 */
const Bytes kTimestamp = {8, 10, 1, 2, 3, 4, 5, 6, 7, 8};
const Bytes kSwiftEcho = {253, 8, 0x53, 0x57, 0x85, 0, 1, 2};

Bytes operator+(Bytes a, const Bytes &b)
{
	a.insert(a.end(), b.begin(), b.end());
	return a;
}

/* From memory of the exact size, so that a sanitizer sees a read past it. */
sird_opt_kind parse(const Bytes &bytes, sird_opt *opt = nullptr, u32 near = 0)
{
	std::unique_ptr<u8[]> exact(new u8[bytes.size()]);
	sird_opt unused;

	std::copy(bytes.begin(), bytes.end(), exact.get());
	return sird_opt_parse(exact.get(), u32(bytes.size()), near, opt ? opt : &unused);
}

Bytes put_demand(u32 told, u8 flags)
{
	Bytes bytes(SIRD_OPT_DEMAND_LEN);
	sird_opt opt = {told, flags};

	sird_opt_put_demand(bytes.data(), &opt);
	return bytes;
}

TEST(sird_opt, is_laid_out_as_documented)
{
	Bytes offer(SIRD_OPT_OFFER_LEN);

	sird_opt_put_offer(offer.data());
	EXPECT_EQ(offer, kOffer);
	EXPECT_EQ(parse(offer), SIRD_OPT_OFFER);
	EXPECT_EQ(put_demand(258 * 64, SIRD_OPT_CSN | SIRD_OPT_ANNOUNCES), kDemand);
	EXPECT_EQ(put_demand(257 * 64 + 1, SIRD_OPT_CSN | SIRD_OPT_ANNOUNCES), kDemand);
}

TEST(sird_opt, gives_back_what_was_put_within_half_a_gigabyte)
{
	for (u32 near : {0U, 1U, 63U, 0x1fffffffU, 0x40000000U, 0x80000001U, 0xffffffffU})
		for (s64 away = -(1 << 29); away <= (1 << 29) - 64; away += 1048573 * 7)
			for (s64 odd : {0, 1, 63}) {
				u32 told = near + u32(away + odd);
				sird_opt got = {};

				ASSERT_EQ(parse(put_demand(told, SIRD_OPT_ANNOUNCES), &got, near),
					  SIRD_OPT_DEMAND);
				ASSERT_EQ(got.told, (told + 63) & ~63U) << near << " " << away;
				ASSERT_EQ(got.flags, SIRD_OPT_ANNOUNCES);
			}
	/* The ends. */
	EXPECT_EQ(sird_opt_told(0x800000, 0), 0U - (1U << 29));
	EXPECT_EQ(sird_opt_told(0x7fffff, 0), (1U << 29) - 64);
}

TEST(sird_opt, of_another_version_is_ignored)
{
	for (u8 version : {0, 2, 3}) {
		Bytes bytes = kDemand;
		sird_opt got = {12345, 17};

		bytes[4] = u8(version << 6 | 3);
		EXPECT_EQ(parse(bytes, &got), SIRD_OPT_NONE) << int(version);
		EXPECT_EQ(got.told, 12345U);
		EXPECT_EQ(got.flags, 17);
		EXPECT_EQ(parse(bytes + kDemand), SIRD_OPT_DEMAND);
	}
}

TEST(sird_opt, cut_of_a_wrong_length_or_twice_is_malformed)
{
	for (size_t len = 0; len < kDemand.size(); len++) {
		Bytes cut(kDemand.begin(), kDemand.begin() + long(len));

		EXPECT_EQ(parse(kTimestamp + cut), len < 4 ? SIRD_OPT_NONE : SIRD_OPT_MALFORMED);
	}
	for (u8 olen = 0; olen < 41; olen++) {
		Bytes bytes = kDemand + Bytes(32, 1);
		sird_opt_kind want = olen < 4 ? SIRD_OPT_NONE : olen == 4 ? SIRD_OPT_OFFER :
				     olen == 8 ? SIRD_OPT_DEMAND : SIRD_OPT_MALFORMED;

		bytes[1] = olen;
		if (olen == 2 || olen == 3 || olen == 4)
			bytes[olen] = 0;
		EXPECT_EQ(parse(bytes), want) << int(olen);
	}
	for (const Bytes &two : {kOffer + kOffer, kDemand + kDemand, kOffer + kDemand,
				 kDemand + kTimestamp + kOffer})
		EXPECT_EQ(parse(two), SIRD_OPT_MALFORMED);
}

TEST(sird_opt, is_found_among_others_and_only_in_a_header)
{
	sird_opt got = {12345, 17};

	EXPECT_EQ(parse(kTimestamp + kSwiftEcho, &got), SIRD_OPT_NONE);
	EXPECT_EQ(parse(kOffer, &got), SIRD_OPT_OFFER);
	EXPECT_EQ(got.told, 12345U); /* only a demand writes */
	EXPECT_EQ(parse(Bytes{1, 1} + kTimestamp + kSwiftEcho + kDemand, &got), SIRD_OPT_DEMAND);
	EXPECT_EQ(got.told, 258U * 64);
	EXPECT_EQ(got.flags, SIRD_OPT_CSN | SIRD_OPT_ANNOUNCES);
	EXPECT_EQ(parse(Bytes{0} + kDemand), SIRD_OPT_NONE);
	EXPECT_EQ(parse(kDemand + Bytes{0} + kDemand), SIRD_OPT_DEMAND);
	EXPECT_EQ(parse(Bytes{30, 10} + kDemand), SIRD_OPT_NONE); /* another's value */
	EXPECT_EQ(parse(Bytes{8, 0} + kDemand), SIRD_OPT_NONE); /* would not advance */
	EXPECT_EQ(parse(kDemand + Bytes{8, 30}), SIRD_OPT_DEMAND);
	EXPECT_EQ(parse(Bytes(32, 1) + kDemand), SIRD_OPT_DEMAND);
	EXPECT_EQ(parse(Bytes(36, 1) + kDemand), SIRD_OPT_MALFORMED); /* cut by the header's end */
	EXPECT_EQ(parse(Bytes(40, 1) + kDemand), SIRD_OPT_NONE);
}

/* --- A receiver, as a shell has it, without lists ---------------------------------------- */

struct Receiver {
	struct Flow {
		size_t sender;
		sird_flow book;
		u32 counted = 0;
		u64 served = 0;
		bool waits = false;
	};
	sird_tunables t = defaults();
	sird_link link;
	u32 mss, lent = 0, beyond_b = 0;
	u64 clock = 0;
	std::vector<Flow> flows;
	std::vector<sird_sender> senders;
	std::vector<size_t> granted; /* since somebody looked */

	Receiver(u32 mbps, u32 rtt_ns, u32 mss_bytes, size_t n) : mss(mss_bytes), senders(n)
	{
		link = link_of(mbps, rtt_ns, t);
		for (sird_sender &s : senders)
			sird_sender_init(&s, link.bdp_bytes);
	}

	size_t join(size_t sender, u32 next)
	{
		Flow f{sender, {}};

		sird_flow_init(&f.book, next, sird_allowance(&link, mss));
		f.book.most = next + (1U << 30);
		f.served = clock;
		flows.push_back(f);
		return flows.size() - 1;
	}

	void count(Flow &f)
	{
		u32 now = sird_flow_lent(&f.book);

		lent += now - f.counted;
		senders[f.sender].lent_bytes += now - f.counted;
		f.counted = now;
		if (sird_flow_wants(&f.book) && !f.waits)
			f.served = std::max(f.served, clock);
		f.waits = sird_flow_wants(&f.book);
	}

	u64 key(const Flow &f) const
	{
		return sird_key(sird_policy(t.credit_policy), &f.book, f.served);
	}

	u32 quantum(const Flow &f) const
	{
		return sird_quantum(&f.book, &link, &senders[f.sender], mss);
	}

	Flow *pick()
	{
		Flow *best = nullptr;

		for (Flow &f : flows)
			if (f.waits && (!best || key(f) < key(*best)) &&
			    sird_sender_may_have(&senders[f.sender], quantum(f)))
				best = &f;
		return best;
	}

	void schedule()
	{
		while (Flow *f = pick()) {
			u32 bytes = quantum(*f);

			if (!sird_link_may_lend(&link, lent, bytes, mss))
				return;
			beyond_b += lent && lent + std::min(bytes, 4 * mss) > link.b_bytes;
			sird_flow_grant(&f->book, bytes);
			clock = std::max(clock, f->served);
			f->served += bytes;
			count(*f);
			granted.push_back(size_t(f - flows.data()));
		}
	}

	u32 arrived(size_t i, const sird_data &in, bool csn, bool net)
	{
		Flow &f = flows[i];
		u32 bytes = sird_flow_arrived(&f.book, &in, sird_allowance(&link, mss));

		if (bytes)
			sird_sender_feed(&senders[f.sender], &link, bytes, csn, net, mss);
		count(f);
		schedule();
		return bytes;
	}
};

/* --- Random traffic ------------------------------------------------------------------------- */

/* A sender of TCP that does as it is told, in positions that do not wrap. */
struct Honest {
	struct Segment {
		s64 end, told;
		bool announces;
	};
	s64 start, sent = 0, written = 0, arrived = 0, told = 0, edge; /* from start */
	s64 known = 0; /* written, as told with what was sent */
	bool holds = false;
	std::vector<Segment> network;

	Honest(u32 next, u32 allowance) : start(next), edge(allowance) {}

	void send(u32 mss)
	{
		s64 queued = written - sent, window = edge - sent;
		bool announces = network.empty() && sent >= known &&
				 sird_announces(u32(queued), u32(window), false);

		if (holds || queued <= 0 || window <= 0)
			return;
		if (announces)
			window = std::min<s64>(window, mss);
		else if (!network.empty())
			window -= sird_odd_bytes(u32(queued), u32(window), mss);
		for (s64 end = std::min(sent + window, written); sent < end; known = written) {
			sent = std::min(sent + mss, end);
			network.push_back({sent, written, announces});
		}
		holds = announces;
	}
};

struct Walk {
	Draw d;
	Receiver r;
	std::vector<Honest> flows;
	u32 mss;

	Walk(u64 seed, size_t n, u32 mbps, u32 mss_bytes)
		: d{seed}, r(mbps, 8000, mss_bytes, 1 + n / 3), mss(mss_bytes)
	{
		r.t.credit_policy = seed % 2;
		r.link.quantum_bytes = sird_quantum_bytes(&r.link, d.any32(0, 65536), mss);
		for (size_t i = 0; i < n; i++) {
			u32 next = 0U - d.any32(1, 1 << 20);

			r.join(i % r.senders.size(), next);
			flows.push_back({next, sird_allowance(&r.link, mss)});
		}
	}

	void deliver(size_t i)
	{
		Honest &h = flows[i];

		if (h.network.empty())
			return;
		size_t which = d.one_in(4) ? d.below(h.network.size()) : 0;
		Honest::Segment s = h.network[which];
		u32 told = (u32(h.start + s.told) + 63) & ~63U;
		sird_data in = {u32(h.start + s.end), told, s.announces};
		s64 fresh = std::max<s64>(0, s.end - h.arrived);

		if (!d.one_in(16)) /* or it comes twice */
			h.network.erase(h.network.begin() + long(which));
		r.granted.clear();
		EXPECT_EQ(r.arrived(i, in, d.one_in(16), d.one_in(32)), fresh);
		h.holds = false;
		h.arrived += fresh;
		h.told = std::max(h.told, s.told);
		for (size_t j : r.granted) /* an ACK each, at once */
			flows[j].edge = s64(u32(r.flows[j].book.edge - u32(flows[j].start)));
		h.edge = s64(u32(r.flows[i].book.edge - u32(h.start)));
	}

	/* The books agree with each other and with the senders. */
	bool holds() const
	{
		u64 all = 0;
		std::vector<u64> by_sender(r.senders.size());
		bool good = !r.beyond_b;

		for (size_t i = 0; i < flows.size(); i++) {
			const Honest &h = flows[i];
			const Receiver::Flow &f = r.flows[i];
			s64 may = std::max<s64>(0, std::min(h.edge, h.told) - h.arrived);

			all += f.counted;
			by_sender[f.sender] += f.counted;
			/* What is lent can arrive: it is under way, or allowed and there. */
			good = good && h.sent <= h.edge && h.arrived <= h.sent &&
			       std::abs(s64(f.counted) - may) < 64 /* told in units */ &&
			       f.counted == sird_flow_lent(&f.book);
		}
		for (size_t s = 0; s < by_sender.size(); s++)
			good = good && by_sender[s] == r.senders[s].lent_bytes;
		return good && all == r.lent;
	}
};

TEST(sird_property, credit_is_conserved)
{
	u64 steps = property_steps() / 16, done = 0;

	for (u64 seed = 1; done < steps; seed++) {
		static constexpr u32 kSegments[] = {536, 1448, 8948, 65483};
		Walk w(seed, 1 + seed % 17, seed % 3 ? 100000 : 1000, kSegments[seed % 4]);

		for (int i = 0; i < 600; i++, done++) {
			size_t f = w.d.below(w.flows.size());

			if (i < 400 && w.d.one_in(8))
				w.flows[f].written += s64(w.d.any(1, 1 << 19));
			w.flows[f].send(w.mss);
			w.deliver(w.d.below(w.flows.size()));
			ASSERT_TRUE(w.holds()) << "seed " << seed << " step " << i;
		}
		/* Left alone, everything that was written arrives, and nothing stays lent. */
		bool busy = true;
		for (u64 i = 0; busy && i < 100000; i++) {
			busy = false;
			for (size_t f = 0; f < w.flows.size(); f++) {
				w.flows[f].send(w.mss);
				w.deliver(f);
				busy |= w.flows[f].arrived < w.flows[f].written;
			}
		}
		ASSERT_TRUE(w.holds()) << seed;
		ASSERT_FALSE(busy) << seed;
		ASSERT_EQ(w.r.lent, 0U) << seed;
	}
}

TEST(sird_property, fair_flows_that_always_want_get_alike)
{
	Draw d{7};
	Receiver r(100000, 8000, kMss, 12);
	std::vector<u32> at(12);

	r.lent = r.link.b_bytes; /* others have it all, until everybody waits */
	for (size_t i = 0; i < at.size(); i++) {
		r.join(i, 0);
		r.arrived(i, {at[i] = kMss, 1U << 29, true}, false, false);
	}
	r.lent = 0;
	r.schedule();
	for (int step = 0; step < 20000; step++) {
		size_t i = d.below(at.size());

		if (sird_flow_lent(&r.flows[i].book))
			r.arrived(i, {at[i] += kMss, 1U << 29, false}, false, false);
		auto [least, most] = std::minmax_element(
			r.flows.begin(), r.flows.end(),
			[](const auto &a, const auto &b) { return a.served < b.served; });
		ASSERT_LE(most->served - least->served, SIRD_QUANTUM_PKTS * kMss) << step;
	}
	EXPECT_GT(*std::min_element(at.begin(), at.end()), 100 * kMss);
}

TEST(sird_property, srpt_serves_the_shorter_one_first)
{
	Receiver r(100000, 8000, kMss, 2);

	r.t.credit_policy = SIRD_SRPT;
	r.lent = r.link.b_bytes; /* others have it all */
	r.join(0, 0);
	r.join(1, 0);
	r.arrived(0, {kMss, 1000000, true}, false, false);
	r.arrived(1, {kMss, 49000, true}, false, false);
	r.lent = 0;
	r.granted.clear();
	r.schedule();
	ASSERT_GT(r.granted.size(), 12U);
	for (size_t i = 0; i < 12; i++) /* 48 segments */
		EXPECT_EQ(r.granted[i], 1U);
	EXPECT_EQ(r.granted[12], 0U);
}

/* --- Hosts with one link each ----------------------------------------------------------------- */

/* A sender's NIC is a queue, a receiver's port another; the way between takes its time. */
struct Hosts {
	static constexpr u32 kMbps = 100000, kSegment = 1448;
	static constexpr double kWayNs = 4000, kByteNs = 8000.0 / kMbps;
	static constexpr u32 kRttNs = u32(2 * kWayNs + 2 * kSegment * kByteNs);
	enum What { PORT, DATA, ACK };
	struct Event {
		double at;
		What what;
		size_t flow;
		sird_data data; /* of an ACK: told is the edge */
		bool csn;

		bool operator<(const Event &other) const { return at > other.at; }
	};
	struct Host {
		Receiver book;
		double nic_until = 0, port_until = 0;
		u64 busy_until_ns = 0; /* as the core computes it */
		size_t receivers = 0;
	};
	struct Flow {
		size_t from, to, index;
		u32 sent = 0, edge = 0;
		double delivered = 0;
	};
	static constexpr u32 kEnd = 1U << 29; /* of each flow: out of reach */
	bool with_csn;
	std::vector<Host> hosts;
	std::vector<Flow> flows;
	std::priority_queue<Event> events;
	double now = 0, queue = 0, unused = 0, arrivals = 0;

	Hosts(size_t n, std::vector<std::pair<size_t, size_t>> pairs, bool csn) : with_csn(csn)
	{
		hosts.assign(n, {Receiver(kMbps, kRttNs, kSegment, n)});
		for (auto [from, to] : pairs) {
			flows.push_back({from, to, hosts[to].book.join(from, 0)});
			hosts[from].receivers++;
		}
		for (size_t i = 0; i < flows.size(); i++)
			hand(i, kSegment, true);
	}

	void hand(size_t i, u32 bytes, bool announces)
	{
		Flow &f = flows[i];
		Host &h = hosts[f.from];
		bool csn = with_csn && h.receivers > 1 &&
			   sird_csn(&h.book.t, h.busy_until_ns, u64(now), kRttNs);

		f.sent += bytes;
		h.busy_until_ns = sird_link_busy_until(h.busy_until_ns, u64(now), bytes, kMbps);
		h.nic_until = std::max(h.nic_until, now) + bytes * kByteNs;
		events.push({h.nic_until + kWayNs, PORT, i, {f.sent, kEnd, announces}, csn});
	}

	void arrive(const Event &e)
	{
		Flow &f = flows[e.flow];
		Receiver &r = hosts[f.to].book;

		r.granted.clear();
		f.delivered += r.arrived(f.index, e.data, e.csn, false);
		unused += double(r.link.b_bytes) - r.lent;
		arrivals++;
		r.granted.push_back(f.index);
		for (size_t i = 0; i < flows.size(); i++)
			if (flows[i].to == f.to && std::count(r.granted.begin(), r.granted.end(),
							      flows[i].index))
				events.push({now + kWayNs, ACK, i,
					     {0, r.flows[flows[i].index].book.edge, false}, false});
	}

	void run(double ns)
	{
		double end = now + ns;

		queue = unused = arrivals = 0;
		for (Flow &f : flows)
			f.delivered = 0;
		while (!events.empty() && events.top().at < end) {
			Event e = events.top();
			Flow &f = flows[e.flow];
			Host &to = hosts[f.to];

			events.pop();
			now = e.at;
			if (e.what == PORT) {
				queue = std::max(queue, (to.port_until - now) / kByteNs);
				to.port_until = std::max(to.port_until, now) + kSegment * kByteNs;
				e.at = to.port_until;
				e.what = DATA;
				events.push(e);
			} else if (e.what == DATA) {
				arrive(e);
			} else {
				f.edge = sird_later(f.edge, e.data.told);
				u32 window = sird_ahead(f.edge, f.sent);

				window -= sird_odd_bytes(kEnd - f.sent, window, kSegment);
				for (; window; window -= kSegment)
					hand(e.flow, kSegment, false);
			}
		}
		now = end;
	}

	/* Part of a link's rate that flows @from up to @to got in the last @ns. */
	double part(size_t from, size_t to, double ns) const
	{
		double sum = 0;

		for (size_t i = from; i <= to; i++)
			sum += flows[i].delivered;
		return sum * kByteNs / ns;
	}

	std::string text(double value) const { return std::to_string(value); }
};

/* Section 6.1.1: B bounds the queue of the port, and fills it. */
TEST(sird_hosts, six_to_one_run_at_full_rate_with_a_queue_of_b_less_a_bdp)
{
	Hosts h(7, {{0, 6}, {1, 6}, {2, 6}, {3, 6}, {4, 6}, {5, 6}}, true);
	const sird_link &link = h.hosts[6].book.link;

	h.run(1e6);
	h.run(1e6);
	RecordProperty("rate", h.text(h.part(0, 5, 1e6)));
	RecordProperty("queue_bytes", h.text(h.queue));
	EXPECT_GT(h.part(0, 5, 1e6), 0.99);
	EXPECT_GT(h.queue, 0.25 * link.bdp_bytes); /* and B is used */
	EXPECT_LE(h.queue, link.b_bytes - link.bdp_bytes + 4 * Hosts::kSegment);
	for (size_t i = 0; i < 6; i++)
		EXPECT_NEAR(h.part(i, i, 1e6), 1.0 / 6, 0.01) << i;
}

/*
 * Section 6.1.2: one sender to three receivers, the first of which another sends to as well.
 * Credit that the first sender cannot use is credit that the other lacks.
 */
TEST(sird_hosts, csn_gives_the_credit_of_a_congested_sender_to_its_rival)
{
	double rival[2], unused[2], all[2], down[2];

	for (bool csn : {false, true}) {
		Hosts h(5, {{0, 1}, {0, 2}, {0, 3}, {4, 1}}, csn);

		h.run(4e6);
		h.run(2e6);
		rival[csn] = h.part(3, 3, 2e6);
		unused[csn] = h.unused / h.arrivals;
		all[csn] = h.part(0, 2, 2e6);
		down[csn] = h.part(0, 0, 2e6) + rival[csn];
		std::string with = csn ? "csn_" : "no_csn_";
		RecordProperty(with + "rival", h.text(rival[csn]));
		RecordProperty(with + "sender", h.text(all[csn]));
		RecordProperty(with + "downlink", h.text(down[csn]));
		RecordProperty(with + "unused_bytes", h.text(unused[csn]));
	}
	EXPECT_GT(rival[1], rival[0] + 0.04);
	EXPECT_LT(down[0], 0.9);
	EXPECT_GT(down[1], 0.98);
	EXPECT_GT(unused[1], unused[0] + 10000);
	EXPECT_GT(all[0], 0.99);
	EXPECT_GT(all[1], 0.97); /* its own link stays full */
}

} /* namespace */
