// SPDX-License-Identifier: MIT
// What flows that have ended count under: the group that a look has seen them in, or, if none has, one
// of an unknown congestion control. Pure: no kernel, no clock.
#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "ended_flows.h"
#include "flow_table.h"

namespace swift {

inline constexpr std::string_view cc_unknown = "unknown"; // of flows that no look has seen

// A flow that has ended, with what it did since a look saw it last.
struct EndedCount {
	FlowGroup labels;
	bool seen = false; // by a look
	bool sent = false; // it has sent data
	EndedFlow flow; // as the kernel told of it
	std::uint64_t bytes = 0; // in all
	std::uint64_t bytes_new = 0; // not in any look
	std::uint64_t segments_new = 0;
	std::uint64_t retrans_new = 0;
};

class EndedBook {
public:
	static constexpr std::size_t most_known = 1 << 20; // flows; what comes later counts as unseen

	// After each look, with what has ended since the one before. @ifaces: of our own namespace.
	// A group's labels are good for half of @options.keep_group_ns after its flow was seen.
	std::vector<EndedCount> add(const FlowSet &set, const std::vector<EndedFlow> &ended,
				    const FlowTableOptions &options, const IfaceMap &ifaces);

private:
	struct Known {
		std::uint32_t group = 0; // of FlowSet::groups
		bool collected = false;
		std::int64_t seen_ns = 0;
		std::uint64_t bytes = 0;
		std::uint32_t segments = 0;
		std::uint32_t retrans = 0;
	};

	void remember(const FlowSet &set);
	FlowGroup unseen_group(const EndedFlow &f, const FlowTableOptions &options, const IfaceMap &ifaces,
			       std::int64_t now_ns);

	std::unordered_map<std::uint64_t, Known> known_; // by cookie
	std::map<FlowGroup, std::int64_t> unseen_; // when one was last counted there
	std::int64_t expired_ns_ = 0;
};

} // namespace swift
