/* SPDX-License-Identifier: GPL-2.0 */
/*
 * FAST*, to compare with: the FAST TCP-like law that Mittal et al. put "in place of
 * Algorithm 1" of TIMELY (SIGCOMM 2015, 6.1, table 1), as pure functions of (state,
 * sample, parameters). FAST TCP (Wei et al., IEEE/ACM ToN 2006, equation 8) is
 *
 *     w <- min(2 w, (1 - gamma) w + gamma (baseRTT / RTT w + alpha))
 *
 * and FAST* uses "the TCP FAST equation to adjust the pacing rate", with alpha, there
 * packets of a flow in the queue, as "a throughput value since TIMELY is rate-based":
 *
 *     each segment:  rate <- min(2 rate, (1 - gamma) rate + gamma (baseRTT / RTT rate + alpha))
 *
 * A flow at rest is at rate (1 - baseRTT / RTT) = alpha: it keeps alpha RTT bytes queued.
 *
 * Units: time in ns, rates in bytes/s, fractions of one as q24 (fixed.h).
 *
 * What the paper does not say:
 *
 * F1 FAST's equation is of one RTT, and segments may end more often: gamma is scaled by
 *    the time since the last update, in RTTs, at most 1.
 * F2 baseRTT is the smallest RTT that the flow has seen, as in FAST.
 * F3 gamma is 1/2, and a loss halves the rate: both as in FAST's implementation.
 * F4 The RTT is not averaged: FAST averages it over a window of packets, FAST* has one
 *    sample a segment.
 */
#ifndef SWIFT_CORE_FAST_H
#define SWIFT_CORE_FAST_H

#include "fixed.h"

/* Row: X(name, default, minimum, maximum, "meaning, source"). Rates as the paper gives them. */
#define FAST_TUNABLES(X)                                                                     \
	X(alpha_mbps, 50, 1, 10000, "what each flow keeps queued, Mbit/s, table 1")          \
	X(gamma_milli, 500, 1, 1000, "weight of an update, 1/1000")                          \
	X(seg_bytes, 16384, 512, 65536, "acknowledged bytes per update, section 6")          \
	X(app_share_milli, 800, 0, 1000,                                                     \
	  "part of the rate that must be used for it to grow, 1/1000, section 5")            \
	X(min_rate_mbps, 1, 1, 400000, "smallest rate, Mbit/s")                              \
	X(max_rate_mbps, 10000, 1, 400000, "largest rate, Mbit/s: the line's, section 5")    \
	X(init_rate_mbps, 1000, 1, 400000, "rate of a new flow, Mbit/s")                     \
	X(in_flight_ns, 1000000, 1000, 1000000000,                                           \
	  "what the rate sends in so long may be outstanding, section 3.3")

/* As the operator sets them. */
struct fast_tunables {
#define FAST_X(name, def, lo, hi, doc) u32 name;
	FAST_TUNABLES(FAST_X)
#undef FAST_X
};

/* As the law uses them. Written by fast_params_prepare() alone. */
struct fast_params {
	u64 alpha_Bps;
	u64 min_Bps;
	u64 max_Bps;
	u64 init_Bps;
	u32 gamma_q24;
	u32 app_share_q24;
	u32 seg_bytes;
	u32 in_flight_ns;
};

static inline void fast_tunables_default(struct fast_tunables *t)
{
#define FAST_X(name, def, lo, hi, doc) t->name = (def);
	FAST_TUNABLES(FAST_X)
#undef FAST_X
}

/*
 * Check @t and, if all of it is allowed, fill @p. Returns a null pointer, or the
 * name of the first tunable that is out of its range or contradicts another.
 */
static inline const char *fast_params_prepare(struct fast_params *p, const struct fast_tunables *t)
{
	const u64 mbps = 1000000 / 8; /* bytes/s */

#define FAST_X(name, def, lo, hi, doc)              \
	if (t->name > (hi) || t->name + 1 < (lo) + 1) \
		return #name;
	FAST_TUNABLES(FAST_X)
#undef FAST_X
	if (t->max_rate_mbps < t->min_rate_mbps)
		return "max_rate_mbps";
	if (t->init_rate_mbps < t->min_rate_mbps || t->init_rate_mbps > t->max_rate_mbps)
		return "init_rate_mbps";

	p->alpha_Bps = t->alpha_mbps * mbps;
	p->min_Bps = t->min_rate_mbps * mbps;
	p->max_Bps = t->max_rate_mbps * mbps;
	p->init_Bps = t->init_rate_mbps * mbps;
	p->gamma_q24 = (u32)swift_scale_q(t->gamma_milli, 1000, SWIFT_Q24_SHIFT);
	p->app_share_q24 = (u32)swift_scale_q(t->app_share_milli, 1000, SWIFT_Q24_SHIFT);
	p->seg_bytes = t->seg_bytes;
	p->in_flight_ns = t->in_flight_ns;
	return (const char *)0;
}

