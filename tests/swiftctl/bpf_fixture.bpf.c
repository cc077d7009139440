// SPDX-License-Identifier: GPL-2.0
/*
 * A congestion control in BPF for the tests of `swiftctl bpf`: maps, programs and names as
 * those of bpf/ have them, a law that does nothing. -DBROKEN: the verifier refuses it;
 * -DINCOMPLETE: the kernel refuses to register it; -DVERSION: another one, to swap.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "maps.h"

#ifndef VERSION
#define VERSION 1
#endif

struct sock {
} __attribute__((preserve_access_index));

struct tcp_congestion_ops {
	void (*init)(struct sock *sk);
	u32 (*ssthresh)(struct sock *sk);
	u32 (*undo_cwnd)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, u32 ack, u32 acked);
	char name[16];
} __attribute__((preserve_access_index));

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct bpf_swift_profile);
} swift_params SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, 4);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct bpf_swift_prefix);
	__type(value, struct bpf_swift_profile);
} swift_profiles SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct tcp_swift_info);
} swift_flows SEC(".maps");

char _license[] SEC("license") = "GPL";

SEC("struct_ops/fix_init")
void BPF_PROG(fix_init, struct sock *sk)
{
	struct tcp_swift_info *info;

	info = bpf_sk_storage_get(&swift_flows, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (info) {
		info->fabric_ns = 40000 | TCP_SWIFT_SOURCE_SOFTWARE;
		info->target_ns = VERSION * 1000;
		info->fcwnd_q16 = 3 << 16;
		info->ecwnd_q16 = 5 << 16;
	}
}

#ifndef INCOMPLETE
SEC("struct_ops/fix_ssthresh")
u32 BPF_PROG(fix_ssthresh, struct sock *sk)
{
	u32 zero = 0;
	struct bpf_swift_profile *params = bpf_map_lookup_elem(&swift_params, &zero);
	struct bpf_swift_prefix key = { .prefix_len = 128 };
	struct bpf_swift_profile *profile = bpf_map_lookup_elem(&swift_profiles, &key);

	if (!params)
		return VERSION;
#ifndef BROKEN
	if (!profile)
		return params->law.base_target_ns;
#endif
	return profile->law.base_target_ns;
}

#endif
SEC("struct_ops/fix_undo")
u32 BPF_PROG(fix_undo, struct sock *sk)
{
	return 10;
}

SEC("struct_ops/fix_avoid")
void BPF_PROG(fix_avoid, struct sock *sk, u32 ack, u32 acked)
{
}

SEC(".struct_ops")
struct tcp_congestion_ops swiftctl_test = {
	.init = (void *)fix_init,
#ifndef INCOMPLETE
	.ssthresh = (void *)fix_ssthresh,
#endif
	.undo_cwnd = (void *)fix_undo,
	.cong_avoid = (void *)fix_avoid,
	.name = "swiftctl_test",
};

SEC("sockops")
int fix_echo(struct bpf_sock_ops *ops)
{
	return 1;
}

SEC("tp_btf/tcp_probe")
int BPF_PROG(fix_probe, struct sock *sk, void *skb)
{
	return 0;
}
