/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The kernel's types as the BPF programs see them: of each structure the fields that
 * are used, found by name in the running kernel's BTF when a program is loaded (CO-RE).
 * A few of the kernel's inline functions, too. No vmlinux.h: this builds anywhere.
 */
#ifndef BPF_KERNEL_H
#define BPF_KERNEL_H

#include <linux/bpf.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "core/types.h"

#define AF_INET6 10
#define ETH_P_IPV6 0x86dd
#define IPPROTO_TCP 6
#define SKB_CLOCK_MONOTONIC 1
#define NSEC_PER_USEC 1000U
#define USEC_PER_SEC 1000000U

#define SOL_IP 0
#define IP_TOS 1
#define SOL_IPV6 41
#define IPV6_TCLASS 67
#define INET_ECN_MASK 3
#define SOL_TCP 6
#define TCP_CONGESTION 13
#define TCP_SAVE_SYN 27

#define TCP_SYN_SENT 2
#define TCP_CA_CWR 2
#define TCP_CA_RECOVERY 3
#define TCP_CA_LOSS 4
#define TCP_INIT_CWND 10
#define TCP_INFINITE_SSTHRESH 0x7fffffff
#define TCP_CONG_NON_RESTRICTED 1
#define TCP_CONG_NEEDS_ECN 2
#define TCPCB_EVER_RETRANS 0x80
#define SKBTX_HW_TSTAMP_NETDEV 0x20
#define ICSK_ACK_TIMER 2
#define ICSK_ACK_NOW 0x10
#define TCP_ECN_DEMAND_CWR 4
#define SK_PACING_NONE 0
#define SK_PACING_NEEDED 1
#define RTAX_INITCWND 11
#define QUEUE_STATE_ANY_XOFF 3 /* stopped by the driver, or by BQL */
#define QDISC_STATE_SCHED 1

