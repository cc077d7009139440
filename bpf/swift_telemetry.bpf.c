// SPDX-License-Identifier: GPL-2.0
/*
 * Telemetry: what Swift's flows decide and from what, as histograms by flow and by
 * destination prefix (telemetry_maps.h). It reads and counts; it steers nothing.
 *
 *   telemetry_module   the module's tracepoint tcp_swift:swift_sample. Raw: the module need
 *                      have no BTF
 *   telemetry_variant  swift_decided_at() of a congestion control in BPF; loaded once for each
 *   telemetry_tx       net_dev_start_xmit, for one packet in so many of the host's; only
 *                      flows that have decided something are looked up. Not by default
 *   telemetry_tx_nic   tcp_wfree(), by which TCP learns that a driver has let go of a packet:
 *                      of the packets that telemetry_tx has picked
 */
#include "kernel.h"
#include "maps.h"
#include "telemetry_maps.h"

char _license[] SEC("license") = "GPL";

/* By the loader. */
const volatile u64 cc_name[2] = {}; /* whose decisions this instance sees */
const volatile u32 tx_threshold = 0; /* a random u32 above it: not this packet */

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, TELEMETRY_MAX_FLOWS);
	__type(key, struct telemetry_flow_key);
	__type(value, struct telemetry_flow);
} flows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, TELEMETRY_MAX_PREFIXES);
	__type(key, struct telemetry_prefix_key);
	__type(value, struct telemetry_prefix);
} prefixes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, TELEMETRY_MAX_NETWORKS);
	__type(key, struct bpf_swift_prefix);
	__type(value, u32);
} networks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, TELEMETRY_COUNTERS);
	__type(key, u32);
	__type(value, u64);
} counters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct telemetry_settings);
} settings SEC(".maps");

/* What a new entry begins as; never written. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct telemetry_prefix);
} nothing SEC(".maps");

SWIFT_STATIC_ASSERT(sizeof(struct telemetry_flow) <= sizeof(struct telemetry_prefix),
		    "nothing is for both");

/*
 * A packet that was picked and is with the driver: at the place that its address tells. The
 * kernel uses addresses again, so that its departure time, too, has to be the same.
 */
struct telemetry_tx_packet {
	u64 skb; /* 0: free; TX_PACKET_BUSY: somebody writes or takes it */
	u64 departs_ns;
	u64 handed_ns;
	struct telemetry_flow_key flow; /* a socket that closes loses its port */
};

#define TX_PACKET_BUSY 1
#define TX_PACKET_FORGET_NS (1LL << 32) /* a histogram ends there */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TELEMETRY_MAX_TX_PACKETS);
	__type(key, u32);
	__type(value, struct telemetry_tx_packet);
} tx_packets SEC(".maps");

/* What tcp_wfree() is as a destructor, of which it learns from its first packet. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} tx_destructor SEC(".maps");

static __always_inline void telemetry_tick(u32 which)
{
	u64 *n = bpf_map_lookup_elem(&counters, &which);

	if (n) /* more than one program of this CPU may be here */
		__sync_fetch_and_add(n, 1);
}

/* --- Whose it is ------------------------------------------------------------------------ */

/* The fields of a socket that tell flows apart, in one copy: it is not ours to walk. */
struct telemetry_sock {
	u8 head[120];
};

#define sock_field_type(field) typeof(((struct sock_common *)0)->field)
#define sock_field(s, field)           \
	(*(sock_field_type(field) *)((s)->head + \
				     bpf_core_field_offset(struct sock_common, field)))

static __always_inline void telemetry_key(const struct telemetry_sock *s,
					  struct telemetry_flow_key *key)
{
	u32 *local = (u32 *)key->local;
	u32 *remote = (u32 *)key->remote;

