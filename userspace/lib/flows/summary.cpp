// SPDX-License-Identifier: MIT
#include "summary.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace swift {

namespace {

void sample(PartHistograms &sampled, Part part, std::uint64_t ns)
{
	auto &h = sampled[static_cast<std::size_t>(part)];

	if (!h)
		h.emplace();
	h->add(static_cast<std::uint32_t>(std::min<std::uint64_t>(ns, 0xffffffffU)));
}

void take(GroupSummary &g, PartHistograms &sampled, const FlowRow &row, const SummaryOptions &options)
{
	g.flows++;
	g.rate_Bps += static_cast<double>(row.rate_Bps);
	g.retrans_new += row.retrans_new;
	g.segments_new += row.segments_new;
	g.bytes_new += row.bytes_new;
	if (row.sender.idle())
		g.idle++;
	else
		g.held[static_cast<std::size_t>(held_by(row, options))]++;
	if (row.srtt_us)
		sample(sampled, Part::rtt, std::uint64_t{row.srtt_us} * 1000);
	if (!row.measured)
		return;

	const SwiftRecord &r = row.swift;

	g.measured++;
	g.credited += r.credit != Credit::none;
	g.fcwnd_pkts += r.fcwnd_pkts();
	g.ecwnd_pkts += r.ecwnd_pkts();
	g.limited[static_cast<std::size_t>(r.limit())]++;
	g.stamps[static_cast<std::size_t>(r.local_stamp)]++;
	g.echo[static_cast<std::size_t>(r.echo_stamp)]++;
	sample(sampled, Part::fabric, r.fabric_ns);
	sample(sampled, Part::host, r.endpoint_ns);
	sample(sampled, Part::target, r.target_ns);
}

void take(OwnerSummary &o, const FlowRow &row, const SummaryOptions &options)
{
	o.flows++;
	o.rate_Bps += static_cast<double>(row.rate_Bps);
	o.retrans_new += row.retrans_new;
	o.bytes_new += row.bytes_new;
	if (row.sender.idle())
		o.idle++;
	else
		o.held[static_cast<std::size_t>(held_by(row, options))]++;
	o.with_rtt += row.srtt_us != 0;
	o.rtt_ns += row.srtt_us * 1000.0;
	if (!row.measured)
		return;
	o.measured++;
	o.fabric_ns += row.swift.fabric_ns;
	o.host_ns += row.swift.endpoint_ns;
}

void sort_most_flows_first(std::vector<OwnerSummary> &owners)
{
	std::sort(owners.begin(), owners.end(), [](const OwnerSummary &a, const OwnerSummary &b) {
		return a.flows != b.flows ? a.flows > b.flows :
					    std::tie(a.netns, a.name, a.dst_prefix) < std::tie(b.netns, b.name, b.dst_prefix);
	});
}

std::vector<OwnerSummary> owner_prefixes_of(const FlowSet &set, const SummaryOptions &options)
{
	using Key = std::tuple<std::string_view, std::string_view, std::string_view>;

	std::map<Key, std::size_t> places;
	std::unordered_map<std::uint64_t, std::size_t> place_of; // of one of set.owners and of set.groups
	std::vector<OwnerSummary> all;

	for (const FlowRow &row : set.rows) {
		const auto [known, is_new_pair] = place_of.try_emplace(std::uint64_t{row.owner} << 32 | row.group, 0);

		if (is_new_pair) {
			const FlowOwner &o = set.owners[row.owner];
			const std::string &netns = set.netns[o.netns];
			const std::string &prefix = set.groups[row.group].dst_prefix;
			const auto [at, is_new] = places.try_emplace({netns, o.who.name(), prefix}, all.size());

			known->second = at->second;
			if (is_new) {
				all.emplace_back();
				all.back().netns = netns;
				all.back().name = o.who.name();
				all.back().dst_prefix = prefix;
				all.back().who = o.who;
			}
		}
		take(all[known->second], row, options);
	}
	sort_most_flows_first(all);
	return all;
}

std::vector<OwnerSummary> owners_of(const std::vector<OwnerSummary> &by_prefix)
{
	std::map<std::pair<std::string_view, std::string_view>, std::size_t> places;
	std::vector<OwnerSummary> all;

	for (const OwnerSummary &one : by_prefix) {
		const auto [at, is_new] = places.try_emplace({one.netns, one.name}, all.size());

		if (is_new) {
			all.push_back(one);
			all.back().dst_prefix.clear();
		} else {
			all[at->second] += one;
		}
	}
	sort_most_flows_first(all);
	return all;
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

OwnerSummary &OwnerSummary::operator+=(const OwnerSummary &o)
{
	flows += o.flows;
	measured += o.measured;
	idle += o.idle;
	for (std::size_t i = 0; i < held.size(); i++)
		held[i] += o.held[i];
	rate_Bps += o.rate_Bps;
	retrans_new += o.retrans_new;
	bytes_new += o.bytes_new;
	with_rtt += o.with_rtt;
	rtt_ns += o.rtt_ns;
	fabric_ns += o.fabric_ns;
	host_ns += o.host_ns;
	return *this;
}

Summary summarize(const FlowSet &set, const HistogramSource *histograms,
		  const SummaryOptions &options)
{
	std::vector<GroupSummary> groups(set.groups.size());
	std::vector<PartHistograms> sampled(set.groups.size());
	Summary out;

	out.now_ns = set.now_ns;
	out.interval_s = set.interval_s;
	out.totals.flows = set.rows.size();
	out.totals.dropped_prefixes = set.dropped_prefixes;
	std::vector<bool> guarded;

	for (const std::string &cc : set.ccs)
		guarded.push_back(cc == guarded_cc_name);
	for (const FlowRow &row : set.rows) {
		take(groups[row.group], sampled[row.group], row, options);
		out.totals.guarded_flows += guarded[row.cc];
		out.totals.swift_flows += row.measured && !guarded[row.cc];
		out.totals.rate_Bps += static_cast<double>(row.rate_Bps);
		out.totals.retrans_new += row.retrans_new;
	}
	out.owner_prefixes = owner_prefixes_of(set, options);
	out.owners = owners_of(out.owner_prefixes);
	for (std::size_t i = 0; i < set.left_of_group.size() && i < set.groups.size(); i++)
		if (set.left_of_group[i] > 0)
			out.ended.emplace_back(set.groups[i], set.left_of_group[i]);
	std::vector<std::size_t> order;

	for (std::size_t i = 0; i < groups.size(); i++)
		if (groups[i].flows > 0)
			order.push_back(i);
	std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
		return groups[a].flows != groups[b].flows ? groups[a].flows > groups[b].flows :
							    set.groups[a] < set.groups[b];
	});

	std::set<const GroupSamples *> taken; // flows on several interfaces: the most of them get it, for all

	for (const std::size_t i : order) {
		GroupSummary &g = groups[i];

		g.labels = set.groups[i];
		const GroupSamples *all = histograms ? histograms->find(g.labels) : nullptr;

		const GroupSamples *elsewhere = nullptr;

		if (all && !taken.insert(all).second)
			std::swap(all, elsewhere);
		if (all)
			g.decreases = all->decreases;
		g.sampled = !all;
		out.sampled &= g.sampled;
		for (std::size_t p = 0; p < parts; p++) {
			const auto &h = all && all->delays[p] ? all->delays[p] : sampled[i][p];

			if (!h || h->empty())
				continue;
			g.delays[p] = quantiles(*h);
			// Once more, and a sum over interfaces would have them twice.
			if (elsewhere && elsewhere->delays[p])
				continue;
			g.samples.emplace(static_cast<Part>(p), *h);
		}
		g.verdict = group_verdict(g);
		out.groups.push_back(std::move(g));
	}
	return out;
}

} // namespace swift
