// SPDX-License-Identifier: MIT
// Addresses, their prefixes, and ports: numbers and their texts.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "result.h"

namespace swift {

struct Address {
	bool v6 = false;
	std::array<std::uint8_t, 16> bytes{}; // network order; the first four for IPv4

	// An IPv4 address that a dual-stack socket shows as ::ffff:a.b.c.d counts as IPv4.
	[[nodiscard]] Address unmapped() const;
	[[nodiscard]] std::string text() const;
	static Result<Address> parse(std::string_view text);
	auto operator<=>(const Address &) const = default;
};

struct Endpoint {
	Address address;
	std::uint16_t port = 0;

	[[nodiscard]] std::string text() const; // 10.0.0.1:80, [fd00::1]:80
	auto operator<=>(const Endpoint &) const = default;
};

struct Prefix {
	Address address;
	unsigned length = 0; // bits

	static Result<Prefix> parse(std::string_view text); // 10.0.0.0/8, or an address
	// The one of that length around @a.
	static Prefix around(const Address &a, unsigned length);
	[[nodiscard]] std::string text() const;
	[[nodiscard]] bool contains(const Address &a) const;
};

// Of no prefixes: all addresses are meant.
[[nodiscard]] bool any_contains(const std::vector<Prefix> &prefixes, const Address &a);
// @flag says in an Error which option they were meant for.
Result<std::vector<Prefix>> parse_prefixes(std::string_view flag, const std::vector<std::string> &texts);

} // namespace swift
