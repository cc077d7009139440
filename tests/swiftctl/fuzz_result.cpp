// SPDX-License-Identifier: MIT
// libFuzzer: any bytes as what iperf3 wrote, as a client that asks wrote and sends, as a result, as another host's flows, as a
// fleet's plan, its inventory, and Prometheus' answers; what was understood has to hold together, and has to come
// out as harmless text.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "ab_json.h"
#include "ab_rr.h"
#include "ab_samples.h"
#include "fleet_plan.h"
#include "iperf_run.h"
#include "prometheus.h"
#include "report.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
	const std::string_view text(reinterpret_cast<const char *>(data), size);

	if (const auto run = swift::parse_iperf(text)) {
		if (run->streams.empty() || run->streams.size() > size || !std::isfinite(run->goodput_bps) ||
		    run->goodput_bps < 0 || !(run->loss_ratio() >= 0 && run->loss_ratio() <= 1))
			std::abort();
		for (const double rtt_ns : run->rtt_ns())
			if (!(rtt_ns > 0))
				std::abort();
	} else if (run.error().text().find('\0') == 0) {
		std::abort();
	}
	if (const auto answers = swift::parse_rr(text)) {
		const auto p99 = swift::rr_quantile({*answers}, 0.99);

		if (p99 && !(*p99 >= answers->times_ns.front() && *p99 <= answers->times_ns.back()))
			std::abort();
	}
	if (const auto head = swift::parse_rr_head(text.substr(0, swift::rr_head_bytes)))
		if (head->ask_bytes < 1 || head->answer_bytes > swift::rr_most_bytes || head->cc.empty())
			std::abort();
	if (const auto report = swift::read_report("x", text))
		for (const auto &section : report->sections)
			for (const auto &row : section.rows)
				if (row.figures.size() != swift::report_columns().size())
					std::abort();

	if (const auto plan = swift::read_fleet_plan("x", text)) {
		// It comes back as what it was, and has an arm for each rack and period.
		const auto json = swift::fleet_plan_json(*plan);

		if (!swift::read_fleet_plan("x", swift::json_text(json)) || swift::fleet_plan_text(*plan).empty() ||
		    swift::fleet_inventory(*plan).empty())
			std::abort();
	}
	if (const auto racks = swift::read_fleet_racks("x", text, "g", "rack"))
		for (const auto &rack : *racks)
			if (rack.name.empty() || rack.hosts.empty())
				std::abort();
	if (const auto json = swift::parse_json(text))
		if (const auto series = swift::parse_matrix(*json))
			for (const auto &s : *series)
				for (const auto &[time, value] : s.values)
					if (!std::isfinite(time) || !std::isfinite(value))
						std::abort();
	(void)swift::dump_source("x", text);

	swift::AbSamples samples({5201});
	swift::AbSamples::Values values;

	if (samples.add_json_lines(text))
		samples.collect({{5201, 5201}}, 0, values);
	return 0;
}
