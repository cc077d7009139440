// SPDX-License-Identifier: MIT
// The network namespace that the thread is in.
#pragma once

#include <cstdint>
#include <string>

#include "result.h"

namespace swift {

inline constexpr const char *netns_allowed = "a name that `ip netns` lists, or a path such as /proc/PID/ns/net";

// Enters the one that `ip netns` calls @name, or that a path such as /proc/PID/ns/net is; for the whole thread.
Result<void> enter_netns(const std::string &name);
// Unlike the number of its inode, no other namespace has it until the next boot.
Result<std::uint64_t> netns_cookie();
// The cookie as a text, for files' names; "0": not known.
[[nodiscard]] std::string this_netns();
// Its inode number, as the telemetry has it; 0: not known.
[[nodiscard]] std::uint32_t this_netns_inode();

} // namespace swift
