// SPDX-License-Identifier: MIT
// The prober's pure parts: packets, stamps in any order, the arithmetic of an exchange,
// statistics, the responder's memory; then two sockets over the loopback device.
#include <gtest/gtest.h>
#include <linux/net_tstamp.h>
#include <poll.h>

#include <cerrno>
#include <chrono>
#include <nlohmann/json.hpp>

#include "clock_ns.h"
#include "fake_system.h"
#include "probe.h"
#include "probe_nic.h"
#include "probe_responder.h"
#include "units.h"

using namespace swift;
using swift_test::ms;

namespace {

constexpr std::int64_t start_ns = 1700000000000000000; // of CLOCK_REALTIME

ProbePacket sample_packet()
{
	ProbePacket p;

	p.type = ProbeType::reply;
	p.cookie = 0x0123456789abcdef;
	p.target = 7;
	p.seq = 0xfffffffe;
	p.record_count = 3;
	p.records[0] = {0xfffffffd, {1000, 2000}};
	p.records[1] = {0xfffffffc, {std::nullopt, 0}};
	p.records[2] = {0xfffffffb, {0xfffffffe, std::nullopt}};
	return p;
}

std::vector<std::byte> bytes_of(const ProbePacket &p, std::size_t size = probe_min_bytes)
{
	std::vector<std::byte> bytes(size, std::byte{0xaa});

	write_probe(p, bytes);
	return bytes;
}

ProbeDefect defect_of(const std::vector<std::byte> &bytes)
{
	return std::get<ProbeDefect>(parse_probe(bytes));
}

ProbePacket reply_to(std::uint32_t seq, std::vector<ProbeRecord> records = {})
{
	ProbePacket p;

	p.type = ProbeType::reply;
	p.seq = seq;
	p.record_count = records.size();
	std::copy(records.begin(), records.end(), p.records.begin());
	return p;
}

// Software stamps: 2 us to the qdisc, 3 to the driver, back after 50 us, 4 to the reader.
RxStamps rx_after(std::int64_t app_ns, std::int64_t wire_ns = 0)
{
	return {wire_ns, app_ns + 55000, app_ns + 59000, 2};
}

Exchange software_exchange()
{
	Exchange e;

	e.replied = true;
	e.tx = {start_ns, start_ns + 2000, start_ns + 5000, 0};
	e.rx = rx_after(start_ns);
	e.remote.sw_ns = 20000;
	return e;
}

class Track : public testing::Test {
protected:
	std::uint32_t send(std::int64_t at_ns) { return track_.sent(at_ns, start_ns + at_ns); }
	void stamp(std::uint32_t seq, std::int64_t at_ns)
	{
		track_.tx_stamp(seq, TxPoint::sched, start_ns + at_ns + 2000);
		track_.tx_stamp(seq, TxPoint::driver, start_ns + at_ns + 5000);
	}
	void settle(std::int64_t at_ns)
	{
		track_.settle(at_ns, [this](const Exchange &e) { stats_.add(e, measure(e, nullptr)); });
	}

	ProbeTrack track_{100 * ms, 20 * ms};
	ProbeStats stats_;
};

} // namespace

TEST(probe_packet, is_read_as_it_was_written)
{
	for (const std::size_t size : {probe_min_bytes, probe_min_bytes + 1, std::size_t{1400}}) {
		const auto bytes = bytes_of(sample_packet(), size);

		EXPECT_EQ(std::get<ProbePacket>(parse_probe(bytes)), sample_packet());
		// Nothing of what was in the buffer leaves the host.
		EXPECT_EQ(std::count(bytes.begin() + probe_min_bytes, bytes.end(), std::byte{0xaa}), 0);
	}
}

TEST(probe_packet, has_the_documented_layout)
{
	const auto b = bytes_of(sample_packet());
	const std::vector<int> want = {'S', 'w', 'P', 'r', 1,	 2,    3,    0,	   0x01, 0x23, 0x45, 0x67, 0x89,
				       0xab, 0xcd, 0xef, 0, 0,	 0,    7,    0xff, 0xff, 0xff, 0xfe, 0xff,
				       0xff, 0xff, 0xfd, 0, 0,	 3,    0xe8, 0,	   0,	 7,    0xd0, 0xff,
				       0xff, 0xff, 0xfc, 0xff, 0xff, 0xff, 0xff, 0,    0,    0,	   0};

	for (std::size_t i = 0; i < want.size(); i++)
		EXPECT_EQ(std::to_integer<int>(b[i]), want[i]) << "byte " << i;
}

