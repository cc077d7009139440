// SPDX-License-Identifier: MIT
// `swiftctl ab --fleet`: an experiment over racks and hours instead of runs of iperf3. plan draws it
// and writes what Ansible needs; read asks Prometheus afterwards. What it computes: fleet_plan.h,
// fleet_result.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "result.h"

namespace CLI {
class App;
}

namespace swift {

struct Verb;

// As the command line gave them. Those of `ab` that count here too are taken over by it.
struct FleetOptions {
	std::string action; // empty: not a fleet's
	std::string inventory;
	std::string group = "swift_hosts";
	std::string rack_var = "rack";
	std::vector<std::string> arms;
	std::string by = "racks";
	std::string name = "experiment";
	std::string start; // empty: the next full hour
	std::string period = "1h";
	std::string periods = "24";
	std::string carry_over = "5m";
	std::vector<std::string> metrics;
	std::vector<std::string> guardrails;
	std::string prometheus; // a URL, or a file of answers
	std::string token_file;
	std::string ca_file;
	std::string rack_label = "rack";
	std::string match = "job=\"swiftd\"";
	std::string out; // a folder
	std::string plan; // its plan.json
	std::string save; // answers, for another time
	std::string seed;
	std::string json_file;
};

void add_fleet_options(CLI::App &verb, FleetOptions &o);
// @random_seed: if the options give none. @verb: in whose name it speaks.
Result<int> run_fleet_ab(const FleetOptions &options, std::uint64_t random_seed, const Verb &verb);

} // namespace swift
