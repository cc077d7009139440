// SPDX-License-Identifier: MIT
#include "napi_ids.h"

#include <linux/genetlink.h>

#include <cerrno>

#include "genl.h"

namespace swift {

namespace {

// Of the kernel's ABI (linux/netdev.h), and newer than Debian 12's headers.
constexpr std::uint8_t command_napi_get = 11;
constexpr std::uint16_t attribute_ifindex = 1;
constexpr std::uint16_t attribute_id = 2;

NetlinkStatus parse_napis(Bytes bytes, std::uint16_t family, std::vector<std::uint32_t> &ids,
			  std::uint32_t sequence)
{
	return for_messages(bytes, sequence, [&](const nlmsghdr &head, Bytes payload) {
		return head.nlmsg_type != family ||
		       for_attributes(skip(payload, GENL_HDRLEN), [&](int type, Bytes value) {
			       if (type == attribute_id && value.size() == sizeof(std::uint32_t))
				       ids.push_back(*read_whole<std::uint32_t>(value));
		       });
	});
}

} // namespace

std::optional<std::vector<std::uint32_t>> NapiIds::of(std::uint32_t ifindex)
{
	auto netdev = untold_ ? Result<GenlClient>(Error{}) : GenlClient::open("netdev", 1);
	std::vector<std::uint32_t> ids;

	if (!netdev)
		return std::nullopt;
	const auto status = netdev->ask(
		command_napi_get, NLM_F_DUMP, [&](NetlinkRequest &r) { r.put(attribute_ifindex, ifindex); },
		[&] { ids.clear(); },
		[&](Bytes b, std::uint16_t family, std::uint32_t sequence) {
			return parse_napis(b, family, ids, sequence);
		});

	untold_ = !status && status.error().code == ENOENT;
	return status && !status->error && !status->interrupted ? std::optional(std::move(ids)) : std::nullopt;
}

} // namespace swift
