// SPDX-License-Identifier: MIT
#include "tunables.h"

#include <array>
#include <string_view>

#include "core/sird.h"
#include "core/swift_params.h"
#include "text.h"

namespace swift {

namespace {

static_assert(SWIFT_TARGET_BASE_RTT_PLUS + 1 == target_policy_words.size());

#define SWIFT_X(name, def, lo, hi, doc) Tunable{#name, def, lo, hi, doc},
constexpr std::array table = {
	SWIFT_TUNABLES(SWIFT_X)
	// What the shell around the law adds.
	Tunable{"dscp", -1, -1, 63, "DSCP of swift's packets; -1 = leave it"},
	Tunable{"rto_min_us", 10000, 0, 1000000, "least RTO towards peers with an echo; 0 = TCP's own"},
	Tunable{"plb", 0, 0, 1, "another path, by the IPv6 flow label, for flows that stay above their target"},
	Tunable{"link_mbps", 0, 0, 10000000, "rate of links whose driver tells none, Mb/s; 0 = not known"},
	Tunable{"echo", 0, 0, 1, "negotiate the delay echo (RFC 6994 option) on new connections"},
	Tunable{"credit", 0, 0, 1, "negotiate SIRD's credit on new connections"},
#define SIRD_X(name, def, lo, hi, doc) Tunable{#name, def, lo, hi, doc},
	SIRD_TUNABLES(SIRD_X)
#undef SIRD_X
	Tunable{"max_rtt_ns", 5000000, 1000, 2147483647,
		"handshake RTT above which a flow runs Reno instead"},
};
#undef SWIFT_X

} // namespace

std::span<const Tunable> tunables()
{
	return table;
}

const Tunable *find_tunable(std::string_view name)
{
	for (const Tunable &t : table)
		if (t.name == name)
			return &t;
	return nullptr;
}

std::string_view dependence(std::string_view tunable)
{
	if (tunable == "fs_min_cwnd_milli")
		return "at most half of fs_max_cwnd_milli";
	if (tunable == "fs_max_cwnd_milli")
		return "at least twice fs_min_cwnd_milli";
	if (tunable == "min_cwnd_micro")
		return "at most max_cwnd packets";
	if (tunable == "max_cwnd")
		return "at least min_cwnd_micro, in packets";
	if (tunable == "t_high_ns")
		return "at least t_low_ns";
	if (tunable == "max_rate_mbps")
		return "at least min_rate_mbps";
	if (tunable == "init_rate_mbps")
		return "min_rate_mbps to max_rate_mbps";
	return "";
}

Result<std::string> Tunable::check(std::string_view value) const
{
	if (name == "target_policy") {
		for (const std::string_view word : target_policy_words)
			if (word == value)
				return std::string(word);
		return Error{std::string(name), std::string(value),
			     "static, base_rtt or base_rtt_plus"};
	}

	ASSIGN_OR_RETURN(auto number, parse_int(name, value, min, max));
	return std::to_string(number);
}

} // namespace swift
