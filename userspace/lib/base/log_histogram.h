// SPDX-License-Identifier: MIT
// A histogram of fixed size for any u32, with the layout that the BPF telemetry counts in
// (bpf/telemetry_maps.h): values below 4 units of 64 have a bucket each, every power of two above
// has 4 of equal width. What it says of a value is off by 12.5 % at most, or half a unit.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace swift {

class LogHistogram {
public:
	static constexpr std::size_t bucket_count = 100;
	static constexpr unsigned unit_shift = 6;
	static constexpr unsigned sub_bits = 2;

	[[nodiscard]] static std::size_t bucket_of(std::uint32_t value);
	[[nodiscard]] static std::uint64_t lower(std::size_t bucket); // the first value in it
	[[nodiscard]] static std::uint64_t upper(std::size_t bucket); // the first value above it

	void add(std::uint32_t value, std::uint64_t times = 1);
	// What somebody else has counted, in buckets like these.
	template <typename Count> void add(std::span<const Count, bucket_count> buckets, std::uint64_t sum)
	{
		for (std::size_t i = 0; i < bucket_count; i++)
			buckets_[i] += buckets[i];
		sum_ += sum;
	}
	LogHistogram &operator+=(const LogHistogram &other);
	// What was added since @earlier was read. If that is more than there is now, counting
	// has begun anew meanwhile: then all of it.
	[[nodiscard]] LogHistogram since(const LogHistogram &earlier) const;

	[[nodiscard]] std::uint64_t count() const;
	[[nodiscard]] std::uint64_t sum() const { return sum_; }
	[[nodiscard]] const std::array<std::uint64_t, bucket_count> &buckets() const { return buckets_; }
	[[nodiscard]] bool empty() const { return count() == 0; }
	[[nodiscard]] double mean() const; // exact; 0 if empty
	// 0 <= @q <= 1: where in its bucket the value of that rank lies, if those of a bucket
	// are spread evenly. 0 if empty.
	[[nodiscard]] double quantile(double q) const;
	// For each of @edges, ascending: how many values are certainly not above it. Exact for
	// edges that are the last value of a bucket, upper() - 1.
	[[nodiscard]] std::vector<std::uint64_t> cumulative(std::span<const std::uint64_t> edges) const;

	bool operator==(const LogHistogram &) const = default;

private:
	std::array<std::uint64_t, bucket_count> buckets_{};
	std::uint64_t sum_ = 0;
};

} // namespace swift
