// SPDX-License-Identifier: MIT
// Network interfaces as route netlink tells of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "netlink_bytes.h"

namespace swift {

struct Link {
	std::uint32_t ifindex = 0;
	std::string name;
	bool gone = false;
	// On top of another device (VLAN, bond, ...), whose PHC it passes off as its own.
	bool stacked = false;
};

// Appends every interface in @bytes, of a dump or of events.
NetlinkStatus parse_links(Bytes bytes, std::vector<Link> &links);

} // namespace swift
