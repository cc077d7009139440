// SPDX-License-Identifier: MIT
// A request to the kernel over netlink, as it is built up: a header, a body, attributes.
#pragma once

#include <cstdint>
#include <type_traits>
#include <vector>

struct nlattr;
struct nlmsghdr;

namespace swift {

class NetlinkRequest {
public:
	// NLM_F_REQUEST is in the flags by itself.
	NetlinkRequest(std::uint16_t type, std::uint16_t flags);

	// What stands between the header and the attributes.
	template <typename T> void put_body(const T &body)
	{
		static_assert(std::is_trivially_copyable_v<T>);
		put_body(&body, sizeof(body));
	}
	template <typename T> void put(std::uint16_t type, const T &value)
	{
		static_assert(std::is_trivially_copyable_v<T>);
		put(type, &value, sizeof(value));
	}
	void put_text(std::uint16_t type, const char *text);
	// The attributes from here to close() are in one of @type.
	[[nodiscard]] nlattr *open(std::uint16_t type);
	void close(nlattr *nest);

	[[nodiscard]] nlmsghdr &head();

private:
	void put_body(const void *body, std::size_t size);
	void put(std::uint16_t type, const void *value, std::size_t size);

	std::vector<std::byte> buffer_;
};

} // namespace swift
