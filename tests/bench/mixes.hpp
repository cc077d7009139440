/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The ACK mixes that are measured: what a flow's life consists of, as rings of
 * samples. Shared by the clock (law_bench) and the instruction count.
 */
#pragma once

#include <array>
#include <cstring>

#include "swift.h"

struct Mix {
	const char *name;
	u32 rtt_min_ns, rtt_max_ns;
	u32 remote_max_ns;
	u32 window_min_milli, window_max_milli; /* where the window is held, packets / 1000 */
	u32 fs_range_ns;
};

/* Targets: 50 us in the fabric, 1 ms in the endpoints. */
constexpr Mix kMixes[] = {
	{"increase", 20000, 45000, 5000, 10000, 60000, 0},
	{"decrease", 150000, 400000, 5000, 10000, 60000, 0},
	{"both_windows", 100000, 3000000, 2500000, 10000, 60000, 0},
	{"sub_packet", 40000, 90000, 5000, 1, 900, 0},
	{"flow_scaling", 30000, 90000, 5000, 500, 60000, 100000},
};

class Workload {
public:
	explicit Workload(const Mix &mix)
	{
		swift_tunables t;
		u32 seed = 1;
		auto next = [&seed](u32 lo, u32 hi) {
			seed = seed * 1664525 + 1013904223;
			return u32(lo + (u64(seed) * (hi - lo) >> 32));
		};

		swift_tunables_default(&t);
		t.target_policy = SWIFT_TARGET_STATIC;
		t.endpoint_target_ns = 1000000;
		t.fs_range_ns = mix.fs_range_ns;
		t.min_cwnd_micro = mix.window_min_milli * 1000;
		t.max_cwnd = mix.window_max_milli < 1000 ? 1 : mix.window_max_milli / 1000;
		if (swift_params_prepare(&params_, &t))
			__builtin_trap();
		swift_init(&state_, &params_, 0);
		for (swift_sample &in : samples_) {
			in = {};
			in.rtt_ns = next(mix.rtt_min_ns, mix.rtt_max_ns);
			in.remote_ns = next(0, mix.remote_max_ns);
			in.local_ns = 2000;
			in.acked_pkts = next(1, 4);
			in.hops = 3;
			in.echo_expected = in.has_echo = in.cwnd_limited = 1;
		}
	}

	/* Every ACK comes a full RTT after the last, so that each may decrease. */
	void ack()
	{
		swift_sample &in = samples_[at_++ % samples_.size()];

		in.now_ns = now_ns_ += in.rtt_ns;
		swift_on_ack(&state_, &params_, &in, &verdict_);
	}

	const swift_state &state() const { return state_; }
	const swift_params &params() const { return params_; }
	const swift_verdict &verdict() const { return verdict_; }

private:
	swift_params params_{};
	swift_state state_{};
	swift_verdict verdict_{};
	std::array<swift_sample, 256> samples_{};
	size_t at_ = 0;
	u64 now_ns_ = 1000000000000;
};
