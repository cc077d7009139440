// SPDX-License-Identifier: MIT
// The line between two clocks, against clocks that are known: its error, and whether its
// bound holds.
#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>

#include "clock_world.h"
#include "units.h"

using namespace swift;
using namespace swift_test;

namespace {

constexpr std::int64_t gap = 250 * ms;
constexpr std::int64_t validity = 3 * gap;

struct Score {
	std::int64_t conversions = 0;
	std::int64_t beyond_bound = 0;
	std::int64_t worst_ns = 0;
	std::uint32_t loosest_ns = 0; // bound
};

// Stamps taken at any moment from @from_ns after the newest reading to @to_ns.
void judge(Score &score, const Clocks &clocks, const ClockLine &line, std::int64_t from_ns,
	   std::int64_t to_ns, int n, std::mt19937_64 &random)
{
	std::uniform_int_distribution<std::int64_t> when(from_ns, to_ns);

	for (int i = 0; i < n; i++) {
		const std::int64_t host = clocks.host_ns + when(random);
		const std::int64_t off = std::abs(convert(line, clocks.nic_at(host)) - host);

		score.conversions++;
		score.beyond_bound += off > line.error_ns;
		score.worst_ns = std::max(score.worst_ns, off);
	}
	score.loosest_ns = std::max(score.loosest_ns, line.error_ns);
}

// @readings of them, each judged until its line expires.
Score run(Clocks clocks, const ReadingNoise &noise, int readings, int each, unsigned seed,
	  int warm_up = 8)
{
	std::mt19937_64 random(seed);
	ClockFit fit;
	Score score;

	for (int i = 0; i < readings; i++) {
		const auto verdict = fit.add(read(clocks, noise, random));

		EXPECT_NE(verdict, ClockFit::Verdict::restarted);
		const auto line = fit.line(validity);

		if (i >= warm_up) {
			EXPECT_TRUE(line) << i;
			if (line)
				judge(score, clocks, *line, 0, validity - 1 * ms, each, random);
		}
		clocks.host_ns += gap;
	}
	return score;
}

// Adds readings at the feeder's first gaps until there is a line; the time that took.
std::int64_t settle(ClockFit &fit, Clocks &clocks, const ReadingNoise &noise, std::mt19937_64 &random)
{
	const std::int64_t start = clocks.host_ns;

	for (std::int64_t g = 10 * ms; g < 3000 * ms; g *= 2) {
		fit.add(read(clocks, noise, random));
		if (fit.line(150 * ms))
			return clocks.host_ns - start;
		clocks.host_ns += g;
	}
	ADD_FAILURE() << "no line within 3 s";
	return 0;
}

} // namespace

TEST(clock_fit, exact_readings_make_an_exact_line)
{
	for (const double drift : {0.0, 50.0, -50.0, 500.0, -500.0, 9000.0, -9000.0})
		for (const std::int64_t nic : {std::int64_t{0}, std::int64_t{37000000000},
					       std::int64_t{1} << 62,
					       std::numeric_limits<std::int64_t>::max() - 100000000000}) {
			const Score s = run(Clocks(nic, drift), {}, 40, 50, 1, 2);

			EXPECT_LE(s.worst_ns, 10) << drift << " " << nic;
			EXPECT_EQ(s.beyond_bound, 0) << drift << " " << nic;
			EXPECT_LE(s.loosest_ns, 200U) << drift << " " << nic;
		}
}

TEST(clock_fit, below_50_ns_within_a_second_of_the_start)
{
	for (const double drift : {50.0, -50.0}) {
		Clocks clocks(5000000000, drift);
		std::mt19937_64 random(2);
		ClockFit fit;
		Score s;

		EXPECT_LE(settle(fit, clocks, {}, random), 20 * ms);
		for (const std::int64_t g : {20 * ms, 40 * ms, 80 * ms, 160 * ms, gap, gap, gap, gap}) {
			judge(s, clocks, *fit.line(validity), 0, validity - 1, 200, random);
			clocks.host_ns += g;
			EXPECT_EQ(fit.add(read(clocks, {}, random)), ClockFit::Verdict::taken);
		}
		EXPECT_LT(s.worst_ns, 50);
		EXPECT_EQ(s.beyond_bound, 0);
	}
}

