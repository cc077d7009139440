// SPDX-License-Identifier: GPL-2.0
/*
 * The congestion control `theta-powertcp`: from TCP's events to the law of theta_powertcp.h,
 * and from its window to TCP's and to the pacing rate. TCP's own timer or sch_fq paces.
 *
 * The gradient is of RTTs that differ by ns, so they are taken to the ns, of the newest
 * segment that an ACK covers. A segment leaves as several packets; the RTT is its last one's.
 */
#define pr_fmt(fmt) "theta-powertcp: " fmt

#include <linux/math64.h>
#include <linux/module.h>

#include "acked.h"
#include "compat/compat.h"

#define SWIFT_DIV_U64(dividend, divisor) div64_u64(dividend, divisor)
#include "theta_powertcp.h"

static struct theta_tunables tunables = {
#define THETA_X(name, def, lo, hi, doc) .name = (def),
	THETA_TUNABLES(THETA_X)
#undef THETA_X
};

/* Checked as a whole, once, when the module is loaded. */
#define THETA_X(name, def, lo, hi, doc)                      \
	module_param_named(name, tunables.name, uint, 0444); \
	MODULE_PARM_DESC(name, doc);
THETA_TUNABLES(THETA_X)
#undef THETA_X

static struct theta_params params __ro_after_init;

struct theta_sock {
	struct theta_state law;
	u32 rtt_ns; /* of the ACK that is being taken; 0 = none */
	u16 gso_max_segs; /* the socket's own */
};

/* Whose cwnd_bytes is 0 until init(), which comes after the ACK of a SYN. */
static struct theta_sock *theta_sk(const struct sock *sk)
{
	return inet_csk_ca(sk);
}

static void theta_apply(struct sock *sk)
{
	const struct theta_state *law = &theta_sk(sk)->law;
	struct tcp_sock *tp = tcp_sk(sk);
	u32 cwnd = theta_cwnd_pkts(law, tp->mss_cache);

	tcp_snd_cwnd_set(tp, min(cwnd, tp->snd_cwnd_clamp));
	WRITE_ONCE(sk->sk_pacing_rate, min_t(u64, theta_rate_Bps(law, &params),
					     READ_ONCE(sk->sk_max_pacing_rate)));
	/* Pacing spaces bursts, and a burst is a segment. A new route sets this anew. */
	sk->sk_gso_max_segs = min_t(u32, theta_sk(sk)->gso_max_segs,
				    params.burst_pkts);
}

/* --- RTTs -------------------------------------------------------------------------------- */

static struct tcp_congestion_ops theta_ops;

/* Less what the packets before the segment's last one took to leave. */
static u32 theta_rtt_ns(const struct sock *sk, const struct sk_buff *skb)
{
	const struct sk_buff *newest = acked_newest(sk, skb);
	u64 before_bytes;

	if (!newest)
		return 0;
	before_bytes = newest->len - min(newest->len, tcp_sk(sk)->mss_cache);
	return acked_rtt_ns(newest, div_u64(before_bytes * 8 * NSEC_PER_USEC, tunables.host_mbps));
}

/* Before TCP looks at the packet: the segments that it acknowledges are still there. */
static void theta_probe(void *data, struct sock *sk, const struct sk_buff *skb)
{
	if (inet_csk(sk)->icsk_ca_ops == &theta_ops)
		theta_sk(sk)->rtt_ns = theta_rtt_ns(sk, skb);
}

/* The packet is const in newer kernels; control-flow integrity compares prototypes. */
static void theta_probe_old(void *data, struct sock *sk, struct sk_buff *skb)
{
	theta_probe(data, sk, skb);
}

#define theta_probe_fn ((void *)SWIFT_TCP_PROBE(theta_probe, theta_probe_old))

/* --- ACKs -------------------------------------------------------------------------------- */

