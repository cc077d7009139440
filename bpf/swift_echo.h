/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The echo by sock_ops: the TCP option out and in, and its negotiation (layout in
 * core/option.h). On the wire as the module's echo.c; attached to a cgroup, it is for the
 * sockets made there whose congestion control is bpf_swift when they begin to connect or
 * listen: a server that listened before the program came has no echo until it does so anew.
 *
 *   client                                             server
 *   CONNECT: write options from here on                LISTEN: the same; keep SYNs
 *   HDR_OPT_LEN, WRITE: SYN + offer  ------------>
 *                                    <------------     HDR_OPT_LEN, WRITE: SYN-ACK + offer
 *   ACTIVE_ESTABLISHED: echo on                          if the SYN has one
 *                                                      PASSIVE_ESTABLISHED: echo on
 *   then, either way: HDR_OPT_LEN, WRITE: pure ACK of data + echo; PARSE: remote_ns, hops
 *
 * Data carries no option, and the MSS no room for one. Under SYN cookies no SYN is kept
 * and neither end echoes.
 */
#ifndef BPF_SWIFT_ECHO_H
#define BPF_SWIFT_ECHO_H

#include "swift_flow.h"

/*
 * TCP's own timer waits 40 ms, give or take a tick, before it acknowledges a lone packet:
 * such an ACK says nothing about this host's load.
 */
#define SWIFT_ECHO_MAX_NS 30000000U

#define TCPHDR_FIN 0x01
#define TCPHDR_SYN 0x02
#define TCPHDR_RST 0x04
#define TCPHDR_ACK 0x10

#define SWIFT_CB_WRITE BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG
#define SWIFT_CB_PARSE BPF_SOCK_OPS_PARSE_UNKNOWN_HDR_OPT_CB_FLAG

static __always_inline bool swift_echo_runs(struct bpf_sock_ops *ops)
{
	static const char ours[] = "bpf_swift";
	char name[16] = {};
	u32 i;

	if (bpf_getsockopt(ops, SOL_TCP, TCP_CONGESTION, name, sizeof(name)))
		return false;
	for (i = 0; i < sizeof(ours); i++)
		if (name[i] != ours[i])
			return false;
	return true;
}

/* Other programs have flags of their own. */
static __always_inline void swift_echo_callbacks(struct bpf_sock_ops *ops, u32 on, u32 off)
{
	bpf_sock_ops_cb_flags_set(ops, (ops->bpf_sock_ops_cb_flags & ~off) | on);
}

static __always_inline struct bpf_swift_flow *swift_echo_flow(struct bpf_sock_ops *ops, u64 flags)
{
	struct bpf_sock *sk = ops->sk;

	return sk ? bpf_sk_storage_get(&swift_flows, sk, 0, flags) : 0;
}

/* RFC 2385, 5925: a segment that is signed has no room for what is added behind the signature. */
static __always_inline bool swift_echo_signed(struct bpf_sock_ops *ops)
{
	struct bpf_sock *sk = ops->sk;
	struct tcp_sock *tp = sk ? bpf_skc_to_tcp_sock(sk) : 0;

	return tp && ((bpf_core_field_exists(tp->md5sig_info) && tp->md5sig_info) ||
		      (bpf_core_field_exists(tp->ao_info) && tp->ao_info));
}

/* Our option of the packet in hand, or with @flags of the SYN. */
static __always_inline enum swift_opt_kind swift_echo_load(struct bpf_sock_ops *ops, u64 flags,
							   struct swift_opt *opt)
{
	/* The kernel looks for the kind and the ExID. */
	u8 buf[SWIFT_OPT_ECHO_LEN] = { SWIFT_OPT_KIND, 4, SWIFT_OPT_EXID >> 8,
				       SWIFT_OPT_EXID & 0xff };
	long len = bpf_load_hdr_opt(ops, buf, sizeof(buf), flags);

	if (len == SWIFT_OPT_ECHO_LEN) {
		swift_opt_get_echo(buf, opt);
		return SWIFT_OPT_ECHO;
	}
	return len == SWIFT_OPT_OFFER_LEN ? SWIFT_OPT_OFFER : SWIFT_OPT_NONE;
}

/* An ACK of data, and nothing else, whose arrival is known. */
static __always_inline struct bpf_swift_flow *swift_echo_due(struct bpf_sock_ops *ops)
{
	struct bpf_swift_flow *f = swift_echo_flow(ops, 0);

	return f && f->echo_on && f->has_t2 && f->rx_repeats < SWIFT_REPEATS_STOP ? f : 0;
}

/* Is this a packet of a handshake that offers? */
static __always_inline bool swift_echo_offers(struct bpf_sock_ops *ops)
{
	struct swift_opt unused;

	if (ops->skb_tcp_flags & TCPHDR_ACK) /* its socket is none yet: the SYN's word has to do */
		return swift_echo_load(ops, BPF_LOAD_HDR_OPT_TCP_SYN, &unused) == SWIFT_OPT_OFFER;
	/* Not again: or was it the option? Nor of one that has left bpf_swift. */
	return !ops->total_retrans && swift_echo_runs(ops) && !swift_echo_signed(ops);
}

