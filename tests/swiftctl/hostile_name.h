// SPDX-License-Identifier: MIT
// A device's name that a kernel takes, and no terminal should get.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "printable.h"

namespace swift_test {

inline const std::string hostile_name = "e\x1b[31mx\xff";
// The same as a word of a shell.
inline const std::string hostile_word = R"($'e\033[31mx\377')";

// Lines without a control character and without what is no UTF-8.
inline void expect_printable(std::string text)
{
	std::erase(text, '\n');
	EXPECT_EQ(text, swift::printable(text));
	EXPECT_FALSE(text.empty());
}

} // namespace swift_test
