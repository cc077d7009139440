/* SPDX-License-Identifier: GPL-2.0 */
/*
 * TIMELY, to compare with: Algorithm 1 and section 5 of Mittal et al., "TIMELY:
 * RTT-based Congestion Control for the Datacenter", SIGCOMM 2015, as pure functions
 * of (state, sample, parameters).
 *
 *   each segment:  rtt_diff <- (1 - alpha) rtt_diff + alpha (rtt - previous rtt)
 *                  g = rtt_diff / min_rtt
 *     rtt < t_low:   rate += delta
 *     rtt > t_high:  rate *= 1 - beta (1 - t_high / rtt)
 *     g <= 0:        rate += N delta;  N = hai_n once g < 0 for hai_events segments (HAI)
 *     g > 0:         rate *= 1 - beta g
 *
 * With `patched` the last two become one (Zhu et al., "ECN or Delay: Lessons Learnt
 * from Analysis of DCQCN and TIMELY", CoNEXT 2016, section 4.3), which gives TIMELY a
 * single fixed point; they use beta = 0.008:
 *     rate <- delta (1 - w) + rate (1 - beta w (rtt - rtt_ref) / rtt_ref)
 *     w = 0 for g <= -1/4, 1 for g >= 1/4, 2 g + 1/2 in between
 *
 * t_low = t_high is the queue-size approach of section 4.4.
 *
 * Units: time in ns, rates in bytes/s, fractions of one as q24 (fixed.h).
 *
 * What the paper leaves open, or TCP asks for:
 *
 * T1 Section 5 scales an update by the segments in a min_rtt. We take the time since
 *    the last one, over min_rtt, at most 1; and leave the decrease by gradient alone,
 *    because g shrinks with that time by itself. Both as in the code that the authors
 *    published (timely-code-snippet.cc).
 * T2 No update takes more than max_mdf of the rate; as in that code.
 * T3 The first segment has no previous rtt: its difference is 0.
 * T4 A rtt_diff below 1/16 ns is 0, so that a constant RTT has gradient 0 in the end.
 * T5 TIMELY ran on a fabric without loss. Here a loss takes max_mdf of the rate.
 */
#ifndef SWIFT_CORE_TIMELY_H
#define SWIFT_CORE_TIMELY_H

#include "fixed.h"

/* --- Tunables ------------------------------------------------------------------ */

/* Row: X(name, default, minimum, maximum, "meaning, source"). Rates as the paper gives them. */
#define TIMELY_TUNABLES(X)                                                                   \
	X(t_low_ns, 50000, 0, 1000000000, "RTT below which the rate only grows, 4.3")        \
	X(t_high_ns, 500000, 1000, 1000000000, "RTT above which it only shrinks, 4.3")       \
	X(min_rtt_ns, 20000, 1000, 1000000000, "wire RTT, norm of the gradient, 4.3")        \
	X(delta_mbps, 10, 1, 10000, "additive increment, Mbit/s, 4.3")                       \
	X(beta_milli, 800, 1, 1000, "multiplicative decrement, 1/1000, 4.3")                 \
	X(alpha_milli, 20, 1, 1000, "weight of a new RTT difference, 1/1000; authors' code") \
	X(hai_n, 5, 1, 255, "increments at once in HAI, Algorithm 1; 1 = no HAI")            \
	X(hai_events, 5, 1, 255, "segments of falling RTT that start HAI, Algorithm 1")      \
	X(max_mdf_milli, 500, 1, 1000, "largest decrease at once, 1/1000; authors' code")    \
	X(seg_bytes, 16384, 512, 65536, "acknowledged bytes per update, section 6")          \
	X(app_share_milli, 800, 0, 1000,                                                     \
	  "part of the rate that must be used for it to grow, 1/1000, section 5")            \
	X(min_rate_mbps, 1, 1, 400000, "smallest rate, Mbit/s")                              \
	X(max_rate_mbps, 10000, 1, 400000, "largest rate, Mbit/s: the line's, section 5")    \
	X(init_rate_mbps, 1000, 1, 400000, "rate of a new flow, Mbit/s")                     \
	X(patched, 0, 0, 1, "1 = patched TIMELY; its authors set beta_milli to 8")           \
	X(rtt_ref_ns, 50000, 1000, 1000000000, "RTT_ref of patched TIMELY, as t_low_ns")

