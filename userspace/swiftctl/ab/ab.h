// SPDX-License-Identifier: MIT
// `swiftctl ab`: compares congestion controls by real runs: iperf3, and questions and answers. Asks, checks, runs one
// after the other, and hands what came out to libswift (what it says) and `report` (how it
// looks).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ab_plan.h"
#include "ab_process.h"
#include "ab_result.h"
#include "fleet_ab.h"
#include "interface.h"
#include "verb.h"

namespace swift {

// As the command line gave them.
struct AbOptions {
	std::vector<std::string> servers;
	std::vector<std::string> clients;
	std::vector<std::string> server_ssh;
	std::string cc = "swift,dctcp,cubic";
	std::string runs;
	std::string parallel;
	std::string duration;
	std::string warmup;
	std::string port;
	std::string seed; // empty: a random one
	std::string dscp;
	std::string rr;
	std::string rr_bytes;
	std::string rr_port;
	std::string looks;
	std::string json_file;
	std::string html_file;
	bool reverse = false;
	bool dry_run = false;
	bool yes = false;
	bool rr_new = false;
	std::string rr_every;
	bool serve = false; // answer, and nothing else
	bool ask = false; // the client's part, in a run
	FleetOptions fleet; // --fleet: another kind of test
};

// @random_seed: if the options give none.
Result<AbPlan> ab_plan(const AbOptions &options, std::uint64_t random_seed);

// Everything that a run needs, asked before the first one: a line for each thing that is
// missing, and how to get it. Empty: go.
[[nodiscard]] std::vector<std::string> ab_check(const AbPlan &plan, AbHosts &hosts);

// How it goes, for whoever shows it.
struct AbProgress {
	std::size_t run = 0; // from 1
	std::size_t runs = 0;
	const AbTurn *turn = nullptr;
	double elapsed_s = 0; // of this run
	double left_s = 0; // of all
};

class AbListener : public Interface {
public:
	virtual void progress(const AbProgress &p) = 0; // each tenth of a second
	virtual void done(const AbProgress &p, const AbRun &run) = 0;
	virtual void failed(const AbProgress &p, const std::string &reason, bool again) = 0;
};

// All runs, or those until it is told to stop. @result has its plan.
void ab_run_all(AbResult &result, AbHosts &hosts, AbListener &listener);

[[nodiscard]] std::string duration_text(double seconds); // "45 s", "4 min 10 s", "2 h 5 min"
[[nodiscard]] std::string ab_plan_text(const AbPlan &plan);

void add_options(CLI::App &verb, AbOptions &o);
Result<int> run_ab(const AbOptions &options);
extern const Verb ab_verb;

} // namespace swift