TEST(probe_packet, says_what_is_wrong)
{
	const auto good = bytes_of(sample_packet());
	const auto with = [&](std::size_t at, int value) {
		auto bytes = good;

		bytes[at] = static_cast<std::byte>(value);
		return bytes;
	};

	EXPECT_EQ(defect_of({}), ProbeDefect::too_short);
	for (std::size_t n = 0; n < good.size(); n++)
		EXPECT_EQ(defect_of({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(n)}),
			  ProbeDefect::too_short);
	EXPECT_EQ(defect_of(with(0, 's')), ProbeDefect::foreign);
	EXPECT_EQ(defect_of(with(4, 0)), ProbeDefect::version);
	EXPECT_EQ(defect_of(with(4, 2)), ProbeDefect::version);
	EXPECT_EQ(defect_of(with(5, 0)), ProbeDefect::type);
	EXPECT_EQ(defect_of(with(5, 3)), ProbeDefect::type);
	EXPECT_EQ(defect_of(with(6, 5)), ProbeDefect::records);
	EXPECT_TRUE(std::holds_alternative<ProbePacket>(parse_probe(with(7, 255)))); // reserved
}

TEST(probe_turnaround, is_of_one_clock_and_sane)
{
	EXPECT_EQ(turnaround_ns(1000, 1500), 500U);
	EXPECT_EQ(turnaround_ns(1000, 1000), 0U);
	EXPECT_EQ(turnaround_ns(1000, 1000 + 1000 * ms), 1000000000U);
	EXPECT_FALSE(turnaround_ns(1000, 999)); // set back
	EXPECT_FALSE(turnaround_ns(1000, 1001 + 1000 * ms)); // set ahead
	EXPECT_FALSE(turnaround_ns(0, 1000));
	EXPECT_FALSE(turnaround_ns(1000, 0));
}

TEST(probe_measure, software_stamps_on_both_sides)
{
	const Measured m = measure(software_exchange(), nullptr);

	EXPECT_EQ(m.fabric_ns, 30000); // 50 us outside, 20 of them in the other host
	EXPECT_EQ(m.turnaround_ns, 20000);
	EXPECT_EQ(m.local, Stamp::software);
	EXPECT_EQ(m.remote, Stamp::software);
	EXPECT_EQ(m.tx_stack_ns, 2000);
	EXPECT_EQ(m.tx_qdisc_ns, 3000);
	EXPECT_EQ(m.tx_ns, 5000);
	EXPECT_EQ(m.rx_ns, 4000);
	EXPECT_FALSE(m.tx_nic_ns);
	EXPECT_FALSE(m.rx_nic_ns);
	EXPECT_FALSE(m.implausible);
}

TEST(probe_measure, hardware_stamps_need_no_common_clock)
{
	Exchange e = software_exchange();

	e.tx.wire_ns = 77000; // a NIC that began to count when it was switched on
	e.rx.wire_ns = 77000 + 41000;
	e.remote.hw_ns = 11000;

	const Measured m = measure(e, nullptr);

	EXPECT_EQ(m.fabric_ns, 30000);
	EXPECT_EQ(m.turnaround_ns, 11000);
	EXPECT_EQ(m.local, Stamp::hardware);
	EXPECT_EQ(m.remote, Stamp::hardware);
	// Its share of the hosts is not known without a line between the clocks.
	EXPECT_FALSE(m.tx_nic_ns);
	EXPECT_EQ(m.tx_ns, 5000);
	EXPECT_EQ(m.rx_ns, 4000);
}

TEST(probe_measure, a_line_between_the_clocks_gives_the_nics_share)
{
	Exchange e = software_exchange();

	e.tx.wire_ns = 6500;
	e.rx.wire_ns = 51000;
	e.remote.hw_ns = 11000;

	const Measured m = measure(e, [](unsigned ifindex, std::int64_t nic_ns) {
		EXPECT_EQ(ifindex, 2U);
		return std::optional(start_ns + nic_ns);
	});

	EXPECT_EQ(m.tx_nic_ns, 1500);
	EXPECT_EQ(m.tx_ns, 6500);
	EXPECT_EQ(m.rx_nic_ns, 4000);
	EXPECT_EQ(m.rx_ns, 8000);
	EXPECT_EQ(m.fabric_ns, 33500);
}

TEST(probe_measure, mixed_stamps_are_named)
{
	Exchange e = software_exchange();

	e.remote.hw_ns = 15000;
	EXPECT_EQ(measure(e, nullptr).local, Stamp::software);
	EXPECT_EQ(measure(e, nullptr).remote, Stamp::hardware);
	EXPECT_EQ(measure(e, nullptr).fabric_ns, 35000);
	// A NIC that stamps one way only: never a hardware stamp minus a software one.
	e.rx.wire_ns = 5;
	EXPECT_EQ(measure(e, nullptr).local, Stamp::software);
	EXPECT_EQ(measure(e, nullptr).fabric_ns, 35000);
	e.rx.wire_ns = 0;
	e.tx.wire_ns = 5;
	EXPECT_EQ(measure(e, nullptr).local, Stamp::software);
}

