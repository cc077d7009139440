// SPDX-License-Identifier: MIT
// What `swiftctl clock` shows and says in JSON.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "clock.h"
#include "fake_clock_host.h"
#include "text.h"

using namespace swift;
using namespace swift_test;
using Parsed = nlohmann::json;

namespace {

constexpr HostNow now = {1000000000000, 1700000000000000000};

struct Host : NicSystem {
	Host()
	{
		files.erase("/sys/class/net/eth0");
		files.erase("/sys/class/net/eth1");
		for (const auto &[name, nic] : nics)
			files["/sys/class/net/" + name + "/ifindex"] = std::to_string(nic.ifindex) + "\n";
		files["/proc/812/comm"] = "swiftd\n";
		NicClock c;

		c.ifindex = 2;
		// 37 s ahead of the wall clock, and 50 ppm faster.
		c.line.host_ns = 1000000000000 - 200000000;
		c.line.nic_ns = 1700000000000000000 - 200000000 + 37000000000;
		c.line.ratio_q32 = (1ULL << 32) - 214738;
		c.line.error_ns = 1234;
		c.valid_ms = 550;
		c.owner = 812;
		c.used = 1000;
		c.stale = 3;
		c.future = 2;
		c.old = 1;
		clocks = {c};
		nics["eth0"].t.now = Stamping{HWTSTAMP_TX_ON, HWTSTAMP_FILTER_ALL};
	}
};

std::string line_of(const Table &table, std::size_t row)
{
	std::string text;

	for (const Cell &c : table.rows.at(row))
		text += c.text + "|";
	return text;
}

} // namespace

TEST(clock_view, table)
{
	Host host;
	const auto s = take_clocks(host, host, {}, now);

	ASSERT_TRUE(s);
	ASSERT_EQ(s->rows.size(), 2U); // lo has no clock
	const Table table = clock_table(*s);

	for (const auto &row : table.rows)
		EXPECT_EQ(row.size(), table.columns.size());
	EXPECT_EQ(line_of(table, 0), "eth0|ptp0|all packets|valid|+37.0 s|+50.000|1.23 us|200.0 ms|550 ms|swiftd (pid 812)|1000|3|2|1|");
	EXPECT_EQ(line_of(table, 1), "eth1|ptp1|none|none|-|-|-|-|-|-|-|-|-|-|");
	EXPECT_TRUE(clock_notes(*s).empty());
}

TEST(clock_view, lines_of_bpf_variants)
{
	Host host;
	const NicClock of_eth0 = host.clocks->front();
	BpfClock v{"bpf_swift", {}};

	v.clock.ifindex = 3;
	v.clock.line = of_eth0.line;
	v.clock.valid_ms = 500;

	// Beside the module's.
	auto s = take_clocks(host, host, {}, now, {{"bpf_swift"}, {v}});

	ASSERT_TRUE(s && !s->error);
	EXPECT_EQ(line_of(clock_table(*s), 1), "eth1|ptp1|none|valid|+37.0 s|+50.000|1.23 us|200.0 ms|500 ms|-|-|-|-|-|");
	EXPECT_EQ(clock_notes(*s), std::vector<std::string>{
					   "bpf_swift has a line of eth1; swiftctl bpf list counts its stamps"});
	const auto json = Parsed::parse(clocks_json(*s, true));

	EXPECT_TRUE(json["nics"][1]["line"].is_null()); // the module's
	EXPECT_EQ(json["nics"][1]["bpf_variants"][0]["variant"], "bpf_swift");
	EXPECT_EQ(json["nics"][1]["bpf_variants"][0]["valid_ms"], 500);
	EXPECT_TRUE(json["nics"][0]["bpf_variants"].empty());

	// Without the module: an error only if there is nothing at all.
	host.clocks.reset();
	EXPECT_FALSE(take_clocks(host, host, {}, now, {{"bpf_swift"}, {v}})->error);
	EXPECT_TRUE(take_clocks(host, host, {}, now)->error);
	EXPECT_FALSE(take_clocks(host, host, {}, now, {{"bpf_swift"}, {}})->error); // it runs, nobody feeds
	EXPECT_NE(clock_notes(*take_clocks(host, host, {}, now, {{"bpf_swift"}, {}}))[0].find("no clock is fed: swiftctl "
											"clock run"),
		  std::string::npos);
	v.clock.valid_ms = 0;
	s = take_clocks(host, host, {}, now, {{"bpf_swift"}, {v}});
	EXPECT_EQ(clock_table(*s).rows.at(1).at(3).text, "stale");
	EXPECT_EQ(clock_notes(*s).at(0), "bpf_swift has a stale line of eth1; swiftctl bpf list counts its stamps");
}

