// SPDX-License-Identifier: MIT
// What a BPF variant computes with: the tunables of each law, out of the core's own
// tables, their conversion for the programs, and the prefixes that profiles hang on. Maps
// and system calls are bpf_host.h's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "result.h"

namespace swift {

struct BpfTunable {
	std::string_view name;
	std::int64_t fallback;
	std::int64_t min; // below 0: the value is a signed word
	std::int64_t max;
	std::string_view meaning;

	[[nodiscard]] std::int64_t number(std::uint32_t value) const;
	[[nodiscard]] bool allows(std::uint32_t value) const;
	// As the operator writes it: a number, or target_policy's word.
	[[nodiscard]] std::string text(std::uint32_t value) const;
	[[nodiscard]] std::string range() const;
};

// A law's tunables, in the order of its table, as the words that the maps have.
using BpfValues = std::vector<std::uint32_t>;

struct BpfLaw {
	std::string_view name; // swift, timely, gcn
	std::string_view params_map; // of the object, by which it is known
	std::string_view profiles_map; // "": the law has no profiles
	std::size_t params_bytes;
	std::span<const BpfTunable> tunables;
	// Fills the struct of params_bytes; the name of the first value that will not do, or null.
	const char *(*convert)(std::byte *params, const std::uint32_t *values);

	// @variant: bpf_swift_v0 is the same law, with one window.
	[[nodiscard]] BpfValues defaults(std::string_view variant) const;
	// "name=value"; @values stays as it was if that will not do.
	Result<void> assign(BpfValues &values, std::string_view assignment) const;
	// As the programs want them; an Error if one contradicts another.
	Result<std::vector<std::byte>> prepare(const BpfValues &values) const;
};

[[nodiscard]] std::span<const BpfLaw> bpf_laws();

// The key of swift_profiles. IPv4 is in it as ::ffff:a.b.c.d.
struct BpfPrefix {
	std::uint32_t length = 0; // bits, of 128
	std::array<std::uint8_t, 16> address{};

	// An Error also if there are bits beyond the prefix.
	static Result<BpfPrefix> parse(std::string_view text);
	[[nodiscard]] std::string text() const;
	auto operator<=>(const BpfPrefix &) const = default;
};
static_assert(sizeof(BpfPrefix) == 20, "layout of the programs' map");

} // namespace swift
