/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The Swift law: Algorithm 1 and sections 3.2 to 3.6 of Kumar et al., "Swift:
 * Delay is Simple and Effective for Congestion Control in the Datacenter",
 * SIGCOMM 2020, as pure functions of (state, sample, parameters). No socket, no
 * clock, no allocation: time is an argument.
 *
 *   on ACK:      endpoint = EWMA(remote + local);  fabric = rtt - (remote + local)
 *                fcwnd <- react(fcwnd, fabric, base + hops * h + scaling(fcwnd) + noise)
 *                ecwnd <- react(ecwnd, endpoint, endpoint target + scaling(ecwnd) + own)
 *                cwnd = min(fcwnd, ecwnd), each between min_cwnd and max_cwnd
 *   react:       delay < target:  w += ai * acked / w       (w >= 1)
 *                                 w += ai * acked           (w < 1, or a flow that begins)
 *                                 down to half of that where w < 4 (D15)
 *                else, once an RTT:  w *= max(1 - beta (delay - target) / delay,
 *                                             1 - max_mdf)
 *                fcwnd < 4: in proportion to the distance from the target, both ways (D16);
 *                above, near the target, by no more up than down (D17)
 *   on loss:     once an RTT, w *= 1 - max_mdf; the retx_reset_threshold-th
 *                timeout in a row: w = min_cwnd
 *   sending:     w >= 1: w packets in flight, unpaced.  w < 1: a packet each rtt / w (D16)
 *
 * Units: time in ns, windows in packets as q16 (fixed.h), parameters as prepared
 * by swift_params.h.
 *
 * D1 to D22 below are deviations from the letter of the paper: Documentation/paper.md has
 * them all, with their reasons.
 */
#ifndef SWIFT_CORE_SWIFT_H
#define SWIFT_CORE_SWIFT_H

#include "fixed.h"
#include "swift_params.h"

#define SWIFT_CEILING 32

/*
 * Hops that the target honours. A path through a datacenter has 1 to 7 routers;
 * a peer that claims 63 may not buy itself a longer queue.
 */
#define SWIFT_HOPS_MAX 16

/* One window of Algorithm 1. */
struct swift_window {
	u32 last_decrease_ns; /* t_last_decrease, low half; 0 = never */
	u32 cwnd_q16;
	u32 undo_cwnd_q16; /* before the latest loss episode */
};

/* What delays fell to in the last rtt_window (at least its newer half), in two buckets. */
struct swift_base {
	u64 since_ns; /* when delay_ns[0] began to fill */
	u32 delay_ns[2]; /* current and previous half window; all ones = none */
};

struct swift_state {
	struct swift_window fabric; /* fcwnd; the only window of Swift-v0 */
	struct swift_window endpoint; /* ecwnd */
	struct swift_base base; /* of the fabric delay */
	u32 endpoint_ns; /* EWMA */
	u32 fabric_ns; /* EWMA (D14, D16); the newest where there is no noise; 0 = none yet */
	u32 noise_ns; /* EWMA of what a sample differs from it by */
	u16 turns_16ns; /* EWMA of what the delay turns back by, from round to round (D18) */
	u16 round_4us; /* when this round began, by a clock that wraps */
	u16 delay_256ns[2]; /* the first of this round, and of the one before; 0 = none */
	u16 own_64ns; /* what the host takes by itself (D20) */
	u8 retx_cnt; /* timeouts since the last ACK */
	u8 has_endpoint : 1; /* endpoint_ns was fed */
	u8 starting : 1; /* begins, or begins anew: no delay reached its target yet (D12) */
	u8 small : 2; /* enum swift_small (D16) */
	u8 own_queue : 4; /* how often the host's own link has one (D18) */
};

/* Where a small window's mean delay is. */
enum swift_small {
	SWIFT_NOT_SMALL,
	SWIFT_SMALL_AWAY,
	SWIFT_SMALL_NEAR, /* its target */
};

/* What one ACK tells. */
struct swift_sample {
	u64 now_ns; /* monotonic, the same clock in all calls for a flow */
	u32 rtt_ns; /* t6 - t1 of the newest segment acked; 0 = none (D4) */
	u32 remote_ns; /* t4 - t2, as echoed */
	u32 local_ns; /* t6 - t5 */
	u32 acked_pkts; /* packets newly acked */
	u8 hops; /* routers on the forward path; 0 = unknown */
	u8 echo_expected; /* an echo was negotiated */
	u8 has_echo; /* and this ACK carries it */
	u8 cwnd_limited; /* the window, not the application, held the flow (D2) */
	u32 path_base_ns; /* smallest of the host's flows on this path; 0 = unknown (D10) */
	u32 path_least_ns; /* and the smallest of all that it ever saw; 0 = unknown (D22) */
	u8 short_sized; /* rtt_ns is not known to be of a full packet (D7) */
	u8 own_queue; /* packets wait for this host's own link; swift_asks_own_queue() (D18) */
};

enum swift_action {
	SWIFT_NO_SAMPLE, /* no RTT: nothing decided */
	SWIFT_HOLD, /* not cwnd limited, or decreased less than an RTT ago */
	SWIFT_INCREASE,
	SWIFT_DECREASE,
};

/* What was made of it; for tracing, statistics and tests. */
struct swift_verdict {
	u32 fabric_ns; /* of this ACK, before the filter */
	u32 endpoint_ns; /* as well */
	u32 fabric_target_ns;
	u32 endpoint_target_ns; /* with D19's and D20's parts where they decide; v0: 0 */
	u32 base_sample_ns; /* what the base learnt from, for others on this path; 0 = nothing */
	u32 base_luck_ns; /* how much of a smaller one may be luck, swift_base_feed() */
	u8 fabric_action; /* enum swift_action */
	u8 endpoint_action;
	u8 clamped; /* the delays claimed exceeded the RTT */
};

static inline u32 swift_cwnd_q16(const struct swift_state *s)
{
	return swift_min_u32(s->fabric.cwnd_q16, s->endpoint.cwnd_q16);
}

static inline u32 swift_bound_cwnd(const struct swift_params *p, u64 cwnd_q16)
{
	return cwnd_q16 > p->max_cwnd_q16 ? p->max_cwnd_q16 :
	       swift_max_u32((u32)cwnd_q16, p->min_cwnd_q16);
}

/* --- The smallest delay (D7) ---------------------------------------------------- */

static inline void swift_base_init(struct swift_base *b)
{
	b->since_ns = 0;
	b->delay_ns[0] = SWIFT_U32_MAX;
	b->delay_ns[1] = SWIFT_U32_MAX;
}

static inline u32 swift_base_ns(const struct swift_base *b)
{
	return swift_min_u32(b->delay_ns[0], b->delay_ns[1]);
}

/* A base that CPUs share may have been turned by one whose ACK came later than ours. */
static inline u64 swift_base_age_ns(const struct swift_base *b, u64 now_ns)
{
	return (s64)(now_ns - b->since_ns) < 0 ? 0 : now_ns - b->since_ns;
}

/*
 * What is least of all delays is luck where hosts are noisy: hosts that had less of it would have
 * longer targets, and starve the others. Of what a delay is smaller by @luck_ns may be luck, and
 * counts an eighth; what is more counts half.
 */
#define SWIFT_BASE_LUCK_SHIFT 3

SWIFT_INLINE void swift_base_feed(struct swift_base *b, const struct swift_params *p,
				  u64 now_ns, u32 delay_ns, u32 luck_ns)
{
	u64 age_ns = swift_base_age_ns(b, now_ns);
	u32 less_ns;

	if (age_ns >= p->rtt_window_ns / 2) {
		/* After a long silence neither bucket speaks of today's path. */
		b->delay_ns[1] = age_ns >= p->rtt_window_ns ? SWIFT_U32_MAX : b->delay_ns[0];
		b->delay_ns[0] = SWIFT_U32_MAX;
		b->since_ns = now_ns;
	}
	if (b->delay_ns[0] == SWIFT_U32_MAX) {
		b->delay_ns[0] = delay_ns;
	} else if (delay_ns < b->delay_ns[0]) {
		less_ns = b->delay_ns[0] - delay_ns;
		luck_ns = swift_min_u32(luck_ns, less_ns);
		b->delay_ns[0] -= swift_max_u32((less_ns - luck_ns) / 2 +
						(luck_ns >> SWIFT_BASE_LUCK_SHIFT), 1);
	}
}

/*
 * A short packet is on each link for less time than a full one: it may tell of a longer path, not
 * of a shorter one. At 1 Gb/s a packet of 9000 bytes alone takes 144 us over two links, and who
 * goes by the last piece of a message has a target that no full packet ever meets.
 */
static inline u32 swift_base_sample_ns(const struct swift_base *b, u32 delay_ns, bool short_sized)
{
	u32 base_ns = swift_base_ns(b);

	if (!short_sized || base_ns == SWIFT_U32_MAX)
		return delay_ns;
	return swift_max_u32(base_ns, delay_ns);
}

