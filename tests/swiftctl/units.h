// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

namespace swift_test {

inline constexpr std::int64_t ms = 1000000; // in ns

} // namespace swift_test
