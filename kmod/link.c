// SPDX-License-Identifier: GPL-2.0
/*
 * The link of each device, and its rate as the driver tells it: of all that a full packet takes
 * longer than a small one, what this host can know (swift_on_handshake), and what SIRD lends.
 *
 * Drivers are asked under RTNL, in process context, whenever a device or its carrier comes
 * up, or another device on top of it; flows read what was stored.
 */
#include <linux/ethtool.h>
#include <linux/netdevice.h>
#include <linux/rtnetlink.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include "swift_credit.h"

static atomic_t swift_links = ATOMIC_INIT(0);

void swift_link_get(struct swift_link *link)
{
	refcount_inc(&link->refs);
}

/* In softirq, too. What still runs of the link's own holds a reference. */
void swift_link_put(struct swift_link *link)
{
	if (!refcount_dec_and_test(&link->refs))
		return;
	WARN_ON_ONCE(link->lent_bytes || link->held);
	kfree_rcu(link, rcu);
	atomic_dec(&swift_links);
}

/* --- Devices ---------------------------------------------------------------------------- */

static int swift_link_is_hardware(struct net_device *dev, struct netdev_nested_priv *priv)
{
	return !dev->rtnl_link_ops;
}

/*
 * A device that is software all the way down (veth, tun) names a rate that is nobody's;
 * one that stands on hardware (bond, VLAN) passes its rate on.
 */
static bool swift_link_is_real(struct net_device *dev)
{
	struct netdev_nested_priv priv = {};

	return swift_link_is_hardware(dev, &priv) ||
	       netdev_walk_all_lower_dev(dev, swift_link_is_hardware, &priv);
}

/* Whose link is it? What stands on one device alone (VLAN, macvlan) has that one's. */
static struct net_device *swift_link_base(struct net_device *dev)
{
	struct net_device *lower, *second;
	struct list_head *iter;

	for (;;) {
		iter = dev->adj_list.lower.next;
		lower = netdev_lower_get_next(dev, &iter);
		if (!lower)
			return dev;
		second = netdev_lower_get_next(dev, &iter);
		if (second || netif_is_lag_master(dev))
			return dev;
		dev = lower;
	}
}

/* As its driver tells it; otherwise as the operator does. */
static u32 swift_link_rate(const struct swift_net *sn, struct net_device *dev)
{
	struct ethtool_link_ksettings link;

	if (dev->flags & IFF_LOOPBACK)
		return 0;
	if (!swift_link_is_real(dev) || !netif_running(dev) ||
	    __ethtool_get_link_ksettings(dev, &link) ||
	    !link.base.speed || link.base.speed > INT_MAX)
		return READ_ONCE(sn->link_mbps);
	return link.base.speed;
}

static void swift_link_forget(struct swift_net *sn, int ifindex)
{
	struct swift_link *link = xa_erase(&sn->links, ifindex);

	if (link)
		swift_link_put(link);
}

/* Takes over the caller's reference. */
static void swift_link_store(struct swift_net *sn, int ifindex, struct swift_link *link)
{
	struct swift_link *old = xa_store(&sn->links, ifindex, link, GFP_KERNEL);

	if (xa_is_err(old))
		swift_link_put(link);
	else if (old)
		swift_link_put(old);
}

/* In the caller's hands twice: for the table, and for himself. */
static struct swift_link *swift_link_new(const struct swift_net *owner, int ifindex, u32 mbps)
{
	struct swift_link *link = kzalloc(sizeof(*link), GFP_KERNEL);

	if (!link)
		return NULL;
	refcount_set(&link->refs, 2);
	link->owner = owner;
	link->ifindex = ifindex;
	link->mbps = mbps;
	swift_link_init_book(link);
	swift_link_set(link, &owner->sird);
	atomic_inc(&swift_links);
	return link;
}

/*
 * Of a device on which others may stand; referenced, or NULL. What is found under its name may
 * be another's: of the one on which this one stood alone, before a second joined.
 */
static struct swift_link *swift_link_learn_base(struct net_device *dev)
{
	struct swift_net *sn = swift_net(dev_net(dev));
	struct swift_link *link = xa_load(&sn->links, dev->ifindex);
	u32 mbps = swift_link_rate(sn, dev);

	if (link && link->owner == sn && link->ifindex == dev->ifindex) {
		WRITE_ONCE(link->mbps, mbps); /* which may come back, with its carrier */
		swift_link_get(link);
		return link;
	}
	link = mbps ? swift_link_new(sn, dev->ifindex, mbps) : NULL;
	if (!link) {
		swift_link_forget(sn, dev->ifindex);
		return NULL;
	}
	swift_link_store(sn, dev->ifindex, link);
	swift_link_set(link, &sn->sird); /* once more, now that it is found */
	return link;
}

