// SPDX-License-Identifier: GPL-2.0
/*
 * What a wire does and a pair of veth devices does not: a packet that crosses it carries
 * no departure time (EDT). With one, a receiver on the same kernel stamps the packet
 * only when IP hands it over, and its own queues in front of that stay unseen.
 * For the ingress of a router between two hosts: tc filter ... bpf direct-action.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>

__attribute__((section("tc"), used)) int wire(struct __sk_buff *skb)
{
	skb->tstamp = 0;
	return TC_ACT_OK;
}

char _license[] __attribute__((section("license"), used)) = "GPL";
