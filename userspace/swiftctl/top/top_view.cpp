// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "flows.h"
#include "text.h"
#include "top.h"
#include "watch.h"

namespace swift {

namespace {

constexpr std::size_t delay_bar_width = 24;
constexpr std::size_t most_groups = 8; // of the screen; flows are to be seen as well
constexpr std::size_t wide_columns = 120; // with fewer, the delays matter more than the names
constexpr std::size_t longest_filter = 60;
constexpr std::size_t longest_v4 = 21, longest_address = 47; // with ports
constexpr std::size_t least_cut = 30; // what is left of a longer one in any case
constexpr std::size_t beside_addresses = 97; // columns of a flow's line
constexpr std::array<std::string_view, top_sorts> sort_names = {"delay", "fabric", "host", "rate", "retrans"};

std::string ns_text(double ns)
{
	return span_text(std::llround(ns), false);
}

std::string rate_text(double rate_Bps)
{
	return si_text(static_cast<std::uint64_t>(std::llround(rate_Bps * 8))) + "b/s";
}

// Keeps the end, which tells hosts and ports apart.
std::string cut_middle(const std::string &text, std::size_t width)
{
	if (text.size() <= width || width < 2)
		return text.substr(0, width);
	const std::size_t end = width / 2;

	return text.substr(0, width - 1 - end) + "~" + text.substr(text.size() - end);
}

// In characters: everything here is ASCII.
std::string cut(std::string text, std::size_t width)
{
	if (text.size() > width)
		text = width > 1 ? text.substr(0, width - 1) + "~" : text.substr(0, width);
	return text;
}

void fit(TopLine &line, std::size_t columns)
{
	std::size_t left = columns;

	for (TopSpan &s : line) {
		s.text = cut(std::move(s.text), left);
		left -= s.text.size();
	}
	std::erase_if(line, [](const TopSpan &s) { return s.text.empty(); });
}

bool contains(std::string_view text, std::string_view part)
{
	return text.find(part) != std::string_view::npos;
}

bool wanted(const FlowGroup &g, const std::string &filter)
{
	return filter.empty() || contains(g.dst_prefix, filter) || contains(g.cc, filter) ||
	       contains(g.iface, filter);
}

bool wanted(const FlowSet &set, const FlowRow &f, const std::string &filter)
{
	return filter.empty() || contains(f.remote().text(), filter) || contains(f.local().text(), filter) ||
	       contains(set.ccs[f.cc], filter) || contains(set.ifaces[f.iface], filter) ||
	       contains(set.netns[f.netns], filter) || contains(set.owners[f.owner].who.name(), filter);
}

double key_of(const FlowRow &f, TopSort sort)
{
	switch (sort) {
	case TopSort::delay:
		break;
	case TopSort::fabric:
		return f.measured ? f.swift.fabric_ns : -1.0;
	case TopSort::host:
		return f.measured ? f.swift.endpoint_ns : -1.0;
	case TopSort::rate:
		return static_cast<double>(f.rate_Bps);
	case TopSort::retrans:
		return static_cast<double>(f.retrans_per_s);
	}
	return f.measured ? static_cast<double>(f.swift.fabric_ns) + f.swift.endpoint_ns : 1000.0 * f.srtt_us;
}

Colour bound_colour(Bound b)
{
	return b == Bound::fabric || b == Bound::own_link ? Colour::red :
	       b == Bound::host				  ? Colour::magenta :
	       b == Bound::mixed || b == Bound::credit	  ? Colour::yellow :
							    Colour::dim;
}

void add_group(std::vector<TopLine> &out, const GroupSummary &g, bool narrow)
{
	const auto median = [&](Part p) { return g.delay(p) ? g.delay(p)->p50 : 0; };
	const std::string where =
		narrow ? "" : fmt::format(" {:<12} {:<8}", cut(g.labels.cc, 12),
				      cut(g.labels.netns.empty() ? g.labels.iface : g.labels.netns, 8));
	TopLine line = {{fmt::format("{:<20}{} {:>5} {:>9}  ", cut(g.labels.dst_prefix, 20), where, g.flows,
				     rate_text(g.rate_Bps))}};

	if (g.measured > 0) {
		for (TopSpan &s : delay_bar(median(Part::fabric), median(Part::host), median(Part::target), delay_bar_width))
			line.push_back(std::move(s));
		line.push_back({fmt::format("  fabric {} | host {} | target {}", ns_text(median(Part::fabric)),
					    ns_text(median(Part::host)), ns_text(median(Part::target)))});
	} else {
		line.push_back({fmt::format("{:<{}}  rtt {}", "", delay_bar_width, ns_text(median(Part::rtt)))});
	}
	out.push_back(std::move(line));
	out.push_back({{"  " + g.verdict.text, bound_colour(g.verdict.bound)}});
}

// "pod", "web: pod" in another network namespace, with the process if it is asked for.
std::string owner_text(const FlowSet &set, const FlowRow &f, const ProcessOf &process_of)
{
	const Owner &who = set.owners[f.owner].who;
	std::string text = f.netns != 0 ? set.netns[f.netns] + ": " : std::string();

	if (who.name() != "/")
		text += who.name();
	if (process_of)
		if (const auto process = process_of(f.inode, who.cgroup))
			text += fmt::format(" {}({})", process->program, process->pid);
	return text;
}

TopLine flow_line(const FlowSet &set, const FlowRow &f, std::size_t address_width, bool narrow,
		  const ProcessOf &process_of)
{
	const std::string from =
		narrow ? "" : fmt::format("{:<{}} ", cut_middle(f.local().text(), address_width), address_width);
	TopLine line = {{fmt::format("{}{:<{}} {:<10} ", from, cut_middle(f.remote().text(), address_width), address_width,
				     cut(set.ccs[f.cc], 10))}};

	if (f.measured) {
		const SwiftRecord &r = f.swift;

		line.push_back({fmt::format("{:>8} ", window_text(r.window_pkts()))});
		line.push_back({fmt::format("{:>9} ", ns_text(r.fabric_ns)),
				r.fabric_ns > r.target_ns ? Colour::red : Colour::none});
		line.push_back({fmt::format("{:>9}  ", ns_text(r.endpoint_ns)),
				r.limit() == Limit::host ? Colour::magenta : Colour::none});
		for (TopSpan &s : delay_bar(r.fabric_ns, r.endpoint_ns, r.target_ns, delay_bar_width))
			line.push_back(std::move(s));
	} else {
		line.push_back({fmt::format("{:>8} {:>9} {:>9}  {:<{}}", f.snd_cwnd_pkts, "-", "-", "", delay_bar_width)});
	}
	line.push_back({fmt::format(" {:>9} {:>9}", f.srtt_us ? ns_text(1000.0 * f.srtt_us) : "-",
				    rate_text(static_cast<double>(f.rate_Bps)))});
	line.push_back({fmt::format(" {:>8.1f}", f.retrans_per_s), f.retrans_per_s > 0 ? Colour::yellow : Colour::none});
	if (const std::string owner = owner_text(set, f, process_of); !narrow && !owner.empty())
		line.push_back({"  " + owner, Colour::dim});
	return line;
}

std::vector<std::uint32_t> flows_in_order(const FlowSet &set, const TopView &view)
{
	std::vector<std::uint32_t> order;

	for (std::uint32_t i = 0; i < set.rows.size(); i++)
		if (wanted(set, set.rows[i], view.filter))
			order.push_back(i);
	std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
		const double ka = key_of(set.rows[a], view.sort), kb = key_of(set.rows[b], view.sort);

		// Equal ones keep their places from one screen to the next.
		return ka != kb ? ka > kb : set.rows[a].cookie < set.rows[b].cookie;
	});
	return order;
}

