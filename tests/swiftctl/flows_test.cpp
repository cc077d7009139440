// SPDX-License-Identifier: MIT
// Choosing, ordering and formatting flows; tables; strict reading of numbers.
#include <gtest/gtest.h>

#include "busy_flow.h"
#include "diag.h"
#include "dump_builder.h"
#include "flows.h"
#include "text.h"
#include "tunables.h"
#include "watch.h"

using namespace swift;
using swift_test::busy_flow;

namespace {

std::vector<Flow> six()
{
	const auto dump = swift_test::six_flows();
	std::vector<Flow> flows;

	parse_diag(dump.span(), flows);
	return flows;
}

std::vector<int> ports(const FlowsOptions &options)
{
	auto query = FlowQuery::from(options);
	FlowSnapshot snapshot;
	std::vector<int> out;

	EXPECT_TRUE(query) << query.error().text();
	choose(six(), *query, snapshot);
	for (const Flow &f : snapshot.flows)
		out.push_back(f.local.port);
	return out;
}

FlowsOptions with(void (*change)(FlowsOptions &))
{
	FlowsOptions o;

	change(o);
	return o;
}

using Ports = std::vector<int>;

} // namespace

TEST(flows, window_text_table)
{
	struct {
		double pkts;
		const char *text;
	} const rows[] = {{0, "0.00"},	     {0.001, "0.00100"},   {0.0123, "0.0123"},
			  {0.01234, "0.0123"}, {0.5, "0.500"},	   {0.0999, "0.0999"},
			  {0.9994, "0.999"},   {0.9996, "1.00"},	   {1, "1.00"},
			  {12.345, "12.35"},   {65535.99, "65535.99"}};

	for (const auto &r : rows)
		EXPECT_EQ(window_text(r.pkts), r.text);
}

TEST(flows, si_text_table)
{
	struct {
		std::uint64_t v;
		const char *text;
	} const rows[] = {{0, "0"},	     {999, "999"},	   {1000, "1.00k"},
			  {9994, "9.99k"},   {9996, "10.0k"},	   {99960, "100k"},
			  {999499, "999k"},  {999600, "1.00M"},   {1180000000, "1.18G"},
			  {UINT64_MAX, "18.4E"}};

	for (const auto &r : rows)
		EXPECT_EQ(si_text(r.v), r.text);
}

TEST(flows, only_swift_unless_all)
{
	EXPECT_EQ(ports({}), (Ports{40000, 40002, 40004, 40006}));
	EXPECT_EQ(ports(with([](auto &o) { o.all = true; })),
		  (Ports{40000, 40002, 22, 40004, 40008, 40006}));
}

TEST(flows, all_says_why_there_is_no_breakdown)
{
	auto all = FlowQuery::from(with([](auto &o) { o.all = true; }));
	auto ours = FlowQuery::from({});
	FlowSnapshot s;
	std::vector<Flow> flows = six();

	for (int i = 0; i < 2; i++) {
		flows.push_back(flows[5]);
		flows.back().cc = "bpf_swift";
	}
	choose(flows, *all, s);
	s.records_readable = false;
	EXPECT_EQ(s.flows.size(), 8U);
	EXPECT_EQ(flow_notes(s, *all),
		  (std::vector<std::string>{"no breakdown of 2 flows of bpf_swift: the records of BPF variants need root",
					    "no breakdown of 1 flow of cubic: they measure no delays of fabric and host"}));
	s.records_readable = true;
	EXPECT_EQ(flow_notes(s, *all)[0], "no breakdown of 2 flows of bpf_swift: the kernel gave no record of them");

	FlowSnapshot few;

	choose(flows, *ours, few);
	EXPECT_EQ(few.flows.size(), 4U);
	EXPECT_EQ(flow_notes(few, *ours)[1],
		  "no breakdown of 2 flows of bpf_swift: the kernel gave no record of them; --all shows them");
	EXPECT_EQ(flow_notes({}, *all)[0], "no flows");
}

