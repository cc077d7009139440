// SPDX-License-Identifier: MIT
// Metrics and ended flows as OTLP has them, in its JSON form (opentelemetry-proto: metrics.proto, logs.proto;
// 64-bit numbers are strings there, enums numbers). Pure functions; who sends them is otlp_exporter.h.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "api.h"
#include "exposition.h"
#include "flow_table.h"

namespace swift {

// A flow that is gone, as it was when it was last seen, or, if no look has seen it, as the kernel told of it at its end.
struct GoneFlow {
	FlowRow row;
	FlowGroup group;
	std::string netns; // empty: our own
	Owner who;
	double seen_s = 0; // it was there for at least so long
	double ended_s = 0; // since 1970: when it was first missed
	std::optional<double> busy_s = {}; // of one that no look has seen: it had data for so long, to some milliseconds
};

// Flows of @before that are not in @now, at most @most of them; @left_out: how many there were beyond.
[[nodiscard]] std::vector<GoneFlow> ended_flows(const FlowSet &before, const FlowSet &now, double now_s, std::size_t most,
						 std::uint64_t &left_out);
// Those of Snapshot::short_flows, which no look has seen: whose they were, and how long their path is, nobody knows any more.
[[nodiscard]] std::vector<GoneFlow> short_flows(std::span<const EndedCount> ended, double now_s, std::size_t most, std::uint64_t &left_out);

// Since when sums are counted (OTLP: cumulative). One that is new, or smaller than before, because its group had no flows
// for a while or a reload has emptied it, begins after the reading before.
class OtlpStarts {
public:
	explicit OtlpStarts(double start_s) : before_s_(start_s) {}

	// Seconds since 1970.
	double of(const std::string &series, double sum);
	// A reading is complete.
	void next(double now_s);

private:
	struct Series {
		double sum = 0;
		double start_s = 0;
	};

	std::unordered_map<std::string, Series> before_, now_;
	double before_s_; // when it was read
};

// @starts: of these sums; this is its next reading.
[[nodiscard]] std::string otlp_metrics(std::span<const MetricFamily> families, const HostFacts &facts, OtlpStarts &starts, double now_s);
[[nodiscard]] std::string otlp_logs(std::span<const GoneFlow> flows, const HostFacts &facts, double now_s);

} // namespace swift