	key->net = (u64)sock_field(s, skc_net.net);
	key->local_port = sock_field(s, skc_num);
	key->remote_port = bpf_ntohs(sock_field(s, skc_dport));
	if (sock_field(s, skc_family) == AF_INET6) {
		const u32 *from = sock_field(s, skc_v6_rcv_saddr).in6_u.u6_addr32;
		const u32 *to = sock_field(s, skc_v6_daddr).in6_u.u6_addr32;

		local[0] = from[0];
		local[1] = from[1];
		local[2] = from[2];
		local[3] = from[3];
		remote[0] = to[0];
		remote[1] = to[1];
		remote[2] = to[2];
		remote[3] = to[3];
	} else {
		local[2] = bpf_htonl(0xffff);
		local[3] = sock_field(s, skc_rcv_saddr);
		remote[2] = bpf_htonl(0xffff);
		remote[3] = sock_field(s, skc_daddr);
	}
}

static __always_inline bool telemetry_is_v4(const u8 *addr)
{
	const u32 *w = (const u32 *)addr;

	return !w[0] && !w[1] && w[2] == bpf_htonl(0xffff);
}

/* The bits of an address's @word that a prefix of @len has, in network order. */
static __always_inline u32 telemetry_mask(u32 len, u32 word)
{
	u32 bits = len > word * 32 ? len - word * 32 : 0;

	return bits >= 32 ? ~0U : bpf_htonl(~(~0U >> bits));
}

static __always_inline void telemetry_prefix_of(const u8 *remote, struct telemetry_prefix_key *key)
{
	struct bpf_swift_prefix net = { .prefix_len = 128 };
	const struct telemetry_settings *set;
	const u32 *from = (const u32 *)remote;
	u32 *to = (u32 *)key->addr;
	const u32 *asked;
	u32 first = 0, len = 0;

	__builtin_memcpy(net.addr, remote, sizeof(net.addr));
	asked = bpf_map_lookup_elem(&networks, &net);
	set = bpf_map_lookup_elem(&settings, &first);
	if (asked)
		len = *asked;
	else if (set)
		len = telemetry_is_v4(remote) ? set->v4_len : set->v6_len;
	key->prefix_len = len;
	to[0] = from[0] & telemetry_mask(len, 0);
	to[1] = from[1] & telemetry_mask(len, 1);
	to[2] = from[2] & telemetry_mask(len, 2);
	to[3] = from[3] & telemetry_mask(len, 3);
}

static __always_inline void telemetry_set_cc(struct telemetry_prefix_key *key)
{
	u64 name[2] = { cc_name[0], cc_name[1] };

	__builtin_memcpy(key->cc, name, sizeof(key->cc));
}

static __always_inline u32 telemetry_netns(const struct telemetry_sock *s)
{
	const struct net *net = sock_field(s, skc_net.net);

	return BPF_CORE_READ(net, ns.inum);
}

static __always_inline struct telemetry_flow *
telemetry_new_flow(const struct telemetry_flow_key *key, const struct telemetry_sock *s,
		   const struct tcp_sock *tp)
{
	u32 first = 0;
	void *blank = bpf_map_lookup_elem(&nothing, &first);
	struct telemetry_flow *f;

	if (!blank || bpf_map_update_elem(&flows, key, blank, BPF_NOEXIST))
		return 0;
	f = bpf_map_lookup_elem(&flows, key);
	if (!f)
		return 0;
	telemetry_tick(TELEMETRY_FLOWS);
	telemetry_prefix_of(key->remote, &f->prefix);
	f->first_ns = bpf_ktime_get_ns();
	f->lost_pkts = BPF_CORE_READ(tp, lost);
	return f;
}

/* Where all room is taken, or the kernel has none at the moment: under TELEMETRY_OTHER. */
static __always_inline struct telemetry_prefix *
telemetry_prefix_entry(const struct telemetry_prefix_key *key)
{
	struct telemetry_prefix *p = bpf_map_lookup_elem(&prefixes, key);
	struct telemetry_prefix_key other = { .prefix_len = TELEMETRY_OTHER };
	u32 first = 0;
	void *blank;

	if (p)
		return p;
	blank = bpf_map_lookup_elem(&nothing, &first);
	if (blank)
		bpf_map_update_elem(&prefixes, key, blank, BPF_NOEXIST);
	p = bpf_map_lookup_elem(&prefixes, key);
	if (p)
		return p;
	__builtin_memcpy(other.cc, key->cc, sizeof(other.cc));
	p = bpf_map_lookup_elem(&prefixes, &other);
	telemetry_tick(p ? TELEMETRY_IN_OTHER : TELEMETRY_NO_PREFIX);
	return p;
}

