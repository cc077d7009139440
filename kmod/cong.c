// SPDX-License-Identifier: GPL-2.0
/*
 * The congestion control `swift`: from TCP's events to the law of core/swift.h, and
 * from its windows to snd_cwnd and the pacing rate. What a window becomes is decided
 * in the law; what TCP means by an event is decided here.
 */
#include <linux/inet_diag.h>
#include <linux/module.h>
#include <linux/netdevice.h>

#include "compat/compat.h"
#include "swift_credit.h"

#define CREATE_TRACE_POINTS
#include "trace.h"

static struct tcp_congestion_ops swift_guarded_ops;
static void swift_release(struct sock *sk);

/* Smoothed, for the once-an-RTT of losses; a sample has its own RTT. */
static u32 swift_srtt_ns(const struct tcp_sock *tp)
{
	return swift_saturate_u32((u64)(tp->srtt_us >> 3) * NSEC_PER_USEC);
}

/* --- Windows out ------------------------------------------------------------------- */

/* D11. What is known of the path is asked for in the few moments in which it may matter. */
static bool swift_drains(const struct sock *sk, const struct swift_sock *ss,
			 const struct swift_params *p)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u64 wall_ns = ktime_to_ns(ktime_mono_to_real(ns_to_ktime(tp->tcp_clock_cache)));
	u32 rtt_ns = swift_srtt_ns(tp);
	u32 base_ns, second_ns;

	div_u64_rem(wall_ns, NSEC_PER_SEC, &second_ns);
	if (!swift_may_drain(rtt_ns, second_ns))
		return false;
	base_ns = swift_path_base_ns(&ss->law, swift_path_base_of(ss->path_key, NULL));
	return swift_in_drain(p, base_ns, rtt_ns, second_ns);
}

/*
 * No rate but the application's limit: so large that a packet takes less than a nanosecond, and
 * that TCP's limit of what may wait below it, rate >> shift where sch_fq says that the socket is
 * paced, is the limit of who is not (tcp_limit_output_bytes).
 */
#define SWIFT_UNPACED_SHIFT 24
#define SWIFT_PACED_SHIFT 10 /* TCP's own */

/*
 * MPTCP's scheduler sends where what waits is gone first, by these rates, of which it takes the
 * lower 32 bits: twice the window's, as TCP's own in slow start.
 */
static u64 swift_subflow_Bps(const struct tcp_sock *tp, u32 cwnd_q16)
{
	u32 rtt_us = max(tp->srtt_us >> 3, 1U);
	u64 a_us_q16 = div_u64((u64)tp->mss_cache * max(cwnd_q16, SWIFT_Q16_ONE), rtt_us);

	return clamp_t(u64, min(a_us_q16, 1ULL << 42) * (2 * USEC_PER_SEC) >> SWIFT_Q16_SHIFT,
		       1, U32_MAX);
}

/* Once a round: who limits a socket below its rate sets that as well. */
static noinline void swift_set_rate(struct sock *sk, u32 cwnd_q16)
{
	u64 rate_Bps = (u64)READ_ONCE(sock_net(sk)->ipv4.sysctl_tcp_limit_output_bytes)
		       << SWIFT_UNPACED_SHIFT;
	u8 shift = SWIFT_UNPACED_SHIFT;
	u64 max_Bps = READ_ONCE(sk->sk_max_pacing_rate);

	if (sk_is_mptcp(sk)) {
		rate_Bps = swift_subflow_Bps(tcp_sk(sk), cwnd_q16);
		shift = SWIFT_PACED_SHIFT;
	}
	if (rate_Bps > max_Bps) {
		rate_Bps = max_Bps;
		shift = SWIFT_PACED_SHIFT;
	}
	if (likely(READ_ONCE(sk->sk_pacing_rate) == rate_Bps))
		return;
	WRITE_ONCE(sk->sk_pacing_rate, rate_Bps);
	WRITE_ONCE(sk->sk_pacing_shift, shift);
}

/* The law's window, or in the drains that all flows take together less; which one, in q16. */
static __always_inline u32 swift_apply(struct sock *sk, struct swift_sock *ss,
				       const struct swift_params *p, bool new_round)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 law_q16 = swift_cwnd_q16(&ss->law), cwnd_q16 = law_q16;
	u32 pkts;

	if (p->target_policy != SWIFT_TARGET_STATIC && unlikely(swift_drains(sk, ss, p))) {
		cwnd_q16 = swift_drain_q16(p, law_q16, ss->echo_on);
		ss->drained = cwnd_q16 < law_q16;
	} else if (unlikely(ss->drained)) {
		ss->drained = 0;
	}
	pkts = swift_snd_cwnd_pkts(&ss->dither, cwnd_q16, new_round);
	tcp_snd_cwnd_set(tp, min(pkts, tp->snd_cwnd_clamp));
	if (new_round)
		swift_set_rate(sk, cwnd_q16);
	return cwnd_q16;
}

/* Where no ACK is in hand. */
static noinline void swift_apply_again(struct sock *sk, struct swift_sock *ss,
				       const struct swift_params *p, bool new_round)
{
	swift_apply(sk, ss, p, new_round);
}

/* --- Pacing ------------------------------------------------------------------------- */

/*
 * Until then TCP's pacing timer is set, and while it is, swift_hold() holds data back. The stamps
 * that packets carry stay what they are: ACKs pass (3.6), TSval never goes back, no RTO grows, and
 * nothing outlives the timer.
 *
 * A timer that is cancelled while it waits leaves us its reference to the socket.
 */
static void swift_wait_until(struct sock *sk, u64 next_ns)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (hrtimer_try_to_cancel(&tp->pacing_timer) != 1) {
		if (next_ns <= tp->tcp_clock_cache)
			return;
		sock_hold(sk);
	}
	hrtimer_start(&tp->pacing_timer, ns_to_ktime(next_ns), HRTIMER_MODE_ABS_PINNED_SOFT);
}

