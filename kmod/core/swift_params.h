/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The tunables of the Swift law: one table of names, defaults, ranges and
 * meanings, out of which come the sysctls, their documentation and the random
 * tests; and their conversion, once per change, into the units that the law
 * computes with.
 *
 * Row: X(name, default, minimum, maximum, "meaning, source").
 */
#ifndef SWIFT_CORE_PARAMS_H
#define SWIFT_CORE_PARAMS_H

#include "fixed.h"

enum swift_target_policy {
	SWIFT_TARGET_STATIC, /* base_target_ns + hops * hop_target_ns (paper 3.5) */
	SWIFT_TARGET_BASE_RTT, /* the smallest delay seen */
	SWIFT_TARGET_BASE_RTT_PLUS, /* that + rtt_epsilon_ns, at least base_target_ns */
};

/*
 * Where a default is not the paper's or that of Google's open Swift (Falcon):
 *  target_policy  A kernel host's unloaded RTT is anything from 20 us to 1 ms. A
 *                 static target below it sends a flow to min_cwnd for good, so the
 *                 default learns the path and adds room; a tuned fabric sets static.
 *  rtt_epsilon_ns  Google's base target is 25 us in all; this is above what is learnt, and
 *                 hosts' noise has room of its own (D14).
 *  endpoint_target_ns  200 us instead of 100, on a kernel instead of a polling stack: an idle
 *                 host's own interrupts and scheduling must not send ecwnd to min_cwnd,
 *                 which nothing would ever bring back; a tuned host sets what it measures.
 *                 Longer ones fill the rings of quick hosts: 1024 packets may be 0.5 ms.
 *  fs_min_cwnd_milli  Scaling saturated at 0.1 packet cannot tell large flows from
 *                 small ones in a 5000-to-1 incast; at 0.001 it is too flat elsewhere.
 *  fs_range_ns    Hosts differ by some us in what they believe of a path; hundreds of
 *                 flows meet only where the curve is steeper than that.
 *  init_cwnd      Packets of thousands of flows that start together overrun any switch
 *                 buffer, and a loss costs an RTO of 200 ms; a start (D12) from 1 to 10
 *                 costs 4 RTTs, which here are microseconds. A route's initcwnd goes
 *                 first. (Linux acknowledges the first packets of a connection at once.)
 */
#define SWIFT_TUNABLES(X)                                                                        \
	X(base_target_ns, 25000, 1000, 1000000000,                                               \
	  "base fabric target delay, 3.5 base_target")                                           \
	X(hop_target_ns, 1000, 0, 1000000, "target added per router hop, 3.5 h-bar")             \
	X(fs_range_ns, 450000, 0, 10000000, "most that flow scaling adds, 3.5; 0 = off")         \
	X(fs_min_cwnd_milli, 10, 1, 1000000,                                                      \
	  "window at and below which scaling adds fs_range_ns, 1/1000 packet, 3.5")              \
	X(fs_max_cwnd_milli, 256000, 2, 10000000,                                                \
	  "window from which scaling adds nothing, 1/1000 packet, at least twice the minimum")   \
	X(endpoint_target_ns, 200000, 1000, 1000000000,                                          \
	  "endpoint target delay, 3.3; base_rtt_plus adds to it (D19, D20)")                     \
	X(ai_milli, 1000, 1, 100000, "additive increase per RTT, 1/1000 packet, Algorithm 1")    \
	X(beta_milli, 800, 1, 1000, "multiplicative decrease constant, 1/1000, Algorithm 1, D17") \
	X(max_mdf_milli, 500, 1, 1000, "largest decrease at once, 1/1000, Algorithm 1, D17")      \
	X(min_cwnd_micro, 1000, 1000, 10000000,                                                  \
	  "smallest window, 1/1000000 packet, at most max_cwnd packets, 3.4")                    \
	X(max_cwnd, 4096, 1, 65535, "largest window, packets, Algorithm 1")                      \
	X(init_cwnd, 1, 1, 65535, "window of a new flow, packets")                               \
	X(retx_reset_threshold, 3, 1, 255,                                                       \
	  "timeouts in a row that reset the window to its minimum, Algorithm 1")                 \
	X(endpoint_ewma_milli, 125, 1, 1000,                                                     \
	  "least weight of a new endpoint delay in its average, 1/1000, 3.3; 1000 = no filter")  \
	X(target_policy, SWIFT_TARGET_BASE_RTT_PLUS, 0, 2,                                       \
	  "base of the fabric target: static, base_rtt or base_rtt_plus")                        \
	X(rtt_epsilon_ns, 20000, 0, 1000000000,                                                  \
	  "room that base_rtt_plus adds; that for noise comes on top (D14)")                     \
	X(rtt_window_ms, 10000, 100, 600000, "how long a smallest delay is believed")            \
	X(split, 1, 0, 1, "1 = fabric and endpoint windows, 3.3; 0 = Swift-v0, one window")

/* As the operator sets them: one u32 a row, in the unit of its name. */
struct swift_tunables {
#define SWIFT_X(name, def, lo, hi, doc) u32 name;
	SWIFT_TUNABLES(SWIFT_X)
#undef SWIFT_X
};