TEST(clock_view, offset_follows_the_drift)
{
	Host host;
	ClockLine line = host.clocks->front().line;

	// 200 ms at 50 ppm.
	EXPECT_NEAR(static_cast<double>(wall_offset_ns(line, now)), 37000000000 + 10000, 2);
	// Whatever the module says, no arithmetic may go wrong.
	for (const std::uint64_t v : {std::uint64_t{0}, std::uint64_t{1}, ~std::uint64_t{0}, std::uint64_t{1} << 63}) {
		line = {v, ~v, v | 1, 7};
		(void)wall_offset_ns(line, now);
		(void)wall_offset_ns(line, {});
	}
}

TEST(clock_view, says_plainly_that_nothing_is_fed)
{
	Host host;

	host.clocks->front().valid_ms = 0;
	auto s = take_clocks(host, host, {}, now);
	EXPECT_EQ(clock_table(*s).rows[0][3].text, "stale");
	EXPECT_NE(clock_notes(*s)[0].find("no clock is fed: swiftctl clock run"), std::string::npos);
	host.clocks->front().owner = 0;
	s = take_clocks(host, host, {}, now);
	EXPECT_EQ(clock_table(*s).rows[0][9].text, "gone");
	host.clocks->clear();
	for (auto &[name, nic] : host.nics)
		nic.t = {};
	s = take_clocks(host, host, {}, now);
	EXPECT_TRUE(s->rows.empty());
	EXPECT_NE(clock_notes(*s)[0].find("no NIC here can stamp"), std::string::npos);
}

TEST(clock_view, asked_for_by_name)
{
	Host host;

	EXPECT_EQ(take_clocks(host, host, {"lo"}, now)->rows.size(), 1U);
	EXPECT_NE(take_clocks(host, host, {"eth9"}, now).error().text().find("no such interface: 'eth9'"),
		  std::string::npos);
	EXPECT_FALSE(take_clocks(host, host, {"../x"}, now));
}

TEST(clock_view, what_is_on_top_of_a_nic_is_left_out)
{
	Host host;

	host.add("vlan7", 9, 0);
	host.files["/sys/class/net/vlan7/ifindex"] = "9\n";
	host.files["/sys/class/net/vlan7/lower_eth0/ifindex"] = "2\n";
	EXPECT_EQ(take_clocks(host, host, {}, now)->rows.size(), 2U);
	EXPECT_NE(plan_clocks(host, host, {"vlan7"})->front().why_not.find("on top of"), std::string::npos);
}

TEST(clock_view, spans)
{
	EXPECT_EQ(span_text(0, false), "0 ns");
	EXPECT_EQ(span_text(999, false), "999 ns");
	EXPECT_EQ(span_text(1234, true), "+1.23 us");
	EXPECT_EQ(span_text(-12345, true), "-12.3 us");
	EXPECT_EQ(span_text(999960, false), "1.00 ms");
	EXPECT_EQ(span_text(37000000000, true), "+37.0 s");
	EXPECT_EQ(span_text(7200000000000, true), "+7200 s");
	EXPECT_EQ(span_text(-1700000000000000000, true), "-19676 days");
	EXPECT_EQ(span_text(INT64_MIN, true), "-106752 days");
}

