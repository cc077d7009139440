// SPDX-License-Identifier: GPL-2.0
/*
 * The congestion control `bpf_gcn`: from TCP's events to the law of core/gcn.h (the
 * sender), and the echo of ECN marks on prompt ACKs (the receiver). Unpaced. As the lab's
 * module gcn.
 */
#include "kernel.h"
#include "telemetry_hook.h"
#include "maps.h"

char _license[] SEC("license") = "GPL";

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct bpf_gcn_profile);
} gcn_params SEC(".maps");

/* In icsk_ca_priv. */
struct gcn_sock {
	struct gcn_state law;
	u32 delivered; /* tcp_sock's counters at the latest ACK */
	u32 delivered_ce;
	u32 prior_rcv_nxt; /* before the newest packet */
	u32 ce; /* the newest packet was marked */
};

SWIFT_STATIC_ASSERT(sizeof(struct gcn_sock) <= 104, "icsk_ca_priv is that large");

/* Whose cwnd_q16 is 0 until init(), which comes after the ACK of a SYN. */
static __always_inline struct gcn_sock *gcn_sk(const struct sock *sk)
{
	return (struct gcn_sock *)inet_csk(sk)->icsk_ca_priv;
}

/* Null until user space wrote them. */
static __always_inline const struct bpf_gcn_profile *gcn_profile(void)
{
	u32 first = 0;
	const struct bpf_gcn_profile *p = bpf_map_lookup_elem(&gcn_params, &first);

	return p && p->law.max_cwnd_q16 ? p : 0;
}

static __always_inline const struct gcn_params *gcn_params_get(void)
{
	const struct bpf_gcn_profile *p = gcn_profile();

	return p ? &p->law : 0;
}

/* --- Sender ------------------------------------------------------------------------ */

static __always_inline void gcn_apply(struct sock *sk)
{
	const struct gcn_state *law = &gcn_sk(sk)->law;
	struct tcp_sock *tp = tcp_sk(sk);
	u32 ssthresh_q16 = law->ssthresh_q16;

	tcp_snd_cwnd_set(tp, gcn_cwnd_pkts(law));
	tp->snd_ssthresh = ssthresh_q16 == SWIFT_U32_MAX ? TCP_INFINITE_SSTHRESH :
							   ssthresh_q16 >> SWIFT_Q16_SHIFT;
}

/* The kernel's tcp_is_cwnd_limited(). */
static __always_inline bool gcn_is_cwnd_limited(struct tcp_sock *tp)
{
	if (tcp_is_cwnd_limited(tp))
		return true;
	return tp->snd_cwnd < tp->snd_ssthresh && tp->snd_cwnd < 2 * tp->max_packets_out;
}

/* Its law takes no RTT: the kernel's latest. */
static __always_inline void gcn_show(const struct sock *sk, const struct gcn_sample *in,
				     u32 before_q16)
{
	const struct gcn_state *law = &gcn_sk(sk)->law;
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 rtt_ns = swift_saturate_u32((u64)tp->rack.rtt_us * NSEC_PER_USEC);
	struct telemetry_event e = {
		.sk = (u64)sk,
		.has = 1 << TELEMETRY_WINDOW | (rtt_ns ? 1 << TELEMETRY_RTT : 0),
		.sample = {
			.now_ns = tp->tcp_clock_cache,
			.rtt_ns = rtt_ns,
			.fcwnd_q16 = law->cwnd_q16,
			.ecwnd_q16 = law->cwnd_q16,
			.acked_pkts = in->acked_pkts,
			.decision = telemetry_decision(before_q16, law->cwnd_q16),
		},
	};

	swift_decided(&e);
}