TEST(clock_fit, the_bound_holds_with_noisy_readings)
{
	Score sum;

	for (unsigned seed = 0; seed < 40; seed++) {
		const double drift = (seed % 2 ? -1 : 1) * (seed % 4 < 2 ? 50.0 : 500.0);
		const std::int64_t nic = seed % 3 ? std::int64_t{1} << 62 : 12345;
		// From a quick symmetric read to a slow one that is all on one side.
		const ReadingNoise noise = {400 + 40 * seed, 20 + 10 * seed, 0.1 * (seed % 11), 10};
		const Score s = run(Clocks(nic, drift), noise, 108, 30, seed);

		sum.conversions += s.conversions;
		sum.beyond_bound += s.beyond_bound;
		// Loose bounds would be easy.
		EXPECT_LT(s.loosest_ns, noise.base_ns * 5 + 2000) << seed;
	}
	EXPECT_GE(sum.conversions, 100000);
	EXPECT_LE(sum.beyond_bound, sum.conversions / 1000);
}

TEST(clock_fit, one_sample_a_reading_with_a_heavy_tail)
{
	Score sum;

	for (unsigned seed = 0; seed < 20; seed++) {
		std::mt19937_64 random(seed);
		Clocks clocks(77, seed % 2 ? 50 : -500);
		const ReadingNoise noise = {800, 300, 0.5, 1};
		ClockFit fit;

		for (int i = 0; i < 400; i++) {
			for (int again = 0; again < 4; again++)
				if (fit.add(read(clocks, noise, random)) != ClockFit::Verdict::suspect)
					break;
			if (const auto line = fit.line(validity); i > 8 && line)
				judge(sum, clocks, *line, 0, gap, 15, random);
			clocks.host_ns += gap;
		}
	}
	EXPECT_GE(sum.conversions, 100000);
	EXPECT_LE(sum.beyond_bound, sum.conversions / 1000);
}

TEST(clock_fit, wide_readings_are_left_out)
{
	Clocks clocks(0, 50);
	std::mt19937_64 random(3);
	ClockFit fit;

	for (int i = 0; i < 20; i++, clocks.host_ns += gap)
		fit.add(read(clocks, {1000, 0, 0.5, 1}, random));
	const auto before = fit.line(validity);

	EXPECT_EQ(fit.add(read(clocks, {40000, 0, 0.99, 1}, random)), ClockFit::Verdict::wide);
	EXPECT_EQ(fit.line(validity)->nic_ns, before->nic_ns);
	// But if all are wide now, that is how it is.
	int taken = 0;

	for (int i = 0; i < 20; i++) {
		clocks.host_ns += gap;
		taken += fit.add(read(clocks, {40000, 0, 0.5, 1}, random)) == ClockFit::Verdict::taken;
	}
	EXPECT_GE(taken, 10);
}

TEST(clock_fit, a_step_restarts_it_at_once)
{
	for (const std::int64_t step :
	     {std::int64_t{1000}, std::int64_t{-1000}, 20 * ms, -20 * ms, 3600000 * ms, -3600000 * ms,
	      std::int64_t{1} << 60}) {
		Clocks clocks(std::int64_t{1} << 61, 50);
		const ReadingNoise noise = {200, 0, 0.5, 1};
		std::mt19937_64 random(4);
		ClockFit fit;

		for (int i = 0; i < 20; i++, clocks.host_ns += gap)
			EXPECT_EQ(fit.add(read(clocks, noise, random)), ClockFit::Verdict::taken);
		clocks.step(step);
		EXPECT_EQ(fit.add(read(clocks, noise, random)), ClockFit::Verdict::suspect) << step;
		EXPECT_EQ(fit.add(read(clocks, noise, random)), ClockFit::Verdict::restarted) << step;
		EXPECT_FALSE(fit.line(150 * ms));
		EXPECT_NEAR(fit.last_step_ns(), -static_cast<double>(step),
			    300 + 1e-4 * std::abs(static_cast<double>(step)));

		clocks.host_ns += 10 * ms;
		EXPECT_EQ(fit.add(read(clocks, noise, random)), ClockFit::Verdict::taken);
		const auto line = fit.line(150 * ms);
		Score s;

		ASSERT_TRUE(line) << step;
		judge(s, clocks, *line, 0, 149 * ms, 200, random);
		EXPECT_EQ(s.beyond_bound, 0) << step;
	}
}

