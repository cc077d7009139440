// SPDX-License-Identifier: GPL-2.0
/* The congestion control `bpf_swift_v0`: one window, the whole RTT, no stamps, no echo (3.3). */
#define BPF_SWIFT_V0
#include "bpf_swift.bpf.c"