/*
 * Lines 29 to 32, below one packet: a packet each rtt / cwnd. The ACK that empties the
 * flight, which is when this is called, says when the next one leaves, by the newest window,
 * and RTT or target (D16): a pacing delay after the one that it acknowledges.
 */
static noinline void swift_space(struct sock *sk, const struct swift_net *sn,
				 const struct swift_params *p, u32 cwnd_q16,
				 const struct swift_sample *in)
{
	const struct swift_state *law = &swift_sk(sk)->law;
	struct tcp_sock *tp = tcp_sk(sk);
	u32 rtt_ns = in->rtt_ns;
	u64 next_ns = rtt_ns ? tp->tcp_clock_cache - rtt_ns : tp->first_tx_mstamp * NSEC_PER_USEC;

	if (!rtt_ns)
		rtt_ns = swift_srtt_ns(tp);
	if (cwnd_q16 < SWIFT_Q16_ONE)
		rtt_ns = swift_pacing_rtt_ns(law, p->split, cwnd_q16, rtt_ns,
					     swift_target_ns(law, p, 0, in->path_base_ns,
							     in->path_least_ns),
					     get_random_u32(), false);
	rtt_ns = min_t(u32, rtt_ns, READ_ONCE(sn->max_rtt_ns));
	swift_wait_until(sk, next_ns + swift_pacing_delay_ns(cwnd_q16, rtt_ns));
}

/* An application that limited its rate meanwhile needs the status that we have set. */
static void swift_restore_status(struct sock *sk, struct swift_sock *ss)
{
	if (ss->pacing_status != SWIFT_NOT_HELD && READ_ONCE(sk->sk_max_pacing_rate) == ~0UL)
		cmpxchg(&sk->sk_pacing_status, SK_PACING_NEEDED, ss->pacing_status);
	ss->pacing_status = SWIFT_NOT_HELD;
}

/*
 * Just before TCP looks whether the pacing lets it send. It does not where the status has it
 * compare, and the last packet's stamp is ahead of its clock: as it is when both are of this
 * moment, and the clock 1 ns slow. sch_fq, too, changes the status, with each packet.
 */
static void swift_hold(struct sock *sk, struct swift_sock *ss)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (!hrtimer_is_queued(&tp->pacing_timer) && ss->start != SWIFT_START_WAITS) {
		swift_restore_status(sk, ss);
		return;
	}
	if (ss->pacing_status == SWIFT_NOT_HELD)
		ss->pacing_status = READ_ONCE(sk->sk_pacing_status);
	WRITE_ONCE(sk->sk_pacing_status, SK_PACING_NEEDED);
	if (tp->tcp_wstamp_ns <= tp->tcp_clock_cache)
		tp->tcp_wstamp_ns = tp->tcp_clock_cache--;
}

/* Data that waits goes on at once, by another congestion control's rules. */
static void swift_unhold(struct sock *sk, struct swift_sock *ss)
{
	struct hrtimer *timer = &tcp_sk(sk)->pacing_timer;

	swift_restore_status(sk, ss);
	if (hrtimer_try_to_cancel(timer) == 1)
		hrtimer_start(timer, 0, HRTIMER_MODE_ABS_PINNED_SOFT);
}

/* --- The WAN guard ------------------------------------------------------------------ */

/*
 * A path this long is no datacenter's, and on a delay target Swift would starve beside
 * loss-based flows: hand the socket to Reno, as DCTCP does without ECN. Long is what has
 * shown no shorter RTT for as long as TCP remembers (tcp_min_rtt_wlen); swift_guarded_acked()
 * takes back what was a queue. What waited in hosts, by their own word, is not the path's.
 */
static bool swift_guard(struct sock *sk, struct swift_sock *ss, const struct swift_net *sn,
			const struct swift_sample *in)
{
	u32 max_rtt_ns = READ_ONCE(sn->max_rtt_ns);

	if (likely(in->rtt_ns <= max_rtt_ns) || swift_path_rtt_ns(in) <= max_rtt_ns ||
	    (u64)tcp_min_rtt(tcp_sk(sk)) * NSEC_PER_USEC <= max_rtt_ns)
		return false;

	swift_release(sk);
	ss->guarded = 1;
	WRITE_ONCE(inet_csk(sk)->icsk_ca_ops, &swift_guarded_ops);
	swift_count(sn, guarded_flows);
	swift_count(sn, guarded_flows_total);
	tcp_sk(sk)->snd_ssthresh = TCP_INFINITE_SSTHRESH;
	tcp_snd_cwnd_set(tcp_sk(sk), TCP_INIT_CWND);
	return true;
}

/* --- PLB ------------------------------------------------------------------------------ */

/*
 * Qureshi et al., "PLB: Congestion Signals are Simple and Effective for Network Load Balancing",
 * SIGCOMM 2022: a flow whose path stays congested takes another one, by another flow label, which
 * switches hash. The kernel's own (tcp_plb_update_state(), since 6.2) has a switch of its own, and
 * thresholds for ECN marks; here congested is what Swift says, on any kernel: a round in which
 * most packets met more than 1.01 times the target. After five in a row the path is changed, as
 * Falcon does. Where a host is the limit, or a window below one packet, whose round is a packet
 * and whose bottleneck the link to a receiver, another path would not help.
 */
#define SWIFT_PLB_ROUNDS 5

static noinline void swift_plb_acked(struct swift_sock *ss, u32 acked_pkts, u32 target_ns)
{
	bool above = ss->law.fabric_ns > (u64)target_ns + target_ns / 100;
	s32 pkts = min_t(u32, acked_pkts, S16_MAX);

	ss->plb_balance = clamp(ss->plb_balance + (above ? pkts : -pkts), S16_MIN, S16_MAX);
}

static noinline void swift_plb_new_round(struct sock *sk, struct swift_sock *ss,
					 const struct swift_net *sn)
{
	bool congested = ss->plb_balance > 0 && ss->law.fabric.cwnd_q16 >= SWIFT_Q16_ONE &&
			 ss->law.fabric.cwnd_q16 <= ss->law.endpoint.cwnd_q16;

	ss->plb_balance = 0;
	if (!congested) {
		ss->plb_rounds = 0;
		return;
	}
	swift_count(sn, plb_rounds);
	if (++ss->plb_rounds < SWIFT_PLB_ROUNDS)
		return;
	ss->plb_rounds = 0;
	if (!sk_rethink_txhash(sk))
		return;
	swift_count(sn, plb_repaths);
	swift_plb_account(sk);
}

