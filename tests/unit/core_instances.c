/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The core as C: one extern function for each inline one, so that a compiler
 * has to translate them all. Built as C11 and for BPF; run by nobody.
 */
#include "clock.h"
#include "fast.h"
#include "gcn.h"
#include "option.h"
#include "sird.h"
#include "starts.h"
#include "swift.h"
#include "timely.h"

extern const char *prepare(struct swift_params *p, struct swift_tunables *t);
extern void ack(struct swift_state *s, const struct swift_params *p,
		const struct swift_sample *in, struct swift_verdict *out);
extern u32 loss(struct swift_state *s, const struct swift_params *p, u64 now_ns, u32 rtt_ns);
extern u64 sending(struct swift_dither *d, const struct swift_state *s,
		   const struct swift_params *p, u32 rtt_ns, u32 second_ns);
extern u32 clock_age(struct swift_clock_map *m, const struct swift_clock_setting *s,
		     const struct swift_clock_bounds *b, u64 stamp_ns, u64 now_ns);
extern u32 option(u8 *bytes, u32 len, struct swift_opt *opt);
extern u64 timely(struct timely_state *s, struct timely_params *p, struct timely_tunables *t,
		  const struct timely_sample *in);
extern u64 fast(struct fast_state *s, struct fast_params *p, struct fast_tunables *t,
		const struct fast_sample *in);
extern u32 gcn(struct gcn_state *s, struct gcn_params *p, struct gcn_tunables *t,
	       const struct gcn_sample *in);
extern u64 sird_lend(struct sird_tunables *t, struct sird_link *l, struct sird_sender *s,
		     struct sird_flow *f, const struct sird_data *in);
extern void sird_learn(const struct sird_tunables *t, struct sird_link *l, struct sird_loop *loop,
		       struct sird_sender *s, const struct sird_data *in);
extern bool sird_send(const struct sird_tunables *t, u64 *busy_until_ns, u64 now_ns, u32 bytes,
		      u32 window_bytes);
extern u32 sird_option(u8 *bytes, u32 len, u32 near, struct sird_opt *opt);

const char *prepare(struct swift_params *p, struct swift_tunables *t)
{
	swift_tunables_default(t);
	return swift_params_prepare(p, t);
}

void ack(struct swift_state *s, const struct swift_params *p, const struct swift_sample *in,
	 struct swift_verdict *out)
{
	swift_init(s, p, 0);
	swift_on_handshake(s, p, in->now_ns, in->rtt_ns, 1448, 100000);
	swift_on_ack(s, p, in, out);
}

u32 loss(struct swift_state *s, const struct swift_params *p, u64 now_ns, u32 rtt_ns)
{
	swift_note_undo(s);
	swift_on_fast_recovery(s, p, now_ns, rtt_ns);
	swift_on_timeout(s, p, now_ns, rtt_ns);
	swift_undo(s, p);
	swift_on_idle_restart(s, p, 1);
	return swift_cwnd_q16(s);
}

u64 sending(struct swift_dither *d, const struct swift_state *s, const struct swift_params *p,
	    u32 rtt_ns, u32 second_ns)
{
	if (swift_in_drain(p, swift_base_ns(&s->base), rtt_ns, second_ns))
		return swift_drain_q16(p, swift_cwnd_q16(s), true);
	return swift_pacing_rate_Bps(swift_cwnd_q16(s), rtt_ns, 1500) +
	       swift_snd_cwnd_pkts(d, swift_cwnd_q16(s), true);
}

u32 clock_age(struct swift_clock_map *m, const struct swift_clock_setting *s,
	      const struct swift_clock_bounds *b, u64 stamp_ns, u64 now_ns)
{
	u32 age_ns = 0;

	if (swift_clock_prepare(m, s, now_ns) == SWIFT_CLOCK_F_NONE)
		swift_clock_age(m, stamp_ns, now_ns, b, &age_ns);
	return age_ns;
}

u32 option(u8 *bytes, u32 len, struct swift_opt *opt)
{
	swift_opt_put_offer(bytes);
	opt->hops = swift_hops_from_ttl(bytes[0]);
	swift_opt_put_echo(bytes, opt);
	return swift_opt_is_signed(bytes, len) ? 0 : swift_opt_parse(bytes, len, opt);
}

