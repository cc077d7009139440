// SPDX-License-Identifier: MIT
// Who holds flows back, the fabric or a host: the rule, and the sentence that says so. Pure
// functions of what they are given.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "flow_table.h"

namespace swift {

struct GroupSummary;

enum class Bound : std::uint8_t { none, fabric, host, mixed };
[[nodiscard]] std::string_view bound_text(Bound b);

struct Verdict {
	Bound bound = Bound::none;
	std::string text;
	double host_ns = 0; // medians
	double fabric_ns = 0;
};

struct SummaryOptions {
	std::uint64_t endpoint_target_ns = 1'000'000; // the sysctl's default
};

// Who holds a measured flow back.
struct HeldBy {
	bool fabric = false;
	bool host = false;
};
[[nodiscard]] HeldBy held_by(const SwiftRecord &r, const SummaryOptions &options);

// Of a group's flows, how many are held back.
struct HeldFlows {
	std::size_t by_fabric = 0;
	std::size_t by_host = 0;
	std::size_t all = 0;
};

// @g but for its verdict.
[[nodiscard]] Verdict group_verdict(const GroupSummary &g, const HeldFlows &held);
[[nodiscard]] Verdict flow_verdict(const FlowRow &row, const SummaryOptions &options);

} // namespace swift