/* --- Samples in ----------------------------------------------------------------------- */

/*
 * t6 - t1 of the newest segment that this ACK covers; 0 if it covers none, or one that
 * was sent twice. first_tx_mstamp is that segment's departure (EDT): time spent waiting
 * for the pacing is not in it. rs->rtt_us would not do: for an ACK that covers any
 * retransmission it comes from TCP timestamps, at a grain of 1 ms.
 *
 * One sample of a retransmission counts: the first after a timeout, if it is no shorter
 * than the path (RACK's test). Its transmissions are at least an RTO apart, so it is
 * clear which was acknowledged; and without it a window that timeouts had reset to 0.001
 * packet would repair all losses at one packet each 1000 RTTs before it might grow.
 *
 * That is in microseconds; what rx.c found is preferred, unless it is of another segment.
 */
static u32 swift_rtt_ns(const struct tcp_sock *tp, struct swift_sock *ss,
			const struct rate_sample *rs)
{
	u32 rtt_us, rtt_ns;

	if (!rs->prior_mstamp || rs->delivered < 0)
		return 0;
	rtt_us = tcp_stamp_us_delta(tp->tcp_mstamp, tp->first_tx_mstamp);
	if (rs->is_retrans && (!ss->timed_out || rtt_us < tcp_min_rtt(tp)))
		return 0;
	ss->timed_out = 0;
	rtt_ns = swift_saturate_u32((u64)max(rtt_us, 1U) * NSEC_PER_USEC);
	if (ss->rtt_ns && abs((s64)ss->rtt_ns - rtt_ns) < 2 * NSEC_PER_USEC)
		return ss->rtt_ns;
	return rtt_ns;
}

/*
 * 3.5 wants the forward path's hops, which the peer echoes. Without an echo take the
 * reverse path's: in a fabric both have the same length.
 */
static u8 swift_hops(const struct swift_sock *ss)
{
	return ss->knows_hops ? ss->echo_hops : ss->rx_hops;
}

/*
 * Do packets wait for the NIC that @sk sends by? The qdisc holds some, and the NIC's queue is full
 * (BQL, or the driver's ring) or had room a moment ago: drivers look for what was sent before they
 * look for what arrived. Not seen is what waits below a bond or a VLAN, and in who shapes; nor is a
 * flow's queue, if TCP does not know which of several it is. What is seen may be old in a moment.
 */
static noinline bool swift_own_queue(const struct sock *sk)
{
	const struct dst_entry *dst = rcu_dereference(sk->sk_dst_cache);
	const struct netdev_queue *txq;
	const struct net_device *dev;
	const struct Qdisc *qdisc;
	int index, queues;

	if (!dst)
		return false;
	dev = READ_ONCE(dst->dev);
	queues = READ_ONCE(dev->real_num_tx_queues);
	index = queues == 1 ? 0 : sk_tx_queue_get(sk);
	if (index < 0 || index >= queues)
		return false;
	txq = netdev_get_tx_queue(dev, index);
	qdisc = rcu_dereference(txq->qdisc);
	if (!qdisc || qdisc_is_empty(qdisc))
		return false;
	/* Other CPUs stop and wake it. */
	return data_race(netif_xmit_stopped(txq)) ||
	       test_bit(__QDISC_STATE_SCHED, &qdisc->state);
}

static void swift_fill_sample(const struct sock *sk, struct swift_sock *ss,
			      const struct swift_net *sn, const struct swift_params *p,
			      const struct rate_sample *rs, struct swift_sample *in)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	in->now_ns = tp->tcp_clock_cache;
	in->rtt_ns = swift_rtt_ns(tp, ss, rs);
	in->acked_pkts = max(rs->acked_sacked, 0);
	in->path_least_ns = 0;
	in->path_base_ns = p->target_policy == SWIFT_TARGET_STATIC ? 0 :
			   swift_path_base_of(ss->path_key, &in->path_least_ns);
	in->local_ns = ss->has_local ? ss->local_ns : 0;
	in->remote_ns = ss->has_echo ? ss->remote_ns : 0;
	in->has_echo = ss->has_echo;
	in->echo_expected = ss->echo_on && ss->echo_misses < SWIFT_ECHO_MISSES_MAX;
	if (unlikely(swift_refuse_echo(in)))
		swift_count(sn, echoes_refused);
	/* A quarter that holds a flow says nothing about its whole window. */
	in->cwnd_limited = tp->is_cwnd_limited && !ss->drained;
	in->hops = swift_hops(ss);
	in->short_sized = !ss->full_sized;
	in->own_queue = in->rtt_ns && unlikely(swift_asks_own_queue(&ss->law, p)) &&
			swift_own_queue(sk);
	/*
	 * A lone packet, no echo, and longer than any path here: a peer without Swift
	 * delayed its ACK (by 40 ms), which says nothing about the path.
	 */
	if (!ss->has_echo && rs->prior_in_flight <= 1 && !ss->first_due &&
	    in->rtt_ns > READ_ONCE(sn->max_rtt_ns))
		in->rtt_ns = 0;
}

static void swift_account(const struct swift_net *sn, const struct swift_sock *ss,
			  const struct swift_sample *in, const struct swift_verdict *out)
{
	swift_count(sn, samples);
	if (ss->has_local && ss->local_source == TCP_SWIFT_SOURCE_HARDWARE)
		swift_count(sn, samples_hardware);
	else if (ss->has_local)
		swift_count(sn, samples_software);
	if (out->fabric_action == SWIFT_DECREASE)
		swift_count(sn, decreases_fabric);
	if (out->endpoint_action == SWIFT_DECREASE)
		swift_count(sn, decreases_endpoint);
	if (out->clamped && in->has_echo)
		swift_count(sn, echoes_clamped);
}

