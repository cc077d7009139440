// SPDX-License-Identifier: MIT
// Whom to probe when: rounds of a few peers each, chosen by chance, so that all have had their turn before one has a
// second; and never more probes a second than allowed. Pure: no socket, no clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <vector>

namespace swift {

// Some of @peers, others each time.
class PeerChoice {
public:
	PeerChoice(std::size_t peers, std::size_t sample, std::uint64_t seed);
	// No peer twice; all of them when there are no more than @sample.
	std::vector<std::size_t> next();

private:
	void shuffle();

	std::size_t sample_;
	std::mt19937_64 chance_;
	std::vector<std::size_t> order_; // of the turn of all
	std::size_t at_ = 0;
};

class ProbeRounds {
public:
	struct Plan {
		std::size_t peers = 0;
		std::size_t sample = 1;
		unsigned probes = 1; // to each peer in a round; one more fetches the last turnaround
		std::int64_t gap_ns = 1; // between any two packets, at least
	};
	struct Turn {
		std::size_t peer = 0;
		bool counts = true;
		bool first = false; // of a round
	};

	ProbeRounds(const Plan &plan, std::uint64_t seed) : plan_(plan), choice_(plan.peers, plan.sample, seed) {}

	// Nothing: not yet. Never catches up.
	std::optional<Turn> take(std::int64_t now_ns);
	[[nodiscard]] std::int64_t due_ns() const { return due_ns_; }
	[[nodiscard]] const std::vector<std::size_t> &chosen() const { return chosen_; }
	[[nodiscard]] std::uint64_t rounds() const { return rounds_; }
	// Until all peers have had a turn.
	[[nodiscard]] std::int64_t cycle_ns() const;

private:
	Plan plan_;
	PeerChoice choice_;
	std::vector<std::size_t> chosen_;
	std::size_t sent_ = 0; // of the round
	std::uint64_t rounds_ = 0;
	std::int64_t due_ns_ = 0;
};

} // namespace swift
