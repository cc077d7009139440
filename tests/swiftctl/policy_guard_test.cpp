// SPDX-License-Identifier: MIT
// The guard against worlds in which what a policy does is known: how often it puts a harmless one back, and how
// soon a harmful one. The figures that Documentation/policy.md gives are printed and held here.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>

#include "policy_guard.h"

using namespace swift;

namespace {

// What flows of one scope do, a look after the other.
struct GuardedWorld {
	double loss = 0; // of throughput, with the policy's targets
	double tail = 0; // growth of the p99 RTT with them
	double noise = 0.1; // of a look's throughput, standard deviation
	double tail_noise = 0.15;
	double memory = 0; // of the noise, from look to look
	double limited = 1;
	std::function<double(unsigned)> demand = [](unsigned) { return 1.0; }; // of the number of the look
	std::function<unsigned(unsigned)> flows = [](unsigned) { return 40U; };
	unsigned harmless_until = 0; // the look at which the harm begins
};

struct GuardedRun {
	bool put_back = false;
	bool acquitted = false;
	unsigned looks = 0; // until either
	unsigned with_old = 0; // looks with the old targets, of all
	unsigned trials = 0;
	std::string reason;
};

GuardedRun run(const GuardedWorld &world, unsigned seed, unsigned limit, bool until_acquitted, bool acquitted = false,
	    std::size_t scopes = 1)
{
	std::vector<std::string> names;

	for (std::size_t i = 0; i < scopes; i++)
		names.push_back("scope " + std::to_string(i));
	Guard guard({}, names, acquitted);
	std::mt19937_64 random(seed);
	std::normal_distribution<double> gauss(0, 1);
	std::vector<double> rate_off(scopes), tail_off(scopes);
	GuardedRun out;
	bool old = false;
	GuardState before = acquitted ? GuardState::watching : GuardState::trying;

	out.trials = !acquitted;
	for (unsigned i = 0; i < limit; i++) {
		std::vector<TuneObservation> seen;
		const bool harmed = !old && i >= world.harmless_until;

		for (std::size_t s = 0; s < scopes; s++) {
			const double fresh = std::sqrt(1 - world.memory * world.memory);
			// The policy does harm to the first alone.
			const bool here = harmed && s == 0;

			rate_off[s] = world.memory * rate_off[s] + fresh * gauss(random);
			tail_off[s] = world.memory * tail_off[s] + fresh * gauss(random);
			seen.push_back(
				{1,
				 1e9 * world.demand(i) * (1 - here * world.loss) *
					 std::max(0.0, 1 + world.noise * rate_off[s]),
				 5e4 * (1 + here * world.tail) * std::exp(world.tail_noise * tail_off[s]),
				 world.flows(i), world.limited});
		}
		const GuardStep step = guard.observe(seen);

		out.with_old += old;
		if (step.old)
			old = *step.old;
		EXPECT_TRUE(step.put_back || old == guard.old_in_force());
		out.trials += guard.state() == GuardState::trying && before == GuardState::watching;
		before = guard.state();
		if (step.put_back || (step.acquitted && until_acquitted)) {
			out.put_back = step.put_back;
			out.acquitted |= step.acquitted;
			out.looks = i + 1;
			out.reason = step.reason;
			EXPECT_FALSE(step.reason.empty());
			return out;
		}
		out.acquitted |= step.acquitted;
	}
	out.looks = limit;
	return out;
}

// Of so many worlds that differ in their noise: how many were put back, and in how many looks 95 of 100 were.
struct Figures {
	unsigned put_back = 0;
	unsigned looks_95 = 0;
};

// A fifth of them, unless GUARD_ALL is set: as for the figures in the documentation.
unsigned some(unsigned worlds)
{
	return std::getenv("GUARD_ALL") ? worlds : worlds / 5;
}

Figures many(const char *name, const GuardedWorld &world, unsigned worlds, unsigned limit, bool until_acquitted,
	     std::size_t scopes = 1)
{
	std::vector<unsigned> looks;
	Figures f;

	worlds = some(worlds);
	for (unsigned seed = 1; seed <= worlds; seed++) {
		const GuardedRun o = run(world, seed, limit, until_acquitted, false, scopes);

		f.put_back += o.put_back;
		looks.push_back(o.looks);
	}
	std::sort(looks.begin(), looks.end());
	f.looks_95 = looks[looks.size() * 95 / 100];
	std::printf("%-40s %4u of %u put back, ended within %u looks in 95 of 100\n", name, f.put_back,
		    worlds, f.looks_95);
	return f;
}

// --- No harm, no alarm ---------------------------------------------------------------------------

TEST(PolicyGuard, AHarmlessPolicyStays)
{
	const auto square = [](unsigned i) { return i / 37 % 2 ? 1.0 : 0.3; };
	const auto rising = [](unsigned i) { return 1 + i / 1000.0; };
	const auto rare = [](unsigned i) { return i / 11 % 3 ? 0.001 : 1.0; };
	const struct {
		const char *name;
		GuardedWorld world;
	} worlds[] = {
		{"noise 10 %", {}},
		{"noise 30 %", {.noise = 0.3, .tail_noise = 0.4}},
		{"noise 20 % that lasts for seconds", {.noise = 0.2, .memory = 0.8}},
		{"demand in a square wave", {.demand = square}},
		{"demand that rises by 0.1 % a look", {.demand = rising}},
		{"demand that is there a third of the time", {.limited = 0.1, .demand = rare}},
		{"flows that come and go", {.flows = [](unsigned i) { return 20 + i * 7919 % 61; }}},
		{"better: 10 % more, p99 a third less", {.loss = -0.1, .tail = -0.33}},
	};

	for (const auto &[name, world] : worlds) {
		const Figures f = many(name, world, 300, 3000, false);

		EXPECT_LE(f.put_back, some(300) / 60) << name; // 1 of 60, and fewer for the most
	}
}

// Just the harm that is allowed: what the bound of the test is for.
TEST(PolicyGuard, WhatIsAllowedIsPutBackInOneOfAHundred)
{
	EXPECT_LE(many("5 % of throughput, which is allowed", {.loss = 0.05}, 400, 3000, true).put_back,
		  some(400) / 50);
	EXPECT_LE(many("30 % of the p99 RTT, which are allowed", {.tail = 0.3}, 400, 3000, true).put_back,
		  some(400) / 50);
	EXPECT_LE(many("of eight targets one costs 5 %", {.loss = 0.05}, 100, 3000, true, 8).put_back,
		  some(100) / 20);
}

TEST(PolicyGuard, ATrialOfAHarmlessPolicyEnds)
{
	EXPECT_LE(many("noise 5 %: acquitted", {.noise = 0.05, .tail_noise = 0.1}, 200, 3000, true).looks_95,
		  200U);
	EXPECT_LE(many("noise 10 %: acquitted", {}, 200, 3000, true).looks_95, 600U);
	EXPECT_LE(many("noise 30 %: acquitted", {.noise = 0.3, .tail_noise = 0.4}, 200, 4000, true).looks_95,
		  2500U);
}

// --- Harm, soon ------------------------------------------------------------------------------------

TEST(PolicyGuard, HarmIsPutBackSoon)
{
	const struct {
		const char *name;
		GuardedWorld world;
		unsigned within;
		unsigned of_200;
	} worlds[] = {
		{"10 % less", {.loss = 0.10}, 600, 170}, // twice the bound: nine of ten
		{"20 % less", {.loss = 0.20}, 200, 198},
		{"50 % less", {.loss = 0.50}, 60, 200},
		{"90 % less", {.loss = 0.90}, 25, 200},
		{"p99 60 % longer", {.tail = 0.6}, 200, 198},
		{"p99 twice as long", {.tail = 1.0}, 120, 198},
		{"20 % less, in a square wave",
		 {.loss = 0.2, .demand = [](unsigned i) { return i / 37 % 2 ? 1.0 : 0.3; }},
		 2400,
		 195},
		{"20 % less, noise 30 %", {.loss = 0.2, .noise = 0.3}, 1500, 195},
	};

	for (const auto &[name, world, within, of_200] : worlds) {
		const Figures f = many(name, world, 200, 4000, true);

		EXPECT_GE(f.put_back, some(of_200)) << name;
		EXPECT_LE(f.looks_95, within) << name;
	}
	EXPECT_GE(many("of eight targets one costs 20 %", {.loss = 0.2}, 100, 3000, true, 8).put_back,
		  some(95));
}

// A path that becomes longer than its new target, hours after the policy was acquitted.
TEST(PolicyGuard, HarmThatBeginsLaterIsPutBackAsWell)
{
	unsigned put_back = 0;
	std::vector<unsigned> looks;

	for (unsigned seed = 1; seed <= some(100); seed++) {
		const GuardedRun o = run({.loss = 0.6, .harmless_until = 3000}, seed, 4000, false);

		EXPECT_TRUE(o.acquitted) << seed;
		put_back += o.put_back;
		looks.push_back(o.looks - 3000);
	}
	std::sort(looks.begin(), looks.end());
	std::printf("60 %% less from look 3000 on: %u of %u, within %u looks in 95 of 100\n", put_back,
		    some(100), looks[looks.size() * 95 / 100]);
	EXPECT_GE(put_back, some(99));
	EXPECT_LE(looks[looks.size() * 95 / 100], 200U);
}

// --- Hysteresis --------------------------------------------------------------------------------------

TEST(PolicyGuard, DemandThatFallsCostsATrialAndNoMore)
{
	const GuardedWorld world = {.demand = [](unsigned i) { return i < 2000 ? 1.0 : 0.5; }};
	const GuardedRun o = run(world, 7, 6000, false);

	EXPECT_TRUE(o.acquitted);
	EXPECT_FALSE(o.put_back);
	EXPECT_EQ(o.trials, 2U); // the first, and one for the fall: from then on it is what is usual
}

TEST(PolicyGuard, ItRestsBetweenTrials)
{
	// All other minute half the demand, for ever: suspicious each time.
	const GuardedWorld world = {.demand = [](unsigned i) { return i / 60 % 2 ? 1.0 : 0.5; }};
	const GuardedRun o = run(world, 3, 12'000, false);

	EXPECT_FALSE(o.put_back);
	EXPECT_GT(o.trials, 1U);
	EXPECT_LE(o.trials, 1 + 12'000U / 600);
}

TEST(PolicyGuard, OnceAcquittedItBeginsByWatching)
{
	const GuardedRun o = run({}, 5, 500, false, true);

	EXPECT_EQ(o.with_old, 0U);
	EXPECT_EQ(o.trials, 0U);
	EXPECT_TRUE(run({.loss = 0.5, .harmless_until = 100}, 5, 500, false, true).put_back);
}

// --- Nothing to judge by -----------------------------------------------------------------------------

TEST(PolicyGuard, WithoutTrafficThePolicyIsInForce)
{
	const GuardedRun o = run({.flows = [](unsigned) { return 0U; }}, 1, 1000, false);

	EXPECT_FALSE(o.put_back);
	EXPECT_FALSE(o.acquitted);
	EXPECT_EQ(o.with_old, 0U);

	// Traffic that ends in a turn of the old ones: not for long.
	const GuardedRun ends = run({.flows = [](unsigned i) { return i < 7 ? 40U : 0U; }}, 1, 1000, false);

	EXPECT_GT(ends.with_old, 0U);
	EXPECT_LT(ends.with_old, 12U);
}

TEST(PolicyGuard, UnwatchedThePolicyIsInForce)
{
	Guard guard({}, {"all"}, false);
	const std::vector<TuneObservation> seen = {{1, 1e9, 5e4, 10, 1}};

	for (int i = 0; i < 100 && !guard.old_in_force(); i++)
		(void)guard.observe(seen);
	ASSERT_TRUE(guard.old_in_force());
	EXPECT_EQ(guard.cannot_look().old, false);
	EXPECT_FALSE(guard.old_in_force());
	EXPECT_FALSE(guard.cannot_look().old);
}

TEST(PolicyGuard, AScopeWithoutTrafficHoldsUpNobody)
{
	Guard guard({}, {"busy", "idle"}, false);
	bool acquitted = false;

	for (int i = 0; i < 400 && !acquitted; i++)
		acquitted = guard.observe(std::vector<TuneObservation>{{1, 1e9, 5e4, 10, 1}, {1, 0, 0, 0, 0}})
				    .acquitted;
	EXPECT_TRUE(acquitted);
}

TEST(PolicyGuard, TheOrderIsNewOldOldNew)
{
	Guard guard({}, {"all"}, false);
	std::string order;
	const std::vector<TuneObservation> seen = {{1, 1e9, 5e4, 10, 1}};

	for (int i = 0; i < 16; i++) {
		order += guard.old_in_force() ? 'o' : 'n';
		(void)guard.observe(seen);
	}
	EXPECT_EQ(order, "nnnnooooooonnnnn");
}

} // namespace
