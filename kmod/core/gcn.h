/* SPDX-License-Identifier: GPL-2.0 */
/*
 * GCN, to compare with: Google's DCTCP, of which Kumar et al. (SIGCOMM 2020, 4.1) say
 * that it reacts faster "by scaling its multiplicative decrease based on the current ECN
 * mark rate rather than an EWMA, and disabling delayed ACKs when receiving ECN-marked
 * data". The rest is DCTCP (Alizadeh et al., SIGCOMM 2010, section 3; RFC 8257). Pure
 * functions of (state, sample, parameters).
 *
 *   each ACK:    unmarked packets grow the window: w += acked up to ssthresh, and
 *                w += ai acked / w above; the first mark ends slow start
 *   each round:  F = marked / acked packets of that round;  w *= 1 - mdf F
 *   on loss:     w *= 1 - mdf, once a round;  timeout: w = 1, back to half by slow start
 *
 * Units: windows in packets as q16, fractions of one as q24 (fixed.h).
 *
 * What neither paper says:
 *
 * G1 F of "the current" round is known when the round is over: there the window is cut.
 *    DCTCP cuts at the first mark, by an average of the rounds before.
 * G2 A marked packet does not grow the window. DCTCP stops growing for the rest of the
 *    round.
 * G3 The window is whole packets when sent, at least one: below that GCN has no answer,
 *    which is what Swift's is compared with.
 * G4 One ACK raises a window above ssthresh by ai at most (see D3 of swift.h).
 */
#ifndef SWIFT_CORE_GCN_H
#define SWIFT_CORE_GCN_H

#include "fixed.h"

/* Row: X(name, default, minimum, maximum, "meaning, source"). */
#define GCN_TUNABLES(X)                                                                      \
	X(ai_milli, 1000, 1, 100000, "additive increase per RTT, 1/1000 packet")             \
	X(mdf_milli, 500, 1, 1000, "decrease when all packets are marked, 1/1000, RFC 8257") \
	X(max_cwnd, 4096, 1, 65535, "largest window, packets")

/* As the operator sets them. */
struct gcn_tunables {
#define GCN_X(name, def, lo, hi, doc) u32 name;
	GCN_TUNABLES(GCN_X)
#undef GCN_X
};

/* As the law uses them. Written by gcn_params_prepare() alone. */
struct gcn_params {
	u32 ai_q24;
	u32 mdf_q24;
	u32 max_cwnd_q16;
};

static inline void gcn_tunables_default(struct gcn_tunables *t)
{
#define GCN_X(name, def, lo, hi, doc) t->name = (def);
	GCN_TUNABLES(GCN_X)
#undef GCN_X
}

/* Returns a null pointer, or the name of the first tunable that is out of its range. */
static inline const char *gcn_params_prepare(struct gcn_params *p, const struct gcn_tunables *t)
{
#define GCN_X(name, def, lo, hi, doc)               \
	if (t->name > (hi) || t->name + 1 < (lo) + 1) \
		return #name;
	GCN_TUNABLES(GCN_X)
#undef GCN_X
	p->ai_q24 = (u32)swift_scale_q(t->ai_milli, 1000, SWIFT_Q24_SHIFT);
	p->mdf_q24 = (u32)swift_scale_q(t->mdf_milli, 1000, SWIFT_Q24_SHIFT);
	p->max_cwnd_q16 = t->max_cwnd << SWIFT_Q16_SHIFT;
	return (const char *)0;
}

/* --- State and samples --------------------------------------------------------- */

struct gcn_state {
	u32 cwnd_q16;
	u32 ssthresh_q16; /* all ones = no mark and no loss yet */
	u32 undo_cwnd_q16; /* before the latest loss */
	u32 round_end; /* sequence number that was next when the round began */
	u32 round_pkts; /* acked in this round */
	u32 round_marked; /* and of those, marked */
};

/* What one ACK tells. */
struct gcn_sample {
	u32 una; /* first unacknowledged sequence number, after this ACK */
	u32 nxt; /* next one to send */
	u32 acked_pkts; /* newly acked */
	u32 marked_pkts; /* of those, with the ACK's ECN echo */
	u8 cwnd_limited; /* the window, not the application, held the flow */
};

static inline u32 gcn_bound_cwnd(const struct gcn_params *p, u64 cwnd_q16)
{
	return swift_clamp_u32(swift_saturate_u32(cwnd_q16), SWIFT_Q16_ONE, p->max_cwnd_q16);
}

static inline u32 gcn_cwnd_pkts(const struct gcn_state *s)
{
	return s->cwnd_q16 >> SWIFT_Q16_SHIFT;
}

static inline void gcn_new_round(struct gcn_state *s, u32 nxt)
{
	s->round_end = nxt;
	s->round_pkts = 0;
	s->round_marked = 0;
}

