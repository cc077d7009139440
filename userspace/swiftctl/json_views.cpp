// SPDX-License-Identifier: MIT
// What every verb says with --json: schema 1, units in the keys, absent numbers left out.
#include <nlohmann/json.hpp>

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

} // namespace

std::string flows_json(const FlowSnapshot &s, bool one_line)
{
	Json j;

	j["schema"] = 1;
	j["time_ns"] = s.time_ns;
	j["module_loaded"] = s.module_loaded;
	j["swift_flows"] = s.swift_count;
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

} // namespace swift
