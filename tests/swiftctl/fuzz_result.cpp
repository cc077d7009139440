// SPDX-License-Identifier: MIT
// libFuzzer: any bytes, by the first one of them, as what iperf3 wrote, as a client that asks wrote and sends, as a result, as
// another host's flows, as a fleet's plan, its inventory, or Prometheus' answers; what was understood has to hold together,
// and has to come out as harmless text.
#include <array>
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

namespace {

void demand(bool what)
{
	if (!what)
		std::abort();
}

void iperf(std::string_view text)
{
	const auto run = swift::parse_iperf(text);

	if (!run) {
		demand(run.error().text().find('\0') != 0);
		return;
	}
	demand(!run->streams.empty() && run->streams.size() <= text.size() && std::isfinite(run->goodput_bps) && run->goodput_bps >= 0 &&
	       run->loss_ratio() >= 0 && run->loss_ratio() <= 1);
	for (const double rtt_ns : run->rtt_ns())
		demand(rtt_ns > 0);
}

void rr(std::string_view text)
{
	if (const auto answers = swift::parse_rr(text)) {
		const auto p99 = swift::rr_quantile({*answers}, 0.99);

		demand(!p99 || (*p99 >= answers->times_ns.front() && *p99 <= answers->times_ns.back()));
	}
}

void rr_head(std::string_view text)
{
	if (const auto head = swift::parse_rr_head(text.substr(0, swift::rr_head_bytes)))
		demand(head->ask_bytes >= 1 && head->answer_bytes <= swift::rr_most_bytes && !head->cc.empty());
}

void report(std::string_view text)
{
	if (const auto read = swift::read_report("x", text))
		for (const auto &section : read->sections)
			for (const auto &row : section.rows)
				demand(row.figures.size() == swift::report_columns().size());
}

// It comes back as what it was, and has an arm for each rack and period.
void plan(std::string_view text)
{
	if (const auto read = swift::read_fleet_plan("x", text)) {
		const auto json = swift::fleet_plan_json(*read);

		demand(swift::read_fleet_plan("x", swift::json_text(json)) && !swift::fleet_plan_text(*read).empty() &&
		       !swift::fleet_inventory(*read).empty());
	}
}

void inventory(std::string_view text)
{
	if (const auto racks = swift::read_fleet_racks("x", text, "g", "rack"))
		for (const auto &rack : *racks)
			demand(!rack.name.empty() && !rack.hosts.empty());
}

void matrix(std::string_view text)
{
	if (const auto json = swift::parse_json(text))
		if (const auto series = swift::parse_matrix(*json))
			for (const auto &s : *series)
				for (const auto &[time, value] : s.values)
					demand(std::isfinite(time) && std::isfinite(value));
}

void dump(std::string_view text)
{
	(void)swift::dump_source("x", text);
}

void flows(std::string_view text)
{
	swift::AbSamples samples({5201});
	swift::AbSamples::Values values;

	if (samples.add_json_lines(text))
		samples.collect({{5201, 5201}}, 0, values);
}

constexpr std::array formats = {iperf, rr, rr_head, report, plan, inventory, matrix, dump, flows};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
	if (size > 0)
		formats[data[0] % formats.size()]({reinterpret_cast<const char *>(data + 1), size - 1});
	return 0;
}
