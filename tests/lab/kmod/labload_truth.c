// SPDX-License-Identifier: GPL-2.0
/*
 * What Swift measures beside what is true. labfab's frames know when they arrived
 * (labfab.h), so that the delays of an ACK are known to the nanosecond:
 *
 *   data comes         tcp_probe: when its first bit was at the NIC, t2, is remembered
 *   its ACK leaves     behind Swift's hook: t4 - t2 beside the echo in the packet, and
 *                      with it, as the packet's mark
 *   the ACK comes      tcp_probe: t6 - t5 and, by the mark, t4 - t2; t6 - t1
 *   Swift's sample     tcp_swift:swift_sample: what it made of them, beside them
 *
 * All of it with the socket locked. Packets that a backlog has merged tell the time of
 * one of them: they are left out.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>
#include <linux/netfilter_ipv4.h>
#include <linux/netfilter_ipv6.h>
#include <linux/tracepoint.h>
#include <net/ip.h>
#include <net/ipv6.h>

#include "core/option.h"
#include "labload.h"

/* "Within": an error of as much, and 1 % of what is true. */
#define LOAD_TRUTH_NS 200

/* Row: X(part of a sample). */
#define LOAD_TRUTH_PARTS(X)                                                                \
	X(local) /* t6 - t5 */                                                             \
	X(remote) /* t4 - t2, as the ACK leaves */                                         \
	X(endpoint) /* both, of one sample */                                              \
	X(rtt) /* t6 - t1, of which TCP keeps microseconds */                              \
	X(fabric)

enum load_truth_part {
#define LOAD_X(name) LOAD_TRUTH_##name,
	LOAD_TRUTH_PARTS(LOAD_X)
#undef LOAD_X
	LOAD_TRUTH_MAX
};

static const char * const load_truth_names[] = {
#define LOAD_X(name) #name,
	LOAD_TRUTH_PARTS(LOAD_X)
#undef LOAD_X
};

struct load_errors {
	struct hist ns; /* how far off, either way */
	struct hist ppm; /* of what is true */
	u64 within;
};

/* Of the window; under load.lock. */
struct load_truths {
	struct load_errors part[LOAD_TRUTH_MAX];
	u64 samples; /* of Swift, with or without what is true */
	u64 local[3], remote[3]; /* of those by enum tcp_swift_source */
};

static struct load_truths *load_truths; /* NULL: labfab tells no truth */

/* --- Errors: under load.lock ---------------------------------------------------------- */

static void load_error_add(enum load_truth_part part, s64 said_ns, s64 true_ns)
{
	struct load_errors *e = &load_truths->part[part];
	u64 error_ns = abs(said_ns - true_ns);

	hist_add(&e->ns, error_ns);
	if (true_ns > 0)
		hist_add(&e->ppm, div64_u64(error_ns * 1000000, true_ns));
	e->within += error_ns <= LOAD_TRUTH_NS + max(true_ns, 0) / 100;
}

void load_truth_reset(void)
{
	if (load_truths)
		memset(load_truths, 0, sizeof(*load_truths));
}

/* --- What arrives ----------------------------------------------------------------------- */

static bool load_is_merged(const struct sk_buff *skb)
{
	return skb_shinfo(skb)->gso_segs > 1;
}

/* Of tcp_probe; @rtt_ns: 0 if this packet tells none. */
void load_truth_received(struct load_end *end, const struct sk_buff *skb, u64 rtt_ns)
{
	struct load_truth *t = &end->truth;
	u32 now_ns = ktime_get_ns();

	if (!load_truths)
		return;
	t->known = !load_is_merged(skb);
	t->local_ns = now_ns - skb->mark;
	t->remote_ns = skb->priority;
	t->rtt_ns = rtt_ns;
	if (skb->len > tcp_hdr(skb)->doff * 4) {
		t->has_t2 = t->known;
		t->t2_ns = skb->mark;
	}
}

/* What leads to the socket of a load, or NULL. */
static struct load_end *load_end_of(const struct sock *sk)
{
	if (!sk || !sk_fullsock(sk) || READ_ONCE(sk->sk_data_ready) != load_data_ready)
		return NULL;
	return sk->sk_user_data;
}

/* --- The ACK leaves ------------------------------------------------------------------------ */

static bool load_echo(const struct sk_buff *skb, struct swift_opt *echo)
{
	const struct tcphdr *th = tcp_hdr(skb);

	return swift_opt_parse((const u8 *)(th + 1), th->doff * 4 - sizeof(*th), echo) ==
	       SWIFT_OPT_ECHO;
}

static unsigned int load_truth_out(void *priv, struct sk_buff *skb,
				   const struct nf_hook_state *state)
{
	struct load_end *end = load_end_of(skb->sk);
	u32 remote_ns = ktime_get_ns();
	struct swift_opt echo;

	if (!end || !end->truth.has_t2 || !load_echo(skb, &echo))
		return NF_ACCEPT;
	remote_ns -= end->truth.t2_ns;
	end->truth.has_t2 = false;
	skb->mark = remote_ns;
	spin_lock_bh(&load.lock);
	if (load.window == LOAD_WINDOW_OPEN)
		load_error_add(LOAD_TRUTH_remote, echo.remote_ns, remote_ns);
	spin_unlock_bh(&load.lock);
	return NF_ACCEPT;
}

