// SPDX-License-Identifier: GPL-2.0
/*
 * The congestion control `bpf_swift` (and, as bpf_swift_v0.bpf.c, `bpf_swift_v0`): from
 * TCP's events to the law of core/swift.h, and from its windows to snd_cwnd and the pacing
 * rate. The module's cong.c, as far as BPF may: where the two differ in what they do, it
 * is for one of these reasons.
 *
 * B1 A tracing program cannot ask for an immediate ACK, and no struct_ops callback runs
 *    when TCP's fast path receives data: a lone packet waits for the delayed ACK (40 ms).
 *    On the receiving host, `ip route ... quickack 1` does what the module does. Where that
 *    is missing, a sender notices the first ACK that was delayed, takes no sample from it,
 *    and from then on has two packets in flight where it would have one, spaced by the
 *    pacing at the same rate: the second one is answered at once, by any peer.
 * B2 TCP settles the time of the next packet when it sends one, by a rate (the module does when
 *    the ACK arrives): news reach the pacing one packet later, sch_fq holds an ACK for up to a
 *    pacing delay, timers grow by as much, and so does the wait of who leaves Swift.
 * B3 The RTT is in microseconds.
 * B4 A socket above max_rtt_ns is given to reno as if the application had asked for it.
 * B5 BPF cannot have the stack take software stamps: it does while anything on the host
 *    asked for them; else swift_stamp() takes its own, later, before the socket's lock, and
 *    what a packet waited until then counts as fabric, unless the NIC stamped it. A NIC's
 *    stamp that only its driver can turn into a time is not used.
 * B6 A congestion control chosen between SYN and SYN-ACK starts from the window that the
 *    kernel sets then, until the first ACK of data.
 * B7 Which segment an ACK is of, BPF cannot see: a path's base (D10) is learnt from flows that
 *    their window holds back, whose segments are full; a flow's own (D7) from all. Drains (D11)
 *    are timed by CLOCK_TAI, whose seconds begin with CLOCK_REALTIME's, and leave two packets,
 *    as a peer may delay ACKs.
 * B8 TCP settles the gap to the next packet when one leaves, and no program can move it:
 *    news are a gap old. For that the steps of a small window (D16) are an eighth, and the
 *    newest RTT has half of its weight in the gap (late_news): more is not stable.
 * B9 The link's rate is nobody's to ask: what a full packet adds to a handshake's RTT (D10) is
 *    taken as on a link of 1 Gb/s. No plb, no credit, no rto_min_us. The guard looks once, at the
 *    first sample of a connection whose handshake was long or unknown; subflows of MPTCP have no
 *    rate to be chosen by; IPv4 behind an IPv6 socket is a path of its own. The host's own queue
 *    (D18) is not seen in pfifo_fast.
 */
#include "swift_flow.h"
#include "swift_path.h"
#include "telemetry_hook.h"

/*
 * ACKs in a row without an echo after which the remote part counts as fabric again: the
 * peer turned its echo off, or a middlebox strips options.
 */
#define SWIFT_ECHO_MISSES_MAX 64

#ifdef BPF_SWIFT_V0
#define SWIFT_OPS_NAME "bpf_swift_v0"
#define swift_ops bpf_swift_v0
#else
#define SWIFT_OPS_NAME "bpf_swift"
#define swift_ops bpf_swift
#include "swift_rx.h"
#include "swift_echo.h"
#endif

char _license[] SEC("license") = "GPL";

/* --- Parameters ------------------------------------------------------------------------ */

/* Of the flow's destination, or of all; null while there are none. */
static __always_inline const struct bpf_swift_profile *swift_profile(const struct sock *sk)
{
	struct bpf_swift_prefix key = { .prefix_len = 128 };
	const struct bpf_swift_profile *p;
	u32 *addr = (u32 *)key.addr;
	u32 first = 0;

	if (sk->__sk_common.skc_family == AF_INET6) {
		addr[0] = sk->__sk_common.skc_v6_daddr.in6_u.u6_addr32[0];
		addr[1] = sk->__sk_common.skc_v6_daddr.in6_u.u6_addr32[1];
		addr[2] = sk->__sk_common.skc_v6_daddr.in6_u.u6_addr32[2];
		addr[3] = sk->__sk_common.skc_v6_daddr.in6_u.u6_addr32[3];
	} else {
		addr[2] = bpf_htonl(0xffff);
		addr[3] = sk->__sk_common.skc_daddr;
	}
	p = bpf_map_lookup_elem(&swift_profiles, &key);
	if (!p)
		p = bpf_map_lookup_elem(&swift_params, &first);
	return p && p->law.max_cwnd_q16 ? p : 0;
}

