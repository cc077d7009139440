// SPDX-License-Identifier: GPL-2.0
/*
 * SIRD's receiver: the book of each link, who gets credit from it, and the window of the ACKs
 * that says so. The rules are core/sird.h's; here are the lists, the locks and the ACKs.
 *
 *   data arrives (tcp_probe)   the flow's book, its sender's, the link's; then grants: to the
 *                              flow in hand with the ACK that it gets anyway, to others by
 *   kick (tasklet)             an ACK from their sockets, one socket at a time
 *   a packet leaves            its window is lowered to what was granted. The kernel's own is
 *                              untouched: what it has promised to take it takes
 *   tick (timer)               who has credit and is silent: the ACK may be lost. It is told
 *                              again, and what it has counts no more
 *
 * Locks: socket outside, link inside, never two sockets.
 */
#include <linux/jhash.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <net/inet_ecn.h>
#include <net/ipv6.h>
#include <net/mptcp.h>

#include "compat/compat.h"
#include "swift_credit.h"

#define SWIFT_CREDIT_REPEAT_RTTS 4 /* silence after which an edge is told again */
#define SWIFT_CREDIT_COUNTS_REPEATS 2 /* after which what was lent is not counted */
#define SWIFT_CREDIT_REPEATS_MAX 8
#define SWIFT_CREDIT_RTT_LEAST_NS (10 * NSEC_PER_USEC) /* of what the timer goes by */
#define SWIFT_CREDIT_RETRY_NS (2 * NSEC_PER_USEC) /* the first time; then twice as long */
#define SWIFT_CREDIT_KICKS 64 /* at a time */
#define SWIFT_CREDIT_GRANTS 128 /* at a time: a peer's small segments make thousands of a window */
#define SWIFT_CREDIT_TOLD_MOST SZ_256M /* ahead of what arrived: no socket has more */

struct swift_sender {
	struct hlist_node node;
	struct in6_addr address; /* IPv4: mapped */
	u32 flows;
	struct sird_sender book;
	struct rb_root_cached waiting; /* its flows that want credit, by key */
	struct list_head oldest; /* the same, by when they were served */
	struct rb_node wait; /* in the link's, where it has a flow that may have some */
	struct list_head wait_oldest;
	u64 key;
	bool queued;
	bool held; /* counted in the link's */
};

/* --- Sockets to flows -------------------------------------------------------------------- */

static const struct rhashtable_params swift_credits_params = {
	.head_offset = offsetof(struct swift_credit, node),
	.key_offset = offsetof(struct swift_credit, sk),
	.key_len = sizeof(struct sock *),
	.automatic_shrinking = true,
};

struct rhashtable swift_credits;

/* Of a socket that is locked: what it has stays until swift_credit_end(). */
struct swift_credit *swift_credit_of(const struct sock *sk)
{
	struct swift_credit *c;

	rcu_read_lock();
	c = rhashtable_lookup(&swift_credits, &sk, swift_credits_params);
	rcu_read_unlock();
	return c;
}

/* --- The order in which flows wait ------------------------------------------------------- */

static void swift_tree_add(struct rb_root_cached *tree, struct rb_node *node, u64 key,
			   u64 (*key_of)(const struct rb_node *node))
{
	struct rb_node **at = &tree->rb_root.rb_node, *parent = NULL;
	bool first = true;

	while (*at) {
		parent = *at;
		if (key < key_of(parent)) {
			at = &parent->rb_left;
		} else {
			at = &parent->rb_right;
			first = false;
		}
	}
	rb_link_node(node, parent, at);
	rb_insert_color_cached(node, tree, first);
}

static u64 swift_flow_key(const struct rb_node *node)
{
	return rb_entry(node, struct swift_credit, wait)->key;
}

static u64 swift_sender_key(const struct rb_node *node)
{
	return rb_entry(node, struct swift_sender, wait)->key;
}

static struct swift_credit *swift_sender_first(const struct swift_sender *s)
{
	struct rb_node *node = rb_first_cached(&s->waiting);

	return node ? rb_entry(node, struct swift_credit, wait) : NULL;
}

