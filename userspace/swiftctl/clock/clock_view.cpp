// SPDX-License-Identifier: MIT
// What `swiftctl clock` prints for people; the JSON is clock_json.cpp's.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "clock.h"
#include "text.h"

namespace swift {

namespace {

Cell stamping_cell(const ClockRow &row)
{
	if (!row.stamps)
		return {"-"};
	if (row.stamps->hw_rx_all_on)
		return {"all packets", Colour::green};
	if (!row.stamps->can_hw_rx_all)
		return {"cannot", Colour::yellow};
	return {row.stamps->now ? rx_filter_text(row.stamps->now->rx_filter) : "?", Colour::yellow};
}

Cell line_cell(const ClockRow &row)
{
	if (!row.line())
		return {"none", Colour::yellow};
	if (row.line()->valid_ms == 0)
		return {"stale", Colour::red};
	return {"valid", Colour::green};
}

std::string phc_text(int index)
{
	return index < 0 ? "-" : fmt::format("ptp{}", index);
}

} // namespace

std::int64_t wall_offset_ns(const ClockLine &line, const HostNow &now)
{
	// What the NIC's clock shows now, by the line backwards. Anything may come from outside.
	const double host_since = static_cast<double>(now.monotonic_ns) - static_cast<double>(line.host_ns);
	const double more = host_since * line.drift_ppm() / 1e6;
	const auto offset = static_cast<std::int64_t>(
		line.nic_ns - line.host_ns -
		static_cast<std::uint64_t>(now.realtime_ns - now.monotonic_ns));

	return offset + (std::abs(more) < 1e18 ? std::llround(more) : 0);
}

Table clock_table(const ClockSnapshot &s)
{
	Table table;

	table.columns = {{"DEVICE"},	     {"PHC", false, 2},	     {"STAMPS"},
			 {"LINE"},	     {"OFFSET", true, 1},    {"DRIFT ppm", true, 1},
			 {"ERROR", true},    {"AGE", true, 3},	     {"LEFT", true, 4},
			 {"FED BY", false, 2}, {"USED", true},	     {"STALE", true, 3},
			 {"FUTURE", true, 3}, {"OLD", true, 3}};
	for (const ClockRow &row : s.rows) {
		auto &cells = table.rows.emplace_back();

		cells = {{row.iface}, {phc_text(row.stamps ? row.stamps->phc_index : -1)}, stamping_cell(row),
			 line_cell(row)};
		if (!row.line()) {
			cells.resize(table.columns.size(), {"-"});
			continue;
		}

		const NicClock &c = *row.line();
		const auto age_ns = static_cast<std::int64_t>(
			static_cast<std::uint64_t>(s.now.monotonic_ns) - c.line.host_ns);

		cells.push_back({span_text(wall_offset_ns(c.line, s.now), true)});
		cells.push_back({fmt::format("{:+.3f}", c.line.drift_ppm())});
		cells.push_back({span_text(c.line.error_ns, false)});
		cells.push_back({span_text(age_ns, false)});
		cells.push_back({fmt::format("{} ms", c.valid_ms)});
		if (!row.clock) { // variants do not know who, and count for all NICs together
			cells.resize(table.columns.size(), {"-"});
			continue;
		}
		cells.push_back(c.owner ? Cell{row.owner} : Cell{"gone", Colour::red});
		for (const std::uint64_t n : {c.used, c.stale, c.future, c.old})
			cells.push_back({std::to_string(n)});
	}
	return table;
}

std::vector<std::string> clock_notes(const ClockSnapshot &s)
{
	std::vector<std::string> notes;
	const bool fed = std::any_of(s.rows.begin(), s.rows.end(), [](const ClockRow &r) {
		return r.line() && r.line()->valid_ms > 0;
	});
	const bool able = std::any_of(s.rows.begin(), s.rows.end(), [](const ClockRow &r) {
		return r.stamps && r.stamps->can_hw_rx_all && r.stamps->phc_index >= 0;
	});

	for (const ClockRow &r : s.rows)
		for (const BpfClock &c : r.bpf)
			notes.push_back(fmt::format("{} has {}line of {}; swiftctl bpf list counts its stamps",
						    c.variant, c.clock.valid_ms ? "a " : "a stale ", r.iface));
	if (!fed)
		notes.emplace_back(able ? "no clock is fed: swiftctl clock run (as root) does it" :
					  "no clock is fed, and no NIC here can stamp all packets in hardware");
	return notes;
}

Table measurement_table(const std::vector<ClockMeasurement> &all, const HostNow &now)
{
	Table table;

	table.columns = {{"DEVICE"},	      {"PHC"},		  {"READINGS"},	   {"OFFSET", true},
			 {"DRIFT ppm", true}, {"WINDOW", true}, {"ERROR", true}};
	for (const ClockMeasurement &m : all) {
		auto &cells = table.rows.emplace_back();

		cells = {{m.iface}, {phc_text(m.phc_index)}};
		if (!m.line) {
			cells.resize(table.columns.size(), {"-"});
			continue;
		}
		cells.push_back({fmt::format("{} {}", m.readings, m.method)});
		cells.push_back({span_text(wall_offset_ns(*m.line, now), true)});
		cells.push_back({fmt::format("{:+.3f}", m.line->drift_ppm())});
		cells.push_back({span_text(m.window_ns, false)});
		cells.push_back({span_text(m.line->error_ns, false)});
	}
	return table;
}

std::string plan_text(const ClockPlan &p, std::uint32_t interval_ms)
{
	if (!p.fit)
		return fmt::format("{}: not fed: {}", p.iface, p.why_not);

	const std::string wanted = stamping_text(p.wanted);
	const std::string change = p.now == p.wanted ? "stamping stays " + wanted :
						       fmt::format("stamping {} -> {}",
								   p.now ? stamping_text(*p.now) : "unknown",
								   wanted);

	return fmt::format("{}: {}; feed /dev/ptp{} every {} ms", p.iface, change, p.phc_index,
			   interval_ms);
}

} // namespace swift
