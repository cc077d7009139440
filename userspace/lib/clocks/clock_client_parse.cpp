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

	if (!head)
		return false;
	const bool good = take_attributes(skip(payload, GENL_HDRLEN),
					  {{TCP_SWIFT_A_IFINDEX, c.ifindex},
					   {TCP_SWIFT_A_NIC_NS, c.line.nic_ns},
					   {TCP_SWIFT_A_HOST_NS, c.line.host_ns},
					   {TCP_SWIFT_A_RATIO_Q32, c.line.ratio_q32},
					   {TCP_SWIFT_A_ERROR_NS, c.line.error_ns},
					   {TCP_SWIFT_A_VALID_MS, c.valid_ms},
					   {TCP_SWIFT_A_OWNER, c.owner},
					   {TCP_SWIFT_A_USED, c.used},
					   {TCP_SWIFT_A_STALE, c.stale},
					   {TCP_SWIFT_A_FUTURE, c.future},
					   {TCP_SWIFT_A_OLD, c.old}});

	// A line without a rate is none.
	if (!good || c.ifindex == 0 || c.line.ratio_q32 == 0)
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
