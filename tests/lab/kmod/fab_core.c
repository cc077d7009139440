// SPDX-License-Identifier: GPL-2.0
/*
 * A host that costs: cores with an RX queue each, moderated interrupts, softirqs that
 * begin when a core has woken, NAPI's polls with the kernel's own GRO, and the time that
 * frames, segments, ACKs and timers take. A host with cores=0 has none of it.
 *
 * A frame waits in its core's ring for the interrupt (rx_usecs, rx_frames), then for the
 * core to wake and to be free, then for those before it. A poll takes up to 64 frames,
 * each at rx_pkt_ns; GRO merges them as on any host, so that a segment has the stamps of
 * its first frame. Each segment that comes out then costs what the stack does with it
 * before its socket sees it. What a host sends costs the core of its flow likewise, and
 * leaves when that is done.
 */
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/rtnetlink.h>
#include <linux/tcp.h>
#include <net/busy_poll.h>
#include <net/ip.h>

#include "fab.h"

#define FAB_POLL_BUDGET 64 /* NAPI_POLL_WEIGHT */

/* GRO delivers to whoever received: not eth0 yet, whose stack has still to be paid. */
static struct net_device *fab_gro_dev;

/* --- Time --------------------------------------------------------------------------- */

/* Uniform, 0 to @limit_ns. */
static u64 fab_chance_ps(struct fab_core *core, u64 limit_ns)
{
	if (!limit_ns)
		return 0;
	/* Of 70 ms the product has 69 bits. */
	return mul_u64_u32_shr(limit_ns * FAB_PS_PER_NS, prandom_u32_state(&core->rnd), 32);
}

/* The core does something else for a while, now and then: it begins when that is over. */
static u64 fab_after_noise(struct fab_core *core, u64 at_ps)
{
	const struct fab_host_config *c = &core->host->config;
	u64 end_ps;

	while (c->noise_ns && core->noise_ps <= at_ps) {
		end_ps = core->noise_ps + c->noise_ns * FAB_PS_PER_NS;
		if (end_ps > at_ps) {
			core->host->noise_ns += c->noise_ns;
			at_ps = end_ps;
		}
		core->noise_ps = end_ps + fab_chance_ps(core, 2 * c->noise_every_ns);
	}
	return at_ps;
}

/*
 * When a core that something interrupts at @now_ps can run a softirq. One that is busy is
 * awake.
 */
static u64 fab_softirq_ps(struct fab_core *core, u64 now_ps, u64 more_ns)
{
	const struct fab_host_config *c = &core->host->config;
	u64 at_ps = core->free_ps;

	if (core->free_ps <= now_ps)
		at_ps = now_ps + c->irq_ns * FAB_PS_PER_NS + fab_chance_ps(core, c->rx_wake_ns) +
			fab_chance_ps(core, more_ns);
	return fab_after_noise(core, at_ps);
}

static void fab_spend(struct fab_core *core, u64 at_ps, u64 for_ns)
{
	core->host->service_ns += for_ns;
	core->free_ps = at_ps + for_ns * FAB_PS_PER_NS;
}

/* --- What a frame is ------------------------------------------------------------------ */

/* Where the transport's header is, whose protocol this tells; -1 if there is none. */
static int fab_transport(const struct sk_buff *skb, u32 *offset, u32 *end)
{
	*offset = skb_network_offset(skb);
	if (skb->protocol == htons(ETH_P_IP)) {
		const struct iphdr *ip = ip_hdr(skb);

		*end = *offset + ntohs(ip->tot_len);
		*offset += ip->ihl * 4;
		return ip_is_fragment(ip) ? -1 : ip->protocol;
	}
	if (skb->protocol == htons(ETH_P_IPV6)) {
		*offset += sizeof(struct ipv6hdr);
		*end = *offset + ntohs(ipv6_hdr(skb)->payload_len);
		return ipv6_hdr(skb)->nexthdr;
	}
	return -1;
}

bool fab_is_ack(const struct sk_buff *skb)
{
	const struct tcphdr *th;
	struct tcphdr buffer;
	u32 offset, end;

	if (skb_is_gso(skb) || fab_transport(skb, &offset, &end) != IPPROTO_TCP)
		return false;
	th = skb_header_pointer(skb, offset, sizeof(buffer), &buffer);
	return th && !th->syn && !th->fin && offset + th->doff * 4 >= end;
}

