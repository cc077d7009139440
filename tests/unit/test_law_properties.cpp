/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What holds for every state, sample and parameter: the fixed-point law agrees
 * with the oracle, the windows stay within their bounds, a verdict adds up.
 * Random steps, and closed loops over a modelled bottleneck. Single sentences
 * of the paper have their cases in test_law_cases.cpp.
 *
 * SWIFT_PROPERTY_STEPS sets the number of random steps (default 1.2 million).
 */
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "draw.hpp"
#include "flow.hpp"
#include "oracle.hpp"

namespace {

using oracle::kUnit;

u64 step_count()
{
	const char *env = std::getenv("SWIFT_PROPERTY_STEPS");

	return env ? std::strtoull(env, nullptr, 10) : 1200000;
}

/* --- Random parameters, states and samples ---------------------------------------- */

swift_tunables draw_tunables(Draw &d)
{
	swift_tunables t;
	swift_params p;

	do { /* until the rows agree with each other as well */
#define SWIFT_X(name, def, lo, hi, doc) t.name = d.any32(lo, hi);
		SWIFT_TUNABLES(SWIFT_X)
#undef SWIFT_X
	} while (swift_params_prepare(&p, &t));
	return t;
}

u64 draw_now(Draw &d)
{
	switch (d.below(4)) {
	case 0:
		return d.below(3);
	case 1:
		return ~0ULL - d.log_uniform(0, seconds(10));
	case 2:
		return d.log_uniform(0, ~0ULL);
	default:
		return d.bits();
	}
}

/* How long ago: often to the very ns at which a decision turns. */
u64 draw_age(Draw &d, u64 edge_ns)
{
	switch (d.below(4)) {
	case 0:
		return edge_ns;
	case 1:
		return edge_ns ? edge_ns - 1 : 0;
	case 2:
		return d.bits();
	default:
		return d.log_uniform(0, seconds(1200));
	}
}

u32 draw_rtt(Draw &d, const swift_params &p)
{
	if (d.one_in(2)) /* where the targets are */
		return u32(d.log_uniform(1, p.base_target_ns + u64(p.fs_range_ns) +
					    2 * u64(p.endpoint_target_ns)));
	return d.one_in(16) ? 0 : d.any32(1, SWIFT_U32_MAX);
}

swift_sample draw_sample(Draw &d, const swift_params &p, u64 now_ns)
{
	swift_sample in = {};

	in.now_ns = now_ns;
	in.rtt_ns = draw_rtt(d, p);
	/* Honest three times in four; otherwise anything. */
	in.remote_ns = d.one_in(4) ? d.any32(0, SWIFT_U32_MAX) : d.any32(0, in.rtt_ns);
	in.local_ns = d.one_in(4) ? d.any32(0, SWIFT_U32_MAX) : d.any32(0, in.rtt_ns / 4);
	in.acked_pkts = d.one_in(2) ? u32(d.below(64)) : d.any32(0, SWIFT_U32_MAX);
	in.hops = u8(d.one_in(2) ? d.below(20) : d.below(256));
	in.echo_expected = !d.one_in(4);
	in.has_echo = !d.one_in(3);
	in.cwnd_limited = !d.one_in(5);
	in.path_base_ns = d.one_in(2) ? 0 : draw_rtt(d, p);
	in.path_least_ns = d.one_in(2) ? 0 : d.any32(1, 8000000);
	in.short_sized = d.one_in(4);
	in.own_queue = !d.one_in(3);
	return in;
}

swift_window draw_window(Draw &d, const swift_params &p, u64 now_ns, u32 rtt_ns)
{
	swift_window w = {};

	w.last_decrease_ns = u32(now_ns - draw_age(d, rtt_ns));
	w.cwnd_q16 = d.any32(p.min_cwnd_q16, p.max_cwnd_q16);
	w.undo_cwnd_q16 = d.one_in(4) ? 0 : d.any32(p.min_cwnd_q16, p.max_cwnd_q16);
	return w;
}

swift_state draw_state(Draw &d, const swift_params &p, u64 now_ns)
{
	swift_state s;

	swift_init(&s, &p, d.one_in(2) ? d.any32(0, SWIFT_U32_MAX) : 0);
	if (d.one_in(4))
		return s;

	s.fabric = draw_window(d, p, now_ns, draw_rtt(d, p));
	s.endpoint = p.split ? draw_window(d, p, now_ns, draw_rtt(d, p)) : s.fabric;
	s.base.since_ns = now_ns - draw_age(d, p.rtt_window_ns / (1 + d.below(2)));
	for (u32 &delay_ns : s.base.delay_ns)
		delay_ns = d.one_in(4) ? SWIFT_U32_MAX : draw_rtt(d, p);
	s.starting = d.one_in(2);
	s.has_endpoint = !d.one_in(4);
	s.endpoint_ns = s.has_endpoint ? draw_rtt(d, p) : 0;
	s.own_64ns = u16(d.one_in(2) ? 0 : d.below(65536));
	if (p.split && d.one_in(4)) /* where D20 begins */
		s.endpoint.cwnd_q16 = swift_bound_cwnd(&p, u32(d.below(512)));
	s.fabric_ns = d.one_in(4) ? 0 : draw_rtt(d, p);
	s.small = u8(d.below(3));
	s.noise_ns = d.one_in(4) ? draw_rtt(d, p) : u32(d.below(2 * (p.rtt_epsilon_ns + 1ULL)));
	s.turns_16ns = u16(d.one_in(4) ? d.below(65536) : d.below(std::min(s.noise_ns / 16 + 1, 65535U)));
	s.round_4us = u16((now_ns - draw_age(d, draw_rtt(d, p))) >> 12);
	for (u16 &delay : s.delay_256ns)
		delay = u16(d.one_in(4) ? 0 : std::min(draw_rtt(d, p) >> 8, 65535U));
	s.retx_cnt = u8(d.one_in(2) ? d.below(4) : d.below(256));
	return s;
}

/* D18 wants much at once, too: noise of hosts whose mean delay is not far above the base. */
void draw_late(Draw &d, const swift_params &p, swift_state &s, u64 now_ns)
{
	u32 base_ns = d.any32(1, 100'000);

	s.noise_ns = d.any32(1, 2 * p.rtt_epsilon_ns + 200'000);
	s.turns_16ns = u16(std::min<u64>(d.below(s.noise_ns / 16 + 1), 65535));
	s.base.since_ns = now_ns;
	s.base.delay_ns[0] = s.base.delay_ns[1] = base_ns;
	s.fabric_ns = u32(std::min<u64>(base_ns + d.below(6 * u64(s.noise_ns) + 1), SWIFT_U32_MAX));
	s.has_endpoint = 1;
	s.endpoint_ns = u32(d.below(s.noise_ns + 1));
	s.own_queue = u8(d.below(16)) & 15;
}

/* A delay of that noise, a round later. */
u32 draw_late_delay(Draw &d, const swift_state &s)
{
	u64 base_ns = swift_base_ns(&s.base) == SWIFT_U32_MAX ? 0 : swift_base_ns(&s.base);

	return u32(std::min<u64>(base_ns + 1 + d.below(8 * u64(s.noise_ns) + 1), SWIFT_U32_MAX));
}

/* D16 wants much at once: now and then a small window, and delays about its target. */
u32 draw_about_target(Draw &d, const swift_params &p, const swift_state &s)
{
	u64 scale_ns = swift_small_scale_ns(&p, s.fabric.cwnd_q16);
	u64 target_ns = swift_target_ns(&s, &p, 0, 0, 0);
	u64 least_ns = target_ns - std::min(target_ns, scale_ns / 2);

	return u32(std::min<u64>(d.any(least_ns, least_ns + scale_ns + 1), SWIFT_U32_MAX));
}

void draw_small(Draw &d, const swift_params &p, swift_state &s)
{
	s.starting = 0;
	s.fabric.cwnd_q16 = d.any32(p.min_cwnd_q16, std::max(p.min_cwnd_q16, std::min(p.max_cwnd_q16, 5 * SWIFT_Q16_ONE)));
	if (!p.split)
		s.endpoint = s.fabric;
	s.base.delay_ns[0] = draw_rtt(d, p);
	s.fabric_ns = draw_about_target(d, p, s);
}

/* D20, too: next to no window, and a delay of the host about its target. */
void draw_own(Draw &d, const swift_params &p, swift_state &s)
{
	s.endpoint.cwnd_q16 = swift_bound_cwnd(&p, u32(d.below(SWIFT_OWN_CWND_Q16 + 32)));
	s.own_64ns = u16(d.one_in(2) ? 0 : d.below(SWIFT_OWN_MOST));
	s.has_endpoint = 1;
	s.endpoint_ns = u32(std::min<u64>(d.below(4 * u64(p.endpoint_target_ns) + 1), SWIFT_U32_MAX));
}

/* --- One step -------------------------------------------------------------------- */

enum Event { ACK, FAST_RECOVERY, TIMEOUT, NOTE_UNDO, UNDO, IDLE_RESTART, EVENTS };

struct Counts {
	u64 steps, acks, ties, cut_ties;
	u64 fabric[4], endpoint[4]; /* by enum swift_action */
	u64 near, away; /* D16 */
	u64 own; /* D20: longer */
	u64 late, turns, own_queue; /* D18 */
	u64 ceilings, clamps, resets, events[EVENTS];
};

/* A step that is being checked; what is wrong with it is gathered as text. */
struct Step {
	const swift_tunables &t;
	const swift_params &p;
	swift_state before, after;
	oracle::State expected;
	swift_sample in;
	swift_verdict out;
	oracle::Reading reading;
	u64 now_ns;
	u32 rtt_ns;
	Event event;
	std::string wrong;

	void check(bool ok, const char *what, double got = 0, double want = 0)
	{
		char line[160];

		if (ok)
			return;
		std::snprintf(line, sizeof(line), "%s: got %.9g, want %.9g\n", what, got, want);
		wrong += line;
	}

	void near(const char *what, double got, double want, double tolerance)
	{
		check(std::abs(got - want) <= tolerance, what, got, want);
	}

	std::string story() const;
};

std::string Step::story() const
{
	char text[1000];
	std::string s;

	std::snprintf(text, sizeof(text),
		      "event %d now %llu rtt %u | remote %u local %u acked %u hops %u expected %u "
		      "echo %u limited %u path %u %u short %u queue %u\n"
		      "before f %u (dec %u) e %u (dec %u) ewma %u has %u retx %u base %u %u\n"
		      "after  f %u (dec %u) e %u (dec %u) ewma %u target %u actions %u %u\n",
		      event, (unsigned long long)now_ns, rtt_ns, in.remote_ns, in.local_ns,
		      in.acked_pkts, in.hops, in.echo_expected, in.has_echo, in.cwnd_limited, in.path_base_ns,
		      in.path_least_ns, in.short_sized, in.own_queue,
		      before.fabric.cwnd_q16, before.fabric.last_decrease_ns,
		      before.endpoint.cwnd_q16,
		      before.endpoint.last_decrease_ns, before.endpoint_ns,
		      before.has_endpoint, before.retx_cnt, before.base.delay_ns[0],
		      before.base.delay_ns[1], after.fabric.cwnd_q16,
		      after.fabric.last_decrease_ns, after.endpoint.cwnd_q16,
		      after.endpoint.last_decrease_ns, after.endpoint_ns,
		      out.fabric_target_ns, out.fabric_action, out.endpoint_action);
	s = text;
#define SWIFT_X(name, def, lo, hi, doc) s += #name "=" + std::to_string(t.name) + " ";
	SWIFT_TUNABLES(SWIFT_X)
#undef SWIFT_X
	return s;
}

void check_window(Step &st, Counts &n, const char *which, const swift_window &before,
		  const swift_window &after, const oracle::Window &want, double tolerance)
{
	/* A cut of less than a unit is none to the fixed-point law, and so not noted. */
	u32 noted_ns = want.cut > 0 && want.cut < kUnit ? before.last_decrease_ns :
							  want.t_last_decrease;

	st.near(which, after.cwnd_q16 * kUnit, want.cwnd, tolerance);
	st.check(after.cwnd_q16 >= st.p.min_cwnd_q16, "below min_cwnd", after.cwnd_q16,
		 st.p.min_cwnd_q16);
	st.check(after.cwnd_q16 <= st.p.max_cwnd_q16, "above max_cwnd", after.cwnd_q16,
		 st.p.max_cwnd_q16);
	st.near("undo_cwnd", after.undo_cwnd_q16 * kUnit, want.undo_cwnd, 0);
	/* Where either will do, the oracle's "decrease" may be none. */
	if (after.last_decrease_ns == noted_ns || st.reading.fabric_tie || st.reading.endpoint_tie)
		return;
	st.check((after.last_decrease_ns == before.last_decrease_ns ||
		  after.last_decrease_ns == want.t_last_decrease) && want.cut <= tolerance,
		 "t_last_decrease", double(after.last_decrease_ns), double(noted_ns));
	n.cut_ties++;
}

void check_verdict(Step &st, Counts &n)
{
	const swift_verdict &out = st.out;
	const oracle::Reading &r = st.reading;
	auto moved = [](const swift_window &before, const swift_window &after) {
		return (after.cwnd_q16 > before.cwnd_q16) - (after.cwnd_q16 < before.cwnd_q16);
	};
	auto follows = [&](u8 action, int direction, bool ceiling) {
		switch (action) {
		case SWIFT_INCREASE:
			return direction >= 0 || ceiling;
		case SWIFT_DECREASE:
			return direction <= 0;
		default:
			return direction == 0 || (ceiling && direction < 0);
		}
	};
	u64 fabric_q16 = st.after.fabric.cwnd_q16, endpoint_q16 = st.after.endpoint.cwnd_q16;

	n.fabric[out.fabric_action]++;
	n.endpoint[out.endpoint_action]++;
	n.clamps += out.clamped;

	st.check((out.fabric_action != SWIFT_NO_SAMPLE) == r.sampled, "sampled");
	st.near("base sample", out.base_sample_ns, r.base_sample, 0);
	st.near("base luck", out.base_luck_ns, r.base_luck, 0);
	if (!r.sampled) {
		st.check(!out.fabric_ns && !out.endpoint_ns && !out.fabric_target_ns &&
				 !out.clamped, "verdict without a sample");
		return;
	}
	st.check(u64(out.fabric_ns) + out.endpoint_ns == st.in.rtt_ns, "parts add up to the RTT");
	st.near("fabric delay", out.fabric_ns, r.fabric_delay, 0);
	st.near("endpoint delay", out.endpoint_ns, r.endpoint_delay, 0);
	st.near("filtered fabric delay", st.after.fabric_ns, st.expected.fabric_delay,
		std::abs(st.after.fabric_ns - r.fabric_target) <= r.target_tolerance ? r.target_tolerance : 0); /* D16 */
	st.near("noise", st.after.noise_ns, st.expected.noise, 0);
	st.near("turns", st.after.turns_16ns, st.expected.turns, 0);
	st.near("own queue", st.after.own_queue, st.expected.own_queue, 0);
	st.near("round", st.after.round_4us, st.expected.round, 0);
	for (int i = 0; i < 2; i++)
		st.near("delay of a round", st.after.delay_256ns[i], st.expected.round_delay[i], 0);
	n.late += st.p.target_policy == SWIFT_TARGET_BASE_RTT_PLUS &&
		  swift_late_room_ns(&st.after, &st.p, swift_path_base_ns(&st.after, st.in.path_base_ns)) > 0;
	n.own_queue += st.after.own_queue != st.before.own_queue;
	n.turns += st.after.turns_16ns != st.before.turns_16ns;
	st.near("target", out.fabric_target_ns, r.fabric_target, r.target_tolerance);
	if (st.p.split && st.after.endpoint_ns >= st.p.endpoint_target_ns)
		st.near("host's target", out.endpoint_target_ns, r.endpoint_target, r.endpoint_target_tolerance);
	st.check(out.clamped == r.clamped, "clamped");

	bool fabric_ceiling = fabric_q16 == SWIFT_CEILING * endpoint_q16;
	bool endpoint_ceiling = endpoint_q16 == SWIFT_CEILING * fabric_q16;

	if (st.p.split) {
		n.ceilings += fabric_ceiling || endpoint_ceiling;
		st.check(fabric_q16 <= SWIFT_CEILING * endpoint_q16 &&
				 endpoint_q16 <= SWIFT_CEILING * fabric_q16, "ceiling");
		st.check(follows(out.endpoint_action, moved(st.before.endpoint, st.after.endpoint),
				 endpoint_ceiling), "endpoint action");
	} else {
		st.check(out.endpoint_action == SWIFT_NO_SAMPLE, "v0 has one window");
		st.check(fabric_q16 == endpoint_q16, "v0 windows", double(endpoint_q16),
			 double(fabric_q16));
	}
	st.check(follows(out.fabric_action, moved(st.before.fabric, st.after.fabric),
			 fabric_ceiling), "fabric action");
}

void check_ack(Step &st, Counts &n)
{
	oracle::Params params(st.t, st.p.late_news);

	st.expected = oracle::from_fixed(st.before);
	swift_on_ack(&st.after, &st.p, &st.in, &st.out);
	st.reading = oracle::on_ack(st.expected, params, st.in,
				    oracle::taken_by(st.before, st.after, st.in, st.out, params));
	n.acks++;
	n.own += st.after.own_64ns > st.before.own_64ns;
	n.near += st.after.small == SWIFT_SMALL_NEAR && st.reading.sampled;
	n.away += st.after.small == SWIFT_SMALL_AWAY && st.reading.sampled;
	n.ties += st.reading.fabric_tie || st.reading.endpoint_tie;

	const auto [fabric_tolerance, endpoint_tolerance] = oracle::ack_tolerances(
		oracle::from_fixed(st.before), st.expected, params, st.reading);

	check_window(st, n, "fcwnd", st.before.fabric, st.after.fabric, st.expected.fabric,
		     fabric_tolerance);
	check_window(st, n, "ecwnd", st.before.endpoint, st.after.endpoint, st.expected.endpoint,
		     endpoint_tolerance);
	check_verdict(st, n);
}

void check_other(Step &st, Counts &n, Draw &d)
{
	oracle::Params params(st.t, st.p.late_news);
	u32 idle_rtos = d.one_in(2) ? u32(d.below(6)) : d.any32(0, SWIFT_U32_MAX);
	bool at_minimum;

	st.expected = oracle::from_fixed(st.before);
	switch (st.event) {
	case FAST_RECOVERY:
		swift_on_fast_recovery(&st.after, &st.p, st.now_ns, st.rtt_ns);
		oracle::on_fast_recovery(st.expected, params, st.now_ns, st.rtt_ns);
		break;
	case TIMEOUT:
		at_minimum = swift_on_timeout(&st.after, &st.p, st.now_ns, st.rtt_ns);
		oracle::on_timeout(st.expected, params, st.now_ns, st.rtt_ns);
		st.check(at_minimum == (st.expected.retransmit_cnt >=
					int(st.t.retx_reset_threshold)), "reset");
		n.resets += at_minimum;
		break;
	case NOTE_UNDO:
		swift_note_undo(&st.after);
		oracle::note_undo(st.expected);
		break;
	case UNDO:
		swift_undo(&st.after, &st.p);
		oracle::undo(st.expected, params);
		break;
	default:
		swift_on_idle_restart(&st.after, &st.p, idle_rtos);
		oracle::on_idle_restart(st.expected, params, idle_rtos);
	}
	check_window(st, n, "fcwnd", st.before.fabric, st.after.fabric, st.expected.fabric,
		     1e-3 * st.expected.fabric.cwnd + kUnit);
	check_window(st, n, "ecwnd", st.before.endpoint, st.after.endpoint, st.expected.endpoint,
		     1e-3 * st.expected.endpoint.cwnd + kUnit);
}

void check_rest(Step &st)
{
	const swift_state &s = st.after;
	u32 cwnd_q16 = swift_cwnd_q16(&s);
	u64 delay_ns = swift_pacing_delay_ns(cwnd_q16, st.rtt_ns);
	u64 rate_Bps = swift_pacing_rate_Bps(cwnd_q16, st.rtt_ns, 1500);
	double want_ns = oracle::pacing_delay(cwnd_q16 * kUnit, st.rtt_ns);

	st.near("endpoint_ns", s.endpoint_ns, st.expected.endpoint_delay,
		1e-3 * st.expected.endpoint_delay + oracle::kEwmaTolerance);
	st.near("own delay of the host", s.own_64ns * 64, st.expected.own, 64);
	st.near("has_endpoint", s.has_endpoint, st.expected.has_endpoint_delay, 0);
	st.near("retx_cnt", s.retx_cnt, st.expected.retransmit_cnt, 0);
	st.check(s.base.since_ns == st.expected.base_since, "base_since_ns");
	for (int i = 0; i < 2; i++)
		st.check((s.base.delay_ns[i] == SWIFT_U32_MAX ? oracle::kNone :
				s.base.delay_ns[i]) == st.expected.base_delay[i] ||
				 st.expected.base_delay[i] == oracle::kU32Max,
			 "base_delay_ns", s.base.delay_ns[i], st.expected.base_delay[i]);
	st.near("starting", s.starting, st.expected.starting, 0);
	if (st.event == ACK && st.reading.sampled) {
		u32 host_ns = st.p.split ? std::min(s.endpoint_ns, st.rtt_ns) : 0;
		u32 target_ns = st.out.fabric_target_ns, random = u32(st.now_ns * 0x9e3779b1);
		u32 paced_by_ns = swift_pacing_rtt_ns(&s, st.p.split, cwnd_q16, st.rtt_ns, target_ns, random, st.p.late_news);
		double want_rtt_ns = oracle::pacing_rtt(oracle::from_fixed(s), cwnd_q16 * kUnit, st.rtt_ns,
							host_ns, target_ns, (random & 0xffff) * kUnit, st.p.late_news);

		st.near("small", s.small != SWIFT_NOT_SMALL, st.expected.small, 0);
		st.near("near", s.small == SWIFT_SMALL_NEAR, st.expected.near, 0);
		/* Half of an odd window is half a unit less. */
		st.near("RTT to pace by", paced_by_ns, std::min(want_rtt_ns, oracle::kU32Max),
			3 + (st.p.late_news ? (1.25 * (double(target_ns) + host_ns) + st.rtt_ns) * 0x1p-17 : 0));
	}

	if (want_ns < 0x1p25 * 0.999)
		st.near("pacing delay", double(delay_ns), want_ns, 1e-3 * want_ns + 1);
	else if (want_ns > 0x1p25 * 1.001) /* D13 */
		st.near("longest pacing delay", double(delay_ns), 0x1.8p24, 0x1p23);
	if (delay_ns)
		st.near("pacing rate", double(rate_Bps), 1500e9 / double(delay_ns),
			1e-3 * double(rate_Bps) + 1);
	else
		st.check(rate_Bps == ~0ULL, "unpaced");
}

/*
 * Short histories: every 16 steps new parameters and a new state; in between the
 * law goes on from where it is, and the oracle starts each step from there.
 */
TEST(law, agrees_with_the_oracle_on_random_steps)
{
	const u64 steps = step_count();
	Counts n = {};
	Draw d = {20200810};
	swift_tunables t;
	swift_params p = {};
	swift_state s;
	u64 now_ns = 0;
	int failures = 0;
	bool late = false;

	for (n.steps = 0; n.steps < steps && failures < 5; n.steps++) {
		if (n.steps % 16 == 0) {
			const bool small = d.one_in(4);
			const bool own = d.one_in(4);

			late = d.one_in(4);

			t = draw_tunables(d);
			if (small || late || own)
				t.target_policy = SWIFT_TARGET_BASE_RTT_PLUS;
			if (own)
				t.min_cwnd_micro = 1000; /* the least: D20 wants a small window */
			swift_params_prepare(&p, &t);
			p.late_news = d.one_in(2);
			now_ns = draw_now(d);
			s = draw_state(d, p, now_ns);
			if (small)
				draw_small(d, p, s);
			if (late)
				draw_late(d, p, s, now_ns);
			if (own && p.split)
				draw_own(d, p, s);
		}
		now_ns += d.one_in(4) ? 0 : late ? d.below(4'000'000) : d.log_uniform(1, seconds(20));

		Event event = d.one_in(4) ? Event(d.below(EVENTS)) : ACK;
		Step st = {t, p, s, s, {}, {}, {}, {}, now_ns, draw_rtt(d, p), event, ""};

		n.events[event]++;
		if (event == ACK) {
			st.in = draw_sample(d, p, now_ns);
			if (swift_small_ns(&s, &p) && d.one_in(2)) {
				st.in.rtt_ns = draw_about_target(d, p, s);
				st.in.remote_ns = st.in.local_ns = st.in.path_base_ns = 0;
				st.in.has_echo = 1;
			}
			if (late && !d.one_in(4)) {
				st.in.rtt_ns = draw_late_delay(d, s);
				st.in.remote_ns = st.in.local_ns = st.in.path_base_ns = 0;
				st.in.has_echo = 1;
			}
			st.rtt_ns = st.in.rtt_ns;
			check_ack(st, n);
		} else {
			check_other(st, n, d);
		}
		check_rest(st);
		s = st.after;
		if (!st.wrong.empty()) {
			ADD_FAILURE() << "step " << n.steps << "\n" << st.wrong << st.story();
			failures++;
		}
	}

	/* Where rounding may decide, it seldom does; and nothing went untested. */
	EXPECT_LT(n.ties * 40, steps);
	EXPECT_LT(n.cut_ties * 100, steps);
	for (int action = SWIFT_NO_SAMPLE; action <= SWIFT_DECREASE; action++) {
		EXPECT_GT(n.fabric[action] * 100, n.acks) << action;
		EXPECT_GT(n.endpoint[action] * 100, n.acks) << action;
	}
	EXPECT_GT(n.ceilings * 100, steps);
	EXPECT_GT(n.clamps * 100, steps);
	EXPECT_GT(n.resets * 200, steps);
	EXPECT_GT(n.near * 200, n.acks);
	EXPECT_GT(n.own * 1000, n.acks);
	EXPECT_GT(n.away * 200, n.acks);
	EXPECT_GT(n.late * 100, n.acks);
	EXPECT_GT(n.turns * 100, n.acks);
	EXPECT_GT(n.own_queue * 100, n.acks);
	std::printf("%llu steps: ties %llu, of a cut with a unit %llu, ceiling %llu, clamped %llu, "
		    "resets %llu, near %llu, away %llu, late %llu, turns %llu, own %llu\nfabric none/hold/up/down %llu/%llu/%llu/%llu, "
		    "endpoint %llu/%llu/%llu/%llu\n",
		    (unsigned long long)n.steps, (unsigned long long)n.ties,
		    (unsigned long long)n.cut_ties, (unsigned long long)n.ceilings,
		    (unsigned long long)n.clamps, (unsigned long long)n.resets,
		    (unsigned long long)n.near, (unsigned long long)n.away,
		    (unsigned long long)n.late, (unsigned long long)n.turns, (unsigned long long)n.own,
		    (unsigned long long)n.fabric[0], (unsigned long long)n.fabric[1],
		    (unsigned long long)n.fabric[2], (unsigned long long)n.fabric[3],
		    (unsigned long long)n.endpoint[0], (unsigned long long)n.endpoint[1],
		    (unsigned long long)n.endpoint[2], (unsigned long long)n.endpoint[3]);
}

/* --- Arithmetic: nothing overflows, the roots are as good as they say -------------- */

TEST(law, products_fit_in_64_bits_at_the_extremes)
{
	Draw d = {1};

	for (int i = 0; i < 100000; i++) {
		swift_tunables t = draw_tunables(d);
		swift_params p;
		u32 acked_pkts = d.any32(0, SWIFT_U32_MAX);
		__extension__ typedef unsigned __int128 Wide;

		ASSERT_EQ(swift_params_prepare(&p, &t), nullptr);

		/* Flow scaling, at the smallest window that it is computed for. */
		u32 cwnd_q16 = p.fs_min_cwnd_q16 + 1;
		Wide add = Wide(p.fs_alpha_q8) * swift_inv_sqrt_q28(cwnd_q16);

		ASSERT_EQ(u64(add >> 64), 0U);
		ASSERT_LE(u64(add >> 36) - p.fs_beta_ns, SWIFT_U32_MAX); /* narrowed to u32 */

		/* Increase. */
		Wide step = (Wide(p.ai_q24) * swift_min_u32(acked_pkts, 65535) << 8) +
			    p.max_cwnd_q16 / 2;

		ASSERT_EQ(u64(step >> 64), 0U);
	}
}

TEST(inv_sqrt_q28, is_within_2e_6_everywhere)
{
	double worst = 0;

	for (u64 x = 1; x <= SWIFT_U32_MAX; x += 1 + x / 20000) {
		double exact = 1 / std::sqrt(double(x) / 65536);
		double got = double(swift_inv_sqrt_q28(u32(x))) / double(1 << SWIFT_Q28_SHIFT);

		worst = std::max(worst, std::abs(got / exact - 1));
	}
	EXPECT_LT(worst, 2e-6);
}

TEST(sqrt_u64, is_the_floor_of_the_root)
{
	Draw d = {2};

	for (int i = 0; i < 200000; i++) {
		u64 root = d.any(0, SWIFT_U32_MAX);

		ASSERT_EQ(swift_sqrt_u64(root * root), root);
		if (root) {
			ASSERT_EQ(swift_sqrt_u64(root * root - 1), root - 1);
		}
		ASSERT_EQ(swift_sqrt_u64(root * root + 2 * root), root);
	}
	EXPECT_EQ(swift_sqrt_u64(~0ULL), SWIFT_U32_MAX);
}

/* --- Closed loops -------------------------------------------------------------------- */

/*
 * Equal flows through one bottleneck, as a fluid: what does not fit into the
 * bandwidth-delay product waits. The queue stands in the fabric or in the
 * receiving host. One ACK a step, one packet each.
 */
struct Bottleneck {
	const char *name;
	swift_tunables t;
	double flows;
	double pkts_per_us;
	double base_rtt_us;
	bool in_host;
	double max_error; /* of the mean delay, against the target */
};

swift_sample sample_at(const Bottleneck &b, double cwnd, u64 now_ns)
{
	double rtt_us = std::max(b.base_rtt_us, b.flows * cwnd / b.pkts_per_us);
	swift_sample in = {};

	in.now_ns = now_ns;
	in.rtt_ns = us(rtt_us);
	in.remote_ns = b.in_host ? us(rtt_us - b.base_rtt_us) : 0;
	in.acked_pkts = 1;
	in.hops = 3;
	in.echo_expected = in.has_echo = in.cwnd_limited = 1;
	return in;
}

class closed_loop : public testing::TestWithParam<Bottleneck> {};

TEST_P(closed_loop, follows_the_oracle_and_settles_at_the_target)
{
	const Bottleneck &b = GetParam();
	const int steps = 20000;
	Flow flow(b.t);
	oracle::Params params(b.t);
	oracle::State ideal = oracle::from_fixed(flow.s);
	double worst_drift = 0, delay_sum = 0, target_sum = 0;

	for (int i = 0; i < steps; i++) {
		double w = flow.cwnd();
		swift_sample in = sample_at(b, w, flow.now_ns);
		swift_state before = flow.s;

		swift_on_ack(&flow.s, &flow.p, &in, &flow.v);
		oracle::on_ack(ideal, params, in, oracle::taken_by(before, flow.s, in, flow.v, params));

		worst_drift = std::max(worst_drift,
				       std::abs(flow.cwnd() / oracle::cwnd(ideal) - 1));
		if (i >= steps / 2) {
			delay_sum += b.in_host ? flow.v.endpoint_ns : flow.s.fabric_ns;
			target_sum += b.in_host ? flow.v.endpoint_target_ns :
						  flow.v.fabric_target_ns;
		}
		flow.wait(u64(in.rtt_ns / w)); /* one ACK for each packet of a window */
	}
	/*
	 * A filtered delay, rounded to ns, rests up to 1/weight ns off. That moves the
	 * point of rest by as little; but an oracle that only listens would add the
	 * difference up for ever.
	 */
	if (!b.in_host || b.t.endpoint_ewma_milli == 1000) {
		std::printf("%s: drift %.4f %%\n", b.name, 100 * worst_drift);
		EXPECT_LT(worst_drift, 0.02);
	}
	std::printf("%s: mean delay %.4f of the target, window %.3f\n", b.name,
		    delay_sum / target_sum, flow.cwnd());
	EXPECT_NEAR(delay_sum / target_sum, 1, b.max_error);
}

INSTANTIATE_TEST_SUITE_P(
	law, closed_loop,
	testing::Values(
		Bottleneck{"one_flow", tunables({{"target_policy", SWIFT_TARGET_STATIC}}), 1, 1, 20,
			   false, 0.01},
		Bottleneck{"ten_flows", tunables({{"target_policy", SWIFT_TARGET_STATIC}}), 10, 1,
			   20, false, 0.01},
		Bottleneck{"flow_scaling_off",
			   tunables({{"target_policy", SWIFT_TARGET_STATIC}, {"fs_range_ns", 0}}), 4,
			   1, 20, false, 0.01},
		Bottleneck{"base_rtt_plus", tunables(), 4, 1, 100, false, 0.01},
		Bottleneck{"incast_below_one_packet",
			   tunables({{"target_policy", SWIFT_TARGET_STATIC}, {"ai_milli", 10},
				     {"fs_range_ns", us(100)}}),
			   2000, 1, 20, false, 0.01},
		Bottleneck{"slow_host", tunables({{"endpoint_ewma_milli", 1000}}), 4, 1, 20, true,
			   0.01},
		Bottleneck{"slow_host_filtered", tunables(), 4, 1, 20, true, 0.01},
		Bottleneck{"v0", tunables({{"split", 0}, {"target_policy", SWIFT_TARGET_STATIC}}), 4,
			   1, 20, false, 0.01}),
	[](const auto &test) { return std::string(test.param.name); });

} /* namespace */
