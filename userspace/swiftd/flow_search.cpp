// SPDX-License-Identifier: MIT
#include "flow_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "flow_json.h"

namespace swift {

namespace {

constexpr std::uint32_t rows_between_questions = 2048;
constexpr std::string_view netns_own = "own"; // as in collect.netns; beside label_others

double sort_key(const FlowRow &f, FlowSort by)
{
	switch (by) {
	case FlowSort::rate:
		break;
	case FlowSort::fabric:
		return f.measured ? f.swift.fabric_ns : -1.0;
	case FlowSort::host:
		return f.measured ? f.swift.endpoint_ns : -1.0;
	case FlowSort::rtt:
		return f.srtt_us;
	case FlowSort::window:
		return f.measured ? f.swift.window_pkts() : f.snd_cwnd_pkts;
	case FlowSort::retrans:
		return f.retrans_total;
	case FlowSort::age:
		return -static_cast<double>(f.first_seen_ns);
	}
	return static_cast<double>(f.rate_Bps);
}

// What is the same for every flow is found out once.
class Matcher {
public:
	Matcher(const FlowSet &set, const SummaryOptions &verdicts, const FlowSelection &q)
		: verdicts_(verdicts), q_(q)
	{
		for (const std::string &name : set.ifaces)
			iface_has_q_.push_back(name.find(q.q) != std::string::npos);
		for (const std::string &name : set.ifaces)
			iface_wanted_.push_back(!q.iface || *q.iface == name);
		for (std::size_t i = 0; i < set.netns.size(); i++)
			netns_wanted_.push_back(!q.netns || *q.netns == set.netns[i] || *q.netns == (i == 0 ? netns_own : label_others));
		for (const FlowOwner &o : set.owners) {
			const std::string &netns = set.netns[o.netns];
			const std::string &name = o.who.name();

			owner_wanted_.push_back(!q.owner || *q.owner == name);
			owner_has_q_.push_back(name.find(q.q) != std::string::npos || netns.find(q.q) != std::string::npos);
		}
		for (const std::string &cc : set.ccs)
			cc_wanted_.push_back(q.cc.empty() || cc == q.cc);
	}

	[[nodiscard]] bool operator()(const FlowRow &f) const
	{
		if (!owner_wanted_[f.owner] || !netns_wanted_[f.netns] || !iface_wanted_[f.iface])
			return false;
		if (!cc_wanted_[f.cc] || (q_.limit_by && (!f.measured || f.swift.limit() != *q_.limit_by)))
			return false;
		if (q_.prefix && !q_.prefix->contains(f.remote().address))
			return false;
		if (q_.held_by && held_by(f, verdicts_) != *q_.held_by)
			return false;
		return q_.q.empty() || iface_has_q_[f.iface] || owner_has_q_[f.owner] || f.remote().text().find(q_.q) != std::string::npos ||
		       f.local().text().find(q_.q) != std::string::npos || flow_id_text(f.cookie) == q_.q;
	}

private:
	const SummaryOptions &verdicts_;
	const FlowSelection &q_;
	std::vector<bool> iface_has_q_;
	std::vector<bool> iface_wanted_;
	std::vector<bool> netns_wanted_;
	std::vector<bool> owner_wanted_;
	std::vector<bool> owner_has_q_;
	std::vector<bool> cc_wanted_;
};

} // namespace

std::string FlowSelection::key() const
{
	// What is free text comes last, each with its length.
	const auto text = [](const std::optional<std::string> &s) {
		return s ? fmt::format("{}:{}", s->size(), *s) : std::string("-");
	};

	return fmt::format("{} {} {} {} {} {} {} {} {} {} {}:{}{}", static_cast<int>(sort), descending, limit, offset,
			   prefix ? prefix->text() : "", limit_by ? std::string(limit_text(*limit_by)) : "",
			   held_by ? std::string(bound_text(*held_by)) : "", text(iface), text(netns), text(owner), cc.size(), cc, q);
}

std::optional<FoundFlows> find_flows(const FlowSet &set, const SummaryOptions &verdicts, const FlowSelection &q,
				     const Cancelled &cancelled)
{
	const std::vector<FlowRow> &rows = set.rows;
	const Matcher matches(set, verdicts, q);
	std::vector<std::pair<double, std::uint32_t>> found;
	FoundFlows out;

	for (std::uint32_t i = 0; i < rows.size(); i++) {
		if (i % rows_between_questions == 0 && cancelled && cancelled())
			return std::nullopt;
		if (matches(rows[i]))
			found.emplace_back(sort_key(rows[i], q.sort), i);
	}
	// With the cookie, so that what is equal stays in its place.
	const auto before = [&](const auto &a, const auto &b) {
		if (a.first != b.first)
			return q.descending ? a.first > b.first : a.first < b.first;
		return rows[a.second].cookie < rows[b.second].cookie;
	};
	const std::size_t end = std::min(found.size(), q.offset + q.limit);

	std::partial_sort(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(end), found.end(), before);
	out.matched = found.size();
	for (std::size_t i = q.offset; i < end; i++)
		out.rows.push_back(found[i].second);
	return out;
}

} // namespace swift
