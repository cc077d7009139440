// SPDX-License-Identifier: GPL-2.0
/*
 * Equality: the same events through the laws as g++ builds them, as the kernel's build
 * does (law_kernel.c: the module's code) and as BPF runs them (BPF_PROG_TEST_RUN). State,
 * verdict and results must be the same bits after every step; and, of Swift, what the
 * oracle of the unit tests says of that step, within the tolerance given there. The events
 * are random ones, seeded, and golden traces, of which one was recorded in a kernel.
 *
 *	equality OBJECT SEED STEPS [TRACE...]    prints TAP lines without a plan: "ok NAME", ...
 */
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <string>

#include <sys/mman.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "law_step.h"
#include "tests/unit/draw.hpp"
#include "tests/unit/golden.hpp"
#include "tests/unit/oracle.hpp"

extern "C" {
void kernel_swift_step(law_step *l);
void kernel_timely_step(law_step *l);
void kernel_gcn_step(law_step *l);
void kernel_clock_step(law_step *l);
}

/* What the kernel's code calls at its functions' beginnings and ends, until it patches it. */
asm(".text\n"
    ".globl __fentry__\n__fentry__:\n\tret\n"
    ".globl __x86_return_thunk\n__x86_return_thunk:\n\tret\n");

namespace {

constexpr u32 second_ns = 1000000000;

swift_params random_swift(Draw &draw, swift_tunables &t)
{
	swift_params p{};

	do {
		swift_tunables_default(&t);
#define SWIFT_X(name, def, lo, hi, doc) \
	if (draw.one_in(2))             \
		t.name = draw.any32(lo, hi);
		SWIFT_TUNABLES(SWIFT_X)
#undef SWIFT_X
	} while (swift_params_prepare(&p, &t));
	p.late_news = draw.one_in(2);
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

/* A line that was set lately, and mostly a stamp of the last milliseconds. */
void next_stamp(Draw &draw, law_step &l)
{
	clock_step &c = l.clock;
	const u64 one = SWIFT_CLOCK_ONE_Q32, room = SWIFT_CLOCK_RATIO_ROOM_Q32;
	const u64 set_ns = l.now_ns - draw.any(0, draw.one_in(8) ? l.now_ns : second_ns);
	const u64 age_ns = draw.any(0, draw.one_in(4) ? 2ULL * second_ns : 5000000);

	if (draw.one_in(4)) {
		const swift_clock_setting s = {draw.any(0, SWIFT_CLOCK_NIC_MAX_NS),
					       set_ns - draw.any(0, draw.one_in(8) ? set_ns : second_ns),
					       draw.any(one - room, one + room), draw.any32(0, 1000000),
					       draw.any32(1, 60000)};

		swift_clock_prepare(&c.line, &s, set_ns);
	}
	c.stamp_ns = c.line.nic_ns + (l.now_ns - c.line.host_ns) - age_ns;
	if (draw.one_in(8))
		c.stamp_ns = draw.any(0, ~0ULL);
	else if (draw.one_in(8))
		c.stamp_ns += 2 * age_ns;
	c.bounds.min_age_ns = draw.one_in(2) ? 0 : draw.any32(0, 5000000);
	c.bounds.max_age_ns = draw.any32(c.bounds.min_age_ns, SWIFT_STAMP_AGE_MAX_NS);
}

/* A new flow with new parameters now and then; else mostly ACKs. */
void next_event(Draw &draw, law_step &l, swift_tunables &tunables)
{
	u32 rtt_ns = draw.any32(0, draw.one_in(64) ? ~0U : 10000000);

	l.now_ns += draw.any(0, draw.one_in(64) ? 100ULL * second_ns : 1000000);
	l.result = 0;
	l.event = draw.one_in(3) ? u32(draw.below(LAW_EVENTS)) : u32(LAW_ACK);
	if (l.event == LAW_INIT && !draw.one_in(64))
		l.event = LAW_ACK;
	l.arg_a = l.event == LAW_IDLE || l.event == LAW_INIT ? draw.any32(0, 70000) : rtt_ns;
	l.arg_b = l.event == LAW_SEND || l.event == LAW_HANDSHAKE ? draw.any32(1, 65536) :
		  l.event == LAW_DRAIN			       ? draw.any32(1, SWIFT_U32_MAX) :
								 draw.any32(1, 100);
	l.arg_c = draw.one_in(2);
	if (l.event == LAW_INIT) {
		l.swift.params = random_swift(draw, tunables);
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
	l.swift.sample.path_base_ns = draw.one_in(2) ? 0 : draw.any32(1, 10000000);
	l.swift.sample.path_least_ns = draw.one_in(2) ? 0 : draw.any32(1, 10000000);
	l.swift.sample.short_sized = draw.one_in(4);
	l.swift.sample.own_queue = !draw.one_in(3);

	l.timely.sample.now_ns = l.now_ns;
	l.timely.sample.app_Bps = draw.one_in(2) ? ~0ULL : draw.any(0, 1ULL << 36);
	l.timely.sample.rtt_ns = rtt_ns;
	l.timely.sample.acked_bytes = draw.any32(0, 1 << 20);

	l.gcn.sample.una += draw.any32(0, 1 << 20);
	l.gcn.sample.nxt = l.gcn.sample.una + draw.any32(0, 1 << 20);
	l.gcn.sample.acked_pkts = draw.any32(0, 1000);
	l.gcn.sample.marked_pkts = draw.one_in(2) ? 0 : draw.any32(0, 1000);
	l.gcn.sample.cwnd_limited = !draw.one_in(4);
	next_stamp(draw, l);
}

/* --- What the oracle says ---------------------------------------------------------------- */

/* Empty, or what of the step from @before is not as the oracle has it. */
std::string against_oracle(const swift_tunables &t, const law_step &before, const law_step &after)
{
	const oracle::Params params(t, before.swift.params.late_news);
	const swift_state &was = before.swift.state, &is = after.swift.state;
	const swift_sample &in = after.swift.sample;
	const swift_verdict &out = after.swift.verdict;
	const oracle::State from = oracle::from_fixed(was);
	oracle::State want = from;
	oracle::Tolerances most;
	std::string wrong;
	auto near = [&](const char *what, double got, double expected, double tolerance) {
		if (!(std::abs(got - expected) <= tolerance))
			wrong += std::string(wrong.empty() ? "" : ", ") + what + " " + std::to_string(got) +
				 " is not " + std::to_string(expected);
	};

	switch (after.event) {
	case LAW_ACK: {
		const oracle::Reading r =
			oracle::on_ack(want, params, in, oracle::taken_by(was, is, in, out, params));

		most = oracle::ack_tolerances(from, want, params, r);
		near("fabric delay", out.fabric_ns, r.fabric_delay, 0);
		near("filtered fabric delay", is.fabric_ns, want.fabric_delay,
		     std::abs(is.fabric_ns - r.fabric_target) <= r.target_tolerance ? r.target_tolerance : 0); /* D16 */
		near("noise", is.noise_ns, want.noise, 0);
		near("turns", is.turns_16ns, want.turns, 0);
		near("own queue", is.own_queue, want.own_queue, 0);
		near("host's own delay", is.own_64ns * 64, want.own, 64);
		near("base sample", out.base_sample_ns, r.base_sample, 0);
		near("base luck", out.base_luck_ns, r.base_luck, 0);
		near("target", out.fabric_target_ns, r.fabric_target, r.target_tolerance);
		if (t.split && r.sampled && is.endpoint_ns >= t.endpoint_target_ns)
			near("host's target", out.endpoint_target_ns, r.endpoint_target, r.endpoint_target_tolerance);
		break;
	}
	case LAW_LOSS:
		oracle::on_fast_recovery(want, params, after.now_ns, after.arg_a);
		break;
	case LAW_TIMEOUT:
		oracle::on_timeout(want, params, after.now_ns, after.arg_a);
		break;
	case LAW_NOTE_UNDO:
		oracle::note_undo(want);
		break;
	case LAW_UNDO:
		oracle::undo(want, params);
		break;
	case LAW_IDLE:
		oracle::on_idle_restart(want, params, after.arg_a);
		break;
	default: /* sends, and begins: nothing that an oracle knows */
		return "";
	}
	if (after.event != LAW_ACK)
		most = {1e-3 * want.fabric.cwnd + oracle::kUnit, 1e-3 * want.endpoint.cwnd + oracle::kUnit};
	near("fcwnd", is.fabric.cwnd_q16 * oracle::kUnit, want.fabric.cwnd, most.fabric);
	near("ecwnd", is.endpoint.cwnd_q16 * oracle::kUnit, want.endpoint.cwnd, most.endpoint);
	near("endpoint delay", is.endpoint_ns, want.endpoint_delay,
	     1e-3 * want.endpoint_delay + oracle::kEwmaTolerance);
	return wrong;
}

/* --- Steps ------------------------------------------------------------------------------- */

struct Law {
	const char *name;
	const char *program;
	void (*step)(law_step *);
	void (*kernel_step)(law_step *);
	bool has_oracle;
};

/* The three builds of a law, each with a state of its own, and the next event for all. */
class Builds {
public:
	Builds(const Law &law, int program_fd, law_step *in_bpf)
		: law_(law), fd_(program_fd), in_bpf_(in_bpf)
	{
		std::memset(&event, 0, sizeof(event));
		std::memset(&mine_, 0, sizeof(mine_));
		std::memset(&kernel_, 0, sizeof(kernel_));
		std::memset(in_bpf_, 0, sizeof(*in_bpf_));
	}

	law_step event; /* whose states and results are not looked at */
	swift_tunables tunables{}; /* of event.swift.params */

	/* Empty, or what went wrong. */
	std::string step()
	{
		LIBBPF_OPTS(bpf_test_run_opts, run);

		for (law_step *each : {&mine_, &kernel_, in_bpf_})
			take_event(*each);
		std::memcpy(&before_, &mine_, sizeof(before_));
		law_.step(&mine_);
		law_.kernel_step(&kernel_);
		if (bpf_prog_test_run_opts(fd_, &run))
			return "does not run";
		if (std::string at = difference(kernel_); !at.empty())
			return "the kernel's build differs at " + at;
		if (std::string at = difference(*in_bpf_); !at.empty())
			return "BPF differs at " + at;
		return law_.has_oracle ? against_oracle(tunables, before_, mine_) : "";
	}

	const law_step &now() const { return mine_; }

private:
	/* What the law made stays as this build made it; the rest is the event. */
	void take_event(law_step &to) const
	{
		static law_step next; /* static: its padding is zero, and stays */

		std::memcpy(&next, &event, sizeof(next));
		next.swift.state = to.swift.state;
		next.swift.verdict = to.swift.verdict;
		next.swift.dither = to.swift.dither;
		next.timely.state = to.timely.state;
		next.gcn.state = to.gcn.state;
		std::memcpy(&to, &next, sizeof(next));
	}

	std::string difference(const law_step &other) const
	{
		const char *a = reinterpret_cast<const char *>(&mine_);
		const char *b = reinterpret_cast<const char *>(&other);

		for (size_t at = 0; at < sizeof(mine_); at++)
			if (a[at] != b[at])
				return "byte " + std::to_string(at);
		return "";
	}

	const Law &law_;
	int fd_;
	law_step *in_bpf_;
	law_step mine_, kernel_, before_;
};

bool report(const std::string &name, long steps, const std::string &wrong)
{
	if (wrong.empty())
		std::printf("ok %s: %ld steps are the same bits\n", name.c_str(), steps);
	else
		std::printf("not ok %s: step %ld: %s\n", name.c_str(), steps, wrong.c_str());
	return wrong.empty();
}

bool random_steps(const Law &law, Builds &builds, u64 seed, long steps)
{
	Draw draw{seed};
	std::string wrong;
	long n = 0;

	builds.event.now_ns = u64(second_ns) * 1000;
	builds.event.event = LAW_INIT;
	builds.event.swift.params = random_swift(draw, builds.tunables);
	builds.event.timely.params = random_timely(draw);
	builds.event.gcn.params = random_gcn(draw);
	for (; n < steps && wrong.empty(); n++) {
		wrong = builds.step();
		if (!wrong.empty())
			wrong += " (seed " + std::to_string(seed) + ", event " + std::to_string(builds.event.event) + ")";
		next_event(draw, builds.event, builds.tunables);
	}
	return report(law.name, n, wrong);
}

u32 law_event_of(const std::string &name)
{
	return name == "ack"	 ? LAW_ACK :
	       name == "loss"	 ? LAW_LOSS :
	       name == "timeout" ? LAW_TIMEOUT :
	       name == "note"	 ? LAW_NOTE_UNDO :
	       name == "undo"	 ? LAW_UNDO :
				   LAW_IDLE;
}

bool golden_trace(Builds &builds, const std::string &path)
{
	const std::string name = "golden " + std::filesystem::path(path).stem().string();
	const golden::Trace trace = golden::read(path);
	law_step &l = builds.event;
	std::string wrong;
	long steps = 0;

	builds.tunables = trace.tunables;
	if (swift_params_prepare(&l.swift.params, &trace.tunables))
		return report(name, 0, "its tunables are out of range");
	l.event = LAW_INIT;
	l.now_ns = seconds(1000);
	wrong = builds.step();
	for (const golden::Line &line : trace.lines) {
		if (!wrong.empty() || line.event.empty())
			continue;

		const golden::Event e = golden::event(line);

		l.event = law_event_of(e.name);
		l.now_ns = e.now_ns;
		l.arg_a = e.name == "idle" ? e.idle_rtos : e.rtt_ns;
		l.swift.sample = e.sample;
		steps++;
		wrong = builds.step();
		if (!wrong.empty())
			wrong += " (" + line.text + ")";
	}
	if (wrong.empty() && !steps)
		wrong = path + " has no events";
	return report(name, steps, wrong);
}

} // namespace

int main(int argc, char **argv)
{
	const Law laws[] = {
		{"swift", "step_swift", swift_step_do, kernel_swift_step, true},
		{"timely", "step_timely", timely_step_do, kernel_timely_step, false},
		{"gcn", "step_gcn", gcn_step_do, kernel_gcn_step, false},
		{"clock", "step_clock", clock_step_do, kernel_clock_step, false},
	};
	bpf_object *object;
	bpf_map *map;
	void *data = MAP_FAILED;
	bool good = true;

	if (argc < 4)
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
	for (const Law &law : laws) {
		bpf_program *program = bpf_object__find_program_by_name(object, law.program);
		const int fd = program ? bpf_program__fd(program) : -1;
		auto builds = [&] { return Builds(law, fd, static_cast<law_step *>(data)); };
		Builds random = builds();

		good &= random_steps(law, random, std::strtoull(argv[2], nullptr, 10),
				     std::strtol(argv[3], nullptr, 10));
		for (int i = 4; law.has_oracle && i < argc; i++) {
			Builds traced = builds();

			try {
				good &= golden_trace(traced, argv[i]);
			} catch (const std::exception &e) {
				good = report(argv[i], 0, e.what());
			}
		}
	}
	bpf_object__close(object);
	return good ? 0 : 1;
}
