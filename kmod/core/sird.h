/* SPDX-License-Identifier: GPL-2.0 */
/*
 * SIRD: receivers lend their downlink as credit. Algorithms 1 and 2 of Prasopoulos et al.,
 * "SIRD: A Sender-Informed, Receiver-Driven Datacenter Transport Protocol" (NSDI 2025), on the
 * byte stream of TCP, as pure functions of (book, event, parameters). No socket, no clock, no
 * list: who waits for credit is the shell's affair, what he may have is decided here.
 *
 *   receiver, on data:  b -= what arrived;  sb of its sender, too
 *                       two buckets of the sender, each by AIMD: by csn, by the network's marks
 *   receiver, then:     while b + q <= B: of the flows that want credit, whose sender has
 *                       sb + q <= min(its buckets), the first by the policy gets q
 *   sender, sending:    csn = more than SThr waits for its own link
 *
 * Credit is the edge of the window that the receiver advertises: cumulative, so that one that
 * is lost is told by the next. A sender tells with its data up to which sequence number it has
 * some: what lies behind the edge is wanted, what lies before it and has not arrived is under
 * way. A flow with nothing to send has an allowance of UnschT beyond what arrived (4: messages
 * up to UnschT wait for nobody). Who begins more than that sends one segment, says so, and
 * holds the rest; the receiver takes the allowance back, and schedules.
 *
 * Units: bytes, ns, sequence numbers of TCP. S1 to S11 are what differs from the paper's text:
 * Documentation/paper.md.
 */
#ifndef SWIFT_CORE_SIRD_H
#define SWIFT_CORE_SIRD_H

#include "fixed.h"

/*
 * Row: X(name, default, minimum, maximum, "meaning, source"). Defaults are those of table 2
 * of the paper, but for the policy: a stream of TCP has no size to be short by.
 */
#define SIRD_TUNABLES(X)                                                                      \
	X(credit_b_milli, 1500, 1000, 16000,                                                  \
	  "credit that a downlink has lent at most, 1/1000 BDP, SIRD 4.1 B")                  \
	X(credit_unsched_milli, 1000, 0, 64000,                                               \
	  "bytes that need no credit, 1/1000 BDP, at least a segment, SIRD 4 UnschT")         \
	X(credit_sthr_milli, 500, 50, 1000000,                                                \
	  "bytes waiting for a sender's link that congest it, 1/1000 BDP, SIRD 4.2 SThr")     \
	X(credit_policy, SIRD_FAIR, 0, 1,                                                     \
	  "who gets credit first, SIRD 4.4: 0 = all alike, 1 = who needs least")

enum sird_policy {
	SIRD_FAIR,
	SIRD_SRPT, /* shortest remaining processing time */
};

struct sird_tunables {
#define SIRD_X(name, def, lo, hi, doc) u32 name;
	SIRD_TUNABLES(SIRD_X)
#undef SIRD_X
};

static inline void sird_tunables_default(struct sird_tunables *t)
{
#define SIRD_X(name, def, lo, hi, doc) t->name = (def);
	SIRD_TUNABLES(SIRD_X)
#undef SIRD_X
}

/* Returns a null pointer, or the name of the first tunable that is out of its range. */
static inline const char *sird_tunables_check(const struct sird_tunables *t)
{
#define SIRD_X(name, def, lo, hi, doc)              \
	if (t->name > (hi) || t->name + 1 < (lo) + 1) \
		return #name;
	SIRD_TUNABLES(SIRD_X)
#undef SIRD_X
	return (const char *)0;
}

/* What a sender tells to have may be so much more, less one: it is told in units of this. */
#define SIRD_OPT_TOLD_GRAIN 64

/* --- Sequence numbers -------------------------------------------------------------------- */

/* How far @a is ahead of @b; 0 where it is not. */
static inline u32 sird_ahead(u32 a, u32 b)
{
	return (s32)(a - b) > 0 ? a - b : 0;
}

static inline u32 sird_later(u32 a, u32 b)
{
	return (s32)(a - b) > 0 ? a : b;
}

static inline u32 sird_earlier(u32 a, u32 b)
{
	return (s32)(a - b) < 0 ? a : b;
}

/* --- What a link holds ------------------------------------------------------------------- */

/*
 * S1. B, UnschT and SThr in bytes, out of the link's rate and the time that credit takes to
 * come back as data. Below some packets a kernel's timers and merged segments are the limit,
 * not the link: at 1 Gb/s an RTT of 50 us is four packets.
 */
#define SIRD_BDP_LEAST_BYTES 16384
#define SIRD_BDP_MOST_BYTES (1U << 26)

struct sird_link {
	u32 bdp_bytes;
	u32 b_bytes; /* B */
	u32 unsched_bytes; /* UnschT */
	u32 quantum_bytes; /* that is granted at once (S6) */
};

