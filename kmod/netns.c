// SPDX-License-Identifier: GPL-2.0
/*
 * What each network namespace has of its own: the sysctls under net.ipv4.tcp_swift,
 * the parameters that flows compute with, and the counters in /proc/net/tcp_swift.
 */
#include <linux/module.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/sysctl.h>

#include "compat/compat.h"
#include "swift_sock.h"

unsigned int swift_net_id __read_mostly;

/* --- Parameters ----------------------------------------------------------------------- */

/* All or nothing: flows see the old parameters or the new ones, never a mixture. */
static int swift_net_set_tunables(struct swift_net *sn, const struct swift_tunables *t)
{
	struct swift_params *fresh, *old;

	fresh = kmalloc(sizeof(*fresh), GFP_KERNEL_ACCOUNT);
	if (!fresh)
		return -ENOMEM;
	if (swift_params_prepare(fresh, t)) {
		kfree(fresh);
		return -EINVAL;
	}
	sn->tunables = *t;
	old = rcu_replace_pointer(sn->params, fresh, lockdep_is_held(&sn->lock));
	if (old)
		kfree_rcu_mightsleep(old);
	return 0;
}

/* @field points into sn->tunables. */
static int swift_net_set_tunable(struct swift_net *sn, const u32 *field, u32 value)
{
	struct swift_tunables t = sn->tunables;

	*(u32 *)((u8 *)&t + ((const u8 *)field - (const u8 *)&sn->tunables)) = value;
	return swift_net_set_tunables(sn, &t);
}

/* --- Sysctls ---------------------------------------------------------------------------- */

/* extra1 of every entry is its struct swift_net. */

static int swift_sysctl_tunable(const struct ctl_table *ctl, int write, void *buffer,
				size_t *lenp, loff_t *ppos)
{
	struct swift_net *sn = ctl->extra1;
	struct ctl_table one = { .procname = ctl->procname, .maxlen = sizeof(u32) };
	u32 value;
	int err;

	mutex_lock(&sn->lock);
	value = *(u32 *)ctl->data;
	one.data = &value;
	err = proc_douintvec(&one, write, buffer, lenp, ppos);
	if (write && !err)
		err = swift_net_set_tunable(sn, ctl->data, value);
	mutex_unlock(&sn->lock);
	return err;
}

static const char *const swift_policy_names[] = {
	[SWIFT_TARGET_STATIC] = "static",
	[SWIFT_TARGET_BASE_RTT] = "base_rtt",
	[SWIFT_TARGET_BASE_RTT_PLUS] = "base_rtt_plus",
};

static int swift_sysctl_policy(const struct ctl_table *ctl, int write, void *buffer,
			       size_t *lenp, loff_t *ppos)
{
	struct swift_net *sn = ctl->extra1;
	char word[24]; /* longer than any name, so that a longer word is none of them */
	struct ctl_table one = { .procname = ctl->procname, .data = word,
				 .maxlen = sizeof(word) };
	int err, policy;

	mutex_lock(&sn->lock);
	strscpy(word, swift_policy_names[sn->tunables.target_policy], sizeof(word));
	err = proc_dostring(&one, write, buffer, lenp, ppos);
	if (write && !err) {
		policy = match_string(swift_policy_names, ARRAY_SIZE(swift_policy_names),
				      strim(word));
		err = policy < 0 ? -EINVAL : swift_net_set_tunable(sn, ctl->data, policy);
	}
	mutex_unlock(&sn->lock);
	return err;
}

/* The host's own settings: an int each, between the bounds given. */
static int swift_sysctl_int(const struct ctl_table *ctl, int write, void *buffer, size_t *lenp,
			    loff_t *ppos, int lo, int hi)
{
	struct swift_net *sn = ctl->extra1;
	struct ctl_table one = { .procname = ctl->procname, .maxlen = sizeof(int),
				 .extra1 = &lo, .extra2 = &hi };
	int value, err;

	mutex_lock(&sn->lock);
	value = *(int *)ctl->data;
	one.data = &value;
	err = proc_dointvec_minmax(&one, write, buffer, lenp, ppos);
	if (write && !err)
		WRITE_ONCE(*(int *)ctl->data, value);
	mutex_unlock(&sn->lock);
	return err;
}

