// SPDX-License-Identifier: MIT
#include "turns.h"

#include <cmath>

namespace swift {

namespace {

// None at all is of a made-up link alone: the smallest keeps a ratio to it a number.
constexpr double least_error = 1e-9;

// Student's quantile over the normal distribution's, for @freedom degrees (Cornish and Fisher).
double student_factor(double z, double freedom)
{
	const double z2 = z * z;

	return 1 + (z2 + 1) / (4 * freedom) + (5 * z2 * z2 + 16 * z2 + 3) / (96 * freedom * freedom) +
	       (3 * z2 * z2 * z2 + 19 * z2 * z2 + 17 * z2 - 15) / (384 * freedom * freedom * freedom);
}

} // namespace

void Moments::add(double x)
{
	sum_ += x;
	squares_ += x * x;
	count_++;
}

double Moments::error(double z) const
{
	if (count_ < 2)
		return 1;
	const double freedom = count_ - 1;
	const double variance = std::max(0.0, squares_ / count_ - mean() * mean());

	return std::max(std::sqrt(variance / freedom), least_error) * student_factor(z, freedom);
}

} // namespace swift
