// SPDX-License-Identifier: MIT
// Who holds flows back: the application, the receiver's window or its credit, the send buffer, the fabric
// or a host: the rule, and the sentence that says so. Pure functions of what they are given.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "flow_table.h"

namespace swift {

struct GroupSummary;

struct Verdict {
	Bound bound = Bound::none;
	std::string text;
	double host_ns = 0; // medians
	double fabric_ns = 0;
};

struct SummaryOptions {
	std::uint64_t endpoint_target_ns = 200'000; // the sysctl's default
};

// Who holds a flow back. This is the rule; all that names a culprit asks it. @r: nullptr if swift
// does not measure the flow.
[[nodiscard]] Bound held_by(const SenderState &sender, const SwiftRecord *r, const SummaryOptions &options);
[[nodiscard]] Bound held_by(const FlowRow &row, const SummaryOptions &options);
[[nodiscard]] Bound held_by(const Flow &flow, const SummaryOptions &options);

using HeldFlows = std::array<std::size_t, bounds>; // by enum Bound, without those that are idle

// @g but for its verdict.
[[nodiscard]] Verdict group_verdict(const GroupSummary &g);
[[nodiscard]] Verdict flow_verdict(const FlowRow &row, const SummaryOptions &options);

} // namespace swift
