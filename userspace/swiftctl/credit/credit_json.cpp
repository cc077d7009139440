// SPDX-License-Identifier: MIT
// What `swiftctl credit --json` says.
#include "credit.h"
#include "flow_json.h"
#include "json.h"

namespace swift {

namespace {

Json link_json(const CreditSnapshot &s, const CreditLink &l)
{
	return {{"iface", s.device(l.ifindex)}, {"ifindex", l.ifindex},
		{"rate_mbps", l.mbps},		{"bdp_bytes", l.bdp_bytes},
		{"most_bytes", l.most_bytes},	{"unasked_bytes", l.unasked_bytes},
		{"lent_bytes", l.lent_bytes},	{"rtt_ns", l.rtt_ns},
		{"loop_ns", l.loop_ns}};
}

Json peer_json(const CreditSnapshot &s, const CreditPeer &p)
{
	return {{"peer", p.address.text()},
		{"iface", s.device(p.ifindex)},
		{"flows", p.flows},
		{"waiting_flows", p.waiting},
		{"standing", standing_text(p.standing)},
		{"wanted_bytes", p.wanted_bytes},
		{"lent_bytes", p.lent_bytes},
		{"bucket_bytes", p.most_bytes},
		{"csn_bucket_bytes", p.by_csn_bytes},
		{"network_bucket_bytes", p.by_marks_bytes}};
}

Json flow_json_of(const CreditSnapshot &s, const CreditFlow &f)
{
	return {{"id", flow_id_text(f.cookie)},
		{"local", f.local.text()},
		{"remote", f.remote.text()},
		{"iface", s.device(f.ifindex)},
		{"standing", standing_text(f.standing)},
		{"wanted_bytes", f.wanted_bytes},
		{"lent_bytes", f.lent_bytes}};
}

} // namespace

std::string credit_json(const CreditSnapshot &s, bool one_line)
{
	Json j;

	j["schema"] = 1;
	j["time_ns"] = s.time_ns;
	j["credit"] = s.on;
	j["interrupted"] = s.interrupted;
	j["all_peers"] = s.all_peers;
	j["all_flows"] = s.all_flows;
	j["links"] = json_list(s.links, [&](const CreditLink &l) { return link_json(s, l); });
	j["peers"] = json_list(s.peers, [&](const CreditPeer &p) { return peer_json(s, p); });
	j["flows"] = json_list(s.flows, [&](const CreditFlow &f) { return flow_json_of(s, f); });
	return json_text(j, one_line);
}

} // namespace swift
