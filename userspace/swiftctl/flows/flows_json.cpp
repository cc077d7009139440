// SPDX-License-Identifier: MIT
// What `swiftctl flows --json` says.
#include "flow_json.h"
#include "flows.h"
#include "json.h"

namespace swift {

namespace {

// First the names of all JSON, then older ones of this verb, which stay.
Json all_of(const Flow &f, const SummaryOptions &verdicts)
{
	Json common = flow_json(f, verdicts);
	Json j;

	common["held_by"] = f.held == Bound::none ? Json() : Json(bound_text(f.held));
	for (const auto &[name, value] : common.items())
		if (!value.is_null())
			j[name] = value;
	if (f.whose) {
		Json whose;

		add_owner_json(whose, f.whose->netns, f.whose->owner);
		for (const auto &[name, value] : whose.items())
			if (!value.is_null())
				j[name] = value;
		if (f.whose->process)
			j["process"] = process_json(f.whose->process);
	}
	j["local_addr"] = f.local.address.text();
	j["local_port"] = f.local.port;
	j["remote_addr"] = f.remote.address.text();
	j["remote_port"] = f.remote.port;
	j["guarded"] = f.is_guarded();
	j["inode"] = f.inode;
	j["uid"] = f.uid;
	if (f.swift) {
		const SwiftRecord &r = *f.swift;

		j["fcwnd"] = r.fcwnd_pkts();
		j["ecwnd"] = r.ecwnd_pkts();
		j["window"] = r.window_pkts();
		j["endpoint_ns"] = r.endpoint_ns;
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
	j["bpf_loaded"] = s.bpf_loaded;
	j["swift_flows"] = s.swift_count;
	j["other_law_flows"] = s.other_count;
	j["guarded_flows"] = s.guarded_count;
	j["unread_flows"] = s.unread;
	j["interrupted"] = s.interrupted;
	j["bad_records"] = s.bad_records;
	j["malformed"] = s.malformed;
	if (s.netns_count)
		j["other_netns"] = *s.netns_count;
	j["flows"] = json_list(s.flows, [&](const Flow &f) { return all_of(f, s.verdicts); });
	return json_text(j, one_line);
}

} // namespace swift
