// SPDX-License-Identifier: MIT
// One look at the host at a time: flows, module, clocks, into a Snapshot. What is missing (the
// module, an interface, a clock) is a state that the snapshot tells; an Error is when the
// kernel would not list its sockets. Only its own thread may use it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bpf_host.h"
#include "credit_book.h"
#include "ended_book.h"
#include "ended_flows.h"
#include "flow_observer.h"
#include "nics.h"
#include "options.h"
#include "places.h"
#include "store.h"
#include "system.h"
#include "telemetry.h"

namespace swift {

// "name value" per line, as /proc/net/tcp_swift has it; other lines are passed over.
[[nodiscard]] std::map<std::string, std::int64_t> parse_counters(std::string_view text);
[[nodiscard]] FlowTableOptions table_options(const Config::Collect &config);
// @name_of: a device by its number.
[[nodiscard]] std::vector<CreditRow> credit_rows(const std::vector<CreditLink> &links,
						 const std::function<std::string(std::uint32_t)> &name_of);
[[nodiscard]] ClockRow clock_row(const NicClock &clock, std::string dev, std::int64_t now_ns);

// Without flows; none: it is not loaded. An Error: it is, but of another version, say.
[[nodiscard]] Result<std::optional<TelemetryReading>> loaded_telemetry(const BpfHost &bpf);

// Adds what an interval saw to what was before, groups that have long been gone left out. The groups with most
// traffic have a place, the others are counted together.
class Counters {
public:
	void add(const Summary &summary, std::int64_t keep_ns, const std::vector<EndedCount> &ended = {},
		 std::size_t most = static_cast<std::size_t>(Config::Collect().max_groups));
	[[nodiscard]] std::vector<GroupCounters> all() const;
	[[nodiscard]] std::uint64_t retrans_pkts() const { return retrans_pkts_; }

private:
	GroupCounters &at(const FlowGroup &group, std::int64_t now_ns);
	void know(const FlowGroup &group, double traffic, std::int64_t now_ns);

	Places<FlowGroup> places_;
	std::map<FlowGroup, GroupCounters> groups_; // with a place, and the rest
	std::uint64_t retrans_pkts_ = 0;
};

// Owners, or owners by prefix, those with most traffic by themselves, the rest as one, "other".
class OwnerBook {
public:
	// Beyond that, who is new is of the rest until others have had no flow for a while.
	static constexpr std::size_t most_known = 16384;

	// @owners of @summary, as they are to be shown: with what found no place in one.
	std::vector<OwnerSummary> add(const Summary &summary, const std::vector<OwnerSummary> &owners, std::size_t most,
				      std::int64_t keep_ns);
	[[nodiscard]] std::vector<OwnerCounters> all() const;

private:
	using Key = std::array<std::string, 3>; // netns, name, prefix

	Places<Key> places_;
	std::map<Key, OwnerCounters> owners_; // with a place, and the rest
};

class Collector {
public:
	// @own_clocks: of the feeder that runs in here, if one does.
	using OwnClocks = std::function<std::vector<ClockRow>()>;

	static Result<Collector> open(const Config::Collect &config, OwnClocks own_clocks);

	// @alive is called now and then while the kernel lists many flows.
	Result<std::shared_ptr<Snapshot>> collect(const std::function<void()> &alive = {});
	// The telemetry's: for who asks for them, not for each look.
	Result<void> visit_flows(const Telemetry::ShowFlow &show);
	void reconfigure(const Config::Collect &config);

	// As in the snapshots, but of looks that failed as well.
	[[nodiscard]] const CollectStats &stats() const { return stats_; }
	// The CPU time that the newest look took, with the telemetry's flows, if they were visited after it.
	[[nodiscard]] double cpu_s() const { return cpu_s_; }

private:
	Collector(const Config::Collect &config, OwnClocks own_clocks, FlowObserver flows);
	void count_error(const std::string &what) { stats_.errors[what]++; }
	std::unique_ptr<HistogramSource> read_telemetry();
	void look_at_module(Snapshot &s);
	void look_at_clocks(Snapshot &s);
	void look_at_credit(Snapshot &s);
	void look_at_process(Snapshot &s);
	void judge_netns(const FlowLook &look);
	std::vector<EndedCount> take_ended(const FlowSet &set);

	Config::Collect config_;
	OwnClocks own_clocks_;
	std::unique_ptr<Files> files_ = real_system();
	std::unique_ptr<Nics> nics_ = real_nics();
	std::unique_ptr<BpfHost> bpf_ = real_bpf_host();
	std::optional<TelemetryReading> telemetry_; // the newest, without flows
	std::string telemetry_trouble_; // of the newest look, told once
	FlowObserver flows_;
	Counters counters_;
	OwnerBook owners_;
	OwnerBook owner_prefixes_;
	std::unique_ptr<EndedFlows> ended_;
	bool ended_tried_ = false;
	EndedBook ended_book_;
	EndedTotals ended_totals_;
	std::string netns_trouble_; // told once
	CollectStats stats_;
	std::uint64_t number_ = 0;
	double cpu_s_ = 0;
};

} // namespace swift
