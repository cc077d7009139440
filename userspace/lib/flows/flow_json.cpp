// SPDX-License-Identifier: MIT
#include "flow_json.h"

#include <fmt/format.h>

namespace swift {

namespace {

Json null_or(bool known, const Json &v)
{
	return known ? v : Json();
}

} // namespace

std::string_view source_text(Stamp s)
{
	return s == Stamp::hardware ? "hardware" : s == Stamp::software ? "software" : "none";
}

void add_owner_json(Json &flow, const std::string &netns, const Owner &owner)
{
	for (const auto &[name, value] : {std::pair<const char *, const std::string &>("netns", netns),
					  {"owner", owner.name()},
					  {"cgroup", owner.cgroup},
					  {"unit", owner.unit},
					  {"container", owner.container},
					  {"pod", owner.pod}})
		flow[name] = null_or(!value.empty(), value);
}

Json process_json(const std::optional<Process> &process)
{
	return process ? Json{{"pid", process->pid}, {"program", process->program}} : Json();
}

std::string flow_id_text(std::uint64_t cookie)
{
	return fmt::format("{:x}", cookie);
}

Json flow_json(const FlowRow &f, const SummaryOptions &verdicts)
{
	const SwiftRecord &r = f.swift;
	const Bound held = held_by(f, verdicts);

	return {{"id", flow_id_text(f.cookie)},
		{"local", f.local().text()},
		{"remote", f.remote().text()},
		{"state", tcp_state_text(f.state)},
		{"rtt_ns", null_or(f.srtt_us > 0, std::uint64_t{f.srtt_us} * 1000)},
		{"min_rtt_ns", null_or(f.has_min_rtt(), std::uint64_t{f.min_rtt_us} * 1000)},
		{"fabric_ns", null_or(f.measured, r.fabric_ns)},
		{"host_ns", null_or(f.measured, r.endpoint_ns)},
		{"target_ns", null_or(f.measured, r.target_ns)},
		{"fcwnd_pkts", null_or(f.measured, r.fcwnd_pkts())},
		{"ecwnd_pkts", null_or(f.measured, r.ecwnd_pkts())},
		{"snd_cwnd_pkts", null_or(f.sender.known, f.snd_cwnd_pkts)},
		{"retrans_pkts", null_or(f.sender.known, f.retrans_total)},
		{"limit", null_or(f.measured, limit_text(r.limit()))},
		{"credit", null_or(f.measured, credit_text(r.credit))},
		{"held_by", null_or(held != Bound::none, bound_text(held))},
		{"local_stamp", null_or(f.measured, source_text(r.local_stamp))},
		{"echo_stamp", null_or(f.measured, source_text(r.echo_stamp))},
		{"from_bpf", f.from_bpf}};
}

Json flow_json(const Flow &flow, const SummaryOptions &verdicts)
{
	Json j = flow_json(row_of(flow), verdicts);

	j["cc"] = flow.cc;
	return j;
}

} // namespace swift
