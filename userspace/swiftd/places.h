// SPDX-License-Identifier: MIT
// Who has a place of its own in the metrics: those with most traffic, as many as are allowed; the others are counted together.
// Who has one keeps it for a while, and then against anybody with less than twice its traffic: what moves between its
// own place and the rest is new series.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <vector>

namespace swift {

template <typename Key> class Places {
public:
	// An interval has gone by: what was before counts less.
	void grow_older(double interval_s)
	{
		const double decay = std::exp2(-interval_s / half_life_s);

		for (auto &[key, k] : known_)
			k.traffic *= decay;
	}
	// @traffic: bytes of the interval, and a bit for each flow.
	void know(const Key &key, double traffic, std::int64_t now_ns)
	{
		Known &k = known_[key];

		k.traffic += traffic;
		k.seen_ns = now_ns;
	}
	// @lost is called with each key that has its place no more.
	template <typename Lost> void give(std::int64_t now_ns, std::int64_t keep_ns, std::size_t most, Lost lost)
	{
		const auto lose = [&](At loser) {
			loser->second.placed_ns.reset();
			lost(loser->first);
		};
		std::vector<At> placed;
		std::vector<At> others;

		std::erase_if(known_, [&](const auto &k) {
			const bool gone = now_ns - k.second.seen_ns >= keep_ns;

			if (gone && k.second.placed_ns)
				lost(k.first);
			return gone;
		});
		for (auto &k : known_)
			(k.second.placed_ns ? placed : others).push_back(&k);
		// The least of those with a place, the most of the others last; of equals the first by name has it.
		std::stable_sort(placed.begin(), placed.end(), [](At a, At b) { return less(b, a); });
		std::reverse(others.begin(), others.end());
		std::stable_sort(others.begin(), others.end(), less);
		for (; placed.size() > most; placed.pop_back()) // there were more places
			lose(placed.back());
		for (std::size_t n = placed.size(); n < most && !others.empty(); n++, others.pop_back())
			others.back()->second.placed_ns = now_ns;
		while (!placed.empty() && !others.empty() && others.back()->second.traffic > 2 * placed.back()->second.traffic) {
			if (now_ns - *placed.back()->second.placed_ns >= keep_ns) {
				lose(placed.back());
				others.back()->second.placed_ns = now_ns;
				others.pop_back();
			}
			placed.pop_back();
		}
	}
	[[nodiscard]] bool has(const Key &key) const
	{
		const auto at = known_.find(key);

		return at != known_.end() && at->second.placed_ns;
	}
	[[nodiscard]] bool knows(const Key &key) const { return known_.contains(key); }
	[[nodiscard]] std::size_t size() const { return known_.size(); }

private:
	static constexpr double half_life_s = 60;

	struct Known {
		double traffic = 0; // lately
		std::int64_t seen_ns = 0;
		std::optional<std::int64_t> placed_ns;
	};
	using At = typename std::map<Key, Known>::value_type *;

	static bool less(At a, At b) { return a->second.traffic < b->second.traffic; }

	std::map<Key, Known> known_;
};

} // namespace swift
