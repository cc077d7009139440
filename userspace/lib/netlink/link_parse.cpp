// SPDX-License-Identifier: MIT
#include "link.h"

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

} // namespace

NetlinkStatus parse_links(Bytes bytes, std::vector<Link> &links)
{
	return for_messages(bytes, 0, [&](const nlmsghdr &head, Bytes payload) {
		return (head.nlmsg_type != RTM_NEWLINK && head.nlmsg_type != RTM_DELLINK) ||
		       parse_link(head, payload, links);
	});
}

} // namespace swift
