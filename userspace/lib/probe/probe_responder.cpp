// SPDX-License-Identifier: MIT
#include "probe_responder.h"

#include <algorithm>

namespace swift {

bool RateLimit::take(std::int64_t now_ns)
{
	// No more than a second's worth at a time: the product stays in range.
	const std::int64_t elapsed_ns = std::clamp<std::int64_t>(now_ns - last_ns_, 0, nano);

	last_ns_ = now_ns;
	nanopkts_ = std::min(nanopkts_ + elapsed_ns * rate_pps_, full_nanopkts_);
	if (nanopkts_ < nano)
		return false;
	nanopkts_ -= nano;
	return true;
}

// FNV-1a's multiplication, begun at the salt, and mixed at the end.
std::size_t ProbeMemory::Hash::operator()(const ProbePeer &peer) const
{
	std::uint64_t h = salt;
	const auto take = [&](std::uint64_t v) {
		h = (h ^ v) * 0x100000001b3;
		h ^= h >> 29;
	};

	for (const std::uint8_t b : peer.from.address.bytes)
		take(b);
	take(peer.from.port);
	take(peer.cookie);
	take(peer.cookie >> 32);
	take(peer.target);
	return static_cast<std::size_t>(h ^ h >> 32);
}

ProbeMemory::Entry &ProbeMemory::entry(const ProbePeer &peer)
{
	if (const auto known = peers_.find(peer); known != peers_.end()) {
		by_use_.splice(by_use_.begin(), by_use_, known->second);
		return by_use_.front();
	}
	if (by_use_.size() == max_peers) {
		peers_.erase(by_use_.back().peer);
		by_use_.pop_back();
	}
	by_use_.push_front({peer});
	peers_[peer] = by_use_.begin();
	return by_use_.front();
}

ProbePacket ProbeMemory::answer(const ProbePeer &peer, const ProbePacket &probe, const RxStamps &rx)
{
	Entry &e = entry(peer);
	ProbePacket reply;

	reply.type = ProbeType::reply;
	reply.cookie = probe.cookie;
	reply.target = probe.target;
	reply.seq = probe.seq;
	for (std::size_t age = 1; age <= std::min(e.count, probe_records); age++) {
		const Reply &earlier = e.replies[(e.count - age) % probe_records];
		const Turnaround t = {turnaround_ns(earlier.rx.wire_ns, earlier.tx.wire_ns),
				      turnaround_ns(earlier.rx.stack_ns, earlier.tx.driver_ns)};
		// A NIC's stamp may take its time; the next reply still carries it.
		const bool may_improve = earlier.rx.wire_ns && !t.hw_ns && age == 1;

		if (t.known() && !may_improve)
			reply.records[reply.record_count++] = {earlier.seq, t};
	}
	e.replies[e.count++ % probe_records] = {probe.seq, rx, {}};
	return reply;
}

void ProbeMemory::tx_stamp(const ProbePeer &peer, std::uint32_t seq, TxPoint point, std::int64_t ns)
{
	const auto known = peers_.find(peer);

	if (known == peers_.end())
		return;

	Entry &e = *known->second;

	for (std::size_t age = 1; age <= std::min(e.count, probe_records); age++) {
		Reply &r = e.replies[(e.count - age) % probe_records];

		if (r.seq == seq) {
			r.tx.set(point, ns);
			return;
		}
	}
}

} // namespace swift
