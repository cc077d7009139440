/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Packets that a NIC stamps 10 us before the host looks, by a clock that is fast by 50 ppm
 * and some days off; the line of it is a quarter of a second old at most.
 */
#pragma once

#include "clock.h"

class Stamps {
public:
	Stamps()
	{
		swift_clock_setting setting = {kNicNs, kHostNs, u64(0x1p32 / 1.00005), 400, 750};

		good_ = swift_clock_prepare(&map_, &setting, kHostNs) == SWIFT_CLOCK_F_NONE;
	}

	/* Of the next packet, a microsecond later. */
	u32 age_ns()
	{
		u32 age_ns = 0;

		at_ns_ = at_ns_ < 250000000 ? at_ns_ + 1000 : 1000000;
		good_ &= swift_clock_age(&map_, kNicNs + at_ns_, kHostNs + at_ns_ + 10000, &bounds_,
					 &age_ns) == SWIFT_CLOCK_OK;
		return age_ns;
	}

	bool good() const { return good_; }

private:
	static constexpr u64 kNicNs = 1700000000000000000, kHostNs = 1000000000000;

	swift_clock_map map_{};
	swift_clock_bounds bounds_ = {2000, 1000000000};
	u64 at_ns_ = 1000000;
	bool good_ = false;
};