enum tcp_ca_event {
	CA_EVENT_TX_START,
	CA_EVENT_CWND_RESTART,
	CA_EVENT_COMPLETE_CWR,
	CA_EVENT_LOSS,
	CA_EVENT_ECN_NO_CE,
	CA_EVENT_ECN_IS_CE,
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct netns_ipv4 {
	u8 sysctl_tcp_min_tso_segs;
	u8 sysctl_tcp_slow_start_after_idle;
};

struct ns_common {
	unsigned int inum;
};

struct net {
	u64 net_cookie;
	struct ns_common ns;
	struct netns_ipv4 ipv4;
};

typedef struct {
	struct net *net;
} possible_net_t;

struct in6_addr {
	union {
		u32 u6_addr32[4];
	} in6_u;
};

typedef struct {
	s64 counter;
} atomic64_t;

struct sock_common {
	u32 skc_daddr;
	u32 skc_rcv_saddr;
	u16 skc_dport; /* network order */
	u16 skc_num; /* host order */
	u16 skc_tx_queue_mapping;
	unsigned short skc_family;
	volatile unsigned char skc_state;
	possible_net_t skc_net;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
	atomic64_t skc_cookie;
};

struct sock;

struct sk_buff {
	struct sk_buff *next;
	struct sock *sk;
	u64 tstamp;
	u64 skb_mstamp_ns; /* the same, of a packet of TCP's that was sent */
	void (*destructor)(struct sk_buff *skb);
	char cb[48];
	unsigned int len;
	int skb_iif;
	unsigned int napi_id;
	u16 protocol;
	u16 network_header;
	unsigned int end; /* NET_SKBUFF_DATA_USES_OFFSET: wherever there are 64 bits */
	unsigned char *head;
	unsigned char *data;
	u8 mono_delivery_time : 1; /* to 6.10 */
};

struct sk_buff___6_11 {
	u8 tstamp_type : 2;
};

struct tcp_skb_cb {
	u32 end_seq;
	u32 ack_seq;
	u8 sacked;
};

struct iphdr {
	u8 ttl;
};

struct ipv6hdr {
	u8 hop_limit;
};

struct tcphdr {
	u16 doff : 4;
};

struct skb_shared_hwtstamps {
	u64 hwtstamp;
};

struct skb_shared_info {
	u8 tx_flags;
	struct skb_shared_hwtstamps hwtstamps;
};

struct sk_buff_head {
	struct sk_buff *next;
};

struct rb_node {
	struct rb_node *rb_left;
};

struct rb_root {
	struct rb_node *rb_node;
};

struct Qdisc {
	struct {
		u32 qlen;
	} q;
	unsigned long state;
};

struct netdev_queue {
	struct Qdisc *qdisc;
	unsigned long state;
};

struct net_device {
	struct netdev_queue *_tx;
	u32 real_num_tx_queues;
};

struct dst_entry {
	struct net_device *dev;
	unsigned long _metrics;
};

struct sock {
	struct sock_common __sk_common;
	struct sk_buff_head sk_write_queue;
	struct rb_root tcp_rtx_queue;
	struct dst_entry *sk_dst_cache;
	unsigned long sk_pacing_rate;
	unsigned long sk_max_pacing_rate;
	u16 sk_protocol;
	u32 sk_pacing_status;
};

struct inet_sock {
	struct sock sk;
};

struct inet_connection_sock {
	struct inet_sock icsk_inet;
	u32 icsk_rto;
	u8 icsk_ca_state : 5;
	u8 icsk_ca_initialized : 1;
	u8 icsk_retransmits;
	struct {
		u8 pending;
		u32 lrcvtime;
	} icsk_ack;
	u64 icsk_ca_priv[104 / 8];
};

struct minmax_sample {
	u32 t;
	u32 v;
};

struct minmax {
	struct minmax_sample s[3];
};

struct tcp_rack {
	u32 rtt_us;
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	u64 tcp_wstamp_ns;
	u64 tcp_clock_cache;
	u64 tcp_mstamp;
	u64 first_tx_mstamp;
	u32 rcv_nxt;
	u32 rcv_wnd;
	u32 snd_nxt;
	u32 snd_una;
	u32 lsndtime;
	u32 snd_ssthresh;
	u32 snd_cwnd;
	u32 snd_cwnd_clamp;
	u32 mss_cache;
	u32 srtt_us;
	u32 packets_out;
	u32 sacked_out;
	u32 lost_out;
	u32 retrans_out;
	u32 lost;
	u32 delivered;
	u32 delivered_ce;
	u32 undo_marker;
	u32 max_packets_out;
	u32 data_segs_out;
	u8 ecn_flags;
	u8 is_cwnd_limited : 1;
	u8 syn_data : 1;
	struct minmax rtt_min;
	struct tcp_rack rack;
	void *md5sig_info;
	void *ao_info;
};

struct rate_sample {
	u64 prior_mstamp;
	s32 delivered;
	long interval_us;
	int losses;
	u32 acked_sacked;
	u32 prior_in_flight;
	bool is_app_limited;
	bool is_retrans;
	bool is_ack_delayed;
};

struct tcp_congestion_ops {
	u32 (*ssthresh)(struct sock *sk);
	void (*set_state)(struct sock *sk, u8 new_state);
	void (*cwnd_event)(struct sock *sk, enum tcp_ca_event ev);
	void (*in_ack_event)(struct sock *sk, u32 flags);
	void (*cong_control)(struct sock *sk, u32 ack, int flag, const struct rate_sample *rs);
	u32 (*min_tso_segs)(struct sock *sk);
	u32 (*undo_cwnd)(struct sock *sk);
	void (*init)(struct sock *sk);
	void (*release)(struct sock *sk);
	char name[16];
	u32 flags;
};

#pragma clang attribute pop

/*
 * cong_control() has had four arguments, not two, since 6.10. The loader tells what the
 * kernel's BTF says of it, for kernels with backports; 0 = as in the kernel of that version.
 */
const volatile u8 cong_control_args = 0;
extern int LINUX_KERNEL_VERSION __kconfig;

/*
 * The verifier does not look at the branch that is not taken, and wants an argument read
 * at a constant place, which the compiler would not leave alone.
 */
static __always_inline const struct rate_sample *cong_control_sample(unsigned long long *ctx)
{
	const struct rate_sample *rs;

	if (cong_control_args ? cong_control_args == 4 :
				LINUX_KERNEL_VERSION >= (6 << 16 | 10 << 8))
		asm volatile("%0 = *(u64 *)(%1 + 24)" : "=r"(rs) : "r"(ctx));
	else
		asm volatile("%0 = *(u64 *)(%1 + 8)" : "=r"(rs) : "r"(ctx));
	return rs;
}

/*
 * What the kernel's types do not lead to, read as of a type: by loads where there is a cast (since
 * 6.2; 6.4 has the type that tells), and else by calls of a helper, which cost many times as much.
 */
void *bpf_rdonly_cast(const void *obj, u32 btf_id) __ksym __weak;

struct bpf_iter_num___6_4 {
	u64 opaque;
};

#define KERNEL_HAS_CASTS bpf_core_type_exists(struct bpf_iter_num___6_4)
#define KERNEL_CAST(type, at) \
	((const type *)bpf_rdonly_cast((const void *)(at), bpf_core_type_id_kernel(type)))
#define KERNEL_READ(type, at, field)                                \
	(KERNEL_HAS_CASTS ? KERNEL_CAST(type, at)->field :          \
			    BPF_CORE_READ((const type *)(at), field))

static __always_inline struct tcp_sock *tcp_sk(const struct sock *sk)
{
	return (struct tcp_sock *)sk;
}

static __always_inline struct inet_connection_sock *inet_csk(const struct sock *sk)
{
	return (struct inet_connection_sock *)sk;
}

static __always_inline u32 tcp_packets_in_flight(const struct tcp_sock *tp)
{
	return tp->packets_out - (tp->sacked_out + tp->lost_out) + tp->retrans_out;
}

static __always_inline u32 tcp_stamp_us_delta(u64 t1, u64 t0)
{
	return (s64)(t1 - t0) > 0 ? (u32)(t1 - t0) : 0;
}

static __always_inline u32 tcp_min_rtt(const struct tcp_sock *tp)
{
	return tp->rtt_min.s[0].v;
}

static __always_inline u32 tcp_srtt_us(const struct tcp_sock *tp)
{
	return tp->srtt_us >> 3;
}

static __always_inline u32 tcp_srtt_ns(const struct tcp_sock *tp)
{
	return swift_saturate_u32((u64)tcp_srtt_us(tp) * NSEC_PER_USEC);
}

static __always_inline void tcp_snd_cwnd_set(struct tcp_sock *tp, u32 pkts)
{
	tp->snd_cwnd = swift_max_u32(swift_min_u32(pkts, tp->snd_cwnd_clamp), 1);
}

static __always_inline bool tcp_is_cwnd_limited(struct tcp_sock *tp)
{
	return BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited);
}

