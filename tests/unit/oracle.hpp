/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The law once more, in doubles, written from the paper (Kumar et al., SIGCOMM
 * 2020) and from the deviations D1..D18 that kmod/core/swift.h lists: what the
 * fixed-point law is held against. Nothing of the core is computed with here;
 * its plain structs serve as input, and to start from its state.
 *
 * Units: windows in packets, delays in ns, both double. Times stay u64: clocks
 * wrap, and "an RTT has passed" is exact.
 */
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "option.h"
#include "swift.h"

namespace oracle {

constexpr double kUnit = 1.0 / 65536; /* the last place of a window, packets */
constexpr double kNone = std::numeric_limits<double>::infinity(); /* no delay seen yet */
constexpr double kU32Max = 4294967295.0;

/* The operator's numbers, in packets, ns and fractions of one. */
struct Params {
	swift_tunables t;
	double ai, beta, max_mdf, ewma_weight;
	double min_cwnd, max_cwnd, init_cwnd;
	double fs_range, fs_min_cwnd, fs_max_cwnd;
	double small_step = 1. / 4; /* D16; where news are a gap old, 1 / 32 */

	explicit Params(const swift_tunables &tunables, bool late_news = false) : t(tunables)
	{
		if (late_news)
			small_step = 1. / 32;
		ai = t.ai_milli / 1e3;
		beta = t.beta_milli / 1e3;
		max_mdf = t.max_mdf_milli / 1e3;
		ewma_weight = t.endpoint_ewma_milli / 1e3;
		/* The smallest window is held at its representable value, again and again. */
		min_cwnd = std::round(t.min_cwnd_micro / 1e6 / kUnit) * kUnit;
		max_cwnd = t.max_cwnd;
		init_cwnd = t.init_cwnd;
		fs_range = t.fs_range_ns;
		fs_min_cwnd = t.fs_min_cwnd_milli / 1e3;
		fs_max_cwnd = t.fs_max_cwnd_milli / 1e3;
	}