static int swift_sysctl_max_rtt(const struct ctl_table *ctl, int write, void *buffer,
				size_t *lenp, loff_t *ppos)
{
	return swift_sysctl_int(ctl, write, buffer, lenp, ppos, 1000, INT_MAX);
}

static int swift_sysctl_dscp(const struct ctl_table *ctl, int write, void *buffer, size_t *lenp,
			     loff_t *ppos)
{
	return swift_sysctl_int(ctl, write, buffer, lenp, ppos, -1, 63);
}

static int swift_sysctl_rto_min(const struct ctl_table *ctl, int write, void *buffer,
				size_t *lenp, loff_t *ppos)
{
	return swift_sysctl_int(ctl, write, buffer, lenp, ppos, 0, USEC_PER_SEC);
}

static int swift_sysctl_plb(const struct ctl_table *ctl, int write, void *buffer, size_t *lenp,
			    loff_t *ppos)
{
	return swift_sysctl_int(ctl, write, buffer, lenp, ppos, 0, 1);
}

static int swift_sysctl_link(const struct ctl_table *ctl, int write, void *buffer, size_t *lenp,
			     loff_t *ppos)
{
	struct swift_net *sn = ctl->extra1;
	int before_mbps = READ_ONCE(sn->link_mbps);
	int err = swift_sysctl_int(ctl, write, buffer, lenp, ppos, 0, 10000000);

	if (write && !err && READ_ONCE(sn->link_mbps) != before_mbps)
		swift_links_learn(sn);
	return err;
}

static int swift_sysctl_sird(const struct ctl_table *ctl, int write, void *buffer, size_t *lenp,
			     loff_t *ppos)
{
	struct swift_net *sn = ctl->extra1;
	struct ctl_table one = { .procname = ctl->procname, .maxlen = sizeof(u32) };
	struct sird_tunables t;
	u32 *field, value;
	int err;

	mutex_lock(&sn->lock);
	value = *(u32 *)ctl->data;
	one.data = &value;
	err = proc_douintvec(&one, write, buffer, lenp, ppos);
	if (write && !err) {
		t = sn->sird;
		field = (u32 *)((u8 *)&t + ((u8 *)ctl->data - (u8 *)&sn->sird));
		*field = value;
		if (sird_tunables_check(&t)) {
			err = -EINVAL;
		} else {
			WRITE_ONCE(*(u32 *)ctl->data, value);
			swift_links_set(sn);
		}
	}
	mutex_unlock(&sn->lock);
	return err;
}

/* echo, and credit: the first of them that is on needs the hooks, the last one not. */
static int swift_sysctl_offer(const struct ctl_table *ctl, int write, void *buffer, size_t *lenp,
			      loff_t *ppos)
{
	struct swift_net *sn = ctl->extra1;
	u32 *offer = ctl->data, others;
	u32 value;
	struct ctl_table one = { .procname = ctl->procname, .data = &value,
				 .maxlen = sizeof(value), .extra1 = SYSCTL_ZERO,
				 .extra2 = SYSCTL_ONE };
	int err;

	mutex_lock(&sn->lock);
	others = sn->echo + sn->credit - *offer;
	value = *offer;
	err = proc_douintvec_minmax(&one, write, buffer, lenp, ppos);
	/* Its locks sleep there, and tcp_probe's caller must not. */
	if (IS_ENABLED(CONFIG_PREEMPT_RT) && write && !err && value && offer == &sn->credit)
		err = -EOPNOTSUPP;
	if (write && !err && value != *offer) {
		if (value && !others)
			err = swift_hooks_enable(sn->net, sn);
		else if (!others)
			swift_hooks_disable(sn->net);
		if (!err)
			WRITE_ONCE(*offer, value);
	}
	mutex_unlock(&sn->lock);
	return err;
}

