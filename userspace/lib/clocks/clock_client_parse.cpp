// SPDX-License-Identifier: MIT
// Bytes of generic netlink messages to NIC clocks. No system call belongs here.
#include <linux/genetlink.h>

#include "clock_client.h"
#include "netlink_bytes.h"
#include "uapi/tcp_swift.h"

namespace swift {

namespace {

bool parse_clock(Bytes payload, std::vector<NicClock> &clocks)
{
	const auto head = read_whole<genlmsghdr>(payload);
	NicClock c;
	bool good = true;

	if (!head)
		return false;
	const bool whole = for_attributes(skip(payload, GENL_HDRLEN), [&](int type, Bytes value) {
		switch (type) {
		case TCP_SWIFT_A_IFINDEX:
			return take_whole(value, c.ifindex, good);
		case TCP_SWIFT_A_NIC_NS:
			return take_whole(value, c.line.nic_ns, good);
		case TCP_SWIFT_A_HOST_NS:
			return take_whole(value, c.line.host_ns, good);
		case TCP_SWIFT_A_RATIO_Q32:
			return take_whole(value, c.line.ratio_q32, good);
		case TCP_SWIFT_A_ERROR_NS:
			return take_whole(value, c.line.error_ns, good);
		case TCP_SWIFT_A_VALID_MS:
			return take_whole(value, c.valid_ms, good);
		case TCP_SWIFT_A_OWNER:
			return take_whole(value, c.owner, good);
		case TCP_SWIFT_A_USED:
			return take_whole(value, c.used, good);
		case TCP_SWIFT_A_STALE:
			return take_whole(value, c.stale, good);
		case TCP_SWIFT_A_FUTURE:
			return take_whole(value, c.future, good);
		case TCP_SWIFT_A_OLD:
			return take_whole(value, c.old, good);
		default: // padding, or newer than us
			return;
		}
	});

	// A line without a rate is none.
	if (!whole || !good || c.ifindex == 0 || c.line.ratio_q32 == 0)
		return false;
	clocks.push_back(c);
	return true;
}

} // namespace

NetlinkStatus parse_nic_clocks(Bytes bytes, std::uint16_t family, std::vector<NicClock> &clocks,
			    std::uint32_t sequence)
{
	return for_messages(bytes, sequence, [&](const nlmsghdr &head, Bytes payload) {
		return head.nlmsg_type != family || parse_clock(payload, clocks);
	});
}

} // namespace swift
