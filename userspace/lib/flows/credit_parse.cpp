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
	bool good = read_whole<genlmsghdr>(payload).has_value();
	const auto take = [&](Bytes value, auto &to) { take_whole(value, to.emplace(), good); };
	const bool whole = for_attributes(skip(payload, GENL_HDRLEN), [&](int type, Bytes value) {
		switch (type) {
		case TCP_SWIFT_A_IFINDEX:
			take_whole(value, l.ifindex, good);
			f.ifindex = l.ifindex;
			return;
		case TCP_SWIFT_A_LINK_MBPS:
			return take(value, mbps);
		case TCP_SWIFT_A_LINK_BDP:
			return take_whole(value, l.bdp_bytes, good);
		case TCP_SWIFT_A_LINK_B:
			return take_whole(value, l.most_bytes, good);
		case TCP_SWIFT_A_LINK_UNSCHED:
			return take_whole(value, l.unasked_bytes, good);
		case TCP_SWIFT_A_LINK_LENT:
			return take_whole(value, l.lent_bytes, good);
		case TCP_SWIFT_A_LINK_RTT_NS:
			return take_whole(value, l.rtt_ns, good);
		case TCP_SWIFT_A_LINK_LOOP_NS:
			return take_whole(value, l.loop_ns, good);
		case TCP_SWIFT_A_LOCAL:
			return take(value, local);
		case TCP_SWIFT_A_REMOTE:
			return take(value, remote);
		case TCP_SWIFT_A_LOCAL_PORT:
			return take_whole(value, f.local.port, good);
		case TCP_SWIFT_A_REMOTE_PORT:
			return take_whole(value, f.remote.port, good);
		case TCP_SWIFT_A_COOKIE:
			return take_whole(value, f.cookie, good);
		case TCP_SWIFT_A_STANDING:
			return take_whole(value, standing, good);
		case TCP_SWIFT_A_WANTED:
			return take_whole(value, f.wanted_bytes, good);
		case TCP_SWIFT_A_LENT:
			return take_whole(value, f.lent_bytes, good);
		case TCP_SWIFT_A_SENDER_LENT:
			return take_whole(value, f.sender_lent_bytes, good);
		case TCP_SWIFT_A_SENDER_MOST:
			return take_whole(value, f.sender_most_bytes, good);
		case TCP_SWIFT_A_SENDER_HOST:
			return take_whole(value, f.sender_host_bytes, good);
		case TCP_SWIFT_A_SENDER_NET:
			return take_whole(value, f.sender_net_bytes, good);
		default: // padding, or newer than us
			return;
		}
	});

	if (!whole || !good || mbps.has_value() == (local && remote))
		return false;
	if (mbps) {
		l.mbps = *mbps;
		if (l.ifindex != 0)
			book.links.push_back(l);
		return l.ifindex != 0;
	}
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
