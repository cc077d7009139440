// SPDX-License-Identifier: MIT
#include "policy_guard.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <utility>

#include "text.h"

namespace swift {

namespace {

// Of the trials of a policy whose harm is just its bound: the share of the first that puts it back, 0.3 of 100. The
// n-th has 1/n^2 of that, all of them half of one. As errors are estimated too, of a few fours, it is more:
// policy_guard_test.cpp counts.
constexpr double most_wrong = 0.003;
// A four that is so many times better or worse counts as no more: demand that comes and goes.
constexpr double most_ratio = 4;
// As the tuner's: a fall like this, of flows that the fabric window holds back, in so many pairs in a row.
constexpr double collapse_below = 0.7;
constexpr double collapse_noise = 4;
constexpr double least_collapse_below = 0.1;
constexpr unsigned collapse_pairs = 3;
constexpr double most_noise = 0.5;
constexpr double noise_weight = 0.2; // of a turn
constexpr double min_limited = 0.5;
constexpr double suspicious = 2; // times the bounds
constexpr double suspicious_noise = 4;

// Nine of ten policies that do no harm are acquitted by the time that a trial may take.
constexpr double enough_power = 1.28; // quantile of the normal distribution

// The quantile of the normal distribution that is exceeded with probability @p, to 0.1.
double normal_quantile(double p)
{
	const double l = 2 * std::log(1 / p);

	return std::sqrt(std::max(l - std::log(l) - std::log(2 * std::numbers::pi), 0.0));
}

// How far beyond a bar a mean with @error has to be, to count. The bound is that of a Brownian motion over all of the
// time that a trial may take (O'Brien and Fleming's), which ends at @last_error: few pass it early, and a mean that is
// just at the bar passes it wrongly with the probability that is @z's, however often it is asked.
double beyond_bar(double error, double last_error, double z)
{
	return error > last_error ? z * error * error / last_error : z * error;
}

std::string percent(double share)
{
	return fmt::format("{:+.1f} %", 100 * share);
}

// The log of a ratio, as a share.
double share(double log_ratio)
{
	return std::exp(log_ratio) - 1;
}

double bounded_log(double ratio)
{
	return std::clamp(std::log(ratio), -std::log(most_ratio), std::log(most_ratio));
}

bool busy(const TuneObservation &seen)
{
	return seen.flows && seen.rate_bps > 0;
}

bool alike(double a, double b)
{
	return comparable(static_cast<unsigned>(std::lround(a)), static_cast<unsigned>(std::lround(b)));
}

} // namespace

std::string_view guard_state_text(GuardState s)
{
	static constexpr std::array<std::string_view, 3> names = {"trying", "watching", "ended"};

	return names[static_cast<std::size_t>(s)];
}

Guard::Guard(const GuardOptions &options, std::vector<std::string> scopes, bool acquitted)
	: options_(options), state_(acquitted ? GuardState::watching : GuardState::trying),
	  looks_(scopes.size())
{
	for (std::string &name : scopes) {
		Scope scope;

		scope.name = std::move(name);
		scopes_.push_back(std::move(scope));
	}
}

// In standard errors; the more trials there were, and the more is asked in each, the surer it has to be.
double Guard::z() const
{
	const double n = std::max(1U, trials_);

	return normal_quantile(most_wrong / (n * n) /
			       (2.0 * static_cast<double>(std::max<std::size_t>(1, scopes_.size()))));
}

void Guard::put_old(bool old, GuardStep &step)
{
	for (auto &looks : looks_)
		looks.clear();
	if (old == old_)
		return;
	old_ = old;
	to_settle_ = options_.settle;
	step.old = old;
}

void Guard::begin_turn(std::size_t turn, GuardStep &step)
{
	put_old(turn == 1 || turn == 2, step);
}

void Guard::begin_trial(GuardStep &step)
{
	state_ = GuardState::trying;
	begun_ = true;
	trials_++;
	fours_ = 0;
	idle_ = 0;
	for (Scope &s : scopes_) {
		s.rate = s.tail = {};
		s.turns.clear();
		s.collapsed = 0;
		s.usual = {};
		s.usual_turns = 0;
		s.window.clear();
	}
	begin_turn(0, step);
}

GuardStep Guard::observe(std::span<const TuneObservation> seen)
{
	GuardStep step;

	if (state_ == GuardState::ended || seen.size() != scopes_.size() || seen.empty() ||
	    seen[0].length_s <= 0)
		return step;
	if (state_ == GuardState::watching) {
		watch(seen, step);
		return step;
	}
	if (!begun_) {
		begin_trial(step);
		to_settle_ = options_.settle; // the policy has just been set
	}
	judge(seen, step);
	return step;
}

GuardStep Guard::cannot_look()
{
	GuardStep step;

	for (Scope &s : scopes_) {
		s.turns.clear();
		s.collapsed = 0;
	}
	put_old(false, step);
	return step;
}

void Guard::judge(std::span<const TuneObservation> seen, GuardStep &step)
{
	if (to_settle_) {
		to_settle_--;
		return;
	}
	// A turn is whole, or is begun again; with nothing to judge by the policy's targets are in force.
	if (std::none_of(seen.begin(), seen.end(), busy)) {
		for (auto &looks : looks_)
			looks.clear();
		if (++idle_ >= options_.settle + options_.measure) {
			for (Scope &s : scopes_) {
				s.turns.clear();
				s.collapsed = 0;
			}
			begin_turn(0, step);
		}
		return;
	}
	idle_ = 0;
	for (std::size_t i = 0; i < seen.size(); i++)
		looks_[i].push_back(seen[i]);
	if (looks_[0].size() < options_.measure)
		return;

	for (std::size_t i = 0; i < scopes_.size(); i++) {
		Turn turn;
		double length_s = 0;

		for (const TuneObservation &o : looks_[i]) {
			length_s += o.length_s;
			turn.rate_bps += o.rate_bps * o.length_s;
			turn.p99_ns += o.rtt_p99_ns * o.length_s;
			turn.flows += o.flows * o.length_s;
			turn.limited += o.fabric_limited * o.length_s;
			turn.looks += busy(o);
		}
		turn.rate_bps /= length_s;
		turn.p99_ns /= length_s;
		turn.flows /= length_s;
		turn.limited /= length_s;
		if (scopes_[i].turns.size() == 2) // old, old
			note_noise(scopes_[i].turns[1], turn);
		scopes_[i].turns.push_back(turn);
		if (collapsed(scopes_[i])) {
			state_ = GuardState::ended;
			step.put_back = true;
			step.reason = fmt::format(
				"{}: throughput fell to less than {:.0f} % of that with the targets of before",
				scopes_[i].name, 100 * collapse_bar());
			old_ = true;
			return;
		}
	}
	if (scopes_[0].turns.size() < 4) {
		begin_turn(scopes_[0].turns.size(), step);
		return;
	}
	for (Scope &s : scopes_)
		take_four(s);
	fours_++;
	verdict(step);
	if (state_ == GuardState::trying)
		begin_turn(0, step);
}

// Of two turns with the same targets, one after the other: what pairs differ by, if the targets do nothing.
void Guard::note_noise(const Turn &before, const Turn &after)
{
	if (!before.looks || !after.looks || !alike(before.flows, after.flows) || before.rate_bps <= 0)
		return;
	const double off = std::min(std::abs(after.rate_bps / before.rate_bps - 1), most_noise);

	noise_ = std::sqrt(noise_ * noise_ + noise_weight * (off * off - noise_ * noise_));
}

// Of throughput with the old targets: less is no noise.
double Guard::collapse_bar() const
{
	return std::clamp(1 - collapse_noise * noise_, least_collapse_below, collapse_below);
}

// Of the turns new old | old new: a pair at a time.
bool Guard::collapsed(Scope &s)
{
	if (s.turns.size() % 2)
		return false;
	const Turn &first = s.turns[s.turns.size() - 2], &second = s.turns.back();
	const bool old_first = s.turns.size() == 4;
	const Turn &was = old_first ? first : second, &is = old_first ? second : first;
	const bool fell = is.flows >= 1 && was.flows >= 1 && alike(is.flows, was.flows) &&
			  is.limited >= min_limited && is.rate_bps < collapse_bar() * was.rate_bps;

	s.collapsed = fell ? s.collapsed + 1 : 0;
	return s.collapsed >= collapse_pairs;
}

void Guard::take_four(Scope &s)
{
	const auto &t = s.turns;
	const auto [fewest, most] = std::minmax_element(t.begin(), t.end(), [](const Turn &a, const Turn &b) {
		return a.flows < b.flows;
	});
	const bool whole = std::all_of(t.begin(), t.end(), [](const Turn &x) { return x.looks > 0; });

	if (whole && alike(fewest->flows, most->flows)) {
		s.rate.add(bounded_log((t[0].rate_bps + t[3].rate_bps) / (t[1].rate_bps + t[2].rate_bps)));
		if (std::all_of(t.begin(), t.end(), [](const Turn &x) { return x.p99_ns > 0; }))
			s.tail.add(bounded_log((t[0].p99_ns + t[3].p99_ns) / (t[1].p99_ns + t[2].p99_ns)));
		for (const Turn *n : {&t[0], &t[3]}) {
			s.usual.rate_bps += n->rate_bps;
			s.usual.p99_ns += n->p99_ns;
			s.usual.flows += n->flows;
			s.usual_turns++;
		}
	}
	s.turns.clear();
}

/*
 * Of each scope, and of throughput and tail: is harm beyond its bound shown? Else: is it ruled out of all? The
 * time that a test may take is as long as it takes to find out with enough_power.
 */
void Guard::verdict(GuardStep &step)
{
	const double sure = z();
	bool all_ruled_out = true;

	for (const Scope &s : scopes_) {
		struct {
			const Moments &of;
			double sign, bar, allowed;
			std::string_view what, allows;
		} const tests[] = {
			{s.rate, -1, -std::log(1 - options_.throughput), options_.throughput, "throughput",
			 "less"},
			{s.tail, +1, std::log(1 + options_.tail), options_.tail, "the p99 RTT", "more"},
		};

		for (const auto &test : tests) {
			// A scope that has no traffic holds up nobody for ever.
			if (test.of.count() < options_.min_fours) {
				all_ruled_out &= fours_ >= 3 * options_.min_fours;
				continue;
			}
			const double harm = test.sign * test.of.mean();
			const double error = test.of.error(sure);
			const double last_error = test.bar / (sure + enough_power);
			const double beyond = beyond_bar(error, last_error, sure);

			if (harm - test.bar >= beyond) {
				state_ = GuardState::ended;
				old_ = true;
				step.put_back = true;
				step.reason = fmt::format(
					"{}: {} {} (standard error {:.1f} %, n={}), and {:.0f} % {} is allowed",
					s.name, test.what, percent(share(test.of.mean())), 100 * error,
					test.of.count(), 100 * test.allowed, test.allows);
				return;
			}
			all_ruled_out &= test.bar - harm >= beyond || error <= last_error;
		}
	}
	if (fours_ < options_.min_fours || (!all_ruled_out && fours_ < options_.max_fours))
		return;
	step.acquitted = true;
	step.reason =
		(all_ruled_out ? "the policy stays: " : "the policy stays, as no harm was shown: ") + text();
	state_ = GuardState::watching;
	rest_s_ = options_.rest_s;
	for (Scope &s : scopes_)
		if (s.usual_turns) {
			s.usual.rate_bps /= s.usual_turns;
			s.usual.p99_ns /= s.usual_turns;
			s.usual.flows /= s.usual_turns;
		}
	put_old(false, step);
}

std::string Guard::text() const
{
	std::string all;

	for (const Scope &s : scopes_) {
		if (s.rate.count() < 2)
			continue;
		all += fmt::format("{}{}: throughput {} (standard error {:.1f} %)", all.empty() ? "" : "; ",
				   s.name, percent(share(s.rate.mean())), 100 * s.rate.error(z()));
		if (s.tail.count() >= 2)
			all += fmt::format(", p99 RTT {} (standard error {:.1f} %)",
					   percent(share(s.tail.mean())), 100 * s.tail.error(z()));
	}
	return all.empty() ? "nothing to judge it by yet" :
			     fmt::format("{}, n={} fours of turns", all, fours_);
}

void Guard::watch(std::span<const TuneObservation> seen, GuardStep &step)
{
	std::string why;

	if (to_settle_) {
		to_settle_--;
		return;
	}
	rest_s_ = std::max(0.0, rest_s_ - seen[0].length_s);
	for (std::size_t i = 0; i < scopes_.size(); i++)
		if (std::string found = suspicion(scopes_[i], seen[i]); why.empty())
			why = std::move(found);
	if (why.empty() || rest_s_ > 0)
		return;
	begin_trial(step);
	step.reason = "another trial: " + why;
}

// "" if there is none.
std::string Guard::suspicion(Scope &s, const TuneObservation &seen)
{
	if (!busy(seen)) {
		s.window.clear();
		return "";
	}
	s.window.push_back(seen);
	if (s.window.size() > options_.window)
		s.window.pop_front();
	if (s.window.size() < options_.window)
		return "";

	Turn now;
	const double n = static_cast<double>(s.window.size());

	for (const TuneObservation &o : s.window) {
		now.rate_bps += o.rate_bps / n;
		now.p99_ns += o.rtt_p99_ns / n;
		now.flows += o.flows / n;
		now.limited += o.fabric_limited / n;
	}
	// Other traffic, or the first that there is.
	if (!s.usual_turns || !alike(now.flows, s.usual.flows)) {
		s.usual = now;
		s.usual_turns = 1;
		s.window.clear();
		return "";
	}
	// A look's noise is that of a pair of turns, times the root of half a turn's looks.
	const double noise = noise_ * std::sqrt(options_.measure / 2.0 / options_.window);
	const double fall =
		std::min(std::max(suspicious * options_.throughput, suspicious_noise * noise), 0.9);

	if (now.limited >= min_limited && now.rate_bps < (1 - fall) * s.usual.rate_bps)
		return fmt::format("{}: throughput {} of what it was", s.name,
				   percent(now.rate_bps / s.usual.rate_bps - 1));
	if (s.usual.p99_ns > 0 && now.p99_ns > (1 + suspicious * options_.tail) * s.usual.p99_ns)
		return fmt::format("{}: the p99 RTT {} of what it was", s.name,
				   percent(now.p99_ns / s.usual.p99_ns - 1));
	return "";
}

} // namespace swift
