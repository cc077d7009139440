// SPDX-License-Identifier: MIT
// The statistics of `swiftctl ab` against values computed by hand and by trying everything,
// and their promises against simulations with a seed.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <numeric>
#include <random>

#include "statistics.h"

using namespace swift;

namespace {

using Values = std::vector<double>;

// P of a signed-rank statistic at least as far out, by all 2^n signs, with ranks counted anew.
double brute_force_p(const Values &all)
{
	Values d;

	for (const double v : all)
		if (v != 0)
			d.push_back(v);
	const std::size_t n = d.size();
	Values rank(n);

	for (std::size_t i = 0; i < n; i++) {
		double less = 0;
		double same = 0;

		for (std::size_t j = 0; j < n; j++) {
			less += std::abs(d[j]) < std::abs(d[i]);
			same += std::abs(d[j]) == std::abs(d[i]);
		}
		rank[i] = less + (same + 1) / 2;
	}
	const double middle = std::accumulate(rank.begin(), rank.end(), 0.0) / 2;
	double observed = 0;

	for (std::size_t i = 0; i < n; i++)
		observed += d[i] > 0 ? rank[i] : 0;

	std::size_t out = 0;

	for (std::size_t signs = 0; signs < std::size_t{1} << n; signs++) {
		double sum = 0;

		for (std::size_t i = 0; i < n; i++)
			sum += (signs >> i & 1) ? rank[i] : 0;
		out += std::abs(sum - middle) >= std::abs(observed - middle) - 1e-9;
	}
	return static_cast<double>(out) / std::exp2(n);
}

// P that the median of a continuous distribution is outside the k-th smallest and largest of n.
double brute_force_outside(unsigned n, unsigned k)
{
	std::size_t out = 0;

	for (std::size_t below = 0; below < std::size_t{1} << n; below++) {
		const auto count = static_cast<unsigned>(std::popcount(below));

		out += count < k || count > n - k;
	}
	return static_cast<double>(out) / std::exp2(n);
}

Values one_to(unsigned n)
{
	Values v(n);

	std::iota(v.begin(), v.end(), 1.0);
	return v;
}

} // namespace

TEST(statistics, median_and_percentiles)
{
	EXPECT_EQ(median(Values{3}), 3);
	EXPECT_EQ(median(Values{4, 1, 3}), 3);
	EXPECT_EQ(median(Values{4, 1, 3, 2}), 2.5);
	EXPECT_EQ(percentile(one_to(100), 0.99), 99);
	EXPECT_EQ(percentile(one_to(1000), 0.999), 999);
	EXPECT_EQ(percentile(one_to(150), 0.99), 149);
	EXPECT_EQ(percentile(one_to(99), 0.99), std::nullopt); // nothing lies beyond it
	EXPECT_EQ(percentile(one_to(999), 0.999), std::nullopt);
	EXPECT_EQ(percentile(Values{7, 5}, 0.5), 5);
	EXPECT_EQ(percentile(Values{}, 0.5), std::nullopt);
}

TEST(statistics, jain)
{
	EXPECT_DOUBLE_EQ(jain_index(Values{5, 5, 5}), 1);
	EXPECT_DOUBLE_EQ(jain_index(Values{1, 0, 0, 0}), 0.25);
	EXPECT_DOUBLE_EQ(jain_index(Values{1, 3}), 0.8); // 16 / (2 * 10)
	EXPECT_DOUBLE_EQ(jain_index(Values{0, 0}), 1);
}

// Hand: Bin(6, 1/2) has 1/64 at 0; Bin(10, 1/2) has 11/1024 up to 1, 56/1024 up to 2.
TEST(statistics, interval_of_the_median_is_exact)
{
	for (unsigned n = 0; n < 6; n++)
		EXPECT_FALSE(median_interval(one_to(n))) << n;

	const auto six = median_interval(Values{6, 1, 5, 2, 4, 3});

	ASSERT_TRUE(six);
	EXPECT_EQ(six->low, 1);
	EXPECT_EQ(six->high, 6);
	EXPECT_DOUBLE_EQ(six->coverage, 1 - 2.0 / 64);

	const auto ten = median_interval(one_to(10));

	ASSERT_TRUE(ten);
	EXPECT_EQ(ten->low, 2);
	EXPECT_EQ(ten->high, 9);
	EXPECT_DOUBLE_EQ(ten->coverage, 1 - 2 * 11.0 / 1024);

	for (unsigned n = 6; n <= 16; n++) {
		const auto interval = median_interval(one_to(n));

		ASSERT_TRUE(interval);
		const auto k = static_cast<unsigned>(interval->low);

		EXPECT_EQ(interval->high, n + 1 - k);
		EXPECT_NEAR(1 - interval->coverage, brute_force_outside(n, k), 1e-12) << n;
		EXPECT_LE(brute_force_outside(n, k), 0.05) << n;
		EXPECT_GT(brute_force_outside(n, k + 1), 0.05) << n; // no narrower one will do
	}
}