static inline u32 sird_bytes_at(u32 mbps, u32 time_ns)
{
	return swift_saturate_u32(SWIFT_DIV_U64((u64)mbps * time_ns, 8000));
}

static inline u32 sird_bdp_bytes(u32 mbps, u32 time_ns)
{
	return swift_clamp_u32(sird_bytes_at(mbps, time_ns), SIRD_BDP_LEAST_BYTES,
			       SIRD_BDP_MOST_BYTES);
}

/* @loop_ns is for what is lent (S9), @rtt_ns for what nobody asked for. */
static inline void sird_link_set(struct sird_link *l, const struct sird_tunables *t, u32 mbps,
				 u32 loop_ns, u32 rtt_ns)
{
	l->bdp_bytes = sird_bdp_bytes(mbps, loop_ns);
	l->b_bytes = (u32)SWIFT_DIV_U64((u64)l->bdp_bytes * t->credit_b_milli, 1000);
	l->unsched_bytes = swift_saturate_u32(SWIFT_DIV_U64((u64)sird_bdp_bytes(mbps, rtt_ns) *
							    t->credit_unsched_milli, 1000));
	/* A window of TCP ends at 1 GB; two of them are one behind the other here. */
	l->unsched_bytes = swift_min_u32(l->unsched_bytes, 1U << 28);
}

/*
 * S2. Of all senders' RTTs the average by bytes: what is under way at the link's rate is, by
 * Little's law, that average times the rate.
 */
#define SIRD_RTT_SHIFT 6

static inline u32 sird_rtt_feed(u32 avg_ns, u32 rtt_ns)
{
	if (!avg_ns || !rtt_ns)
		return avg_ns ? avg_ns : rtt_ns;
	return rtt_ns >= avg_ns ? avg_ns + ((rtt_ns - avg_ns) >> SIRD_RTT_SHIFT) :
				  avg_ns - ((avg_ns - rtt_ns) >> SIRD_RTT_SHIFT);
}

/*
 * S9. How long credit takes to come back as data: the path's RTT at least, but that is the
 * smallest one, and knows nothing of interrupts that are moderated, cores that wake, and segments
 * that are merged. Where somebody waits all the time for credit that a longer loop would give
 * him, and the link is not full all the same, the loop is taken for longer, as much as the
 * rate falls short; where not a third of that comes, it is not credit's to bring (a core is the
 * limit, or others' traffic), and is taken back. What was learnt is tried downwards in turns,
 * and forgotten while the link is full.
 */
#define SIRD_LOOP_LOOK_LOOPS 16 /* what a look takes */
#define SIRD_LOOP_SHORT_MILLI 950 /* of the link's rate: it is not full */
#define SIRD_LOOP_FULL_MILLI 980
#define SIRD_LOOP_STEP_LEAST_MILLI 1125
#define SIRD_LOOP_STEP_MOST_MILLI 1500
#define SIRD_LOOP_GAIN_PART 3
#define SIRD_LOOP_FORGET_SHIFT 6 /* of a look at a full link */
#define SIRD_LOOP_REST_LOOKS 16 /* after a step in vain */
#define SIRD_LOOP_RTTS_MOST 8

struct sird_loop {
	u64 since_ns; /* of the look, or when it will begin; 0 = nobody waits */
	u64 bytes; /* on the wire, since then */
	u32 ns;
	u32 was_ns; /* before a step that is not judged yet; 0 = there is none */
	u32 was_milli; /* of the link's rate, then */
	u32 rests; /* looks to come without a step */
	bool down; /* was the last step */
};

/* In vain? Up a step has to bring a third of what it promised, down it may cost as much. */
static inline bool sird_loop_regrets(const struct sird_loop *p, u32 rate_milli)
{
	s64 promised = ((s64)p->ns - p->was_ns) * p->was_milli;
	s64 brought = ((s64)rate_milli - p->was_milli) * p->was_ns;

	return brought * SIRD_LOOP_GAIN_PART < promised;
}

static inline void sird_loop_step(struct sird_loop *p, u32 rate_milli)
{
	u32 up_milli = swift_clamp_u32(SIRD_LOOP_FULL_MILLI * 1000 / swift_max_u32(rate_milli, 1),
				       SIRD_LOOP_STEP_LEAST_MILLI, SIRD_LOOP_STEP_MOST_MILLI);

	p->was_ns = p->ns;
	p->was_milli = rate_milli;
	p->ns = p->down ?
			(u32)SWIFT_DIV_U64((u64)p->ns * 1000, SIRD_LOOP_STEP_LEAST_MILLI) :
			swift_saturate_u32(SWIFT_DIV_U64((u64)p->ns * up_milli, 1000));
}

