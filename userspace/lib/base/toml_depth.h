// SPDX-License-Identifier: MIT
// The TOML parser goes down into each bracket, and into each part of a dotted key: a few KB of them end the
// program. Whoever parses a file asks here first.
#pragma once

#include <string_view>

namespace swift {

// Are there more than 16 brackets within brackets, or a key of more than 17 parts? What is in quotes or
// behind a # is neither.
[[nodiscard]] bool toml_is_deep(std::string_view toml);

} // namespace swift