TEST(probe_measure, times_that_cannot_be)
{
	Exchange e = software_exchange();

	e.remote.sw_ns = 50001; // longer there than away
	EXPECT_TRUE(measure(e, nullptr).implausible);
	EXPECT_FALSE(measure(e, nullptr).fabric_ns);
	e.remote.sw_ns = 50000;
	EXPECT_EQ(measure(e, nullptr).fabric_ns, 0);
	e = software_exchange();
	e.rx.app_ns = e.rx.stack_ns - 1; // the clock was set back while it waited
	EXPECT_TRUE(measure(e, nullptr).implausible);
	EXPECT_FALSE(measure(e, nullptr).rx_ns);
	EXPECT_FALSE(measure(e, nullptr).rx_stack_ns);
	e = software_exchange();
	e.rx.stack_ns = e.tx.driver_ns - 1000 * ms;
	e.rx.app_ns = e.rx.stack_ns + 4000;
	EXPECT_TRUE(measure(e, nullptr).implausible);
	EXPECT_FALSE(measure(e, nullptr).fabric_ns);
	// Nothing at all is not a contradiction.
	EXPECT_FALSE(measure(Exchange{}, nullptr).implausible);
	EXPECT_FALSE(measure(Exchange{}, nullptr).fabric_ns);
}

TEST_F(Track, an_exchange_in_order)
{
	const auto first = send(0);

	stamp(first, 0);
	EXPECT_EQ(track_.reply(reply_to(first), rx_after(start_ns)), ReplyKind::fresh);
	settle(5 * ms);
	EXPECT_EQ(stats_.sent, 0U); // its turnaround comes with the next reply

	const auto second = send(10 * ms);

	stamp(second, 10 * ms);
	track_.reply(reply_to(second, {{first, {std::nullopt, 20000}}}), rx_after(start_ns + 10 * ms));
	settle(11 * ms);
	EXPECT_EQ(stats_.sent, 1U);
	ASSERT_TRUE(stats_.best());
	EXPECT_EQ(stats_.best()->fabric.min_ns(), 30000);
	EXPECT_FALSE(track_.idle());
	settle(130 * ms);
	EXPECT_EQ(stats_.sent, 2U);
	EXPECT_EQ(stats_.lost, 0U);
	EXPECT_EQ(stats_.unstamped, 1U); // nobody told its turnaround
	EXPECT_TRUE(track_.idle());
	settle(1000 * ms);
	EXPECT_EQ(stats_.sent, 2U); // once
}

TEST_F(Track, stamps_that_come_after_the_reply)
{
	const auto seq = send(0);

	track_.reply(reply_to(seq), rx_after(start_ns));
	track_.reply(reply_to(send(1 * ms), {{seq, {std::nullopt, 20000}}}), rx_after(start_ns + ms));
	settle(2 * ms);
	EXPECT_EQ(stats_.sent, 0U);
	stamp(seq, 0);
	settle(3 * ms);
	EXPECT_EQ(stats_.sent, 1U);
	EXPECT_EQ(stats_.unstamped, 0U);
	EXPECT_EQ(stats_.best()->fabric.min_ns(), 30000);
}

TEST_F(Track, a_turnaround_that_overtakes_its_reply)
{
	const auto first = send(0);
	const auto second = send(1 * ms);

	stamp(first, 0);
	stamp(second, ms);
	track_.reply(reply_to(second, {{first, {std::nullopt, 20000}}}), rx_after(start_ns + ms));
	EXPECT_EQ(track_.reply(reply_to(first), rx_after(start_ns)), ReplyKind::fresh);
	settle(2 * ms);
	EXPECT_EQ(stats_.sent, 1U);
	EXPECT_EQ(stats_.best()->fabric.min_ns(), 30000);
}

TEST_F(Track, a_hardware_stamp_that_is_late_is_waited_for)
{
	const auto seq = send(0);

	stamp(seq, 0);
	track_.reply(reply_to(seq), rx_after(start_ns, 41000));
	track_.reply(reply_to(send(ms), {{seq, {11000, 20000}}}), rx_after(start_ns + ms));
	settle(2 * ms);
	EXPECT_EQ(stats_.sent, 0U);
	track_.tx_stamp(seq, TxPoint::wire, 1000);
	settle(3 * ms);
	EXPECT_EQ(stats_.sent, 1U);
	EXPECT_EQ(stats_.best()->local, Stamp::hardware);
	EXPECT_EQ(stats_.best()->fabric.min_ns(), 29000);
}

TEST_F(Track, a_hardware_stamp_that_never_comes)
{
	const auto seq = send(0);

	stamp(seq, 0);
	track_.reply(reply_to(seq), rx_after(start_ns, 41000));
	track_.reply(reply_to(send(ms), {{seq, {11000, 20000}}}), rx_after(start_ns + ms));
	settle(119 * ms);
	EXPECT_EQ(stats_.sent, 0U); // timeout and grace
	settle(200 * ms);
	EXPECT_EQ(stats_.best()->local, Stamp::software);
	EXPECT_EQ(stats_.best()->fabric.min_ns(), 39000);
}