/* A look is over, in which the link had so much of its rate. */
static inline void sird_loop_judge(struct sird_loop *p, u32 rate_milli, u32 rtt_ns)
{
	if (p->was_ns && rate_milli < SIRD_LOOP_FULL_MILLI && sird_loop_regrets(p, rate_milli)) {
		p->ns = p->was_ns;
		p->rests = SIRD_LOOP_REST_LOOKS;
	}
	p->was_ns = 0;
	if (rate_milli >= SIRD_LOOP_FULL_MILLI) {
		p->ns -= p->ns >> SIRD_LOOP_FORGET_SHIFT;
	} else if (p->rests) {
		p->rests--;
	} else if (rate_milli < SIRD_LOOP_SHORT_MILLI) {
		p->down = !p->down && (u64)p->ns * 1000 > (u64)rtt_ns * SIRD_LOOP_STEP_LEAST_MILLI;
		sird_loop_step(p, rate_milli);
	}
}

static inline void sird_loop_bound(struct sird_loop *p, u32 rtt_ns)
{
	p->ns = swift_clamp_u32(p->ns, rtt_ns,
				swift_saturate_u32((u64)rtt_ns * SIRD_LOOP_RTTS_MOST));
}

/* @wire_bytes came; @waits: for what a longer loop would give, since the last that came. */
static inline void sird_loop_feed(struct sird_loop *p, u32 wire_bytes, bool waits, u32 mbps,
				  u32 rtt_ns, u64 now_ns)
{
	s64 for_ns = (s64)(now_ns - p->since_ns);
	u64 look_ns;

	sird_loop_bound(p, rtt_ns);
	look_ns = (u64)p->ns * SIRD_LOOP_LOOK_LOOPS;
	if (!waits) {
		p->since_ns = 0;
	} else if (!p->since_ns) {
		/* What begins is on its way to what it will be: not judged. */
		p->since_ns = now_ns + look_ns;
		p->bytes = 0;
	} else if (for_ns > 0) {
		p->bytes += wire_bytes;
		if ((u64)for_ns >= look_ns) {
			/* 8000 Mb/s are a byte a ns; thousandths. */
			u64 milli_mbps = SWIFT_DIV_U64(p->bytes * 8000000, (u64)for_ns);

			milli_mbps = SWIFT_DIV_U64(milli_mbps, swift_max_u32(mbps, 1));
			sird_loop_judge(p, swift_saturate_u32(milli_mbps), rtt_ns);
			sird_loop_bound(p, rtt_ns);
			p->since_ns = now_ns;
			p->bytes = 0;
		}
	}
}

/* Headers of IPv4 and TCP with timestamps and the option; Ethernet's, its FCS, preamble and gap. */
#define SIRD_WIRE_HEADERS_BYTES (20 + 20 + 12 + 8 + 38)

static inline u32 sird_wire_bytes(u32 bytes, u32 mss_bytes)
{
	return swift_saturate_u32(bytes + (u64)(bytes / mss_bytes) * SIRD_WIRE_HEADERS_BYTES);
}

/* --- A sender's buckets (4.2, Algorithm 1, lines 5 and 6) -------------------------------- */

/*
 * DCTCP's AIMD: what part of the bytes came marked is averaged, and a bucket is cut by half
 * of that average. S3: the weight, how often, and the floors are those of the authors'
 * simulator; their text has none.
 */
#define SIRD_AIMD_G_Q16 5243 /* 0.08 */
#define SIRD_AIMD_WINDOWS_NUM 3 /* once each 3/2 buckets of bytes */
#define SIRD_AIMD_WINDOWS_DEN 2
#define SIRD_HOST_FLOOR_MILLI 100 /* of a BDP */
#define SIRD_NET_FLOOR_MILLI 30

struct sird_bucket {
	u32 size_bytes; /* senderBkt, or netBkt */
	u32 alpha_q16; /* part of the bytes that come marked, averaged */
	u32 arrived_bytes; /* since the last look */
	u32 marked_bytes;
};

static inline void sird_bucket_init(struct sird_bucket *k, u32 bdp_bytes)
{
	k->size_bytes = bdp_bytes;
	k->alpha_q16 = 0;
	k->arrived_bytes = 0;
	k->marked_bytes = 0;
}

