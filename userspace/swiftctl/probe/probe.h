// SPDX-License-Identifier: MIT
// `swiftctl probe`: the RTT of the fabric alone, between NICs, and what both hosts add to
// it. Packets, stamps, sockets and arithmetic are lib/probe's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "probe_exchange.h"
#include "probe_keys.h"
#include "probe_socket.h"
#include "table.h"
#include "verb.h"

namespace swift {

// As the command line gave them.
struct ProbeOptions {
	std::vector<std::string> targets;
	std::string targets_file;
	std::string count;
	std::string interval_ms;
	std::string timeout_ms;
	std::string size;
	std::string dscp;
	std::string iface;
	std::string watch; // seconds; empty: once
	std::string bind;
	std::string port;
	std::string key_file;
	bool respond = false;
	bool stamp = false;
	bool json = false;
	bool wide = false;
};

// Checked; names are not looked up yet.
struct ProbePlan {
	std::vector<std::string> targets;
	std::uint64_t count = 1000; // 0: until told to stop
	std::int64_t interval_ns = 10000000;
	std::int64_t timeout_ns = 1000000000;
	std::size_t size_bytes = probe_min_bytes;
	unsigned dscp = 0;
	std::string iface;
	double watch_s = 0; // 0: once
	std::vector<ProbeAddress> bind; // of the responder
	std::string key_file;
	ProbeKeys keys; // that are in it
	bool stamp = false;
	bool json = false;
	bool wide = false;

	// @file: what is in the targets' file.
	static Result<ProbePlan> from(const ProbeOptions &options, const std::string &file = {});
};

// The targets in a file: one a line, # begins a comment. @name is for errors.
Result<std::vector<std::string>> parse_targets(const std::string &name, const std::string &content);

struct TargetReport {
	std::string name; // as it was given
	ProbeAddress address;
	ProbeStats stats;
	std::uint64_t in_flight = 0; // neither answered nor lost when it ended
	std::string failure; // the newest error of sending to it
	std::string nic; // its replies arrive there
};

struct ProbeReport {
	std::int64_t time_ns = 0; // CLOCK_REALTIME
	std::int64_t duration_ns = 0; // that it is about
	std::vector<TargetReport> targets;
	std::vector<std::string> notes;
};

[[nodiscard]] Table probe_table(const ProbeReport &report);
[[nodiscard]] std::vector<std::string> probe_notes(const ProbeReport &report);
[[nodiscard]] std::string probe_json(const ProbeReport &report, const ProbePlan &plan, bool one_line);

// One line about how it goes.
struct ProbeProgress {
	std::size_t targets = 0;
	std::size_t answering = 0;
	std::uint64_t sent = 0;
	std::uint64_t lost = 0;
	std::int64_t max_ns = 0;

	void add(const ProbeStats &stats);
	[[nodiscard]] std::string text(std::int64_t elapsed_ns) const;
};

void add_options(CLI::App &verb, ProbeOptions &o);
Result<int> run_probe(const ProbeOptions &options);
extern const Verb probe_verb;
Result<int> run_responder(const ProbePlan &plan);

} // namespace swift
