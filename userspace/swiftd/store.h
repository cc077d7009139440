// SPDX-License-Identifier: MIT
// What swiftd knows: the newest snapshot, and short histories. The collector writes, the HTTP
// threads read, and this is the only thing that they share; nobody waits for long.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "cgroups.h"
#include "ended_book.h"
#include "flow_table.h"
#include "native_histogram.h"
#include "options.h"
#include "policy.h"
#include "probe_gate.h"
#include "probe_results.h"
#include "socket_processes.h"
#include "summary.h"
#include "tuner.h"

namespace swift {

struct ClockRow {
	std::string dev;
	std::string state;
	std::optional<std::int64_t> offset_ns; // host clock - NIC clock
	std::optional<double> drift_ppb;
	std::optional<std::uint32_t> error_ns;
	std::optional<double> age_s;
};

// What a link lends as credit; those beyond so many are one, "other".
struct CreditRow {
	static constexpr std::size_t most = 64;

	std::string dev;
	std::uint64_t lent_bytes = 0; // and not come yet
	std::uint64_t most_bytes = 0; // B
};

// From the kernel's own tick on.
inline constexpr std::array<double, 9> busy_edges_s = {0.001, 0.004, 0.016, 0.064, 0.256, 1.024, 4.096, 16.384, 65.536};
inline constexpr std::array<double, 10> size_edges_bytes = {1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18,
							    1 << 20, 1 << 22, 1 << 24, 1 << 26, 1 << 28};

// Under which labels the metrics have the groups without a place: one for each congestion control.
[[nodiscard]] FlowGroup rest_of(const FlowGroup &group);

// Since the group has had a place of its own: what Prometheus calls counters.
struct GroupCounters {
	FlowGroup labels;
	std::int64_t seen_ns = 0; // when it had flows
	std::uint64_t retrans_pkts = 0;
	std::uint64_t segments = 0; // with data
	std::uint64_t bytes = 0; // acknowledged
	std::uint64_t ended = 0; // flows
	// Of flows that have ended and had sent something: their times with data, and their sizes.
	std::array<std::uint64_t, busy_edges_s.size() + 1> busy_s{};
	std::array<std::uint64_t, size_edges_bytes.size() + 1> size_bytes{};
	double busy_sum_s = 0;
	double size_sum_bytes = 0;
	NativeHistogram native_busy_s;
	NativeHistogram native_size_bytes;
	std::optional<std::array<std::uint64_t, causes>> decreases;
	std::map<Part, LogHistogram> delays;
};

// The same of an owner, or of one and a prefix.
struct OwnerCounters {
	std::string netns;
	std::string name;
	std::string dst_prefix; // empty: any
	std::int64_t seen_ns = 0;
	std::uint64_t retrans_pkts = 0;
	std::uint64_t bytes = 0;
};

// Flows at their end, since the start; where collect.ended is off, or cannot be, all 0.
struct EndedTotals {
	std::uint64_t flows = 0;
	std::uint64_t unseen = 0; // of them, by any look
	EndedLosses losses;
};

struct CollectStats {
	std::uint64_t collections = 0;
	std::map<std::string, std::uint64_t> errors; // by what
	std::array<std::uint64_t, 14> seconds{}; // buckets of collect_edges_s, and all above
	double seconds_sum = 0;
	NativeHistogram native_seconds;
};
inline constexpr std::array<double, 13> collect_edges_s = {0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05,
							   0.1,	   0.2,	  0.5,	 1,	2,    5};

// Where [tune] has got to.
struct TuneRow {
	struct Past {
		double time_s = 0; // since 1970
		TuneEvent event;
	};
	static constexpr std::size_t most_events = 20;

	std::string state = "off"; // unavailable, learning, proposing, waiting, trying, holding, rescuing, failed
	std::string knob;
	std::optional<std::uint32_t> base_target_ns; // in force
	std::optional<std::uint32_t> proposal_ns;
	std::string reason; // of that state
	std::deque<Past> events; // the newest last
};

// Where [policy] has got to.
struct PolicyRow {
	struct Past {
		double time_s = 0; // since 1970
		// in_force, trial, acquitted, put_back, expired, withdrawn, refused, overridden, unavailable, failed
		std::string event;
		std::string version; // "": of a file that cannot be read
		std::string author;
		std::string reason;
	};
	static constexpr std::size_t most_events = 50;

