// SPDX-License-Identifier: GPL-2.0
/*
 * Credit as an operator sees it, over generic netlink (TCP_SWIFT_CMD_CREDIT_GET of clock.c's
 * family; layout in uapi/tcp_swift.h): the links of a network namespace, then its flows, as they
 * stand in the books of credit.c.
 *
 * What is shown of a flow sock_diag shows to anyone as well, so this asks for no capability. A
 * dump takes no more memory than its place: a message is filled, and the next call goes on. It
 * holds no lock but RCU's, and for a moment a book's.
 */
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/sock_diag.h>
#include <net/genetlink.h>

#include "swift_credit.h"

#define SWIFT_BOOK_AT_ONCE 1024 /* flows, most of them perhaps of other namespaces */

/* Where a dump is. */
struct swift_book_place {
	struct rhashtable_iter flows;
	unsigned long ifindex; /* of the link to come */
	bool links_done;
	bool again; /* the flow at hand had no room in the last message */
};

static void *swift_book_begin(struct sk_buff *skb, struct netlink_callback *cb)
{
	void *header = genlmsg_put(skb, NETLINK_CB(cb->skb).portid, cb->nlh->nlmsg_seq,
				   &swift_genl_family, NLM_F_MULTI, TCP_SWIFT_CMD_CREDIT_GET);

	if (header)
		genl_dump_check_consistent(cb, header);
	return header;
}

static int swift_book_end(struct sk_buff *skb, void *header, bool no_room)
{
	if (no_room) {
		genlmsg_cancel(skb, header);
		return -EMSGSIZE;
	}
	genlmsg_end(skb, header);
	return 0;
}

/* --- Links ------------------------------------------------------------------------------- */

static int swift_book_put_link(struct sk_buff *skb, struct netlink_callback *cb, u32 ifindex,
			       struct swift_link *link)
{
	u32 lent_bytes, rtt_ns, loop_ns;
	struct sird_link size;
	void *header;

	spin_lock_bh(&link->lock);
	size = link->size;
	lent_bytes = link->lent_bytes;
	rtt_ns = link->rtt_ns;
	loop_ns = link->loop.ns;
	spin_unlock_bh(&link->lock);

	header = swift_book_begin(skb, cb);
	if (!header)
		return -EMSGSIZE;
	return swift_book_end(skb, header,
			      nla_put_u32(skb, TCP_SWIFT_A_IFINDEX, ifindex) ||
			      nla_put_u32(skb, TCP_SWIFT_A_LINK_MBPS, READ_ONCE(link->mbps)) ||
			      nla_put_u32(skb, TCP_SWIFT_A_LINK_BDP, size.bdp_bytes) ||
			      nla_put_u32(skb, TCP_SWIFT_A_LINK_B, size.b_bytes) ||
			      nla_put_u32(skb, TCP_SWIFT_A_LINK_UNSCHED, size.unsched_bytes) ||
			      nla_put_u32(skb, TCP_SWIFT_A_LINK_LENT, lent_bytes) ||
			      nla_put_u32(skb, TCP_SWIFT_A_LINK_RTT_NS, rtt_ns) ||
			      nla_put_u32(skb, TCP_SWIFT_A_LINK_LOOP_NS, loop_ns));
}

static int swift_book_links(struct sk_buff *skb, struct netlink_callback *cb,
			    struct swift_book_place *place)
{
	struct swift_net *sn = swift_net(sock_net(skb->sk));
	struct swift_link *link;
	int err = 0;

	rcu_read_lock(); /* a link is freed after a grace period */
	xa_for_each_start(&sn->links, place->ifindex, link, place->ifindex) {
		err = swift_book_put_link(skb, cb, place->ifindex, link);
		if (err)
			break;
	}
	rcu_read_unlock();
	place->links_done = !err;
	return err;
}

/* --- Flows ------------------------------------------------------------------------------- */

static int swift_book_put_flow(struct sk_buff *skb, struct netlink_callback *cb,
			       struct swift_credit *c)
{
	struct sock *sk = c->sk;
	struct swift_standing s;
	struct swift_tuple t;
	u32 cookie[2];
	void *header;

	swift_credit_look(c, &s);
	swift_tuple_from_sock(&t, sk);
	sock_diag_save_cookie(sk, cookie);