TEST(clock_fit, one_reading_that_is_wrong_changes_nothing)
{
	Clocks clocks(0, -500);
	const ReadingNoise noise = {200, 0, 0.5, 1};
	std::mt19937_64 random(5);
	ClockFit fit;

	for (int i = 0; i < 20; i++, clocks.host_ns += gap)
		fit.add(read(clocks, noise, random));

	// A torn read of a counter in two halves.
	ClockReading torn = read(clocks, noise, random);

	torn.nic_ns += std::int64_t{1} << 32;
	EXPECT_EQ(fit.add(torn), ClockFit::Verdict::suspect);
	EXPECT_EQ(fit.add(read(clocks, noise, random)), ClockFit::Verdict::taken);
	EXPECT_EQ(fit.count(), ClockFit::window_readings);
}

TEST(clock_fit, slews_are_followed)
{
	// A servo's corrections, and what a lock looks like, against readings 1 us wide.
	for (const double to : {50.05, 51.0, 60.0, -50.0, 550.0}) {
		Clocks clocks(1000, 50);
		const ReadingNoise noise = {1000, 0, 0.5, 1};
		std::mt19937_64 random(6);
		ClockFit fit;
		Score s;

		for (int i = 0; i < 20; i++, clocks.host_ns += gap)
			fit.add(read(clocks, noise, random));
		clocks.slew(to);
		for (int i = 0; i < 40; i++) {
			clocks.host_ns += i < 2 ? 10 * ms : gap;
			for (int again = 0; again < 4; again++)
				if (fit.add(read(clocks, noise, random)) != ClockFit::Verdict::suspect)
					break;
			const auto line = fit.line(validity);

			if (line && i > 3)
				judge(s, clocks, *line, 0, gap, 100, random);
		}
		EXPECT_EQ(s.beyond_bound, 0) << to << ", worst " << s.worst_ns;
		EXPECT_GE(s.conversions, 3400) << to;
		EXPECT_NEAR(fit.line(validity)->drift_ppm(), to, 0.2);
	}
}

TEST(clock_fit, a_steered_clock_does_not_restart_it_for_ever)
{
	Clocks clocks(1000, 0);
	std::mt19937_64 random(7);
	std::normal_distribution<double> servo(0, 2);
	ClockFit fit;
	Score s;
	int restarts = 0;

	// A servo that is far from calm, every second; exact readings.
	for (int i = 0; i < 400; i++, clocks.host_ns += gap) {
		if (i % 4 == 0)
			clocks.slew(servo(random));
		for (int again = 0; again < 4; again++) {
			const auto verdict = fit.add(read(clocks, {}, random));

			restarts += verdict == ClockFit::Verdict::restarted;
			if (verdict != ClockFit::Verdict::suspect)
				break;
		}
		// Until it is steered again, nobody can know better.
		if (const auto line = fit.line(validity); line && i > 8)
			judge(s, clocks, *line, 0, gap, 20, random);
	}
	EXPECT_LE(restarts, 60);
	EXPECT_LE(s.beyond_bound, s.conversions / 50);
}

TEST(clock_fit, what_is_no_clock_makes_no_line)
{
	ClockFit fit;
	std::mt19937_64 random(8);

	EXPECT_EQ(fit.add({-1, 5, 0}), ClockFit::Verdict::invalid);
	EXPECT_EQ(fit.add({5, -1, 0}), ClockFit::Verdict::invalid);
	EXPECT_EQ(fit.add({5, 5, -1}), ClockFit::Verdict::invalid);
	EXPECT_FALSE(fit.line(validity));

	// Stands still, at double speed, random.
	for (int kind = 0; kind < 3; kind++) {
		fit.restart();
		for (std::int64_t i = 0; i < 200; i++) {
			const std::int64_t host = 1000000 * ms + i * gap;
			const std::int64_t nic = kind == 0 ? 42 :
						 kind == 1 ? 2 * host :
							     static_cast<std::int64_t>(random() >> 1);

			fit.add({nic, host, 100});
			EXPECT_FALSE(fit.line(validity)) << kind << " " << i;
		}
	}
}

