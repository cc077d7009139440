/* SPDX-License-Identifier: GPL-2.0 */
/*
 * NIC clocks: which lines are allowed, and the age of a stamp, held against long double
 * arithmetic over random lines, stamps and moments.
 *
 * SWIFT_PROPERTY_STEPS sets the number of random steps (default 1.2 million).
 */
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>

#include "clock.h"
#include "draw.hpp"

namespace {

constexpr u64 kOne = SWIFT_CLOCK_ONE_Q32;
constexpr u64 kLowest = 4252017624, kHighest = 4337916968; /* 2^32 +- 1 % */
constexpr u64 kSecond = 1000000000;
constexpr swift_clock_bounds kAny = {0, SWIFT_STAMP_AGE_MAX_NS};

u64 steps()
{
	const char *env = std::getenv("SWIFT_PROPERTY_STEPS");

	return env ? std::strtoull(env, nullptr, 10) : 1200000;
}

swift_clock_setting good()
{
	return {5000, 7000, kOne, 100, 1000};
}

/* NIC 5000 is host 7000; valid from 10000 for a second. */
swift_clock_map line(u64 ratio_q32 = kOne, u32 error_ns = 0)
{
	swift_clock_setting s = good();
	swift_clock_map m = {};

	s.ratio_q32 = ratio_q32;
	s.error_ns = error_ns;
	EXPECT_EQ(swift_clock_prepare(&m, &s, 10000), SWIFT_CLOCK_F_NONE);
	return m;
}

struct Age {
	swift_clock_result result;
	u32 ns;
	bool operator==(const Age &) const = default;
};

std::ostream &operator<<(std::ostream &out, const Age &age)
{
	return out << "{" << age.result << ", " << age.ns << " ns}";
}

constexpr u32 kUntouched = 0xdeadbeef;

Age age_of(const swift_clock_map &m, u64 stamp_ns, u64 now_ns, swift_clock_bounds bounds = kAny)
{
	u32 ns = kUntouched;
	swift_clock_result result = swift_clock_age(&m, stamp_ns, now_ns, &bounds, &ns);

	return {result, ns};
}

Age refused(swift_clock_result why)
{
	return {why, kUntouched};
}

TEST(clock_prepare, takes_what_it_is_given)
{
	swift_clock_setting s = {1, 2, kOne + 3, 4, 5};
	swift_clock_map m = {};

	ASSERT_EQ(swift_clock_prepare(&m, &s, 1000), SWIFT_CLOCK_F_NONE);
	EXPECT_EQ(m.nic_ns, 1U);
	EXPECT_EQ(m.host_ns, 2U);
	EXPECT_EQ(m.ratio_q32, kOne + 3);
	EXPECT_EQ(m.error_ns, 4U);
	EXPECT_EQ(m.valid_until_ns, 1000U + 5000000);
}

TEST(clock_prepare, has_the_bounds_of_the_abi)
{
	struct {
		swift_clock_field field;
		u64 lo, hi;
		void (*set)(swift_clock_setting &, u64);
		u64 type_max;
	} cases[] = {
		{SWIFT_CLOCK_F_NIC_NS, 0, (1ULL << 63) - 1,
		 [](swift_clock_setting &s, u64 v) { s.nic_ns = v; }, ~0ULL},
		{SWIFT_CLOCK_F_HOST_NS, 0, 10000, /* now */
		 [](swift_clock_setting &s, u64 v) { s.host_ns = v; }, ~0ULL},
		{SWIFT_CLOCK_F_RATIO_Q32, kLowest, kHighest,
		 [](swift_clock_setting &s, u64 v) { s.ratio_q32 = v; }, ~0ULL},
		{SWIFT_CLOCK_F_ERROR_NS, 0, 1000000,
		 [](swift_clock_setting &s, u64 v) { s.error_ns = u32(v); }, SWIFT_U32_MAX},
		{SWIFT_CLOCK_F_VALID_MS, 1, 60000,
		 [](swift_clock_setting &s, u64 v) { s.valid_ms = u32(v); }, SWIFT_U32_MAX},
	};

	for (auto &c : cases) {
		auto with = [&](u64 v) {
			swift_clock_setting s = good();
			swift_clock_map m, before;

			std::memset(&m, 0x5a, sizeof(m));
			before = m;
			c.set(s, v);
			swift_clock_field field = swift_clock_prepare(&m, &s, 10000);
			if (field != SWIFT_CLOCK_F_NONE) {
				EXPECT_EQ(std::memcmp(&m, &before, sizeof(m)), 0) << v;
			}
			return field;
		};

		EXPECT_EQ(with(c.lo), SWIFT_CLOCK_F_NONE) << c.field;
		EXPECT_EQ(with(c.hi), SWIFT_CLOCK_F_NONE) << c.field;
		EXPECT_EQ(with(c.hi + 1), c.field);
		EXPECT_EQ(with(c.type_max), c.field);
		if (c.lo) {
			EXPECT_EQ(with(c.lo - 1), c.field);
			EXPECT_EQ(with(0), c.field);
		}
	}
}

TEST(clock_age, follows_the_line)
{
	EXPECT_EQ(age_of(line(), 7500, 10000), (Age{SWIFT_CLOCK_OK, 500}));
	EXPECT_EQ(age_of(line(), 8000, 10000), (Age{SWIFT_CLOCK_OK, 0}));
	EXPECT_EQ(age_of(line(), 4000, 10000), (Age{SWIFT_CLOCK_OK, 4000})); /* before the anchor */
	EXPECT_EQ(age_of(line(), 0, 10000), (Age{SWIFT_CLOCK_OK, 8000}));
}

TEST(clock_age, follows_the_ratio)
{
	/*
	 * 100 s after the anchor a NIC that is 1 % fast shows 101.01 s more. (A ratio is whole
	 * 2^-32: 23 ns in 100 s.)
	 */
	swift_clock_map fast = line(kLowest), slow = line(kHighest);
	u64 far = 100 * kSecond;

	fast.valid_until_ns = slow.valid_until_ns = ~0ULL;
	EXPECT_NEAR(age_of(fast, 5000 + 101 * kSecond, 7000 + far).ns, 10000000, 25);
	EXPECT_NEAR(age_of(slow, 5000 + 99 * kSecond, 7000 + far).ns, 10000000, 25);
	/* Back from it, too. */
	EXPECT_NEAR(age_of(fast, 5000 - 5000, 10000).ns, 3000 + 4950, 1);
	EXPECT_NEAR(age_of(slow, 5000 - 5000, 10000).ns, 3000 + 5050, 1);
}

TEST(clock_age, ends_with_the_line)
{
	swift_clock_map m = line();

	EXPECT_EQ(swift_clock_left_ns(&m, 10000), kSecond);
	EXPECT_EQ(age_of(m, 5000, 7000), (Age{SWIFT_CLOCK_OK, 0}));
	EXPECT_EQ(age_of(m, 5000, 6999), refused(SWIFT_CLOCK_STALE)); /* not begun */
	EXPECT_EQ(age_of(m, kSecond, kSecond + 9999).result, SWIFT_CLOCK_OK);
	EXPECT_EQ(swift_clock_left_ns(&m, kSecond + 9999), 1U);
	EXPECT_EQ(age_of(m, kSecond, kSecond + 10000), refused(SWIFT_CLOCK_STALE));
	EXPECT_EQ(swift_clock_left_ns(&m, kSecond + 10000), 0U);
	EXPECT_EQ(age_of(m, kSecond, ~0ULL), refused(SWIFT_CLOCK_STALE));
}

TEST(clock_age, a_future_within_the_error_is_now)
{
	swift_clock_map m = line(kOne, 50);

	EXPECT_EQ(age_of(m, 8050, 10000), (Age{SWIFT_CLOCK_OK, 0}));
	EXPECT_EQ(age_of(m, 8051, 10000), refused(SWIFT_CLOCK_FUTURE));
	EXPECT_EQ(age_of(line(), 8001, 10000), refused(SWIFT_CLOCK_FUTURE));
	EXPECT_EQ(age_of(m, ~0ULL, 10000), refused(SWIFT_CLOCK_FUTURE));
}

TEST(clock_age, is_not_below_the_smallest)
{
	swift_clock_map m = line(kOne, 50);
	swift_clock_bounds b = {200, 300};

	EXPECT_EQ(age_of(m, 7750, 10000, b), (Age{SWIFT_CLOCK_OK, 250}));
	EXPECT_EQ(age_of(m, 7800, 10000, b), (Age{SWIFT_CLOCK_OK, 200}));
	EXPECT_EQ(age_of(m, 7850, 10000, b), (Age{SWIFT_CLOCK_OK, 200}));
	EXPECT_EQ(age_of(m, 7851, 10000, b), refused(SWIFT_CLOCK_FUTURE));
	/* A smallest age within the error reaches into the future. */
	b.min_age_ns = 20;
	EXPECT_EQ(age_of(m, 8030, 10000, b), (Age{SWIFT_CLOCK_OK, 20}));
	EXPECT_EQ(age_of(m, 8031, 10000, b), refused(SWIFT_CLOCK_FUTURE));
}

TEST(clock_age, is_not_above_the_largest)
{
	swift_clock_map m = line(kOne, 50);
	swift_clock_bounds b = {200, 300};

	EXPECT_EQ(age_of(m, 7700, 10000, b), (Age{SWIFT_CLOCK_OK, 300}));
	EXPECT_EQ(age_of(m, 7650, 10000, b), (Age{SWIFT_CLOCK_OK, 300}));
	EXPECT_EQ(age_of(m, 7649, 10000, b), refused(SWIFT_CLOCK_OLD));
	EXPECT_EQ(age_of(m, 0, 10000, b), refused(SWIFT_CLOCK_OLD));
	EXPECT_EQ(age_of(m, 7649, 10000, {200, SWIFT_U32_MAX}), (Age{SWIFT_CLOCK_OK, 351}));
}

/* A clock that was stepped, a clock that was set anew. */
TEST(clock_age, hours_are_seen)
{
	u64 hour = 3600 * kSecond, now = 10 * hour;
	swift_clock_setting s = {hour * 400000, now, kOne, 1000000, 1000};
	swift_clock_map m = {};

	ASSERT_EQ(swift_clock_prepare(&m, &s, now), SWIFT_CLOCK_F_NONE);
	EXPECT_EQ(age_of(m, s.nic_ns + hour, now), refused(SWIFT_CLOCK_FUTURE));
	EXPECT_EQ(age_of(m, s.nic_ns - hour, now), refused(SWIFT_CLOCK_OLD));
	EXPECT_EQ(age_of(m, 1, now), refused(SWIFT_CLOCK_OLD));
	EXPECT_EQ(age_of(m, ~0ULL, now), refused(SWIFT_CLOCK_FUTURE));
}

class Random {
public:
	explicit Random(u64 seed) : draw{seed} {}

