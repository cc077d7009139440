// SPDX-License-Identifier: MIT
// How soon the next look may come, so that the process stays within its part of a CPU.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

namespace swift {

class Pace {
public:
	// Called after each look. look_ns: CPU time of the look, of all threads. process_ns: of the process, until
	// now. max_percent: of one CPU, above 0.
	//
	// Since the look before, the process has answered requests as well. That counts, but no more than the look
	// itself: or who asks often enough would keep the looks away, and get old answers.
	std::int64_t rest_ns(std::int64_t look_ns, std::int64_t process_ns, double max_percent)
	{
		const std::int64_t others_ns = before_ns_ ? process_ns - *before_ns_ - look_ns : 0; // not the start's

		before_ns_ = process_ns;
		cost_ns_ = look_ns + std::clamp<std::int64_t>(others_ns, 0, look_ns);
		return static_cast<std::int64_t>(static_cast<double>(cost_ns_) * 100 / max_percent);
	}
	// What the last rest was for.
	[[nodiscard]] std::int64_t cost_ns() const { return cost_ns_; }

private:
	std::optional<std::int64_t> before_ns_; // the process', at the end of the look before
	std::int64_t cost_ns_ = 0;
};

} // namespace swift