/* --- A flow ---------------------------------------------------------------------- */

/* A new flow. @init_cwnd_pkts: its route's initcwnd, or 0 for the parameter. */
static inline void swift_init(struct swift_state *s, const struct swift_params *p,
			      u32 init_cwnd_pkts)
{
	u32 init_q16 = init_cwnd_pkts ?
		swift_min_u32(init_cwnd_pkts, 65535) << SWIFT_Q16_SHIFT : p->init_cwnd_q16;
	struct swift_window w = {
		.last_decrease_ns = 0,
		.cwnd_q16 = swift_bound_cwnd(p, init_q16),
		.undo_cwnd_q16 = 0,
	};

	s->fabric = w;
	s->endpoint = w;
	swift_base_init(&s->base);
	s->endpoint_ns = 0;
	s->fabric_ns = 0;
	s->noise_ns = 0;
	s->turns_16ns = 0;
	s->round_4us = 0;
	s->delay_256ns[0] = 0;
	s->delay_256ns[1] = 0;
	s->retx_cnt = 0;
	s->own_64ns = 0;
	s->has_endpoint = 0;
	s->starting = 1;
	s->small = SWIFT_NOT_SMALL;
	s->own_queue = 0;
}

/* Noise (D14) alone may set two delays apart by twice as much: D7's luck, and D17's reach. */
SWIFT_INLINE u32 swift_luck_ns(const struct swift_state *s)
{
	return swift_saturate_u32(2ULL * s->noise_ns);
}

/*
 * How much of a smaller delay may be luck, for swift_base_feed(). Only one policy knows the noise;
 * and who sends less than two packets an RTT hears rarely, and would believe a queue for seconds.
 */
#define SWIFT_BASE_LUCK_CWND 2

SWIFT_INLINE u32 swift_base_luck_ns(const struct swift_state *s, const struct swift_params *p)
{
	if (p->target_policy != SWIFT_TARGET_BASE_RTT_PLUS ||
	    swift_cwnd_q16(s) < SWIFT_BASE_LUCK_CWND * SWIFT_Q16_ONE)
		return 0;
	return swift_luck_ns(s);
}

/*
 * D10: the handshake crossed the path before the flow put anything into it. Its packets
 * are small: a full one takes longer, by its time on this host's link and on one like it.
 * Flows of many hosts have the same base only if they allow for the same: where they do
 * not know their links, for 1 Gb/s. @link_mbps: 0 = unknown. And until a flow knows how noisy
 * hosts are (D14), it takes an eighth of that for noise, as TCP does half of its first RTT.
 * Returns what the base learnt from, for others on this path.
 */
#define SWIFT_HANDSHAKE_LINKS 2
#define SWIFT_HANDSHAKE_MBPS 1000
#define SWIFT_HANDSHAKE_NOISE_SHIFT 3

static inline u32 swift_on_handshake(struct swift_state *s, const struct swift_params *p,
				     u64 now_ns, u32 rtt_ns, u32 mss_bytes, u32 link_mbps)
{
	u32 bits = swift_min_u32(mss_bytes, 65535) * 8 * SWIFT_HANDSHAKE_LINKS;
	u32 base_ns = swift_saturate_u32((u64)(bits * 1000 / (link_mbps ? link_mbps :
							       SWIFT_HANDSHAKE_MBPS)) +
					 rtt_ns);

	swift_base_feed(&s->base, p, now_ns, base_ns, 0);
	s->noise_ns = base_ns >> SWIFT_HANDSHAKE_NOISE_SHIFT;
	return base_ns;
}

/* --- Flow scaling (3.5) ---------------------------------------------------------- */

/* max(0, min(alpha / sqrt(fcwnd) + beta, fs_range)) */
SWIFT_INLINE u32 swift_flow_scaling_ns(const struct swift_params *p, u32 fcwnd_q16)
{
	u64 add_ns;

	if (fcwnd_q16 <= p->fs_min_cwnd_q16)
		return p->fs_range_ns;
	if (fcwnd_q16 >= p->fs_max_cwnd_q16)
		return 0;
	add_ns = swift_fs_add_q8(p, fcwnd_q16) >> 8;
	if (add_ns <= p->fs_beta_ns)
		return 0;
	return swift_min_u32((u32)(add_ns - p->fs_beta_ns), p->fs_range_ns);
}

/* --- Noise of hosts (D14) --------------------------------------------------------- */

/*
 * An interrupt or a softirq that comes late is in the fabric's delay where stamps are
 * software's, and tells nothing of the fabric. What a sample differs from the average by is
 * taken for such noise: it is averaged out, and has room in the target. Where there is little
 * of it, the law is the paper's. A single delay that is out of all proportion (a host that
 * was away for a millisecond) counts as four times the noise, in both.
 */
#define SWIFT_NOISE_SHIFT 6 /* it is of about 64 samples */
#define SWIFT_NOISE_OUTLIER 4
#define SWIFT_NOISE_LEAST_NS 1024 /* what one sample may always count as */
#define SWIFT_NOISE_HALVES 5 /* of it are room, at most */
#define SWIFT_NOISE_NONE_LOG2 10 /* 1024 packets have none, and a half more for each halving */
#define SWIFT_NOISE_MORE 3 /* of what is above a quarter of rtt_epsilon, a third counts */
#define SWIFT_NOISE_CWND_Q16 (3 * SWIFT_Q16_ONE) /* there it is no more than rtt_epsilon */
#define SWIFT_FILTER_SHIFT_MAX 4 /* the filter remembers 16 samples at most */
#define SWIFT_FILTER_NOISE 4 /* quarters of rtt_epsilon */
#define SWIFT_FILTER_CWND_SHIFT 3 /* an eighth of the window */

static inline u32 swift_noise_most_ns(const struct swift_state *s)
{
	return swift_saturate_u32((u64)s->noise_ns * SWIFT_NOISE_OUTLIER + SWIFT_NOISE_LEAST_NS);
}

static inline void swift_noise_feed(struct swift_state *s, u32 differs_by_ns)
{
	if (differs_by_ns >= s->noise_ns)
		s->noise_ns += (differs_by_ns - s->noise_ns) >> SWIFT_NOISE_SHIFT;
	else
		s->noise_ns -= (s->noise_ns - differs_by_ns) >> SWIFT_NOISE_SHIFT;
}

/* How many quarters of rtt_epsilon the noise has. */
SWIFT_INLINE u64 swift_noise_quarters(const struct swift_state *s, const struct swift_params *p)
{
	if (!p->rtt_epsilon_ns)
		return SWIFT_FILTER_SHIFT_MAX;
	return SWIFT_DIV_U64((u64)s->noise_ns * SWIFT_FILTER_NOISE, p->rtt_epsilon_ns);
}

/*
 * Twice as many samples for each of them, and as many as an eighth of the window has packets, but
 * no more than all of it: where interrupts come late and together, so do ACKs and what they let
 * go, and the newest packet of such a bunch is not what all of it met.
 */
SWIFT_INLINE u32 swift_filter_shift(const struct swift_state *s, u64 quarters)
{
	u32 cwnd_q16 = swift_max_u32(s->fabric.cwnd_q16, SWIFT_Q16_ONE);
	u32 cwnd_log2 = (swift_log2_q8(cwnd_q16) >> 8) - SWIFT_Q16_SHIFT;
	u64 shift = quarters;

	if (cwnd_log2 > shift + SWIFT_FILTER_CWND_SHIFT)
		shift = cwnd_log2 - SWIFT_FILTER_CWND_SHIFT;
	if (shift > cwnd_log2)
		shift = cwnd_log2;
	return shift < SWIFT_FILTER_SHIFT_MAX ? (u32)shift : SWIFT_FILTER_SHIFT_MAX;
}

/*
 * D16, see swift_small_react(): a window of less than four packets that does not begin, and
 * whose base is learnt. alpha / sqrt(w) is what it goes by: what flow scaling moves the target
 * by where the window halves or doubles or so.
 */
#define SWIFT_SMALL_CWND 4
#define SWIFT_SMALL_NEAR_SHIFT 2 /* a quarter of that */
#define SWIFT_SMALL_MEAN_SHIFT 3 /* fabric_ns is the mean of about eight delays */

SWIFT_INLINE u32 swift_small_scale_ns(const struct swift_params *p, u32 cwnd_q16)
{
	u32 above_q16 = swift_max_u32(cwnd_q16, p->fs_min_cwnd_q16);

	return swift_saturate_u32(swift_fs_add_q8(p, above_q16) >> 8);
}

