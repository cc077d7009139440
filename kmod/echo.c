// SPDX-License-Identifier: GPL-2.0
/*
 * Packets on their way out: the echo, and what credit has to say (credit.c, demand.c); and how
 * both are negotiated (layouts in core/option.h and core/sird.h).
 *
 *   client                                         server
 *   LOCAL_OUT: SYN + offers      ------------>     LOCAL_IN: slot = offered
 *   LOCAL_IN: slot = answered    <------------     LOCAL_OUT: SYN-ACK + offers of those offered,
 *   init(): take slot                                slot = answered
 *                                                  init(): take slot
 *   then, either way: LOCAL_OUT: pure ACK of data + echo of (t4 - t2, hops)
 *
 * Sockets are not there yet (or are request sockets, which have no room) when a SYN
 * arrives: what it offered is remembered in a table of fixed size, keyed by the
 * connection, which needs no lock and no allocation and forgets when it must. A flow
 * that was forgotten has no echo, and nothing else.
 *
 * Under SYN cookies the SYN-ACK belongs to no socket: it passes untouched, the slot never
 * becomes answered, and neither end echoes.
 */
#include <linux/ipv6.h>
#include <linux/netfilter_ipv4.h>
#include <linux/netfilter_ipv6.h>
#include <linux/random.h>
#include <net/ip.h>
#include <net/checksum.h>
#include <net/request_sock.h>

#include "swift_credit.h"

/* --- Handshakes under way ------------------------------------------------------------- */

#define SWIFT_SLOTS 4096 /* 32 KB for a namespace whose echo was ever on */
#define SWIFT_SLOT_SECONDS 64 /* Linux gives up on a SYN-ACK after 63 s */

/* Of a slot: what the peer's SYN offered, and what our SYN-ACK, or the peer's, answered. */
#define SWIFT_OFFERS (SWIFT_OFFER_ECHO | SWIFT_OFFER_CREDIT)
#define SWIFT_ANSWERED_SHIFT 2
#define SWIFT_SLOT_STATE_BITS 4
#define SWIFT_SLOT_TIME_BITS 8
#define SWIFT_SLOT_TAG_SHIFT (SWIFT_SLOT_STATE_BITS + SWIFT_SLOT_TIME_BITS)

/* A slot is one word, written whole: 52 bits of the key's hash, 8 of time, 4 of offers. */
struct swift_handshakes {
	siphash_key_t key;
	u64 slots[SWIFT_SLOTS];
};

static u64 swift_slot_now(void)
{
	return (jiffies / HZ) & 0xff;
}

static u64 *swift_slot(struct swift_handshakes *h, const struct swift_tuple *tuple, u64 *tag)
{
	u64 hash = siphash(tuple, sizeof(*tuple), &h->key);

	*tag = hash >> SWIFT_SLOT_TAG_SHIFT;
	return &h->slots[hash % SWIFT_SLOTS];
}

static void swift_slot_set(struct swift_handshakes *h, const struct swift_tuple *tuple,
			   u8 state)
{
	u64 tag, *slot = swift_slot(h, tuple, &tag);

	/* Without an offer: forget this connection's last one, but nobody else's. */
	if (!state && READ_ONCE(*slot) >> SWIFT_SLOT_TAG_SHIFT != tag)
		return;
	WRITE_ONCE(*slot, tag << SWIFT_SLOT_TAG_SHIFT |
			  swift_slot_now() << SWIFT_SLOT_STATE_BITS | state);
}

static u8 swift_slot_get(struct swift_handshakes *h, const struct swift_tuple *tuple)
{
	u64 tag, *slot = swift_slot(h, tuple, &tag);
	u64 v = READ_ONCE(*slot);

	if (v >> SWIFT_SLOT_TAG_SHIFT != tag ||
	    ((swift_slot_now() - (v >> SWIFT_SLOT_STATE_BITS)) & 0xff) > SWIFT_SLOT_SECONDS)
		return 0;
	return v & ((1 << SWIFT_SLOT_STATE_BITS) - 1);
}

