/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the telemetry program (swift_telemetry.bpf.c) shares with user space, and with the
 * congestion controls in BPF that it watches. Fixed width, no holes, the same for C, C++
 * and BPF.
 *
 *   flows      LRU_HASH of struct telemetry_flow_key -> struct telemetry_flow
 *   prefixes   PERCPU_HASH of struct telemetry_prefix_key -> struct telemetry_prefix
 *   networks   LPM_TRIE of struct bpf_swift_prefix -> u32: prefixes that were asked for
 *   counters   PERCPU_ARRAY of u64, by enum telemetry_counter
 *   settings   ARRAY[1] of struct telemetry_settings
 *
 * (and what it keeps to itself: nothing, tx_packets, tx_destructor)
 *
 * A histogram is log-linear: values below 4 units have a bucket each, and every power of
 * two above has 4 of equal width. A bucket is at most 25 % wide: its middle is within
 * 12.5 % of all that it counts, or within half a unit.
 *
 * A flow's counts are written under its socket's lock, those of a prefix by one CPU in a
 * program that the kernel does not enter twice there: neither needs atomics. Only a flow's
 * TELEMETRY_TX and TELEMETRY_TX_NIC may, rarely, be written by two CPUs at once.
 */
#ifndef BPF_TELEMETRY_MAPS_H
#define BPF_TELEMETRY_MAPS_H

#include "core/types.h"
#include "uapi/tcp_swift.h"

#define TELEMETRY_MAX_FLOWS 16384
#define TELEMETRY_MAX_PREFIXES 256
#define TELEMETRY_MAX_NETWORKS 1024
#define TELEMETRY_V4_LEN 24
#define TELEMETRY_V6_LEN 64
#define TELEMETRY_MAX_TX_PACKETS 1024 /* with the driver, of those that are timed */

#define TELEMETRY_UNIT_SHIFT 6 /* 64 ns; of windows 64/65536 packets */
#define TELEMETRY_SUB_BITS 2
#define TELEMETRY_BUCKETS 100 /* of all that a u32 can hold */

enum telemetry_value {
	TELEMETRY_FABRIC,
	TELEMETRY_REMOTE, /* this ACK's echo, where it has one */
	TELEMETRY_LOCAL, /* this ACK's receive stamp, where it has one */
	TELEMETRY_ENDPOINT, /* remote + local, filtered, as the law takes it */
	TELEMETRY_RTT,
	TELEMETRY_TARGET, /* of the fabric delay */
	TELEMETRY_WINDOW, /* the smaller one, in 1/65536 packets */
	TELEMETRY_TX, /* from a packet's departure time to its hand-over to the driver */
	TELEMETRY_TX_NIC, /* from there until the driver lets go of it */
	TELEMETRY_VALUES
};

#define TELEMETRY_DECISIONS (TCP_SWIFT_DECREASE_BOTH + 1) /* [0]: the law tells none */

/* IPv4 as ::ffff:a.b.c.d. Ports in the host's byte order. */
struct telemetry_flow_key {
	u64 net; /* tells network namespaces apart; without a meaning of its own */
	u8 local[16];
	u8 remote[16];
	u16 local_port;
	u16 remote_port;
	u32 pad;
};

#define TELEMETRY_OTHER 255 /* prefix_len of what found no place */

struct telemetry_prefix_key {
	u8 addr[16];
	u32 prefix_len; /* 0 .. 128 of the mapped address, or TELEMETRY_OTHER */
	u32 netns; /* inode number; 0 of TELEMETRY_OTHER, which is of all namespaces */
	char cc[16];
};

struct telemetry_flow {
	struct telemetry_prefix_key prefix; /* with the congestion control of the newest sample */
	u64 cookie; /* the socket's, 0 until somebody asked the kernel for it */
	u64 first_ns; /* CLOCK_MONOTONIC */
	u64 last_ns;
	u32 lost_pkts; /* the socket's own count, when last seen */
	u32 losses;
	u32 decisions[TELEMETRY_DECISIONS];
	u32 hops; /* of the newest decision */
	u32 pad;
	u64 sums[TELEMETRY_VALUES]; /* ns, 1/65536 packets */
	u32 buckets[TELEMETRY_VALUES][TELEMETRY_BUCKETS]; /* that is full at 2^32 - 1 */
};

struct telemetry_prefix {
	u64 losses;
	u64 decisions[TELEMETRY_DECISIONS];
	u64 sums[TELEMETRY_VALUES];
	u64 buckets[TELEMETRY_VALUES][TELEMETRY_BUCKETS];
};

enum telemetry_counter {
	TELEMETRY_SAMPLES, /* decisions seen */
	TELEMETRY_FLOWS, /* entries made; those that are gone were evicted */
	TELEMETRY_NO_FLOW, /* samples without one: no memory */
	TELEMETRY_IN_OTHER, /* samples counted under TELEMETRY_OTHER */
	TELEMETRY_NO_PREFIX, /* samples not counted at all by prefix */
	TELEMETRY_COUNTERS
};

struct telemetry_settings {
	u32 v4_len; /* of the prefixes that nobody asked for: bits of the mapped address */
	u32 v6_len;
	u32 tx_one_in; /* packets; 0 = none */
	char object[244]; /* the programs' file, for variants that come later; "": swiftctl's own */
};

/*
 * What a congestion control in BPF tells of a decision, while its map telemetry_on is 1: it
 * calls swift_decided_at() with this, to which the telemetry program is attached.
 */
struct telemetry_event {
	u64 sk;
	u32 has; /* bits of enum telemetry_value */
	u32 pad;
	struct tcp_swift_sample sample;
};

SWIFT_STATIC_ASSERT(sizeof(struct telemetry_flow_key) == 48, "read by user space");
SWIFT_STATIC_ASSERT(sizeof(struct telemetry_prefix_key) == 40, "read by user space");
SWIFT_STATIC_ASSERT(sizeof(struct telemetry_flow) == 3776, "read by user space");
SWIFT_STATIC_ASSERT(sizeof(struct telemetry_prefix) == 7328, "read by user space");
SWIFT_STATIC_ASSERT(sizeof(struct telemetry_settings) == 256, "read by user space");
SWIFT_STATIC_ASSERT(sizeof(struct telemetry_event) == 72, "two programs share it");

#endif /* BPF_TELEMETRY_MAPS_H */
