/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the module's files share: the state of a flow (in the socket's congestion
 * control area), the state of a network namespace, and who calls whom.
 *
 *   rx.c     tcp_probe: stamps and options of a received packet -> struct swift_sock
 *   cong.c   cong_control: swift_sock + rate_sample -> core/swift.h -> window, rate
 *   path.c   the smallest delay to each destination, which all flows of the host share
 *   starts.c the window that flows share which begin at once, to one destination
 *   link.c   the rate of each device's link
 *   clock.c  netlink: lines between NIC clocks and the host's; hardware stamp -> age
 *   credit.c, demand.c   SIRD's credit between this receiver and its senders (swift_credit.h)
 *   book.c   netlink: what is lent here, by link and by flow
 *   echo.c   netfilter: swift_sock -> option on ACKs; handshake -> echo negotiated
 *   netns.c  sysctls -> struct swift_params; counters -> /proc/net/tcp_swift
 *   main.c   order of coming and going
 */
#ifndef SWIFT_SOCK_H
#define SWIFT_SOCK_H

#include <linux/math64.h>
#include <linux/percpu.h>
#include <linux/siphash.h>
#include <linux/xarray.h>
#include <net/netns/generic.h>
#include <net/tcp.h>

#define SWIFT_DIV_U64(dividend, divisor) div64_u64(dividend, divisor)
#include "core/clock.h"
#include "core/option.h"
#include "core/sird.h"
#include "core/starts.h"
#include "core/swift.h"
#include "uapi/tcp_swift.h"

/* Row: X(name in /proc/net/tcp_swift). Gauges count up and down, the rest up. */
#define SWIFT_COUNTERS(X)                                                                  \
	X(flows) /* gauge: sockets that run Swift now */                                   \
	X(flows_total)                                                                     \
	X(guarded_flows) /* gauge: sockets above max_rtt_ns, on Reno */                    \
	X(guarded_flows_total)                                                             \
	X(echo_flows_total) /* flows that negotiated the echo */                           \
	X(echoes_sent)                                                                     \
	X(echoes_received)                                                                 \
	X(echoes_malformed) /* truncated, of a wrong length, or twice in a header */       \
	X(echoes_clamped) /* claimed a little more delay than the RTT, or over 16 hops */  \
	X(echoes_no_room) /* ACK left without: options full */                             \
	X(echoes_stopped) /* flows whose ACKs with the option seem to get lost */          \
	X(samples) /* ACKs with an RTT */                                                  \
	X(samples_software) /* of those, with a software receive stamp */                  \
	X(samples_hardware) /* with the NIC's */                                           \
	X(stamps_no_clock) /* hardware stamps not used: no line for the device's clock */  \
	X(stamps_stale) /* the line was no longer valid */                                 \
	X(stamps_future) /* later than now, or than the stack's own stamp */               \
	X(stamps_old) /* before what they answer, or more than 1 s ago */                  \
	X(decreases_fabric)                                                                \
	X(decreases_endpoint)                                                              \
	X(decreases_loss)                                                                  \
	X(decreases_timeout)                                                               \
	X(decreases_ecn)                                                                   \
	X(window_resets) /* timeouts in a row: window set to min_cwnd */                   \
	X(undos)                                                                           \
	X(idle_restarts)                                                                   \
	X(credit_flows) /* gauge: sockets that negotiated credit */                        \
	X(credit_granted_bytes) /* that senders were lent, beyond what they send unasked */ \
	X(credit_windows) /* packets whose window credit lowered */                        \
	X(credit_kicks) /* ACKs that went for a grant alone */                             \
	X(credit_repeats) /* grants told again after silence */                            \
	X(credit_congested_senders) /* segments that came with csn */                      \
	X(credit_congested) /* segments that left with it: this host's link was congested */ \
	X(credit_no_room) /* segments that left without the option: options full */        \
	X(plb_rounds) /* rounds in which the fabric was congested, with plb */             \
	X(plb_repaths) /* flow labels changed for that */                                  \
	X(echoes_refused) /* claimed far more delay than the RTT: none of it counts */     \
	X(starts_delayed) /* flows that waited, so that not all of them begin at once */

