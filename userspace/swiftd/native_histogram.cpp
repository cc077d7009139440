// SPDX-License-Identifier: MIT
#include "native_histogram.h"

#include <cmath>

#include "clock_ns.h"

namespace swift {

NativeHistogram::NativeHistogram(const LogHistogram &h)
{
	for (std::size_t i = 0; i < LogHistogram::bucket_count; i++)
		if (const std::uint64_t n = h.buckets()[i]; n > 0)
			add(static_cast<double>(LogHistogram::lower(i) + LogHistogram::upper(i)) / 2 / real_ns_per_s, n);
}

void NativeHistogram::add(double value, std::uint64_t times)
{
	if (value <= zero_threshold)
		zero_ += times;
	else
		buckets_[static_cast<int>(std::ceil(std::ldexp(std::log2(value), schema)))] += times;
}

} // namespace swift
