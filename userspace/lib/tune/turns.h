// SPDX-License-Identifier: MIT
// Two settings that take turns are compared: a mean of differences, and how well it is known. What is
// compared, and what follows from it, is the callers'.
#pragma once

#include <algorithm>

namespace swift {

class Moments {
public:
	void add(double x);
	[[nodiscard]] unsigned count() const { return count_; }
	[[nodiscard]] double mean() const { return sum_ / count_; }
	// The standard error of the mean, never 0, and made larger for as few as they are, by Student's
	// quantile over the normal distribution's at @z; 1 of fewer than two.
	[[nodiscard]] double error(double z) const;

private:
	double sum_ = 0;
	double squares_ = 0;
	unsigned count_ = 0;
};

// If not, the traffic is another one.
[[nodiscard]] inline bool comparable(unsigned flows, unsigned other_flows)
{
	constexpr double max_ratio = 1.5;

	return std::max(flows, other_flows) <= max_ratio * std::min(flows, other_flows);
}

} // namespace swift