static inline void sird_bucket_feed(struct sird_bucket *k, u32 bytes, bool marked, u32 mss_bytes,
				    u32 bdp_bytes, u32 floor_milli)
{
	u32 floor_bytes = (u32)SWIFT_DIV_U64((u64)bdp_bytes * floor_milli, 1000);
	u32 part_q16;

	k->arrived_bytes = swift_saturate_u32((u64)k->arrived_bytes + bytes);
	if (marked)
		k->marked_bytes = swift_saturate_u32((u64)k->marked_bytes + bytes);
	if ((u64)k->arrived_bytes * SIRD_AIMD_WINDOWS_DEN <
	    (u64)k->size_bytes * SIRD_AIMD_WINDOWS_NUM)
		return;

	part_q16 = (u32)SWIFT_DIV_U64((u64)k->marked_bytes << SWIFT_Q16_SHIFT, k->arrived_bytes);
	if (part_q16 >= k->alpha_q16)
		k->alpha_q16 += (part_q16 - k->alpha_q16) * SIRD_AIMD_G_Q16 >> SWIFT_Q16_SHIFT;
	else
		k->alpha_q16 -= (k->alpha_q16 - part_q16) * SIRD_AIMD_G_Q16 >> SWIFT_Q16_SHIFT;
	if (k->marked_bytes)
		k->size_bytes -= (u32)((u64)k->size_bytes * k->alpha_q16 >>
				       (SWIFT_Q16_SHIFT + 1));
	else
		k->size_bytes = swift_saturate_u32((u64)k->size_bytes + mss_bytes);
	k->size_bytes = swift_clamp_u32(k->size_bytes, swift_max_u32(floor_bytes, mss_bytes),
					swift_max_u32(bdp_bytes, mss_bytes));
	k->arrived_bytes = 0;
	k->marked_bytes = 0;
}

/* As the link's BDP has changed: the bucket with it, which would take long by segments. */
static inline void sird_bucket_scale(struct sird_bucket *k, u32 from_bytes, u32 to_bytes)
{
	k->size_bytes = swift_saturate_u32(SWIFT_DIV_U64((u64)k->size_bytes * to_bytes,
							 swift_max_u32(from_bytes, 1)));
}

/*
 * S10. A third bucket, by what comes. Where a sender's credit or data waits nobody may mark
 * anything: for a core of this very host, or for the sender's own window. What it was lent is
 * missing elsewhere. It has what would be under way if its data came as fast as it did and
 * nothing waited, twice; and a quarter of a BDP at least.
 */
#define SIRD_USED_LOOPS 2 /* what a look takes */
#define SIRD_USED_TIMES 2
#define SIRD_USED_FORGET_SHIFT 2 /* of a look that finds less */
#define SIRD_USED_LEAST_SHIFT 2

struct sird_used {
	u64 since_ns; /* of the look; 0 = there is none */
	u32 bytes; /* since then */
	u32 most_bytes; /* 0 = nothing is known */
};

/* It had nothing, and begins: what comes first was not asked for, and tells no rate. */
static inline void sird_used_init(struct sird_used *u)
{
	u->since_ns = 0;
	u->bytes = 0;
	u->most_bytes = 0;
}

static inline void sird_used_feed(struct sird_used *u, u32 bytes, u32 loop_ns, u64 now_ns)
{
	u64 for_ns = now_ns - u->since_ns;
	u32 most_bytes;

	if (!u->since_ns) {
		u->since_ns = now_ns;
		return;
	}
	u->bytes = swift_min_u32(swift_saturate_u32((u64)u->bytes + bytes), 1U << 30);
	if (for_ns < (u64)loop_ns * SIRD_USED_LOOPS)
		return;
	most_bytes = swift_saturate_u32(SWIFT_DIV_U64((u64)u->bytes * loop_ns * SIRD_USED_TIMES,
						      for_ns | 1));
	u->most_bytes -= u->most_bytes >> SIRD_USED_FORGET_SHIFT;
	u->most_bytes = swift_max_u32(swift_max_u32(u->most_bytes, most_bytes), 1);
	u->since_ns = now_ns;
	u->bytes = 0;
}

struct sird_sender {
	u32 lent_bytes; /* sb_i */
	u32 bdp_bytes; /* that the buckets are of */
	struct sird_bucket host; /* senderBkt_i: by csn */
	struct sird_bucket net; /* netBkt_i: by ECN */
	struct sird_used used; /* S10 */
};

static inline void sird_sender_init(struct sird_sender *s, u32 bdp_bytes)
{
	s->lent_bytes = 0;
	s->bdp_bytes = bdp_bytes;
	sird_bucket_init(&s->host, bdp_bytes);
	sird_bucket_init(&s->net, bdp_bytes);
	sird_used_init(&s->used);
}

static inline void sird_sender_feed(struct sird_sender *s, const struct sird_link *l, u32 bytes,
				    bool csn, bool net_marked, u32 mss_bytes)
{
	if (s->bdp_bytes != l->bdp_bytes) {
		sird_bucket_scale(&s->host, s->bdp_bytes, l->bdp_bytes);
		sird_bucket_scale(&s->net, s->bdp_bytes, l->bdp_bytes);
		s->bdp_bytes = l->bdp_bytes;
	}
	sird_bucket_feed(&s->host, bytes, csn, mss_bytes, l->bdp_bytes, SIRD_HOST_FLOOR_MILLI);
	sird_bucket_feed(&s->net, bytes, net_marked, mss_bytes, l->bdp_bytes,
			 SIRD_NET_FLOOR_MILLI);
}

