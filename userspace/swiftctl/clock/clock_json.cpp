// SPDX-License-Identifier: MIT
// What `swiftctl clock --json` says, action by action.
#include "clock.h"
#include "json.h"

namespace swift {

namespace {

Json json_of(const std::optional<Stamping> &s)
{
	return s ? Json({{"rx_filter", rx_filter_text(s->rx_filter)}, {"tx_type", tx_type_text(s->tx_type)}}) :
		   Json(nullptr);
}

void put_line(Json &j, const ClockLine &line, const HostNow &now)
{
	j["nic_ns"] = line.nic_ns;
	j["host_ns"] = line.host_ns;
	j["ratio_q32"] = line.ratio_q32;
	j["offset_realtime_ns"] = wall_offset_ns(line, now);
	j["offset_monotonic_ns"] = static_cast<std::int64_t>(line.nic_ns - line.host_ns);
	j["drift_ppm"] = line.drift_ppm();
	j["error_ns"] = line.error_ns;
}

} // namespace

std::string clocks_json(const ClockSnapshot &s, bool one_line)
{
	Json j;

	j["schema"] = 1;
	j["time_ns"] = s.now.realtime_ns;
	j["monotonic_ns"] = s.now.monotonic_ns;
	j["error"] = s.error ? Json(s.error->text()) : Json(nullptr);
	j["nics"] = json_list(s.rows, [&](const ClockRow &row) {
		Json n;

		n["iface"] = row.iface;
		n["ifindex"] = row.ifindex;
		if (row.stamps) {
			n["phc_index"] = row.stamps->phc_index;
			n["can_stamp_all"] = row.stamps->can_hw_rx_all;
			n["stamps_all"] = row.stamps->hw_rx_all_on;
			n["stamping"] = json_of(row.stamps->now);
		}
		n["line"] = nullptr;
		if (row.clock) {
			const NicClock &c = *row.clock;
			Json l;

			put_line(l, c.line, s.now);
			l["age_ns"] = static_cast<std::int64_t>(
				static_cast<std::uint64_t>(s.now.monotonic_ns) - c.line.host_ns);
			l["valid_ms"] = c.valid_ms;
			l["owner_port"] = c.owner;
			l["owner"] = c.owner ? Json(row.owner) : Json(nullptr);
			n["line"] = l;
			n["stamps_used"] = c.used;
			n["stamps_stale"] = c.stale;
			n["stamps_future"] = c.future;
			n["stamps_old"] = c.old;
		}
		n["bpf_variants"] = json_list(row.bpf, [&](const BpfClock &c) {
			Json l;

			put_line(l, c.clock.line, s.now);
			l["variant"] = c.variant;
			l["age_ns"] = static_cast<std::int64_t>(
				static_cast<std::uint64_t>(s.now.monotonic_ns) - c.clock.line.host_ns);
			l["valid_ms"] = c.clock.valid_ms;
			return l;
		});
		return n;
	});
	return json_text(j, one_line);
}

std::string measurements_json(const std::vector<ClockMeasurement> &all, const HostNow &now)
{
	Json j;

	j["schema"] = 1;
	j["time_ns"] = now.realtime_ns;
	j["nics"] = json_list(all, [&](const ClockMeasurement &m) {
		Json n;

		n["iface"] = m.iface;
		n["phc_index"] = m.phc_index;
		n["error"] = m.error ? Json(m.error->text()) : Json(nullptr);
		if (m.line) {
			n["method"] = m.method;
			n["readings"] = m.readings;
			n["window_ns"] = m.window_ns;
			put_line(n, *m.line, now);
		}
		return n;
	});
	return json_text(j);
}

std::string feed_event_json(const FeedEvent &e, std::int64_t time_ns)
{
	return json_text(Json{{"schema", 1},
			    {"time_ns", time_ns},
			    {"iface", e.iface},
			    {"event", e.what},
			    {"trouble", e.trouble},
			    {"text", e.text}},
		       true);
}

std::string plans_json(const std::vector<ClockPlan> &plans, std::uint32_t interval_ms)
{
	Json j;

	j["schema"] = 1;
	j["interval_ms"] = interval_ms;
	j["nics"] = json_list(plans, [&](const ClockPlan &p) {
		Json n = {{"iface", p.iface}, {"fit", p.fit}, {"phc_index", p.phc_index}};

		n["now"] = json_of(p.now);
		n["wanted"] = p.fit ? json_of(std::optional(p.wanted)) : Json(nullptr);
		n["why_not"] = p.fit ? Json(nullptr) : Json(p.why_not);
		return n;
	});
	return json_text(j);
}

} // namespace swift
