// SPDX-License-Identifier: MIT
// The line from a NIC's clock to the host's, fitted to readings of both: the linear
// extrapolation of Swift's appendix A, host_clock = ratio * nic_clock + offset, over a
// sliding window of readings and with a bound of its error. Pure functions of the
// readings: no clock, no kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

namespace swift {

// Both clocks at one moment; the host's is CLOCK_MONOTONIC.
struct ClockReading {
	std::int64_t nic_ns = 0;
	std::int64_t host_ns = 0; // the middle of the window
	std::int64_t window_ns = 0; // the NIC's clock was read somewhere within it
};

// host = host_ns + (nic - nic_ns) * ratio_q32 / 2^32
struct ClockLine {
	std::uint64_t nic_ns = 0;
	std::uint64_t host_ns = 0;
	std::uint64_t ratio_q32 = 0;
	std::uint32_t error_ns = 0;

	[[nodiscard]] double drift_ppm() const; // above 0: the NIC's clock is the faster one
};

class ClockFit {
public:
	enum class Verdict {
		taken, // part of the fit now
		wide, // too long a window to be of use beside the others
		suspect, // not where the line says: read again at once
		restarted, // nor is the next one: a clock was stepped or slewed
		invalid, // not a time that a line can be made of
	};

	Verdict add(const ClockReading &reading);
	void restart();

	// With the error's bound from now until @valid_ns after the newest reading. None:
	// too few readings, or the bound is above max_error_ns.
	[[nodiscard]] std::optional<ClockLine> line(std::int64_t valid_ns) const;

	[[nodiscard]] std::size_t count() const { return readings_.size(); }
	[[nodiscard]] const ClockReading &newest() const { return readings_.back(); }
	// How far off the reading was that restarted the fit; host time.
	[[nodiscard]] double last_step_ns() const { return last_step_ns_; }

	static constexpr std::size_t window_readings = 16;
	static constexpr double max_error_ns = 1e6; // as the module takes it
	static constexpr double max_drift = 0.0099; // the module takes 1 %

private:
	// y = mean_y + slope * (x - mean_x): x is NIC time after the newest reading, y how
	// much more the host's clock has moved than the NIC's.
	struct Fitted {
		double mean_x = 0;
		double mean_y = 0;
		double slope = 0;
		double spread = 0; // sum of (x - mean_x)^2
		double half_window_ns = 0; // mean
		double noise_ns = 0; // of one reading

		[[nodiscard]] double at(double x) const { return mean_y + slope * (x - mean_x); }
	};

	[[nodiscard]] double x_of(const ClockReading &r) const;
	[[nodiscard]] double y_of(const ClockReading &r) const;
	[[nodiscard]] Fitted fit() const;
	[[nodiscard]] double bound_ns(const Fitted &f, double x) const;
	// How far @r is from where it should be, as a multiple of what is allowed.
	[[nodiscard]] double surprise(const ClockReading &r, double &off_ns) const;
	[[nodiscard]] bool too_wide(const ClockReading &r);

	std::deque<ClockReading> readings_;
	std::deque<std::int64_t> widths_; // of the newest readings, the wide ones too
	std::optional<ClockReading> suspect_;
	unsigned suspects_ = 0; // in a row
	double wander_ = min_wander; // how much the rate is thought to change, ns per ns
	double last_step_ns_ = 0;

	static constexpr double min_wander = 1e-7;
};

} // namespace swift
