// SPDX-License-Identifier: MIT
// What is asked of the kernel for each flow, in a list or for one alone.
#pragma once

#include <linux/inet_diag.h>

#include <cstdint>

namespace swift {

constexpr std::uint8_t diag_extension(int attribute)
{
	return static_cast<std::uint8_t>(1U << (attribute - 1));
}
inline constexpr std::uint8_t diag_extensions =
	diag_extension(INET_DIAG_INFO) | diag_extension(INET_DIAG_CONG) | diag_extension(INET_DIAG_VEGASINFO);

} // namespace swift