	std::string state = "off"; // in_force, refused, put_back, expired, overridden, unavailable
	std::string reason; // of that state
	// What is in force, which may be an older one than what was refused; "": none.
	std::string version;
	std::string author;
	std::int64_t expires_s = 0; // since 1970, as are these
	double since_s = 0;
	std::size_t targets = 0; // that it has set here
	std::string guard; // trying, watching, off
	// What was ended since swiftd runs.
	std::map<std::string, std::uint64_t> ended = {{"guard", 0}, {"expiry", 0}, {"withdrawal", 0}};
	std::vector<PolicySetting> set;
	std::deque<Past> events; // the newest last; begins with what was remembered when swiftd started
};

// What the probes have come to ([probe]), never changed after it was made.
struct ProbePeerRow {
	std::string name; // as it was configured
	std::string rack;
	std::string trouble; // why it cannot be probed, or what became of the newest probe
	ProbeSummary summary;
	ProbeVerdict verdict;
};
struct ProbePairRow {
	std::string rack;
	std::string peer_rack;
	std::string told_by; // URL of another swiftd; "": this one measured it
	std::size_t peers = 0;
	std::array<std::size_t, peer_states> states{}; // of them, by enum PeerState
	ProbeSummary summary;
	ProbeVerdict verdict;
};
// Since swiftd probes that rack.
struct ProbeCounters {
	std::string peer_rack;
	std::uint64_t answered = 0;
	std::uint64_t lost = 0;
	// By whether both ends' stamps are the NICs'.
	std::array<LogHistogram, 2> fabric;
	std::array<LogHistogram, 2> host;
};
struct ProbeNews {
	double time_s = 0; // since 1970
	std::string rack = "none"; // of this host
	std::vector<std::string> places; // where it answers
	bool is_signed = false;
	std::uint64_t answered = 0; // probes of others
	RefusalCounts refused{};
	RefusalCounts unbelieved{}; // replies to its own
	double rate_pps = 0;
	double cycle_s = 0; // until all peers have had their turn
	double window_s = 0;
	ProbeLimits limits;
	std::vector<ProbePeerRow> peers; // the worst first
	std::vector<ProbePairRow> pairs; // of this rack and another, by name
	std::vector<ProbeCounters> counters;
};

// One look at the host, never changed after it was made.
struct Snapshot {
	static constexpr std::size_t most_short_flows = 10000;

