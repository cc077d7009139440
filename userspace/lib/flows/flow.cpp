// SPDX-License-Identifier: MIT
#include "flow.h"

#include <array>

namespace swift {

std::string_view stamp_text(Stamp s)
{
	static constexpr std::array<std::string_view, 3> names = {"none", "sw", "hw"};

	return names[static_cast<std::size_t>(s)];
}

std::string_view limit_text(Limit l)
{
	static constexpr std::array<std::string_view, 3> names = {"fabric", "host", "both"};

	return names[static_cast<std::size_t>(l)];
}

std::string_view credit_text(Credit c)
{
	static constexpr std::array<std::string_view, 4> names = {"none", "enough", "waits", "congested"};

	return names[static_cast<std::size_t>(c)];
}

std::string_view bound_text(Bound b)
{
	static constexpr std::array<std::string_view, bounds> names = {
		"none", "fabric", "host", "mixed", "application", "receiver", "send_buffer", "credit", "own_link"};

	return names[static_cast<std::size_t>(b)];
}

std::optional<Bound> parse_bound(std::string_view text)
{
	for (std::size_t i = 1; i < bounds; i++)
		if (bound_text(static_cast<Bound>(i)) == text)
			return static_cast<Bound>(i);
	return std::nullopt;
}

std::string_view tcp_state_text(std::uint8_t state)
{
	// In the kernel's order, from TCP_ESTABLISHED = 1.
	static constexpr std::array<std::string_view, 13> names = {
		"unknown",   "established", "syn-sent", "syn-recv",   "fin-wait-1",
		"fin-wait-2", "time-wait",   "closed",   "close-wait", "last-ack",
		"listen",    "closing",     "syn-recv"};

	return state < names.size() ? names[state] : names[0];
}

} // namespace swift
