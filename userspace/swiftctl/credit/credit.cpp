// SPDX-License-Identifier: MIT
// `swiftctl credit`: asks the module, once or again and again, sums up by peer, and prints.
#include "credit.h"

#include <algorithm>
#include <array>
#include <tuple>

#include "clock_ns.h"
#include "route.h"
#include "say.h"
#include "system.h"
#include "text.h"
#include "watch.h"

namespace swift {

namespace {

class RealCreditHost final : public CreditHost {
public:
	explicit RealCreditHost(bool live) : live_(live) {}

	Result<CreditBook> book() override
	{
		if (!live_)
			return not_live();
		ASSIGN_OR_RETURN(auto client, CreditClient::open());
		return client.book();
	}

	Result<std::map<std::uint32_t, std::string>> devices() override
	{
		if (!live_)
			return not_live();
		ASSIGN_OR_RETURN(auto links, list_links());
		std::map<std::uint32_t, std::string> names;

		for (const Link &l : links)
			names.emplace(l.ifindex, l.name);
		return names;
	}

private:
	static Error not_live() { return Error{"only the live host can tell"}; }

	bool live_;
};

// Of those that wait most; of none that waits whoever comes last of idle, served and the rest.
Standing standing_of_most(const std::array<std::size_t, standings> &counts)
{
	Standing most = Standing::idle;
	std::size_t n = 0;

	for (std::size_t i = 0; i < standings; i++)
		if (waits(static_cast<Standing>(i)) && counts[i] > n) {
			most = static_cast<Standing>(i);
			n = counts[i];
		}
	for (std::size_t i = 0; n == 0 && i < standings; i++)
		if (counts[i] > 0)
			most = static_cast<Standing>(i);
	return most;
}

std::vector<CreditPeer> peers_of(const std::vector<CreditFlow> &flows)
{
	std::map<std::pair<std::uint32_t, Address>, std::pair<CreditPeer, std::array<std::size_t, standings>>> peers;
	std::vector<CreditPeer> out;

	for (const CreditFlow &f : flows) {
		auto &[p, counts] = peers[{f.ifindex, f.remote.address}];

		p.ifindex = f.ifindex;
		p.address = f.remote.address;
		p.flows++;
		p.waiting += waits(f.standing);
		p.wanted_bytes += f.wanted_bytes;
		p.lent_bytes += f.lent_bytes;
		counts[static_cast<std::size_t>(f.standing)]++;
		if (f.sender_most_bytes == 0)
			continue;
		p.most_bytes = f.sender_most_bytes;
		p.by_csn_bytes = f.sender_host_bytes;
		p.by_marks_bytes = f.sender_net_bytes;
	}
	for (auto &[key, of] : peers) {
		of.first.standing = standing_of_most(of.second);
		out.push_back(of.first);
	}
	std::sort(out.begin(), out.end(), [](const CreditPeer &a, const CreditPeer &b) {
		// Equal ones keep their places from one screen to the next.
		return std::tuple(b.wanted_bytes, b.waiting, a.address, a.ifindex) <
		       std::tuple(a.wanted_bytes, a.waiting, b.address, b.ifindex);
	});
	return out;
}

// Adds the flows and peers of @all that are asked for.
void choose_credit(std::vector<CreditFlow> all, const CreditQuery &query, CreditSnapshot &s)
{
	s.all_flows = all.size();
	s.all_peers = peers_of(all).size();
	std::erase_if(all, [&](const CreditFlow &f) { return !any_contains(query.peers, f.remote.address); });
	std::sort(all.begin(), all.end(), [](const CreditFlow &a, const CreditFlow &b) {
		return std::tie(b.wanted_bytes, a.remote, a.local) < std::tie(a.wanted_bytes, b.remote, b.local);
	});
	s.peers = peers_of(all);
	s.flows = std::move(all);
	if (query.top == 0)
		return;
	if (query.flows) {
		s.flows.resize(std::min(s.flows.size(), query.top));
		s.peers = peers_of(s.flows);
		return;
	}
	s.peers.resize(std::min(s.peers.size(), query.top));
	std::erase_if(s.flows, [&](const CreditFlow &f) {
		return std::none_of(s.peers.begin(), s.peers.end(), [&](const CreditPeer &p) {
			return p.address == f.remote.address && p.ifindex == f.ifindex;
		});
	});
}

} // namespace

std::unique_ptr<CreditHost> real_credit_host(const std::string &root)
{
	return std::make_unique<RealCreditHost>(root.empty());
}

Result<CreditQuery> CreditQuery::from(const CreditOptions &o)
{
	CreditQuery q;

	q.flows = o.flows;
	ASSIGN_OR_RETURN(q.peers, parse_prefixes("--peer", o.peers));
	RETURN_IF_ERROR(take_top(q.top, o.top));
	RETURN_IF_ERROR(take_watch(q.watch_s, o.watch));
	return q;
}

Result<CreditSnapshot> take_credit(CreditHost &host, const Files &files, const CreditQuery &query)
{
	CreditSnapshot s;
	ASSIGN_OR_RETURN(auto book, host.book());
	const auto on = read_sysctl(files, "net.ipv4.tcp_swift.credit");

	s.on = on && *on == "1";
	if (auto names = host.devices()) // numbers are better than nothing
		s.devices = std::move(*names);
	s.time_ns = clock_ns(CLOCK_REALTIME);
	s.interrupted = book.interrupted;
	s.links = std::move(book.links);
	choose_credit(std::move(book.flows), query, s);
	return s;
}

Result<int> run_credit(const CreditOptions &options)
{
	ASSIGN_OR_RETURN(const auto query, as_usage(CreditQuery::from(options)));

	RETURN_IF_ERROR(take_netns(options.netns));

	const auto system = real_system(options.root);
	const auto host = real_credit_host(options.root);
	auto snapshot = take_credit(*host, *system, query);

	if (!snapshot)
		return with_module_hint(*system, snapshot.error());
	if (query.watch_s > 0)
		return watch(query.watch_s, options.json, "... more below: --top or --peer shortens the list",
			     [&](const Terminal &terminal) -> Result<Lines> {
				     ASSIGN_OR_RETURN(const auto s, take_credit(*host, *system, query));
				     if (options.json)
					     return Lines{credit_json(s, true)};
				     auto lines = credit_screen(s, query.flows, options.wide, terminal);

				     lines.insert(lines.begin(), terminal.paint(local_time(s.time_ns), Colour::dim));
				     return lines;
			     });
	if (options.json)
		return leave(credit_json(*snapshot, false));
	return leave(credit_screen(*snapshot, query.flows, options.wide, standard_output()));
}

} // namespace swift
