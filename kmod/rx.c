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
#include "swift_credit.h"

/*
 * Not older than what the packet answers: an ACK of new data came after the oldest segment
 * that it covers left. Sent twice, that one's time is of the last time, and which of the two
 * was acknowledged is not known; and a time still to come is no departure, but of a pacing
 * that some qdisc does not do.
 */
static u32 swift_rx_max_age_ns(const struct sock *sk, const struct sk_buff *skb, u64 now_ns)
{
	const struct sk_buff *head = tcp_rtx_queue_head(sk);

	if (!head || !after(TCP_SKB_CB(skb)->ack_seq, tcp_sk(sk)->snd_una) ||
	    (TCP_SKB_CB(head)->sacked & TCPCB_EVER_RETRANS) || head->skb_mstamp_ns > now_ns)
		return SWIFT_STAMP_AGE_MAX_NS;
	return min_t(u64, now_ns - head->skb_mstamp_ns, SWIFT_STAMP_AGE_MAX_NS);
}

/*
 * The NIC's stamp, by the line of its clock. Nobody tells us when that clock is stepped;
 * until the next line, or the end of this one, converted stamps are wrong by as much.
 * What they are held against, each with the line's error_ns to spare:
 *
 *   forward   A NIC stamps before the stack does. A stamp gets no later than the stack's
 *             own: steps beyond what the packet waited in between are caught, smaller ones
 *             take that much off a delay, at most down to the software's. Without a stamp
 *             of the stack: no later than now.
 *   backward  ACKs: not before what they answer, so steps of more than an RTT are caught.
 *             Data answers nothing that we know of: not more than a second ago. A smaller
 *             step counts as endpoint delay, here, or echoed, where the sender's law keeps
 *             it below the RTT. Hours, and a clock that was set anew, are caught at once.
 */
static bool swift_rx_hardware(struct sock *sk, const struct sk_buff *skb, u64 now_ns,
			      u32 min_age_ns, u32 *age_ns)
{
	struct net *net = sock_net(sk);
	struct swift_clock_bounds bounds = {
		.min_age_ns = min_age_ns,
		.max_age_ns = max(swift_rx_max_age_ns(sk, skb, now_ns), min_age_ns),
	};
	enum swift_clock_result result;

	rcu_read_lock();
	result = swift_clock_rx(net, skb, now_ns, &bounds, age_ns);
	rcu_read_unlock();

	switch (result) {
	case SWIFT_CLOCK_OK:
		return true;
	case SWIFT_CLOCK_NONE:
		swift_count(swift_net(net), stamps_no_clock);
		break;
	case SWIFT_CLOCK_STALE:
		swift_count(swift_net(net), stamps_stale);
		break;
	case SWIFT_CLOCK_FUTURE:
		swift_count(swift_net(net), stamps_future);
		break;
	case SWIFT_CLOCK_OLD:
		swift_count(swift_net(net), stamps_old);
		break;
	}
	return false;
}

/*
 * How long ago the packet reached this host, and who says so: the one place where receive
 * stamps come from. The software's is CLOCK_REALTIME: a clock that was set in between makes
 * nonsense of it. Forwarding on this very host may leave a delivery time in skb->tstamp,
 * which is no arrival: skb_tstamp() knows.
 */
static u8 swift_rx_age(struct sock *sk, const struct sk_buff *skb, u64 now_ns, u32 *age_ns)
{
	ktime_t software = skb_tstamp(skb);
	u8 source = TCP_SWIFT_SOURCE_NONE;
	s64 age;

	*age_ns = 0;
	if (software) {
		age = ktime_to_ns(ktime_sub(ktime_mono_to_real(ns_to_ktime(now_ns)), software));
		if (age >= 0 && age <= SWIFT_STAMP_AGE_MAX_NS) {
			*age_ns = age;
			source = TCP_SWIFT_SOURCE_SOFTWARE;
		}
	}
	if (skb_shinfo(skb)->hwtstamps.hwtstamp &&
	    swift_rx_hardware(sk, skb, now_ns, *age_ns, age_ns))
		source = TCP_SWIFT_SOURCE_HARDWARE;
	return source;
}

/*
 * t6 - t1 of the newest segment that the packet acknowledges, if it was sent once. TCP's
 * own is in microseconds, cut off at both ends: a large part of what a fabric's queue adds.
 */