/* Of a flow, both ways alike: a sender's timers run where its ACKs come in. */
static struct fab_core *fab_core_of(struct fab_host *host, const struct sk_buff *skb)
{
	u32 addrs = 0, offset, end, *ports = NULL;
	u16 buffer[2];
	int proto = fab_transport(skb, &offset, &end);

	if (skb->protocol == htons(ETH_P_IP))
		addrs = (__force u32)(ip_hdr(skb)->saddr ^ ip_hdr(skb)->daddr);
	else if (skb->protocol == htons(ETH_P_IPV6))
		addrs = (__force u32)(ipv6_hdr(skb)->saddr.s6_addr32[3] ^
				      ipv6_hdr(skb)->daddr.s6_addr32[3]);
	if (proto == IPPROTO_TCP || proto == IPPROTO_UDP)
		ports = skb_header_pointer(skb, offset, sizeof(buffer), buffer);
	if (ports) {
		memcpy(buffer, ports, sizeof(buffer));
		addrs = jhash_2words(addrs, buffer[0] ^ buffer[1], 0);
	} else {
		addrs = jhash_1word(addrs, 0);
	}
	return &host->cores[reciprocal_scale(addrs, host->config.cores)];
}

static u64 fab_segment_ns(const struct fab_host *host, const struct sk_buff *skb)
{
	if (fab_is_ack(skb))
		return host->config.ack_ns;
	return host->config.seg_ns + (skb->len * host->config.rx_kb_ns >> 10);
}

/* --- Reception -------------------------------------------------------------------------- */

void fab_core_rx(struct fab_host *host, struct sk_buff *skb, u64 now_ps)
{
	const struct fab_host_config *c = &host->config;
	struct fab_core *core = fab_core_of(host, skb);
	u32 waiting = skb_queue_len(&core->ring);

	if (waiting >= c->ring_pkts) {
		host->rx_missed++;
		fab_drop(skb);
		return;
	}
	if (!c->ring_stage) { /* the driver has seen it */
		__net_timestamp(skb);
	} else { /* GRO's stamp is to come: the sender's time of departure is none */
		skb->tstamp = 0;
		skb->tstamp_type = SKB_CLOCK_REALTIME;
	}
	__skb_queue_tail(&core->ring, skb);
	waiting++;
	host->ring_max_pkts = max(host->ring_max_pkts, waiting);
	if (core->polling)
		return;
	if (c->rx_frames && waiting >= c->rx_frames) {
		fab_cancel(&core->irq);
		fab_schedule(&core->irq, now_ps);
	} else if (!fab_is_scheduled(&core->irq)) {
		fab_schedule(&core->irq, now_ps + c->rx_usecs * 1000 * FAB_PS_PER_NS);
	}
}

static void fab_irq_event(struct fab_event *event, u64 now_ps)
{
	struct fab_core *core = container_of(event, struct fab_core, irq);

	core->host->irqs++;
	core->polling = true;
	core->budget = FAB_POLL_BUDGET;
	core->free_ps = fab_softirq_ps(core, now_ps, 0);
	fab_schedule(&core->step, core->free_ps);
}

static u64 fab_take_frames(struct fab_core *core)
{
	u32 n = min(skb_queue_len(&core->ring), core->budget), i;

	for (i = 0; i < n; i++)
		__skb_queue_tail(&core->frames, __skb_dequeue(&core->ring));
	core->budget -= n;
	return n * core->host->config.rx_pkt_ns;
}

/* What the core does next, and for how long. Segments first: GRO hands them up inline. */
static enum fab_work fab_next_work(struct fab_core *core, u64 *for_ns)
{
	*for_ns = 0;
	if (!skb_queue_empty(&core->segments)) {
		*for_ns = fab_segment_ns(core->host, skb_peek(&core->segments));
		return FAB_WORK_SEGMENT;
	}
	if (core->budget && !skb_queue_empty(&core->ring)) {
		core->flushed = false;
		*for_ns = fab_take_frames(core);
		return FAB_WORK_FRAMES;
	}
	if (!core->flushed)
		return FAB_WORK_FLUSH;
	return FAB_WORK_NONE;
}

/*
 * Either a piece of work is done: what it is for happens right after this event. Or the
 * next one begins, behind what was sent meanwhile.
 */