/* As the operator sets them. */
struct timely_tunables {
#define TIMELY_X(name, def, lo, hi, doc) u32 name;
	TIMELY_TUNABLES(TIMELY_X)
#undef TIMELY_X
};

/* As the law uses them. Written by timely_params_prepare() alone. */
struct timely_params {
	u64 delta_Bps;
	u64 hai_delta_Bps; /* N delta */
	u64 min_Bps;
	u64 max_Bps;
	u64 init_Bps;
	u32 t_low_ns;
	u32 t_high_ns;
	u32 min_rtt_ns;
	u32 rtt_ref_ns;
	u32 alpha_q24;
	u32 beta_q24;
	u32 max_mdf_q24;
	u32 app_share_q24;
	u32 seg_bytes;
	u32 hai_events;
	u32 patched;
};

static inline void timely_tunables_default(struct timely_tunables *t)
{
#define TIMELY_X(name, def, lo, hi, doc) t->name = (def);
	TIMELY_TUNABLES(TIMELY_X)
#undef TIMELY_X
}

/*
 * Check @t and, if all of it is allowed, fill @p. Returns a null pointer, or the
 * name of the first tunable that is out of its range or contradicts another.
 */
static inline const char *timely_params_prepare(struct timely_params *p,
						const struct timely_tunables *t)
{
	const u64 mbps = 1000000 / 8; /* bytes/s */

#define TIMELY_X(name, def, lo, hi, doc)            \
	if (t->name > (hi) || t->name + 1 < (lo) + 1) \
		return #name;
	TIMELY_TUNABLES(TIMELY_X)
#undef TIMELY_X
	if (t->t_high_ns < t->t_low_ns)
		return "t_high_ns";
	if (t->max_rate_mbps < t->min_rate_mbps)
		return "max_rate_mbps";
	if (t->init_rate_mbps < t->min_rate_mbps || t->init_rate_mbps > t->max_rate_mbps)
		return "init_rate_mbps";

	p->delta_Bps = t->delta_mbps * mbps;
	p->hai_delta_Bps = t->hai_n * p->delta_Bps;
	p->min_Bps = t->min_rate_mbps * mbps;
	p->max_Bps = t->max_rate_mbps * mbps;
	p->init_Bps = t->init_rate_mbps * mbps;
	p->t_low_ns = t->t_low_ns;
	p->t_high_ns = t->t_high_ns;
	p->min_rtt_ns = t->min_rtt_ns;
	p->rtt_ref_ns = t->rtt_ref_ns;
	p->alpha_q24 = (u32)swift_scale_q(t->alpha_milli, 1000, SWIFT_Q24_SHIFT);
	p->beta_q24 = (u32)swift_scale_q(t->beta_milli, 1000, SWIFT_Q24_SHIFT);
	p->max_mdf_q24 = (u32)swift_scale_q(t->max_mdf_milli, 1000, SWIFT_Q24_SHIFT);
	p->app_share_q24 = (u32)swift_scale_q(t->app_share_milli, 1000, SWIFT_Q24_SHIFT);
	p->seg_bytes = t->seg_bytes;
	p->hai_events = t->hai_events;
	p->patched = t->patched;
	return (const char *)0;
}

/* --- State and samples --------------------------------------------------------- */

struct timely_state {
	u64 rate_Bps;
	u64 last_ns; /* of the latest update */
	s64 rtt_diff_q4; /* EWMA, 1/16 ns */
	u32 prev_rtt_ns; /* 0 = none yet */
	u32 acked_bytes; /* since the latest update */
	u32 falling; /* segments in a row with g < 0, counted up to hai_events */
};

/* What one ACK tells. */
struct timely_sample {
	u64 now_ns; /* monotonic */
	u64 app_Bps; /* what the application sends; all ones = what it may */
	u32 rtt_ns; /* of the newest segment acked; 0 = none */
	u32 acked_bytes;
};

