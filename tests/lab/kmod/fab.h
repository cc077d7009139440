/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The fabric's parts and who calls whom. One event engine moves frames from port
 * to port; time in it is picoseconds of CLOCK_MONOTONIC, so that a byte at 100 Gb/s
 * (80 ps) adds up exactly.
 *
 *   fab_main.c    control and statistics files; owns hosts, switches, links
 *   fab_engine.c  the event queue on one hrtimer; delivers frames up, outside its lock
 *   fab_port.c    a transmitter: classes, buffer, ECN, the wire, faults, occupancy
 *   fab_switch.c  TTL, routes, ECMP; shared buffer
 *   fab_nic.c     net_device: TSO, BQL, RX ring, host service, ethtool
 *   fab_core.c    a host that costs: cores, interrupts, GRO, what work takes
 *   fab_phc.c     a NIC's clock, and its stamps
 *
 * Everything below is protected by fab.lock, but for what says otherwise.
 */
#ifndef FAB_H
#define FAB_H

#include <linux/jhash.h>
#include <linux/netdevice.h>
#include <linux/net_tstamp.h>
#include <linux/prandom.h>
#include <linux/ptp_clock_kernel.h>
#include <linux/skbuff.h>
#include <linux/timerqueue.h>

#include "labfab.h"

#define FAB_PS_PER_NS 1000ULL
#define FAB_CLASSES 8
#define FAB_SWITCHES_MAX 1024
#define FAB_LINKS_MAX 8192
/* Preamble, frame check sequence and gap, which skb->len has not. */
#define FAB_WIRE_OVERHEAD_BYTES 24

struct fab_host;
struct fab_switch;
struct fab_port;

/* --- Random numbers ----------------------------------------------------------------- */

enum fab_whose { FAB_OF_PORT, FAB_OF_HOST, FAB_OF_SWITCH };

/* Hashed, and some drawn: neighbouring seeds and numbers make equal or ordered sequences. */
static inline void fab_seed(struct rnd_state *rnd, u32 seed, u32 number, enum fab_whose whose)
{
	int i;

	prandom_seed_state(rnd, jhash_2words(seed, number, whose));
	for (i = 0; i < 32; i++)
		prandom_u32_state(rnd);
}

/* --- Engine ------------------------------------------------------------------------- */

struct fab_event {
	struct timerqueue_node node; /* node.expires: ps */
	void (*fire)(struct fab_event *event, u64 now_ps);
};

struct fab_engine {
	spinlock_t lock; /* fab.lock */
	struct timerqueue_head queue;
	struct hrtimer timer;
	u64 now_ps; /* of the latest event */
	bool running; /* in the timer's callback */
	struct sk_buff_head up; /* frames that hosts' stacks get after this event */
	struct fab_core *core; /* whose work is done after this event, or NULL */
	u64 events;
	u64 hops; /* frames put on a wire */
	u64 in_flight; /* frames between a NIC's TX queue and the end of another's ring */
	u64 data_sent, data_lost; /* frames of NICs that are no pure ACKs */
};

extern struct fab_engine fab;

void fab_engine_init(void);
void fab_engine_exit(void);
u64 fab_now_ps(void);
void fab_schedule(struct fab_event *event, u64 at_ps);
void fab_cancel(struct fab_event *event);

static inline bool fab_is_scheduled(const struct fab_event *event)
{
	return !RB_EMPTY_NODE(&event->node.node);
}

static inline void fab_event_init(struct fab_event *event,
				  void (*fire)(struct fab_event *event, u64 now_ps))
{
	timerqueue_init(&event->node);
	event->fire = fire;
}

/* --- Frames ------------------------------------------------------------------------- */

/* A frame between two NICs is an skb with its data at the MAC header. */
struct fab_cb {
	u64 at_ps; /* on the wire: when its last bit arrives */
	u32 wire_bytes;
	u32 hash; /* of the flow, for ECMP */
	u32 queued_bytes; /* what a switch's buffer holds it as */
	u32 truth; /* labfab.h: what the sender's stack marked it with */
	struct fab_port *in; /* through which the switch that has it got it */
	u8 class;
	u8 data; /* no pure ACK */
	u8 corrupt;
	u8 lost;
	u8 pause; /* enum fab_pause: no frame of a host's, but one for the port at the other end */
};

enum fab_pause { FAB_PAUSE_NONE, FAB_PAUSE_XOFF, FAB_PAUSE_XON };

static inline struct fab_cb *fab_cb(struct sk_buff *skb)
{
	BUILD_BUG_ON(sizeof(struct fab_cb) > sizeof(skb->cb));
	return (struct fab_cb *)skb->cb;
}