std::vector<TopLine> help_lines()
{
	std::vector<TopLine> out;

	for (const char *text : {"q            leave", "s            sort flows by the next of delay, fabric, host, rate, retrans",
				 "f            show only what has a text in its addresses, interface or congestion control",
				 "up, down     a flow up or down; page up, page down, home, end",
				 "space        stand still; again: go on", "?            this help; any key: back", "",
				 "A bar is the fabric's delay (=) and the hosts' (#) on one scale with the fabric's target (|);",
				 "it ends in > where there is more. Of a destination: the medians of its flows.",
				 "Red: above the target; magenta: held back by a host; yellow: retransmissions."})
		out.push_back({{text}});
	return out;
}

} // namespace

std::string_view top_sort_text(TopSort s)
{
	return sort_names[static_cast<std::size_t>(s)];
}

std::optional<TopSort> parse_top_sort(std::string_view text)
{
	for (std::size_t i = 0; i < sort_names.size(); i++)
		if (sort_names[i] == text)
			return static_cast<TopSort>(i);
	return std::nullopt;
}

std::string plain_text(const TopLine &line)
{
	std::string out;

	for (const TopSpan &s : line)
		out += s.text;
	return out;
}

TopLine delay_bar(double fabric_ns, double host_ns, double target_ns, std::size_t width)
{
	if (width == 0)
		return {};
	const std::size_t target_at = target_ns > 0 ? width * 2 / 3 : width;
	const double scale_ns = target_ns > 0 ? target_ns : fabric_ns + host_ns; // at target_at
	const auto column = [&](double ns) {
		return scale_ns > 0 ? static_cast<std::size_t>(std::min(
					      std::round(ns / scale_ns * static_cast<double>(target_at)),
					      1e6)) :
				      0;
	};
	const std::size_t fabric_end = std::min(column(fabric_ns), width);
	const std::size_t all = column(fabric_ns + host_ns);
	const std::size_t end = std::min(all, width);
	std::string text = std::string(fabric_end, '=') + std::string(std::max(end, fabric_end) - fabric_end, '#');

	text.resize(width, '.');
	if (all > width)
		text.back() = '>';
	if (target_at < width)
		text[target_at] = '|';

	// One colour for each part.
	const Colour of_fabric = fabric_ns > target_ns && target_ns > 0 ? Colour::red : Colour::green;
	TopLine out;

	for (const auto &[from, to, colour] :
	     {std::tuple(std::size_t{0}, fabric_end, of_fabric), std::tuple(fabric_end, end, Colour::magenta),
	      std::tuple(std::max(end, fabric_end), width, Colour::dim)})
		if (to > from)
			out.push_back({text.substr(from, to - from), colour});
	return out;
}

