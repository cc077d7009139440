/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A log-linear histogram: 128 steps an octave, so that a value is known to better than
 * 1 %. Count, sum, least and greatest are exact.
 */
#ifndef LAB_HIST_H
#define LAB_HIST_H

#include <linux/bitops.h>
#include <linux/seq_file.h>
#include <linux/types.h>

#define HIST_STEPS 128 /* values below it have a slot each */
#define HIST_VALUE_BITS 40 /* 18 minutes, if ns; what is above counts in the last slot */
#define HIST_SLOTS ((HIST_VALUE_BITS - 8) * HIST_STEPS + 2 * HIST_STEPS)

struct hist {
	u64 count, sum, min, max;
	u64 slot[HIST_SLOTS];
};

/* The eight leading bits of a value say which step, their place which octave. */
static inline u32 hist_slot(u64 value)
{
	u32 shift;

	if (value >> HIST_VALUE_BITS)
		return HIST_SLOTS - 1;
	shift = value < 2 * HIST_STEPS ? 0 : fls64(value) - 8;
	return shift * HIST_STEPS + (value >> shift);
}

static inline u64 hist_low(u32 slot)
{
	u32 shift = slot < 2 * HIST_STEPS ? 0 : slot / HIST_STEPS - 1;

	return (u64)(slot - shift * HIST_STEPS) << shift;
}

static inline void hist_add(struct hist *h, u64 value)
{
	if (!h->count || value < h->min)
		h->min = value;
	if (value > h->max)
		h->max = value;
	h->count++;
	h->sum += value;
	h->slot[hist_slot(value)]++;
}

static inline void hist_show(struct seq_file *m, const struct hist *h)
{
	const char *comma = "";
	u32 i;

	for (i = 0; i < HIST_SLOTS; i++) {
		if (!h->slot[i])
			continue;
		seq_printf(m, "%s%llu:%llu", comma, hist_low(i), h->slot[i]);
		comma = ",";
	}
}

#endif /* LAB_HIST_H */
