// SPDX-License-Identifier: MIT
// What the probes of the last minutes say of a peer, or of all peers of a rack: delay of the fabric and of the hosts,
// loss, and in a sentence whether it is slow, and whose fault that is. Pure: no clock.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "probe_exchange.h"

namespace swift {

// One probe whose fate is known. What is longer than 2.1 s is kept as that.
struct ProbeSample {
	std::int64_t at_ns = 0; // CLOCK_MONOTONIC
	std::int32_t fabric_ns = 0; // NIC to NIC and back
	std::int32_t remote_ns = 0; // in the peer
	std::int32_t local_ns = 0; // out of this host and into it
	Stamp local = Stamp::none; // what the fabric's part is made of, here and there
	Stamp remote = Stamp::none;
	bool lost = false;

	[[nodiscard]] bool measured() const { return local != Stamp::none; }
	[[nodiscard]] std::int64_t host_ns() const { return std::int64_t{remote_ns} + local_ns; }
};
[[nodiscard]] ProbeSample probe_sample(std::int64_t at_ns, const Exchange &e, const Measured &m);

// The newest samples of a peer.
class PeerSamples {
public:
	static constexpr std::size_t most = 64;

	void add(const ProbeSample &sample);
	// To @out, those since @since_ns.
	void collect(std::int64_t since_ns, std::vector<ProbeSample> &out) const;

private:
	std::vector<ProbeSample> newest_; // a ring
	std::size_t next_ = 0;
};

struct ProbeTimes {
	std::uint64_t n = 0;
	std::int64_t min_ns = 0;
	std::int64_t p50_ns = 0;
	std::int64_t p90_ns = 0;
	std::int64_t p99_ns = 0;
};

// unmeasured: too few probes to say anything. silent: none was answered.
enum class PeerState : std::uint8_t { unmeasured, silent, slow, lossy, good };
inline constexpr std::size_t peer_states = 5;
[[nodiscard]] std::string_view state_text(PeerState s);

struct ProbeVerdict {
	PeerState state = PeerState::unmeasured;
	Bound bound = Bound::none; // of what is slow: fabric, host, mixed
	std::string text;
};

struct ProbeSummary {
	std::uint64_t sent = 0;
	std::uint64_t lost = 0;
	std::uint64_t other_stamps = 0; // measured, but left out: most have other stamps
	Stamp local = Stamp::none;
	Stamp remote = Stamp::none;
	ProbeTimes fabric;
	ProbeTimes host; // both
	ProbeTimes remote_host;
	ProbeTimes local_host;
};
[[nodiscard]] ProbeSummary summarize_probes(std::span<const ProbeSample> samples);

// What more than a tenth of the probes may not exceed.
struct ProbeLimits {
	std::int64_t fabric_ns = 500'000;
	std::int64_t host_ns = 1'000'000;
	static constexpr std::uint64_t fewest = 8; // probes that say something
	static constexpr std::uint64_t lost_percent = 1; // more than it is lossy, from the second one on
};
struct ProbeWords {
	std::string path; // "the path to 10.0.0.2"
	std::string them; // "10.0.0.2", "hosts in rack b"
	bool many = false;
};
[[nodiscard]] ProbeVerdict probe_verdict(const ProbeSummary &s, const ProbeLimits &limits, const ProbeWords &words);

} // namespace swift
