// SPDX-License-Identifier: GPL-2.0
/*
 * The congestion control `bpf_timely`: from TCP's events to the law of core/timely.h, and
 * from its rate to the pacing rate. The lab's module timely does the same; but BPF cannot
 * limit a socket's bursts to seg_bytes: they are what TCP makes of the pacing rate.
 */
#include "kernel.h"
#include "telemetry_hook.h"
#include "maps.h"

char _license[] SEC("license") = "GPL";

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct bpf_timely_profile);
} timely_params SEC(".maps");

SWIFT_STATIC_ASSERT(sizeof(struct timely_state) <= 104, "icsk_ca_priv is that large");

/* Whose rate_Bps is 0 until init(), which comes after the ACK of a SYN. */
static __always_inline struct timely_state *timely_sk(const struct sock *sk)
{
	return (struct timely_state *)inet_csk(sk)->icsk_ca_priv;
}

/* Null until user space wrote them. */
static __always_inline const struct bpf_timely_profile *timely_profile(void)
{
	u32 first = 0;
	const struct bpf_timely_profile *p = bpf_map_lookup_elem(&timely_params, &first);

	return p && p->law.max_Bps ? p : 0;
}

static __always_inline const struct timely_params *timely_params_get(void)
{
	const struct bpf_timely_profile *p = timely_profile();

	return p ? &p->law : 0;
}

static __always_inline void timely_apply(struct sock *sk, const struct timely_params *p)
{
	const struct timely_state *law = timely_sk(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	tcp_snd_cwnd_set(tp, timely_cwnd_pkts(law, p, tcp_srtt_ns(tp), tp->mss_cache));
	sk->sk_pacing_rate = law->rate_Bps < sk->sk_max_pacing_rate ? law->rate_Bps :
								      sk->sk_max_pacing_rate;
}

/* t_ack - t_departure of the newest segment acked. */
static __always_inline u32 timely_rtt_ns(const struct tcp_sock *tp, const struct rate_sample *rs)
{
	u32 rtt_us;

	if (!rs->prior_mstamp || rs->delivered < 0 || rs->is_retrans || rs->is_ack_delayed)
		return 0;
	rtt_us = tcp_stamp_us_delta(tp->tcp_mstamp, tp->first_tx_mstamp);
	return swift_saturate_u32((u64)swift_max_u32(rtt_us, 1) * NSEC_PER_USEC);
}

/* Section 5: what is delivered while the application, not the rate, holds the flow. */
static __always_inline u64 timely_app_Bps(const struct tcp_sock *tp, const struct rate_sample *rs)
{
	s64 interval_us = rs->interval_us;
	s32 delivered = rs->delivered;

	if (!rs->is_app_limited || delivered < 0 || interval_us <= 0)
		return ~0ULL;
	return SWIFT_DIV_U64((u64)(u32)delivered * tp->mss_cache * USEC_PER_SEC, (u64)interval_us);
}

/*
 * For the telemetry program; @e: sk, times and acked_pkts. The rate as a window is what is
 * in flight at that rate for one RTT. Global: the verifier looks at it once.
 */
__noinline int timely_show(struct telemetry_event *e, u64 rate_before_Bps, u64 rate_Bps,
			   u32 srtt_us, u32 mss)
{
	u64 window_bytes = SWIFT_DIV_U64(rate_Bps * srtt_us, USEC_PER_SEC);

	if (!e || !e->sample.rtt_ns)
		return 0;
	e->has = 1 << TELEMETRY_RTT | 1 << TELEMETRY_WINDOW;
	e->sample.fcwnd_q16 = swift_saturate_u32(SWIFT_DIV_U64(window_bytes << SWIFT_Q16_SHIFT,
							       swift_max_u32(mss, 1)));
	e->sample.ecwnd_q16 = e->sample.fcwnd_q16;
	e->sample.decision = telemetry_decision(rate_before_Bps, rate_Bps);
	return swift_decided(e);
}

SEC("struct_ops/timely_cong_control")
void BPF_PROG(timely_cong_control, struct sock *sk)
{
	const struct rate_sample *rs = cong_control_sample(ctx);
	const struct timely_params *p = timely_params_get();
	struct timely_state *law = timely_sk(sk);
	const struct tcp_sock *tp = tcp_sk(sk);
	struct timely_sample in;
	u64 before_Bps;

	if (!p || !law->rate_Bps)
		return;
	before_Bps = law->rate_Bps;
	in.now_ns = tp->tcp_clock_cache;
	in.app_Bps = timely_app_Bps(tp, rs);
	in.rtt_ns = timely_rtt_ns(tp, rs);
	in.acked_bytes = rs->acked_sacked * tp->mss_cache;
	timely_on_ack(law, p, &in);
	timely_apply(sk, p);
	if (telemetry_is_on()) {
		struct telemetry_event e = { .sk = (u64)sk };

		e.sample.now_ns = in.now_ns;
		e.sample.rtt_ns = in.rtt_ns;
		e.sample.acked_pkts = rs->acked_sacked;
		timely_show(&e, before_Bps, law->rate_Bps, tcp_srtt_us(tp), tp->mss_cache);
	}
}

/* Recovery is entered once for each loss episode, Loss with every timeout. */
SEC("struct_ops/timely_set_state")
void BPF_PROG(timely_set_state, struct sock *sk, u8 new_state)
{
	const struct timely_params *p = timely_params_get();
	struct timely_state *law = timely_sk(sk);

	if (!p || !law->rate_Bps || new_state < TCP_CA_RECOVERY)
		return;
	timely_on_loss(law, p);
	timely_apply(sk, p);
}

SEC("struct_ops/timely_ssthresh")
u32 BPF_PROG(timely_ssthresh, struct sock *sk)
{
	return tcp_sk(sk)->snd_ssthresh; /* no slow start here */
}

SEC("struct_ops/timely_undo_cwnd")
u32 BPF_PROG(timely_undo_cwnd, struct sock *sk)
{
	return tcp_sk(sk)->snd_cwnd;
}

SEC("struct_ops/timely_cong_init")
void BPF_PROG(timely_cong_init, struct sock *sk)
{
	const struct bpf_timely_profile *p = timely_profile();
	struct timely_state *law = timely_sk(sk);

	law->rate_Bps = 0;
	if (!p)
		return;
	timely_init(law, &p->law);
	tcp_sk(sk)->snd_ssthresh = TCP_INFINITE_SSTHRESH;
	if (sk->sk_pacing_status == SK_PACING_NONE)
		sk->sk_pacing_status = SK_PACING_NEEDED;
	timely_apply(sk, &p->law);
	tcp_set_dscp(sk, p->dscp);
}

SEC("struct_ops/timely_release")
void BPF_PROG(timely_release, struct sock *sk)
{
	if (timely_sk(sk)->rate_Bps)
		sk->sk_pacing_rate = sk->sk_max_pacing_rate;
}

SEC(".struct_ops")
struct tcp_congestion_ops bpf_timely = {
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "bpf_timely",
	.init = (void *)timely_cong_init,
	.release = (void *)timely_release,
	.ssthresh = (void *)timely_ssthresh,
	.cong_control = (void *)timely_cong_control,
	.set_state = (void *)timely_set_state,
	.undo_cwnd = (void *)timely_undo_cwnd,
};
