// SPDX-License-Identifier: GPL-2.0
/*
 * The congestion control `gcn`: from TCP's events to the law of core/gcn.h (the sender),
 * and the echo of ECN marks on prompt ACKs (the receiver). Unpaced.
 */
#include <linux/math64.h>
#include <linux/module.h>

#include "compat/compat.h"

#define SWIFT_DIV_U64(dividend, divisor) div64_u64(dividend, divisor)
#include "core/gcn.h"

static struct gcn_tunables tunables = {
#define GCN_X(name, def, lo, hi, doc) .name = (def),
	GCN_TUNABLES(GCN_X)
#undef GCN_X
};

/* Checked as a whole, once, when the module is loaded. */
#define GCN_X(name, def, lo, hi, doc)                        \
	module_param_named(name, tunables.name, uint, 0444); \
	MODULE_PARM_DESC(name, doc);
GCN_TUNABLES(GCN_X)
#undef GCN_X

static struct gcn_params params __ro_after_init;

struct gcn_sock {
	struct gcn_state law;
	u32 delivered; /* tcp_sock's counters at the latest ACK */
	u32 delivered_ce;
	u32 prior_rcv_nxt; /* before the newest packet */
	bool ce; /* the newest packet was marked */
};

/* Whose cwnd_q16 is 0 until init(), which comes after the ACK of a SYN. */
static struct gcn_sock *gcn_sk(const struct sock *sk)
{
	return inet_csk_ca(sk);
}

/* --- Sender ------------------------------------------------------------------------ */

static void gcn_apply(struct sock *sk)
{
	const struct gcn_state *law = &gcn_sk(sk)->law;
	struct tcp_sock *tp = tcp_sk(sk);

	tcp_snd_cwnd_set(tp, min(gcn_cwnd_pkts(law), tp->snd_cwnd_clamp));
	tp->snd_ssthresh = law->ssthresh_q16 == SWIFT_U32_MAX ?
		TCP_INFINITE_SSTHRESH : law->ssthresh_q16 >> SWIFT_Q16_SHIFT;
}

/* An ACK says with one bit whether all that it covers was marked: TCP counts both. */
static void gcn_cong_control(struct sock *sk, u32 ack, int flag, const struct rate_sample *rs)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct gcn_sock *gs = gcn_sk(sk);
	struct gcn_sample in = {
		.una = tp->snd_una,
		.nxt = tp->snd_nxt,
		.acked_pkts = tp->delivered - gs->delivered,
		.marked_pkts = tp->delivered_ce - gs->delivered_ce,
		.cwnd_limited = tcp_is_cwnd_limited(sk) &&
				inet_csk(sk)->icsk_ca_state != TCP_CA_Recovery,
	};

	if (!gs->law.cwnd_q16)
		return;
	gs->delivered = tp->delivered;
	gs->delivered_ce = tp->delivered_ce;
	gcn_on_ack(&gs->law, &params, &in);
	gcn_apply(sk);
}

static void gcn_cong_control_old(struct sock *sk, const struct rate_sample *rs)
{
	gcn_cong_control(sk, 0, 0, rs);
}

/* TCP asks at the start of each loss episode: where an undo will want to return to. */
static u32 gcn_ssthresh(struct sock *sk)
{
	gcn_note_undo(&gcn_sk(sk)->law);
	return tcp_sk(sk)->snd_ssthresh;
}

static u32 gcn_undo_cwnd(struct sock *sk)
{
	if (gcn_sk(sk)->law.cwnd_q16) {
		gcn_undo(&gcn_sk(sk)->law, &params);
		gcn_apply(sk);
	}
	return tcp_snd_cwnd(tcp_sk(sk));
}

/* Recovery is entered once for each loss episode, Loss with every timeout. */
static void gcn_set_state(struct sock *sk, u8 new_state)
{
	struct gcn_state *law = &gcn_sk(sk)->law;
	u32 nxt = tcp_sk(sk)->snd_nxt;

	if (!law->cwnd_q16 || new_state < TCP_CA_Recovery)
		return;
	if (new_state == TCP_CA_Loss)
		gcn_on_timeout(law, &params, nxt);
	else
		gcn_on_loss(law, &params, nxt);
	gcn_apply(sk);
}

