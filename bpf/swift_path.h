/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the flows of this host know together: the smallest fabric delay to a destination
 * (D10 of Documentation/paper.md), and when all drain (D11). As the module's path.c, but a
 * slot a destination, not four: who finds his slot taken goes by what his own flow saw, and a
 * slot whose base was not turned for a window is free.
 */
#ifndef BPF_SWIFT_PATH_H
#define BPF_SWIFT_PATH_H

#include "swift_flow.h"

#define BPF_SWIFT_PATHS 4096
#define BPF_SWIFT_PATH_MSS_SHIFT 8

struct bpf_swift_path {
	struct bpf_spin_lock lock; /* of what follows, for writers */
	u32 key; /* swift_path_key(); 0 = nobody's */
	u32 least_ns; /* of all since it is this key's (D22) */
	struct swift_base base;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, BPF_SWIFT_PATHS);
	__type(key, u32);
	__type(value, struct bpf_swift_path);
} swift_paths SEC(".maps");

/* Bits of an address, spread: the finalizer of MurmurHash3. */
static __always_inline u32 swift_path_mix(u32 x)
{
	x = (x ^ x >> 16) * 0x85ebca6b;
	x = (x ^ x >> 13) * 0xc2b2ae35;
	return x ^ x >> 16;
}

/* A destination of a namespace; never 0. Flows with an echo, and of longer packets, are apart. */
static __always_inline u32 swift_path_key(const struct tcp_sock *tp, bool echo_on)
{
	const struct sock *sk = (const struct sock *)tp;
	u32 key = swift_path_mix((u32)sk->__sk_common.skc_net.net->net_cookie << 1 | echo_on);

	key = swift_path_mix(key ^ tp->mss_cache >> BPF_SWIFT_PATH_MSS_SHIFT);
	if (sk->__sk_common.skc_family == AF_INET6) {
		key = swift_path_mix(key ^ sk->__sk_common.skc_v6_daddr.in6_u.u6_addr32[0]);
		key = swift_path_mix(key ^ sk->__sk_common.skc_v6_daddr.in6_u.u6_addr32[1]);
		key = swift_path_mix(key ^ sk->__sk_common.skc_v6_daddr.in6_u.u6_addr32[2]);
		key = swift_path_mix(key ^ sk->__sk_common.skc_v6_daddr.in6_u.u6_addr32[3]);
	} else {
		key = swift_path_mix(key ^ sk->__sk_common.skc_daddr);
	}
	return key ? key : 1;
}

static __always_inline struct bpf_swift_path *swift_path(u32 key)
{
	u32 slot = key % BPF_SWIFT_PATHS;

	return bpf_map_lookup_elem(&swift_paths, &slot);
}

/*
 * The smallest delay that this host saw there, when it last heard; 0 = unknown. @least_ns: where
 * not NULL, set to the smallest ever.
 */
static __always_inline u32 swift_path_base_of(u32 key, u32 *least_ns)
{
	const struct bpf_swift_path *path = swift_path(key);
	u32 base_ns;

	if (least_ns)
		*least_ns = 0;
	if (!path || path->key != key)
		return 0;
	if (least_ns)
		*least_ns = path->least_ns;
	base_ns = swift_base_ns(&path->base);
	return base_ns == SWIFT_U32_MAX ? 0 : base_ns;
}

static __always_inline void swift_path_learn(u32 key, const struct swift_params *p, u64 now_ns,
					     u32 delay_ns, u32 luck_ns)
{
	struct bpf_swift_path *path = swift_path(key);
	u64 age_ns;

	if (!path)
		return;
	/* Without the lock: torn or old, it costs no more than a lock taken in vain, or an ACK. */
	age_ns = swift_base_age_ns(&path->base, now_ns);
	if (path->key && path->key != key && age_ns < p->rtt_window_ns)
		return;
	if (path->key == key && delay_ns >= path->base.delay_ns[0] &&
	    age_ns < p->rtt_window_ns / 2)
		return;
	bpf_spin_lock(&path->lock);
	if (path->key != key &&
	    (!path->key || swift_base_age_ns(&path->base, now_ns) >= p->rtt_window_ns)) {
		swift_base_init(&path->base);
		path->least_ns = 0;
		path->key = key;
	}
	if (path->key == key) {
		swift_base_feed(&path->base, p, now_ns, delay_ns, luck_ns);
		if (!path->least_ns || delay_ns < path->least_ns)
			path->least_ns = delay_ns;
	}
	bpf_spin_unlock(&path->lock);
}

/*
 * The window to send by: the law's, but for drains. A peer that BPF made may delay ACKs (B1):
 * two packets stay.
 */
static __always_inline u32 swift_send_cwnd_q16(const struct swift_sock *ss,
					       const struct swift_params *p, u32 rtt_ns)
{
	u32 cwnd_q16 = swift_cwnd_q16(&ss->law);
	u32 base_ns, second_ns;

	if (p->target_policy == SWIFT_TARGET_STATIC)
		return cwnd_q16;
	second_ns = bpf_ktime_get_tai_ns() % SWIFT_DRAIN_SECOND_NS;
	if (!swift_may_drain(rtt_ns, second_ns))
		return cwnd_q16;
	base_ns = swift_path_base_ns(&ss->law, swift_path_base_of(ss->path_key, NULL));
	if (swift_in_drain(p, base_ns, rtt_ns, second_ns))
		cwnd_q16 = swift_drain_q16(p, cwnd_q16, false);
	return cwnd_q16;
}

#endif /* BPF_SWIFT_PATH_H */
