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

	const Terminal terminal = standard_output();
	const std::vector<DelaysRow> rows = delays_rows(*reading, *query);
	const auto lines = screen(delays_table(rows, *query), delays_notes(*reading, rows, *query), options.wide, terminal,
				  query->hist ? delays_histograms(rows, *query, terminal) : std::vector<std::string>());

	return print(fmt::format("{}\n", fmt::join(lines, "\n"))) ? exit_ok : exit_failed;
}

} // namespace swift