/* By value: of what has an address each ACK would fill the memory. */
static noinline void swift_trace(const struct sock *sk, struct swift_sample in,
				 struct swift_verdict out)
{
	const struct swift_sock *ss = swift_sk(sk);
	bool fabric = out.fabric_action == SWIFT_DECREASE;
	bool endpoint = out.endpoint_action == SWIFT_DECREASE;
	struct tcp_swift_sample rec = {
		.now_ns = in.now_ns,
		.rtt_ns = in.rtt_ns,
		.fabric_ns = out.fabric_ns,
		.remote_ns = in.remote_ns,
		.local_ns = in.local_ns,
		.endpoint_ns = ss->law.endpoint_ns,
		.fabric_target_ns = out.fabric_target_ns,
		.endpoint_target_ns = out.endpoint_target_ns,
		.fcwnd_q16 = ss->law.fabric.cwnd_q16,
		.ecwnd_q16 = ss->law.endpoint.cwnd_q16,
		.acked_pkts = in.acked_pkts,
		.hops = in.hops,
		.local_source = ss->has_local ? ss->local_source : TCP_SWIFT_SOURCE_NONE,
		.remote_source = in.has_echo ? ss->remote_source : TCP_SWIFT_SOURCE_NONE,
	};

	if (fabric && endpoint)
		rec.decision = TCP_SWIFT_DECREASE_BOTH;
	else if (fabric)
		rec.decision = TCP_SWIFT_DECREASE_FABRIC;
	else if (endpoint)
		rec.decision = TCP_SWIFT_DECREASE_ENDPOINT;
	else if (out.fabric_action == SWIFT_INCREASE || out.endpoint_action == SWIFT_INCREASE)
		rec.decision = TCP_SWIFT_INCREASE;
	else
		rec.decision = TCP_SWIFT_HOLD;
	trace_swift_sample(sk, &rec);
}

/* A window's worth of packets was delivered since the last call that said so. */
static bool swift_new_round(const struct tcp_sock *tp, struct swift_sock *ss)
{
	if (swift_starts_knows(ss) || before(tp->delivered, ss->next_round_delivered))
		return false;
	ss->next_round_delivered = tp->delivered + max(tcp_packets_in_flight(tp), 1U);
	return true;
}

/* Tell the host's other flows, if a target is learnt at all. */
static __always_inline void swift_learn(const struct swift_sock *ss, const struct swift_params *p,
					u64 now_ns, u32 delay_ns, u32 luck_ns)
{
	if (p->target_policy != SWIFT_TARGET_STATIC)
		swift_path_learn(ss->path_key, p, now_ns, delay_ns, luck_ns);
}