/* --- Counting ------------------------------------------------------------------------------ */

/* A global function: the verifier goes through it once, and knows nothing of the answer. */
__noinline u32 telemetry_bucket(u32 v)
{
	u32 unit = v >> TELEMETRY_UNIT_SHIFT;
	u32 x = unit;
	u32 log2 = 0;

	if (unit < 1 << TELEMETRY_SUB_BITS)
		return unit;
	if (x >= 1 << 16) {
		x >>= 16;
		log2 += 16;
	}
	if (x >= 1 << 8) {
		x >>= 8;
		log2 += 8;
	}
	if (x >= 1 << 4) {
		x >>= 4;
		log2 += 4;
	}
	if (x >= 1 << 2) {
		x >>= 2;
		log2 += 2;
	}
	if (x >= 1 << 1)
		log2 += 1;
	return ((log2 - TELEMETRY_SUB_BITS + 1) << TELEMETRY_SUB_BITS) +
	       (unit >> (log2 - TELEMETRY_SUB_BITS) & ((1 << TELEMETRY_SUB_BITS) - 1));
}

static __always_inline void telemetry_add(struct telemetry_flow *f, struct telemetry_prefix *p,
					  u32 which, u32 v)
{
	u32 at = telemetry_bucket(v);

	if (at >= TELEMETRY_BUCKETS)
		return;
	if (f) {
		f->sums[which] += v;
		if (f->buckets[which][at] != ~0U)
			f->buckets[which][at]++;
	}
	if (p) {
		p->sums[which] += v;
		p->buckets[which][at]++;
	}
}

static __always_inline int telemetry_count(const void *sk, const struct tcp_swift_sample *in,
					   u32 has)
{
	const struct tcp_sock *tp = sk;
	struct telemetry_flow_key key = {};
	struct telemetry_prefix_key to;
	struct telemetry_sock s;
	struct telemetry_prefix *p;
	struct telemetry_flow *f;
	u32 lost_pkts, lost = 0;
	u32 decision = in->decision;

	telemetry_tick(TELEMETRY_SAMPLES);
	if (bpf_probe_read_kernel(&s, sizeof(s), sk))
		return 0;
	telemetry_key(&s, &key);
	f = bpf_map_lookup_elem(&flows, &key);
	if (!f)
		f = telemetry_new_flow(&key, &s, tp);
	if (f) {
		lost_pkts = BPF_CORE_READ(tp, lost);
		lost = lost_pkts - f->lost_pkts;
		if ((s32)lost < 0) /* another socket, with the addresses of one that closed */
			lost = 0;
		f->lost_pkts = lost_pkts;
		f->losses += lost;
		f->last_ns = in->now_ns;
		f->hops = in->hops;
		f->cookie = sock_field(&s, skc_cookie.counter);
		/* Both may have changed: another namespace may lie where one was. */
		telemetry_set_cc(&f->prefix);
		f->prefix.netns = telemetry_netns(&s);
		to = f->prefix;
	} else {
		telemetry_tick(TELEMETRY_NO_FLOW);
		telemetry_prefix_of(key.remote, &to);
		to.netns = telemetry_netns(&s);
		telemetry_set_cc(&to);
	}
	p = telemetry_prefix_entry(&to);
	if (decision >= TELEMETRY_DECISIONS)
		decision = 0;
	if (f)
		f->decisions[decision]++;
	if (p) {
		p->decisions[decision]++;
		p->losses += lost;
	}
	if (has & 1 << TELEMETRY_FABRIC)
		telemetry_add(f, p, TELEMETRY_FABRIC, in->fabric_ns);
	if (has & 1 << TELEMETRY_REMOTE)
		telemetry_add(f, p, TELEMETRY_REMOTE, in->remote_ns);
	if (has & 1 << TELEMETRY_LOCAL)
		telemetry_add(f, p, TELEMETRY_LOCAL, in->local_ns);
	if (has & 1 << TELEMETRY_ENDPOINT)
		telemetry_add(f, p, TELEMETRY_ENDPOINT, in->endpoint_ns);
	if (has & 1 << TELEMETRY_RTT)
		telemetry_add(f, p, TELEMETRY_RTT, in->rtt_ns);
	if (has & 1 << TELEMETRY_TARGET)
		telemetry_add(f, p, TELEMETRY_TARGET, in->fabric_target_ns);
	if (has & 1 << TELEMETRY_WINDOW)
		telemetry_add(f, p, TELEMETRY_WINDOW, swift_min_u32(in->fcwnd_q16, in->ecwnd_q16));
	return 0;
}