// Of {1, 2, 4}: 1, 1.5, 2, 2.5, 3, 4.
TEST(statistics, hodges_lehmann_by_hand)
{
	EXPECT_EQ(hodges_lehmann(Values{1, 2, 4}), 2.25);
	EXPECT_EQ(hodges_lehmann(Values{-3}), -3);
	EXPECT_EQ(hodges_lehmann(Values{0, 10}), 5);
	EXPECT_FALSE(hodges_lehmann_interval(one_to(5)));

	// n = 6: P(T < 1) = 1/64 <= 2.5 %, P(T < 2) = 2/64 is more: from smallest to largest.
	const auto six = hodges_lehmann_interval(one_to(6));

	ASSERT_TRUE(six);
	EXPECT_EQ(six->low, 1);
	EXPECT_EQ(six->high, 6);
	EXPECT_DOUBLE_EQ(six->coverage, 1 - 2.0 / 64);

	// n = 10: the table's critical value is 8 (P(T <= 8) = 25/1024), so the 9th Walsh average:
	// of 1..10 they begin 1, 1.5, 2, 2, 2.5, 2.5, 3, 3, 3.
	const auto ten = hodges_lehmann_interval(one_to(10));

	ASSERT_TRUE(ten);
	EXPECT_EQ(ten->low, 3);
	EXPECT_EQ(ten->high, 8);
	EXPECT_DOUBLE_EQ(ten->coverage, 1 - 2 * 25.0 / 1024);
}

TEST(statistics, signed_rank_by_hand)
{
	// All of one sign: both extremes, of 2^n.
	EXPECT_DOUBLE_EQ(signed_rank_p(one_to(6)), 2.0 / 64);
	EXPECT_DOUBLE_EQ(signed_rank_p(one_to(6)), signed_rank_least_p(6));
	// The smallest negative: T- = 1, and 0: 2 * 2 / 64.
	EXPECT_DOUBLE_EQ(signed_rank_p(Values{-1, 2, 3, 4, 5, 6}), 4.0 / 64);
	EXPECT_DOUBLE_EQ(signed_rank_p(Values{1, -1}), 1);
	EXPECT_DOUBLE_EQ(signed_rank_p(Values{0, 0, 0}), 1);
	EXPECT_DOUBLE_EQ(signed_rank_p(Values{}), 1);
	EXPECT_DOUBLE_EQ(signed_rank_p(Values{0, 1, 2, 3, 4, 5, 6}), 2.0 / 64);
	// Published critical values at 5 %, two-sided: n = 8: 3, n = 10: 8.
	EXPECT_LE(signed_rank_p(Values{-1, -2, 3, 4, 5, 6, 7, 8}), 0.05);
	EXPECT_GT(signed_rank_p(Values{-1, 2, -3, 4, 5, 6, 7, 8}), 0.05);
	EXPECT_LE(signed_rank_p(Values{1, 2, 3, 4, 5, 6, 7, -8, 9, 10}), 0.05);
	EXPECT_GT(signed_rank_p(Values{1, 2, 3, 4, 5, 6, 7, 8, -9, 10}), 0.05);
}

TEST(statistics, signed_rank_is_what_trying_all_signs_says)
{
	std::mt19937_64 random(1);
	std::uniform_int_distribution<int> value(-6, 6); // ties and zeros galore
	std::uniform_int_distribution<std::size_t> size(1, 11);

	for (int i = 0; i < 200; i++) {
		Values d(size(random));

		for (double &v : d)
			v = value(random);
		EXPECT_NEAR(signed_rank_p(d), brute_force_p(d), 1e-12) << testing::PrintToString(d);
	}
}

TEST(statistics, exact_up_to_the_most_runs)
{
	EXPECT_GT(signed_rank_p(one_to(static_cast<unsigned>(exact_max))), 0);
	Values d = one_to(static_cast<unsigned>(exact_max));

	for (std::size_t i = 0; i < d.size(); i += 2)
		d[i] = -d[i];
	EXPECT_GT(signed_rank_p(d), 0.5);
	EXPECT_TRUE(hodges_lehmann_interval(d)->low < 0 && hodges_lehmann_interval(d)->high > 0);
}

