// SPDX-License-Identifier: MIT
// What a dump of flows means: totals, and a row per group of flows: where the delay of each comes
// from, in numbers. In words: verdict.h. Pure functions of what they are given.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "flow_table.h"
#include "interface.h"
#include "log_histogram.h"
#include "verdict.h"

namespace swift {

// Delays up to 1.024 us, twice that, ... 2^30 ns = 1.07 s, and all above: the powers of two are
// edges of LogHistogram's buckets, so that these counts are exact.
inline constexpr std::size_t delay_edges = 21;
inline constexpr unsigned first_delay_edge_bits = 10;
using DelayBuckets = std::array<std::uint64_t, delay_edges + 1>;
[[nodiscard]] DelayBuckets delay_buckets(const LogHistogram &h);

enum class Part : std::uint8_t { rtt, fabric, host, remote_host, local_host, tx_host, tx_nic, target };
inline constexpr std::size_t parts = 8;
[[nodiscard]] std::string_view part_text(Part p); // rtt, fabric, ... as in "rtt_ns"

using PartHistograms = std::array<std::optional<LogHistogram>, parts>; // empty: not measured

enum class Cause : std::uint8_t { fabric, endpoint, both, loss }; // of a smaller window
inline constexpr std::size_t causes = 4;
[[nodiscard]] std::string_view cause_text(Cause c);

struct GroupSamples {
	PartHistograms delays;
	std::array<std::uint64_t, causes> decreases{};
};

// Every window decision of the last interval, from somewhere else than the flows' newest
// values, of which a dump has one each.
class HistogramSource : public Interface {
public:
	// Whatever the interface; nullptr: it knows nothing of that group, or not of it alone.
	[[nodiscard]] virtual const GroupSamples *find(const FlowGroup &group) const = 0;
};

struct Quantiles {
	double p50 = 0;
	double p90 = 0;
	double p99 = 0;
	double mean = 0;
	std::uint64_t n = 0;
};

struct GroupSummary {
	FlowGroup labels;
	std::size_t flows = 0;
	std::size_t measured = 0; // by swift
	std::size_t credited = 0; // that negotiated credit
	double rate_Bps = 0;
	std::uint64_t retrans_new = 0; // in the last interval, as are these
	std::uint64_t segments_new = 0;
	std::uint64_t bytes_new = 0; // acknowledged
	double fcwnd_pkts = 0; // sums
	double ecwnd_pkts = 0;
	bool sampled = true; // its histograms are of the flows' newest values
	std::array<std::optional<Quantiles>, parts> delays;
	std::map<Part, LogHistogram> samples; // that the delays are of, each in one group alone
	std::optional<std::array<std::uint64_t, causes>> decreases; // not told by flows' newest values
	std::array<std::size_t, 3> limited{}; // by enum Limit
	HeldFlows held{};
	std::size_t idle = 0; // flows that had nothing to send
	std::array<std::size_t, 3> stamps{}; // by enum Stamp
	std::array<std::size_t, 3> echo{};
	Verdict verdict;

	[[nodiscard]] const std::optional<Quantiles> &delay(Part p) const
	{
		return delays[static_cast<std::size_t>(p)];
	}
};

// Flows of one owner in one network namespace: of a pod all containers together. Or of them those to one prefix.
struct OwnerSummary {
	std::string netns;
	std::string name; // Owner::name()
	std::string dst_prefix; // empty: any
	Owner who; // of one of its control groups
	std::size_t flows = 0;
	std::size_t measured = 0; // by swift
	std::size_t idle = 0;
	HeldFlows held{};
	double rate_Bps = 0;
	std::uint64_t retrans_new = 0; // in the last interval, as are these
	std::uint64_t bytes_new = 0;
	std::size_t with_rtt = 0;
	double rtt_ns = 0; // sums, of those with one; and of the measured ones
	double fabric_ns = 0;
	double host_ns = 0;

	OwnerSummary &operator+=(const OwnerSummary &o); // all but who it is
};

struct Totals {
	std::size_t flows = 0;
	std::size_t swift_flows = 0; // the module's and the BPF variants'
	std::size_t guarded_flows = 0;
	double rate_Bps = 0;
	std::uint64_t retrans_new = 0;
	std::size_t dropped_prefixes = 0;
};

struct Summary {
	std::int64_t now_ns = 0;
	double interval_s = 0;
	bool sampled = true; // all groups are
	Totals totals;
	std::vector<GroupSummary> groups; // those with flows, most flows first
	std::vector<OwnerSummary> owners; // most flows first
	std::vector<OwnerSummary> owner_prefixes; // the same by prefix
	std::vector<std::pair<FlowGroup, std::uint64_t>> ended; // flows of the last interval, of any group
};

[[nodiscard]] Summary summarize(const FlowSet &set, const HistogramSource *histograms,
				const SummaryOptions &options);

} // namespace swift
