// SPDX-License-Identifier: MIT
// The rows, columns and pictures of `swiftctl delays`. Pure: no output, no clock.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "delays.h"
#include "flows.h"
#include "text.h"

namespace swift {

namespace {

constexpr double q16 = 65536.0;
constexpr std::size_t hist_width = 40;

std::string us(double ns)
{
	const double v = ns / 1000;

	return fmt::format("{:.{}f}", v, v < 99.95 ? 1 : 0);
}

// "12.3/40.1/95.0"
Cell three(const LogHistogram &h)
{
	if (h.empty())
		return {"-", Colour::dim};
	return {fmt::format("{}/{}/{}", us(h.quantile(0.5)), us(h.quantile(0.9)), us(h.quantile(0.99)))};
}

// Above its target at the median, a fabric is congested.
Cell fabric_cell(const TelemetryCounts &c)
{
	Cell cell = three(c.of(Telemetered::fabric));
	const LogHistogram &target = c.of(Telemetered::target);

	if (!target.empty() && c.of(Telemetered::fabric).quantile(0.5) > target.quantile(0.5))
		cell.colour = Colour::red;
	return cell;
}

Cell window_cell(const LogHistogram &h)
{
	return h.empty() ? Cell{"-", Colour::dim} : Cell{window_text(h.quantile(0.5) / q16)};
}

// Decreases for the fabric, and for the hosts, of all decisions.
Cell cuts_cell(const TelemetryCounts &c)
{
	const std::uint64_t all = c.samples();
	const std::uint64_t both = c.of(Decision::decrease_both);
	const auto percent = [&](Decision d) {
		return fmt::format("{:.1f}", 100.0 * static_cast<double>(c.of(d) + both) / static_cast<double>(all));
	};

	if (all == 0)
		return {"-", Colour::dim};
	return {percent(Decision::decrease_fabric) + "/" + percent(Decision::decrease_endpoint)};
}

Cell losses_cell(std::uint64_t losses)
{
	return {std::to_string(losses), losses > 0 ? Colour::yellow : Colour::none};
}

std::string netns_text(std::uint32_t netns)
{
	return netns ? std::to_string(netns) : "all";
}

// Bars for each power of two that something is in, and those between.
void picture(const LogHistogram &h, std::string_view title, Colour colour, const Terminal &terminal,
	     std::vector<std::string> &lines)
{
	struct Bar {
		std::uint64_t from;
		std::uint64_t to;
		std::uint64_t count;
	};
	std::vector<Bar> bars;
	const double all = static_cast<double>(h.count());

	if (h.empty())
		return;
	for (std::size_t i = 0; i < LogHistogram::bucket_count;) {
		const std::uint64_t from = LogHistogram::lower(i);
		const std::size_t last = std::min(i < 4 ? std::size_t{4} : i + 4, LogHistogram::bucket_count);
		std::uint64_t count = 0;

		for (; i < last; i++)
			count += h.buckets()[i];
		if (count > 0 || !bars.empty())
			bars.push_back({from, LogHistogram::lower(i), count});
	}
	while (bars.back().count == 0)
		bars.pop_back();

	std::uint64_t most = 0;

	for (const Bar &b : bars)
		most = std::max(most, b.count);
	lines.push_back(fmt::format("  {}: mean {} us of {}", title, us(h.mean()), h.count()));
	for (const Bar &b : bars) {
		const auto part = static_cast<double>(b.count) / static_cast<double>(most);
		auto width = static_cast<std::size_t>(std::lround(part * hist_width));

		if (width == 0 && b.count > 0)
			width = 1;
		lines.push_back(fmt::format("  {:>8} .. {:<8} us |{}{}| {:5.1f} %", us(static_cast<double>(b.from)),
					    us(static_cast<double>(b.to)),
					    terminal.paint(std::string(width, '#'), colour),
					    std::string(hist_width - width, ' '),
					    100.0 * static_cast<double>(b.count) / all));
	}
}

} // namespace

std::string prefix_text(const std::optional<Prefix> &prefix)
{
	return prefix ? fmt::format("{}/{}", prefix->address.text(), prefix->length) : "other";
}

Result<DelaysQuery> DelaysQuery::from(const DelaysOptions &o)
{
	DelaysQuery q;

	if (o.by != "prefix" && o.by != "flow")
		return Error{"--by", o.by, "prefix, flow"};
	q.by_flow = o.by == "flow";
	q.hist = o.hist;
	q.all_netns = o.all_netns;
	if (o.all_netns && !o.netns.empty())
		return Error{"--netns NAME or --all-netns, not both"};
	if (o.hist && o.json)
		return Error{"--hist is for people: --json has all buckets anyway"};
	ASSIGN_OR_RETURN(q.dst, parse_prefixes("--dst", o.dst));
	RETURN_IF_ERROR(take_decimal(q.interval_s, "--interval", o.interval, 0.1, 3600));
	return q;
}

bool DelaysQuery::wants(const Address &remote) const
{
	return any_contains(dst, remote);
}

bool DelaysQuery::wants(const std::optional<Prefix> &prefix) const
{
	if (dst.empty() || !prefix)
		return dst.empty();
	return std::any_of(dst.begin(), dst.end(), [&](const Prefix &p) {
		return p.length <= prefix->length && p.contains(prefix->address);
	});
}

std::vector<DelaysRow> delays_rows(const TelemetryReading &reading, const DelaysQuery &query)
{
	std::vector<DelaysRow> rows;

	if (query.by_flow) {
		for (const TelemetryFlow &f : reading.flows)
			if (query.wants(f.remote.address))
				rows.push_back({f.local.text() + " > " + f.remote.text(), f.cc, f.counts, f.netns});
	} else {
		for (const TelemetryPrefix &p : reading.prefixes)
			if (query.wants(p.prefix))
				rows.push_back({prefix_text(p.prefix), p.cc, p.counts, p.netns});
	}
	std::stable_sort(rows.begin(), rows.end(), [](const DelaysRow &a, const DelaysRow &b) {
		return a.counts.samples() > b.counts.samples();
	});
	return rows;
}

Table delays_table(const std::vector<DelaysRow> &rows, const DelaysQuery &query)
{
	Table table;

	table.columns = {{query.by_flow ? "flow" : "prefix"}, {"cc"}, {"samples", true}, {"fabric_us", true},
			 {"remote_us", true, 2}, {"local_us", true, 2}, {"tx_us", true, 3}, {"nic_us", true, 3},
			 {"target_us", true, 4}, {"rtt_us", true, 5}, {"window", true, 1},
			 {"cuts_%", true, 6}, {"lost", true, 1}};
	for (const DelaysRow &r : rows) {
		const TelemetryCounts &c = r.counts;

		table.rows.push_back({{r.name},
				      {r.cc},
				      {si_text(c.samples())},
				      fabric_cell(c),
				      three(c.of(Telemetered::remote)),
				      three(c.of(Telemetered::local)),
				      three(c.of(Telemetered::tx_host)),
				      three(c.of(Telemetered::tx_nic)),
				      three(c.of(Telemetered::target)),
				      three(c.of(Telemetered::rtt)),
				      window_cell(c.of(Telemetered::window)),
				      cuts_cell(c),
				      losses_cell(c.losses)});
	}
	if (query.all_netns) {
		table.columns.insert(table.columns.begin() + 1, TableColumn{"netns", true});
		for (std::size_t i = 0; i < rows.size(); i++)
			table.rows[i].insert(table.rows[i].begin() + 1, Cell{netns_text(rows[i].netns)});
	}
	return table;
}

std::vector<std::string> delays_histograms(const std::vector<DelaysRow> &rows, const DelaysQuery &query,
					   const Terminal &terminal)
{
	struct Part {
		Telemetered what;
		std::string_view title;
		Colour colour;
	};
	static constexpr std::array parts = {Part{Telemetered::fabric, "fabric", Colour::green},
					     Part{Telemetered::remote, "remote host", Colour::magenta},
					     Part{Telemetered::local, "local host", Colour::magenta},
					     Part{Telemetered::tx_host, "tx: TCP to driver", Colour::yellow},
					     Part{Telemetered::tx_nic, "nic: driver to its release", Colour::yellow}};
	std::vector<std::string> lines;

	for (const DelaysRow &r : rows) {
		lines.emplace_back();
		lines.push_back(terminal.paint(r.name + (query.all_netns ? " netns " + netns_text(r.netns) : "") + " " +
						       r.cc, Colour::bold));
		for (const Part &p : parts)
			picture(r.counts.of(p.what), p.title, p.colour, terminal, lines);
		// What has no parts has an RTT.
		if (r.counts.of(Telemetered::fabric).empty())
			picture(r.counts.of(Telemetered::rtt), "rtt", Colour::green, terminal, lines);
	}
	return lines;
}

std::vector<std::string> delays_notes(const TelemetryReading &reading, const std::vector<DelaysRow> &rows,
				      const DelaysQuery &query)
{
	std::vector<std::string> notes;

	if (rows.empty() && !query.by_flow && !reading.prefixes.empty())
		notes.push_back(fmt::format("none of {} prefixes is within --dst (a host within a prefix: --by flow)",
					    reading.prefixes.size()));
	else if (rows.empty())
		notes.emplace_back(query.all_netns ? "no decisions counted" :
						     "no decisions counted in this network namespace (all: --all-netns)");
	if (!reading.module_attached)
		notes.emplace_back("the module is not watched: `swiftctl bpf load telemetry`, once it is loaded");
	if (reading.tx_one_in > 0 && !reading.tx_nic_attached)
		notes.emplace_back("nic is not measured: this kernel has no program at tcp_wfree(); `swiftctl bpf load "
				   "telemetry` said why");
	if (reading.flows_evicted > 0)
		notes.push_back(fmt::format("full map: {} flows made room for others (of {}; load it with --flows)",
					    reading.flows_evicted, reading.max_flows));
	if (reading.without_flow > 0)
		notes.push_back(fmt::format("{} samples are missing by flow: no memory", reading.without_flow));
	if (reading.in_other > 0)
		notes.push_back(fmt::format("full map: {} samples are under the prefix \"other\" (of {}; load it with "
					    "--prefixes)",
					    reading.in_other, reading.max_prefixes));
	if (reading.without_prefix > 0)
		notes.push_back(fmt::format("{} samples are missing by prefix: full map", reading.without_prefix));
	if (reading.missed > 0)
		notes.push_back(fmt::format("{} decisions were missed: taken while another was counted", reading.missed));
	return notes;
}

} // namespace swift