static __always_inline void swift_echo_reserve(struct bpf_sock_ops *ops)
{
	u32 flags = ops->skb_tcp_flags;

	if (ops->args[0] == BPF_WRITE_HDR_TCP_CURRENT_MSS ||
	    ops->args[0] == BPF_WRITE_HDR_TCP_SYNACK_COOKIE)
		return;
	if (flags & TCPHDR_SYN) {
		if (swift_echo_offers(ops))
			bpf_reserve_hdr_opt(ops, SWIFT_OPT_OFFER_LEN, 0);
		return;
	}
	if (ops->skb_len || flags & (TCPHDR_FIN | TCPHDR_RST))
		return;
	if (swift_echo_due(ops))
		bpf_reserve_hdr_opt(ops, SWIFT_OPT_ECHO_LEN, 0);
}

/* With its header in front now. */
static __always_inline bool swift_echo_has_data(struct bpf_sock_ops *ops)
{
	const u8 *th = ops->skb_data;

	return (void *)(th + 13) > ops->skb_data_end || ops->skb_len > (th[12] >> 4) * 4U;
}

/* Called for whatever any program has reserved room for: what is ours is asked again. */
static __always_inline void swift_echo_write(struct bpf_sock_ops *ops)
{
	u8 option[SWIFT_OPT_ECHO_LEN];
	struct bpf_swift_flow *f;
	struct swift_opt echo;

	if (ops->skb_tcp_flags & TCPHDR_SYN) {
		if (!swift_echo_offers(ops))
			return;
		swift_opt_put_offer(option);
		bpf_store_hdr_opt(ops, option, SWIFT_OPT_OFFER_LEN, 0);
		return;
	}
	if (ops->skb_tcp_flags & (TCPHDR_FIN | TCPHDR_RST) || swift_echo_has_data(ops))
		return;
	f = swift_echo_due(ops);
	if (!f)
		return;
	f->has_t2 = 0; /* a later ACK, a window update say, answers no data */
	echo.remote_ns = (u32)bpf_ktime_get_tai_ns() - f->t2_ns; /* t4 - t2 */
	if (echo.remote_ns > SWIFT_ECHO_MAX_NS)
		return; /* the kernel pads the room that it was to have */
	echo.hops = f->rx_hops;
	echo.hw = f->t2_source == TCP_SWIFT_SOURCE_HARDWARE;
	swift_opt_put_echo(option, &echo);
	if (!bpf_store_hdr_opt(ops, option, SWIFT_OPT_ECHO_LEN, 0))
		f->echoes_sent++;
}

static __always_inline void swift_echo_parse(struct bpf_sock_ops *ops)
{
	struct bpf_swift_flow *f = swift_echo_flow(ops, 0);
	struct swift_opt opt;

	if (!f || !f->echo_on || swift_echo_load(ops, 0, &opt) != SWIFT_OPT_ECHO)
		return;
	f->has_echo = 1;
	f->remote_ns = opt.remote_ns;
	f->remote_source = opt.hw ? TCP_SWIFT_SOURCE_HARDWARE : TCP_SWIFT_SOURCE_SOFTWARE;
	f->echo_hops = opt.hops;
	f->knows_hops = 1;
	f->echoes_received++;
}

static __always_inline void swift_echo_established(struct bpf_sock_ops *ops, u64 where)
{
	struct bpf_swift_flow *f;
	struct swift_opt unused;

	/* On others' sockets the callbacks are other programs'. */
	if (!(ops->bpf_sock_ops_cb_flags & SWIFT_CB_WRITE) || !swift_echo_runs(ops))
		return;
	if (swift_echo_load(ops, where, &unused) == SWIFT_OPT_OFFER && !swift_echo_signed(ops)) {
		f = swift_echo_flow(ops, BPF_SK_STORAGE_GET_F_CREATE);
		if (f) {
			f->echo_on = 1;
			swift_echo_callbacks(ops, SWIFT_CB_PARSE, 0);
			return;
		}
	}
	swift_echo_callbacks(ops, 0, SWIFT_CB_WRITE);
}

SEC("sockops")
int swift_echo(struct bpf_sock_ops *ops)
{
	int keep = 0;

	switch (ops->op) {
	case BPF_SOCK_OPS_TCP_LISTEN_CB:
		if (swift_echo_runs(ops)) {
			/* 2 is the application's: with the header of its link. */
			if (bpf_getsockopt(ops, SOL_TCP, TCP_SAVE_SYN, &keep, sizeof(keep)) ||
			    !keep) {
				keep = 1;
				bpf_setsockopt(ops, SOL_TCP, TCP_SAVE_SYN, &keep, sizeof(keep));
			}
			swift_echo_callbacks(ops, SWIFT_CB_WRITE, 0);
		}
		break;
	case BPF_SOCK_OPS_TCP_CONNECT_CB:
		if (swift_echo_runs(ops))
			swift_echo_callbacks(ops, SWIFT_CB_WRITE, 0);
		break;
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
		swift_echo_established(ops, 0);
		break;
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		swift_echo_established(ops, BPF_LOAD_HDR_OPT_TCP_SYN);
		break;
	case BPF_SOCK_OPS_HDR_OPT_LEN_CB:
		swift_echo_reserve(ops);
		break;
	case BPF_SOCK_OPS_WRITE_HDR_OPT_CB:
		swift_echo_write(ops);
		break;
	case BPF_SOCK_OPS_PARSE_HDR_OPT_CB:
		swift_echo_parse(ops);
		break;
	}
	return 1;
}

#endif /* BPF_SWIFT_ECHO_H */
