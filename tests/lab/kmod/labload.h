/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The load's parts and who calls whom. Both ends of a connection are in this kernel, so
 * a message needs no header: it is complete when its last byte has been read.
 *
 *   labload_main.c     control lines and result files; owns flows, groups, laws
 *   labload_sock.c     sockets: connecting, accepting, sending, receiving
 *   labload_flow.c     what is to be sent when: streams, requests, Poisson messages
 *   labload_measure.c  the window: counters, histograms, samples, the RTT probe
 *   labload_truth.c    what Swift measures, beside what labfab knows
 *
 * load.mutex: control lines and readers, one at a time. load.lock: what softirqs change,
 * innermost but for the worker's own. A socket's lock is never taken inside either.
 */
#ifndef LABLOAD_H
#define LABLOAD_H

#include <linux/hrtimer.h>
#include <linux/kthread.h>
#include <linux/mutex.h>
#include <linux/net.h>
#include <linux/prandom.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <linux/xarray.h>
#include <net/tcp.h>

#include "hist.h"
#include "labfab.h"
#include "records.h"
#include "uapi/tcp_swift.h"

#define LOAD_FLOWS_MAX 65536
#define LOAD_POOL_MAX 100
#define LOAD_FIRST_PORT 10000
#define LOAD_GROUPS_MAX 256
#define LOAD_LAWS_MAX 8
#define LOAD_CDF_POINTS_MAX 256
#define LOAD_MESSAGE_BYTES_MAX SZ_1G
#define LOAD_TIME_NS_MAX (1000000ULL * NSEC_PER_SEC)

/* --- Sockets ------------------------------------------------------------------------- */

enum load_side { LOAD_CLIENT, LOAD_SERVER, LOAD_SIDES };

/* What is true of an end's packets (labload_truth.c); with the socket locked. */
struct load_truth {
	u32 t2_ns; /* arrival of the newest data, if no ACK has told of it */
	bool has_t2;
	/* Of the packet at hand: */
	bool known;
	u32 local_ns; /* t6 - t5 */
	u32 remote_ns; /* t4 - t2; 0 = not told */
	u64 rtt_ns; /* t6 - t1; 0 = it tells none */
};

/* One end of a connection. Counters are under load.lock, but for @sent. */
struct load_end {
	struct load_flow *flow;
	struct socket *sock;
	struct kthread_work work; /* to send, or to read what could not be read at once */
	u64 sent; /* bytes that TCP has taken; the worker's */
	u64 goal; /* bytes to send in all */
	u64 received; /* bytes read */
	u64 boundary; /* when as much is received, a request or a message is complete */
	struct load_truth truth;
};

int load_connect(void);
void load_close(void);
void load_own(struct load_end *end, u64 for_ns);

void load_data_ready(struct sock *sk); /* tells our sockets from others */
void load_end_work(struct kthread_work *work);
void load_open_work(struct kthread_work *work);

/* --- Flows ----------------------------------------------------------------------------- */

enum load_mode { LOAD_STREAM, LOAD_RPC, LOAD_IDLE };

/* What `flows` prints. */
struct load_counters {
	u64 received; /* at the server */
	u64 messages;
	u32 retrans; /* both ends */
	u16 rtos;
	bool connected;
	u32 cwnd_pkts;
	u32 srtt_us;
	struct tcp_swift_info law; /* zeros if it tells none */
};

struct load_flow {
	u32 id;
	struct load_group *group;
	int mode; /* enum load_mode */
	u64 src, dst; /* what its line said: */
	u64 size, resp, depth;
	u64 start_ns, stop_ns; /* from `go`; 0 = never stops */
	u64 every_ns; /* starts again so long after each start; 0 = does not */
	u64 sndbuf; /* 0: as it is */
	u64 notsent; /* unsent bytes that TCP keeps; a large segment or two at least */
	u64 ipv6;
	int dscp; /* -1: as it is */
	u32 law; /* of load.laws */
	bool late; /* opens when it starts, or is wanted; not at `connect` */
	u16 sport, dport;
	struct kthread_work open; /* of one that is late */
	struct load_flow *pair; /* idle: another connection of these two hosts, or NULL */

	struct load_end end[LOAD_SIDES];
	struct hrtimer timer; /* start, then stop */
	u64 begin_ns; /* latest start, or the next one; from `go` */
	bool running;
	u32 oldest, newest; /* incomplete messages, chained: record + 1; 0 = none */
	u64 messages; /* complete */
	struct load_counters base; /* at the window's start */
	struct load_counters result; /* at its end, less base */
};