	header = swift_book_begin(skb, cb);
	if (!header)
		return -EMSGSIZE;
	return swift_book_end(skb, header,
			      nla_put_u32(skb, TCP_SWIFT_A_IFINDEX, s.ifindex) ||
			      nla_put_in6_addr(skb, TCP_SWIFT_A_LOCAL, &t.local) ||
			      nla_put_in6_addr(skb, TCP_SWIFT_A_REMOTE, &t.remote) ||
			      nla_put_u16(skb, TCP_SWIFT_A_LOCAL_PORT, ntohs(t.local_port)) ||
			      nla_put_u16(skb, TCP_SWIFT_A_REMOTE_PORT, ntohs(t.remote_port)) ||
			      nla_put_u64_64bit(skb, TCP_SWIFT_A_COOKIE,
						(u64)cookie[1] << 32 | cookie[0],
						TCP_SWIFT_A_PAD) ||
			      nla_put_u32(skb, TCP_SWIFT_A_STANDING, s.standing) ||
			      nla_put_u32(skb, TCP_SWIFT_A_WANTED, s.wanted_bytes) ||
			      nla_put_u32(skb, TCP_SWIFT_A_LENT, s.lent_bytes) ||
			      nla_put_u32(skb, TCP_SWIFT_A_SENDER_LENT, s.sender_lent_bytes) ||
			      nla_put_u32(skb, TCP_SWIFT_A_SENDER_MOST, s.sender_most_bytes) ||
			      nla_put_u32(skb, TCP_SWIFT_A_SENDER_HOST, s.sender_host_bytes) ||
			      nla_put_u32(skb, TCP_SWIFT_A_SENDER_NET, s.sender_net_bytes));
}

/*
 * A socket's memory is a socket's for a grace period, but may be another one's by the time that
 * there is a reference to it: that one is not in the table by this entry.
 */
static int swift_book_flow(struct sk_buff *skb, struct netlink_callback *cb,
			   struct swift_credit *c)
{
	const struct net *net = sock_net(skb->sk);
	struct sock *sk = c->sk;
	int err = 0;

	if (!net_eq(sock_net(sk), net) || !refcount_inc_not_zero(&sk->sk_refcnt))
		return 0;
	if (net_eq(sock_net(sk), net) && swift_credit_of(sk) == c)
		err = swift_book_put_flow(skb, cb, c);
	sock_put(sk);
	return err;
}

/* -EAGAIN: there are more. */
static int swift_book_flows(struct sk_buff *skb, struct netlink_callback *cb,
			    struct swift_book_place *place)
{
	int err = 0, left = SWIFT_BOOK_AT_ONCE;
	struct swift_credit *c;

	/* Resized, the table is gone through from its beginning: some are told twice. */
	if (rhashtable_walk_start_check(&place->flows))
		cb->seq++;
	c = place->again ? rhashtable_walk_peek(&place->flows) :
			   rhashtable_walk_next(&place->flows);
	while (c) {
		if (IS_ERR(c))
			cb->seq++;
		else
			err = swift_book_flow(skb, cb, c);
		if (!err && !--left)
			err = -EAGAIN;
		if (err)
			break;
		c = rhashtable_walk_next(&place->flows);
	}
	place->again = err == -EMSGSIZE;
	rhashtable_walk_stop(&place->flows);
	return err;
}

/* --- The dump ---------------------------------------------------------------------------- */

int swift_book_start(struct netlink_callback *cb)
{
	struct swift_book_place *place = kzalloc(sizeof(*place), GFP_KERNEL_ACCOUNT);

	if (!place)
		return -ENOMEM;
	rhashtable_walk_enter(&swift_credits, &place->flows);
	cb->args[0] = (long)place;
	cb->seq = 1; /* of a table that was not resized meanwhile */
	return 0;
}

int swift_book_dump(struct sk_buff *skb, struct netlink_callback *cb)
{
	struct swift_book_place *place = (struct swift_book_place *)cb->args[0];
	const struct swift_net *sn = swift_net(sock_net(skb->sk));
	int err = 0;

	if (!place->links_done)
		err = swift_book_links(skb, cb, place);
	/* Switched off, flows go by Swift alone, and nobody keeps their books. */
	while (!err && READ_ONCE(sn->credit)) {
		err = swift_book_flows(skb, cb, place);
		if (err != -EAGAIN)
			break;
		err = 0;
		cond_resched();
	}
	return skb->len ? skb->len : err;
}

int swift_book_done(struct netlink_callback *cb)
{
	struct swift_book_place *place = (struct swift_book_place *)cb->args[0];

	rhashtable_walk_exit(&place->flows);
	kfree(place);
	return 0;
}
