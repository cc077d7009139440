// SPDX-License-Identifier: GPL-2.0
/*
 * For tests: gives devices that have none (veth) the receive stamps of a NIC, in the time
 * of a clock of its own, which runs as the parameters say; and lets packets that were sent
 * wait for their completion:
 *
 *	nic_ns = offset_ns + CLOCK_MONOTONIC * (1 + ppm / 10^6)
 *
 *   echo NAME > .../attach  stamp what arrives at the device, of the writer's namespace
 *   echo > .../attach       no more of it, at any
 *   early_ns                the stamp is of that long ago
 *   form                    0: no stamps; 1: the time; 2: what the driver alone understands
 *   hold_us                 what the device sends it lets go of (frees) that much later only, as
 *                           a driver does of what waits in its NIC's queue; 0: as it is
 */
#include <linux/hrtimer.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/netfilter_netdev.h>
#include <linux/nsproxy.h>
#include <linux/rtnetlink.h>

static long offset_ns;
module_param(offset_ns, long, 0644);
static int ppm;
module_param(ppm, int, 0644);
static int early_ns;
module_param(early_ns, int, 0644);
static int form = 1;
module_param(form, int, 0644);
static int hold_us;
module_param(hold_us, int, 0644);

struct stamped {
	struct nf_hook_ops hook; /* .dev: NULL = free */
	const struct net_device_ops *old_ops;
	struct net_device_ops ops;
};

static struct stamped stamped[8];

static unsigned int stamp(void *priv, struct sk_buff *skb, const struct nf_hook_state *state)
{
	struct skb_shared_info *info = skb_shinfo(skb);
	s64 mono = ktime_get_ns() - READ_ONCE(early_ns);
	s64 nic = READ_ONCE(offset_ns) + mono + div_s64(div_s64(mono, 1000) * READ_ONCE(ppm), 1000);

	info->hwtstamps.hwtstamp = 0;
	info->tx_flags &= ~SKBTX_HW_TSTAMP_NETDEV;
	if (READ_ONCE(form) == 1) {
		info->hwtstamps.hwtstamp = nic;
	} else if (READ_ONCE(form) == 2) {
		info->hwtstamps.netdev_data = (void *)~nic;
		info->tx_flags |= SKBTX_HW_TSTAMP_NETDEV;
	}
	return NF_ACCEPT;
}

/* "Cycles" are another clock than the PHC: one that nobody should ask for. */
static ktime_t get_tstamp(struct net_device *dev, const struct skb_shared_hwtstamps *stamps,
			  bool cycles)
{
	return cycles ? 1 : ~(s64)stamps->netdev_data;
}

/* --- What is sent -------------------------------------------------------------------- */

static struct sk_buff_head held; /* the next to go first, if hold_us stays as it is */
static struct hrtimer let_go;

static u64 *due_ns(struct sk_buff *skb)
{
	return (u64 *)skb->cb; /* the driver's, by now */
}

static void start_let_go(const struct sk_buff *skb, u64 now_ns)
{
	u64 due = *due_ns((struct sk_buff *)skb);

	hrtimer_start(&let_go, ns_to_ktime(due > now_ns ? due - now_ns : 0), HRTIMER_MODE_REL_SOFT);
}

static enum hrtimer_restart on_let_go(struct hrtimer *timer)
{
	u64 now_ns = ktime_get_ns();
	struct sk_buff_head due;
	struct sk_buff *skb;
	unsigned long flags;

	__skb_queue_head_init(&due);
	spin_lock_irqsave(&held.lock, flags);
	while ((skb = skb_peek(&held)) && *due_ns(skb) <= now_ns) {
		__skb_unlink(skb, &held);
		__skb_queue_tail(&due, skb);
	}
	if (skb)
		start_let_go(skb, now_ns);
	spin_unlock_irqrestore(&held.lock, flags);
	while ((skb = __skb_dequeue(&due)))
		dev_consume_skb_any(skb);
	return HRTIMER_NORESTART;
}