TEST(flows, filters)
{
	EXPECT_EQ(ports(with([](auto &o) { o.dst = {"10.1.0.0/16"}; })), (Ports{40000, 40002}));
	EXPECT_EQ(ports(with([](auto &o) { o.dst = {"10.1.0.9", "fd00::/8"}; })), (Ports{40000, 40006}));
	EXPECT_EQ(ports(with([](auto &o) { o.src = {"10.1.0.0/31"}; })), (Ports{40000, 40002, 40004}));
	EXPECT_EQ(ports(with([](auto &o) { o.src = {"0.0.0.0/0"}; })), (Ports{40000, 40002, 40004}));
	EXPECT_EQ(ports(with([](auto &o) { o.sport = {"40002", "40006"}; })), (Ports{40002, 40006}));
	EXPECT_EQ(ports(with([](auto &o) { o.dport = {"8443"}; })), (Ports{40004}));
	EXPECT_EQ(ports(with([](auto &o) { o.min_fabric_us = "62"; })), (Ports{40000, 40002}));
	EXPECT_EQ(ports(with([](auto &o) { o.limit_by = "host"; })), (Ports{40004}));
	EXPECT_EQ(ports(with([](auto &o) { o.limit_by = "fabric"; })), (Ports{40000, 40002}));
	EXPECT_EQ(ports(with([](auto &o) {
			  o.dst = {"10.0.0.0/8"};
			  o.dport = {"443"};
			  o.top = "1";
		  })),
		  (Ports{40000}));
}

TEST(flows, sorting_puts_unknown_last_both_ways)
{
	EXPECT_EQ(ports(with([](auto &o) { o.sort = "fabric"; })), (Ports{40004, 40000, 40002, 40006}));
	EXPECT_EQ(ports(with([](auto &o) { o.sort = "fabric_us:desc"; })),
		  (Ports{40002, 40000, 40004, 40006}));
	EXPECT_EQ(ports(with([](auto &o) { o.sort = "window"; })), (Ports{40002, 40004, 40000, 40006}));
	EXPECT_EQ(ports(with([](auto &o) { o.sort = "rate:desc"; })), (Ports{40000, 40004, 40002, 40006}));
	for (const std::string &name : flow_column_names()) {
		FlowsOptions o;

		o.sort = name + ":desc";
		EXPECT_EQ(ports(o).size(), 4U) << name;
	}
}

TEST(flows, wrong_options_name_the_value_and_what_is_allowed)
{
	struct {
		void (*change)(FlowsOptions &);
		const char *text;
	} const rows[] = {
		{[](auto &o) { o.sort = "colour"; }, "--sort column: 'colour' (allowed: local, remote"},
		{[](auto &o) { o.sort = "rate:down"; }, "--sort order: 'down' (allowed: asc, desc)"},
		{[](auto &o) { o.sport = {"http"}; }, "--sport: 'http' (allowed: 0 to 65535)"},
		{[](auto &o) { o.dport = {"65536"}; }, "--dport: '65536'"},
		{[](auto &o) { o.dst = {"10.0.0.0/33"}; }, "--dst: prefix length: '33' (allowed: 0 to 32)"},
		{[](auto &o) { o.src = {"host"}; }, "--src: not a prefix: 'host'"},
		{[](auto &o) { o.min_fabric_us = "-1"; }, "--min-fabric-us: '-1'"},
		{[](auto &o) { o.min_fabric_us = "5x"; }, "--min-fabric-us: '5x'"},
		{[](auto &o) { o.limit_by = "rwnd"; }, "--limit-by: 'rwnd' (allowed: fabric, host)"},
		{[](auto &o) { o.top = "0"; }, "--top: '0'"},
		{[](auto &o) { o.watch = "0"; }, "--watch: '0' (allowed: 0.1 to 3600)"},
		{[](auto &o) { o.watch = "nan"; }, "--watch: 'nan'"},
	};

	for (const auto &r : rows) {
		const auto query = FlowQuery::from(with(r.change));

		ASSERT_FALSE(query) << r.text;
		EXPECT_EQ(query.error().text().find(r.text), 0U) << query.error().text();
	}
}

TEST(flows, prefixes_match_bits)
{
	struct {
		const char *prefix;
		const char *address;
		bool inside;
	} const rows[] = {
		{"10.0.0.0/9", "10.127.255.255", true}, {"10.0.0.0/9", "10.128.0.0", false},
		{"10.0.0.1/32", "10.0.0.1", true},	{"10.0.0.1/32", "10.0.0.0", false},
		{"10.0.0.1", "10.0.0.1", true},		{"0.0.0.0/0", "255.1.2.3", true},
		{"0.0.0.0/0", "::1", false},		{"::/0", "fd00::1", true},
		{"fd00::/7", "fc00::1", true},		{"fd00::/8", "fc00::1", false},
		{"fd00::1/128", "fd00::1", true},	{"10.0.0.0/8", "::ffff:10.9.9.9", true},
	};

	for (const auto &r : rows) {
		const auto p = Prefix::parse(r.prefix);
		const auto a = Address::parse(r.address);

		ASSERT_TRUE(p) << r.prefix;
		ASSERT_TRUE(a) << r.address;
		EXPECT_EQ(p->contains(*a), r.inside) << r.prefix << " " << r.address;
	}
	for (const char *bad : {"", "/", "10.0.0.0/", "10.0.0.0/x", "10.0.0.0/-1", "10.0.0/8", "::/129"})
		EXPECT_FALSE(Prefix::parse(bad)) << bad;
}

