// SPDX-License-Identifier: GPL-2.0
/*
 * A transmitter: queues by class, the frame in transmission, and the wire behind it.
 * A frame that meets an idle port costs one event, its arrival at the other end; one
 * that has to wait costs a second, the end of the frame before it.
 */
#include <linux/math64.h>
#include <net/dsfield.h>
#include <net/inet_ecn.h>

#include "fab.h"

/* A full frame and more, so that a turn always sends at least one. */
#define FAB_QUANTUM_BYTES 16384

/* --- Occupancy over time ------------------------------------------------------------ */

static unsigned int fab_hist_bucket(u32 bytes)
{
	unsigned int octave;

	if (bytes < 64)
		return 0;
	octave = ilog2(bytes);
	return min(1 + (octave - 6) * FAB_HIST_STEPS +
		   ((bytes >> (octave - 3)) & (FAB_HIST_STEPS - 1)),
		   FAB_HIST_BUCKETS - 1U);
}

u32 fab_hist_low_bytes(unsigned int bucket)
{
	unsigned int octave = (bucket - 1) / FAB_HIST_STEPS + 6;

	if (!bucket)
		return 0;
	return (FAB_HIST_STEPS + (bucket - 1) % FAB_HIST_STEPS) << (octave - 3);
}

/* Before each change of the backlog: how long it was what it was. */
void fab_port_account(struct fab_port *port, u64 now_ns)
{
	u64 for_ns = now_ns - port->seen_ns;

	if (now_ns <= port->seen_ns)
		return;
	port->seen_ns = now_ns;
	port->stats.q_byte_ns += for_ns * port->backlog_bytes;
	port->stats.hist_ns[fab_hist_bucket(port->backlog_bytes)] += for_ns;
}

void fab_port_stats_reset(struct fab_port *port, u64 now_ns)
{
	memset(&port->stats, 0, sizeof(port->stats));
	port->stats.since_ns = now_ns;
	port->paused_since_ns = now_ns;
	port->stats.q_max_bytes = port->backlog_bytes;
	port->seen_ns = now_ns;
}

/* --- Wire, in order of arrival ------------------------------------------------------ */

/* Behind all that arrive no later; only a reordered frame makes others look further. */
static void fab_wire_put(struct fab_port *port, struct sk_buff *skb)
{
	struct sk_buff *after = skb_peek_tail(&port->wire);
	u64 at_ps = fab_cb(skb)->at_ps;

	while (after && fab_cb(after)->at_ps > at_ps)
		after = skb_queue_is_first(&port->wire, after) ? NULL :
			skb_queue_prev(&port->wire, after);
	if (after) {
		__skb_queue_after(&port->wire, after, skb);
		return;
	}
	__skb_queue_head(&port->wire, skb);
	fab_cancel(&port->arrival);
	fab_schedule(&port->arrival, at_ps);
}

/* --- PFC (IEEE 802.1Qbb) ------------------------------------------------------------- */

/*
 * To the other end of @port, ahead of all that waits here: it shall stop a class, or go on.
 * (A pause has no timer here: XON always comes, but over a link that is down.)
 */
static void fab_pause_send(struct fab_port *port, u8 class, enum fab_pause what, u64 now_ps)
{
	struct sk_buff *skb = alloc_skb(ETH_ZLEN, GFP_ATOMIC);
	u64 wire_bytes = ETH_ZLEN + FAB_WIRE_OVERHEAD_BYTES;

	if (!skb)
		return; /* asked again by the next frame */
	port->pausing ^= BIT(class);
	memset(fab_cb(skb), 0, sizeof(struct fab_cb));
	fab_cb(skb)->pause = what;
	fab_cb(skb)->class = class;
	fab_cb(skb)->at_ps = max(now_ps, port->free_ps) + port->prop_ps +
			     (wire_bytes * port->ps_per_byte_q16 >> 16);
	if (port->down)
		kfree_skb(skb);
	else
		fab_wire_put(port, skb);
}