	double clamp(double cwnd) const
	{
		return std::min(std::max(cwnd, min_cwnd), max_cwnd);
	}
};

struct Window {
	double cwnd;
	u32 t_last_decrease;
	double undo_cwnd;
	double cut = 0; /* how much the latest event took away, the ceiling apart */
};

struct State {
	Window fabric, endpoint;
	double endpoint_delay; /* EWMA, 3.3 */
	double fabric_delay; /* EWMA, D14, D16; whole ns; 0 = none yet */
	double noise; /* as well */
	double turns; /* D18; in 16 ns */
	u32 round; /* in 4096 ns; of 16 bits */
	double round_delay[2]; /* in 256 ns: of this round and the one before; 0 = none */
	bool has_endpoint_delay;
	int retransmit_cnt;
	u64 base_since;
	double base_delay[2]; /* current and previous half window */
	bool starting; /* D12 */
	bool small, near; /* D16 */
	double own; /* D20; in steps of 64 ns */
	int own_queue; /* D18: 0 to 15 */
};

inline State from_fixed(const swift_state &s)
{
	auto window = [](const swift_window &w) {
		return Window{w.cwnd_q16 * kUnit, w.last_decrease_ns, w.undo_cwnd_q16 * kUnit};
	};
	auto delay = [](u32 ns) { return ns == SWIFT_U32_MAX ? kNone : ns; };

	return {window(s.fabric), window(s.endpoint), double(s.endpoint_ns),
		double(s.fabric_ns), double(s.noise_ns), double(s.turns_16ns), s.round_4us,
		{double(s.delay_256ns[0]), double(s.delay_256ns[1])}, s.has_endpoint != 0,
		s.retx_cnt, s.base.since_ns,
		{delay(s.base.delay_ns[0]), delay(s.base.delay_ns[1])}, s.starting != 0,
		s.small != SWIFT_NOT_SMALL, s.small == SWIFT_SMALL_NEAR, s.own_64ns * 64., s.own_queue};
}

inline double cwnd(const State &s)
{
	return std::min(s.fabric.cwnd, s.endpoint.cwnd); /* 3.3 */
}

/* --- 3.5: the fabric target ----------------------------------------------------- */

inline double flow_scaling(const Params &p, double fcwnd)
{
	double alpha = p.fs_range / (1 / std::sqrt(p.fs_min_cwnd) - 1 / std::sqrt(p.fs_max_cwnd));
	double beta = -alpha / std::sqrt(p.fs_max_cwnd);

	return std::max(0.0, std::min(alpha / std::sqrt(fcwnd) + beta, p.fs_range));
}

/* log2 by straight lines between powers of two, in steps of 1/256. */
inline double log2_by_lines(double x)
{
	double whole = std::floor(std::log2(x));

	return whole + std::floor((x / std::exp2(whole) - 1) * 256) / 256;
}

/* D14: half of the noise that counts for each doubling that is left to 1024 packets, and five at most. */
inline double wanted_noise_room(const State &s, const Params &p, double fcwnd)
{
	double all = p.t.rtt_epsilon_ns / 4;
	double counted = fcwnd < 3 || s.noise <= all ? s.noise : all + std::floor((s.noise - all) / 3);

	return std::floor(counted * std::clamp(10 - log2_by_lines(fcwnd), 0.0, 5.0) / 2);
}

/* Three packets have epsilon at most, others by three quarters of what scaling takes or gives more; half a packet is the least that counts. */
inline double most_noise_room(const Params &p, double fcwnd)
{
	return p.t.rtt_epsilon_ns + std::abs(flow_scaling(p, 3) - flow_scaling(p, std::max(fcwnd, 0.5))) * 3 / 4;
}

inline double noise_room(const State &s, const Params &p, double fcwnd)
{
	double room = std::min(wanted_noise_room(s, p, fcwnd), most_noise_room(p, fcwnd));

	return fcwnd < 1 ? std::max(room, double(p.t.rtt_epsilon_ns)) : room;
}

/* D18: ten times what noise is beyond five eighths of epsilon, as it is noise and not a queue that moves. */
inline double late_room(const State &s, const Params &p, double fcwnd, double smallest, double endpoint)
{
	double few = std::floor(p.t.rtt_epsilon_ns / 8) * 5;
	double above = std::max(0.0, s.fabric_delay - smallest);
	double queue = std::floor(s.noise * 19 / 4), turned = 16 * s.turns - std::floor(s.noise * 5 / 16);
	/* What of the noise a slow link's packets may be. */
	double packets = std::floor(smallest * 3 / 8) + 4 * std::max(0.0, smallest - 6.0 * p.t.rtt_epsilon_ns);
	double busy = std::floor(s.noise * 7 / 8); /* what hosts that are busy hold back themselves */
	auto part = [](double x, double of) { return std::min(256.0, x < of ? std::floor(x * 256 / of) : 256.0); };

	if (s.noise <= few || s.noise <= packets || above >= queue || turned <= 0 || endpoint >= busy || fcwnd < 1)
		return 0;
	double counted = std::floor(s.noise * (64 - std::min(48.0, 5 * log2_by_lines(fcwnd))) / 64);

	if (counted <= few)
		return 0;
	double room = std::floor((counted - few) * (counted - few) / counted) * 10;

	room = std::floor(room * part(queue - above, std::floor(s.noise * 5 / 4)) / 256);
	room = std::floor(room * part(turned, std::floor(s.noise / 8)) / 256);
	room = std::min(room, 16.0 * p.t.rtt_epsilon_ns);
	room = std::floor(room * part(s.noise - packets, std::floor(smallest / 8)) *
			  part(busy - endpoint, std::floor(s.noise / 4)) / 65536);
	return std::floor(room * std::min(15 - s.own_queue, 8) / 8); /* none where it is this host's link that is full */
}

/* D10. @path_base: what other flows saw; 0 = unknown. */
inline double smallest_delay(const State &s, u32 path_base)
{
	return std::min({s.base_delay[0], s.base_delay[1], path_base ? double(path_base) : kNone});
}

/* D22: how much longer room and flow scaling are on a long path. @least: the smallest delay ever; 0 = unknown. */
inline double how_long(double least)
{
	double beyond = std::max(std::min(least, 2.5e6) - 120e3, 0.0);

	return 1 + (beyond + std::min(beyond, 120e3)) / 160e3;
}

inline double target_delay(const State &s, const Params &p, unsigned hops, double fcwnd,
			   u32 path_base, u32 path_least)
{
	double smallest = smallest_delay(s, path_base), base = 0, longer = 1;

	switch (p.t.target_policy) {
	case SWIFT_TARGET_STATIC: /* the paper's; hops are honoured up to SWIFT_HOPS_MAX */
		base = p.t.base_target_ns + double(std::min(hops, 16U)) * p.t.hop_target_ns;
		break;
	case SWIFT_TARGET_BASE_RTT: /* D7 */
		base = smallest;
		break;
	case SWIFT_TARGET_BASE_RTT_PLUS: /* D7 */
		longer = how_long(path_least);
		base = std::max(smallest + longer * p.t.rtt_epsilon_ns, double(p.t.base_target_ns)) +
		       noise_room(s, p, fcwnd) + late_room(s, p, fcwnd, smallest, s.endpoint_delay);
		break;
	}
	return std::min(base + longer * flow_scaling(p, fcwnd), kU32Max);
}

/* D7: how much of a smaller delay may be luck. */
inline double base_luck(const State &s, const Params &p)
{
	if (p.t.target_policy != SWIFT_TARGET_BASE_RTT_PLUS || std::min(s.fabric.cwnd, s.endpoint.cwnd) < 2)
		return 0;
	return std::min<double>(2 * s.noise, SWIFT_U32_MAX);
}

/*
 * D7: what delays of the last window of time fell to, in two halves: an eighth of the way to each
 * as far as that may be luck, half of the way beyond.
 */
inline void feed_base_delay(State &s, const Params &p, u64 now, double delay, bool short_sized)
{
	double known = std::min(s.base_delay[0], s.base_delay[1]);
	u64 window = u64(p.t.rtt_window_ms) * 1000000;
	u64 age = s64(now - s.base_since) < 0 ? 0 : now - s.base_since; /* shared by CPUs */

	if (short_sized && known != kNone) /* it tells of a longer path alone */
		delay = std::max(delay, known);
	if (age >= window / 2) {
		s.base_delay[1] = age >= window ? kNone : s.base_delay[0];
		s.base_delay[0] = kNone;
		s.base_since = now;
	}
	if (s.base_delay[0] == kNone)
		s.base_delay[0] = delay;
	else if (delay < s.base_delay[0]) { /* to a whole ns, and there in the end */
		const double less = s.base_delay[0] - delay;
		const double luck = std::min(less, base_luck(s, p));

		s.base_delay[0] -= std::max(std::floor((less - luck) / 2) + std::floor(luck / 8), 1.0);
	}
}

/* The decisions that rounding may turn, as the law under test took them. */
struct Decisions {
	bool fabric_below_target;
	bool endpoint_below_target;
	bool small, near;
	bool cut; /* D16: by all of max_mdf */
	bool own_longer; /* D20 */
};

inline double alpha(const Params &p)
{
	return p.fs_range / (1 / std::sqrt(p.fs_min_cwnd) - 1 / std::sqrt(p.fs_max_cwnd));
}

/* D16: how far flow scaling moves the target, about, where the window changes by half; whole ns. */
inline double small_scale(const Params &p, double fcwnd, double longer = 1)
{
	return longer * alpha(p) / std::sqrt(std::max(fcwnd, p.fs_min_cwnd));
}

/* Relative: as flow scaling's; alpha is held in 1/256, fs_min_cwnd in q16, the scale in whole ns, twice if longer. */
inline double scale_tolerance(const Params &p, double fcwnd, double longer)
{
	double scale = small_scale(p, fcwnd), of_alpha = scale / (256 * alpha(p));
	double twice = longer > 1 ? 1 / std::max(longer * (scale - 1) - 1, 0.5) : 0;

	return twice + 2e-5 + kUnit / std::max(fcwnd, p.fs_min_cwnd) + (1 + of_alpha) / std::max(scale - 1 - of_alpha, 0.5);
}

/* D16: a small window on a learnt base. What has hardly a curve has no scale. */
inline bool is_small(const State &s, const Params &p, const Decisions &taken)
{
	if (s.fabric.cwnd >= 4 || s.starting || p.t.target_policy != SWIFT_TARGET_BASE_RTT_PLUS)
		return false;

	double scale = small_scale(p, s.fabric.cwnd);

	return scale > 0.5 && scale < 2 ? taken.small : scale >= 1;
}

/*
 * D18: the first delay of each round turns back, or goes on. Rounds further apart than 768 units
 * of time tell nothing of each other.
 */
inline void feed_turns(State &s, const swift_sample &in, double delay)
{
	u32 round = u32(in.now_ns >> 12) & 0xffff, apart = (round - s.round) & 0xffff;
	double now = std::clamp(std::floor(delay / 256), 1.0, 65535.0);
	double last = s.round_delay[0], before = s.round_delay[1], turn = 0;

	if (last && apart < in.rtt_ns >> 12)
		return;
	s.round = round;
	s.round_delay[0] = now;
	s.round_delay[1] = apart > 768 ? 0 : last;
	if (!before || !last || apart > 768)
		return;
	if ((now < last) == (before < last))
		turn = 16 * std::min(std::abs(now - last), std::abs(before - last));
	turn = std::min({turn, std::floor(s.noise / 16) + 64, 65535.0});
	s.turns += std::trunc((turn - s.turns) / 32);
}

/*
 * D14: what differs from the average is noise; the more there is, the longer the average, which
 * is at least of an eighth of the window's packets.
 * D16: where the window was small, of eight samples, whatever they differ by, which is noise only
 * near the target; and the law itself goes by the newest.
 * Returns what the law reacts to.
 */
inline double feed_fabric_delay(State &s, const Params &p, const swift_sample &in, double delay)
{
	double differs = std::abs(delay - s.fabric_delay);
	double most = 4 * s.noise + 1024; /* what differs by more is an outlier */
	double samples = 1;

	if (!s.fabric_delay || p.t.target_policy != SWIFT_TARGET_BASE_RTT_PLUS) {
		s.fabric_delay = delay;
		return delay;
	}
	feed_turns(s, in, delay);
	if (s.noise > std::floor(p.t.rtt_epsilon_ns / 8) * 5)
		s.own_queue = std::clamp(s.own_queue + (in.own_queue ? 1 : -2), 0, 15);

	bool small = s.small && s.fabric.cwnd < 4;

	if (!small || s.near)
		s.noise += std::trunc((std::min(differs, most) - s.noise) / 64);
	for (int quarter = 1; quarter <= 4 && 2 * samples <= s.fabric.cwnd &&
	     (4 * s.noise >= quarter * double(p.t.rtt_epsilon_ns) || 16 * samples <= s.fabric.cwnd); quarter++)
		samples *= 2;
	if (small)
		differs = std::trunc(differs / 8);
	else if (samples > 1)
		differs = std::trunc((4 * s.noise >= p.t.rtt_epsilon_ns ? std::min(differs, most) : differs) / samples);
	s.fabric_delay += delay < s.fabric_delay ? -differs : differs;
	return small ? delay : s.fabric_delay;
}

/* --- Algorithm 1 -------------------------------------------------------------------- */

/* Line 3. The clock may wrap, and is of 32 bits; 0 = never. */
inline bool can_decrease(const Window &w, u64 now, u32 rtt)
{
	return !w.t_last_decrease || u32(now - w.t_last_decrease) >= rtt;
}

/* Lines 26 to 28; D1: only a smaller window is a decrease. */
inline void bound_and_note(Window &w, const Params &p, double cwnd_prev, u64 now)
{
	w.cwnd = p.clamp(w.cwnd);
	w.cut = std::max(0.0, cwnd_prev - w.cwnd);
	if (w.cut > 0)
		w.t_last_decrease = std::max(u32(now), 1U);
}

/* Lines 8 and 10, what a window grows by; D2, D3, D12, D15. */
inline double increase(const Window &w, const Params &p, const swift_sample &in, bool starting)
{
	double acked = std::min(in.acked_pkts, 65535U); /* no window is larger */
	double step = w.cwnd >= 1 && !starting ? p.ai / w.cwnd * acked : p.ai * acked;
	double most = starting ? std::max(p.ai, w.cwnd) : p.ai; /* D3, D12 */

	if (w.cwnd < 4 && !starting && p.t.target_policy == SWIFT_TARGET_BASE_RTT_PLUS) { /* D15 */
		double root = std::sqrt(std::max(w.cwnd, 1.0));

		step = p.ai * acked / root / 2;
		most = p.ai * root / 2;
	}
	return in.cwnd_limited ? std::min(step, most) : 0; /* D2 */
}

/* D17: what line 13 would take from as many packets that far above the target; of what may be noise. */
inline double even_most(const State &s, const Params &p, const swift_sample &in, double delay, double target)
{
	if (s.starting || s.fabric.cwnd < 4 || p.t.target_policy != SWIFT_TARGET_BASE_RTT_PLUS ||
	    target - delay >= 2 * s.noise)
		return kNone;

	double part = delay > 0 ? std::min(p.beta * (target - delay) / delay, p.max_mdf) : p.max_mdf;

	return std::max(part * std::min(in.acked_pkts, 65535U), kUnit);
}

/*
 * Lines 6 to 14; whether delay < target is given, because near equality either will do. @most: packets that
 * are added at most, D17's of the fabric's window.
 */
inline void react(Window &w, const Params &p, const swift_sample &in, double delay, double target,
		  bool below_target, bool starting, double most = kNone)
{
	double cwnd_prev = w.cwnd;

	if (below_target)
		w.cwnd += std::min(increase(w, p, in, starting), most);
	else if (can_decrease(w, in.now_ns, in.rtt_ns) && delay > 0)
		w.cwnd *= std::max(1 - p.beta * ((delay - target) / delay), 1 - p.max_mdf);
	bound_and_note(w, p, cwnd_prev, in.now_ns);
}

/* --- D16 ---------------------------------------------------------------------------- */

/*
 * In proportion to how far the newest delay is from the target, and to the square of a window
 * below one packet; who has far less than others, in proportion to the window and to that part of
 * the distance, of the mean, too, which is no chance; within the bounds of the paper's law. What
 * max_mdf bounds is a cut; other steps down leave t_last_decrease.
 */
inline void react_small(State &s, const Params &p, const swift_sample &in, double newest, double target,
			double target_tolerance, double longer, bool below_target, bool taken_cut)
{
	Window &w = s.fabric;
	double scale = small_scale(p, w.cwnd, longer), part = std::min(w.cwnd, 1.0);
	auto in_scales = [&](double off) { return std::min(off / scale, 4096.); }; /* more counts as that */
	double step = std::max(part * part * p.small_step * in_scales(std::abs(target - newest)), kUnit);

	w.cut = 0;
	if (!below_target) {
		if (!can_decrease(w, in.now_ns, in.rtt_ns))
			return;

		double most = part * p.max_mdf;
		double tolerance = 1e-3 * most + 3 * kUnit + part * part * p.small_step * ((target_tolerance + 2) / scale + 0x1p-11) +
				   step * scale_tolerance(p, w.cwnd, longer);

		if (std::abs(step - most) <= tolerance ? taken_cut : step >= most) {
			double cwnd_prev = w.cwnd;

			w.cwnd -= most;
			bound_and_note(w, p, cwnd_prev, in.now_ns);
			return;
		}
		w.cwnd = p.clamp(w.cwnd - std::min(step, most));
		return;
	}
	if (!in.cwnd_limited || !in.acked_pkts) /* D2 */
		return;
	s.fabric_delay = std::min(s.fabric_delay, target); /* a queue that was there is forgotten */

	double lack = std::max(0.0, in_scales(target - std::max(newest, s.fabric_delay)) - 1. / 8) * 2 * w.cwnd;

	lack = std::max(lack, p.fs_min_cwnd - w.cwnd);
	w.cwnd = p.clamp(w.cwnd + std::min(std::max(step, lack), increase(w, p, in, false)));
}

/* --- An ACK -------------------------------------------------------------------------- */

/* As its states before and after the ACK, and the verdict, show them. */
inline Decisions taken_by(const swift_state &before, const swift_state &after, const swift_sample &in,
			  const swift_verdict &v, const Params &p)
{
	u32 newest_ns = p.t.split ? v.fabric_ns : in.rtt_ns;
	u32 reacted_ns = before.small != SWIFT_NOT_SMALL && before.fabric_ns &&
				 before.fabric.cwnd_q16 < 4 << 16 &&
				 p.t.target_policy == SWIFT_TARGET_BASE_RTT_PLUS ?
				 newest_ns : after.fabric_ns;

	return {reacted_ns < v.fabric_target_ns, after.endpoint_ns < v.endpoint_target_ns,
		after.small != SWIFT_NOT_SMALL, after.small == SWIFT_SMALL_NEAR,
		after.fabric.last_decrease_ns != before.fabric.last_decrease_ns, after.own_64ns > before.own_64ns};
}

/* What an ACK was understood as, and how exactly the numbers in it are known. */
struct Reading {
	bool sampled = false;
	bool even_bounds = false; /* D17 may be what bounds the fabric's growth */
	double even_tolerance = 0; /* packets */
	double fabric_delay = 0, endpoint_delay = 0; /* of this ACK */
	double reacted_fabric_delay = 0; /* the filtered one, D14, or a small window's newest, D16 */
	double reacted_endpoint_delay = 0; /* the filtered one, D5 */
	double fabric_target = 0, target_tolerance = 0;
	double longer = 1; /* D22 */
	double endpoint_target = 0, endpoint_target_tolerance = 0; /* D19 */
	double base_sample = 0, base_luck = 0; /* for others on this path: a delay, 0 = none; what of it may be luck */
	bool clamped = false;
	bool fabric_tie = false, endpoint_tie = false; /* Decisions were asked for */
};

constexpr double kEwmaTolerance = 1.0; /* ns: rounded down to one */

/* What D18's room changes by where the host's delay is known to that. */
inline double late_tolerance(const State &s, const Params &p, double fcwnd, u32 path_base)
{
	double smallest = smallest_delay(s, path_base), off = 1e-3 * s.endpoint_delay + kEwmaTolerance;

	if (p.t.target_policy != SWIFT_TARGET_BASE_RTT_PLUS)
		return 0;
	return late_room(s, p, fcwnd, smallest, std::max(s.endpoint_delay - off, 0.0)) -
	       late_room(s, p, fcwnd, smallest, s.endpoint_delay + off);
}

/*
 * 3.5 at a window known to one unit, plus 2e-5 of the curve's height (alpha and
 * beta are differences of rounded numbers), plus what alpha in 1/256 leaves open,
 * plus as much again where flow scaling bounds the noise's room, plus two ns; on a long path
 * (D22) as many times that as flow scaling is longer, and two ns more.
 */
inline double target_tolerance(const State &s, const Params &p, unsigned hops, u32 path_base, u32 path_least)
{
	double w = s.fabric.cwnd, longer = how_long(path_least);
	double bounded = wanted_noise_room(s, p, w - kUnit) > p.t.rtt_epsilon_ns;

	/* At one packet there begins D18's room: what is compared stays on its side. */
	double less = w >= 1 ? std::max(w - kUnit, 1.0) : std::max(w - kUnit, kUnit);
	double more = w < 1 ? std::min(w + kUnit, 1 - kUnit / 2) : w + kUnit;

	return target_delay(s, p, hops, less, path_base, path_least) - target_delay(s, p, hops, more, path_base, path_least) +
	       late_tolerance(s, p, less, path_base) +
	       longer * ((1 + bounded) * 2e-5 * p.fs_range + 1 / std::sqrt(w) / 256 + bounded + 2) + (longer > 1 ? 2 : 0);
}

/* D19: and how exactly a window of whole units tells it. */
inline double endpoint_target(const Params &p, double ecwnd, double own)
{
	return p.t.endpoint_target_ns +
	       (p.t.target_policy == SWIFT_TARGET_BASE_RTT_PLUS ? own + flow_scaling(p, ecwnd) : 0);
}

inline double endpoint_tolerance(const Params &p, double ecwnd)
{
	if (p.t.target_policy != SWIFT_TARGET_BASE_RTT_PLUS)
		return 0;
	return flow_scaling(p, std::max(ecwnd - kUnit, kUnit)) - flow_scaling(p, ecwnd + kUnit) +
	       2e-5 * p.fs_range + 1 / std::sqrt(ecwnd) / 256 + 2;
}

/* D20. Where the window is 1/256 packet within @tolerance, either will do. */
inline void feed_own(State &s, const Params &p, bool endpoint_below, double tolerance, bool taken_longer)
{
	double own = std::min(std::floor(s.endpoint_delay / 64), 16384.) * 64;
	bool tie = std::abs(s.endpoint.cwnd - 1 / 256.) <= tolerance;
	bool tiny = tie ? taken_longer : s.endpoint.cwnd < 1 / 256.;

	if (own < s.own || (p.t.target_policy == SWIFT_TARGET_BASE_RTT_PLUS && tiny && !endpoint_below))
		s.own = own;
}

inline Reading on_ack(State &s, const Params &p, const swift_sample &in, const Decisions &taken)
{
	Reading r;

	s.retransmit_cnt = 0; /* line 5 */
	if (!in.rtt_ns) /* D4 */
		return r;
	r.sampled = true;

	/* 3.1, 3.3: endpoint = remote-queuing + local NIC Rx; fabric = RTT - endpoint. */
	double claimed = double(in.remote_ns) + in.local_ns;
	bool unknown = in.echo_expected && !in.has_echo; /* D5 */
	bool guessed = unknown && s.has_endpoint_delay;

	if (!in.has_echo)
		claimed = in.local_ns;
	if (guessed)
		claimed = std::max(claimed, s.endpoint_delay);
	r.clamped = claimed > in.rtt_ns;
	r.endpoint_delay = std::min(claimed, double(in.rtt_ns));
	r.fabric_delay = in.rtt_ns - r.endpoint_delay;

	if (!unknown) { /* 3.3: EWMA, of the endpoint delay alone */
		/* D9: no more ACKs are remembered than a window has packets. */
		double weight = std::max(p.ewma_weight, std::min(1.0, 1 / cwnd(s)));

		if (!s.has_endpoint_delay)
			weight = 1;

		s.endpoint_delay += weight * (r.endpoint_delay - s.endpoint_delay);
		s.has_endpoint_delay = true;
	}
	r.reacted_endpoint_delay = s.endpoint_delay;

	auto below = [](double delay, double target, double tolerance, bool fixed, bool &tie) {
		tie = std::abs(delay - target) <= tolerance && delay != target;
		return tie ? fixed : delay < target;
	};
	auto below_fabric_target = [&](double delay) {
		r.longer = p.t.target_policy == SWIFT_TARGET_BASE_RTT_PLUS ? how_long(in.path_least_ns) : 1;
		r.fabric_target = target_delay(s, p, in.hops, s.fabric.cwnd, in.path_base_ns, in.path_least_ns);
		r.target_tolerance = target_tolerance(s, p, in.hops, in.path_base_ns, in.path_least_ns);
		return below(delay, r.fabric_target, r.target_tolerance, taken.fabric_below_target,
			     r.fabric_tie);
	};

	auto react_to_fabric = [&](bool fabric_below) {
		s.small = is_small(s, p, taken);
		s.near = false;
		if (!s.small) {
			auto most = [&](double off) {
				return even_most(s, p, in, r.reacted_fabric_delay, r.fabric_target + off);
			};
			double wanted = increase(s.fabric, p, in, s.starting);
			double near = r.target_tolerance + 1;

			r.even_bounds = most(-near) < wanted;
			/* beta, the part of the window, and what a packet adds have a grain of 2^-24. */
			double off = std::min(r.fabric_target / std::max(r.reacted_fabric_delay, 1.), p.max_mdf / p.beta);

			r.even_tolerance = std::min(wanted, most(near)) - std::min(wanted, most(-near)) +
				std::min(in.acked_pkts, 65535U) * 0x1p-24 * (1 + s.fabric.cwnd * (1 + off));
			react(s.fabric, p, in, r.reacted_fabric_delay, r.fabric_target, fabric_below,
			      s.starting, most(0));
			return;
		}

		double near = small_scale(p, s.fabric.cwnd, r.longer) / 4;
		double off = std::abs(s.fabric_delay - r.fabric_target);
		bool tie = std::abs(off - near) <=
			   r.target_tolerance + 1 + near * scale_tolerance(p, s.fabric.cwnd, r.longer);

		s.near = tie ? taken.near : off < near;
		r.fabric_tie |= tie;
		react_small(s, p, in, r.reacted_fabric_delay, r.fabric_target, r.target_tolerance, r.longer,
			    fabric_below, taken.cut);
	};

	if (!p.t.split) { /* Swift-v0: Algorithm 1 on the RTT */
		r.base_sample = in.short_sized ? 0 : in.rtt_ns;
		r.base_luck = base_luck(s, p);
		feed_base_delay(s, p, in.now_ns, in.rtt_ns, in.short_sized);
		r.reacted_fabric_delay = feed_fabric_delay(s, p, in, in.rtt_ns);
		bool fabric_below = below_fabric_target(r.reacted_fabric_delay);

		s.starting = s.starting && fabric_below; /* D12 */
		react_to_fabric(fabric_below);
		s.endpoint.cwnd = s.fabric.cwnd;
		s.endpoint.t_last_decrease = s.fabric.t_last_decrease;
		s.endpoint.cut = s.fabric.cut;
		return r;
	}

	/* D7: "seen" is neither what was guessed nor what cannot be. */
	if (!guessed && !r.clamped) {
		r.base_sample = in.short_sized ? 0 : r.fabric_delay;
		r.base_luck = base_luck(s, p);
		feed_base_delay(s, p, in.now_ns, r.fabric_delay, in.short_sized);
	}
	r.reacted_fabric_delay = feed_fabric_delay(s, p, in, r.fabric_delay);
	bool fabric_below = below_fabric_target(r.reacted_fabric_delay);
	r.endpoint_target = endpoint_target(p, s.endpoint.cwnd, s.own);
	r.endpoint_target_tolerance = endpoint_tolerance(p, s.endpoint.cwnd);
	bool endpoint_below = below(s.endpoint_delay, r.endpoint_target, kEwmaTolerance + r.endpoint_target_tolerance,
				    taken.endpoint_below_target, r.endpoint_tie);

	s.starting = s.starting && fabric_below && endpoint_below; /* D12 */
	react_to_fabric(fabric_below);
	double ecwnd_tolerance = 1e-3 / 256 + 2 * kUnit + s.endpoint.cwnd * p.beta *
				 (kEwmaTolerance + r.endpoint_target_tolerance) / std::max(s.endpoint_delay, 1.);

	react(s.endpoint, p, in, s.endpoint_delay, r.endpoint_target, endpoint_below, s.starting);
	if (!guessed)
		feed_own(s, p, endpoint_below, ecwnd_tolerance, taken.own_longer);

	double ceiling = 32 * cwnd(s); /* D6, footnote 3 */
	s.fabric.cwnd = std::min(s.fabric.cwnd, ceiling);
	s.endpoint.cwnd = std::min(s.endpoint.cwnd, ceiling);
	return r;
}

/*
 * A window agrees to 0.1 % or one unit; plus what a target or a delay that is
 * known only so well makes of a decrease, and 2^-24 of the window, the grain of
 * the part that goes.
 */
inline double window_tolerance(double before, double expected, double beta, double delay,
			       double delay_tolerance)
{
	double tolerance = 1e-3 * expected + kUnit + before * 0x1p-24;

	return delay > 0 ? tolerance + before * beta * delay_tolerance / delay : tolerance;
}

struct Tolerances {
	double fabric, endpoint; /* packets */
};

/* Of the windows after an ACK. */
inline Tolerances ack_tolerances(const State &before, const State &after, const Params &p,
				 const Reading &r)
{
	Tolerances t = {
		window_tolerance(before.fabric.cwnd, after.fabric.cwnd, p.beta,
				 r.reacted_fabric_delay, r.target_tolerance),
		window_tolerance(before.endpoint.cwnd, after.endpoint.cwnd, p.beta,
				 r.reacted_endpoint_delay, kEwmaTolerance + r.endpoint_target_tolerance),
	};

	if (r.even_bounds) /* D17: as exactly as the target is known, and a unit for each rounding */
		t.fabric += r.even_tolerance + 2 * kUnit;
	if (r.sampled && after.small) { /* a unit for the square, one for the least step, one for what is taken away */
		double scale = small_scale(p, before.fabric.cwnd, r.longer);
		double part = std::min(before.fabric.cwnd, 1.0);
		double slope = part * part * p.small_step + 2 * before.fabric.cwnd;
		double off = std::min(std::abs(r.fabric_target - r.reacted_fabric_delay) / scale + 1, 4096.);

		t.fabric = 1e-3 * std::abs(after.fabric.cwnd - before.fabric.cwnd) + 4 * kUnit +
			   slope * ((r.target_tolerance + 2) / scale + 0x1p-11 +
				    off * scale_tolerance(p, before.fabric.cwnd, r.longer));
	}

	/* What the ceiling sets, or may, is as exact as 32 times the other window; v0 has one. */
	if (!p.t.split) {
		t.endpoint = t.fabric;
	} else if (r.sampled) {
		if (after.fabric.cwnd >= 15.9 * (after.endpoint.cwnd - std::min(t.endpoint, after.endpoint.cwnd / 2)))
			t.fabric += 32 * t.endpoint;
		else if (after.endpoint.cwnd >= 15.9 * (after.fabric.cwnd - std::min(t.fabric, after.fabric.cwnd / 2)))
			t.endpoint += 32 * t.fabric;
	}
	return t;
}

/* Lines 20, 21 and 24, 25. */
inline void cut_by_max_mdf(Window &w, const Params &p, u64 now, u32 rtt)
{
	double cwnd_prev = w.cwnd;

	if (can_decrease(w, now, rtt))
		w.cwnd *= 1 - p.max_mdf;
	bound_and_note(w, p, cwnd_prev, now);
}

/* Lines 22 to 25, for both windows. */
inline void on_fast_recovery(State &s, const Params &p, u64 now, u32 rtt)
{
	s.retransmit_cnt = 0;
	s.starting = false;
	cut_by_max_mdf(s.fabric, p, now, rtt);
	cut_by_max_mdf(s.endpoint, p, now, rtt);
}

/* Lines 15 to 21, for both windows. The counter is a byte. */
inline void on_timeout(State &s, const Params &p, u64 now, u32 rtt)
{
	s.starting = false;
	s.retransmit_cnt = std::min(s.retransmit_cnt + 1, 255);
	for (Window *w : {&s.fabric, &s.endpoint}) {
		double cwnd_prev = w->cwnd;

		if (s.retransmit_cnt >= int(p.t.retx_reset_threshold)) {
			w->cwnd = p.min_cwnd;
			bound_and_note(*w, p, cwnd_prev, now);
		} else {
			cut_by_max_mdf(*w, p, now, rtt);
		}
	}
}

/* --- What TCP adds ------------------------------------------------------------------- */

inline void note_undo(State &s)
{
	s.fabric.undo_cwnd = s.fabric.cwnd;
	s.endpoint.undo_cwnd = s.endpoint.cwnd;
}

inline void undo(State &s, const Params &p)
{
	for (Window *w : {&s.fabric, &s.endpoint})
		w->cwnd = p.clamp(std::max(w->cwnd, w->undo_cwnd));
	s.retransmit_cnt = 0;
}

/* RFC 2861: halved for each RTO of silence, down to the initial window. */
inline void on_idle_restart(State &s, const Params &p, u32 idle_rtos)
{
	double init = p.clamp(p.init_cwnd);

	for (Window *w : {&s.fabric, &s.endpoint})
		if (w->cwnd > init) {
			s.starting = true; /* D12 */
			w->cwnd = std::max(init, w->cwnd * std::exp2(-double(idle_rtos)));
		}
}

/* Lines 29 to 32, without D13's limit. */
inline double pacing_delay(double cwnd, double rtt)
{
	return cwnd < 1 ? rtt / cwnd : 0;
}

/* D16: of a small window that is the limit; @host_delay is a part of @rtt, @random between 0 and 1. */
inline double pacing_rtt(const State &s, double cwnd, double rtt, double host_delay, double target,
			 double random, bool late_news)
{
	double settled = (host_delay + target) * (7 + 2 * random) / 8;
	double newest = late_news ? cwnd / 2 : cwnd;
	bool by_target = s.small && s.fabric.cwnd <= s.endpoint.cwnd && target < kU32Max;

	return cwnd < 1 && by_target ? settled + newest * (rtt - settled) : rtt;
}

} /* namespace oracle */
