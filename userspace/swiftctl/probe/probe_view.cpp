// SPDX-License-Identifier: MIT
// What `swiftctl probe` shows: the table, the lines below it, JSON. Pure: no output, no
// clock.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "json.h"
#include "probe.h"

namespace swift {

namespace {

constexpr std::array<unsigned, 2> two = {500, 990};
constexpr std::array<unsigned, 4> four = {500, 900, 990, 999};

std::string us_text(std::int64_t ns)
{
	if (ns < 0 && ns > -5) // within the error of the clocks, and no "-0.00"
		ns = 0;
	return fmt::format("{:.2f}", static_cast<double>(ns) / 1000.0);
}

Cell cell_of(bool there, std::string text, Colour colour = Colour::none)
{
	return there ? Cell{std::move(text), colour} : Cell{no_value, Colour::dim};
}

Cell p50_p99(const Samples &s)
{
	const auto q = s.quantiles_ns(two);

	return cell_of(s.count() > 0, fmt::format("{}/{}", us_text(q[0]), us_text(q[1])));
}

std::string stamps_text(const StampClass &c)
{
	return fmt::format("{}/{}", stamp_text(c.local), stamp_text(c.remote));
}

Json json_of(const Samples &s)
{
	Json j;

	j["n"] = s.count();
	if (s.count()) {
		const auto q = s.quantiles_ns(four);

		j["min"] = s.min_ns();
		j["p50"] = q[0];
		j["p90"] = q[1];
		j["p99"] = q[2];
		j["p999"] = q[3];
		j["max"] = s.max_ns();
	}
	return j;
}

Json target_json(const TargetReport &t)
{
	const ProbeStats &s = t.stats;
	const StampClass *best = s.best();
	const StampClass none;
	const StampClass &c = best ? *best : none;
	std::uint64_t others = 0;
	Json j;

	for (const StampClass &other : s.classes)
		others += &other == best ? 0 : other.fabric.count();
	j["target"] = t.name;
	j["addr"] = t.address.endpoint.address.text();
	j["port"] = t.address.endpoint.port;
	j["sent"] = s.sent;
	j["lost"] = s.lost;
	j["in_flight"] = t.in_flight;
	j["late"] = s.late;
	j["duplicates"] = s.duplicates;
	j["send_failed"] = s.send_failed;
	j["unstamped"] = s.unstamped;
	j["implausible"] = s.implausible;
	j["other_stamps"] = others;
	j["stamps"] = {{"local", stamp_text(c.local)},
		       {"remote", stamp_text(c.remote)},
		       {"tx", stamp_text(s.tx_stamp())},
		       {"rx", stamp_text(s.rx_stamp())}};
	j["fabric_rtt_ns"] = json_of(c.fabric);
	j["remote_turnaround_ns"] = json_of(c.turnaround);
	j["local_tx_ns"] = json_of(s.tx_total());
	j["local_tx_stack_ns"] = json_of(s.tx_stack);
	j["local_tx_qdisc_ns"] = json_of(s.tx_qdisc);
	j["local_tx_nic_ns"] = json_of(s.tx_nic);
	j["local_rx_ns"] = json_of(s.rx_total());
	j["local_rx_nic_ns"] = json_of(s.rx_nic);
	j["local_rx_stack_ns"] = json_of(s.rx_stack);
	if (!t.nic.empty())
		j["iface"] = t.nic;
	if (!t.failure.empty())
		j["error"] = t.failure;
	return j;
}

} // namespace

Table probe_table(const ProbeReport &report)
{
	Table table;

	table.columns = {{"target", false, 0},
			 {"sent", true, 8},
			 {"lost", true, 0},
			 {"fabric_us min", true, 1},
			 {"p50", true, 0},
			 {"p90", true, 7},
			 {"p99", true, 0},
			 {"p99.9", true, 2},
			 {"max", true, 3},
			 {"remote_us p50/p99", true, 4},
			 {"tx_us", true, 4},
			 {"qdisc_us", true, 6},
			 {"nic_us", true, 6},
			 {"rx_us", true, 5},
			 {"stamps", false, 1}};
	for (const TargetReport &t : report.targets) {
		const ProbeStats &s = t.stats;
		const StampClass *c = s.best();
		const StampClass none;
		const Samples &fabric = c ? c->fabric : none.fabric;
		const auto q = fabric.quantiles_ns(four);
		const auto rtt = [&](std::int64_t ns) { return cell_of(!!c, us_text(ns)); };
		const bool dead = s.sent > 0 && s.lost == s.sent;

		table.rows.push_back({{t.name, Colour::none},
				      {std::to_string(s.sent), Colour::none},
				      {std::to_string(s.lost), dead	 ? Colour::red :
							       s.lost > 0 ? Colour::yellow :
									    Colour::none},
				      rtt(fabric.min_ns()),
				      rtt(q[0]),
				      rtt(q[1]),
				      rtt(q[2]),
				      rtt(q[3]),
				      rtt(fabric.max_ns()),
				      p50_p99(c ? c->turnaround : none.turnaround),
				      p50_p99(s.tx_total()),
				      p50_p99(s.tx_qdisc),
				      p50_p99(s.tx_nic),
				      p50_p99(s.rx_total()),
				      cell_of(!!c, c ? stamps_text(*c) : "")});
	}
	return table;
}

std::vector<std::string> probe_notes(const ProbeReport &report)
{
	std::vector<std::string> notes;
	std::uint64_t others = 0;
	std::uint64_t implausible = 0;
	std::uint64_t unstamped = 0;
	std::uint64_t fewest = Samples::cap;
	bool software = false;
	bool over_cap = false;

	for (const TargetReport &t : report.targets) {
		const StampClass *best = t.stats.best();

		for (const StampClass &c : t.stats.classes)
			others += &c == best ? 0 : c.fabric.count();
		implausible += t.stats.implausible;
		unstamped += t.stats.unstamped;
		if (best) {
			software |= best->local == Stamp::software || best->remote == Stamp::software;
			fewest = std::min(fewest, best->fabric.count());
			over_cap |= best->fabric.count() > Samples::cap;
		}
	}
	if (software)
		notes.emplace_back("stamps are here/at the target: with sw, that host's driver and NIC count "
				   "as fabric");
	if (fewest < 1000)
		notes.push_back(fmt::format("p99{} of fewer than {} samples is the largest",
					    fewest < 100 ? " and p99.9" : ".9", fewest < 100 ? "100 and 1000" : "1000"));
	if (over_cap)
		notes.push_back(fmt::format("percentiles are of the newest {} exchanges", Samples::cap));
	if (others)
		notes.push_back(fmt::format("{} exchanges left out: stamped otherwise than most", others));
	if (unstamped)
		notes.push_back(fmt::format("{} exchanges left out: a stamp is missing", unstamped));
	if (implausible)
		notes.push_back(fmt::format("{} exchanges with times that cannot be: a clock was set",
					    implausible));
	for (const TargetReport &t : report.targets)
		if (!t.failure.empty())
			notes.push_back(fmt::format("{}: {}", t.name, t.failure));
	notes.insert(notes.end(), report.notes.begin(), report.notes.end());
	return notes;
}

std::string probe_json(const ProbeReport &report, const ProbePlan &plan, bool one_line)
{
	Json j;

	j["schema"] = 1;
	j["time_ns"] = report.time_ns;
	j["duration_ns"] = report.duration_ns;
	j["interval_ns"] = plan.interval_ns;
	j["timeout_ns"] = plan.timeout_ns;
	j["size_bytes"] = plan.size_bytes;
	j["dscp"] = plan.dscp;
	j["targets"] = json_list(report.targets, [&](const TargetReport &t) { return target_json(t); });
	j["notes"] = report.notes;
	return json_text(j, one_line);
}

void ProbeProgress::add(const ProbeStats &stats)
{
	const StampClass *c = stats.best();

	targets++;
	answering += stats.answered() > 0;
	sent += stats.sent;
	lost += stats.lost;
	if (c)
		max_ns = std::max(max_ns, c->fabric.max_ns());
}

std::string ProbeProgress::text(std::int64_t elapsed_ns) const
{
	return fmt::format("{:.0f} s: {} of {} targets answer, {} sent, {} lost, largest fabric RTT {} us",
			   static_cast<double>(elapsed_ns) / 1e9, answering, targets, sent, lost,
			   us_text(max_ns));
}

} // namespace swift
