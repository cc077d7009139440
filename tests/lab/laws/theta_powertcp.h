/* SPDX-License-Identifier: GPL-2.0 */
/*
 * theta-PowerTCP, to compare with: Algorithm 2 of Addanki, Michel and Schmid, "PowerTCP:
 * Pushing the Performance Limits of Datacenter Networks", NSDI 2022, section 3.5, the law
 * that needs delay alone, as pure functions of (state, sample, parameters).
 *
 *   each ACK:  power = (1 + d RTT / dt) RTT / tau
 *              smooth <- (smooth (tau - dt) + power dt) / tau
 *   once an RTT:  cwnd <- gamma (cwnd / smooth + beta) + (1 - gamma) cwnd
 *   rate = cwnd / tau
 *
 * tau is the base RTT, dt the time since the previous ACK, beta = host bandwidth tau / N
 * for N flows expected on a host's link. The first window is host bandwidth times tau.
 *
 * Units: time in ns, rates in bytes/s, windows in bytes, powers of one as q16.
 *
 * What the paper leaves open, or TCP asks for:
 *
 * P1 gamma is 0.9 (section 4) and N is 10, as in the module that its authors published
 *    (github.com/inet-tub/powertcp-linux); their simulator has 0.7 and adds 150 Mbit/s.
 * P2 dt counts as tau at most, and cwnd / smooth is 2 cwnd at most: as in that simulator.
 * P3 The window is host bandwidth times tau at most: more is a queue in the host.
 * P4 tau is what the operator says; or, of 0, the least RTT that the flow has seen, as in
 *    both of the authors' programs.
 * P5 The window that the acknowledged segment was sent with is the present one: an update
 *    is made by the first ACK of what was sent after the last update.
 * P6 A loss halves the window: the paper's fabric has none.
 */
#ifndef LAB_THETA_POWERTCP_H
#define LAB_THETA_POWERTCP_H

#include "core/fixed.h"

/* Row: X(name, default, minimum, maximum, "meaning, source"). */
#define THETA_TUNABLES(X)                                                                    \
	X(gamma_milli, 900, 1, 1000, "weight of an update, 1/1000, section 4")               \
	X(flows, 10, 1, 100000, "N: flows that are expected on a host's link, P1")           \
	X(host_mbps, 100000, 1, 1600000, "the NIC's rate, Mbit/s, section 3.5")              \
	X(base_rtt_ns, 0, 0, 1000000000, "tau, section 3.5; 0 = the least RTT seen")         \
	X(burst_pkts, 1, 1, 64, "packets sent at once, at most")                             \
	X(min_rate_mbps, 1, 1, 1600000, "smallest rate, Mbit/s")

/* As the operator sets them. */
struct theta_tunables {
#define THETA_X(name, def, lo, hi, doc) u32 name;
	THETA_TUNABLES(THETA_X)
#undef THETA_X
};

/* As the law uses them. Written by theta_params_prepare() alone. */
struct theta_params {
	u64 host_Bps;
	u64 min_Bps;
	u32 gamma_q16;
	u32 flows;
	u32 base_rtt_ns;
	u32 burst_pkts;
};

static inline void theta_tunables_default(struct theta_tunables *t)
{
#define THETA_X(name, def, lo, hi, doc) t->name = (def);
	THETA_TUNABLES(THETA_X)
#undef THETA_X
}

/*
 * Check @t and, if all of it is allowed, fill @p. Returns a null pointer, or the
 * name of the first tunable that is out of its range or contradicts another.
 */
static inline const char *theta_params_prepare(struct theta_params *p,
					       const struct theta_tunables *t)
{
	const u64 mbps = 1000000 / 8; /* bytes/s */

#define THETA_X(name, def, lo, hi, doc)               \
	if (t->name > (hi) || t->name + 1 < (lo) + 1) \
		return #name;
	THETA_TUNABLES(THETA_X)
#undef THETA_X
	if (t->min_rate_mbps > t->host_mbps)
		return "min_rate_mbps";

	p->host_Bps = t->host_mbps * mbps;
	p->min_Bps = t->min_rate_mbps * mbps;
	p->gamma_q16 = (u32)swift_scale_q(t->gamma_milli, 1000, SWIFT_Q16_SHIFT);
	p->flows = t->flows;
	p->base_rtt_ns = t->base_rtt_ns;
	p->burst_pkts = t->burst_pkts;
	return (const char *)0;
}

/* --- State and samples ------------------------------------------------------------ */

struct theta_state {
	u64 cwnd_bytes;
	u64 prev_ns; /* when the previous sample came */
	s64 smooth_q16; /* the power; signed, as a falling RTT's is */
	u32 prev_rtt_ns; /* 0 = none yet */
	u32 base_rtt_ns; /* 0 = not known yet */
	u32 updated_seq; /* what was sent next when the window was updated last */
};

/* What one ACK tells. */
struct theta_sample {
	u64 now_ns; /* monotonic */
	u32 rtt_ns; /* of the newest segment acked; 0 = none */
	u32 ack_seq;
	u32 next_seq; /* what is sent next */
};

/* 2^30 ns and 2^38 bytes/s at most: what @Bps sends in @ns. */
static inline u64 theta_bytes(u64 Bps, u32 ns)
{
	return SWIFT_DIV_U64(SWIFT_DIV_U64(Bps, 1000) * ns, 1000000);
}

static inline u64 theta_most_bytes(const struct theta_state *s, const struct theta_params *p)
{
	return theta_bytes(p->host_Bps, s->base_rtt_ns);
}

static inline u64 theta_bound_bytes(const struct theta_state *s, const struct theta_params *p,
				    u64 cwnd_bytes)
{
	u64 least = theta_bytes(p->min_Bps, s->base_rtt_ns), most = theta_most_bytes(s, p);

	least = least ? least : 1;
	most = most > least ? most : least;
	return cwnd_bytes < least ? least : cwnd_bytes > most ? most : cwnd_bytes;
}

