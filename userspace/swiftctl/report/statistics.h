// SPDX-License-Identifier: MIT
// Statistics of a few dozen runs: exact where that is possible, without assumptions on how
// the values are distributed. Pure functions; what the values mean is somebody else's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace swift {

// Of the functions that need all 2^n signs or orders; their time grows with its cube.
inline constexpr std::size_t exact_max = 200;

struct ConfidenceInterval {
	double low = 0;
	double high = 0;
	double coverage = 0; // at least what was asked for: few values allow few levels
};

// Of at least one value.
[[nodiscard]] double median(std::span<const double> values);
// Nearest rank: one of the values. Empty if they are too few to have anything beyond it.
[[nodiscard]] std::optional<double> percentile(std::span<const double> values, double q);
// Jain's fairness index: 1 = all the same, 1/n = one has everything.
[[nodiscard]] double jain_index(std::span<const double> values);

// Of the median, exact: between two order statistics. Empty if even the smallest and the
// largest value cover less than @level (at 0.95: below 6 values).
[[nodiscard]] std::optional<ConfidenceInterval> median_interval(std::span<const double> values,
							       double level = 0.95);

// Of paired differences: the median of all their Walsh averages, and the interval that
// belongs to the signed-rank test. Empty as above.
[[nodiscard]] double hodges_lehmann(std::span<const double> differences);
[[nodiscard]] std::optional<ConfidenceInterval>
hodges_lehmann_interval(std::span<const double> differences, double level = 0.95);

// Wilcoxon's signed-rank test, two-sided, exact with ties too; zeros are dropped.
[[nodiscard]] double signed_rank_p(std::span<const double> differences);
// The smallest p that @n pairs can have.
[[nodiscard]] double signed_rank_least_p(std::size_t n);

// P(x > y) - P(x < y), and its usual word: negligible, small, medium, large.
[[nodiscard]] double cliffs_delta(std::span<const double> x, std::span<const double> y);
[[nodiscard]] std::string_view cliffs_word(double delta);

// Adjusted for being all in one family, in the same order.
[[nodiscard]] std::vector<double> holm(std::span<const double> p);

// The difference that a test with an interval of this width shows 4 times in 5 (for means
// of many values; about so for what is here).
[[nodiscard]] double detectable(const ConfidenceInterval &interval);

// @items in random order, the same for the same state on every machine.
class Shuffler {
public:
	explicit Shuffler(std::uint64_t seed) : state_(seed) {}
	template <typename T> void shuffle(std::vector<T> &items)
	{
		for (std::size_t i = items.size(); i > 1; i--)
			std::swap(items[i - 1], items[below(i)]);
	}
	std::uint64_t below(std::uint64_t limit);

private:
	std::uint64_t next();

	std::uint64_t state_;
};

} // namespace swift