/* That scale, or 0: the window is not small. */
SWIFT_INLINE u32 swift_small_ns(const struct swift_state *s, const struct swift_params *p)
{
	if (p->target_policy != SWIFT_TARGET_BASE_RTT_PLUS || s->starting ||
	    s->fabric.cwnd_q16 >= SWIFT_SMALL_CWND * SWIFT_Q16_ONE)
		return 0;
	return swift_small_scale_ns(p, s->fabric.cwnd_q16);
}

/*
 * D18: what hosts add is another delay each round, so that the delay turns back at two rounds of
 * three; a queue that fills and drains goes one way for rounds. Of a turn counts the smaller of
 * its two sides, and no more than the noise. What is further apart than 3 ms may be two queues.
 */
#define SWIFT_TURNS_SHIFT 5 /* it is of about 32 rounds */
#define SWIFT_TURNS_APART_4US 768
#define SWIFT_TURNS_ROUND_SHIFT 12 /* 4 us */
#define SWIFT_TURNS_DELAY_SHIFT 8 /* 256 ns */
#define SWIFT_TURNS_UNIT_SHIFT 4 /* 16 ns */
#define SWIFT_TURNS_LEAST_16NS 64 /* what one turn may always count as */

SWIFT_INLINE void swift_turns_feed(struct swift_state *s, const struct swift_sample *in,
				   u32 delay_ns)
{
	u16 round_4us = (u16)(in->now_ns >> SWIFT_TURNS_ROUND_SHIFT);
	u16 apart_4us = (u16)(round_4us - s->round_4us);
	u32 delay_256ns = swift_min_u32(swift_max_u32(delay_ns >> SWIFT_TURNS_DELAY_SHIFT, 1),
					65535);
	u32 last_256ns = s->delay_256ns[0], before_256ns = s->delay_256ns[1];
	bool below = delay_256ns < last_256ns, was_below = before_256ns < last_256ns;
	u32 turn_16ns = 0, most_16ns;

	if (last_256ns && apart_4us < in->rtt_ns >> SWIFT_TURNS_ROUND_SHIFT)
		return;
	s->round_4us = round_4us;
	s->delay_256ns[0] = (u16)delay_256ns;
	s->delay_256ns[1] = (u16)last_256ns;
	if (apart_4us > SWIFT_TURNS_APART_4US)
		s->delay_256ns[1] = 0;
	if (!before_256ns || !s->delay_256ns[1])
		return;
	if (below == was_below)
		turn_16ns = swift_min_u32(swift_distance_u32(delay_256ns, last_256ns),
					  swift_distance_u32(before_256ns, last_256ns)) <<
			    (SWIFT_TURNS_DELAY_SHIFT - SWIFT_TURNS_UNIT_SHIFT);
	most_16ns = (s->noise_ns >> SWIFT_TURNS_UNIT_SHIFT) + SWIFT_TURNS_LEAST_16NS;
	turn_16ns = swift_min_u32(turn_16ns, swift_min_u32(most_16ns, 65535));
	if (turn_16ns > s->turns_16ns)
		s->turns_16ns += (u16)((turn_16ns - s->turns_16ns) >> SWIFT_TURNS_SHIFT);
	else
		s->turns_16ns -= (u16)((s->turns_16ns - turn_16ns) >> SWIFT_TURNS_SHIFT);
}

/* Noise that has no room of D18's. */
static inline u32 swift_late_few_ns(u32 rtt_epsilon_ns)
{
	return rtt_epsilon_ns / 8 * 5;
}

/*
 * Where the link that is full is this host's own, its fq serves flows by turns: what a packet waits
 * there is another time each round, as with a late softirq. So it is asked at each ACK whether
 * packets wait there: they do at three of four and more where the link is what they wait for, at up
 * to three of five where hosts are late and send in bursts. One up, two down: at two of three it
 * stays where it is.
 */
#define SWIFT_OWN_QUEUE_MOST 15
#define SWIFT_OWN_QUEUE_SOME 7 /* and fewer: all of D18's room; none at the most */
#define SWIFT_OWN_QUEUE_SHIFT 3 /* 15 - 7 */

/* Is swift_sample.own_queue looked at? */
SWIFT_INLINE bool swift_asks_own_queue(const struct swift_state *s, const struct swift_params *p)
{
	return p->target_policy == SWIFT_TARGET_BASE_RTT_PLUS &&
	       s->noise_ns > swift_late_few_ns(p->rtt_epsilon_ns);
}

SWIFT_INLINE void swift_own_queue_feed(struct swift_state *s, const struct swift_params *p,
				       const struct swift_sample *in)
{
	u32 often = s->own_queue;

	if (!swift_asks_own_queue(s, p))
		return;
	if (in->own_queue)
		often = swift_min_u32(often + 1, SWIFT_OWN_QUEUE_MOST);
	else
		often -= swift_min_u32(often, 2);
	s->own_queue = often & SWIFT_OWN_QUEUE_MOST; /* of four bits */
}

/* Returns the delay that the law reacts to: filtered, or a small window's newest. */
SWIFT_INLINE u32 swift_fabric_feed(struct swift_state *s, const struct swift_params *p,
				   const struct swift_sample *in, u32 delay_ns)
{
	bool small = s->small != SWIFT_NOT_SMALL &&
		     s->fabric.cwnd_q16 < SWIFT_SMALL_CWND * SWIFT_Q16_ONE;
	u32 differs_by_ns, most_ns, shift;
	u64 quarters;
	bool above;

	if (!s->fabric_ns || p->target_policy != SWIFT_TARGET_BASE_RTT_PLUS) {
		s->fabric_ns = delay_ns;
		return delay_ns;
	}
	swift_turns_feed(s, in, delay_ns);
	swift_own_queue_feed(s, p, in);
	above = delay_ns >= s->fabric_ns;
	differs_by_ns = swift_distance_u32(delay_ns, s->fabric_ns);
	most_ns = swift_noise_most_ns(s);
	/* Away from a small window's target it is the queue that two samples differ by. */
	if (!small || s->small == SWIFT_SMALL_NEAR)
		swift_noise_feed(s, swift_min_u32(differs_by_ns, most_ns));
	if (small) {
		shift = SWIFT_SMALL_MEAN_SHIFT;
	} else {
		quarters = swift_noise_quarters(s, p);
		shift = swift_filter_shift(s, quarters);
		if (shift && quarters)
			differs_by_ns = swift_min_u32(differs_by_ns, most_ns);
	}
	differs_by_ns >>= shift;
	if (above)
		s->fabric_ns += differs_by_ns;
	else
		s->fabric_ns -= differs_by_ns;
	return small ? delay_ns : s->fabric_ns;
}

/*
 * Flows of one link have not the same noise: that of some receiving cores is twice that of others.
 * In proportion to it room would be a larger share for who has more. So a quarter of rtt_epsilon
 * counts, and of what is more a third; but all of it for a window below three packets, whose room
 * is bounded, and who needs it more.
 */
SWIFT_INLINE u32 swift_noise_counted_ns(const struct swift_state *s, const struct swift_params *p)
{
	u32 all_ns = p->rtt_epsilon_ns / SWIFT_FILTER_NOISE;

	if (s->noise_ns <= all_ns || s->fabric.cwnd_q16 < SWIFT_NOISE_CWND_Q16)
		return s->noise_ns;
	return all_ns + (s->noise_ns - all_ns) / SWIFT_NOISE_MORE;
}

/*
 * Room for noise: two and a half times as much, and less for more than 32 packets. Where hosts
 * are noisy, so is what each flow believes of its path, and where the target hardly depends on
 * the window a few us in one's favour are twice another's window: this makes it as steep as
 * beliefs differ.
 *
 * A small window has few samples, far from each other: between two of them the queue itself
 * moves, and flows that take that for noise grow apart. So three packets have no more than
 * rtt_epsilon. A larger window has more by three quarters of what flow scaling takes from it: if
 * its target grew, who once has more than others would be given more. And a smaller one, down to
 * half a packet, more by three quarters of what scaling gives it: a lone packet meets all of what
 * an interrupt is late, of a bunch the last one meets the least, and who once has a packet would
 * never have more. Below one packet there is rtt_epsilon in any case.
 */
#define SWIFT_NOISE_LEAST_CWND_Q16 (SWIFT_Q16_ONE / 2)

SWIFT_INLINE u64 swift_noise_room_ns(const struct swift_state *s, const struct swift_params *p)
{
	const u32 none_q8 = (SWIFT_Q16_SHIFT + SWIFT_NOISE_NONE_LOG2) << 8;
	/* Not of 0: who only looks may see a flow that is just begun anew. */
	u32 log2_q8 = swift_log2_q8(swift_max_u32(s->fabric.cwnd_q16, 1));
	u32 scaled_ns, middle_ns;
	u64 most_ns = p->rtt_epsilon_ns, room_ns = 0;

	if (log2_q8 < none_q8)
		room_ns = (u64)swift_noise_counted_ns(s, p) *
			  swift_min_u32(none_q8 - log2_q8, SWIFT_NOISE_HALVES << 8) >> 9;
	if (room_ns <= most_ns)
		return s->fabric.cwnd_q16 < SWIFT_Q16_ONE ? most_ns : room_ns;
	middle_ns = swift_flow_scaling_ns(p, SWIFT_NOISE_CWND_Q16);
	scaled_ns = swift_flow_scaling_ns(p, swift_max_u32(s->fabric.cwnd_q16,
							   SWIFT_NOISE_LEAST_CWND_Q16));
	most_ns += swift_distance_u32(scaled_ns, middle_ns) * 3ULL / 4;
	return room_ns < most_ns ? room_ns : most_ns;
}

