// SPDX-License-Identifier: MIT
#include "genl.h"

#include <linux/genetlink.h>

#include <cerrno>

namespace swift {

namespace {

constexpr std::uint8_t controller_version = 2;

} // namespace

NetlinkStatus parse_family(Bytes bytes, std::optional<std::uint16_t> &family, std::uint32_t sequence)
{
	return for_messages(bytes, sequence, [&](const nlmsghdr &head, Bytes payload) {
		std::uint16_t id = 0;

		if (head.nlmsg_type != GENL_ID_CTRL)
			return true;
		const bool good = take_attributes(skip(payload, GENL_HDRLEN), {{CTRL_ATTR_FAMILY_ID, id}});

		if (id >= NLMSG_MIN_TYPE)
			family = id;
		return good;
	});
}

Result<GenlClient> GenlClient::open(std::string family, std::uint8_t version)
{
	ASSIGN_OR_RETURN(auto conversation, Conversation::open(NETLINK_GENERIC, "family " + family));

	return GenlClient(std::move(conversation), std::move(family), version);
}

Result<void> GenlClient::resolve()
{
	NetlinkRequest request(GENL_ID_CTRL, NLM_F_ACK);

	request.put_body(genlmsghdr{CTRL_CMD_GETFAMILY, controller_version, 0});
	request.put_text(CTRL_ATTR_FAMILY_NAME, name_.c_str());
	ASSIGN_OR_RETURN(auto status, conversation_.ask(request, [&] { family_.reset(); }, [&](Bytes b, std::uint32_t sequence) {
		return parse_family(b, family_, sequence);
	}));
	if (status.error)
		return errno_error("cannot ask for netlink family " + name_, status.error);
	if (!family_)
		return Error{"the kernel did not name netlink family " + name_};
	return {};
}

Result<NetlinkStatus> GenlClient::ask(std::uint8_t command, std::uint16_t flags, const Put &put,
				      const Conversation::Begin &begin, const Parse &parse)
{
	for (bool fresh = false;;) {
		if (!family_) {
			RETURN_IF_ERROR(resolve());
			fresh = true;
		}

		NetlinkRequest request(*family_, flags);

		request.put_body(genlmsghdr{command, version_, 0});
		put(request);
		auto status = conversation_.ask(request, begin, [&](Bytes b, std::uint32_t sequence) {
			return parse(b, *family_, sequence);
		});

		// The number may be of a module that is no more; the answer may also be meant so.
		if (!status || status->error != ENOENT || fresh)
			return status;
		family_.reset();
	}
}

} // namespace swift
