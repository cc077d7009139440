/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A NIC's clock in the host's terms (paper 3.1: "a simple linear extrapolation
 * algorithm to translate the NIC timestamp to the host clock"; appendix A:
 * host_clock = ratio * nic_clock + offset): which lines are allowed, and how long
 * ago a stamp was taken by such a line, or why nobody should believe it. Who reads
 * the clocks, and where the lines are kept, is the business of others.
 *
 * The offset of appendix A is an anchor here, one reading of both clocks: the product
 * is then of a distance of seconds, and not of the years since the NIC's epoch.
 */
#ifndef SWIFT_CORE_CLOCK_H
#define SWIFT_CORE_CLOCK_H

#include "types.h"

#define SWIFT_CLOCK_ONE_Q32 (1ULL << 32)
#define SWIFT_CLOCK_RATIO_ROOM_Q32 (SWIFT_CLOCK_ONE_Q32 / 100) /* 1 %: no oscillator is worse */
#define SWIFT_CLOCK_NIC_MAX_NS ((1ULL << 63) - 1)

/* No packet waits longer between a NIC and TCP. 1 s. */
#define SWIFT_STAMP_AGE_MAX_NS 1000000000U

/* Farther from the anchor than any uptime (146 years): there is nothing to compute. */
#define SWIFT_CLOCK_REACH_NS (1ULL << 62)

/* As user space gives it. Row: X(field, name, smallest, largest, the two in words). */
#define SWIFT_CLOCK_FIELDS(X)                                                          \
	X(nic_ns, NIC_NS, 0, SWIFT_CLOCK_NIC_MAX_NS, "0 .. 2^63 - 1")                  \
	X(host_ns, HOST_NS, 0, now_ns, "0 .. CLOCK_MONOTONIC's now")                   \
	X(ratio_q32, RATIO_Q32, SWIFT_CLOCK_ONE_Q32 - SWIFT_CLOCK_RATIO_ROOM_Q32,      \
	  SWIFT_CLOCK_ONE_Q32 + SWIFT_CLOCK_RATIO_ROOM_Q32, "2^32 +- 1 %")             \
	X(error_ns, ERROR_NS, 0, 1000000, "0 .. 1000000")                              \
	X(valid_ms, VALID_MS, 1, 60000, "1 .. 60000")

struct swift_clock_setting {
	u64 nic_ns; /* the NIC's clock */
	u64 host_ns; /* CLOCK_MONOTONIC at that moment */
	u64 ratio_q32; /* host ns per NIC ns */
	u32 error_ns; /* bound of a conversion's error */
	u32 valid_ms; /* from now */
};

enum swift_clock_field {
#define SWIFT_X(field, name, lo, hi, words) SWIFT_CLOCK_F_##name,
	SWIFT_CLOCK_FIELDS(SWIFT_X)
#undef SWIFT_X
	SWIFT_CLOCK_F_NONE
};

/* The line. Written by swift_clock_prepare() alone. */
struct swift_clock_map {
	u64 nic_ns;
	u64 host_ns;
	u64 ratio_q32;
	u64 valid_until_ns; /* the first moment at which it is not */
	u32 error_ns;
};

static inline bool swift_clock_within(u64 v, u64 lo, u64 hi)
{
	return v >= lo && v <= hi;
}

/* Fill @m if all of @s is allowed, or say which field, the first in order, is not. */
static inline enum swift_clock_field swift_clock_prepare(struct swift_clock_map *m,
							 const struct swift_clock_setting *s,
							 u64 now_ns)
{
#define SWIFT_X(field, name, lo, hi, words)              \
	if (!swift_clock_within(s->field, (lo), (hi))) \
		return SWIFT_CLOCK_F_##name;
	SWIFT_CLOCK_FIELDS(SWIFT_X)
#undef SWIFT_X

	m->nic_ns = s->nic_ns;
	m->host_ns = s->host_ns;
	m->ratio_q32 = s->ratio_q32;
	m->valid_until_ns = now_ns + (u64)s->valid_ms * 1000000;
	m->error_ns = s->error_ns;
	return SWIFT_CLOCK_F_NONE;
}

