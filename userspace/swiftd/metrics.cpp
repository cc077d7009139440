// SPDX-License-Identifier: MIT
#include "metrics.h"

#include <prometheus/metric_family.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "clock_ns.h"

namespace swift {

namespace {

using Families = std::vector<MetricFamily>;
using Labels = std::vector<prometheus::ClientMetric::Label>;


MetricFamily family(std::string name, std::string help, prometheus::MetricType type)
{
	MetricFamily f;

	f.family.name = std::move(name);
	f.family.help = std::move(help);
	f.family.type = type;
	return f;
}

MetricFamily gauge(std::string name, std::string help)
{
	return family(std::move(name), std::move(help), prometheus::MetricType::Gauge);
}

MetricFamily counter(std::string name, std::string help)
{
	return family(std::move(name), std::move(help), prometheus::MetricType::Counter);
}

void add(MetricFamily &f, Labels labels, double value)
{
	prometheus::ClientMetric m;

	m.label = std::move(labels);
	if (f.family.type == prometheus::MetricType::Counter)
		m.counter.value = value;
	else
		m.gauge.value = value;
	f.family.metric.push_back(std::move(m));
}

template <typename Counts, typename Edge>
void add_histogram(MetricFamily &f, Labels labels, const Counts &counts, double sum, Edge edge, NativeHistogram native)
{
	prometheus::ClientMetric m;
	std::uint64_t so_far = 0;

	m.label = std::move(labels);
	for (std::size_t i = 0; i < counts.size(); i++) {
		so_far += counts[i];
		m.histogram.bucket.push_back(
			{so_far, i + 1 < counts.size() ? edge(i) : std::numeric_limits<double>::infinity()});
	}
	m.histogram.sample_count = so_far;
	m.histogram.sample_sum = sum;
	f.family.metric.push_back(std::move(m));
	f.native.push_back(std::move(native));
}

Labels labels_of(const FlowGroup &g)
{
	Labels l = {{"cc", g.cc}, {"iface", g.iface}, {"dst_prefix", g.dst_prefix}};

	if (!g.netns.empty())
		l.push_back({"netns", g.netns});
	return l;
}

Labels labels_of(const FlowGroup &g, const std::string &name, std::string_view value)
{
	Labels l = labels_of(g);

	l.push_back({name, std::string(value)});
	return l;
}

double delay_edge_s(std::size_t i)
{
	return static_cast<double>(std::uint64_t{1} << (first_delay_edge_bits + i)) / real_ns_per_s;
}

MetricFamily delays(const Snapshot &s, std::string name, std::string help, const std::vector<std::pair<Part, std::string_view>> &sides)
{
	auto f = family(std::move(name), std::move(help), prometheus::MetricType::Histogram);

	for (const GroupCounters &c : s.counters)
		for (const auto &[part, side] : sides) {
			const auto at = c.delays.find(part);

			// What has never been measured is not zero: it is not there.
			if (at != c.delays.end() && at->second.sum() > 0)
				add_histogram(f, side.empty() ? labels_of(c.labels) : labels_of(c.labels, "side", side),
					      delay_buckets(at->second), static_cast<double>(at->second.sum()) / real_ns_per_s,
					      delay_edge_s, NativeHistogram(at->second));
		}
	return f;
}

void operator+=(GroupSummary &sum, const GroupSummary &g)
{
	const auto add_each = [](auto &to, const auto &from) {
		for (std::size_t i = 0; i < to.size(); i++)
			to[i] += from[i];
	};

	sum.sampled |= g.sampled;
	sum.flows += g.flows;
	sum.measured += g.measured;
	sum.credited += g.credited;
	sum.rate_Bps += g.rate_Bps;
	sum.fcwnd_pkts += g.fcwnd_pkts;
	sum.ecwnd_pkts += g.ecwnd_pkts;
	sum.idle += g.idle;
	add_each(sum.limited, g.limited);
	add_each(sum.held, g.held);
	add_each(sum.stamps, g.stamps);
	add_each(sum.echo, g.echo);
}

// Those without a place among the counters together.
std::vector<GroupSummary> shown_groups(const Snapshot &s)
{
	std::set<FlowGroup> places;
	std::map<FlowGroup, GroupSummary> shown;
	std::vector<GroupSummary> out;

	for (const GroupCounters &c : s.counters)
		places.insert(c.labels);
	for (const GroupSummary &g : s.summary.groups) {
		const FlowGroup labels = places.contains(g.labels) ? g.labels : rest_of(g.labels);
		GroupSummary none;

		none.labels = labels;
		none.sampled = false;
		shown.try_emplace(labels, std::move(none)).first->second += g;
	}
	for (auto &[labels, g] : shown)
		out.push_back(std::move(g));
	return out;
}

void of_groups(Families &out, const Snapshot &s)
{
	auto flows = gauge("swift_flows", "Live flows");
	auto measured = gauge("swift_measured_flows", "Live flows that swift measures");
	auto windows = gauge("swift_window_packets", "Sum of the measured flows' windows");
	auto rate = gauge("swift_rate_bytes_per_second", "Bytes acknowledged per second");
	auto retrans = counter("swift_retransmitted_packets_total", "Packets sent again");
	auto segments = counter("swift_sent_segments_total", "Segments with data that were sent, those sent again too");
	auto bytes = counter("swift_acked_bytes_total", "Bytes that receivers have acknowledged");
	auto ended = counter("swift_ended_flows_total", "Flows that are gone");
	auto busy = family("swift_flow_completion_seconds", "Time that flows had data, when they ended",
			   prometheus::MetricType::Histogram);
	auto sizes = family("swift_flow_size_bytes", "Bytes that receivers had acknowledged of flows, when they ended",
			    prometheus::MetricType::Histogram);
	auto stamps = gauge("swift_flows_by_stamp", "Measured flows by where their delays' stamps come from");
	auto held = gauge("swift_flows_held", "Flows with something to send, by who holds them back");
	auto idle = gauge("swift_idle_flows", "Live flows that had nothing to send");
	auto limited = gauge("swift_flows_limited", "Measured flows by which window is the smaller one");

	auto decreases = counter("swift_decreases_total", "Decisions that made a window smaller, by their cause");
	auto lost = counter("swift_lost_packets_total", "Packets that TCP took for lost");

	for (const GroupCounters &c : s.counters) {
		add(retrans, labels_of(c.labels), static_cast<double>(c.retrans_pkts));
		add(segments, labels_of(c.labels), static_cast<double>(c.segments));
		add(bytes, labels_of(c.labels), static_cast<double>(c.bytes));
		add(ended, labels_of(c.labels), static_cast<double>(c.ended));
		if (std::any_of(c.busy_s.begin(), c.busy_s.end(), [](auto n) { return n > 0; })) {
			add_histogram(busy, labels_of(c.labels), c.busy_s, c.busy_sum_s,
				      [](std::size_t i) { return busy_edges_s[i]; }, c.native_busy_s);
			add_histogram(sizes, labels_of(c.labels), c.size_bytes, c.size_sum_bytes,
				      [](std::size_t i) { return size_edges_bytes[i]; }, c.native_size_bytes);
		}
		for (std::size_t i = 0; c.decreases && i < causes; i++) {
			const auto cause = static_cast<Cause>(i);
			const auto n = static_cast<double>((*c.decreases)[i]);

			if (cause == Cause::loss)
				add(lost, labels_of(c.labels), n);
			else
				add(decreases, labels_of(c.labels, "cause", cause_text(cause)), n);
		}
	}
	auto sampled = gauge("swift_histograms_sampled",
			     "1: delays are the flows' newest values, once per interval; 0: from every decision");
	auto other = gauge("swift_flows_in_other", "Flows whose group had to be counted as other");
	double in_other = 0;

	for (const GroupSummary &g : shown_groups(s)) {
		if (g.labels.dst_prefix == label_other)
			in_other += static_cast<double>(g.flows);
		add(sampled, labels_of(g.labels), g.sampled);
		add(flows, labels_of(g.labels), static_cast<double>(g.flows));
		add(measured, labels_of(g.labels), static_cast<double>(g.measured));
		add(rate, labels_of(g.labels), g.rate_Bps);
		add(idle, labels_of(g.labels), static_cast<double>(g.idle));
		for (std::size_t i = 1; i < bounds; i++) {
			const auto by = static_cast<Bound>(i);

			// Where nothing is lent nobody waits for that.
			if (g.credited > 0 || (by != Bound::credit && by != Bound::own_link))
				add(held, labels_of(g.labels, "by", bound_text(by)), static_cast<double>(g.held[i]));
		}
		if (g.measured == 0)
			continue;
		add(windows, labels_of(g.labels, "window", "fabric"), g.fcwnd_pkts);
		add(windows, labels_of(g.labels, "window", "endpoint"), g.ecwnd_pkts);
		for (const Limit l : {Limit::fabric, Limit::host, Limit::both})
			add(limited, labels_of(g.labels, "by", limit_text(l)),
			    static_cast<double>(g.limited[static_cast<std::size_t>(l)]));
		for (const auto &[stamp, source] :
		     {std::pair(Stamp::none, "none"), {Stamp::software, "software"}, {Stamp::hardware, "hardware"}}) {
			Labels local = labels_of(g.labels, "side", "local");
			Labels echo = labels_of(g.labels, "side", "echo");

			local.push_back({"source", source});
			echo.push_back({"source", source});
			add(stamps, std::move(local), static_cast<double>(g.stamps[static_cast<std::size_t>(stamp)]));
			add(stamps, std::move(echo), static_cast<double>(g.echo[static_cast<std::size_t>(stamp)]));
		}
	}
	add(other, {}, in_other);
	for (auto *f : {&flows, &measured, &windows, &rate, &retrans, &segments, &bytes, &ended, &busy, &sizes, &decreases, &lost,
			&stamps, &limited, &held, &idle, &sampled, &other})
		out.push_back(std::move(*f));
}

void of_owners(Families &out, const Snapshot &s)
{
	auto flows = gauge("swift_owner_flows", "Live flows of a pod, container, unit or control group");
	auto rate = gauge("swift_owner_rate_bytes_per_second", "Bytes of them acknowledged per second");
	auto held = gauge("swift_owner_flows_held", "Flows of them with something to send, by who holds them back");
	auto retrans = counter("swift_owner_retransmitted_packets_total", "Packets of them sent again");
	auto bytes = counter("swift_owner_acked_bytes_total", "Bytes of them that receivers have acknowledged");
	auto to_flows = gauge("swift_owner_prefix_flows", "Live flows of an owner to a prefix");
	auto to_retrans = counter("swift_owner_prefix_retransmitted_packets_total", "Packets of them sent again");
	auto to_bytes = counter("swift_owner_prefix_acked_bytes_total", "Bytes of them that receivers have acknowledged");
	auto netns = gauge("swift_netns", "Network namespaces whose flows are seen");
	const auto labels = [](const std::string &in, const std::string &owner) {
		return Labels{{"netns", in}, {"owner", owner}};
	};
	const auto pair_labels = [](const auto &o) {
		return Labels{{"netns", o.netns}, {"owner", o.name}, {"dst_prefix", o.dst_prefix}};
	};

	for (const OwnerSummary &o : s.owners) {
		add(flows, labels(o.netns, o.name), static_cast<double>(o.flows));
		add(rate, labels(o.netns, o.name), o.rate_Bps);
		for (std::size_t i = 1; i < bounds; i++) {
			Labels l = labels(o.netns, o.name);

			l.push_back({"by", std::string(bound_text(static_cast<Bound>(i)))});
			if (o.held[i] > 0) // most owners are held back by few
				add(held, std::move(l), static_cast<double>(o.held[i]));
		}
	}
	for (const OwnerCounters &c : s.owner_counters) {
		add(retrans, labels(c.netns, c.name), static_cast<double>(c.retrans_pkts));
		add(bytes, labels(c.netns, c.name), static_cast<double>(c.bytes));
	}
	for (const OwnerSummary &o : s.owner_prefixes)
		add(to_flows, pair_labels(o), static_cast<double>(o.flows));
	for (const OwnerCounters &c : s.owner_prefix_counters) {
		add(to_retrans, pair_labels(c), static_cast<double>(c.retrans_pkts));
		add(to_bytes, pair_labels(c), static_cast<double>(c.bytes));
	}
	add(netns, {}, static_cast<double>(s.netns));
	for (auto *f : {&flows, &rate, &held, &retrans, &bytes, &to_flows, &to_retrans, &to_bytes, &netns})
		out.push_back(std::move(*f));
}

void of_clocks(Families &out, const Snapshot &s)
{
	auto error = gauge("swift_clock_error_seconds", "Bound of the error of a NIC clock's conversion");
	auto state = gauge("swift_clock_state", "What a NIC's clock feeder is at: 1 for that state");

	for (const ClockRow &c : s.clocks) {
		if (c.error_ns)
			add(error, {{"iface", c.dev}}, *c.error_ns / real_ns_per_s);
		add(state, {{"iface", c.dev}, {"state", c.state}}, 1);
	}
	out.push_back(std::move(error));
	out.push_back(std::move(state));
}

void of_credit(Families &out, const Snapshot &s)
{
	auto lent = gauge("swift_credit_lent_bytes", "Bytes that a link has lent as credit, and that have not come yet");
	auto most = gauge("swift_credit_limit_bytes", "Bytes that it lends at most");

	for (const CreditRow &c : s.credit) {
		add(lent, {{"iface", c.dev}}, static_cast<double>(c.lent_bytes));
		add(most, {{"iface", c.dev}}, static_cast<double>(c.most_bytes));
	}
	out.push_back(std::move(lent));
	out.push_back(std::move(most));
}

void of_module(Families &out, const Snapshot &s)
{
	auto loaded = gauge("swift_module_loaded", "1: the kernel has the module tcp_swift");

	add(loaded, {}, s.module_loaded);
	out.push_back(std::move(loaded));
	if (s.module_counters.empty())
		return;
	// The module's table is its own to extend: names become labels, not metrics.
	auto counters = family("swift_module_events", "The module's own counters and gauges, /proc/net/tcp_swift",
			       prometheus::MetricType::Untyped);

	for (const auto &[name, value] : s.module_counters) {
		prometheus::ClientMetric m;

		m.label = {{"what", name}};
		m.untyped.value = static_cast<double>(value);
		counters.family.metric.push_back(std::move(m));
	}
	out.push_back(std::move(counters));
}

// A version and an author at a time: a policy that goes takes its series with it.
void of_policy(Families &out, const Snapshot &s)
{
	const PolicyRow &p = s.policy;
	auto info = gauge("swift_policy_info", "1: the policy that is in force, by version and author");
	auto targets = gauge("swift_policy_targets", "Targets that it has set here");
	auto expires = gauge("swift_policy_expiry_timestamp_seconds", "When it expires, since 1970");
	auto state = gauge("swift_policy_state", "What has become of policy.file: 1 for that state");
	auto ended = counter("swift_policy_ended_total", "Policies whose targets went back, by what ended them");

	if (!p.version.empty()) {
		add(info, {{"version", p.version}, {"author", p.author}}, 1);
		add(targets, {}, static_cast<double>(p.targets));
		add(expires, {}, static_cast<double>(p.expires_s));
	}
	if (p.state != "off" || !p.version.empty())
		add(state, {{"state", p.state}}, 1);
	for (const auto &[by, n] : p.ended)
		add(ended, {{"by", by}}, static_cast<double>(n));
	for (auto *f : {&info, &targets, &expires, &state, &ended})
		out.push_back(std::move(*f));
}

// Of this host's rack and those of its peers; no peer has a series of its own.
void of_probes(Families &out, const ProbeNews &p)
{
	auto fabric = family("swift_probe_fabric_seconds", "The fabric's part of probes' round trips", prometheus::MetricType::Histogram);
	auto host = family("swift_probe_host_seconds", "Both hosts' part of probes' round trips", prometheus::MetricType::Histogram);
	auto probes = counter("swift_probes_total", "Probes to peers, by what became of them");
	auto peers = gauge("swift_probe_peers", "Peers by what the newest probes say of them");
	auto slow = gauge("swift_probe_slow", "1: the probes to that rack are slow by fabric or host");
	auto answered = counter("swift_probes_answered_total", "Probes of others that were answered");
	auto refused = counter("swift_probes_refused_total", "Probes of others that were not answered (side responder), and answers "
							     "that were not believed (side prober), by why");
	auto cycle = gauge("swift_probe_cycle_seconds", "Time until all peers have had their turn");
	const auto pair = [&](const std::string &peer_rack, const std::string &name = {}, std::string_view value = {}) {
		Labels l = {{"rack", p.rack}, {"peer_rack", peer_rack}};

		if (!name.empty())
			l.push_back({name, std::string(value)});
		return l;
	};
	const auto add_delays = [&](MetricFamily &f, const std::string &peer_rack, const std::array<LogHistogram, 2> &by_stamps) {
		for (std::size_t i = 0; i < by_stamps.size(); i++)
			if (!by_stamps[i].empty())
				add_histogram(f, pair(peer_rack, "stamps", i ? "hardware" : "software"), delay_buckets(by_stamps[i]),
					      static_cast<double>(by_stamps[i].sum()) / real_ns_per_s, delay_edge_s,
					      NativeHistogram(by_stamps[i]));
	};

	for (const ProbeCounters &c : p.counters) {
		add(probes, pair(c.peer_rack, "result", "answered"), static_cast<double>(c.answered));
		add(probes, pair(c.peer_rack, "result", "lost"), static_cast<double>(c.lost));
		add_delays(fabric, c.peer_rack, c.fabric);
		add_delays(host, c.peer_rack, c.host);
	}
	for (const ProbePairRow &row : p.pairs) {
		for (std::size_t i = 0; i < peer_states; i++)
			add(peers, pair(row.peer_rack, "state", state_text(static_cast<PeerState>(i))), static_cast<double>(row.states[i]));
		for (const Bound by : {Bound::fabric, Bound::host})
			add(slow, pair(row.peer_rack, "by", bound_text(by)), row.verdict.bound == by || row.verdict.bound == Bound::mixed);
	}
	if (!p.places.empty())
		add(answered, {}, static_cast<double>(p.answered));
	for (const auto &[side, counts] : {std::pair("responder", &p.refused), {"prober", &p.unbelieved}}) {
		std::map<std::string, double> by_name;

		for (std::size_t i = 0; i < refusals; i++)
			by_name[std::string(refusal_name(static_cast<Refusal>(i)))] += static_cast<double>((*counts)[i]);
		for (const auto &[why, n] : by_name)
			if (n > 0)
				add(refused, {{"side", side}, {"why", why}}, n);
	}
	if (!p.pairs.empty())
		add(cycle, {}, p.cycle_s);
	for (auto *f : {&fabric, &host, &probes, &peers, &slow, &answered, &refused, &cycle})
		out.push_back(std::move(*f));
}

void of_service(Families &out, const Snapshot &s, const CollectStats &collect, const HttpStats &http, double age_s)
{
	auto seconds = family("swiftd_collect_seconds", "Time that a look at the host's flows took",
			      prometheus::MetricType::Histogram);
	auto collections = counter("swiftd_collections_total", "Looks at the host's flows");
	auto errors = counter("swiftd_collection_errors_total", "What went wrong in them");
	auto requests = counter("swiftd_http_requests_total", "HTTP requests by their answer");
	auto connections = gauge("swiftd_http_connections", "Open HTTP connections");
	auto dropped = counter("swiftd_sse_dropped_total", "Events that readers were too slow for");
	auto searches = counter("swiftd_searches_total", "Searches of all flows that were begun");
	auto searches_cancelled = counter("swiftd_searches_cancelled_total", "Of them, those that nobody waited for any more");
	auto searches_refused = counter("swiftd_searches_refused_total", "Searches that were refused: too many waited");
	auto delivered = counter("swiftd_otlp_deliveries_total", "Deliveries of metrics to the collector, by what became of them");
	auto logged = counter("swiftd_otlp_flows_total", "Log records of flows for the collector, by what became of them");
	auto ended = counter("swiftd_sse_ended_total", "Event streams that were ended: their readers were too slow");
	auto age = gauge("swiftd_snapshot_age_seconds", "Time since the newest look at the host's flows");
	auto ended_flows = counter("swiftd_ended_flows_total", "Flows that the kernel told the end of");
	auto ended_unseen = counter("swiftd_ended_unseen_total", "Of them, flows that no look had seen");
	auto overruns = counter("swiftd_ended_overruns_total",
				"Times that the kernel had to leave out flows that ended, nobody knows how many");
	auto ended_dropped = counter("swiftd_ended_dropped_total", "Flows that ended and came too fast to be counted");
	auto resident = gauge("process_resident_memory_bytes", "Resident memory size in bytes");
	auto cpu = counter("process_cpu_seconds_total", "Total user and system CPU time spent in seconds");

	add_histogram(seconds, {}, collect.seconds, collect.seconds_sum,
		      [](std::size_t i) { return collect_edges_s[i]; }, collect.native_seconds);
	add(collections, {}, static_cast<double>(collect.collections));
	for (const auto &[what, n] : collect.errors)
		add(errors, {{"what", what}}, static_cast<double>(n));
	for (const auto &[code, n] : http.requests())
		add(requests, {{"code", std::to_string(code)}}, static_cast<double>(n));
	add(connections, {}, static_cast<double>(http.connections.load()));
	add(dropped, {}, static_cast<double>(http.sse_dropped.load()));
	add(resident, {}, static_cast<double>(s.resident_bytes));
	add(cpu, {}, s.cpu_seconds);
	add(ended, {}, static_cast<double>(http.sse_ended.load()));
	add(age, {}, age_s);
	add(searches, {}, static_cast<double>(http.searches.made.load()));
	add(searches_cancelled, {}, static_cast<double>(http.searches.cancelled.load()));
	for (const auto &[family, taken, lost] : {std::tuple(&delivered, &http.otlp.deliveries, &http.otlp.lost_deliveries),
						  {&logged, &http.otlp.flows, &http.otlp.lost_flows}})
		if (taken->load() + lost->load() > 0) { // nobody who delivers nothing has them
			add(*family, {{"result", "taken"}}, static_cast<double>(taken->load()));
			add(*family, {{"result", "lost"}}, static_cast<double>(lost->load()));
		}
	add(searches_refused, {}, static_cast<double>(http.searches.refused.load()));
	add(ended_flows, {}, static_cast<double>(s.ended.flows));
	add(ended_unseen, {}, static_cast<double>(s.ended.unseen));
	add(overruns, {}, static_cast<double>(s.ended.losses.overruns));
	add(ended_dropped, {}, static_cast<double>(s.ended.losses.dropped));
	for (auto *f : {&seconds, &collections, &ended_flows, &ended_unseen, &overruns, &ended_dropped, &errors, &requests, &connections, &dropped, &ended, &searches,
			&searches_cancelled, &searches_refused, &delivered, &logged, &age,
			&resident, &cpu})
		out.push_back(std::move(*f));
}

} // namespace

std::vector<MetricFamily> metric_families(const Snapshot &s, const CollectStats &collect, const HttpStats &http, double age_s)
{
	Families all;

	all.push_back(delays(s, "swift_rtt_seconds", "Round-trip times", {{Part::rtt, ""}}));
	all.push_back(delays(s, "swift_fabric_delay_seconds", "The fabric's part of the round-trip time",
			     {{Part::fabric, ""}}));
	all.push_back(delays(s, "swift_host_delay_seconds", "The hosts' part of the round-trip time",
			     {{Part::host, "both"}, {Part::remote_host, "remote"}, {Part::local_host, "local"},
			      {Part::tx_host, "tx"}, {Part::tx_nic, "tx_nic"}}));
	all.push_back(delays(s, "swift_target_seconds", "Targets of the fabric delay", {{Part::target, ""}}));
	of_groups(all, s);
	of_owners(all, s);
	of_clocks(all, s);
	of_credit(all, s);
	of_module(all, s);
	of_policy(all, s);
	if (s.probes)
		of_probes(all, *s.probes);
	of_service(all, s, collect, http, age_s);
	std::erase_if(all, [](const auto &f) { return f.family.metric.empty(); });
	return all;
}

} // namespace swift