static u32 swift_quantum(const struct swift_credit *c)
{
	return sird_quantum(&c->book, &c->link->size, &c->sender->book, c->mss_bytes);
}

/* Line 9 of Algorithm 1: the link's tree has those senders that have room for their first. */
static void swift_sender_requeue(struct swift_link *link, struct swift_sender *s)
{
	const struct swift_credit *first = swift_sender_first(s);
	bool may = first && sird_sender_may_have(&s->book, swift_quantum(first));
	bool held = first && !may && sird_sender_is_held(&s->book);

	link->held += held - s->held;
	s->held = held;
	if (s->queued && may && first->key == s->key)
		return;
	if (s->queued)
		rb_erase_cached(&s->wait, &link->waiting);
	if (s->queued && !may)
		list_del(&s->wait_oldest);
	else if (!s->queued && may)
		list_add_tail(&s->wait_oldest, &link->oldest);
	s->queued = may;
	if (!may)
		return;
	s->key = first->key;
	swift_tree_add(&link->waiting, &s->wait, s->key, swift_sender_key);
}

/* Into its sender's tree, out of it, or to another place there. */
static void swift_flow_requeue(struct swift_link *link, struct swift_credit *c)
{
	struct swift_sender *s = c->sender;
	/* Who is silent in spite of what he has gets nothing more before he is heard of. */
	bool wants = sird_flow_wants(&c->book) && c->repeats < SWIFT_CREDIT_COUNTS_REPEATS;
	u64 key;

	if (wants && !c->waiting)
		c->served_bytes = max(c->served_bytes, link->clock_bytes);
	key = sird_key(link->sird.credit_policy, &c->book, c->served_bytes);
	if (c->waiting && wants && key == c->key)
		return;
	if (c->waiting)
		rb_erase_cached(&c->wait, &s->waiting);
	if (c->waiting && !wants)
		list_del(&c->wait_oldest);
	else if (!c->waiting && wants)
		list_add_tail(&c->wait_oldest, &s->oldest);
	c->waiting = wants;
	if (!wants)
		return;
	c->key = key;
	swift_tree_add(&s->waiting, &c->wait, key, swift_flow_key);
}

/* --- Books ------------------------------------------------------------------------------- */

static void swift_count_lent(struct swift_link *link, struct swift_credit *c, u32 lent_bytes)
{
	link->lent_bytes += lent_bytes - c->counted_bytes;
	c->sender->book.lent_bytes += lent_bytes - c->counted_bytes;
	c->counted_bytes = lent_bytes;
}

static void swift_tick_later(struct swift_link *link, u64 delay_ns)
{
	if (!link->ticking)
		swift_link_get(link); /* given back when nobody is busy any more */
	link->ticking = true;
	hrtimer_start(&link->timer, ns_to_ktime(delay_ns), HRTIMER_MODE_REL_SOFT);
}

static u64 swift_repeat_ns(const struct swift_link *link)
{
	return (u64)max_t(u32, link->loop.ns, SWIFT_CREDIT_RTT_LEAST_NS) * SWIFT_CREDIT_REPEAT_RTTS;
}

/* Its book has changed. Who has something is looked after from then on. */
static void swift_flow_count(struct swift_link *link, struct swift_credit *c, u64 now_ns)
{
	u32 lent_bytes = sird_flow_lent(&c->book);

	/* Less than a segment is not sent before there is more. */
	if (sird_flow_wants(&c->book) && lent_bytes < c->mss_bytes)
		lent_bytes = 0;
	swift_count_lent(link, c, lent_bytes);
	if (!lent_bytes) {
		list_del_init(&c->busy);
		return;
	}
	if (list_empty(&c->busy)) {
		c->heard_ns = now_ns;
		list_add_tail(&c->busy, &link->busy);
	}
	if (!link->ticking)
		swift_tick_later(link, swift_repeat_ns(link));
}

static void swift_flow_heard(struct swift_link *link, struct swift_credit *c, u64 now_ns)
{
	c->repeats = 0;
	list_del_init(&c->busy);
	swift_flow_count(link, c, now_ns);
}

