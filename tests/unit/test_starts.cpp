/* SPDX-License-Identifier: GPL-2.0 */
/*
 * D21: kmod/core/starts.h. Cases worked out by hand, and flows at random that begin, wait, are
 * answered and leave, against a count of them in plain words.
 */
#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "draw.hpp"
#include "starts.h"

namespace {

constexpr u32 kMss = 4096, kRttNs = 40000, kOwnRttNs = 25000;

struct Starts {
	swift_starts st{};
	u64 now_ns = 1000000000;

	/* How long one of @bytes waits, 0 = not at all; it has @ticket then. */
	u32 ask(u32 bytes = kMss, std::optional<u32> *ticket = nullptr, u32 random = 0)
	{
		bool waited = ticket && *ticket;
		swift_start_ask a = {.now_ns = now_ns, .rtt_ns = kOwnRttNs, .bytes = bytes, .random = random,
				     .ticket = waited ? **ticket : 0, .waited = waited};
		u32 wait_ns = swift_starts_ask(&st, &a);

		if (wait_ns && ticket)
			*ticket = a.ticket;
		return wait_ns;
	}

	/* Of these flows, how many begin; the others do not wait. */
	int begin(int flows, u32 bytes = kMss)
	{
		int began = 0;

		for (int i = 0; i < flows; i++) {
			if (!ask(bytes))
				began++;
			else
				swift_starts_serve(&st);
		}
		return began;
	}

