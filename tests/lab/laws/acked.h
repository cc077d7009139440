/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What an ACK acknowledges, looked at before TCP does: the RTT of its newest segment, to the
 * ns. TCP's own is in us, and a percent of a short RTT is less than one.
 */
#ifndef LAB_ACKED_H
#define LAB_ACKED_H

#include <linux/tracepoint.h>
#include <net/tcp.h>
#include <trace/events/tcp.h>

/* The newest segment that @skb acknowledges to its end, if it was sent once; or NULL. */
static inline const struct sk_buff *acked_newest(const struct sock *sk, const struct sk_buff *skb)
{
	const struct sk_buff *sent, *newest = NULL;
	u32 ack = TCP_SKB_CB(skb)->ack_seq;

	if (!after(ack, tcp_sk(sk)->snd_una) || after(ack, tcp_sk(sk)->snd_nxt))
		return NULL;
	for (sent = tcp_rtx_queue_head(sk); sent && !after(TCP_SKB_CB(sent)->end_seq, ack);
	     sent = skb_rb_next(sent))
		newest = sent;
	if (!newest || TCP_SKB_CB(newest)->sacked & (TCPCB_EVER_RETRANS | TCPCB_SACKED_ACKED))
		return NULL;
	return newest;
}

/* From its departure to now, less @wire_ns; 0 = nothing is left of it. */
static inline u32 acked_rtt_ns(const struct sk_buff *sent, u64 wire_ns)
{
	u64 now_ns = ktime_get_ns();

	if (sent->skb_mstamp_ns + wire_ns >= now_ns)
		return 0;
	return min_t(u64, now_ns - sent->skb_mstamp_ns - wire_ns, U32_MAX);
}

/* --- The tracepoint tcp_probe, which the kernel does not export: found by its name --------- */

static struct tracepoint *acked_tcp_probe;

static void acked_find_tcp_probe(struct tracepoint *tp, void *data)
{
	if (!strcmp(tp->name, "tcp_probe"))
		acked_tcp_probe = tp;
}

static int acked_probe_start(void *probe)
{
	for_each_kernel_tracepoint(acked_find_tcp_probe, NULL);
	if (!acked_tcp_probe) {
		pr_err("this kernel has no tcp_probe tracepoint (CONFIG_TRACEPOINTS)\n");
		return -EOPNOTSUPP;
	}
	return tracepoint_probe_register(acked_tcp_probe, probe, NULL);
}

static void acked_probe_stop(void *probe)
{
	tracepoint_probe_unregister(acked_tcp_probe, probe, NULL);
	tracepoint_synchronize_unregister();
}

#endif /* LAB_ACKED_H */