TEST(clock_view, json)
{
	Host host;
	const auto s = take_clocks(host, host, {}, now);
	const std::string line = clocks_json(*s, true);
	const Parsed j = Parsed::parse(line);

	EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
	EXPECT_EQ(j["schema"], 1);
	EXPECT_EQ(j["time_ns"], now.realtime_ns);
	EXPECT_TRUE(j["error"].is_null());
	ASSERT_EQ(j["nics"].size(), 2U);
	const Parsed &n = j["nics"][0];

	EXPECT_EQ(n["iface"], "eth0");
	EXPECT_EQ(n["phc_index"], 0);
	EXPECT_EQ(n["stamps_all"], true);
	EXPECT_EQ(n["stamping"]["rx_filter"], "all");
	EXPECT_EQ(n["line"]["nic_ns"], 1700000000000000000 - 200000000 + 37000000000);
	EXPECT_EQ(n["line"]["age_ns"], 200000000);
	EXPECT_EQ(n["line"]["valid_ms"], 550);
	EXPECT_EQ(n["line"]["owner_port"], 812);
	EXPECT_NEAR(n["line"]["drift_ppm"].get<double>(), 50, 0.01);
	EXPECT_EQ(n["stamps_used"], 1000);
	EXPECT_EQ(n["stamps_old"], 1);
	EXPECT_TRUE(j["nics"][1]["line"].is_null());

	host.clocks.reset();
	EXPECT_EQ(Parsed::parse(clocks_json(*take_clocks(host, host, {}, now), false))["error"],
		  "the module tcp_swift is not loaded");
}

TEST(clock_view, measurements)
{
	Host host;
	ClockMeasurement good{"eth0", 0, "extended", host.clocks->front().line, 300, 11, {}};
	ClockMeasurement bad{"eth1", 1, {}, {}, 0, 0, Error{"no"}};
	const Table table = measurement_table({good, bad}, now);
	const Parsed j = Parsed::parse(measurements_json({good, bad}, now));

	EXPECT_EQ(line_of(table, 0), "eth0|ptp0|11 extended|+37.0 s|+50.000|300 ns|1.23 us|");
	EXPECT_EQ(line_of(table, 1), "eth1|ptp1|-|-|-|-|-|");
	EXPECT_EQ(j["nics"][0]["method"], "extended");
	EXPECT_EQ(j["nics"][0]["window_ns"], 300);
	EXPECT_EQ(j["nics"][1]["error"], "no");
	EXPECT_FALSE(j["nics"][1].contains("nic_ns"));
}

TEST(clock_view, plans)
{
	Host host;

	host.nics["eth1"].t.now = Stamping{HWTSTAMP_TX_ON, HWTSTAMP_FILTER_PTP_V2_EVENT};
	const auto plans = plan_clocks(host, host, {});
	const Parsed j = Parsed::parse(plans_json(*plans, 250));

	ASSERT_EQ(plans->size(), 3U);
	EXPECT_EQ(plan_text((*plans)[0], 250), "eth0: stamping stays rx all, tx on; feed /dev/ptp0 every 250 ms");
	EXPECT_EQ(plan_text((*plans)[1], 250),
		  "eth1: stamping rx ptpv2-event, tx on -> rx all, tx on; feed /dev/ptp1 every 250 ms");
	EXPECT_EQ(plan_text((*plans)[2], 250), "lo: not fed: it has no clock of its own (PHC)");
	EXPECT_EQ(j["nics"][1]["now"]["rx_filter"], "ptpv2-event");
	EXPECT_EQ(j["nics"][1]["wanted"]["rx_filter"], "all");
	EXPECT_TRUE(j["nics"][2]["wanted"].is_null());
	EXPECT_EQ(host.nics["eth1"].sets, 0);
}

TEST(clock_view, events)
{
	const std::string text = feed_event_json({true, "eth0", "stepped", "by \"a lot\""}, 5);
	const Parsed j = Parsed::parse(text);

	EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
	EXPECT_EQ(j["iface"], "eth0");
	EXPECT_EQ(j["event"], "stepped");
	EXPECT_EQ(j["trouble"], true);
	EXPECT_EQ(j["time_ns"], 5);
}
