// SPDX-License-Identifier: MIT
// Names of others as a terminal, a scrape and a page may have them.
#pragma once

#include <string>
#include <string_view>

namespace swift {

// UTF-8 without a control character; each byte that is no part of that becomes a '?'. (A kernel
// takes any byte in an interface's name but a slash, a colon and blanks.)
[[nodiscard]] std::string printable(std::string_view text);

} // namespace swift
