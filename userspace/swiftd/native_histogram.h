// SPDX-License-Identifier: MIT
// Prometheus' native histogram: buckets whose bounds are the powers of 2^(1/8), of which those exist
// that have something in them. One time series, whatever it has seen.
#pragma once

#include <cstdint>
#include <map>

#include "log_histogram.h"

namespace swift {

class NativeHistogram {
public:
	static constexpr int schema = 3; // bounds are powers of 2^(2^-schema)
	// What is not above it counts as zero: the client libraries' own, so that none needs to be widened.
	static constexpr double zero_threshold = 0x1p-128;

	NativeHistogram() = default;
	// Of delays in ns, in seconds: each of @h's buckets is all at its middle.
	explicit NativeHistogram(const LogHistogram &h);

	void add(double value, std::uint64_t times = 1);
	[[nodiscard]] std::uint64_t zero() const { return zero_; }
	// By index: values above 2^((index - 1) / 8), up to 2^(index / 8).
	[[nodiscard]] const std::map<int, std::uint64_t> &buckets() const { return buckets_; }

private:
	std::uint64_t zero_ = 0;
	std::map<int, std::uint64_t> buckets_;
};

} // namespace swift
