// SPDX-License-Identifier: GPL-2.0
/*
 * The event queue: what happens to frames, in order of time, on one hrtimer. An event
 * runs under fab.lock; frames for a host's stack are handed up after it, without the
 * lock, because the stack answers through ndo_start_xmit.
 */
#include <linux/time-internal.h>

#include "fab.h"

struct fab_engine fab;

/* Of the event at hand, or of the clock: whichever is later. */
u64 fab_now_ps(void)
{
	return max(fab.now_ps, ktime_get_ns() * FAB_PS_PER_NS);
}

static ktime_t fab_ktime(const struct timerqueue_node *node)
{
	return ns_to_ktime(DIV_ROUND_UP_ULL(node->expires, FAB_PS_PER_NS));
}

void fab_schedule(struct fab_event *event, u64 at_ps)
{
	event->node.expires = at_ps;
	if (timerqueue_add(&fab.queue, &event->node) && !fab.running)
		hrtimer_start(&fab.timer, fab_ktime(&event->node), HRTIMER_MODE_ABS_SOFT);
}

void fab_cancel(struct fab_event *event)
{
	if (fab_is_scheduled(event))
		timerqueue_del(&fab.queue, &event->node);
}

static void fab_hand_up(void)
{
	struct sk_buff *skb;

	while ((skb = __skb_dequeue(&fab.up))) {
		spin_unlock(&fab.lock);
		netif_receive_skb(skb);
		spin_lock(&fab.lock);
	}
	if (unlikely(fab.core)) {
		spin_unlock(&fab.lock);
		fab_core_finish();
		spin_lock(&fab.lock);
	}
}

/* All that is due; what comes next, or NULL. */
static struct timerqueue_node *fab_run_due(void)
{
	u64 due_ps = ktime_get_ns() * FAB_PS_PER_NS;
	struct timerqueue_node *node;
	struct fab_event *event;

	while ((node = timerqueue_getnext(&fab.queue)) && node->expires <= due_ps) {
		event = container_of(node, struct fab_event, node);
		fab.now_ps = node->expires;
		fab.events++;
		timerqueue_del(&fab.queue, node);
		event->fire(event, fab.now_ps);
		fab_hand_up();
	}
	return node;
}

/* Goes on to its next event itself while nothing of the kernel's is earlier. */
static enum hrtimer_restart fab_run(struct hrtimer *timer)
{
	struct timerqueue_node *node;
	enum hrtimer_restart again = HRTIMER_NORESTART;

	spin_lock(&fab.lock);
	fab.running = true;
	do {
		node = fab_run_due();
	} while (node && time_travel_go_to(fab_ktime(node)));
	fab.running = false;
	if (node) {
		hrtimer_set_expires(timer, fab_ktime(node));
		again = HRTIMER_RESTART;
	}
	spin_unlock(&fab.lock);
	return again;
}

void fab_engine_init(void)
{
	spin_lock_init(&fab.lock);
	timerqueue_init_head(&fab.queue);
	__skb_queue_head_init(&fab.up);
	hrtimer_init(&fab.timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
	fab.timer.function = fab_run;
}

/* With no event left that would start it again. */
void fab_engine_exit(void)
{
	hrtimer_cancel(&fab.timer);
}
