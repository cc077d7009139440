// SPDX-License-Identifier: MIT
// Which probes a responder answers: those that are well formed, signed if there are keys, seen for the first
// time, and not too many. All that it remembers is bounded. Pure: no socket, no clock.
#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <variant>

#include "probe_keys.h"
#include "probe_responder.h"

namespace swift {

// Why a packet was not answered; of replies, why one was not believed.
enum class Refusal : std::uint8_t {
	too_short,
	foreign,
	version,
	type,
	records,
	too_long,
	not_signed,
	wrong_signature,
	replayed,
	out_of_time,
	crowded,
	source_rate,
	rate,
	not_sent
};
inline constexpr std::size_t refusals = 14;
using RefusalCounts = std::array<std::uint64_t, refusals>; // by enum Refusal

[[nodiscard]] Refusal refusal_of(ProbeDefect d);
[[nodiscard]] Refusal refusal_of(SignatureDefect d);
[[nodiscard]] std::string_view refusal_text(Refusal r); // "3 too short"
[[nodiscard]] std::string_view refusal_name(Refusal r); // of a label; several have the same
[[nodiscard]] std::uint64_t sum_of(const RefusalCounts &counts);

// Signed probes that were answered: each is once, within @window_ns of now by the clocks of both hosts.
class ReplayGuard {
public:
	static constexpr std::int64_t window_ns = 30'000'000'000;
	static constexpr std::size_t most = 8192; // runs of probers at a time, by target
	static constexpr unsigned bits = 64; // so far behind the newest number may a probe come

	// @start_ns: CLOCK_REALTIME. What was signed before, another responder may have answered.
	ReplayGuard(std::int64_t start_ns, std::uint64_t salt) : start_ns_(start_ns), salt_(salt) {}

	// Nothing: it is fresh, and from now on not any more.
	[[nodiscard]] std::optional<Refusal> check(const ProbePacket &probe, std::int64_t signed_ns, std::int64_t now_ns);
	[[nodiscard]] std::size_t size() const { return runs_.size(); }

private:
	struct Run {
		std::uint64_t key = 0;
		std::int64_t used_ns = 0;
		std::uint32_t newest = 0;
		std::uint64_t seen = 0; // bit i: newest - i
	};

	std::int64_t start_ns_;
	std::uint64_t salt_;
	std::list<Run> by_use_; // the newest first
	std::unordered_map<std::uint64_t, std::list<Run>::iterator> runs_;
};

// A bound for each source by itself: an IPv4 address, a /64 of IPv6.
class SourceLimit {
public:
	static constexpr std::size_t most = 4096; // the newest

	// @rate_pps 0: none.
	SourceLimit(std::int64_t rate_pps, std::uint64_t salt) : rate_pps_(rate_pps), sources_(0, Hash{salt}) {}
	bool take(const Address &from, std::int64_t now_ns);
	[[nodiscard]] std::size_t size() const { return sources_.size(); }

private:
	struct Hash {
		std::uint64_t salt;
		std::size_t operator()(const Address &a) const;
	};
	struct Source {
		Address address;
		RateLimit limit;
	};

	std::int64_t rate_pps_;
	std::list<Source> by_use_; // the newest first
	std::unordered_map<Address, std::list<Source>::iterator, Hash> sources_;
};

struct GateLimits {
	std::int64_t rate_pps = 100000;
	std::int64_t source_pps = 0; // 0: that of all
};

class ProbeGate {
public:
	ProbeGate(ProbeKeys keys, const GateLimits &limits, std::uint64_t salt, std::int64_t start_ns);

	struct Passed {
		ProbePacket probe;
		ProbeSignature signature; // if there are keys
	};
	struct Packet {
		std::span<const std::byte> bytes;
		bool cut = false; // longer than any of ours
		Address from;
	};
	// @mono_ns, @real_ns: the clocks of those names.
	std::variant<Passed, Refusal> check(const Packet &packet, std::int64_t mono_ns, std::int64_t real_ns);
	[[nodiscard]] const ProbeKeys &keys() const { return keys_; }
	void set_keys(ProbeKeys keys) { keys_ = std::move(keys); }
	void set_limits(const GateLimits &limits);

private:
	ProbeKeys keys_;
	std::uint64_t salt_;
	ReplayGuard replays_;
	SourceLimit sources_;
	RateLimit limit_;
};

} // namespace swift
