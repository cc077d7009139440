/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The core as C: one extern function for each inline one, so that a compiler
 * has to translate them all. Built as C11 and for BPF; run by nobody.
 */
#include "option.h"
#include "swift.h"

extern const char *prepare(struct swift_params *p, struct swift_tunables *t);
extern void ack(struct swift_state *s, const struct swift_params *p,
		const struct swift_sample *in, struct swift_verdict *out);
extern u32 loss(struct swift_state *s, const struct swift_params *p, u64 now_ns, u32 rtt_ns);
extern u64 sending(struct swift_dither *d, const struct swift_state *s, u32 rtt_ns);
extern u32 option(u8 *bytes, u32 len, struct swift_opt *opt);

const char *prepare(struct swift_params *p, struct swift_tunables *t)
{
	swift_tunables_default(t);
	return swift_params_prepare(p, t);
}

void ack(struct swift_state *s, const struct swift_params *p, const struct swift_sample *in,
	 struct swift_verdict *out)
{
	swift_init(s, p, 0);
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

u64 sending(struct swift_dither *d, const struct swift_state *s, u32 rtt_ns)
{
	return swift_pacing_rate_Bps(swift_cwnd_q16(s), rtt_ns, 1500) +
	       swift_snd_cwnd_pkts(d, swift_cwnd_q16(s), true);
}

u32 option(u8 *bytes, u32 len, struct swift_opt *opt)
{
	swift_opt_put_offer(bytes);
	opt->hops = swift_hops_from_ttl(bytes[0]);
	swift_opt_put_echo(bytes, opt);
	return swift_opt_is_signed(bytes, len) ? 0 : swift_opt_parse(bytes, len, opt);
}
