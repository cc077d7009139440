// SPDX-License-Identifier: GPL-2.0
/*
 * SIRD's sender (core/sird.h, Algorithm 2): data carries up to where there is more, and whether
 * this host's link is busy (csn); and who begins more than the receiver allows for unasked
 * sends one segment, and waits.
 */
#include <linux/if_ether.h>
#include <linux/netdevice.h>

#include "swift_credit.h"

/* Receivers that are served within this time share the link (csn; only then). */
#define SWIFT_RECEIVERS_NS (20 * NSEC_PER_USEC)

/* What the application has written fits into the window, or more is likely to follow. */
static bool swift_demand_announces(const struct sock *sk, u32 queued_bytes, u32 window_bytes)
{
	const struct sk_buff *last = tcp_write_queue_tail(sk);
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 full_bytes = tp->gso_segs * tp->mss_cache;

	return sird_announces(queued_bytes, window_bytes,
			      !(TCP_SKB_CB(last)->tcp_flags & TCPHDR_PSH) ||
				      (full_bytes && last->len >= full_bytes));
}

/*
 * TCP waits for a third of the window before it sends less than a large segment
 * (tcp_tso_win_divisor): credit that idles is missing elsewhere. It does not where its last
 * segment is a millisecond old; what this is set to it is set anew with the next one. An
 * application's own pacing goes by it.
 */
static void swift_demand_at_once(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (tp->tcp_wstamp_ns <= tp->tcp_clock_cache && READ_ONCE(sk->sk_max_pacing_rate) == ~0UL)
		tp->tcp_wstamp_ns = min(tp->tcp_wstamp_ns,
					tp->tcp_clock_cache - 2 * NSEC_PER_MSEC);
}

/*
 * What the scale of the window adds to credit is not used. The next ACK tells the window anew,
 * and is to be looked at as one that may: if its field is the last one's, TCP's fast path does not.
 */
static void swift_demand_trim(struct tcp_sock *tp, u32 queued_bytes, u32 window_bytes)
{
	u32 odd_bytes = sird_odd_bytes(queued_bytes, window_bytes, tp->mss_cache);

	if (!odd_bytes)
		return;
	tp->snd_wnd -= odd_bytes;
	tp->pred_flags = 0;
}

/*
 * TCP is about to send. Does it announce, because nothing is under way, nor known to the
 * receiver?
 */
void swift_demand_before(struct sock *sk, struct swift_credit *c)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 queued_bytes = tp->write_seq - tp->snd_nxt;
	u32 window_bytes = sird_ahead(tcp_wnd_end(tp), tp->snd_nxt);

	WRITE_ONCE(c->announcing, false);
	if (!queued_bytes || !tcp_send_head(sk))
		return;
	if (!tp->packets_out && !before(tp->snd_nxt, c->told))
		WRITE_ONCE(c->announcing, swift_demand_announces(sk, queued_bytes, window_bytes));
	if (c->announcing)
		tcp_snd_cwnd_set(tp, 1);
	else if (tp->packets_out) /* otherwise nothing else would tell of what is new */
		swift_demand_trim(tp, queued_bytes, window_bytes);
	swift_demand_at_once(sk);
}

/* Preamble, header, FCS and gap of Ethernet. */
#define SWIFT_FRAME_BYTES (8 + ETH_HLEN + ETH_FCS_LEN + 12)

/*
 * What the link will be busy with, headers, frames and the option to come; and a 128th more:
 * of a full link, the wait that is counted must not leak away for what was left out (others'
 * packets, a NIC that is a little slower than it says).
 */
static u32 swift_wire_bytes(const struct sk_buff *skb)
{
	u32 frames = max_t(u32, skb_shinfo(skb)->gso_segs, 1);
	u32 bytes = skb->len + frames * (SWIFT_FRAME_BYTES + SIRD_OPT_DEMAND_LEN) +
		    (frames - 1) * (skb_network_header_len(skb) + tcp_hdrlen(skb));

	return bytes + bytes / 128;
}

