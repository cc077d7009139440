// SPDX-License-Identifier: MIT
// `swiftctl doctor`: what of this host helps or hurts swift, why, and the command that
// mends it. It changes nothing.
#pragma once

#include <string>
#include <vector>

#include "bpf_clocks.h"
#include "nics.h"
#include "sockets.h"
#include "system.h"
#include "terminal.h"
#include "verb.h"

namespace swift {

// As the command line gave them.
struct DoctorOptions {
	std::vector<std::string> ifaces; // none: those that are real and up
	std::string target_ns; // judge this target instead of the host's
	std::string peer; // ADDR[:PORT]
	std::string root;
	bool json = false;
};

enum class Severity { ok, warn, fail };

struct Finding {
	Severity severity;
	std::string check; // a short name that stays
	std::string seen;
	std::string why = {};
	std::string fix = {}; // a command to paste, if there is one
};

// What is examined.
struct DoctorHost {
	System &system;
	Nics &nics;
	Sockets &sockets;
};

// @bpf: what BPF variants know of NICs' clocks.
Result<std::vector<Finding>> examine(const DoctorHost &host, const DoctorOptions &options,
				     const BpfClockTable &bpf = {});
[[nodiscard]] std::string_view severity_name(Severity s);
[[nodiscard]] std::size_t count(const std::vector<Finding> &findings, Severity s);
[[nodiscard]] std::string doctor_text(const std::vector<Finding> &findings, const Terminal &terminal);
[[nodiscard]] std::string doctor_json(const std::vector<Finding> &findings);

void add_options(CLI::App &verb, DoctorOptions &o);
Result<int> run_doctor(const DoctorOptions &options);
extern const Verb doctor_verb;

} // namespace swift
