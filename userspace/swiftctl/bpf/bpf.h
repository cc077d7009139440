// SPDX-License-Identifier: MIT
// `swiftctl bpf`: congestion controls in BPF, from the command line to what is printed.
// What is done is libswift's (bpf_variant.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bpf_variant.h"
#include "table.h"
#include "verb.h"

namespace swift {

// As the command line gave them.
struct BpfOptions {
	enum class Action { list, load, unload, swap, set, get };

	Action action = Action::list;
	std::string name;
	std::string object;
	std::vector<std::string> set; // tunable=value; of get: tunables
	std::string cgroup;
	std::string prefix;
	TelemetryRequest telemetry; // of load telemetry: what is not above
	bool module_only = false;
	bool no_echo = false;
	bool make_default = false;
	bool erase = false;
	bool plain = false;
	bool dry_run = false;
	bool verbose = false;
	bool json = false;
};

[[nodiscard]] Table bpf_table(const std::vector<BpfStatus> &loaded, std::int64_t now_ns);
[[nodiscard]] std::vector<std::string> bpf_notes(const BpfListing &listing);
// All of them, or those named.
[[nodiscard]] Table bpf_settings_table(const BpfSettings &settings, const std::string &variant,
				       const std::vector<std::string> &names);
// "10.1.0.0/16  base_target_ns=60000": what a profile has otherwise than all others.
[[nodiscard]] std::vector<std::string> bpf_profile_lines(const BpfSettings &settings);

[[nodiscard]] std::string bpf_report_json(const BpfReport &report, const std::string &name, bool dry_run);
[[nodiscard]] std::string bpf_list_json(const BpfListing &listing);
[[nodiscard]] std::string bpf_settings_json(const BpfSettings &settings, const std::string &name);

void add_options(CLI::App &verb, BpfOptions &o);
Result<int> run_bpf(const BpfOptions &options);
extern const Verb bpf_verb;

} // namespace swift
