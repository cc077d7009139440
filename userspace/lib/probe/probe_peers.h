// SPDX-License-Identifier: MIT
// Who is to be probed: HOST, HOST:PORT, [ADDRESS]:PORT, and the rack that it is in. The same list will do for all
// hosts that are in it. Pure, but for what says so.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "probe_socket.h"
#include "result.h"

namespace swift {

inline constexpr std::string_view no_rack = "none";
inline constexpr std::string_view other_racks = "other"; // more than are told apart
inline constexpr std::size_t most_probe_peers = 4096;

struct ProbedPeer {
	std::string name; // as it was given
	std::string rack; // no_rack: not told

	bool operator==(const ProbedPeer &) const = default;
};

// "rack-7", "eu1/a.3": letters, digits and - _ . / :, up to 64; not "other".
[[nodiscard]] bool is_rack(std::string_view name);
// "HOST[:PORT] [RACK]"; @where is for errors.
Result<ProbedPeer> parse_peer(std::string_view where, std::string_view text);
// One a line, # begins a comment; @name is for errors.
Result<std::vector<ProbedPeer>> parse_peers(std::string_view name, std::string_view content);

// Of this host's interfaces; asks the kernel.
[[nodiscard]] std::vector<Address> own_addresses();

} // namespace swift
