// SPDX-License-Identifier: GPL-2.0
/* A switch that routes: TTL, the choice of a port, and who may use the buffer. */
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <net/ip.h>

#include "fab.h"

/* The host it is for; negative if that is nobody, or its time is up. */
static int fab_forward(struct fab_switch *sw, struct sk_buff *skb)
{
	u32 host = U32_MAX;

	/* In front of a payload that a retransmission shares: the header is our own. */
	if (skb_cow_head(skb, 0))
		return -ENOMEM;
	if (skb->protocol == htons(ETH_P_IP)) {
		struct iphdr *ip = ip_hdr(skb);

		host = ntohl(ip->daddr) - ntohl(labfab_host_addr(0));
		if (ip->ttl <= 1)
			goto expired;
		ip_decrease_ttl(ip);
	} else if (skb->protocol == htons(ETH_P_IPV6)) {
		struct ipv6hdr *ip6 = ipv6_hdr(skb);

		if (ip6->daddr.s6_addr32[0] == labfab_host_addr6(0).s6_addr32[0])
			host = ntohl(ip6->daddr.s6_addr32[3]) - 1;
		if (ip6->hop_limit <= 1)
			goto expired;
		ip6->hop_limit--;
	}
	if (host < LABFAB_HOSTS_MAX && fab_host(host))
		return host;
	sw->no_route++;
	return -EHOSTUNREACH;
expired:
	sw->ttl_expired++;
	return -ETIME;
}

static struct fab_port *fab_route(struct fab_switch *sw, u32 host, u32 hash)
{
	struct fab_switch *last = fab_host(host)->sw;
	u32 n, choice;

	if (last == sw)
		return sw->ports[sw->host_ports[host]];
	if (!last)
		return NULL;
	n = sw->routes.counts[last->id];
	if (!n)
		return NULL;
	if (n > 1 && sw->spray)
		choice = prandom_u32_state(&sw->rnd);
	else
		choice = jhash_2words(hash, sw->salt, 0);
	return sw->ports[sw->routes.ports[last->id * sw->n_ports + reciprocal_scale(choice, n)]];
}

void fab_switch_rx(struct fab_switch *sw, struct sk_buff *skb, u64 now_ps)
{
	struct fab_port *port = NULL;
	int host;

	if (unlikely(fab_cb(skb)->corrupt)) {
		fab_cb(skb)->in->stats.rx_crc_errors++;
		fab_drop(skb);
		return;
	}
	host = fab_forward(sw, skb);
	if (host >= 0) {
		port = fab_route(sw, host, fab_cb(skb)->hash);
		if (!port)
			sw->no_route++;
	}
	if (port)
		fab_port_send(port, skb, now_ps);
	else
		fab_drop(skb);
}

/*
 * Static: each port has its own bytes. Shared: a queue may hold alpha times what is
 * free (the dynamic threshold of Choudhury and Hahne), so that few queues may be long
 * and many must be short. With PFC a class that is stopped in time needs no threshold: what
 * is under way has room as long as the switch has.
 */
bool fab_switch_admit(struct fab_switch *sw, struct fab_port *port, u8 class, u32 bytes)
{
	u64 free_bytes;

	if (!sw->shared)
		return (u64)port->backlog_bytes + bytes <= sw->buffer_bytes;
	if ((u64)sw->used_bytes + bytes > sw->buffer_bytes)
		return false;
	if (sw->pfc_xoff_bytes)
		return true;
	free_bytes = sw->buffer_bytes - sw->used_bytes;
	return ((u64)port->class_bytes[class] + bytes) * 1000 <= free_bytes * sw->alpha_milli;
}