enum swift_counter {
#define SWIFT_X(name) SWIFT_C_##name,
	SWIFT_COUNTERS(SWIFT_X)
#undef SWIFT_X
	SWIFT_C_MAX
};

struct swift_counters {
	unsigned long v[SWIFT_C_MAX];
};

struct swift_handshakes;

struct swift_net {
	struct swift_params __rcu *params; /* what flows read */
	struct swift_counters __percpu *counters;
	struct net *net;
	/* Behind the sysctls; written under @lock. */
	struct mutex lock;
	struct swift_tunables tunables;
	int max_rtt_ns;
	int dscp; /* -1 = leave */
	int rto_min_us; /* 0 = leave */
	int plb;
	int link_mbps; /* of links whose driver tells no rate; 0 = it is not known */
	u32 echo;
	u32 credit;
	struct sird_tunables sird;
	struct ctl_table *sysctls;
	struct ctl_table_header *sysctl_header;
	struct swift_handshakes *handshakes; /* NULL until echo was 1 once */
	struct xarray links; /* struct swift_link, by ifindex, whose rate is known */
	bool links_stale; /* or were, before something changed */
};

extern unsigned int swift_net_id;

static inline struct swift_net *swift_net(const struct net *net)
{
	return net_generic(net, swift_net_id);
}

/* Some dependent loads: once an ACK is enough. */
static inline struct swift_net *swift_net_of(const struct sock *sk)
{
	return swift_net(sock_net(sk));
}

/* The same under rcu_read_lock(), which net_generic() would enter once more. */
static inline struct swift_net *swift_net_of_rcu(const struct sock *sk)
{
	return rcu_dereference(sock_net(sk)->gen)->ptr[swift_net_id];
}

#define swift_count(sn, name) this_cpu_inc((sn)->counters->v[SWIFT_C_##name])
#define swift_count_add(sn, name, n) this_cpu_add((sn)->counters->v[SWIFT_C_##name], n)
#define swift_uncount(sn, name) this_cpu_dec((sn)->counters->v[SWIFT_C_##name])

/*
 * State of a flow. Everything is touched with the socket locked; sock_diag alone
 * reads without, single words.
 */
struct swift_sock {
	struct swift_state law;

	/* Receiving data: for the echo. */
	u32 t2_ns; /* arrival of the newest data, low half of CLOCK_MONOTONIC */

	/* Receiving ACKs: written by rx.c for the ACK in hand, consumed by cong.c. */
	u32 rtt_ns; /* t6 - t1; 0 = unknown */
	u32 remote_ns; /* t4 - t2, as echoed */
	u32 local_ns; /* t6 - t5 */

	u32 path_key; /* the destination, in path.c's table */
	union {
		u32 next_round_delivered; /* tp->delivered at which a round trip is over */
		u32 start_ticket; /* while it waits to begin */
		u32 start_bytes; /* that it sent first, until they are answered */
	};
	struct swift_dither dither;

	u8 rx_hops; /* of the packets that arrive here */
	u8 echo_hops; /* of those that we send, told by the peer */
	u8 echo_misses; /* ACKs in a row without an echo */
	u8 dscp : 6, /* class that init() gave the socket; 0 = none */
	   rx_repeats : 2; /* data segments in a row that we had already */

	u16 live : 1, /* init ran, release did not */
	   guarded : 1, /* above max_rtt_ns: Reno's, but for echo_on all else here unused */
	   first_due : 1, /* no short RTT yet: the first sample counts, whatever it is */
	   echo_on : 1, /* both ends offered */
	   echo_stopped : 1, /* our ACKs with the option seem to get lost */
	   has_t2 : 1, /* t2_ns is known, and was not echoed */
	   t2_hw : 1, /* and the NIC's */
	   has_local : 1, /* local_ns is of the ACK in hand */
	   has_echo : 1, /* remote_ns and echo_hops, too */
	   knows_hops : 1, /* echo_hops was ever told */
	   timed_out : 1, /* and no RTT was taken since */
	   drained : 1, /* sends by less than the law's window (D11) */
	   full_sized : 1, /* rtt_ns is of a segment of the MSS at least */
	   credit : 1, /* both ends offered it: swift_credit_of() */
	   pacing_status : 2; /* before it was made ours; SWIFT_NOT_HELD = is not ours */
	u8 local_source; /* enum tcp_swift_source */
	u8 remote_source;
	s16 plb_balance; /* packets of this round above the target, less those below */
	u16 rto_min_jiffies : 11, /* that the socket had before it got ours; 0 = has its own */
	   plb_rounds : 3, /* congested, in a row */
	   start : 2; /* enum swift_start */
};

