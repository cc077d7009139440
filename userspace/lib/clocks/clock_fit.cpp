// SPDX-License-Identifier: MIT
#include "clock_fit.h"

#include <algorithm>
#include <cmath>

namespace swift {

namespace {

constexpr double one_q32 = 4294967296.0;
constexpr std::size_t widths_kept = 8;
constexpr std::int64_t wide_slack_ns = 500;
constexpr unsigned most_suspects = 4; // that agree neither with the line nor with each other
// A clock that moves against the other by more than this between two readings was stepped.
constexpr double max_slew = 1e-3;
constexpr double wander_decay_ns = 4e9;
constexpr std::int64_t reference_back_ns = 1000000;

double half(const ClockReading &r)
{
	return static_cast<double>(r.window_ns) / 2;
}

} // namespace

double ClockLine::drift_ppm() const
{
	return (one_q32 / static_cast<double>(ratio_q32) - 1) * 1e6;
}

// Differences of times that are not negative fit; as double they are exact up to 2^53.
double ClockFit::x_of(const ClockReading &r) const
{
	return static_cast<double>(r.nic_ns - newest().nic_ns);
}

double ClockFit::y_of(const ClockReading &r) const
{
	return static_cast<double>(r.host_ns - newest().host_ns) - x_of(r);
}

void ClockFit::restart()
{
	readings_.clear();
	suspect_.reset();
	suspects_ = 0;
}

// Least squares. A reading's noise is what the residuals say; while they are few, its own
// window says the rest.
ClockFit::Fitted ClockFit::fit() const
{
	const auto n = static_cast<double>(readings_.size());
	double widest = 0;
	double product = 0;
	Fitted f;

	for (const ClockReading &r : readings_) {
		f.mean_x += x_of(r) / n;
		f.mean_y += y_of(r) / n;
		f.half_window_ns += half(r) / n;
		widest = std::max(widest, half(r));
	}
	for (const ClockReading &r : readings_) {
		const double dx = x_of(r) - f.mean_x;

		f.spread += dx * dx;
		product += dx * (y_of(r) - f.mean_y);
	}
	if (f.spread > 0)
		f.slope = product / f.spread;
	for (const ClockReading &r : readings_)
		f.noise_ns = std::max(f.noise_ns, std::abs(y_of(r) - f.at(x_of(r))));
	f.noise_ns += widest * 2 / n;
	return f;
}

// Half a window that every reading may be off by, in the same direction; the noise of each,
// by its weight in the line's value at @x; and what the rate may do after the newest.
double ClockFit::bound_ns(const Fitted &f, double x) const
{
	double leverage = 0;

	for (const ClockReading &r : readings_)
		leverage += std::abs(1 / static_cast<double>(readings_.size()) +
				     (x - f.mean_x) * (x_of(r) - f.mean_x) / f.spread);
	return f.half_window_ns + leverage * f.noise_ns + wander_ * std::abs(x) + 1;
}

double ClockFit::surprise(const ClockReading &r, double &off_ns) const
{
	const double x = x_of(r);
	double allowed = half(r) + half(newest()) + max_drift * std::abs(x) + 1;

	off_ns = y_of(r);
	if (readings_.size() > 1) {
		const Fitted f = fit();

		if (f.spread > 0 && std::abs(f.slope) < max_drift) {
			allowed = bound_ns(f, x) + half(r);
			off_ns -= f.at(x);
		}
	}
	return std::abs(off_ns) / allowed;
}

bool ClockFit::too_wide(const ClockReading &r)
{
	widths_.push_back(r.window_ns);
	if (widths_.size() > widths_kept)
		widths_.pop_front();

	const std::int64_t best = *std::min_element(widths_.begin(), widths_.end());

	return (r.window_ns - wide_slack_ns) / 3 > best;
}

ClockFit::Verdict ClockFit::add(const ClockReading &r)
{
	double off_ns = 0;

	if (r.nic_ns < 0 || r.host_ns < 0 || r.window_ns < 0)
		return Verdict::invalid;

	const bool wide = too_wide(r);

	if (readings_.empty()) {
		readings_.push_back(r);
		return Verdict::taken;
	}
	if (surprise(r, off_ns) > 1) {
		bool agree = false;

		if (suspect_) {
			const auto nic = static_cast<double>(r.nic_ns - suspect_->nic_ns);
			const auto host = static_cast<double>(r.host_ns - suspect_->host_ns);

			agree = std::abs(host - nic) <= half(r) + half(*suspect_) + max_drift * std::abs(host) + 1;
		}
		suspects_++;
		if (!agree && suspects_ < most_suspects) {
			suspect_ = r;
			return Verdict::suspect;
		}

		const auto passed = static_cast<double>(
			std::max<std::int64_t>(r.host_ns - newest().host_ns, 1));

		last_step_ns_ = off_ns;
		// Slewed once, it may be again.
		if (std::abs(off_ns) < max_slew * passed)
			wander_ = std::max(wander_, std::abs(off_ns) / passed);
		restart();
		readings_.push_back(r);
		return Verdict::restarted;
	}
	suspect_.reset();
	suspects_ = 0;
	if (wide)
		return Verdict::wide;

	const auto passed = static_cast<double>(r.host_ns - newest().host_ns);

	if (passed <= 0) // the same moment again says nothing new
		return Verdict::taken;
	wander_ = min_wander + (wander_ - min_wander) * std::exp(-passed / wander_decay_ns);
	readings_.push_back(r);
	if (readings_.size() > window_readings)
		readings_.pop_front();
	return Verdict::taken;
}

std::optional<ClockLine> ClockFit::line(std::int64_t valid_ns) const
{
	if (readings_.size() < 2)
		return std::nullopt;

	const Fitted f = fit();

	if (f.spread <= 0 || std::abs(f.slope) > max_drift)
		return std::nullopt;

	const double error = bound_ns(f, static_cast<double>(valid_ns));

	if (!(error <= max_error_ns))
		return std::nullopt;

	// A little back: the newest reading plus its error could be in the future.
	const ClockReading &r = newest();
	const std::int64_t back = std::min(reference_back_ns, r.nic_ns);
	const double x = -static_cast<double>(back);
	const std::int64_t host = r.host_ns - back + std::llround(f.at(x));

	if (host < 0)
		return std::nullopt;
	return ClockLine{static_cast<std::uint64_t>(r.nic_ns - back), static_cast<std::uint64_t>(host),
			 static_cast<std::uint64_t>(std::llround((1 + f.slope) * one_q32)),
			 static_cast<std::uint32_t>(std::ceil(error))};
}

} // namespace swift
