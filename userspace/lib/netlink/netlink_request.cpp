// SPDX-License-Identifier: MIT
#include "netlink_request.h"

#include <libmnl/libmnl.h>

#include <cstring>

namespace swift {

namespace {

constexpr std::size_t longest_request = 1024; // ours are of a few attributes

} // namespace

NetlinkRequest::NetlinkRequest(std::uint16_t type, std::uint16_t flags) : buffer_(longest_request)
{
	nlmsghdr *head = mnl_nlmsg_put_header(buffer_.data());

	head->nlmsg_type = type;
	head->nlmsg_flags = static_cast<std::uint16_t>(NLM_F_REQUEST | flags);
}

nlmsghdr &NetlinkRequest::head()
{
	return *reinterpret_cast<nlmsghdr *>(buffer_.data());
}

void NetlinkRequest::put_body(const void *body, std::size_t size)
{
	std::memcpy(mnl_nlmsg_put_extra_header(&head(), size), body, size);
}

void NetlinkRequest::put(std::uint16_t type, const void *value, std::size_t size)
{
	mnl_attr_put_check(&head(), longest_request, type, size, value);
}

void NetlinkRequest::put_text(std::uint16_t type, const char *text)
{
	put(type, text, std::strlen(text) + 1);
}

nlattr *NetlinkRequest::open(std::uint16_t type)
{
	return mnl_attr_nest_start(&head(), type);
}

void NetlinkRequest::close(nlattr *nest)
{
	mnl_attr_nest_end(&head(), nest);
}

} // namespace swift