/* Another CPU's timer may look for work until the socket goes: the reference is the list's. */
static void swift_kick_add(struct swift_link *link, struct swift_credit *c)
{
	if (!list_empty(&c->kick))
		return;
	sock_hold(c->sk);
	list_add_tail(&c->kick, &link->kicks);
}

static void swift_kick_start(struct swift_link *link)
{
	if (link->kicking || link->retrying || list_empty(&link->kicks))
		return;
	link->kicking = true;
	swift_link_get(link);
	tasklet_schedule(&link->kick);
}

/* --- Grants (Algorithm 1, lines 8 to 14) ------------------------------------------------- */

static struct swift_credit *swift_pick(struct swift_link *link)
{
	struct swift_sender *s;
	struct swift_credit *c;

	if (RB_EMPTY_ROOT(&link->waiting.rb_root))
		return NULL;
	s = rb_entry(rb_first_cached(&link->waiting), struct swift_sender, wait);
	c = swift_sender_first(s);
	if (link->sird.credit_policy != SIRD_SRPT || (link->grants + 1) % SIRD_SRPT_OLDEST)
		return c;
	s = list_first_entry(&link->oldest, struct swift_sender, wait_oldest);
	return list_first_entry(&s->oldest, struct swift_credit, wait_oldest);
}

static void swift_grant(struct swift_link *link, struct swift_credit *c, u32 bytes, u64 now_ns)
{
	struct swift_sender *s = c->sender;

	sird_flow_grant(&c->book, bytes);
	swift_count_add(swift_net_of(c->sk), credit_granted_bytes, bytes);
	link->grants++;
	link->clock_bytes = max(link->clock_bytes, c->served_bytes);
	c->served_bytes += bytes;
	list_move_tail(&c->wait_oldest, &s->oldest);
	list_move_tail(&s->wait_oldest, &link->oldest);
	swift_flow_count(link, c, now_ns);
	swift_flow_requeue(link, c);
	swift_sender_requeue(link, s);
}

/*
 * @own has an ACK under way, others need one. What the budget leaves is granted next time: a flow
 * that was granted something is busy, and comes back here with its data or, silent, by the timer.
 */
static void swift_schedule(struct swift_link *link, const struct swift_credit *own, u64 now_ns)
{
	int budget = SWIFT_CREDIT_GRANTS;
	struct swift_credit *c;
	u32 bytes;

	while (budget-- && (c = swift_pick(link))) {
		bytes = swift_quantum(c);
		if (!sird_link_may_lend(&link->size, link->lent_bytes, bytes, c->mss_bytes))
			break;
		swift_grant(link, c, bytes, now_ns);
		if (c != own)
			swift_kick_add(link, c);
	}
	swift_kick_start(link);
}

/* --- Data arrives (Algorithm 1, lines 1 to 7) -------------------------------------------- */

static void swift_link_size(struct swift_link *link, u32 mss_bytes)
{
	u32 loop_ns = link->loop.ns;
	u32 differs_ns = max(loop_ns, link->sized_loop_ns) - min(loop_ns, link->sized_loop_ns);
	u32 mbps = READ_ONCE(link->mbps);

	link->size.quantum_bytes = sird_quantum_bytes(&link->size, link->batch_bytes,
						      mss_bytes);
	/* Divisions: not for each nanosecond. */
	if (link->size.bdp_bytes && differs_ns <= link->sized_loop_ns >> 6 &&
	    link->sized_mbps == mbps)
		return;
	link->sized_loop_ns = loop_ns;
	link->sized_mbps = mbps;
	sird_link_set(&link->size, &link->sird, mbps, loop_ns, link->rtt_ns);
}

/* A segment fits, whatever came up to now. */
static u32 swift_allowance(const struct swift_link *link, const struct sock *sk)
{
	return sird_allowance(&link->size, tcp_sk(sk)->advmss);
}

static struct swift_sender *swift_sender_get(struct swift_link *link, const struct sock *sk)
{
	struct swift_sender *s;
	struct in6_addr address;
	u32 hash;

#if IS_ENABLED(CONFIG_IPV6)
	if (sk->sk_family == AF_INET6)
		address = sk->sk_v6_daddr;
	else
#endif
		ipv6_addr_set_v4mapped(inet_sk(sk)->inet_daddr, &address);
	hash = jhash2((const u32 *)address.s6_addr32, 4, 0);