TEST(statistics, interval_and_test_say_the_same)
{
	std::mt19937_64 random(2);
	std::normal_distribution<double> value(0.6, 1);
	int shown = 0;

	for (int i = 0; i < 500; i++) {
		Values d(10);

		for (double &v : d)
			v = value(random);
		const auto interval = hodges_lehmann_interval(d);
		const bool excludes = interval->low > 0 || interval->high < 0;

		EXPECT_EQ(excludes, signed_rank_p(d) <= 0.05);
		EXPECT_LE(interval->low, hodges_lehmann(d));
		EXPECT_GE(interval->high, hodges_lehmann(d));
		shown += excludes;
	}
	EXPECT_GT(shown, 50); // both cases were there
	EXPECT_LT(shown, 450);
}

TEST(statistics, intervals_cover_what_they_promise)
{
	constexpr int trials = 4000;
	std::mt19937_64 random(3);
	std::exponential_distribution<double> skewed(1); // median ln 2
	std::normal_distribution<double> symmetric(5, 2);

	for (const unsigned n : {6U, 10U, 15U}) {
		int medians = 0;
		int shifts = 0;
		double promised_median = 0;
		double promised_shift = 0;

		for (int i = 0; i < trials; i++) {
			Values x(n);
			Values d(n);

			for (double &v : x)
				v = skewed(random);
			for (double &v : d)
				v = symmetric(random);
			const auto m = median_interval(x);
			const auto s = hodges_lehmann_interval(d);

			medians += m->low <= std::log(2) && std::log(2) <= m->high;
			shifts += s->low <= 5 && 5 <= s->high;
			promised_median = m->coverage;
			promised_shift = s->coverage;
		}
		// Four standard errors of a share near 95 %.
		EXPECT_NEAR(medians / double{trials}, promised_median, 0.014) << n;
		EXPECT_NEAR(shifts / double{trials}, promised_shift, 0.014) << n;
		EXPECT_GE(promised_median, 0.95);
		EXPECT_GE(promised_shift, 0.95);
	}
}

TEST(statistics, what_is_called_detectable_is_detected_four_times_in_five)
{
	std::mt19937_64 random(4);
	std::normal_distribution<double> noise(0, 1);
	Values sizes;

	for (int i = 0; i < 1000; i++) {
		Values d(20);

		for (double &v : d)
			v = noise(random);
		sizes.push_back(detectable(*hodges_lehmann_interval(d)));
	}
	const double size = median(sizes);
	int shown = 0;

	for (int i = 0; i < 2000; i++) {
		Values d(20);

		for (double &v : d)
			v = noise(random) + size;
		shown += signed_rank_p(d) <= 0.05;
	}
	EXPECT_NEAR(shown / 2000.0, 0.8, 0.05) << "at a difference of " << size;
}

TEST(statistics, cliffs_delta_and_its_words)
{
	EXPECT_EQ(cliffs_delta(Values{1, 2}, Values{3, 4}), -1);
	EXPECT_EQ(cliffs_delta(Values{3, 4}, Values{1, 2}), 1);
	EXPECT_EQ(cliffs_delta(Values{1, 2, 3}, Values{1, 2, 3}), 0);
	EXPECT_EQ(cliffs_delta(Values{1, 3}, Values{2, 2}), 0);
	EXPECT_EQ(cliffs_delta(Values{2, 3}, Values{1, 2}), 0.75); // 3 more, 0 less, 1 equal
	EXPECT_EQ(cliffs_word(0.1), "negligible");
	EXPECT_EQ(cliffs_word(-0.2), "small");
	EXPECT_EQ(cliffs_word(0.4), "medium");
	EXPECT_EQ(cliffs_word(-1), "large");
}

TEST(statistics, holm_by_hand)
{
	// Sorted: 0.01 * 3, 0.02 * 2, 0.03 * 1; the last no less than the one before.
	EXPECT_EQ(holm(Values{0.03, 0.01, 0.02}), (Values{0.04, 0.03, 0.04}));
	EXPECT_EQ(holm(Values{0.9, 0.8}), (Values{1, 1}));
	EXPECT_EQ(holm(Values{0.02}), (Values{0.02}));
	EXPECT_EQ(holm(Values{}), (Values{}));
}

TEST(statistics, shuffles_are_even_and_the_same_everywhere)
{
	std::vector<int> items = {0, 1, 2, 3, 4, 5};

	Shuffler(7).shuffle(items); // as another program with the same generator has it
	EXPECT_EQ(items, (std::vector<int>{1, 5, 0, 2, 4, 3}));

	std::map<std::vector<int>, int> seen;
	Shuffler shuffler(8);

	for (int i = 0; i < 6000; i++) {
		std::vector<int> three = {0, 1, 2};

		shuffler.shuffle(three);
		seen[three]++;
	}
	ASSERT_EQ(seen.size(), 6U);
	for (const auto &[order, times] : seen)
		EXPECT_NEAR(times, 1000, 120); // four standard deviations
}
