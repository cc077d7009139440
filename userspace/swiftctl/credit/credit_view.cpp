// SPDX-License-Identifier: MIT
// What `swiftctl credit` prints for people; the JSON is credit_json.cpp's.
#include <fmt/format.h>

#include "credit.h"
#include "flows.h"
#include "printable.h"
#include "text.h"

namespace swift {

namespace {

// "0", "950", "1.18M"
Cell bytes_cell(std::uint64_t bytes)
{
	return {si_text(bytes), bytes == 0 ? Colour::dim : Colour::none};
}

Cell known_cell(bool is_known, std::string text)
{
	return is_known ? Cell{std::move(text)} : Cell{no_value, Colour::dim};
}

Cell standing_cell(Standing s)
{
	const Colour colour = s == Standing::link				      ? Colour::yellow :
			      s == Standing::sender || s == Standing::network	      ? Colour::red :
			      s == Standing::late || s == Standing::buffer	      ? Colour::magenta :
			      s == Standing::silent || s == Standing::no_rate	      ? Colour::red :
			      s == Standing::idle				      ? Colour::dim :
											Colour::none;

	return {std::string(standing_text(s)), colour};
}

Cell lent_cell(const CreditLink &l)
{
	if (l.most_bytes == 0)
		return known_cell(false, {});
	const unsigned percent = static_cast<unsigned>(100.0 * l.lent_bytes / l.most_bytes);

	return {fmt::format("{} ({} %)", si_text(l.lent_bytes), percent), percent >= 95 ? Colour::yellow : Colour::none};
}

} // namespace

std::string CreditSnapshot::device(std::uint32_t ifindex) const
{
	const auto at = devices.find(ifindex);

	return at != devices.end() ? printable(at->second) :
	       ifindex == 0	   ? std::string(no_value) :
				     std::to_string(ifindex);
}

Table credit_links_table(const CreditSnapshot &s)
{
	Table table;

	table.columns = {{"DEVICE"},	      {"Mb/s", true},	      {"RTT", true, 2}, {"LOOP", true, 3},
			 {"BDP B", true, 4}, {"UNASKED B", true, 5}, {"B B", true, 1},	{"LENT B", true}};
	for (const CreditLink &l : s.links) {
		const bool used = l.bdp_bytes > 0; // something has come

		table.rows.push_back({{s.device(l.ifindex)},
				      l.mbps ? Cell{std::to_string(l.mbps)} : Cell{"unknown", Colour::red},
				      known_cell(used, span_text(l.rtt_ns, false)),
				      known_cell(used, span_text(l.loop_ns, false)),
				      known_cell(used, si_text(l.bdp_bytes)),
				      known_cell(used, si_text(l.unasked_bytes)),
				      known_cell(used, si_text(l.most_bytes)),
				      lent_cell(l)});
	}
	return table;
}

Table credit_peers_table(const CreditSnapshot &s)
{
	Table table;

	table.columns = {{"PEER"},	     {"DEVICE", false, 3}, {"FLOWS", true, 2},	{"WAIT", true, 1},
			 {"WANTED B", true}, {"LENT B", true},	   {"BUCKET B", true}, {"STANDING"},
			 {"BY CSN B", true, 4}, {"BY MARKS B", true, 5}};
	for (const CreditPeer &p : s.peers) {
		const bool in_book = p.most_bytes > 0;

		table.rows.push_back({{p.address.text()},
				      {s.device(p.ifindex)},
				      {std::to_string(p.flows)},
				      {std::to_string(p.waiting), p.waiting ? Colour::none : Colour::dim},
				      bytes_cell(p.wanted_bytes),
				      bytes_cell(p.lent_bytes),
				      known_cell(in_book, si_text(p.most_bytes)),
				      standing_cell(p.standing),
				      known_cell(in_book, si_text(p.by_csn_bytes)),
				      known_cell(in_book, si_text(p.by_marks_bytes))});
	}
	return table;
}

Table credit_flows_table(const CreditSnapshot &s)
{
	Table table;

	table.columns = {{"PEER"},	     {"LOCAL", false, 1}, {"DEVICE", false, 2},
			 {"WANTED B", true}, {"LENT B", true},	  {"STANDING"}};
	for (const CreditFlow &f : s.flows)
		table.rows.push_back({{f.remote.text()},
				      {f.local.text()},
				      {s.device(f.ifindex)},
				      bytes_cell(f.wanted_bytes),
				      bytes_cell(f.lent_bytes),
				      standing_cell(f.standing)});
	return table;
}

std::vector<std::string> credit_notes(const CreditSnapshot &s)
{
	std::vector<std::string> notes;

	if (!s.on)
		notes.emplace_back("credit is off here: sysctl -w net.ipv4.tcp_swift.credit=1, at both ends, for connections to come");
	else if (s.all_flows == 0)
		notes.emplace_back("no flow here has negotiated credit: it takes net.ipv4.tcp_swift.credit=1 at both ends, before "
				   "it is opened");
	else if (s.peers.size() < s.all_peers || s.flows.size() < s.all_flows)
		notes.push_back(fmt::format("{} of {} peers, {} of {} flows shown", s.peers.size(), s.all_peers, s.flows.size(),
					    s.all_flows));
	if (s.on && s.links.empty())
		notes.emplace_back("no device has a rate that is known, so nothing is lent: sysctl -w net.ipv4.tcp_swift.link_mbps=N");
	if (s.interrupted)
		notes.emplace_back("flows came and went while the list was read: one may be missing");
	return notes;
}

std::vector<std::string> credit_screen(const CreditSnapshot &s, bool flows, bool wide, const Terminal &terminal)
{
	std::vector<std::string> links = screen(credit_links_table(s), {}, wide, terminal);
	const Table entries = flows ? credit_flows_table(s) : credit_peers_table(s);

	if (!links.empty() && !entries.rows.empty())
		links.emplace_back();
	const std::vector<std::string> rest = screen(entries, credit_notes(s), wide, terminal);

	links.insert(links.end(), rest.begin(), rest.end());
	return links;
}

} // namespace swift