/* v0 is Swift with one window, whatever the map says. */
#ifdef BPF_SWIFT_V0
#define SWIFT_SPLIT false
#else
#define SWIFT_SPLIT true
#endif

/* As the law takes them (B8). */
static __always_inline const struct swift_params *swift_law(const struct bpf_swift_profile *p,
							    struct swift_params *law)
{
	*law = p->law;
	law->split &= SWIFT_SPLIT;
	law->late_news = 1;
	return law;
}

/* --- Windows out ------------------------------------------------------------------------ */

/* For pacing: the latest, as RACK keeps it. See cong.c. */
static __always_inline u32 swift_latest_rtt_ns(const struct tcp_sock *tp)
{
	if (!tp->rack.rtt_us) /* a peer without SACK */
		return tcp_srtt_ns(tp);
	return swift_saturate_u32((u64)tp->rack.rtt_us * NSEC_PER_USEC);
}

/* The window below which packets are paced (B1). */
static __always_inline u32 swift_paced_q16(const struct swift_sock *ss)
{
	return ss->pairs ? 2 * SWIFT_Q16_ONE : SWIFT_Q16_ONE;
}

/* Apart: inline, swift_cong_control()'s frames are 544 bytes, and Linux 6.1 allows 512. */
static __noinline u32 swift_paced_by_ns(const struct swift_sock *ss, const struct swift_params *p,
					u32 cwnd_q16, u32 rtt_ns)
{
	u32 least_ns, base_ns = swift_path_base_of(ss->path_key, &least_ns);

	return swift_pacing_rtt_ns(&ss->law, SWIFT_SPLIT ? p->split : 0, cwnd_q16, rtt_ns,
				   swift_target_ns(&ss->law, p, 0, base_ns, least_ns),
				   bpf_get_prandom_u32(), true);
}

/* 3.4; one of a pair is spaced as a packet of a window of half the size. */
static __always_inline void swift_set_pacing(struct sock *sk, const struct swift_sock *ss,
					     const struct bpf_swift_profile *p, u32 cwnd_q16,
					     u32 bytes)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u64 rate_Bps = sk->sk_max_pacing_rate;
	u32 rtt_ns;

	if (cwnd_q16 < swift_paced_q16(ss)) {
		rtt_ns = swift_paced_by_ns(ss, &p->law, cwnd_q16, swift_latest_rtt_ns(tp));
		rtt_ns = swift_min_u32(rtt_ns, p->max_rtt_ns);
		if (ss->pairs) {
			cwnd_q16 /= 2;
			bytes *= 2;
		}
		rate_Bps = swift_pacing_rate_Bps(cwnd_q16, rtt_ns, bytes);
		if (rate_Bps > sk->sk_max_pacing_rate)
			rate_Bps = sk->sk_max_pacing_rate;
		if (sk->sk_pacing_status != SK_PACING_NEEDED)
			sk->sk_pacing_status = SK_PACING_NEEDED;
	} else if (sk->sk_pacing_status != SK_PACING_NONE && sk->sk_max_pacing_rate == ~0UL &&
		   tp->tcp_wstamp_ns <= tp->tcp_clock_cache) {
		/* A paced flow's small queue is sized by its rate: ours has none now. */
		sk->sk_pacing_status = SK_PACING_NONE;
	}
	if (sk->sk_pacing_rate != rate_Bps)
		sk->sk_pacing_rate = rate_Bps;
}

