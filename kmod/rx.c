// SPDX-License-Identifier: GPL-2.0
/*
 * What a received packet tells: when it arrived (t2 of data, t5 of ACKs), how many
 * routers it passed, and what the peer echoed. Runs at the tcp_probe tracepoint,
 * the first statement of tcp_rcv_established(): the socket is locked, the headers
 * are there, TCP has not looked yet. For other sockets that is one compare.
 */
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/tracepoint.h>
#include <net/ipv6.h>
#include <trace/events/tcp.h>

#include "compat/compat.h"
#include "swift_sock.h"

/* A wall clock that was set in between makes nonsense of a difference. */
#define SWIFT_STAMP_AGE_MAX_NS NSEC_PER_SEC

/*
 * When the packet reached this host, CLOCK_REALTIME, and who says so. The one place
 * where receive stamps come from. Forwarding on this very host may leave a delivery
 * time in skb->tstamp, which is no arrival: skb_tstamp() knows.
 */
static u64 swift_rx_stamp_ns(const struct sk_buff *skb, u8 *source)
{
	ktime_t software = skb_tstamp(skb);

	*source = software ? TCP_SWIFT_SOURCE_SOFTWARE : TCP_SWIFT_SOURCE_NONE;
	return ktime_to_ns(software);
}

static u8 swift_rx_hops(const struct sk_buff *skb)
{
	return swift_hops_from_ttl(skb->protocol == htons(ETH_P_IPV6) ?
				   ipv6_hdr(skb)->hop_limit : ip_hdr(skb)->ttl);
}

static void swift_rx_data(struct sock *sk, struct swift_sock *ss, const struct sk_buff *skb,
			  u64 stamp_ns, u8 source)
{
	ss->t2_ns = stamp_ns;
	ss->t2_source = source;

	/*
	 * 3.6: ACKs are not delayed. Besides, a lone segment of a window of one
	 * would wait for the delayed ACK timer, and only a pure ACK has the echo.
	 */
	inet_csk(sk)->icsk_ack.pending |= ICSK_ACK_NOW;

	/*
	 * The same data again and again, timeouts apart, means that our ACKs do not
	 * arrive. If it is the option that somebody on the path drops, go without.
	 */
	if (after(TCP_SKB_CB(skb)->end_seq, tcp_sk(sk)->rcv_nxt)) {
		ss->rx_repeats = 0;
	} else if (ss->echo_on && !ss->echo_stopped &&
		   tcp_jiffies32 - inet_csk(sk)->icsk_ack.lrcvtime >
			   (ss->rx_repeats + 1) * TCP_RTO_MIN && ++ss->rx_repeats >= 4) {
		ss->echo_stopped = 1;
		swift_count(sock_net(sk), echoes_stopped);
	}
}

static void swift_rx_echo(struct sock *sk, struct swift_sock *ss, const struct tcphdr *th)
{
	const u8 *options = (const u8 *)(th + 1);
	struct swift_opt opt;

	switch (swift_opt_parse(options, th->doff * 4 - sizeof(*th), &opt)) {
	case SWIFT_OPT_ECHO:
		if (!ss->echo_on) /* nobody asked for it */
			break;
		swift_count(sock_net(sk), echoes_received);
		ss->has_echo = 1;
		ss->remote_ns = opt.remote_ns;
		WRITE_ONCE(ss->remote_source, opt.hw ? TCP_SWIFT_SOURCE_HARDWARE :
						       TCP_SWIFT_SOURCE_SOFTWARE);
		ss->echo_hops = opt.hops;
		ss->knows_hops = 1;
		if (opt.hops > SWIFT_HOPS_MAX)
			swift_count(sock_net(sk), echoes_clamped);
		break;
	case SWIFT_OPT_OFFER: /* has no business outside a handshake */
	case SWIFT_OPT_MALFORMED:
		swift_count(sock_net(sk), echoes_malformed);
		break;
	case SWIFT_OPT_NONE:
		break;
	}
}

static void swift_rx(struct sock *sk, const struct sk_buff *skb)
{
	const struct tcphdr *th = tcp_hdr(skb);
	unsigned int header = th->doff * 4;
	u64 now_ns, stamp_ns;
	struct swift_sock *ss;
	u8 source;

	ss = swift_sk(sk);
	if (!ss->live)
		return;

	now_ns = ktime_get_real_ns();
	stamp_ns = swift_rx_stamp_ns(skb, &source);
	if (stamp_ns > now_ns || now_ns - stamp_ns > SWIFT_STAMP_AGE_MAX_NS) {
		stamp_ns = 0;
		source = TCP_SWIFT_SOURCE_NONE;
	}

	ss->rx_hops = swift_rx_hops(skb);
	ss->has_echo = 0;
	ss->has_local = source != TCP_SWIFT_SOURCE_NONE;
	ss->local_ns = ss->has_local ? now_ns - stamp_ns : 0;
	WRITE_ONCE(ss->local_source, source);

	if (skb->len > header)
		swift_rx_data(sk, ss, skb, stamp_ns, source);
	else if (header > sizeof(*th))
		swift_rx_echo(sk, ss, th);
}

static void swift_probe(void *data, struct sock *sk, const struct sk_buff *skb)
{
	if (swift_runs(sk))
		swift_rx(sk, skb);
}

/* The kernel does not export the tracepoint by name: find it by its string. */
static struct tracepoint *swift_tcp_probe;

static void swift_find_tcp_probe(struct tracepoint *tp, void *data)
{
	if (!strcmp(tp->name, "tcp_probe"))
		swift_tcp_probe = tp;
}

/* The packet is const in newer kernels; control-flow integrity compares prototypes. */
static void swift_probe_old(void *data, struct sock *sk, struct sk_buff *skb)
{
	swift_probe(data, sk, skb);
}

#define swift_probe_fn ((void *)SWIFT_TCP_PROBE(swift_probe, swift_probe_old))

int swift_rx_start(void)
{
	for_each_kernel_tracepoint(swift_find_tcp_probe, NULL);
	if (!swift_tcp_probe) {
		pr_err("tcp_swift: this kernel has no tcp_probe tracepoint (CONFIG_TRACEPOINTS)\n");
		return -EOPNOTSUPP;
	}
	return tracepoint_probe_register(swift_tcp_probe, swift_probe_fn, NULL);
}

void swift_rx_stop(void)
{
	tracepoint_probe_unregister(swift_tcp_probe, swift_probe_fn, NULL);
	tracepoint_synchronize_unregister();
}