/* --- Where from ------------------------------------------------------------------------------ */

/* Which values a sample of the module has. Global: see telemetry_bucket(). */
__noinline u32 telemetry_module_has(u32 remote_source, u32 local_source, u32 endpoint_ns)
{
	u32 has = 1 << TELEMETRY_FABRIC | 1 << TELEMETRY_RTT | 1 << TELEMETRY_TARGET |
		  1 << TELEMETRY_WINDOW;

	if (remote_source != TCP_SWIFT_SOURCE_NONE)
		has |= 1 << TELEMETRY_REMOTE;
	if (local_source != TCP_SWIFT_SOURCE_NONE)
		has |= 1 << TELEMETRY_LOCAL;
	if (remote_source || local_source || endpoint_ns)
		has |= 1 << TELEMETRY_ENDPOINT;
	return has;
}

SEC("raw_tp/swift_sample")
int telemetry_module(struct bpf_raw_tracepoint_args *ctx)
{
	struct tcp_swift_sample sample;

	if (bpf_probe_read_kernel(&sample, sizeof(sample), (const void *)ctx->args[1]))
		return 0;
	return telemetry_count((const void *)ctx->args[0], &sample,
			       telemetry_module_has(sample.remote_source, sample.local_source,
						    sample.endpoint_ns));
}

SEC("fentry/swift_decided_at")
int telemetry_variant(unsigned long long *ctx)
{
	struct telemetry_event e;

	if (bpf_probe_read_kernel(&e, sizeof(e), (const void *)ctx[0]))
		return 0;
	return telemetry_count((const void *)e.sk, &e.sample, e.has);
}

/* TCP's own: a forwarded packet has no socket, and a plain arrival another clock. */
static __always_inline bool telemetry_departs(const struct sk_buff *skb)
{
	const struct sk_buff___6_11 *newer = (const struct sk_buff___6_11 *)skb;

	if (bpf_core_field_exists(newer->tstamp_type))
		return BPF_CORE_READ_BITFIELD(newer, tstamp_type) == SKB_CLOCK_MONOTONIC;
	return BPF_CORE_READ_BITFIELD(skb, mono_delivery_time);
}

static __always_inline struct telemetry_tx_packet *telemetry_tx_packet(const struct sk_buff *skb)
{
	u32 at;

	SWIFT_STATIC_ASSERT(TELEMETRY_MAX_TX_PACKETS == 1 << (32 - 22), "at ends there");
	/* The verifier lets nobody calculate with a pointer, but for its copied lower half. */
	asm volatile("%0 = %1" : "=w"(at) : "w"((u32)(u64)skb));
	at = (at >> 6) * 0x9e3779b1U >> 22;
	return bpf_map_lookup_elem(&tx_packets, &at);
}

/*
 * Where two packets want one place the older one stays: if not, those that take long would be
 * the ones that are lost. Packets that something else than tcp_wfree() ends (bare ACKs, what
 * went through netem) are not followed.
 */