/*
 * D18: room for softirqs that come later than a queue is long. The smallest delay of such a path is
 * luck, and the mean of the empty path is far above it: a flow without room for that ends below a
 * tenth of a packet. Ten times the square of the noise above five eighths of rtt_epsilon, over the
 * noise. Large windows measure more noise: 5/64 less of it counts for each doubling above one
 * packet, so that their targets are not the longer ones.
 *
 * A queue that moves is no such noise. Noise of hosts turns back from round to round by more than
 * 5/16 of itself, and all of it counts from 7/16 on; and the mean delay is not far above it: where
 * it is 3.5 to 4.75 times the noise above the base, a queue stands there. A slow link's queue of a
 * packet more or less does turn back; but a packet's time is a part of its base: noise of up to
 * 3/8 of the base is that, from a half on it is hosts'; and of a base beyond six rtt_epsilons four
 * times as much more, since many flows move the queue by more than a packet.
 *
 * Nor is a queue of a host that is busy: what waits there for its stamp waits after it, too, where
 * a host that slept is quick. All of the room is there while the host's delay is at most 5/8 of
 * the noise, none from 7/8 on. Nor is one before this host's own link: swift_own_queue_feed().
 * Below one packet nothing tells them apart.
 */
#define SWIFT_LATE_TIMES 10
#define SWIFT_LATE_MOST 16 /* rtt_epsilons */
#define SWIFT_LATE_BASE 6 /* rtt_epsilons, too */

SWIFT_INLINE u32 swift_part_q8(u64 part, u64 of)
{
	return part < of ? (u32)SWIFT_DIV_U64(part << 8, of) : 1 << 8;
}

/* @above_ns: of the mean delay above the base. @log2_q8: of the window, in packets. */
SWIFT_APART u64 swift_late_room_of(u32 noise_ns, u32 turns_ns, u32 above_ns, u32 log2_q8,
				   u32 rtt_epsilon_ns)
{
	u32 few_ns = swift_late_few_ns(rtt_epsilon_ns), counted_ns;
	u64 queue_ns = (u64)noise_ns * 19 / 4, room_ns;
	u32 late_ns = (u32)((u64)noise_ns * 5 / 16);

	if (above_ns >= queue_ns || turns_ns <= late_ns)
		return 0;
	counted_ns = (u32)((u64)noise_ns *
			   ((64 << 8) - swift_min_u32(5 * log2_q8, 48 << 8)) >> 14);
	if (counted_ns <= few_ns)
		return 0;
	room_ns = (u64)(counted_ns - few_ns) * (counted_ns - few_ns);
	room_ns = SWIFT_DIV_U64(room_ns, counted_ns) * SWIFT_LATE_TIMES;
	room_ns = room_ns * swift_part_q8(queue_ns - above_ns, (u64)noise_ns * 5 / 4) >> 8;
	room_ns = room_ns * swift_part_q8(turns_ns - late_ns, noise_ns / 8) >> 8;
	return room_ns < (u64)rtt_epsilon_ns * SWIFT_LATE_MOST ?
	       room_ns : (u64)rtt_epsilon_ns * SWIFT_LATE_MOST;
}

/* What of that room there is on a slow link, and of a busy host. */
SWIFT_APART u32 swift_late_part_q16(u32 noise_ns, u32 base_ns, u32 endpoint_ns, u32 rtt_epsilon_ns)
{
	u64 packets_ns = (u64)base_ns * 3 / 8, long_ns = (u64)rtt_epsilon_ns * SWIFT_LATE_BASE;
	u32 busy_ns = (u32)((u64)noise_ns * 7 / 8);

	if (base_ns > long_ns)
		packets_ns += 4 * (base_ns - long_ns);
	if (noise_ns <= packets_ns || endpoint_ns >= busy_ns)
		return 0;
	return swift_part_q8(noise_ns - packets_ns, base_ns / 8) *
	       swift_part_q8(busy_ns - endpoint_ns, noise_ns / 4);
}

SWIFT_INLINE u64 swift_late_room_ns(const struct swift_state *s, const struct swift_params *p,
				    u32 base_ns)
{
	u64 room_ns;

	if (s->fabric.cwnd_q16 < SWIFT_Q16_ONE ||
	    s->noise_ns <= swift_late_few_ns(p->rtt_epsilon_ns))
		return 0;
	room_ns = swift_late_room_of(s->noise_ns, (u32)s->turns_16ns << SWIFT_TURNS_UNIT_SHIFT,
				     s->fabric_ns > base_ns ? s->fabric_ns - base_ns : 0,
				     swift_log2_q8(s->fabric.cwnd_q16) - (SWIFT_Q16_SHIFT << 8),
				     p->rtt_epsilon_ns);
	room_ns = room_ns * swift_late_part_q16(s->noise_ns, base_ns, s->endpoint_ns,
						p->rtt_epsilon_ns) >> 16;
	return room_ns * (SWIFT_OWN_QUEUE_MOST -
			  swift_max_u32(s->own_queue, SWIFT_OWN_QUEUE_SOME)) >>
	       SWIFT_OWN_QUEUE_SHIFT;
}

/* --- Target delay (3.5) ------------------------------------------------------- */

/*
 * D10: a flow's own smallest delay may have been taken in a queue that was there before
 * it. Flows with different ideas of one path have different targets, and the longest takes
 * all: no flow believes more than what any flow of the host saw on the same path.
 */
static inline u32 swift_path_base_ns(const struct swift_state *s, u32 path_base_ns)
{
	u32 base_ns = swift_base_ns(&s->base);

	return path_base_ns ? swift_min_u32(base_ns, path_base_ns) : base_ns;
}

/*
 * D22: on paths beyond 120 us room, flow scaling and what D16 measures by are longer, once more for
 * each 80 us of the first 120 beyond and for each 160 that follow, up to a path of 2.5 ms. With
 * rtt_epsilon alone few flows leave most of a long link idle, with flow scaling as it is, 16 share
 * it unevenly. How long a path is the smallest delay ever tells, not the learnt base: a queue
 * taken for a long path would grow by it.
 */
#define SWIFT_LONG_NS 120000
#define SWIFT_LONG_MOST_NS 2500000
#define SWIFT_LONG_UNIT_NS 160000

SWIFT_APART u64 swift_long_ns(u32 ns, u32 path_least_ns)
{
	u32 more_ns = swift_min_u32(path_least_ns, SWIFT_LONG_MOST_NS);

	if (more_ns <= SWIFT_LONG_NS)
		return ns;
	more_ns -= SWIFT_LONG_NS;
	more_ns += swift_min_u32(more_ns, SWIFT_LONG_NS);
	return ns + SWIFT_DIV_U64((u64)ns * more_ns, SWIFT_LONG_UNIT_NS);
}

SWIFT_INLINE u32 swift_target_ns(const struct swift_state *s, const struct swift_params *p,
				 u8 hops, u32 path_base_ns, u32 path_least_ns)
{
	u32 scaling_ns = swift_flow_scaling_ns(p, s->fabric.cwnd_q16);
	u32 path_ns = swift_path_base_ns(s, path_base_ns);
	u64 base_ns = path_ns;

	switch (p->target_policy) {
	case SWIFT_TARGET_BASE_RTT:
		break;
	case SWIFT_TARGET_BASE_RTT_PLUS:
		base_ns += swift_long_ns(p->rtt_epsilon_ns, path_least_ns);
		if (base_ns < p->base_target_ns)
			base_ns = p->base_target_ns;
		base_ns += swift_noise_room_ns(s, p) + swift_late_room_ns(s, p, path_ns) +
			   swift_long_ns(scaling_ns, path_least_ns);
		return swift_saturate_u32(base_ns);
	default: /* a learnt delay has the hops in it already; this one has not */
		base_ns = p->base_target_ns +
			  (u64)swift_min_u32(hops, SWIFT_HOPS_MAX) * p->hop_target_ns;
		break;
	}
	return swift_saturate_u32(base_ns + scaling_ns);
}

/* --- Windows (3.2, Algorithm 1) ------------------------------------------------- */

/* Of 32 bits: a window whose last cut is 4.3 s ago, or a multiple, may have to wait for an RTT. */
static inline bool swift_can_decrease(const struct swift_window *w, u64 now_ns, u32 rtt_ns)
{
	return !w->last_decrease_ns || (u32)now_ns - w->last_decrease_ns >= rtt_ns;
}