void press(TopView &view, TopKey key, char character)
{
	if (view.typing) {
		std::string &text = *view.typing;

		if (key == TopKey::escape) {
			view.typing.reset();
		} else if (key == TopKey::enter) {
			view.filter = text;
			view.typing.reset();
			view.first = 0;
		} else if (key == TopKey::erase) {
			if (!text.empty())
				text.pop_back();
		} else if (key == TopKey::character && character >= ' ' && character <= '~' &&
			   text.size() < longest_filter) {
			text += character;
		}
		return;
	}
	if (view.help) {
		view.help = false;
		view.leave |= key == TopKey::character && character == 'q';
		return;
	}
	switch (key) {
	case TopKey::up:
		view.first -= view.first > 0;
		break;
	case TopKey::down:
		view.first++;
		break;
	case TopKey::page_up:
		view.first -= std::min(view.first, view.page);
		break;
	case TopKey::page_down:
		view.first += view.page;
		break;
	case TopKey::home:
		view.first = 0;
		break;
	case TopKey::end:
		view.first = SIZE_MAX / 2; // top_screen() knows where that is
		break;
	case TopKey::escape:
		view.filter.clear();
		break;
	case TopKey::character:
		if (character == 'q')
			view.leave = true;
		else if (character == 's')
			view.sort = static_cast<TopSort>((static_cast<std::size_t>(view.sort) + 1) % top_sorts);
		else if (character == 'f' || character == '/')
			view.typing = "";
		else if (character == ' ')
			view.paused = !view.paused;
		else if (character == '?' || character == 'h')
			view.help = true;
		break;
	case TopKey::enter:
	case TopKey::erase:
		break;
	}
}

