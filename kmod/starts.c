// SPDX-License-Identifier: GPL-2.0
/*
 * Which flow of this host may begin, or begin anew, to a destination (D21 of
 * Documentation/paper.md): core/starts.h for path.c's keys. One table for all namespaces, of a
 * fixed size: who finds the place of his destination taken by another, which is not silent, just
 * begins.
 *
 * Called by who holds the socket, when a flow that was silent is about to send, and for the
 * answer: not for each packet.
 */
#include <linux/mm.h>
#include <linux/module.h>

#include "swift_sock.h"

#define SWIFT_STARTS 1024

struct swift_starts_slot {
	spinlock_t lock; /* of the others */
	u32 key; /* 0 = nobody's */
	struct swift_starts starts;
} ____cacheline_aligned_in_smp;

static struct swift_starts_slot *swift_starts_slots __read_mostly;

static struct swift_starts_slot *swift_starts_lock(const struct swift_sock *ss)
{
	struct swift_starts_slot *slot = &swift_starts_slots[ss->path_key % SWIFT_STARTS];

	spin_lock_bh(&slot->lock);
	return slot;
}

/* Nothing is left in a place that others got. */
static bool swift_starts_ours(const struct swift_starts_slot *slot, const struct swift_sock *ss)
{
	return slot->key == ss->path_key;
}

static void swift_start_over(const struct tcp_sock *tp, struct swift_sock *ss)
{
	ss->start = SWIFT_NO_START;
	ss->next_round_delivered = tp->delivered;
}

/*
 * How long the flow waits before it asks again, ns; 0: it begins. @late: that, and it waited, and
 * the newest answer was above its target.
 */
u32 swift_start_ask(const struct sock *sk, struct swift_sock *ss, u32 srtt_ns, bool *late)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct swift_start_ask ask = {
		.now_ns = tp->tcp_clock_cache,
		.rtt_ns = srtt_ns,
		.bytes = clamp(tp->write_seq - tp->snd_nxt, 1U, max(tp->mss_cache, 1U)),
		.random = get_random_u32(),
		.ticket = ss->start_ticket,
		.waited = ss->start == SWIFT_START_WAITS,
	};
	struct swift_starts_slot *slot;
	u32 wait_ns = 0;
	bool ours;

	*late = false;
	if (ss->start == SWIFT_START_UNDER_WAY) /* TCP did not send when it might */
		return 0;
	slot = swift_starts_lock(ss);
	if (!swift_starts_ours(slot, ss) && swift_starts_are_silent(&slot->starts, ask.now_ns)) {
		slot->key = ss->path_key;
		swift_starts_begin_anew(&slot->starts, ask.rtt_ns);
	}
	ours = swift_starts_ours(slot, ss);
	if (ours)
		wait_ns = swift_starts_ask(&slot->starts, &ask);
	*late = ours && !wait_ns && ask.waited && slot->starts.late;
	spin_unlock_bh(&slot->lock);
	if (!ours) {
		swift_start_over(tp, ss);
	} else if (wait_ns) {
		ss->start = SWIFT_START_WAITS;
		ss->start_ticket = ask.ticket;
	} else {
		ss->start = SWIFT_START_UNDER_WAY;
		ss->start_bytes = ask.bytes;
	}
	return wait_ns;
}

/* @late: a delay is above its target. */
void swift_start_answered(const struct sock *sk, struct swift_sock *ss, u32 rtt_ns, bool late)
{
	struct swift_starts_slot *slot = swift_starts_lock(ss);
	const struct tcp_sock *tp = tcp_sk(sk);

	if (swift_starts_ours(slot, ss))
		swift_starts_answer(&slot->starts, tp->tcp_clock_cache, ss->start_bytes,
				    max(tp->mss_cache, 1U), rtt_ns, late);
	spin_unlock_bh(&slot->lock);
	swift_start_over(tp, ss);
}

/* There is no answer that tells a delay, or it does not wait any longer. */
void swift_start_left(const struct sock *sk, struct swift_sock *ss)
{
	struct swift_starts_slot *slot;

	if (!swift_starts_knows(ss))
		return;
	slot = swift_starts_lock(ss);
	if (swift_starts_ours(slot, ss)) {
		if (ss->start == SWIFT_START_WAITS)
			swift_starts_serve(&slot->starts);
		else
			swift_starts_forget(&slot->starts, ss->start_bytes);
	}
	spin_unlock_bh(&slot->lock);
	swift_start_over(tcp_sk(sk), ss);
}

int swift_starts_create(void)
{
	int i;

	swift_starts_slots = kvcalloc(SWIFT_STARTS, sizeof(*swift_starts_slots), GFP_KERNEL);
	if (!swift_starts_slots)
		return -ENOMEM;
	for (i = 0; i < SWIFT_STARTS; i++)
		spin_lock_init(&swift_starts_slots[i].lock);
	return 0;
}

void swift_starts_destroy(void)
{
	kvfree(swift_starts_slots);
}