static __always_inline void swift_apply(struct sock *sk, struct swift_sock *ss,
					const struct bpf_swift_profile *p, bool new_round)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 cwnd_q16 = swift_send_cwnd_q16(ss, &p->law, tcp_srtt_ns(tp));
	u32 pkts = swift_snd_cwnd_pkts(&ss->dither, cwnd_q16, new_round);

	ss->drained = cwnd_q16 < swift_cwnd_q16(&ss->law);
	tcp_snd_cwnd_set(tp, ss->pairs ? swift_max_u32(pkts, 2) : pkts);
	swift_set_pacing(sk, ss, p, cwnd_q16, tp->mss_cache);
}

/* --- Samples in --------------------------------------------------------------------------- */

/* t6 - t1 of the newest segment that this ACK covers, 0 = none: see cong.c. */
static __always_inline u32 swift_rtt_ns(const struct tcp_sock *tp, struct swift_sock *ss,
					const struct rate_sample *rs)
{
	u32 rtt_us;

	if (!rs->prior_mstamp || rs->delivered < 0)
		return 0;
	rtt_us = tcp_stamp_us_delta(tp->tcp_mstamp, tp->first_tx_mstamp);
	if (rs->is_retrans && (!ss->timed_out || rtt_us < tcp_min_rtt(tp)))
		return 0;
	ss->timed_out = 0;
	return swift_saturate_u32((u64)swift_max_u32(rtt_us, 1) * NSEC_PER_USEC);
}

/* As swift_own_queue() of cong.c, but of qdiscs that count packets in one place (B9). */
static __always_inline bool swift_own_queue(const struct sock *sk)
{
	const struct dst_entry *dst = sk->sk_dst_cache;
	const struct netdev_queue *txq;
	const struct net_device *dev;
	const struct Qdisc *qdisc;
	u32 index = 0, queues;

	if (!dst)
		return false;
	dev = BPF_CORE_READ(dst, dev);
	queues = BPF_CORE_READ(dev, real_num_tx_queues);
	if (queues != 1)
		index = sk->__sk_common.skc_tx_queue_mapping;
	if (index >= queues)
		return false;
	txq = (const void *)((const char *)BPF_CORE_READ(dev, _tx) +
			     (u64)index * bpf_core_type_size(struct netdev_queue));
	qdisc = BPF_CORE_READ(txq, qdisc);
	return BPF_CORE_READ(qdisc, q.qlen) &&
	       (BPF_CORE_READ(txq, state) & QUEUE_STATE_ANY_XOFF ||
		BPF_CORE_READ(qdisc, state) & QDISC_STATE_SCHED);
}

static __always_inline void swift_fill_sample(struct sock *sk, struct swift_sock *ss,
					      struct bpf_swift_flow *f,
					      const struct bpf_swift_profile *p,
					      const struct rate_sample *rs, struct swift_sample *in)
{
	struct tcp_sock *tp = tcp_sk(sk);

	in->now_ns = tp->tcp_clock_cache;
	in->rtt_ns = swift_rtt_ns(tp, ss, rs);
	in->acked_pkts = rs->acked_sacked;
	if (p->law.target_policy != SWIFT_TARGET_STATIC)
		in->path_base_ns = swift_path_base_of(ss->path_key, &in->path_least_ns);
	in->cwnd_limited = tcp_is_cwnd_limited(tp);
	/* Between a pair the window is not full: it is the pacing that holds data back. */
	if (ss->pairs && swift_cwnd_q16(&ss->law) < swift_paced_q16(ss) && tcp_send_head(sk))
		in->cwnd_limited = 1;
	/* A quarter that holds a flow says nothing about its whole window. */
	if (ss->drained)
		in->cwnd_limited = 0;
	if (in->rtt_ns && swift_asks_own_queue(&ss->law, &p->law))
		in->own_queue = swift_own_queue(sk);
	if (f) {
		in->local_ns = f->has_local ? f->local_ns : 0;
		in->remote_ns = f->has_echo ? f->remote_ns : 0;
		in->has_echo = f->has_echo;
		in->echo_expected = f->echo_on && f->echo_misses < SWIFT_ECHO_MISSES_MAX;
		in->hops = f->knows_hops ? f->echo_hops : f->rx_hops;
		if (swift_refuse_echo(in))
			f->echoes_refused++;
	}
	/* B1: longer than any path here. The peer delayed its ACK. */
	if (!(f && f->has_echo) && rs->prior_in_flight <= 1U + ss->pairs && !ss->guard_due &&
	    in->rtt_ns > p->max_rtt_ns) {
		in->rtt_ns = 0;
		ss->pairs = 1;
	}
}