	/* A line, set at @set_ns; much of the range of each field. */
	void new_line()
	{
		set_ns = draw.any(0, 1ULL << 61);
		setting = {draw.any(0, SWIFT_CLOCK_NIC_MAX_NS),
			   draw.one_in(2) ? set_ns - draw.any(0, std::min<u64>(set_ns, kSecond)) :
					    draw.any(0, set_ns),
			   draw.any(kLowest, kHighest), draw.any32(0, 1000000),
			   draw.any32(1, 60000)};
		ASSERT_EQ(swift_clock_prepare(&map, &setting, set_ns), SWIFT_CLOCK_F_NONE);
	}

	void new_moment()
	{
		now_ns = set_ns + draw.any(0, u64(setting.valid_ms) * 1100000);
		bounds.max_age_ns = draw.any32(0, SWIFT_STAMP_AGE_MAX_NS);
		bounds.min_age_ns = draw.any32(0, bounds.max_age_ns);
	}

	/* Mostly one of which the line says that it is plausible, or nearly. */
	void new_stamp()
	{
		if (draw.one_in(4)) {
			stamp_ns = draw.one_in(2) ? draw.bits() : draw.any(0, ~0ULL);
			return;
		}
		long double age = draw.any32(0, SWIFT_STAMP_AGE_MAX_NS), at;

		if (draw.one_in(4))
			age = -age;
		else if (draw.one_in(2))
			age = (long double)(draw.one_in(2) ? bounds.min_age_ns : bounds.max_age_ns) +
			      (long double)draw.below(2 * map.error_ns + 8) - map.error_ns - 4;
		at = (long double)map.nic_ns +
		     ((long double)(now_ns - map.host_ns) - age) * (long double)kOne /
			     (long double)map.ratio_q32;
		stamp_ns = at < 0 ? 0 : at >= 0x1p64L ? ~0ULL : u64(at);
	}

