/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Random numbers for the property tests: the same on every machine for a seed
 * (the distributions of the standard library are not), and fond of extremes.
 */
#pragma once

#include <cmath>

#include "types.h"

struct Draw {
	u64 seed;

	u64 bits() /* splitmix64 */
	{
		u64 z = seed += 0x9e3779b97f4a7c15;

		z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
		z = (z ^ z >> 27) * 0x94d049bb133111eb;
		return z ^ z >> 31;
	}

	u64 below(u64 n) { return bits() % n; }
	bool one_in(u64 n) { return below(n) == 0; }
	double unit() { return double(bits() >> 11) * 0x1p-53; }

	u64 log_uniform(u64 lo, u64 hi)
	{
		double v = double(lo) - 1 + std::exp2(unit() * std::log2(double(hi - lo) + 2));

		return v <= double(lo) ? lo : v >= double(hi) ? hi : u64(v);
	}

	/* Anything in [lo, hi], each end one time in eight. */
	u64 any(u64 lo, u64 hi)
	{
		u64 which = below(8);

		return which == 0 ? lo : which == 1 ? hi : log_uniform(lo, hi);
	}

	u32 any32(u32 lo, u32 hi) { return u32(any(lo, hi)); }
};