/* What goes over the wire is a copy. */
static netdev_tx_t start_xmit(struct sk_buff *skb, struct net_device *dev)
{
	const struct stamped *s = stamped;
	u32 hold = READ_ONCE(hold_us);
	struct sk_buff *copy = hold ? skb_clone(skb, GFP_ATOMIC) : NULL;
	unsigned long flags;
	netdev_tx_t sent;

	while (s->hook.dev != dev) /* it is there, until detach() has waited for this */
		s++;
	sent = s->old_ops->ndo_start_xmit(copy ?: skb, dev);
	if (!copy)
		return sent;
	if (!dev_xmit_complete(sent)) {
		kfree_skb(copy);
		return sent;
	}
	*due_ns(skb) = ktime_get_ns() + hold * (u64)NSEC_PER_USEC;
	spin_lock_irqsave(&held.lock, flags);
	__skb_queue_tail(&held, skb);
	if (skb_queue_len(&held) == 1)
		start_let_go(skb, ktime_get_ns());
	spin_unlock_irqrestore(&held.lock, flags);
	return sent;
}

/* --- Devices --------------------------------------------------------------------------- */

static void detach(struct stamped *s)
{
	nf_unregister_net_hook(dev_net(s->hook.dev), &s->hook);
	s->hook.dev->netdev_ops = s->old_ops;
	synchronize_net();
	s->hook.dev = NULL;
}

static void detach_all(void)
{
	struct stamped *s;

	for (s = stamped; s < stamped + ARRAY_SIZE(stamped); s++)
		if (s->hook.dev)
			detach(s);
}

static int attach(const char *name)
{
	struct net *net = current->nsproxy->net_ns;
	struct net_device *dev = __dev_get_by_name(net, name);
	struct stamped *s = stamped;
	int err;

	while (s->hook.dev)
		if (++s == stamped + ARRAY_SIZE(stamped))
			return -ENOSPC;
	if (!dev)
		return -ENODEV;
	s->hook = (struct nf_hook_ops){ .hook = stamp, .dev = dev, .pf = NFPROTO_NETDEV,
					.hooknum = NF_NETDEV_INGRESS };
	err = nf_register_net_hook(net, &s->hook);
	if (err) {
		s->hook.dev = NULL;
		return err;
	}
	s->old_ops = dev->netdev_ops;
	s->ops = *dev->netdev_ops;
	s->ops.ndo_get_tstamp = get_tstamp;
	s->ops.ndo_start_xmit = start_xmit;
	dev->netdev_ops = &s->ops;
	return 0;
}

static int attach_set(const char *text, const struct kernel_param *param)
{
	char name[IFNAMSIZ + 1];
	int err = 0;

	strscpy(name, text, sizeof(name));
	rtnl_lock();
	if (*strim(name))
		err = attach(strim(name));
	else
		detach_all();
	rtnl_unlock();
	return err;
}

static const struct kernel_param_ops attach_ops = { .set = attach_set };
module_param_cb(attach, &attach_ops, NULL, 0200);

static int on_netdev(struct notifier_block *nb, unsigned long event, void *data)
{
	struct stamped *s;

	for (s = stamped; s < stamped + ARRAY_SIZE(stamped); s++)
		if (event == NETDEV_UNREGISTER &&
		    s->hook.dev == netdev_notifier_info_to_dev(data))
			detach(s);
	return NOTIFY_DONE;
}

static struct notifier_block netdev_nb = { .notifier_call = on_netdev };

static int __init stampnic_init(void)
{
	skb_queue_head_init(&held);
#ifdef HAVE_HRTIMER_SETUP
	hrtimer_setup(&let_go, on_let_go, CLOCK_MONOTONIC, HRTIMER_MODE_REL_SOFT);
#else
	hrtimer_init(&let_go, CLOCK_MONOTONIC, HRTIMER_MODE_REL_SOFT);
	let_go.function = on_let_go;
#endif
	return register_netdevice_notifier(&netdev_nb);
}

static void __exit stampnic_exit(void)
{
	unregister_netdevice_notifier(&netdev_nb); /* detaches all */
	hrtimer_cancel(&let_go);
	skb_queue_purge(&held);
}

module_init(stampnic_init);
module_exit(stampnic_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Receive stamps and a transmit queue for devices that have none, for tests");