static u32 swift_rx_rtt_ns(const struct sock *sk, const struct sk_buff *skb, u64 now_ns,
			   bool *full_sized)
{
	const struct sk_buff *sent, *newest = NULL;
	u32 ack = TCP_SKB_CB(skb)->ack_seq;

	if (!after(ack, tcp_sk(sk)->snd_una) || after(ack, tcp_sk(sk)->snd_nxt))
		return 0;
	for (sent = tcp_rtx_queue_head(sk); sent && before(TCP_SKB_CB(sent)->seq, ack);
	     sent = skb_rb_next(sent))
		newest = sent;
	if (!newest || TCP_SKB_CB(newest)->sacked & (TCPCB_EVER_RETRANS | TCPCB_SACKED_ACKED) ||
	    newest->skb_mstamp_ns >= now_ns)
		return 0;
	*full_sized = newest->len >= tcp_sk(sk)->mss_cache;
	return swift_saturate_u32(now_ns - newest->skb_mstamp_ns);
}

static u8 swift_rx_hops(const struct sk_buff *skb)
{
	return swift_hops_from_ttl(skb->protocol == htons(ETH_P_IPV6) ?
				   ipv6_hdr(skb)->hop_limit : ip_hdr(skb)->ttl);
}

static void swift_rx_data(struct sock *sk, struct swift_sock *ss, const struct sk_buff *skb,
			  u64 t2_ns, u8 source)
{
	ss->t2_ns = t2_ns;
	ss->t2_hw = source == TCP_SWIFT_SOURCE_HARDWARE;
	ss->has_t2 = source != TCP_SWIFT_SOURCE_NONE;

	/*
	 * 3.6: ACKs are not delayed. Besides, a lone segment of a window of one
	 * would wait for the delayed ACK timer, and only a pure ACK has the echo.
	 */
	inet_csk(sk)->icsk_ack.pending |= ICSK_ACK_NOW;
	if (swift_has_credit(sk))
		swift_credit_arrived(sk, skb);

	/*
	 * The same data again and again, timeouts apart, means that our ACKs do not
	 * arrive. If it is the option that somebody on the path drops, go without.
	 */
	if (after(TCP_SKB_CB(skb)->end_seq, tcp_sk(sk)->rcv_nxt)) {
		ss->rx_repeats = 0;
	} else if (!before(TCP_SKB_CB(skb)->end_seq, tcp_sk(sk)->rcv_nxt - tcp_sk(sk)->rcv_wnd) &&
		   ss->echo_on && !ss->echo_stopped &&
		   tcp_jiffies32 - inet_csk(sk)->icsk_ack.lrcvtime >
			   (ss->rx_repeats + 1) * TCP_RTO_MIN && ss->rx_repeats++ == 3) {
		ss->echo_stopped = 1;
		swift_count(swift_net_of(sk), echoes_stopped);
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
		swift_count(swift_net_of(sk), echoes_received);
		ss->has_echo = 1;
		ss->remote_ns = opt.remote_ns;
		WRITE_ONCE(ss->remote_source, opt.hw ? TCP_SWIFT_SOURCE_HARDWARE :
						       TCP_SWIFT_SOURCE_SOFTWARE);
		ss->echo_hops = opt.hops;
		ss->knows_hops = 1;
		if (opt.hops > SWIFT_HOPS_MAX)
			swift_count(swift_net_of(sk), echoes_clamped);
		break;
	case SWIFT_OPT_OFFER: /* has no business outside a handshake */
	case SWIFT_OPT_MALFORMED:
		swift_count(swift_net_of(sk), echoes_malformed);
		break;
	case SWIFT_OPT_NONE:
		break;
	}
}

/* Not inline: other sockets' packets get by without a stack frame. */
static noinline void swift_rx(struct sock *sk, const struct sk_buff *skb)
{
	const struct tcphdr *th = tcp_hdr(skb);
	unsigned int header = th->doff * 4;
	bool full_sized = false;
	struct swift_sock *ss;
	u32 age_ns;
	u64 now_ns;
	u8 source;

	ss = swift_sk(sk);
	if (!ss->live)
		return;

	now_ns = ktime_get_ns();
	source = swift_rx_age(sk, skb, now_ns, &age_ns);

	ss->rx_hops = swift_rx_hops(skb);
	ss->has_echo = 0;
	ss->has_local = source != TCP_SWIFT_SOURCE_NONE;
	ss->local_ns = age_ns;
	ss->rtt_ns = swift_rx_rtt_ns(sk, skb, now_ns, &full_sized);
	ss->full_sized = full_sized;
	WRITE_ONCE(ss->local_source, source);

	if (skb->len > header)
		swift_rx_data(sk, ss, skb, now_ns - age_ns, source);
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
