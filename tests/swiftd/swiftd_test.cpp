// SPDX-License-Identifier: MIT
// What swiftd decides, without a kernel or a socket: the flow table, the summary, the options
// and their file, the metrics, the API.
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <memory>
#include <numeric>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "api.h"
#include "collector.h"
#include "config.h"
#include "fake_bpf_host.h"
#include "flow_table.h"
#include "metrics.h"
#include "options.h"
#include "pace.h"
#include "store.h"
#include "summary.h"
#include "telemetry_source.h"

namespace swift {
namespace {

using nlohmann::json;

constexpr std::int64_t second = 1'000'000'000;

Endpoint at(const char *address, unsigned port)
{
	return {*Address::parse(address), static_cast<std::uint16_t>(port)};
}

Flow flow(std::uint64_t cookie, const char *remote = "10.0.0.2", const char *cc = "swift")
{
	Flow f;

	f.local = at("10.0.0.1", 1000 + static_cast<unsigned>(cookie % 50000));
	f.remote = at(remote, 80);
	f.state = 1;
	f.cookie = cookie;
	f.cc = cc;
	f.tcp.emplace();
	f.tcp->srtt_us = 100;
	f.tcp->min_rtt_us = 90;
	f.tcp->snd_cwnd_pkts = 10;
	f.tcp->unacked_pkts = 10;
	f.tcp->notsent_bytes = 1000;
	f.tcp->times.busy_us = 1'000'000;
	return f;
}

// @fabric and @host in us; the smaller window is that of the greater one.
Flow measured(std::uint64_t cookie, std::uint32_t fabric_us, std::uint32_t host_us, Limit limit)
{
	Flow f = flow(cookie);

	f.swift = SwiftRecord{fabric_us * 1000, host_us * 1000, 100'000,
			      limit == Limit::host ? 20U << 16 : 10U << 16,
			      limit == Limit::fabric ? 20U << 16 : 10U << 16, Stamp::hardware, Stamp::software};
	return f;
}

IfaceMap ifaces()
{
	return {{{2, "eth0", false, false}}, {{*Address::parse("10.0.0.1"), 2}}};
}

std::shared_ptr<const FlowSet> dump(FlowTable &table, std::int64_t now_ns, const std::vector<Flow> &flows,
				    const IfaceMap &map = ifaces())
{
	table.begin(now_ns, map);
	for (const Flow &f : flows)
		table.add(f);
	return table.end();
}

// --- The flow table ------------------------------------------------------------------------

TEST(FlowTable, RatesAgesJoinsAndLeaves)
{
	FlowTable table({});
	Flow a = flow(1);

	a.tcp->bytes_acked = 1000;
	a.tcp->retrans_total = 5;
	auto first = dump(table, 10 * second, {a, flow(2)});

	EXPECT_EQ(first->joined, 2U);
	EXPECT_EQ(first->interval_s, 0);
	EXPECT_EQ(first->rows[0].rate_Bps, 0); // of before, nothing is known
	a.tcp->bytes_acked = 5000;
	a.tcp->retrans_total = 9;
	auto then = dump(table, 12 * second, {flow(3), a});

	ASSERT_EQ(then->rows.size(), 2U);
	EXPECT_EQ(then->joined, 1U);
	EXPECT_EQ(then->left, 1U);
	EXPECT_EQ(then->rows[1].cookie, 1U);
	EXPECT_FLOAT_EQ(then->rows[1].rate_Bps, 2000);
	EXPECT_FLOAT_EQ(then->rows[1].retrans_per_s, 2);
	EXPECT_EQ(then->rows[1].first_seen_ns, 10 * second);
	EXPECT_EQ(then->rows[0].first_seen_ns, 12 * second);
	EXPECT_EQ(then->groups[then->rows[1].group], (FlowGroup{"10.0.0.0/24", "swift", "eth0"}));
}

// A pod comes, and its veth has an address.
TEST(FlowTable, AnInterfaceThatChangesLosesNoBytesAndNoEnds)
{
	FlowTable table({});
	IfaceMap map = ifaces();
	Flow old = flow(1), young = flow(2);

	young.tcp->bytes_acked = 700;
	dump(table, 10 * second, {old, flow(3)}, map);
	map.replace({{2, "eth0", false, false}, {7, "veth7", false, false}}, {{*Address::parse("10.0.0.1"), 2}});
	const auto set = dump(table, 12 * second, {old, young}, map);

	ASSERT_EQ(set->rows.size(), 2U);
	EXPECT_EQ(set->rows[1].bytes_new, 700U);
	EXPECT_EQ(std::accumulate(set->left_of_group.begin(), set->left_of_group.end(), 0U), 1U);
}

// The kernel keeps less of a connection that only the peer has not closed: its flow has ended.
TEST(FlowTable, SmallSocketsAreNoFlows)
{
	FlowTableOptions all;
	Flow small = flow(1);

	all.ccs = {"*"};
	FlowTable table(all);
	small.tcp.reset();
	small.cc.clear();
	EXPECT_TRUE(dump(table, 10 * second, {small})->rows.empty());
}

TEST(FlowTable, WhatLeavesAGroupThatGoesIsToldByItsName)
{
	FlowTable table({});

	dump(table, 10 * second, {flow(1)});
	const auto set = dump(table, 100'000 * second, {});
	bool told = false;

	for (std::size_t i = 0; i < set->left_of_group.size(); i++)
		told |= set->left_of_group[i] == 1 && set->groups[i] == FlowGroup{"10.0.0.0/24", "swift", "eth0"};
	EXPECT_TRUE(told);
}

TEST(FlowTable, NamespacesAndOwnersAreToldApart)
{
	FlowTable table({});
	const IfaceMap here = ifaces();
	const IfaceMap there = {{{2, "eth0", false, false}}, {{*Address::parse("10.0.0.1"), 2}}};
	Flow a = flow(1), b = flow(2), c = flow(3);

	a.cgroup_id = b.cgroup_id = 7;
	c.cgroup_id = 8;
	table.name_owners_by([](std::uint64_t id) { return owner_of(id == 7 ? "/a.service" : "/b.service"); });
	std::shared_ptr<const FlowSet> set;

	for (int look = 0; look < 2; look++) { // what is linked is as what is new
		table.begin(second * (look + 1), here, "home");
		table.add(a);
		table.enter("web", there);
		table.add(b);
		table.add(c);
		set = table.end();
	}
	ASSERT_EQ(set->rows.size(), 3U);
	EXPECT_EQ(set->joined, 0U);
	EXPECT_EQ(set->netns, (std::vector<std::string>{"home", "web"}));
	EXPECT_EQ(set->groups[set->rows[0].group], (FlowGroup{"10.0.0.0/24", "swift", "eth0"}));
	EXPECT_EQ(set->groups[set->rows[1].group], (FlowGroup{"10.0.0.0/24", "swift", "eth0", "others"}));
	EXPECT_EQ(set->rows[1].group, set->rows[2].group);
	const auto who = [&](std::size_t i) {
		const FlowOwner &o = set->owners[set->rows[i].owner];

		return set->netns[o.netns] + ": " + o.who.name();
	};
	EXPECT_EQ(who(0), "home: a.service");
	EXPECT_EQ(who(1), "web: a.service");
	EXPECT_EQ(who(2), "web: b.service");
	EXPECT_EQ(of_own_targets(set)->rows.size(), 1U);

	auto mixed = std::make_shared<FlowSet>(*set);

	mixed->rows[1].from_bpf = true; // a variant's targets are all namespaces'
	EXPECT_EQ(of_own_targets(mixed)->rows.size(), 2U);

	const Summary s = summarize(*set, {}, {});

	ASSERT_EQ(s.owners.size(), 3U);
	EXPECT_EQ(s.owners[0].netns + s.owners[0].name, "homea.service");
	EXPECT_EQ(s.owners[0].flows, 1U);
	EXPECT_TRUE(s.owners[0].dst_prefix.empty());
	ASSERT_EQ(s.owner_prefixes.size(), 3U);
	EXPECT_EQ(s.owner_prefixes[0].netns + s.owner_prefixes[0].name + s.owner_prefixes[0].dst_prefix, "homea.service10.0.0.0/24");
	// With room for one the rest is one, which counts on when the first has gone.
	OwnerBook book;
	const auto shown = book.add(s, s.owners, 1, 10 * second);

	ASSERT_EQ(shown.size(), 2U);
	EXPECT_EQ(shown[0].name, "a.service");
	EXPECT_EQ(shown[1].name, "other");
	EXPECT_EQ(shown[1].flows, 2U);
	Summary later;
	later.now_ns = s.now_ns + 20 * second;
	book.add(later, {}, 1, 10 * second);
	EXPECT_TRUE(book.all().empty());
	EXPECT_EQ(book.add(s, s.owners, 1, 10 * second)[0].name, "a.service");
}

TEST(FlowTable, ACounterThatFellIsNoRate)
{
	FlowTable table({});
	Flow a = flow(1);

	a.tcp->bytes_acked = 1000;
	a.tcp->retrans_total = 7;
	dump(table, second, {a});
	a.tcp->bytes_acked = 10;
	a.tcp->retrans_total = 1;
	auto then = dump(table, 2 * second, {a});

	EXPECT_EQ(then->rows[0].rate_Bps, 0);
	EXPECT_EQ(then->rows[0].retrans_new, 0U);
}

// A flow's first losses, of its SYN say, happened since the dump before; at the first dump,
// and after other flows were asked for, nobody knows when.
TEST(FlowTable, FirstLossesOfANewFlowCount)
{
	FlowTable table({});
	Flow a = flow(1), b = flow(2), c = flow(3);

	a.tcp->retrans_total = b.tcp->retrans_total = c.tcp->retrans_total = 7;
	EXPECT_EQ(dump(table, second, {a})->rows[0].retrans_new, 0U);
	auto then = dump(table, 2 * second, {a, b});

	EXPECT_EQ(then->rows[0].retrans_new, 0U);
	EXPECT_EQ(then->rows[1].retrans_new, 7U);
	table.reconfigure({});
	EXPECT_EQ(dump(table, 3 * second, {a, b, c})->rows[2].retrans_new, 0U);
}

TEST(FlowTable, AFlowThatIsShownTwiceCountsOnce)
{
	FlowTable table({});

	EXPECT_EQ(dump(table, second, {flow(1), flow(2), flow(1)})->rows.size(), 2U);
}

// What the kernel shows again when a dump was interrupted, with some that came and went meanwhile.
TEST(FlowTable, ADumpThatIsTriedAgainCountsOnce)
{
	FlowTable table({});
	std::vector<Flow> flows;
	const auto of = [&](std::uint64_t from, std::uint64_t to, std::uint64_t bytes) {
		for (std::uint64_t i = from; i < to; i++) {
			flows.push_back(flow(i));
			flows.back().tcp->bytes_acked = bytes;
		}
	};

	of(1, 3001, 1000);
	dump(table, second, flows);
	flows.clear();
	of(1, 2001, 3000); // so far it got
	of(101, 4001, 4000);
	const auto then = dump(table, 2 * second, flows);

	ASSERT_EQ(then->rows.size(), 4000U);
	EXPECT_EQ(then->joined, 1000U);
	EXPECT_EQ(then->left, 0U);
	for (std::uint64_t i = 0; i < 4000; i++) {
		ASSERT_EQ(then->rows[i].cookie, i + 1);
		ASSERT_FLOAT_EQ(then->rows[i].rate_Bps, i < 2000 ? 2000 : i < 3000 ? 3000 : 0);
	}
}

namespace {

// A dump of our own namespace, and of pod's, which has @flows; without @flows it is not found.
std::shared_ptr<const FlowSet> dump_of_pod(FlowTable &table, std::int64_t now_ns,
					   const std::optional<std::vector<Flow>> &flows, bool whole = true)
{
	const IfaceMap ifaces;

	table.begin(now_ns, ifaces, "own");
	if (flows) {
		table.enter("pod", ifaces);
		for (const Flow &f : *flows)
			table.add(f);
		if (!whole)
			table.not_whole();
	}
	return table.end();
}

} // namespace

TEST(FlowTable, ANamespaceThatIsOutOfSightForAWhileHasNotEnded)
{
	FlowTable table({});
	Flow a = flow(1);

	a.tcp->bytes_acked = 1'000'000;
	a.tcp->segments_sent = 1000;
	std::int64_t now_ns = 10 * second;
	dump_of_pod(table, now_ns, {{a}});
	for (const bool found : {false, true}) { // then its dump fails
		a.tcp->bytes_acked += 4000;
		a.tcp->segments_sent += 4;
		const auto none = found ? std::optional(std::vector<Flow>()) : std::nullopt;
		const auto without = dump_of_pod(table, now_ns += second, none, !found);

		EXPECT_EQ(without->left, 0U);
		ASSERT_EQ(without->missed.size(), 1U);
		EXPECT_EQ(without->netns[without->missed[0].netns], "pod");
		EXPECT_EQ(std::accumulate(without->left_of_group.begin(), without->left_of_group.end(), 0U), 0U);
		const auto again = dump_of_pod(table, now_ns += second, {{a}});

		ASSERT_EQ(again->rows.size(), 1U);
		EXPECT_EQ(again->joined, 0U);
		EXPECT_EQ(again->rows[0].bytes_new, 4000U); // not all that it has ever sent
		EXPECT_EQ(again->rows[0].segments_new, 4U);
		EXPECT_EQ(again->rows[0].first_seen_ns, 10 * second);
	}
}

TEST(FlowTable, ANamespaceThatStaysAwayHasEndedAndOneThatComesBackWithoutAFlowEndedThat)
{
	FlowTable table({});
	const auto ended = [](const FlowSet &s) {
		return std::pair(s.left, std::accumulate(s.left_of_group.begin(), s.left_of_group.end(), std::size_t{0}));
	};

	dump_of_pod(table, 10 * second, {{flow(1), flow(2)}});
	EXPECT_EQ(ended(*dump_of_pod(table, 11 * second, std::nullopt)), std::pair(std::size_t{0}, std::size_t{0}));
	EXPECT_EQ(ended(*dump_of_pod(table, 12 * second, {{flow(2)}})), std::pair(std::size_t{1}, std::size_t{1}));
	for (unsigned i = 1; i < FlowTable::most_missed; i++)
		EXPECT_EQ(dump_of_pod(table, (12 + i) * second, std::nullopt)->left, 0U);
	EXPECT_EQ(ended(*dump_of_pod(table, 20 * second, std::nullopt)), std::pair(std::size_t{1}, std::size_t{1}));
	EXPECT_EQ(dump_of_pod(table, 21 * second, std::nullopt)->left, 0U);
}

TEST(FlowTable, TheSameAddressesWithAnotherSocketAreAnotherFlow)
{
	FlowTable table({});
	Flow a = flow(50001);
	Flow b = flow(100001); // the same ports

	ASSERT_EQ(a.local, b.local);
	a.tcp->bytes_acked = 10;
	b.tcp->bytes_acked = 1'000'000;
	dump(table, second, {a});
	auto then = dump(table, 2 * second, {b});

	EXPECT_EQ(then->rows[0].rate_Bps, 0);
	EXPECT_EQ(then->joined, 1U);
	EXPECT_EQ(then->left, 1U);
}

TEST(FlowTable, KeepsWhatItIsToldTo)
{
	FlowTable some({{"swift", "bpf_swift"}, {}, 256});
	FlowTable all({{"*"}, {}, 256});
	const std::vector<Flow> flows = {flow(1), flow(2, "10.0.0.2", "cubic"), flow(3, "10.0.0.2", "bpf_swift")};

	EXPECT_EQ(dump(some, second, flows)->rows.size(), 2U);
	EXPECT_EQ(dump(all, second, flows)->rows.size(), 3U);
}

TEST(FlowTable, ManyFlowsInAnyOrder)
{
	FlowTable table({});
	std::vector<Flow> flows;

	for (std::uint64_t i = 1; i <= 5000; i++) {
		flows.push_back(flow(i * 7919));
		flows.back().tcp->bytes_acked = i;
	}
	dump(table, second, flows);
	std::reverse(flows.begin(), flows.end());
	for (Flow &f : flows)
		f.tcp->bytes_acked += 1000;
	auto then = dump(table, 2 * second, flows);

	EXPECT_EQ(then->joined, 0U);
	for (const FlowRow &row : then->rows)
		ASSERT_FLOAT_EQ(row.rate_Bps, 1000);
}

TEST(FlowTable, PrefixesAreBoundedAndComeBack)
{
	FlowTable table({{}, {}, 2, 10 * second});
	auto first = dump(table, second, {flow(1, "10.0.1.1"), flow(2, "10.0.2.1"), flow(3, "10.0.3.1")});
	std::set<std::string> prefixes;

	for (const FlowGroup &g : first->groups)
		prefixes.insert(g.dst_prefix);
	EXPECT_EQ(prefixes, (std::set<std::string>{"10.0.1.0/24", "10.0.2.0/24", "other"}));
	EXPECT_EQ(first->dropped_prefixes, 1U);

	// The first two are gone for long enough: the third gets a place of its own.
	dump(table, 20 * second, {flow(3, "10.0.3.1")});
	auto then = dump(table, 21 * second, {flow(3, "10.0.3.1")});

	EXPECT_EQ(then->groups[then->rows[0].group].dst_prefix, "10.0.3.0/24");
	EXPECT_EQ(then->dropped_prefixes, 0U);
}

TEST(FlowTable, GroupsAreBoundedUnderAnyTraffic)
{
	FlowTable table({{}, {}, 4, 2 * second});

	for (int round = 1; round < 50; round++) {
		std::vector<Flow> flows;

		for (unsigned i = 0; i < 200; i++) {
			const std::string remote = "10." + std::to_string(round) + "." + std::to_string(i) + ".1";
			const std::string cc = "cc" + std::to_string((i + static_cast<unsigned>(round)) % 90);

			flows.push_back(flow(1000U * static_cast<unsigned>(round) + i, remote.c_str(), cc.c_str()));
		}
		auto set = dump(table, round * second, flows);
		std::set<std::string> prefixes;

		for (const FlowRow &row : set->rows)
			prefixes.insert(set->groups[row.group].dst_prefix);
		ASSERT_LE(prefixes.size(), 5U);
		ASSERT_LE(set->groups.size(), 5U * 8 + 1);
		ASSERT_LE(set->ccs.size(), 32U);
	}
}

// Containers come and go, each with an interface of its own.
TEST(FlowTable, LabelsThatNobodyUsesMakeRoom)
{
	FlowTable table({{"*"}, {}, 256, 10 * second});
	const auto label = [&](std::int64_t now_ns, unsigned n) {
		const std::string name = "veth" + std::to_string(n), cc = "cc" + std::to_string(n);
		const auto set = dump(table, now_ns, {flow(n, "10.0.0.2", cc.c_str())},
				      {{{2, name, false, false}}, {{*Address::parse("10.0.0.1"), 2}}});

		return set->groups[set->rows[0].group].iface + " " + set->groups[set->rows[0].group].cc + " " +
		       set->ifaces[set->rows[0].iface] + " " + set->ccs[set->rows[0].cc];
	};
	const auto all = [](unsigned n) {
		const std::string name = "veth" + std::to_string(n) + " cc" + std::to_string(n);

		return name + " " + name;
	};

	for (unsigned n = 1; n <= 500; n++)
		ASSERT_EQ(label(n * second, n), all(n)) << "11 are in use at a time";
	// More at once than there is room for are one, until those before have been gone for long.
	for (unsigned n = 1001; n <= 1100; n++)
		label(600 * second, n);
	EXPECT_EQ(label(600 * second, 1100), "other other other other");
	label(620 * second, 2000);
	EXPECT_EQ(label(621 * second, 1100), all(1100));
}

// Of flows that live on, too.
TEST(FlowTable, AnInterfaceThatFoundNoPlaceGetsOne)
{
	FlowTable table({{}, {}, 256, 10 * second});
	std::vector<Link> links;
	std::vector<LocalAddress> addresses;
	std::vector<Flow> flows;

	for (unsigned n = 1; n <= 100; n++) {
		const std::string address = "10.0.1." + std::to_string(n);

		links.push_back({n, "veth" + std::to_string(n), false, false});
		addresses.push_back({*Address::parse(address), n});
		flows.push_back(flow(n));
		flows.back().local = at(address.c_str(), 1000);
	}
	const IfaceMap map(links, addresses);
	const auto last = [&](std::int64_t now_ns, const std::vector<Flow> &those) {
		const auto set = dump(table, now_ns, those, map);
		const FlowRow &row = set->rows.back();

		return set->ifaces[row.iface] + " " + set->groups[row.group].iface;
	};

	EXPECT_EQ(last(second, flows), "other other");
	EXPECT_EQ(last(2 * second, flows), "other other");
	last(20 * second, {flows.back()}); // the others are gone for long enough
	EXPECT_EQ(last(21 * second, {flows.back()}), "veth100 veth100");
}

// What is not collected takes no place from what is.
TEST(FlowTable, OthersCongestionControlsDoNotCrowdOutOurs)
{
	FlowTable table({{"swift"}, {}, 256, 10 * second});
	std::vector<Flow> flows;

	for (unsigned n = 1; n <= 60; n++)
		flows.push_back(flow(n, "10.0.0.2", ("cc" + std::to_string(n)).c_str()));
	EXPECT_TRUE(dump(table, second, flows)->rows.empty());
	dump(table, 20 * second, {});
	EXPECT_EQ(dump(table, 21 * second, {flow(1)})->rows.size(), 1U);
}

TEST(FlowTable, AnAddressThatMovesTakesItsFlowsAlong)
{
	FlowTable table({});
	IfaceMap map = ifaces();
	const auto iface = [&](std::int64_t now_ns) {
		const auto set = dump(table, now_ns, {flow(1)}, map);

		return set->groups[set->rows[0].group].iface;
	};

	EXPECT_EQ(iface(second), "eth0");
	map.replace({{3, "eth1", false, false}}, {{*Address::parse("10.0.0.1"), 3}});
	EXPECT_EQ(iface(2 * second), "eth1");
	map.replace({}, {});
	EXPECT_EQ(iface(3 * second), "unknown");
}

TEST(FlowTable, PrefixOf)
{
	const std::vector<Prefix> mine = {*Prefix::parse("10.0.0.0/8"), *Prefix::parse("10.1.0.0/16")};

	EXPECT_EQ(prefix_of(*Address::parse("10.1.2.3"), mine).text(), "10.1.0.0/16");
	EXPECT_EQ(prefix_of(*Address::parse("10.2.2.3"), mine).text(), "10.0.0.0/8");
	EXPECT_EQ(prefix_of(*Address::parse("192.168.7.9"), mine).text(), "192.168.7.0/24");
	EXPECT_EQ(prefix_of(*Address::parse("fd00:1:2:3:4::5"), mine).text(), "fd00:1:2:3::/64");
}

TEST(IfaceMap, Loopback)
{
	const IfaceMap map = ifaces();

	EXPECT_EQ(map.find(*Address::parse("127.9.9.9")), "lo");
	EXPECT_EQ(map.find(*Address::parse("::1")), "lo");
	EXPECT_EQ(map.find(*Address::parse("10.0.0.1")), "eth0");
	EXPECT_EQ(map.find(*Address::parse("10.0.0.9")), "unknown");
}

// --- The summary ---------------------------------------------------------------------------

Summary summary_of(const std::vector<Flow> &flows, const HistogramSource *source = nullptr)
{
	FlowTable table({});

	return summarize(*dump(table, second, flows), source, {});
}

std::vector<Flow> flows_of(std::size_t n, std::uint32_t fabric_us, std::uint32_t host_us, Limit limit)
{
	std::vector<Flow> flows;

	for (std::size_t i = 1; i <= n; i++)
		flows.push_back(measured(i, fabric_us, host_us, limit));
	return flows;
}

TEST(Summary, Verdicts)
{
	const auto verdict = [](const std::vector<Flow> &flows) { return summary_of(flows).groups.at(0).verdict; };

	EXPECT_EQ(verdict(flows_of(8, 90, 10, Limit::fabric)).bound, Bound::fabric);
	EXPECT_EQ(verdict(flows_of(8, 20, 900, Limit::host)).bound, Bound::host);
	EXPECT_EQ(verdict(flows_of(8, 90, 900, Limit::both)).bound, Bound::mixed);
	EXPECT_EQ(verdict(flows_of(8, 20, 10, Limit::fabric)).bound, Bound::fabric) << "its window grows";
	EXPECT_EQ(verdict({flow(1)}).bound, Bound::none);
	EXPECT_NE(verdict(flows_of(8, 20, 900, Limit::host)).text.find("10.0.0.0/24"), std::string::npos);
	EXPECT_TRUE(verdict(flows_of(8, 20, 900, Limit::host)).text.starts_with("host-bound: "));
	EXPECT_TRUE(verdict({flow(1)}).text.starts_with("not measured"));
}

// Of what a group's flows have in common it is told who holds most of those back that could send.
TEST(Summary, VerdictsNameWhoeverItIs)
{
	const auto group = [](void (*change)(TcpCounters &), std::size_t of_eight = 8) {
		auto flows = flows_of(8, 90, 10, Limit::fabric);

		for (std::size_t i = 0; i < of_eight; i++)
			change(*flows[i].tcp);
		return summary_of(flows).groups.at(0);
	};
	const auto idle = [](TcpCounters &c) { c.unacked_pkts = c.notsent_bytes = 0; };
	const auto app = [](TcpCounters &c) {
		c.notsent_bytes = 0;
		c.app_limited = true;
	};
	const auto receiver = [](TcpCounters &c) { c.times.rwnd_limited_us = 900'000; };
	const auto buffer = [](TcpCounters &c) { c.times.sndbuf_limited_us = 900'000; };

	EXPECT_EQ(group(idle).verdict.text, "application-bound: no flow to 10.0.0.0/24 has anything to send");
	EXPECT_EQ(group(idle).idle, 8U);
	EXPECT_EQ(group(idle, 7).verdict.bound, Bound::fabric) << "the one that sends counts, not those that rest";
	EXPECT_EQ(group(idle, 7).held[static_cast<std::size_t>(Bound::fabric)], 1U);
	EXPECT_EQ(group(app).verdict.text, "application-bound: 8 of 8 flows to 10.0.0.0/24 send all they have");
	EXPECT_EQ(group(receiver, 7).verdict.text,
		  "receiver-bound: 7 of 8 flows wait for the receive windows of 10.0.0.0/24");
	EXPECT_EQ(group(buffer).verdict.bound, Bound::send_buffer);
	EXPECT_EQ(group(receiver, 5).verdict.bound, Bound::fabric) << "a quarter is the network's";
}

// A receiver's link is part of the network: it is named where more flows wait for it than for the rest.
TEST(Summary, VerdictsOfCredit)
{
	const auto group = [](std::size_t waiting, std::size_t congested) {
		auto flows = flows_of(8, 90, 10, Limit::fabric);

		for (std::size_t i = 0; i < waiting + congested; i++)
			flows[i].swift->credit = i < waiting ? Credit::waits : Credit::congested;
		return summary_of(flows).groups.at(0);
	};

	EXPECT_EQ(group(8, 0).verdict.text, "credit-bound: 8 of 8 flows wait for credit of 10.0.0.0/24, which lends its link");
	EXPECT_EQ(group(8, 0).verdict.bound, Bound::credit);
	EXPECT_EQ(group(8, 0).held[static_cast<std::size_t>(Bound::credit)], 8U);
	EXPECT_EQ(group(1, 6).verdict.bound, Bound::own_link);
	EXPECT_EQ(group(1, 6).verdict.text,
		  "credit-bound: 6 of 8 flows get less credit of 10.0.0.0/24, because this host's own link is congested");
	EXPECT_EQ(group(5, 0).verdict.bound, Bound::credit);
	EXPECT_EQ(group(4, 0).verdict.bound, Bound::fabric) << "as many wait for the fabric";
	EXPECT_EQ(group(1, 0).verdict.bound, Bound::fabric);
}

TEST(Summary, CountsAndQuantiles)
{
	auto flows = flows_of(99, 50, 10, Limit::fabric);

	flows.push_back(measured(100, 4000, 10, Limit::host));
	flows.push_back(flow(101, "10.0.0.2", "swift-reno"));
	const Summary s = summary_of(flows);

	EXPECT_EQ(s.totals.flows, 101U);
	EXPECT_EQ(s.totals.swift_flows, 100U);
	EXPECT_EQ(s.totals.guarded_flows, 1U);
	const GroupSummary &g = s.groups.at(0);

	EXPECT_EQ(g.flows, 100U);
	EXPECT_EQ(g.limited[static_cast<std::size_t>(Limit::fabric)], 99U);
	EXPECT_EQ(g.stamps[static_cast<std::size_t>(Stamp::hardware)], 100U);
	EXPECT_NEAR(g.delay(Part::fabric)->p50, 50e3, 50e3 * 0.13);
	EXPECT_NEAR(g.delay(Part::fabric)->mean, (99 * 50e3 + 4000e3) / 100, 1);
	EXPECT_FALSE(g.delay(Part::remote_host));
	EXPECT_FALSE(s.groups.at(1).delay(Part::fabric)); // nothing measured it
	EXPECT_EQ(g.samples.at(Part::fabric).count(), 100U);
}

// What Prometheus counts: each byte, segment and end of a flow once, on whichever interface it is.
TEST(Summary, CountersOfBytesSegmentsAndEnds)
{
	FlowTable table({});
	Counters counters;
	IfaceMap map({{2, "eth0", false, false}, {3, "eth1", false, false}},
		     {{*Address::parse("10.0.0.1"), 2}, {*Address::parse("10.0.0.9"), 3}});
	const auto seen = [](std::uint64_t cookie, std::uint64_t bytes, std::uint32_t segments, const char *local) {
		Flow f = flow(cookie);

		f.local.address = *Address::parse(local);
		f.tcp->bytes_acked = bytes;
		f.tcp->segments_sent = segments;
		return f;
	};
	const auto look = [&](std::int64_t now_ns, const std::vector<Flow> &flows) {
		counters.add(summarize(*dump(table, now_ns, flows, map), nullptr, {}), 300 * second);
	};
	const auto sums = [&] {
		std::array<std::uint64_t, 3> out{};

		for (const GroupCounters &c : counters.all()) {
			out[0] += c.bytes;
			out[1] += c.segments;
			out[2] += c.ended;
		}
		return out;
	};
	using Sums = std::array<std::uint64_t, 3>;

	look(second, {seen(1, 5000, 4'294'967'295U, "10.0.0.1")});
	EXPECT_EQ(sums(), Sums({0, 0, 0})) << "when that was, nobody knows";
	look(2 * second, {seen(1, 6000, 4, "10.0.0.1"), seen(2, 700, 7, "10.0.0.9")});
	EXPECT_EQ(sums(), Sums({1700, 12, 0})) << "the kernel's counter of segments has 32 bits";
	EXPECT_EQ(counters.all().size(), 2U);
	// Another interface has the address now: the flow is the same, and what it sent is sent once.
	map.replace({{2, "eth0", false, false}, {3, "eth1", false, false}},
		    {{*Address::parse("10.0.0.1"), 3}, {*Address::parse("10.0.0.9"), 3}});
	look(3 * second, {seen(1, 6500, 5, "10.0.0.1"), seen(2, 700, 7, "10.0.0.9")});
	EXPECT_EQ(sums()[0], 2200U);
	EXPECT_EQ(sums()[1], 13U);
	look(4 * second, {seen(2, 800, 8, "10.0.0.9")});
	EXPECT_EQ(sums(), Sums({2300, 14, 1}));
	look(5 * second, {});
	EXPECT_EQ(sums(), Sums({2300, 14, 2}));
}

TEST(Summary, BucketsAreExactAtTheirEdges)
{
	LogHistogram h;

	h.add(1023);
	h.add(1024);
	h.add(0xffffffffU);
	const DelayBuckets b = delay_buckets(h);

	EXPECT_EQ(b[0], 1U);
	EXPECT_EQ(b[1], 1U);
	EXPECT_EQ(b[delay_edges], 1U);
}

TEST(Summary, TelemetryGoesBeforeSamples)
{
	TelemetryReading since;
	TelemetryPrefix p;

	p.prefix = *Prefix::parse("10.0.0.0/24");
	p.cc = "swift";
	for (int i = 0; i < 1000; i++)
		p.counts.histograms[static_cast<std::size_t>(Telemetered::remote)].add(800'000);
	p.counts.histograms[static_cast<std::size_t>(Telemetered::local)].add(10'000);
	p.counts.histograms[static_cast<std::size_t>(Telemetered::tx_nic)].add(30'000, 3);
	p.counts.decisions[static_cast<std::size_t>(Decision::decrease_endpoint)] = 7;
	since.prefixes.push_back(p);
	const TelemetrySource source(since);
	const Summary s = summary_of(flows_of(8, 20, 900, Limit::host), &source);
	const GroupSummary &g = s.groups.at(0);

	EXPECT_FALSE(s.sampled);
	EXPECT_FALSE(g.sampled);
	EXPECT_EQ(g.delay(Part::remote_host)->n, 1000U);
	EXPECT_EQ(g.delay(Part::tx_nic)->n, 3U);
	EXPECT_FALSE(g.delay(Part::tx_host));
	EXPECT_EQ((*g.decreases)[static_cast<std::size_t>(Cause::endpoint)], 7U);
	EXPECT_NE(g.verdict.text.find("receivers in 10.0.0.0/24"), std::string::npos);
	EXPECT_EQ(g.delay(Part::fabric)->n, 8U); // still sampled
}

TelemetryReading counted(const std::vector<std::pair<const char *, unsigned>> &prefixes)
{
	TelemetryReading r;

	for (const auto &[text, n] : prefixes) {
		TelemetryPrefix p;

		if (*text)
			p.prefix = *Prefix::parse(text);
		p.cc = "swift";
		p.counts.histograms[static_cast<std::size_t>(Telemetered::fabric)].add(50'000, n);
		p.counts.decisions[static_cast<std::size_t>(Decision::decrease_fabric)] = n;
		r.prefixes.push_back(p);
	}
	return r;
}

// Its prefixes need not be those of the groups: what counts is which flows are in them.
TEST(Summary, TelemetryIsMatchedByWhatItsPrefixesHold)
{
	const std::vector<Prefix> mine = {*Prefix::parse("10.0.0.0/8"), *Prefix::parse("10.7.0.0/16")};
	const TelemetrySource source(counted({{"10.1.0.0/24", 5},
					      {"10.2.0.0/16", 7}, // both of 10/8
					      {"10.7.9.0/24", 11},
					      {"10.0.0.0/12", 100}, // has flows of 10.7/16 in it
					      {"192.168.0.0/16", 100}, // of many groups of /24
					      {"fd00::/64", 13},
					      {"", 100}}),
				     mine);
	const auto cuts = [&](const char *prefix) -> std::uint64_t {
		const GroupSamples *s = source.find({prefix, "swift", "eth0"});

		if (!s)
			return 0;
		EXPECT_EQ(s->delays[static_cast<std::size_t>(Part::fabric)]->count(), s->decreases[0]);
		return s->decreases[0];
	};

	EXPECT_EQ(cuts("10.0.0.0/8"), 12U);
	EXPECT_EQ(cuts("10.7.0.0/16"), 11U);
	EXPECT_EQ(cuts("192.168.1.0/24"), 0U);
	EXPECT_EQ(cuts("192.168.0.0/16"), 0U);
	EXPECT_EQ(cuts("fd00::/64"), 13U);
	EXPECT_EQ(cuts("other"), 0U) << "the telemetry's are other flows than ours";
	EXPECT_FALSE(source.find({"10.0.0.0/8", "bpf_swift", "eth0"}));
}

TEST(Summary, EachGroupTellsWhereItsHistogramsAreFrom)
{
	FlowTable table({});
	const TelemetrySource source(counted({{"10.0.0.0/24", 5}}));
	const Summary s = summarize(*dump(table, second, {flow(1), flow(2), flow(3, "10.9.0.2")}), &source, {});

	ASSERT_EQ(s.groups.size(), 2U);
	EXPECT_FALSE(s.groups[0].sampled);
	EXPECT_TRUE(s.groups[1].sampled);
	EXPECT_FALSE(s.sampled);
	const TelemetrySource elsewhere(counted({{"10.8.0.0/24", 5}}));

	EXPECT_TRUE(summarize(*dump(table, 2 * second, {flow(1)}), &elsewhere, {}).sampled);
}

// The telemetry knows no interfaces: what it counts is of the flows through both, and is there once.
TEST(Summary, TwoInterfacesCountTheTelemetryOnce)
{
	FlowTable table({});
	const TelemetrySource source(counted({{"10.0.0.0/24", 500}}));
	FlowSet set = *dump(table, second, flows_of(3, 50, 10, Limit::fabric));

	set.ifaces.emplace_back("eth1");
	set.groups.push_back({"10.0.0.0/24", "swift", "eth1"});
	set.rows.back().group = static_cast<decltype(set.rows.back().group)>(set.groups.size() - 1);
	const Summary s = summarize(set, &source, {});
	const auto counted_of = [&](Part part) {
		std::uint64_t n = 0;

		for (const GroupSummary &g : s.groups)
			if (const auto at = g.samples.find(part); at != g.samples.end())
				n += at->second.count();
		return n;
	};

	ASSERT_EQ(s.groups.size(), 2U);
	EXPECT_EQ(counted_of(Part::fabric), 500U);
	EXPECT_EQ(counted_of(Part::host), 3U) << "of which the telemetry tells nothing";
	EXPECT_EQ(s.groups[1].delay(Part::fabric)->n, 1U) << "it is shown all the same";
	EXPECT_FALSE(s.groups[1].decreases);
}

// --- Options and their file ------------------------------------------------------------------

std::string wrong(const std::string &toml, const Overrides &overrides = {})
{
	const auto c = parse_config(toml, "swiftd.toml", overrides);

	return c ? "" : c.error().text();
}

TEST(Options, TheTableIsConsistent)
{
	std::set<std::string_view> names;

	for (const Option &o : options()) {
		Config c;

		EXPECT_TRUE(names.insert(o.name).second) << o.name;
		EXPECT_TRUE(set_option(c, o, o.get(c))) << o.name << ": its default is not allowed";
		EXPECT_FALSE(o.help.empty());
	}
	EXPECT_EQ(wrong(sample_toml()), "");
	EXPECT_EQ(*parse_config(sample_toml(), "f"), Config{});
}

TEST(Options, CommandLineTexts)
{
	EXPECT_EQ(wrong("", {{"collect.interval_s", "x"}}),
		  "--collect.interval_s = x: allowed are decimals of 0.1 to 60");
	EXPECT_NE(wrong("", {{"http.allow_anonymous", "yes"}}), "");
	EXPECT_NE(wrong("", {{"nope", "1"}}), "");
	const auto c = parse_config("", "", {{"collect.ccs", "swift,cubic"}, {"http.listen", ""}});

	ASSERT_TRUE(c);
	EXPECT_EQ(c->collect.ccs, (std::vector<std::string>{"swift", "cubic"}));
	EXPECT_TRUE(c->http.listen.empty());
}

TEST(Config, SaysWhereAndWhat)
{
	EXPECT_EQ(wrong("[collect]\ninterval_s = 99\n"),
		  "swiftd.toml:2: collect.interval_s = 99.0: allowed are decimals of 0.1 to 60");
	EXPECT_EQ(wrong("[collect]\n\ninterval = 1\n"),
		  "swiftd.toml:3: unknown option collect.interval (did you mean collect.interval_s?)");
	EXPECT_EQ(wrong("[http]\nlisten = \"127.0.0.1:9464\"\n"),
		  "swiftd.toml:2: http.listen = \"127.0.0.1:9464\": allowed are lists of up to 256 strings, without "
		  "blanks at their ends");
	EXPECT_TRUE(wrong("[collect\n").starts_with("swiftd.toml:1: "));
	EXPECT_TRUE(wrong("[nope]\n").starts_with("swiftd.toml:1: unknown table 'nope'"));
	EXPECT_TRUE(wrong("[collect]\ninterval_s = nan\n").starts_with("swiftd.toml:2: "));
	EXPECT_TRUE(wrong("[collect]\nmax_prefixes = 1.5\n").starts_with("swiftd.toml:2: "));
	EXPECT_TRUE(wrong("[collect]\nccs = [1]\n").starts_with("swiftd.toml:2: "));
	EXPECT_TRUE(wrong("[log]\nlevel = \"loud\"\n").find("debug, info, warning, error") != std::string::npos);
	EXPECT_NE(wrong("x = " + std::string(100000, '[')), "");
	// The parser goes down into each part, and back.
	std::string dotted = "a", quoted = "\"#\"", addresses;

	for (int i = 0; i < 50'000; i++) {
		dotted += ".a";
		quoted += ".a";
	}
	for (const std::string &key : {dotted + " = 1\n", "[" + dotted + "]\n", "x = {" + dotted + " = 1}\n", quoted + " = 1\n",
				       "x = [\"\"\"a\"\"\"\", {" + dotted + " = 1}]\n", "x = ['''a'''', {" + dotted + " = 1}]\n"})
		EXPECT_EQ(wrong(key), "swiftd.toml: too large for a configuration") << key.substr(0, 40);
	for (int i = 0; i < 20; i++)
		addresses += "\"127.0.0." + std::to_string(i + 1) + ":9464\", ";
	EXPECT_EQ(wrong("# ..................\n[http]\nlisten = [" + addresses + "]\n"),
		  "swiftd.toml: http.listen has 20 addresses: allowed are up to 8") << "in quotes a dot is none";
	EXPECT_EQ(wrong("[collect]\ninterval_s = 2\n"), ""); // an integer is a decimal
}

TEST(Config, WhatOptionsMeanTogether)
{
	EXPECT_NE(wrong("[http]\nlisten = [\"0.0.0.0:80\"]\n"), "");
	EXPECT_EQ(wrong("[http]\nlisten = [\"0.0.0.0:80\"]\nallow_anonymous = true\n"), "");
	EXPECT_EQ(wrong("[http]\nlisten = [\"[::1]:80\"]\n"), "");
	const std::string token = "token_file = \"t\"\n", tls = "tls_certificate = \"c\"\ntls_key = \"k\"\n";

	EXPECT_EQ(wrong("[http]\nlisten = [\"0.0.0.0:80\"]\n" + token),
		  "swiftd.toml: http.listen is open to other hosts, whose token (http.token_file) anybody on the way "
		  "could read: set http.tls_certificate and http.tls_key, or http.token_in_clear = true");
	EXPECT_EQ(wrong("[http]\nlisten = [\"0.0.0.0:80\"]\n" + token + tls), "");
	EXPECT_EQ(wrong("[http]\nlisten = [\"0.0.0.0:80\"]\n" + token + "token_in_clear = true\n"), "");
	EXPECT_EQ(wrong("[http]\nlisten = [\"127.0.0.1:80\", \"[::1]:80\"]\n" + token), "");
	EXPECT_NE(wrong("[http]\nlisten = [\"127.0.0.1:80\", \"[fd00::1]:80\"]\n" + token), "");
	EXPECT_EQ(wrong("[http]\nnames = [\"h1.example.com\", \"*.example.com\"]\n"), "");
	for (const char *name : {"*", "*.", "a b", "https://h1", "h1:9464", "h1/"})
		EXPECT_EQ(wrong(std::string("[http]\nnames = [\"") + name + "\"]\n"),
			  std::string("swiftd.toml: http.names = \"") + name +
				  "\": allowed are names of hosts without a port, and \"*.\" before one");
	EXPECT_NE(wrong("[http]\nlisten = [\"::1:80\"]\n"), "");
	EXPECT_NE(wrong("[http]\nlisten = [\"localhost:80\"]\n"), "");
	EXPECT_NE(wrong("[http]\ntls_key = \"k\"\n"), "");
	EXPECT_NE(wrong("[collect]\nprefixes = [\"10.0.0.0/33\"]\n"), "");
	EXPECT_NE(wrong("[collect]\nccs = []\n").find("collect.ccs is empty"), std::string::npos);
	EXPECT_NE(wrong("", {{"collect.ccs", ""}}).find("\"*\" for all"), std::string::npos);
}

// The one that is looked for by default may be made while swiftd runs.
TEST(Config, AFileThatMayBeMissing)
{
	const std::string path = testing::TempDir() + "swiftd_test_optional.toml";

	std::remove(path.c_str());
	EXPECT_FALSE(load_config(path, {}));
	ASSERT_TRUE(load_config(path, {}, true));
	EXPECT_EQ(load_config(path, {}, true)->collect.interval_s, 1);
	std::ofstream(path) << "[collect]\ninterval_s = 3.0\n";
	EXPECT_EQ(load_config(path, {}, true)->collect.interval_s, 3);
	std::ofstream(path) << "[collect]\ninterval_s = 99\n";
	EXPECT_FALSE(load_config(path, {}, true));
	std::remove(path.c_str());
}

TEST(Config, ReloadIsAllOrNothing)
{
	Config from;
	Config to = from;

	to.collect.interval_s = 2;
	EXPECT_EQ(*config_changes(from, to), std::vector<std::string>{"collect.interval_s: 1.0 -> 2.0"});
	to.http.per_ip = 5;
	EXPECT_NE(config_changes(from, to).error().text().find("http.per_ip"), std::string::npos);
}

// --- Metrics and the API ---------------------------------------------------------------------

class Served : public testing::Test {
protected:
	Served() { next({flow(0xabc, "10.0.0.2", "cubic"), measured(2, 90, 10, Limit::fabric), measured(3, 20, 900, Limit::host)}); }

	void next(const std::vector<Flow> &flows)
	{
		auto s = std::make_shared<Snapshot>();

		now_ns_ += second;
		s->number = ++number_;
		s->time_s = 1.7e9 + static_cast<double>(number_);
		s->flows = dump(table_, now_ns_, flows);
		s->summary = summarize(*s->flows, nullptr, {});
		counters_.add(s->summary, 300 * second);
		s->counters = counters_.all();
		s->collect.collections = number_;
		s->interval_ms = interval_ms_;
		s->clocks.push_back({"eth0", "fed", 5, 1.5, 30, 0.1});
		store_.put(s);
	}
	Response get(const std::string &target, const char *method = "GET")
	{
		const Response r = respond({method, target}, {store_, facts_, {}, now_ns_, 1.7e9, &cache_});

		if (r.watch)
			store_.watch(*r.watch, now_ns_);
		return r;
	}
	json get_json(const std::string &target)
	{
		const Response r = get(target);

		EXPECT_EQ(r.status, 200U) << *r.body;
		return json::parse(*r.body);
	}
	std::string refusal(const std::string &target)
	{
		const Response r = get(target);

		EXPECT_EQ(r.status, 400U) << target;
		return json::parse(*r.body).at("error");
	}

	std::int64_t now_ns_ = 100 * second;
	std::uint64_t number_ = 0;
	std::int64_t interval_ms_ = 1000;
	TextCache cache_;
	FlowTable table_{{}};
	Counters counters_;
	Store store_;
	HostFacts facts_{"host", "6.12"};
};

TEST_F(Served, FlowsAreSortedChosenAndPaged)
{
	const auto ids = [&](const std::string &query) {
		std::vector<std::string> out;

		const json all = get_json("/api/v1/flows?" + query);

		for (const json &f : all.at("flows"))
			out.push_back(f.at("id"));
		return out;
	};
	using Ids = std::vector<std::string>;

	EXPECT_EQ(ids("sort=fabric"), (Ids{"2", "3", "abc"}));
	EXPECT_EQ(ids("sort=fabric&order=asc"), (Ids{"abc", "3", "2"}));
	EXPECT_EQ(ids("sort=host&limit=1"), (Ids{"3"}));
	EXPECT_EQ(ids("sort=host&limit=1&offset=1"), (Ids{"2"}));
	EXPECT_EQ(ids("offset=1000000000"), Ids{});
	EXPECT_EQ(ids("cc=cubic"), (Ids{"abc"}));
	EXPECT_EQ(ids("limit_by=host"), (Ids{"3"}));
	EXPECT_EQ(ids("prefix=10.1.0.0/16"), Ids{});
	EXPECT_EQ(ids("q=abc"), (Ids{"abc"}));
	EXPECT_EQ(ids("q=%31%30.0.0.2&cc=cubic"), (Ids{"abc"}));
	EXPECT_EQ(get_json("/api/v1/flows?cc=cubic").at("matched"), 1);
	EXPECT_EQ(get_json("/api/v1/flows?cc=cubic").at("total"), 3);
	EXPECT_TRUE(get_json("/api/v1/flows?cc=cubic").at("flows")[0].at("fabric_ns").is_null());
}

// A group's flows are those of its prefix, congestion control, interface and namespace.
TEST_F(Served, FlowsAreChosenByInterfaceAndNamespace)
{
	const IfaceMap here = ifaces();
	const IfaceMap there = {{{2, "eth9", false, false}}, {{*Address::parse("10.0.0.1"), 2}}};
	auto s = std::make_shared<Snapshot>();
	const auto ids = [&](const std::string &query) {
		const json all = get_json("/api/v1/flows?sort=age&" + query);
		std::string out;

		for (const json &f : all.at("flows"))
			out += f.at("id").get<std::string>() + " ";
		return out;
	};

	table_.begin(now_ns_, here, "home");
	table_.add(flow(4));
	table_.enter("web5", here);
	table_.add(flow(5));
	table_.enter("web6", there);
	table_.add(flow(6));
	s->number = ++number_;
	s->flows = table_.end();
	s->summary = summarize(*s->flows, nullptr, {});
	store_.put(s);
	EXPECT_EQ(ids(""), "4 5 6 ");
	EXPECT_EQ(ids("iface=eth0"), "4 5 ");
	EXPECT_EQ(ids("iface=eth"), "");
	EXPECT_EQ(ids("iface="), "");
	EXPECT_EQ(ids("netns=web5"), "5 ");
	EXPECT_EQ(ids("netns=home"), "4 ");
	EXPECT_EQ(ids("netns=own"), "4 ");
	EXPECT_EQ(ids("netns=others"), "5 6 ");
	EXPECT_EQ(ids("netns=others&iface=eth9&prefix=10.0.0.0/24"), "6 ");
	EXPECT_EQ(refusal("/api/v1/flows?iface=" + std::string(1025, 'a')),
		  "iface=aaaaaaaaaaaaaaaaaaaa...: allowed are names of up to 1024 bytes");
}

TEST_F(Served, AFlowAndItsHistory)
{
	EXPECT_EQ(get("/api/v1/flows/12ab").status, 404U);
	EXPECT_EQ(json::parse(*get("/api/v1/flows/12ab").body).at("error"), "flow 12ab is not live");
	next({measured(2, 90, 10, Limit::fabric)});
	const json j = get_json("/api/v1/flows/2");

	EXPECT_EQ(j.at("verdict").at("limit"), "fabric");
	EXPECT_EQ(j.at("history").at("fabric_ns"), (json{90000.0, 90000.0}));
	EXPECT_EQ(j.at("history").at("time_s").size(), 2U);
	EXPECT_EQ(get("/api/v1/flows/abc").status, 404U);
}

TEST_F(Served, AWatchedFlowGetsAHistory)
{
	std::vector<Flow> flows;

	for (std::uint64_t i = 1; i <= 200; i++) {
		flows.push_back(flow(i));
		flows.back().tcp->srtt_us = static_cast<std::uint32_t>(1000 + i);
	}
	next(flows);
	EXPECT_TRUE(get_json("/api/v1/flows/1").at("history").at("time_s").empty()); // asks for one
	EXPECT_FALSE(get_json("/api/v1/flows/c8").at("history").at("time_s").empty()); // the slowest
	next(flows);
	EXPECT_EQ(get_json("/api/v1/flows/1").at("history").at("time_s").size(), 1U);
}

TEST_F(Served, HistoriesAreBounded)
{
	for (int i = 0; i < 400; i++)
		next({measured(2, 90, 10, Limit::fabric)});
	const json summary = get_json("/api/v1/summary?history=1");
	const json &prefixes = summary.at("history").at("prefixes");

	for (const auto &[key, h] : prefixes.items())
		EXPECT_LE(h.at("time_s").size(), 300U) << key;
	ASSERT_TRUE(prefixes.contains("10.0.0.0/24|swift|eth0"));
	EXPECT_GT(prefixes.at("10.0.0.0/24|swift|eth0").at("time_s").size(), 250U);
	EXPECT_FALSE(get_json("/api/v1/summary").contains("history"));
}

TEST_F(Served, RefusesWhatItDoesNotKnow)
{
	EXPECT_EQ(refusal("/api/v1/flows?limit=0"), "limit=0: allowed are 1 to 1000");
	EXPECT_EQ(refusal("/api/v1/flows?limit=1001"), "limit=1001: allowed are 1 to 1000");
	for (const char *q : {"sort=x", "order=up", "offset=-1", "prefix=1/99", "limit_by=none", "nope=1", "limit=1&limit=2",
			      "q=%zz", "q=%0a", "cc=aaaaaaaaaaaaaaaa"})
		refusal(std::string("/api/v1/flows?") + q);
	refusal("/api/v1/summary?history=2");
	refusal("/api/v1/config?x=1");
	refusal("/api/v1/flows/xyz");
	refusal("/" + std::string(5000, 'a'));
	EXPECT_EQ(get("/nope").status, 404U);
	EXPECT_EQ(get("/api/v1/summary", "POST").status, 405U);
	EXPECT_EQ(get("/", "HEAD").status, 200U);
}

TEST_F(Served, HealthFollowsCollection)
{
	EXPECT_EQ(get("/healthz").status, 200U);
	now_ns_ += 4 * second;
	EXPECT_EQ(get("/healthz").status, 503U);
	Store empty;

	EXPECT_EQ(respond({"GET", "/healthz"}, {empty, facts_, {}, 0, 0}).status, 503U);
	EXPECT_EQ(respond({"GET", "/metrics"}, {empty, facts_, {}, 0, 0}).status, 503U);
}

// collect.max_cpu_percent stretches the interval: late is what is late then.
TEST_F(Served, AStretchedIntervalIsNotLate)
{
	interval_ms_ = 5000;
	next({flow(1)});
	EXPECT_EQ(get_json("/api/v1/summary").at("interval_ms"), 5000);
	now_ns_ += 10 * second;
	EXPECT_EQ(get("/healthz").status, 200U);
	now_ns_ += 6 * second;
	EXPECT_EQ(get("/healthz").status, 503U);
}

// 10 %: a look of 5 ms may come every 50, with as much for requests every 100, with more not later.
TEST(PaceOfLooks, CountsWhatTheProcessDid)
{
	constexpr std::int64_t ms = 1'000'000;
	Pace pace;

	EXPECT_EQ(pace.rest_ns(5 * ms, 900 * ms, 10), 50 * ms) << "the start is not a look's";
	EXPECT_EQ(pace.rest_ns(5 * ms, 905 * ms, 10), 50 * ms);
	EXPECT_EQ(pace.rest_ns(5 * ms, 912 * ms, 10), 70 * ms);
	EXPECT_EQ(pace.cost_ns(), 7 * ms);
	EXPECT_EQ(pace.rest_ns(5 * ms, 1912 * ms, 10), 100 * ms);
	EXPECT_EQ(pace.rest_ns(5 * ms, 1917 * ms, 100), 5 * ms);
	EXPECT_EQ(pace.rest_ns(5 * ms, 1920 * ms, 10), 50 * ms) << "clocks of threads and of the process may differ";
}

// How long the outage was says nothing of when the next look is due.
TEST_F(Served, WhatIsLateAfterAnOutageIsLate)
{
	now_ns_ += 100 * second;
	EXPECT_EQ(get("/healthz").status, 503U);
	next({flow(1)});
	EXPECT_GT(store_.newest()->summary.interval_s, 100);
	EXPECT_EQ(get("/healthz").status, 200U);
	now_ns_ += 4 * second;
	EXPECT_EQ(get("/healthz").status, 503U);
}

// Of looks that failed, without a newer snapshot.
TEST_F(Served, WhatGoesWrongIsCountedAtOnce)
{
	CollectStats stats = store_.newest()->collect;

	EXPECT_EQ(get("/metrics").body->find("swiftd_collection_errors_total"), std::string::npos);
	for (unsigned n = 1; n <= 2; n++) {
		stats.collections++;
		stats.errors["dump"]++;
		store_.fail({"the kernel refused", 1.7e9, stats});
		const std::string text = *get("/metrics").body;

		EXPECT_NE(text.find("swiftd_collection_errors_total{what=\"dump\"} " + std::to_string(n) + "\n"),
			  std::string::npos) << text;
		EXPECT_NE(text.find("swiftd_collections_total " + std::to_string(stats.collections) + "\n"),
			  std::string::npos) << text;
	}
}

TEST_F(Served, WhatKeepsItFromLookingIsTold)
{
	store_.fail({"the kernel refused", 1.7e9});
	EXPECT_EQ(get("/healthz").status, 200U) << "one failure is not yet late";
	now_ns_ += 4 * second;
	EXPECT_EQ(get("/healthz").status, 503U);
	EXPECT_NE(get("/healthz").body->find("the kernel refused"), std::string::npos);
	EXPECT_NE(get("/metrics").body->find("swiftd_snapshot_age_seconds 4"), std::string::npos);

	// What is old says so; where the tuning has got to is not.
	for (const char *path : {"/api/v1/summary", "/api/v1/summary?history=1"})
		EXPECT_EQ(json::parse(*get(path).body)["tune"]["state"], "off") << path;
	TuneRow tune;

	tune.state = "unavailable";
	store_.fail({"the kernel refused", 1.7e9, {}, tune});
	for (const char *path : {"/api/v1/summary", "/api/v1/summary?history=1"}) {
		const json j = json::parse(*get(path).body);

		EXPECT_EQ(j["error"], "the kernel refused") << path;
		EXPECT_EQ(j["tune"]["state"], "unavailable") << path;
	}
	tune.state = "failed";
	store_.fail({"the kernel refused", 1.7e9, {}, tune});
	EXPECT_EQ(json::parse(*get("/api/v1/summary").body)["tune"]["state"], "failed");
	next({flow(1)});
	EXPECT_FALSE(store_.news().trouble);
	EXPECT_FALSE(json::parse(*get("/api/v1/summary").body).contains("error"));

	Store empty;

	empty.fail({"the kernel refused", 1.7e9});
	for (const char *path : {"/healthz", "/api/v1/summary", "/metrics"})
		EXPECT_NE(respond({"GET", path}, {empty, facts_, {}, 0, 0}).body->find("the kernel refused"),
			  std::string::npos)
			<< path;
	const std::string event = trouble_event(*empty.news().trouble);

	ASSERT_TRUE(event.starts_with("event: state\ndata: ")) << event;
	EXPECT_EQ(json::parse(event.substr(event.find('{'))).at("error"), "the kernel refused");
}

// However many ask.
TEST_F(Served, ASnapshotIsWrittenOutOnce)
{
	const SharedText first = get("/api/v1/summary").body;

	for (int i = 0; i < 10; i++) {
		EXPECT_EQ(get("/api/v1/summary").body, first) << "not even a copy";
		get("/api/v1/flows?sort=fabric&limit=7");
		get("/api/v1/flows?limit=7&sort=fabric");
	}
	EXPECT_EQ(cache_.made(), 2U);
	next({flow(1)});
	EXPECT_NE(*get("/api/v1/summary").body, *first);
	EXPECT_EQ(cache_.made(), 3U);
	// Different questions have different answers, and take bounded room.
	for (int i = 0; i < 2; i++)
		for (unsigned limit = 1; limit <= 1000; limit++)
			ASSERT_EQ(get_json("/api/v1/flows?offset=0&limit=" + std::to_string(limit)).at("matched"), 1);
	EXPECT_GE(cache_.made(), 3U + 2000 - TextCache::most_texts);
}

TEST(TextCache, ByNumberAndKey)
{
	TextCache cache;
	int made = 0;
	const auto get = [&](std::uint64_t number, const char *key) {
		return *cache.get(number, key, [&] { return std::to_string(number) + key + std::to_string(++made); });
	};

	EXPECT_EQ(get(1, "a"), "1a1");
	EXPECT_EQ(get(1, "b"), "1b2");
	EXPECT_EQ(get(1, "a"), "1a1");
	EXPECT_EQ(get(2, "a"), "2a3");
	EXPECT_EQ(get(1, "a"), "1a4") << "who is late gets his own";
	EXPECT_EQ(get(2, "a"), "2a3");
}

TEST(StreamQuery, KeysTellApartWhatDiffers)
{
	std::set<std::string> keys;
	const std::vector<const char *> different = {"", "?flows=1", "?flows=2", "?flows=1&sort=rtt", "?flows=1&order=asc",
						     "?flows=1&cc=a", "?flows=1&q=a", "?flows=1&cc=a&q=b",
						     "?flows=1&cc=ab", "?flows=1&q=ab", "?flows=1&prefix=10.0.0.0/8",
						     "?flows=1&prefix=10.0.0.0/9", "?flows=1&limit_by=host",
						     "?flows=1&iface=a", "?flows=1&netns=a", "?flows=1&owner=a"};

	for (const char *query : different)
		keys.insert(parse_stream(std::string(stream_path) + query)->key());
	EXPECT_EQ(keys.size(), different.size());
	EXPECT_EQ(parse_stream("/api/v1/stream?flows=2&sort=rtt")->key(),
		  parse_stream("/api/v1/stream?sort=rtt&flows=2")->key());
}

// As the metrics and the summary call it.
TEST_F(Served, FlowsBeyondTheMostPrefixesAreInOther)
{
	table_.reconfigure({{}, {}, 1});
	next({flow(1, "10.0.1.1"), flow(2, "10.0.2.1")});
	const auto all = get_json("/api/v1/flows?sort=age").at("flows");
	std::set<std::string> prefixes;

	for (const json &f : all)
		prefixes.insert(f.at("dst_prefix"));
	EXPECT_EQ(prefixes, (std::set<std::string>{"10.0.1.0/24", "other"}));
}

TEST_F(Served, SecretsAreNotShown)
{
	Config c;

	c.http.token_file = "/etc/secret";
	store_.set_config(c);
	const std::string body = *get("/api/v1/config").body;

	EXPECT_EQ(body.find("/etc/secret"), std::string::npos);
	EXPECT_NE(body.find("\"set\""), std::string::npos);
}

TEST_F(Served, Events)
{
	auto q = parse_stream("/api/v1/stream?flows=1&sort=fabric");

	ASSERT_TRUE(q);
	const std::string text = stream_events(*store_.newest(), *q, facts_).value();

	EXPECT_NE(text.find("event: summary\ndata: {"), std::string::npos);
	EXPECT_NE(text.find("event: flows\ndata: {"), std::string::npos);
	EXPECT_TRUE(text.ends_with("}\n\n"));
	EXPECT_FALSE(parse_stream("/api/v1/stream?flows=0"));
	EXPECT_FALSE(parse_stream("/api/v1/stream?limit=1"));
}

std::string text_of(const Snapshot &s, const HttpStats &http, bool classic = false)
{
	return write_metrics(metric_families(s, {}, http, 0), MetricsForm::text, classic);
}

std::size_t series(const std::string &text)
{
	std::size_t n = 0;

	for (std::size_t i = 0; i < text.size(); i = text.find('\n', i) + 1)
		n += text[i] != '#';
	return n;
}

TEST_F(Served, MetricsAreBoundedByGroupsNotFlows)
{
	const std::string before = text_of(*store_.newest(), store_.http);

	EXPECT_NE(before.find("swift_flows{cc=\"swift\",iface=\"eth0\",dst_prefix=\"10.0.0.0/24\"} 2"), std::string::npos)
		<< before;
	std::vector<Flow> flows = {flow(0xabc, "10.0.0.2", "cubic")};

	for (std::uint64_t i = 1; i < 5000; i++)
		flows.push_back(measured(i * 2 + 100000, 90, 10, Limit::fabric));
	next(flows);
	EXPECT_EQ(series(text_of(*store_.newest(), store_.http)), series(before));
}

TEST_F(Served, MetricsTellOfCreditWhereThereIsSome)
{
	std::vector<Flow> flows = {measured(1, 90, 10, Limit::fabric), measured(2, 90, 10, Limit::fabric)};
	const std::string held = "swift_flows_held{cc=\"swift\",iface=\"eth0\",dst_prefix=\"10.0.0.0/24\",by=\"";

	next(flows);
	EXPECT_EQ(text_of(*store_.newest(), store_.http).find("by=\"credit\""), std::string::npos);
	flows[0].swift->credit = Credit::waits;
	next(flows);
	const std::string text = text_of(*store_.newest(), store_.http);

	EXPECT_NE(text.find(held + "credit\"} 1"), std::string::npos) << text;
	EXPECT_NE(text.find(held + "own_link\"} 0"), std::string::npos) << text;
	EXPECT_NE(text.find(held + "fabric\"} 1"), std::string::npos) << text;
}

TEST_F(Served, WhatTheTelemetryAloneKnowsIsInTheMetrics)
{
	auto s = std::make_shared<Snapshot>(*store_.newest());
	GroupCounters c;

	c.labels = {"10.0.0.0/24", "swift", "eth0"};
	c.decreases = {1, 2, 3, 4};
	c.delays[Part::tx_nic].add(800, 5);
	s->counters = {c};
	s->summary.groups.at(0).sampled = false;
	const std::string text = text_of(*s, store_.http);
	const std::string group = "{cc=\"swift\",iface=\"eth0\",dst_prefix=\"10.0.0.0/24\"";

	EXPECT_NE(text.find("swift_decreases_total" + group + ",cause=\"endpoint\"} 2"), std::string::npos) << text;
	EXPECT_NE(text.find("swift_lost_packets_total" + group + "} 4"), std::string::npos) << text;
	EXPECT_NE(text.find("swift_histograms_sampled" + group + "} 0"), std::string::npos) << text;
	EXPECT_NE(text.find("swift_host_delay_seconds_count" + group + ",side=\"tx_nic\"} 5"), std::string::npos) << text;
	EXPECT_EQ(text.find("side=\"tx\""), std::string::npos) << "not measured, not there";
}

TEST_F(Served, CountersNeverFall)
{
	const auto rtts = [&] {
		for (const GroupCounters &c : store_.newest()->counters)
			if (c.labels.cc == "swift")
				return c.delays.at(Part::rtt).count();
		return std::uint64_t{0};
	};
	const std::uint64_t before = rtts();

	next({});
	EXPECT_EQ(rtts(), before);
	next({measured(2, 90, 10, Limit::fabric)});
	EXPECT_EQ(rtts(), before + 1);
}

// What is not there is no error; what cannot be read is.
TEST(Collector, TelemetryOfAnotherVersionIsAnError)
{
	swift_test::FakeBpfHost host;
	const auto none = loaded_telemetry(host);

	ASSERT_TRUE(none) << none.error().text();
	EXPECT_FALSE(*none);
	host.dirs.insert(telemetry_dir());
	for (const char *name : {"flows", "prefixes", "counters", "settings"}) {
		auto map = std::make_shared<swift_test::FakeBpfHost::Thing>();

		map->map.key_bytes = map->map.value_bytes = 3;
		host.pinned[telemetry_dir() + "/" + name] = std::move(map);
	}
	const auto other = loaded_telemetry(host);

	ASSERT_FALSE(other);
	EXPECT_NE(other.error().text().find("another version"), std::string::npos) << other.error().text();
}

TEST(Collector, ModuleCounters)
{
	const auto c = parse_counters("flows 3\nbad\nlow 18446744073709551615\nx y\n");

	EXPECT_EQ(c, (std::map<std::string, std::int64_t>{{"flows", 3}, {"low", -1}}));
}

} // namespace
} // namespace swift
