// SPDX-License-Identifier: MIT
// What the BPF telemetry has counted, by destination prefix and by flow, as plain data, and
// the difference of two readings. It reads pinned maps; loading is bpf_telemetry.h's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bpf_host.h"
#include "flow.h"
#include "log_histogram.h"
#include "result.h"

namespace swift {

inline constexpr const char *telemetry_name = "telemetry"; // for swiftctl, and below bpf_pin_dir
inline constexpr const char *telemetry_module_link = "link_telemetry_module"; // its pin
inline constexpr const char *telemetry_tx_nic_link = "link_telemetry_tx_nic";

// Beyond those that were asked for: each congestion control has one for what finds no place.
inline constexpr std::uint32_t telemetry_spare_prefixes = 16;

// As enum telemetry_value.
enum class Telemetered : std::uint8_t { fabric, remote, local, endpoint, rtt, target, window, tx_host, tx_nic };
inline constexpr unsigned mapped_bits = 96; // of ::ffff:0:0, before an IPv4 address

inline constexpr std::size_t telemetered_count = 9;
[[nodiscard]] std::string_view telemetered_name(Telemetered what); // "fabric_ns", ..., "window_q16"

// As enum tcp_swift_decision.
enum class Decision : std::uint8_t {
	untold, // by laws that have no such thing
	hold,
	increase,
	decrease_fabric,
	decrease_endpoint,
	decrease_both
};
inline constexpr std::size_t decision_count = 6;
[[nodiscard]] std::string_view decision_name(Decision d);

struct TelemetryCounts {
	std::array<LogHistogram, telemetered_count> histograms; // ns; of the window 1/65536 packets
	std::array<std::uint64_t, decision_count> decisions{};
	std::uint64_t losses = 0; // packets

	[[nodiscard]] const LogHistogram &of(Telemetered what) const
	{
		return histograms[static_cast<std::size_t>(what)];
	}
	[[nodiscard]] std::uint64_t of(Decision d) const { return decisions[static_cast<std::size_t>(d)]; }
	[[nodiscard]] std::uint64_t samples() const; // all decisions
	TelemetryCounts &operator+=(const TelemetryCounts &other);
	[[nodiscard]] TelemetryCounts since(const TelemetryCounts &earlier) const;
};

struct TelemetryPrefix {
	std::optional<Prefix> prefix; // none: all that found no place of their own
	std::string cc;
	TelemetryCounts counts;
	std::uint32_t netns = 0; // inode number of the network namespace; 0 without a prefix: of all
};

struct TelemetryFlow {
	Endpoint local;
	Endpoint remote;
	std::string cc;
	std::optional<Prefix> prefix;
	std::uint64_t net = 0; // tells network namespaces apart, with the addresses
	std::uint32_t netns = 0; // inode number of its network namespace
	std::uint64_t cookie = 0; // the socket's; 0: not known
	std::uint64_t first_ns = 0; // CLOCK_MONOTONIC: of the first and the newest decision
	std::uint64_t last_ns = 0;
	std::uint32_t hops = 0; // routers on the way, of the newest decision
	TelemetryCounts counts;
};

// Of the whole host.
struct TelemetryTotals {
	std::uint64_t time_ns = 0; // CLOCK_MONOTONIC
	std::uint64_t samples = 0; // decisions that the programs saw
	std::uint64_t missed = 0; // runs that the kernel left out: the program was in the way of itself
	std::uint64_t flows_made = 0; // entries
	std::uint64_t flows_evicted = 0; // of them: the map was full; not told without the flows
	std::uint64_t without_flow = 0; // samples
	std::uint64_t in_other = 0; // samples that are in the prefix "other"
	std::uint64_t without_prefix = 0; // samples
	std::uint32_t max_flows = 0;
	std::uint32_t max_prefixes = 0;
	std::uint32_t tx_one_in = 0; // packets; 0: no tx_host
	bool tx_nic_attached = false; // else no tx_nic, either
	bool module_attached = false;
};

struct TelemetryReading : TelemetryTotals {
	std::vector<TelemetryPrefix> prefixes; // sorted
	std::vector<TelemetryFlow> flows; // sorted; also of sockets that have closed
	std::uint64_t interval_ns = 0; // of since(); 0: since the telemetry was loaded

	// What happened between @earlier and this; what nothing happened to is left out.
	[[nodiscard]] TelemetryReading since(const TelemetryReading &earlier) const;
};

class Telemetry {
public:
	// @host may be a test's. ENOENT if it is not loaded.
	static Result<Telemetry> open(const BpfHost &host);
	// Of the network namespace with the inode number @netns, or of all. Counters are the host's. What
	// each CPU has of a prefix is added up as it is read.
	Result<TelemetryReading> read_prefixes(std::optional<std::uint32_t> netns) const;
	// The same with those flows that are @wanted, by all but their counts; none given: with all. They are
	// thousands, and 7 kB each.
	using Wanted = std::function<bool(const TelemetryFlow &)>;
	Result<TelemetryReading> read(std::optional<std::uint32_t> netns, const Wanted &wanted = {}) const;
	// Each flow, and none kept.
	using ShowFlow = std::function<void(TelemetryFlow &&)>;
	Result<void> visit_flows(std::optional<std::uint32_t> netns, const Wanted &wanted, const ShowFlow &show) const;

private:
	explicit Telemetry(const BpfHost &host) : host_(&host) {}
	[[nodiscard]] std::uint64_t missed() const;

	const BpfHost *host_;
};

// Of the pins of the telemetry.
[[nodiscard]] std::string telemetry_dir();
// "10.0.0.0/24" from an address whose IPv4 is mapped, with @length of the mapped one.
[[nodiscard]] Prefix unmapped_prefix(const std::array<std::uint8_t, 16> &address, unsigned length);

} // namespace swift
