// SPDX-License-Identifier: MIT
// Names of others in commands, and in commands that are shown for a shell.
#pragma once

#include <string>
#include <string_view>

#include "result.h"

namespace swift {

// A word that a shell takes for @text, in quotes if it needs them. What printable() would take
// is as bash writes it: $'\377'.
[[nodiscard]] std::string shell_word(std::string_view text);
// @command as it is given from outside network namespace @netns, a name or a path; "": the one that we are in.
[[nodiscard]] std::string netns_command(std::string_view netns, const std::string &command);

// A host's name or address that may go into a command: nothing that looks like an option, nothing for a
// shell. An Error says @what it was to be.
Result<void> check_host_name(const std::string &what, const std::string &name);

} // namespace swift
