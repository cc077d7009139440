// SPDX-License-Identifier: MIT
// Who holds a flow back, by what TCP and Swift know of it.
#include <gtest/gtest.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>

#include "busy_flow.h"
#include "diag.h"
#include "flow_table.h"
#include "verdict.h"

using namespace swift;
using swift_test::busy_flow;

namespace {

constexpr std::int64_t second_ns = 1'000'000'000;

Flow busy()
{
	return busy_flow(1, {10'000'000, 0, 0});
}

Flow with(void (*change)(Flow &))
{
	Flow f = busy();

	change(f);
	return f;
}

Bound held(void (*change)(Flow &))
{
	return held_by(with(change), {});
}

FlowRow row_of(const std::vector<Flow> &looks)
{
	const IfaceMap ifaces;
	FlowTable table({});
	std::shared_ptr<const FlowSet> set;
	std::int64_t now_ns = 0;

	for (const Flow &f : looks) {
		table.begin(now_ns += second_ns, ifaces);
		table.add(f);
		set = table.end();
	}
	return set->rows.at(0);
}

TEST(verdict, a_backlog_is_held_by_the_smaller_window)
{
	EXPECT_EQ(held([](Flow &) {}), Bound::fabric);
	EXPECT_EQ(held([](Flow &f) { f.swift->fcwnd_q16 = 60 << 16; }), Bound::host);
	EXPECT_EQ(held([](Flow &f) { f.swift->fabric_ns = 1000; }), Bound::fabric) << "below its target it grows";
}

TEST(verdict, of_equal_windows_the_longer_delay_tells)
{
	EXPECT_EQ(held([](Flow &f) { f.swift->ecwnd_q16 = f.swift->fcwnd_q16; }), Bound::fabric);
	EXPECT_EQ(held([](Flow &f) {
			  f.swift->ecwnd_q16 = f.swift->fcwnd_q16;
			  f.swift->fabric_ns = 10'000;
			  f.swift->endpoint_ns = 300'000;
		  }),
		  Bound::host);
	EXPECT_EQ(held([](Flow &f) {
			  f.swift->ecwnd_q16 = f.swift->fcwnd_q16;
			  f.swift->endpoint_ns = 900'000;
		  }),
		  Bound::mixed);
}

TEST(verdict, who_sends_all_that_he_has_is_held_by_himself)
{
	EXPECT_EQ(held([](Flow &f) {
			  f.tcp->notsent_bytes = 0;
			  f.tcp->app_limited = true;
		  }),
		  Bound::application);
	EXPECT_EQ(held([](Flow &f) { f.tcp->notsent_bytes = f.tcp->unacked_pkts = 0; }), Bound::application);
	EXPECT_EQ(held([](Flow &f) { f.tcp->app_limited = true; }), Bound::fabric) << "by now it has more";
	EXPECT_EQ(held([](Flow &f) { f.tcp->notsent_bytes = 0; }), Bound::fabric) << "all of it is on its way";
}

TEST(verdict, receivers_and_send_buffers_hold_flows_whatever_the_windows)
{
	EXPECT_EQ(held([](Flow &f) { f.tcp->times.rwnd_limited_us = 5'000'000; }), Bound::receiver);
	EXPECT_EQ(held([](Flow &f) { f.tcp->times.rwnd_limited_us = 4'900'000; }), Bound::fabric);
	EXPECT_EQ(held([](Flow &f) { f.tcp->times.sndbuf_limited_us = 6'000'000; }), Bound::send_buffer);
	EXPECT_EQ(held([](Flow &f) {
			  f.tcp->times.rwnd_limited_us = 3'000'000;
			  f.tcp->times.sndbuf_limited_us = 2'500'000;
		  }),
		  Bound::receiver)
		<< "together half, the greater one of the two";
	EXPECT_EQ(held([](Flow &f) {
			  f.cc = "cubic";
			  f.swift.reset();
			  f.tcp->times.rwnd_limited_us = 9'000'000;
		  }),
		  Bound::receiver)
		<< "that needs no Swift";
}

TEST(verdict, without_tcp_info_the_windows_are_all_there_is)
{
	EXPECT_EQ(held([](Flow &f) { f.tcp.reset(); }), Bound::fabric);
	EXPECT_EQ(held([](Flow &f) { f.swift.reset(); }), Bound::none);
}

// What counts is the time since the last look, not that since the flow began.
TEST(verdict, of_a_row_the_last_interval_counts)
{
	const Flow then = with([](Flow &f) { f.tcp->times = {10'000'000, 9'000'000, 0}; });
	const Flow now = with([](Flow &f) { f.tcp->times = {11'000'000, 9'100'000, 0}; });
	const Flow later = with([](Flow &f) { f.tcp->times = {12'000'000, 9'900'000, 0}; });

	EXPECT_EQ(held_by(row_of({then}), {}), Bound::receiver);
	EXPECT_EQ(held_by(row_of({then, now}), {}), Bound::fabric);
	EXPECT_EQ(held_by(row_of({then, now, later}), {}), Bound::receiver);
	EXPECT_EQ(flow_verdict(row_of({then, now, later}), {}).text,
		  "receiver-bound: the peer's receive window was full for 80 % of the time that it had data");
	EXPECT_NEAR(row_of({then, now}).sender.busy, 1, 1e-6);
}

TEST(verdict, a_flow_with_data_for_less_than_half_of_the_time_is_its_applications)
{
	const Flow now = with([](Flow &f) {
		f.tcp->times.busy_us += 400'000;
		f.tcp->notsent_bytes = 0;
	});
	Flow rests = with([](Flow &f) { f.tcp->notsent_bytes = f.tcp->unacked_pkts = 0; });

	EXPECT_EQ(held_by(row_of({busy(), now}), {}), Bound::application);
	EXPECT_FALSE(row_of({busy(), now}).sender.idle());
	EXPECT_TRUE(row_of({rests, rests}).sender.idle());
	EXPECT_EQ(flow_verdict(row_of({rests, rests}), {}).text, "application-bound: it has nothing to send");
}

TEST(verdict, a_window_that_is_lent_is_credit)
{
	const auto rwnd_bound = [](Credit c) {
		Flow f = with([](Flow &x) { x.tcp->times.rwnd_limited_us = 9'000'000; });

		f.swift->credit = c;
		return held_by(f, {});
	};

	EXPECT_EQ(rwnd_bound(Credit::none), Bound::receiver);
	EXPECT_EQ(rwnd_bound(Credit::waits), Bound::credit);
	EXPECT_EQ(rwnd_bound(Credit::enough), Bound::credit) << "at this moment, but most of the time it had none";
	EXPECT_EQ(rwnd_bound(Credit::congested), Bound::own_link);
}

TEST(verdict, who_waits_for_credit_now_is_held_by_no_window_of_swifts)
{
	EXPECT_EQ(held([](Flow &f) { f.swift->credit = Credit::enough; }), Bound::fabric);
	EXPECT_EQ(held([](Flow &f) { f.swift->credit = Credit::waits; }), Bound::credit);
	EXPECT_EQ(held([](Flow &f) { f.swift->credit = Credit::congested; }), Bound::own_link);
	EXPECT_EQ(held([](Flow &f) {
			  f.swift->credit = Credit::waits;
			  f.tcp->notsent_bytes = 0;
			  f.tcp->app_limited = true;
		  }),
		  Bound::application);
	EXPECT_EQ(held([](Flow &f) {
			  f.swift->credit = Credit::waits;
			  f.tcp->times.sndbuf_limited_us = 9'000'000;
		  }),
		  Bound::send_buffer);
	EXPECT_EQ(flow_verdict(row_of({with([](Flow &f) { f.swift->credit = Credit::waits; })}), {}).text,
		  "credit-bound: it waits for credit of its receiver: swiftctl credit there says why");
	EXPECT_EQ(flow_verdict(row_of({with([](Flow &f) { f.swift->credit = Credit::congested; })}), {}).text,
		  "credit-bound: its receiver lends it less, because this host's own link is congested");
}

// Counters that went backwards, a time that stood still: no share above 1, no division by 0.
TEST(verdict, impossible_times_do_no_harm)
{
	const Flow huge = with([](Flow &f) { f.tcp->times = {1, UINT64_MAX, UINT64_MAX}; });
	const SenderState s = row_of({busy(), huge}).sender;

	EXPECT_EQ(s.busy, 0);
	EXPECT_EQ(s.rwnd_limited, 0);
	EXPECT_LE(row_of({huge}).sender.rwnd_limited, 1);
}

TEST(verdict, names_can_be_read_back)
{
	for (std::size_t i = 1; i < bounds; i++)
		EXPECT_EQ(parse_bound(bound_text(static_cast<Bound>(i))), static_cast<Bound>(i));
	EXPECT_FALSE(parse_bound("none"));
	EXPECT_FALSE(parse_bound(""));
}

} // namespace
