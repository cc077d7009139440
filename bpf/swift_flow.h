/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the programs of bpf_swift share: the maps, and how to find a flow's entries.
 *
 *   bpf_swift.bpf.c  congestion control: flow + rate_sample -> core/swift.h -> window, rate
 *   swift_path.h     what the host's flows know together of a path
 *   swift_rx.h       tcp_probe: stamps and hops of a received packet -> struct bpf_swift_flow
 *   swift_echo.h     sock_ops: negotiation, struct bpf_swift_flow -> option on ACKs, and back
 *
 * The law's state is in the socket's congestion control area, which tracing programs
 * cannot write: what they find, and what user space reads, is in socket storage. All of
 * it is touched with the socket locked.
 */
#ifndef BPF_SWIFT_FLOW_H
#define BPF_SWIFT_FLOW_H

#include "kernel.h"
#include "maps.h"
#include "core/option.h"
#include "core/swift.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct bpf_swift_profile);
} swift_params SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, BPF_SWIFT_MAX_PROFILES);
	__type(key, struct bpf_swift_prefix);
	__type(value, struct bpf_swift_profile);
} swift_profiles SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct bpf_swift_flow);
} swift_flows SEC(".maps");

/* In icsk_ca_priv. */
struct swift_sock {
	struct swift_state law;
	u32 path_key; /* the destination, in swift_path.h's table */
	u32 next_round_delivered; /* tp->delivered at which a round trip is over */
	struct swift_dither dither;
	u8 drained; /* sends by less than the law's window (D11) */
	u8 live; /* init ran, release did not */
	u8 guard_due; /* the handshake's RTT was none: look at the first sample */
	u8 timed_out; /* and no RTT was taken since */
	u8 pairs; /* the peer was seen to delay the ACK of a lone packet */
};

SWIFT_STATIC_ASSERT(sizeof(struct swift_sock) <= 104, "icsk_ca_priv is that large");

static __always_inline struct swift_sock *swift_sk(const struct sock *sk)
{
	return (struct swift_sock *)inet_csk(sk)->icsk_ca_priv;
}

/* Null if the host has no memory for it: then it is Swift on the RTT. */
static __always_inline struct bpf_swift_flow *swift_flow(struct sock *sk)
{
	return bpf_sk_storage_get(&swift_flows, sk, 0, 0);
}

#endif /* BPF_SWIFT_FLOW_H */
