// SPDX-License-Identifier: MIT
#include "netlink_bytes.h"

#include <cerrno>

namespace swift {

namespace {

constexpr std::size_t longest_message = 200;
constexpr std::int32_t max_errno = 4095; // the kernel's MAX_ERRNO

std::string printable(Bytes b)
{
	std::string s;

	for (const std::byte byte : b.first(std::min(b.size(), longest_message))) {
		const auto c = static_cast<unsigned char>(byte);

		if (c == 0)
			break;
		s += c >= 0x20 && c < 0x7f ? static_cast<char>(c) : '?';
	}
	return s;
}

} // namespace

int netlink_errno(std::int32_t code)
{
	return code >= 0 ? 0 : code >= -max_errno ? -code : EPROTO;
}

// The kernel's words follow the request that it quotes, unless that was cut.
void parse_netlink_error(const nlmsghdr &head, Bytes payload, NetlinkStatus &status)
{
	const auto code = read_whole<std::int32_t>(payload);

	if (!code) {
		status.malformed++;
		return;
	}
	status.error = netlink_errno(*code);
	if (head.nlmsg_type != NLMSG_ERROR || !(head.nlmsg_flags & NLM_F_ACK_TLVS))
		return;

	const auto quoted = read_whole<nlmsghdr>(skip(payload, sizeof(*code)));

	if (!quoted) {
		status.malformed++;
		return;
	}

	const std::size_t size = head.nlmsg_flags & NLM_F_CAPPED ? sizeof(nlmsghdr) :
								     align4(quoted->nlmsg_len);
	const bool whole = for_attributes(
		skip(payload, sizeof(*code) + size), [&](int type, Bytes value) {
			if (type == NLMSGERR_ATTR_MSG)
				status.message = printable(value);
		});

	status.malformed += !whole;
}

} // namespace swift