static inline void fab_drop(struct sk_buff *skb)
{
	fab.in_flight -= !fab_cb(skb)->pause;
	fab.data_lost += fab_cb(skb)->data;
	kfree_skb_reason(skb, SKB_DROP_REASON_NOT_SPECIFIED);
}

static inline void fab_drop_all(struct sk_buff_head *list)
{
	struct sk_buff *skb;

	while ((skb = __skb_dequeue(list)))
		fab_drop(skb);
}

/* --- Ports -------------------------------------------------------------------------- */

/* Occupancy: 0, then 8 steps an octave from 64 bytes on. */
#define FAB_HIST_STEPS 8
#define FAB_HIST_BUCKETS (1 + 26 * FAB_HIST_STEPS)

struct fab_port_stats {
	u64 tx_pkts, tx_bytes; /* bytes as skb->len */
	u64 drops, drop_bytes; /* no room in the buffer */
	u64 marks; /* ECN */
	u64 lost, corrupted, reordered; /* faults */
	u64 rx_crc_errors; /* came in corrupted, at a switch */
	u64 pauses, paused_ns; /* PFC: how often and for how long it was told to stop */
	u64 since_ns; /* of the statistics */
	u64 q_byte_ns; /* integral of the occupancy */
	u32 q_max_bytes;
	u64 hist_ns[FAB_HIST_BUCKETS];
};

struct fab_port {
	struct fab_host *host; /* the owner is one of these */
	struct fab_switch *sw;
	struct fab_port *peer;
	u32 link; /* number of its link */
	u64 ps_per_byte_q16;
	u64 prop_ps;
	bool down;
	bool avoid; /* carries, but routes computed from now on go elsewhere */

	u64 free_ps; /* when the frame in transmission is out */
	struct fab_event tx; /* at free_ps, if anybody waits for it */
	struct sk_buff *sending; /* NICs alone: to be completed at free_ps */
	struct sk_buff_head classes[FAB_CLASSES];
	u32 class_bytes[FAB_CLASSES];
	u32 deficit_bytes[FAB_CLASSES];
	u8 turn; /* class whose deficit is being spent */
	u32 backlog_bytes;
	u32 backlog_pkts;

	struct sk_buff_head wire; /* in order of arrival */
	struct fab_event arrival; /* of its head */

	/* PFC, by class. What came in here and is still in the switch; whether the other
	 * end was told to stop; whether this one was.
	 */
	u32 held_bytes[FAB_CLASSES];
	u8 pausing;
	u8 paused;
	u64 paused_since_ns;

	u32 loss_ppm, corrupt_ppm, reorder_ppm;
	u64 reorder_ps;
	struct rnd_state rnd;

	u64 seen_ns; /* when the statistics were last brought up to date */
	struct fab_port_stats stats;
};

void fab_port_init(struct fab_port *port, u64 rate_bps, u64 prop_ns, u32 link);
void fab_port_seed(struct fab_port *port, u32 number);
void fab_port_purge(struct fab_port *port);
/* Takes over the frame. */
void fab_port_send(struct fab_port *port, struct sk_buff *skb, u64 now_ps);
void fab_port_stats_reset(struct fab_port *port, u64 now_ns);
void fab_port_account(struct fab_port *port, u64 now_ns);
void fab_port_account_pause(struct fab_port *port, u64 now_ns);
void fab_port_resume(struct fab_port *port, u64 now_ps);
u32 fab_hist_low_bytes(unsigned int bucket);

/* --- Switches ----------------------------------------------------------------------- */

struct fab_switch {
	u32 id;
	u32 buffer_bytes; /* a port's; with shared, of all */
	u32 used_bytes;
	u32 used_max_bytes;
	u32 alpha_milli;
	u32 ecn_bytes;
	u32 pfc_xoff_bytes, pfc_xon_bytes; /* of a class of a port it came in through; 0 = none */
	u64 latency_ps;
	u16 weights[FAB_CLASSES];
	bool shared;
	bool spray;
	u32 seed;
	u32 salt;
	struct rnd_state rnd;
	u64 ttl_expired, no_route;

	u32 n_ports;
	struct fab_port **ports;
	/* For each switch that has hosts (by id): ports on a shortest path. */
	struct fab_routes {
		u16 *ports; /* n_ports a row */
		u16 *counts;
	} routes, next_routes; /* in use; being computed */
	/* For each of its own hosts: which port. */
	u16 *host_ports;
};

void fab_switch_rx(struct fab_switch *sw, struct sk_buff *skb, u64 now_ps);
bool fab_switch_admit(struct fab_switch *sw, struct fab_port *port, u8 class, u32 bytes);

/* --- NICs --------------------------------------------------------------------------- */

