/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Arbitrary bytes as the options of a TCP header: the parser stays inside them
 * and believes only what it would send itself.
 */
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "option.h"

#define REQUIRE(condition)               \
	do {                             \
		if (!(condition))        \
			std::abort();    \
	} while (0)

extern "C" int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	/* Of the exact size, so that one byte too far is seen. */
	std::unique_ptr<u8[]> bytes(new u8[size]);
	swift_opt opt = {0xdeadbeef, 0xee, false}, again = {};
	swift_opt_kind kind;

	std::memcpy(bytes.get(), data, size);
	kind = swift_opt_parse(bytes.get(), u32(size), &opt);
	swift_opt_is_signed(bytes.get(), u32(size));

	REQUIRE(kind <= SWIFT_OPT_MALFORMED);
	if (kind == SWIFT_OPT_ECHO) {
		std::unique_ptr<u8[]> put(new u8[SWIFT_OPT_ECHO_LEN]);

		REQUIRE(size >= SWIFT_OPT_ECHO_LEN);
		REQUIRE(opt.hops <= SWIFT_OPT_HOPS_MASK);
		REQUIRE(opt.remote_ns <= SWIFT_OPT_DELAY_MAX << SWIFT_OPT_DELAY_SHIFT);
		swift_opt_put_echo(put.get(), &opt);
		REQUIRE(swift_opt_parse(put.get(), SWIFT_OPT_ECHO_LEN, &again) == SWIFT_OPT_ECHO);
		REQUIRE(again.remote_ns == opt.remote_ns && again.hops == opt.hops &&
			again.hw == opt.hw);
	} else if (kind != SWIFT_OPT_MALFORMED) {
		REQUIRE(opt.remote_ns == 0xdeadbeef && opt.hops == 0xee); /* not written */
	}

	/* Put, whatever the values, and find it behind whatever came before. */
	if (size >= 6) {
		u8 header[SWIFT_OPT_SPACE];
		u32 at = bytes[5] % (SWIFT_OPT_SPACE - SWIFT_OPT_ECHO_LEN + 1);
		swift_opt any;

		std::memcpy(&any.remote_ns, data, 4);
		any.hops = data[4];
		any.hw = data[5] & 0x80;
		std::memset(header, 1, sizeof(header)); /* no-operations */
		swift_opt_put_echo(header + at, &any);
		REQUIRE(swift_opt_parse(header, sizeof(header), &again) == SWIFT_OPT_ECHO);
		REQUIRE(again.hw == any.hw);
		REQUIRE(again.hops == swift_min_u32(any.hops, SWIFT_OPT_HOPS_MASK));
		REQUIRE(again.remote_ns ==
			swift_min_u32(any.remote_ns >> 6, SWIFT_OPT_DELAY_MAX) << 6);
	}
	return 0;
}
