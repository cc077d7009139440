// SPDX-License-Identifier: MIT
// `swiftctl delays`: where delay comes from and how it is spread, by destination prefix or by
// flow, out of what the BPF telemetry has counted. Reading that is libswift's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "table.h"
#include "telemetry.h"
#include "verb.h"

namespace swift {

// As the command line gave them.
struct DelaysOptions {
	std::string by = "prefix";
	std::vector<std::string> dst;
	std::string interval; // seconds; empty: since the telemetry was loaded
	bool hist = false;
	bool wide = false;
	bool json = false;
	std::string netns; // by its name; empty: this one
	bool all_netns = false;
};

struct DelaysQuery {
	bool by_flow = false;
	bool all_netns = false;
	std::vector<Prefix> dst; // a flow's remote end, or a prefix within one of them
	double interval_s = 0;
	bool hist = false;

	static Result<DelaysQuery> from(const DelaysOptions &options);
	[[nodiscard]] bool wants(const std::optional<Prefix> &prefix) const;
	[[nodiscard]] bool wants(const Address &remote) const;
};

// One line: a prefix, or a flow.
struct DelaysRow {
	std::string name; // "10.0.0.0/24", "other", "10.0.0.1:80 > 10.0.0.2:5201"
	std::string cc;
	TelemetryCounts counts;
	std::uint32_t netns = 0; // 0: of all
};

// Those with the most samples first.
[[nodiscard]] std::vector<DelaysRow> delays_rows(const TelemetryReading &reading, const DelaysQuery &query);
[[nodiscard]] Table delays_table(const std::vector<DelaysRow> &rows, const DelaysQuery &query);
// What looks like "  64..128 us |########      | 12.3 %", a block for each row and delay.
[[nodiscard]] std::vector<std::string> delays_histograms(const std::vector<DelaysRow> &rows,
							 const DelaysQuery &query,
							 const Terminal &terminal);
[[nodiscard]] std::vector<std::string> delays_notes(const TelemetryReading &reading,
						    const std::vector<DelaysRow> &rows,
						    const DelaysQuery &query);
// All flows and prefixes that @query wants, whole.
[[nodiscard]] std::string delays_json(const TelemetryReading &reading, const DelaysQuery &query);

[[nodiscard]] std::string prefix_text(const std::optional<Prefix> &prefix); // "other" for none

void add_options(CLI::App &verb, DelaysOptions &o);
Result<int> run_delays(const DelaysOptions &options);
extern const Verb delays_verb;

} // namespace swift
