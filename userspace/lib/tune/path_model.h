// SPDX-License-Identifier: MIT
// What the length of the paths says of their targets (Swift 3.5: a base target, and some
// more for each hop): the unloaded fabric RTT against the number of hops, and from it where
// to begin to look for the best target. Pure; the looking is tuner.h's.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "result.h"

namespace swift {

// The smallest fabric delay that was seen on the paths of so many hops.
struct PathSample {
	std::optional<unsigned> hops; // routers between the hosts, 0 to 63; none: not known
	double unloaded_ns = 0;
};

struct PathModel {
	double intercept_ns = 0; // unloaded RTT without a hop
	std::optional<double> hop_ns; // per hop; none: all paths have as many, or nobody knows
	std::optional<unsigned> fewest_hops; // none: not known

	[[nodiscard]] double shortest_ns() const
	{
		return intercept_ns + hop_ns.value_or(0) * fewest_hops.value_or(0);
	}
};

struct TargetProposal {
	std::uint32_t base_target_ns = 0;
	std::uint32_t hop_target_ns = 0;
	std::string reason; // one line
};

// The median of the slopes of all pairs (Theil and Sen): a path whose smallest delay was
// never an unloaded one does not tilt it. Samples without hops count if no other is there.
// An Error if there is no sample.
Result<PathModel> fit_paths(std::span<const PathSample> samples);

// Room for a queue as long as the shortest path, for all: target = unloaded RTT + that.
// @hop_target_ns: what is set now; stays where the paths do not tell.
[[nodiscard]] TargetProposal propose_target(const PathModel &model, std::uint32_t hop_target_ns);

} // namespace swift
