// SPDX-License-Identifier: MIT
// What standard output is, and the paint for it. No tables here, and nothing of Swift.
#pragma once

#include <string>
#include <string_view>

namespace swift {

enum class Colour { none, bold, dim, red, green, yellow, magenta };

struct Terminal {
	bool is_terminal = false;
	bool colours = false; // a terminal, and NO_COLOR is not set
	unsigned columns = 0; // 0: as wide as need be
	unsigned rows = 0;

	[[nodiscard]] std::string paint(std::string_view text, Colour colour) const;
};

[[nodiscard]] Terminal standard_output();

} // namespace swift
