// SPDX-License-Identifier: MIT
#include "address.h"

#include <arpa/inet.h>

#include <algorithm>

#include "text.h"

namespace swift {

namespace {

constexpr std::array<std::uint8_t, 12> mapped_head = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

} // namespace

Address Address::unmapped() const
{
	if (!v6 || !std::equal(mapped_head.begin(), mapped_head.end(), bytes.begin()))
		return *this;

	Address v4;

	std::copy(bytes.begin() + 12, bytes.end(), v4.bytes.begin());
	return v4;
}

std::string Address::text() const
{
	const Address a = unmapped();
	char buf[INET6_ADDRSTRLEN] = "";

	inet_ntop(a.v6 ? AF_INET6 : AF_INET, a.bytes.data(), buf, sizeof(buf));
	return buf;
}

Result<Address> Address::parse(std::string_view text)
{
	const std::string s(text);
	Address a;

	if (inet_pton(AF_INET, s.c_str(), a.bytes.data()) == 1)
		return a;
	a.v6 = true;
	if (inet_pton(AF_INET6, s.c_str(), a.bytes.data()) == 1)
		return a.unmapped();
	return Error{"not an address", s, "an IPv4 or IPv6 address in numbers"};
}

std::string Endpoint::text() const
{
	std::string s = address.text();

	if (s.find(':') != std::string::npos)
		s = "[" + s + "]";
	return s + ":" + std::to_string(port);
}

Result<Prefix> Prefix::parse(std::string_view text)
{
	const auto slash = text.find('/');
	auto address = Address::parse(text.substr(0, slash));

	if (!address)
		return Error{"not a prefix", std::string(text), "10.0.0.0/8, fd00::/16 or an address"};

	const unsigned whole = address->v6 ? 128 : 32;

	if (slash == std::string_view::npos)
		return Prefix{*address, whole};

	ASSIGN_OR_RETURN(auto length, parse_int("prefix length", text.substr(slash + 1), 0, whole));
	return Prefix{*address, static_cast<unsigned>(length)};
}

Prefix Prefix::around(const Address &a, unsigned length)
{
	Prefix p{a.unmapped(), length};

	for (unsigned i = 0; i < p.address.bytes.size(); i++) {
		const unsigned kept = length > i * 8 ? std::min(length - i * 8, 8U) : 0;

		p.address.bytes[i] = static_cast<std::uint8_t>(p.address.bytes[i] & 0xff00U >> kept);
	}
	return p;
}

std::string Prefix::text() const
{
	return address.text() + "/" + std::to_string(length);
}

bool Prefix::contains(const Address &candidate) const
{
	const Address a = candidate.unmapped();

	if (a.v6 != address.v6)
		return false;

	const unsigned whole_bytes = length / 8;
	const unsigned rest = length % 8;

	if (!std::equal(a.bytes.begin(), a.bytes.begin() + whole_bytes, address.bytes.begin()))
		return false;
	return rest == 0 || ((a.bytes[whole_bytes] ^ address.bytes[whole_bytes]) >> (8 - rest)) == 0;
}

bool any_contains(const std::vector<Prefix> &prefixes, const Address &a)
{
	return prefixes.empty() || std::any_of(prefixes.begin(), prefixes.end(), [&](const Prefix &p) { return p.contains(a); });
}

Result<std::vector<Prefix>> parse_prefixes(std::string_view flag, const std::vector<std::string> &texts)
{
	std::vector<Prefix> all;

	for (const std::string &text : texts) {
		ASSIGN_OR_RETURN(const auto prefix, prefixed(std::string(flag) + ": ", Prefix::parse(text)));
		all.push_back(prefix);
	}
	return all;
}

} // namespace swift
