// SPDX-License-Identifier: GPL-2.0
/* Does nothing: what a call of a BPF program costs besides the program (tests/bench). */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

char _license[] SEC("license") = "GPL";

SEC("fentry/null_lseek")
int nothing(void *ctx)
{
	return 0;
}
