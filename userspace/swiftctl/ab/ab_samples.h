// SPDX-License-Identifier: MIT
// Where the delay of a run's flows came from: samples of them from sock_diag, of this host
// or as `swiftctl flows --json` of another says, and what they come to. Takes no samples.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "flow.h"
#include "result.h"

namespace swift {

struct DelayPercentiles {
	double avg = 0;
	std::optional<double> p50;
	std::optional<double> p99;
};

// What Swift measured of some flows; of no other congestion control.
struct AbLaw {
	DelayPercentiles fabric_ns;
	DelayPercentiles endpoint_ns;
	double target_ns = 0; // medians
	double fcwnd = 0;
	double ecwnd = 0;
	double endpoint_limited = 0; // share of the samples
	std::size_t samples = 0;
};

// What one host saw of its end of the flows.
struct AbEnd {
	std::string host; // empty: this one
	bool sender = false;
	std::size_t samples = 0; // 0: none
	std::optional<DelayPercentiles> srtt_ns;
	std::optional<AbLaw> law;
	std::string why_not; // without samples
};

using PortPair = std::pair<std::uint16_t, std::uint16_t>; // local, remote

class AbSamples {
public:
	// At the time @now_s of any clock, all that a host has; kept are those to or from @ports.
	explicit AbSamples(std::set<std::uint16_t> ports) : ports_(std::move(ports)) {}
	void add(double now_s, std::span<const Flow> flows);
	// Lines of `swiftctl flows --json --watch`.
	Result<void> add_json_lines(std::string_view text);

	// Of the flows in @flows (their data, not iperf3's own connection), without the first
	// @warmup_s seconds of them. Appends what they come to, to be pooled with other hosts'.
	struct Values {
		std::vector<double> srtt_ns;
		std::vector<double> fabric_ns;
		std::vector<double> endpoint_ns;
		std::vector<double> target_ns;
		std::vector<double> fcwnd;
		std::vector<double> ecwnd;
		std::size_t endpoint_limited = 0;

		[[nodiscard]] std::optional<AbLaw> law() const;
	};
	void collect(const std::set<PortPair> &flows, double warmup_s, Values &values) const;

private:
	struct Sample {
		double at_s;
		double srtt_ns; // 0: not known
		std::optional<SwiftRecord> record;
	};

	std::set<std::uint16_t> ports_;
	std::map<PortPair, std::vector<Sample>> flows_;
};

[[nodiscard]] DelayPercentiles percentiles_of(std::span<const double> values);

} // namespace swift
