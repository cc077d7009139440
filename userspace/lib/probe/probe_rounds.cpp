// SPDX-License-Identifier: MIT
#include "probe_rounds.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace swift {

PeerChoice::PeerChoice(std::size_t peers, std::size_t sample, std::uint64_t seed)
	: sample_(std::min(sample, peers)), chance_(seed), order_(peers)
{
	std::iota(order_.begin(), order_.end(), std::size_t{0});
	shuffle();
}

// Fisher and Yates: the same everywhere for the same seed, as std::shuffle() is not.
void PeerChoice::shuffle()
{
	for (std::size_t left = order_.size(); left > 1; left--)
		std::swap(order_[left - 1], order_[chance_() % left]);
	at_ = 0;
}

std::vector<std::size_t> PeerChoice::next()
{
	std::vector<std::size_t> chosen;

	while (chosen.size() < sample_) {
		if (at_ == order_.size()) {
			shuffle();
			// Who is in this round already goes last among those of the new turn that follow at once.
			std::stable_partition(order_.begin(), order_.end(), [&](std::size_t peer) {
				return std::find(chosen.begin(), chosen.end(), peer) == chosen.end();
			});
		}
		chosen.push_back(order_[at_++]);
	}
	return chosen;
}

std::optional<ProbeRounds::Turn> ProbeRounds::take(std::int64_t now_ns)
{
	if (plan_.peers == 0 || now_ns < due_ns_)
		return std::nullopt;
	if (sent_ == chosen_.size() * (plan_.probes + 1)) {
		chosen_ = choice_.next();
		sent_ = 0;
		rounds_++;
	}

	const Turn turn{chosen_[sent_ % chosen_.size()], sent_ < chosen_.size() * plan_.probes, sent_ == 0};

	sent_++;
	due_ns_ = now_ns + plan_.gap_ns;
	return turn;
}

std::int64_t ProbeRounds::cycle_ns() const
{
	return static_cast<std::int64_t>(plan_.peers * (plan_.probes + 1)) * plan_.gap_ns;
}

} // namespace swift
