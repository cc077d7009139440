// SPDX-License-Identifier: MIT
// What a responder answers, and what it remembers for that: a bounded
// number of peers, four exchanges of each. Pure: no socket, no clock.
#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <unordered_map>

#include "address.h"
#include "probe_exchange.h"
#include "probe_packet.h"

namespace swift {

// Tokens: @rate a second, @burst at once.
class RateLimit {
public:
	RateLimit(std::int64_t rate_pps, std::int64_t burst_pkts)
		: rate_pps_(rate_pps), full_nanopkts_(burst_pkts * nano), nanopkts_(full_nanopkts_)
	{
	}
	bool take(std::int64_t now_ns);

private:
	static constexpr std::int64_t nano = 1000000000;

	std::int64_t rate_pps_;
	std::int64_t full_nanopkts_;
	std::int64_t nanopkts_;
	std::int64_t last_ns_ = 0;
};

struct ProbePeer {
	Endpoint from;
	std::uint64_t cookie = 0;
	std::uint32_t target = 0;

	bool operator==(const ProbePeer &) const = default;
};

class ProbeMemory {
public:
	static constexpr std::size_t max_peers = 4096;

	// @salt: so that nobody outside can tell which peers collide.
	explicit ProbeMemory(std::uint64_t salt) : peers_(0, Hash{salt}) {}

	// The reply to @probe, with what is known of the peer's earlier exchanges.
	ProbePacket answer(const ProbePeer &peer, const ProbePacket &probe, const RxStamps &rx);
	// A stamp of the reply to the peer's probe @seq.
	void tx_stamp(const ProbePeer &peer, std::uint32_t seq, TxPoint point, std::int64_t ns);
	[[nodiscard]] std::size_t peers() const { return peers_.size(); }

private:
	struct Reply {
		std::uint32_t seq = 0;
		RxStamps rx;
		TxStamps tx;
	};
	struct Entry {
		ProbePeer peer;
		std::array<Reply, probe_records> replies{}; // a ring
		std::size_t count = 0;
	};
	struct Hash {
		std::uint64_t salt;
		std::size_t operator()(const ProbePeer &peer) const;
	};

	Entry &entry(const ProbePeer &peer);

	std::list<Entry> by_use_; // the newest first
	std::unordered_map<ProbePeer, std::list<Entry>::iterator, Hash> peers_;
};

} // namespace swift
