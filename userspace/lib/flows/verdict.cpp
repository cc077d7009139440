// SPDX-License-Identifier: MIT
#include "verdict.h"

#include <fmt/format.h>

#include <cmath>
#include <string_view>

#include "summary.h"
#include "text.h"

namespace swift {

namespace {

// Of its busy time a flow is held back by the receiver or the send buffer from here on; of all
// time a flow without data is held back by its application below it.
constexpr float most_of_it = 0.5F;
// A delay is a cause where it has come near its target.
constexpr double near_target = 0.5;
// Of the flows that have something to send, the network has to hold this share to get the blame.
constexpr double network_share = 0.25;
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

// Swift's window holds it: whose?
Bound window_bound(const SwiftRecord &r, const SummaryOptions &options)
{
	if (r.limit() != Limit::both)
		return r.limit() == Limit::fabric ? Bound::fabric : Bound::host;

	// Both have grown to the same: the delay tells.
	const double fabric = r.target_ns > 0 ? static_cast<double>(r.fabric_ns) / r.target_ns : 0;
	const double host = r.endpoint_ns / static_cast<double>(options.endpoint_target_ns);

	if (fabric >= near_target && host >= near_target)
		return Bound::mixed;
	return host > fabric ? Bound::host : Bound::fabric;
}

std::string percent(float share)
{
	return fmt::format("{:.0f} %", static_cast<double>(share) * 100);
}

std::string_view prefixed(Bound b)
{
	return b == Bound::send_buffer ? "send-buffer-bound: " :
	       b == Bound::receiver    ? "receiver-bound: " :
	       b == Bound::application ? "application-bound: " :
	       b == Bound::host	       ? "host-bound: " :
	       b == Bound::fabric      ? "fabric-bound: " :
	       b == Bound::mixed       ? "mixed: " :
	       b == Bound::credit      ? "credit-bound: " :
	       b == Bound::own_link    ? "credit-bound: " :
					 "not measured: ";
}

} // namespace

namespace {

// Where a receiver lends, its window is its credit, and a full one is a sender that waits for more.
Bound receiver_bound(const SwiftRecord *r)
{
	const Credit c = r ? r->credit : Credit::none;

	return c == Credit::none ? Bound::receiver : c == Credit::congested ? Bound::own_link : Bound::credit;
}

bool waits_for_credit(const SwiftRecord &r)
{
	return r.credit == Credit::waits || r.credit == Credit::congested;
}

} // namespace

Bound held_by(const SenderState &s, const SwiftRecord *r, const SummaryOptions &options)
{
	if (s.known) {
		if (!s.backlogged && (!s.in_flight && s.busy < most_of_it))
			return Bound::application;
		if (s.rwnd_limited + s.sndbuf_limited >= most_of_it)
			return s.rwnd_limited >= s.sndbuf_limited ? receiver_bound(r) : Bound::send_buffer;
		if (!s.backlogged && (s.app_limited || s.busy < most_of_it))
			return Bound::application;
	}
	if (r && waits_for_credit(*r))
		return receiver_bound(r);
	return r ? window_bound(*r, options) : Bound::none;
}

Bound held_by(const FlowRow &row, const SummaryOptions &options)
{
	return held_by(row.sender, row.measured ? &row.swift : nullptr, options);
}

Bound held_by(const Flow &flow, const SummaryOptions &options)
{
	return held_by(flow.tcp ? sender_state(*flow.tcp) : SenderState(), flow.swift ? &*flow.swift : nullptr, options);
}

namespace {

// Of flows that have something to send: the network, or else who holds most of them.
Bound group_bound(const GroupSummary &g)
{
	const auto n = [&](Bound b) { return static_cast<double>(g.held[static_cast<std::size_t>(b)]); };
	const double by_fabric = n(Bound::fabric) + n(Bound::mixed);
	const double by_host = n(Bound::host) + n(Bound::mixed);
	const double network = n(Bound::fabric) + n(Bound::host) + n(Bound::mixed);
	const double by_credit = n(Bound::credit) + n(Bound::own_link);
	const double active = static_cast<double>(g.flows - g.idle) - n(Bound::none);

	// A receiver's link is part of the network: what holds more of the flows counts.
	if (by_credit > network && by_credit >= network_share * active)
		return n(Bound::own_link) > n(Bound::credit) ? Bound::own_link : Bound::credit;
	if (network > 0 && network >= network_share * active)
		return by_host >= clear_factor * by_fabric ? Bound::host :
		       by_fabric >= clear_factor * by_host ? Bound::fabric :
							     Bound::mixed;

	Bound most = Bound::application;

	for (const Bound b : {Bound::receiver, Bound::send_buffer})
		if (n(b) > n(most))
			most = b;
	// Where Swift measures nothing, that nothing else holds them says nothing.
	return g.measured == 0 && n(Bound::none) > n(most) ? Bound::none : most;
}

} // namespace

Verdict group_verdict(const GroupSummary &g)
{
	const auto median = [&](Part p) { return g.delay(p) ? g.delay(p)->p50 : 0; };
	Verdict v;

	v.fabric_ns = median(Part::fabric);
	v.host_ns = median(Part::host);
	v.bound = group_bound(g);

	const std::string &to = g.labels.dst_prefix;
	const std::string fabric = ns_text(v.fabric_ns) + " of a target of " + ns_text(median(Part::target));
	const std::string hosts = hosts_text(g);
	const std::size_t held = g.held[static_cast<std::size_t>(v.bound)];
	const std::size_t active = g.flows - g.idle;

	v.text = prefixed(v.bound);
	switch (v.bound) {
	case Bound::none:
		v.text += "no flow here runs swift";
		break;
	case Bound::fabric:
		v.text += "the path to " + to + " takes " + fabric;
		break;
	case Bound::host:
		v.text += hosts + (hosts.starts_with("this") ? " adds " : " add ") + ns_text(v.host_ns);
		break;
	case Bound::mixed:
		v.text += "the path to " + to + " takes " + fabric + ", " + hosts + " add " + ns_text(v.host_ns);
		break;
	case Bound::application:
		v.text += active == 0 ? "no flow to " + to + " has anything to send" :
					fmt::format("{} of {} flows to {} send all they have", held, active, to);
		break;
	case Bound::receiver:
		v.text += fmt::format("{} of {} flows wait for the receive windows of {}", held, active, to);
		break;
	case Bound::send_buffer:
		v.text += fmt::format("{} of {} flows to {} fill their send buffers here", held, active, to);
		break;
	case Bound::credit:
		v.text += fmt::format("{} of {} flows wait for credit of {}, which lends its link", held, active, to);
		break;
	case Bound::own_link:
		v.text += fmt::format("{} of {} flows get less credit of {}, because this host's own link is congested",
				      held, active, to);
		break;
	}
	return v;
}

Verdict flow_verdict(const FlowRow &row, const SummaryOptions &options)
{
	const SwiftRecord &r = row.swift;
	const SenderState &s = row.sender;
	Verdict v;

	const std::string fabric =
		"the fabric takes " + ns_text(r.fabric_ns) + " of a target of " + ns_text(r.target_ns);
	const std::string host = "the hosts add " + ns_text(r.endpoint_ns);

	if (row.measured) {
		v.fabric_ns = r.fabric_ns;
		v.host_ns = r.endpoint_ns;
	}
	v.bound = held_by(row, options);
	v.text = prefixed(v.bound);
	switch (v.bound) {
	case Bound::none:
		v.text += "it does not run swift";
		break;
	case Bound::fabric:
		v.text += fabric;
		break;
	case Bound::host:
		v.text += host;
		break;
	case Bound::mixed:
		v.text += fabric + ", " + host;
		break;
	case Bound::application:
		v.text += s.idle() ? "it has nothing to send" : "it sends all that it has";
		break;
	case Bound::receiver:
		v.text += "the peer's receive window was full for " + percent(s.rwnd_limited) +
			  " of the time that it had data";
		break;
	case Bound::send_buffer:
		v.text += "its send buffer was full for " + percent(s.sndbuf_limited) + " of the time that it had data";
		break;
	case Bound::credit:
		v.text += "it waits for credit of its receiver: swiftctl credit there says why";
		break;
	case Bound::own_link:
		v.text += "its receiver lends it less, because this host's own link is congested";
		break;
	}
	return v;
}

} // namespace swift
