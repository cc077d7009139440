// SPDX-License-Identifier: MIT
// `swiftctl flows`: choosing, ordering and showing the flows that swift runs. Getting
// them is libswift's.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "flow.h"
#include "table.h"
#include "verb.h"
#include "verdict.h"

namespace swift {

// As the command line gave them.
struct FlowsOptions {
	std::vector<std::string> src;
	std::vector<std::string> dst;
	std::vector<std::string> sport;
	std::vector<std::string> dport;
	std::string min_fabric_us;
	std::string limit_by;
	std::string held_by;
	std::string sort = "remote";
	std::string top;
	std::string watch; // seconds; empty: once
	std::string netns;
	std::string root; // for tests: files below it
	std::string dump; // for tests: recorded netlink messages instead of the kernel's
	bool all = false;
	bool all_netns = false;
	bool processes = false;
	bool wide = false;
	bool json = false;
};

// A flow is shown if it meets every condition; within one list, any will do.
struct FlowQuery {
	std::vector<Prefix> src;
	std::vector<Prefix> dst;
	std::vector<std::uint16_t> sport;
	std::vector<std::uint16_t> dport;
	std::optional<double> min_fabric_us;
	std::optional<Limit> limit;
	std::optional<Bound> held;
	bool every_cc = false;
	std::size_t sort_column = 0;
	bool descending = false;
	std::size_t top = 0; // 0: all
	double watch_s = 0; // 0: once

	static Result<FlowQuery> from(const FlowsOptions &options);
	[[nodiscard]] bool matches(const Flow &flow) const;
};

struct FlowSnapshot {
	std::int64_t time_ns = 0; // CLOCK_REALTIME
	std::vector<Flow> flows; // chosen, in order
	std::size_t swift_count = 0; // before choosing
	std::size_t other_count = 0; // of bpf_timely and bpf_gcn, which have no record
	std::size_t guarded_count = 0;
	std::size_t all_count = 0;
	std::map<std::string, std::size_t> unread; // flows of BPF variants without a record, by name
	std::map<std::string, std::size_t> unmeasured; // of those chosen: flows of other controls, by name
	bool records_readable = true; // of BPF variants
	std::size_t bad_records = 0;
	std::size_t malformed = 0;
	bool interrupted = false;
	bool module_loaded = false;
	bool bpf_loaded = false; // any variant
	std::optional<std::size_t> netns_count; // other network namespaces that were looked at, if they were
	std::size_t silent_processes = 0; // whose namespaces are not known
	std::string netns_trouble; // why not all were
	SummaryOptions verdicts;
};

// Counts @all and judges them, keeps what @query asks for, in its order. @look: the same flows in a
// table, which knows what each did since the look before; without it they are judged by their whole lives.
void choose(std::vector<Flow> all, const FlowQuery &query, FlowSnapshot &snapshot,
	    const SummaryOptions &verdicts = {}, const FlowSet *look = nullptr);

[[nodiscard]] Table flow_table(const std::vector<Flow> &flows);
[[nodiscard]] std::vector<std::string> flow_column_names();
// What is worth a line below the table.
[[nodiscard]] std::vector<std::string> flow_notes(const FlowSnapshot &snapshot,
						  const FlowQuery &query);
[[nodiscard]] std::string flows_json(const FlowSnapshot &snapshot, bool one_line);

// "12.35", "0.500", "0.0123": two decimals, or three digits below one packet.
[[nodiscard]] std::string window_text(double pkts);
// "0", "950", "1.18G"
[[nodiscard]] std::string si_text(std::uint64_t v);

void add_options(CLI::App &verb, FlowsOptions &o);
Result<int> run_flows(const FlowsOptions &options);
extern const Verb flows_verb;

} // namespace swift