TEST_F(Track, loss_late_and_duplicate_replies)
{
	const auto lost = send(0);
	const auto answered = send(ms);

	stamp(answered, ms);
	EXPECT_EQ(track_.reply(reply_to(answered), rx_after(start_ns + ms)), ReplyKind::fresh);
	EXPECT_EQ(track_.reply(reply_to(answered), rx_after(start_ns + ms)), ReplyKind::duplicate);
	EXPECT_EQ(track_.reply(reply_to(answered + 1), rx_after(start_ns)), ReplyKind::unknown);
	settle(99 * ms);
	EXPECT_EQ(stats_.lost, 0U);
	settle(100 * ms);
	EXPECT_EQ(stats_.lost, 1U);
	EXPECT_EQ(track_.reply(reply_to(lost), rx_after(start_ns)), ReplyKind::late);
	settle(300 * ms);
	EXPECT_EQ(stats_.sent, 2U);
	EXPECT_EQ(stats_.lost, 1U);
	EXPECT_EQ(track_.reply(reply_to(lost), rx_after(start_ns)), ReplyKind::late); // long gone
}

TEST_F(Track, an_answered_probe_stays_known_as_such)
{
	const auto seq = send(0);

	stamp(seq, 0);
	track_.reply(reply_to(seq), rx_after(start_ns));
	track_.reply(reply_to(send(ms), {{seq, {std::nullopt, 20000}}}), rx_after(start_ns + ms));
	settle(2 * ms);
	EXPECT_EQ(stats_.sent, 1U);
	EXPECT_EQ(track_.reply(reply_to(seq), rx_after(start_ns)), ReplyKind::duplicate);
}

TEST_F(Track, a_lost_probe_still_tells_how_it_left)
{
	stamp(send(0), 0);
	settle(100 * ms);
	EXPECT_EQ(stats_.lost, 1U);
	EXPECT_EQ(stats_.tx_qdisc.count(), 1U);
	EXPECT_EQ(stats_.tx_total().min_ns(), 5000);
	EXPECT_EQ(stats_.rx_total().count(), 0U);
	EXPECT_FALSE(stats_.best());
}

TEST_F(Track, a_stamp_of_another_packet_is_refused)
{
	const auto seq = send(10 * ms);

	track_.tx_stamp(seq, TxPoint::driver, start_ns + 10 * ms - 1); // before it was sent
	track_.tx_stamp(seq + 1, TxPoint::driver, start_ns + 11 * ms);
	settle(200 * ms);
	EXPECT_EQ(stats_.tx_total().count(), 0U);
}

TEST_F(Track, finish_tells_lost_from_under_way)
{
	send(0);
	send(950 * ms);
	const auto answered = send(960 * ms);

	track_.sent(970 * ms, start_ns, false); // fetches turnarounds
	stamp(answered, 960 * ms);
	track_.reply(reply_to(answered), rx_after(start_ns + 960 * ms));
	EXPECT_EQ(track_.finish(1000 * ms,
				[this](const Exchange &e) { stats_.add(e, measure(e, nullptr)); }),
		  1U);
	EXPECT_EQ(stats_.sent, 2U);
	EXPECT_EQ(stats_.lost, 1U);
	EXPECT_TRUE(track_.idle());
}

TEST_F(Track, a_probe_that_was_not_sent_leaves_no_gap)
{
	const auto first = send(0);

	send(1);
	track_.unsent();
	EXPECT_EQ(send(2), first + 1);
	settle(200 * ms);
	EXPECT_EQ(stats_.sent, 2U);
}

TEST(probe_stats, mixed_stamps_do_not_mix_in_one_figure)
{
	ProbeStats stats;
	Exchange hw = software_exchange();

	hw.tx.wire_ns = 1000;
	hw.rx.wire_ns = 42000;
	hw.remote.hw_ns = 11000;
	for (int i = 0; i < 3; i++)
		stats.add(hw, measure(hw, nullptr));
	stats.add(software_exchange(), measure(software_exchange(), nullptr));
	ASSERT_TRUE(stats.best());
	EXPECT_EQ(stats.best()->local, Stamp::hardware);
	EXPECT_EQ(stats.best()->fabric.count(), 3U);

	ProbeReport report;

	report.targets.push_back({"a", {}, stats, 0, {}, {}});
	const auto j = nlohmann::json::parse(probe_json(report, {}, true));

	EXPECT_EQ(j["targets"][0]["other_stamps"], 1);
	EXPECT_EQ(j["targets"][0]["stamps"]["local"], "hw");
}

TEST(probe_samples, nearest_rank)
{
	Samples s;
	const std::array<unsigned, 5> q = {500, 900, 990, 999, 1000};

	EXPECT_EQ(s.quantiles_ns(q), std::vector<std::int64_t>(5, 0));
	s.add(7);
	EXPECT_EQ(s.quantiles_ns(q), std::vector<std::int64_t>(5, 7));
	s = {};
	for (int i = 1000; i > 0; i--)
		s.add(i);
	EXPECT_EQ(s.quantiles_ns(q), (std::vector<std::int64_t>{500, 900, 990, 999, 1000}));
	EXPECT_EQ(s.min_ns(), 1);
	EXPECT_EQ(s.max_ns(), 1000);
}