/* A window's worth of packets was delivered since the last call that said so. */
static __always_inline bool swift_new_round(const struct tcp_sock *tp, struct swift_sock *ss)
{
	u32 delivered = tp->delivered;

	if ((s32)(delivered - ss->next_round_delivered) < 0)
		return false;
	ss->next_round_delivered = delivered + swift_max_u32(tcp_packets_in_flight(tp), 1);
	return true;
}

/* The record of sock_diag, for who reads socket storage. */
static __always_inline void swift_tell(struct bpf_swift_flow *f, const struct swift_state *law,
				       const struct swift_sample *in,
				       const struct swift_verdict *out)
{
	u32 local = f->has_local ? f->local_source : TCP_SWIFT_SOURCE_NONE;
	u32 remote;

	if (in->has_echo)
		f->echo_misses = 0;
	else if (f->echo_misses < SWIFT_ECHO_MISSES_MAX)
		f->echo_misses++;
	remote = f->echo_on && f->echo_misses < SWIFT_ECHO_MISSES_MAX ? f->remote_source :
									TCP_SWIFT_SOURCE_NONE;
	f->info.fabric_ns = (law->fabric_ns & ~TCP_SWIFT_SOURCE_MASK) | local;
	f->info.endpoint_ns = (law->endpoint_ns & ~TCP_SWIFT_SOURCE_MASK) | remote;
	f->info.target_ns = out->fabric_target_ns & ~TCP_SWIFT_CREDIT_MASK; /* it has none */
	f->samples++;
	f->samples_stamped += f->has_local;
}

static __always_inline bool swift_guard(struct sock *sk, struct swift_sock *ss,
					const struct bpf_swift_profile *p,
					const struct swift_sample *in)
{
	struct tcp_sock *tp = tcp_sk(sk);
	char reno[] = "reno";
	u64 min_rtt_ns = (u64)tcp_min_rtt(tp) * NSEC_PER_USEC;

	ss->guard_due = 0;
	if (swift_path_rtt_ns(in) <= p->max_rtt_ns || min_rtt_ns <= p->max_rtt_ns)
		return false;
	if (bpf_setsockopt(sk, SOL_TCP, TCP_CONGESTION, reno, sizeof(reno)))
		return false;
	tp->snd_ssthresh = TCP_INFINITE_SSTHRESH;
	tcp_snd_cwnd_set(tp, TCP_INIT_CWND);
	return true;
}

/*
 * A global function, which the verifier looks at by itself, and not again for each state
 * that a caller may be in. @lost_rtt_ns: losses were found, in a path of this RTT; or 0.
 */
__noinline int swift_decide(struct swift_state *s, const struct swift_params *p,
			    const struct swift_sample *in, struct swift_verdict *out,
			    u32 lost_rtt_ns)
{
	if (!s || !p || !in || !out)
		return 0;
	if (lost_rtt_ns)
		swift_on_fast_recovery(s, p, in->now_ns, lost_rtt_ns);
	swift_on_ack(s, p, in, out);
	return 0;
}

/* Whose decision: to the verifier no pointer's value is a number. */
struct swift_who {
	u64 sk;
};

