// SPDX-License-Identifier: MIT
#include "flow_table.h"

#include "flow_json.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <unordered_set>

namespace swift {

namespace {

constexpr std::size_t most_ccs = 32; // names; more share "other"
constexpr std::size_t most_ifaces = 64;
constexpr std::size_t most_netns = 4096; // and more share "other", as owners do
constexpr std::size_t most_owners = 16384;
constexpr std::uint32_t others_bit = 1U << 31; // in a group's key
constexpr std::size_t most_groups_per_prefix = 8; // on average
constexpr std::size_t least_slots = 1024;
constexpr std::size_t most_missed_flows = 1 << 17; // and more are taken for ended at once
constexpr std::size_t prefetched_rows = 16;
constexpr unsigned default_v4_bits = 24;
constexpr unsigned default_v6_bits = 64;

std::uint64_t mix(std::uint64_t v)
{
	v ^= v >> 32;
	v *= 0xd6e8feb86659fd93U;
	v ^= v >> 32;
	v *= 0xd6e8feb86659fd93U;
	return v ^ v >> 32;
}

std::uint64_t hash_of(const FlowRow &row)
{
	std::uint64_t remote_head = 0;

	std::memcpy(&remote_head, row.remote_bytes.data(), sizeof(remote_head));
	return mix(row.cookie ^ std::uint64_t{row.local_port} << 48 ^
		   std::uint64_t{row.remote_port} << 32 ^ std::rotl(remote_head, 24));
}

bool same_flow(const FlowRow &a, const FlowRow &b)
{
	return a.cookie == b.cookie && a.local_port == b.local_port &&
	       a.remote_port == b.remote_port && a.local_v6 == b.local_v6 &&
	       a.remote_bytes == b.remote_bytes && a.local_bytes == b.local_bytes;
}

// @now and @before: sums that never get smaller.
void set_shares(SenderState &s, const SenderTimes &now, const SenderTimes &before, double interval_s)
{
	const auto since = [](std::uint64_t a, std::uint64_t b) { return static_cast<double>(a > b ? a - b : 0); };
	const double busy_us = since(now.busy_us, before.busy_us);
	const auto of_busy = [&](double us) {
		return busy_us > 0 ? static_cast<float>(std::min(us / busy_us, 1.0)) : 0.0F;
	};

	s.busy = static_cast<float>(std::min(busy_us / (interval_s * 1e6), 1.0));
	s.rwnd_limited = of_busy(since(now.rwnd_limited_us, before.rwnd_limited_us));
	s.sndbuf_limited = of_busy(since(now.sndbuf_limited_us, before.sndbuf_limited_us));
}

void count(FlowRow &row, const FlowRow &before, double interval_s)
{
	row.first_seen_ns = before.first_seen_ns;
	if (!row.sender.known || !before.sender.known || interval_s <= 0)
		return;
	set_shares(row.sender, row.times, before.times, interval_s);
	if (row.bytes_acked > before.bytes_acked)
		row.bytes_new = row.bytes_acked - before.bytes_acked;
	row.segments_new = row.segments_sent - before.segments_sent;
	row.rate_Bps = static_cast<float>(static_cast<double>(row.bytes_new) / interval_s);
	if (row.retrans_total > before.retrans_total)
		row.retrans_new = row.retrans_total - before.retrans_total;
	row.retrans_per_s = static_cast<float>(row.retrans_new / interval_s);
}

} // namespace

SenderState sender_state(const TcpCounters &tcp)
{
	SenderState s;

	s.known = true;
	s.app_limited = tcp.app_limited;
	s.backlogged = tcp.notsent_bytes > 0;
	s.in_flight = tcp.unacked_pkts > 0;
	// How old it is nobody says: it is busy if it is now.
	set_shares(s, tcp.times, {}, 1);
	s.busy = s.backlogged || s.in_flight ? 1 : 0;
	return s;
}

std::shared_ptr<const FlowSet> of_own_targets(std::shared_ptr<const FlowSet> set)
{
	const auto other = [](const FlowRow &row) { return row.netns != 0 && !row.from_bpf; };

	if (std::none_of(set->rows.begin(), set->rows.end(), other))
		return set;
	auto own = std::make_shared<FlowSet>(*set);

	std::erase_if(own->rows, other);
	return own;
}

Prefix prefix_of(const Address &remote, const std::vector<Prefix> &prefixes)
{
	const Address a = remote.unmapped();
	const Prefix *best = nullptr;

	for (const Prefix &p : prefixes)
		if (p.contains(a) && (!best || p.length > best->length))
			best = &p;
	return best ? Prefix::around(best->address, best->length) :
		      Prefix::around(a, a.v6 ? default_v6_bits : default_v4_bits);
}

// --- Index -----------------------------------------------------------------------------

void FlowTable::Index::reset(std::size_t rows)
{
	slots_.assign(std::bit_ceil(std::max(rows * 2 + 2, least_slots)), {});
}

std::size_t FlowTable::Index::place(const std::vector<FlowRow> &rows, const FlowRow &row,
				    std::uint64_t hash) const
{
	const std::size_t mask = slots_.size() - 1;

	for (std::size_t at = hash & mask;; at = (at + 1) & mask) {
		const Slot &s = slots_[at];

		if (s.row == 0 || (s.tag == hash >> 32 && same_flow(rows[s.row - 1], row)))
			return at;
	}
}

void FlowTable::Index::prefetch(const FlowRow &row) const
{
	__builtin_prefetch(&slots_[hash_of(row) & (slots_.size() - 1)], 1);
}

std::uint32_t &FlowTable::Index::slot(const std::vector<FlowRow> &rows, const FlowRow &row)
{
	const std::uint64_t hash = hash_of(row);
	Slot &s = slots_[place(rows, row, hash)];

	s.tag = static_cast<std::uint32_t>(hash >> 32);
	return s.row;
}

const FlowRow *FlowTable::Index::find(const std::vector<FlowRow> &rows, const FlowRow &row) const
{
	const Slot &s = slots_[place(rows, row, hash_of(row))];

	return s.row == 0 ? nullptr : &rows[s.row - 1];
}

// --- Labels ----------------------------------------------------------------------------

std::size_t FlowTable::PrefixHash::operator()(const std::pair<Address, unsigned> &p) const
{
	std::uint64_t halves[2];

	std::memcpy(halves, p.first.bytes.data(), sizeof(halves));
	return mix(halves[0] ^ mix(halves[1] ^ p.second << 1 ^ (p.first.v6 ? 1U : 0U)));
}

void FlowTable::Names::reset()
{
	names_ = {std::string(label_other)};
	seen_ns_ = {0};
	last_ = 0;
}

std::size_t FlowTable::Names::place(std::string_view name, std::int64_t now_ns, bool &is_new)
{
	std::size_t room = 0;

	is_new = false;
	if (last_ != 0 && names_[last_] == name) { // as most often
		seen_ns_[last_] = now_ns;
		return last_;
	}
	for (std::size_t i = 1; i < names_.size(); i++) {
		if (names_[i] == name && seen_ns_[i] >= 0) {
			seen_ns_[i] = now_ns;
			return last_ = i;
		}
		if (seen_ns_[i] < 0 && room == 0)
			room = i;
	}
	if (room == 0 && names_.size() >= most_)
		return 0;
	if (room == 0) {
		room = names_.size();
		names_.emplace_back();
		seen_ns_.emplace_back();
	}
	names_[room] = name;
	seen_ns_[room] = now_ns;
	is_new = true;
	return room;
}

void FlowTable::Names::expire(std::int64_t then_ns)
{
	for (std::size_t i = 1; i < names_.size(); i++) {
		if (seen_ns_[i] > then_ns || seen_ns_[i] < 0)
			continue;
		names_[i].clear();
		seen_ns_[i] = -1;
	}
	last_ = 0;
}

std::uint8_t FlowTable::cc_of(const std::string &cc)
{
	bool is_new = false;
	const std::size_t i = ccs_.place(cc, now_->now_ns, is_new);

	if (is_new) {
		cc_wanted_.resize(ccs_.all().size());
		cc_wanted_[i] = options_.ccs.empty() ||
				std::any_of(options_.ccs.begin(), options_.ccs.end(),
					    [&](const std::string &c) { return c == "*" || c == cc; });
	}
	return static_cast<std::uint8_t>(i);
}

std::uint16_t FlowTable::iface_of(const FlowRow &row)
{
	bool is_new = false;

	return static_cast<std::uint16_t>(
		iface_names_.place(ifaces_[row.netns]->find(row.local().address), now_->now_ns, is_new));
}

std::uint32_t FlowTable::owner_of(const Flow &flow)
{
	const auto [at, is_new] =
		owner_ids_.try_emplace(flow.cgroup_id, static_cast<std::uint32_t>(now_->owners.size()));

	if (!is_new)
		return at->second;
	if (now_->owners.size() >= most_owners)
		return at->second = 0;
	now_->owners.push_back({static_cast<std::uint16_t>(now_->netns.size() - 1), flow.cgroup_id,
				name_owner_ && flow.cgroup_id != 0 ? name_owner_(flow.cgroup_id) : Owner{}});
	return at->second;
}

std::uint32_t FlowTable::prefix_id(const Address &remote)
{
	const Prefix p = prefix_of(remote, options_.prefixes);
	const std::pair key(p.address, p.length);
	const auto at = prefix_ids_.find(key);

	if (at != prefix_ids_.end())
		return at->second;
	if (prefix_ids_.size() >= options_.max_prefixes)
		return 0;

	std::uint32_t id = 0;

	if (free_prefixes_.empty()) {
		id = static_cast<std::uint32_t>(prefixes_.size());
		prefixes_.emplace_back();
	} else {
		id = free_prefixes_.back();
		free_prefixes_.pop_back();
	}
	prefixes_[id] = {p.text(), key, 0};
	prefix_ids_.emplace(key, id);
	return id;
}

std::uint32_t FlowTable::group_of(const FlowRow &row, const Address &remote)
{
	const std::uint32_t others = row.netns != 0 ? others_bit : 0;
	const auto key_of = [&](std::uint32_t prefix, std::uint8_t cc, std::uint16_t iface) {
		return std::uint64_t{prefix} << 32 | others | std::uint64_t{cc} << 16 | iface;
	};
	std::uint32_t prefix = prefix_id(remote);
	std::uint8_t cc = row.cc;
	std::uint16_t iface = row.iface;
	auto at = group_ids_.find(key_of(prefix, cc, iface));

	if (at == group_ids_.end() &&
	    group_ids_.size() >= (options_.max_prefixes + 1) * most_groups_per_prefix) {
		prefix = cc = 0;
		iface = 0;
		at = group_ids_.find(key_of(prefix, cc, iface));
	}
	if (at != group_ids_.end())
		return at->second;

	std::uint32_t id = 0;

	if (free_groups_.empty()) {
		id = static_cast<std::uint32_t>(groups_.size());
		groups_.emplace_back();
		group_labels_.emplace_back();
	} else {
		id = free_groups_.back();
		free_groups_.pop_back();
	}
	groups_[id] = {prefix, cc, iface, others != 0, now_->now_ns, true};
	group_labels_[id] = {prefixes_[prefix].text, ccs_.all()[cc], iface_names_.all()[iface],
			     others ? std::string(label_others) : std::string()};
	group_ids_.emplace(key_of(prefix, cc, iface), id);
	prefixes_[prefix].groups++;
	return id;
}

void FlowTable::expire_groups()
{
	for (std::uint32_t id = 0; id < groups_.size(); id++) {
		GroupState &g = groups_[id];

		if (!g.live || now_->now_ns - g.seen_ns < options_.keep_group_ns)
			continue;
		group_ids_.erase(std::uint64_t{g.prefix} << 32 | (g.others ? others_bit : 0) |
				 std::uint64_t{g.cc} << 16 | g.iface);
		if (--prefixes_[g.prefix].groups == 0 && g.prefix != 0) {
			prefix_ids_.erase(prefixes_[g.prefix].key);
			free_prefixes_.push_back(g.prefix);
		}
		g = {};
		group_labels_[id] = {};
		free_groups_.push_back(id);
	}
	// No group that is left has one of these: its flows had been seen as long ago.
	ccs_.expire(now_->now_ns - options_.keep_group_ns);
	iface_names_.expire(now_->now_ns - options_.keep_group_ns);
}

// --- A dump ----------------------------------------------------------------------------

FlowTable::FlowTable(FlowTableOptions options) : ccs_(most_ccs), iface_names_(most_ifaces)
{
	reconfigure(std::move(options));
}

void FlowTable::reconfigure(FlowTableOptions options)
{
	options_ = std::move(options);
	ccs_.reset();
	cc_wanted_ = {options_.ccs.empty() ||
		      std::find(options_.ccs.begin(), options_.ccs.end(), "*") != options_.ccs.end()};
	iface_names_.reset();
	prefixes_ = {{std::string(label_other), {}, 0}};
	free_prefixes_.clear();
	prefix_ids_.clear();
	groups_.clear();
	group_labels_.clear();
	free_groups_.clear();
	group_ids_.clear();
	missed_.clear();
	regroup_ = true;
}

void FlowTable::begin(std::int64_t now_ns, const IfaceMap &ifaces, std::string_view netns)
{
	const std::size_t rows = before_ ? before_->rows.size() : 0;

	now_ = std::make_shared<FlowSet>();
	now_->now_ns = now_ns;
	now_->interval_s = before_ ? static_cast<double>(now_ns - before_->now_ns) / 1e9 : 0;
	now_->rows.reserve(rows + rows / 16);
	hint_ = 0;
	ifaces_.clear();
	whole_.clear();
	now_->netns.clear();
	now_->owners[0].who.cgroup = label_other;
	enter(netns, ifaces);
	relabel_ = ifaces_generation_ != ifaces.generation();
	ifaces_generation_ = ifaces.generation();
}

void FlowTable::enter(std::string_view netns, const IfaceMap &ifaces)
{
	if (now_->netns.size() < most_netns) {
		now_->netns.emplace_back(netns);
		ifaces_.push_back(&ifaces);
		whole_.push_back(true);
	} else {
		now_->netns.back() = label_other;
	}
	owner_ids_.clear();
}

FlowRow row_of(const Flow &flow)
{
	FlowRow row;

	row.cookie = flow.cookie;
	row.local_bytes = flow.local.address.bytes;
	row.remote_bytes = flow.remote.address.bytes;
	row.local_v6 = flow.local.address.v6;
	row.local_port = flow.local.port;
	row.remote_port = flow.remote.port;

	row.inode = flow.inode;
	row.state = flow.state;
	row.from_bpf = flow.from_bpf;
	if (flow.tcp) {
		row.sender = sender_state(*flow.tcp);
		row.times = flow.tcp->times;
		row.bytes_acked = flow.tcp->bytes_acked;
		row.segments_sent = flow.tcp->segments_sent;
		row.srtt_us = flow.tcp->srtt_us;
		row.min_rtt_us = flow.tcp->min_rtt_us;
		row.snd_cwnd_pkts = flow.tcp->snd_cwnd_pkts;
		row.retrans_total = flow.tcp->retrans_total;
	}
	if (flow.swift) {
		row.measured = true;
		row.swift = *flow.swift;
	}
	return row;
}

void FlowTable::add(const Flow &flow)
{
	// What the kernel keeps of a connection that the peer has not closed (FIN_WAIT2, a small socket): its flow has ended.
	if (!flow.tcp && flow.cc.empty())
		return;
	const std::uint8_t cc = cc_of(flow.cc);

	if (!cc_wanted_[cc]) {
		if (options_.remember_passed_over)
			now_->passed_over.push_back(flow.cookie);
		return;
	}
	now_->rows.push_back(row_of(flow));
	now_->rows.back().cc = cc;
	now_->rows.back().netns = static_cast<std::uint16_t>(now_->netns.size() - 1);
	now_->rows.back().owner = owner_of(flow);
}

// Finds what @row was before, and where it counts.
void FlowTable::link(FlowRow &row)
{
	// The kernel lists flows in the same order each time, but for those that came or went.
	const FlowRow *before = nullptr;

	if (before_ && !before_->rows.empty()) {
		if (hint_ < before_->rows.size() && same_flow(before_->rows[hint_], row))
			before = &before_->rows[hint_];
		else
			before = before_index_.find(before_->rows, row);
		if (before)
			hint_ = static_cast<std::size_t>(before - before_->rows.data()) + 1;
		if (before)
			stayed_[static_cast<std::size_t>(before - before_->rows.data())] = true;
	}
	row.first_seen_ns = now_->now_ns;
	if (before)
		count(row, *before, now_->interval_s);
	else if (!come_back(row))
		join(row);

	// In "other" it may find a better place now.
	if (before && !regroup_ && !relabel_ && before->cc == row.cc && before->iface != 0 &&
	    groups_[before->group].prefix != 0) {
		row.iface = before->iface;
		row.group = before->group;
		iface_names_.see(row.iface, now_->now_ns);
	} else {
		row.iface = iface_of(row);
		row.group = group_of(row, row.remote().address);
	}
	groups_[row.group].seen_ns = now_->now_ns;
	now_->dropped_prefixes += groups_[row.group].prefix == 0;
}

// New since the dump before, so that all it has sent and lost it has since then. At first, and
// when it is other flows that are looked at, nobody knows.
void FlowTable::join(FlowRow &row)
{
	now_->joined++;
	if (!before_ || regroup_ || !row.sender.known)
		return;
	row.retrans_new = row.retrans_total;
	row.bytes_new = row.bytes_acked;
	row.segments_new = row.segments_sent;
}

// It was out of sight with its namespace. True: it is counted.
bool FlowTable::come_back(FlowRow &row)
{
	const auto at = missed_.find(row.cookie);

	if (at == missed_.end() || !same_flow(at->second.row, row))
		return false;
	count(row, at->second.row, static_cast<double>(now_->now_ns - at->second.seen_ns) / 1e9);
	missed_.erase(at);
	return true;
}

// What is not there any more has ended, or is out of sight for a while.
void FlowTable::part()
{
	std::unordered_set<std::string_view> whole;
	const auto ended = [&](const FlowRow &row) {
		now_->left++;
		now_->left_of_group[row.group]++;
	};

	for (std::size_t i = 0; i < whole_.size(); i++)
		if (whole_[i])
			whole.insert(now_->netns[i]);
	for (auto at = missed_.begin(); at != missed_.end();) {
		Missed &m = at->second;

		if (whole.contains(m.netns) || ++m.dumps == most_missed) {
			ended(m.row);
			at = missed_.erase(at);
		} else {
			groups_[m.row.group].seen_ns = now_->now_ns;
			++at;
		}
	}
	for (std::size_t i = 0; i < before_->rows.size(); i++) {
		const FlowRow &row = before_->rows[i];

		if (stayed_[i])
			continue;
		const std::string &netns = before_->netns[row.netns];

		if (whole.contains(netns) || missed_.size() >= most_missed_flows) {
			ended(row);
			continue;
		}
		missed_[row.cookie] = {row, netns, before_->owners[row.owner], before_->now_ns, 1};
		groups_[row.group].seen_ns = now_->now_ns;
	}
}

// Their namespaces and owners are not among those of this dump.
void FlowTable::show_missed()
{
	std::unordered_map<std::string_view, std::uint16_t> netns;
	std::map<std::pair<std::uint16_t, std::uint64_t>, std::uint32_t> owners;

	for (const auto &[cookie, m] : missed_) {
		FlowRow row = m.row;
		const auto [place, new_netns] = netns.try_emplace(m.netns, static_cast<std::uint16_t>(now_->netns.size()));

		if (new_netns)
			now_->netns.push_back(m.netns);
		row.netns = place->second;

		const auto [owner, new_owner] =
			owners.try_emplace({row.netns, m.owner.cgroup_id}, static_cast<std::uint32_t>(now_->owners.size()));

		if (new_owner)
			now_->owners.push_back({row.netns, m.owner.cgroup_id, m.owner.who});
		row.owner = owner->second;
		now_->missed.push_back(row);
	}
}

std::shared_ptr<const FlowSet> FlowTable::end()
{
	const std::size_t had = before_ ? before_->rows.size() : 0;
	std::vector<FlowRow> &rows = now_->rows;
	std::size_t kept = 0;

	// Each row's slot is somewhere else in a large table: memory, not work, is what it costs.
	now_index_.reset(rows.size());
	stayed_.assign(had, false);
	for (std::size_t i = 0; i < rows.size(); i++) {
		if (i + prefetched_rows < rows.size())
			now_index_.prefetch(rows[i + prefetched_rows]);

		FlowRow row = rows[i];
		std::uint32_t &slot = now_index_.slot(rows, row);

		if (slot != 0)
			continue;
		link(row);
		rows[kept] = row;
		slot = static_cast<std::uint32_t>(++kept);
	}
	rows.resize(kept);
	now_->left_of_group.assign(groups_.size(), 0);
	if (before_ && !regroup_)
		part();
	now_->groups = group_labels_; // with those that go now: what has left them is told
	expire_groups();
	now_->ccs = ccs_.all();
	now_->ifaces = iface_names_.all();
	show_missed();
	before_ = std::move(now_);
	now_.reset();
	std::swap(before_index_, now_index_);
	regroup_ = false;
	return before_;
}

} // namespace swift