	long double exact_age() const
	{
		long double from = stamp_ns >= map.nic_ns ?
					   (long double)(stamp_ns - map.nic_ns) :
					   -(long double)(map.nic_ns - stamp_ns);

		return (long double)(now_ns - map.host_ns) -
		       from * (long double)map.ratio_q32 / (long double)kOne;
	}

	Draw draw;
	u64 set_ns = 0, now_ns = 0, stamp_ns = 0;
	swift_clock_setting setting = {};
	swift_clock_map map = {};
	swift_clock_bounds bounds = {};
};

/* 1 ns of rounding, and what long double itself cannot tell apart at 2^63. */
constexpr long double kRounding = 2;

TEST(clock_property, agrees_with_long_double)
{
	Random r(1);
	u64 seen[5] = {}, clamped = 0, far = 0;

	for (u64 i = 0; i < steps(); i++) {
		if (i % 8 == 0)
			r.new_line();
		r.new_moment();
		r.new_stamp();

		Age age = age_of(r.map, r.stamp_ns, r.now_ns, r.bounds);
		long double exact = r.exact_age();
		long double lo = (long double)r.bounds.min_age_ns - r.map.error_ns;
		long double hi = (long double)r.bounds.max_age_ns + r.map.error_ns;

		seen[age.result]++;
		if (r.now_ns >= r.map.valid_until_ns) {
			ASSERT_EQ(age, refused(SWIFT_CLOCK_STALE)) << "step " << i;
			continue;
		}
		if (exact < lo - kRounding) {
			ASSERT_EQ(age, refused(SWIFT_CLOCK_FUTURE)) << "step " << i;
		} else if (exact > hi + kRounding) {
			ASSERT_EQ(age, refused(SWIFT_CLOCK_OLD)) << "step " << i;
		} else if (exact > lo + kRounding && exact < hi - kRounding) {
			long double want = std::fmin(std::fmax(exact, r.bounds.min_age_ns),
						     r.bounds.max_age_ns);

			ASSERT_EQ(age.result, SWIFT_CLOCK_OK) << "step " << i;
			ASSERT_LE(std::fabs((long double)age.ns - want), kRounding) << "step " << i;
			clamped += want != exact;
			far += r.now_ns - r.map.host_ns > (1ULL << 60);
		}
	}
	/* None of it in vain. */
	EXPECT_EQ(seen[SWIFT_CLOCK_NONE], 0U);
	for (auto result : {SWIFT_CLOCK_OK, SWIFT_CLOCK_STALE, SWIFT_CLOCK_FUTURE, SWIFT_CLOCK_OLD})
		EXPECT_GT(seen[result], steps() / 50) << result;
	EXPECT_GT(clamped, steps() / 200);
	EXPECT_GT(far, steps() / 1000);
}

TEST(clock_property, a_later_stamp_is_not_older)
{
	Random r(2);
	u64 compared = 0;

	for (u64 i = 0; i < steps() / 4; i++) {
		if (i % 8 == 0)
			r.new_line();
		r.new_moment();
		r.bounds = kAny;
		r.new_stamp();

		Age first = age_of(r.map, r.stamp_ns, r.now_ns);
		u64 later = r.stamp_ns + r.draw.any(0, 1000);
		Age second = age_of(r.map, later, r.now_ns);

		if (later < r.stamp_ns || first.result != SWIFT_CLOCK_OK ||
		    second.result != SWIFT_CLOCK_OK)
			continue;
		compared++;
		ASSERT_GE(first.ns, second.ns) << "step " << i;
	}
	EXPECT_GT(compared, steps() / 40);
}

/* Whatever is in a line, and whatever is asked of it: no age is out of bounds. */
TEST(clock_property, nothing_leaves_the_bounds)
{
	Draw draw{3};

	for (u64 i = 0; i < steps() / 4; i++) {
		swift_clock_map m = {draw.any(0, ~0ULL), draw.any(0, ~0ULL), draw.any(0, ~0ULL),
				     draw.any(0, ~0ULL), draw.any32(0, SWIFT_U32_MAX)};
		u32 max = draw.any32(0, SWIFT_U32_MAX);
		swift_clock_bounds b = {draw.any32(0, max), max};
		Age age = age_of(m, draw.any(0, ~0ULL), draw.any(0, ~0ULL), b);

		if (age.result == SWIFT_CLOCK_OK) {
			ASSERT_GE(age.ns, b.min_age_ns) << "step " << i;
			ASSERT_LE(age.ns, b.max_age_ns) << "step " << i;
		} else {
			ASSERT_EQ(age.ns, kUntouched) << "step " << i;
		}
	}
}

} // namespace
