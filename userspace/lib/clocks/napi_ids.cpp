// SPDX-License-Identifier: MIT
// A device's NAPIs, from the kernel's generic netlink family "netdev" (6.8).
#include <libmnl/libmnl.h>
#include <linux/genetlink.h>

#include <cerrno>
#include <memory>

#include "bpf_clocks.h"
#include "mnl_socket.h"
#include "netlink_bytes.h"

namespace swift {

namespace {

// Of the kernel's ABI (linux/netdev.h), and newer than Debian 12's headers.
constexpr std::uint8_t command_napi_get = 11;
constexpr std::uint16_t attribute_ifindex = 1;
constexpr std::uint16_t attribute_id = 2;
// Attributes of that type and size, of all messages of an answer.
template <typename T> struct Numbers {
	std::uint16_t type;
	std::vector<T> found;

	static int take_attribute(const nlattr *attribute, void *to)
	{
		auto *all = static_cast<Numbers *>(to);

		if (mnl_attr_get_type(attribute) == all->type &&
		    mnl_attr_get_payload_len(attribute) == sizeof(T))
			all->found.push_back(*static_cast<const T *>(mnl_attr_get_payload(attribute)));
		return MNL_CB_OK;
	}
	static int take_message(const nlmsghdr *message, void *to)
	{
		return mnl_attr_parse(message, sizeof(genlmsghdr), take_attribute, to);
	}
};

class Conversation {
public:
	Conversation() : socket_(mnl_socket_open2(NETLINK_GENERIC, SOCK_CLOEXEC))
	{
		if (socket_ && mnl_socket_bind(socket_.get(), 0, MNL_SOCKET_AUTOPID) < 0)
			socket_.reset();
	}

	nlmsghdr *begin(std::uint16_t family, std::uint16_t flags, std::uint8_t command)
	{
		nlmsghdr *head = mnl_nlmsg_put_header(buffer_.data());
		auto *generic = static_cast<genlmsghdr *>(mnl_nlmsg_put_extra_header(head, sizeof(genlmsghdr)));

		head->nlmsg_type = family;
		head->nlmsg_flags = static_cast<std::uint16_t>(NLM_F_REQUEST | NLM_F_ACK | flags);
		generic->cmd = command;
		generic->version = 1;
		return head;
	}

	// What all replies have.
	template <typename T>
	Result<std::vector<T>> numbers(const nlmsghdr *request, std::uint16_t type)
	{
		Numbers<T> all{type, {}};

		if (!socket_ || mnl_socket_sendto(socket_.get(), request, request->nlmsg_len) < 0)
			return refused();
		for (;;) {
			const ssize_t n = mnl_socket_recvfrom(socket_.get(), buffer_.data(), buffer_.size());

			if (n < 0 && errno == EINTR)
				continue;
			if (n < 0)
				return refused();
			const int more = mnl_cb_run(buffer_.data(), static_cast<std::size_t>(n), 0,
						    mnl_socket_get_portid(socket_.get()), Numbers<T>::take_message, &all);

			if (more < 0)
				return refused();
			if (more == MNL_CB_STOP)
				return std::move(all.found);
		}
	}

private:
	static Error refused() { return errno_error("cannot ask for NAPIs", errno); }

	MnlSocket socket_;
	std::vector<char> buffer_ = std::vector<char>(netlink_receive_bytes);
};

} // namespace

std::optional<std::vector<std::uint32_t>> NapiIds::of(std::uint32_t ifindex)
{
	if (family_ == 0)
		return std::nullopt;

	Conversation conversation;

	if (!family_) {
		nlmsghdr *request = conversation.begin(GENL_ID_CTRL, 0, CTRL_CMD_GETFAMILY);

		mnl_attr_put_strz(request, CTRL_ATTR_FAMILY_NAME, "netdev");
		const auto found = conversation.numbers<std::uint16_t>(request, CTRL_ATTR_FAMILY_ID);

		if (found && !found->empty())
			family_ = found->front();
		else if (!found && found.error().code == ENOENT)
			family_ = 0;
	}
	if (!family_.value_or(0))
		return std::nullopt;

	nlmsghdr *request = conversation.begin(*family_, NLM_F_DUMP, command_napi_get);

	mnl_attr_put_u32(request, attribute_ifindex, ifindex);
	auto ids = conversation.numbers<std::uint32_t>(request, attribute_id);

	return ids ? std::optional(std::move(*ids)) : std::nullopt;
}

} // namespace swift
