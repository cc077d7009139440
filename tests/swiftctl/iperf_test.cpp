// SPDX-License-Identifier: MIT
// iperf3's JSON, as version 3.12 of Debian 12 wrote it over a 50 Mbit/s link, and damaged.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include <nlohmann/json.hpp>

#include "iperf_run.h"

using namespace swift;

namespace {

std::string recorded(const std::string &name)
{
	std::ifstream file(SWIFT_TEST_DATA "/iperf/" + name + ".json");

	EXPECT_TRUE(file) << name;
	return {std::istreambuf_iterator<char>(file), {}};
}

std::string iperf_error(const std::string &text)
{
	const auto run = parse_iperf(text);

	return run ? "" : run.error().text();
}

using Damage = void (*)(nlohmann::json &);

std::string error_after(Damage change)
{
	auto j = nlohmann::json::parse(recorded("two-flows"));

	change(j);
	return iperf_error(j.dump());
}

} // namespace

// -P 2 -t 2 -O 1 -i 0.5: four intervals that count, two that do not.
TEST(iperf, two_flows_without_their_warm_up)
{
	const auto run = parse_iperf(recorded("two-flows"));

	ASSERT_TRUE(run) << run.error().text();
	EXPECT_EQ(run->version, "iperf 3.12");
	EXPECT_EQ(run->cc, "cubic");
	EXPECT_FALSE(run->reverse);
	EXPECT_EQ(run->mss_bytes, 1448U);
	EXPECT_EQ(run->retransmits, 11U);
	EXPECT_NEAR(run->goodput_bps, 11849992 * 8 / 2.013156, 1);
	EXPECT_LT(run->goodput_bps, 50e6); // the link's
	EXPECT_NEAR(run->loss_ratio(), 11 / (11710984 / 1448.0), 1e-9);
	ASSERT_EQ(run->streams.size(), 2U);
	EXPECT_EQ(run->streams[0].local_port, 40038);
	EXPECT_EQ(run->streams[1].local_port, 40054);
	EXPECT_NEAR(run->streams[0].received_bps, 5589280 * 8 / 2.013156, 1);
	EXPECT_NEAR(run->streams[1].received_bps, 6260712 * 8 / 2.013156, 1);

	// The largest and smallest of iperf3's own sums.
	ASSERT_EQ(run->streams[0].rtt_ns.size(), 4U);
	EXPECT_EQ(*std::max_element(run->streams[0].rtt_ns.begin(), run->streams[0].rtt_ns.end()), 18456e3);
	EXPECT_EQ(*std::min_element(run->streams[0].rtt_ns.begin(), run->streams[0].rtt_ns.end()), 15448e3);
	EXPECT_EQ(run->rtt_ns().size(), 8U);
}

TEST(iperf, a_server_that_sent_has_no_rtt_for_us)
{
	const auto run = parse_iperf(recorded("reverse"));

	ASSERT_TRUE(run) << run.error().text();
	EXPECT_TRUE(run->reverse);
	EXPECT_EQ(run->cc, "reno");
	EXPECT_EQ(run->streams.size(), 1U);
	EXPECT_TRUE(run->rtt_ns().empty());
	EXPECT_NEAR(run->goodput_bps, 4055367680 * 8 / 2.00001, 1);
}

TEST(iperf, its_own_errors_are_passed_on)
{
	EXPECT_EQ(iperf_error(recorded("refused")), "iperf3: unable to connect to server: Connection refused");
	EXPECT_EQ(iperf_error(recorded("unknown-cc")),
		  "iperf3: unable to set TCP_CONGESTION: Supplied congestion control algorithm not supported on this host");
	EXPECT_EQ(iperf_error(recorded("interrupted")), "iperf3: interrupt - the client has terminated");
	EXPECT_TRUE(iperf_busy(iperf_error(recorded("busy"))));
	EXPECT_FALSE(iperf_busy(iperf_error(recorded("refused"))));
	EXPECT_TRUE(iperf_not_listening(iperf_error(recorded("refused"))));
	EXPECT_TRUE(iperf_not_listening("iperf3: unable to receive control message: Connection reset by peer"));
	EXPECT_FALSE(iperf_not_listening(iperf_error(recorded("busy"))));
}

TEST(iperf, damage_is_located)
{
	struct {
		Damage change;
		const char *text;
	} const rows[] = {
		{[](auto &j) { j["end"].erase("sum_received"); },
		 "iperf3's JSON: end.sum_received.end: expected a number, found nothing"},
		{[](auto &j) { j["end"]["sum_received"]["bytes"] = "many"; },
		 "iperf3's JSON: end.sum_received.bytes: expected a number, found string"},
		{[](auto &j) { j["end"]["sum_received"]["end"] = 0; }, "iperf3's JSON: end.sum_received.end: '0"},
		{[](auto &j) { j["end"]["sum_sent"]["retransmits"] = -1; },
		 "iperf3's JSON: end.sum_sent.retransmits: '-1' (allowed: 0 to 1e+18)"},
		{[](auto &j) { j["end"] = nlohmann::json::array(); },
		 "iperf3's JSON: end: expected an object, found array"},
		{[](auto &j) { j["intervals"][1]["streams"][0]["socket"] = 99; },
		 "iperf3's JSON: intervals[1].streams[0].socket: expected a socket of start.connected"},
		{[](auto &j) { j["intervals"][3]["streams"][1]["rtt"] = "slow"; },
		 "iperf3's JSON: intervals[3].streams[1].rtt: expected a number, found string"},
		{[](auto &j) { j["end"]["streams"].erase(1); },
		 "iperf3's JSON: end.streams: expected one entry for each of start.connected"},
		{[](auto &j) { j["start"]["connected"][0]["local_port"] = 65536; },
		 "iperf3's JSON: start.connected[0].local_port: '65536' (allowed: 1 to 65535)"},
		{[](auto &j) { j["error"] = 5; }, "iperf3's JSON: error: expected a string, found number"},
		{[](auto &j) { j = nullptr; }, "iperf3's JSON: start.version: expected a string, found nothing"},
	};

	for (const auto &r : rows)
		EXPECT_EQ(error_after(r.change).find(r.text), 0U) << r.text << "\n" << error_after(r.change);
	EXPECT_EQ(iperf_error("").find("iperf3's output is not JSON: parse error at line 1, column 1"), 0U) << iperf_error("");
	EXPECT_NE(iperf_error(recorded("two-flows").substr(0, 3000)).find("not JSON: parse error at line"),
		  std::string::npos);
	EXPECT_EQ(iperf_error(std::string(100000, '[')), "iperf3's output is nested deeper than 64");
	EXPECT_NE(iperf_error(R"({"start": 1e999})").find("not JSON"), std::string::npos);
}
