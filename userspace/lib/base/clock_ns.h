// SPDX-License-Identifier: MIT
// What a clock of the kernel shows, and its units.
#pragma once

#include <cstdint>
#include <ctime>

namespace swift {

inline constexpr std::int64_t ns_per_s = 1'000'000'000;
inline constexpr std::int64_t ns_per_ms = 1'000'000;
inline constexpr double real_ns_per_s = 1e9; // for what is divided

// In ns. Of a clock that there is it cannot fail; of another it is 0.
inline std::int64_t clock_ns(clockid_t clock)
{
	timespec t{};

	clock_gettime(clock, &t);
	return std::int64_t{t.tv_sec} * ns_per_s + t.tv_nsec;
}

} // namespace swift
