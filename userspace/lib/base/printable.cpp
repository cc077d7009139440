// SPDX-License-Identifier: MIT
#include "printable.h"

#include <array>
#include <cstdint>

namespace swift {

namespace {

// The length of the character that @s begins with; 0: it is none, or one that steers a terminal.
std::size_t character(std::string_view s)
{
	// By its length: the first number that needs so many bytes.
	static constexpr std::array<std::uint32_t, 5> first = {0, 0, 0x80, 0x800, 0x10000};
	const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(s[i]); };
	const std::size_t length = byte(0) < 0x80 ? 1 : byte(0) >> 5 == 6 ? 2 : byte(0) >> 4 == 14 ? 3 : byte(0) >> 3 == 30 ? 4 : 0;

	if (length == 0 || length > s.size())
		return 0;

	std::uint32_t number = length == 1 ? byte(0) : byte(0) & (0x7fU >> length);

	for (std::size_t i = 1; i < length; i++) {
		if (byte(i) >> 6 != 2)
			return 0;
		number = number << 6 | (byte(i) & 0x3fU);
	}
	const bool control = number < 0x20 || (number >= 0x7f && number < 0xa0);
	const bool surrogate = number >= 0xd800 && number < 0xe000;

	return control || surrogate || number < first[length] || number > 0x10ffff ? 0 : length;
}

} // namespace

std::string printable(std::string_view text)
{
	std::string out;

	while (!text.empty()) {
		const std::size_t length = character(text);

		if (length == 0)
			out += '?';
		else
			out += text.substr(0, length);
		text.remove_prefix(length ? length : 1);
	}
	return out;
}

} // namespace swift
