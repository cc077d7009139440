// SPDX-License-Identifier: GPL-2.0
/*
 * The echo: TCP option out, and its negotiation (layout in core/option.h).
 *
 *   client                                         server
 *   LOCAL_OUT: SYN + offer       ------------>     LOCAL_IN: slot = OFFERED
 *   LOCAL_IN: slot = ANSWERED    <------------     LOCAL_OUT: SYN-ACK + offer if OFFERED,
 *   init(): take slot, echo on                       slot = ANSWERED
 *                                                  init(): take slot, echo on
 *   then, either way: LOCAL_OUT: pure ACK of data + echo of (t4 - t2, hops)
 *
 * Sockets are not there yet (or are request sockets, which have no room) when a SYN
 * arrives: what it offered is remembered in a table of fixed size, keyed by the
 * connection, which needs no lock and no allocation and forgets when it must. A flow
 * that was forgotten has no echo, and nothing else.
 *
 * Under SYN cookies the SYN-ACK belongs to no socket: it passes untouched, the slot never
 * becomes ANSWERED, and neither end echoes.
 */
#include <linux/ipv6.h>
#include <linux/netfilter_ipv4.h>
#include <linux/netfilter_ipv6.h>
#include <linux/random.h>
#include <net/ip.h>
#include <net/checksum.h>
#include <net/request_sock.h>

#include "swift_sock.h"

/* --- Handshakes under way ------------------------------------------------------------- */

#define SWIFT_SLOTS 4096 /* 32 KB for a namespace whose echo was ever on */
#define SWIFT_SLOT_SECONDS 64 /* Linux gives up on a SYN-ACK after 63 s */

enum swift_handshake {
	SWIFT_UNKNOWN,
	SWIFT_OFFERED, /* a SYN came with an offer */
	SWIFT_ANSWERED, /* and a SYN-ACK went, or came, with one */
};

/* A slot is one word, written whole: 54 bits of the key's hash, 8 of time, 2 of state. */
struct swift_handshakes {
	siphash_key_t key;
	u64 slots[SWIFT_SLOTS];
};

struct swift_tuple {
	struct in6_addr local, remote; /* IPv4: mapped */
	__be16 local_port, remote_port;
	u32 pad; /* whole words for siphash */
} __aligned(SIPHASH_ALIGNMENT);

static u64 swift_slot_now(void)
{
	return (jiffies / HZ) & 0xff;
}

static u64 *swift_slot(struct swift_handshakes *h, const struct swift_tuple *tuple, u64 *tag)
{
	u64 hash = siphash(tuple, sizeof(*tuple), &h->key);

	*tag = hash >> 10;
	return &h->slots[hash % SWIFT_SLOTS];
}

static void swift_slot_set(struct swift_handshakes *h, const struct swift_tuple *tuple,
			   enum swift_handshake state)
{
	u64 tag, *slot = swift_slot(h, tuple, &tag);

	/* Without an offer: forget this connection's last one, but nobody else's. */
	if (state == SWIFT_UNKNOWN && READ_ONCE(*slot) >> 10 != tag)
		return;
	WRITE_ONCE(*slot, tag << 10 | swift_slot_now() << 2 | state);
}

static enum swift_handshake swift_slot_get(struct swift_handshakes *h,
					   const struct swift_tuple *tuple)
{
	u64 tag, *slot = swift_slot(h, tuple, &tag);
	u64 v = READ_ONCE(*slot);

	if (v >> 10 != tag || ((swift_slot_now() - (v >> 2)) & 0xff) > SWIFT_SLOT_SECONDS)
		return SWIFT_UNKNOWN;
	return v & 3;
}

static void swift_tuple_from_sock(struct swift_tuple *t, const struct sock *sk)
{
	memset(t, 0, sizeof(*t));
	t->local_port = inet_sk(sk)->inet_sport;
	t->remote_port = inet_sk(sk)->inet_dport;
#if IS_ENABLED(CONFIG_IPV6)
	if (sk->sk_family == AF_INET6) { /* mapped already if it carries IPv4 */
		t->local = sk->sk_v6_rcv_saddr;
		t->remote = sk->sk_v6_daddr;
		return;
	}
#endif
	ipv6_addr_set_v4mapped(inet_sk(sk)->inet_rcv_saddr, &t->local);
	ipv6_addr_set_v4mapped(inet_sk(sk)->inet_daddr, &t->remote);
}

