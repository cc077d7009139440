// SPDX-License-Identifier: MIT
// A made-up kernel at the other end of a netlink conversation.
#pragma once

#include <gtest/gtest.h>
#include <linux/genetlink.h>
#include <linux/netlink.h>
#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "fd.h"

namespace swift_test {

inline std::vector<std::byte> message(const nlmsghdr &request, std::uint16_t type, std::uint16_t flags, std::int32_t number)
{
	struct {
		nlmsghdr head{};
		std::int32_t number = 0;
	} m;
	std::vector<std::byte> bytes(sizeof(m));

	m.head.nlmsg_len = sizeof(m);
	m.head.nlmsg_type = type;
	m.head.nlmsg_flags = flags;
	m.head.nlmsg_seq = request.nlmsg_seq;
	m.number = number;
	std::memcpy(bytes.data(), &m, sizeof(m));
	return bytes;
}

// A kernel that answers each request with what @answer has for it, until nobody asks any more.
class Kernel {
public:
	using Answer = std::function<std::vector<std::vector<std::byte>>(int attempt, const nlmsghdr &request)>;

	explicit Kernel(Answer answer)
	{
		std::array<int, 2> ends{};

		EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends.data()), 0);
		ours_ = swift::Fd(ends[0]);
		thread_ = std::thread([answer = std::move(answer), fd = swift::Fd(ends[1])] {
			nlmsghdr request{};
			int attempt = 0;

			while (recv(fd.get(), &request, sizeof(request), 0) > 0)
				for (const auto &part : answer(++attempt, request))
					if (send(fd.get(), part.data(), part.size(), MSG_NOSIGNAL) < 0)
						return;
		});
	}
	Kernel(const Kernel &) = delete;
	Kernel &operator=(const Kernel &) = delete;
	~Kernel() { thread_.join(); }
	swift::Fd end() { return std::move(ours_); }

private:
	swift::Fd ours_;
	std::thread thread_;
};

// What the controller says of the family that is asked for: its number.
inline std::vector<std::vector<std::byte>> name_family(const nlmsghdr &request, std::uint16_t family)
{
	struct {
		nlmsghdr head{};
		genlmsghdr genl{};
		nlattr attribute{sizeof(nlattr) + sizeof(std::uint16_t), CTRL_ATTR_FAMILY_ID};
		std::uint16_t id = 0;
		std::uint16_t pad = 0;
	} named;
	std::vector<std::byte> bytes(sizeof(named));

	named.head = {sizeof(named), GENL_ID_CTRL, 0, request.nlmsg_seq, 0};
	named.id = family;
	std::memcpy(bytes.data(), &named, sizeof(named));
	return {bytes, message(request, NLMSG_ERROR, 0, 0)};
}

} // namespace swift_test