TEST(flows, table_shows_what_a_person_expects)
{
	auto query = FlowQuery::from(with([](auto &o) { o.all = true; }));
	FlowSnapshot s;

	choose(six(), *query, s);
	const auto lines = render(flow_table(s.flows), {}).lines;

	ASSERT_EQ(lines.size(), 7U);
	EXPECT_EQ(lines[0], "local            remote           cc          state  window  limit    held_by      srtt_us  min_rtt_us  "
			    "fabric_us  host_us  target_us  stamps   cwnd  rate_B/s  retrans");
	EXPECT_EQ(lines[2], "10.1.0.1:40002   10.1.0.10:443    swift       estab  0.0123  fabric   application      480          30  "
			    "    401.2      9.0      131.0  hw/none     1      950k        3");
	EXPECT_EQ(lines[5], "10.1.0.1:40008   192.0.2.80:443   swift-reno  estab       -  guarded  application    30000       29000  "
			    "        -        -          -  -          44     12.0M        0");
}

// Its column is there where one flow at least has it.
TEST(flows, credit_is_shown_where_it_is_negotiated)
{
	auto query = FlowQuery::from({});
	std::vector<Flow> flows = six();
	FlowSnapshot s;

	for (Flow &f : flows)
		f.tcp->notsent_bytes = f.tcp->unacked_pkts = 10;
	flows[0].swift->credit = Credit::waits;
	flows[1].swift->credit = Credit::congested;
	choose(flows, *query, s);
	const auto lines = render(flow_table(s.flows), {}).lines;

	ASSERT_EQ(lines.size(), 5U);
	EXPECT_NE(lines[0].find("held_by   credit     srtt_us"), std::string::npos) << lines[0];
	EXPECT_NE(lines[1].find("credit    waits"), std::string::npos) << lines[1];
	EXPECT_NE(lines[2].find("own_link  congested"), std::string::npos) << lines[2];
	query = FlowQuery::from(with([](auto &o) { o.held_by = "own_link"; }));
	FlowSnapshot own;

	choose(flows, *query, own);
	ASSERT_EQ(own.flows.size(), 1U);
	EXPECT_EQ(own.flows[0].local.port, 40002);
	EXPECT_NE(flows_json(own, true).find(R"("credit":"congested","held_by":"own_link")"), std::string::npos);
}

TEST(flows, narrow_terminals_lose_the_least_column_first)
{
	auto query = FlowQuery::from({});
	FlowSnapshot s;

	choose(six(), *query, s);
	for (const unsigned columns : {0U, 200U, 120U, 100U, 80U, 40U}) {
		Terminal t;

		t.columns = columns;
		const auto out = render(flow_table(s.flows), t);

		for (const std::string &line : out.lines)
			EXPECT_LE(line.size(), columns >= 80 ? columns : 200) << line;
		EXPECT_EQ(out.left_out.empty(), columns == 0 || columns == 200);
		EXPECT_TRUE(out.left_out.empty() || out.left_out[0] == "state");
		EXPECT_NE(out.lines[0].find("fabric_us"), std::string::npos);
	}
}

TEST(flows, colours_only_where_they_are_wanted)
{
	Terminal plain;
	Terminal painted;

	painted.colours = true;
	EXPECT_EQ(plain.paint("x", Colour::red), "x");
	EXPECT_EQ(painted.paint("x", Colour::red), "\x1b[31mx\x1b[0m");
	EXPECT_EQ(painted.paint("x", Colour::none), "x");
}

TEST(flows, notes)
{
	auto query = FlowQuery::from(with([](auto &o) { o.top = "1"; }));
	FlowSnapshot s;

	choose(six(), *query, s);
	s.bad_records = 2;
	s.interrupted = true;

	const auto notes = flow_notes(s, *query);

	ASSERT_EQ(notes.size(), 4U);
	EXPECT_EQ(notes[0], "1 of 4 flows shown");
	EXPECT_EQ(notes[1].find("1 more guarded"), 0U);
	EXPECT_EQ(flow_notes({}, *query)[0], "no swift flows");
}

