// SPDX-License-Identifier: MIT
#include "store.h"

#include <algorithm>
#include <functional>

#include "clock_ns.h"

namespace swift {

namespace {

constexpr double late_intervals = 3;

} // namespace

FlowGroup rest_of(const FlowGroup &g)
{
	return {std::string(label_other), g.cc, std::string(label_other), g.netns};
}

void HttpStats::answered(unsigned code)
{
	const std::scoped_lock lock(mutex_);

	requests_[code]++;
}

std::map<unsigned, std::uint64_t> HttpStats::requests() const
{
	const std::scoped_lock lock(mutex_);

	return requests_;
}

std::shared_ptr<const Snapshot> Store::newest() const
{
	const std::scoped_lock lock(mutex_);

	return newest_;
}

News Store::news() const
{
	const std::scoped_lock lock(mutex_);

	return {news_, newest_, trouble_};
}

void Store::put(std::shared_ptr<const ProbeNews> probes)
{
	const std::scoped_lock lock(mutex_);

	probes_.swap(probes);
}

std::shared_ptr<const ProbeNews> Store::probes() const
{
	const std::scoped_lock lock(mutex_);

	return probes_;
}

void Store::put_mesh(std::vector<ProbePairRow> pairs)
{
	const std::scoped_lock lock(mutex_);

	mesh_.swap(pairs);
}

std::vector<ProbePairRow> Store::mesh() const
{
	const std::scoped_lock lock(mutex_);

	return mesh_;
}

Config Store::config() const
{
	const std::scoped_lock lock(mutex_);

	return config_;
}

void Store::set_config(const Config &config)
{
	const std::scoped_lock lock(mutex_);

	config_ = config;
}

std::map<std::string, History> Store::group_histories() const
{
	const std::scoped_lock lock(mutex_);

	return groups_;
}

History Store::flow_history(std::uint64_t cookie) const
{
	const std::scoped_lock lock(mutex_);
	const auto at = flows_.find(cookie);

	return at == flows_.end() ? History() : at->second;
}

double Store::step_s() const
{
	return std::max(config_.collect.interval_s,
			static_cast<double>(config_.collect.history_s) / most_points);
}

double Store::history_step_s() const
{
	const std::scoped_lock lock(mutex_);

	return step_s();
}

double Store::late_after_s() const
{
	const std::scoped_lock lock(mutex_);

	double interval_s = config_.collect.interval_s;

	// It may be longer than wished for, see collect.max_cpu_percent. How long the newest one has
	// really been says nothing: an outage may have been in it.
	if (newest_)
		interval_s = std::max(interval_s, static_cast<double>(newest_->interval_ms) / 1e3);
	return late_intervals * interval_s;
}

void Store::watch(std::uint64_t cookie, std::int64_t now_ns)
{
	const std::scoped_lock lock(mutex_);

	if (watched_.size() < most_watched || watched_.contains(cookie))
		watched_[cookie] = now_ns + watch_ns;
}

void Store::add(History &history, const HistoryPoint &point) const
{
	const auto step_ns = step_s() * real_ns_per_s;

	// Half a tick early is still a step later.
	if (!history.empty() && static_cast<double>(point.at_ns - history.back().at_ns) < 0.9 * step_ns)
		return;
	history.push_back(point);
	while (history.size() > most_points ||
	       point.at_ns - history.front().at_ns > config_.collect.history_s * 1'000'000'000)
		history.pop_front();
}

void Store::add_groups(const Summary &summary)
{
	const auto median = [](const std::optional<Quantiles> &q) {
		return q ? std::optional(q->p50) : std::nullopt;
	};

	for (const GroupSummary &g : summary.groups) {
		const std::string key = g.labels.key();

		if (groups_.size() >= most_group_histories && !groups_.contains(key))
			continue;
		add(groups_[key], {summary.now_ns, median(g.delay(Part::fabric)),
				   median(g.delay(Part::host)), median(g.delay(Part::target)),
				   g.fcwnd_pkts, g.ecwnd_pkts, g.rate_Bps * 8});
	}
	std::erase_if(groups_, [&](const auto &item) {
		return summary.now_ns - item.second.back().at_ns >
		       config_.collect.history_s * 1'000'000'000;
	});
}

void Store::add_flows(const FlowSet &set)
{
	std::erase_if(watched_, [&](const auto &w) { return w.second < set.now_ns; });
	if (set.rows.empty()) {
		flows_.clear();
		return;
	}

	// The slowest: what is at least as slow as the 64th.
	std::vector<std::uint32_t> rtts;

	rtts.reserve(set.rows.size());
	for (const FlowRow &row : set.rows)
		rtts.push_back(row.srtt_us);
	const std::size_t n = std::min(slowest_flows, rtts.size());

	std::nth_element(rtts.begin(), rtts.begin() + static_cast<std::ptrdiff_t>(n - 1), rtts.end(),
			 std::greater<>());
	const std::uint32_t slow = std::max(rtts[n - 1], 1U);
	std::size_t left = slowest_flows;

	for (const FlowRow &row : set.rows) {
		const bool is_slow = row.srtt_us >= slow && left > 0;

		left -= is_slow;
		if (!is_slow && (watched_.empty() || !watched_.contains(row.cookie)))
			continue;
		HistoryPoint p{set.now_ns, {}, {}, {}, {}, {}, static_cast<double>(row.rate_Bps) * 8};

		if (row.measured) {
			p.fabric_ns = row.swift.fabric_ns;
			p.host_ns = row.swift.endpoint_ns;
			p.target_ns = row.swift.target_ns;
			p.fcwnd_pkts = row.swift.fcwnd_pkts();
			p.ecwnd_pkts = row.swift.ecwnd_pkts();
		}
		add(flows_[row.cookie], p);
	}
	std::erase_if(flows_, [&](const auto &item) {
		return set.now_ns - item.second.back().at_ns > watch_ns;
	});
}

void Store::put(std::shared_ptr<const Snapshot> snapshot)
{
	const std::scoped_lock lock(mutex_);

	add_groups(snapshot->summary);
	add_flows(*snapshot->flows);
	newest_.swap(snapshot);
	trouble_.reset();
	news_++;
}

void Store::fail(Trouble trouble)
{
	const std::scoped_lock lock(mutex_);

	trouble_ = std::move(trouble);
	news_++;
}

} // namespace swift
