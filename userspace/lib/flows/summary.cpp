// SPDX-License-Identifier: MIT
#include "summary.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "text.h"

namespace swift {

namespace {

// A part of the path holds a flow back if its window is the smaller one and its delay has come
// near its target: idle flows have windows as well.
constexpr double near_target = 0.5;
// Of the measured flows; fewer held back than this, and it is nobody's fault.
constexpr double held_share = 0.25;
constexpr double clear_factor = 2; // one cause has so many times the other's flows

struct Held {
	bool fabric = false;
	bool host = false;
};

Held held(const SwiftRecord &r, std::uint64_t endpoint_target_ns)
{
	const bool fabric_near = r.fabric_ns >= near_target * r.target_ns;
	const bool host_near = static_cast<double>(r.endpoint_ns) >=
			       near_target * static_cast<double>(endpoint_target_ns);

	return {r.limit() != Limit::host && r.target_ns > 0 && fabric_near,
		r.limit() != Limit::fabric && host_near};
}

std::string ns_text(double ns)
{
	return span_text(std::llround(ns), false);
}

struct Work {
	PartHistograms sampled;
	std::size_t held_fabric = 0;
	std::size_t held_host = 0;
	std::size_t held = 0;
};

void sample(Work &work, Part part, std::uint64_t ns)
{
	auto &h = work.sampled[static_cast<std::size_t>(part)];

	if (!h)
		h.emplace();
	h->add(static_cast<std::uint32_t>(std::min<std::uint64_t>(ns, 0xffffffffU)));
}

void take(GroupSummary &g, Work &work, const FlowRow &row, const SummaryOptions &options)
{
	g.flows++;
	g.rate_Bps += static_cast<double>(row.rate_Bps);
	g.retrans_new += row.retrans_new;
	if (row.srtt_us)
		sample(work, Part::rtt, std::uint64_t{row.srtt_us} * 1000);
	if (!row.measured)
		return;

	const SwiftRecord &r = row.swift;
	const Held by = held(r, options.endpoint_target_ns);

	g.measured++;
	g.fcwnd_pkts += r.fcwnd_pkts();
	g.ecwnd_pkts += r.ecwnd_pkts();
	g.limited[static_cast<std::size_t>(r.limit())]++;
	g.stamps[static_cast<std::size_t>(r.local_stamp)]++;
	g.echo[static_cast<std::size_t>(r.echo_stamp)]++;
	sample(work, Part::fabric, r.fabric_ns);
	sample(work, Part::host, r.endpoint_ns);
	sample(work, Part::target, r.target_ns);
	work.held_fabric += by.fabric;
	work.held_host += by.host;
	work.held += by.fabric || by.host;
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

Verdict judge(const GroupSummary &g, const Work &work)
{
	const auto median = [&](Part p) { return g.delay(p) ? g.delay(p)->p50 : 0; };
	Verdict v;

	v.fabric_ns = median(Part::fabric);
	v.host_ns = median(Part::host);

	const std::string fabric = ns_text(v.fabric_ns) + " of a target of " + ns_text(median(Part::target));
	const auto by_fabric = static_cast<double>(work.held_fabric);
	const auto by_host = static_cast<double>(work.held_host);

	if (g.measured == 0) {
		v.text = "not measured: no flow here runs swift";
	} else if (static_cast<double>(work.held) < held_share * static_cast<double>(g.measured)) {
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

Quantiles quantiles(const LogHistogram &h)
{
	return {h.quantile(0.5), h.quantile(0.9), h.quantile(0.99), h.mean(), h.count()};
}

} // namespace

DelayBuckets delay_buckets(const LogHistogram &h)
{
	std::array<std::uint64_t, delay_edges> edges{};
	DelayBuckets out{};

	for (unsigned i = 0; i < delay_edges; i++)
		edges[i] = (std::uint64_t{1} << (first_delay_edge_bits + i)) - 1;
	const std::vector<std::uint64_t> up_to = h.cumulative(edges);

	for (std::size_t i = 0; i <= delay_edges; i++)
		out[i] = (i < delay_edges ? up_to[i] : h.count()) - (i ? up_to[i - 1] : 0);
	return out;
}

// --- Words -----------------------------------------------------------------------------

std::string_view part_text(Part p)
{
	static constexpr std::array<std::string_view, parts> names = {
		"rtt", "fabric", "host", "remote_host", "local_host", "tx_host", "tx_nic", "target"};

	return names[static_cast<std::size_t>(p)];
}

std::string_view cause_text(Cause c)
{
	static constexpr std::array<std::string_view, causes> names = {"fabric", "endpoint", "both", "loss"};

	return names[static_cast<std::size_t>(c)];
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

	const Held by = held(r, options.endpoint_target_ns);
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

// --- Telemetry -------------------------------------------------------------------------

namespace {

// The group that all flows to @p are in, if one is.
std::optional<Prefix> group_prefix(const Prefix &p, const std::vector<Prefix> &prefixes)
{
	const Prefix group = prefix_of(p.address, prefixes);
	const bool divided = std::any_of(prefixes.begin(), prefixes.end(), [&](const Prefix &each) {
		return each.length > p.length && p.contains(each.address);
	});

	return divided || group.length > p.length ? std::nullopt : std::optional(group);
}

} // namespace

TelemetrySource::TelemetrySource(const TelemetryReading &since, const std::vector<Prefix> &prefixes)
{
	static constexpr std::array<std::pair<Part, Telemetered>, parts> which = {
		{{Part::rtt, Telemetered::rtt},
		 {Part::fabric, Telemetered::fabric},
		 {Part::host, Telemetered::endpoint},
		 {Part::remote_host, Telemetered::remote},
		 {Part::local_host, Telemetered::local},
		 {Part::tx_host, Telemetered::tx_host},
		 {Part::tx_nic, Telemetered::tx_nic},
		 {Part::target, Telemetered::target}}};

	for (const TelemetryPrefix &p : since.prefixes) {
		// Its "other" are other flows than those of the group of that name.
		const auto group = p.prefix ? group_prefix(*p.prefix, prefixes) : std::nullopt;

		if (!group)
			continue;
		GroupSamples &s = samples_[{group->text(), p.cc}];

		for (const auto &[part, value] : which)
			if (!p.counts.of(value).empty()) {
				auto &all = s.delays[static_cast<std::size_t>(part)];

				if (!all)
					all.emplace();
				*all += p.counts.of(value);
			}
		const std::array<std::uint64_t, causes> decreases = {
			p.counts.of(Decision::decrease_fabric), p.counts.of(Decision::decrease_endpoint),
			p.counts.of(Decision::decrease_both), p.counts.losses};

		for (std::size_t i = 0; i < causes; i++)
			s.decreases[i] += decreases[i];
	}
}

const GroupSamples *TelemetrySource::find(const FlowGroup &group) const
{
	const auto at = samples_.find({group.dst_prefix, group.cc});

	return at == samples_.end() ? nullptr : &at->second;
}

// --- The whole -------------------------------------------------------------------------

Summary summarize(const FlowSet &set, const HistogramSource *histograms,
		  const SummaryOptions &options)
{
	std::vector<GroupSummary> groups(set.groups.size());
	std::vector<Work> work(set.groups.size());
	Summary out;

	out.now_ns = set.now_ns;
	out.interval_s = set.interval_s;
	out.totals.flows = set.rows.size();
	out.totals.dropped_prefixes = set.dropped_prefixes;
	std::vector<bool> guarded;

	for (const std::string &cc : set.ccs)
		guarded.push_back(cc == guarded_cc_name);
	for (const FlowRow &row : set.rows) {
		take(groups[row.group], work[row.group], row, options);
		out.totals.guarded_flows += guarded[row.cc];
		out.totals.swift_flows += row.measured && !guarded[row.cc];
		out.totals.rate_Bps += static_cast<double>(row.rate_Bps);
		out.totals.retrans_new += row.retrans_new;
	}
	std::vector<std::size_t> order;

	for (std::size_t i = 0; i < groups.size(); i++)
		if (groups[i].flows > 0)
			order.push_back(i);
	std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
		return groups[a].flows != groups[b].flows ? groups[a].flows > groups[b].flows :
							    set.groups[a] < set.groups[b];
	});

	std::set<const GroupSamples *> taken; // flows on several interfaces: the most of them get it

	for (const std::size_t i : order) {
		GroupSummary &g = groups[i];

		g.labels = set.groups[i];
		const GroupSamples *all = histograms ? histograms->find(g.labels) : nullptr;

		if (all && !taken.insert(all).second)
			all = nullptr;
		if (all)
			g.decreases = all->decreases;
		g.sampled = !all;
		out.sampled &= g.sampled;
		for (std::size_t p = 0; p < parts; p++) {
			const auto &h = all && all->delays[p] ? all->delays[p] : work[i].sampled[p];

			if (!h || h->empty())
				continue;
			g.delays[p] = quantiles(*h);
			g.buckets[p] = delay_buckets(*h);
			g.sum_ns[p] = static_cast<double>(h->sum());
		}
		g.verdict = judge(g, work[i]);
		out.groups.push_back(std::move(g));
	}
	return out;
}

} // namespace swift