/* With the RTTs' variance, which TCP never lets fall below the least RTO, nor raises to it. */
static void swift_change_rto_min(struct sock *sk, u32 least_jiffies)
{
	struct inet_connection_sock *icsk = inet_csk(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	WRITE_ONCE(icsk->icsk_rto_min, least_jiffies);
	if (!tp->srtt_us)
		return;
	tp->rttvar_us = max(tp->mdev_us, tcp_rto_min_us(sk));
	tp->mdev_max_us = tp->rttvar_us;
	if (!icsk->icsk_backoff)
		icsk->icsk_rto = min(__tcp_set_rto(tp), TCP_RTO_MAX);
}

/*
 * TCP waits 200 ms at the least, because ACKs may be delayed. A peer with an echo sends them at
 * once (3.6). A route's rto_min goes before ours, as before any.
 */
static void swift_set_rto_min(struct sock *sk, struct swift_sock *ss)
{
	u32 least_jiffies = usecs_to_jiffies(READ_ONCE(swift_net_of(sk)->rto_min_us));
	u32 before_jiffies = inet_csk(sk)->icsk_rto_min;

	if (!ss->echo_on || !least_jiffies || before_jiffies <= least_jiffies ||
	    before_jiffies > SWIFT_RTO_MIN_JIFFIES_MAX)
		return;
	ss->rto_min_jiffies = before_jiffies;
	swift_change_rto_min(sk, least_jiffies);
}

static void swift_reset_rto_min(struct sock *sk, struct swift_sock *ss)
{
	if (ss->rto_min_jiffies)
		swift_change_rto_min(sk, ss->rto_min_jiffies);
	ss->rto_min_jiffies = 0;
}

/*
 * Flows whose packets were lost together time out together, and, as all of them double, meet at
 * each try after it. Each waits up to a third more or less for its next one (Vasudevan et al.,
 * SIGCOMM'09, add up to a half).
 */
static void swift_spread_timeouts(struct sock *sk, const struct swift_sock *ss)
{
	struct inet_connection_sock *icsk = inet_csk(sk);
	u32 third = icsk->icsk_rto / 3;

	if (ss->rto_min_jiffies)
		icsk->icsk_rto += reciprocal_scale(get_random_u32(), 2 * third + 1) - third;
}

/*
 * Who left Swift delays ACKs again: where the least RTO is shorter than that, each lone segment
 * is sent twice, and so has no RTT.
 */
static void swift_miss_echo(struct sock *sk, struct swift_sock *ss, const struct swift_sample *in,
			    const struct rate_sample *rs)
{
	bool missed = ss->echo_misses == SWIFT_ECHO_MISSES_MAX;

	if (in->has_echo) {
		WRITE_ONCE(ss->echo_misses, 0);
		if (unlikely(missed))
			swift_set_rto_min(sk, ss);
	} else if (!missed && rs->acked_sacked > 0) {
		WRITE_ONCE(ss->echo_misses, ss->echo_misses + 1);
		if (unlikely(ss->echo_misses == SWIFT_ECHO_MISSES_MAX))
			swift_reset_rto_min(sk, ss);
	}
}

static __always_inline void swift_decide(struct sock *sk, struct swift_sock *ss,
					 const struct swift_net *sn, const struct swift_params *p,
					 const struct swift_sample *in,
					 const struct rate_sample *rs)
{
	struct swift_verdict out;

	if (rs->losses > 0 &&
	    swift_on_fast_recovery(&ss->law, p, in->now_ns, swift_srtt_ns(tcp_sk(sk))))
		swift_count(sn, decreases_loss);

	swift_on_ack(&ss->law, p, in, &out);
	if (ss->echo_on)
		swift_miss_echo(sk, ss, in, rs);
	if (!in->rtt_ns)
		return;

	if (unlikely(ss->start == SWIFT_START_UNDER_WAY))
		swift_start_answered(sk, ss, in->rtt_ns,
				     out.fabric_ns >= out.fabric_target_ns ||
				     (p->split && out.endpoint_ns >= out.endpoint_target_ns));
	if (out.base_sample_ns)
		swift_learn(ss, p, in->now_ns, out.base_sample_ns, out.base_luck_ns);
	swift_account(sn, ss, in, &out);
	if (unlikely(READ_ONCE(sn->plb)))
		swift_plb_acked(ss, in->acked_pkts, out.fabric_target_ns);
	if (trace_swift_sample_enabled())
		swift_trace(sk, *in, out);
}

/* Under rcu_read_lock(), whose namespace and parameters are good for the whole ACK. */
static void swift_acked(struct sock *sk, struct swift_sock *ss, const struct rate_sample *rs)
{
	const struct swift_net *sn = swift_net_of_rcu(sk);
	const struct swift_params *p = rcu_dereference(sn->params);
	struct swift_sample in;
	bool new_round;
	u32 cwnd_q16;

	swift_fill_sample(sk, ss, sn, p, rs, &in);
	if (in.rtt_ns) {
		ss->first_due = 0;
		if (unlikely(swift_guard(sk, ss, sn, &in)))
			return;
	}
	swift_decide(sk, ss, sn, p, &in, rs);

	/* An ACK that tcp_probe did not see must not inherit these. */
	ss->rtt_ns = 0;
	ss->full_sized = 0;
	ss->has_local = 0;
	ss->has_echo = 0;
	new_round = swift_new_round(tcp_sk(sk), ss);
	if (new_round && unlikely(READ_ONCE(sn->plb)))
		swift_plb_new_round(sk, ss, sn);
	cwnd_q16 = swift_apply(sk, ss, p, new_round);
	if (!tcp_sk(sk)->packets_out && ss->start != SWIFT_START_WAITS) {
		swift_start_left(sk, ss); /* without an RTT */
		if (!tcp_send_head(sk))
			ss->start = SWIFT_START_SILENT;
	}
	if (rs->prior_mstamp && !tcp_packets_in_flight(tcp_sk(sk)))
		swift_space(sk, sn, p, cwnd_q16, &in);
}

static void swift_cong_control(struct sock *sk, u32 ack, int flag, const struct rate_sample *rs)
{
	struct swift_sock *ss = swift_sk(sk);

	/*
	 * The ACK of a SYN comes before init(). Chosen between SYN and SYN-ACK, init() came
	 * too early: without the answer, and TCP is about to set a window of its own. Have it
	 * called again, where it is called for others.
	 */
	if (unlikely(sk->sk_state == TCP_SYN_SENT)) {
		swift_release(sk);
		inet_csk(sk)->icsk_ca_initialized = 0;
	}
	if (!ss->live)
		return;

	rcu_read_lock();
	swift_acked(sk, ss, rs);
	rcu_read_unlock();
}

static void swift_cong_control_old(struct sock *sk, const struct rate_sample *rs)
{
	swift_cong_control(sk, 0, 0, rs);
}

/* --- Loss, undo, idle ----------------------------------------------------------------- */

/*
 * TCP asks for this at the start of each loss episode. The answer has no use without
 * slow start; the call is where an undo will want to return to.
 */
static u32 swift_ssthresh(struct sock *sk)
{
	struct swift_sock *ss = swift_sk(sk);

	if (ss->live)
		swift_note_undo(&ss->law);
	return tcp_sk(sk)->snd_ssthresh;
}

static u32 swift_undo_cwnd(struct sock *sk)
{
	struct swift_sock *ss = swift_sk(sk);
	const struct swift_params *p;
	const struct swift_net *sn;

	if (ss->live) {
		rcu_read_lock();
		sn = swift_net_of_rcu(sk);
		p = rcu_dereference(sn->params);
		swift_undo(&ss->law, p);
		swift_count(sn, undos);
		swift_apply_again(sk, ss, p, false);
		rcu_read_unlock();
	}
	return tcp_snd_cwnd(tcp_sk(sk));
}

/*
 * Loss is entered anew with every timeout; a path MTU that shrank comes here as well, but
 * congests nothing, and leaves no undo_marker. Recovery may come from RACK's timer, whose
 * losses no rate_sample shows; those found by ACKs are seen in swift_decide(), and the
 * once-an-RTT keeps the two from cutting twice. CWR means an ECN mark from the network or
 * a drop in this host's own qdisc: Swift asks for neither, but who was marked must slow
 * down (RFC 3168).
 */
static void swift_set_state(struct sock *sk, u8 new_state)
{
	struct swift_sock *ss = swift_sk(sk);
	u64 now_ns = tcp_sk(sk)->tcp_clock_cache; /* the clock of the samples */
	const struct swift_params *p;
	const struct swift_net *sn;
	u32 rtt_ns;

	if (!ss->live || new_state < TCP_CA_CWR)
		return;
	if (new_state == TCP_CA_Loss && inet_csk(sk)->icsk_ca_state < TCP_CA_CWR &&
	    !tcp_sk(sk)->undo_marker)
		return;

	rtt_ns = swift_srtt_ns(tcp_sk(sk));
	rcu_read_lock();
	sn = swift_net_of_rcu(sk);
	p = rcu_dereference(sn->params);
	if (new_state == TCP_CA_Loss) {
		swift_start_left(sk, ss);
		ss->timed_out = 1;
		ss->plb_rounds = 0; /* TCP itself has changed the path */
		ss->plb_balance = 0;
		ss->drained = 0; /* the window is TCP's until the next ACK */
		swift_count(sn, decreases_timeout);
		swift_spread_timeouts(sk, ss);
		if (swift_on_timeout(&ss->law, p, now_ns, rtt_ns))
			swift_count(sn, window_resets);
	} else if (swift_on_fast_recovery(&ss->law, p, now_ns, rtt_ns)) {
		if (new_state == TCP_CA_Recovery)
			swift_count(sn, decreases_loss);
		else
			swift_count(sn, decreases_ecn);
		swift_apply_again(sk, ss, p, false);
	}
	rcu_read_unlock();
}

/*
 * In a half-closed connection tcp_probe is silent, but ACKs are not to be delayed there
 * either (3.6). Without data to acknowledge this asks for nothing.
 */
static void swift_in_ack_event(struct sock *sk, u32 flags)
{
	const struct swift_sock *ss = swift_sk(sk);

	if (!ss->live || sk->sk_state == TCP_ESTABLISHED)
		return;
	inet_csk(sk)->icsk_ack.pending |= ICSK_ACK_NOW;
	if (ss->credit)
		swift_credit_half_closed(sk);
}

/*
 * D21: who was silent for longer than a queue lasts waits for his turn, where there is something to
 * send, and room at the receiver. Not who is lent credit, nor where the peer may delay its answer.
 */
#define SWIFT_START_SILENCE_US 2000

static bool swift_starts_now(const struct sock *sk, const struct swift_sock *ss)
{
	const struct sk_buff *skb = tcp_send_head(sk);
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 bytes;

	if (!skb || !skb->len || !ss->echo_on || ss->credit ||
	    ss->echo_misses == SWIFT_ECHO_MISSES_MAX)
		return false;
	bytes = min(skb->len, tp->mss_cache);
	if (bytes < tp->mss_cache && (tp->nonagle & TCP_NAGLE_CORK))
		return false;
	return !after(TCP_SKB_CB(skb)->seq + bytes, tcp_wnd_end(tp));
}

/* Nobody was silent who goes on at once, or whose gap is not over. */
static bool swift_was_silent(struct tcp_sock *tp)
{
	u32 silence_us = tcp_stamp_us_delta(tp->tcp_mstamp, tp->delivered_mstamp);

	return tp->data_segs_out <= tp->syn_data ||
	       (silence_us >= SWIFT_START_SILENCE_US && !hrtimer_is_queued(&tp->pacing_timer));
}

static noinline void swift_start(struct sock *sk, struct swift_sock *ss)
{
	bool waited = ss->start == SWIFT_START_WAITS, late;
	struct tcp_sock *tp = tcp_sk(sk);
	const struct swift_params *p;
	u32 wait_ns;

	if (!swift_starts_now(sk, ss)) {
		swift_start_left(sk, ss);
		ss->start = SWIFT_START_SILENT;
		return;
	}
	if (ss->start == SWIFT_START_SILENT && !swift_was_silent(tp)) {
		ss->start = SWIFT_NO_START;
		return;
	}
	if (hrtimer_is_queued(&tp->pacing_timer))
		return;
	wait_ns = swift_start_ask(sk, ss, swift_srtt_ns(tp), &late);
	if (wait_ns) {
		swift_wait_until(sk, tp->tcp_clock_cache + wait_ns);
		if (!waited)
			swift_count(swift_net_of(sk), starts_delayed);
	} else if (late) {
		rcu_read_lock();
		p = rcu_dereference(swift_net_of_rcu(sk)->params);
		ss->law.fabric.cwnd_q16 = swift_starts_late_cwnd_q16(ss->law.fabric.cwnd_q16,
								     p->min_cwnd_q16);
		swift_apply_again(sk, ss, p, false);
		rcu_read_unlock();
	}
}

/*
 * Without this TCP would keep yesterday's window: it does not restart for us. And no ACK
 * will come to end a drain that the last one fell into.
 */
static void swift_tx_start(struct sock *sk, struct swift_sock *ss)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 idle = tcp_jiffies32 - tp->lsndtime;
	u32 rto = inet_csk(sk)->icsk_rto;
	const struct swift_params *p;
	const struct swift_net *sn;
	bool restarts;

	if (ss->start != SWIFT_NO_START) {
		swift_start(sk, ss);
		if (ss->start == SWIFT_START_WAITS)
			return;
	}
	restarts = tp->lsndtime && rto && idle > rto &&
		   READ_ONCE(sock_net(sk)->ipv4.sysctl_tcp_slow_start_after_idle);
	if (likely(!restarts && !ss->drained))
		return;

	rcu_read_lock();
	sn = swift_net_of_rcu(sk);
	p = rcu_dereference(sn->params);
	if (restarts && swift_on_idle_restart(&ss->law, p, idle / rto))
		swift_count(sn, idle_restarts);
	swift_apply_again(sk, ss, p, false);
	rcu_read_unlock();
}

