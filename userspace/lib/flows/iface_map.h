// SPDX-License-Identifier: MIT
// Which interface a local address is on, as route netlink tells it, and kept current: the
// kernel says when an address or an interface changes. The parser is a pure function of
// bytes.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "flow.h"
#include "link.h"
#include "netlink_bytes.h"
#include "result.h"

struct mnl_socket;

namespace swift {

inline constexpr std::string_view iface_unknown = "unknown"; // no interface has the address

struct LocalAddress {
	Address address;
	std::uint32_t ifindex = 0;
};

// Appends every address in @bytes, the answer to a dump.
NetlinkStatus parse_addresses(Bytes bytes, std::vector<LocalAddress> &addresses);

class IfaceMap {
public:
	IfaceMap() = default; // knows the loopback addresses alone
	IfaceMap(const std::vector<Link> &links, const std::vector<LocalAddress> &addresses);
	// Of this network namespace.
	static Result<IfaceMap> open();

	void replace(const std::vector<Link> &links, const std::vector<LocalAddress> &addresses);
	// Takes up what has changed since the last call; after an Error the map is as it was.
	Result<void> refresh();
	[[nodiscard]] std::string_view find(const Address &local) const;
	// Another number after each change.
	[[nodiscard]] std::uint64_t generation() const { return generation_; }

private:
	struct Close {
		void operator()(mnl_socket *s) const;
	};
	using Socket = std::unique_ptr<mnl_socket, Close>;

	Result<void> load();

	Socket events_;
	bool stale_ = false;
	std::map<Address, std::string> names_;
	std::uint64_t generation_ = 0;
};

} // namespace swift
