/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A fixed number of ACKs of one mix, and nothing else: what tests/bench/instructions
 * counts. ack_loop MIX ACKS; without arguments, the names of the mixes. The mix `clock` is
 * of NICs' stamps instead.
 */
#include <cstdio>
#include <cstdlib>

#include "mixes.hpp"
#include "stamps.hpp"

int main(int argc, char **argv)
{
	for (const Mix &mix : kMixes) {
		if (argc < 3) {
			std::puts(mix.name);
		} else if (!std::strcmp(mix.name, argv[1])) {
			Workload work(mix);

			for (long n = std::atol(argv[2]); n > 0; n--) {
				work.ack();
				__asm__ volatile("" ::"r"(&work) : "memory");
			}
			return swift_cwnd_q16(&work.state()) == 0;
		}
	}
	if (argc < 3) {
		std::puts("clock");
		return 0;
	}
	if (!std::strcmp("clock", argv[1])) {
		Stamps stamps;
		u64 sum = 0;

		for (long n = std::atol(argv[2]); n > 0; n--) {
			sum += stamps.age_ns();
			__asm__ volatile("" ::"r"(&stamps) : "memory");
		}
		return !stamps.good() || sum == 0;
	}
	return 2;
}
