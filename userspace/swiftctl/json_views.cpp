// SPDX-License-Identifier: MIT
// What every verb says with --json: schema 1, units in the keys, absent numbers left out.
#include <nlohmann/json.hpp>

#include "bpf.h"
#include "clock.h"
#include "delays.h"
#include "doctor.h"
#include "enable.h"
#include "flows.h"

namespace swift {

namespace {

using Json = nlohmann::ordered_json;

Json json_of(const Value &v)
{
	return v ? Json(*v) : Json(nullptr);
}

std::string text_of(const Json &j, bool one_line = false)
{
	return j.dump(one_line ? -1 : 2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json flow_json(const Flow &f)
{
	Json j;

	j["local_addr"] = f.local.address.text();
	j["local_port"] = f.local.port;
	j["remote_addr"] = f.remote.address.text();
	j["remote_port"] = f.remote.port;
	j["state"] = tcp_state_text(f.state);
	j["cc"] = f.cc;
	j["guarded"] = f.is_guarded();
	j["inode"] = f.inode;
	j["uid"] = f.uid;
	if (f.swift) {
		const SwiftRecord &r = *f.swift;

		j["fcwnd"] = r.fcwnd_pkts();
		j["ecwnd"] = r.ecwnd_pkts();
		j["window"] = r.window_pkts();
		j["limit"] = limit_text(r.limit());
		j["fabric_ns"] = r.fabric_ns;
		j["endpoint_ns"] = r.endpoint_ns;
		j["target_ns"] = r.target_ns;
		j["local_stamp"] = stamp_text(r.local_stamp);
		j["echo_stamp"] = stamp_text(r.echo_stamp);
	}
	if (f.tcp) {
		const TcpCounters &c = *f.tcp;

		j["snd_cwnd"] = c.snd_cwnd_pkts;
		j["snd_mss_bytes"] = c.snd_mss_bytes;
		j["srtt_us"] = c.srtt_us;
		j["rttvar_us"] = c.rttvar_us;
		if (c.has_min_rtt())
			j["min_rtt_us"] = c.min_rtt_us;
		j["delivery_rate_bytes_per_s"] = c.delivery_rate_Bps;
		j["pacing_rate_bytes_per_s"] = c.pacing_rate_Bps;
		j["bytes_acked"] = c.bytes_acked;
		j["retrans"] = c.retrans_total;
	}
	return j;
}

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

Json program_json(const BpfProgramStatus &p)
{
	return {{"name", p.name},	{"id", p.id},	    {"insns", p.xlated_insns},
		{"verified_insns", p.verified_insns},	    {"runs", p.runs},
		{"run_ns", p.run_ns},	{"misses", p.misses}};
}

} // namespace

std::string flows_json(const FlowSnapshot &s, bool one_line)
{
	Json j;

	j["schema"] = 1;
	j["time_ns"] = s.time_ns;
	j["module_loaded"] = s.module_loaded;
	j["swift_flows"] = s.swift_count;
	j["other_law_flows"] = s.other_count;
	j["guarded_flows"] = s.guarded_count;
	j["interrupted"] = s.interrupted;
	j["bad_records"] = s.bad_records;
	j["malformed"] = s.malformed;
	j["flows"] = Json::array();
	for (const Flow &f : s.flows)
		j["flows"].push_back(flow_json(f));
	return text_of(j, one_line);
}

std::string outcome_json(const Outcome &outcome, bool dry_run)
{
	Json j;

	j["schema"] = 1;
	j["ok"] = !outcome.error;
	j["dry_run"] = dry_run;
	j["changes"] = Json::array();
	for (const Event &e : outcome.events)
		j["changes"].push_back({{"kind", kind_name(e.item.kind)},
					{"key", e.item.key},
					{"before", json_of(e.before)},
					{"after", json_of(e.after)},
					{"result", e.what}});
	if (dry_run)
		j["commands"] = outcome.dry_lines;
	j["notes"] = outcome.notes;
	j["rolled_back"] = outcome.rolled_back;
	j["error"] = outcome.error ? Json(outcome.error->text()) : Json(nullptr);
	return text_of(j);
}

std::string doctor_json(const std::vector<Finding> &findings)
{
	Json j;

	j["schema"] = 1;
	j["findings"] = Json::array();
	for (const Finding &f : findings)
		j["findings"].push_back({{"severity", severity_name(f.severity)},
					 {"check", f.check},
					 {"seen", f.seen},
					 {"why", f.why},
					 {"fix", f.fix}});
	for (const Severity s : {Severity::ok, Severity::warn, Severity::fail})
		j["summary"][std::string(severity_name(s))] = count(findings, s);
	return text_of(j);
}

std::string clocks_json(const ClockSnapshot &s, bool one_line)
{
	Json j;

	j["schema"] = 1;
	j["time_ns"] = s.now.realtime_ns;
	j["monotonic_ns"] = s.now.monotonic_ns;
	j["error"] = s.error ? Json(s.error->text()) : Json(nullptr);
	j["nics"] = Json::array();
	for (const ClockRow &row : s.rows) {
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
		n["bpf_variants"] = Json::array();
		for (const BpfClock &c : row.bpf) {
			Json l;

			put_line(l, c.clock.line, s.now);
			l["variant"] = c.variant;
			l["age_ns"] = static_cast<std::int64_t>(
				static_cast<std::uint64_t>(s.now.monotonic_ns) - c.clock.line.host_ns);
			l["valid_ms"] = c.clock.valid_ms;
			n["bpf_variants"].push_back(std::move(l));
		}
		j["nics"].push_back(std::move(n));
	}
	return text_of(j, one_line);
}

std::string measurements_json(const std::vector<ClockMeasurement> &all, const HostNow &now)
{
	Json j;

	j["schema"] = 1;
	j["time_ns"] = now.realtime_ns;
	j["nics"] = Json::array();
	for (const ClockMeasurement &m : all) {
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
		j["nics"].push_back(std::move(n));
	}
	return text_of(j);
}

std::string feed_event_json(const FeedEvent &e, std::int64_t time_ns)
{
	return text_of(Json{{"schema", 1},
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
	j["nics"] = Json::array();
	for (const ClockPlan &p : plans) {
		Json n = {{"iface", p.iface}, {"fit", p.fit}, {"phc_index", p.phc_index}};

		n["now"] = json_of(p.now);
		n["wanted"] = p.fit ? json_of(std::optional(p.wanted)) : Json(nullptr);
		n["why_not"] = p.fit ? Json(nullptr) : Json(p.why_not);
		j["nics"].push_back(std::move(n));
	}
	return text_of(j);
}

std::string bpf_report_json(const BpfReport &r, const std::string &name, bool dry_run)
{
	Json j;

	j["schema"] = 1;
	j["ok"] = !r.error;
	j["dry_run"] = dry_run;
	j["name"] = name;
	if (!r.registration.empty())
		j["registration"] = r.registration;
	j["steps"] = r.steps;
	j["notes"] = r.notes;
	j["error"] = r.error ? Json(r.error->text()) : Json(nullptr);
	if (!r.verifier_log.empty())
		j["verifier_log"] = r.verifier_log;
	return text_of(j);
}

std::string bpf_list_json(const BpfListing &l)
{
	static constexpr std::array states = {"unused", "in_use", "leaving", "ready"};
	Json j;

	j["schema"] = 1;
	j["kernel"] = {{"btf", l.abilities.btf},
		       {"struct_ops", l.abilities.struct_ops},
		       {"struct_ops_links", l.abilities.ops_links},
		       {"bpffs", l.abilities.bpffs}};
	j["loaded"] = Json::array();
	for (const BpfStatus &s : l.loaded) {
		Json v = {{"name", s.name}, {"law", s.law}, {"registration", s.registration},
			  {"default", s.is_default}, {"left_by_killed_loader", s.leftover},
			  {"flows", s.flows}, {"profiles", s.profiles}, {"cgroups", s.cgroups}};

		if (s.since_ns)
			v["loaded_time_ns"] = s.since_ns;
		if (s.ops)
			v["struct_ops"] = {{"map_id", s.ops->id},
					   {"state", states[static_cast<std::size_t>(s.ops->state)]},
					   {"references", s.ops->references}};
		v["stamps"] = s.stamps.empty() ? Json(nullptr) : Json::object();
		for (const auto &[counter, n] : s.stamps)
			v["stamps"][std::string(counter)] = n;
		v["programs"] = Json::array();
		for (const BpfProgramStatus &p : s.programs)
			v["programs"].push_back(program_json(p));
		j["loaded"].push_back(std::move(v));
	}
	j["loadable"] = l.loadable;
	j["telemetry"] = nullptr;
	if (l.telemetry) {
		const TelemetryStatus &t = *l.telemetry;
		Json v = {{"left_by_killed_loader", t.leftover}, {"module_watched", t.module_attached},
			  {"watched", t.watched}, {"max_flows", t.max_flows}, {"max_prefixes", t.max_prefixes}};

		v["tx_one_in"] = t.tx_one_in ? Json(t.tx_one_in) : Json(nullptr);
		v["tx_nic_watched"] = t.tx_nic_attached;
		if (t.since_ns)
			v["loaded_time_ns"] = t.since_ns;
		v["programs"] = Json::array();
		for (const BpfProgramStatus &p : t.programs)
			v["programs"].push_back(program_json(p));
		j["telemetry"] = std::move(v);
	}
	return text_of(j);
}

std::string bpf_settings_json(const BpfSettings &s, const std::string &name)
{
	const auto number = [](const BpfTunable &t, std::uint32_t value) {
		return t.name == "target_policy" ? Json(t.text(value)) : Json(t.number(value));
	};
	const BpfValues defaults = s.law->defaults(name);
	Json j;

	j["schema"] = 1;
	j["name"] = name;
	j["law"] = s.law->name;
	j["differs"] = s.differs;
	j["tunables"] = Json::array();
	for (std::size_t i = 0; i < s.values.size(); i++) {
		const BpfTunable &t = s.law->tunables[i];

		j["tunables"].push_back({{"name", t.name},
					 {"value", number(t, s.values[i])},
					 {"default", number(t, defaults[i])},
					 {"min", t.min},
					 {"max", t.max},
					 {"meaning", t.meaning}});
	}
	j["profiles"] = Json::array();
	for (const auto &[prefix, values] : s.profiles) {
		Json p = {{"prefix", prefix.text()}, {"values", Json::object()}};

		for (std::size_t i = 0; i < values.size(); i++)
			p["values"][std::string(s.law->tunables[i].name)] = number(s.law->tunables[i], values[i]);
		j["profiles"].push_back(std::move(p));
	}
	return text_of(j);
}

namespace {

Json histogram_json(const LogHistogram &h)
{
	Json j = {{"count", h.count()}, {"sum", h.sum()}};

	if (h.empty())
		return j;
	j["mean"] = h.mean();
	j["p50"] = h.quantile(0.5);
	j["p90"] = h.quantile(0.9);
	j["p99"] = h.quantile(0.99);
	j["p999"] = h.quantile(0.999);
	j["buckets"] = Json::array();
	for (std::size_t i = 0; i < LogHistogram::bucket_count; i++)
		if (h.buckets()[i] > 0)
			j["buckets"].push_back({{"from", LogHistogram::lower(i)},
						{"below", LogHistogram::upper(i)},
						{"count", h.buckets()[i]}});
	return j;
}

void put_counts(Json &j, const TelemetryCounts &c)
{
	j["samples"] = c.samples();
	for (std::size_t i = 0; i < decision_count; i++)
		j["decisions"][std::string(decision_name(static_cast<Decision>(i)))] = c.decisions[i];
	j["lost_pkts"] = c.losses;
	for (std::size_t i = 0; i < telemetered_count; i++)
		j[std::string(telemetered_name(static_cast<Telemetered>(i)))] = histogram_json(c.histograms[i]);
}

} // namespace

std::string delays_json(const TelemetryReading &r, const DelaysQuery &query)
{
	Json j;

	j["schema"] = 1;
	j["monotonic_ns"] = r.time_ns;
	j["interval_s"] = query.interval_s > 0 ? Json(query.interval_s) : Json(nullptr);
	j["module_watched"] = r.module_attached;
	j["tx_one_in"] = r.tx_one_in ? Json(r.tx_one_in) : Json(nullptr);
	j["tx_nic_watched"] = r.tx_nic_attached;
	j["samples"] = r.samples;
	j["missed"] = r.missed;
	j["flows_evicted"] = r.flows_evicted;
	j["samples_without_flow"] = r.without_flow;
	j["samples_in_other_prefix"] = r.in_other;
	j["samples_without_prefix"] = r.without_prefix;
	j["max_flows"] = r.max_flows;
	j["max_prefixes"] = r.max_prefixes;
	j["relative_error"] = 0.125;
	j["prefixes"] = Json::array();
	for (const TelemetryPrefix &p : r.prefixes) {
		Json e = {{"dst_prefix", prefix_text(p.prefix)}, {"cc", p.cc}};

		e["netns"] = p.prefix ? Json(p.netns) : Json(nullptr);
		if (!query.wants(p.prefix))
			continue;
		put_counts(e, p.counts);
		j["prefixes"].push_back(std::move(e));
	}
	j["flows"] = Json::array();
	for (const TelemetryFlow &f : r.flows) {
		Json e = {{"local_addr", f.local.address.text()},
			  {"local_port", f.local.port},
			  {"remote_addr", f.remote.address.text()},
			  {"remote_port", f.remote.port},
			  {"cc", f.cc},
			  {"dst_prefix", prefix_text(f.prefix)},
			  {"netns", f.netns},
			  {"first_ns", f.first_ns},
			  {"last_ns", f.last_ns}};

		if (!query.wants(f.remote.address))
			continue;
		if (f.cookie)
			e["cookie"] = f.cookie;
		put_counts(e, f.counts);
		j["flows"].push_back(std::move(e));
	}
	return text_of(j);
}

} // namespace swift