/* Is more than SThr handed to this host's link, by several receivers' credit? */
static bool swift_demand_csn(const struct sock *sk, const struct sk_buff *skb, u64 now_ns)
{
	const struct swift_net *sn = swift_net_of(sk);
	const struct swift_sock *ss = swift_sk(sk);
	struct swift_link *link;
	bool congested = false;
	u32 receiver, mbps, rtt_ns;
	u64 busy_until_ns;

	rcu_read_lock();
	link = swift_link_of_route(sk);
	mbps = link ? READ_ONCE(link->mbps) : 0;
	if (!mbps) {
		rcu_read_unlock();
		return false;
	}
	receiver = ss->path_key;
	rtt_ns = swift_path_base_ns(&ss->law, swift_path_base_of(ss->path_key, NULL));
	if (READ_ONCE(link->last_receiver) != receiver) {
		WRITE_ONCE(link->last_receiver, receiver);
		WRITE_ONCE(link->other_receiver_ns, now_ns);
	}
	busy_until_ns = READ_ONCE(link->busy_until_ns);
	if (now_ns - READ_ONCE(link->other_receiver_ns) < SWIFT_RECEIVERS_NS)
		congested = sird_csn(&sn->sird, busy_until_ns, now_ns, rtt_ns);
	/* Who races here loses a segment's time. */
	WRITE_ONCE(link->busy_until_ns,
		   sird_link_busy_until(busy_until_ns, now_ns, swift_wire_bytes(skb), mbps));
	rcu_read_unlock();
	return congested;
}

/*
 * Is there the room that the MSS leaves (swift_credit_begin())? Not behind extension headers
 * that were set since: the next segment has it.
 */
static bool swift_demand_fits(const struct sk_buff *skb)
{
	unsigned int headers = skb_network_header_len(skb) + tcp_hdrlen(skb);
	unsigned int payload = skb_is_gso(skb) ? skb_shinfo(skb)->gso_size : skb->len - headers;

	return !skb_dst(skb) || headers + SIRD_OPT_DEMAND_LEN + payload <= dst_mtu(skb_dst(skb));
}

/* A segment with data leaves, of an established flow. */
void swift_demand_out(struct sock *sk, struct swift_credit *c, struct sk_buff *skb, u8 pf)
{
	struct sird_opt opt = { .told = tcp_sk(sk)->write_seq };
	u8 option[SIRD_OPT_DEMAND_LEN];
	bool congested = swift_demand_csn(sk, skb, ktime_get_ns());

	c->told = opt.told;
	WRITE_ONCE(c->csn_left, sird_csn_left(c->csn_left, congested));
	if (congested) {
		opt.flags |= SIRD_OPT_CSN;
		swift_count(swift_net_of(sk), credit_congested);
	}
	if (c->announcing)
		opt.flags |= SIRD_OPT_ANNOUNCES;
	sird_opt_put_demand(option, &opt);
	if (!swift_demand_fits(skb) || !swift_insert_option(skb, pf, option, sizeof(option)))
		swift_count(swift_net_of(sk), credit_no_room);
}

/*
 * What credit does to the flow, enum tcp_swift_credit. Whoever asks needs no lock of the
 * socket's: single words, of this moment at most. A buffer of the peer's that is full looks the
 * same from here: it is the same window.
 */
u8 swift_demand_limit(const struct sock *sk)
{
	static const u8 told_as[] = {
		[SIRD_LIMIT_NONE] = TCP_SWIFT_CREDIT_NONE,
		[SIRD_LIMIT_ENOUGH] = TCP_SWIFT_CREDIT_ENOUGH,
		[SIRD_LIMIT_WAITS] = TCP_SWIFT_CREDIT_WAITS,
		[SIRD_LIMIT_CONGESTED] = TCP_SWIFT_CREDIT_CONGESTED,
	};
	const struct tcp_sock *tp = tcp_sk(sk);
	enum sird_limit limit = SIRD_LIMIT_NONE;
	u32 snd_nxt = READ_ONCE(tp->snd_nxt);
	const struct swift_credit *c = NULL;
	u32 window_end;

	rcu_read_lock(); /* who ends credit frees after a grace period */
	if (READ_ONCE(sk->sk_state) == TCP_ESTABLISHED && data_race(swift_has_credit(sk)))
		c = swift_credit_of(sk);
	if (c) {
		window_end = READ_ONCE(tp->snd_una) + READ_ONCE(tp->snd_wnd);
		limit = sird_limit_of(sird_ahead(READ_ONCE(tp->write_seq), snd_nxt),
				      sird_ahead(window_end, snd_nxt), READ_ONCE(tp->mss_cache),
				      READ_ONCE(c->announcing), READ_ONCE(c->csn_left));
	}
	rcu_read_unlock();
	return told_as[limit];
}