/* As the module's tracepoint, for the telemetry program. Global like swift_decide(). */
__noinline int swift_show(const struct swift_who *who, const struct swift_state *law,
			  const struct swift_sample *in, const struct swift_verdict *out,
			  const struct bpf_swift_flow *f)
{
	struct telemetry_event e;
	bool fabric, endpoint;

	if (!who || !law || !in || !out || !in->rtt_ns)
		return 0;
	fabric = out->fabric_action == SWIFT_DECREASE;
	endpoint = out->endpoint_action == SWIFT_DECREASE;
	e = (struct telemetry_event){
		.sk = who->sk,
		.has = 1 << TELEMETRY_FABRIC | 1 << TELEMETRY_RTT | 1 << TELEMETRY_TARGET |
		       1 << TELEMETRY_WINDOW,
		.sample = {
			.now_ns = in->now_ns,
			.rtt_ns = in->rtt_ns,
			.fabric_ns = out->fabric_ns,
			.remote_ns = in->remote_ns,
			.local_ns = in->local_ns,
			.endpoint_ns = law->endpoint_ns,
			.fabric_target_ns = out->fabric_target_ns,
			.endpoint_target_ns = out->endpoint_target_ns,
			.fcwnd_q16 = law->fabric.cwnd_q16,
			.ecwnd_q16 = law->endpoint.cwnd_q16,
			.acked_pkts = in->acked_pkts,
			.hops = in->hops,
		},
	};
	if (f && f->has_local) {
		e.sample.local_source = f->local_source;
		e.has |= 1 << TELEMETRY_LOCAL;
	}
	if (f && in->has_echo) {
		e.sample.remote_source = f->remote_source;
		e.has |= 1 << TELEMETRY_REMOTE;
	}
	if (law->endpoint_ns || e.sample.local_source || e.sample.remote_source)
		e.has |= 1 << TELEMETRY_ENDPOINT;
	if (fabric && endpoint)
		e.sample.decision = TCP_SWIFT_DECREASE_BOTH;
	else if (fabric)
		e.sample.decision = TCP_SWIFT_DECREASE_FABRIC;
	else if (endpoint)
		e.sample.decision = TCP_SWIFT_DECREASE_ENDPOINT;
	else if (out->fabric_action == SWIFT_INCREASE || out->endpoint_action == SWIFT_INCREASE)
		e.sample.decision = TCP_SWIFT_INCREASE;
	else
		e.sample.decision = TCP_SWIFT_HOLD;
	return swift_decided(&e);
}

