// SPDX-License-Identifier: GPL-2.0
/*
 * Equality: the same random events, seeded, through the laws as g++ builds them and as BPF
 * runs them (BPF_PROG_TEST_RUN); state, verdict and results must be the same bits after
 * every step.
 *
 *	equality OBJECT SEED STEPS     prints TAP lines without a plan: "ok NAME", ...
 */
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <sys/mman.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "law_step.h"
#include "tests/unit/draw.hpp"

namespace {

constexpr u32 second_ns = 1000000000;

swift_params random_swift(Draw &draw)
{
	swift_tunables t;
	swift_params p{};

	do {
		swift_tunables_default(&t);
#define SWIFT_X(name, def, lo, hi, doc) \
	if (draw.one_in(2))             \
		t.name = draw.any32(lo, hi);
		SWIFT_TUNABLES(SWIFT_X)
#undef SWIFT_X
	} while (swift_params_prepare(&p, &t));
	return p;
}

timely_params random_timely(Draw &draw)
{
	timely_tunables t;
	timely_params p{};

	do {
		timely_tunables_default(&t);
#define TIMELY_X(name, def, lo, hi, doc) \
	if (draw.one_in(2))              \
		t.name = draw.any32(lo, hi);
		TIMELY_TUNABLES(TIMELY_X)
#undef TIMELY_X
	} while (timely_params_prepare(&p, &t));
	return p;
}

gcn_params random_gcn(Draw &draw)
{
	gcn_tunables t;
	gcn_params p{};

	do {
		gcn_tunables_default(&t);
#define GCN_X(name, def, lo, hi, doc) \
	if (draw.one_in(2))           \
		t.name = draw.any32(lo, hi);
		GCN_TUNABLES(GCN_X)
#undef GCN_X
	} while (gcn_params_prepare(&p, &t));
	return p;
}

/* A new flow with new parameters now and then; else mostly ACKs. */
void next_event(Draw &draw, law_step &l)
{
	u32 rtt_ns = draw.any32(0, draw.one_in(64) ? ~0U : 10000000);

	l.now_ns += draw.any(0, draw.one_in(64) ? 100ULL * second_ns : 1000000);
	l.result = 0;
	l.event = draw.one_in(3) ? u32(draw.below(LAW_EVENTS)) : u32(LAW_ACK);
	if (l.event == LAW_INIT && !draw.one_in(64))
		l.event = LAW_ACK;
	l.arg_a = l.event == LAW_IDLE || l.event == LAW_INIT ? draw.any32(0, 70000) : rtt_ns;
	l.arg_b = l.event == LAW_SEND ? draw.any32(1, 65536) : draw.any32(1, 100);
	l.arg_c = draw.one_in(2);
	if (l.event == LAW_INIT) {
		l.swift.params = random_swift(draw);
		l.timely.params = random_timely(draw);
		l.gcn.params = random_gcn(draw);
	}
	l.swift.sample.now_ns = l.now_ns;
	l.swift.sample.rtt_ns = rtt_ns;
	l.swift.sample.remote_ns = draw.any32(0, draw.one_in(16) ? ~0U : rtt_ns);
	l.swift.sample.local_ns = draw.any32(0, draw.one_in(16) ? ~0U : rtt_ns);
	l.swift.sample.acked_pkts = draw.any32(0, draw.one_in(64) ? ~0U : 64);
	l.swift.sample.hops = u8(draw.any(0, 63));
	l.swift.sample.echo_expected = draw.one_in(2);
	l.swift.sample.has_echo = l.swift.sample.echo_expected && draw.one_in(2);
	l.swift.sample.cwnd_limited = !draw.one_in(4);

	l.timely.sample.now_ns = l.now_ns;
	l.timely.sample.app_Bps = draw.one_in(2) ? ~0ULL : draw.any(0, 1ULL << 36);
	l.timely.sample.rtt_ns = rtt_ns;
	l.timely.sample.acked_bytes = draw.any32(0, 1 << 20);

	l.gcn.sample.una += draw.any32(0, 1 << 20);
	l.gcn.sample.nxt = l.gcn.sample.una + draw.any32(0, 1 << 20);
	l.gcn.sample.acked_pkts = draw.any32(0, 1000);
	l.gcn.sample.marked_pkts = draw.one_in(2) ? 0 : draw.any32(0, 1000);
	l.gcn.sample.cwnd_limited = !draw.one_in(4);
}

struct Law {
	const char *name;
	const char *program;
	void (*step)(law_step *);
};

bool same(const Law &law, bpf_object *object, law_step *in_bpf, u64 seed, long steps)
{
	bpf_program *program = bpf_object__find_program_by_name(object, law.program);
	int fd = program ? bpf_program__fd(program) : -1;
	Draw draw{seed};
	static law_step mine; /* static: padding is zero, and stays */

	std::memset(&mine, 0, sizeof(mine));
	mine.now_ns = u64(second_ns) * 1000;
	mine.event = LAW_INIT;
	mine.swift.params = random_swift(draw);
	mine.timely.params = random_timely(draw);
	mine.gcn.params = random_gcn(draw);
	*in_bpf = mine;
	for (long n = 0; n < steps; n++) {
		LIBBPF_OPTS(bpf_test_run_opts, run);

		law.step(&mine);
		if (bpf_prog_test_run_opts(fd, &run)) {
			std::printf("not ok %s: step %ld does not run\n", law.name, n);
			return false;
		}
		if (std::memcmp(&mine, in_bpf, sizeof(mine))) {
			size_t at = 0;

			while (reinterpret_cast<char *>(&mine)[at] ==
			       reinterpret_cast<char *>(in_bpf)[at])
				at++;
			std::printf("not ok %s: step %ld (seed %llu, event %u) differs at byte %zu\n",
				    law.name, n, static_cast<unsigned long long>(seed), mine.event, at);
			return false;
		}
		next_event(draw, mine);
		/* What the law made stays as BPF made it; the rest is the event. */
		law_step next = mine;

		next.swift.state = in_bpf->swift.state;
		next.swift.verdict = in_bpf->swift.verdict;
		next.swift.dither = in_bpf->swift.dither;
		next.timely.state = in_bpf->timely.state;
		next.gcn.state = in_bpf->gcn.state;
		std::memcpy(in_bpf, &next, sizeof(next));
	}
	std::printf("ok %s: %ld steps are the same bits\n", law.name, steps);
	return true;
}

} // namespace

int main(int argc, char **argv)
{
	const Law laws[] = {
		{"swift", "step_swift", swift_step_do},
		{"timely", "step_timely", timely_step_do},
		{"gcn", "step_gcn", gcn_step_do},
	};
	bpf_object *object;
	bpf_map *map;
	void *data = MAP_FAILED;
	bool good = true;

	if (argc != 4)
		return 2;
	object = bpf_object__open_file(argv[1], nullptr);
	if (!object || bpf_object__load(object)) {
		std::printf("not ok law_step loads\n");
		return 1;
	}
	bpf_object__for_each_map(map, object)
		if (std::strstr(bpf_map__name(map), ".bss") &&
		    bpf_map__value_size(map) == sizeof(law_step))
			data = mmap(nullptr, sizeof(law_step), PROT_READ | PROT_WRITE, MAP_SHARED,
				    bpf_map__fd(map), 0);
	if (data == MAP_FAILED) {
		std::printf("not ok law_step has its data\n");
		return 1;
	}
	for (const Law &law : laws)
		good &= same(law, object, static_cast<law_step *>(data),
			     std::strtoull(argv[2], nullptr, 10), std::strtol(argv[3], nullptr, 10));
	bpf_object__close(object);
	return good ? 0 : 1;
}