/* TCP restarts only who leaves the window to it. */
static void gcn_tx_start(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 idle = tcp_jiffies32 - tp->lsndtime, rto = inet_csk(sk)->icsk_rto;

	if (tp->packets_out || !tp->lsndtime || !rto || idle <= rto ||
	    !READ_ONCE(sock_net(sk)->ipv4.sysctl_tcp_slow_start_after_idle))
		return;
	gcn_on_idle_restart(&gcn_sk(sk)->law, &params, idle / rto, TCP_INIT_CWND);
	gcn_apply(sk);
}

/* --- Receiver ------------------------------------------------------------------------ */

/* The ACK takes its TCP flags as a third argument since 6.16, and in backports. */
static void gcn_send_ack(struct sock *sk, u32 rcv_nxt)
{
	typedef void two_t(struct sock *sk, u32 rcv_nxt);
	typedef void three_t(struct sock *sk, u32 rcv_nxt, u16 flags);
	void *fn = __tcp_send_ack;

	if (__builtin_types_compatible_p(typeof(__tcp_send_ack), two_t))
		((two_t *)fn)(sk, rcv_nxt);
	else
		((three_t *)fn)(sk, rcv_nxt, 0);
}

/*
 * RFC 8257, 3.2: an ACK covers packets that are all marked or all unmarked. One that
 * waits when the mark changes goes out first, for what came before, as it was. GCN: no
 * ACK of a marked packet waits, the first unmarked one after it does not either.
 */
static void gcn_rx(struct sock *sk, bool ce)
{
	struct inet_connection_sock *icsk = inet_csk(sk);
	struct gcn_sock *gs = gcn_sk(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	if (ce != gs->ce && (icsk->icsk_ack.pending & ICSK_ACK_TIMER)) {
		if (gs->ce)
			tp->ecn_flags |= TCP_ECN_DEMAND_CWR;
		else
			tp->ecn_flags &= ~TCP_ECN_DEMAND_CWR;
		gcn_send_ack(sk, gs->prior_rcv_nxt);
	}
	if (ce || gs->ce)
		icsk->icsk_ack.pending |= ICSK_ACK_NOW;
	if (ce)
		tp->ecn_flags |= TCP_ECN_DEMAND_CWR;
	else
		tp->ecn_flags &= ~TCP_ECN_DEMAND_CWR;
	gs->ce = ce;
	gs->prior_rcv_nxt = tp->rcv_nxt;
}

/* --- Coming and going ------------------------------------------------------------------ */

static void gcn_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	if (!gcn_sk(sk)->law.cwnd_q16)
		return;
	if (event == CA_EVENT_ECN_IS_CE || event == CA_EVENT_ECN_NO_CE)
		gcn_rx(sk, event == CA_EVENT_ECN_IS_CE);
	else if (event == CA_EVENT_TX_START)
		gcn_tx_start(sk);
}

/* Begins with the window that TCP has: its initial one, or the route's. */
static void gcn_cong_init(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct gcn_sock *gs = gcn_sk(sk);

	BUILD_BUG_ON(sizeof(*gs) > ICSK_CA_PRIV_SIZE);
	gcn_init(&gs->law, &params, tcp_snd_cwnd(tp), tp->snd_nxt);
	gs->delivered = tp->delivered;
	gs->delivered_ce = tp->delivered_ce;
	gs->prior_rcv_nxt = tp->rcv_nxt;
	gs->ce = false;
	gcn_apply(sk);
}

static struct tcp_congestion_ops gcn_ops __read_mostly = {
	.flags = TCP_CONG_NON_RESTRICTED | TCP_CONG_NEEDS_ECN,
	.name = "gcn",
	.owner = THIS_MODULE,
	.init = gcn_cong_init,
	.ssthresh = gcn_ssthresh,
	.cong_control = SWIFT_CONG_CONTROL(gcn_cong_control, gcn_cong_control_old),
	.set_state = gcn_set_state,
	.cwnd_event = gcn_cwnd_event,
	.undo_cwnd = gcn_undo_cwnd,
};

static int __init gcn_module_init(void)
{
	const char *bad = gcn_params_prepare(&params, &tunables);

	if (bad) {
		pr_err("gcn: parameter %s is out of range\n", bad);
		return -EINVAL;
	}
	return tcp_register_congestion_control(&gcn_ops);
}

static void __exit gcn_module_exit(void)
{
	tcp_unregister_congestion_control(&gcn_ops);
}

module_init(gcn_module_init);
module_exit(gcn_module_exit);
MODULE_DESCRIPTION("GCN, Google's DCTCP (SIGCOMM 2020, 4.1), to compare Swift with");
MODULE_LICENSE("GPL");
