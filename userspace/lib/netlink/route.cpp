// SPDX-License-Identifier: MIT
#include "route.h"

#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <cerrno>

#include "conversation.h"

namespace swift {

namespace {

// A table of the kernel's, whole: of one moment, or an Error.
template <typename Body, typename Item>
Result<std::vector<Item>> list(std::uint16_t type, const char *what,
			       NetlinkStatus (*parse)(Bytes, std::vector<Item> &, std::uint32_t))
{
	ASSIGN_OR_RETURN(auto conversation, Conversation::open(NETLINK_ROUTE, what));
	NetlinkRequest request(type, NLM_F_DUMP);
	std::vector<Item> items;

	request.put_body(Body{});
	ASSIGN_OR_RETURN(const auto status, conversation.ask(
		request, [&] { items.clear(); },
		[&](Bytes b, std::uint32_t sequence) { return parse(b, items, sequence); }));
	if (status.error)
		return netlink_refusal(std::string("cannot read the ") + what, status);
	if (status.interrupted)
		return Error{std::string("the ") + what + " change faster than they can be read", {}, {}, EAGAIN};
	return items;
}

} // namespace

Result<std::vector<Link>> list_links()
{
	return list<ifinfomsg>(RTM_GETLINK, "interfaces", parse_links);
}

Result<std::vector<LocalAddress>> list_addresses()
{
	return list<ifaddrmsg>(RTM_GETADDR, "addresses of interfaces", parse_addresses);
}

Result<RouteEvents> RouteEvents::open(unsigned groups)
{
	ASSIGN_OR_RETURN(auto socket, netlink_socket(NETLINK_ROUTE, groups, SOCK_NONBLOCK));

	return RouteEvents(std::move(socket));
}

Result<RouteEvents::Seen> RouteEvents::read(const std::function<void(Bytes)> &take)
{
	Seen seen = Seen::nothing;

	for (;;) {
		const ssize_t n = recv(socket_.get(), buffer_.data(), buffer_.size(), 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			return seen;
		if (n < 0 && errno == ENOBUFS) {
			seen = Seen::missed;
			continue;
		}
		if (n <= 0)
			return errno_error("cannot read events of interfaces", n < 0 ? errno : EIO);
		if (seen == Seen::nothing)
			seen = Seen::some;
		take({buffer_.data(), static_cast<std::size_t>(n)});
	}
}

} // namespace swift