static void theta_cong_control(struct sock *sk, u32 ack, int flag, const struct rate_sample *rs)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct theta_sock *ts = theta_sk(sk);
	struct theta_sample in = {
		.now_ns = tp->tcp_clock_cache,
		.rtt_ns = rs->is_ack_delayed ? 0 : ts->rtt_ns,
		.ack_seq = tp->snd_una,
		.next_seq = tp->snd_nxt,
	};

	ts->rtt_ns = 0;
	if (!ts->law.cwnd_bytes)
		return;
	theta_on_ack(&ts->law, &params, &in);
	theta_apply(sk);
}

static void theta_cong_control_old(struct sock *sk, const struct rate_sample *rs)
{
	theta_cong_control(sk, 0, 0, rs);
}

/* --- Coming and going ---------------------------------------------------------------------- */

/* Recovery is entered once for each loss episode, Loss with every timeout. */
static void theta_set_state(struct sock *sk, u8 new_state)
{
	struct theta_state *law = &theta_sk(sk)->law;

	if (!law->cwnd_bytes || new_state < TCP_CA_Recovery)
		return;
	theta_on_loss(law, &params);
	theta_apply(sk);
}

static u32 theta_ssthresh(struct sock *sk)
{
	return tcp_sk(sk)->snd_ssthresh; /* no slow start here */
}

static u32 theta_undo_cwnd(struct sock *sk)
{
	return tcp_snd_cwnd(tcp_sk(sk));
}

/* All ones where no RTT was measured, as at the end that was connected to. */
static u32 theta_handshake_ns(const struct sock *sk)
{
	u32 rtt_us = tcp_min_rtt(tcp_sk(sk));

	return rtt_us < U32_MAX / NSEC_PER_USEC ? rtt_us * NSEC_PER_USEC : 0;
}

static void theta_cong_init(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct theta_sock *ts = theta_sk(sk);

	BUILD_BUG_ON(sizeof(*ts) > ICSK_CA_PRIV_SIZE);
	theta_init(&ts->law, &params, theta_handshake_ns(sk), TCP_INIT_CWND * tp->mss_cache,
		   tp->snd_nxt);
	ts->rtt_ns = 0;
	ts->gso_max_segs = sk->sk_gso_max_segs;
	tp->snd_ssthresh = TCP_INFINITE_SSTHRESH;
	cmpxchg(&sk->sk_pacing_status, SK_PACING_NONE, SK_PACING_NEEDED);
	theta_apply(sk);
}

static void theta_release(struct sock *sk)
{
	struct theta_sock *ts = theta_sk(sk);

	if (!ts->law.cwnd_bytes)
		return;
	sk->sk_gso_max_segs = ts->gso_max_segs;
	WRITE_ONCE(sk->sk_pacing_rate, READ_ONCE(sk->sk_max_pacing_rate));
}

static struct tcp_congestion_ops theta_ops __read_mostly = {
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "theta-powertcp",
	.owner = THIS_MODULE,
	.init = theta_cong_init,
	.release = theta_release,
	.ssthresh = theta_ssthresh,
	.cong_control = SWIFT_CONG_CONTROL(theta_cong_control, theta_cong_control_old),
	.set_state = theta_set_state,
	.undo_cwnd = theta_undo_cwnd,
};

static int __init theta_module_init(void)
{
	const char *bad = theta_params_prepare(&params, &tunables);
	int err;

	if (bad) {
		pr_err("parameter %s is out of range or contradicts another\n", bad);
		return -EINVAL;
	}
	err = acked_probe_start(theta_probe_fn);
	if (err)
		return err;
	err = tcp_register_congestion_control(&theta_ops);
	if (err)
		acked_probe_stop(theta_probe_fn);
	return err;
}

static void __exit theta_module_exit(void)
{
	tcp_unregister_congestion_control(&theta_ops);
	acked_probe_stop(theta_probe_fn);
}

module_init(theta_module_init);
module_exit(theta_module_exit);
MODULE_DESCRIPTION("theta-PowerTCP (NSDI 2022) over TCP, to compare Swift with");
MODULE_LICENSE("GPL");
