// SPDX-License-Identifier: MIT
// Every window decision that the BPF telemetry has counted, for the groups of a summary.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "summary.h"
#include "telemetry.h"

namespace swift {

class TelemetrySource final : public HistogramSource {
public:
	// @since: what happened in the last interval, in our own network namespace. @prefixes: that groups were made by. What was
	// counted by a longer one is a group's that holds all of it; by a shorter one, nobody's.
	explicit TelemetrySource(const TelemetryReading &since, const std::vector<Prefix> &prefixes = {});
	const GroupSamples *find(const FlowGroup &group) const override;

private:
	std::map<std::pair<std::string, std::string>, GroupSamples> samples_; // by the group's prefix, and cc
};

} // namespace swift
