// SPDX-License-Identifier: MIT
// What the prober knows of its probes: their stamps as these come in, in any order; what
// one exchange says; what many say. Pure: no socket, no clock.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "flow.h"
#include "probe_packet.h"

namespace swift {

// Where the kernel or the NIC stamped a packet on its way out.
enum class TxPoint : std::uint8_t { sched, driver, wire };

// All 0 if there is none. wire is in the NIC's clock, the rest in CLOCK_REALTIME.
struct TxStamps {
	std::int64_t app_ns = 0; // before send()
	std::int64_t sched_ns = 0; // into the queueing discipline
	std::int64_t driver_ns = 0; // to the NIC
	std::int64_t wire_ns = 0;

	void set(TxPoint point, std::int64_t ns);
};

struct RxStamps {
	std::int64_t wire_ns = 0;
	std::int64_t stack_ns = 0; // the stack's receive path
	std::int64_t app_ns = 0; // after recvmsg()
	unsigned ifindex = 0; // of the NIC whose clock wire_ns is in
};

struct Exchange {
	std::uint32_t seq = 0;
	std::int64_t sent_ns = 0; // CLOCK_MONOTONIC
	bool counts = true; // not sent merely to fetch the last turnarounds
	bool replied = false;
	bool settled = false;
	TxStamps tx;
	RxStamps rx;
	Turnaround remote;

	// Nothing more is to be expected.
	[[nodiscard]] bool complete() const;
};

// NIC time to CLOCK_REALTIME, if there is a line between the two.
using NicToHost = std::function<std::optional<std::int64_t>(unsigned ifindex, std::int64_t nic_ns)>;

// The numbers of one exchange. Each is the difference of two stamps of one clock, but for
// tx_nic and rx_nic, which may thus be a little below zero.
struct Measured {
	Stamp local = Stamp::none; // behind t1 and t4
	Stamp remote = Stamp::none; // behind t2 and t3
	std::optional<std::int64_t> fabric_ns; // (t4 - t1) - (t3 - t2)
	std::optional<std::int64_t> turnaround_ns; // t3 - t2
	std::optional<std::int64_t> tx_stack_ns; // send() -> qdisc
	std::optional<std::int64_t> tx_qdisc_ns; // qdisc -> driver
	std::optional<std::int64_t> tx_nic_ns; // driver -> wire
	std::optional<std::int64_t> tx_ns; // send() -> wire, or driver
	std::optional<std::int64_t> rx_nic_ns; // wire -> stack
	std::optional<std::int64_t> rx_stack_ns; // stack -> recvmsg()
	std::optional<std::int64_t> rx_ns; // wire, or stack -> recvmsg()
	bool implausible = false; // a clock was set in between
};

// t3 - t2, if that can be: not negative, no longer than a second.
[[nodiscard]] std::optional<std::uint32_t> turnaround_ns(std::int64_t t2_ns, std::int64_t t3_ns);
[[nodiscard]] Measured measure(const Exchange &e, const NicToHost &to_host);

// Number, extremes and percentiles; these over the newest @cap.
class Samples {
public:
	static constexpr std::size_t cap = 10000;