	hash_for_each_possible(link->senders, s, node, hash) {
		if (!ipv6_addr_equal(&s->address, &address))
			continue;
		s->flows++;
		return s;
	}
	s = kzalloc(sizeof(*s), GFP_ATOMIC);
	if (!s)
		return NULL;
	s->address = address;
	s->flows = 1;
	s->waiting = RB_ROOT_CACHED;
	INIT_LIST_HEAD(&s->oldest);
	sird_sender_init(&s->book, link->size.bdp_bytes);
	hash_add(link->senders, &s->node, hash);
	return s;
}

static void swift_sender_put(struct swift_link *link, struct swift_sender *s)
{
	if (--s->flows)
		return;
	link->held -= s->held;
	WARN_ON_ONCE(s->book.lent_bytes); /* to the byte */
	hash_del(&s->node);
	kfree(s);
}

static void swift_flow_leave(struct swift_credit *c)
{
	struct swift_link *link = c->link;
	bool kicked;

	if (!link)
		return;
	spin_lock_bh(&link->lock);
	swift_count_lent(link, c, 0);
	list_del_init(&c->busy);
	kicked = !list_empty(&c->kick);
	list_del_init(&c->kick);
	if (c->waiting) {
		rb_erase_cached(&c->wait, &c->sender->waiting);
		list_del(&c->wait_oldest);
		c->waiting = false;
	}
	swift_sender_requeue(link, c->sender);
	swift_sender_put(link, c->sender);
	swift_schedule(link, NULL, ktime_get_ns());
	WRITE_ONCE(c->link, NULL);
	spin_unlock_bh(&link->lock);
	swift_link_put(link);
	if (kicked)
		__sock_put(c->sk);
}

/*
 * Of the segments that come. TCP has not measured this one, and of the first one it believes that
 * they are of 536 bytes: with credit for four of those a sender of jumbo frames sends nothing.
 */
static u32 swift_mss_bytes(const struct sock *sk, const struct sk_buff *skb)
{
	u32 bytes = skb_shinfo(skb)->gso_size ?: TCP_SKB_CB(skb)->end_seq - TCP_SKB_CB(skb)->seq;

	return clamp_t(u32, max_t(u32, bytes, inet_csk(sk)->icsk_ack.rcv_mss), TCP_MIN_MSS, SZ_64K);
}

/* By the device that the packet came through: a route that moves takes the flow along. */
static void swift_flow_join(struct sock *sk, struct swift_credit *c, const struct sk_buff *skb,
			    u32 rtt_ns)
{
	struct swift_link *link;

	swift_flow_leave(c);
	WRITE_ONCE(c->ifindex, skb->skb_iif);
	rcu_read_lock();
	link = swift_link_find(sock_net(sk), skb->skb_iif);
	if (!link || !READ_ONCE(link->mbps) || !refcount_inc_not_zero(&link->refs)) {
		rcu_read_unlock();
		return;
	}
	rcu_read_unlock();

	c->mss_bytes = swift_mss_bytes(sk, skb);
	spin_lock_bh(&link->lock);
	link->rtt_ns = sird_rtt_feed(link->rtt_ns, rtt_ns);
	link->loop.ns = max(link->loop.ns, link->rtt_ns);
	swift_link_size(link, c->mss_bytes);
	sird_flow_init(&c->book, tcp_sk(sk)->rcv_nxt, swift_allowance(link, sk));
	c->book.most = sird_earlier(c->book.most, tcp_sk(sk)->rcv_wup + tcp_sk(sk)->rcv_wnd);
	c->served_bytes = link->clock_bytes;
	c->sender = swift_sender_get(link, sk);
	if (c->sender)
		WRITE_ONCE(c->link, link);
	spin_unlock_bh(&link->lock);
	if (!c->link)
		swift_link_put(link);
}

