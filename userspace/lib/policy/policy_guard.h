// SPDX-License-Identifier: MIT
// Whether a policy does harm. Demand changes by itself, so that its targets are not compared with yesterday's
// throughput but, in turns, with the targets that were there before:
//
//	new old old new, new old old new, ...
//
// in a trial, with errors as the tuner has them (turns.h), until harm of more than its bounds is shown, and the
// old targets come back, or is ruled out, and the new ones stay. From then on it watches: what falls short of what
// the trial saw by twice the bounds is reason for another trial, after a rest, and never for more.
//
// Pure: it reads no clock, and touches no host.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "policy.h"
#include "tuner.h"
#include "turns.h"

namespace swift {

struct GuardOptions {
	double throughput = 0.05; // share that may be lost
	double tail = 0.3; // share by which the p99 RTT may grow
	unsigned settle = 1; // looks after a change that do not count
	unsigned measure = 3; // looks of a turn
	unsigned min_fours = 4; // of turns
	unsigned max_fours = 150; // what is not shown by then stays
	unsigned window = 10; // looks that make a suspicion
	double rest_s = 600; // from one trial to the next
};

enum class GuardState : std::uint8_t { trying, watching, ended };
[[nodiscard]] std::string_view guard_state_text(GuardState s);

struct GuardStep {
	std::optional<bool> old; // to be in force now: the targets of before, or the policy's
	bool put_back = false; // for good
	bool acquitted = false;
	std::string reason; // a line for the log, if there is news
};

class Guard
{
public:
	// @scopes: the names of what is observed apart. @acquitted: a trial has been, and it only watches.
	Guard(const GuardOptions &options, std::vector<std::string> scopes, bool acquitted);

	// Of each scope, in their order.
	GuardStep observe(std::span<const TuneObservation> seen);
	// Nothing could be seen: what is tried unwatched is the policy.
	GuardStep cannot_look();

	[[nodiscard]] GuardState state() const { return state_; }
	[[nodiscard]] bool old_in_force() const { return old_; }
	// "after 7 fours of turns: ...", for whoever wants to know how it stands.
	[[nodiscard]] std::string text() const;

private:
	struct Turn { // of one scope
		double rate_bps = 0;
		double p99_ns = 0;
		double flows = 0;
		double limited = 0;
		unsigned looks = 0; // with flows
	};
	struct Scope {
		std::string name;
		Moments rate; // log of new over old, of fours
		Moments tail;
		std::vector<Turn> turns; // of this four
		unsigned collapsed = 0; // pairs in a row
		// What the policy's targets have brought.
		Turn usual{};
		unsigned usual_turns = 0;
		std::deque<TuneObservation> window;
	};

	void begin_trial(GuardStep &step);
	void begin_turn(std::size_t turn, GuardStep &step);
	void judge(std::span<const TuneObservation> seen, GuardStep &step);
	void take_four(Scope &scope);
	[[nodiscard]] bool collapsed(Scope &scope);
	void verdict(GuardStep &step);
	void watch(std::span<const TuneObservation> seen, GuardStep &step);
	[[nodiscard]] std::string suspicion(Scope &scope, const TuneObservation &seen);
	void put_old(bool old, GuardStep &step);
	void note_noise(const Turn &before, const Turn &after);
	[[nodiscard]] double collapse_bar() const;
	[[nodiscard]] double z() const;

	GuardOptions options_;
	GuardState state_ = GuardState::trying;
	std::vector<Scope> scopes_;
	bool old_ = false;
	bool begun_ = false;
	unsigned trials_ = 0;
	unsigned fours_ = 0; // of this trial
	unsigned to_settle_ = 0;
	unsigned idle_ = 0;
	double rest_s_ = 0;
	double noise_ = 0.1; // of a pair of turns
	std::vector<std::vector<TuneObservation>> looks_; // of this turn
};

} // namespace swift
