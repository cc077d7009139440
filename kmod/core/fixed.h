/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Fixed point: the scales that the laws use, two square roots and a logarithm.
 *
 *  _q16  packets. 2^-16 packet is 1/65 of the smallest window (0.001 packet);
 *        a u32 reaches 65535 packets.
 *  _q24  gains and fractions of one (ai, beta, max_mdf, EWMA weights): exact to
 *        6e-5 for the smallest allowed gain, 0.001.
 *  _q28  1/sqrt(window), between 1/256 (65535 packets) and 256 (2^-16 packet).
 *  _q8   doublings, as log2 has them.
 */
#ifndef SWIFT_CORE_FIXED_H
#define SWIFT_CORE_FIXED_H

#include "types.h"

#define SWIFT_Q16_SHIFT 16
#define SWIFT_Q16_ONE (1U << SWIFT_Q16_SHIFT)
#define SWIFT_Q24_SHIFT 24
#define SWIFT_Q24_ONE (1U << SWIFT_Q24_SHIFT)
#define SWIFT_Q28_SHIFT 28

/* From a decimal sysctl unit (per = 1000 for milli, 1000000 for micro), to nearest. */
static inline u64 swift_scale_q(u64 v, u32 per, u32 shift)
{
	return SWIFT_DIV_U64((v << shift) + per / 2, per);
}

/* The leading zeros of x >= 1, without the last if they are odd. LLVM 14 cannot count for BPF. */
static inline u32 swift_leading_zero_pairs(u32 x)
{
#ifdef __bpf__
	u32 step, shift = 0;

	for (step = 16; step > 1; step /= 2) {
		if (x >> (32 - step) == 0) {
			x <<= step;
			shift += step;
		}
	}
	return shift;
#else
	return (u32)__builtin_clz(x) & ~1U;
#endif
}

/*
 * 1/sqrt(x) of a window in q16, x >= 1, as q28; relative error below 2e-6.
 *
 * x is scaled by an even power of two into m in [1, 4), kept as q30. A straight
 * line starts within 10 % of 1/sqrt(m), and each Newton step
 * y <- y (3 - m y^2) / 2 squares the error. No division.
 */
SWIFT_APART u64 swift_inv_sqrt_q28(u32 x_q16)
{
	u32 shift = swift_leading_zero_pairs(x_q16);
	u64 m_q30 = (u64)x_q16 << shift;
	u64 y_q30, t_q30;

	y_q30 = 1170378588ULL - (m_q30 * 10 >> 6); /* 1.09 - 0.156 m */

#define SWIFT_NEWTON_STEP()                                             \
	do {                                                            \
		t_q30 = (m_q30 * (y_q30 * y_q30 >> 30)) >> 30;          \
		y_q30 = (y_q30 * ((3ULL << 30) - t_q30)) >> 31;         \
	} while (0)
	SWIFT_NEWTON_STEP();
	SWIFT_NEWTON_STEP();
	SWIFT_NEWTON_STEP();
#undef SWIFT_NEWTON_STEP

	/* x = m 2^(14 - shift) packets, so 1/sqrt(x) = y 2^((shift - 14) / 2). */
	return (y_q30 << (shift / 2)) >> (7 + 30 - SWIFT_Q28_SHIFT);
}

/*
 * log2(x), x >= 1: exact for powers of two, a straight line between them, which is up to 0.09
 * below.
 */
SWIFT_APART u32 swift_log2_q8(u32 x)
{
	u32 shift = swift_leading_zero_pairs(x);

	if (!(x << shift >> 31))
		shift++;
	return ((31 - shift) << 8) + (x << shift >> 23 & 255);
}

/* Floor of the square root. For parameters, not for the per-ACK path. */
static inline u32 swift_sqrt_u64(u64 x)
{
	u64 root = 0, bit = 1ULL << 62;

	while (bit > x)
		bit >>= 2;
	while (bit) {
		if (x >= root + bit) {
			x -= root + bit;
			root = (root >> 1) + bit;
		} else {
			root >>= 1;
		}
		bit >>= 2;
	}
	return (u32)root;
}

#endif /* SWIFT_CORE_FIXED_H */
