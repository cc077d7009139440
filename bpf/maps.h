/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the BPF programs share with user space, besides the parameters of the laws
 * (kmod/core): the values of their maps. Fixed width, no holes, the same for C, C++ and BPF.
 *
 *   swift_params    ARRAY[1] of struct bpf_swift_profile: of all flows but those below
 *   swift_profiles  LPM_TRIE, struct bpf_swift_prefix -> struct bpf_swift_profile
 *   swift_flows     SK_STORAGE of struct bpf_swift_flow
 *   swift_paths     ARRAY of the programs' own (swift_path.h)
 *   swift_clocks    HASH, struct bpf_swift_clock_key -> struct bpf_swift_clock
 *   swift_clock_napis  HASH, u32 (a NAPI's id) -> struct bpf_swift_clock_key
 *   swift_stamps    PERCPU_ARRAY[1] of struct bpf_swift_stamps
 *   timely_params   ARRAY[1] of struct bpf_timely_profile
 *   gcn_params      ARRAY[1] of struct bpf_gcn_profile
 *
 * A change acts on running flows, with their next ACK; but dscp on new ones alone. The programs
 * hold back (new flows get the kernel's window, and keep it) until the parameters were written
 * once.
 */
#ifndef BPF_MAPS_H
#define BPF_MAPS_H

#include "core/clock.h"
#include "core/gcn.h"
#include "core/swift_params.h"
#include "core/timely.h"
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
	s32 dscp; /* -1 = leave; as the module's tunable */
};

struct bpf_timely_profile {
	struct timely_params law;
	s32 dscp;
	u32 pad;
};

struct bpf_gcn_profile {
	struct gcn_params law;
	s32 dscp;
};

struct bpf_swift_flow {
	struct tcp_swift_info info; /* as the module's, in sock_diag */

	u32 t2_ns; /* arrival of the newest data, low half of CLOCK_TAI */
	u32 remote_ns; /* t4 - t2, as echoed with the ACK in hand */
	u32 local_ns; /* t6 - t5 of the ACK in hand */

	u32 samples; /* ACKs with an RTT */
	u32 samples_stamped; /* of those, with a receive stamp */
	u32 echoes_sent;
	u32 echoes_received;
	u32 echoes_refused; /* claimed far more delay than the RTT: none of it counts */

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
	u8 rx_repeats; /* of the same data, timeouts apart; SWIFT_REPEATS_STOP = no echo any more */
};

/* --- NIC clocks, as the module's clock table -------------------------------------------- */

#define BPF_SWIFT_MAX_CLOCKS 256
#define BPF_SWIFT_MAX_NAPIS 4096

struct bpf_swift_clock_key {
	u64 netns; /* cookie of the device's namespace */
	u32 ifindex;
	u32 pad;
};

struct bpf_swift_clock {
	struct swift_clock_map line; /* by swift_clock_prepare() */
	u64 check; /* bpf_swift_clock_check() */
};

/*
 * The kernel may give the memory of a value that was replaced to the next one that is
 * written, while a program still looks at it: it may read half a line, or another device's.
 */
static inline u64 bpf_swift_clock_check(const struct bpf_swift_clock_key *key,
					const struct swift_clock_map *line)
{
	return ~(key->netns ^ (u64)key->ifindex << 32 ^ line->nic_ns ^ line->host_ns ^
		 line->ratio_q32 ^ line->valid_until_ns ^ line->error_ns);
}

/*
 * Packets of Swift's flows, by what became of their receive stamp. The module counts the
 * refused ones under the same names.
 */
#define BPF_SWIFT_STAMPS(X)                                                     \
	X(stamps_hardware) /* used, by a line */                                \
	X(stamps_software) /* the stack's, or swift_stamp()'s */                \
	X(stamps_none) /* neither */                                            \
	X(stamps_no_clock) /* a NIC's, but no line for it: software's instead */ \
	X(stamps_stale) /* the line is no longer valid */                       \
	X(stamps_future) /* by the line, taken later than it can have been */   \
	X(stamps_old) /* by the line, earlier */

struct bpf_swift_stamps {
#define SWIFT_X(name) u64 name;
	BPF_SWIFT_STAMPS(SWIFT_X)
#undef SWIFT_X
};

SWIFT_STATIC_ASSERT(sizeof(struct bpf_swift_profile) == 96, "read by user space");
SWIFT_STATIC_ASSERT(sizeof(struct bpf_timely_profile) == 96, "read by user space");
SWIFT_STATIC_ASSERT(sizeof(struct bpf_gcn_profile) == 16, "read by user space");
SWIFT_STATIC_ASSERT(sizeof(struct bpf_swift_clock_key) == 16, "read by user space");
SWIFT_STATIC_ASSERT(sizeof(struct bpf_swift_clock) == 48, "read by user space");
SWIFT_STATIC_ASSERT(sizeof(struct bpf_swift_flow) == 64, "read by user space");

#endif /* BPF_MAPS_H */