std::vector<TopLine> top_screen(const TopShot &shot, TopView &view, std::size_t columns, std::size_t rows)
{
	const Totals &t = shot.summary.totals;
	const FlowSet &set = *shot.flows;
	const bool whole = rows == 0;
	const bool narrow = columns > 0 && columns < wide_columns;
	std::vector<TopLine> out;

	out.push_back({{fmt::format("swift top  {}  every {:.1f} s", local_time(shot.time_ns), shot.summary.interval_s),
			Colour::bold},
		       {view.paused ? "  stands still (space: go on)" : "", Colour::yellow}});
	out.push_back({{fmt::format("{} flows, {} of swift's, {} guarded; {}; {:.1f} retransmissions/s; {}", t.flows,
				    t.swift_flows, t.guarded_flows, rate_text(t.rate_Bps),
				    shot.summary.interval_s > 0 ?
					    static_cast<double>(t.retrans_new) / shot.summary.interval_s :
					    0.0,
				    shot.summary.sampled ? "delays: the flows' newest" : "delays: all, from BPF")},
		       {shot.module_loaded ? "" : "  (the module is not loaded)", Colour::yellow}});
	if (!shot.netns_trouble.empty())
		out.push_back({{"not all network namespaces: " + shot.netns_trouble, Colour::yellow}});
	if (view.help) {
		out.emplace_back();
		for (TopLine &line : help_lines())
			out.push_back(std::move(line));
	} else {
		std::vector<const GroupSummary *> groups;

		for (const GroupSummary &g : shot.summary.groups)
			if (wanted(g.labels, view.filter))
				groups.push_back(&g);
		// At most half of the screen.
		const std::size_t shown =
			whole ? groups.size() :
				std::min({groups.size(), most_groups, std::max<std::size_t>((rows / 2) / 2, 1)});

		out.push_back({{fmt::format("{:<20}{} {:>5} {:>9}  {:<{}}", "destination",
					    narrow ? "" : fmt::format(" {:<12} {:<8}", "cc", "iface"), "flows", "rate",
					    "delay, medians", delay_bar_width),
				Colour::none, true}});
		for (std::size_t i = 0; i < shown; i++)
			add_group(out, *groups[i], narrow);
		if (shown < groups.size())
			out.push_back({{fmt::format("  and {} more", groups.size() - shown), Colour::dim}});

		const std::vector<std::uint32_t> order = flows_in_order(set, view);
		const std::size_t above = out.size() + 1;
		const std::size_t below = 1; // the last line

		view.page = whole ? order.size() : rows > above + below ? rows - above - below : 1;
		view.first = std::min(view.first, order.size() > view.page ? order.size() - view.page : 0);

		const std::size_t end = std::min(order.size(), view.first + view.page);
		const std::size_t room = columns == 0 ? longest_address :
					 narrow	      ? least_cut :
							std::clamp((columns - beside_addresses) / 2, least_cut, longest_address);
		std::size_t address_width = longest_v4;

		for (std::size_t i = view.first; i < end; i++) {
			const FlowRow &f = set.rows[order[i]];

			address_width = std::max({address_width, f.remote().text().size(),
						  narrow ? 0 : f.local().text().size()});
		}
		address_width = std::min(address_width, room);
		out.push_back({{fmt::format("{}{:<{}} {:<10} {:>8} {:>9} {:>9}  {:<{}} {:>9} {:>9} {:>8}",
					    narrow ? "" : fmt::format("{:<{}} ", "local", address_width), "remote", address_width, "cc", "window", "fabric", "host",
					    "", delay_bar_width, "srtt", "rate", "retr/s") +
					    (narrow ? "" : "  owner"),
				Colour::none, true}});
		for (std::size_t i = view.first; i < end; i++)
			out.push_back(flow_line(set, set.rows[order[i]], address_width, narrow, shot.process_of));
		if (!whole) {
			if (out.size() > rows - 1)
				out.resize(rows - 1);
			while (out.size() < rows - 1)
				out.emplace_back();
			if (view.typing)
				out.push_back({{"show only (enter; escape: all as before): " + *view.typing + "_", Colour::bold}});
			else
				out.push_back({{fmt::format("{} to {} of {} flows by {}{}   q quit  s sort  f filter  space "
							    "pause  ? help",
							    order.empty() ? 0 : view.first + 1,
							    end, order.size(), top_sort_text(view.sort),
							    view.filter.empty() ? "" : ", with '" + view.filter + "'"),
						Colour::dim}});
		}
	}
	if (!whole && out.size() > rows)
		out.resize(rows);
	if (columns > 0)
		for (TopLine &line : out)
			fit(line, columns);
	return out;
}

} // namespace swift