SWIFT_INLINE void swift_set_cwnd(struct swift_window *w, const struct swift_params *p,
				 u64 cwnd_q16, u64 now_ns)
{
	u32 prev_q16 = w->cwnd_q16;

	w->cwnd_q16 = swift_bound_cwnd(p, cwnd_q16);
	if (w->cwnd_q16 < prev_q16)
		w->last_decrease_ns = swift_max_u32((u32)now_ns, 1);
}

/*
 * What an ACK adds to a window of one packet, for both windows; 0 where none may grow (D2).
 * Never 0 otherwise: ai is not.
 */
SWIFT_INLINE u64 swift_step_q24(const struct swift_params *p, const struct swift_sample *in)
{
	if (!in->cwnd_limited || !in->acked_pkts)
		return 0;
	return (u64)p->ai_q24 * swift_min_u32(in->acked_pkts, 65535);
}

/*
 * D15: a window of a packet or two that grows by a whole one doubles the queue, if thousands do,
 * or hundreds. So a learnt base comes with half of ai below one packet; above, with what grows
 * as the root of the window, up to ai at four packets. D3 limits it alike.
 */
#define SWIFT_GENTLE_CWND 4
#define SWIFT_GENTLE_SHIFT 1 /* 1 / sqrt(4) */

SWIFT_INLINE u64 swift_gentle_q16(const struct swift_params *p, u32 cwnd_q16, u64 step_q24)
{
	const u32 shift = SWIFT_Q28_SHIFT + SWIFT_GENTLE_SHIFT + SWIFT_Q24_SHIFT - SWIFT_Q16_SHIFT;
	u32 above_q16 = swift_max_u32(cwnd_q16, SWIFT_Q16_ONE);
	u64 inv_sqrt_q28 = swift_inv_sqrt_q28(above_q16);
	u64 sqrt_q28 = inv_sqrt_q28 * above_q16 >> SWIFT_Q16_SHIFT;
	u64 most_q16 = p->ai_q24 * sqrt_q28 >> shift;
	u64 step_q16;

	/* More packets than that are beyond the limit in any case. */
	if (step_q24 > (u64)p->ai_q24 * SWIFT_GENTLE_CWND)
		return most_q16;
	step_q16 = step_q24 * inv_sqrt_q28 >> shift;
	return step_q16 < most_q16 ? step_q16 : most_q16;
}

/*
 * Lines 7 to 11, limited by D3; rounded to nearest, and never to nothing. D12: a flow that
 * begins doubles its window each RTT, as slow start does, until a delay reaches its target.
 */
SWIFT_INLINE u32 swift_increase_q16(const struct swift_params *p, u32 cwnd_q16, u64 step_q24,
				    bool starting)
{
	u64 most_q16 = p->ai_q24 >> (SWIFT_Q24_SHIFT - SWIFT_Q16_SHIFT);
	u64 step_q16;

	if (starting && most_q16 < cwnd_q16)
		most_q16 = cwnd_q16;
	if (p->target_policy == SWIFT_TARGET_BASE_RTT_PLUS && !starting &&
	    cwnd_q16 < SWIFT_GENTLE_CWND * SWIFT_Q16_ONE)
		step_q16 = swift_gentle_q16(p, cwnd_q16, step_q24);
	else if (cwnd_q16 >= SWIFT_Q16_ONE && !starting)
		step_q16 = SWIFT_DIV_U64((step_q24 << 8) + cwnd_q16 / 2, cwnd_q16);
	else
		step_q16 = step_q24 >> 8;
	if (step_q16 > most_q16)
		step_q16 = most_q16;
	return step_q16 ? (u32)step_q16 : 1;
}

/* Lines 13 and 14: the part of the window that goes, by how far the delay is off. delay > 0. */
SWIFT_INLINE u32 swift_part_q24(const struct swift_params *p, u32 off_ns, u32 delay_ns)
{
	u64 part_q24 = SWIFT_DIV_U64((u64)p->beta_q24 * off_ns, delay_ns);

	return part_q24 < p->max_mdf_q24 ? (u32)part_q24 : p->max_mdf_q24;
}

/*
 * D17: where it may be noise that the delay is below its target, an RTT adds no more than line
 * 13's part of the window. Delays of noisy hosts lie on both sides of the target: a window that
 * grows by ai there, and goes by its small part, is pushed above it, the smaller it is the
 * further, and shares with those that D16 moves by equal steps are not equal. @step_q24: ai's.
 */
SWIFT_INLINE u64 swift_even_step_q24(const struct swift_state *s, const struct swift_params *p,
				     const struct swift_sample *in, u32 delay_ns, u32 target_ns,
				     u64 step_q24)
{
	u32 off_ns = swift_distance_u32(delay_ns, target_ns);
	u64 part_q24, most_q24;

	if (p->target_policy != SWIFT_TARGET_BASE_RTT_PLUS || s->starting ||
	    s->fabric.cwnd_q16 < SWIFT_SMALL_CWND * SWIFT_Q16_ONE ||
	    delay_ns >= target_ns || off_ns >= swift_luck_ns(s))
		return step_q24;
	part_q24 = delay_ns ? swift_part_q24(p, off_ns, delay_ns) : p->max_mdf_q24;
	most_q24 = (s->fabric.cwnd_q16 * part_q24 >> SWIFT_Q16_SHIFT) *
		   swift_min_u32(in->acked_pkts, 65535);
	if (step_q24 <= most_q24)
		return step_q24;
	return most_q24 ? most_q24 : 1;
}

/* Lines 6 to 14 and 26 to 28 for one window. */
SWIFT_INLINE enum swift_action swift_react(struct swift_window *w, const struct swift_params *p,
					   const struct swift_sample *in, u32 delay_ns,
					   u32 target_ns, u64 step_q24, bool starting)
{
	if (delay_ns < target_ns) {
		if (!step_q24)
			return SWIFT_HOLD;
		swift_set_cwnd(w, p, (u64)w->cwnd_q16 +
			       swift_increase_q16(p, w->cwnd_q16, step_q24, starting),
			       in->now_ns);
		return SWIFT_INCREASE;
	}
	if (!delay_ns || !swift_can_decrease(w, in->now_ns, in->rtt_ns))
		return SWIFT_HOLD;
	/* The line that cuts the window. */
	swift_set_cwnd(w, p, w->cwnd_q16 -
		       ((u64)w->cwnd_q16 * swift_part_q24(p, delay_ns - target_ns, delay_ns) >>
			SWIFT_Q24_SHIFT), in->now_ns);
	return SWIFT_DECREASE;
}

/*
 * D16: a flow of w < 1 hears of the queue once in rtt / w, and by then the answers to its last
 * step are in it. What is stable at that distance is a step in proportion to how far the delay is
 * from the target, and to the window, so that it is smaller for who hears more rarely: w / 4 of
 * the window where the delay is alpha / sqrt(w) off. (And no gap that follows the delay at once:
 * swift_pacing_rtt_ns().) By the paper's, of ai and of up to a half, hundreds of such flows are a
 * limit cycle, whose queue is twice as long as it has to be, and whose windows lie far apart.
 *
 * Whoever has far less than the others (by a loss, as he came late, or as all others left) would
 * take too long so: where the newest delay is shorter than the target by more than an eighth of
 * alpha / sqrt(w), and the mean as well, which is no chance, the window grows by twice the part
 * by which it is more than that. At fs_min_cwnd and below the target is the same: it need not be
 * less. Bounded by the paper's law: up by what line 8 or 10 adds (D15), down by max_mdf of a packet
 * or of a smaller window, which is a cut: one an RTT, and no step down in the RTT after a cut.
 */
#define SWIFT_SMALL_STEP_SHIFT 2
#define SWIFT_SMALL_LATE_SHIFT 5 /* where a gap is settled when the packet before it leaves */
#define SWIFT_SMALL_CHANCE_SHIFT 3
#define SWIFT_Q12_SHIFT 12

/* What a delay is off the target by, in parts of the scale; more than 4096 counts as that. */
SWIFT_INLINE u32 swift_small_off_q12(u32 off_ns, u32 scale_ns)
{
	u64 off_q12 = SWIFT_DIV_U64((u64)off_ns << SWIFT_Q12_SHIFT, scale_ns);

	return off_q12 < 1 << (2 * SWIFT_Q12_SHIFT) ? (u32)off_q12 : 1 << (2 * SWIFT_Q12_SHIFT);
}

