// SPDX-License-Identifier: MIT
#include "verdict.h"

#include <array>
#include <cmath>

#include "summary.h"
#include "text.h"

namespace swift {

namespace {

// A part of the path holds a flow back if its window is the smaller one and its delay has come
// near its target: idle flows have windows as well.
constexpr double near_target = 0.5;
// Of the measured flows; fewer held back than this, and it is nobody's fault.
constexpr double held_share = 0.25;
constexpr double clear_factor = 2; // one cause has so many times the other's flows

std::string ns_text(double ns)
{
	return span_text(std::llround(ns), false);
}

// Who adds the hosts' part, if that was measured.
std::string hosts_text(const GroupSummary &g)
{
	const auto &remote = g.delay(Part::remote_host);
	const auto &local = g.delay(Part::local_host);

	if (remote && local && remote->p50 >= clear_factor * local->p50)
		return "receivers in " + g.labels.dst_prefix;
	if (remote && local && local->p50 >= clear_factor * remote->p50)
		return "this host, towards " + g.labels.dst_prefix + ",";
	return "the hosts at both ends of " + g.labels.dst_prefix;
}

} // namespace

HeldBy held_by(const SwiftRecord &r, const SummaryOptions &options)
{
	const bool fabric_near = r.fabric_ns >= near_target * r.target_ns;
	const bool host_near = static_cast<double>(r.endpoint_ns) >=
			       near_target * static_cast<double>(options.endpoint_target_ns);

	return {r.limit() != Limit::host && r.target_ns > 0 && fabric_near,
		r.limit() != Limit::fabric && host_near};
}

Verdict group_verdict(const GroupSummary &g, const HeldFlows &held)
{
	const auto median = [&](Part p) { return g.delay(p) ? g.delay(p)->p50 : 0; };
	Verdict v;

	v.fabric_ns = median(Part::fabric);
	v.host_ns = median(Part::host);

	const std::string fabric = ns_text(v.fabric_ns) + " of a target of " + ns_text(median(Part::target));
	const auto by_fabric = static_cast<double>(held.by_fabric);
	const auto by_host = static_cast<double>(held.by_host);

	if (g.measured == 0) {
		v.text = "not measured: no flow here runs swift";
	} else if (static_cast<double>(held.all) < held_share * static_cast<double>(g.measured)) {
		v.text = "no bottleneck: the fabric to " + g.labels.dst_prefix + " takes " + fabric +
			 ", the hosts " + ns_text(v.host_ns);
	} else if (by_host >= clear_factor * by_fabric) {
		v.bound = Bound::host;
		v.text = "host-bound: " + hosts_text(g) +
			 (hosts_text(g).starts_with("this") ? " adds " : " add ") + ns_text(v.host_ns);
	} else if (by_fabric >= clear_factor * by_host) {
		v.bound = Bound::fabric;
		v.text = "fabric-bound: the path to " + g.labels.dst_prefix + " takes " + fabric;
	} else {
		v.bound = Bound::mixed;
		v.text = "mixed: the path to " + g.labels.dst_prefix + " takes " + fabric + ", " +
			 hosts_text(g) + " add " + ns_text(v.host_ns);
	}
	return v;
}

std::string_view bound_text(Bound b)
{
	static constexpr std::array<std::string_view, 4> names = {"none", "fabric", "host", "mixed"};

	return names[static_cast<std::size_t>(b)];
}

Verdict flow_verdict(const FlowRow &row, const SummaryOptions &options)
{
	const SwiftRecord &r = row.swift;
	Verdict v;

	if (!row.measured) {
		v.text = "not measured: it does not run swift";
		return v;
	}

	const HeldBy by = held_by(r, options);
	const std::string fabric =
		"the fabric takes " + ns_text(r.fabric_ns) + " of a target of " + ns_text(r.target_ns);
	const std::string host = "the hosts add " + ns_text(r.endpoint_ns);

	v.fabric_ns = r.fabric_ns;
	v.host_ns = r.endpoint_ns;
	v.bound = by.fabric && by.host ? Bound::mixed :
		  by.fabric	       ? Bound::fabric :
		  by.host	       ? Bound::host :
					 Bound::none;
	switch (v.bound) {
	case Bound::none:
		v.text = "no bottleneck: " + fabric + ", " + host;
		break;
	case Bound::fabric:
		v.text = "fabric-bound: " + fabric;
		break;
	case Bound::host:
		v.text = "host-bound: " + host;
		break;
	case Bound::mixed:
		v.text = "mixed: " + fabric + ", " + host;
		break;
	}
	return v;
}

} // namespace swift