/* --- State and samples --------------------------------------------------------- */

struct fast_state {
	u64 rate_Bps;
	u64 last_ns; /* of the latest update */
	u32 base_rtt_ns; /* all ones = none yet */
	u32 acked_bytes; /* since the latest update */
};

/* What one ACK tells. */
struct fast_sample {
	u64 now_ns; /* monotonic */
	u64 app_Bps; /* what the application sends; all ones = what it may */
	u32 rtt_ns; /* of the newest segment acked; 0 = none */
	u32 acked_bytes;
};

static inline u64 fast_bound_Bps(const struct fast_params *p, u64 rate_Bps)
{
	return rate_Bps < p->min_Bps ? p->min_Bps :
	       rate_Bps > p->max_Bps ? p->max_Bps : rate_Bps;
}

static inline void fast_init(struct fast_state *s, const struct fast_params *p)
{
	s->rate_Bps = p->init_Bps;
	s->last_ns = 0;
	s->base_rtt_ns = SWIFT_U32_MAX;
	s->acked_bytes = 0;
}

/* --- The equation ---------------------------------------------------------------- */

/* @x below 2^39: 3 Tbit/s. */
static inline u64 fast_part(u64 x, u64 fraction_q24)
{
	return x * fraction_q24 >> SWIFT_Q24_SHIFT;
}

/* F1: gamma times the time since the last update, in RTTs; at most gamma. */
static inline u64 fast_gain_q24(const struct fast_state *s, const struct fast_params *p,
				const struct fast_sample *in)
{
	u64 since_ns = in->now_ns - s->last_ns;

	if (since_ns >= in->rtt_ns)
		return p->gamma_q24;
	return SWIFT_DIV_U64(since_ns * p->gamma_q24, in->rtt_ns);
}

static inline u64 fast_next_Bps(const struct fast_state *s, const struct fast_params *p,
				const struct fast_sample *in)
{
	u64 gain_q24 = fast_gain_q24(s, p, in);
	u64 queued_ns = in->rtt_ns - s->base_rtt_ns; /* of the RTT */
	u64 queued_q24 = SWIFT_DIV_U64(queued_ns << SWIFT_Q24_SHIFT, in->rtt_ns);
	u64 queued_Bps = fast_part(s->rate_Bps, queued_q24);
	/* The line that moves the rate: up by alpha, down by what is queued of it. */
	u64 next_Bps = s->rate_Bps + fast_part(p->alpha_Bps, gain_q24) -
		       fast_part(queued_Bps, gain_q24);

	return next_Bps < 2 * s->rate_Bps ? next_Bps : 2 * s->rate_Bps;
}

/* Returns whether the ACK completed a segment, and so the rate was decided anew. */
static inline bool fast_on_ack(struct fast_state *s, const struct fast_params *p,
			       const struct fast_sample *in)
{
	u64 next_Bps;

	s->acked_bytes = swift_saturate_u32((u64)s->acked_bytes + in->acked_bytes);
	if (!in->rtt_ns)
		return false;
	s->base_rtt_ns = swift_min_u32(s->base_rtt_ns, in->rtt_ns); /* F2 */
	if (s->acked_bytes < p->seg_bytes)
		return false;
	s->acked_bytes = 0;

	next_Bps = fast_next_Bps(s, p, in);
	s->last_ns = in->now_ns;

	/* Section 5: an application that leaves the rate unused does not raise it. */
	if (next_Bps > s->rate_Bps && in->app_Bps < fast_part(s->rate_Bps, p->app_share_q24))
		next_Bps = s->rate_Bps;
	s->rate_Bps = fast_bound_Bps(p, next_Bps);
	return true;
}

/* F3. Once for each loss episode or timeout. */
static inline void fast_on_loss(struct fast_state *s, const struct fast_params *p)
{
	s->rate_Bps = fast_bound_Bps(p, s->rate_Bps / 2);
}

/*
 * TIMELY's static limit of what is outstanding (section 3.3), which does not bind while
 * the rate is obeyed. At least four packets: below, a delayed ACK would stop the flow.
 */
static inline u32 fast_cwnd_pkts(const struct fast_state *s, const struct fast_params *p,
				 u32 rtt_ns, u32 packet_bytes)
{
	u64 ns = 2ULL * rtt_ns > p->in_flight_ns ? 2ULL * rtt_ns : p->in_flight_ns;
	u64 bytes = SWIFT_DIV_U64(s->rate_Bps * SWIFT_DIV_U64(ns, 1000), 1000000);

	return swift_max_u32(swift_saturate_u32(SWIFT_DIV_U64(bytes, packet_bytes)), 4);
}

#endif /* SWIFT_CORE_FAST_H */