static inline u64 timely_bound_Bps(const struct timely_params *p, u64 rate_Bps)
{
	return rate_Bps < p->min_Bps ? p->min_Bps :
	       rate_Bps > p->max_Bps ? p->max_Bps : rate_Bps;
}

static inline void timely_init(struct timely_state *s, const struct timely_params *p)
{
	s->rate_Bps = p->init_Bps;
	s->last_ns = 0;
	s->rtt_diff_q4 = 0;
	s->prev_rtt_ns = 0;
	s->acked_bytes = 0;
	s->falling = 0;
}

/* --- Algorithm 1 --------------------------------------------------------------- */

/* @x below 2^39: 3 Tbit/s. */
static inline u64 timely_part(u64 x, u64 fraction_q24)
{
	return x * fraction_q24 >> SWIFT_Q24_SHIFT;
}

/* What is left of a rate that loses @fraction_q24, which may be above one. */
static inline u64 timely_less_Bps(u64 rate_Bps, u64 fraction_q24)
{
	return fraction_q24 < SWIFT_Q24_ONE ? rate_Bps - timely_part(rate_Bps, fraction_q24) : 0;
}

/* rtt_diff and its sign; rounded towards zero (T4). */
static inline void timely_feed_gradient(struct timely_state *s, const struct timely_params *p,
					u32 rtt_ns)
{
	u32 prev_ns = s->prev_rtt_ns ? s->prev_rtt_ns : rtt_ns; /* T3 */
	s64 diff_q4 = ((s64)rtt_ns - (s64)prev_ns) * 16;
	s64 one_q24 = SWIFT_Q24_ONE, alpha_q24 = p->alpha_q24;
	s64 sum_q28 = (one_q24 - alpha_q24) * s->rtt_diff_q4 + alpha_q24 * diff_q4;

	/* Not a division: BPF has no signed one. */
	s->rtt_diff_q4 = sum_q28 < 0 ? -(s64)((u64)-sum_q28 >> SWIFT_Q24_SHIFT) :
				       (s64)((u64)sum_q28 >> SWIFT_Q24_SHIFT);
	s->prev_rtt_ns = rtt_ns;

	if (s->rtt_diff_q4 >= 0)
		s->falling = 0;
	else if (s->falling < p->hai_events)
		s->falling++;
}

/* |g| times @by_q24. */
static inline u64 timely_gradient_q24(const struct timely_state *s, const struct timely_params *p,
				      u32 by_q24)
{
	u64 diff_q4 = (u64)(s->rtt_diff_q4 < 0 ? -s->rtt_diff_q4 : s->rtt_diff_q4);

	return SWIFT_DIV_U64(diff_q4 * by_q24, (u64)p->min_rtt_ns << 4);
}

/* Patched TIMELY between t_low and t_high. */
static inline u64 timely_patched_Bps(const struct timely_state *s, const struct timely_params *p,
				     u32 rtt_ns, u32 share_q24)
{
	u32 half_q24 = SWIFT_Q24_ONE / 2;
	u32 twice_g_q24 = swift_saturate_u32(2 * timely_gradient_q24(s, p, SWIFT_Q24_ONE));
	u32 away_q24 = swift_min_u32(twice_g_q24, half_q24);
	u32 w_q24 = s->rtt_diff_q4 < 0 ? half_q24 - away_q24 : half_q24 + away_q24;
	u64 beta_w_q24 = timely_part(timely_part(p->beta_q24, w_q24), share_q24);
	u64 grown_Bps = s->rate_Bps + timely_part(timely_part(p->delta_Bps, SWIFT_Q24_ONE - w_q24),
						  share_q24);

	if (rtt_ns < p->rtt_ref_ns)
		return grown_Bps + timely_part(s->rate_Bps,
					       SWIFT_DIV_U64(beta_w_q24 * (p->rtt_ref_ns - rtt_ns),
							     p->rtt_ref_ns));
	/* The line that cuts the rate of patched TIMELY. */
	return grown_Bps - s->rate_Bps +
	       timely_less_Bps(s->rate_Bps, SWIFT_DIV_U64(beta_w_q24 * (rtt_ns - p->rtt_ref_ns),
							  p->rtt_ref_ns));
}

