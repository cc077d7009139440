/* SPDX-License-Identifier: GPL-2.0 */
/*
 * One step of a law: an event, and the state that it changes. Filled by equality.cpp, done
 * by itself and by law_step.bpf.c, and compared.
 */
#ifndef LAW_STEP_H
#define LAW_STEP_H

#include "core/clock.h"
#include "core/gcn.h"
#include "core/swift.h"
#include "core/timely.h"

enum law_event {
	LAW_INIT, /* arg_a: packets, arg_b: sequence number */
	LAW_ACK, /* arg_c: if the echo may be believed */
	LAW_LOSS, /* arg_a: RTT, or sequence number */
	LAW_TIMEOUT, /* the same */
	LAW_NOTE_UNDO,
	LAW_UNDO,
	LAW_IDLE, /* arg_a: RTOs, arg_b: packets */
	LAW_SEND, /* arg_a: RTT, arg_b: bytes, arg_c: a new round */
	LAW_HANDSHAKE, /* arg_a: RTT, arg_b: bytes, arg_c: Mb/s */
	LAW_DRAIN, /* arg_a: RTT, arg_b: base; at now_ns */
	LAW_EVENTS
};

struct swift_step {
	struct swift_params params;
	struct swift_state state;
	struct swift_sample sample;
	struct swift_verdict verdict;
	struct swift_dither dither;
};

struct timely_step {
	struct timely_params params;
	struct timely_state state;
	struct timely_sample sample;
};

struct gcn_step {
	struct gcn_params params;
	struct gcn_state state;
	struct gcn_sample sample;
};

/* A receive stamp of a NIC's, by the line of its clock. */
struct clock_step {
	struct swift_clock_map line;
	u64 stamp_ns;
	struct swift_clock_bounds bounds;
	u32 age_ns;
	u32 pad;
};

struct law_step {
	u64 now_ns;
	u64 result; /* what the event's function returned */
	u32 event;
	u32 arg_a, arg_b, arg_c;
	struct swift_step swift;
	struct timely_step timely;
	struct gcn_step gcn;
	struct clock_step clock;
};

static inline void swift_step_do(struct law_step *l)
{
	struct swift_step *x = &l->swift;

	switch (l->event) {
	case LAW_INIT:
		swift_init(&x->state, &x->params, l->arg_a);
		break;
	case LAW_ACK:
		l->result = l->arg_c && swift_refuse_echo(&x->sample);
		swift_on_ack(&x->state, &x->params, &x->sample, &x->verdict);
		break;
	case LAW_LOSS:
		l->result = swift_on_fast_recovery(&x->state, &x->params, l->now_ns, l->arg_a);
		break;
	case LAW_TIMEOUT:
		l->result = swift_on_timeout(&x->state, &x->params, l->now_ns, l->arg_a);
		break;
	case LAW_NOTE_UNDO:
		swift_note_undo(&x->state);
		break;
	case LAW_UNDO:
		swift_undo(&x->state, &x->params);
		break;
	case LAW_IDLE:
		l->result = swift_on_idle_restart(&x->state, &x->params, l->arg_a);
		break;
	case LAW_SEND:
		l->result = swift_snd_cwnd_pkts(&x->dither, swift_cwnd_q16(&x->state), l->arg_c) ^
			    swift_pacing_rate_Bps(swift_cwnd_q16(&x->state), l->arg_a, l->arg_b);
		break;
	case LAW_HANDSHAKE:
		swift_on_handshake(&x->state, &x->params, l->now_ns, l->arg_a, l->arg_b, l->arg_c);
		break;
	case LAW_DRAIN:
		l->result = swift_in_drain(&x->params, l->arg_b, l->arg_a,
					   l->now_ns % SWIFT_DRAIN_SECOND_NS) ?
			swift_drain_q16(&x->params, swift_cwnd_q16(&x->state), l->arg_c) : 0;
		break;
	}
}

static inline void timely_step_do(struct law_step *l)
{
	struct timely_step *x = &l->timely;

	switch (l->event) {
	case LAW_INIT:
		timely_init(&x->state, &x->params);
		break;
	case LAW_ACK:
		l->result = timely_on_ack(&x->state, &x->params, &x->sample);
		break;
	case LAW_LOSS:
		timely_on_loss(&x->state, &x->params);
		break;
	case LAW_SEND:
		l->result = timely_cwnd_pkts(&x->state, &x->params, l->arg_a, l->arg_b);
		break;
	}
}

static inline void gcn_step_do(struct law_step *l)
{
	struct gcn_step *x = &l->gcn;

	switch (l->event) {
	case LAW_INIT:
		gcn_init(&x->state, &x->params, l->arg_a, l->arg_b);
		break;
	case LAW_ACK:
		l->result = gcn_on_ack(&x->state, &x->params, &x->sample);
		break;
	case LAW_LOSS:
		gcn_on_loss(&x->state, &x->params, l->arg_a);
		break;
	case LAW_TIMEOUT:
		gcn_on_timeout(&x->state, &x->params, l->arg_a);
		break;
	case LAW_NOTE_UNDO:
		gcn_note_undo(&x->state);
		break;
	case LAW_UNDO:
		gcn_undo(&x->state, &x->params);
		break;
	case LAW_IDLE:
		gcn_on_idle_restart(&x->state, &x->params, l->arg_a, l->arg_b);
		break;
	case LAW_SEND:
		l->result = gcn_cwnd_pkts(&x->state);
		break;
	}
}

static inline void clock_step_do(struct law_step *l)
{
	struct clock_step *x = &l->clock;

	l->result = swift_clock_age(&x->line, x->stamp_ns, l->now_ns, &x->bounds, &x->age_ns);
}

#endif /* LAW_STEP_H */
