// SPDX-License-Identifier: MIT
// The sysctls below net.ipv4.tcp_swift: names, defaults, ranges and meanings, out of the
// module's own table. Which values a host has is system.h's.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "result.h"

namespace swift {

inline constexpr std::string_view sysctl_prefix = "net.ipv4.tcp_swift.";
// In the order of enum swift_target_policy.
inline constexpr std::array<std::string_view, 3> target_policy_words = {"static", "base_rtt", "base_rtt_plus"};

struct Tunable {
	std::string_view name;
	std::int64_t fallback; // the module's default
	std::int64_t min;
	std::int64_t max;
	std::string_view meaning;

	// "50000", or a word for target_policy; an Error says what is allowed.
	Result<std::string> check(std::string_view value) const;
};

[[nodiscard]] std::span<const Tunable> tunables();
[[nodiscard]] const Tunable *find_tunable(std::string_view name);
// What else a tunable of any law that is in its range has to be; "": nothing.
[[nodiscard]] std::string_view dependence(std::string_view tunable);

} // namespace swift