TEST(probe_samples, keeps_the_newest_and_counts_all)
{
	Samples s;
	const std::array<unsigned, 1> median = {500};

	s.add(std::int64_t{1} << 40); // more than is kept
	for (std::size_t i = 0; i < Samples::cap; i++)
		s.add(-3);
	EXPECT_EQ(s.count(), Samples::cap + 1);
	EXPECT_EQ(s.max_ns(), 2147483647);
	EXPECT_EQ(s.min_ns(), -3);
	const std::array<unsigned, 1> last = {1000};

	EXPECT_EQ(s.quantiles_ns(median)[0], -3);
	EXPECT_EQ(s.quantiles_ns(last)[0], -3);
}

TEST(probe_responder, tells_the_turnaround_with_the_next_reply)
{
	ProbeMemory memory(1);
	const ProbePeer peer = {{}, 5, 6};
	ProbePacket probe;

	probe.seq = 10;
	EXPECT_EQ(memory.answer(peer, probe, {0, start_ns, 0, 0}).record_count, 0U);
	memory.tx_stamp(peer, 10, TxPoint::sched, start_ns + 1);
	probe.seq = 11;
	EXPECT_EQ(memory.answer(peer, probe, {0, start_ns, 0, 0}).record_count, 0U); // none yet
	memory.tx_stamp(peer, 10, TxPoint::driver, start_ns + 300);
	memory.tx_stamp(peer, 11, TxPoint::driver, start_ns + 400);
	probe.seq = 12;

	const auto reply = memory.answer(peer, probe, {0, start_ns, 0, 0});

	EXPECT_EQ(reply.type, ProbeType::reply);
	ASSERT_EQ(reply.record_count, 2U);
	EXPECT_EQ(reply.records[0], (ProbeRecord{11, {std::nullopt, 400}}));
	EXPECT_EQ(reply.records[1], (ProbeRecord{10, {std::nullopt, 300}}));
	// Another run, another target, another address: another peer.
	EXPECT_EQ(memory.answer({{}, 9, 6}, probe, {}).record_count, 0U);
	EXPECT_EQ(memory.answer({{}, 5, 7}, probe, {}).record_count, 0U);
	EXPECT_EQ(memory.answer({{{}, 1}, 5, 6}, probe, {}).record_count, 0U);
}

TEST(probe_responder, waits_one_reply_for_the_nic)
{
	ProbeMemory memory(1);
	const ProbePeer peer = {{}, 5, 6};
	ProbePacket probe;

	memory.answer(peer, probe, {100, start_ns, 0, 0});
	memory.tx_stamp(peer, 0, TxPoint::driver, start_ns + 300);
	probe.seq = 1;
	EXPECT_EQ(memory.answer(peer, probe, {}).record_count, 0U);
	probe.seq = 2;
	ASSERT_EQ(memory.answer(peer, probe, {}).record_count, 1U); // it never came
	memory.tx_stamp(peer, 0, TxPoint::wire, 350);
	probe.seq = 3;

	const auto reply = memory.answer(peer, probe, {});

	ASSERT_EQ(reply.record_count, 1U);
	EXPECT_EQ(reply.records[0], (ProbeRecord{0, {250, 300}}));
}

TEST(probe_responder, remembers_a_bounded_number_the_newest)
{
	ProbeMemory memory(1);
	ProbePacket probe;
	const auto peer = [](std::uint64_t n) { return ProbePeer{{}, n, 0}; };

	for (std::uint64_t n = 0; n < ProbeMemory::max_peers; n++) {
		memory.answer(peer(n), probe, {0, start_ns, 0, 0});
		memory.tx_stamp(peer(n), 0, TxPoint::driver, start_ns + 5);
	}
	probe.seq = 1;
	EXPECT_EQ(memory.answer(peer(0), probe, {}).record_count, 1U); // now the newest
	memory.answer(peer(ProbeMemory::max_peers), probe, {}); // drives out the oldest
	EXPECT_EQ(memory.peers(), ProbeMemory::max_peers);
	probe.seq = 2;
	EXPECT_EQ(memory.answer(peer(0), probe, {}).record_count, 1U);
	EXPECT_EQ(memory.answer(peer(1), probe, {}).record_count, 0U); // it was peer 1
	memory.tx_stamp(peer(2), 0, TxPoint::driver, 1); // gone by now: no harm
}