/* What a window grows by that has far less than others. @short_q12: newest delay and mean. */
SWIFT_INLINE u64 swift_small_lack_q16(const struct swift_params *p, u32 cwnd_q16, u32 short_q12)
{
	const u32 chance_q12 = 1 << (SWIFT_Q12_SHIFT - SWIFT_SMALL_CHANCE_SHIFT);
	u64 step_q16 = 0;

	if (short_q12 > chance_q12)
		step_q16 = (u64)cwnd_q16 * (short_q12 - chance_q12) >> (SWIFT_Q12_SHIFT - 1);
	if (cwnd_q16 + step_q16 < p->fs_min_cwnd_q16)
		step_q16 = p->fs_min_cwnd_q16 - cwnd_q16;
	return step_q16;
}

/* The step up, before the paper's bound; @off_q12: by which the newest delay is short. */
SWIFT_INLINE u64 swift_small_up_q16(struct swift_state *s, const struct swift_params *p,
				    u32 target_ns, u32 off_q12, u64 step_q16, u32 scale_ns)
{
	u32 short_q12;
	u64 lack_q16;

	if (s->fabric_ns > target_ns) /* a queue that was there is soon forgotten */
		s->fabric_ns = target_ns;
	short_q12 = swift_small_off_q12(target_ns - s->fabric_ns, scale_ns);
	lack_q16 = swift_small_lack_q16(p, s->fabric.cwnd_q16, swift_min_u32(short_q12, off_q12));
	return step_q16 > lack_q16 ? step_q16 : lack_q16;
}

/* @delay_ns: the newest. @scale_ns: alpha / sqrt(w), longer by D22. */
SWIFT_INLINE enum swift_action swift_small_react(struct swift_state *s,
						 const struct swift_params *p,
						 const struct swift_sample *in, u32 delay_ns,
						 u32 target_ns, u64 step_q24, u32 scale_ns)
{
	bool is_short = delay_ns < target_ns;
	u32 off_ns = swift_distance_u32(delay_ns, target_ns);
	u32 off_q12 = swift_small_off_q12(off_ns, scale_ns);
	struct swift_window *w = &s->fabric;
	u32 part_q16 = swift_min_u32(w->cwnd_q16, SWIFT_Q16_ONE);
	u32 shift = p->late_news ? SWIFT_SMALL_LATE_SHIFT : SWIFT_SMALL_STEP_SHIFT;
	u64 step_q16 = (u64)part_q16 * part_q16 * off_q12 >>
		       (SWIFT_Q16_SHIFT + SWIFT_Q12_SHIFT + shift);
	u64 most_q16;

	if (!off_ns)
		return SWIFT_HOLD;
	if (!step_q16) /* never nothing */
		step_q16 = 1;
	if (!is_short) {
		if (!swift_can_decrease(w, in->now_ns, in->rtt_ns))
			return SWIFT_HOLD;
		most_q16 = (u64)part_q16 * p->max_mdf_q24 >> SWIFT_Q24_SHIFT;
		if (step_q16 >= most_q16) /* a cut: the rest of the flight tells the same */
			swift_set_cwnd(w, p, w->cwnd_q16 - most_q16, in->now_ns);
		else /* none: one for a loss may follow within the RTT */
			w->cwnd_q16 = swift_bound_cwnd(p, w->cwnd_q16 - step_q16);
		return SWIFT_DECREASE;
	}
	if (!step_q24) /* D2 */
		return SWIFT_HOLD;
	step_q16 = swift_small_up_q16(s, p, target_ns, off_q12, step_q16, scale_ns);
	most_q16 = swift_increase_q16(p, w->cwnd_q16, step_q24, false);
	if (step_q16 > most_q16)
		step_q16 = most_q16;
	w->cwnd_q16 = swift_bound_cwnd(p, w->cwnd_q16 + step_q16);
	return SWIFT_INCREASE;
}

/* The fabric's window. @delay_ns: what swift_fabric_feed() returned. */
SWIFT_INLINE enum swift_action swift_fabric_react(struct swift_state *s,
						  const struct swift_params *p,
						  const struct swift_sample *in, u32 delay_ns,
						  u32 target_ns, u64 step_q24)
{
	u32 scale_ns = swift_small_ns(s, p);
	u32 off_ns;

	if (!scale_ns) {
		s->small = SWIFT_NOT_SMALL;
		step_q24 = swift_even_step_q24(s, p, in, delay_ns, target_ns, step_q24);
		return swift_react(&s->fabric, p, in, delay_ns, target_ns, step_q24, s->starting);
	}
	scale_ns = swift_saturate_u32(swift_long_ns(scale_ns, in->path_least_ns));
	off_ns = swift_distance_u32(s->fabric_ns, target_ns);
	s->small = off_ns < scale_ns >> SWIFT_SMALL_NEAR_SHIFT ? SWIFT_SMALL_NEAR :
								 SWIFT_SMALL_AWAY;
	return swift_small_react(s, p, in, delay_ns, target_ns, step_q24, scale_ns);
}

/*
 * What a peer says can be held against the RTT alone: a delay within it is its host's word, and
 * endpoint_target_ns with D19's and D20's parts is what that can buy. One that exceeds it is a
 * lie, or by a clock that is wrong; not by a little, as an RTT may be of whole microseconds. Nor
 * does the last one's delay count then: all is fabric. Returns whether there was such an echo.
 */
#define SWIFT_ECHO_SPARE_SHIFT 3
#define SWIFT_ECHO_SPARE_NS 2000

static inline bool swift_refuse_echo(struct swift_sample *in)
{
	u64 most_ns = (u64)in->rtt_ns + (in->rtt_ns >> SWIFT_ECHO_SPARE_SHIFT) +
		      SWIFT_ECHO_SPARE_NS;

	if (!in->has_echo || !in->rtt_ns || in->remote_ns <= most_ns)
		return false;
	in->remote_ns = 0;
	in->has_echo = 0;
	in->echo_expected = 0;
	return true;
}

/* What of the RTT is not the hosts', as far as they tell: how long the path is. */
static inline u32 swift_path_rtt_ns(const struct swift_sample *in)
{
	u64 endpoint_ns = (u64)in->remote_ns + in->local_ns;

	return endpoint_ns < in->rtt_ns ? in->rtt_ns - (u32)endpoint_ns : 0;
}

/*
 * Split the RTT (3.1, 3.3). Whatever a peer claims, 0 <= endpoint <= rtt and the
 * parts add up to the RTT: what is taken from one window is given to the other.
 */
SWIFT_INLINE void swift_split_rtt(const struct swift_state *s, const struct swift_sample *in,
				  struct swift_verdict *out)
{
	u64 endpoint_ns = (u64)in->remote_ns + in->local_ns;

	if (!in->has_echo) {
		endpoint_ns = in->local_ns;
		if (in->echo_expected && endpoint_ns < s->endpoint_ns)
			endpoint_ns = s->endpoint_ns; /* D5 */
	}
	out->clamped = endpoint_ns > in->rtt_ns;
	out->endpoint_ns = out->clamped ? in->rtt_ns : (u32)endpoint_ns;
	out->fabric_ns = in->rtt_ns - out->endpoint_ns;
}

/*
 * The filter's weight, at least 1 / cwnd (D9): it remembers about 1 / weight ACKs, but no
 * more than a window has packets. With a constant weight a flow below one packet would
 * average over many RTTs, not see the delay fall below its target between the decreases
 * of larger windows, and starve.
 */
static inline u32 swift_endpoint_weight_q24(const struct swift_params *p, u32 cwnd_q16)
{
	const u64 one_q40 = 1ULL << (SWIFT_Q24_SHIFT + SWIFT_Q16_SHIFT);

	if (cwnd_q16 <= SWIFT_Q16_ONE)
		return 1U << SWIFT_Q24_SHIFT;
	if ((u64)p->endpoint_ewma_q24 * cwnd_q16 >= one_q40)
		return p->endpoint_ewma_q24;
	return (u32)SWIFT_DIV_U64(one_q40, cwnd_q16);
}

/* 3.3: endpoint delay is filtered, fabric delay is not. */
SWIFT_INLINE void swift_endpoint_feed(struct swift_state *s, const struct swift_params *p,
				      u32 endpoint_ns)
{
	u32 weight_q24 = swift_endpoint_weight_q24(p, swift_cwnd_q16(s));
	u32 old_ns = s->endpoint_ns;

	if (!s->has_endpoint) {
		s->has_endpoint = 1;
		s->endpoint_ns = endpoint_ns;
	} else if (endpoint_ns >= old_ns) {
		s->endpoint_ns = old_ns + (u32)(((u64)(endpoint_ns - old_ns) *
						 weight_q24) >> SWIFT_Q24_SHIFT);
	} else {
		s->endpoint_ns = old_ns - (u32)(((u64)(old_ns - endpoint_ns) *
						 weight_q24) >> SWIFT_Q24_SHIFT);
	}
}

/*
 * D20: where the window is below 1/256 packet and the filtered delay still not below the target, a
 * smaller window would not make it less. Up to 1 ms of it is taken for the host's own, and added to
 * the target, until a shorter one is seen.
 */
