/* SPDX-License-Identifier: GPL-2.0 */
/* What the load asks of the fabric. */
#ifndef LABFAB_H
#define LABFAB_H

#include <linux/types.h>
#include <linux/in6.h>
#include <net/net_namespace.h>

#define LABFAB_HOSTS_MAX 1024

/*
 * The module's parameter truth: a frame that goes up to a host then carries
 *
 *	skb->mark	when its first bit was at the NIC: CLOCK_MONOTONIC, ns, low 32 bits
 *	skb->priority	the mark with which the sender's stack gave it to its NIC
 */
extern bool labfab_truth;

/* The namespace of host @id, held for the caller (put_net()), or NULL. */
struct net *labfab_host_net(u32 id);

/* Host N: 10.0.0.0 + N + 1, fd00:: + N + 1. */
static inline __be32 labfab_host_addr(u32 id)
{
	return htonl(0x0a000001 + id);
}

static inline struct in6_addr labfab_host_addr6(u32 id)
{
	struct in6_addr addr = {};

	addr.s6_addr32[0] = htonl(0xfd000000);
	addr.s6_addr32[3] = htonl(id + 1);
	return addr;
}

#endif /* LABFAB_H */