SWIFT_PROC_HANDLER_OLD(swift_sysctl_tunable)
SWIFT_PROC_HANDLER_OLD(swift_sysctl_policy)
SWIFT_PROC_HANDLER_OLD(swift_sysctl_max_rtt)
SWIFT_PROC_HANDLER_OLD(swift_sysctl_dscp)
SWIFT_PROC_HANDLER_OLD(swift_sysctl_rto_min)
SWIFT_PROC_HANDLER_OLD(swift_sysctl_plb)
SWIFT_PROC_HANDLER_OLD(swift_sysctl_link)
SWIFT_PROC_HANDLER_OLD(swift_sysctl_sird)
SWIFT_PROC_HANDLER_OLD(swift_sysctl_offer)

/* The tunables come first and in the order of their struct, target_policy among them. */
static const struct ctl_table swift_sysctls_template[] = {
#define SWIFT_X(name, def, lo, hi, doc) \
	{ .procname = #name, .mode = 0644, \
	  .proc_handler = SWIFT_PROC_HANDLER(swift_sysctl_tunable) },
	SWIFT_TUNABLES(SWIFT_X)
#undef SWIFT_X
	{ .procname = "max_rtt_ns", .mode = 0644,
	  .proc_handler = SWIFT_PROC_HANDLER(swift_sysctl_max_rtt) },
	{ .procname = "dscp", .mode = 0644,
	  .proc_handler = SWIFT_PROC_HANDLER(swift_sysctl_dscp) },
	{ .procname = "rto_min_us", .mode = 0644,
	  .proc_handler = SWIFT_PROC_HANDLER(swift_sysctl_rto_min) },
	{ .procname = "plb", .mode = 0644,
	  .proc_handler = SWIFT_PROC_HANDLER(swift_sysctl_plb) },
	{ .procname = "link_mbps", .mode = 0644,
	  .proc_handler = SWIFT_PROC_HANDLER(swift_sysctl_link) },
	{ .procname = "echo", .mode = 0644,
	  .proc_handler = SWIFT_PROC_HANDLER(swift_sysctl_offer) },
	{ .procname = "credit", .mode = 0644,
	  .proc_handler = SWIFT_PROC_HANDLER(swift_sysctl_offer) },
#define SIRD_X(name, def, lo, hi, doc) \
	{ .procname = #name, .mode = 0644, \
	  .proc_handler = SWIFT_PROC_HANDLER(swift_sysctl_sird) },
	SIRD_TUNABLES(SIRD_X)
#undef SIRD_X
	{ } /* the end, for kernels whose tables carry no size */
};

#define SWIFT_NR_TUNABLES (sizeof(struct swift_tunables) / sizeof(u32))
#define SWIFT_NR_SIRD (sizeof(struct sird_tunables) / sizeof(u32))
#define SWIFT_NR_SYSCTLS (ARRAY_SIZE(swift_sysctls_template) - 1)
#define SWIFT_POLICY_INDEX (offsetof(struct swift_tunables, target_policy) / sizeof(u32))

static int swift_net_add_sysctls(struct net *net, struct swift_net *sn)
{
	struct ctl_table *table;
	unsigned int i, j;

	table = kmemdup(swift_sysctls_template, sizeof(swift_sysctls_template), GFP_KERNEL);
	if (!table)
		return -ENOMEM;
	for (i = 0; i < SWIFT_NR_SYSCTLS; i++)
		table[i].extra1 = sn;
	for (i = 0; i < SWIFT_NR_TUNABLES; i++)
		table[i].data = (u32 *)&sn->tunables + i;
	table[SWIFT_POLICY_INDEX].proc_handler = SWIFT_PROC_HANDLER(swift_sysctl_policy);
	table[i++].data = &sn->max_rtt_ns;
	table[i++].data = &sn->dscp;
	table[i++].data = &sn->rto_min_us;
	table[i++].data = &sn->plb;
	table[i++].data = &sn->link_mbps;
	table[i++].data = &sn->echo;
	table[i++].data = &sn->credit;
	for (j = 0; j < SWIFT_NR_SIRD; j++)
		table[i++].data = (u32 *)&sn->sird + j;

	sn->sysctls = table;
	sn->sysctl_header = register_net_sysctl_sz(net, "net/ipv4/tcp_swift", table,
						   SWIFT_NR_SYSCTLS);
	if (!sn->sysctl_header) {
		kfree(table);
		return -ENOMEM;
	}
	return 0;
}