#define SWIFT_OWN_CWND_Q16 (SWIFT_Q16_ONE / 256)
#define SWIFT_OWN_SHIFT 6 /* 64 ns */
#define SWIFT_OWN_MOST (1 << 14) /* of them: what a liar may buy */

SWIFT_INLINE void swift_own_feed(struct swift_state *s, const struct swift_params *p,
				 u32 target_ns)
{
	u32 own_64ns;

	if (s->endpoint.cwnd_q16 >= SWIFT_OWN_CWND_Q16 && !s->own_64ns)
		return;
	own_64ns = swift_min_u32(s->endpoint_ns >> SWIFT_OWN_SHIFT, SWIFT_OWN_MOST);
	if (own_64ns < s->own_64ns ||
	    (p->target_policy == SWIFT_TARGET_BASE_RTT_PLUS && s->endpoint_ns >= target_ns &&
	     s->endpoint.cwnd_q16 < SWIFT_OWN_CWND_Q16))
		s->own_64ns = (u16)own_64ns;
}

/*
 * D19: the host's target has 3.5's flow scaling, too, by its own window: of many flows into a slow
 * host the larger windows meet their target first. Who is below it anyway needs no root.
 */
SWIFT_INLINE u32 swift_endpoint_target_ns(const struct swift_state *s,
					  const struct swift_params *p)
{
	if (p->target_policy != SWIFT_TARGET_BASE_RTT_PLUS ||
	    s->endpoint_ns < p->endpoint_target_ns)
		return p->endpoint_target_ns;
	return p->endpoint_target_ns + ((u32)s->own_64ns << SWIFT_OWN_SHIFT) +
	       swift_flow_scaling_ns(p, s->endpoint.cwnd_q16);
}

/* Swift-v0: one window, one target, the whole RTT. */
static inline void swift_on_ack_v0(struct swift_state *s, const struct swift_params *p,
				   const struct swift_sample *in, struct swift_verdict *out)
{
	u32 delay_ns;

	out->endpoint_target_ns = 0; /* it has none */
	out->base_sample_ns = in->short_sized ? 0 : in->rtt_ns;
	out->base_luck_ns = swift_base_luck_ns(s, p);
	swift_base_feed(&s->base, p, in->now_ns,
			swift_base_sample_ns(&s->base, in->rtt_ns, in->short_sized),
			out->base_luck_ns);
	delay_ns = swift_fabric_feed(s, p, in, in->rtt_ns);
	SWIFT_READ_ANEW();
	out->fabric_target_ns = swift_target_ns(s, p, in->hops, in->path_base_ns,
						in->path_least_ns);
	s->starting &= delay_ns < out->fabric_target_ns;
	out->fabric_action = swift_fabric_react(s, p, in, delay_ns, out->fabric_target_ns,
						swift_step_q24(p, in));
	s->endpoint.cwnd_q16 = s->fabric.cwnd_q16;
	s->endpoint.last_decrease_ns = s->fabric.last_decrease_ns;
}

SWIFT_INLINE void swift_on_ack(struct swift_state *s, const struct swift_params *p,
			       const struct swift_sample *in, struct swift_verdict *out)
{
	bool guessed = !in->has_echo && in->echo_expected && s->has_endpoint; /* D5 */
	u64 ceiling_q16, step_q24;
	u32 delay_ns;

	s->retx_cnt = 0;
	out->fabric_action = SWIFT_NO_SAMPLE;
	out->endpoint_action = SWIFT_NO_SAMPLE;
	out->base_sample_ns = 0;
	out->base_luck_ns = 0;
	if (SWIFT_UNLIKELY(!in->rtt_ns)) {
		out->fabric_ns = 0;
		out->endpoint_ns = 0;
		out->fabric_target_ns = 0;
		out->endpoint_target_ns = 0;
		out->clamped = 0;
		return;
	}

	swift_split_rtt(s, in, out);
	if (in->has_echo || !in->echo_expected)
		swift_endpoint_feed(s, p, out->endpoint_ns);

	if (SWIFT_UNLIKELY(!p->split)) {
		swift_on_ack_v0(s, p, in, out);
		return;
	}
	out->endpoint_target_ns = swift_endpoint_target_ns(s, p);

	if (!guessed && !out->clamped) { /* a smallest value keeps a wrong one for long */
		out->base_sample_ns = in->short_sized ? 0 : out->fabric_ns;
		out->base_luck_ns = swift_base_luck_ns(s, p);
		swift_base_feed(&s->base, p, in->now_ns,
				swift_base_sample_ns(&s->base, out->fabric_ns, in->short_sized),
				out->base_luck_ns);
	}
	delay_ns = swift_fabric_feed(s, p, in, out->fabric_ns);
	SWIFT_READ_ANEW();
	out->fabric_target_ns = swift_target_ns(s, p, in->hops, in->path_base_ns,
						in->path_least_ns);
	if (s->starting)
		s->starting = delay_ns < out->fabric_target_ns &&
			      s->endpoint_ns < out->endpoint_target_ns;
	SWIFT_READ_ANEW();
	step_q24 = swift_step_q24(p, in);
	out->fabric_action = swift_fabric_react(s, p, in, delay_ns, out->fabric_target_ns,
						step_q24);
	out->endpoint_action = swift_react(&s->endpoint, p, in, s->endpoint_ns,
					   out->endpoint_target_ns, step_q24, s->starting);
	if (!guessed) /* no news of the host */
		swift_own_feed(s, p, out->endpoint_target_ns);

	ceiling_q16 = (u64)swift_cwnd_q16(s) * SWIFT_CEILING; /* D6 */
	if (s->fabric.cwnd_q16 > ceiling_q16)
		s->fabric.cwnd_q16 = (u32)ceiling_q16;
	if (s->endpoint.cwnd_q16 > ceiling_q16)
		s->endpoint.cwnd_q16 = (u32)ceiling_q16;
}

/* --- Loss (3.6, Algorithm 1 lines 15 to 25) --------------------------------------- */

static inline bool swift_cut_by_max_mdf(struct swift_window *w, const struct swift_params *p,
					u64 now_ns, u32 rtt_ns)
{
	if (!swift_can_decrease(w, now_ns, rtt_ns))
		return false;
	swift_set_cwnd(w, p, w->cwnd_q16 -
		       ((u64)w->cwnd_q16 * p->max_mdf_q24 >> SWIFT_Q24_SHIFT), now_ns);
	return true;
}

/*
 * A loss found by SACK, or an ECN mark. Nobody knows whether the fabric or the
 * host lost it: both windows answer. Returns whether one of them was cut.
 */
static inline bool swift_on_fast_recovery(struct swift_state *s, const struct swift_params *p,
					  u64 now_ns, u32 rtt_ns)
{
	bool fabric, endpoint;

	s->retx_cnt = 0;
	s->starting = 0;
	fabric = swift_cut_by_max_mdf(&s->fabric, p, now_ns, rtt_ns);
	endpoint = swift_cut_by_max_mdf(&s->endpoint, p, now_ns, rtt_ns);
	return fabric || endpoint;
}

/* A retransmission timeout. Returns whether the window was reset to its minimum. */
static inline bool swift_on_timeout(struct swift_state *s, const struct swift_params *p,
				    u64 now_ns, u32 rtt_ns)
{
	s->starting = 0;
	if (s->retx_cnt < 255)
		s->retx_cnt++;
	if (s->retx_cnt >= p->retx_reset_threshold) {
		swift_set_cwnd(&s->fabric, p, 0, now_ns);
		swift_set_cwnd(&s->endpoint, p, 0, now_ns);
		return true;
	}
	swift_cut_by_max_mdf(&s->fabric, p, now_ns, rtt_ns);
	swift_cut_by_max_mdf(&s->endpoint, p, now_ns, rtt_ns);
	return false;
}

/* At the start of a loss episode: what an undo would go back to. */
static inline void swift_note_undo(struct swift_state *s)
{
	s->fabric.undo_cwnd_q16 = s->fabric.cwnd_q16;
	s->endpoint.undo_cwnd_q16 = s->endpoint.cwnd_q16;
}

/* The loss was none (reordering, a spurious timeout): as if it had not been noted. */
static inline void swift_undo(struct swift_state *s, const struct swift_params *p)
{
	s->fabric.cwnd_q16 = swift_bound_cwnd(p, swift_max_u32(s->fabric.cwnd_q16,
							       s->fabric.undo_cwnd_q16));
	s->endpoint.cwnd_q16 = swift_bound_cwnd(p, swift_max_u32(s->endpoint.cwnd_q16,
								 s->endpoint.undo_cwnd_q16));
	s->retx_cnt = 0;
}

/*
 * A flow that was silent for @idle_rtos retransmission timeouts knows nothing of
 * the fabric any more: halve towards the initial window for each, as TCP does
 * (RFC 2861), and begin anew. A window below the initial one stays. Returns whether one
 * was cut.
 */
