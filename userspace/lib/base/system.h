// SPDX-License-Identifier: MIT
// The host as who changes it needs it: its files, commands, and whether we are root. An
// interface, so that tests put a made-up host in its place. NICs are nics.h's, sockets sockets.h's.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "files.h"
#include "process.h"

namespace swift {

class System : public Files {
public:
	// argv[0] is looked up in the system's own directories; no shell.
	virtual Result<CommandResult> run(const std::vector<std::string> &argv) = 0;
	[[nodiscard]] virtual bool is_root() const = 0;
};

// The host that we run on. With a @root, files come from below it (tests, images).
std::unique_ptr<System> real_system(std::string root = {});

// Before anything is changed, and held as long as it goes on: an Error if we are not root, or if
// somebody else changes the host. A @dry_run needs neither.
Result<std::shared_ptr<void>> hold_changes(System &system, bool dry_run);
// How to get the module, in one line.
[[nodiscard]] std::string module_hint(System &system);

} // namespace swift
