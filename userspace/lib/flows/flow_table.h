// SPDX-License-Identifier: MIT
// The flows of a host between two dumps: who came, who went, and how fast each goes. Made
// for 100,000 flows a second: a row is a few cache lines of plain data, and adding a flow
// allocates nothing. What the rows mean together is summary.h's.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "flow.h"
#include "iface_map.h"
#include "owner.h"

namespace swift {

inline constexpr std::string_view label_other = "other"; // all that found no place
inline constexpr std::string_view label_others = "others"; // network namespaces but our own

// What flows are counted together by. Bounded in number, unlike flows.
struct FlowGroup {
	std::string dst_prefix;
	std::string cc;
	std::string iface;
	std::string netns = {}; // empty: our own; else label_others: all others together

	[[nodiscard]] std::string key() const
	{
		return dst_prefix + "|" + cc + "|" + iface + (netns.empty() ? "" : "|" + netns);
	}
	auto operator<=>(const FlowGroup &) const = default;
};

// What TCP knows of who holds a sender back, besides its window.
struct SenderState {
	bool known = false; // the kernel gave its tcp_info
	bool app_limited = false; // its newest rate is the application's
	bool backlogged = false; // the application has written more than was sent
	bool in_flight = false; // something is to be acknowledged
	// Since the dump before; of a flow that is new, since it began.
	float busy = 0; // of the time: it had data
	float rwnd_limited = 0; // of the busy time
	float sndbuf_limited = 0;

	[[nodiscard]] bool idle() const { return known && busy <= 0 && !backlogged && !in_flight; }
};
[[nodiscard]] SenderState sender_state(const TcpCounters &tcp);

struct FlowRow {
	std::uint64_t cookie = 0;
	std::uint64_t bytes_acked = 0;
	std::int64_t first_seen_ns = 0; // CLOCK_MONOTONIC
	float rate_Bps = 0; // over the last interval; 0 for a new flow
	float retrans_per_s = 0;
	std::uint32_t srtt_us = 0; // 0: none measured
	std::uint32_t min_rtt_us = 0;
	std::uint32_t snd_cwnd_pkts = 0;
	std::uint32_t retrans_total = 0;
	std::uint32_t retrans_new = 0; // in the last interval, as are these
	std::uint32_t segments_sent = 0;
	std::uint32_t segments_new = 0;
	std::uint64_t bytes_new = 0; // acknowledged
	SwiftRecord swift; // if measured
	SenderState sender;
	SenderTimes times;
	std::uint32_t group = 0; // of FlowSet::groups
	std::uint32_t owner = 0; // of FlowSet::owners
	std::uint32_t inode = 0; // of the socket; 0: nobody has it open any more
	std::array<std::uint8_t, 16> local_bytes{};
	std::array<std::uint8_t, 16> remote_bytes{};
	std::uint16_t local_port = 0;
	std::uint16_t remote_port = 0;
	bool local_v6 = false; // both are IPv6, but for what they map
	bool measured = false; // there is a record of swift's
	bool from_bpf = false;
	std::uint8_t state = 0;
	std::uint8_t cc = 0; // of FlowSet::ccs
	std::uint16_t iface = 0; // of FlowSet::ifaces
	std::uint16_t netns = 0; // of FlowSet::netns; 0: our own

	[[nodiscard]] Endpoint local() const { return {{local_v6, local_bytes}, local_port}; }
	[[nodiscard]] Endpoint remote() const { return {{local_v6, remote_bytes}, remote_port}; }
	[[nodiscard]] bool has_min_rtt() const { return min_rtt_us != 0 && min_rtt_us != 0xffffffffU; }
};

// Who has flows: a control group in a network namespace.
struct FlowOwner {
	std::uint16_t netns = 0; // of FlowSet::netns
	std::uint64_t cgroup_id = 0; // 0: not known
	Owner who;
};

// One dump, never changed after it was made.
struct FlowSet {
	std::int64_t now_ns = 0; // CLOCK_MONOTONIC
	double interval_s = 0; // since the dump before; 0 for the first
	std::vector<FlowRow> rows;
	std::vector<FlowGroup> groups; // with holes: those without a flow may be empty
	std::vector<std::string> ccs; // with holes, as are the interfaces
	std::vector<std::string> ifaces;
	// Of this dump alone: names, the first is our own; and owners, the first is "other".
	std::vector<std::string> netns = std::vector<std::string>(1);
	std::vector<FlowOwner> owners = std::vector<FlowOwner>(1);
	std::vector<std::uint64_t> passed_over; // cookies of flows that are not collected, if they are asked for
	std::size_t joined = 0;
	std::size_t left = 0;
	std::vector<std::uint32_t> left_of_group; // of each of @groups, flows that have ended
	// Out of sight with their namespaces, as they were last: neither there nor ended (FlowTable::most_missed).
	std::vector<FlowRow> missed;
	std::size_t dropped_prefixes = 0; // flows whose prefix had to become "other"
};

// @set without the module's flows of other network namespaces, each of which has targets of its own;
// itself, if it has none.
[[nodiscard]] std::shared_ptr<const FlowSet> of_own_targets(std::shared_ptr<const FlowSet> set);

struct FlowTableOptions {
	std::vector<std::string> ccs; // to keep; none, or "*": all
	std::vector<Prefix> prefixes; // the longest that holds the remote address, else /24 and /64
	std::size_t max_prefixes = 256;
	std::int64_t keep_group_ns = 300'000'000'000; // a group, or any label, without flows
	bool remember_passed_over = false;
};

// The prefix that @remote counts by.
[[nodiscard]] Prefix prefix_of(const Address &remote, const std::vector<Prefix> &prefixes);

class FlowTable {
public:
	explicit FlowTable(FlowTableOptions options);

