/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * What tcp_swift shows to user space, and takes from it: the sock_diag record, the
 * sample record, the generic netlink family of NIC clocks and credit. Fixed width, no holes,
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

/* What its receiver's credit does to a flow, at this moment. */
enum tcp_swift_credit {
	TCP_SWIFT_CREDIT_NONE, /* not negotiated, or off: Swift alone */
	TCP_SWIFT_CREDIT_ENOUGH, /* what there is to send may be sent, as far as Swift lets it */
	TCP_SWIFT_CREDIT_WAITS, /* there is more to send than its receiver has lent */
	TCP_SWIFT_CREDIT_CONGESTED, /* the same, and this host's own link was congested (csn) */
};

#define TCP_SWIFT_CREDIT_MASK 3U

/*
 * A flow's newest state. Delays are ns (0 .. 4.29e9), windows packets in 1/65536.
 * The two lowest bits of delays, far below what they resolve, tell the source of two of
 * them, and of the third what credit does.
 */
struct tcp_swift_info {
	__u32 fabric_ns; /* a mean if noisy or w < 4; bits 1..0: source of local receive stamp */
	__u32 endpoint_ns; /* filtered; bits 1..0: source of the peer's echo */
	__u32 target_ns; /* of the fabric delay; bits 1..0: enum tcp_swift_credit */
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
 * Generic netlink: NIC clocks, and credit (below). A NIC stamps packets in its own clock; user
 * space reads that clock beside the host's and tells the module the line between the two:
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
	TCP_SWIFT_CMD_CREDIT_GET, /* anyone, as sock_diag: a dump of what is lent here */
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
	/* Credit, a device in each message: IFINDEX, and what its link lends to all namespaces. */
	TCP_SWIFT_A_LINK_MBPS, /* u32; 0 = not known (any more): nothing is lent */
	TCP_SWIFT_A_LINK_BDP, /* u32: bytes, as are B, UNSCHED and LENT */
	TCP_SWIFT_A_LINK_B, /* u32: lent at most */
	TCP_SWIFT_A_LINK_UNSCHED, /* u32: that a flow may begin with unasked */
	TCP_SWIFT_A_LINK_LENT, /* u32: under way, or may be */
	TCP_SWIFT_A_LINK_RTT_NS, /* u32: of its senders, averaged by bytes */
	TCP_SWIFT_A_LINK_LOOP_NS, /* u32: until credit comes back as data */
	/* Credit, a flow in each message: IFINDEX (0 = none yet), as it stands in a book. */
	TCP_SWIFT_A_LOCAL, /* struct in6_addr, IPv4 mapped, as is REMOTE */
	TCP_SWIFT_A_REMOTE, /* the sender */
	TCP_SWIFT_A_LOCAL_PORT, /* u16 in the host's order, as is REMOTE_PORT */
	TCP_SWIFT_A_REMOTE_PORT,
	TCP_SWIFT_A_COOKIE, /* u64: of the socket, as sock_diag's */
	TCP_SWIFT_A_STANDING, /* u32: enum tcp_swift_standing */
	TCP_SWIFT_A_WANTED, /* u32: bytes that its sender told of, and has no credit for */
	TCP_SWIFT_A_LENT, /* u32: of its credit, what has not come yet as data */
	TCP_SWIFT_A_SENDER_LENT, /* u32: to all flows of the link from that address */
	TCP_SWIFT_A_SENDER_MOST, /* u32: that it is lent at most, the smallest of its buckets */
	TCP_SWIFT_A_SENDER_HOST, /* u32: its bucket by csn, up to a BDP */
	TCP_SWIFT_A_SENDER_NET, /* u32: by the network's marks */
	__TCP_SWIFT_A_MAX
};

/*
 * Credit, as the receiver has it. The dump has first the devices of this namespace whose link
 * has a rate, then its flows that negotiated credit, in no order; nothing of a flow of another
 * namespace. Where the table of flows is resized meanwhile a flow may be there twice, and
 * messages have NLM_F_DUMP_INTR.
 */
enum tcp_swift_standing {
	TCP_SWIFT_STANDING_IDLE, /* its sender has told of nothing more */
	TCP_SWIFT_STANDING_SERVED, /* all that its sender told of is granted */
	/* Its sender told of more, and waits, because */
	TCP_SWIFT_STANDING_LINK, /* the link has lent what it may, or a BDP to this sender */
	TCP_SWIFT_STANDING_SENDER, /* the sender's own link is congested (csn) */
	TCP_SWIFT_STANDING_NETWORK, /* the network marks what comes from it (ECN) */
	TCP_SWIFT_STANDING_LATE, /* what it was lent comes late */
	TCP_SWIFT_STANDING_BUFFER, /* the receive buffer is full: its application does not read */
	TCP_SWIFT_STANDING_SILENT, /* it is not heard of, in spite of what it was lent */
	TCP_SWIFT_STANDING_NO_RATE, /* the rate of the link is not known: nothing is lent */
};

#ifdef __cplusplus
static_assert(sizeof(struct tcp_swift_info) == 20, "sock_diag record is ABI");
static_assert(sizeof(struct tcp_swift_sample) == 56, "sample record is ABI");
#else
_Static_assert(sizeof(struct tcp_swift_info) == 20, "sock_diag record is ABI");
_Static_assert(sizeof(struct tcp_swift_sample) == 56, "sample record is ABI");
#endif

#endif /* _UAPI_TCP_SWIFT_H */