/* The two that others' word makes. */
static inline u32 sird_sender_bucket(const struct sird_sender *s)
{
	return swift_min_u32(s->host.size_bytes, s->net.size_bytes);
}

static inline u32 sird_sender_most(const struct sird_sender *s)
{
	u32 most_bytes = swift_max_u32(s->used.most_bytes,
				       s->bdp_bytes >> SIRD_USED_LEAST_SHIFT);

	return s->used.most_bytes ? swift_min_u32(sird_sender_bucket(s), most_bytes) :
				    sird_sender_bucket(s);
}

/* Does who has no room wait for what a longer loop would give (S9), and not for others' word? */
static inline bool sird_sender_is_held(const struct sird_sender *s)
{
	u32 bucket_bytes = sird_sender_bucket(s);

	return bucket_bytes >= s->bdp_bytes - s->bdp_bytes / 8 ||
	       sird_sender_most(s) < bucket_bytes;
}

/*
 * S6. Four segments at a time: kernels send and receive several as one. Where more of them
 * arrive as one, the host pays by what it merges, and what is granted at once is most of what
 * there is to merge: eight times what an average one has beyond a segment, so that the most is
 * soon found, and not what was granted before. A twelfth of B at most.
 */
#define SIRD_QUANTUM_PKTS 4
#define SIRD_QUANTUM_TIMES 8
#define SIRD_QUANTUM_MOST_BYTES 65536 /* as TCP sends at once */
#define SIRD_QUANTUM_PART 12
#define SIRD_BATCH_SHIFT 20 /* the average is over about so many bytes */

/* @avg_bytes: what arrives as one, averaged over bytes. */
static inline u32 sird_batch_feed(u32 avg_bytes, u32 bytes)
{
	u64 weight = swift_min_u32(bytes, SIRD_QUANTUM_MOST_BYTES);

	return bytes >= avg_bytes ?
		       avg_bytes + (u32)((bytes - avg_bytes) * weight >> SIRD_BATCH_SHIFT) :
		       avg_bytes - (u32)((avg_bytes - bytes) * weight >> SIRD_BATCH_SHIFT);
}

static inline u32 sird_quantum_bytes(const struct sird_link *l, u32 batch_bytes, u32 mss_bytes)
{
	u32 merged_bytes = batch_bytes > mss_bytes ? batch_bytes - mss_bytes : 0;
	u32 most_bytes = swift_min_u32(SIRD_QUANTUM_MOST_BYTES, l->b_bytes / SIRD_QUANTUM_PART);

	return swift_min_u32(swift_saturate_u32((u64)merged_bytes * SIRD_QUANTUM_TIMES),
			     most_bytes);
}

/* For four segments there has to be room: the rest of a quantum goes beyond. */
static inline u32 sird_room(u32 bytes, u32 mss_bytes)
{
	return swift_min_u32(bytes, mss_bytes * SIRD_QUANTUM_PKTS);
}

/* Line 9: room in the sender's smallest bucket. One who has nothing may always have something. */
static inline bool sird_sender_may_have(const struct sird_sender *s, u32 bytes)
{
	return !s->lent_bytes || (u64)s->lent_bytes + bytes <= sird_sender_most(s);
}

/* Line 8: and in B, which may have room for less than some jumbo frames: one has them then. */
static inline bool sird_link_may_lend(const struct sird_link *l, u32 lent_bytes, u32 bytes,
				      u32 mss_bytes)
{
	return !lent_bytes || (u64)lent_bytes + sird_room(bytes, mss_bytes) <= l->b_bytes;
}

/* --- A flow ------------------------------------------------------------------------------ */

struct sird_flow {
	u32 arrived; /* behind the last byte that arrived, holes or not */
	u32 told; /* behind the last byte that the sender has */
	u32 edge; /* behind the last byte that it may send */
	u32 most; /* behind the last byte that the receiver's own window has room for */
	u32 attained_bytes; /* got by credit since it last had nothing to send */
};

/* A segment of the flow, as it arrives. */
struct sird_data {
	u32 end; /* behind its last byte */
	u32 told; /* by its option */
	bool announces; /* more than the allowance: the rest is held */
};

static inline u32 sird_allowance(const struct sird_link *l, u32 mss_bytes)
{
	return swift_max_u32(l->unsched_bytes, mss_bytes);
}

/*
 * S11. While others wait for credit, who has got more than they asks as they do: with a segment.
 * Otherwise streams of many short writes would take the link unasked, and they would starve.
 */
static inline u32 sird_allowance_among(const struct sird_link *l, u32 mss_bytes, bool others_wait,
				       u64 served_bytes, u64 clock_bytes)
{
	return others_wait && served_bytes > clock_bytes ? mss_bytes :
							   sird_allowance(l, mss_bytes);
}

