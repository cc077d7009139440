// SPDX-License-Identifier: MIT
// Names of others in commands that are shown for a shell.
#pragma once

#include <string>
#include <string_view>

namespace swift {

// A word that a shell takes for @text, in quotes if it needs them. What printable() would take
// is as bash writes it: $'\377'.
[[nodiscard]] std::string shell_word(std::string_view text);

} // namespace swift
