// SPDX-License-Identifier: MIT
// Network interfaces and their addresses as route netlink tells of them: all that there are, and
// what changes. The parsers are pure functions of bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "address.h"
#include "fd.h"
#include "netlink_bytes.h"
#include "result.h"

namespace swift {

struct Link {
	std::uint32_t ifindex = 0;
	std::string name;
	bool gone = false;
	// On top of another device (VLAN, bond, ...), whose PHC it passes off as its own.
	bool stacked = false;
};

struct LocalAddress {
	Address address;
	std::uint32_t ifindex = 0;
};

// Appends every interface in @bytes, of a dump or of events.
NetlinkStatus parse_links(Bytes bytes, std::vector<Link> &links, std::uint32_t sequence = 0);
// Appends every address in @bytes, the answer to a dump.
NetlinkStatus parse_addresses(Bytes bytes, std::vector<LocalAddress> &addresses, std::uint32_t sequence = 0);

// Of this network namespace.
Result<std::vector<Link>> list_links();
Result<std::vector<LocalAddress>> list_addresses();

// Of this network namespace, from now on.
class RouteEvents {
public:
	// @groups: RTMGRP_LINK, ...
	static Result<RouteEvents> open(unsigned groups);

	enum class Seen { nothing, some, missed }; // missed: the kernel had to drop some
	// What has come since the last call, each buffer handed to @take.
	Result<Seen> read(const std::function<void(Bytes)> &take);
	[[nodiscard]] int fd() const { return socket_.get(); }

private:
	explicit RouteEvents(Fd socket) : socket_(std::move(socket)), buffer_(netlink_receive_bytes) {}

	Fd socket_;
	std::vector<std::byte> buffer_;
};

} // namespace swift