/* What arrived changes what is known: of the link, and of what its sender makes of credit. */
static void swift_learn(struct swift_link *link, struct swift_credit *c, u32 bytes, u8 flags,
			bool net_marked, bool waited, u64 now_ns, u32 rtt_ns)
{
	struct sird_sender *s = &c->sender->book;

	link->rtt_ns = sird_rtt_feed(link->rtt_ns, rtt_ns);
	link->batch_bytes = sird_batch_feed(link->batch_bytes, bytes);
	sird_loop_feed(&link->loop, sird_wire_bytes(bytes, c->mss_bytes), waited,
		       READ_ONCE(link->mbps), link->rtt_ns, now_ns);
	swift_link_size(link, c->mss_bytes);
	if (s->lent_bytes)
		sird_used_feed(&s->used, bytes, link->loop.ns, now_ns);
	else
		sird_used_init(&s->used);
	sird_sender_feed(s, &link->size, bytes, flags & SIRD_OPT_CSN, net_marked, c->mss_bytes);
}

static void swift_arrived_on(struct sock *sk, struct swift_credit *c, const struct sird_data *in,
			     u8 flags, bool net_marked, u64 now_ns, u32 rtt_ns)
{
	struct swift_link *link = c->link;
	bool waited;
	u32 bytes, edge;

	spin_lock(&link->lock);
	waited = link->held || !RB_EMPTY_ROOT(&link->waiting.rb_root);
	edge = c->book.edge;
	bytes = sird_flow_arrived(&c->book, in,
				  sird_allowance_among(&link->size, tcp_sk(sk)->advmss, waited,
						       c->served_bytes, link->clock_bytes));
	/* What came unasked; an allowance that is taken back did not. */
	c->served_bytes += sird_ahead(c->book.edge, edge);
	c->served_bytes -= min_t(u64, sird_ahead(edge, c->book.edge), c->served_bytes);
	if (bytes)
		swift_learn(link, c, bytes, flags, net_marked, waited, now_ns, rtt_ns);
	swift_flow_heard(link, c, now_ns);
	swift_flow_requeue(link, c);
	swift_sender_requeue(link, c->sender);
	swift_schedule(link, c, now_ns);
	spin_unlock(&link->lock);
}

/* Of a flow that negotiated credit, established; the socket is locked, softirqs are off. */
void swift_credit_arrived(struct sock *sk, const struct sk_buff *skb)
{
	const struct swift_sock *ss = swift_sk(sk);
	u32 rtt_ns = swift_path_base_ns(&ss->law, swift_path_base_of(ss->path_key, NULL));
	const struct tcphdr *th = tcp_hdr(skb);
	struct swift_credit *c = swift_credit_of(sk);
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 window_end = tp->rcv_nxt + tcp_receive_window(tp);
	u32 end = sird_earlier(TCP_SKB_CB(skb)->end_seq, window_end);
	struct sird_opt opt = { .told = end };
	struct sird_data in;

	/* TCP has not looked yet: what it would drop moves no book. */
	if (!c || before(TCP_SKB_CB(skb)->end_seq, tp->rcv_wup) ||
	    after(TCP_SKB_CB(skb)->seq, window_end))
		return;
	if (rtt_ns == SWIFT_U32_MAX) /* tcp_min_rtt() has all ones as well */
		rtt_ns = tcp_min_rtt(tp) == ~0U ? 0 :
			 swift_saturate_u32((u64)tcp_min_rtt(tp) * NSEC_PER_USEC);
	if (c->ifindex != skb->skb_iif || !c->link || !READ_ONCE(c->link->mbps))
		swift_flow_join(sk, c, skb, rtt_ns);
	if (!c->link)
		return;
	c->mss_bytes = max(c->mss_bytes, swift_mss_bytes(sk, skb));

	if (sird_opt_parse((const u8 *)(th + 1), th->doff * 4 - sizeof(*th),
			   end, &opt) == SIRD_OPT_DEMAND)
		in.announces = opt.flags & SIRD_OPT_ANNOUNCES;
	else
		in.announces = false;
	in.end = end;
	in.told = sird_ahead(opt.told, end) > SWIFT_CREDIT_TOLD_MOST ? end : opt.told;
	if (opt.flags & SIRD_OPT_CSN)
		swift_count(swift_net_of(sk), credit_congested_senders);
	local_bh_disable(); /* from the backlog they are on */
	swift_arrived_on(sk, c, &in, opt.flags,
			 INET_ECN_is_ce(TCP_SKB_CB(skb)->ip_dsfield), ktime_get_ns(), rtt_ns);
	local_bh_enable();
}

