// SPDX-License-Identifier: MIT
#include "ended_book.h"

#include <algorithm>

namespace swift {

void EndedBook::remember(const FlowSet &set)
{
	for (const FlowRow &r : set.rows)
		if (known_.size() < most_known || known_.contains(r.cookie))
			known_[r.cookie] = {r.group, true, set.now_ns, r.bytes_acked, r.segments_sent, r.retrans_total};
	for (const std::uint64_t cookie : set.passed_over)
		if (known_.size() < most_known || known_.contains(cookie))
			known_[cookie] = {0, false, set.now_ns, 0, 0, 0};
}

FlowGroup EndedBook::unseen_group(const EndedFlow &f, const FlowTableOptions &options, const IfaceMap &ifaces,
				  std::int64_t now_ns)
{
	FlowGroup g = {prefix_of(f.remote.address, options.prefixes).text(), std::string(cc_unknown),
		       std::string(f.other_netns ? iface_unknown : ifaces.find(f.local.address)),
		       f.other_netns ? std::string(label_others) : std::string()};

	if (unseen_.size() >= options.max_prefixes && !unseen_.contains(g))
		g.dst_prefix = g.iface = label_other;
	unseen_[g] = now_ns;
	return g;
}

std::vector<EndedCount> EndedBook::add(const FlowSet &set, const std::vector<EndedFlow> &ended,
				       const FlowTableOptions &options, const IfaceMap &ifaces)
{
	const std::int64_t keep_ns = options.keep_group_ns / 2;
	std::vector<EndedCount> out;

	remember(set);
	for (const EndedFlow &f : ended) {
		const auto at = known_.find(f.cookie);
		const bool seen = at != known_.end();

		if (seen && !at->second.collected) {
			known_.erase(at);
			continue;
		}
		const Known before = seen ? at->second : Known{};
		EndedCount c;

		// A group that has made room for another since has no labels.
		c.labels = seen && before.group < set.groups.size() && !set.groups[before.group].dst_prefix.empty() ?
				   set.groups[before.group] :
				   unseen_group(f, options, ifaces, set.now_ns);
		c.seen = seen;
		c.flow = f;
		c.sent = f.segments_sent > 0 || before.segments > 0;
		c.bytes = std::max(f.bytes_acked, before.bytes);
		c.bytes_new = f.bytes_acked > before.bytes ? f.bytes_acked - before.bytes : 0;
		c.segments_new = f.segments_sent != 0 ? f.segments_sent - before.segments : 0;
		c.retrans_new = f.retrans_total > before.retrans ? f.retrans_total - before.retrans : 0;
		out.push_back(std::move(c));
		if (seen)
			known_.erase(at);
	}
	// Not at each look: it goes through all of them.
	if (set.now_ns - expired_ns_ >= keep_ns / 8) {
		expired_ns_ = set.now_ns;
		std::erase_if(known_, [&](const auto &k) { return set.now_ns - k.second.seen_ns >= keep_ns; });
		std::erase_if(unseen_, [&](const auto &u) { return set.now_ns - u.second >= options.keep_group_ns; });
	}
	return out;
}

} // namespace swift