static inline void sird_flow_init(struct sird_flow *f, u32 next, u32 allowance_bytes)
{
	f->arrived = next;
	f->told = next;
	f->edge = next + allowance_bytes;
	f->most = f->edge;
	f->attained_bytes = 0;
}

/* Bytes that are under way, or may be at once: its part of b and sb (S4: unscheduled, too). */
static inline u32 sird_flow_lent(const struct sird_flow *f)
{
	return sird_ahead(sird_earlier(sird_earlier(f->edge, f->told), f->most), f->arrived);
}

/* rem: wanted, and not granted. Nothing that the application's buffer has no room for. */
static inline u32 sird_flow_wants(const struct sird_flow *f)
{
	return sird_ahead(sird_earlier(f->told, f->most), f->edge);
}

/* Returns how many bytes came that had not come before. */
static inline u32 sird_flow_arrived(struct sird_flow *f, const struct sird_data *in,
				    u32 allowance_bytes)
{
	u32 bytes = sird_ahead(in->end, f->arrived);

	f->arrived += bytes;
	f->told = sird_later(f->told, sird_later(in->told, f->arrived));
	f->edge = sird_later(f->edge, f->arrived);
	if (f->told - f->arrived < SIRD_OPT_TOLD_GRAIN) {
		f->told = f->arrived;
		f->edge = sird_later(f->edge, f->arrived + allowance_bytes);
		f->attained_bytes = 0;
	} else if (in->announces && bytes) {
		f->edge = f->arrived;
	}
	return bytes;
}

/*
 * What is granted at once, in whole segments. What is left is granted with them where it is less
 * than a segment, so that no runt waits for a probe.
 */
static inline u32 sird_quantum(const struct sird_flow *f, const struct sird_link *l,
			       const struct sird_sender *s, u32 mss_bytes)
{
	u32 most = swift_min_u32(l->quantum_bytes, sird_sender_bucket(s) / SIRD_QUANTUM_PKTS);
	u32 wants = sird_flow_wants(f);

	most = swift_max_u32(most - most % mss_bytes, mss_bytes * SIRD_QUANTUM_PKTS);
	return wants < most + mss_bytes ? wants : most;
}

/* Lines 11 to 13 for the flow; b and sb grow by as much. */
static inline void sird_flow_grant(struct sird_flow *f, u32 bytes)
{
	f->edge += bytes;
	f->attained_bytes = swift_saturate_u32((u64)f->attained_bytes + bytes);
}

/* --- Policies (4.4, line 10) ------------------------------------------------------------- */

/*
 * The smallest key is served first. Fair: what a flow got, on a clock of bytes that no flow
 * falls behind while it is away. SRPT: what it still wants; one that says it is short for
 * ever counts by an eighth of what it got (S7).
 */
#define SIRD_SRPT_LIE_SHIFT 3
/* Of so many grants one is for whom was not served for longest (4.4: a part is fair). */
#define SIRD_SRPT_OLDEST 10

static inline u64 sird_key(enum sird_policy policy, const struct sird_flow *f, u64 served_bytes)
{
	if (policy == SIRD_SRPT)
		return swift_max_u32(sird_flow_wants(f),
				     f->attained_bytes >> SIRD_SRPT_LIE_SHIFT);
	return served_bytes;
}

/* --- Senders (Algorithm 2) --------------------------------------------------------------- */

/*
 * What is counted is 1/128 too much, on purpose: of a link that is full for long the excess has to
 * end somewhere, or a second receiver finds seconds that nobody waits for. Chosen, well above SThr
 * of datacentre paths; below 130 Mbit/s a segment of 64 KB alone takes longer, and counts as this.
 */
#define SIRD_LINK_BUSY_MOST_NS 4000000U

/*
 * S8. Credit that a sender could not use yet has become segments that wait for its link, in a
 * qdisc or the NIC: how long the link is busy with what it was handed, by its rate. One word
 * for each device. A segment takes 115.84 ns at 100 Gb/s: rounded down each time, the queue of
 * a full link would drain on paper. It is rounded by where the clock stands, right on average.
 */
static inline u64 sird_link_busy_until(u64 busy_until_ns, u64 now_ns, u32 bytes, u32 mbps)
{
	u64 from_ns = (s64)(busy_until_ns - now_ns) > 0 ? busy_until_ns : now_ns;
	u64 until_ns = from_ns + SWIFT_DIV_U64((u64)bytes * 8000 + (u32)now_ns % mbps, mbps);

	return until_ns - now_ns > SIRD_LINK_BUSY_MOST_NS ? now_ns + SIRD_LINK_BUSY_MOST_NS :
							    until_ns;
}