/* --- ACKs leave -------------------------------------------------------------------------- */

/* The application has read, after its buffer alone had held the flow. */
static void swift_most_moved(struct swift_credit *c, u32 most)
{
	struct swift_link *link = c->link;
	bool held = sird_ahead(c->book.told, c->book.most);

	if (!sird_ahead(most, c->book.most))
		return;
	if (!held) {
		WRITE_ONCE(c->book.most, most);
		return;
	}
	spin_lock_bh(&link->lock);
	c->book.most = most;
	swift_flow_heard(link, c, ktime_get_ns());
	swift_flow_requeue(link, c);
	swift_sender_requeue(link, c->sender);
	swift_schedule(link, c, ktime_get_ns());
	spin_unlock_bh(&link->lock);
}

/* A segment of an established flow leaves: its window ends where credit does. */
void swift_credit_out(struct sock *sk, struct swift_credit *c, struct sk_buff *skb)
{
	struct tcphdr *th = tcp_hdr(skb);
	u32 scale = tcp_sk(sk)->rx_opt.rcv_wscale;
	u32 ack = ntohl(th->ack_seq);
	u32 units, edge;

	if (!c->link || skb->ip_summed != CHECKSUM_PARTIAL || !READ_ONCE(c->link->mbps))
		return;
	swift_most_moved(c, ack + (ntohs(th->window) << scale));
	edge = READ_ONCE(c->book.edge);
	if (before(edge, ack))
		return;
	WRITE_ONCE(c->told_edge, edge);
	/*
	 * All that was told of may be sent. What was appended since is told with a segment, for
	 * which there has to be room.
	 */
	if (!sird_ahead(READ_ONCE(c->book.told), edge))
		edge += tcp_sk(sk)->advmss;
	units = (sird_ahead(edge, ack) + (1U << scale) - 1) >> scale;
	if (units >= ntohs(th->window))
		return;
	th->window = htons(units); /* not summed up yet: CHECKSUM_PARTIAL */
	swift_count(swift_net_of(sk), credit_windows);
}

/* --- Kicks ------------------------------------------------------------------------------- */

/* Did it go, or was there no need? Without the link's lock. */
static bool swift_kick_one(struct swift_credit *c, struct sock *sk)
{
	bool done = true;

	bh_lock_sock(sk);
	if (sock_owned_by_user(sk)) {
		done = false;
	} else if (swift_runs(sk) && sk->sk_state == TCP_ESTABLISHED &&
		   swift_credit_of(sk) == c && READ_ONCE(c->book.edge) != READ_ONCE(c->told_edge)) {
		swift_send_ack(sk);
		swift_count(swift_net_of(sk), credit_kicks);
	}
	bh_unlock_sock(sk);
	return done;
}

/*
 * A flow's block is freed after a grace period, and softirqs are in one: it may have left the
 * link when its socket is locked at last.
 */
static void swift_kick(struct tasklet_struct *tasklet)
{
	struct swift_link *link = from_tasklet(link, tasklet, kick);
	LIST_HEAD(owned);
	int budget = SWIFT_CREDIT_KICKS;
	struct swift_credit *c;
	struct sock *sk;
	bool done, again;

	rcu_read_lock();
	spin_lock(&link->lock);
	while (budget-- &&
	       (c = list_first_entry_or_null(&link->kicks, struct swift_credit, kick))) {
		list_del_init(&c->kick);
		sk = c->sk;
		spin_unlock(&link->lock);
		done = swift_kick_one(c, sk);
		spin_lock(&link->lock);
		if (!done && c->link == link && list_empty(&c->kick)) {
			list_add_tail(&c->kick, &owned);
			continue;
		}
		spin_unlock(&link->lock);
		sock_put(sk);
		spin_lock(&link->lock);
	}
	again = !list_empty(&link->kicks);
	if (list_empty(&owned))
		link->retry_ns = SWIFT_CREDIT_RETRY_NS;
	list_splice_tail(&owned, &link->kicks);
	link->kicking = again;
	if (!again && !list_empty(&link->kicks)) {
		/* A process that sleeps with its socket locked is not asked each time. */
		link->retrying = true;
		swift_tick_later(link, link->retry_ns);
		link->retry_ns = min_t(u64, link->retry_ns * 2, swift_repeat_ns(link));
	}
	spin_unlock(&link->lock);
	rcu_read_unlock();
	if (again)
		tasklet_schedule(&link->kick); /* others' turn */
	else
		swift_link_put(link);
}

