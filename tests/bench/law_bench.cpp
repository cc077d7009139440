/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the law costs, in ns on this machine: an ACK in each mix, the parts of it
 * that a reader would suspect, the option, a NIC's stamp, and what follows an ACK on
 * the sending side. tests/bench/instructions counts instructions instead.
 */
#include <benchmark/benchmark.h>

#include <array>
#include <string>

#include "mixes.hpp"
#include "option.h"
#include "stamps.hpp"

namespace {

void on_ack(benchmark::State &state, const Mix &mix)
{
	Workload work(mix);
	u64 up = 0, down = 0;

	for (auto _ : state) {
		work.ack();
		benchmark::DoNotOptimize(work.state().fabric.cwnd_q16);
		up += work.verdict().fabric_action == SWIFT_INCREASE;
		down += work.verdict().fabric_action == SWIFT_DECREASE;
	}
	state.counters["up"] = double(up) / double(state.iterations());
	state.counters["down"] = double(down) / double(state.iterations());
}

void target(benchmark::State &state)
{
	Workload work(kMixes[4]);
	swift_state s = work.state();

	for (auto _ : state) {
		s.fabric.cwnd_q16 = (s.fabric.cwnd_q16 * 5 & 0x3fffff) | 1000;
		benchmark::DoNotOptimize(swift_target_ns(&s, &work.params(), 3, 0, 0));
	}
}
BENCHMARK(target);

void inv_sqrt_q28(benchmark::State &state)
{
	u32 x_q16 = 1;

	for (auto _ : state) {
		x_q16 = x_q16 * 1664525 + 1013904223;
		benchmark::DoNotOptimize(swift_inv_sqrt_q28(x_q16 | 1));
	}
}
BENCHMARK(inv_sqrt_q28);

void params_prepare(benchmark::State &state)
{
	swift_tunables t;
	swift_params p;

	swift_tunables_default(&t);
	for (auto _ : state) {
		benchmark::DoNotOptimize(t);
		benchmark::DoNotOptimize(swift_params_prepare(&p, &t));
		benchmark::DoNotOptimize(p);
	}
}
BENCHMARK(params_prepare);

/* As on a pure ACK of a flow with timestamps: two no-operations, timestamps, ours. */
void option_parse(benchmark::State &state)
{
	std::array<u8, 20> bytes = {1, 1, 8, 10};
	swift_opt opt = {12345 << 6, 3, true};

	swift_opt_put_echo(bytes.data() + 12, &opt);
	for (auto _ : state) {
		benchmark::DoNotOptimize(bytes);
		benchmark::DoNotOptimize(swift_opt_parse(bytes.data(), bytes.size(), &opt));
	}
}
BENCHMARK(option_parse);

void option_put(benchmark::State &state)
{
	std::array<u8, SWIFT_OPT_ECHO_LEN> bytes;
	swift_opt opt = {12345 << 6, 3, true};

	for (auto _ : state) {
		benchmark::DoNotOptimize(opt);
		swift_opt_put_echo(bytes.data(), &opt);
		benchmark::DoNotOptimize(bytes);
	}
}
BENCHMARK(option_put);

/* A packet's stamp by the line of its NIC's clock, as on each packet that a NIC stamped. */
void clock_age(benchmark::State &state)
{
	Stamps stamps;

	for (auto _ : state) {
		benchmark::DoNotOptimize(stamps);
		benchmark::DoNotOptimize(stamps.age_ns());
	}
	if (!stamps.good())
		state.SkipWithError("a stamp was refused");
}
BENCHMARK(clock_age);

/* What the stack is told after an ACK: packets in flight, and a rate. */
void snd_cwnd_and_rate(benchmark::State &state)
{
	u32 cwnd_q16 = u32(state.range(0));
	swift_dither dither = {};
	u32 acks = 0;

	for (auto _ : state) {
		benchmark::DoNotOptimize(cwnd_q16);
		benchmark::DoNotOptimize(swift_snd_cwnd_pkts(&dither, cwnd_q16, ++acks % 8 == 0));
		benchmark::DoNotOptimize(swift_pacing_rate_Bps(cwnd_q16, 50000, 1500));
	}
}
BENCHMARK(snd_cwnd_and_rate)->ArgName("cwnd_q16")->Arg(20 << 16 | 12345)->Arg(12345);

} /* namespace */

int main(int argc, char **argv)
{
	for (const Mix &mix : kMixes)
		benchmark::RegisterBenchmark((std::string("on_ack/") + mix.name).c_str(), on_ack,
					     mix);
	benchmark::Initialize(&argc, argv);
	if (benchmark::ReportUnrecognizedArguments(argc, argv))
		return 1;
	benchmark::RunSpecifiedBenchmarks();
	return 0;
}
