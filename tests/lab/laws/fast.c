// SPDX-License-Identifier: GPL-2.0
/*
 * The congestion control `fast`: from TCP's events to the law of core/fast.h, and from
 * its rate to the pacing rate. TCP's own timer or sch_fq does the pacing.
 *
 * The equation answers an RTT that is larger than the smallest, be it by a percent: TCP's
 * own RTT, in microseconds, would be congestion all the time. So it is taken to the ns,
 * at tcp_probe, of the newest segment that an ACK covers.
 */
#include <linux/math64.h>
#include <linux/module.h>

#include "acked.h"
#include "compat/compat.h"

#define SWIFT_DIV_U64(dividend, divisor) div64_u64(dividend, divisor)
#include "core/fast.h"

static struct fast_tunables tunables = {
#define FAST_X(name, def, lo, hi, doc) .name = (def),
	FAST_TUNABLES(FAST_X)
#undef FAST_X
};

/* Checked as a whole, once, when the module is loaded. */
#define FAST_X(name, def, lo, hi, doc)                       \
	module_param_named(name, tunables.name, uint, 0444); \
	MODULE_PARM_DESC(name, doc);
FAST_TUNABLES(FAST_X)
#undef FAST_X

static struct fast_params params __ro_after_init;

struct fast_sock {
	struct fast_state law;
	u32 rtt_ns; /* of the ACK that is being taken; 0 = none */
	u16 gso_max_segs; /* the socket's own */
};

/* Whose rate_Bps is 0 until init(), which comes after the ACK of a SYN. */
static struct fast_sock *fast_sk(const struct sock *sk)
{
	return inet_csk_ca(sk);
}

static void fast_apply(struct sock *sk)
{
	const struct fast_state *law = &fast_sk(sk)->law;
	struct tcp_sock *tp = tcp_sk(sk);
	u32 srtt_ns = swift_saturate_u32((u64)(tp->srtt_us >> 3) * NSEC_PER_USEC);
	u32 cwnd = fast_cwnd_pkts(law, &params, srtt_ns, tp->mss_cache);

	tcp_snd_cwnd_set(tp, min(cwnd, tp->snd_cwnd_clamp));
	WRITE_ONCE(sk->sk_pacing_rate,
		   min_t(u64, law->rate_Bps, READ_ONCE(sk->sk_max_pacing_rate)));
	/* Pacing spaces bursts, and a burst is a segment. A new route sets this anew. */
	sk->sk_gso_max_segs = min_t(u32, fast_sk(sk)->gso_max_segs,
				    max(params.seg_bytes / tp->mss_cache, 1U));
}

/* --- RTTs -------------------------------------------------------------------------------- */

static struct tcp_congestion_ops fast_ops;

/*
 * TIMELY's RTT (3.1), t_completion - t_send - segment / line rate. The time on the wire must
 * not be in it, or segments would be congested for being longer than the shortest.
 */
static u32 fast_rtt_ns(const struct sock *sk, const struct sk_buff *skb)
{
	const struct sk_buff *newest = acked_newest(sk, skb);

	if (!newest)
		return 0;
	return acked_rtt_ns(newest, div_u64((u64)newest->len * 8 * NSEC_PER_USEC,
					    tunables.max_rate_mbps));
}

/* Before TCP looks at the packet: the segments that it acknowledges are still there. */
static void fast_probe(void *data, struct sock *sk, const struct sk_buff *skb)
{
	if (inet_csk(sk)->icsk_ca_ops == &fast_ops)
		fast_sk(sk)->rtt_ns = fast_rtt_ns(sk, skb);
}

/* The packet is const in newer kernels; control-flow integrity compares prototypes. */
static void fast_probe_old(void *data, struct sock *sk, struct sk_buff *skb)
{
	fast_probe(data, sk, skb);
}

#define fast_probe_fn ((void *)SWIFT_TCP_PROBE(fast_probe, fast_probe_old))

/* --- ACKs -------------------------------------------------------------------------------- */