/* --- Counters ----------------------------------------------------------------------------- */

static const char *const swift_counter_names[] = {
#define SWIFT_X(name) #name,
	SWIFT_COUNTERS(SWIFT_X)
#undef SWIFT_X
};

static int swift_proc_show(struct seq_file *seq, void *v)
{
	const struct swift_net *sn = swift_net(seq_file_single_net(seq));
	unsigned long sum;
	unsigned int i;
	int cpu;

	for (i = 0; i < SWIFT_C_MAX; i++) {
		sum = 0; /* a gauge may be negative on one CPU: the sum wraps to the truth */
		for_each_possible_cpu(cpu)
			sum += READ_ONCE(per_cpu_ptr(sn->counters, cpu)->v[i]);
		seq_printf(seq, "%s %lu\n", swift_counter_names[i], sum);
	}
	return 0;
}

/* --- Lifetime -------------------------------------------------------------------------------- */

static int __net_init swift_net_init(struct net *net)
{
	struct swift_net *sn = swift_net(net);
	struct swift_tunables defaults;
	int err;

	sn->net = net;
	mutex_init(&sn->lock);
	xa_init(&sn->links);
	sird_tunables_default(&sn->sird);
	sn->max_rtt_ns = 5 * NSEC_PER_MSEC;
	sn->dscp = -1;
	sn->rto_min_us = 10 * USEC_PER_MSEC;

	sn->counters = alloc_percpu(struct swift_counters);
	if (!sn->counters)
		return -ENOMEM;

	swift_tunables_default(&defaults);
	mutex_lock(&sn->lock);
	err = swift_net_set_tunables(sn, &defaults);
	mutex_unlock(&sn->lock);
	if (err)
		goto out_counters;

	err = swift_net_add_sysctls(net, sn);
	if (err)
		goto out_params;

	err = -ENOMEM;
	if (!proc_create_net_single("tcp_swift", 0444, net->proc_net, swift_proc_show, NULL))
		goto out_sysctls;
	return 0;

out_sysctls:
	unregister_net_sysctl_table(sn->sysctl_header);
	kfree(sn->sysctls);
out_params:
	kfree(rcu_dereference_protected(sn->params, true));
out_counters:
	free_percpu(sn->counters);
	return err;
}

/* No new packet comes; those under way still look. A grace period follows. */
static void __net_exit swift_net_pre_exit(struct net *net)
{
	struct swift_net *sn = swift_net(net);

	unregister_net_sysctl_table(sn->sysctl_header);
	remove_proc_entry("tcp_swift", net->proc_net);
	if (sn->echo || sn->credit)
		swift_hooks_disable(net);
}

static void __net_exit swift_net_exit(struct net *net)
{
	struct swift_net *sn = swift_net(net);

	swift_offers_free(sn);
	swift_links_forget(sn);
	kfree(sn->sysctls);
	kfree(rcu_dereference_protected(sn->params, true));
	free_percpu(sn->counters);
}

static struct pernet_operations swift_net_ops = {
	.init = swift_net_init,
	.pre_exit = swift_net_pre_exit,
	.exit = swift_net_exit,
	.id = &swift_net_id,
	.size = sizeof(struct swift_net),
};

int swift_netns_register(void)
{
	return register_pernet_subsys(&swift_net_ops);
}

void swift_netns_unregister(void)
{
	unregister_pernet_subsys(&swift_net_ops);
}