/* --- Silence ----------------------------------------------------------------------------- */

static void swift_repeat_silent(struct swift_link *link, u64 now_ns)
{
	struct swift_credit *c;
	u64 repeat_ns = swift_repeat_ns(link);

	while ((c = list_first_entry_or_null(&link->busy, struct swift_credit, busy))) {
		if ((s64)(now_ns - c->heard_ns) < (s64)repeat_ns)
			break;
		c->heard_ns = now_ns;
		if (++c->repeats >= SWIFT_CREDIT_COUNTS_REPEATS)
			swift_count_lent(link, c, 0);
		swift_flow_requeue(link, c);
		swift_sender_requeue(link, c->sender);
		if (c->repeats >= SWIFT_CREDIT_REPEATS_MAX) {
			list_del_init(&c->busy);
			continue;
		}
		list_move_tail(&c->busy, &link->busy);
		WRITE_ONCE(c->told_edge, c->book.edge - 1); /* so that it is told, whatever was */
		swift_kick_add(link, c);
		swift_count(swift_net_of(c->sk), credit_repeats);
	}
}

static enum hrtimer_restart swift_tick(struct hrtimer *timer)
{
	struct swift_link *link = container_of(timer, struct swift_link, timer);
	bool goes_on;
	u64 now_ns;

	spin_lock(&link->lock);
	now_ns = ktime_get_ns();
	link->retrying = false;
	swift_repeat_silent(link, now_ns);
	swift_schedule(link, NULL, now_ns);
	if (hrtimer_is_queued(timer)) { /* anew, while this waited for the lock */
		spin_unlock(&link->lock);
		return HRTIMER_NORESTART;
	}
	goes_on = !list_empty(&link->busy);
	link->ticking = goes_on;
	if (goes_on)
		hrtimer_forward_now(timer, ns_to_ktime(swift_repeat_ns(link)));
	spin_unlock(&link->lock);
	if (goes_on)
		return HRTIMER_RESTART;
	swift_link_put(link);
	return HRTIMER_NORESTART;
}

/* --- Looking on -------------------------------------------------------------------------- */

static enum tcp_swift_standing swift_standing(const struct swift_credit *c)
{
	static const u8 told_as[] = {
		[SIRD_STANDING_IDLE] = TCP_SWIFT_STANDING_IDLE,
		[SIRD_STANDING_SERVED] = TCP_SWIFT_STANDING_SERVED,
		[SIRD_STANDING_LINK] = TCP_SWIFT_STANDING_LINK,
		[SIRD_STANDING_SENDER] = TCP_SWIFT_STANDING_SENDER,
		[SIRD_STANDING_NETWORK] = TCP_SWIFT_STANDING_NETWORK,
		[SIRD_STANDING_LATE] = TCP_SWIFT_STANDING_LATE,
		[SIRD_STANDING_BUFFER] = TCP_SWIFT_STANDING_BUFFER,
	};

	if (!READ_ONCE(c->link->mbps))
		return TCP_SWIFT_STANDING_NO_RATE;
	if (c->repeats >= SWIFT_CREDIT_COUNTS_REPEATS)
		return TCP_SWIFT_STANDING_SILENT;
	return told_as[sird_standing_of(&c->book, &c->sender->book, swift_quantum(c))];
}

/*
 * Under rcu_read_lock(), and no lock of the socket's. A link is freed after a grace period; a
 * flow that is in its book stays there for as long as the book is locked.
 */
