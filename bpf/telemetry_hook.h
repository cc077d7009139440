/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A congestion control's side of the telemetry: while nobody watches, a look at one word of
 * a map; else what it decided, to the program that is attached to swift_decided_at().
 */
#ifndef BPF_TELEMETRY_HOOK_H
#define BPF_TELEMETRY_HOOK_H

#include "kernel.h"
#include "telemetry_maps.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32);
} telemetry_on SEC(".maps");

static __always_inline bool telemetry_is_on(void)
{
	u32 first = 0;
	const u32 *on = bpf_map_lookup_elem(&telemetry_on, &first);

	return on && *on;
}

/*
 * Where the telemetry program is attached. Static, and the event as a number: the kernel
 * lets a tracing program have no pointers of another program, unless they are of no type.
 */
static __noinline int swift_decided_at(u64 event)
{
	asm volatile("" : : "r"(event) : "memory");
	return 0;
}

static __always_inline int swift_decided(const struct telemetry_event *event)
{
	return swift_decided_at((u64)event);
}

/* For laws that have one window: what became of it. */
static __always_inline u8 telemetry_decision(u64 before, u64 after)
{
	return after > before ? TCP_SWIFT_INCREASE :
	       after < before ? TCP_SWIFT_DECREASE_FABRIC :
				TCP_SWIFT_HOLD;
}

#endif /* BPF_TELEMETRY_HOOK_H */