	void add(std::int64_t v_ns); // beyond +-2.1 s it is kept as that
	[[nodiscard]] std::uint64_t count() const { return count_; }
	[[nodiscard]] std::int64_t min_ns() const { return min_ns_; }
	[[nodiscard]] std::int64_t max_ns() const { return max_ns_; }
	// The smallest value that @permille of 1000 do not exceed (nearest rank), for each.
	[[nodiscard]] std::vector<std::int64_t> quantiles_ns(std::span<const unsigned> permille) const;

private:
	std::uint64_t count_ = 0;
	std::int64_t min_ns_ = 0;
	std::int64_t max_ns_ = 0;
	std::vector<std::int32_t> newest_;
};

// Fabric RTT and turnaround by one pair of stamp sources: mixed, they would say nothing.
struct StampClass {
	Stamp local = Stamp::none;
	Stamp remote = Stamp::none;
	Samples fabric;
	Samples turnaround;
};

struct ProbeStats {
	std::uint64_t sent = 0; // and answered, or not within the time allowed
	std::uint64_t lost = 0;
	std::uint64_t late = 0; // replies to what had been counted as lost
	std::uint64_t duplicates = 0;
	std::uint64_t unstamped = 0; // answered, but a stamp of one end is missing
	std::uint64_t implausible = 0;
	std::uint64_t send_failed = 0;
	std::array<StampClass, 4> classes = {{{Stamp::hardware, Stamp::hardware, {}, {}},
					      {Stamp::hardware, Stamp::software, {}, {}},
					      {Stamp::software, Stamp::hardware, {}, {}},
					      {Stamp::software, Stamp::software, {}, {}}}};
	Samples tx_stack;
	Samples tx_qdisc;
	Samples tx_nic;
	std::array<Samples, 2> tx; // to the driver, to the wire
	Samples rx_nic;
	Samples rx_stack;
	std::array<Samples, 2> rx; // from the stack, from the wire

	void add(const Exchange &e, const Measured &m);
	[[nodiscard]] std::uint64_t answered() const { return sent - lost; }
	// The class with most exchanges, or none; the better one of two equal ones.
	[[nodiscard]] const StampClass *best() const;
	// By the NIC's stamps if most have one.
	[[nodiscard]] Stamp tx_stamp() const;
	[[nodiscard]] Stamp rx_stamp() const;
	[[nodiscard]] const Samples &tx_total() const { return tx[tx_stamp() == Stamp::hardware]; }
	[[nodiscard]] const Samples &rx_total() const { return rx[rx_stamp() == Stamp::hardware]; }
};

enum class ReplyKind : std::uint8_t { fresh, duplicate, late, unknown };

// The probes to one target whose fate is not yet known.
class ProbeTrack {
public:
	// @timeout_ns: then it is lost. @grace_ns: so long after that its turnaround may still come.
	ProbeTrack(std::int64_t timeout_ns, std::int64_t grace_ns)
		: timeout_ns_(timeout_ns), grace_ns_(grace_ns)
	{
	}

	// Returns its sequence number.
	std::uint32_t sent(std::int64_t now_ns, std::int64_t app_ns, bool counts = true);
	// The last one was not sent after all.
	void unsent();
	void tx_stamp(std::uint32_t seq, TxPoint point, std::int64_t ns);
	ReplyKind reply(const ProbePacket &reply, const RxStamps &rx);
	// Hands each exchange that is complete, or has had its time, to @sink, once.
	void settle(std::int64_t now_ns, const std::function<void(const Exchange &)> &sink);
	// Hands over what is left: answered ones as they are. Unanswered ones are in flight.
	std::size_t finish(std::int64_t now_ns, const std::function<void(const Exchange &)> &sink);
	[[nodiscard]] bool idle() const; // no probe that counts is open

private:
	Exchange *find(std::uint32_t seq);
	void forget(std::int64_t now_ns);

	std::int64_t timeout_ns_;
	std::int64_t grace_ns_;
	std::uint32_t next_seq_ = 0;
	std::deque<Exchange> open_; // by sequence number, without gaps
};

// Which packet a TX stamp with the kernel's number belongs to: the last of a socket's.
template <typename Packet> class SentPackets {
public:
	static constexpr std::size_t size = 8192;

	void add(std::uint64_t id, Packet packet) { ring_[id % size] = {id, packet, true}; }
	[[nodiscard]] const Packet *find(std::uint64_t id) const
	{
		const Slot &slot = ring_[id % size];

		return slot.used && slot.id == id ? &slot.packet : nullptr;
	}

private:
	struct Slot {
		std::uint64_t id = 0;
		Packet packet{};
		bool used = false;
	};

	std::vector<Slot> ring_ = std::vector<Slot>(size);
};

} // namespace swift