static void swift_link_learn(struct swift_net *sn, struct net_device *dev)
{
	struct net_device *base = swift_link_base(dev);
	struct swift_link *link = swift_link_learn_base(base);

	if (base == dev || !link) {
		if (link)
			swift_link_put(link);
		else if (base != dev)
			swift_link_forget(sn, dev->ifindex);
		return;
	}
	if (xa_load(&sn->links, dev->ifindex) == link)
		swift_link_put(link);
	else
		swift_link_store(sn, dev->ifindex, link);
}

static int swift_link_spoil(struct net_device *upper, struct netdev_nested_priv *priv)
{
	WRITE_ONCE(swift_net(dev_net(upper))->links_stale, true);
	return 0;
}

/* Where something has changed, and where others stand on that. */
static void swift_link_learn_stale(struct work_struct *work)
{
	struct netdev_nested_priv priv = {};
	struct net_device *dev;
	struct net *net;

	rtnl_lock();
	down_read(&net_rwsem);
	rcu_read_lock();
	for_each_net(net) {
		if (!READ_ONCE(swift_net(net)->links_stale))
			continue;
		for_each_netdev(net, dev)
			netdev_walk_all_upper_dev_rcu(dev, swift_link_spoil, &priv);
	}
	rcu_read_unlock();
	for_each_net(net) {
		if (!READ_ONCE(swift_net(net)->links_stale))
			continue;
		WRITE_ONCE(swift_net(net)->links_stale, false);
		for_each_netdev(net, dev)
			swift_link_learn(swift_net(net), dev);
	}
	up_read(&net_rwsem);
	rtnl_unlock();
}

static DECLARE_WORK(swift_link_work, swift_link_learn_stale);

static DEFINE_SPINLOCK(swift_link_lock);
static bool swift_link_stopped; /* the module goes; sysctls are there still */

void swift_links_learn(struct swift_net *sn)
{
	WRITE_ONCE(sn->links_stale, true);
	spin_lock_bh(&swift_link_lock);
	if (!swift_link_stopped)
		schedule_work(&swift_link_work);
	spin_unlock_bh(&swift_link_lock);
}

static int swift_link_event(struct notifier_block *nb, unsigned long event, void *info)
{
	struct net_device *dev = netdev_notifier_info_to_dev(info);

	if (event == NETDEV_UP || event == NETDEV_CHANGE || event == NETDEV_CHANGEUPPER)
		swift_links_learn(swift_net(dev_net(dev)));
	else if (event == NETDEV_UNREGISTER)
		swift_link_forget(swift_net(dev_net(dev)), dev->ifindex);
	return NOTIFY_DONE;
}

static struct notifier_block swift_link_notifier = {
	.notifier_call = swift_link_event,
};

/* The namespace's settings changed: of its own devices' links, whoever receives through them. */
void swift_links_set(struct swift_net *sn)
{
	struct swift_link *link;
	unsigned long ifindex;

	rcu_read_lock();
	xa_for_each(&sn->links, ifindex, link) {
		if (link->owner == sn)
			swift_link_set(link, &sn->sird);
	}
	rcu_read_unlock();
}

/* --- Flows ------------------------------------------------------------------------------- */

struct swift_link *swift_link_find(const struct net *net, int ifindex)
{
	return xa_load(&swift_net(net)->links, ifindex);
}

struct swift_link *swift_link_of_route(const struct sock *sk)
{
	const struct dst_entry *dst = rcu_dereference(sk->sk_dst_cache);

	return dst ? swift_link_find(sock_net(sk), READ_ONCE(dst->dev)->ifindex) : NULL;
}

/* Mb/s of the link that @sk sends to; 0 = unknown. */
u32 swift_link_mbps(const struct sock *sk)
{
	const struct swift_link *link;
	u32 mbps;

	rcu_read_lock();
	link = swift_link_of_route(sk);
	mbps = link ? READ_ONCE(link->mbps) : 0;
	rcu_read_unlock();
	return mbps;
}

/* The namespace goes. */
void swift_links_forget(struct swift_net *sn)
{
	struct swift_link *link;
	unsigned long ifindex;

	xa_for_each(&sn->links, ifindex, link)
		swift_link_forget(sn, ifindex);
	xa_destroy(&sn->links);
}

int swift_link_register(void)
{
	return register_netdevice_notifier(&swift_link_notifier);
}

void swift_link_unregister(void)
{
	unregister_netdevice_notifier(&swift_link_notifier);
	spin_lock_bh(&swift_link_lock);
	swift_link_stopped = true;
	spin_unlock_bh(&swift_link_lock);
	cancel_work_sync(&swift_link_work);
}

/* After the last socket and the last namespace: timers and tasklets that still look go. */
void swift_links_wait(void)
{
	while (atomic_read(&swift_links))
		schedule_timeout_uninterruptible(1);
	synchronize_rcu();
}