static inline void gcn_init(struct gcn_state *s, const struct gcn_params *p, u32 cwnd_pkts, u32 nxt)
{
	s->cwnd_q16 = gcn_bound_cwnd(p, (u64)cwnd_pkts << SWIFT_Q16_SHIFT);
	s->ssthresh_q16 = SWIFT_U32_MAX;
	s->undo_cwnd_q16 = 0;
	gcn_new_round(s, nxt);
}

/* --- ACKs ----------------------------------------------------------------------- */

static inline void gcn_grow(struct gcn_state *s, const struct gcn_params *p, u32 pkts)
{
	u64 most_q16 = p->ai_q24 >> (SWIFT_Q24_SHIFT - SWIFT_Q16_SHIFT);
	u64 cwnd_q16 = s->cwnd_q16, step_q16;

	if (cwnd_q16 < s->ssthresh_q16) {
		cwnd_q16 += (u64)pkts << SWIFT_Q16_SHIFT;
		if (cwnd_q16 > s->ssthresh_q16)
			cwnd_q16 = s->ssthresh_q16;
	} else {
		step_q16 = SWIFT_DIV_U64((((u64)p->ai_q24 * swift_min_u32(pkts, 65535)) << 8) +
					 cwnd_q16 / 2, cwnd_q16);
		if (step_q16 > most_q16) /* G4 */
			step_q16 = most_q16;
		cwnd_q16 += step_q16 ? step_q16 : 1;
	}
	s->cwnd_q16 = gcn_bound_cwnd(p, cwnd_q16);
}

/* w *= 1 - fraction, and no slow start from there. */
static inline void gcn_cut(struct gcn_state *s, const struct gcn_params *p, u64 fraction_q24)
{
	/* The line that cuts the window. */
	s->cwnd_q16 = gcn_bound_cwnd(p, s->cwnd_q16 -
				     ((u64)s->cwnd_q16 * fraction_q24 >> SWIFT_Q24_SHIFT));
	s->ssthresh_q16 = s->cwnd_q16;
}

/* Returns whether the ACK ended a round with marks, and so the window was cut. */
static inline bool gcn_on_ack(struct gcn_state *s, const struct gcn_params *p,
			      const struct gcn_sample *in)
{
	u32 marked = swift_min_u32(in->marked_pkts, in->acked_pkts);
	bool cut;

	s->round_pkts = swift_saturate_u32((u64)s->round_pkts + in->acked_pkts);
	s->round_marked = swift_saturate_u32((u64)s->round_marked + marked);

	if (marked)
		s->ssthresh_q16 = swift_min_u32(s->ssthresh_q16, s->cwnd_q16);
	if (marked < in->acked_pkts && in->cwnd_limited)
		gcn_grow(s, p, in->acked_pkts - marked); /* G2 */

	if ((s32)(in->una - s->round_end) < 0)
		return false;
	cut = s->round_marked > 0;
	if (cut) /* G1: mdf F */
		gcn_cut(s, p, SWIFT_DIV_U64((u64)p->mdf_q24 * s->round_marked, s->round_pkts));
	gcn_new_round(s, in->nxt);
	return cut;
}

/* --- Loss ------------------------------------------------------------------------- */

/* At the start of a loss episode: what an undo would go back to. */
static inline void gcn_note_undo(struct gcn_state *s)
{
	s->undo_cwnd_q16 = s->cwnd_q16;
}

/* As a round in which all was marked; it answers the marks of the running one, too. */
static inline void gcn_on_loss(struct gcn_state *s, const struct gcn_params *p, u32 nxt)
{
	gcn_cut(s, p, p->mdf_q24);
	gcn_new_round(s, nxt);
}

/* RFC 5681, 3.1. A second one in a row finds one packet and keeps the threshold. */
static inline void gcn_on_timeout(struct gcn_state *s, const struct gcn_params *p, u32 nxt)
{
	if (s->cwnd_q16 > SWIFT_Q16_ONE)
		gcn_on_loss(s, p, nxt);
	s->cwnd_q16 = SWIFT_Q16_ONE;
}

/* The loss was none. */
static inline void gcn_undo(struct gcn_state *s, const struct gcn_params *p)
{
	s->cwnd_q16 = gcn_bound_cwnd(p, swift_max_u32(s->cwnd_q16, s->undo_cwnd_q16));
	s->ssthresh_q16 = swift_max_u32(s->ssthresh_q16, s->cwnd_q16);
}

/* RFC 2861: halved for each timeout's time of silence, down to @restart_pkts. */
static inline void gcn_on_idle_restart(struct gcn_state *s, const struct gcn_params *p,
				       u32 idle_rtos, u32 restart_pkts)
{
	u32 restart_q16 = gcn_bound_cwnd(p, (u64)restart_pkts << SWIFT_Q16_SHIFT);

	if (s->cwnd_q16 > restart_q16)
		s->cwnd_q16 = swift_max_u32(s->cwnd_q16 >> swift_min_u32(idle_rtos, 16),
					    restart_q16);
}

#endif /* SWIFT_CORE_GCN_H */
