// SPDX-License-Identifier: MIT
// TCP sockets from the kernel through NETLINK_SOCK_DIAG: a parser that is a pure
// function of bytes (so that it can be fuzzed and fed with recorded dumps), and the
// client that asks the kernel and hands its answers to the parser.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "conversation.h"
#include "fd.h"
#include "flow.h"
#include "result.h"

namespace swift {

// What a run of netlink messages held besides flows.
struct DiagStatus : NetlinkStatus {
	std::size_t bad_records = 0; // tcp_swift records of a size that we do not know
};

using FlowVisitor = std::function<void(const Flow &)>;

// Shows @visit every socket in @bytes. Ignores messages whose sequence number is
// not @sequence, unless that is 0. Never fails: what cannot be read is counted.
DiagStatus visit_diag(std::span<const std::byte> bytes, const FlowVisitor &visit,
		      std::uint32_t sequence = 0);
// The same, appended to @flows.
DiagStatus parse_diag(std::span<const std::byte> bytes, std::vector<Flow> &flows,
		      std::uint32_t sequence = 0);

struct DiagDump {
	std::vector<Flow> flows;
	bool interrupted = false; // still so after all retries: a flow may be missing
	std::size_t bad_records = 0;
	std::size_t malformed = 0;
};

// Bits of DiagClient::dump's @states.
inline constexpr std::uint32_t states_listen = 1U << 10;
inline constexpr std::uint32_t states_connected = // all that have a congestion control of their own
	1U << 1 | 1U << 2 | 1U << 4 | 1U << 5 | 1U << 8 | 1U << 9 | 1U << 11;

class DiagClient {
public:
	static Result<DiagClient> open();
	// IPv4 and IPv6, in the network namespace that the client was opened in. @storages:
	// maps of socket storage whose values begin with a tcp_swift record; they need root.
	Result<DiagDump> dump(std::uint32_t states, std::span<const Fd> storages = {});
	// The same without a copy of any flow, for hosts with very many. A dump that is tried
	// again shows flows again.
	Result<DiagStatus> visit(std::uint32_t states, const FlowVisitor &visit,
				 std::span<const Fd> storages = {});

private:
	explicit DiagClient(Conversation conversation) : conversation_(std::move(conversation)) {}
	// @begin comes before each family's first flow, and again with each new try. Both families
	// at once are AF_UNSPEC.
	using Begin = std::function<void(std::uint8_t family)>;
	Result<DiagStatus> dump_families(std::uint32_t states, std::span<const Fd> storages,
					 const Begin &begin, const FlowVisitor &visit);
	Result<DiagStatus> dump_family(std::uint8_t family, std::uint32_t states,
				       std::span<const Fd> storages, const Conversation::Begin &begin,
				       const FlowVisitor &visit);

	Conversation conversation_;
	bool both_at_once_ = true; // until the kernel has said no
};

} // namespace swift
