// SPDX-License-Identifier: MIT
// Commands side by side, here and on other hosts, and the promise that none outlives us.
// An interface, so that tests put made-up hosts in its place.
#pragma once

#include <signal.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "flow.h"
#include "interface.h"
#include "result.h"

namespace swift {

struct AbCommand {
	std::string host; // over ssh; empty: here
	std::vector<std::string> argv;
	bool companion = false; // is ended when all others have ended
};

struct AbOutput {
	enum class End { exited, not_started, too_late, stopped };
	End end = End::exited;
	int status = 0; // exit status; 128 + signal; of ssh 255, of a missing command 127
	std::string out;
	std::string err;
	double ended_s = 0; // after all of them began

	// What it complained of, in one line; @fallback if it said nothing.
	[[nodiscard]] std::string complaint(const std::string &fallback) const;
};

class AbHosts : public Interface {
public:
	// Each tenth of a second, with the seconds since the start; false: end everything.
	using Tick = std::function<void(double elapsed_s)>;

	// Returns when all have ended: by themselves, after @timeout_s, or because of stop.
	virtual std::vector<AbOutput> run(const std::vector<AbCommand> &commands, double timeout_s,
					  const Tick &tick) = 0;
	// The connected TCP sockets of this host.
	virtual Result<std::vector<Flow>> flows() = 0;
	// False if it is time to stop.
	virtual bool pause(double seconds) = 0;
	[[nodiscard]] virtual bool stopped() const = 0;
	// This program, to be run as a client.
	[[nodiscard]] virtual std::string self() const { return "swiftctl"; }
	[[nodiscard]] virtual double now_s() const = 0; // of a clock that only goes forward
};

// Ends what it started, and returns early, when a signal of @stop comes; those have to be
// blocked.
std::unique_ptr<AbHosts> real_ab_hosts(const sigset_t &stop);

} // namespace swift