TEST(text, integers_are_whole_and_in_range)
{
	for (const char *good : {"0", "63", "-1"})
		EXPECT_TRUE(parse_int("x", good, -1, 63)) << good;
	for (const char *bad : {"", " 1", "1 ", "+1", "0x1", "1.0", "64", "-2", "99999999999999999999"})
		EXPECT_FALSE(parse_int("x", bad, -1, 63)) << bad;
}

TEST(tunables, come_from_the_modules_table)
{
	EXPECT_GE(tunables().size(), 21U);
	for (const Tunable &t : tunables()) {
		EXPECT_LE(t.min, t.fallback) << t.name;
		EXPECT_LE(t.fallback, t.max) << t.name;
		EXPECT_FALSE(t.meaning.empty());
	}
	EXPECT_EQ(find_tunable("base_target_ns")->fallback, 25000);
	EXPECT_EQ(find_tunable("nonsense"), nullptr);
	EXPECT_TRUE(find_tunable("target_policy")->check("static"));
	EXPECT_FALSE(find_tunable("target_policy")->check("1"));
	EXPECT_FALSE(find_tunable("base_target_ns")->check("999"));
	EXPECT_TRUE(find_tunable("dscp")->check("-1"));
}

// The same two looks, by swiftd's way and by that of `flows --watch`.
TEST(flows, those_that_are_watched_are_judged_as_swiftd_judges)
{
	constexpr std::int64_t second_ns = 1'000'000'000;
	const IfaceMap nowhere;
	std::vector<Flow> then = {busy_flow(1, {20'000'000, 0, 0}), busy_flow(2, {20'000'000, 18'000'000, 0}),
				  busy_flow(3, {20'000'000, 0, 0}), busy_flow(4, {20'000'000, 0, 0}), busy_flow(5, {20'000'000, 0, 0})};
	std::vector<Flow> now = {busy_flow(5, {20'300'000, 0, 0}), busy_flow(4, {28'000'000, 7'900'000, 0}),
				 busy_flow(3, {28'000'000, 0, 7'000'000}), busy_flow(4, {28'000'000, 7'900'000, 0}),
				 busy_flow(2, {28'000'000, 18'100'000, 0}), busy_flow(1, {28'000'000, 7'900'000, 0}), busy_flow(6, {9'000, 8'000, 0})};

	then[3].swift.reset(); // as of another congestion control
	now[1].swift.reset();
	now[3].swift.reset();
	now[0].tcp->notsent_bytes = 0; // with data for less than half of the time
	FlowTable looks({});
	std::int64_t now_ns = 0;

	for (const std::vector<Flow> &all : {then, now}) {
		looks.begin(now_ns += 8 * second_ns, nowhere);
		for (const Flow &f : all)
			looks.add(f);
		const auto look = looks.end();
		FlowsOptions options;
		FlowSnapshot shown;

		options.all = true;
		choose(all, *FlowQuery::from(options), shown, {}, look.get());
		ASSERT_EQ(shown.flows.size(), look->rows.size());
		for (const Flow &f : shown.flows)
			for (const FlowRow &row : look->rows)
				EXPECT_TRUE(row.cookie != f.cookie || f.held == held_by(row, {})) << f.cookie;
		const auto held = [&](std::uint64_t cookie) {
			for (const Flow &f : shown.flows)
				if (f.cookie == cookie)
					return f.held;
			return Bound::none;
		};
		const bool first = now_ns == 8 * second_ns;

		EXPECT_EQ(held(1), first ? Bound::fabric : Bound::receiver);
		EXPECT_EQ(held(2), first ? Bound::receiver : Bound::fabric);
		EXPECT_EQ(held(3), first ? Bound::fabric : Bound::send_buffer);
		EXPECT_EQ(held(4), first ? Bound::none : Bound::receiver);
		EXPECT_EQ(held(5), first ? Bound::fabric : Bound::application);
		EXPECT_EQ(held(6), first ? Bound::none : Bound::receiver);
		EXPECT_EQ(flows_json(shown, true).find("send_buffer") == std::string::npos, first);
	}
	FlowSnapshot once;

	choose({now[5]}, *FlowQuery::from({}), once);
	EXPECT_EQ(once.flows.at(0).held, Bound::fabric) << "of its whole life";
}

TEST(watch, a_line_that_is_too_wide_takes_one_row)
{
	const std::string out = redraw({"a header", std::string(200, 'x')}, {true, false, 80, 24}, "");

	EXPECT_TRUE(out.starts_with("\x1b[?7l\x1b[Ha header")) << out;
	EXPECT_TRUE(out.ends_with("\x1b[?7h"));
}