static void swift_tuple_from_request(struct swift_tuple *t, const struct request_sock *req)
{
	const struct inet_request_sock *ireq = inet_rsk(req);

	memset(t, 0, sizeof(*t));
	t->local_port = htons(ireq->ir_num);
	t->remote_port = ireq->ir_rmt_port;
#if IS_ENABLED(CONFIG_IPV6)
	if (ireq->ireq_family == AF_INET6) {
		t->local = ireq->ir_v6_loc_addr;
		t->remote = ireq->ir_v6_rmt_addr;
		return;
	}
#endif
	ipv6_addr_set_v4mapped(ireq->ir_loc_addr, &t->local);
	ipv6_addr_set_v4mapped(ireq->ir_rmt_addr, &t->remote);
}

/* Of a packet that arrives: its destination is local. */
static void swift_tuple_from_packet(struct swift_tuple *t, const struct sk_buff *skb,
				    const struct tcphdr *th, u8 pf)
{
	memset(t, 0, sizeof(*t));
	t->local_port = th->dest;
	t->remote_port = th->source;
	if (pf == NFPROTO_IPV6) {
		t->local = ipv6_hdr(skb)->daddr;
		t->remote = ipv6_hdr(skb)->saddr;
		return;
	}
	ipv6_addr_set_v4mapped(ip_hdr(skb)->daddr, &t->local);
	ipv6_addr_set_v4mapped(ip_hdr(skb)->saddr, &t->remote);
}

/* Did both ends of this new connection offer? Softirq or the connecting process. */
bool swift_echo_take(const struct sock *sk)
{
	struct swift_handshakes *h;
	struct swift_tuple tuple;
	bool answered;

	/* Pairs with the release in swift_echo_enable(): the key is there. */
	h = smp_load_acquire(&swift_net(sock_net(sk))->handshakes);
	if (!h)
		return false;
	swift_tuple_from_sock(&tuple, sk);
	answered = swift_slot_get(h, &tuple) == SWIFT_ANSWERED;
	if (answered)
		swift_slot_set(h, &tuple, SWIFT_UNKNOWN);
	return answered;
}

/* --- Packets ---------------------------------------------------------------------------- */

/* Offset of the TCP header from the network header, or 0: not TCP, or behind extensions. */
static unsigned int swift_tcp_offset(const struct sk_buff *skb, u8 pf)
{
	if (pf == NFPROTO_IPV6)
		return ipv6_hdr(skb)->nexthdr == IPPROTO_TCP ? sizeof(struct ipv6hdr) : 0;
	return ip_hdr(skb)->protocol == IPPROTO_TCP ? ip_hdrlen(skb) : 0;
}

/*
 * Append an option to a packet that is nothing but headers: they move down into the
 * headroom, which any skb of TCP has, and leave the room behind them. A SYN's skb shares
 * its bytes with the retransmit queue's, whose data begins behind ours.
 */
static bool swift_append_option(struct sk_buff *skb, u8 pf, const u8 *option, unsigned int len)
{
	struct tcphdr *th = tcp_hdr(skb);
	unsigned int header = th->doff * 4;
	unsigned int all = skb->len;

	if (header + len > sizeof(*th) + SWIFT_OPT_SPACE || skb_headroom(skb) < len ||
	    skb_is_nonlinear(skb) || skb->ip_summed != CHECKSUM_PARTIAL ||
	    swift_opt_is_signed((u8 *)(th + 1), header - sizeof(*th)))
		return false;

	skb_push(skb, len);
	memmove(skb->data, skb->data + len, all);
	memcpy(skb->data + all, option, len);
	skb->network_header -= len;
	skb->transport_header -= len;
	skb->csum_start -= len;

	th = tcp_hdr(skb);
	th->doff += len / 4;
	/* The length in the pseudo header: all that is summed here so far. */
	inet_proto_csum_replace2(&th->check, skb, htons(header), htons(header + len), true);
	if (pf == NFPROTO_IPV6) {
		ipv6_hdr(skb)->payload_len = htons(skb->len - sizeof(struct ipv6hdr));
	} else {
		ip_hdr(skb)->tot_len = htons(skb->len);
		ip_send_check(ip_hdr(skb));
	}
	return true;
}