	void answer(bool late, u32 bytes = kMss, u32 rtt_ns = kRttNs)
	{
		swift_starts_answer(&st, now_ns, bytes, kMss, rtt_ns, late);
	}
};

TEST(starts, the_first_have_16_KB)
{
	EXPECT_EQ(Starts{}.begin(100), 4);
	EXPECT_EQ(Starts{}.begin(100, 1448), 11);
	EXPECT_EQ(Starts{}.begin(1000, 64), 256);
	EXPECT_EQ(Starts{}.begin(100, 65000), 1); /* one at least */
}

TEST(starts, an_answer_lets_two_more_begin_each_RTT)
{
	Starts s;
	std::vector<std::optional<u32>> waiting(100);

	EXPECT_EQ(s.begin(4), 4);
	for (auto &w : waiting)
		EXPECT_TRUE(s.ask(kMss, &w));
	for (int began = 8; began <= 32; began *= 2) {
		s.now_ns += kRttNs;
		for (int i = 0; i < began / 2; i++)
			s.answer(false);
		int got = 0;
		while (!s.ask(kMss, &waiting.back())) {
			waiting.pop_back();
			got++;
		}
		EXPECT_EQ(got, began);
	}
}

TEST(starts, a_late_answer_halves_the_window_once_an_RTT)
{
	Starts s;

	EXPECT_EQ(s.begin(4), 4);
	s.now_ns += kRttNs;
	s.answer(true);
	EXPECT_EQ(s.st.window_bytes, 8192u);
	s.answer(true);
	EXPECT_EQ(s.st.window_bytes, 8192u);
	EXPECT_EQ(s.begin(1), 0); /* two are under way */
	s.now_ns += kRttNs;
	s.answer(true);
	EXPECT_EQ(s.st.window_bytes, kMss);
	s.now_ns += kRttNs;
	s.answer(true);
	EXPECT_EQ(s.st.window_bytes, kMss);
	EXPECT_TRUE(s.st.late);
	EXPECT_EQ(s.begin(2), 1);
	s.now_ns += kRttNs;
	s.answer(false);
	EXPECT_EQ(s.st.window_bytes, 2 * kMss);
	EXPECT_FALSE(s.st.late);
}

TEST(starts, the_window_has_an_end)
{
	Starts s;

	s.begin(1);
	s.st.window_bytes = SWIFT_STARTS_BYTES_MAX - 1;
	s.st.sent_bytes = SWIFT_STARTS_BYTES_MAX / 2;
	s.answer(false);
	EXPECT_EQ(s.st.window_bytes, SWIFT_STARTS_BYTES_MAX);
}

/* One by one they say nothing of what many may do. */
TEST(starts, a_window_that_nobody_needs_does_not_grow)
{
	Starts s;
	std::optional<u32> waits;

	for (int i = 0; i < 100; i++) {
		EXPECT_EQ(s.begin(1), 1);
		s.now_ns += kRttNs;
		s.answer(false);
	}
	EXPECT_EQ(s.st.window_bytes, u32(SWIFT_STARTS_BYTES));
	EXPECT_EQ(s.begin(2), 2); /* a half of it */
	s.answer(false);
	EXPECT_EQ(s.st.window_bytes, SWIFT_STARTS_BYTES + kMss);
	s.answer(false);
	EXPECT_EQ(s.st.window_bytes, SWIFT_STARTS_BYTES + kMss);
	s.begin(1);
	EXPECT_TRUE(s.ask(SWIFT_STARTS_BYTES + 1, &waits));
	s.answer(false);
	EXPECT_EQ(s.st.window_bytes, SWIFT_STARTS_BYTES + 2 * kMss);
}

/* Whose connection was reset while it waited still has its ticket. */
TEST(starts, who_waits_and_asks_no_more_is_forgotten)
{
	for (bool full_again : {false, true}) {
		Starts s;
		std::optional<u32> gone, large;

		s.begin(4);
		EXPECT_TRUE(s.ask(kMss, &gone));
		s.answer(false);
		for (u64 ns = 0; ns < SWIFT_STARTS_WAIT_MAX_NS; ns += 4000000) {
			EXPECT_EQ(s.begin(1), 0);
			s.answer(false, 0); /* no silence */
			s.now_ns += 4000000;
			if (full_again) { /* those who wait may be next */
				EXPECT_TRUE(s.ask(30000, &large));
			}
		}
		EXPECT_EQ(s.begin(1), full_again ? 0 : 1);
		EXPECT_EQ(swift_starts_wait(&s.st), full_again);
	}
}

TEST(starts, another_CPUs_clock_is_behind)
{
	Starts s;

	s.begin(4);
	s.now_ns += kRttNs;
	s.answer(true);
	s.now_ns -= 10;
	s.answer(true);
	EXPECT_EQ(s.st.window_bytes, 8192u);
	EXPECT_EQ(s.begin(3), 0); /* two are under way: nor is this a silence */
}

TEST(starts, a_long_RTT_is_no_hour_of_silence)
{
	Starts s;

	s.begin(4);
	s.answer(true, kMss, 4000000000);
	EXPECT_EQ(s.st.rtt_ns, u32(SWIFT_STARTS_RTT_MAX_NS));
	swift_starts_begin_anew(&s.st, 4000000000);
	EXPECT_EQ(s.st.rtt_ns, u32(SWIFT_STARTS_RTT_MAX_NS));
}

TEST(starts, a_late_one_begins_with_a_quarter_of_a_packet)
{
	const u32 q16 = SWIFT_Q16_ONE;

	EXPECT_EQ(swift_starts_late_cwnd_q16(10 * q16, q16 / 1000), q16 / 4);
	EXPECT_EQ(swift_starts_late_cwnd_q16(q16 / 8, q16 / 1000), q16 / 8);
	EXPECT_EQ(swift_starts_late_cwnd_q16(10 * q16, 2 * q16), 2 * q16);
}

TEST(starts, who_comes_later_does_not_go_before_those_who_wait)
{
	Starts s;
	std::optional<u32> first;

	s.begin(4);
	EXPECT_TRUE(s.ask(kMss, &first));
	s.answer(false);
	EXPECT_TRUE(s.ask());
	EXPECT_FALSE(s.ask(kMss, &first));
}

/* A quarter to a half of an RTT for each window of those before it, and no less than of one RTT. */
TEST(starts, one_waits_for_a_part_of_its_turn)
{
	Starts s;
	std::vector<std::optional<u32>> waiting(41);

	s.begin(4);
	s.answer(false);
	s.begin(1);
	s.st.window_bytes = 4 * kMss;
	for (auto &w : waiting)
		EXPECT_TRUE(s.ask(kMss, &w));
	EXPECT_EQ(s.ask(kMss, &waiting[0], 0), kRttNs / 4);
	EXPECT_EQ(s.ask(kMss, &waiting[39], 0), 10 * kRttNs / 4);
	EXPECT_NEAR(s.ask(kMss, &waiting[39], 0xffffffff), 10 * kRttNs / 2, 1);
	s.st.served += 20;
	EXPECT_EQ(s.ask(kMss, &waiting[39], 0), 5 * kRttNs / 4);
	s.st.served += 30; /* by silence */
	EXPECT_EQ(s.ask(kMss, &waiting[39], 0), kRttNs / 4);
	s.st.served -= 30;
	s.st.rtt_ns = 100000000;
	EXPECT_EQ(s.ask(kMss, &waiting[39], 0), SWIFT_STARTS_WAIT_MAX_NS / 4);
	s.st.rtt_ns = 0;
	EXPECT_EQ(s.ask(kMss, &waiting[0], 0), SWIFT_STARTS_RTT_MIN_NS / 4);
}

TEST(starts, silence_makes_all_new)
{
	Starts s;
	std::optional<u32> waits, another;

	s.begin(4);
	s.answer(true, kMss, kRttNs);
	EXPECT_TRUE(s.ask(kMss, &waits));
	s.now_ns += SWIFT_STARTS_SILENCE_NS + 2 * kRttNs - 1;
	EXPECT_TRUE(s.ask(kMss, &waits));
	EXPECT_TRUE(s.ask(kMss, &another));
	s.now_ns++;
	EXPECT_FALSE(s.ask(kMss, &waits));
	EXPECT_EQ(s.st.sent_bytes, kMss); /* what was under way is forgotten */
	EXPECT_EQ(s.st.window_bytes, u32(SWIFT_STARTS_BYTES));
	EXPECT_EQ(s.st.rtt_ns, kOwnRttNs);
	EXPECT_FALSE(s.st.late);
	EXPECT_FALSE(s.ask(kMss, &another));
	EXPECT_FALSE(swift_starts_wait(&s.st));
	/* What was forgotten is answered after all. */
	s.answer(false);
	s.answer(false);
	s.answer(false);
	EXPECT_EQ(s.st.sent_bytes, 0u);
}

TEST(starts, it_moves_while_some_are_answered_or_begin)
{
	Starts s;

	s.begin(4);
	for (int i = 0; i < 3; i++) {
		s.now_ns += SWIFT_STARTS_SILENCE_NS;
		s.answer(true);
	}
	EXPECT_EQ(s.st.sent_bytes, kMss);
	EXPECT_EQ(s.begin(1), 0);
}

TEST(starts, any_flows_leave_nothing_behind)
{
	Draw draw{21};
	Starts s;
	std::vector<u32> under_way; /* bytes */
	std::vector<std::pair<u32, std::optional<u32>>> waiting;
	u64 asked = 0, waited = 0;

	for (int i = 0; i < 200000; i++) {
		s.now_ns += draw.below(20000);
		u64 what = draw.below(100);

		if (what < 40 && waiting.size() < 500) {
			u32 bytes = 1 + u32(draw.below(9000));
			std::optional<u32> ticket;

			asked++;
			if (s.ask(bytes, &ticket, u32(draw.bits())))
				waiting.emplace_back(bytes, ticket), waited++;
			else
				under_way.push_back(bytes);
		} else if (what < 75 && !waiting.empty()) {
			size_t at = draw.below(waiting.size());
			auto [bytes, ticket] = waiting[at];
			u32 wait_ns = s.ask(bytes, &ticket, u32(draw.bits()));

			ASSERT_LE(wait_ns, u32(SWIFT_STARTS_WAIT_MAX_NS) / 2);
			if (!wait_ns) {
				under_way.push_back(bytes);
				waiting.erase(waiting.begin() + long(at));
			}
		} else if (what < 95 && !under_way.empty()) {
			s.answer(draw.below(3) == 0, under_way.back(), 1000 + u32(draw.below(1000000)));
			under_way.pop_back();
		} else if (what < 98 && !waiting.empty()) {
			swift_starts_serve(&s.st);
			waiting.pop_back();
		} else if (!under_way.empty()) {
			swift_starts_forget(&s.st, under_way.back());
			under_way.pop_back();
		}
		u64 sent = 0;
		for (u32 bytes : under_way)
			sent += bytes;
		ASSERT_EQ(s.st.sent_bytes, sent);
		ASSERT_EQ(s.st.tickets - s.st.served, waiting.size());
		ASSERT_GE(s.st.window_bytes, u32(kMss));
	}
	EXPECT_GT(waited, asked / 10);
	EXPECT_LT(waited, asked);
}

} // namespace