/* To begin, or begin anew, where others of this host may as well (D21). */
enum swift_start {
	SWIFT_NO_START, /* it goes on */
	SWIFT_START_SILENT, /* all was answered, and the application has nothing more to send */
	SWIFT_START_WAITS, /* for its turn */
	SWIFT_START_UNDER_WAY, /* its first packet is not answered */
};

#define SWIFT_RTO_MIN_JIFFIES_MAX 2047
#define SWIFT_NOT_HELD 3 /* no value of sk_pacing_status: no data waits for its time */

/* It has a ticket there, or bytes. */
static inline bool swift_starts_knows(const struct swift_sock *ss)
{
	return ss->start >= SWIFT_START_WAITS;
}

static inline struct swift_sock *swift_sk(const struct sock *sk)
{
	return inet_csk_ca(sk);
}

/*
 * ACKs in a row without an echo after which the remote part counts as fabric
 * again: the peer turned its echo off, or a middlebox strips options. SACK blocks
 * displace the echo for the length of a repair at most.
 */
#define SWIFT_ECHO_MISSES_MAX 64

extern struct tcp_congestion_ops swift_cong_ops;

static inline bool swift_runs(const struct sock *sk)
{
	return READ_ONCE(inet_csk(sk)->icsk_ca_ops) == &swift_cong_ops;
}

/* cong.c */
int swift_cong_register(void);
void swift_cong_unregister(void);

/* rx.c */
int swift_rx_start(void);
void swift_rx_stop(void);

/* path.c */
int swift_paths_create(void);
void swift_paths_destroy(void);
u32 swift_path_key(const struct sock *sk, bool echo_on);
u32 swift_path_base_of(u32 key, u32 *least_ns);
void swift_path_learn(u32 key, const struct swift_params *p, u64 now_ns, u32 delay_ns,
		      u32 luck_ns);

/* starts.c */
int swift_starts_create(void);
void swift_starts_destroy(void);
u32 swift_start_ask(const struct sock *sk, struct swift_sock *ss, u32 srtt_ns, bool *late);
void swift_start_answered(const struct sock *sk, struct swift_sock *ss, u32 rtt_ns, bool late);
void swift_start_left(const struct sock *sk, struct swift_sock *ss);

/* link.c */
int swift_link_register(void);
void swift_link_unregister(void);
u32 swift_link_mbps(const struct sock *sk);
void swift_links_forget(struct swift_net *sn);
void swift_links_learn(struct swift_net *sn);
void swift_links_set(struct swift_net *sn);
void swift_links_wait(void);

/* clock.c */
int swift_clock_register(void);
void swift_clock_unregister(void);
enum swift_clock_result swift_clock_rx(const struct net *net, const struct sk_buff *skb,
				       u64 now_ns, const struct swift_clock_bounds *bounds,
				       u32 *age_ns);

extern struct genl_family swift_genl_family; /* book.c's messages are of it, too */

/* demand.c */
u8 swift_demand_limit(const struct sock *sk);

/* echo.c: may sleep, but for swift_offers_take() */
enum swift_offers {
	SWIFT_OFFER_ECHO = 1,
	SWIFT_OFFER_CREDIT = 2,
};

int swift_hooks_enable(struct net *net, struct swift_net *sn);
void swift_hooks_disable(struct net *net);
void swift_offers_free(struct swift_net *sn);
u8 swift_offers_take(const struct sock *sk);

/* netns.c */
int swift_netns_register(void);
void swift_netns_unregister(void);

#endif /* SWIFT_SOCK_H */
