// SPDX-License-Identifier: GPL-2.0
/*
 * The rate of each device's link, as its driver tells it: of all that a full packet takes
 * longer than a small one, what this host can know (swift_on_handshake).
 *
 * Drivers are asked under RTNL, in process context, whenever a device or its carrier comes
 * up; flows read what was stored.
 */
#include <linux/ethtool.h>
#include <linux/netdevice.h>
#include <linux/rtnetlink.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include "swift_sock.h"

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

static void swift_link_learn(struct swift_net *sn, struct net_device *dev)
{
	struct ethtool_link_ksettings link;

	if (swift_link_is_real(dev) && !__ethtool_get_link_ksettings(dev, &link) &&
	    link.base.speed && link.base.speed <= INT_MAX)
		xa_store(&sn->link_mbps, dev->ifindex, xa_mk_value(link.base.speed), GFP_KERNEL);
	else
		xa_erase(&sn->link_mbps, dev->ifindex);
}

static void swift_link_learn_all(struct work_struct *work)
{
	struct net_device *dev;
	struct net *net;

	rtnl_lock();
	down_read(&net_rwsem);
	for_each_net(net) {
		for_each_netdev(net, dev)
			swift_link_learn(swift_net(net), dev);
	}
	up_read(&net_rwsem);
	rtnl_unlock();
}

static DECLARE_WORK(swift_link_work, swift_link_learn_all);

static int swift_link_event(struct notifier_block *nb, unsigned long event, void *info)
{
	struct net_device *dev = netdev_notifier_info_to_dev(info);

	if (event == NETDEV_UP || event == NETDEV_CHANGE)
		schedule_work(&swift_link_work);
	else if (event == NETDEV_UNREGISTER)
		xa_erase(&swift_net(dev_net(dev))->link_mbps, dev->ifindex);
	return NOTIFY_DONE;
}

static struct notifier_block swift_link_notifier = {
	.notifier_call = swift_link_event,
};

/* Mb/s of the link that @sk sends to; 0 = unknown. */
u32 swift_link_mbps(const struct sock *sk)
{
	const struct dst_entry *dst;
	u32 mbps = 0;

	rcu_read_lock();
	dst = rcu_dereference(sk->sk_dst_cache);
	if (dst) {
		const void *entry = xa_load(&swift_net(sock_net(sk))->link_mbps,
					    READ_ONCE(dst->dev)->ifindex);

		if (entry)
			mbps = xa_to_value(entry);
	}
	rcu_read_unlock();
	return mbps;
}

int swift_link_register(void)
{
	return register_netdevice_notifier(&swift_link_notifier);
}

void swift_link_unregister(void)
{
	unregister_netdevice_notifier(&swift_link_notifier);
	cancel_work_sync(&swift_link_work);
}
