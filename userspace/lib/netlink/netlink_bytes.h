// SPDX-License-Identifier: MIT
// Bounded reading of netlink bytes, by copy: they may be cut anywhere, unaligned, or
// hostile. What is in a message or an attribute is the parsers' business.
#pragma once

#include <linux/netlink.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <type_traits>

namespace swift {

inline constexpr std::size_t netlink_receive_bytes = 64 * 1024; // libmnl advises 32 KiB for dumps
inline constexpr std::uint8_t family_v4 = 2; // AF_INET, the same on every Linux
inline constexpr std::uint8_t family_v6 = 10; // AF_INET6

using Bytes = std::span<const std::byte>;

template <typename T> std::optional<T> read_whole(Bytes b)
{
	static_assert(std::is_trivially_copyable_v<T>);
	T v{};

	if (b.size() < sizeof(T))
		return std::nullopt;
	std::memcpy(&v, b.data(), sizeof(T));
	return v;
}

// Older kernels send less of a struct, newer ones more: the rest stays zero.
template <typename T> T read_some(Bytes b)
{
	static_assert(std::is_trivially_copyable_v<T>);
	T v{};

	std::memcpy(&v, b.data(), std::min(b.size(), sizeof(T)));
	return v;
}

constexpr std::size_t align4(std::size_t n)
{
	return (n + 3) & ~std::size_t{3};
}

inline Bytes skip(Bytes b, std::size_t n)
{
	return b.subspan(std::min(n, b.size()));
}

// What a run of messages held besides its contents.
struct NetlinkStatus {
	bool done = false; // NLMSG_DONE or NLMSG_ERROR was there
	bool interrupted = false; // the kernel's table changed under the dump
	int error = 0; // errno that the kernel gave
	std::string message; // its own words, if it had any
	std::size_t malformed = 0; // messages or attributes that were cut off or made no sense
};

// Calls @each(type, payload) for every attribute; false if one was cut off.
template <typename Each> bool for_attributes(Bytes b, Each each)
{
	while (!b.empty()) {
		const auto head = read_whole<nlattr>(b);

		if (!head || head->nla_len < sizeof(nlattr) || head->nla_len > b.size())
			return false;
		each(head->nla_type & NLA_TYPE_MASK,
		     b.subspan(sizeof(nlattr), head->nla_len - sizeof(nlattr)));
		b = skip(b, align4(head->nla_len));
	}
	return true;
}

// An attribute, and where its value goes: whole, or it is none.
struct AttributeTo {
	template <typename T> AttributeTo(int which, T &field) : type(which), to(&field), take(take_into<T>) {}
	template <typename T>
	AttributeTo(int which, std::optional<T> &field) : type(which), to(&field), take([](Bytes value, void *at) {
		return take_into<T>(value, &static_cast<std::optional<T> *>(at)->emplace());
	})
	{
	}

	template <typename T> static bool take_into(Bytes value, void *field)
	{
		if (value.size() == sizeof(T))
			*static_cast<T *>(field) = *read_whole<T>(value);
		return value.size() == sizeof(T);
	}

	int type;
	void *to;
	bool (*take)(Bytes value, void *to);
};

// False if an attribute was cut off, or has another size. Others, as padding or newer than us, are passed over.
inline bool take_attributes(Bytes b, std::initializer_list<AttributeTo> attributes)
{
	bool good = true;
	const bool whole = for_attributes(b, [&](int type, Bytes value) {
		for (const AttributeTo &a : attributes)
			if (a.type == type)
				good &= a.take(value, a.to);
	});

	return whole && good;
}

// The errno that a message's negative @code means; 0 for none. Beyond all errnos: EPROTO.
[[nodiscard]] int netlink_errno(std::int32_t code);

// NLMSG_ERROR, or the NLMSG_DONE that begins like one.
void parse_netlink_error(const nlmsghdr &head, Bytes payload, NetlinkStatus &status);

// Calls @message(header, payload) for every message that is neither an end nor an error;
// it says whether it could make sense of it. With a @sequence, other messages are passed
// over.
template <typename Message>
NetlinkStatus for_messages(Bytes bytes, std::uint32_t sequence, Message message)
{
	NetlinkStatus status;

	while (!bytes.empty() && !status.done) {
		const auto head = read_whole<nlmsghdr>(bytes);

		if (!head || head->nlmsg_len < sizeof(nlmsghdr) || head->nlmsg_len > bytes.size()) {
			status.malformed++;
			return status;
		}
		const Bytes payload =
			bytes.subspan(sizeof(nlmsghdr), head->nlmsg_len - sizeof(nlmsghdr));

		bytes = skip(bytes, align4(head->nlmsg_len));
		if (sequence != 0 && head->nlmsg_seq != sequence)
			continue;
		if (head->nlmsg_flags & NLM_F_DUMP_INTR)
			status.interrupted = true;
		if (head->nlmsg_type == NLMSG_DONE || head->nlmsg_type == NLMSG_ERROR) {
			status.done = true;
			parse_netlink_error(*head, payload, status);
		} else if (head->nlmsg_type >= NLMSG_MIN_TYPE) {
			status.malformed += !message(*head, payload);
		}
	}
	return status;
}

} // namespace swift