/* SIRD: what needs credit asks for it with one packet, as if in a drain. */
static void swift_before_credit(struct sock *sk, struct swift_sock *ss)
{
	struct swift_credit *c = swift_credit_of(sk);

	if (!c)
		return;
	swift_demand_before(sk, c);
	ss->drained |= c->announcing;
}

/*
 * What TCP asks a congestion control just before it sends, whenever it does: here for the
 * moment's sake. (CA_EVENT_TX_START comes when the first packet is on its way.)
 */
static u32 swift_min_tso_segs(struct sock *sk)
{
	struct swift_sock *ss = swift_sk(sk);

	if (ss->live) {
		if (!tcp_sk(sk)->packets_out)
			swift_tx_start(sk, ss);
		else if (ss->start == SWIFT_START_WAITS) /* a probe, TCP's own, went ahead */
			swift_start_left(sk, ss);
		if (swift_has_credit(sk))
			swift_before_credit(sk, ss);
		swift_hold(sk, ss);
	}
	return READ_ONCE(sock_net(sk)->ipv4.sysctl_tcp_min_tso_segs);
}

/* --- Coming and going ------------------------------------------------------------------- */

/* What an application chose by IP_TOS or IPV6_TCLASS. */
static u8 swift_class(const struct sock *sk)
{
	u8 tos = inet_sk(sk)->tos;

#if IS_ENABLED(CONFIG_IPV6)
	if (sk->sk_family == AF_INET6)
		tos |= inet6_sk(sk)->tclass;
#endif
	return tos & ~INET_ECN_MASK;
}

