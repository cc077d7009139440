// SPDX-License-Identifier: MIT
// What --watch is made of: waiting until it is time or a signal says to stop, and drawing
// one screen over the last. What is on the screen is the verbs' business.
#pragma once

#include <signal.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "interface.h"
#include "result.h"
#include "terminal.h"

namespace swift {

// Blocks the signals that end a watch, so that they end it between two screens; a reader that
// goes away ends it by print(). On the way out they are ignored: a second one must not spoil the
// exit status.
class StopSignals : NonCopyable {
public:
	StopSignals();
	~StopSignals();

	// True if it is time to stop.
	[[nodiscard]] bool sleep(double seconds) const;
	[[nodiscard]] const sigset_t &set() const { return set_; } // for a signalfd

private:
	sigset_t set_{};
	sigset_t before_{};
};

// "2026-01-02 03:04:05.678 +0000"
[[nodiscard]] std::string local_time(std::int64_t time_ns);
// Over the last screen, without clearing first: no flicker. What is too long ends with @more.
[[nodiscard]] std::string redraw(std::vector<std::string> lines, const Terminal &terminal,
				 const std::string &more);

// One screen, or one line of JSON, after the other, until a signal ends it; an Error of @draw's ends it, too.
// @more: see redraw().
using Lines = std::vector<std::string>;
using Draw = std::function<Result<Lines>(const Terminal &)>;
Result<int> watch(double every_s, bool json, const std::string &more, const Draw &draw);

} // namespace swift
