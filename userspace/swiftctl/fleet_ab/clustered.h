// SPDX-License-Identifier: MIT
// The statistics of an experiment whose arms were drawn for whole clusters, a rack or a period: one
// value for each, however many hosts and flows it had. Pure functions; what the values mean is
// somebody else's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace swift {

// Student's t: P(T <= t), and the t with that probability. @df > 0 need not be whole.
[[nodiscard]] double t_probability(double t, double df);
[[nodiscard]] double t_quantile(double probability, double df);

// Rows are racks, columns are periods.
using Cells = std::vector<std::vector<std::optional<double>>>;

// Least squares of cell = row + column: what is missing takes nothing from the comparison of rows,
// or of columns, with each other. Of a row or a column without a cell: empty.
struct TwoWay {
	std::vector<std::optional<double>> rows;
	std::vector<std::optional<double>> columns;
};
[[nodiscard]] TwoWay two_way(const Cells &cells);

// A cluster that was in one of the two arms that are compared.
struct Cluster {
	std::size_t block = 0; // arms were drawn within it
	bool treated = false;
	double value = 0;
	double before = 0; // the same, before there were arms; all 0: not known
};

struct ClusterEffect {
	double effect = 0; // of the arm, in the same block, at the same value before
	double se = 0; // CR2 (Bell and McCaffrey)
	double df = 0; // of it, Satterthwaite's
	std::size_t treated = 0; // clusters that count: those of blocks with both arms
	std::size_t untreated = 0;
	std::size_t blocks = 0;
	bool before_used = false;

	[[nodiscard]] double half_width(double level = 0.95) const;
	[[nodiscard]] double p() const; // two-sided
	[[nodiscard]] double p_above(double limit) const; // one-sided: of effect <= @limit
	// What is shown 4 times in 5, at 5 %.
	[[nodiscard]] double detectable() const;
};

// Empty if nothing is left that an error could be told by: fewer than two blocks with both arms, or
// one block with fewer than three clusters. The values before are used if there is room for them: of few
// clusters instead of their blocks.
[[nodiscard]] std::optional<ClusterEffect> cluster_effect(std::span<const Cluster> clusters);

// How often an effect this large comes of the drawing alone: arms drawn again within their blocks, in
// all ways if they are few. The statistic is the effect by its error.
struct Randomisation {
	double p = 1;
	double least_p = 1; // that this design can have
	bool exact = false;
};
[[nodiscard]] std::optional<Randomisation> randomisation_p(std::span<const Cluster> clusters, std::uint64_t seed);

} // namespace swift