/* Line 7: before the segment at hand is added. */
static inline bool sird_csn(const struct sird_tunables *t, u64 busy_until_ns, u64 now_ns,
			    u32 rtt_ns)
{
	s64 waits_ns = (s64)(busy_until_ns - now_ns);

	return waits_ns > 0 &&
	       (u64)waits_ns * 1000 > (u64)rtt_ns * t->credit_sthr_milli;
}

/*
 * Does a flow with nothing under way announce and hold? It does what the application has
 * written so far does not fit, or where more is likely to follow: the last segment is full.
 */
static inline bool sird_announces(u32 queued_bytes, u32 window_bytes, bool last_is_full)
{
	return queued_bytes > window_bytes || last_is_full;
}

/*
 * The window is in units of the receiver's scale: what that adds to credit is less than a
 * segment, and not sent as one, unless it is the last. Returns what to take off the window.
 * Not where nothing is under way: what the receiver was told of may end within a segment, and
 * nothing else would tell it of more.
 */
static inline u32 sird_odd_bytes(u32 queued_bytes, u32 window_bytes, u32 mss_bytes)
{
	return window_bytes >= queued_bytes || !mss_bytes ? 0 : window_bytes % mss_bytes;
}

/* --- What is seen of it ------------------------------------------------------------------ */

/* What credit does to a flow that sends, at a moment. */
enum sird_limit {
	SIRD_LIMIT_NONE, /* there is none */
	SIRD_LIMIT_ENOUGH, /* all that is to be sent may be, or the next segment of it at least */
	SIRD_LIMIT_WAITS, /* it may not yet */
	SIRD_LIMIT_CONGESTED, /* the same, and this host's own link was congested of late */
};

/*
 * Few segments with csn are enough for a bucket that stays small (the part of them is averaged),
 * and the newest one mostly goes without. So who was congested counts as it for some more.
 */
#define SIRD_CSN_SEGMENTS 64

/* How many more, after one that left with @csn, or without. */
static inline u8 sird_csn_left(u8 left, bool csn)
{
	return csn ? SIRD_CSN_SEGMENTS : (u8)(left - !!left);
}

/* @room_bytes is in the window. @holds what it has announced (sird_announces()). */
static inline enum sird_limit sird_limit_of(u32 queued_bytes, u32 room_bytes, u32 mss_bytes,
					    bool holds, bool congested)
{
	if (!queued_bytes || (!holds && room_bytes >= swift_min_u32(queued_bytes, mss_bytes)))
		return SIRD_LIMIT_ENOUGH;
	return congested ? SIRD_LIMIT_CONGESTED : SIRD_LIMIT_WAITS;
}

/* How a flow stands in its receiver's book: what keeps it from more credit. */
enum sird_standing {
	SIRD_STANDING_IDLE, /* its sender has told of nothing more */
	SIRD_STANDING_SERVED, /* all that its sender told of is granted */
	SIRD_STANDING_LINK, /* B is lent, or a BDP to its sender alone */
	SIRD_STANDING_SENDER, /* its sender's own link is congested (csn) */
	SIRD_STANDING_NETWORK, /* the network marked what came from its sender */
	SIRD_STANDING_LATE, /* what its sender was lent comes late (S10) */
	SIRD_STANDING_BUFFER, /* its application has not read: there is no room for more */
};

static inline enum sird_standing sird_standing_of(const struct sird_flow *f,
						  const struct sird_sender *s, u32 quantum_bytes)
{
	if (!sird_flow_wants(f)) {
		if (sird_ahead(f->told, f->most))
			return SIRD_STANDING_BUFFER;
		return sird_ahead(f->told, f->arrived) ? SIRD_STANDING_SERVED : SIRD_STANDING_IDLE;
	}
	if (sird_sender_may_have(s, quantum_bytes))
		return SIRD_STANDING_LINK;
	/* Where the BDP is the least one, to use less of it is no slowness. */
	if (sird_sender_most(s) < sird_sender_bucket(s) && s->bdp_bytes > SIRD_BDP_LEAST_BYTES)
		return SIRD_STANDING_LATE;
	if (sird_sender_bucket(s) >= s->bdp_bytes)
		return SIRD_STANDING_LINK;
	return s->host.size_bytes <= s->net.size_bytes ? SIRD_STANDING_SENDER :
							 SIRD_STANDING_NETWORK;
}

/* --- The option on data (8 bytes) -------------------------------------------------------- */

/*
 *   offer, on SYN and SYN-ACK        demand, on data
 *   +------+-----+-----------+       +------+-----+-----------+-------+-----------+
 *   | 253  |  4  |  0x5343   |       | 253  |  8  |  0x5343   | flags | told, in  |
 *   +------+-----+-----------+       |      |     |           |       |  64 bytes |
 *                                    +------+-----+-----------+-------+-----------+
 *                                      1      1        2          1        3 bytes
 *
 * Told is a sequence number, not a length: it is the same in all segments of a message, so
 * that they are merged on their way in. Rounded up: what is behind the last byte is nobody's.
 */
