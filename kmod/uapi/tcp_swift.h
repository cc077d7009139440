/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * What tcp_swift shows to user space, and takes from it: the sock_diag record, the
 * sample record, the generic netlink family of the NIC clocks. Fixed width, no holes,
 * the same for C, C++ and BPF. (The TCP option's layout, which two hosts share, is in
 * core/option.h.)
 */
#ifndef _UAPI_TCP_SWIFT_H
#define _UAPI_TCP_SWIFT_H

#ifndef __VMLINUX_H__
#include <linux/types.h>
#endif

/*
 * sock_diag attribute of struct tcp_swift_info, present when the request asks for
 * INET_DIAG_VEGASINFO, as for every congestion control's own record.
 */
#define TCP_SWIFT_DIAG_ATTR 253

/* Where a delay came from. */
enum tcp_swift_source {
	TCP_SWIFT_SOURCE_NONE, /* no stamp, or no echo: this part counts as fabric */
	TCP_SWIFT_SOURCE_SOFTWARE, /* stamped by the stack's receive path */
	TCP_SWIFT_SOURCE_HARDWARE, /* stamped by the NIC */
};

#define TCP_SWIFT_SOURCE_MASK 3U

/*
 * A flow's newest state. Delays are ns (0 .. 4.29e9), windows packets in 1/65536.
 * The two lowest bits of two delays, far below what they resolve, tell their source.
 */
struct tcp_swift_info {
	__u32 fabric_ns; /* filtered if noisy; bits 1..0: source of the local receive stamp */
	__u32 endpoint_ns; /* filtered; bits 1..0: source of the peer's echo */
	__u32 target_ns; /* of the fabric delay */
	__u32 fcwnd_q16;
	__u32 ecwnd_q16;
};

enum tcp_swift_decision {
	TCP_SWIFT_HOLD = 1,
	TCP_SWIFT_INCREASE,
	TCP_SWIFT_DECREASE_FABRIC,
	TCP_SWIFT_DECREASE_ENDPOINT,
	TCP_SWIFT_DECREASE_BOTH,
};

/* One window decision, with every part of the breakdown. */
struct tcp_swift_sample {
	__u64 now_ns; /* CLOCK_MONOTONIC */
	__u32 rtt_ns; /* t6 - t1 */
	__u32 fabric_ns; /* rtt - remote - local, as it is */
	__u32 remote_ns; /* t4 - t2, echoed by the peer */
	__u32 local_ns; /* t6 - t5 */
	__u32 endpoint_ns; /* remote + local, filtered */
	__u32 fabric_target_ns;
	__u32 endpoint_target_ns;
	__u32 fcwnd_q16;
	__u32 ecwnd_q16;
	__u32 acked_pkts;
	__u8 hops;
	__u8 local_source; /* enum tcp_swift_source */
	__u8 remote_source;
	__u8 decision; /* enum tcp_swift_decision */
	__u32 pad;
};

/*
 * NIC clocks, over generic netlink. A NIC stamps packets in its own clock; user space
 * reads that clock beside the host's and tells the module the line between the two:
 *
 *	host_ns = HOST_NS + (nic_ns - NIC_NS) * RATIO_Q32 / 2^32
 *
 * host_ns is CLOCK_MONOTONIC. Each set is whole, and replaces the one before. While one
 * sender's line is valid, others get EBUSY; a sender whose socket closes leaves its line
 * to expire, and its place at once.
 */
#define TCP_SWIFT_GENL_NAME "tcp_swift"
#define TCP_SWIFT_GENL_VERSION 1

enum tcp_swift_cmd {
	TCP_SWIFT_CMD_UNSPEC,
	TCP_SWIFT_CMD_CLOCK_SET, /* CAP_NET_ADMIN: IFINDEX to VALID_MS, all of them */
	TCP_SWIFT_CMD_CLOCK_DEL, /* CAP_NET_ADMIN: IFINDEX; by the sender that set it */
	TCP_SWIFT_CMD_CLOCK_GET, /* anyone: IFINDEX, or a dump of this namespace's devices */
	__TCP_SWIFT_CMD_MAX
};

enum tcp_swift_attr {
	TCP_SWIFT_A_UNSPEC,
	TCP_SWIFT_A_PAD,
	TCP_SWIFT_A_IFINDEX, /* u32: of the NIC itself, in the sender's namespace */
	TCP_SWIFT_A_NIC_NS, /* u64: the NIC's clock, 0 .. 2^63 - 1 */
	TCP_SWIFT_A_HOST_NS, /* u64: CLOCK_MONOTONIC at that moment; not in the future */
	TCP_SWIFT_A_RATIO_Q32, /* u64: host ns per NIC ns, 2^32 +- 1 % */
	TCP_SWIFT_A_ERROR_NS, /* u32: bound of a conversion's error, 0 .. 1e6 */
	TCP_SWIFT_A_VALID_MS, /* u32: from now, 1 .. 60000; in a reply what is left, 0 = stale */
	/* In replies alone. */
	TCP_SWIFT_A_OWNER, /* u32: netlink port of who set it; 0 = that one is gone */
	TCP_SWIFT_A_USED, /* u64: stamps converted */
	TCP_SWIFT_A_STALE, /* u64: stamps not used: the line was no longer valid */
	TCP_SWIFT_A_FUTURE, /* u64: they would have been in the future */
	TCP_SWIFT_A_OLD, /* u64: they would have been from before what they answer */
	__TCP_SWIFT_A_MAX
};

#ifdef __cplusplus
static_assert(sizeof(struct tcp_swift_info) == 20, "sock_diag record is ABI");
static_assert(sizeof(struct tcp_swift_sample) == 56, "sample record is ABI");
#else
_Static_assert(sizeof(struct tcp_swift_info) == 20, "sock_diag record is ABI");
_Static_assert(sizeof(struct tcp_swift_sample) == 56, "sample record is ABI");
#endif

#endif /* _UAPI_TCP_SWIFT_H */