/* As setsockopt() would: where the class is @from it becomes @to, ECN bits untouched. */
static void swift_change_class(struct sock *sk, u8 from, u8 to)
{
	struct inet_sock *inet = inet_sk(sk);

	if ((inet->tos & ~INET_ECN_MASK) == from)
		WRITE_ONCE(inet->tos, to | (inet->tos & INET_ECN_MASK));
#if IS_ENABLED(CONFIG_IPV6)
	if (sk->sk_family == AF_INET6 && (inet6_sk(sk)->tclass & ~INET_ECN_MASK) == from)
		inet6_sk(sk)->tclass = to | (inet6_sk(sk)->tclass & INET_ECN_MASK);
#endif
	if (READ_ONCE(sk->sk_priority) == rt_tos2priority(from))
		WRITE_ONCE(sk->sk_priority, rt_tos2priority(to));
}

/* 3.7: coexistence by QoS class. One that the application chose is its own affair. */
static void swift_set_dscp(struct sock *sk, struct swift_sock *ss)
{
	int dscp = READ_ONCE(swift_net_of(sk)->dscp);

	if (dscp <= 0 || swift_class(sk))
		return;
	ss->dscp = dscp;
	swift_change_class(sk, 0, dscp << 2);
}

/* A flow that is no longer Swift's has no place in Swift's class. */
static void swift_reset_dscp(struct sock *sk, struct swift_sock *ss)
{
	if (ss->dscp)
		swift_change_class(sk, ss->dscp << 2, 0);
	ss->dscp = 0;
}

/* Under another congestion control; newer kernels forget icsk_ca_initialized with that one. */
static bool swift_ran_before(const struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	return inet_csk(sk)->icsk_ca_initialized || tp->data_segs_out > tp->syn_data;
}

/*
 * The window that a socket begins with: that of its route if the administrator gave one;
 * what it has if it runs already (setsockopt); 1 if TCP says so, because the SYN was
 * lost; otherwise 0, the parameter init_cwnd.
 */
static u32 swift_init_cwnd_pkts(struct sock *sk)
{
	const struct dst_entry *dst = __sk_dst_get(sk);
	const struct tcp_sock *tp = tcp_sk(sk);

	if (swift_ran_before(sk))
		return tcp_snd_cwnd(tp);
	if ((dst && dst_metric(dst, RTAX_INITCWND)) || tcp_snd_cwnd(tp) == 1)
		return tcp_snd_cwnd(tp);
	return 0;
}

/*
 * Packets are stamped from the first flow on. Each change of that rewrites the code of all
 * CPUs: it stays until the module goes.
 */
static atomic_t swift_stamps = ATOMIC_INIT(0);

static void swift_stamps_on(void)
{
	if (!atomic_read(&swift_stamps) && !atomic_xchg(&swift_stamps, 1))
		net_enable_timestamp();
}

/* The window that SIRD's credit takes the place of begins with what is allowed unasked (4). */
static u32 swift_unsched_pkts(const struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct sird_link size;

	sird_link_set(&size, &swift_net_of(sk)->sird, swift_link_mbps(sk), swift_srtt_ns(tp),
		      swift_srtt_ns(tp));
	return max(size.unsched_bytes / max(tp->mss_cache, 1U), 1U);
}