TEST(probe_responder, rate_limit)
{
	RateLimit limit(1000, 10);
	int taken = 0;

	for (int i = 0; i < 100; i++)
		taken += limit.take(5000 * ms);
	EXPECT_EQ(taken, 10); // at once
	EXPECT_FALSE(limit.take(5000 * ms + 999999));
	EXPECT_TRUE(limit.take(5001 * ms));
	EXPECT_FALSE(limit.take(5001 * ms));
	for (int i = 0; i < 100; i++) // an hour is no more than the burst
		taken += limit.take(3600000 * ms);
	EXPECT_EQ(taken, 20);
}

TEST(probe_sent, knows_the_newest_packets_of_a_socket)
{
	SentPackets<int> sent;
	const std::uint64_t epoch = std::uint64_t{1} << 32;

	EXPECT_EQ(sent.find(0), nullptr);
	sent.add(epoch + 3, 33);
	ASSERT_NE(sent.find(epoch + 3), nullptr);
	EXPECT_EQ(*sent.find(epoch + 3), 33);
	EXPECT_EQ(sent.find(2 * epoch + 3), nullptr); // counted anew
	sent.add(epoch + 3 + SentPackets<int>::size, 44);
	EXPECT_EQ(sent.find(epoch + 3), nullptr);
}

TEST(probe_nic, line_to_the_hosts_clock)
{
	NicLines lines;
	NicClock c;

	c.ifindex = 4;
	c.valid_ms = 100;
	c.line = {1000000, 5000000, 0x100000000ULL + 429497, 10}; // 100 ppm
	lines.update({c}, 1000);
	EXPECT_EQ(lines.to_host(4, 1000000), 5001000);
	EXPECT_NEAR(static_cast<double>(*lines.to_host(4, 1000000 + 1000 * ms)),
		    static_cast<double>(5001000 + 1000 * ms + 100000), 5);
	EXPECT_EQ(lines.to_host(4, 999000), 5000000);
	EXPECT_FALSE(lines.to_host(5, 1000000));
	c.valid_ms = 0; // stale
	lines.update({c}, 1000);
	EXPECT_FALSE(lines.to_host(4, 1000000));
}

TEST(probe_nic, stamping_is_borrowed)
{
	swift_test::FakeSystem system;
	const Stamping off = {HWTSTAMP_TX_OFF, HWTSTAMP_FILTER_NONE};
	const Stamping on = {HWTSTAMP_TX_ON, HWTSTAMP_FILTER_ALL};
	auto &eth0 = system.stamps["eth0"];

	EXPECT_FALSE(BorrowedStamping::take(system, "eth0")); // cannot
	eth0.can_hw_rx_all = true;
	eth0.now = off;
	{
		auto borrowed = BorrowedStamping::take(system, "eth0");

		ASSERT_TRUE(borrowed);
		EXPECT_EQ(system.stamps["eth0"].now, on);
	}
	EXPECT_EQ(system.stamps["eth0"].now, off);
	{
		auto borrowed = BorrowedStamping::take(system, "eth0");

		system.stamps["eth0"].now = Stamping{HWTSTAMP_TX_ON, HWTSTAMP_FILTER_PTP_V2_EVENT};
	}
	EXPECT_EQ(system.stamps["eth0"].now->rx_filter, HWTSTAMP_FILTER_PTP_V2_EVENT); // not ours
	system.stamps["eth0"].now = on;
	{
		auto borrowed = BorrowedStamping::take(system, "eth0");
	}
	EXPECT_EQ(system.stamps["eth0"].now, on); // it was before
}

TEST(probe_plan, targets_and_ports)
{
	EXPECT_EQ(*probe_port_of("host"), 21335);
	EXPECT_EQ(*probe_port_of("host:9"), 9);
	EXPECT_EQ(*probe_port_of("10.0.0.1:65535"), 65535);
	EXPECT_EQ(*probe_port_of("fd00::1"), 21335);
	EXPECT_EQ(*probe_port_of("[fd00::1]"), 21335);
	EXPECT_EQ(*probe_port_of("[fd00::1]:8"), 8);
	for (const char *bad : {"", ":1", "host:", "host:0", "host:65536", "host:x", "[fd00::1", "[fd00::1]8",
				"[]:8", "[fd00::1]:", "["})
		EXPECT_FALSE(probe_port_of(bad)) << bad;
	EXPECT_EQ(resolve_probe("[::1]:8", 1)->endpoint.text(), "[::1]:8");
	EXPECT_EQ(resolve_probe("127.0.0.1", 21335)->endpoint.text(), "127.0.0.1:21335");
	EXPECT_FALSE(resolve_probe("no such host", 1));
}

TEST(probe_plan, a_file_of_targets)
{
	const auto good = parse_targets("f", "# all\n10.0.0.1\n\n  [fd00::1]:9\t# two\r\nhost");

	ASSERT_TRUE(good);
	EXPECT_EQ(*good, (std::vector<std::string>{"10.0.0.1", "[fd00::1]:9", "host"}));
	EXPECT_EQ(parse_targets("f", "a\nb c\n").error().text(), "f:2: one target a line: 'c'");
	EXPECT_EQ(parse_targets("f", "a\n\nb:99999\n").error().text(),
		  "f:3: port of b: '99999' (allowed: 1 to 65535)");
	EXPECT_FALSE(parse_targets("f", std::string("a\0b", 3)));
}