/* @skb is in the switch's buffer. */
static void fab_pfc_hold(const struct fab_switch *sw, struct sk_buff *skb, u64 now_ps)
{
	struct fab_port *in = fab_cb(skb)->in;
	u8 class = fab_cb(skb)->class;

	in->held_bytes[class] += fab_cb(skb)->queued_bytes;
	if (!(in->pausing & BIT(class)) && in->held_bytes[class] > sw->pfc_xoff_bytes)
		fab_pause_send(in, class, FAB_PAUSE_XOFF, now_ps);
}

static void fab_pfc_release(const struct fab_switch *sw, struct sk_buff *skb, u64 now_ps)
{
	struct fab_port *in = fab_cb(skb)->in;
	u8 class = fab_cb(skb)->class;

	in->held_bytes[class] -= fab_cb(skb)->queued_bytes;
	if (in->pausing & BIT(class) && in->held_bytes[class] <= sw->pfc_xon_bytes)
		fab_pause_send(in, class, FAB_PAUSE_XON, now_ps);
}

/* While any class is paused. */
void fab_port_account_pause(struct fab_port *port, u64 now_ns)
{
	if (port->paused && now_ns > port->paused_since_ns)
		port->stats.paused_ns += now_ns - port->paused_since_ns;
	port->paused_since_ns = now_ns;
}

static void fab_pause_rx(struct fab_port *port, u8 class, enum fab_pause what, u64 now_ps)
{
	fab_port_account_pause(port, div_u64(now_ps, FAB_PS_PER_NS));
	if (what == FAB_PAUSE_XOFF) {
		port->paused |= BIT(class);
		port->stats.pauses++;
		return;
	}
	port->paused &= ~BIT(class);
	if (port->backlog_pkts && !fab_is_scheduled(&port->tx))
		fab_schedule(&port->tx, max(now_ps, port->free_ps));
}

/* What it said and nobody heard yet. */
static void fab_pause_forget(struct fab_port *port)
{
	struct sk_buff *skb, *next;

	skb_queue_walk_safe(&port->wire, skb, next) {
		if (!fab_cb(skb)->pause)
			continue;
		__skb_unlink(skb, &port->wire);
		kfree_skb(skb);
	}
	fab_cancel(&port->arrival);
	if (!skb_queue_empty(&port->wire))
		fab_schedule(&port->arrival, fab_cb(skb_peek(&port->wire))->at_ps);
}

/* Nobody at the other end remembers: as after the link was down. */
void fab_port_resume(struct fab_port *port, u64 now_ps)
{
	int class;

	port->pausing = 0;
	fab_pause_forget(port);
	for (class = 0; class < FAB_CLASSES; class++)
		if (port->paused & BIT(class))
			fab_pause_rx(port, class, FAB_PAUSE_XON, now_ps);
}

/* --- Queues ------------------------------------------------------------------------- */

static void fab_queue(struct fab_port *port, struct sk_buff *skb, u8 class, u64 now_ps)
{
	u32 bytes = fab_cb(skb)->queued_bytes;

	fab_port_account(port, div_u64(now_ps, FAB_PS_PER_NS));
	__skb_queue_tail(&port->classes[class], skb);
	port->class_bytes[class] += bytes;
	port->backlog_bytes += bytes;
	port->backlog_pkts++;
	if (port->sw) {
		port->sw->used_bytes += bytes;
		port->sw->used_max_bytes = max(port->sw->used_max_bytes, port->sw->used_bytes);
		if (port->sw->pfc_xoff_bytes)
			fab_pfc_hold(port->sw, skb, now_ps);
	}
	port->stats.q_max_bytes = max(port->stats.q_max_bytes, port->backlog_bytes);
}

/* Whether any frame may leave: of a NIC, whose queue is one, the first. */
static bool fab_may_send(const struct fab_port *port)
{
	int class;

	if (likely(!port->paused))
		return true;
	if (!port->sw)
		return !(port->paused & BIT(fab_cb(skb_peek(&port->classes[0]))->class));
	for (class = 0; class < FAB_CLASSES; class++)
		if (!skb_queue_empty(&port->classes[class]) && !(port->paused & BIT(class)))
			return true;
	return false;
}