SEC("struct_ops/swift_cong_control")
void BPF_PROG(swift_cong_control, struct sock *sk)
{
	const struct rate_sample *rs = cong_control_sample(ctx);
	struct swift_sock *ss = swift_sk(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	const struct bpf_swift_profile *p;
	const struct swift_params *law;
	struct swift_params own;
	struct swift_verdict out = {};
	struct swift_sample in = {};
	struct swift_state state;
	struct swift_who who = {};
	struct bpf_swift_flow *f;

	/* The ACK of a SYN comes before init(), or before the window that TCP sets. */
	if (!ss->live || sk->__sk_common.skc_state == TCP_SYN_SENT)
		return;
	p = swift_profile(sk);
	if (!p)
		return;
	law = swift_law(p, &own);
	f = swift_flow(sk);

	swift_fill_sample(sk, ss, f, p, rs, &in);
	if (ss->guard_due && in.rtt_ns && swift_guard(sk, ss, p, &in))
		return;

	state = ss->law;
	swift_decide(&state, law, &in, &out,
		     rs->losses > 0 ? swift_max_u32(tcp_srtt_ns(tp), 1) : 0);
	ss->law = state;
	if (out.base_sample_ns && law->target_policy != SWIFT_TARGET_STATIC &&
	    tcp_is_cwnd_limited(tp))
		swift_path_learn(ss->path_key, law, in.now_ns, out.base_sample_ns,
				 out.base_luck_ns);
	if (telemetry_is_on()) {
		who.sk = (u64)sk;
		swift_show(&who, &state, &in, &out, f);
	}
	if (f) {
		if (in.rtt_ns)
			swift_tell(f, &state, &in, &out);
		f->info.fcwnd_q16 = state.fabric.cwnd_q16;
		f->info.ecwnd_q16 = state.endpoint.cwnd_q16;
		/* An ACK that tcp_probe did not see must not inherit these. */
		f->has_local = 0;
		f->has_echo = 0;
	}
	swift_apply(sk, ss, p, swift_new_round(tp, ss));
}

/* --- Loss, undo, idle ----------------------------------------------------------------------- */

/* TCP asks for this at the start of each loss episode: where an undo will want to return to. */
SEC("struct_ops/swift_ssthresh")
u32 BPF_PROG(swift_ssthresh, struct sock *sk)
{
	struct swift_sock *ss = swift_sk(sk);

	if (ss->live)
		swift_note_undo(&ss->law);
	return tcp_sk(sk)->snd_ssthresh;
}

SEC("struct_ops/swift_undo_cwnd")
u32 BPF_PROG(swift_undo_cwnd, struct sock *sk)
{
	const struct bpf_swift_profile *p = swift_profile(sk);
	struct swift_sock *ss = swift_sk(sk);

	if (ss->live && p) {
		swift_undo(&ss->law, &p->law);
		swift_apply(sk, ss, p, false);
	}
	return tcp_sk(sk)->snd_cwnd;
}

/* Timeouts, recovery by RACK's timer, ECN marks; not a path MTU that shrank: see cong.c. */
SEC("struct_ops/swift_set_state")
void BPF_PROG(swift_set_state, struct sock *sk, u8 new_state)
{
	struct inet_connection_sock *icsk = inet_csk(sk);
	const struct tcp_sock *tp = tcp_sk(sk);
	struct swift_sock *ss = swift_sk(sk);
	const struct bpf_swift_profile *p;

	if (!ss->live || new_state < TCP_CA_CWR)
		return;
	if (new_state == TCP_CA_LOSS && BPF_CORE_READ_BITFIELD(icsk, icsk_ca_state) < TCP_CA_CWR &&
	    !tp->undo_marker)
		return;
	p = swift_profile(sk);
	if (!p)
		return;
	if (new_state == TCP_CA_LOSS) {
		ss->timed_out = 1;
		ss->drained = 0; /* the window is TCP's until the next ACK */
		swift_on_timeout(&ss->law, &p->law, tp->tcp_clock_cache, tcp_srtt_ns(tp));
	} else if (swift_on_fast_recovery(&ss->law, &p->law, tp->tcp_clock_cache,
					  tcp_srtt_ns(tp))) {
		swift_apply(sk, ss, p, false);
	}
}

/* Of the packet that TCP is about to charge to the pacing: small ones are spaced like full ones. */
static __always_inline u32 swift_next_bytes(const struct sock *sk)
{
	const struct sk_buff *head = tcp_send_head(sk);
	u32 mss = tcp_sk(sk)->mss_cache;

	return head && head->len ? swift_min_u32(head->len, mss) : mss;
}

/*
 * Just before TCP sends. Without the restart it would keep yesterday's window; no ACK will come
 * to end a drain that the last one fell into; and sch_fq sets a status by which data is handed
 * to it early, and holds up the ACKs behind it (B2).
 */
SEC("struct_ops/swift_min_tso_segs")
u32 BPF_PROG(swift_min_tso_segs, struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct swift_sock *ss = swift_sk(sk);
	const struct bpf_swift_profile *p;
	u32 idle_rtos;
	bool restarts;

	if (!ss->live || tp->packets_out)
		return tcp_min_tso_segs(sk);
	p = swift_profile(sk);
	if (!p)
		return tcp_min_tso_segs(sk);
	idle_rtos = tcp_idle_rtos(sk);
	restarts = idle_rtos && swift_on_idle_restart(&ss->law, &p->law, idle_rtos);
	if (restarts || ss->drained)
		swift_apply(sk, ss, p, false);
	if (swift_cwnd_q16(&ss->law) < swift_paced_q16(ss))
		swift_set_pacing(sk, ss, p, swift_cwnd_q16(&ss->law), swift_next_bytes(sk));
	return tcp_min_tso_segs(sk);
}

#ifndef BPF_SWIFT_V0
/* 3.6: ACKs are not delayed. Where TCP asks us before it takes the data: see B1. */
SEC("struct_ops/swift_in_ack_event")
void BPF_PROG(swift_in_ack_event, struct sock *sk)
{
	if (swift_sk(sk)->live)
		inet_csk(sk)->icsk_ack.pending |= ICSK_ACK_NOW;
}
#endif

/* --- Coming and going ------------------------------------------------------------------------- */

/* As in cong.c. */
static __always_inline bool swift_ran_before(const struct sock *sk)
{
	struct inet_connection_sock *icsk = inet_csk(sk);
	const struct tcp_sock *tp = tcp_sk(sk);

	return BPF_CORE_READ_BITFIELD(icsk, icsk_ca_initialized) ||
	       tp->data_segs_out > BPF_CORE_READ_BITFIELD(tp, syn_data);
}

/* As swift_init_cwnd_pkts() of cong.c. */
static __always_inline u32 swift_init_cwnd_pkts(const struct sock *sk)
{
	const struct dst_entry *dst = sk->sk_dst_cache;
	u32 cwnd = tcp_sk(sk)->snd_cwnd;
	u32 route_cwnd = 0;

	if (swift_ran_before(sk) || cwnd == 1)
		return cwnd;
	if (dst) /* the two low bits are flags */
		bpf_probe_read_kernel(&route_cwnd, sizeof(route_cwnd),
				      (u32 *)(dst->_metrics & ~3UL) + RTAX_INITCWND - 1);
	return route_cwnd ? cwnd : 0;
}

SEC("struct_ops/swift_cong_init")
void BPF_PROG(swift_cong_init, struct sock *sk)
{
	const struct bpf_swift_profile *p = swift_profile(sk);
	struct swift_sock *ss = swift_sk(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	struct bpf_swift_flow *f;
	u32 base_ns;

	ss->live = 0;
	ss->timed_out = 0;
	ss->pairs = 0;
	ss->drained = 0;
	if (!p)
		return;
	ss->guard_due = !tp->srtt_us || tcp_srtt_ns(tp) > p->max_rtt_ns;
	ss->next_round_delivered = tp->delivered;
	/* Flows that start together should not round up together. */
	ss->dither.residue_q16 = bpf_get_prandom_u32() >> 16;
	ss->dither.extra = 0;
	swift_init(&ss->law, &p->law, swift_init_cwnd_pkts(sk));
	/* There already if the handshake negotiated the echo. */
	f = bpf_sk_storage_get(&swift_flows, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	ss->path_key = swift_path_key(tp, f && f->echo_on);
	/* Later, another congestion control has filled a queue. */
	if (tp->srtt_us && !swift_ran_before(sk)) {
		base_ns = swift_on_handshake(&ss->law, &p->law, tp->tcp_clock_cache,
					     tcp_srtt_ns(tp), tp->mss_cache, 0);
		if (p->law.target_policy != SWIFT_TARGET_STATIC)
			swift_path_learn(ss->path_key, &p->law, tp->tcp_clock_cache, base_ns, 0);
	}
	ss->live = 1;
	tp->snd_ssthresh = TCP_INFINITE_SSTHRESH;
	swift_apply(sk, ss, p, true);
	tcp_set_dscp(sk, p->dscp);
	if (f) {
		f->info.fcwnd_q16 = ss->law.fabric.cwnd_q16;
		f->info.ecwnd_q16 = ss->law.endpoint.cwnd_q16;
	}
}

/* Also called for sockets that never came as far as init(). */
SEC("struct_ops/swift_release")
void BPF_PROG(swift_release, struct sock *sk)
{
	struct swift_sock *ss = swift_sk(sk);

	if (!ss->live)
		return;
	ss->live = 0;
	/* The next congestion control starts from whole packets, no drain and no pacing of ours. */
	if (ss->drained)
		tcp_snd_cwnd_set(tcp_sk(sk), swift_max_u32(swift_cwnd_q16(&ss->law) >>
							   SWIFT_Q16_SHIFT, 1));
	sk->sk_pacing_rate = sk->sk_max_pacing_rate;
	if (sk->sk_pacing_status == SK_PACING_NEEDED && sk->sk_max_pacing_rate == ~0UL)
		sk->sk_pacing_status = SK_PACING_NONE;
	bpf_sk_storage_delete(&swift_flows, sk);
}

SEC(".struct_ops")
struct tcp_congestion_ops swift_ops = {
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = SWIFT_OPS_NAME,
	.init = (void *)swift_cong_init,
	.release = (void *)swift_release,
	.ssthresh = (void *)swift_ssthresh,
	.cong_control = (void *)swift_cong_control,
	.set_state = (void *)swift_set_state,
	.min_tso_segs = (void *)swift_min_tso_segs,
#ifndef BPF_SWIFT_V0
	.in_ack_event = (void *)swift_in_ack_event,
#endif
	.undo_cwnd = (void *)swift_undo_cwnd,
};
