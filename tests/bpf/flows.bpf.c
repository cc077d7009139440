// SPDX-License-Identifier: GPL-2.0
/* The socket storage of bpf_swift, a line for each flow; read by loader.c. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "maps.h"

char _license[] SEC("license") = "GPL";

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct seq_file {
	void *private;
};

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__bpf_sk_storage_map {
	struct bpf_iter_meta *meta;
	void *value;
};

#pragma clang attribute pop

SEC("iter/bpf_sk_storage_map")
int flows(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	struct seq_file *seq = ctx->meta->seq;
	struct bpf_swift_flow *f = ctx->value;

	if (!f)
		return 0;
	BPF_SEQ_PRINTF(seq, "fcwnd_q16=%u ecwnd_q16=%u fabric_ns=%u endpoint_ns=%u target_ns=%u ",
		       f->info.fcwnd_q16, f->info.ecwnd_q16, f->info.fabric_ns,
		       f->info.endpoint_ns, f->info.target_ns);
	BPF_SEQ_PRINTF(seq, "samples=%u stamped=%u echoes_sent=%u echoes_received=%u ",
		       f->samples, f->samples_stamped, f->echoes_sent, f->echoes_received);
	BPF_SEQ_PRINTF(seq, "echoes_refused=%u local_ns=%u local_source=%u remote_source=%u ",
		       f->echoes_refused, f->local_ns, f->local_source, f->remote_source);
	BPF_SEQ_PRINTF(seq, "echo_on=%u rx_hops=%u echo_hops=%u\n", f->echo_on, f->rx_hops,
		       f->echo_hops);
	return 0;
}
