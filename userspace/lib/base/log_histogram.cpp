// SPDX-License-Identifier: MIT
#include "log_histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

namespace swift {

namespace {

constexpr std::size_t subs = std::size_t{1} << LogHistogram::sub_bits;

} // namespace

std::size_t LogHistogram::bucket_of(std::uint32_t value)
{
	const std::uint32_t units = value >> unit_shift;

	if (units < subs)
		return units;

	const auto log2 = static_cast<unsigned>(std::bit_width(units)) - 1;

	return (log2 - sub_bits + 1) * subs + (units >> (log2 - sub_bits)) % subs;
}

std::uint64_t LogHistogram::lower(std::size_t bucket)
{
	if (bucket < subs)
		return std::uint64_t{bucket} << unit_shift;

	const std::size_t shift = bucket / subs - 1;

	return (subs + bucket % subs) << (shift + unit_shift);
}

std::uint64_t LogHistogram::upper(std::size_t bucket)
{
	return lower(bucket + 1);
}

void LogHistogram::add(std::uint32_t value, std::uint64_t times)
{
	buckets_[bucket_of(value)] += times;
	sum_ += value * times;
}

LogHistogram &LogHistogram::operator+=(const LogHistogram &other)
{
	for (std::size_t i = 0; i < bucket_count; i++)
		buckets_[i] += other.buckets_[i];
	sum_ += other.sum_;
	return *this;
}

LogHistogram LogHistogram::since(const LogHistogram &earlier) const
{
	LogHistogram d = *this;

	for (std::size_t i = 0; i < bucket_count; i++) {
		if (buckets_[i] < earlier.buckets_[i])
			return *this;
		d.buckets_[i] -= earlier.buckets_[i];
	}
	d.sum_ = sum_ >= earlier.sum_ ? sum_ - earlier.sum_ : sum_;
	return d;
}

std::uint64_t LogHistogram::count() const
{
	return std::accumulate(buckets_.begin(), buckets_.end(), std::uint64_t{0});
}

double LogHistogram::mean() const
{
	const std::uint64_t n = count();

	return n ? static_cast<double>(sum_) / static_cast<double>(n) : 0;
}

double LogHistogram::quantile(double q) const
{
	const std::uint64_t n = count();

	if (n == 0)
		return 0;

	// The smallest rank, from 1, that has at least this part of all at or below it.
	const double wanted = std::ceil(std::clamp(q, 0.0, 1.0) * static_cast<double>(n));
	const auto rank = std::clamp<std::uint64_t>(static_cast<std::uint64_t>(wanted), 1, n);
	std::uint64_t below = 0;
	std::size_t i = 0;

	while (below + buckets_[i] < rank)
		below += buckets_[i++];

	const auto low = static_cast<double>(lower(i));
	const auto width = static_cast<double>(upper(i) - lower(i));

	return low + width * (static_cast<double>(rank - below) - 0.5) / static_cast<double>(buckets_[i]);
}

std::vector<std::uint64_t> LogHistogram::cumulative(std::span<const std::uint64_t> edges) const
{
	std::vector<std::uint64_t> out;
	std::uint64_t sum = 0;
	std::size_t i = 0;

	for (const std::uint64_t edge : edges) {
		for (; i < bucket_count && upper(i) - 1 <= edge; i++)
			sum += buckets_[i];
		out.push_back(sum);
	}
	return out;
}

} // namespace swift
