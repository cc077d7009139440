/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Scalar types and the one division that differs between the places the core
 * is compiled in. Nothing else belongs here, and nothing of the kernel, of BPF
 * or of libc is included: whoever already has u8..u64 (the kernel, vmlinux.h)
 * keeps its own.
 */
#ifndef SWIFT_CORE_TYPES_H
#define SWIFT_CORE_TYPES_H

#if !defined(__KERNEL__) && !defined(__VMLINUX_H__)
typedef __UINT8_TYPE__ u8;
typedef __UINT16_TYPE__ u16;
typedef __UINT32_TYPE__ u32;
typedef __UINT64_TYPE__ u64;
typedef __INT32_TYPE__ s32;
typedef __INT64_TYPE__ s64;
#ifndef __cplusplus
#define bool _Bool
#define true 1
#define false 0
#endif
#endif

/*
 * A kernel for a 32-bit machine has no 64-by-64 division operator: it defines
 * SWIFT_DIV_U64 as div64_u64 before including the core. Unsigned only: BPF has
 * no signed division below ISA v4.
 */
#ifndef SWIFT_DIV_U64
#define SWIFT_DIV_U64(dividend, divisor) ((dividend) / (divisor))
#endif

#ifdef __cplusplus
#define SWIFT_STATIC_ASSERT(cond, msg) static_assert(cond, msg)
#else
#define SWIFT_STATIC_ASSERT(cond, msg) _Static_assert(cond, msg)
#endif

/* The parts of what each ACK takes: as calls they would cost as much again. */
#define SWIFT_INLINE static inline __attribute__((__always_inline__))

/*
 * In BPF a global function is verified by itself, once, and each caller goes on with a number that
 * may be any: where it is inline, it is verified for each way that leads to it, and from it.
 */
#ifdef __bpf__
#define SWIFT_APART __attribute__((__noinline__))
#else
#define SWIFT_APART SWIFT_INLINE
#endif

#define SWIFT_UNLIKELY(cond) __builtin_expect(!!(cond), 0)

/*
 * BPF reads its memory anew. The verifier follows each way to here apart as long as registers
 * tell which one it was: three such ways in a row are five times the work.
 */
#ifdef __bpf__
#define SWIFT_READ_ANEW() __asm__ volatile("" ::: "memory")
#else
#define SWIFT_READ_ANEW() ((void)0)
#endif

#define SWIFT_U32_MAX 0xffffffffU

static inline u32 swift_min_u32(u32 a, u32 b)
{
	return a < b ? a : b;
}

static inline u32 swift_max_u32(u32 a, u32 b)
{
	return a > b ? a : b;
}

static inline u32 swift_distance_u32(u32 a, u32 b)
{
	return a < b ? b - a : a - b;
}

static inline u32 swift_clamp_u32(u32 v, u32 lo, u32 hi)
{
	return v < lo ? lo : v > hi ? hi : v;
}

static inline u32 swift_saturate_u32(u64 v)
{
	return v > SWIFT_U32_MAX ? SWIFT_U32_MAX : (u32)v;
}

#endif /* SWIFT_CORE_TYPES_H */
