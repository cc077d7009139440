/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What a received packet tells: when it arrived (t2 of data, t5 of ACKs), by the NIC's stamp
 * if its clock is known and by the stack's otherwise, and how many routers it passed. The
 * module's rx.c, at the same tracepoint: the first statement of tcp_rcv_established(), with
 * the socket locked.
 */
#ifndef BPF_SWIFT_RX_H
#define BPF_SWIFT_RX_H

#include "core/clock.h"
#include "swift_flow.h"

#define SWIFT_REPEATS_STOP 4 /* timeouts of the same data, after which ACKs go without an echo */
#define SWIFT_TAI_SECONDS_MAX 64 /* TAI is 37 s ahead of CLOCK_REALTIME, or 0 if nobody set it */

/* By a device, and by the NAPI ids of a device: those survive VLANs, bonds and bridges. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, BPF_SWIFT_MAX_CLOCKS);
	__type(key, struct bpf_swift_clock_key);
	__type(value, struct bpf_swift_clock);
} swift_clocks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, BPF_SWIFT_MAX_NAPIS);
	__type(key, u32);
	__type(value, struct bpf_swift_clock_key);
} swift_clock_napis SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct bpf_swift_stamps);
} swift_stamps SEC(".maps");

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
static __always_inline u8 swift_rx_software(struct sk_buff *skb, u64 tai_ns, u32 *age_ns)
{
	u64 stamp_ns = skb->tstamp, since_ns;

	*age_ns = 0;
	if (!stamp_ns || !swift_is_arrival(skb))
		return TCP_SWIFT_SOURCE_NONE;
	since_ns = tai_ns - stamp_ns;
	if (since_ns >= (SWIFT_TAI_SECONDS_MAX + 1ULL) * SWIFT_STAMP_AGE_MAX_NS)
		return TCP_SWIFT_SOURCE_NONE;
	*age_ns = since_ns % SWIFT_STAMP_AGE_MAX_NS;
	return TCP_SWIFT_SOURCE_SOFTWARE;
}

/* As swift_rx_max_age_ns() of rx.c. */
static __always_inline u32 swift_rx_max_age_ns(const struct sock *sk, const struct sk_buff *skb,
					       u64 now_ns)
{
	u32 ack_seq = BPF_CORE_READ(tcp_skb_cb(skb), ack_seq);
	const struct sk_buff *head = tcp_rtx_queue_head(sk);
	u64 sent_ns;

	if (!head || (s32)(ack_seq - BPF_CORE_READ(tcp_sk(sk), snd_una)) <= 0 ||
	    (BPF_CORE_READ(tcp_skb_cb(head), sacked) & TCPCB_EVER_RETRANS))
		return SWIFT_STAMP_AGE_MAX_NS;
	sent_ns = BPF_CORE_READ(head, skb_mstamp_ns);
	if (sent_ns > now_ns || now_ns - sent_ns > SWIFT_STAMP_AGE_MAX_NS)
		return SWIFT_STAMP_AGE_MAX_NS;
	return now_ns - sent_ns;
}

/* The line of the clock of the NIC that stamped the packet. As swift_clock_rx() of clock.c. */
static __always_inline bool swift_rx_clock(const struct sock *sk, const struct sk_buff *skb,
					   struct swift_clock_map *line)
{
	struct bpf_swift_clock_key key = {};
	const struct bpf_swift_clock_key *of_napi = 0;
	const struct bpf_swift_clock *clock;
	u64 check;
	u32 napi;

	if (bpf_core_field_exists(skb->napi_id)) {
		napi = skb->napi_id;
		of_napi = bpf_map_lookup_elem(&swift_clock_napis, &napi);
	}
	if (of_napi) {
		key = *of_napi;
	} else {
		key.netns = sk->__sk_common.skc_net.net->net_cookie;
		key.ifindex = skb->skb_iif;
	}
	clock = bpf_map_lookup_elem(&swift_clocks, &key);
	if (!clock)
		return false;
	*line = clock->line;
	check = clock->check;
	asm volatile("" : : "r"(line) : "memory"); /* what is checked is what is used */
	return check == bpf_swift_clock_check(&key, line);
}

/*
 * The NIC's stamp, by the line of its clock, held against what swift_rx_hardware() of rx.c
 * holds it against. With SKBTX_HW_TSTAMP_NETDEV it is not the time, but a pointer for the
 * NIC's driver, which BPF cannot ask.
 */
static __always_inline bool swift_rx_hardware(const struct sock *sk, const struct sk_buff *skb,
					      struct bpf_swift_stamps *count, u32 *age_ns)
{
	u64 stamp_ns = KERNEL_READ(struct skb_shared_info, skb_shinfo(skb), hwtstamps.hwtstamp);
	u64 now_ns;
	struct swift_clock_bounds bounds = { .min_age_ns = *age_ns };
	struct swift_clock_map line;

