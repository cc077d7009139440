/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Arbitrary bytes as the options of a TCP header, and what a peer may say with them: the
 * parser of credit's option stays inside them and believes only what it would send itself;
 * a flow's book never lends or wants more than what was told.
 */
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "sird.h"

#define REQUIRE(condition)               \
	do {                             \
		if (!(condition))        \
			std::abort();    \
	} while (0)

namespace {

constexpr u32 kMss = 1448, kReach = 1U << 29;

void parse(const u8 *data, size_t size, u32 near)
{
	/* Of the exact size, so that one byte too far is seen. */
	std::unique_ptr<u8[]> bytes(new u8[size]);
	sird_opt opt = {0xdeadbeef, 0xee}, again = {};
	sird_opt_kind kind;

	std::memcpy(bytes.get(), data, size);
	kind = sird_opt_parse(bytes.get(), u32(size), near, &opt);

	REQUIRE(kind <= SIRD_OPT_MALFORMED);
	if (kind == SIRD_OPT_DEMAND) {
		u8 put[SIRD_OPT_DEMAND_LEN];

		REQUIRE(size >= SIRD_OPT_DEMAND_LEN);
		REQUIRE(opt.flags < 1U << SIRD_OPT_VERSION_SHIFT);
		REQUIRE(opt.told - near + kReach < 2 * kReach);
		sird_opt_put_demand(put, &opt);
		REQUIRE(sird_opt_parse(put, sizeof(put), opt.told, &again) == SIRD_OPT_DEMAND);
		REQUIRE(again.told - opt.told < SIRD_OPT_TOLD_GRAIN && again.flags == opt.flags);
	} else if (kind != SIRD_OPT_MALFORMED) {
		REQUIRE(opt.told == 0xdeadbeef && opt.flags == 0xee); /* not written */
	}
}

/* Six bytes a segment: where it ends, how much more there is, flags. TCP bounds the first. */
void hear(const u8 *data, size_t size, u32 next)
{
	sird_tunables t;
	sird_link l = {};
	sird_loop loop = {};
	u32 batch = 0;
	u64 now = 1;
	sird_sender s;
	sird_flow f;

	sird_tunables_default(&t);
	sird_link_set(&l, &t, 100000, 8000, 8000);
	sird_sender_init(&s, l.bdp_bytes);
	sird_flow_init(&f, next, sird_allowance(&l, kMss));
	f.most = next + (1U << 24);
	for (; size >= 6; data += 6, size -= 6) {
		u32 end = f.arrived - 32768 + (u32(data[0]) << 8 | data[1]);
		u32 away = u32(data[2]) << 22 | u32(data[3]) << 14 | u32(data[4]);
		sird_data in = {end, end - kReach + away, (data[5] & 1) != 0};
		sird_flow before = f;
		u32 bytes = sird_flow_arrived(&f, &in, sird_allowance(&l, kMss));
		u32 quantum;

		REQUIRE(bytes == f.arrived - before.arrived && bytes < 65536);
		REQUIRE(sird_ahead(f.arrived, f.told) == 0 && sird_ahead(f.arrived, f.edge) == 0);
		REQUIRE(sird_ahead(before.edge, f.edge) == 0 || (in.announces && bytes));
		sird_sender_feed(&s, &l, bytes, data[5] & 2, data[5] & 4, kMss);
		REQUIRE(s.host.size_bytes <= l.bdp_bytes && s.net.size_bytes >= kMss);
		now += u64(data[0]) << 4;
		batch = sird_batch_feed(batch, bytes);
		sird_loop_feed(&loop, sird_wire_bytes(bytes, kMss), data[5] & 8, 100000, 8000, now);
		sird_used_feed(&s.used, bytes, loop.ns, now);
		REQUIRE(loop.ns >= 8000 && loop.ns <= 8 * 8000);
		REQUIRE(sird_sender_most(&s) <= l.bdp_bytes && batch <= 65536);
		sird_link_set(&l, &t, 100000, loop.ns, 8000);
		l.quantum_bytes = sird_quantum_bytes(&l, batch, kMss);
		quantum = sird_quantum(&f, &l, &s, kMss);
		REQUIRE(quantum <= sird_flow_wants(&f));
		REQUIRE(quantum < 5 * kMss || quantum < l.b_bytes / SIRD_QUANTUM_PART + kMss);
		sird_flow_grant(&f, quantum);
		REQUIRE(sird_flow_lent(&f) <= f.told - f.arrived);
		REQUIRE(sird_standing_of(&f, &s, kMss) <= SIRD_STANDING_BUFFER);
		REQUIRE(sird_standing_of(&f, &s, kMss) < SIRD_STANDING_LINK || sird_flow_wants(&f) ||
			sird_ahead(f.told, f.most));
	}
}

} /* namespace */

extern "C" int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	u32 near;

	if (size < sizeof(near))
		return 0;
	std::memcpy(&near, data, sizeof(near));
	parse(data + sizeof(near), size - sizeof(near), near);
	hear(data + sizeof(near), size - sizeof(near), near);
	return 0;
}
