// SPDX-License-Identifier: MIT
#include "iface_map.h"

#include <libmnl/libmnl.h>
#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "netlink_bytes.h"

namespace swift {

namespace {


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

NetlinkStatus parse_addresses(Bytes bytes, std::vector<LocalAddress> &addresses)
{
	return for_messages(bytes, 0, [&](const nlmsghdr &head, Bytes payload) {
		return head.nlmsg_type != RTM_NEWADDR || parse_address(payload, addresses);
	});
}

void IfaceMap::Close::operator()(mnl_socket *s) const
{
	mnl_socket_close(s);
}

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
				names.emplace(a.address, l.name);
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

namespace {

// One dump of a route netlink table, each buffer handed to @parse.
template <typename Parse> Result<void> dump(std::uint16_t type, Parse parse)
{
	struct Close {
		void operator()(mnl_socket *s) const { mnl_socket_close(s); }
	};
	const std::unique_ptr<mnl_socket, Close> socket(
		mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC));
	alignas(nlmsghdr) std::array<char, MNL_NLMSG_HDRLEN + MNL_ALIGN(sizeof(ifinfomsg))> request{};
	std::vector<std::byte> buffer(netlink_receive_bytes);

	if (!socket || mnl_socket_bind(socket.get(), 0, MNL_SOCKET_AUTOPID) < 0)
		return errno_error("cannot open a route netlink socket", errno);
	nlmsghdr *head = mnl_nlmsg_put_header(request.data());

	head->nlmsg_type = type;
	head->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	mnl_nlmsg_put_extra_header(head, type == RTM_GETLINK ? sizeof(ifinfomsg) : sizeof(ifaddrmsg));
	if (mnl_socket_sendto(socket.get(), head, head->nlmsg_len) < 0)
		return errno_error("cannot ask for the interfaces", errno);
	for (bool done = false; !done;) {
		const ssize_t n = mnl_socket_recvfrom(socket.get(), buffer.data(), buffer.size());

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno_error("cannot read the interfaces", errno);

		const NetlinkStatus status = parse({buffer.data(), static_cast<std::size_t>(n)});

		if (status.error)
			return errno_error("cannot read the interfaces", status.error);
		done = status.done;
	}
	return {};
}

} // namespace

Result<IfaceMap> IfaceMap::open()
{
	IfaceMap map;

	map.events_.reset(mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC | SOCK_NONBLOCK));
	if (!map.events_ ||
	    mnl_socket_bind(map.events_.get(), RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR,
			    MNL_SOCKET_AUTOPID) < 0)
		return errno_error("cannot open a route netlink socket", errno);
	map.stale_ = true;
	if (auto done = map.refresh(); !done)
		return done.error();
	return map;
}

Result<void> IfaceMap::load()
{
	std::vector<Link> links;
	std::vector<LocalAddress> addresses;

	if (auto done = dump(RTM_GETLINK, [&](Bytes b) { return parse_links(b, links); }); !done)
		return done;
	if (auto done = dump(RTM_GETADDR, [&](Bytes b) { return parse_addresses(b, addresses); }); !done)
		return done;
	replace(links, addresses);
	return {};
}

Result<void> IfaceMap::refresh()
{
	std::array<char, 8192> buffer;

	// What has changed does not matter, nor whether the kernel had to drop events.
	while (events_) {
		const ssize_t n = recv(mnl_socket_get_fd(events_.get()), buffer.data(), buffer.size(), 0);

		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			break;
		if (n < 0 && errno == EINTR)
			continue;
		if (n == 0 || (n < 0 && errno != ENOBUFS))
			return errno_error("cannot read address events", errno);
		stale_ = true;
	}
	if (!stale_)
		return {};
	auto done = load();

	stale_ = !done;
	return done;
}

} // namespace swift
