// SPDX-License-Identifier: MIT
// `swiftctl clock`: the NICs' clocks, as the module has them, as they can be measured,
// and the service that feeds them. The feeding itself is libswift's (clock_feeder.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bpf_clocks.h"
#include "clock_feeder.h"
#include "files.h"
#include "nics.h"
#include "table.h"
#include "verb.h"

namespace swift {

// As the command line gave them.
struct ClockOptions {
	enum class Action { show, run, read, restore };

	Action action = Action::show;
	std::vector<std::string> ifaces; // none: all that can
	std::string interval_ms = "250";
	std::string watch; // seconds; empty: once
	bool dry_run = false;
	bool wide = false;
	bool json = false;
	std::string root; // for tests
};

// A NIC, and the lines of its clock that the module and BPF variants have: any may be missing.
struct ClockRow {
	std::string iface;
	std::uint32_t ifindex = 0;
	std::optional<NicTimestamps> stamps;
	std::optional<NicClock> clock;
	std::string owner; // who feeds it
	std::vector<BpfClock> bpf;

	// The module's, or else a variant's.
	[[nodiscard]] const NicClock *line() const
	{
		return clock ? &*clock : bpf.empty() ? nullptr : &bpf.front().clock;
	}
};

struct HostNow {
	std::int64_t monotonic_ns = 0;
	std::int64_t realtime_ns = 0;
};

struct ClockSnapshot {
	HostNow now;
	std::vector<ClockRow> rows;
	std::optional<Error> error; // why the module's lines are not known
};

// What was measured without the module.
struct ClockMeasurement {
	std::string iface;
	int phc_index = -1;
	std::string method;
	std::optional<ClockLine> line; // and its error at this moment
	std::int64_t window_ns = 0; // the narrowest
	std::size_t readings = 0;
	std::optional<Error> error;
};

// NICs with a clock or with a line; with @ifaces only those, or an Error for one that is
// not there.
Result<ClockSnapshot> take_clocks(const Files &files, Nics &nics, const std::vector<std::string> &ifaces,
				  const HostNow &now, const BpfClockTable &bpf = {});
[[nodiscard]] HostNow host_now();

[[nodiscard]] Table clock_table(const ClockSnapshot &snapshot);
[[nodiscard]] std::vector<std::string> clock_notes(const ClockSnapshot &snapshot);
[[nodiscard]] Table measurement_table(const std::vector<ClockMeasurement> &all, const HostNow &now);
// NIC minus wall clock: what a person means by a clock's offset.
[[nodiscard]] std::int64_t wall_offset_ns(const ClockLine &line, const HostNow &now);

[[nodiscard]] std::string clocks_json(const ClockSnapshot &snapshot, bool one_line);
[[nodiscard]] std::string measurements_json(const std::vector<ClockMeasurement> &all,
					    const HostNow &now);
[[nodiscard]] std::string feed_event_json(const FeedEvent &event, std::int64_t time_ns);

// What `clock run` would do, a line per NIC; an Error if one asked for is not there.
struct ClockPlan {
	std::string iface;
	bool fit = false;
	int phc_index = -1;
	std::optional<Stamping> now;
	Stamping wanted;
	std::string why_not;
};
Result<std::vector<ClockPlan>> plan_clocks(const Files &files, Nics &nics, const std::vector<std::string> &ifaces);
[[nodiscard]] std::string plan_text(const ClockPlan &plan, std::uint32_t interval_ms);
[[nodiscard]] std::string plans_json(const std::vector<ClockPlan> &plans, std::uint32_t interval_ms);

void add_options(CLI::App &verb, ClockOptions &o);
Result<int> run_clock(const ClockOptions &options);
extern const Verb clock_verb;

} // namespace swift
