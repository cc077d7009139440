// SPDX-License-Identifier: MIT
// One conversation with the kernel over a netlink socket: a request, and its answer to the end.
// A dump that the kernel's table changed under, a kernel that falls silent and its own words for
// an error are dealt with here alone. What an answer means is the parsers' business.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "fd.h"
#include "netlink_bytes.h"
#include "netlink_request.h"
#include "result.h"

namespace swift {

// A netlink socket of @protocol (NETLINK_ROUTE, ...), bound to a port of its own, which hears of
// @groups. @flags: of socket(2), beside SOCK_CLOEXEC.
Result<Fd> netlink_socket(int protocol, unsigned groups = 0, int flags = 0);

class Conversation {
public:
	// A part of the answer, of messages with that sequence number alone.
	using Parse = std::function<NetlinkStatus(Bytes, std::uint32_t sequence)>;
	// Before the first part, and again with each new try: forget what there is.
	using Begin = std::function<void()>;

	// @subject is for errors: "TCP sockets".
	static Result<Conversation> open(int protocol, std::string subject);
	// With who listens on @socket, for as long as @patience_s for each part of an answer.
	Conversation(Fd socket, std::string subject, int patience_s = 10);

	// The last status, with all that was malformed. An errno of the kernel's is in it, and no
	// Error: it may be an answer. A dump that was interrupted is asked for again, five times in
	// all; then it is handed over as interrupted.
	Result<NetlinkStatus> ask(NetlinkRequest &request, const Begin &begin, const Parse &parse);

	[[nodiscard]] std::uint32_t port() const;

private:
	Result<NetlinkStatus> ask_once(NetlinkRequest &request, const Parse &parse);

	Fd socket_;
	std::string subject_;
	int patience_s_;
	std::vector<std::byte> buffer_;
	std::uint32_t sequence_ = 0;
};

// "the kernel refused to list its links: Operation not permitted", with its own words if it has any.
[[nodiscard]] Error netlink_refusal(const std::string &what, const NetlinkStatus &status);

} // namespace swift