struct fab_phc {
	struct ptp_clock_info info;
	struct ptp_clock *clock;
	spinlock_t lock; /* what follows */
	u64 anchor_ps; /* engine time at which it showed anchor_ns */
	s64 anchor_ns;
	s64 drift_ppb; /* of the crystal */
	s64 adj_ppb; /* of adjfine() */
};

struct fab_host_config {
	u64 id, mtu, txq_pkts, ring_pkts, rx_pkt_ns, rx_kb_ns, rx_wake_ns;
	/* Of a host that costs, if it has cores. */
	u64 cores, gro, rx_usecs, rx_frames, irq_ns, seg_ns, ack_ns, timer_ns, timer_slack_ns;
	u64 noise_ns, noise_every_ns;
	u64 stamps, netdev_stamps, phc, seed;
	s64 phc_offset_ns, phc_drift_ppb;
	bool ring_stage;
};

struct fab_host {
	struct net_device *dev;
	struct fab_host_config config;
	struct fab_port port;
	struct fab_switch *sw; /* to which it is linked */
	struct fab_phc phc;
	struct kernel_hwtstamp_config stamping;
	struct napi_struct napi; /* tells whose a frame is; nobody polls it */

	struct sk_buff_head ring; /* arrived, not yet served */
	struct fab_event service; /* of its head */
	struct rnd_state rnd;
	struct fab_core *cores; /* instead of ring and service; config.cores of them, or NULL */
	u64 service_ns; /* spent so far */
	u64 tx_pkts, tx_bytes, tso_pkts;
	u64 rx_pkts, rx_bytes, rx_missed, rx_crc_errors;
	u32 ring_max_pkts;
	u64 irqs, segments, noise_ns; /* of cores */
};

struct fab_host *fab_nic_create(const struct fab_host_config *config, struct net *net);
void fab_nic_destroy(struct fab_host *host);
void fab_nic_rx(struct fab_host *host, struct sk_buff *skb, u64 now_ps);
void fab_nic_tx_start(struct fab_host *host, struct sk_buff *skb, u64 now_ps);
void fab_nic_tx_done(struct fab_host *host, struct sk_buff *skb);
void fab_nic_up(struct fab_host *host, struct sk_buff *skb);
void fab_nic_send(struct fab_host *host, struct sk_buff *skb, u64 now_ps);
int fab_nic_poll(struct napi_struct *napi, int budget);

/* --- Cores -------------------------------------------------------------------------- */

enum fab_work {
	FAB_WORK_NONE,
	FAB_WORK_FRAMES, /* from the ring to GRO */
	FAB_WORK_FLUSH, /* the end of a poll: GRO lets go what it has */
	FAB_WORK_SEGMENT, /* from GRO to the stack */
};

struct fab_core {
	struct fab_host *host;
	struct napi_struct napi; /* of its RX queue: GRO's state */
	struct fab_event irq; /* the interrupt of what waits in the ring */
	struct fab_event step; /* of a poll: work begins, or is done */
	struct fab_event tx; /* of the head of out */
	struct sk_buff_head ring; /* arrived, not yet taken by a poll */
	struct sk_buff_head frames; /* taken, being worked on */
	struct sk_buff_head segments; /* out of GRO, not yet in the stack */
	struct sk_buff_head out; /* sent, not yet with the NIC */
	enum fab_work work; /* begun, done at step */
	bool polling; /* from its interrupt to the end of the last poll */
	bool flushed;
	u32 budget; /* frames that this poll may still take */
	u64 free_ps; /* when all that it was given is done */
	u64 called_ps; /* when something other than a frame last called it */
	u64 noise_ps; /* when it is next away */
	struct rnd_state rnd;
};

int fab_cores_init(void);
void fab_cores_exit(void);
int fab_cores_create(struct fab_host *host);
void fab_cores_purge(struct fab_host *host);
void fab_cores_flush(struct fab_host *host);
void fab_cores_destroy(struct fab_host *host);
void fab_core_rx(struct fab_host *host, struct sk_buff *skb, u64 now_ps);
void fab_core_finish(void);
bool fab_is_ack(const struct sk_buff *skb);
u64 fab_core_tx_ns(const struct fab_host *host, const struct sk_buff *skb);
void fab_core_tx(struct fab_host *host, struct sk_buff *frames, u64 for_ns, u64 now_ps);

/* --- PHC ---------------------------------------------------------------------------- */

int fab_phc_init(struct fab_host *host);
void fab_phc_exit(struct fab_host *host);
s64 fab_phc_ns(struct fab_phc *phc, u64 now_ps);
void fab_phc_step(struct fab_phc *phc, s64 step_ns);

/* --- The whole (fab_main.c) --------------------------------------------------------- */

struct fab_host *fab_host(u32 id);

#endif /* FAB_H */
