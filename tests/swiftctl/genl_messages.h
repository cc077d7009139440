// SPDX-License-Identifier: MIT
// Messages of generic netlink made to measure, byte by byte as the kernel would send them.
#pragma once

#include <linux/genetlink.h>
#include <linux/netlink.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "netlink_bytes.h"
#include "uapi/tcp_swift.h"

namespace swift_test {

inline constexpr std::uint16_t module_family = 31;

class Messages {
public:
	std::uint32_t sequence = 7;
	std::uint16_t flags = 0;

	template <typename T> Messages &put(const T &v)
	{
		const auto *p = reinterpret_cast<const std::byte *>(&v);

		bytes.insert(bytes.end(), p, p + sizeof(v));
		while (bytes.size() % 4)
			bytes.push_back({});
		return fix();
	}
	Messages &raw(swift::Bytes b)
	{
		bytes.insert(bytes.end(), b.begin(), b.end());
		return fix();
	}
	Messages &begin(std::uint16_t type)
	{
		nlmsghdr head{};

		start_ = bytes.size();
		head.nlmsg_type = type;
		head.nlmsg_seq = sequence;
		head.nlmsg_flags = flags;
		return put(head);
	}
	Messages &generic(std::uint16_t type, std::uint8_t command = TCP_SWIFT_CMD_CLOCK_GET)
	{
		return begin(type).put(genlmsghdr{command, 1, 0});
	}
	template <typename T> Messages &attribute(int type, const T &v)
	{
		nlattr head{};

		head.nla_len = sizeof(head) + sizeof(v);
		head.nla_type = static_cast<std::uint16_t>(type);
		put(head);
		return put(v);
	}
	Messages &text(int type, const std::string &s)
	{
		nlattr head{};

		head.nla_len = static_cast<std::uint16_t>(sizeof(head) + s.size() + 1);
		head.nla_type = static_cast<std::uint16_t>(type);
		put(head);
		for (const char c : s + '\0')
			bytes.push_back(static_cast<std::byte>(c));
		while (bytes.size() % 4)
			bytes.push_back({});
		return fix();
	}
	Messages &clock(std::uint32_t ifindex)
	{
		return generic(module_family)
			.attribute(TCP_SWIFT_A_IFINDEX, ifindex)
			.attribute(TCP_SWIFT_A_NIC_NS, std::uint64_t{1} << 62)
			.attribute(TCP_SWIFT_A_HOST_NS, std::uint64_t{5000000000})
			.attribute(TCP_SWIFT_A_RATIO_Q32, (std::uint64_t{1} << 32) + 214748)
			.attribute(TCP_SWIFT_A_ERROR_NS, std::uint32_t{120})
			.attribute(TCP_SWIFT_A_VALID_MS, std::uint32_t{700})
			.attribute(TCP_SWIFT_A_OWNER, std::uint32_t{4711})
			.attribute(TCP_SWIFT_A_USED, std::uint64_t{1} << 40)
			.attribute(TCP_SWIFT_A_STALE, std::uint64_t{2})
			.attribute(TCP_SWIFT_A_FUTURE, std::uint64_t{3})
			.attribute(TCP_SWIFT_A_OLD, std::uint64_t{4});
	}
	Messages &end(std::uint16_t type, std::int32_t code) { return begin(type).put(code); }

	std::vector<std::byte> bytes;

private:
	Messages &fix()
	{
		const auto length = static_cast<std::uint32_t>(bytes.size() - start_);

		std::memcpy(&bytes[start_], &length, sizeof(length));
		return *this;
	}
	std::size_t start_ = 0;
};

} // namespace swift_test
