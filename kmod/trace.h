/* SPDX-License-Identifier: GPL-2.0 */
/* The tracepoint tcp_swift:swift_sample: one event per window decision. */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM tcp_swift

#if !defined(_TRACE_TCP_SWIFT_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_TCP_SWIFT_H

#include <linux/tracepoint.h>
#include <linux/ipv6.h>

#include "swift_sock.h"

TRACE_EVENT(swift_sample,

	TP_PROTO(const struct sock *sk, const struct tcp_swift_sample *sample),

	TP_ARGS(sk, sample),

	TP_STRUCT__entry(
		__array(u8, saddr, 16) /* IPv4 as ::ffff:a.b.c.d */
		__array(u8, daddr, 16)
		__field(u16, sport)
		__field(u16, dport)
		__field(u64, now_ns)
		__field(u32, rtt_ns)
		__field(u32, fabric_ns)
		__field(u32, remote_ns)
		__field(u32, local_ns)
		__field(u32, endpoint_ns)
		__field(u32, fabric_target_ns)
		__field(u32, endpoint_target_ns)
		__field(u32, fcwnd_q16)
		__field(u32, ecwnd_q16)
		__field(u32, acked_pkts)
		__field(u8, hops)
		__field(u8, local_source)
		__field(u8, remote_source)
		__field(u8, decision)
		__field(u8, plb_rounds)
		__field(u8, credit)
	),

	TP_fast_assign(
		struct in6_addr *saddr = (struct in6_addr *)__entry->saddr;
		struct in6_addr *daddr = (struct in6_addr *)__entry->daddr;

		ipv6_addr_set_v4mapped(inet_sk(sk)->inet_saddr, saddr);
		ipv6_addr_set_v4mapped(inet_sk(sk)->inet_daddr, daddr);
#if IS_ENABLED(CONFIG_IPV6)
		if (sk->sk_family == AF_INET6) {
			*saddr = inet6_sk(sk)->saddr;
			*daddr = sk->sk_v6_daddr;
		}
#endif
		__entry->sport = ntohs(inet_sk(sk)->inet_sport);
		__entry->dport = ntohs(inet_sk(sk)->inet_dport);
		__entry->now_ns = sample->now_ns;
		__entry->rtt_ns = sample->rtt_ns;
		__entry->fabric_ns = sample->fabric_ns;
		__entry->remote_ns = sample->remote_ns;
		__entry->local_ns = sample->local_ns;
		__entry->endpoint_ns = sample->endpoint_ns;
		__entry->fabric_target_ns = sample->fabric_target_ns;
		__entry->endpoint_target_ns = sample->endpoint_target_ns;
		__entry->fcwnd_q16 = sample->fcwnd_q16;
		__entry->ecwnd_q16 = sample->ecwnd_q16;
		__entry->acked_pkts = sample->acked_pkts;
		__entry->hops = sample->hops;
		__entry->local_source = sample->local_source;
		__entry->remote_source = sample->remote_source;
		__entry->decision = sample->decision;
		__entry->plb_rounds = swift_sk(sk)->plb_rounds;
		__entry->credit = swift_demand_limit(sk);
	),

	TP_printk("saddr=%pI6c sport=%u daddr=%pI6c dport=%u rtt_ns=%u fabric_ns=%u remote_ns=%u local_ns=%u endpoint_ns=%u fabric_target_ns=%u endpoint_target_ns=%u fcwnd_q16=%u ecwnd_q16=%u acked_pkts=%u hops=%u local=%s remote=%s decision=%s plb_rounds=%u credit=%s",
		  __entry->saddr, __entry->sport, __entry->daddr, __entry->dport,
		  __entry->rtt_ns, __entry->fabric_ns, __entry->remote_ns, __entry->local_ns,
		  __entry->endpoint_ns, __entry->fabric_target_ns, __entry->endpoint_target_ns,
		  __entry->fcwnd_q16, __entry->ecwnd_q16, __entry->acked_pkts, __entry->hops,
		  __print_symbolic(__entry->local_source, { 0, "none" }, { 1, "software" },
				   { 2, "hardware" }),
		  __print_symbolic(__entry->remote_source, { 0, "none" }, { 1, "software" },
				   { 2, "hardware" }),
		  __print_symbolic(__entry->decision, { 1, "hold" }, { 2, "increase" },
				   { 3, "decrease_fabric" }, { 4, "decrease_endpoint" },
				   { 5, "decrease_both" }), __entry->plb_rounds,
		  __print_symbolic(__entry->credit, { 0, "none" }, { 1, "enough" },
				   { 2, "waits" }, { 3, "congested" }))
);

#endif /* _TRACE_TCP_SWIFT_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