/* Behind Swift's own. */
static const struct nf_hook_ops load_truth_hooks[] = {
	{ .hook = load_truth_out, .pf = NFPROTO_IPV4, .hooknum = NF_INET_LOCAL_OUT,
	  .priority = NF_IP_PRI_FIRST + 1 },
#if IS_ENABLED(CONFIG_IPV6)
	{ .hook = load_truth_out, .pf = NFPROTO_IPV6, .hooknum = NF_INET_LOCAL_OUT,
	  .priority = NF_IP6_PRI_FIRST + 1 },
#endif
};

int load_truth_host_start(struct net *net)
{
	return load_truths ? nf_register_net_hooks(net, load_truth_hooks,
						   ARRAY_SIZE(load_truth_hooks)) : 0;
}

void load_truth_host_stop(struct net *net)
{
	if (load_truths)
		nf_unregister_net_hooks(net, load_truth_hooks, ARRAY_SIZE(load_truth_hooks));
}

/* --- Swift's sample -------------------------------------------------------------------------- */

/* SACKs tell of segments that are newer than those that the ACK covers. */
static bool load_knows_rtt(const struct sock *sk, const struct load_truth *t)
{
	return t->rtt_ns && !tcp_sk(sk)->sacked_out;
}

static void load_compare(const struct sock *sk, const struct load_truth *t,
			 const struct tcp_swift_sample *s)
{
	s64 endpoint_ns = (s64)t->local_ns + t->remote_ns;

	load_truths->samples++;
	load_truths->local[s->local_source % 3]++;
	load_truths->remote[s->remote_source % 3]++;
	if (!t->known)
		return;
	load_error_add(LOAD_TRUTH_local, s->local_ns, t->local_ns);
	if (load_knows_rtt(sk, t))
		load_error_add(LOAD_TRUTH_rtt, s->rtt_ns, t->rtt_ns);
	if (!t->remote_ns) /* no pure ACK, or of no data that is known: no echo */
		return;
	load_error_add(LOAD_TRUTH_endpoint, (s64)s->local_ns + s->remote_ns, endpoint_ns);
	if (load_knows_rtt(sk, t))
		load_error_add(LOAD_TRUTH_fabric, s->fabric_ns, t->rtt_ns - endpoint_ns);
}

static void load_truth_sample(void *data, const struct sock *sk,
			      const struct tcp_swift_sample *sample)
{
	const struct load_end *end = load_end_of(sk);

	if (!end)
		return;
	spin_lock_bh(&load.lock);
	if (load.window == LOAD_WINDOW_OPEN)
		load_compare(sk, &end->truth, sample);
	spin_unlock_bh(&load.lock);
}

/* A module's tracepoint: it comes and goes with it. */
static int load_truth_module(struct notifier_block *nb, unsigned long action, void *data)
{
	const struct module *mod = ((struct tp_module *)data)->mod;
	struct tracepoint *tp;
	u32 i;

	for (i = 0; i < mod->num_tracepoints; i++) {
		tp = tracepoint_ptr_deref(mod->tracepoints_ptrs + i);
		if (strcmp(tp->name, "swift_sample"))
			continue;
		if (action == MODULE_STATE_COMING)
			tracepoint_probe_register(tp, load_truth_sample, NULL);
		else if (action == MODULE_STATE_GOING)
			tracepoint_probe_unregister(tp, load_truth_sample, NULL);
	}
	return NOTIFY_OK;
}

static struct notifier_block load_truth_notifier = { .notifier_call = load_truth_module };

/* --- Coming, going, and what was found ------------------------------------------------------- */

int load_truth_start(void)
{
	int err;

	if (!labfab_truth)
		return 0;
	load_truths = kvzalloc(sizeof(*load_truths), GFP_KERNEL);
	if (!load_truths)
		return -ENOMEM;
	err = register_tracepoint_module_notifier(&load_truth_notifier);
	if (err) {
		kvfree(load_truths);
		load_truths = NULL;
	}
	return err;
}

/* Modules that are there still are told that they go: to the notifier it is all one. */
void load_truth_stop(void)
{
	if (!load_truths)
		return;
	unregister_tracepoint_module_notifier(&load_truth_notifier);
	tracepoint_synchronize_unregister();
	kvfree(load_truths);
	load_truths = NULL;
}

int load_truth_show(struct seq_file *m, void *v)
{
	const struct load_errors *e;
	int i;

	if (!load_truths)
		return -ENODATA;
	spin_lock_bh(&load.lock);
	seq_printf(m, "samples=%llu local_none=%llu local_software=%llu local_hardware=%llu",
		   load_truths->samples, load_truths->local[TCP_SWIFT_SOURCE_NONE],
		   load_truths->local[TCP_SWIFT_SOURCE_SOFTWARE],
		   load_truths->local[TCP_SWIFT_SOURCE_HARDWARE]);
	seq_printf(m, " remote_none=%llu remote_software=%llu remote_hardware=%llu\n",
		   load_truths->remote[TCP_SWIFT_SOURCE_NONE],
		   load_truths->remote[TCP_SWIFT_SOURCE_SOFTWARE],
		   load_truths->remote[TCP_SWIFT_SOURCE_HARDWARE]);
	for (i = 0; i < LOAD_TRUTH_MAX; i++) {
		e = &load_truths->part[i];
		seq_printf(m, "part=%s count=%llu within=%llu sum_ns=%llu max_ns=%llu ns_hist=",
			   load_truth_names[i], e->ns.count, e->within, e->ns.sum, e->ns.max);
		hist_show(m, &e->ns);
		seq_puts(m, " ppm_hist=");
		hist_show(m, &e->ppm);
		seq_putc(m, '\n');
	}
	spin_unlock_bh(&load.lock);
	return 0;
}