TEST(clock_fit, too_loose_a_line_is_none)
{
	Clocks clocks(0, 50);
	std::mt19937_64 random(9);
	ClockFit fit;

	for (int i = 0; i < 20; i++, clocks.host_ns += gap)
		fit.add(read(clocks, {4 * ms, 0, 0.5, 1}, random));
	EXPECT_FALSE(fit.line(validity));
}

TEST(clock_fit, the_reference_is_never_in_the_future)
{
	std::mt19937_64 random(10);
	std::uniform_real_distribution<double> anywhere(0, 1);

	for (int round = 0; round < 50; round++) {
		Clocks clocks(round % 2 ? 0 : 5000000000, 500);
		ClockFit fit;

		for (int i = 0; i < 16; i++, clocks.host_ns += gap)
			fit.add(read(clocks, {20000, 0, anywhere(random), 1}, random));
		// The others may put this one's moment later than it was.
		fit.add(read(clocks, {}, random));
		const auto line = fit.line(validity);

		ASSERT_TRUE(line);
		EXPECT_LE(line->host_ns, static_cast<std::uint64_t>(clocks.host_ns));
	}
}

TEST(clock_fit, the_first_lines_have_bounds_that_hold_too)
{
	Score s;

	for (unsigned seed = 0; seed < 200; seed++) {
		std::mt19937_64 random(seed);
		std::uniform_real_distribution<double> anywhere(0, 1);
		Clocks clocks(1000, seed % 2 ? 50 : -50);
		ClockFit fit;

		for (std::int64_t g = 10 * ms; g < gap; clocks.host_ns += g, g *= 2) {
			fit.add(read(clocks, {1000, 100, anywhere(random), 10}, random));
			if (const auto line = fit.line(150 * ms))
				judge(s, clocks, *line, 0, 149 * ms, 100, random);
		}
	}
	EXPECT_GE(s.conversions, 70000);
	EXPECT_LE(s.beyond_bound, s.conversions / 1000);
}

TEST(clock_fit, a_clock_that_turns_to_noise_loses_its_line)
{
	Clocks clocks(0, 50);
	std::mt19937_64 random(12);
	ClockFit fit;

	for (int i = 0; i < 20; i++, clocks.host_ns += gap)
		fit.add(read(clocks, {}, random));
	ASSERT_TRUE(fit.line(validity));
	for (int i = 0; i < 4; i++)
		fit.add({static_cast<std::int64_t>(random() >> 1), clocks.host_ns, 0});
	EXPECT_FALSE(fit.line(validity));
}

TEST(clock_fit, the_same_moment_again_says_nothing)
{
	Clocks clocks(0, 50);
	std::mt19937_64 random(13);
	ClockFit fit;

	for (int i = 0; i < 5; i++, clocks.host_ns += gap)
		fit.add(read(clocks, {}, random));
	const ClockReading r = read(clocks, {}, random);

	for (int i = 0; i < 100; i++)
		EXPECT_EQ(fit.add(r), ClockFit::Verdict::taken);
	EXPECT_EQ(fit.count(), 6U);
}

TEST(clock_fit, any_reading_at_all_is_survived)
{
	std::mt19937_64 random(11);

	for (int round = 0; round < 300; round++) {
		ClockFit fit;

		for (int i = 0; i < 60; i++) {
			// All magnitudes alike.
			const auto any = [&] { return static_cast<std::int64_t>(random() >> (1 + random() % 63)); };

			fit.add({any(), any(), any()});
			if (const auto line = fit.line(any())) {
				EXPECT_LE(line->error_ns, 1000000U);
				EXPECT_NEAR(line->drift_ppm(), 0, 10001);
			}
		}
	}
}
