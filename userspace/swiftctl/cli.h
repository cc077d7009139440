// SPDX-License-Identifier: MIT
// The command line: arguments in, one verb with its options out. No verb runs here.
#pragma once

#include <string>
#include <variant>

#include "ab.h"
#include "bpf.h"
#include "clock.h"
#include "delays.h"
#include "doctor.h"
#include "enable.h"
#include "flows.h"
#include "probe.h"
#include "report.h"
#include "top.h"
#include "tune.h"

namespace swift {

// Nothing to run: print @text and leave with @status.
struct Leave {
	std::string text;
	int status = 0;
};

using Invocation = std::variant<Leave, FlowsOptions, EnableOptions, DisableOptions, DoctorOptions,
				ProbeOptions, ClockOptions, BpfOptions, DelaysOptions,
				AbOptions, ReportOptions, TopOptions, TuneVerbOptions>;

[[nodiscard]] Invocation parse_command_line(int argc, const char *const *argv);

} // namespace swift
