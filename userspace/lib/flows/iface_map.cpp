// SPDX-License-Identifier: MIT
#include "iface_map.h"

#include <linux/rtnetlink.h>

#include <algorithm>
#include <cerrno>

#include "printable.h"

namespace swift {

IfaceMap::IfaceMap(const std::vector<Link> &links, const std::vector<LocalAddress> &addresses)
{
	replace(links, addresses);
}

void IfaceMap::replace(const std::vector<Link> &links, const std::vector<LocalAddress> &addresses)
{
	std::map<Address, std::string> names;

	for (const LocalAddress &a : addresses)
		for (const Link &l : links)
			if (l.ifindex == a.ifindex && !l.gone)
				names.emplace(a.address, printable(l.name));
	if (names == names_)
		return;
	names_ = std::move(names);
	generation_++;
}

std::string_view IfaceMap::find(const Address &local) const
{
	const Address a = local.unmapped();

	// All of 127/8 is this host's, though one address of it is listed.
	if (!a.v6 && a.bytes[0] == 127)
		return "lo";
	const auto at = names_.find(a);

	if (at != names_.end())
		return at->second;
	if (a.v6 && a.bytes[15] == 1 &&
	    std::all_of(a.bytes.begin(), a.bytes.end() - 1, [](auto b) { return b == 0; }))
		return "lo";
	return iface_unknown;
}

Result<IfaceMap> IfaceMap::open()
{
	ASSIGN_OR_RETURN(auto events,
			 RouteEvents::open(RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR));
	IfaceMap map;

	map.events_ = std::move(events);
	map.stale_ = true;
	// Interfaces that change too fast just now are read with the next look.
	if (auto done = map.refresh(); !done && done.error().code != EAGAIN)
		return done.error();
	return map;
}

Result<IfaceMap> IfaceMap::read()
{
	IfaceMap map;

	RETURN_IF_ERROR(map.load());
	return map;
}

Result<void> IfaceMap::load()
{
	const auto links = list_links();
	const auto addresses = list_addresses();

	if (!links || !addresses)
		return links ? addresses.error() : links.error();
	replace(*links, *addresses);
	return {};
}

Result<void> IfaceMap::refresh()
{
	// What has changed does not matter, nor whether the kernel had to drop events.
	if (events_) {
		ASSIGN_OR_RETURN(const auto seen, events_->read([](Bytes) {}));

		stale_ |= seen != RouteEvents::Seen::nothing;
	}
	if (!stale_)
		return {};
	auto done = load();

	stale_ = !done;
	return done;
}

} // namespace swift