/* 0 = stale. */
static inline u64 swift_clock_left_ns(const struct swift_clock_map *m, u64 now_ns)
{
	return now_ns < m->valid_until_ns ? m->valid_until_ns - now_ns : 0;
}

enum swift_clock_result {
	SWIFT_CLOCK_OK,
	SWIFT_CLOCK_NONE, /* there is no line */
	SWIFT_CLOCK_STALE, /* the line is no longer valid */
	SWIFT_CLOCK_FUTURE, /* taken later than it can have been */
	SWIFT_CLOCK_OLD, /* taken earlier than it can have been */
};

/* What is known of a stamp's age from elsewhere, the error of its line left aside. */
struct swift_clock_bounds {
	u32 min_age_ns;
	u32 max_age_ns; /* not below min_age_ns */
};

/* NIC ns to host ns, @ns up to SWIFT_CLOCK_REACH_NS: less than 1 ns from the exact product. */
static inline u64 swift_clock_scale(const struct swift_clock_map *m, u64 ns)
{
	bool fast = m->ratio_q32 < SWIFT_CLOCK_ONE_Q32; /* the NIC's clock is: fewer host ns */
	u64 off_q32 = fast ? SWIFT_CLOCK_ONE_Q32 - m->ratio_q32 :
			     m->ratio_q32 - SWIFT_CLOCK_ONE_Q32;
	/* off_q32 has 26 bits: no product has more than 58. */
	u64 off_ns = (ns >> 32) * off_q32 + ((ns & SWIFT_U32_MAX) * off_q32 >> 32);

	return fast ? ns - off_ns : ns + off_ns;
}

/*
 * How long before @now_ns the NIC's clock showed @stamp_ns. Bounds are held with the
 * line's error to spare: beyond that the stamp is refused, within it the bound is the
 * better estimate. With @bounds of { 0, .. } a stamp that is just in the future has age 0.
 */
static inline enum swift_clock_result swift_clock_age(const struct swift_clock_map *m,
						      u64 stamp_ns, u64 now_ns,
						      const struct swift_clock_bounds *bounds,
						      u32 *age_ns)
{
	u64 since_ns, from_ns, age;

	if (now_ns < m->host_ns || !swift_clock_left_ns(m, now_ns))
		return SWIFT_CLOCK_STALE;
	since_ns = now_ns - m->host_ns;

	if (stamp_ns >= m->nic_ns) {
		if (stamp_ns - m->nic_ns > SWIFT_CLOCK_REACH_NS)
			return SWIFT_CLOCK_FUTURE;
		from_ns = swift_clock_scale(m, stamp_ns - m->nic_ns);
		if (from_ns > since_ns) {
			if (from_ns - since_ns + bounds->min_age_ns > m->error_ns)
				return SWIFT_CLOCK_FUTURE;
			*age_ns = bounds->min_age_ns;
			return SWIFT_CLOCK_OK;
		}
		age = since_ns - from_ns;
	} else {
		if (m->nic_ns - stamp_ns > SWIFT_CLOCK_REACH_NS || since_ns > SWIFT_CLOCK_REACH_NS)
			return SWIFT_CLOCK_OLD;
		age = since_ns + swift_clock_scale(m, m->nic_ns - stamp_ns);
	}

	if (age > (u64)bounds->max_age_ns + m->error_ns)
		return SWIFT_CLOCK_OLD;
	if (age + m->error_ns < bounds->min_age_ns)
		return SWIFT_CLOCK_FUTURE;
	*age_ns = swift_clamp_u32((u32)age, bounds->min_age_ns, bounds->max_age_ns);
	return SWIFT_CLOCK_OK;
}

#endif /* SWIFT_CORE_CLOCK_H */