void swift_credit_look(struct swift_credit *c, struct swift_standing *out)
{
	struct swift_link *link = READ_ONCE(c->link);

	memset(out, 0, sizeof(*out));
	out->ifindex = READ_ONCE(c->ifindex);
	if (!link) {
		out->standing = out->ifindex ? TCP_SWIFT_STANDING_NO_RATE : TCP_SWIFT_STANDING_IDLE;
		return;
	}
	spin_lock_bh(&link->lock);
	if (c->link == link) {
		out->standing = swift_standing(c);
		out->wanted_bytes = sird_flow_wants(&c->book);
		out->lent_bytes = c->counted_bytes;
		out->sender_lent_bytes = c->sender->book.lent_bytes;
		out->sender_most_bytes = sird_sender_most(&c->sender->book);
		out->sender_host_bytes = c->sender->book.host.size_bytes;
		out->sender_net_bytes = c->sender->book.net.size_bytes;
	}
	spin_unlock_bh(&link->lock);
}

/* --- Coming and going -------------------------------------------------------------------- */

void swift_link_init_book(struct swift_link *link)
{
	spin_lock_init(&link->lock);
	link->retry_ns = SWIFT_CREDIT_RETRY_NS;
	link->waiting = RB_ROOT_CACHED;
	INIT_LIST_HEAD(&link->oldest);
	INIT_LIST_HEAD(&link->busy);
	INIT_LIST_HEAD(&link->kicks);
	hash_init(link->senders);
	tasklet_setup(&link->kick, swift_kick);
	swift_hrtimer_setup(&link->timer, swift_tick, CLOCK_MONOTONIC, HRTIMER_MODE_REL_SOFT);
}

/* Who waits does so by the old policy until something of his own moves. */
void swift_link_set(struct swift_link *link, const struct sird_tunables *sird)
{
	spin_lock_bh(&link->lock);
	link->sird = data_race(*sird); /* who writes calls this once more */
	link->sized_mbps = 0;
	spin_unlock_bh(&link->lock);
}

/* Both ends offered. Room for the option on data is taken off the MSS. */
bool swift_credit_begin(struct sock *sk)
{
	struct swift_credit *c;

	if (sk_is_mptcp(sk))
		return false;
	c = kzalloc(sizeof(*c), GFP_ATOMIC);
	if (!c)
		return false;
	c->sk = sk;
	c->told = tcp_sk(sk)->snd_nxt;
	INIT_LIST_HEAD(&c->busy);
	INIT_LIST_HEAD(&c->kick);
	if (rhashtable_insert_fast(&swift_credits, &c->node, swift_credits_params)) {
		kfree(c);
		return false;
	}
	inet_csk(sk)->icsk_ext_hdr_len += SIRD_OPT_DEMAND_LEN;
	inet_csk(sk)->icsk_pmtu_cookie = 0; /* tcp_current_mss() computes anew */
	swift_count(swift_net_of(sk), credit_flows);
	return true;
}

/* With the socket locked, and Swift's no more: an ACK now has the kernel's own window. */
void swift_credit_end(struct sock *sk)
{
	struct swift_credit *c = swift_credit_of(sk);

	if (!c)
		return;
	if (inet_csk(sk)->icsk_ext_hdr_len >= SIRD_OPT_DEMAND_LEN)
		inet_csk(sk)->icsk_ext_hdr_len -= SIRD_OPT_DEMAND_LEN;
	inet_csk(sk)->icsk_pmtu_cookie = 0;
	if (c->link && sk->sk_state == TCP_ESTABLISHED)
		swift_send_ack(sk);
	swift_flow_leave(c);
	rhashtable_remove_fast(&swift_credits, &c->node, swift_credits_params);
	kfree_rcu(c, rcu);
	swift_uncount(swift_net_of(sk), credit_flows);
}

/* tcp_probe is silent from here on: the peer may send what TCP alone lets it. */
void swift_credit_half_closed(struct sock *sk)
{
	struct swift_credit *c = swift_credit_of(sk);

	if (c)
		swift_flow_leave(c);
}

int swift_credit_start(void)
{
	return rhashtable_init(&swift_credits, &swift_credits_params);
}

void swift_credit_stop(void)
{
	rhashtable_destroy(&swift_credits);
}
