/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Arbitrary bytes as tunables and a sequence of events: whatever the history,
 * the windows stay within their bounds and a verdict adds up. Built with the
 * unsigned-overflow sanitizer as well: time does not run backwards here, so
 * nothing in the law has a reason to wrap.
 */
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

#include "swift.h"

#define REQUIRE(condition)               \
	do {                             \
		if (!(condition))        \
			std::abort();    \
	} while (0)

namespace {

/* The input, taken from the front; zeros when it is used up. */
struct Bytes {
	const u8 *at, *end;

	template <typename T> T take()
	{
		T value = {};
		size_t n = size_t(end - at) < sizeof(T) ? size_t(end - at) : sizeof(T);

		std::memcpy(&value, at, n);
		at += n;
		return value;
	}
};

/* Into the range that a row has, the ends included; a raw value now and then. */
u32 fold(Bytes &in, u32 lo, u32 hi)
{
	u32 raw = in.take<u32>();

	if (raw >> 28 == 0xf)
		return raw & 0xfffffff;
	return u32(lo + u64(raw) % (u64(hi) - lo + 1));
}

void check_state(const swift_state &s, const swift_params &p)
{
	for (const swift_window *w : {&s.fabric, &s.endpoint})
		REQUIRE(w->cwnd_q16 >= p.min_cwnd_q16 && w->cwnd_q16 <= p.max_cwnd_q16);
	REQUIRE(p.split || s.fabric.cwnd_q16 == s.endpoint.cwnd_q16);
}

void check_ack(const swift_state &before, const swift_state &s, const swift_params &p,
	       const swift_sample &in, const swift_verdict &v)
{
	REQUIRE(s.retx_cnt == 0);
	REQUIRE((v.fabric_action == SWIFT_NO_SAMPLE) == (in.rtt_ns == 0));
	REQUIRE(v.fabric_ns + u64(v.endpoint_ns) == in.rtt_ns);
	if (!in.rtt_ns) {
		REQUIRE(s.fabric.cwnd_q16 == before.fabric.cwnd_q16);
		REQUIRE(s.endpoint.cwnd_q16 == before.endpoint.cwnd_q16);
		return;
	}
	/* One ACK adds ai at most, or a flow that begins as much again; and takes max_mdf at most (the ceiling apart). */
	auto most_q16 = [&](const swift_window &w) {
		return u64(w.cwnd_q16) + swift_max_u32(p.ai_q24 >> 8, s.starting ? w.cwnd_q16 : 0) + 1;
	};

	REQUIRE(s.starting <= before.starting);
	REQUIRE(s.fabric.cwnd_q16 <= most_q16(before.fabric));
	REQUIRE(s.endpoint.cwnd_q16 <= most_q16(before.endpoint) || !p.split);
	REQUIRE(swift_cwnd_q16(&s) + 1ULL >=
		u64(swift_cwnd_q16(&before)) * (SWIFT_Q24_ONE - p.max_mdf_q24) >> 24);
	if (p.split) {
		REQUIRE(s.fabric.cwnd_q16 <= u64(s.endpoint.cwnd_q16) * SWIFT_CEILING);
		REQUIRE(s.endpoint.cwnd_q16 <= u64(s.fabric.cwnd_q16) * SWIFT_CEILING);
	}
}

} /* namespace */

extern "C" int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	Bytes in = {data, data + size};
	swift_tunables t;
	swift_params p;
	swift_state s;
	swift_dither dither = {};
	u64 now_ns = in.take<u64>() >> 1;

#define SWIFT_X(name, def, lo, hi, doc) t.name = fold(in, lo, hi);
	SWIFT_TUNABLES(SWIFT_X)
#undef SWIFT_X
	if (swift_params_prepare(&p, &t))
		return 0;
	swift_init(&s, &p, in.take<u16>());
	check_state(s, p);

	while (in.at < in.end) {
		swift_state before = s;
		u8 event = in.take<u8>();
		u32 rtt_ns = in.take<u32>() >> (event >> 3); /* of every magnitude */
		swift_sample sample = {};
		swift_verdict v;
		u32 pkts, drained_q16;

		now_ns += in.take<u32>();
		switch (event & 7) {
		case 0:
			REQUIRE(swift_on_fast_recovery(&s, &p, now_ns, rtt_ns) ||
				swift_cwnd_q16(&s) == swift_cwnd_q16(&before));
			break;
		case 1:
			if (swift_on_timeout(&s, &p, now_ns, rtt_ns))
				REQUIRE(swift_cwnd_q16(&s) == p.min_cwnd_q16);
			break;
		case 2:
			swift_note_undo(&s);
			break;
		case 3:
			swift_undo(&s, &p);
			REQUIRE(swift_cwnd_q16(&s) >= swift_cwnd_q16(&before));
			break;
		case 4:
			swift_on_idle_restart(&s, &p, rtt_ns);
			REQUIRE(swift_cwnd_q16(&s) <= swift_cwnd_q16(&before));
			break;
		default:
			u8 flags = in.take<u8>();

			sample = {now_ns, rtt_ns, in.take<u32>() >> (flags & 31),
				  in.take<u32>() >> (flags & 31), in.take<u16>(), in.take<u8>(),
				  u8(flags >> 5 & 1), u8(flags >> 6 & 1), u8(flags >> 7),
				  event & 16 ? in.take<u32>() >> (flags & 31) : 0,
				  event & 16 ? in.take<u32>() >> (flags & 31) : 0,
				  u8(event >> 5 & 1), u8(event >> 6 & 1)};
			swift_on_ack(&s, &p, &sample, &v);
			check_ack(before, s, p, sample, v);
		}
		check_state(s, p);

		pkts = swift_snd_cwnd_pkts(&dither, swift_cwnd_q16(&s), event & 8);
		REQUIRE(pkts >= 1 && pkts <= (swift_cwnd_q16(&s) >> 16) + 1);
		REQUIRE(swift_pacing_rate_Bps(swift_cwnd_q16(&s), rtt_ns, 1500) > 0);
		drained_q16 = swift_drain_q16(&p, swift_cwnd_q16(&s), event & 16);
		REQUIRE(drained_q16 >= p.min_cwnd_q16 && drained_q16 <= swift_cwnd_q16(&s));
	}
	return 0;
}
