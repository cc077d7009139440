// SPDX-License-Identifier: MIT
// One tuning, from beginning to end: learns the paths, proposes, lets the tuner walk, sets
// what it says, and remembers what was there before, so that a run that was killed is put
// right by the next one. Fed with dumps of flows; time and waiting are the caller's.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "flow_table.h"
#include "netns.h"
#include "path_model.h"
#include "target_knob.h"
#include "telemetry.h"
#include "tuner.h"

namespace swift {

// The observation that the tuner wants, out of a dump: those rows of it.
[[nodiscard]] TuneObservation observe_rows(const FlowSet &set, std::span<const std::uint32_t> rows);
// The flows of @cc (to @prefix).
[[nodiscard]] TuneObservation observe_flows(const FlowSet &set, const std::string &cc,
					    const std::optional<Prefix> &prefix);

// The smallest fabric delay per number of hops, and per destination, over many dumps.
class PathLearner {
public:
	void add(const FlowSet &set, const std::string &cc, const std::optional<Prefix> &prefix);
	// Knows the hops, too. The telemetry sees all network namespaces: @netns is the inode number
	// of the one whose flows count.
	void add(const TelemetryFlow &flow, const std::string &cc, const std::optional<Prefix> &prefix,
		 std::uint32_t netns);
	[[nodiscard]] std::vector<PathSample> samples() const;
	// The smallest delay to the destination that is farthest; 0: none.
	[[nodiscard]] double longest_ns() const;

private:
	void note(std::optional<unsigned> hops, const Address &to, double ns);

	std::map<std::optional<unsigned>, double> smallest_ns_;
	std::map<Address, double> destinations_; // no more than fit

	static constexpr std::size_t most_destinations = 4096;
};

class TuneRun {
public:
	// @apply: start() will follow; else nothing is ever changed. An Error: the knob cannot
	// be read, or another run holds it.
	static Result<std::unique_ptr<TuneRun>> begin(Files &files, TargetKnob &knob,
						      const TuneOptions &options,
						      std::optional<Prefix> prefix, bool apply,
						      Keeper keeper = Keeper::tools);

	// What a run that was killed left changed was put right; a line for the log.
	[[nodiscard]] const std::string &mended() const { return mended_; }
	[[nodiscard]] const TargetSettings &before() const { return before_; } // the first run's
	[[nodiscard]] const TargetSettings &now() const { return now_; } // what is in force

	void learn(const FlowSet &set) { learner_.add(set, knob_.cc(), prefix_); }
	void learn(const TelemetryFlow &f) { learner_.add(f, knob_.cc(), prefix_, this_netns_inode()); }
	// Out of what was learnt so far; an Error if that is nothing.
	Result<TargetProposal> proposal() const;

	// From here on the target is static, and the tuner's. This, step() and end() look first
	// whether somebody else has set the target: that stays, and is an Error.
	Result<std::vector<TuneEvent>> start();
	[[nodiscard]] bool started() const { return tuner_.has_value(); }
	// An Error: the target could not be set, and what was kept is in force; or, if it is not
	// started() any more, it cannot be read or was set by somebody else.
	Result<std::vector<TuneEvent>> step(const FlowSet &set);
	[[nodiscard]] const Tuner &tuner() const { return *tuner_; }
	[[nodiscard]] const TuneObservation &seen() const { return seen_; }

	// Keeps what was found (@restore: puts back what was there before the first run).
	Result<std::vector<TuneEvent>> end(const std::string &reason, bool restore);

	struct Undone {
		TargetSettings now;
		bool others; // left alone: somebody else has set it since
	};
	// Back to what was there before the first run (a later one, if somebody else has set the target between the
	// two); an Error if none has changed anything. For root's tools.
	static Result<Undone> undo(Files &files, TargetKnob &knob);

private:
	TuneRun(Files &files, TargetKnob &knob, const TuneOptions &options,
		std::optional<Prefix> prefix, Keeper keeper);
	Result<void> still_ours() const;
	void let_go();
	// @trial: what is about to be in force, in the place of now_.
	Result<void> save(bool running, const TargetSettings &trial) const;
	Result<void> set(std::uint32_t base_target_ns);

	Files &files_;
	TargetKnob &knob_;
	TuneOptions options_;
	std::optional<Prefix> prefix_;
	Keeper keeper_;
	std::uint64_t serial_ = 1; // the newest record is the one that counts
	std::shared_ptr<void> lock_;
	PathLearner learner_;
	TargetSettings before_; // the first run's
	TargetSettings now_;
	std::optional<Tuner> tuner_;
	TuneObservation seen_;
	std::string mended_;
};

} // namespace swift
