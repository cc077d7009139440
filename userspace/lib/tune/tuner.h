// SPDX-License-Identifier: MIT
// Which base target a path needs: found by trying. A smaller target means shorter queues
// until the link runs dry; the tuner walks, in steps, to the smallest target that costs no
// throughput, and back when it does. Demand changes by itself, so that a new value is
// never compared with yesterday's throughput but, in turns, with the old value's:
//
//	old new new old   new old old new   old new new old ...
//
// Which of the two orders, chance decides. old is a value that is known to lose nothing, at least twice the new one if such a one was seen, so
// that losses of several steps do not add up unseen. How long it compares the noise tells: a smaller
// target stays if a loss of more than the tolerance is ruled out, a larger one if it is shown to
// bring something, by a sequential test, which allows for being asked again and again (tuner.cpp). What cannot
// be told from noise stays as it was.
//
// A path that became longer than its target starves: no window grows, and every step compares
// as "no difference". So throughput that falls away while the target stays is answered by
// doubling the target, until it is back or nothing helps. It stays if without it throughput falls again.
//
// Hosts that share a link would take from each other by larger targets: beyond twice the proposal
// (twice the first value, if there is none) only that rescue goes, and that waits for longer than
// another tuner's turns.
//
// Pure: fed with observations, it says what to set and why. It reads no clock, touches no
// host. What a path's length says of its target is path_model.h's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "result.h"
#include "turns.h"

namespace swift {

// What one interval brought, of all flows that the target is for.
struct TuneObservation {
	double length_s = 0;
	double rate_bps = 0; // acknowledged by the receivers
	double rtt_p99_ns = 0; // told in the reasons; decides nothing
	unsigned flows = 0;
	// Of them, those that have data to send and are held back by fcwnd, 0 to 1: the
	// throughput of the others says nothing of the target.
	double fabric_limited = 0;
};

struct TuneOptions {
	std::uint32_t min_ns = 5'000;
	std::uint32_t max_ns = 1'000'000;
	double tolerance = 0.01; // throughput that may be lost, in all; 0.001 to 0.2
	double step = 2; // ratio of the first steps; later ones are smaller
	double last_step = 1.06; // no smaller ones
	unsigned settle = 1; // observations after a change that do not count
	unsigned measure = 3; // observations of a turn
	unsigned min_pairs = 6; // turns of old and new each
	unsigned max_pairs = 20'000; // what is not shown by then is not kept
	double hold_s = 600; // until it looks again
	double min_limited = 0.5; // of the flows, for an observation to count
	std::uint64_t seed = 0; // of the turns' order: another one on each host

	// An Error names the first that is out of its range.
	[[nodiscard]] Result<void> check() const;
};

enum class TuneState : std::uint8_t { waiting, trying, holding, rescuing };
[[nodiscard]] std::string_view tune_state_text(TuneState s);

// How the new value did beside the old one.
struct TuneComparison {
	unsigned pairs = 0;
	double gain = 0; // of throughput, mean of the pairs; -0.02 = 2 % less
	double error = 0; // its standard error, for as few as they are
	double old_rtt_p99_ns = 0;
	double new_rtt_p99_ns = 0;
};

// Something worth a line in the log.
struct TuneEvent {
	enum class Kind : std::uint8_t { attempt, accepted, rolled_back, settled, resumed, rescue };

	Kind kind = Kind::attempt;
	std::uint32_t from_ns = 0;
	std::uint32_t to_ns = 0; // what is kept; of an attempt: what is tried
	std::string reason;
};
[[nodiscard]] std::string_view tune_event_text(TuneEvent::Kind k);

struct TuneStep {
	std::optional<std::uint32_t> set_ns; // to be written now
	std::vector<TuneEvent> events;
};

class Tuner {
public:
	// @current_ns: what is set now. @proposal_ns: where to begin to look; 0 = unknown.
	// The options have been checked.
	Tuner(const TuneOptions &options, std::uint32_t current_ns, std::uint32_t proposal_ns);