/* A record of `messages`. Times from `go`. */
struct load_message {
	u32 flow;
	u32 size;
	u64 start_ns;
	u64 done_ns; /* 0: not done */
	u64 next; /* the flow's next, if not done: record + 1 */
};

/* Messages that arrive at a group's idle flows. */
struct load_source {
	struct list_head list; /* load.sources */
	struct load_group *group;
	struct hrtimer timer;
	struct rnd_state rnd;
	u64 rate_mps; /* thousandths */
	u64 pool; /* connections of a pair, at most */
	u64 start_ns, stop_ns; /* from `go`; 0 = never stops */
	u64 next_ns; /* from `go` */
	u32 next_q24; /* and a fraction of a ns */
	u32 n_points;
	struct {
		u32 size;
		u32 probability; /* cumulative, of 1000000 */
	} cdf[] __counted_by(n_points);
};

struct load_group {
	u32 id;
	u32 n_idle;
	struct xarray idle; /* pairs of hosts with idle flows: the first flow of 0 .. n_idle - 1 */
	struct xarray pairs; /* the same by hosts */
	struct hist rtt, fct;
};

void load_flows_start(void);
void load_flows_stop(void);
void load_received(struct load_end *end, u32 bytes);
void load_flow_init(struct load_flow *flow);
int load_flow_add(struct load_flow *flow);
void load_source_init(struct load_source *source, u64 seed);
u32 load_count_points(const char *cdf);
int load_parse_cdf(struct load_source *source, char *text);

/* --- The window ------------------------------------------------------------------------ */

enum load_window {
	LOAD_WINDOW_NONE,
	LOAD_WINDOW_ARMED, /* from `measure` to its start, or to `go` */
	LOAD_WINDOW_OPEN,
	LOAD_WINDOW_OVER,
	LOAD_WINDOW_CUT, /* by `stop` */
};

/* A record of `samples`. Times from `go`. */
struct load_sample {
	u64 time_ns;
	u32 flow;
	u32 cwnd_q16;
	u64 received;
	u32 fcwnd_q16;
	u32 ecwnd_q16;
};

int load_measure(u64 start_ns, u64 end_ns, u64 sample_ns);
void load_window_init(void);
void load_window_start(void);
void load_window_stop(void);
void load_counters_now(const struct load_flow *flow, struct load_counters *now);
void load_counters(const struct load_flow *flow, struct load_counters *to);
int load_probe_start(void);
void load_probe_stop(void);

/* --- The truth ------------------------------------------------------------------------- */

int load_truth_start(void);
void load_truth_stop(void);
int load_truth_host_start(struct net *net);
void load_truth_host_stop(struct net *net);
void load_truth_reset(void); /* under load.lock */
void load_truth_received(struct load_end *end, const struct sk_buff *skb, u64 rtt_ns);
int load_truth_show(struct seq_file *m, void *v);

/* --- All of it --------------------------------------------------------------------------- */

enum load_state { LOAD_NEW, LOAD_CONNECTED, LOAD_GOING, LOAD_STOPPED };

struct load {
	struct mutex mutex; /* control lines and readers */
	spinlock_t lock; /* what softirqs change */
	enum load_state state;
	struct load_flow **flows; /* LOAD_FLOWS_MAX */
	u32 n_flows;
	struct load_group *groups[LOAD_GROUPS_MAX];
	struct list_head sources;
	char laws[LOAD_LAWS_MAX][TCP_CA_NAME_MAX]; /* the first: the namespace's own */
	u32 n_laws;

	u64 first_port; /* of each host */
	struct load_host *hosts; /* LABFAB_HOSTS_MAX, from `connect` to `stop` */
	struct xarray by_port; /* flows by source host and port */
	struct kthread_worker *worker;
	u32 connected;

	u64 go_ns; /* CLOCK_MONOTONIC */
	struct records messages;
	struct records samples;
	bool messages_lost;
	int open_error; /* of a connection that was late */

	enum load_window window;
	u64 start_ns, end_ns, sample_ns, next_sample_ns; /* from `go` */
	u64 late_ns; /* how much later than due it opened or closed */
	struct hrtimer window_timer;
	wait_queue_head_t wait; /* for connections, for the window */
};

extern struct load load;

static inline u64 load_now_ns(void)
{
	return ktime_get_ns() - load.go_ns;
}

#endif /* LABLOAD_H */