static void fab_step_event(struct fab_event *event, u64 now_ps)
{
	struct fab_core *core = container_of(event, struct fab_core, step);
	u64 for_ns;

	if (core->work != FAB_WORK_NONE) {
		fab.core = core;
		fab_schedule(&core->step, now_ps);
		return;
	}
	if (core->free_ps > now_ps) {
		fab_schedule(&core->step, core->free_ps);
		return;
	}
	core->work = fab_next_work(core, &for_ns);
	if (core->work == FAB_WORK_NONE && !skb_queue_empty(&core->ring)) {
		core->budget = FAB_POLL_BUDGET; /* polled again, its interrupt still off */
		core->work = fab_next_work(core, &for_ns);
	}
	if (core->work == FAB_WORK_NONE) {
		core->polling = false;
		return;
	}
	fab_spend(core, fab_after_noise(core, now_ps), for_ns);
	fab_schedule(&core->step, core->free_ps);
}

/* As a driver hands a frame to GRO. A sender's clone must not be merged into. */
static void fab_merge(struct fab_core *core, struct sk_buff *skb)
{
	struct fab_host *host = core->host;

	host->rx_pkts++;
	host->rx_bytes += skb->len + ETH_HLEN;
	fab.in_flight--;
	skb->dev = fab_gro_dev;
	if (!(host->dev->features & NETIF_F_GRO) || skb_unclone(skb, GFP_ATOMIC))
		netif_receive_skb(skb);
	else
		napi_gro_receive(&core->napi, skb);
}

/* To eth0's stack, paid for. */
static void fab_hand_segment(struct fab_core *core, struct sk_buff *skb)
{
	struct fab_host *host = core->host;

	host->segments++;
	skb->dev = host->dev;
	skb->napi_id = 0;
	skb_mark_napi_id(skb, &host->napi);
	netif_receive_skb(skb);
}

/* After the event that set fab.core, without fab.lock; in softirqs, and on one CPU. */
void fab_core_finish(void)
{
	struct fab_core *core = fab.core;
	struct sk_buff *skb;

	switch (core->work) {
	case FAB_WORK_FRAMES:
		while ((skb = __skb_dequeue(&core->frames)))
			fab_merge(core, skb);
		break;
	case FAB_WORK_FLUSH:
		core->flushed = true;
		if (napi_schedule_prep(&core->napi))
			napi_complete_done(&core->napi, 0);
		break;
	case FAB_WORK_SEGMENT:
		fab_hand_segment(core, __skb_dequeue(&core->segments));
		break;
	case FAB_WORK_NONE:
		break;
	}
	core->work = FAB_WORK_NONE;
	fab.core = NULL;
}

/* What GRO lets go, stamped by now if stamps are wanted. */
static rx_handler_result_t fab_gro_handler(struct sk_buff **pskb)
{
	struct sk_buff *skb = skb_share_check(*pskb, GFP_ATOMIC);

	if (skb && fab.core)
		__skb_queue_tail(&fab.core->segments, skb);
	else
		kfree_skb(skb);
	return RX_HANDLER_CONSUMED;
}

/* --- Transmission ------------------------------------------------------------------------ */

/* Before it is cut into frames. */
u64 fab_core_tx_ns(const struct fab_host *host, const struct sk_buff *skb)
{
	return fab_is_ack(skb) ? host->config.ack_ns : host->config.seg_ns;
}

/*
 * Frames of one segment, that is sent now: they leave when their core has done what that
 * costs. What answers a segment just received is of the same softirq; else a timer, a
 * system call or a completion has to get the core first.
 */
void fab_core_tx(struct fab_host *host, struct sk_buff *frames, u64 for_ns, u64 now_ps)
{
	bool answer = fab.core && fab.core->host == host;
	struct fab_core *core = answer ? fab.core : fab_core_of(host, frames);
	struct sk_buff *skb, *next;
	u64 at_ps;

	if (answer) {
		at_ps = max(core->free_ps, now_ps);
	} else {
		at_ps = max(fab_softirq_ps(core, now_ps, host->config.timer_slack_ns), now_ps);
		if (core->called_ps != now_ps) /* one call may send for many */
			for_ns += host->config.timer_ns;
		core->called_ps = now_ps;
	}
	fab_spend(core, at_ps, for_ns);
	skb_list_walk_safe(frames, skb, next) {
		skb_mark_not_on_list(skb);
		fab_cb(skb)->at_ps = core->free_ps;
		__skb_queue_tail(&core->out, skb);
	}
	if (!fab_is_scheduled(&core->tx))
		fab_schedule(&core->tx, fab_cb(skb_peek(&core->out))->at_ps);
}

