/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A flow under test: state, parameters and a clock in one, so that a case reads
 * as the story it tells. Shared by the cases and the golden traces; no
 * assertions and no expectations here.
 */
#pragma once

#include <cmath>
#include <initializer_list>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "option.h"
#include "swift.h"

constexpr u32 us(double us) { return u32(us * 1000 + 0.5); }
constexpr u64 seconds(u64 s) { return s * 1000000000; }

inline double packets(u32 cwnd_q16) { return cwnd_q16 / 65536.0; }
inline u32 to_q16(double packets) { return u32(std::llround(packets * 65536)); }

/* Returns false for a name that is none. */
inline bool set_tunable(swift_tunables &t, std::string_view name, u32 value)
{
#define SWIFT_X(field, def, lo, hi, doc) \
	if (name == #field) {            \
		t.field = value;         \
		return true;             \
	}
	SWIFT_TUNABLES(SWIFT_X)
#undef SWIFT_X
	return false;
}

/* The defaults, but for round numbers of base and room, a tuned host's endpoint target, and what is named. */
inline swift_tunables tunables(std::initializer_list<std::pair<std::string_view, u32>> changes = {})
{
	swift_tunables t;

	swift_tunables_default(&t);
	t.base_target_ns = us(50);
	t.rtt_epsilon_ns = us(50);
	t.endpoint_target_ns = us(200);
	for (auto [name, value] : changes)
		if (!set_tunable(t, name, value))
			throw std::invalid_argument("no such tunable");
	return t;
}

struct Flow {
	swift_params p{};
	swift_state s{};
	swift_verdict v{};
	u64 now_ns = seconds(1000);

	struct Ack {
		u32 rtt_ns = us(40);
		u32 remote_ns = 0;
		u32 local_ns = 0;
		u32 acked_pkts = 1;
		u8 hops = 0;
		bool echo_expected = true;
		bool has_echo = true;
		bool cwnd_limited = true;
		u32 path_base_ns = 0;
		u32 path_least_ns = 0;
		bool short_sized = false;
		bool own_queue = false;
	};

	explicit Flow(const swift_tunables &t = tunables())
	{
		if (const char *bad = swift_params_prepare(&p, &t))
			throw std::invalid_argument(bad);
		swift_init(&s, &p, 0);
	}

	/* In the middle of its life. */
	Flow &windows(double fcwnd, double ecwnd)
	{
		s.starting = 0;
		s.fabric.cwnd_q16 = to_q16(fcwnd);
		s.endpoint.cwnd_q16 = to_q16(ecwnd);
		return *this;
	}

	Flow &wait(u64 ns)
	{
		now_ns += ns;
		return *this;
	}

	Flow &ack(const Ack &a)
	{
		swift_sample in = {now_ns, a.rtt_ns, a.remote_ns, a.local_ns, a.acked_pkts, a.hops,
				   a.echo_expected, a.has_echo, a.cwnd_limited, a.path_base_ns, a.path_least_ns, a.short_sized, a.own_queue};

		swift_on_ack(&s, &p, &in, &v);
		return *this;
	}

	bool loss(u32 rtt_ns) { return swift_on_fast_recovery(&s, &p, now_ns, rtt_ns); }
	bool timeout(u32 rtt_ns) { return swift_on_timeout(&s, &p, now_ns, rtt_ns); }

	double fcwnd() const { return packets(s.fabric.cwnd_q16); }
	double ecwnd() const { return packets(s.endpoint.cwnd_q16); }
	double cwnd() const { return packets(swift_cwnd_q16(&s)); }
};