u64 timely(struct timely_state *s, struct timely_params *p, struct timely_tunables *t,
	   const struct timely_sample *in)
{
	timely_tunables_default(t);
	if (timely_params_prepare(p, t))
		return 0;
	timely_init(s, p);
	timely_on_ack(s, p, in);
	timely_on_loss(s, p);
	return s->rate_Bps + timely_cwnd_pkts(s, p, in->rtt_ns, 1448);
}

u64 fast(struct fast_state *s, struct fast_params *p, struct fast_tunables *t,
	 const struct fast_sample *in)
{
	fast_tunables_default(t);
	if (fast_params_prepare(p, t))
		return 0;
	fast_init(s, p);
	fast_on_ack(s, p, in);
	fast_on_loss(s, p);
	return s->rate_Bps + fast_cwnd_pkts(s, p, in->rtt_ns, 1448);
}

u32 gcn(struct gcn_state *s, struct gcn_params *p, struct gcn_tunables *t,
	const struct gcn_sample *in)
{
	gcn_tunables_default(t);
	if (gcn_params_prepare(p, t))
		return 0;
	gcn_init(s, p, 10, in->nxt);
	gcn_on_ack(s, p, in);
	gcn_note_undo(s);
	gcn_on_loss(s, p, in->nxt);
	gcn_on_timeout(s, p, in->nxt);
	gcn_undo(s, p);
	gcn_on_idle_restart(s, p, 1, 10);
	return gcn_cwnd_pkts(s);
}

void sird_learn(const struct sird_tunables *t, struct sird_link *l, struct sird_loop *loop,
		struct sird_sender *s, const struct sird_data *in)
{
	u32 rtt_ns = sird_rtt_feed(l->bdp_bytes, 8000);

	sird_loop_feed(loop, sird_wire_bytes(in->end, 1448), true, 100000, rtt_ns, in->told);
	sird_link_set(l, t, 100000, loop->ns, rtt_ns);
	l->quantum_bytes = sird_quantum_bytes(l, sird_batch_feed(1448, in->end), 1448);
	sird_used_feed(&s->used, in->end, loop->ns, in->told);
	sird_sender_feed(s, l, in->end, sird_sender_is_held(s), false, 1448);
}

u64 sird_lend(struct sird_tunables *t, struct sird_link *l, struct sird_sender *s,
	      struct sird_flow *f, const struct sird_data *in)
{
	u32 bytes;

	sird_tunables_default(t);
	if (sird_tunables_check(t))
		return 0;
	sird_sender_init(s, l->bdp_bytes);
	sird_flow_init(f, in->end, sird_allowance(l, 1448));
	bytes = sird_flow_arrived(f, in, sird_allowance_among(l, 1448, true, in->end, in->told));
	sird_sender_feed(s, l, bytes, true, false, 1448);
	bytes = sird_quantum(f, l, s, 1448);
	if (sird_sender_may_have(s, bytes) &&
	    sird_link_may_lend(l, sird_flow_lent(f), bytes, 1448))
		sird_flow_grant(f, bytes);
	return sird_key(SIRD_SRPT, f, sird_later(f->edge, f->told)) + sird_standing_of(f, s, bytes);
}

bool sird_send(const struct sird_tunables *t, u64 *busy_until_ns, u64 now_ns, u32 bytes,
	       u32 window_bytes)
{
	if (sird_announces(bytes, window_bytes, false))
		bytes -= sird_odd_bytes(bytes, window_bytes, 1448);
	if (sird_limit_of(bytes, window_bytes, 1448, false, sird_csn_left(1, true)) != SIRD_LIMIT_ENOUGH)
		return false;
	*busy_until_ns = sird_link_busy_until(*busy_until_ns, now_ns, bytes, 100000);
	return sird_csn(t, *busy_until_ns, now_ns, 8000);
}

u32 sird_option(u8 *bytes, u32 len, u32 near, struct sird_opt *opt)
{
	sird_opt_put_offer(bytes);
	sird_opt_put_demand(bytes, opt);
	return sird_opt_parse(bytes, len, near, opt);
}

u32 swift_start(struct swift_starts *st, struct swift_start_ask *ask)
{
	if (!swift_starts_ask(st, ask))
		swift_starts_answer(st, ask->now_ns, ask->bytes, 1448, 10000, swift_starts_wait(st));
	swift_starts_serve(st);
	swift_starts_forget(st, ask->bytes);
	return st->window_bytes;
}