	if (!stamp_ns)
		return false;
	if ((KERNEL_READ(struct skb_shared_info, skb_shinfo(skb), tx_flags) &
	     SKBTX_HW_TSTAMP_NETDEV) ||
	    !swift_rx_clock(sk, skb, &line)) {
		count->stamps_no_clock++;
		return false;
	}
	now_ns = bpf_ktime_get_ns();
	bounds.max_age_ns = swift_max_u32(swift_rx_max_age_ns(sk, skb, now_ns), *age_ns);
	switch (swift_clock_age(&line, stamp_ns, now_ns, &bounds, age_ns)) {
	case SWIFT_CLOCK_OK:
		return true;
	case SWIFT_CLOCK_STALE:
		count->stamps_stale++;
		break;
	case SWIFT_CLOCK_FUTURE:
		count->stamps_future++;
		break;
	case SWIFT_CLOCK_OLD:
		count->stamps_old++;
		break;
	case SWIFT_CLOCK_NONE:
		break;
	}
	return false;
}

/* How long ago the packet reached this host, and who says so. */
static __always_inline u8 swift_rx_age(const struct sock *sk, struct sk_buff *skb, u64 tai_ns,
				       u32 *age_ns)
{
	struct bpf_swift_stamps *count;
	u32 first = 0;
	u8 source = swift_rx_software(skb, tai_ns, age_ns);

	count = bpf_map_lookup_elem(&swift_stamps, &first);
	if (!count) /* there always is one */
		return source;
	if (swift_rx_hardware(sk, skb, count, age_ns)) {
		count->stamps_hardware++;
		return TCP_SWIFT_SOURCE_HARDWARE;
	}
	if (source == TCP_SWIFT_SOURCE_SOFTWARE)
		count->stamps_software++;
	else
		count->stamps_none++;
	return source;
}

static __always_inline u8 swift_rx_hops(const struct sk_buff *skb)
{
	const void *ip = skb->head + skb->network_header;

	return swift_hops_from_ttl(skb->protocol == bpf_htons(ETH_P_IPV6) ?
				   KERNEL_READ(struct ipv6hdr, ip, hop_limit) :
				   KERNEL_READ(struct iphdr, ip, ttl));
}

/*
 * The same data again and again, timeouts apart, means that our ACKs do not arrive. If it is
 * the option that somebody on the path drops, go without. As in swift_rx_data() of rx.c, by this
 * end's RTO.
 */
static __always_inline void swift_rx_repeats(struct sock *sk, const struct sk_buff *skb,
					     struct bpf_swift_flow *f)
{
	u32 end_seq = BPF_CORE_READ(tcp_skb_cb(skb), end_seq);
	u32 rcv_nxt = BPF_CORE_READ(tcp_sk(sk), rcv_nxt);

	if (!f->echo_on || f->rx_repeats >= SWIFT_REPEATS_STOP)
		return;
	if ((s32)(end_seq - rcv_nxt) > 0)
		f->rx_repeats = 0;
	else if ((s32)(end_seq - (rcv_nxt - BPF_CORE_READ(tcp_sk(sk), rcv_wnd))) >= 0 &&
		 (u32)bpf_jiffies64() - BPF_CORE_READ(inet_csk(sk), icsk_ack.lrcvtime) >
			 (f->rx_repeats + 1) * BPF_CORE_READ(inet_csk(sk), icsk_rto))
		f->rx_repeats++;
}

SEC("tp_btf/tcp_probe")
int BPF_PROG(swift_rx, struct sock *sk, struct sk_buff *skb)
{
	struct bpf_swift_flow *f = swift_flow(sk);
	u64 tai_ns;
	u32 age_ns;
	u8 source;

	if (!f)
		return 0;
	tai_ns = bpf_ktime_get_tai_ns();
	source = swift_rx_age(sk, skb, tai_ns, &age_ns);
	f->rx_hops = swift_rx_hops(skb);
	f->has_echo = 0;
	f->has_local = source != TCP_SWIFT_SOURCE_NONE;
	f->local_ns = age_ns;
	f->local_source = source;

	if (!tcp_skb_has_data(skb))
		return 0;
	f->t2_ns = (u32)tai_ns - age_ns;
	f->t2_source = source;
	f->has_t2 = source != TCP_SWIFT_SOURCE_NONE;
	swift_rx_repeats(sk, skb, f);
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

	if (!skb->tstamp && sk && bpf_sk_storage_get(&swift_flows, sk, 0, 0))
		skb->tstamp = bpf_ktime_get_tai_ns();
	return 1;
}

#endif /* BPF_SWIFT_RX_H */