	TuneStep observe(const TuneObservation &seen);

	// Back to what was last accepted, at once: somebody ends the tuning, or what was to
	// be set could not be.
	TuneStep stop(const std::string &reason);

	[[nodiscard]] TuneState state() const { return state_; }
	[[nodiscard]] std::uint32_t kept_ns() const { return kept_ns_; } // last accepted
	[[nodiscard]] std::uint32_t set_ns() const { return set_ns_; } // in force now
	[[nodiscard]] double lost() const { return 1 - remaining_; } // estimate, of throughput

private:
	struct Turn {
		double rate_bps = 0;
		double rtt_p99_ns = 0;
		unsigned flows = 0;
	};
	enum class Judgement : std::uint8_t { better, worse, unsure };

	[[nodiscard]] std::uint32_t bounded(double ns) const;
	[[nodiscard]] bool trying_new() const;
	[[nodiscard]] std::optional<Turn> turn_done(const TuneObservation &seen);
	void add_four();
	[[nodiscard]] TuneComparison compare() const;
	[[nodiscard]] Judgement judge(const TuneComparison &c) const;
	void begin_turn(TuneStep &step);
	void begin_attempt(TuneStep &step);
	void end_attempt(bool accept, const std::string &reason, TuneStep &step);
	void next_direction();
	void hold(TuneStep &step);
	[[nodiscard]] double hard_fall() const;
	[[nodiscard]] unsigned patience() const;
	[[nodiscard]] bool fell(const TuneObservation &seen) const;
	void follow(const TuneObservation &seen);
	void idle_while_trying(const TuneObservation &seen, TuneStep &step);
	void begin_rescue(TuneStep &step);
	void rescue(const TuneObservation &seen, TuneStep &step);
	void new_walk(double ratio);
	void set(std::uint32_t ns, TuneStep &step);

	TuneOptions options_;
	TuneState state_ = TuneState::waiting;
	std::uint32_t kept_ns_;
	std::uint32_t set_ns_;
	std::uint32_t candidate_ns_ = 0;

	// The walk.
	bool down_;
	bool turned_ = false; // the other direction is what is left
	bool moved_ = false; // something was accepted
	double ratio_;
	double remaining_ = 1; // throughput, over that of a target that loses nothing
	std::uint32_t reference_ns_; // loses nothing, as far as was seen
	std::uint32_t ceiling_ns_; // what is tried of itself
	std::uint32_t rejected_ns_ = 0; // the largest of this walk that lost

	// The attempt.
	std::uint32_t base_ns_ = 0; // what the candidate is compared with
	unsigned attempts_ = 0; // with this reference
	std::uint64_t tried_ = 0; // in all
	unsigned pairs_ = 0; // of the last one
	struct { // sums of the fours that are whole
		Moments gain;
		double old_rtt_p99_ns = 0;
		double new_rtt_p99_ns = 0;
	} fours_;
	std::vector<Turn> old_;
	std::vector<Turn> new_;
	std::vector<TuneObservation> seen_; // of this turn
	unsigned to_settle_ = 0;
	unsigned idle_ = 0; // observations in a row that do not count, with a new value set
	double idle_bps_ = 0; // their sum

	// What the kept value brings, of late; and since when it does not.
	double usual_bps_ = 0;
	double long_bps_ = 0; // over more time, for the noise
	double noise_ = 0.1; // of one observation, relative
	unsigned fallen_ = 0; // observations in a row, with a new value
	unsigned followed_ = 0; // observations that it comes from
	unsigned usual_flows_ = 0;
	unsigned low_ = 0; // observations in a row

	std::uint32_t rescued_ns_ = 0; // what was kept before
	std::uint32_t rescue_ns_ = 0; // what brought it back, if it was the target
	unsigned again_ = 0; // observations without it
	double held_s_ = 0;
};

} // namespace swift