/* What is delivered while the application, not the rate, holds the flow. */
static u64 fast_app_Bps(const struct tcp_sock *tp, const struct rate_sample *rs)
{
	if (!rs->is_app_limited || rs->delivered < 0 || rs->interval_us <= 0)
		return ~0ULL;
	return div64_u64((u64)rs->delivered * tp->mss_cache * USEC_PER_SEC, rs->interval_us);
}

static void fast_cong_control(struct sock *sk, u32 ack, int flag, const struct rate_sample *rs)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct fast_sock *fs = fast_sk(sk);
	struct fast_sample in = {
		.now_ns = tp->tcp_clock_cache,
		.app_Bps = fast_app_Bps(tp, rs),
		.rtt_ns = rs->is_ack_delayed ? 0 : fs->rtt_ns,
		.acked_bytes = max(rs->acked_sacked, 0) * tp->mss_cache,
	};

	fs->rtt_ns = 0;
	if (!fs->law.rate_Bps)
		return;
	fast_on_ack(&fs->law, &params, &in);
	fast_apply(sk);
}

static void fast_cong_control_old(struct sock *sk, const struct rate_sample *rs)
{
	fast_cong_control(sk, 0, 0, rs);
}

/* --- Coming and going ---------------------------------------------------------------------- */

/* Recovery is entered once for each loss episode, Loss with every timeout. */
static void fast_set_state(struct sock *sk, u8 new_state)
{
	struct fast_state *law = &fast_sk(sk)->law;

	if (!law->rate_Bps || new_state < TCP_CA_Recovery)
		return;
	fast_on_loss(law, &params);
	fast_apply(sk);
}

static u32 fast_ssthresh(struct sock *sk)
{
	return tcp_sk(sk)->snd_ssthresh; /* no slow start here */
}

static u32 fast_undo_cwnd(struct sock *sk)
{
	return tcp_snd_cwnd(tcp_sk(sk));
}

static void fast_cong_init(struct sock *sk)
{
	struct fast_sock *fs = fast_sk(sk);

	BUILD_BUG_ON(sizeof(*fs) > ICSK_CA_PRIV_SIZE);
	fast_init(&fs->law, &params);
	fs->rtt_ns = 0;
	fs->gso_max_segs = sk->sk_gso_max_segs;
	tcp_sk(sk)->snd_ssthresh = TCP_INFINITE_SSTHRESH;
	cmpxchg(&sk->sk_pacing_status, SK_PACING_NONE, SK_PACING_NEEDED);
	fast_apply(sk);
}

static void fast_release(struct sock *sk)
{
	struct fast_sock *fs = fast_sk(sk);

	if (!fs->law.rate_Bps)
		return;
	sk->sk_gso_max_segs = fs->gso_max_segs;
	WRITE_ONCE(sk->sk_pacing_rate, READ_ONCE(sk->sk_max_pacing_rate));
}

static struct tcp_congestion_ops fast_ops __read_mostly = {
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "fast",
	.owner = THIS_MODULE,
	.init = fast_cong_init,
	.release = fast_release,
	.ssthresh = fast_ssthresh,
	.cong_control = SWIFT_CONG_CONTROL(fast_cong_control, fast_cong_control_old),
	.set_state = fast_set_state,
	.undo_cwnd = fast_undo_cwnd,
};

static int __init fast_module_init(void)
{
	const char *bad = fast_params_prepare(&params, &tunables);
	int err;

	if (bad) {
		pr_err("fast: parameter %s is out of range or contradicts another\n", bad);
		return -EINVAL;
	}
	err = acked_probe_start(fast_probe_fn);
	if (err)
		return err;
	err = tcp_register_congestion_control(&fast_ops);
	if (err)
		acked_probe_stop(fast_probe_fn);
	return err;
}

static void __exit fast_module_exit(void)
{
	tcp_unregister_congestion_control(&fast_ops);
	acked_probe_stop(fast_probe_fn);
}

module_init(fast_module_init);
module_exit(fast_module_exit);
MODULE_DESCRIPTION("FAST*, the FAST TCP-like law of TIMELY's table 1, to compare with");
MODULE_LICENSE("GPL");
