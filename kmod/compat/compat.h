/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What differs between the kernels that the module builds for. The module is
 * written for the newest; here an older one is told by the types and macros it
 * has, never by its version, so that backports and patched trees just work.
 */
#ifndef SWIFT_COMPAT_H
#define SWIFT_COMPAT_H

#include <linux/hrtimer.h>
#include <linux/netlink.h>
#include <linux/sysctl.h>
#include <net/net_namespace.h>
#include <net/tcp.h>

/*
 * cong_control(sk, ack, flag, rs) since 6.10, cong_control(sk, rs) before. Both
 * take the same wrapper, of which the compiler keeps the one that fits.
 */
typedef void (*swift_cong_control_old_t)(struct sock *sk, const struct rate_sample *rs);

#define SWIFT_CONG_CONTROL(new_fn, old_fn)                                                  \
	__builtin_choose_expr(                                                              \
		__builtin_types_compatible_p(                                               \
			typeof(((struct tcp_congestion_ops *)NULL)->cong_control),          \
			swift_cong_control_old_t),                                          \
		old_fn, new_fn)

/* The tcp_probe tracepoint passes a const packet since 6.18; needs trace/events/tcp.h. */
#define SWIFT_TCP_PROBE(new_fn, old_fn)                                                     \
	__builtin_choose_expr(                                                              \
		__builtin_types_compatible_p(typeof(trace_tcp_probe),                       \
					     void(struct sock *, struct sk_buff *)),        \
		old_fn, new_fn)

/* Handlers take a const table since 6.11. */
typedef int swift_proc_handler_old_t(struct ctl_table *ctl, int write, void *buffer,
				     size_t *lenp, loff_t *ppos);

#define SWIFT_PROC_HANDLER_OLD(name)                                                        \
	static int name##_old(struct ctl_table *ctl, int write, void *buffer, size_t *lenp, \
			      loff_t *ppos)                                                 \
	{                                                                                   \
		return name(ctl, write, buffer, lenp, ppos);                                \
	}

#define SWIFT_PROC_HANDLER(name)                                                            \
	__builtin_choose_expr(                                                              \
		__builtin_types_compatible_p(proc_handler, swift_proc_handler_old_t),       \
		name##_old, name)

/* Tables carry their size since 6.6, where register_net_sysctl became a macro. */
#ifndef register_net_sysctl
#define register_net_sysctl_sz(net, path, table, size) register_net_sysctl(net, path, table)
#endif

/*
 * Why a netlink attribute is refused. Messages are formatted since 6.2; before, there is
 * only room for what needs no value: @plain.
 */
#ifdef NL_SET_ERR_MSG_ATTR_FMT
#define SWIFT_NL_REFUSE(extack, attr, plain, fmt, args...)                                  \
	NL_SET_ERR_MSG_ATTR_FMT(extack, attr, fmt, ##args)
#else
#define SWIFT_NL_REFUSE(extack, attr, plain, fmt, args...)                                  \
	NL_SET_ERR_MSG_ATTR(extack, attr, plain)
#endif

/* TCP accounts for PLB's changes of the flow label since 6.2: tcpi_rehash, TcpExtTCPPLBRehash. */
#ifdef TCP_PLB_SCALE
static inline void swift_plb_account(struct sock *sk)
{
	tcp_sk(sk)->plb_rehash++;
	NET_INC_STATS(sock_net(sk), LINUX_MIB_TCPPLBREHASH);
}
#else
static inline void swift_plb_account(struct sock *sk)
{
}
#endif

/* __tcp_send_ack() takes flags since 6.6. */
static inline void swift_send_ack_old(void (*send)(struct sock *, u32), struct sock *sk)
{
	send(sk, tcp_sk(sk)->rcv_nxt);
}

static inline void swift_send_ack_new(void (*send)(struct sock *, u32, u16), struct sock *sk)
{
	send(sk, tcp_sk(sk)->rcv_nxt, 0);
}

#define swift_send_ack(sk)                                                                  \
	(__builtin_choose_expr(__builtin_types_compatible_p(typeof(__tcp_send_ack),         \
							    void(struct sock *, u32)),      \
			       swift_send_ack_old, swift_send_ack_new)((void *)__tcp_send_ack, \
								       sk))

/* Since 6.13; what it takes the place of is gone since 6.15. Looked for in Kbuild. */
#ifdef SWIFT_HAVE_HRTIMER_SETUP
#define swift_hrtimer_setup hrtimer_setup
#else
static inline void swift_hrtimer_setup(struct hrtimer *timer,
				       enum hrtimer_restart (*function)(struct hrtimer *),
				       clockid_t clock, enum hrtimer_mode mode)
{
	hrtimer_init(timer, clock, mode);
	timer->function = function;
}
#endif

#endif /* SWIFT_COMPAT_H */
