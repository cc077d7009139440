// SPDX-License-Identifier: GPL-2.0
/*
 * The window: what the counters are at its two ends, what is in the histograms between
 * them, samples of each flow, and the round trips as a law would see them.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/inet_diag.h>
#include <linux/rcupdate.h>
#include <linux/tracepoint.h>
#include <trace/events/tcp.h>

#include "labload.h"

/* --- Counters ------------------------------------------------------------------------- */

/* As sock_diag does, without the socket's lock. */
static void load_ask_law(struct sock *sk, struct tcp_swift_info *law)
{
	const struct tcp_congestion_ops *ops;
	union tcp_cc_info info;
	int attr = 0;

	memset(law, 0, sizeof(*law));
	rcu_read_lock();
	ops = READ_ONCE(inet_csk(sk)->icsk_ca_ops);
	if (ops && ops->get_info && ops->get_info(sk, ~0U, &attr, &info) >= sizeof(*law) &&
	    attr == TCP_SWIFT_DIAG_ATTR)
		memcpy(law, &info, sizeof(*law));
	rcu_read_unlock();
}

static void load_count_end(const struct load_end *end, struct load_counters *now)
{
	const struct tcp_sock *tp;

	if (!end->sock)
		return;
	tp = tcp_sk(end->sock->sk);
	now->retrans += READ_ONCE(tp->total_retrans);
	now->rtos += READ_ONCE(tp->total_rto);
}

void load_counters_now(const struct load_flow *flow, struct load_counters *now)
{
	const struct load_end *client = &flow->end[LOAD_CLIENT], *server = &flow->end[LOAD_SERVER];
	struct sock *sk;

	memset(now, 0, sizeof(*now));
	now->received = READ_ONCE(server->received);
	now->messages = READ_ONCE(flow->messages);
	load_count_end(client, now);
	load_count_end(server, now);
	if (!client->sock)
		return;
	sk = client->sock->sk;
	now->connected = server->sock && READ_ONCE(sk->sk_state) == TCP_ESTABLISHED;
	now->cwnd_pkts = tcp_snd_cwnd(tcp_sk(sk));
	now->srtt_us = READ_ONCE(tcp_sk(sk)->srtt_us) >> 3;
	load_ask_law(sk, &now->law);
}

/* Since @base; what is no counter stays as it is. */
static void load_counters_since(const struct load_flow *flow, struct load_counters *now)
{
	load_counters_now(flow, now);
	now->received -= flow->base.received;
	now->messages -= flow->base.messages;
	now->retrans -= flow->base.retrans;
	now->rtos -= flow->base.rtos;
}

/* Of the window, if it is over; up to now, if not. */
void load_counters(const struct load_flow *flow, struct load_counters *to)
{
	spin_lock_bh(&load.lock);
	if (load.window >= LOAD_WINDOW_OVER)
		*to = flow->result;
	else
		load_counters_since(flow, to);
	spin_unlock_bh(&load.lock);
}

/* --- The window: under load.lock ---------------------------------------------------------- */

/* Everything else is to go on meanwhile: if it did not, this machine was too slow. */
static void load_note_late(u64 due_ns)
{
	load.late_ns = max(load.late_ns, ktime_get_ns() - load.go_ns - due_ns);
}

static void load_window_open(void)
{
	struct load_group *group;
	u32 i;

	for (i = 0; i < LOAD_GROUPS_MAX; i++) {
		group = load.groups[i];
		if (!group)
			continue;
		memset(&group->rtt, 0, sizeof(group->rtt));
		memset(&group->fct, 0, sizeof(group->fct));
	}
	for (i = 0; i < load.n_flows; i++)
		load_counters_now(load.flows[i], &load.flows[i]->base);
	load_truth_reset();
	load.late_ns = 0;
	load_note_late(load.start_ns);
	WRITE_ONCE(load.window, LOAD_WINDOW_OPEN);
}

static void load_window_close(enum load_window how)
{
	u32 i;

	for (i = 0; i < load.n_flows; i++)
		load_counters_since(load.flows[i], &load.flows[i]->result);
	WRITE_ONCE(load.window, how);
	wake_up_all(&load.wait);
}

static void load_sample_flow(const struct load_flow *flow, u64 time_ns)
{
	struct load_sample *sample = records_add(&load.samples);
	const struct socket *sock = flow->end[LOAD_CLIENT].sock;
	struct tcp_swift_info law;

	if (!sample)
		return;
	if (!sock) { /* it opens late */
		*sample = (struct load_sample){ .time_ns = time_ns, .flow = flow->id };
		return;
	}
	load_ask_law(sock->sk, &law);
	*sample = (struct load_sample){
		.time_ns = time_ns,
		.flow = flow->id,
		.cwnd_q16 = min_not_zero(law.fcwnd_q16, law.ecwnd_q16),
		.received = flow->end[LOAD_SERVER].received,
		.fcwnd_q16 = law.fcwnd_q16,
		.ecwnd_q16 = law.ecwnd_q16,
	};
	if (!sample->cwnd_q16)
		sample->cwnd_q16 = tcp_snd_cwnd(tcp_sk(sock->sk)) << 16;
}

/* Opens, samples, closes; returns when it is needed next, 0 = never. */
static u64 load_window_tick(u64 now_ns)
{
	u32 i;

	if (now_ns == load.start_ns)
		load_window_open();
	if (now_ns == load.next_sample_ns) {
		for (i = 0; i < load.n_flows; i++)
			load_sample_flow(load.flows[i], now_ns);
		load.next_sample_ns += load.sample_ns;
	}
	if (now_ns == load.end_ns) {
		load_note_late(load.end_ns);
		load_window_close(LOAD_WINDOW_OVER);
		return 0;
	}
	return min(load.next_sample_ns, load.end_ns);
}

