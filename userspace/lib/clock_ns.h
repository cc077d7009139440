// SPDX-License-Identifier: MIT
// What a clock of the kernel shows.
#pragma once

#include <cstdint>
#include <ctime>

namespace swift {

// In ns. Of a clock that there is it cannot fail; of another it is 0.
inline std::int64_t clock_ns(clockid_t clock)
{
	timespec t{};

	clock_gettime(clock, &t);
	return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

} // namespace swift
