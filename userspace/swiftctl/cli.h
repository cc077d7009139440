// SPDX-License-Identifier: MIT
// The command line: arguments in, one verb with its options out. No verb runs here.
#pragma once

#include <string>
#include <variant>

#include "bpf.h"
#include "clock.h"
#include "doctor.h"
#include "enable.h"
#include "flows.h"
#include "probe.h"

namespace swift {

// Nothing to run: print @text and leave with @status.
struct Leave {
	std::string text;
	int status = 0;
};

using Invocation = std::variant<Leave, FlowsOptions, EnableOptions, DisableOptions, DoctorOptions,
				ProbeOptions, ClockOptions, BpfOptions>;

[[nodiscard]] Invocation parse_command_line(int argc, const char *const *argv);

} // namespace swift