static inline bool swift_on_idle_restart(struct swift_state *s, const struct swift_params *p,
					 u32 idle_rtos)
{
	u32 shift = swift_min_u32(idle_rtos, 16);
	u32 init_q16 = swift_bound_cwnd(p, p->init_cwnd_q16);
	bool cut = s->fabric.cwnd_q16 > init_q16 || s->endpoint.cwnd_q16 > init_q16;

	s->starting |= cut;
	if (s->fabric.cwnd_q16 > init_q16)
		s->fabric.cwnd_q16 = swift_max_u32(s->fabric.cwnd_q16 >> shift, init_q16);
	if (s->endpoint.cwnd_q16 > init_q16)
		s->endpoint.cwnd_q16 = swift_max_u32(s->endpoint.cwnd_q16 >> shift, init_q16);
	return cut;
}

/* --- Sending (3.4, Algorithm 1 lines 29 to 32) -------------------------------------- */

/*
 * Time between packets, ns; 0 = unpaced. D13: no longer than Falcon's 34 ms. A flow that is
 * silent for longer hears of nothing, and looks dead to those who watch it. Between half of
 * that and all, by the lowest bits of what it would be: flows that a queue sent there
 * together must not come back together.
 */
#define SWIFT_PACING_DELAY_MAX_NS (1ULL << 25)

static inline u64 swift_pacing_delay_ns(u32 cwnd_q16, u32 rtt_ns)
{
	u64 delay_ns;

	if (cwnd_q16 >= SWIFT_Q16_ONE)
		return 0;
	delay_ns = SWIFT_DIV_U64((u64)rtt_ns << SWIFT_Q16_SHIFT, cwnd_q16);
	if (delay_ns < SWIFT_PACING_DELAY_MAX_NS)
		return delay_ns;
	return SWIFT_PACING_DELAY_MAX_NS - (delay_ns & (SWIFT_PACING_DELAY_MAX_NS / 2 - 1));
}

/*
 * D16: the RTT that a small window w below one packet is paced by:
 *   (1 - w) (host + target) (1 +- 1/8) + w rtt, with @late_news by w / 2
 * By the newest RTT alone a gap answers the queue at once, but the queue hears of it a gap later:
 * the smaller w, the less of that is stable. The eighth is of @random: flows with the same gap
 * meet the same ones of the others' packets each time, and one that meets fewer keeps twice their
 * share. By the newest RTT, as in the paper, where the host is the limit, or no base is known. The
 * host's part of @rtt_ns is known: the endpoint delay of so small a window is the newest (D9).
 */
#define SWIFT_SMALL_SPREAD_SHIFT 3

SWIFT_INLINE u32 swift_pacing_rtt_ns(const struct swift_state *s, u32 split, u32 cwnd_q16,
				     u32 rtt_ns, u32 target_ns, u32 random, bool late_news)
{
	u32 host_ns = swift_min_u32(s->endpoint_ns, rtt_ns) * split; /* 0 or 1: no branch in BPF */
	u64 settled_ns = (u64)host_ns + target_ns, eighth_ns;
	u32 random_q16 = random & (SWIFT_Q16_ONE - 1), newest_q16;

	if (s->small == SWIFT_NOT_SMALL || cwnd_q16 < s->fabric.cwnd_q16 ||
	    cwnd_q16 >= SWIFT_Q16_ONE || target_ns == SWIFT_U32_MAX)
		return rtt_ns;
	eighth_ns = settled_ns >> SWIFT_SMALL_SPREAD_SHIFT;
	settled_ns += (2 * eighth_ns * random_q16 >> SWIFT_Q16_SHIFT) - eighth_ns;
	newest_q16 = late_news ? cwnd_q16 / 2 : cwnd_q16;
	return swift_saturate_u32((settled_ns * (SWIFT_Q16_ONE - newest_q16) +
				   (u64)rtt_ns * newest_q16) >> SWIFT_Q16_SHIFT);
}

/*
 * The same as a rate for stacks that pace by bytes: @packet_bytes each pacing delay; all
 * ones = unpaced.
 */
static inline u64 swift_pacing_rate_Bps(u32 cwnd_q16, u32 rtt_ns, u32 packet_bytes)
{
	u64 delay_ns = swift_pacing_delay_ns(cwnd_q16, rtt_ns);

	if (!delay_ns)
		return ~0ULL;
	return SWIFT_DIV_U64((u64)packet_bytes * 1000000000ULL, delay_ns);
}

/*
 * D11: flows that keep a queue between them never see the path without it: when the
 * smallest delay expires, the smallest standing one takes its place, target and queue grow
 * by it, and so on. So all flows send a quarter of their windows for two RTTs at the same
 * moments, and whatever stood drains: at each multiple of a period in the second of the wall
 * clock, which needs no message; hosts whose clocks agree to 100 us have the same idea of it.
 * Periods are halves of halves of a second, so that longer ones coincide with shorter ones,
 * and who counts leap seconds (CLOCK_TAI) with who does not; and at least 128 times the base,
 * up to a second. A drain is no longer than a 32nd of it, whatever a host adds to the RTT, and
 * leaves windows below one packet alone, which a quarter would silence for longer.
 */
#define SWIFT_DRAIN_SECOND_NS 1000000000U
#define SWIFT_DRAIN_PERIOD_SHIFT 6 /* the shortest period: a 64th of a second, 15.6 ms */
#define SWIFT_DRAIN_BASES_SHIFT 7
#define SWIFT_DRAIN_RTTS 2
#define SWIFT_DRAIN_CWND_SHIFT 2
#define SWIFT_DRAIN_PART_SHIFT 5

/* As most moments are not, whatever the base: what is multiple of a period is of the shortest. */
static inline bool swift_may_drain(u32 rtt_ns, u32 second_ns)
{
	return second_ns % (SWIFT_DRAIN_SECOND_NS >> SWIFT_DRAIN_PERIOD_SHIFT) <
	       (u64)rtt_ns * SWIFT_DRAIN_RTTS;
}

/* @second_ns: since a second of the wall clock began, 0 to 999999999. */
static inline bool swift_in_drain(const struct swift_params *p, u32 base_ns, u32 rtt_ns,
				  u32 second_ns)
{
	u32 shift = SWIFT_DRAIN_PERIOD_SHIFT;
	u32 period_ns, since_ns;

	if (p->target_policy == SWIFT_TARGET_STATIC || base_ns == SWIFT_U32_MAX)
		return false; /* nothing to learn; nothing known */
	while (shift && SWIFT_DRAIN_SECOND_NS >> shift < (u64)base_ns << SWIFT_DRAIN_BASES_SHIFT)
		shift--;
	period_ns = SWIFT_DRAIN_SECOND_NS >> shift;
	since_ns = second_ns % period_ns;
	return since_ns < (u64)rtt_ns * SWIFT_DRAIN_RTTS &&
	       since_ns < period_ns >> SWIFT_DRAIN_PART_SHIFT;
}

/*
 * @acks_at_once: the peer is known not to delay ACKs. From another one a lone packet would
 * be acknowledged 40 ms later: two stay in flight.
 */
static inline u32 swift_drain_q16(const struct swift_params *p, u32 cwnd_q16, bool acks_at_once)
{
	u32 least_q16 = p->min_cwnd_q16;

	if (!acks_at_once)
		least_q16 = swift_max_u32(least_q16, 2 * SWIFT_Q16_ONE);
	if (cwnd_q16 < SWIFT_Q16_ONE)
		return cwnd_q16;
	return swift_max_u32(cwnd_q16 >> SWIFT_DRAIN_CWND_SHIFT,
			     swift_min_u32(cwnd_q16, least_q16));
}

/* First-order sigma-delta of the window: its fraction is paid out over the rounds. */
struct swift_dither {
	u16 residue_q16;
	u8 extra; /* packet of this round, 0 or 1 */
};

/*
 * Whole packets to keep in flight. A stack that counts whole packets would
 * lose up to half of a window of 1.99 by rounding down; instead every round trip
 * (@new_round) carries the fraction over, and one with a carry sends a packet
 * more: the average over the rounds is the window. A decrease acts at once.
 */
static inline u32 swift_snd_cwnd_pkts(struct swift_dither *d, u32 cwnd_q16, bool new_round)
{
	if (cwnd_q16 < SWIFT_Q16_ONE) {
		d->extra = 0;
		return 1; /* spaced by the pacing rate */
	}
	if (new_round) {
		u32 sum_q16 = d->residue_q16 + (cwnd_q16 & (SWIFT_Q16_ONE - 1));

		d->residue_q16 = (u16)sum_q16;
		d->extra = (u8)(sum_q16 >> SWIFT_Q16_SHIFT);
	}
	return (cwnd_q16 >> SWIFT_Q16_SHIFT) + d->extra;
}

#endif /* SWIFT_CORE_SWIFT_H */
