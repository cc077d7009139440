// SPDX-License-Identifier: GPL-2.0
/*
 * The congestion control `timely`: from TCP's events to the law of core/timely.h, and
 * from its rate to the pacing rate. TCP's own timer or sch_fq does the pacing.
 *
 * Where TCP differs from the paper's RDMA: an ACK, not a completion, brings the RTT, of
 * its newest packet, stamped by the kernel at a grain of 1 us; the update is made once
 * in seg_bytes. The segment's own time on the wire stays in the RTT (3.1 subtracts it),
 * because an ACK may be for any of its packets. And the receiver is free to delay ACKs.
 */
#include <linux/math64.h>
#include <linux/module.h>

#include "compat/compat.h"

#define SWIFT_DIV_U64(dividend, divisor) div64_u64(dividend, divisor)
#include "core/timely.h"

static struct timely_tunables tunables = {
#define TIMELY_X(name, def, lo, hi, doc) .name = (def),
	TIMELY_TUNABLES(TIMELY_X)
#undef TIMELY_X
};

/* Checked as a whole, once, when the module is loaded. */
#define TIMELY_X(name, def, lo, hi, doc)                     \
	module_param_named(name, tunables.name, uint, 0444); \
	MODULE_PARM_DESC(name, doc);
TIMELY_TUNABLES(TIMELY_X)
#undef TIMELY_X

static struct timely_params params __ro_after_init;

struct timely_sock {
	struct timely_state law;
	u16 gso_max_segs; /* the socket's own */
};

/* Whose rate_Bps is 0 until init(), which comes after the ACK of a SYN. */
static struct timely_sock *timely_sk(const struct sock *sk)
{
	return inet_csk_ca(sk);
}

static void timely_apply(struct sock *sk)
{
	const struct timely_state *law = &timely_sk(sk)->law;
	struct tcp_sock *tp = tcp_sk(sk);
	u32 srtt_ns = swift_saturate_u32((u64)(tp->srtt_us >> 3) * NSEC_PER_USEC);
	u32 cwnd = timely_cwnd_pkts(law, &params, srtt_ns, tp->mss_cache);

	tcp_snd_cwnd_set(tp, min(cwnd, tp->snd_cwnd_clamp));
	WRITE_ONCE(sk->sk_pacing_rate,
		   min_t(u64, law->rate_Bps, READ_ONCE(sk->sk_max_pacing_rate)));
	/* Pacing spaces bursts, and a burst is a segment. A new route sets this anew. */
	sk->sk_gso_max_segs = min_t(u32, timely_sk(sk)->gso_max_segs,
				    max(params.seg_bytes / tp->mss_cache, 1U));
}

/* As swift_rtt_ns() of the module: t_ack - t_departure of the newest segment acked. */
static u32 timely_rtt_ns(const struct tcp_sock *tp, const struct rate_sample *rs)
{
	u32 rtt_us;

	if (!rs->prior_mstamp || rs->delivered < 0 || rs->is_retrans || rs->is_ack_delayed)
		return 0;
	rtt_us = tcp_stamp_us_delta(tp->tcp_mstamp, tp->first_tx_mstamp);
	return swift_saturate_u32((u64)max(rtt_us, 1U) * NSEC_PER_USEC);
}

/* Section 5: what is delivered while the application, not the rate, holds the flow. */
static u64 timely_app_Bps(const struct tcp_sock *tp, const struct rate_sample *rs)
{
	if (!rs->is_app_limited || rs->delivered < 0 || rs->interval_us <= 0)
		return ~0ULL;
	return div64_u64((u64)rs->delivered * tp->mss_cache * USEC_PER_SEC, rs->interval_us);
}

static void timely_cong_control(struct sock *sk, u32 ack, int flag, const struct rate_sample *rs)
{
	struct timely_state *law = &timely_sk(sk)->law;
	const struct tcp_sock *tp = tcp_sk(sk);
	struct timely_sample in = {
		.now_ns = tp->tcp_clock_cache,
		.app_Bps = timely_app_Bps(tp, rs),
		.rtt_ns = timely_rtt_ns(tp, rs),
		.acked_bytes = max(rs->acked_sacked, 0) * tp->mss_cache,
	};

	if (!law->rate_Bps)
		return;
	timely_on_ack(law, &params, &in);
	timely_apply(sk);
}

static void timely_cong_control_old(struct sock *sk, const struct rate_sample *rs)
{
	timely_cong_control(sk, 0, 0, rs);
}

/*
 * Recovery is entered once for each loss episode, Loss with every timeout. ECN marks are
 * not TIMELY's signal and change nothing; it does not ask for ECN either.
 */
static void timely_set_state(struct sock *sk, u8 new_state)
{
	struct timely_state *law = &timely_sk(sk)->law;

	if (!law->rate_Bps || new_state < TCP_CA_Recovery)
		return;
	timely_on_loss(law, &params);
	timely_apply(sk);
}

static u32 timely_ssthresh(struct sock *sk)
{
	return tcp_sk(sk)->snd_ssthresh; /* no slow start here */
}

static u32 timely_undo_cwnd(struct sock *sk)
{
	return tcp_snd_cwnd(tcp_sk(sk));
}

static void timely_cong_init(struct sock *sk)
{
	struct timely_sock *ts = timely_sk(sk);

	BUILD_BUG_ON(sizeof(*ts) > ICSK_CA_PRIV_SIZE);
	timely_init(&ts->law, &params);
	ts->gso_max_segs = sk->sk_gso_max_segs;
	tcp_sk(sk)->snd_ssthresh = TCP_INFINITE_SSTHRESH;
	cmpxchg(&sk->sk_pacing_status, SK_PACING_NONE, SK_PACING_NEEDED);
	timely_apply(sk);
}

static void timely_release(struct sock *sk)
{
	struct timely_sock *ts = timely_sk(sk);

	if (!ts->law.rate_Bps)
		return;
	sk->sk_gso_max_segs = ts->gso_max_segs;
	WRITE_ONCE(sk->sk_pacing_rate, READ_ONCE(sk->sk_max_pacing_rate));
}

static struct tcp_congestion_ops timely_ops __read_mostly = {
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "timely",
	.owner = THIS_MODULE,
	.init = timely_cong_init,
	.release = timely_release,
	.ssthresh = timely_ssthresh,
	.cong_control = SWIFT_CONG_CONTROL(timely_cong_control, timely_cong_control_old),
	.set_state = timely_set_state,
	.undo_cwnd = timely_undo_cwnd,
};

static int __init timely_module_init(void)
{
	const char *bad = timely_params_prepare(&params, &tunables);

	if (bad) {
		pr_err("timely: parameter %s is out of range or contradicts another\n", bad);
		return -EINVAL;
	}
	return tcp_register_congestion_control(&timely_ops);
}

static void __exit timely_module_exit(void)
{
	tcp_unregister_congestion_control(&timely_ops);
}

module_init(timely_module_init);
module_exit(timely_module_exit);
MODULE_DESCRIPTION("TIMELY (SIGCOMM 2015) over TCP, to compare Swift with");
MODULE_LICENSE("GPL");
