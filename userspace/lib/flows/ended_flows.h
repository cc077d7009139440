// SPDX-License-Identifier: MIT
// Flows at their end: the kernel tells of each TCP socket that it frees, with its last tcp_info, so
// that those count that lived between two looks. Its congestion control, with our record, is gone by
// then. A thread listens; nothing of what it hears is kept beyond a bound, and what is lost is counted.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "address.h"
#include "conversation.h"
#include "fd.h"
#include "flow.h"
#include "interface.h"
#include "netlink_bytes.h"
#include "result.h"

namespace swift {

// Of one that its own host has reset (SO_LINGER of 0 s) the kernel has forgotten the numbers and ports.
struct EndedFlow {
	std::uint64_t cookie = 0;
	Endpoint local;
	Endpoint remote;
	bool other_netns = false; // than our own
	std::uint64_t bytes_acked = 0;
	std::uint64_t busy_us = 0; // it had data: in ticks of the kernel's, 1 to 10 ms
	std::uint32_t segments_sent = 0; // with data
	std::uint32_t retrans_total = 0;
};

struct EndedLosses {
	std::uint64_t overruns = 0; // times that the kernel's queue was full: how many flows, nobody knows
	std::uint64_t dropped = 0; // flows that nobody took in time
};

// Appends the connections among @bytes, one message of the kernel's.
void parse_ended(Bytes bytes, bool other_netns, std::vector<EndedFlow> &ended);

class EndedFlows : NonCopyable {
public:
	static constexpr std::size_t most_waiting = 1 << 16;

	// From now on. Of the caller's network namespace, and of those that hear() is called for.
	static Result<std::unique_ptr<EndedFlows>> start();
	~EndedFlows();

	// Gives the namespace a number in ours (`ip netns list-id`), by which the kernel tells of its flows,
	// too; nothing holds it, and the number goes with it. It takes CAP_NET_ADMIN.
	Result<void> hear(int netns);
	// Whether the kernel lets us hear of others at all: it takes CAP_NET_BROADCAST.
	[[nodiscard]] bool may_hear_others() const { return may_hear_others_; }

	// Since the last call.
	std::vector<EndedFlow> take();
	[[nodiscard]] EndedLosses losses() const;

private:
	EndedFlows(Fd socket, Fd stop, Conversation numbers, bool may_hear_others);
	void listen();
	bool receive(); // false: nothing is there

	const Fd socket_;
	const Fd stop_;
	Conversation numbers_;
	const bool may_hear_others_;
	std::vector<std::byte> buffer_;
	std::atomic<std::uint64_t> overruns_ = 0;
	mutable std::mutex mutex_;
	std::vector<EndedFlow> waiting_;
	std::uint64_t dropped_ = 0;
	std::thread thread_; // the last: it uses all above
};

} // namespace swift