static __always_inline void telemetry_tx_follow(struct telemetry_tx_packet *p,
						const struct sk_buff *skb,
						const struct telemetry_flow_key *flow, u64 now_ns)
{
	u32 first = 0;
	const u64 *wfree = bpf_map_lookup_elem(&tx_destructor, &first);
	u64 old = p->skb;

	if (!wfree || !*wfree || *wfree != (u64)skb->destructor || old == TX_PACKET_BUSY)
		return;
	if (old && old != (u64)skb && (s64)(now_ns - p->handed_ns) < TX_PACKET_FORGET_NS)
		return;
	if (__sync_val_compare_and_swap(&p->skb, old, TX_PACKET_BUSY) != old)
		return;
	p->departs_ns = skb->tstamp;
	p->handed_ns = now_ns;
	p->flow = *flow;
	__sync_lock_test_and_set(&p->skb, (u64)skb);
}

SEC("tp_btf/net_dev_start_xmit")
int BPF_PROG(telemetry_tx, struct sk_buff *skb)
{
	struct telemetry_tx_packet *p = telemetry_tx_packet(skb);
	struct telemetry_flow_key key = {};
	struct telemetry_prefix_key to;
	struct telemetry_sock s;
	struct telemetry_flow *f;
	struct sock *sk;
	s64 waited_ns;
	u64 now_ns;

	/* A device below another, or one that was busy: it begins now. */
	if (p && p->skb == (u64)skb)
		p->handed_ns = bpf_ktime_get_ns();
	if (bpf_get_prandom_u32() > tx_threshold)
		return 0;
	sk = skb->sk;
	if (!sk || sk->sk_protocol != IPPROTO_TCP || !telemetry_departs(skb))
		return 0;
	if (bpf_probe_read_kernel(&s, sizeof(s), sk))
		return 0;
	telemetry_key(&s, &key);
	f = bpf_map_lookup_elem(&flows, &key);
	if (!f)
		return 0;
	now_ns = bpf_ktime_get_ns();
	waited_ns = now_ns - skb->tstamp;
	if (waited_ns < 0) /* a qdisc that does not wait for it */
		waited_ns = 0;
	to = f->prefix;
	telemetry_add(f, telemetry_prefix_entry(&to), TELEMETRY_TX, swift_saturate_u32(waited_ns));
	if (p)
		telemetry_tx_follow(p, skb, &key, now_ns);
	return 0;
}

SEC("fentry/tcp_wfree")
int BPF_PROG(telemetry_tx_nic, struct sk_buff *skb)
{
	struct telemetry_tx_packet *p = telemetry_tx_packet(skb);
	struct telemetry_flow_key key;
	struct telemetry_prefix_key to;
	struct telemetry_flow *f;
	u64 departs_ns, *wfree;
	u32 first = 0;
	s64 took_ns;

	if (!p)
		return 0;
	wfree = bpf_map_lookup_elem(&tx_destructor, &first);
	if (wfree && !*wfree)
		*wfree = (u64)skb->destructor;
	if (p->skb != (u64)skb ||
	    __sync_val_compare_and_swap(&p->skb, (u64)skb, TX_PACKET_BUSY) != (u64)skb)
		return 0;
	took_ns = bpf_ktime_get_ns() - p->handed_ns;
	if (took_ns < 0) /* this clock may differ a little from one CPU to the next */
		took_ns = 0;
	departs_ns = p->departs_ns;
	key = p->flow;
	__sync_lock_test_and_set(&p->skb, 0);
	if (departs_ns != skb->tstamp) /* of another packet, whose end was missed */
		return 0;
	f = bpf_map_lookup_elem(&flows, &key);
	if (!f)
		return 0;
	to = f->prefix;
	telemetry_add(f, telemetry_prefix_entry(&to), TELEMETRY_TX_NIC,
		      swift_saturate_u32(took_ns));
	return 0;
}
