// SPDX-License-Identifier: MIT
// LogHistogram against the values themselves, sorted.
#include "log_histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>

using namespace swift;

namespace {

// Of all sizes that there are, edges of buckets among them.
std::vector<std::uint32_t> some_values(std::size_t n, std::uint32_t seed)
{
	std::mt19937 random(seed);
	std::vector<std::uint32_t> all;

	while (all.size() < n) {
		const std::uint32_t v = static_cast<std::uint32_t>(random()) >> (random() % 32);

		all.push_back(v);
		if (random() % 4 == 0)
			all.push_back(static_cast<std::uint32_t>(
				LogHistogram::lower(LogHistogram::bucket_of(v)) - random() % 2));
	}
	return all;
}

LogHistogram of(const std::vector<std::uint32_t> &values)
{
	LogHistogram h;

	for (const std::uint32_t v : values)
		h.add(v);
	return h;
}

} // namespace

TEST(LogHistogram, BucketsFollowEachOtherAndCoverAll)
{
	EXPECT_EQ(LogHistogram::lower(0), 0U);
	for (std::size_t i = 0; i < LogHistogram::bucket_count; i++) {
		const auto low = static_cast<std::uint32_t>(LogHistogram::lower(i));
		const auto high = static_cast<std::uint32_t>(LogHistogram::upper(i) - 1);

		ASSERT_LT(LogHistogram::lower(i), LogHistogram::upper(i));
		EXPECT_EQ(LogHistogram::bucket_of(low), i);
		EXPECT_EQ(LogHistogram::bucket_of(high), i);
		// From 4 units on no wider than a quarter of where it begins.
		if (i >= 4)
			EXPECT_LE(4 * (LogHistogram::upper(i) - LogHistogram::lower(i)), LogHistogram::lower(i));
		else
			EXPECT_EQ(LogHistogram::upper(i) - LogHistogram::lower(i), 64U);
	}
	EXPECT_EQ(LogHistogram::upper(LogHistogram::bucket_count - 1), std::uint64_t{1} << 32);
}

TEST(LogHistogram, QuantilesAreInTheBucketOfTheExactOnes)
{
	for (std::uint32_t seed = 1; seed <= 20; seed++) {
		auto values = some_values(1 + seed * 37, seed);
		const LogHistogram h = of(values);

		std::sort(values.begin(), values.end());
		for (const double q : {0.0, 0.001, 0.1, 0.25, 0.5, 0.9, 0.99, 0.999, 1.0}) {
			const auto rank = std::max<std::size_t>(
				1, static_cast<std::size_t>(std::ceil(q * static_cast<double>(values.size()))));
			const std::uint32_t exact = values[rank - 1];
			const double got = h.quantile(q);

			EXPECT_EQ(LogHistogram::bucket_of(static_cast<std::uint32_t>(got)), LogHistogram::bucket_of(exact))
				<< "seed " << seed << " q " << q;
			EXPECT_LE(std::abs(got - exact), std::max(64.0, 0.25 * exact));
		}
	}
}

TEST(LogHistogram, OneValueIsWithinAnEighth)
{
	for (const std::uint32_t v : some_values(5000, 3)) {
		LogHistogram h;

		h.add(v, 3);
		EXPECT_LE(std::abs(h.quantile(0.5) - v), std::max(32.0, 0.125 * v)) << v;
		EXPECT_EQ(h.count(), 3U);
		EXPECT_EQ(h.sum(), 3ULL * v);
		EXPECT_DOUBLE_EQ(h.mean(), v);
	}
}

TEST(LogHistogram, CumulativeIsExactAtTheEdgesOfBuckets)
{
	const auto values = some_values(3000, 9);
	const LogHistogram h = of(values);
	std::vector<std::uint64_t> edges;

	for (std::size_t i = 0; i < LogHistogram::bucket_count; i += 3)
		edges.push_back(LogHistogram::upper(i) - 1);
	edges.push_back(0xffffffffU);

	const auto got = h.cumulative(edges);

	ASSERT_EQ(got.size(), edges.size());
	for (std::size_t i = 0; i < edges.size(); i++)
		EXPECT_EQ(got[i], static_cast<std::uint64_t>(std::count_if(
					  values.begin(), values.end(), [&](std::uint32_t v) { return v <= edges[i]; })));
	EXPECT_EQ(got.back(), values.size());
	// Between two edges: never more than there are.
	const std::vector<std::uint64_t> between = {1000, 100000};
	const auto less = h.cumulative(between);

	for (std::size_t i = 0; i < between.size(); i++)
		EXPECT_LE(less[i], static_cast<std::uint64_t>(std::count_if(
					   values.begin(), values.end(), [&](std::uint32_t v) { return v <= between[i]; })));
}

TEST(LogHistogram, MergedIsAsIfCountedTogether)
{
	auto a = some_values(500, 1);
	const auto b = some_values(700, 2);
	LogHistogram merged = of(a);

	merged += of(b);
	a.insert(a.end(), b.begin(), b.end());
	EXPECT_EQ(merged, of(a));
}

TEST(LogHistogram, DifferenceIsWhatCameBetween)
{
	const auto a = some_values(500, 1);
	const auto b = some_values(700, 2);
	LogHistogram later = of(a);

	later += of(b);
	EXPECT_EQ(later.since(of(a)), of(b));
	EXPECT_TRUE(later.since(later).empty());
	// Counting that began anew.
	EXPECT_EQ(of(b).since(later), of(b));
}

TEST(LogHistogram, EmptyIsZero)
{
	const LogHistogram h;

	EXPECT_TRUE(h.empty());
	EXPECT_EQ(h.quantile(0.99), 0);
	EXPECT_EQ(h.mean(), 0);
}
