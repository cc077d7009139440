// SPDX-License-Identifier: MIT
// The running service: starts its parts, and turns timers and signals into their calls.
#pragma once

#include <string>

#include "config.h"
#include "options.h"

namespace swift {

struct ServiceArguments {
	std::string config_file; // empty: none
	bool config_optional = false; // it may be missing, now or at a reload
	Overrides overrides;
};

// Until SIGTERM or SIGINT; the exit status.
int run_service(const ServiceArguments &arguments, const Config &config);
// Two looks at the host, an interval apart; the second's summary goes to standard output.
int run_once(const Config &config);
// Prints it to standard output; the exit status, and why not to standard error.
int say(const std::string &text);
// What the files say that a start would read: an Error if that would end it.
Result<void> check_files(const Config &config);

} // namespace swift
