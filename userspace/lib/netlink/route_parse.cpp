// SPDX-License-Identifier: MIT
// Bytes of route netlink messages to interfaces and addresses. No system call belongs here.
#include "route.h"

#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>

#include <array>
#include <string_view>

namespace swift {

namespace {

constexpr std::uint8_t family_any = 0; // AF_UNSPEC
constexpr std::size_t longest_name = 15;
// Others have the device below them in IFLA_LINK.
constexpr std::array<std::string_view, 3> kinds_on_top = {"bond", "team", "bridge"};

std::string text(Bytes value, std::size_t most)
{
	std::string s;

	for (const std::byte b : value.first(std::min(value.size(), most))) {
		if (b == std::byte{0})
			break;
		s += static_cast<char>(b);
	}
	return s;
}

bool is_on_top(Bytes info, bool &whole)
{
	bool on_top = false;

	whole &= for_attributes(info, [&](int type, Bytes value) {
		if (type != IFLA_INFO_KIND)
			return;
		const std::string kind = text(value, longest_name);

		on_top = std::find(kinds_on_top.begin(), kinds_on_top.end(), kind) != kinds_on_top.end();
	});
	return on_top;
}

bool parse_link(const nlmsghdr &head, Bytes payload, std::vector<Link> &links)
{
	const auto body = read_whole<ifinfomsg>(payload);
	bool whole = true;
	Link link;

	if (!body || body->ifi_index <= 0)
		return false;
	// A bridge's port has messages of the bridge's own.
	if (body->ifi_family != family_any)
		return true;
	link.ifindex = static_cast<std::uint32_t>(body->ifi_index);
	link.gone = head.nlmsg_type == RTM_DELLINK;
	whole &= for_attributes(skip(payload, align4(sizeof(ifinfomsg))), [&](int type, Bytes value) {
		if (type == IFLA_IFNAME)
			link.name = text(value, longest_name);
		else if (type == IFLA_LINK)
			link.stacked |= read_whole<std::uint32_t>(value).value_or(link.ifindex) != link.ifindex;
		else if (type == IFLA_LINKINFO)
			link.stacked |= is_on_top(value, whole);
	});
	if (!whole || link.name.empty())
		return false;
	links.push_back(std::move(link));
	return true;
}

bool parse_address(Bytes payload, std::vector<LocalAddress> &addresses)
{
	const auto body = read_whole<ifaddrmsg>(payload);

	if (!body || body->ifa_index == 0)
		return false;
	if (body->ifa_family != family_v4 && body->ifa_family != family_v6)
		return true;

	LocalAddress a;
	bool found = false;
	bool local = false; // on a point-to-point link IFA_ADDRESS is the peer's

	a.ifindex = body->ifa_index;
	a.address.v6 = body->ifa_family == family_v6;
	const std::size_t size = a.address.v6 ? 16 : 4;
	const bool whole =
		for_attributes(skip(payload, align4(sizeof(ifaddrmsg))), [&](int type, Bytes value) {
			if ((type != IFA_LOCAL && (type != IFA_ADDRESS || local)) || value.size() != size)
				return;
			std::memcpy(a.address.bytes.data(), value.data(), size);
			found = true;
			local |= type == IFA_LOCAL;
		});

	if (!whole || !found)
		return false;
	addresses.push_back(a);
	return true;
}

} // namespace

NetlinkStatus parse_links(Bytes bytes, std::vector<Link> &links, std::uint32_t sequence)
{
	return for_messages(bytes, sequence, [&](const nlmsghdr &head, Bytes payload) {
		return (head.nlmsg_type != RTM_NEWLINK && head.nlmsg_type != RTM_DELLINK) ||
		       parse_link(head, payload, links);
	});
}

NetlinkStatus parse_addresses(Bytes bytes, std::vector<LocalAddress> &addresses, std::uint32_t sequence)
{
	return for_messages(bytes, sequence, [&](const nlmsghdr &head, Bytes payload) {
		return head.nlmsg_type != RTM_NEWADDR || parse_address(payload, addresses);
	});
}

} // namespace swift