static bool fab_is_strict(const struct fab_port *port, int class)
{
	return !port->sw || !port->sw->weights[class];
}

/* Strict classes first, the higher before the lower; the rest by deficit round robin. */
static int fab_next_class(struct fab_port *port)
{
	struct sk_buff *head;
	int class;

	for (class = FAB_CLASSES - 1; class >= 0; class--) {
		if (fab_is_strict(port, class) && !skb_queue_empty(&port->classes[class]) &&
		    !(port->paused & BIT(class)))
			return class;
	}
	for (;;) {
		class = port->turn;
		head = skb_peek(&port->classes[class]);
		if (head && !fab_is_strict(port, class) && !(port->paused & BIT(class))) {
			if (port->deficit_bytes[class] >= fab_cb(head)->queued_bytes) {
				port->deficit_bytes[class] -= fab_cb(head)->queued_bytes;
				return class;
			}
		} else {
			port->deficit_bytes[class] = 0;
		}
		port->turn = (class + 1) % FAB_CLASSES;
		if (!fab_is_strict(port, port->turn))
			port->deficit_bytes[port->turn] +=
				FAB_QUANTUM_BYTES * port->sw->weights[port->turn];
	}
}

static struct sk_buff *fab_dequeue(struct fab_port *port, u64 now_ps)
{
	struct sk_buff *skb;
	int class;

	if (!port->backlog_pkts || !fab_may_send(port))
		return NULL;
	fab_port_account(port, div_u64(now_ps, FAB_PS_PER_NS));
	class = port->backlog_pkts == 1 || !port->sw ? -1 : fab_next_class(port);
	if (class < 0) /* one frame or one queue: no need to choose */
		for (class = FAB_CLASSES - 1; skb_queue_empty(&port->classes[class]); class--)
			;
	skb = __skb_dequeue(&port->classes[class]);
	port->class_bytes[class] -= fab_cb(skb)->queued_bytes;
	port->backlog_bytes -= fab_cb(skb)->queued_bytes;
	port->backlog_pkts--;
	if (port->sw) {
		port->sw->used_bytes -= fab_cb(skb)->queued_bytes;
		if (port->sw->pfc_xoff_bytes)
			fab_pfc_release(port->sw, skb, now_ps);
	}
	return skb;
}

/* --- Wire --------------------------------------------------------------------------- */

static bool fab_chance(struct fab_port *port, u32 ppm)
{
	return ppm && prandom_u32_state(&port->rnd) % 1000000 < ppm;
}

static void fab_to_wire(struct fab_port *port, struct sk_buff *skb)
{
	fab.hops++;
	port->stats.tx_pkts++;
	port->stats.tx_bytes += skb->len;
	fab_cb(skb)->at_ps = port->free_ps + port->prop_ps;
	if (fab_chance(port, port->corrupt_ppm)) {
		fab_cb(skb)->corrupt = 1;
		port->stats.corrupted++;
	}
	if (fab_chance(port, port->reorder_ppm)) {
		fab_cb(skb)->at_ps += port->reorder_ps;
		port->stats.reordered++;
	}
	fab_wire_put(port, skb);
}

static void fab_lose(struct fab_port *port, struct sk_buff *skb)
{
	port->stats.lost++;
	fab_drop(skb);
}

static void fab_start(struct fab_port *port, struct sk_buff *skb, u64 now_ps)
{
	bool gone = port->down || fab_chance(port, port->loss_ppm);

	port->free_ps = now_ps + (fab_cb(skb)->wire_bytes * port->ps_per_byte_q16 >> 16);
	if (port->host) {
		fab_nic_tx_start(port->host, skb, now_ps);
		fab_cb(skb)->lost = gone;
		port->sending = skb;
	}
	if (!gone)
		fab_to_wire(port, skb);
	else if (!port->host)
		fab_lose(port, skb);
	if (port->sending || port->backlog_pkts)
		fab_schedule(&port->tx, port->free_ps);
}