void swift_tuple_from_sock(struct swift_tuple *t, const struct sock *sk)
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

/* What did both ends of this new connection offer? Softirq or the connecting process. */
u8 swift_offers_take(const struct sock *sk)
{
	struct swift_handshakes *h;
	struct swift_tuple tuple;
	u8 answered;

	/* Pairs with the release in swift_hooks_enable(): the key is there. */
	h = smp_load_acquire(&swift_net(sock_net(sk))->handshakes);
	if (!h)
		return 0;
	swift_tuple_from_sock(&tuple, sk);
	answered = swift_slot_get(h, &tuple) >> SWIFT_ANSWERED_SHIFT;
	if (answered)
		swift_slot_set(h, &tuple, 0);
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

/* A length of 16 bits that is no more one would have to be told elsewhere, or not at all. */
static bool swift_outgrows(const struct sk_buff *skb, u8 pf, unsigned int len)
{
	unsigned int told = pf == NFPROTO_IPV6 ? skb->len - sizeof(struct ipv6hdr) : skb->len;

	return told <= U16_MAX && told + len > U16_MAX;
}

/*
 * Behind the options that are there: the headers move down into the headroom, which any skb of
 * TCP has, and leave the room behind them. Bytes that a clone shares with the retransmit queue
 * are the data behind, not the headers.
 */
bool swift_insert_option(struct sk_buff *skb, u8 pf, const u8 *option, unsigned int len)
{
	struct tcphdr *th = tcp_hdr(skb);
	unsigned int network = skb_network_header_len(skb);
	unsigned int header = th->doff * 4;

	if (header + len > sizeof(*th) + SWIFT_OPT_SPACE || skb_headroom(skb) < len ||
	    skb->ip_summed != CHECKSUM_PARTIAL || swift_outgrows(skb, pf, len) ||
	    swift_opt_is_signed((u8 *)(th + 1), header - sizeof(*th)))
		return false;

	skb_push(skb, len);
	memmove(skb->data, skb->data + len, network + header);
	memcpy(skb->data + network + header, option, len);
	skb->network_header -= len;
	skb->transport_header -= len;
	skb->csum_start -= len;

	th = tcp_hdr(skb);
	th->doff += len / 4;
	/* The length in the pseudo header: all that is summed here so far. */
	inet_proto_csum_replace4(&th->check, skb, htonl(skb->len - network - len),
				 htonl(skb->len - network), true);
	/* A jumbogram's length is elsewhere. */
	if (pf == NFPROTO_IPV6) {
		if (ipv6_hdr(skb)->payload_len)
			ipv6_hdr(skb)->payload_len = htons(skb->len - sizeof(struct ipv6hdr));
	} else if (ip_hdr(skb)->tot_len) {
		ip_hdr(skb)->tot_len = htons(skb->len);
		ip_send_check(ip_hdr(skb));
	}
	return true;
}

/* What this namespace would offer. */
static u8 swift_offers(const struct swift_net *sn)
{
	return (READ_ONCE(sn->echo) ? SWIFT_OFFER_ECHO : 0) |
	       (READ_ONCE(sn->credit) ? SWIFT_OFFER_CREDIT : 0);
}

/* What the options of a handshake's packet offer. */
static u8 swift_offers_in(const u8 *options, u32 len, bool *malformed)
{
	struct swift_opt echo;
	struct sird_opt demand;
	u8 offers = 0;

	switch (swift_opt_parse(options, len, &echo)) {
	case SWIFT_OPT_OFFER:
		offers |= SWIFT_OFFER_ECHO;
		break;
	case SWIFT_OPT_NONE:
		break;
	default:
		*malformed = true;
		break;
	}
	if (sird_opt_parse(options, len, 0, &demand) == SIRD_OPT_OFFER)
		offers |= SWIFT_OFFER_CREDIT;
	return offers;
}

/* Returns what the packet offers then. */
static u8 swift_append_offers(struct sk_buff *skb, u8 pf, u8 offers)
{
	const struct tcphdr *th = tcp_hdr(skb);
	u8 options[SWIFT_OPT_OFFER_LEN + SIRD_OPT_OFFER_LEN];
	unsigned int len = 0;
	bool malformed;
	u8 there;

	/* A virtual routing device shows a packet to this hook twice. */
	there = swift_offers_in((const u8 *)(th + 1), th->doff * 4 - sizeof(*th), &malformed);
	if (there)
		return there;
	if (offers & SWIFT_OFFER_ECHO) {
		swift_opt_put_offer(options);
		len += SWIFT_OPT_OFFER_LEN;
	}
	if (offers & SWIFT_OFFER_CREDIT) {
		sird_opt_put_offer(options + len);
		len += SIRD_OPT_OFFER_LEN;
	}
	return len && swift_insert_option(skb, pf, options, len) ? offers : 0;
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
	u8 state, offered;

	if (!req->rsk_listener || !swift_will_run(skb, req))
		return;
	swift_tuple_from_request(&tuple, req);
	state = swift_slot_get(h, &tuple);
	offered = (state | state >> SWIFT_ANSWERED_SHIFT) & SWIFT_OFFERS;
	offered &= swift_offers(swift_net(read_pnet(&inet_rsk(req)->ireq_net)));
	offered = swift_append_offers(skb, pf, offered);
	if (offered)
		swift_slot_set(h, &tuple, offered | offered << SWIFT_ANSWERED_SHIFT);
}

static void swift_out_ack(struct sk_buff *skb, u8 pf, struct swift_sock *ss)
{
	const struct swift_net *sn;
	u8 option[SWIFT_OPT_ECHO_LEN];
	struct swift_opt echo;

	if (!ss->echo_on || ss->echo_stopped || !ss->has_t2)
		return;

	echo.remote_ns = (u32)ktime_get_ns() - ss->t2_ns; /* t4 - t2 */
	echo.hops = ss->rx_hops;
	echo.hw = ss->t2_hw;
	ss->has_t2 = 0; /* a later ACK, a window update say, answers no data */

	swift_opt_put_echo(option, &echo);
	sn = swift_net_of_rcu(skb->sk); /* as netfilter calls its hooks */
	if (swift_insert_option(skb, pf, option, sizeof(option)))
		swift_count(sn, echoes_sent);
	else
		swift_count(sn, echoes_no_room);
}

static void swift_out_segment(struct sock *sk, struct sk_buff *skb, u8 pf, bool data)
{
	struct swift_sock *ss = swift_sk(sk);
	struct swift_credit *c;

	if (!ss->live)
		return;
	if (swift_has_credit(sk) && sk->sk_state == TCP_ESTABLISHED) {
		c = swift_credit_of(sk);
		swift_credit_out(sk, c, skb);
		if (data)
			swift_demand_out(sk, c, skb, pf);
	}
	if (!data)
		swift_out_ack(skb, pf, ss);
}

/*
 * Others send through LOCAL_OUT what has left once, and still belongs to its socket, which is
 * not locked behind a queue: ipvlan (L3) in its device's namespace, IPVS. Headers may be a tap's
 * by then.
 */
static bool swift_left_before(const struct sk_buff *skb, const struct nf_hook_state *state)
{
#if IS_ENABLED(CONFIG_IP_VS)
	if (skb->ipvs_property)
		return true;
#endif
	return !net_eq(state->net, sock_net(skb->sk)) ||
	       (skb->dev && !netif_is_l3_master(skb->dev));
}

/*
 * What goes through a VRF passes LOCAL_OUT for that device, under the socket's lock, and once more
 * for the one in it; behind a qdisc of the VRF's in softirq. What needs its own link passes once.
 */
static bool swift_passed_vrf(const struct sk_buff *skb, const struct nf_hook_state *state)
{
	if (likely(!netif_is_l3_slave(state->out)))
		return false;
	return state->pf != NFPROTO_IPV6 ||
	       !(ipv6_addr_type(&ipv6_hdr(skb)->daddr) & IPV6_ADDR_LINKLOCAL);
}

static noinline void swift_out(struct sock *sk, struct sk_buff *skb,
			       const struct nf_hook_state *state)
{
	unsigned int offset = swift_tcp_offset(skb, state->pf);
	const struct tcphdr *th;

	if (!offset || swift_left_before(skb, state) || swift_passed_vrf(skb, state))
		return;
	if (sk->sk_state == TCP_NEW_SYN_RECV) {
		swift_out_synack(skb, state->pf, swift_net(state->net)->handshakes);
		return;
	}

	th = tcp_hdr(skb);
	if (th->syn) { /* with data (Fast Open) it has no room */
		if (skb->len == offset + th->doff * 4 && !th->ack &&
		    !inet_csk(sk)->icsk_retransmits) /* or was it the option? */
			swift_append_offers(skb, state->pf, swift_offers(swift_net(state->net)));
		return;
	}
	if (!th->rst && !th->fin)
		swift_out_segment(sk, skb, state->pf, skb->len > offset + th->doff * 4);
}

/* All sockets of the namespace pass here: those of others without a stack frame. */
static unsigned int swift_hook_out(void *priv, struct sk_buff *skb,
				   const struct nf_hook_state *state)
{
	struct sock *sk = skb->sk;

	/* Request sockets are the only kind whose fields end early. */
	if (sk && (sk->sk_state == TCP_NEW_SYN_RECV ||
		   (sk_fullsock(sk) && sk_is_tcp(sk) && swift_runs(sk))))
		swift_out(sk, skb, state);
	return NF_ACCEPT;
}

/* Handshake packets that arrive: remember whether they offer. */
static noinline void swift_in(struct sk_buff *skb, const struct nf_hook_state *state)
{
	u8 options_buf[SWIFT_OPT_SPACE];
	struct tcphdr th_buf, *th;
	struct swift_tuple tuple;
	unsigned int offset, len;
	bool malformed = false;
	const u8 *options;
	u8 heard;

	offset = swift_tcp_offset(skb, state->pf);
	if (!offset)
		return;
	th = skb_header_pointer(skb, offset, sizeof(th_buf), &th_buf);
	if (!th || !th->syn || th->doff * 4 < sizeof(*th))
		return;

	len = th->doff * 4 - sizeof(*th);
	options = skb_header_pointer(skb, offset + sizeof(*th), len, options_buf);
	if (!options)
		return;
	heard = swift_offers_in(options, len, &malformed);
	if (malformed)
		swift_count(swift_net(state->net), echoes_malformed);
	if (th->ack) /* of more than we offered nobody has asked */
		heard = (heard & swift_offers(swift_net(state->net))) << SWIFT_ANSWERED_SHIFT;
	swift_tuple_from_packet(&tuple, skb, th, state->pf);
	swift_slot_set(swift_net(state->net)->handshakes, &tuple, heard);
}

static unsigned int swift_hook_in(void *priv, struct sk_buff *skb,
				  const struct nf_hook_state *state)
{
	const struct sock *sk = skb->sk; /* if early demux has found it */

	if (!sk || READ_ONCE(sk->sk_state) != TCP_ESTABLISHED)
		swift_in(skb, state);
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

int swift_hooks_enable(struct net *net, struct swift_net *sn)
{
	struct swift_handshakes *h;

	/* Kept until the namespace goes: init() of a flow may be looking. */
	if (!sn->handshakes) {
		h = kvzalloc(sizeof(*h), GFP_KERNEL_ACCOUNT);
		if (!h)
			return -ENOMEM;
		get_random_bytes(&h->key, sizeof(h->key));
		/* Pairs with the acquire in swift_offers_take(). */
		smp_store_release(&sn->handshakes, h);
	}
	return nf_register_net_hooks(net, swift_hooks, ARRAY_SIZE(swift_hooks));
}

void swift_hooks_disable(struct net *net)
{
	nf_unregister_net_hooks(net, swift_hooks, ARRAY_SIZE(swift_hooks));
}

void swift_offers_free(struct swift_net *sn)
{
	kvfree(sn->handshakes);
}