TEST(probe_plan, options_in_their_bounds)
{
	const auto with = [](auto change) {
		ProbeOptions o;

		o.targets = {"host"};
		change(o);
		return ProbePlan::from(o);
	};

	const auto plan = with([](ProbeOptions &o) { o.interval_ms = "0.5", o.size = "1400"; });

	ASSERT_TRUE(plan);
	EXPECT_EQ(plan->interval_ns, 500000);
	EXPECT_EQ(plan->size_bytes, 1400U);
	EXPECT_EQ(plan->count, 1000U);
	EXPECT_EQ(with([](ProbeOptions &o) { o.watch = "2"; })->count, 0U);
	EXPECT_FALSE(with([](ProbeOptions &o) { o.targets.clear(); }));
	EXPECT_FALSE(with([](ProbeOptions &o) { o.count = "0"; }));
	EXPECT_FALSE(with([](ProbeOptions &o) { o.interval_ms = "0"; }));
	EXPECT_FALSE(with([](ProbeOptions &o) { o.timeout_ms = "2001"; }));
	EXPECT_FALSE(with([](ProbeOptions &o) { o.size = "71"; }));
	EXPECT_FALSE(with([](ProbeOptions &o) { o.dscp = "64"; }));
	EXPECT_FALSE(with([](ProbeOptions &o) { o.port = "1"; }));
	EXPECT_FALSE(with([](ProbeOptions &o) { o.bind = "::"; }));
	EXPECT_FALSE(with([](ProbeOptions &o) { o.stamp = true; })); // of which NIC?
	EXPECT_FALSE(with([](ProbeOptions &o) { o.respond = true; })); // and targets
	EXPECT_FALSE(with([](ProbeOptions &o) {
		o.targets.assign(100, "host");
		o.interval_ms = "0.5"; // 200000 a second
	}));
	EXPECT_FALSE(with([](ProbeOptions &o) { o.targets.assign(5000, "host"); }));

	const auto responder = [](std::string bind, std::string port) {
		ProbeOptions o;

		o.respond = true;
		o.bind = std::move(bind);
		o.port = std::move(port);
		return ProbePlan::from(o);
	};

	EXPECT_EQ(responder("", "")->bind.size(), 2U);
	EXPECT_EQ(responder("::1", "8")->bind.at(0).endpoint.text(), "[::1]:8");
	EXPECT_EQ(responder("127.0.0.1", "")->bind.at(0).endpoint.text(), "127.0.0.1:21335");
	EXPECT_FALSE(responder("localhost", ""));
	EXPECT_FALSE(responder("", "0"));
}

TEST(probe_view, a_target_that_never_answered)
{
	ProbeReport report;
	ProbeStats stats;
	Exchange e;

	for (int i = 0; i < 3; i++)
		stats.add(e, measure(e, nullptr));
	report.targets.push_back({"10.0.0.9", {}, stats, 0, "refused", {}});
	const auto table = render(probe_table(report), {});

	ASSERT_EQ(table.lines.size(), 2U);
	EXPECT_EQ(table.lines[1].find("10.0.0.9"), 0U);
	EXPECT_NE(table.lines[1].find(" -"), std::string::npos);

	const auto j = nlohmann::json::parse(probe_json(report, {}, false));

	EXPECT_EQ(j["targets"][0]["sent"], 3);
	EXPECT_EQ(j["targets"][0]["lost"], 3);
	EXPECT_EQ(j["targets"][0]["fabric_rtt_ns"]["n"], 0);
	EXPECT_FALSE(j["targets"][0]["fabric_rtt_ns"].contains("p50"));
	EXPECT_EQ(j["targets"][0]["stamps"]["local"], "none");
	EXPECT_EQ(j["targets"][0]["error"], "refused");
}