/* An ACK says with one bit whether all that it covers was marked: TCP counts both. */
SEC("struct_ops/gcn_cong_control")
void BPF_PROG(gcn_cong_control, struct sock *sk)
{
	struct inet_connection_sock *icsk = inet_csk(sk);
	const struct gcn_params *p = gcn_params_get();
	struct gcn_sock *gs = gcn_sk(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	struct gcn_sample in;
	u32 before_q16;

	if (!p || !gs->law.cwnd_q16)
		return;
	in.una = tp->snd_una;
	in.nxt = tp->snd_nxt;
	in.acked_pkts = tp->delivered - gs->delivered;
	in.marked_pkts = tp->delivered_ce - gs->delivered_ce;
	in.cwnd_limited = gcn_is_cwnd_limited(tp) &&
			  BPF_CORE_READ_BITFIELD(icsk, icsk_ca_state) != TCP_CA_RECOVERY;
	gs->delivered = tp->delivered;
	gs->delivered_ce = tp->delivered_ce;
	before_q16 = gs->law.cwnd_q16;
	gcn_on_ack(&gs->law, p, &in);
	gcn_apply(sk);
	if (telemetry_is_on())
		gcn_show(sk, &in, before_q16);
}

/* TCP asks at the start of each loss episode: where an undo will want to return to. */
SEC("struct_ops/gcn_ssthresh")
u32 BPF_PROG(gcn_ssthresh, struct sock *sk)
{
	gcn_note_undo(&gcn_sk(sk)->law);
	return tcp_sk(sk)->snd_ssthresh;
}

SEC("struct_ops/gcn_undo_cwnd")
u32 BPF_PROG(gcn_undo_cwnd, struct sock *sk)
{
	const struct gcn_params *p = gcn_params_get();

	if (p && gcn_sk(sk)->law.cwnd_q16) {
		gcn_undo(&gcn_sk(sk)->law, p);
		gcn_apply(sk);
	}
	return tcp_sk(sk)->snd_cwnd;
}

/* Recovery is entered once for each loss episode, Loss with every timeout. */
SEC("struct_ops/gcn_set_state")
void BPF_PROG(gcn_set_state, struct sock *sk, u8 new_state)
{
	const struct gcn_params *p = gcn_params_get();
	struct gcn_state *law = &gcn_sk(sk)->law;
	u32 nxt = tcp_sk(sk)->snd_nxt;

	if (!p || !law->cwnd_q16 || new_state < TCP_CA_RECOVERY)
		return;
	if (new_state == TCP_CA_LOSS)
		gcn_on_timeout(law, p, nxt);
	else
		gcn_on_loss(law, p, nxt);
	gcn_apply(sk);
}

/* --- Receiver ------------------------------------------------------------------------ */

/*
 * RFC 8257, 3.2: an ACK covers packets that are all marked or all unmarked. One that
 * waits when the mark changes goes out first, for what came before, as it was. GCN: no
 * ACK of a marked packet waits, the first unmarked one after it does not either.
 */
static __always_inline void gcn_rx(struct sock *sk, bool ce)
{
	struct inet_connection_sock *icsk = inet_csk(sk);
	struct gcn_sock *gs = gcn_sk(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	bool was_ce = gs->ce;

	if (ce != was_ce && (icsk->icsk_ack.pending & ICSK_ACK_TIMER)) {
		if (was_ce)
			tp->ecn_flags |= TCP_ECN_DEMAND_CWR;
		else
			tp->ecn_flags &= ~TCP_ECN_DEMAND_CWR;
		bpf_tcp_send_ack(tp, gs->prior_rcv_nxt);
	}
	if (ce || was_ce)
		icsk->icsk_ack.pending |= ICSK_ACK_NOW;
	if (ce)
		tp->ecn_flags |= TCP_ECN_DEMAND_CWR;
	else
		tp->ecn_flags &= ~TCP_ECN_DEMAND_CWR;
	gs->ce = ce;
	gs->prior_rcv_nxt = tp->rcv_nxt;
}

/* --- Coming and going ------------------------------------------------------------------ */

SEC("struct_ops/gcn_cwnd_event")
void BPF_PROG(gcn_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	if (gcn_sk(sk)->law.cwnd_q16 &&
	    (event == CA_EVENT_ECN_IS_CE || event == CA_EVENT_ECN_NO_CE))
		gcn_rx(sk, event == CA_EVENT_ECN_IS_CE);
}

/* TCP restarts only who leaves the window to it. */
SEC("struct_ops/gcn_min_tso_segs")
u32 BPF_PROG(gcn_min_tso_segs, struct sock *sk)
{
	const struct gcn_params *p = gcn_params_get();
	u32 idle_rtos = tcp_idle_rtos(sk);

	if (idle_rtos && p && gcn_sk(sk)->law.cwnd_q16) {
		gcn_on_idle_restart(&gcn_sk(sk)->law, p, idle_rtos, TCP_INIT_CWND);
		gcn_apply(sk);
	}
	return tcp_min_tso_segs(sk);
}

/* Begins with the window that TCP has: its initial one, or the route's. */
SEC("struct_ops/gcn_cong_init")
void BPF_PROG(gcn_cong_init, struct sock *sk)
{
	const struct bpf_gcn_profile *p = gcn_profile();
	const struct tcp_sock *tp = tcp_sk(sk);
	struct gcn_sock *gs = gcn_sk(sk);

	gs->law.cwnd_q16 = 0;
	if (!p)
		return;
	gcn_init(&gs->law, &p->law, tp->snd_cwnd, tp->snd_nxt);
	gs->delivered = tp->delivered;
	gs->delivered_ce = tp->delivered_ce;
	gs->prior_rcv_nxt = tp->rcv_nxt;
	gs->ce = 0;
	gcn_apply(sk);
	tcp_set_dscp(sk, p->dscp);
}

SEC(".struct_ops")
struct tcp_congestion_ops bpf_gcn = {
	.flags = TCP_CONG_NON_RESTRICTED | TCP_CONG_NEEDS_ECN,
	.name = "bpf_gcn",
	.init = (void *)gcn_cong_init,
	.ssthresh = (void *)gcn_ssthresh,
	.cong_control = (void *)gcn_cong_control,
	.set_state = (void *)gcn_set_state,
	.cwnd_event = (void *)gcn_cwnd_event,
	.min_tso_segs = (void *)gcn_min_tso_segs,
	.undo_cwnd = (void *)gcn_undo_cwnd,
};