static bool swift_append_offer(struct sk_buff *skb, u8 pf)
{
	const struct tcphdr *th = tcp_hdr(skb);
	u8 option[SWIFT_OPT_OFFER_LEN];
	struct swift_opt unused;

	/* A virtual routing device shows a packet to this hook twice. */
	if (swift_opt_parse((const u8 *)(th + 1), th->doff * 4 - sizeof(*th), &unused) ==
	    SWIFT_OPT_OFFER)
		return true;
	swift_opt_put_offer(option);
	return swift_append_option(skb, pf, option, sizeof(option));
}

/* Will the connection that @req becomes run Swift? As tcp_ca_openreq_child() decides. */
static bool swift_will_run(const struct sk_buff *skb, const struct request_sock *req)
{
	u32 key = skb_dst(skb) ? dst_metric(skb_dst(skb), RTAX_CC_ALGO) : TCP_CA_UNSPEC;

	if (key != TCP_CA_UNSPEC)
		return key == swift_cong_ops.key;
	if (inet_csk(req->rsk_listener)->icsk_ca_setsockopt)
		return swift_runs(req->rsk_listener);
	return rcu_access_pointer(sock_net(req->rsk_listener)->ipv4.tcp_congestion_control) ==
	       &swift_cong_ops;
}

static void swift_out_synack(struct sk_buff *skb, u8 pf, struct swift_handshakes *h)
{
	const struct request_sock *req = inet_reqsk(skb->sk);
	struct swift_tuple tuple;

	if (!req->rsk_listener || !swift_will_run(skb, req))
		return;
	swift_tuple_from_request(&tuple, req);
	if (swift_slot_get(h, &tuple) != SWIFT_UNKNOWN && swift_append_offer(skb, pf))
		swift_slot_set(h, &tuple, SWIFT_ANSWERED);
}

static void swift_out_ack(struct sk_buff *skb, u8 pf, struct swift_sock *ss)
{
	u8 option[SWIFT_OPT_ECHO_LEN];
	struct net *net = sock_net(skb->sk);
	struct swift_opt echo;

	if (!ss->live || !ss->echo_on || ss->echo_stopped || !ss->has_t2)
		return;

	echo.remote_ns = (u32)ktime_get_ns() - ss->t2_ns; /* t4 - t2 */
	echo.hops = ss->rx_hops;
	echo.hw = ss->t2_hw;
	ss->has_t2 = 0; /* a later ACK, a window update say, answers no data */

	swift_opt_put_echo(option, &echo);
	if (swift_append_option(skb, pf, option, sizeof(option)))
		swift_count(swift_net(net), echoes_sent);
	else
		swift_count(swift_net(net), echoes_no_room);
}

static unsigned int swift_hook_out(void *priv, struct sk_buff *skb,
				   const struct nf_hook_state *state)
{
	struct sock *sk = skb->sk;
	const struct tcphdr *th;
	unsigned int offset;

	if (!sk)
		return NF_ACCEPT;
	offset = swift_tcp_offset(skb, state->pf);
	if (!offset)
		return NF_ACCEPT;

	/* The only kind of socket whose fields end early. */
	if (sk->sk_state == TCP_NEW_SYN_RECV) {
		swift_out_synack(skb, state->pf, swift_net(state->net)->handshakes);
		return NF_ACCEPT;
	}
	if (!sk_fullsock(sk) || !sk_is_tcp(sk) || !swift_runs(sk))
		return NF_ACCEPT;

	th = tcp_hdr(skb);
	if (skb->len != offset + th->doff * 4 || th->rst || th->fin)
		return NF_ACCEPT;
	if (!th->syn) {
		swift_out_ack(skb, state->pf, swift_sk(sk));
		return NF_ACCEPT;
	}
	if (!th->ack && !inet_csk(sk)->icsk_retransmits) /* or was it the option? */
		swift_append_offer(skb, state->pf);
	return NF_ACCEPT;
}

