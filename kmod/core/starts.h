/* SPDX-License-Identifier: GPL-2.0 */
/*
 * One window for the first packets of all flows of a host that begin, or begin anew, to one
 * destination (D21), as pure functions of (state, event). Who finds it full waits for a turn.
 *
 *   at first:  16 KB
 *   answer:    delay below its target, and the window was needed:  += its bytes (twice each RTT)
 *              above it, once an RTT:                              /= 2 (a packet at least)
 *   silence:   as at first, and nobody is under way: what they sent is lost, or they did not send
 *   turn:      one that waited begins with a quarter of a packet, if the newest answer was late
 */
#ifndef SWIFT_CORE_STARTS_H
#define SWIFT_CORE_STARTS_H

#include "fixed.h"

#define SWIFT_STARTS_BYTES 16384
#define SWIFT_STARTS_BYTES_MAX (1U << 24)
#define SWIFT_STARTS_SILENCE_NS 16000000 /* and two RTTs */
#define SWIFT_STARTS_RTT_MIN_NS 4096
#define SWIFT_STARTS_RTT_MAX_NS 64000000
#define SWIFT_STARTS_WAIT_MAX_NS 64000000
#define SWIFT_STARTS_LATE_CWND_Q16 (SWIFT_Q16_ONE / 4)

/* All zeros: nobody began yet. */
struct swift_starts {
	u64 moved_ns; /* when one began, or was answered, last */
	u64 cut_ns; /* when the window was halved last */
	u64 full_ns; /* when one found no room last */
	u32 window_bytes;
	u32 sent_bytes; /* by those whose first packet is not answered: they are under way */
	u32 tickets; /* that were given to those who wait */
	u32 served; /* of these */
	u32 rtt_ns; /* of the newest answer, or before one of who asked first */
	bool late; /* that answer was above its target */
};

/* One that is about to send its first packet. */
struct swift_start_ask {
	u64 now_ns;
	u32 rtt_ns; /* its own, as it knows it */
	u32 bytes; /* of that packet; > 0 */
	u32 random;
	u32 ticket; /* given where it has to wait */
	bool waited; /* it asked before, and has a ticket */
};

static inline bool swift_starts_wait(const struct swift_starts *st)
{
	return st->served != st->tickets;
}

/* Other CPUs' clocks may be behind that of who came last. */
static inline bool swift_starts_since(u64 then_ns, u64 now_ns, u64 least_ns)
{
	return (s64)(now_ns - then_ns) >= (s64)least_ns;
}

static inline bool swift_starts_are_silent(const struct swift_starts *st, u64 now_ns)
{
	return swift_starts_since(st->moved_ns, now_ns,
				  SWIFT_STARTS_SILENCE_NS + 2ULL * st->rtt_ns);
}

static inline void swift_starts_begin_anew(struct swift_starts *st, u32 rtt_ns)
{
	st->window_bytes = SWIFT_STARTS_BYTES;
	st->sent_bytes = 0;
	st->served = st->tickets;
	st->rtt_ns = swift_min_u32(rtt_ns, SWIFT_STARTS_RTT_MAX_NS);
	st->late = false;
}

static inline void swift_starts_serve(struct swift_starts *st)
{
	if (swift_starts_wait(st)) /* else silence served all */
		st->served++;
}

static inline bool swift_starts_room(const struct swift_starts *st, u32 bytes)
{
	return !st->sent_bytes || (u64)st->sent_bytes + bytes <= st->window_bytes;
}

/*
 * When it asks again: after a quarter to a half of what those before it take, for the window may
 * grow, or of an RTT.
 */
static inline u32 swift_starts_wait_ns(const struct swift_starts *st,
				       const struct swift_start_ask *a)
{
	u32 rtt_ns = swift_max_u32(st->rtt_ns, SWIFT_STARTS_RTT_MIN_NS);
	u32 ahead = a->ticket - st->served; /* of it; it may have been served, by silence */
	u64 turn_ns = (u64)rtt_ns * (ahead < 1U << 31 ? ahead + 1 : 1);

	turn_ns = SWIFT_DIV_U64(turn_ns, swift_max_u32(st->window_bytes / a->bytes, 1));
	if (turn_ns < rtt_ns)
		turn_ns = rtt_ns;
	if (turn_ns > SWIFT_STARTS_WAIT_MAX_NS)
		turn_ns = SWIFT_STARTS_WAIT_MAX_NS;
	return (u32)(turn_ns / 4 + (turn_ns * a->random >> 34));
}

/* May it send? 0 = yes, it is under way; or how long it waits before it asks again, ns. */
static inline u32 swift_starts_ask(struct swift_starts *st, struct swift_start_ask *a)
{
	bool room;

	if (swift_starts_are_silent(st, a->now_ns))
		swift_starts_begin_anew(st, a->rtt_ns);
	room = swift_starts_room(st, a->bytes);
	if (!room)
		st->full_ns = a->now_ns;
	else if (swift_starts_since(st->full_ns, a->now_ns, SWIFT_STARTS_WAIT_MAX_NS))
		st->served = st->tickets; /* who did not ask since is gone */
	if (room && (a->waited || !swift_starts_wait(st))) {
		if (a->waited)
			swift_starts_serve(st);
		st->sent_bytes += a->bytes;
		st->moved_ns = a->now_ns;
		return 0;
	}
	if (!a->waited)
		a->ticket = st->tickets++;
	return swift_starts_wait_ns(st, a);
}

/* What was sent by one that is under way, and will not be answered. */
static inline void swift_starts_forget(struct swift_starts *st, u32 bytes)
{
	st->sent_bytes -= swift_min_u32(st->sent_bytes, bytes); /* else silence forgot it */
}

/* The first packet of a flow was answered. @late: a delay is above its target. */
static inline void swift_starts_answer(struct swift_starts *st, u64 now_ns, u32 bytes,
				       u32 mss_bytes, u32 rtt_ns, bool late)
{
	bool needed = swift_starts_wait(st) || 2ULL * st->sent_bytes >= st->window_bytes;

	swift_starts_forget(st, bytes);
	st->moved_ns = now_ns;
	st->rtt_ns = swift_min_u32(rtt_ns, SWIFT_STARTS_RTT_MAX_NS);
	st->late = late;
	if (!late && needed) {
		st->window_bytes = swift_min_u32(st->window_bytes + bytes,
						 SWIFT_STARTS_BYTES_MAX);
	} else if (late && swift_starts_since(st->cut_ns, now_ns, rtt_ns)) {
		st->window_bytes = swift_max_u32(st->window_bytes / 2, mss_bytes);
		st->cut_ns = now_ns;
	}
}

/* What one has that waited, where the path is full: of what it had. */
static inline u32 swift_starts_late_cwnd_q16(u32 cwnd_q16, u32 min_cwnd_q16)
{
	return swift_max_u32(swift_min_u32(cwnd_q16, SWIFT_STARTS_LATE_CWND_Q16), min_cwnd_q16);
}

#endif /* SWIFT_CORE_STARTS_H */
