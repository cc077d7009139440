// SPDX-License-Identifier: MIT
#include "probe_results.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "text.h"

namespace swift {

namespace {

constexpr std::int64_t clear_factor = 2; // one part has so many times the other's delay

std::int32_t kept_ns(std::int64_t ns)
{
	using Kept = std::numeric_limits<std::int32_t>;

	return static_cast<std::int32_t>(std::clamp<std::int64_t>(ns, Kept::min(), Kept::max()));
}

template <typename Of> ProbeTimes times_of(std::span<const ProbeSample> samples, Of of)
{
	std::vector<std::int64_t> sorted;
	ProbeTimes t;

	for (const ProbeSample &s : samples)
		sorted.push_back(of(s));
	if (sorted.empty())
		return t;
	std::sort(sorted.begin(), sorted.end());
	// The smallest that so many of 1000 do not exceed.
	const auto rank = [&](std::size_t permille) {
		return sorted[std::max<std::size_t>((sorted.size() * permille + 999) / 1000, 1) - 1];
	};

	return {sorted.size(), sorted.front(), rank(500), rank(900), rank(990)};
}

std::string of_limit(std::int64_t ns, std::int64_t limit_ns)
{
	return span_text(ns, false) + " (more than " + span_text(limit_ns, false) + ")";
}

} // namespace

ProbeSample probe_sample(std::int64_t at_ns, const Exchange &e, const Measured &m)
{
	ProbeSample s;

	s.at_ns = at_ns;
	s.lost = !e.replied;
	// Without one of its parts, or while a clock was set, it counts as answered alone.
	if (m.implausible || !m.fabric_ns || !m.turnaround_ns || !m.tx_ns || !m.rx_ns)
		return s;
	s.fabric_ns = kept_ns(*m.fabric_ns);
	s.remote_ns = kept_ns(*m.turnaround_ns);
	s.local_ns = kept_ns(*m.tx_ns + *m.rx_ns);
	s.local = m.local;
	s.remote = m.remote;
	return s;
}

void PeerSamples::add(const ProbeSample &sample)
{
	if (newest_.size() < most)
		newest_.push_back(sample);
	else
		newest_[next_] = sample;
	next_ = (next_ + 1) % most;
}

void PeerSamples::collect(std::int64_t since_ns, std::vector<ProbeSample> &out) const
{
	std::copy_if(newest_.begin(), newest_.end(), std::back_inserter(out),
		     [&](const ProbeSample &s) { return s.at_ns >= since_ns; });
}

std::string_view state_text(PeerState s)
{
	static constexpr std::array<std::string_view, peer_states> texts = {"unmeasured", "silent", "slow", "lossy", "good"};

	return texts[static_cast<std::size_t>(s)];
}

ProbeSummary summarize_probes(std::span<const ProbeSample> samples)
{
	// What is stamped otherwise has another part of the hosts in its fabric: never mixed in one figure.
	std::array<std::vector<ProbeSample>, 4> classes;
	ProbeSummary out;

	for (const ProbeSample &s : samples) {
		out.sent++;
		out.lost += s.lost;
		if (s.measured())
			classes[(s.local == Stamp::hardware ? 2U : 0U) + (s.remote == Stamp::hardware ? 1U : 0U)].push_back(s);
	}
	// The best of those with most.
	const auto most = std::max_element(classes.rbegin(), classes.rend(),
					   [](const auto &a, const auto &b) { return a.size() < b.size(); });

	for (const auto &c : classes)
		out.other_stamps += &c == &*most ? 0 : c.size();
	if (most->empty())
		return out;
	out.local = most->front().local;
	out.remote = most->front().remote;
	out.fabric = times_of(*most, [](const ProbeSample &s) { return std::int64_t{s.fabric_ns}; });
	out.host = times_of(*most, [](const ProbeSample &s) { return s.host_ns(); });
	out.remote_host = times_of(*most, [](const ProbeSample &s) { return std::int64_t{s.remote_ns}; });
	out.local_host = times_of(*most, [](const ProbeSample &s) { return std::int64_t{s.local_ns}; });
	return out;
}

ProbeVerdict probe_verdict(const ProbeSummary &s, const ProbeLimits &limits, const ProbeWords &words)
{
	const bool fabric = s.fabric.n > 0 && s.fabric.p90_ns > limits.fabric_ns;
	const bool host = s.host.n > 0 && s.host.p90_ns > limits.host_ns;
	const std::string &them = words.them;
	const std::string takes = words.path + " takes ";
	const std::string who = s.remote_host.p90_ns >= clear_factor * s.local_host.p90_ns ? them + (words.many ? " add " : " adds ") :
				s.local_host.p90_ns >= clear_factor * s.remote_host.p90_ns ? "this host adds " :
											     "this host and " + them + " add ";
	const std::string lost =
		s.lost > 0 ? "; " + std::to_string(s.lost) + " of " + std::to_string(s.sent) + " probes are lost" : "";
	ProbeVerdict v;

	if (s.sent < ProbeLimits::fewest) {
		v.text = "not measured: " + std::to_string(s.sent) + " probes are too few";
		return v;
	}
	if (s.lost == s.sent) {
		v.state = PeerState::silent;
		v.text = "none of " + std::to_string(s.sent) + " probes to " + them + " is answered";
		return v;
	}
	if (fabric || host) {
		v.state = PeerState::slow;
		v.bound = fabric && host ? Bound::mixed : fabric ? Bound::fabric : Bound::host;
		v.text = fabric && host ? "mixed: " : fabric ? "fabric-bound: " : "host-bound: ";
		if (fabric)
			v.text += takes + of_limit(s.fabric.p90_ns, limits.fabric_ns);
		if (host)
			v.text += (fabric ? ", " : "") + who + of_limit(s.host.p90_ns, limits.host_ns);
		v.text += lost;
		return v;
	}
	if (s.lost > 1 && s.lost * 100 > s.sent * ProbeLimits::lost_percent) {
		v.state = PeerState::lossy;
		v.text = "lossy: " + std::to_string(s.lost) + " of " + std::to_string(s.sent) + " probes to " + them + " are lost";
		return v;
	}
	if (s.fabric.n == 0) {
		v.text = "not measured: stamps are missing";
		return v;
	}
	v.state = PeerState::good;
	v.text = "good: " + takes + span_text(s.fabric.p90_ns, false) + ", " + who + span_text(s.host.p90_ns, false);
	return v;
}

} // namespace swift
