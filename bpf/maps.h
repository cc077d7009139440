/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the BPF programs share with user space, besides the parameters of the laws
 * (kmod/core): the values of their maps. Fixed width, no holes, the same for C, C++ and BPF.
 *
 *   swift_params    ARRAY[1] of struct bpf_swift_profile: of all flows but those below
 *   swift_profiles  LPM_TRIE, struct bpf_swift_prefix -> struct bpf_swift_profile
 *   swift_flows     SK_STORAGE of struct bpf_swift_flow
 *   timely_params   ARRAY[1] of struct timely_params
 *   gcn_params      ARRAY[1] of struct gcn_params
 *
 * A change acts on running flows, with their next ACK. The programs hold back (new flows
 * get the kernel's window, and keep it) until the parameters were written once.
 */
#ifndef BPF_MAPS_H
#define BPF_MAPS_H

#include "core/swift_params.h"
#include "uapi/tcp_swift.h"

#define BPF_SWIFT_MAX_PROFILES 4096

/* Of the destination; IPv4 as ::ffff:a.b.c.d, whose /n is 96 + n here. */
struct bpf_swift_prefix {
	u32 prefix_len; /* 0 .. 128 */
	u8 addr[16];
};

struct bpf_swift_profile {
	struct swift_params law; /* by swift_params_prepare() */
	u32 max_rtt_ns; /* a flow with a longer path runs reno; as the module's tunable */
	u32 pad;
};

struct bpf_swift_flow {
	struct tcp_swift_info info; /* as the module's, in sock_diag */

	u32 t2_ns; /* arrival of the newest data, low half of CLOCK_MONOTONIC */
	u32 remote_ns; /* t4 - t2, as echoed with the ACK in hand */
	u32 local_ns; /* t6 - t5 of the ACK in hand */

	u32 samples; /* ACKs with an RTT */
	u32 samples_stamped; /* of those, with a receive stamp */
	u32 echoes_sent;
	u32 echoes_received;

	u8 rx_hops; /* of the packets that arrive here */
	u8 echo_hops; /* of those that we send, told by the peer */
	u8 echo_misses; /* ACKs in a row without an echo */
	u8 t2_source; /* enum tcp_swift_source */
	u8 local_source;
	u8 remote_source;
	u8 echo_on; /* both ends offered */
	u8 has_t2; /* t2_ns is known, and was not echoed */
	u8 has_local; /* local_ns is of the ACK in hand */
	u8 has_echo; /* remote_ns and echo_hops, too */
	u8 knows_hops; /* echo_hops was ever told */
	u8 pad;
};

SWIFT_STATIC_ASSERT(sizeof(struct bpf_swift_profile) == 96, "read by user space");
SWIFT_STATIC_ASSERT(sizeof(struct bpf_swift_flow) == 60, "read by user space");

#endif /* BPF_MAPS_H */