#define SIRD_OPT_KIND 253
#define SIRD_OPT_EXID 0x5343 /* "SC" */
#define SIRD_OPT_OFFER_LEN 4
#define SIRD_OPT_DEMAND_LEN 8
#define SIRD_OPT_SPACE 40

#define SIRD_OPT_VERSION_SHIFT 6 /* two bits; others than 1 are ignored */
#define SIRD_OPT_VERSION 1
#define SIRD_OPT_CSN 0x01 /* the sender's link is congested */
#define SIRD_OPT_ANNOUNCES 0x02 /* more than the allowance follows, and is held */

#define SIRD_OPT_TOLD_SHIFT 6
#define SIRD_OPT_TOLD_BITS 24

enum sird_opt_kind {
	SIRD_OPT_NONE,
	SIRD_OPT_OFFER,
	SIRD_OPT_DEMAND,
	SIRD_OPT_MALFORMED, /* ours, but truncated, of a wrong length, or twice */
};

struct sird_opt {
	u32 told; /* sequence number; up to SIRD_OPT_TOLD_GRAIN - 1 more than there is */
	u8 flags; /* SIRD_OPT_CSN, ... */
};

static inline void sird_opt_put_offer(u8 *p)
{
	p[0] = SIRD_OPT_KIND;
	p[1] = SIRD_OPT_OFFER_LEN;
	p[2] = SIRD_OPT_EXID >> 8;
	p[3] = SIRD_OPT_EXID & 0xff;
}

static inline void sird_opt_put_demand(u8 *p, const struct sird_opt *opt)
{
	u32 units = (opt->told + SIRD_OPT_TOLD_GRAIN - 1) >> SIRD_OPT_TOLD_SHIFT;

	p[0] = SIRD_OPT_KIND;
	p[1] = SIRD_OPT_DEMAND_LEN;
	p[2] = SIRD_OPT_EXID >> 8;
	p[3] = SIRD_OPT_EXID & 0xff;
	p[4] = SIRD_OPT_VERSION << SIRD_OPT_VERSION_SHIFT | opt->flags;
	p[5] = (u8)(units >> 16);
	p[6] = (u8)(units >> 8);
	p[7] = (u8)units;
}

/* The sequence number nearest to @near whose units are the 24 bits of the option. */
static inline u32 sird_opt_told(u32 units, u32 near)
{
	u32 all = SIRD_OPT_TOLD_BITS + SIRD_OPT_TOLD_SHIFT;
	u32 ahead = ((units << SIRD_OPT_TOLD_SHIFT) - near) << (32 - all);

	return near + (u32)((s32)ahead >> (32 - all));
}

/* Among the @len bytes of options at @p; @opt is only valid for SIRD_OPT_DEMAND. */
static inline enum sird_opt_kind sird_opt_parse(const u8 *p, u32 len, u32 near,
						struct sird_opt *opt)
{
	enum sird_opt_kind found = SIRD_OPT_NONE;
	u32 at = 0, step, olen;

	if (len > SIRD_OPT_SPACE)
		len = SIRD_OPT_SPACE;
	for (step = 0; step < SIRD_OPT_SPACE && at < len; step++, at += olen) {
		bool ours;

		if (p[at] == 0) /* end of options */
			break;
		olen = 1;
		if (p[at] == 1) /* no-operation */
			continue;
		if (at + 1 >= len)
			break;
		olen = p[at + 1];
		ours = p[at] == SIRD_OPT_KIND && at + 4 <= len && olen >= 4 &&
		       p[at + 2] == SIRD_OPT_EXID >> 8 && p[at + 3] == (SIRD_OPT_EXID & 0xff);
		if (olen < 2 || at + olen > len)
			return ours ? SIRD_OPT_MALFORMED : found;
		if (!ours)
			continue;
		if (found != SIRD_OPT_NONE)
			return SIRD_OPT_MALFORMED;
		if (olen == SIRD_OPT_OFFER_LEN) {
			found = SIRD_OPT_OFFER;
		} else if (olen == SIRD_OPT_DEMAND_LEN) {
			if (p[at + 4] >> SIRD_OPT_VERSION_SHIFT != SIRD_OPT_VERSION)
				continue;
			found = SIRD_OPT_DEMAND;
			opt->flags = p[at + 4] & ((1U << SIRD_OPT_VERSION_SHIFT) - 1);
			opt->told = sird_opt_told((u32)p[at + 5] << 16 | (u32)p[at + 6] << 8 |
						  (u32)p[at + 7], near);
		} else {
			return SIRD_OPT_MALFORMED;
		}
	}
	return found;
}

#endif /* SWIFT_CORE_SIRD_H */
