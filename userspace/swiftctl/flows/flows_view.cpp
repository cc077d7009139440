// SPDX-License-Identifier: MIT
// The columns of `swiftctl flows`, each with its text and its sort key, and the choosing
// of flows. Pure: no output, no clock.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <tuple>

#include "flows.h"
#include "text.h"

namespace swift {

namespace {

// Without a value (std::monostate) a flow sorts last, whatever the direction.
using Key = std::variant<std::monostate, double, std::string, Endpoint>;

struct FlowColumn {
	std::string_view name; // what --sort takes
	std::string_view unit; // after the name in the header
	bool right;
	unsigned rank;
	Cell (*cell)(const Flow &);
	Key (*key)(const Flow &);
};

// The laws that Swift is compared with: what they show is TCP's.
bool runs_other_law(const Flow &f)
{
	return f.cc == "bpf_timely" || f.cc == "bpf_gcn";
}

std::string us_text(std::uint32_t ns)
{
	return fmt::format("{:.1f}", ns / 1000.0);
}

std::string stamps_text(const SwiftRecord &r)
{
	return fmt::format("{}/{}", stamp_text(r.local_stamp), stamp_text(r.echo_stamp));
}

std::string short_state(std::uint8_t state)
{
	return state == 1 ? "estab" : std::string(tcp_state_text(state));
}

Cell of_record(const Flow &f, std::string (*text)(const SwiftRecord &))
{
	return f.swift ? Cell{text(*f.swift)} : Cell{no_value, Colour::dim};
}

Cell of_tcp(const Flow &f, std::string (*text)(const TcpCounters &))
{
	return f.tcp ? Cell{text(*f.tcp)} : Cell{no_value, Colour::dim};
}

std::string process_text(const Whose &w)
{
	return w.process ? fmt::format("{}({})", w.process->program, w.process->pid) : std::string();
}

Cell of_owner(const Flow &f, std::string (*text)(const Whose &))
{
	std::string s = f.whose ? text(*f.whose) : std::string();

	return s.empty() ? Cell{no_value, Colour::dim} : Cell{std::move(s)};
}

Key owner_key(const Flow &f, std::string (*text)(const Whose &))
{
	std::string s = f.whose ? text(*f.whose) : std::string();

	return s.empty() ? Key() : Key(std::move(s));
}

Key number(bool there, double v)
{
	return there ? Key(v) : Key();
}

bool has_credit(const Flow &f)
{
	return f.swift && f.swift->credit != Credit::none;
}

Cell limit_cell(const Flow &f)
{
	if (f.is_guarded())
		return {"guarded", Colour::dim};
	if (!f.swift)
		return {no_value, Colour::dim};
	const Limit l = f.swift->limit();

	return {std::string(limit_text(l)), l == Limit::host ? Colour::magenta : Colour::none};
}

constexpr std::array flow_columns = {
	FlowColumn{"local", "", false, 0, [](const Flow &f) { return Cell{f.local.text()}; },
		   [](const Flow &f) { return Key(f.local); }},
	FlowColumn{"remote", "", false, 0, [](const Flow &f) { return Cell{f.remote.text()}; },
		   [](const Flow &f) { return Key(f.remote); }},
	FlowColumn{"cc", "", false, 0, [](const Flow &f) { return Cell{f.cc}; },
		   [](const Flow &f) { return Key(f.cc); }},
	FlowColumn{"state", "", false, 9, [](const Flow &f) { return Cell{short_state(f.state)}; },
		   [](const Flow &f) { return Key(short_state(f.state)); }},
	FlowColumn{"window", "", true, 0,
		   [](const Flow &f) {
			   return of_record(f, [](const SwiftRecord &r) {
				   return window_text(r.window_pkts());
			   });
		   },
		   [](const Flow &f) {
			   return number(!!f.swift, f.swift ? f.swift->window_pkts() : 0);
		   }},
	FlowColumn{"limit", "", false, 0, limit_cell,
		   [](const Flow &f) {
			   return f.swift ? Key(std::string(limit_text(f.swift->limit()))) : Key();
		   }},
	FlowColumn{"held_by", "", false, 0,
		   [](const Flow &f) {
			   return f.held == Bound::none ? Cell{no_value, Colour::dim} : Cell{std::string(bound_text(f.held))};
		   },
		   [](const Flow &f) { return f.held == Bound::none ? Key() : Key(std::string(bound_text(f.held))); }},
	FlowColumn{"credit", "", false, 2,
		   [](const Flow &f) {
			   return has_credit(f) ? Cell{std::string(credit_text(f.swift->credit)),
						       f.swift->credit == Credit::congested ? Colour::red : Colour::none} :
						  Cell{no_value, Colour::dim};
		   },
		   [](const Flow &f) { return has_credit(f) ? Key(std::string(credit_text(f.swift->credit))) : Key(); }},
	FlowColumn{"srtt", "_us", true, 5,
		   [](const Flow &f) {
			   return of_tcp(f, [](const TcpCounters &c) { return std::to_string(c.srtt_us); });
		   },
		   [](const Flow &f) { return number(!!f.tcp, f.tcp ? f.tcp->srtt_us : 0); }},
	FlowColumn{"min_rtt", "_us", true, 7,
		   [](const Flow &f) {
			   return f.tcp && f.tcp->has_min_rtt() ?
					  Cell{std::to_string(f.tcp->min_rtt_us)} :
					  Cell{no_value, Colour::dim};
		   },
		   [](const Flow &f) {
			   const bool there = f.tcp && f.tcp->has_min_rtt();

			   return number(there, there ? f.tcp->min_rtt_us : 0);
		   }},
	FlowColumn{"fabric", "_us", true, 0,
		   [](const Flow &f) {
			   Cell c = of_record(
				   f, [](const SwiftRecord &r) { return us_text(r.fabric_ns); });

			   if (f.swift && f.swift->fabric_ns > f.swift->target_ns)
				   c.colour = Colour::red;
			   return c;
		   },
		   [](const Flow &f) { return number(!!f.swift, f.swift ? f.swift->fabric_ns : 0); }},
	FlowColumn{"host", "_us", true, 0,
		   [](const Flow &f) {
			   return of_record(
				   f, [](const SwiftRecord &r) { return us_text(r.endpoint_ns); });
		   },
		   [](const Flow &f) {
			   return number(!!f.swift, f.swift ? f.swift->endpoint_ns : 0);
		   }},
	FlowColumn{"target", "_us", true, 1,
		   [](const Flow &f) {
			   return of_record(
				   f, [](const SwiftRecord &r) { return us_text(r.target_ns); });
		   },
		   [](const Flow &f) { return number(!!f.swift, f.swift ? f.swift->target_ns : 0); }},
	FlowColumn{"stamps", "", false, 3, [](const Flow &f) { return of_record(f, stamps_text); },
		   [](const Flow &f) { return f.swift ? Key(stamps_text(*f.swift)) : Key(); }},
	FlowColumn{"cwnd", "", true, 8,
		   [](const Flow &f) {
			   return of_tcp(f, [](const TcpCounters &c) {
				   return std::to_string(c.snd_cwnd_pkts);
			   });
		   },
		   [](const Flow &f) { return number(!!f.tcp, f.tcp ? f.tcp->snd_cwnd_pkts : 0); }},
	FlowColumn{"rate", "_B/s", true, 2,
		   [](const Flow &f) {
			   return of_tcp(f, [](const TcpCounters &c) {
				   return si_text(c.delivery_rate_Bps);
			   });
		   },
		   [](const Flow &f) {
			   return number(!!f.tcp,
					 f.tcp ? static_cast<double>(f.tcp->delivery_rate_Bps) : 0);
		   }},
	FlowColumn{"netns", "", false, 2,
		   [](const Flow &f) { return of_owner(f, [](const Whose &w) { return w.netns; }); },
		   [](const Flow &f) { return owner_key(f, [](const Whose &w) { return w.netns; }); }},
	FlowColumn{"owner", "", false, 4,
		   [](const Flow &f) { return of_owner(f, [](const Whose &w) { return w.owner.name(); }); },
		   [](const Flow &f) { return owner_key(f, [](const Whose &w) { return w.owner.name(); }); }},
	FlowColumn{"process", "", false, 1, [](const Flow &f) { return of_owner(f, process_text); },
		   [](const Flow &f) { return owner_key(f, process_text); }},
	FlowColumn{"retrans", "", true, 6,
		   [](const Flow &f) {
			   Cell c = of_tcp(f, [](const TcpCounters &t) {
				   return std::to_string(t.retrans_total);
			   });

			   if (f.tcp && f.tcp->retrans_total > 0)
				   c.colour = Colour::yellow;
			   return c;
		   },
		   [](const Flow &f) { return number(!!f.tcp, f.tcp ? f.tcp->retrans_total : 0); }},
};

std::string title(const FlowColumn &c)
{
	return fmt::format("{}{}", c.name, c.unit);
}

std::string joined(const std::vector<std::string> &names)
{
	return fmt::format("{}", fmt::join(names, ", "));
}

// "12 flows of cubic, 3 of reno"
std::string counted(const std::map<std::string, std::size_t> &flows_by_cc)
{
	std::string out;

	for (const auto &[cc, n] : flows_by_cc)
		out += fmt::format("{}{}{} of {}", out.empty() ? "" : ", ", n,
				   !out.empty() ? "" : n == 1 ? " flow" : " flows", cc);
	return out;
}

// "fabric", "fabric_us", "fabric:desc"
Result<void> parse_sort(std::string_view text, FlowQuery &query)
{
	const auto colon = text.find(':');
	const std::string_view name = text.substr(0, colon);
	const std::string_view order =
		colon == std::string_view::npos ? "asc" : text.substr(colon + 1);

	if (order != "asc" && order != "desc")
		return Error{"--sort order", std::string(order), "asc, desc"};
	query.descending = order == "desc";
	for (std::size_t i = 0; i < flow_columns.size(); i++)
		if (name == flow_columns[i].name || name == title(flow_columns[i])) {
			query.sort_column = i;
			return {};
		}
	return Error{"--sort column", std::string(name), joined(flow_column_names())};
}

Result<void> parse_ports(std::string_view flag, const std::vector<std::string> &texts,
			 std::vector<std::uint16_t> &out)
{
	for (const std::string &text : texts) {
		ASSIGN_OR_RETURN(auto port, parse_int(flag, text, 0, 65535));

		out.push_back(static_cast<std::uint16_t>(port));
	}
	return {};
}

bool is_of(const FlowRow &row, const Flow &f)
{
	return row.cookie == f.cookie && row.local() == f.local && row.remote() == f.remote;
}

bool any_is(const std::vector<std::uint16_t> &ports, std::uint16_t port)
{
	return ports.empty() || std::find(ports.begin(), ports.end(), port) != ports.end();
}

} // namespace

std::string window_text(double pkts)
{
	if (pkts >= 0.9995 || pkts <= 0)
		return fmt::format("{:.2f}", pkts);

	// Three significant digits: 0.5 has its first at the first decimal.
	const int decimals = 2 - static_cast<int>(std::floor(std::log10(pkts)));

	return fmt::format("{:.{}f}", pkts, decimals);
}

std::string si_text(std::uint64_t v)
{
	static constexpr std::string_view units = "kMGTPE";
	double scaled = static_cast<double>(v);
	std::size_t unit = 0;

	if (v < 1000)
		return std::to_string(v);
	for (scaled /= 1000; scaled >= 999.5 && unit + 1 < units.size(); unit++)
		scaled /= 1000;

	const int decimals = scaled < 9.995 ? 2 : scaled < 99.95 ? 1 : 0;

	return fmt::format("{:.{}f}{}", scaled, decimals, units[unit]);
}

std::vector<std::string> flow_column_names()
{
	std::vector<std::string> names;

	for (const FlowColumn &c : flow_columns)
		names.emplace_back(c.name);
	return names;
}

Result<FlowQuery> FlowQuery::from(const FlowsOptions &o)
{
	FlowQuery q;

	q.every_cc = o.all;
	ASSIGN_OR_RETURN(q.src, parse_prefixes("--src", o.src));
	ASSIGN_OR_RETURN(q.dst, parse_prefixes("--dst", o.dst));
	RETURN_IF_ERROR(parse_ports("--sport", o.sport, q.sport));
	RETURN_IF_ERROR(parse_ports("--dport", o.dport, q.dport));
	RETURN_IF_ERROR(parse_sort(o.sort, q));
	RETURN_IF_ERROR(take_decimal(q.min_fabric_us, "--min-fabric-us", o.min_fabric_us, 0, 4294967));
	if (o.limit_by == "fabric")
		q.limit = Limit::fabric;
	else if (o.limit_by == "host")
		q.limit = Limit::host;
	else if (!o.limit_by.empty())
		return Error{"--limit-by", o.limit_by, "fabric, host"};
	if (!o.held_by.empty()) {
		q.held = parse_bound(o.held_by);
		if (!q.held)
			return Error{"--held-by", o.held_by, std::string(bounds_allowed)};
	}
	RETURN_IF_ERROR(take_top(q.top, o.top));
	RETURN_IF_ERROR(take_watch(q.watch_s, o.watch));
	return q;
}

bool FlowQuery::matches(const Flow &f) const
{
	if (!(f.runs_swift() || runs_other_law(f) || every_cc))
		return false;
	if (!any_contains(src, f.local.address) || !any_contains(dst, f.remote.address) ||
	    !any_is(sport, f.local.port) || !any_is(dport, f.remote.port))
		return false;
	if (min_fabric_us && !(f.swift && f.swift->fabric_ns >= *min_fabric_us * 1000))
		return false;
	return (!limit || (f.swift && f.swift->limit() == *limit)) && (!held || f.held == *held);
}

void choose(std::vector<Flow> all, const FlowQuery &query, FlowSnapshot &snapshot, const SummaryOptions &verdicts,
	    const FlowSet *look)
{
	std::span<const FlowRow> rows = look ? std::span(look->rows) : std::span<const FlowRow>();
	std::vector<Flow> &chosen = snapshot.flows;
	const auto key = flow_columns[query.sort_column].key;

	snapshot.verdicts = verdicts;
	for (Flow &f : all) {
		if (look) {
			// In the same order; what the kernel has listed twice is there once.
			if (rows.empty() || !is_of(rows.front(), f))
				continue;
			f.held = held_by(rows.front(), verdicts);
			rows = rows.subspan(1);
		} else {
			f.held = held_by(f, verdicts);
		}
		snapshot.swift_count += f.runs_swift();
		snapshot.other_count += runs_other_law(f);
		snapshot.guarded_count += f.is_guarded();
		snapshot.all_count++;
		if (f.is_bpf() && !f.from_bpf && !runs_other_law(f))
			snapshot.unread[f.cc]++;
		if (!query.matches(f))
			continue;
		if (!f.is_bpf() && !f.uses_module())
			snapshot.unmeasured[f.cc.empty() ? "unknown" : f.cc]++;
		chosen.push_back(std::move(f));
	}
	std::sort(chosen.begin(), chosen.end(), [&](const Flow &a, const Flow &b) {
		const Key ka = key(a);
		const Key kb = key(b);

		if (ka.index() != kb.index() && (ka.index() == 0 || kb.index() == 0))
			return kb.index() == 0;
		if (ka != kb)
			return query.descending ? kb < ka : ka < kb;
		// Equal ones keep their places from one screen to the next.
		return std::tie(a.remote, a.local) < std::tie(b.remote, b.local);
	});
	if (query.top && chosen.size() > query.top)
		chosen.resize(query.top);
}

Table flow_table(const std::vector<Flow> &flows)
{
	Table table;
	const bool one_cc = std::all_of(flows.begin(), flows.end(), [&](const Flow &f) { return f.cc == flows[0].cc; });
	const auto netns_of = [](const Flow &f) { return f.whose ? f.whose->netns : std::string(); };
	const bool one_netns = std::all_of(flows.begin(), flows.end(),
					   [&](const Flow &f) { return netns_of(f) == netns_of(flows[0]); });
	// What tells nothing of any flow is not shown: owners, where there are no control groups, say.
	const auto tells = [&](const FlowColumn &c) {
		return std::any_of(flows.begin(), flows.end(), [&](const Flow &f) { return c.key(f).index() != 0; });
	};
	const auto shown = [&](const FlowColumn &c) {
		if (c.name == "netns")
			return !one_netns && tells(c);
		if (c.name == "owner" || c.name == "process" || c.name == "credit")
			return tells(c);
		return c.name != "cc" || !one_cc;
	};

	for (const FlowColumn &c : flow_columns)
		if (shown(c))
			table.columns.push_back({title(c), c.right, c.rank});
	for (const Flow &f : flows) {
		auto &row = table.rows.emplace_back();

		for (const FlowColumn &c : flow_columns)
			if (shown(c))
				row.push_back(c.cell(f));
	}
	return table;
}

std::vector<std::string> flow_notes(const FlowSnapshot &s, const FlowQuery &query)
{
	std::vector<std::string> notes;
	const std::size_t eligible = query.every_cc ? s.all_count : s.swift_count + s.other_count;

	if (eligible == 0 && s.flows.empty())
		notes.emplace_back(query.every_cc ? "no flows" : "no swift flows");
	else if (s.flows.size() < eligible)
		notes.push_back(fmt::format("{} of {} flows shown", s.flows.size(), eligible));
	if (s.guarded_count > 0 && !query.every_cc)
		notes.push_back(fmt::format("{} more guarded (handshake RTT above max_rtt_ns, so they "
					    "run Reno): --all shows them",
					    s.guarded_count));
	// Why there is no breakdown of their delays.
	if (!s.unread.empty())
		notes.push_back(fmt::format("no breakdown of {}: {}{}", counted(s.unread),
					    s.records_readable ? "the kernel gave no record of them" :
								 "the records of BPF variants need root",
					    query.every_cc ? "" : "; --all shows them"));
	if (!s.unmeasured.empty())
		notes.push_back(fmt::format("no breakdown of {}: they measure no delays of fabric and host",
					    counted(s.unmeasured)));
	if (!s.netns_trouble.empty())
		notes.push_back(fmt::format("not all network namespaces: {}", s.netns_trouble));
	if (s.silent_processes > 0)
		notes.push_back(fmt::format("{} processes do not tell their network namespaces (it takes "
					    "CAP_SYS_PTRACE): flows of theirs may be missing",
					    s.silent_processes));
	if (s.interrupted)
		notes.emplace_back("the kernel's list kept changing while it was read: a flow may be "
				   "missing or double");
	if (s.bad_records > 0)
		notes.push_back(fmt::format("{} records of an unknown size ignored: module and swiftctl "
					    "are of different versions",
					    s.bad_records));
	if (s.malformed > 0)
		notes.push_back(fmt::format("{} messages of the kernel were cut off: a flow may be missing",
					    s.malformed));
	return notes;
}

} // namespace swift
