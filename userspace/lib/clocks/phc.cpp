// SPDX-License-Identifier: MIT
#include "phc.h"

#include <cerrno>
#include <cstdlib>
#include <optional>

namespace swift {

namespace {

constexpr unsigned samples_per_reading = 10;
constexpr int offsets_per_reading = 4;
constexpr int reading_attempts = 3; // of a reading during which the wall clock was stepped
constexpr std::int64_t moved_ns = 300;
// Drivers do not say how well they latch both clocks; PCIe PTM and ART give tens of ns.
constexpr std::int64_t precise_window_ns = 100;

std::int64_t width(const PhcSample &s)
{
	return s.after_ns - s.before_ns;
}

// The driver or the kernel cannot do it, now or ever.
bool is_unsupported(int code)
{
	return code == EOPNOTSUPP || code == EINVAL || code == ENOTTY;
}

} // namespace

std::string_view phc_method_text(PhcMethod m)
{
	switch (m) {
	case PhcMethod::precise:
		return "precise";
	case PhcMethod::extended_monotonic:
	case PhcMethod::extended:
		return "extended";
	case PhcMethod::basic:
		break;
	}
	return "basic";
}

Result<PhcSample> PhcReader::best_sample()
{
	for (;;) {
		const bool precise = method_ == PhcMethod::precise;
		auto all = device_->samples(method_, precise ? 1 : samples_per_reading);

		if (!all) {
			// A driver's precise way may fail for many reasons; the others do as well.
			if (method_ == PhcMethod::basic ||
			    !(precise || is_unsupported(all.error().code)))
				return all.error();
			method_ = static_cast<PhcMethod>(static_cast<int>(method_) + 1);
			continue;
		}

		std::optional<PhcSample> best;

		for (const PhcSample &s : *all)
			if (width(s) >= 0 && (!best || width(s) < width(*best)))
				best = s;
		if (!best)
			return Error{"the host's clock went backwards during the reading"};
		return *best;
	}
}

PhcReader::Offset PhcReader::offset()
{
	std::optional<Offset> best;

	for (int i = 0; i < offsets_per_reading; i++) {
		const HostClocks c = device_->host_clocks();
		const std::int64_t w = c.mono_after_ns - c.mono_before_ns;

		if (!best || w < best->width_ns)
			best = Offset{c.real_ns - (c.mono_before_ns + w / 2), w};
	}
	return *best;
}

Result<ClockReading> PhcReader::read()
{
	for (int attempt = 0; attempt < reading_attempts; attempt++) {
		const Offset before = offset();
		auto sample = best_sample();
		const Offset after = offset();

		if (!sample) {
			if (sample.error().code)
				return sample.error();
			continue;
		}

		std::int64_t window = width(*sample) +
				      (method_ == PhcMethod::precise ? precise_window_ns : 0);
		std::int64_t host = sample->before_ns + width(*sample) / 2;

		if (method_ != PhcMethod::extended_monotonic) {
			const Offset &o = after.width_ns < before.width_ns ? after : before;

			if (std::abs(after.ns - before.ns) >
			    moved_ns + (after.width_ns + before.width_ns) / 2)
				continue;
			host -= o.ns;
			window += o.width_ns;
		}
		if (sample->nic_ns < 0)
			return Error{"the NIC's clock is before 1970"};
		if (host < 0)
			continue;
		return ClockReading{sample->nic_ns, host, window};
	}
	return Error{"the host's wall clock is stepped again and again"};
}

} // namespace swift