TEST(probe_socket, over_loopback_both_ways_stamped)
{
	for (const bool v6 : {false, true}) {
		ProbeAddress here;

		here.endpoint.address = *Address::parse(v6 ? "::1" : "127.0.0.1");
		auto a = ProbeSocket::open({here, "", 0});
		auto b = ProbeSocket::open({here, "", 0});

		if (!a && v6)
			GTEST_SKIP() << "no IPv6 here: " << a.error().text();
		ASSERT_TRUE(a && b);

		const auto wait = [](const ProbeSocket &s) {
			pollfd fd = {s.fd(), POLLIN, 0};

			poll(&fd, 1, 5000);
		};
		const auto bytes = bytes_of(sample_packet());
		std::uint32_t sent = 0;

		// The kernel begins to stamp what comes in by a work item of its own, some time
		// after the first socket has asked for it.
		const auto begun = std::chrono::steady_clock::now();

		for (bool stamped = false; !stamped; sent++) {
			ASSERT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(120));
			ASSERT_TRUE(a->send(bytes, {b->local(), 0}));
			wait(*b);
			const auto d = b->receive();

			ASSERT_TRUE(d);
			stamped = d->rx.stack_ns != 0;
			while (a->read_errors())
				;
		}

		for (std::uint32_t i = sent; i < sent + 2; i++) {
			const std::int64_t before_ns = clock_ns(CLOCK_REALTIME);
			const auto id = a->send(bytes, {b->local(), 0});

			ASSERT_TRUE(id);
			EXPECT_EQ(*id & 0xffffffff, i);
			wait(*b);
			const auto d = b->receive();

			ASSERT_TRUE(d);
			EXPECT_EQ(d->from.endpoint, a->local());
			EXPECT_EQ(d->to, here.endpoint.address);
			EXPECT_FALSE(d->cut);
			EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), d->bytes.begin(), d->bytes.end()));
			EXPECT_EQ(d->rx.wire_ns, 0);
			EXPECT_GE(d->rx.stack_ns, before_ns);
			EXPECT_GE(d->rx.app_ns, d->rx.stack_ns);

			// Into the queueing discipline, to the driver; in this order.
			TxStamps tx;

			while (tx.driver_ns == 0) {
				wait(*a);
				const auto event = a->read_errors();

				ASSERT_TRUE(event);
				const auto &stamp = std::get<TxStamp>(*event);

				EXPECT_EQ(stamp.id, *id);
				tx.set(stamp.point, stamp.ns);
			}
			EXPECT_GE(tx.driver_ns, before_ns);
			EXPECT_LE(tx.driver_ns, d->rx.stack_ns);
			if (tx.sched_ns) {
				EXPECT_LE(tx.sched_ns, tx.driver_ns);
			}
		}
	}
}

TEST(probe_socket, a_failed_send_starts_new_ids)
{
	ProbeAddress here;

	here.endpoint.address = *Address::parse("127.0.0.1");
	auto a = ProbeSocket::open({here, "", 0});
	auto b = ProbeSocket::open({here, "", 0});

	ASSERT_TRUE(a && b);
	const ProbeAddress to = {b->local(), 0};
	const auto bytes = bytes_of(sample_packet());
	const auto first = a->send(bytes, to);

	ASSERT_TRUE(first);
	while (a->read_errors())
		;
	// More than a datagram holds: refused, and the kernel may have counted it.
	EXPECT_FALSE(a->send(std::vector<std::byte>(70000), to));
	const auto second = a->send(bytes, to);

	ASSERT_TRUE(second);
	EXPECT_NE(*first, *second);
	pollfd fd = {a->fd(), 0, 0};

	poll(&fd, 1, 5000);
	const auto event = a->read_errors();

	ASSERT_TRUE(event);
	EXPECT_EQ(std::get<TxStamp>(*event).id, *second);
}

TEST(probe_socket, says_that_nobody_listens_and_goes_on)
{
	ProbeAddress here;

	here.endpoint.address = *Address::parse("127.0.0.1");
	auto a = ProbeSocket::open({here, "", 0});
	auto b = ProbeSocket::open({here, "", 0});
	Endpoint dead;

	ASSERT_TRUE(a && b);
	{
		auto gone = ProbeSocket::open({here, "", 0});

		ASSERT_TRUE(gone);
		dead = gone->local();
	}
	const auto bytes = bytes_of(sample_packet());

	ASSERT_TRUE(a->send(bytes, {dead, 0}));
	bool refused = false;

	for (int i = 0; i < 10 && !refused; i++) {
		pollfd fd = {a->fd(), 0, 0};

		poll(&fd, 1, 5000);
		while (const auto event = a->read_errors())
			if (const auto *failure = std::get_if<SendFailure>(&*event)) {
				refused = true;
				EXPECT_EQ(failure->code, ECONNREFUSED);
				EXPECT_EQ(failure->to, dead);
			}
	}
	EXPECT_TRUE(refused);
	EXPECT_TRUE(a->send(bytes, {b->local(), 0})); // not failed by the other's error
}

TEST(probe_socket, errors_name_what_is_wrong)
{
	ProbeAddress here;

	here.endpoint.address = *Address::parse("127.0.0.1");
	auto a = ProbeSocket::open({here, "", 0});

	ASSERT_TRUE(a);
	const auto busy = ProbeSocket::open({{a->local(), 0}, "", 0});

	ASSERT_FALSE(busy);
	EXPECT_EQ(busy.error().text(), "cannot use " + a->local().text() + ": Address already in use");
	EXPECT_EQ(ProbeSocket::open({here, "no-such-dev", 0}).error().text(), "no such interface: 'no-such-dev'");
	here.endpoint.address = *Address::parse("192.0.2.1");
	EXPECT_FALSE(ProbeSocket::open({here, "", 0}));
}
