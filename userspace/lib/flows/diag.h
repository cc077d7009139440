// SPDX-License-Identifier: MIT
// TCP sockets from the kernel through NETLINK_SOCK_DIAG: a parser that is a pure
// function of bytes (so that it can be fuzzed and fed with recorded dumps), and the
// client that asks the kernel and hands its answers to the parser.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "fd.h"
#include "flow.h"
#include "result.h"

struct mnl_socket;

namespace swift {

// What a run of netlink messages held besides flows.
struct DiagStatus {
	bool done = false; // NLMSG_DONE or NLMSG_ERROR was there
	bool interrupted = false; // the kernel's table changed under the dump
	int error = 0; // errno that the kernel gave
	std::size_t bad_records = 0; // tcp_swift records of a size that we do not know
	std::size_t malformed = 0; // messages or attributes that were cut off
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
	struct Close {
		void operator()(mnl_socket *s) const;
	};
	using Socket = std::unique_ptr<mnl_socket, Close>;

	explicit DiagClient(Socket socket);
	// @begin comes before each family's first flow, and again with each new try. Both families
	// at once are AF_UNSPEC.
	using Begin = std::function<void(std::uint8_t family)>;
	Result<DiagStatus> dump_families(std::uint32_t states, std::span<const Fd> storages,
					 const Begin &begin, const FlowVisitor &visit);
	Result<DiagStatus> dump_once(std::uint8_t family, std::uint32_t states,
				     std::span<const Fd> storages, const FlowVisitor &visit);

	Socket socket_;
	std::vector<std::byte> buffer_;
	std::uint32_t sequence_ = 0;
	bool both_at_once_ = true; // until the kernel has said no
};

// Enters the network namespace that `ip netns` calls @name; for the whole thread.
Result<void> enter_netns(const std::string &name);
// Of the network namespace that the thread is in. Unlike the number of its inode, no other
// namespace has it until the next boot.
Result<std::uint64_t> netns_cookie();

} // namespace swift
