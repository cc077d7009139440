// SPDX-License-Identifier: GPL-2.0
/* The laws' BPF build, one step at a time, on the object's data (equality.cpp). */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "law_step.h"

char _license[] SEC("license") = "GPL";

struct law_step step;

SEC("syscall")
int step_swift(void *ctx)
{
	swift_step_do(&step);
	return 0;
}

SEC("syscall")
int step_timely(void *ctx)
{
	timely_step_do(&step);
	return 0;
}

SEC("syscall")
int step_gcn(void *ctx)
{
	gcn_step_do(&step);
	return 0;
}

SEC("syscall")
int step_clock(void *ctx)
{
	clock_step_do(&step);
	return 0;
}