/* @share_q24: how much of an update this is (T1). */
static inline u64 timely_next_Bps(const struct timely_state *s, const struct timely_params *p,
				  u32 rtt_ns, u32 share_q24)
{
	if (rtt_ns < p->t_low_ns)
		return s->rate_Bps + timely_part(p->delta_Bps, share_q24);

	if (rtt_ns > p->t_high_ns) /* The line that cuts the rate at a long RTT. */
		return timely_less_Bps(s->rate_Bps,
				       SWIFT_DIV_U64((u64)timely_part(p->beta_q24, share_q24) *
						     (rtt_ns - p->t_high_ns), rtt_ns));
	if (p->patched)
		return timely_patched_Bps(s, p, rtt_ns, share_q24);

	if (s->rtt_diff_q4 <= 0)
		return s->rate_Bps + timely_part(s->falling >= p->hai_events ? p->hai_delta_Bps :
									       p->delta_Bps,
						 share_q24);

	/* The line that cuts the rate at a rising RTT. */
	return timely_less_Bps(s->rate_Bps, timely_gradient_q24(s, p, p->beta_q24));
}

/* T1: the time since the last update, in min_rtt; at most one. */
static inline u32 timely_share_q24(const struct timely_state *s, const struct timely_params *p,
				   u64 now_ns)
{
	u64 since_ns = now_ns - s->last_ns;

	if (since_ns >= p->min_rtt_ns)
		return SWIFT_Q24_ONE;
	return (u32)SWIFT_DIV_U64(since_ns << SWIFT_Q24_SHIFT, p->min_rtt_ns);
}

/* Returns whether the ACK completed a segment, and so the rate was decided anew. */
static inline bool timely_on_ack(struct timely_state *s, const struct timely_params *p,
				 const struct timely_sample *in)
{
	u64 next_Bps, least_Bps = timely_less_Bps(s->rate_Bps, p->max_mdf_q24); /* T2 */

	s->acked_bytes = swift_saturate_u32((u64)s->acked_bytes + in->acked_bytes);
	if (!in->rtt_ns || s->acked_bytes < p->seg_bytes)
		return false;
	s->acked_bytes = 0;

	timely_feed_gradient(s, p, in->rtt_ns);
	next_Bps = timely_next_Bps(s, p, in->rtt_ns, timely_share_q24(s, p, in->now_ns));
	s->last_ns = in->now_ns;

	/* Section 5: an application that leaves the rate unused does not raise it. */
	if (next_Bps > s->rate_Bps && in->app_Bps < timely_part(s->rate_Bps, p->app_share_q24))
		next_Bps = s->rate_Bps;
	s->rate_Bps = timely_bound_Bps(p, next_Bps > least_Bps ? next_Bps : least_Bps);
	return true;
}

/* T5. Once for each loss episode or timeout. */
static inline void timely_on_loss(struct timely_state *s, const struct timely_params *p)
{
	s->rate_Bps = timely_bound_Bps(p, timely_less_Bps(s->rate_Bps, p->max_mdf_q24));
}

/*
 * Section 3.3: "we limit the volume of outstanding data to a static worst-case limit".
 * A window that does not bind while the rate is obeyed: twice what the rate sends in an
 * RTT, or in t_high, which is where a short RTT may be a moment later. At least four
 * packets: below, a delayed ACK would stop the flow, and the window would pace it.
 */
static inline u32 timely_cwnd_pkts(const struct timely_state *s, const struct timely_params *p,
				   u32 rtt_ns, u32 packet_bytes)
{
	u64 us = SWIFT_DIV_U64(swift_max_u32(rtt_ns, p->t_high_ns), 1000);
	u64 bytes = SWIFT_DIV_U64(s->rate_Bps * 2 * us, 1000000);

	return swift_max_u32(swift_saturate_u32(SWIFT_DIV_U64(bytes, packet_bytes)), 4);
}

#endif /* SWIFT_CORE_TIMELY_H */