static enum hrtimer_restart load_window_timer(struct hrtimer *timer)
{
	u64 next_ns;

	spin_lock_bh(&load.lock);
	next_ns = load_window_tick(ktime_to_ns(hrtimer_get_expires(timer)) - load.go_ns);
	spin_unlock_bh(&load.lock);
	if (!next_ns)
		return HRTIMER_NORESTART;
	hrtimer_set_expires(timer, ns_to_ktime(load.go_ns + next_ns));
	return HRTIMER_RESTART;
}

void load_window_start(void)
{
	if (load.window == LOAD_WINDOW_ARMED)
		hrtimer_start(&load.window_timer, ns_to_ktime(load.go_ns + load.start_ns),
			      HRTIMER_MODE_ABS_SOFT);
}

int load_measure(u64 start_ns, u64 end_ns, u64 sample_ns)
{
	u64 samples;
	int err;

	if (load.window == LOAD_WINDOW_ARMED || load.window == LOAD_WINDOW_OPEN) {
		pr_err("measure: the window before is not over\n");
		return -EEXIST;
	}
	if (end_ns <= start_ns ||
	    (load.state == LOAD_GOING && load.go_ns + start_ns <= ktime_get_ns())) {
		pr_err("start_ns=%llu: not before end_ns, or past\n", start_ns);
		return -EINVAL;
	}
	if (sample_ns) {
		samples = div64_u64(end_ns - start_ns, sample_ns) + 1;
		err = samples > RECORDS_MAX ? -ENOSPC :
		      records_reserve(&load.samples, samples * load.n_flows);
		if (err) {
			pr_err("sample_ns=%llu: %llu samples of %u flows, room for %lu in all\n",
			       sample_ns, samples, load.n_flows, RECORDS_MAX);
			return err;
		}
	}
	load.samples.count = 0;
	load.start_ns = start_ns;
	load.end_ns = end_ns;
	load.sample_ns = sample_ns;
	load.next_sample_ns = sample_ns ? start_ns : U64_MAX;
	load.window = LOAD_WINDOW_ARMED;
	if (load.state == LOAD_GOING)
		load_window_start();
	return 0;
}

void load_window_stop(void)
{
	hrtimer_cancel(&load.window_timer);
	spin_lock_bh(&load.lock);
	if (load.window != LOAD_WINDOW_OVER)
		load_window_close(LOAD_WINDOW_CUT);
	spin_unlock_bh(&load.lock);
}

void load_window_init(void)
{
	hrtimer_init(&load.window_timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
	load.window_timer.function = load_window_timer;
}

/* --- Round trips ------------------------------------------------------------------------ */

/* The newest segment that an ACK covers, in part at least. */
static const struct sk_buff *load_newest_acked(const struct sock *sk, u32 ack)
{
	struct sk_buff *skb = tcp_rtx_queue_head(sk), *newest = NULL;

	for (; skb && before(TCP_SKB_CB(skb)->seq, ack); skb = skb_rb_next(skb))
		newest = skb;
	return newest;
}

/* A segment that was sent twice, or that a SACK told of before, tells no time: -1. */
static s64 load_rtt_ns(const struct sock *sk, u32 ack)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	const struct sk_buff *newest;

	if (!after(ack, tp->snd_una) || after(ack, tp->snd_nxt))
		return -1;
	newest = load_newest_acked(sk, ack);
	if (!newest || TCP_SKB_CB(newest)->sacked & (TCPCB_EVER_RETRANS | TCPCB_SACKED_ACKED))
		return -1;
	return max(tcp_clock_ns() - newest->skb_mstamp_ns, 0);
}

/*
 * The first statement of tcp_rcv_established(): the socket is locked, TCP has not looked
 * yet.
 */
static void load_probe(void *data, struct sock *sk, struct sk_buff *skb)
{
	struct load_end *end;
	s64 rtt_ns;

	if (READ_ONCE(sk->sk_data_ready) != load_data_ready)
		return;
	end = sk->sk_user_data;
	rtt_ns = READ_ONCE(load.window) == LOAD_WINDOW_OPEN ?
			 load_rtt_ns(sk, TCP_SKB_CB(skb)->ack_seq) : -1;
	load_truth_received(end, skb, max(rtt_ns, 0));
	if (rtt_ns < 0)
		return;
	spin_lock_bh(&load.lock);
	if (load.window == LOAD_WINDOW_OPEN)
		hist_add(&end->flow->group->rtt, rtt_ns);
	spin_unlock_bh(&load.lock);
}

/* The kernel does not export the tracepoint by name: find it by its string. */
static struct tracepoint *load_tcp_probe;

static void load_find_tcp_probe(struct tracepoint *tp, void *data)
{
	if (!strcmp(tp->name, "tcp_probe"))
		load_tcp_probe = tp;
}

int load_probe_start(void)
{
	for_each_kernel_tracepoint(load_find_tcp_probe, NULL);
	if (!load_tcp_probe) {
		pr_err("this kernel has no tcp_probe tracepoint (CONFIG_TRACEPOINTS)\n");
		return -EOPNOTSUPP;
	}
	return tracepoint_probe_register(load_tcp_probe, load_probe, NULL);
}

void load_probe_stop(void)
{
	tracepoint_probe_unregister(load_tcp_probe, load_probe, NULL);
	tracepoint_synchronize_unregister();
}
