/* SPDX-License-Identifier: GPL-2.0 */
/*
 * SIRD's credit between the parts of the module: what a link knows, and what a flow that
 * negotiated credit has beside its struct swift_sock.
 *
 *   link.c    devices -> struct swift_link: one for each NIC, whatever stands on it
 *   credit.c  receiving: data -> the link's book -> grants, as the window of ACKs
 *   demand.c  sending: what is there to send, and whether the link is busy -> option on data
 *   book.c    what an operator is shown of it, over netlink
 */
#ifndef SWIFT_CREDIT_H
#define SWIFT_CREDIT_H

#include <linux/hashtable.h>
#include <linux/hrtimer.h>
#include <linux/interrupt.h>
#include <linux/rbtree.h>
#include <linux/refcount.h>
#include <linux/rhashtable.h>

#include "swift_sock.h"

#define SWIFT_SENDERS_BITS 8

/* A NIC, and all that stand on it alone: VLANs, macvlans, of any namespace. */
struct swift_link {
	refcount_t refs;
	u32 mbps; /* 0 = no longer known */
	struct rcu_head rcu;
	/* The NIC: names only, as it may be gone. */
	const struct swift_net *owner;
	int ifindex;

	/* Sending. Who races here loses a segment's time. */
	u64 busy_until_ns;
	u64 other_receiver_ns; /* when it last went to another receiver than before */
	u32 last_receiver;

	/* Receiving. */
	spinlock_t lock ____cacheline_aligned_in_smp; /* of all that follows */
	struct sird_tunables sird; /* the owner's, whoever receives through it */
	struct sird_link size;
	u32 rtt_ns; /* average of the senders', by bytes */
	struct sird_loop loop; /* of credit */
	u32 batch_bytes; /* what arrives as one, on average */
	u32 held; /* senders without room that a longer loop would give some */
	u32 sized_loop_ns; /* that size is for */
	u32 sized_mbps; /* 0 = it is to be found anew */
	u32 retry_ns; /* until sockets that were owned are tried again */
	u32 lent_bytes; /* b */
	u32 grants;
	u64 clock_bytes; /* what the flow served last had got (SIRD_FAIR) */
	struct rb_root_cached waiting; /* senders with room, by the key of their first flow */
	struct list_head oldest; /* the same, by when they were served */
	struct list_head busy; /* flows with bytes under way, by when they were heard of */
	struct list_head kicks; /* flows with a grant that no ACK has told yet */
	DECLARE_HASHTABLE(senders, SWIFT_SENDERS_BITS);
	struct tasklet_struct kick;
	struct hrtimer timer; /* looks after busy flows, and kicks that found their socket owned */
	bool kicking; /* the tasklet is under way */
	bool ticking; /* the timer */
	bool retrying; /* soon */
};

/* link.c; under rcu_read_lock() unless taken */
struct swift_link *swift_link_find(const struct net *net, int ifindex);
struct swift_link *swift_link_of_route(const struct sock *sk);
void swift_link_get(struct swift_link *link);
void swift_link_put(struct swift_link *link);

/* credit.c */
struct swift_sender;

struct swift_credit {
	struct rhash_head node;
	struct sock *sk;
	struct rcu_head rcu;

	/* Sending: with the socket locked. */
	u32 told; /* up to where: write_seq, when the last segment left */
	bool announcing; /* the rest is held until an ACK says what may be sent */
	u8 csn_left; /* segments for which this host's link counts as congested */

	/* Receiving. @link is set with the socket locked, and until release. */
	struct swift_link *link; /* NULL = none with a known rate yet: no credit */
	int ifindex; /* that @link was found by */
	u32 mss_bytes; /* of the segments that come */
	/* Under the link's lock; the edge is read without. */
	struct sird_flow book;
	struct swift_sender *sender;
	u32 counted_bytes; /* of the book's, in b and sb */
	u32 told_edge; /* what the last ACK said */
	u64 heard_ns;
	u64 served_bytes; /* on the link's clock */
	u64 key;
	struct rb_node wait;
	struct list_head wait_oldest;
	struct list_head busy;
	struct list_head kick;
	u8 repeats; /* of the edge, since it was heard of */
	bool waiting;
};

/* What book.c shows of a flow. */
struct swift_standing {
	int ifindex; /* 0 = it is in no book */
	enum tcp_swift_standing standing;
	u32 wanted_bytes;
	u32 lent_bytes;
	u32 sender_lent_bytes;
	u32 sender_most_bytes;
	u32 sender_host_bytes;
	u32 sender_net_bytes;
};

extern struct rhashtable swift_credits; /* struct swift_credit by its socket; of all namespaces */

/* Negotiated, and not switched off since: then the flow is plain Swift's again. */
static inline bool swift_has_credit(const struct sock *sk)
{
	return swift_sk(sk)->credit && READ_ONCE(swift_net_of(sk)->credit);
}

int swift_credit_start(void);
void swift_credit_stop(void);
void swift_link_init_book(struct swift_link *link);
void swift_link_set(struct swift_link *link, const struct sird_tunables *sird);
bool swift_credit_begin(struct sock *sk);
void swift_credit_end(struct sock *sk);
struct swift_credit *swift_credit_of(const struct sock *sk);
void swift_credit_arrived(struct sock *sk, const struct sk_buff *skb);
void swift_credit_out(struct sock *sk, struct swift_credit *c, struct sk_buff *skb);
void swift_credit_half_closed(struct sock *sk);
void swift_credit_look(struct swift_credit *c, struct swift_standing *out);

/* book.c */
int swift_book_start(struct netlink_callback *cb);
int swift_book_dump(struct sk_buff *skb, struct netlink_callback *cb);
int swift_book_done(struct netlink_callback *cb);

/* echo.c */
struct swift_tuple {
	struct in6_addr local, remote; /* IPv4: mapped */
	__be16 local_port, remote_port;
	u32 pad; /* whole words for siphash */
} __aligned(SIPHASH_ALIGNMENT);

void swift_tuple_from_sock(struct swift_tuple *t, const struct sock *sk);
bool swift_insert_option(struct sk_buff *skb, u8 pf, const u8 *option, unsigned int len);

/* demand.c */
void swift_demand_before(struct sock *sk, struct swift_credit *c);
void swift_demand_out(struct sock *sk, struct swift_credit *c, struct sk_buff *skb, u8 pf);

#endif /* SWIFT_CREDIT_H */
