// SPDX-License-Identifier: MIT
// A command of the system's, run to its end.
#pragma once

#include <string>
#include <vector>

#include "result.h"

namespace swift {

inline constexpr int status_not_found = 127; // of a shell, of ssh, of run_command()

struct CommandResult {
	int status = 0; // exit status; 128 + signal if killed
	std::string out;
	std::string err;
};

// argv[0] is looked up in the system's own directories; no shell, nothing of our environment.
Result<CommandResult> run_command(const std::vector<std::string> &argv);

} // namespace swift