/* Handshake packets that arrive: remember whether they offer. */
static unsigned int swift_hook_in(void *priv, struct sk_buff *skb,
				  const struct nf_hook_state *state)
{
	u8 options_buf[SWIFT_OPT_SPACE];
	struct tcphdr th_buf, *th;
	struct swift_tuple tuple;
	unsigned int offset, len;
	enum swift_handshake heard = SWIFT_UNKNOWN;
	struct swift_opt unused;
	const u8 *options;

	if (skb->sk && skb->sk->sk_state == TCP_ESTABLISHED) /* early demux has found it */
		return NF_ACCEPT;
	offset = swift_tcp_offset(skb, state->pf);
	if (!offset)
		return NF_ACCEPT;
	th = skb_header_pointer(skb, offset, sizeof(th_buf), &th_buf);
	if (!th || !th->syn || th->doff * 4 < sizeof(*th))
		return NF_ACCEPT;

	len = th->doff * 4 - sizeof(*th);
	options = skb_header_pointer(skb, offset + sizeof(*th), len, options_buf);
	if (!options)
		return NF_ACCEPT;
	switch (swift_opt_parse(options, len, &unused)) {
	case SWIFT_OPT_OFFER:
		heard = th->ack ? SWIFT_ANSWERED : SWIFT_OFFERED;
		break;
	case SWIFT_OPT_NONE:
		break;
	default:
		swift_count(swift_net(state->net), echoes_malformed);
		break;
	}
	swift_tuple_from_packet(&tuple, skb, th, state->pf);
	swift_slot_set(swift_net(state->net)->handshakes, &tuple, heard);
	return NF_ACCEPT;
}

/* --- Switch ---------------------------------------------------------------------------------- */

/*
 * First on the way out: the socket is locked still, which it is no more behind a hook that
 * queues to user space. NAT and connection tracking cope with what they find.
 */
static const struct nf_hook_ops swift_hooks[] = {
	{ .hook = swift_hook_out, .pf = NFPROTO_IPV4, .hooknum = NF_INET_LOCAL_OUT,
	  .priority = NF_IP_PRI_FIRST },
	{ .hook = swift_hook_in, .pf = NFPROTO_IPV4, .hooknum = NF_INET_LOCAL_IN,
	  .priority = NF_IP_PRI_LAST },
#if IS_ENABLED(CONFIG_IPV6)
	{ .hook = swift_hook_out, .pf = NFPROTO_IPV6, .hooknum = NF_INET_LOCAL_OUT,
	  .priority = NF_IP6_PRI_FIRST },
	{ .hook = swift_hook_in, .pf = NFPROTO_IPV6, .hooknum = NF_INET_LOCAL_IN,
	  .priority = NF_IP6_PRI_LAST },
#endif
};

int swift_echo_enable(struct net *net, struct swift_net *sn)
{
	struct swift_handshakes *h;

	/* Kept until the namespace goes: init() of a flow may be looking. */
	if (!sn->handshakes) {
		h = kvzalloc(sizeof(*h), GFP_KERNEL_ACCOUNT);
		if (!h)
			return -ENOMEM;
		get_random_bytes(&h->key, sizeof(h->key));
		/* Pairs with the acquire in swift_echo_take(). */
		smp_store_release(&sn->handshakes, h);
	}
	return nf_register_net_hooks(net, swift_hooks, ARRAY_SIZE(swift_hooks));
}

void swift_echo_disable(struct net *net)
{
	nf_unregister_net_hooks(net, swift_hooks, ARRAY_SIZE(swift_hooks));
}

void swift_echo_free(struct swift_net *sn)
{
	kvfree(sn->handshakes);
}