static void fab_tx_event(struct fab_event *event, u64 now_ps)
{
	struct fab_port *port = container_of(event, struct fab_port, tx);
	struct sk_buff *skb = port->sending;

	if (skb) {
		port->sending = NULL;
		fab_nic_tx_done(port->host, skb);
		if (fab_cb(skb)->lost)
			fab_lose(port, skb);
	}
	skb = fab_dequeue(port, now_ps);
	if (skb)
		fab_start(port, skb, now_ps);
}

static void fab_arrival_event(struct fab_event *event, u64 now_ps)
{
	struct fab_port *port = container_of(event, struct fab_port, arrival);
	struct sk_buff *skb = __skb_dequeue(&port->wire);
	struct sk_buff *next = skb_peek(&port->wire);

	if (next)
		fab_schedule(&port->arrival, fab_cb(next)->at_ps);
	if (unlikely(fab_cb(skb)->pause)) {
		fab_pause_rx(port->peer, fab_cb(skb)->class, fab_cb(skb)->pause, now_ps);
		kfree_skb(skb);
		return;
	}
	fab_cb(skb)->in = port->peer;
	if (port->peer->sw)
		fab_switch_rx(port->peer->sw, skb, now_ps);
	else
		fab_nic_rx(port->peer->host, skb, now_ps);
}

/* --- In ----------------------------------------------------------------------------- */

void fab_port_send(struct fab_port *port, struct sk_buff *skb, u64 now_ps)
{
	struct fab_switch *sw = port->sw;
	u8 class = sw ? fab_cb(skb)->class : 0; /* a NIC has one queue */

	fab_cb(skb)->queued_bytes = skb->len;
	if (!port->backlog_pkts && now_ps >= port->free_ps && !fab_is_scheduled(&port->tx) &&
	    likely(!(port->paused & BIT(fab_cb(skb)->class)))) {
		fab_start(port, skb, now_ps);
		return;
	}
	if (sw && !fab_switch_admit(sw, port, class, skb->len)) {
		port->stats.drops++;
		port->stats.drop_bytes += skb->len;
		fab_drop(skb);
		return;
	}
	if (sw && sw->ecn_bytes && port->class_bytes[class] + skb->len > sw->ecn_bytes &&
	    INET_ECN_set_ce(skb))
		port->stats.marks++;
	fab_queue(port, skb, class, now_ps);
	if (!fab_is_scheduled(&port->tx))
		fab_schedule(&port->tx, max(now_ps, port->free_ps));
}

/* --- Coming and going --------------------------------------------------------------- */

void fab_port_init(struct fab_port *port, u64 rate_bps, u64 prop_ns, u32 link)
{
	int class;

	/* 8e12 ps bits / (byte s), in q16 */
	port->ps_per_byte_q16 = div64_u64(8000000000000ULL << 16, rate_bps);
	port->prop_ps = prop_ns * FAB_PS_PER_NS;
	port->link = link;
	for (class = 0; class < FAB_CLASSES; class++)
		__skb_queue_head_init(&port->classes[class]);
	__skb_queue_head_init(&port->wire);
	fab_event_init(&port->tx, fab_tx_event);
	fab_event_init(&port->arrival, fab_arrival_event);
	fab_port_stats_reset(port, ktime_get_ns());
}

/* Of its faults. */
void fab_port_seed(struct fab_port *port, u32 number)
{
	u32 seed = port->sw ? port->sw->seed : port->host->config.seed;

	fab_seed(&port->rnd, seed, number, FAB_OF_PORT);
}

/* Everything in it, without a trace in the statistics. */
void fab_port_purge(struct fab_port *port)
{
	int class;

	fab_cancel(&port->tx);
	fab_cancel(&port->arrival);
	if (port->sending && fab_cb(port->sending)->lost)
		fab_drop(port->sending);
	port->sending = NULL; /* if not lost, it is on the wire, too */
	for (class = 0; class < FAB_CLASSES; class++)
		fab_drop_all(&port->classes[class]);
	fab_drop_all(&port->wire);
	memset(port->held_bytes, 0, sizeof(port->held_bytes));
	memset(port->class_bytes, 0, sizeof(port->class_bytes));
	port->backlog_bytes = 0;
	port->backlog_pkts = 0;
}
