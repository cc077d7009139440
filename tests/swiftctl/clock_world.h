// SPDX-License-Identifier: MIT
// Two clocks that are known exactly: the host's, and a NIC's that drifts against it and is
// stepped and slewed at will. With readings of both as noisy as PCIe makes them.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>

#include "clock_fit.h"

namespace swift_test {

__extension__ typedef __int128 Wide;

class Clocks {
public:
	explicit Clocks(std::int64_t nic_ns = 0, double drift_ppm = 0) : nic_anchor_(nic_ns)
	{
		slew(drift_ppm);
	}

	std::int64_t host_ns = 1000000000000; // an uptime

	void slew(double drift_ppm)
	{
		anchor();
		drift_ppt_ = std::llround(drift_ppm * 1e6);
	}
	void step(std::int64_t ns)
	{
		anchor();
		nic_anchor_ += ns;
	}
	// The NIC's clock when the host's is at @host, which is not before the last change.
	[[nodiscard]] std::int64_t nic_at(std::int64_t host) const
	{
		const Wide passed = host - host_anchor_;

		return nic_anchor_ + static_cast<std::int64_t>(passed + passed * drift_ppt_ / 1000000000000);
	}
	[[nodiscard]] std::int64_t nic_ns() const { return nic_at(host_ns); }

private:
	void anchor()
	{
		nic_anchor_ = nic_at(host_ns);
		host_anchor_ = host_ns;
	}

	std::int64_t nic_anchor_;
	std::int64_t host_anchor_ = 1000000000000;
	std::int64_t drift_ppt_ = 0; // 10^-12
};

// How long reading the NIC's clock takes, and when within that it is read.
struct ReadingNoise {
	std::int64_t base_ns = 0; // the shortest
	std::int64_t tail_ns = 0; // scale of a Pareto tail, alpha 1.5: now and then a hundred times
	double position = 0.5; // of the reading in the shortest window
	unsigned samples = 1; // of which the narrowest is taken
};

inline swift::ClockReading read(Clocks &clocks, const ReadingNoise &noise, std::mt19937_64 &random)
{
	std::uniform_real_distribution<double> uniform(0, 1);
	swift::ClockReading best;

	for (unsigned i = 0; i < noise.samples; i++) {
		const auto tail = [&] {
			const double u = std::max(uniform(random), 1e-9);

			return static_cast<std::int64_t>(static_cast<double>(noise.tail_ns) *
							 (std::pow(u, -1 / 1.5) - 1));
		};
		const std::int64_t before = clocks.host_ns;
		const auto there = static_cast<std::int64_t>(static_cast<double>(noise.base_ns) * noise.position);

		clocks.host_ns += there + tail();
		const std::int64_t nic = clocks.nic_ns();

		clocks.host_ns += noise.base_ns - there + tail();
		const std::int64_t window = clocks.host_ns - before;

		if (i == 0 || window < best.window_ns)
			best = {nic, before + window / 2, window};
	}
	return best;
}

// As the module does: uapi/tcp_swift.h.
inline std::int64_t convert(const swift::ClockLine &line, std::int64_t nic_ns)
{
	const Wide passed = static_cast<Wide>(nic_ns) - static_cast<Wide>(line.nic_ns);

	return static_cast<std::int64_t>(static_cast<Wide>(line.host_ns) +
					 (passed * static_cast<Wide>(line.ratio_q32) >> 32));
}

} // namespace swift_test