static void fab_core_tx_event(struct fab_event *event, u64 now_ps)
{
	struct fab_core *core = container_of(event, struct fab_core, tx);
	struct sk_buff *skb;

	while ((skb = skb_peek(&core->out)) && fab_cb(skb)->at_ps <= now_ps) {
		__skb_unlink(skb, &core->out);
		fab_nic_send(core->host, skb, now_ps);
	}
	if (skb)
		fab_schedule(&core->tx, fab_cb(skb)->at_ps);
}

/* --- Coming and going -------------------------------------------------------------------- */

static void fab_core_init(struct fab_host *host, struct fab_core *core, u32 number)
{
	const struct fab_host_config *c = &host->config;

	core->host = host;
	core->flushed = true;
	__skb_queue_head_init(&core->ring);
	__skb_queue_head_init(&core->frames);
	__skb_queue_head_init(&core->segments);
	__skb_queue_head_init(&core->out);
	fab_event_init(&core->irq, fab_irq_event);
	fab_event_init(&core->step, fab_step_event);
	fab_event_init(&core->tx, fab_core_tx_event);
	prandom_seed_state(&core->rnd, jhash_3words(c->seed, c->id, number, 0));
	core->noise_ps = fab_now_ps() + fab_chance_ps(core, 2 * c->noise_every_ns);
	netif_napi_add(fab_gro_dev, &core->napi, fab_nic_poll);
	napi_enable(&core->napi);
}

int fab_cores_create(struct fab_host *host)
{
	u32 i;

	host->cores = kvcalloc(host->config.cores, sizeof(*host->cores), GFP_KERNEL);
	if (!host->cores)
		return -ENOMEM;
	for (i = 0; i < host->config.cores; i++)
		fab_core_init(host, &host->cores[i], i);
	return 0;
}

/* What it holds; with fab.lock. */
void fab_cores_purge(struct fab_host *host)
{
	struct fab_core *core;
	u32 i;

	for (i = 0; host->cores && i < host->config.cores; i++) {
		core = &host->cores[i];
		fab_cancel(&core->irq);
		fab_cancel(&core->step);
		fab_cancel(&core->tx);
		host->rx_missed += skb_queue_len(&core->ring) + skb_queue_len(&core->frames);
		fab_drop_all(&core->ring);
		fab_drop_all(&core->frames);
		__skb_queue_purge(&core->segments);
		__skb_queue_purge(&core->out);
		core->work = FAB_WORK_NONE;
		core->polling = false;
	}
}

/* What GRO still has; nobody takes it (fab_gro_handler()). */
void fab_cores_flush(struct fab_host *host)
{
	struct fab_core *core;
	u32 i;

	local_bh_disable();
	for (i = 0; host->cores && i < host->config.cores; i++) {
		core = &host->cores[i];
		if (!core->flushed && napi_schedule_prep(&core->napi))
			napi_complete_done(&core->napi, 0);
		core->flushed = true;
	}
	local_bh_enable();
}

void fab_cores_destroy(struct fab_host *host)
{
	u32 i;

	for (i = 0; host->cores && i < host->config.cores; i++) {
		napi_disable(&host->cores[i].napi);
		netif_napi_del(&host->cores[i].napi);
	}
	kvfree(host->cores);
	host->cores = NULL;
}

int fab_cores_init(void)
{
	int err;

	fab_gro_dev = alloc_netdev_dummy(0);
	if (!fab_gro_dev)
		return -ENOMEM;
	fab_gro_dev->features |= NETIF_F_GRO;
	rtnl_lock();
	err = netdev_rx_handler_register(fab_gro_dev, fab_gro_handler, NULL);
	rtnl_unlock();
	if (err)
		free_netdev(fab_gro_dev);
	return err;
}

void fab_cores_exit(void)
{
	rtnl_lock();
	netdev_rx_handler_unregister(fab_gro_dev);
	rtnl_unlock();
	free_netdev(fab_gro_dev);
}
