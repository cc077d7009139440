/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What a received packet tells: when it arrived (t2 of data, t5 of ACKs) and how many
 * routers it passed. The module's rx.c, at the same tracepoint: the first statement of
 * tcp_rcv_established(), with the socket locked.
 */
#ifndef BPF_SWIFT_RX_H
#define BPF_SWIFT_RX_H

#include "swift_flow.h"

#define SWIFT_STAMP_AGE_MAX_NS 1000000000U /* as core/clock.h */
#define SWIFT_TAI_SECONDS_MAX 64 /* TAI is 37 s ahead of CLOCK_REALTIME, or 0 if nobody set it */

/* A delivery time of a forwarding qdisc on this host is no arrival. */
static __always_inline bool swift_is_arrival(struct sk_buff *skb)
{
	struct sk_buff___6_11 *newer = (struct sk_buff___6_11 *)skb;

	if (bpf_core_field_exists(newer->tstamp_type))
		return !BPF_CORE_READ_BITFIELD(newer, tstamp_type);
	return !BPF_CORE_READ_BITFIELD(skb, mono_delivery_time);
}

/*
 * How long ago the packet was stamped, by the stack (CLOCK_REALTIME) or by swift_stamp()
 * (CLOCK_TAI). BPF cannot read the first of the two, but it is whole seconds behind the
 * second: what remains below the second is the age.
 */
static __always_inline u8 swift_rx_age(struct sk_buff *skb, u32 *age_ns)
{
	u64 stamp_ns = skb->tstamp, since_ns;

	*age_ns = 0;
	if (!stamp_ns || !swift_is_arrival(skb))
		return TCP_SWIFT_SOURCE_NONE;
	since_ns = bpf_ktime_get_tai_ns() - stamp_ns;
	if (since_ns / SWIFT_STAMP_AGE_MAX_NS > SWIFT_TAI_SECONDS_MAX)
		return TCP_SWIFT_SOURCE_NONE;
	*age_ns = since_ns % SWIFT_STAMP_AGE_MAX_NS;
	return TCP_SWIFT_SOURCE_SOFTWARE;
}

static __always_inline u8 swift_rx_hops(const struct sk_buff *skb)
{
	/* ipv6hdr.hop_limit or iphdr.ttl */
	u32 at = skb->protocol == bpf_htons(ETH_P_IPV6) ? 7 : 8;
	u8 ttl = 0;

	bpf_probe_read_kernel(&ttl, sizeof(ttl), skb->head + skb->network_header + at);
	return swift_hops_from_ttl(ttl);
}

SEC("tp_btf/tcp_probe")
int BPF_PROG(swift_rx, struct sock *sk, struct sk_buff *skb)
{
	struct bpf_swift_flow *f = swift_flow(sk);
	u8 doff = 0;
	u32 age_ns;
	u8 source;

	if (!f)
		return 0;
	source = swift_rx_age(skb, &age_ns);
	f->rx_hops = swift_rx_hops(skb);
	f->has_echo = 0;
	f->has_local = source != TCP_SWIFT_SOURCE_NONE;
	f->local_ns = age_ns;
	f->local_source = source;

	bpf_probe_read_kernel(&doff, sizeof(doff), skb->data + 12);
	if (skb->len <= (u32)(doff >> 4) * 4)
		return 0;
	f->t2_ns = (u32)bpf_ktime_get_ns() - age_ns;
	f->t2_source = source;
	f->has_t2 = source != TCP_SWIFT_SOURCE_NONE;
	return 0;
}

/*
 * The stack stamps packets only while somebody asked for it (SO_TIMESTAMP and the like).
 * Where nobody did: here, before the socket's lock and backlog; for Swift's flows alone.
 */
SEC("cgroup_skb/ingress")
int swift_stamp(struct __sk_buff *skb)
{
	struct bpf_sock *sk = skb->sk;

	if (skb->tstamp || !sk)
		return 1;
	sk = bpf_sk_fullsock(sk);
	if (sk && bpf_sk_storage_get(&swift_flows, sk, 0, 0))
		skb->tstamp = bpf_ktime_get_tai_ns();
	return 1;
}

#endif /* BPF_SWIFT_RX_H */