/* The first packet that waits to be sent, or null. */
static __always_inline struct sk_buff *tcp_send_head(const struct sock *sk)
{
	struct sk_buff *head = sk->sk_write_queue.next;

	return (void *)head == (void *)&sk->sk_write_queue ? 0 : head;
}

/* Of a tree that nobody could make deeper: 2^16 packets. */
#define TCP_RTX_QUEUE_DEPTH 32

/* The oldest packet that is not acknowledged, or null. To be read by BPF_CORE_READ() alone. */
static __always_inline const struct sk_buff *tcp_rtx_queue_head(const struct sock *sk)
{
	const struct rb_node *node = 0, *left = BPF_CORE_READ(sk, tcp_rtx_queue.rb_node);
	u32 depth;

	for (depth = 0; left && depth < TCP_RTX_QUEUE_DEPTH; depth++) {
		node = left;
		left = BPF_CORE_READ(node, rb_left);
	}
	return (const struct sk_buff *)node; /* whose first member it is */
}

static __always_inline const struct tcp_skb_cb *tcp_skb_cb(const struct sk_buff *skb)
{
	return (const void *)skb + bpf_core_field_offset(skb->cb);
}

static __always_inline const void *skb_shinfo(const struct sk_buff *skb)
{
	return skb->head + skb->end;
}

/* Of a packet that TCP receives: what it carries, without its header. */
static __always_inline bool tcp_skb_has_data(const struct sk_buff *skb)
{
	const struct tcphdr *th;
	u32 words;

	if (KERNEL_HAS_CASTS) {
		th = KERNEL_CAST(struct tcphdr, skb->data);
		words = BPF_CORE_READ_BITFIELD(th, doff);
	} else {
		th = (const struct tcphdr *)skb->data;
		words = BPF_CORE_READ_BITFIELD_PROBED(th, doff);
	}
	return skb->len > words * 4;
}

/*
 * QoS class (3.7), as the module's init() sets it: of the socket's packets from here on, ECN
 * bits untouched (the kernel sees to that); where the application chose a class, for IPv6 or
 * IPv4, the socket is its own affair. A socket of IPv6 may also carry IPv4; where it does not,
 * the kernel refuses to say, and to set.
 */
static __always_inline void tcp_set_dscp(struct sock *sk, s32 dscp)
{
	bool v6 = sk->__sk_common.skc_family == AF_INET6;
	int of_v6 = 0, of_v4 = 0, tos = dscp << 2;

	if (dscp <= 0)
		return;
	if (v6)
		bpf_getsockopt(sk, SOL_IPV6, IPV6_TCLASS, &of_v6, sizeof(of_v6));
	bpf_getsockopt(sk, SOL_IP, IP_TOS, &of_v4, sizeof(of_v4));
	if ((of_v6 | of_v4) & ~INET_ECN_MASK)
		return;
	if (v6)
		bpf_setsockopt(sk, SOL_IPV6, IPV6_TCLASS, &tos, sizeof(tos));
	bpf_setsockopt(sk, SOL_IP, IP_TOS, &tos, sizeof(tos));
}

/*
 * The host's: for who has no opinion, and takes TCP's question for the moment before it sends.
 * (CA_EVENT_TX_START comes when the first packet is on its way, and since 7.1 by a callback
 * that older kernels do not have.)
 */
static __always_inline u32 tcp_min_tso_segs(const struct sock *sk)
{
	return sk->__sk_common.skc_net.net->ipv4.sysctl_tcp_min_tso_segs;
}

/* In units of the RTO: how long nothing was sent. 0 = not long, or the host wants no restart. */
static __always_inline u32 tcp_idle_rtos(const struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 idle = (u32)bpf_jiffies64() - tp->lsndtime;
	u32 rto = inet_csk(sk)->icsk_rto;

	if (tp->packets_out || !tp->lsndtime || !rto || idle <= rto ||
	    !sk->__sk_common.skc_net.net->ipv4.sysctl_tcp_slow_start_after_idle)
		return 0;
	return idle / rto;
}

#endif /* BPF_KERNEL_H */