	// Who a control group is; none: owners have numbers alone. Called once per dump for each.
	using NameOwner = std::function<Owner(std::uint64_t cgroup_id)>;
	void name_owners_by(NameOwner name) { name_owner_ = std::move(name); }

	// A dump: begin(), add() for each flow, end(). A flow that is added twice counts once, as it
	// was first. Interfaces are asked until end().
	void begin(std::int64_t now_ns, const IfaceMap &ifaces, std::string_view netns = {});
	// What is added from here on is of another network namespace.
	void enter(std::string_view netns, const IfaceMap &ifaces);
	// Not all flows of the namespace that was entered last were shown.
	void not_whole() { whole_.back() = false; }
	void add(const Flow &flow);
	std::shared_ptr<const FlowSet> end();

	// For the dumps to come; groups begin anew.
	void reconfigure(FlowTableOptions options);

	// Flows of a namespace that is missing, or not whole, in so many dumps are taken for ended. Those that come back
	// before go on from where they were: what they had sent counts once.
	static constexpr unsigned most_missed = 3;

private:
	class Index { // open addressing, from a flow's key to its row
	public:
		void reset(std::size_t rows);
		// The row with @row's key, or nullptr.
		const FlowRow *find(const std::vector<FlowRow> &rows, const FlowRow &row) const;
		// The slot of @row's key: 0, or the number of its row + 1.
		std::uint32_t &slot(const std::vector<FlowRow> &rows, const FlowRow &row);
		// That of @row is wanted soon.
		void prefetch(const FlowRow &row) const;

	private:
		struct Slot {
			std::uint32_t row = 0; // its number + 1
			std::uint32_t tag = 0; // of its key: other rows need not be looked at
		};
		// Of the first slot from @row's on that has its key, or is empty.
		[[nodiscard]] std::size_t place(const std::vector<FlowRow> &rows, const FlowRow &row,
						std::uint64_t hash) const;

		std::vector<Slot> slots_;
	};

	struct PrefixHash {
		std::size_t operator()(const std::pair<Address, unsigned> &p) const;
	};
	struct GroupState {
		std::uint32_t prefix = 0;
		std::uint8_t cc = 0;
		std::uint16_t iface = 0;
		bool others = false; // of other network namespaces
		std::int64_t seen_ns = 0;
		bool live = false;
	};
	// Names that come and go, in a number of places that does not grow. [0] is "other".
	class Names {
	public:
		Names(std::size_t most) : most_(most) { reset(); }
		void reset();
		// Its place, which is new if @is_new; 0: there is no more room.
		std::size_t place(std::string_view name, std::int64_t now_ns, bool &is_new);
		void see(std::size_t place, std::int64_t now_ns) { seen_ns_[place] = now_ns; }
		// Names that were last seen before @then_ns make room.
		void expire(std::int64_t then_ns);
		[[nodiscard]] const std::vector<std::string> &all() const { return names_; }

	private:
		std::size_t most_;
		std::vector<std::string> names_;
		std::vector<std::int64_t> seen_ns_;
		std::size_t last_ = 0; // place that was asked for
	};
	struct Missed {
		FlowRow row; // as it was last
		std::string netns;
		FlowOwner owner;
		std::int64_t seen_ns = 0;
		unsigned dumps = 0; // without it
	};
	struct PrefixState {
		std::string text;
		std::pair<Address, unsigned> key;
		std::size_t groups = 0;
	};

	[[nodiscard]] bool wanted(const std::string &cc);
	void link(FlowRow &row);
	void join(FlowRow &row);
	void part();
	bool come_back(FlowRow &row);
	void show_missed();
	std::uint8_t cc_of(const std::string &cc);
	std::uint16_t iface_of(const FlowRow &row);
	std::uint32_t owner_of(const Flow &flow);
	std::uint32_t prefix_id(const Address &remote);
	std::uint32_t group_of(const FlowRow &row, const Address &remote);
	void expire_groups();

	FlowTableOptions options_;
	std::shared_ptr<const FlowSet> before_;
	std::shared_ptr<FlowSet> now_;
	Index before_index_;
	Index now_index_;
	std::size_t hint_ = 0; // where in before_ the next flow is likely to be
	std::vector<const IfaceMap *> ifaces_; // of each of now_'s namespaces
	std::unordered_map<std::uint64_t, std::uint32_t> owner_ids_; // by cgroup, of the namespace that was entered last
	NameOwner name_owner_;
	std::uint64_t ifaces_generation_ = 0;
	bool relabel_ = false; // a route may lead through another interface
	bool regroup_ = false; // old rows' groups are of no use
	std::vector<bool> stayed_; // of before_'s rows
	std::vector<bool> whole_; // of now_'s namespaces
	std::unordered_map<std::uint64_t, Missed> missed_; // by cookie

	Names ccs_;
	std::vector<bool> cc_wanted_;
	Names iface_names_;
	std::vector<PrefixState> prefixes_; // [0]: "other"
	std::vector<std::uint32_t> free_prefixes_;
	std::unordered_map<std::pair<Address, unsigned>, std::uint32_t, PrefixHash> prefix_ids_;
	std::vector<GroupState> groups_;
	std::vector<FlowGroup> group_labels_;
	std::vector<std::uint32_t> free_groups_;
	std::unordered_map<std::uint64_t, std::uint32_t> group_ids_;
};

} // namespace swift