	std::uint64_t number = 0; // 1, 2, ...
	double time_s = 0; // since 1970
	std::int64_t interval_ms = 0; // until the next look is due, which may be longer than was wished for
	Summary summary;
	std::shared_ptr<const FlowSet> flows;
	bool module_loaded = false;
	std::string module_version;
	std::map<std::string, std::int64_t> module_counters;
	SummaryOptions verdicts;
	std::vector<ClockRow> clocks;
	std::vector<CreditRow> credit; // of this network namespace; none where credit is off
	TuneRow tune;
	PolicyRow policy;
	std::shared_ptr<const ProbeNews> probes; // the newest then; nullptr: [probe] is not used
	std::vector<GroupCounters> counters; // of groups with a place, and of the rest
	std::vector<OwnerSummary> owners; // most flows first; more than are allowed are one, "other"
	std::vector<OwnerCounters> owner_counters;
	std::vector<OwnerSummary> owner_prefixes; // the same by prefix; none where collect.max_owner_prefixes is 0
	std::vector<OwnerCounters> owner_prefix_counters;
	std::size_t netns = 1; // network namespaces that were looked at
	EndedTotals ended;
	std::vector<EndedCount> short_flows; // that came and went since the look before; at most most_short_flows
	std::uint64_t short_flows_left_out = 0; // beyond these
	std::uint64_t retrans_pkts = 0; // since the start
	CollectStats collect;
	double cpu_seconds = 0; // of the process
	std::uint64_t resident_bytes = 0;
	std::vector<Prefix> prefixes; // that were configured
};

// Why a look has failed since the newest snapshot.
struct Trouble {
	std::string text;
	double time_s = 0; // of the newest attempt, since 1970
	CollectStats collect{}; // newer than the snapshot's, as is this:
	TuneRow tune{};
	PolicyRow policy{};
};

struct News {
	std::uint64_t number = 0; // 1, 2, ...: of snapshots and troubles
	std::shared_ptr<const Snapshot> snapshot; // may be an old one
	std::optional<Trouble> trouble;
};

struct HistoryPoint {
	std::int64_t at_ns = 0; // CLOCK_MONOTONIC
	std::optional<double> fabric_ns;
	std::optional<double> host_ns;
	std::optional<double> target_ns;
	std::optional<double> fcwnd_pkts;
	std::optional<double> ecwnd_pkts;
	double rate_bps = 0;
};
using History = std::deque<HistoryPoint>;

struct WorkerStats {
	std::atomic<std::uint64_t> made = 0; // begun
	std::atomic<std::uint64_t> cancelled = 0; // of them: nobody waited any more
	std::atomic<std::uint64_t> refused = 0; // too many waited
};

struct OtlpStats {
	std::atomic<std::uint64_t> deliveries = 0; // of metrics, that were taken
	std::atomic<std::uint64_t> lost_deliveries = 0;
	std::atomic<std::uint64_t> flows = 0; // log records that were taken
	std::atomic<std::uint64_t> lost_flows = 0;
};

class HttpStats {
public:
	void answered(unsigned code);
	[[nodiscard]] std::map<unsigned, std::uint64_t> requests() const;
	std::atomic<std::int64_t> connections = 0;
	std::atomic<std::uint64_t> sse_dropped = 0;
	std::atomic<std::uint64_t> sse_ended = 0;
	WorkerStats searches;
	OtlpStats otlp;

private:
	mutable std::mutex mutex_;
	std::map<unsigned, std::uint64_t> requests_;
};

class Store {
public:
	static constexpr std::size_t most_points = 300;
	static constexpr std::size_t most_group_histories = 256;
	static constexpr std::size_t slowest_flows = 64;
	static constexpr std::size_t most_watched = 1024;
	static constexpr std::int64_t watch_ns = 60'000'000'000;

	// The collector's.
	void put(std::shared_ptr<const Snapshot> snapshot);
	void fail(Trouble trouble);
	void set_config(const Config &config);
	// The prober's.
	void put(std::shared_ptr<const ProbeNews> probes);
	void put_mesh(std::vector<ProbePairRow> pairs); // that others have told

	// Anybody's.
	[[nodiscard]] std::shared_ptr<const ProbeNews> probes() const; // nullptr: [probe] is not used
	[[nodiscard]] std::vector<ProbePairRow> mesh() const;
	[[nodiscard]] std::shared_ptr<const Snapshot> newest() const;
	[[nodiscard]] News news() const;
	[[nodiscard]] Config config() const;
	[[nodiscard]] std::map<std::string, History> group_histories() const;
	[[nodiscard]] History flow_history(std::uint64_t cookie) const;
	[[nodiscard]] double history_step_s() const;
	// From the next snapshot on, that flow has a history; for a minute.
	void watch(std::uint64_t cookie, std::int64_t now_ns);
	// 0 until collection has begun; then within how much time a snapshot has to come.
	[[nodiscard]] double late_after_s() const;

	// Who has a socket open; may take some milliseconds.
	[[nodiscard]] std::optional<Process> process_of(std::uint32_t inode, const std::string &cgroup) const
	{
		return processes_.find(inode, cgroup);
	}

	HttpStats http;

private:
	[[nodiscard]] double step_s() const;
	void add(History &history, const HistoryPoint &point) const;
	void add_groups(const Summary &summary);
	void add_flows(const FlowSet &set);

	mutable SocketProcesses processes_{Cgroups::find_mount()}; // has a lock of its own
	mutable std::mutex mutex_;
	std::shared_ptr<const Snapshot> newest_;
	std::optional<Trouble> trouble_;
	std::uint64_t news_ = 0;
	std::shared_ptr<const ProbeNews> probes_;
	std::vector<ProbePairRow> mesh_;
	Config config_;
	std::map<std::string, History> groups_;
	std::unordered_map<std::uint64_t, History> flows_;
	std::unordered_map<std::uint64_t, std::int64_t> watched_; // until when
};

} // namespace swift
