// SPDX-License-Identifier: MIT
// Which interface a local address is on, as route netlink tells it, and kept current: the
// kernel says when an address or an interface changes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "result.h"
#include "route.h"

namespace swift {

inline constexpr std::string_view iface_unknown = "unknown"; // no interface has the address

class IfaceMap {
public:
	IfaceMap() = default; // knows the loopback addresses alone
	IfaceMap(const std::vector<Link> &links, const std::vector<LocalAddress> &addresses);
	// Of this network namespace.
	static Result<IfaceMap> open();
	// The same, as it is now: refresh() does nothing.
	static Result<IfaceMap> read();

	void replace(const std::vector<Link> &links, const std::vector<LocalAddress> &addresses);
	// Takes up what has changed since the last call; after an Error the map is as it was.
	Result<void> refresh();
	[[nodiscard]] std::string_view find(const Address &local) const;
	// Another number after each change.
	[[nodiscard]] std::uint64_t generation() const { return generation_; }

private:
	Result<void> load();

	std::optional<RouteEvents> events_;
	bool stale_ = false;
	std::map<Address, std::string> names_;
	std::uint64_t generation_ = 0;
};

} // namespace swift