/* As the law uses them. Written by swift_params_prepare() alone. */
struct swift_params {
	u64 rtt_window_ns;
	u64 fs_alpha_q8; /* ns * sqrt(packets): 3.5 alpha */
	u64 fs_beta_ns; /* 3.5 beta, sign turned */
	u32 base_target_ns;
	u32 hop_target_ns;
	u32 fs_range_ns;
	u32 fs_min_cwnd_q16;
	u32 fs_max_cwnd_q16;
	u32 endpoint_target_ns;
	u32 rtt_epsilon_ns;
	u32 ai_q24;
	u32 beta_q24;
	u32 max_mdf_q24;
	u32 endpoint_ewma_q24;
	u32 min_cwnd_q16;
	u32 max_cwnd_q16;
	u32 init_cwnd_q16;
	u8 retx_reset_threshold;
	u8 target_policy;
	u8 split;
	u8 late_news; /* of a gap before, see swift_small_react(); BPF's alone */
};

static inline void swift_tunables_default(struct swift_tunables *t)
{
#define SWIFT_X(name, def, lo, hi, doc) t->name = (def);
	SWIFT_TUNABLES(SWIFT_X)
#undef SWIFT_X
}

SWIFT_INLINE u64 swift_fs_add_q8(const struct swift_params *p, u32 cwnd_q16)
{
	/* alpha <= 3.5e7 sqrt(fs_min) once q8, 1/sqrt <= 1/sqrt(fs_min): 62 bits at most */
	return p->fs_alpha_q8 * swift_inv_sqrt_q28(cwnd_q16) >> SWIFT_Q28_SHIFT;
}

/*
 * Check @t and, if all of it is allowed, fill @p. Returns a null pointer, or the
 * name of the first tunable that is out of its range or contradicts another.
 */
static inline const char *swift_params_prepare(struct swift_params *p,
					       const struct swift_tunables *t)
{
	u64 root_min_q20, root_max_q20;

#define SWIFT_X(name, def, lo, hi, doc)             \
	if (t->name > (hi) || t->name + 1 < (lo) + 1) \
		return #name;
	SWIFT_TUNABLES(SWIFT_X)
#undef SWIFT_X
	/* Half is what keeps alpha, which divides by the difference, exact and bounded. */
	if (t->fs_max_cwnd_milli < 2 * t->fs_min_cwnd_milli)
		return "fs_max_cwnd_milli";
	if (t->min_cwnd_micro > (u64)t->max_cwnd * 1000000)
		return "min_cwnd_micro";

	p->base_target_ns = t->base_target_ns;
	p->hop_target_ns = t->hop_target_ns;
	p->endpoint_target_ns = t->endpoint_target_ns;
	p->rtt_epsilon_ns = t->rtt_epsilon_ns;
	p->rtt_window_ns = (u64)t->rtt_window_ms * 1000000;
	p->ai_q24 = (u32)swift_scale_q(t->ai_milli, 1000, SWIFT_Q24_SHIFT);
	p->beta_q24 = (u32)swift_scale_q(t->beta_milli, 1000, SWIFT_Q24_SHIFT);
	p->max_mdf_q24 = (u32)swift_scale_q(t->max_mdf_milli, 1000, SWIFT_Q24_SHIFT);
	p->endpoint_ewma_q24 = (u32)swift_scale_q(t->endpoint_ewma_milli, 1000, SWIFT_Q24_SHIFT);
	p->min_cwnd_q16 = (u32)swift_scale_q(t->min_cwnd_micro, 1000000, SWIFT_Q16_SHIFT);
	p->max_cwnd_q16 = t->max_cwnd << SWIFT_Q16_SHIFT;
	p->init_cwnd_q16 = t->init_cwnd << SWIFT_Q16_SHIFT;
	p->retx_reset_threshold = (u8)t->retx_reset_threshold;
	p->target_policy = (u8)t->target_policy;
	p->split = (u8)t->split;
	p->late_news = 0;

	/*
	 * 3.5: alpha = fs_range / (1/sqrt(fs_min) - 1/sqrt(fs_max)), here with
	 * both fractions brought over one denominator.
	 */
	p->fs_range_ns = t->fs_range_ns;
	p->fs_min_cwnd_q16 = (u32)swift_scale_q(t->fs_min_cwnd_milli, 1000, SWIFT_Q16_SHIFT);
	p->fs_max_cwnd_q16 = (u32)swift_scale_q(t->fs_max_cwnd_milli, 1000, SWIFT_Q16_SHIFT);
	root_min_q20 = swift_sqrt_u64(SWIFT_DIV_U64((u64)t->fs_min_cwnd_milli << 40, 1000));
	root_max_q20 = swift_sqrt_u64(SWIFT_DIV_U64((u64)t->fs_max_cwnd_milli << 40, 1000));
	p->fs_alpha_q8 = (p->fs_range_ns * SWIFT_DIV_U64(root_min_q20 * root_max_q20,
							 root_max_q20 - root_min_q20)) >> 12;
	p->fs_beta_ns = swift_fs_add_q8(p, p->fs_max_cwnd_q16) >> 8;
	return (const char *)0;
}

#endif /* SWIFT_CORE_PARAMS_H */