/* @rtt_ns of the handshake; of 0 the window is @first_bytes until an RTT is known. */
static inline void theta_init(struct theta_state *s, const struct theta_params *p, u32 rtt_ns,
			      u32 first_bytes, u32 next_seq)
{
	s->base_rtt_ns = p->base_rtt_ns ? p->base_rtt_ns : rtt_ns;
	s->cwnd_bytes = s->base_rtt_ns ? theta_most_bytes(s, p) : first_bytes;
	s->prev_ns = 0;
	s->smooth_q16 = SWIFT_Q16_ONE;
	s->prev_rtt_ns = 0;
	s->updated_seq = next_seq;
}

/* --- Algorithm 2 ------------------------------------------------------------------- */

/* 16384 times the power of a full link without a queue. */
#define THETA_POWER_MAX_Q16 (1LL << 30)

static inline s64 theta_clip(s64 power_q16)
{
	return power_q16 > THETA_POWER_MAX_Q16 ? THETA_POWER_MAX_Q16 :
	       power_q16 < -THETA_POWER_MAX_Q16 ? -THETA_POWER_MAX_Q16 : power_q16;
}

/* x times y over z, with the sign of x; the product below 2^64. */
static inline s64 theta_scaled(s64 x, u64 y, u64 z)
{
	u64 size = SWIFT_DIV_U64((u64)(x < 0 ? -x : x) * y, z);

	return x < 0 ? -(s64)size : (s64)size;
}

/*
 * NORMPOWER of Algorithm 2. The power comes in times dt / tau, its weight:
 *
 *     (1 + dRTT / dt) RTT / tau  dt / tau  =  (dt + dRTT) / tau  RTT / tau
 *
 * so nothing is divided by dt, which may be a few ns.
 */
static inline void theta_feed_power(struct theta_state *s, const struct theta_sample *in)
{
	u64 since_ns = in->now_ns - s->prev_ns, tau_ns = s->base_rtt_ns;
	u64 dt_ns = since_ns < tau_ns ? since_ns : tau_ns; /* P2 */
	s64 change_ns = (s64)in->rtt_ns - s->prev_rtt_ns;
	s64 part_q16;

	if (!s->prev_rtt_ns) {
		s->smooth_q16 = theta_clip(theta_scaled(SWIFT_Q16_ONE, in->rtt_ns, tau_ns));
	} else {
		if (since_ns > tau_ns)
			change_ns = theta_scaled(change_ns, tau_ns, since_ns);
		part_q16 = theta_clip(theta_scaled((s64)dt_ns + change_ns, SWIFT_Q16_ONE, tau_ns));
		part_q16 = theta_clip(theta_scaled(part_q16, in->rtt_ns, tau_ns));
		part_q16 -= theta_scaled(s->smooth_q16, dt_ns, tau_ns);
		s->smooth_q16 = theta_clip(s->smooth_q16 + part_q16);
	}
	s->prev_ns = in->now_ns;
	s->prev_rtt_ns = in->rtt_ns;
}

/* Returns whether the window was decided anew. */
static inline bool theta_on_ack(struct theta_state *s, const struct theta_params *p,
				const struct theta_sample *in)
{
	u64 power_q16, next_bytes, beta_bytes;

	if (!in->rtt_ns)
		return false;
	if (!p->base_rtt_ns && (!s->base_rtt_ns || in->rtt_ns < s->base_rtt_ns)) /* P4 */
		s->base_rtt_ns = in->rtt_ns;
	theta_feed_power(s, in);
	if ((s32)(in->ack_seq - s->updated_seq) <= 0) /* P5 */
		return false;
	s->updated_seq = in->next_seq;

	/* P2 */
	power_q16 = s->smooth_q16 < SWIFT_Q16_ONE / 2 ? SWIFT_Q16_ONE / 2 : (u64)s->smooth_q16;
	beta_bytes = SWIFT_DIV_U64(theta_most_bytes(s, p), p->flows);
	next_bytes = SWIFT_DIV_U64(s->cwnd_bytes << SWIFT_Q16_SHIFT, power_q16) + beta_bytes;
	next_bytes = next_bytes * p->gamma_q16 +
		     s->cwnd_bytes * (SWIFT_Q16_ONE - p->gamma_q16);
	s->cwnd_bytes = theta_bound_bytes(s, p, next_bytes >> SWIFT_Q16_SHIFT);
	return true;
}

/* P6. Once for each loss episode or timeout. */
static inline void theta_on_loss(struct theta_state *s, const struct theta_params *p)
{
	if (s->base_rtt_ns)
		s->cwnd_bytes = theta_bound_bytes(s, p, s->cwnd_bytes / 2);
}

/* A window of 8 GB is no other than one of less. */
static inline u64 theta_rate_Bps(const struct theta_state *s, const struct theta_params *p)
{
	u64 cwnd_bytes = s->cwnd_bytes < 1ULL << 33 ? s->cwnd_bytes : 1ULL << 33;

	return s->base_rtt_ns ? SWIFT_DIV_U64(cwnd_bytes * 1000000000ULL, s->base_rtt_ns) :
				p->host_Bps;
}

/* At least four packets: below, a delayed ACK would stop the flow. The rate holds it. */
static inline u32 theta_cwnd_pkts(const struct theta_state *s, u32 packet_bytes)
{
	u64 pkts = SWIFT_DIV_U64(s->cwnd_bytes + packet_bytes - 1, packet_bytes);

	return swift_max_u32(swift_saturate_u32(pkts), 4);
}

#endif /* LAB_THETA_POWERTCP_H */
