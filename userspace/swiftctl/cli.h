// SPDX-License-Identifier: MIT
// The command line: finds the verb, has its options parsed, runs it. What a verb is: verb.h.
#pragma once

namespace swift {

// The exit status.
[[nodiscard]] int run_command_line(int argc, const char *const *argv);

} // namespace swift
