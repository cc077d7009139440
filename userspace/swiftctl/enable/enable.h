// SPDX-License-Identifier: MIT
// `swiftctl enable` and `swiftctl disable`: which changes, in which order, and back again.
// How one change is made is changes.h's.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "changes.h"
#include "sockets.h"
#include "system.h"
#include "verb.h"

namespace swift {

// As the command line gave them.
struct EnableOptions {
	bool default_too = false; // said aloud; it is so anyway
	bool no_default = false; // only allow it
	std::string qdisc = "fq"; // or "keep"
	std::vector<std::string> ifaces;
	bool echo = false;
	std::vector<std::string> set; // name=value
	std::string module_file;
	bool persist = false;
	bool dry_run = false;
	bool json = false;
	std::string netns; // a name or a path; it is entered before
	std::string root; // for tests
};

struct DisableOptions {
	bool force = false;
	bool dry_run = false;
	bool json = false;
	std::string netns;
	std::string root; // for tests
};

struct Event {
	Item item;
	Value before;
	Value after;
	// "set", "already", "restored", "left", "gone", "rolled back", "failed", "would set"
	std::string what;
};

struct Outcome {
	std::string netns; // the network namespace's name; "": the initial one
	std::vector<Event> events;
	std::vector<std::string> dry_lines; // of --dry-run
	std::vector<std::string> notes;
	std::optional<Error> error;
	bool usage = false; // the error is the command line's
	bool rolled_back = false; // everything is as it was before
};

// Whether --set, --echo, --qdisc and --iface say what can be.
Result<void> check_settings(const EnableOptions &options);
// Both in the network namespace that the thread is in, which is @place.
[[nodiscard]] Outcome enable(System &system, const EnableOptions &options, const Place &place = {});
[[nodiscard]] Outcome disable(System &system, Sockets &sockets, const DisableOptions &options, const Place &place = {});

[[nodiscard]] std::string outcome_text(const Outcome &outcome, bool dry_run);
[[nodiscard]] std::string outcome_json(const Outcome &outcome, bool dry_run);

void add_options(CLI::App &verb, EnableOptions &o);
void add_options(CLI::App &verb, DisableOptions &o);
Result<int> run_enable(const EnableOptions &options);
Result<int> run_disable(const DisableOptions &options);
extern const Verb enable_verb;
extern const Verb disable_verb;

} // namespace swift
