// SPDX-License-Identifier: MIT
// Bytes of generic netlink messages to what is lent. No system call belongs here.
#include <linux/genetlink.h>

#include <array>
#include <optional>

#include "credit_book.h"
#include "uapi/tcp_swift.h"

namespace swift {

namespace {

static_assert(static_cast<int>(Standing::idle) == TCP_SWIFT_STANDING_IDLE &&
	      static_cast<int>(Standing::served) == TCP_SWIFT_STANDING_SERVED &&
	      static_cast<int>(Standing::link) == TCP_SWIFT_STANDING_LINK &&
	      static_cast<int>(Standing::sender) == TCP_SWIFT_STANDING_SENDER &&
	      static_cast<int>(Standing::network) == TCP_SWIFT_STANDING_NETWORK &&
	      static_cast<int>(Standing::late) == TCP_SWIFT_STANDING_LATE &&
	      static_cast<int>(Standing::buffer) == TCP_SWIFT_STANDING_BUFFER &&
	      static_cast<int>(Standing::silent) == TCP_SWIFT_STANDING_SILENT &&
	      static_cast<int>(Standing::no_rate) == TCP_SWIFT_STANDING_NO_RATE);

using Ipv6 = std::array<std::uint8_t, 16>;

Address address_of(const Ipv6 &bytes)
{
	Address a;

	a.v6 = true;
	a.bytes = bytes;
	return a.unmapped();
}

// One that a newer module tells may be unknown.
Standing standing_of(std::uint32_t number)
{
	return number < static_cast<std::uint32_t>(Standing::unknown) ? static_cast<Standing>(number) : Standing::unknown;
}

// A message is a link's or a flow's, by what is in it.
bool parse_entry(Bytes payload, CreditBook &book)
{
	std::optional<std::uint32_t> mbps;
	std::optional<Ipv6> remote;
	std::optional<Ipv6> local;
	std::uint32_t standing = 0;
	CreditLink l;
	CreditFlow f;
	const bool good = read_whole<genlmsghdr>(payload) &&
			  take_attributes(skip(payload, GENL_HDRLEN),
					  {{TCP_SWIFT_A_IFINDEX, l.ifindex},
					   {TCP_SWIFT_A_LINK_MBPS, mbps},
					   {TCP_SWIFT_A_LINK_BDP, l.bdp_bytes},
					   {TCP_SWIFT_A_LINK_B, l.most_bytes},
					   {TCP_SWIFT_A_LINK_UNSCHED, l.unasked_bytes},
					   {TCP_SWIFT_A_LINK_LENT, l.lent_bytes},
					   {TCP_SWIFT_A_LINK_RTT_NS, l.rtt_ns},
					   {TCP_SWIFT_A_LINK_LOOP_NS, l.loop_ns},
					   {TCP_SWIFT_A_LOCAL, local},
					   {TCP_SWIFT_A_REMOTE, remote},
					   {TCP_SWIFT_A_LOCAL_PORT, f.local.port},
					   {TCP_SWIFT_A_REMOTE_PORT, f.remote.port},
					   {TCP_SWIFT_A_COOKIE, f.cookie},
					   {TCP_SWIFT_A_STANDING, standing},
					   {TCP_SWIFT_A_WANTED, f.wanted_bytes},
					   {TCP_SWIFT_A_LENT, f.lent_bytes},
					   {TCP_SWIFT_A_SENDER_LENT, f.sender_lent_bytes},
					   {TCP_SWIFT_A_SENDER_MOST, f.sender_most_bytes},
					   {TCP_SWIFT_A_SENDER_HOST, f.sender_host_bytes},
					   {TCP_SWIFT_A_SENDER_NET, f.sender_net_bytes}});

	if (!good || mbps.has_value() == (local && remote))
		return false;
	if (mbps) {
		l.mbps = *mbps;
		if (l.ifindex != 0)
			book.links.push_back(l);
		return l.ifindex != 0;
	}
	f.ifindex = l.ifindex;
	f.local.address = address_of(*local);
	f.remote.address = address_of(*remote);
	f.standing = standing_of(standing);
	book.flows.push_back(f);
	return true;
}

} // namespace

NetlinkStatus parse_credit_book(Bytes bytes, std::uint16_t family, CreditBook &book, std::uint32_t sequence)
{
	return for_messages(bytes, sequence, [&](const nlmsghdr &head, Bytes payload) {
		return head.nlmsg_type != family || parse_entry(payload, book);
	});
}

std::string_view standing_text(Standing s)
{
	static constexpr std::array<std::string_view, standings> names = {
		"idle", "served", "link", "sender", "network", "late", "buffer", "silent", "no_rate", "unknown"};

	return names[static_cast<std::size_t>(s)];
}

bool waits(Standing s)
{
	return s >= Standing::link && s <= Standing::buffer;
}

} // namespace swift