/* @offers: that both ends made, enum swift_offers. */
static void swift_begin(struct sock *sk, u8 offers)
{
	bool echo_on = offers & SWIFT_OFFER_ECHO;
	struct swift_sock *ss = swift_sk(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	struct swift_net *sn = swift_net_of(sk);
	const struct swift_params *p;

	memset(ss, 0, sizeof(*ss));
	WRITE_ONCE(inet_csk(sk)->icsk_ca_ops, &swift_cong_ops);
	ss->live = 1;
	ss->pacing_status = SWIFT_NOT_HELD;
	if (offers & SWIFT_OFFER_CREDIT)
		ss->credit = swift_credit_begin(sk);
	ss->first_due = !tp->srtt_us ||
			swift_srtt_ns(tp) > READ_ONCE(sn->max_rtt_ns);
	ss->echo_on = echo_on;
	ss->path_key = swift_path_key(sk, echo_on);
	ss->next_round_delivered = tp->delivered;
	ss->start = swift_ran_before(sk) ? SWIFT_NO_START : SWIFT_START_SILENT;
	/* Flows that start together should not round up together. */
	ss->dither.residue_q16 = get_random_u32() >> 16;

	rcu_read_lock();
	p = rcu_dereference(sn->params);
	swift_init(&ss->law, p, swift_init_cwnd_pkts(sk) ?:
				(ss->credit ? swift_unsched_pkts(sk) : 0));
	/* Later, another congestion control has filled a queue. */
	if (tp->srtt_us && !swift_ran_before(sk))
		swift_learn(ss, p, tp->tcp_clock_cache,
			    swift_on_handshake(&ss->law, p, tp->tcp_clock_cache,
					       swift_srtt_ns(tp), tp->mss_cache,
					       swift_link_mbps(sk)),
			    0);
	swift_apply_again(sk, ss, p, true);
	rcu_read_unlock();
	tp->snd_ssthresh = TCP_INFINITE_SSTHRESH;
	/* Another congestion control may have left a status that only a limit needs. */
	if (READ_ONCE(sk->sk_max_pacing_rate) == ~0UL)
		cmpxchg(&sk->sk_pacing_status, SK_PACING_NEEDED, SK_PACING_NONE);
	swift_set_dscp(sk, ss);
	swift_set_rto_min(sk, ss);

	swift_stamps_on();
	swift_count(sn, flows);
	swift_count(sn, flows_total);
	if (echo_on)
		swift_count(sn, echo_flows_total);
}

static void swift_cong_init(struct sock *sk)
{
	/* Taken in any case: what the handshake left must not serve a later one. */
	swift_begin(sk, swift_offers_take(sk));
}

/* Also called for sockets that never came as far as init(). */
static void swift_release(struct sock *sk)
{
	struct swift_sock *ss = swift_sk(sk);

	if (!ss->live)
		return;
	ss->live = 0;
	swift_start_left(sk, ss);
	if (ss->credit)
		swift_credit_end(sk);
	ss->credit = 0;
	swift_reset_dscp(sk, ss);
	swift_reset_rto_min(sk, ss);
	swift_uncount(swift_net_of(sk), flows);
	swift_unhold(sk, ss);
	WRITE_ONCE(sk->sk_pacing_rate, READ_ONCE(sk->sk_max_pacing_rate));
	WRITE_ONCE(sk->sk_pacing_shift, SWIFT_PACED_SHIFT);
	/* The next congestion control starts from whole packets, one at least, and no drain. */
	if (ss->drained)
		tcp_snd_cwnd_set(tcp_sk(sk),
				 max(swift_cwnd_q16(&ss->law) >> SWIFT_Q16_SHIFT, 1U));
}

/*
 * An RTT well below the guard: it was a queue, and not the path, that looked long. Not of a socket
 * that was disconnected: TCP leaves it our ops, and measures its next handshake before init().
 */
static void swift_guarded_acked(struct sock *sk, const struct ack_sample *sample)
{
	const struct swift_net *sn = swift_net_of(sk);
	struct swift_sock *ss = swift_sk(sk);

	if (!ss->guarded || sample->rtt_us < 0 ||
	    inet_csk(sk)->icsk_ca_state != TCP_CA_Open ||
	    sample->rtt_us * 2ULL * NSEC_PER_USEC > READ_ONCE(sn->max_rtt_ns))
		return;
	swift_uncount(sn, guarded_flows);
	swift_begin(sk, ss->echo_on ? SWIFT_OFFER_ECHO : 0);
}

static void swift_guarded_release(struct sock *sk)
{
	struct swift_sock *ss = swift_sk(sk);

	if (!ss->guarded)
		return;
	ss->guarded = 0;
	swift_uncount(swift_net_of(sk), guarded_flows);
}

/* --- sock_diag ---------------------------------------------------------------------------- */

/*
 * Without the socket's lock. The law is plain C and knows no WRITE_ONCE(): of its words,
 * aligned and each read once, a reader may see what stood between two steps of a
 * decision, but nothing torn. The target is made of several.
 */
static size_t swift_get_info(struct sock *sk, u32 ext, int *attr, union tcp_cc_info *info)
{
	const struct swift_sock *ss = swift_sk(sk);
	const struct swift_params *p;
	struct tcp_swift_info rec;
	u32 base_ns, least_ns;

	BUILD_BUG_ON(sizeof(rec) > sizeof(*info));
	rec.fcwnd_q16 = READ_ONCE(ss->law.fabric.cwnd_q16);
	if (!(ext & (1 << (INET_DIAG_VEGASINFO - 1))) || !rec.fcwnd_q16)
		return 0;

	rec.fabric_ns = (READ_ONCE(ss->law.fabric_ns) & ~TCP_SWIFT_SOURCE_MASK) |
			READ_ONCE(ss->local_source);
	rec.endpoint_ns = (READ_ONCE(ss->law.endpoint_ns) & ~TCP_SWIFT_SOURCE_MASK) |
			  (READ_ONCE(ss->echo_misses) < SWIFT_ECHO_MISSES_MAX ?
				   READ_ONCE(ss->remote_source) : TCP_SWIFT_SOURCE_NONE);
	rcu_read_lock();
	p = rcu_dereference(swift_net_of(sk)->params);
	base_ns = swift_path_base_of(ss->path_key, &least_ns);
	/* Of several words, and of this moment at most. */
	rec.target_ns = data_race(swift_target_ns(&ss->law, p, swift_hops(ss), base_ns, least_ns));
	rcu_read_unlock();
	if (rec.target_ns == SWIFT_U32_MAX)
		rec.target_ns = 0; /* nothing learnt yet */
	rec.target_ns = (rec.target_ns & ~TCP_SWIFT_CREDIT_MASK) | swift_demand_limit(sk);
	rec.ecwnd_q16 = READ_ONCE(ss->law.endpoint.cwnd_q16);
	memcpy(info, &rec, sizeof(rec));
	*attr = TCP_SWIFT_DIAG_ATTR;
	return sizeof(rec);
}

struct tcp_congestion_ops swift_cong_ops __read_mostly = {
	/* As BBR: a namespace other than the first may make it its default. */
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "swift",
	.owner = THIS_MODULE,
	.init = swift_cong_init,
	.release = swift_release,
	.ssthresh = swift_ssthresh,
	.cong_control = SWIFT_CONG_CONTROL(swift_cong_control, swift_cong_control_old),
	.set_state = swift_set_state,
	.min_tso_segs = swift_min_tso_segs,
	.in_ack_event = swift_in_ack_event,
	.undo_cwnd = swift_undo_cwnd,
	.get_info = swift_get_info,
};

/* Never registered: a socket gets here through the guard alone. */
static struct tcp_congestion_ops swift_guarded_ops __read_mostly = {
	.name = "swift-reno",
	.owner = THIS_MODULE,
	.init = swift_cong_init, /* the socket was disconnected and connects anew */
	.release = swift_guarded_release,
	.ssthresh = tcp_reno_ssthresh,
	.cong_avoid = tcp_reno_cong_avoid,
	.undo_cwnd = tcp_reno_undo_cwnd,
	.pkts_acked = swift_guarded_acked,
};

int swift_cong_register(void)
{
	return tcp_register_congestion_control(&swift_cong_ops);
}

void swift_cong_unregister(void)
{
	tcp_unregister_congestion_control(&swift_cong_ops);
	if (atomic_read(&swift_stamps))
		net_disable_timestamp();
}
