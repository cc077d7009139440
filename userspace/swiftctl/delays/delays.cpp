// SPDX-License-Identifier: MIT
// `swiftctl delays`: reads once, or twice with a pause between, and prints.
#include "delays.h"

#include <fmt/format.h>

#include "netns.h"
#include "say.h"
#include "watch.h"

namespace swift {

int run_delays(const DelaysOptions &options)
{
	auto query = DelaysQuery::from(options);

	if (!query)
		return fail_usage(delays_verb, query.error().text());

	if (!options.netns.empty())
		if (auto entered = enter_netns(options.netns); !entered)
			return fail(delays_verb, entered.error().text());

	const auto netns = query->all_netns ? std::nullopt : std::optional(this_netns_inode());
	const auto host = real_bpf_host();

	if (netns == 0U)
		return fail(delays_verb, "cannot tell which network namespace this is (/proc/thread-self/ns/net): --all-netns "
				  "needs not");
	auto telemetry = Telemetry::open(*host);

	if (!telemetry)
		return fail(delays_verb, telemetry.error().text());
	const auto wanted = [&](const TelemetryFlow &f) { return query->wants(f.remote.address); };
	auto reading = telemetry->read(netns, wanted);

	if (!reading)
		return fail(delays_verb, reading.error().text());
	if (query->interval_s > 0) {
		const TelemetryReading before = *reading;
		const StopSignals stop;

		// Stopped early it tells of the time until then.
		(void)stop.sleep(query->interval_s);
		reading = telemetry->read(netns, wanted);
		if (!reading)
			return fail(delays_verb, reading.error().text());
		reading = reading->since(before);
	}
	if (options.json)
		return print(delays_json(*reading, *query)) ? exit_ok : exit_failed;

	Terminal terminal = standard_output();
	const std::vector<DelaysRow> rows = delays_rows(*reading, *query);
	std::vector<std::string> lines;
	std::vector<std::string> notes = delays_notes(*reading, rows, *query);

	if (options.wide)
		terminal.columns = 0;
	if (!rows.empty()) {
		RenderedTable table = render(delays_table(rows, *query), terminal);

		lines = std::move(table.lines);
		if (!table.left_out.empty())
			notes.push_back(fmt::format("left out to fit: {}; --wide shows them",
						    fmt::join(table.left_out, ", ")));
	}
	if (query->hist)
		for (std::string &line : delays_histograms(rows, *query, terminal))
			lines.push_back(std::move(line));
	for (const std::string &text : notes)
		lines.push_back(terminal.paint(text, Colour::dim));
	return print(fmt::format("{}\n", fmt::join(lines, "\n"))) ? exit_ok : exit_failed;
}

} // namespace swift
