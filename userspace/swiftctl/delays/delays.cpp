// SPDX-License-Identifier: MIT
// `swiftctl delays`: reads once, or twice with a pause between, and prints.
#include "delays.h"

#include <optional>

#include "netns.h"
#include "say.h"
#include "watch.h"

namespace swift {

Result<int> run_delays(const DelaysOptions &options)
{
	ASSIGN_OR_RETURN(auto query, as_usage(DelaysQuery::from(options)));

	RETURN_IF_ERROR(take_netns(options.netns));

	const auto netns = query.all_netns ? std::nullopt : std::optional(this_netns_inode());
	const auto host = real_bpf_host();

	if (netns == 0U)
		return Error{"cannot tell which network namespace this is (/proc/thread-self/ns/net): --all-netns "
			     "needs not"};
	ASSIGN_OR_RETURN(auto telemetry, Telemetry::open(*host));
	const auto wanted = [&](const TelemetryFlow &f) { return query.wants(f.remote.address); };
	ASSIGN_OR_RETURN(auto reading, telemetry.read(netns, wanted));
	std::optional<StopSignals> stop; // until all is said

	if (query.interval_s > 0) {
		const TelemetryReading before = reading;

		// Stopped early it tells of the time until then.
		stop.emplace();
		(void)stop->sleep(query.interval_s);
		ASSIGN_OR_RETURN(reading, telemetry.read(netns, wanted));
		reading = reading.since(before);
	}
	if (options.json)
		return leave(delays_json(reading, query));

	const Terminal terminal = standard_output();
	const std::vector<DelaysRow> rows = delays_rows(reading, query);

	return leave(screen(delays_table(rows, query), delays_notes(reading, rows, query), options.wide, terminal,
			    query.hist ? delays_histograms(rows, query, terminal) : std::vector<std::string>()));
}

} // namespace swift
