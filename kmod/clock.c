// SPDX-License-Identifier: GPL-2.0
/*
 * The clocks of NICs: lines that user space gives over generic netlink (family and layout in
 * uapi/tcp_swift.h, arithmetic in core/clock.h), and the age of a received packet by
 * the line of the NIC that stamped it.
 *
 *   CLOCK_SET --> struct swift_clock of a device --> line, replaced whole
 *                  ^            ^
 *        found by (netns, ifindex) and by the NAPI ids of the device
 *                  |            |
 *                skb_iif    skb_napi_id: survives VLAN, bonding and bridges
 *
 * A device is held by no reference: it takes its clock along when it is unregistered or
 * moves to another namespace (to a notifier that is the same). Writers take the mutex,
 * packets RCU. A clock is found under the mutex only before that notifier took it, and
 * made only for a device that is listed still, that is, before the notifier runs: so
 * none is left behind, and clock->dev is alive under the mutex and under RCU.
 *
 * The kernel's own way from a NAPI id to its device, dev_get_by_napi_id(), is closed to
 * modules since 6.14. Each CLOCK_SET looks through its device's NAPIs instead; of a NAPI
 * that came later (channels changed, device down and up) packets are known by skb_iif or
 * not at all, until the next.
 */
#include <linux/hashtable.h>
#include <linux/mutex.h>
#include <linux/netdevice.h>
#include <linux/notifier.h>
#include <linux/rculist.h>
#include <linux/slab.h>
#include <net/genetlink.h>

#include "compat/compat.h"
#include "swift_credit.h"

struct swift_clock_counters {
	unsigned long used, stale, future, old;
};

struct swift_clock_line {
	struct swift_clock_map map;
	struct rcu_head rcu;
};

struct swift_clock {
	struct hlist_node node; /* in swift_clocks */
	struct net_device *dev;
	struct swift_clock_line __rcu *line;
	struct swift_clock_counters __percpu *counters;
	struct list_head napis;
	u32 owner; /* netlink port in the device's namespace; 0 = gone */
	u32 sets; /* for the NAPIs: seen in this one, or no more there */
	struct rcu_head rcu;
};

struct swift_clock_napi {
	struct hlist_node node; /* in swift_clock_napis */
	struct list_head siblings;
	struct swift_clock *clock;
	unsigned int id;
	u32 seen;
	struct rcu_head rcu;
};

static DEFINE_MUTEX(swift_clock_lock); /* taken under RTNL; RTNL is never taken under it */
static DEFINE_HASHTABLE(swift_clocks, 6); /* by ifindex */
static DEFINE_HASHTABLE(swift_clock_napis, 10); /* by NAPI id */

/* --- Packets ------------------------------------------------------------------------------ */

static struct swift_clock *swift_clock_by_napi(unsigned int id)
{
	struct swift_clock_napi *napi;

	hash_for_each_possible_rcu(swift_clock_napis, napi, node, id,
				   lockdep_is_held(&swift_clock_lock))
		if (napi->id == id)
			return napi->clock;
	return NULL;
}

static struct swift_clock *swift_clock_by_index(const struct net *net, int ifindex)
{
	struct swift_clock *clock;

	hash_for_each_possible_rcu(swift_clocks, clock, node, ifindex,
				   lockdep_is_held(&swift_clock_lock))
		if (clock->dev->ifindex == ifindex && net_eq(dev_net(clock->dev), net))
			return clock;
	return NULL;
}

/*
 * The age of a packet that has a hardware stamp. SKBTX_HW_TSTAMP_NETDEV says that it is
 * not the time yet, but a pointer that its driver understands: so the NAPI has to tell
 * for certain which one that is. Asked for the PHC's time, not for "cycles": the clock
 * that user space read. (With virtual clocks on top of a PHC drivers without cycles stamp
 * in the PHC's time all the same, which then runs free: its line is to be set, not a
 * virtual clock's.) Under rcu_read_lock().
 */
enum swift_clock_result swift_clock_rx(const struct net *net, const struct sk_buff *skb,
				       u64 now_ns, const struct swift_clock_bounds *bounds,
				       u32 *age_ns)
{
	bool of_driver = skb_shinfo(skb)->tx_flags & SKBTX_HW_TSTAMP_NETDEV;
	struct swift_clock *clock = swift_clock_by_napi(skb_napi_id(skb));
	ktime_t stamp = skb_shinfo(skb)->hwtstamps.hwtstamp;
	const struct swift_clock_line *line;
	enum swift_clock_result result;

	if (of_driver) {
		if (!clock || !clock->dev->netdev_ops->ndo_get_tstamp)
			return SWIFT_CLOCK_NONE;
		stamp = netdev_get_tstamp(clock->dev, &skb_shinfo(skb)->hwtstamps, false);
		if (!stamp)
			return SWIFT_CLOCK_NONE;
	} else if (!clock) {
		clock = swift_clock_by_index(net, skb->skb_iif);
		if (!clock)
			return SWIFT_CLOCK_NONE;
	}

	line = rcu_dereference(clock->line);
	result = swift_clock_age(&line->map, ktime_to_ns(stamp), now_ns, bounds, age_ns);
	switch (result) {
	case SWIFT_CLOCK_OK:
		this_cpu_inc(clock->counters->used);
		break;
	case SWIFT_CLOCK_STALE:
		this_cpu_inc(clock->counters->stale);
		break;
	case SWIFT_CLOCK_FUTURE:
		this_cpu_inc(clock->counters->future);
		break;
	case SWIFT_CLOCK_OLD:
		this_cpu_inc(clock->counters->old);
		break;
	case SWIFT_CLOCK_NONE:
		break;
	}
	return result;
}

/* --- The table, under the mutex ----------------------------------------------------------- */

static const struct swift_clock_map *swift_clock_map_of(const struct swift_clock *clock)
{
	return &rcu_dereference_protected(clock->line,
					  lockdep_is_held(&swift_clock_lock))->map;
}

/* A millisecond that has begun counts: 0 is said of stale lines alone. */
static u32 swift_clock_left_ms(const struct swift_clock_map *map, u64 now_ns)
{
	return div_u64(swift_clock_left_ns(map, now_ns) + NSEC_PER_MSEC - 1, NSEC_PER_MSEC);
}

static void swift_clock_free(struct rcu_head *rcu)
{
	struct swift_clock *clock = container_of(rcu, struct swift_clock, rcu);

	kfree(rcu_dereference_protected(clock->line, true));
	free_percpu(clock->counters);
	kfree(clock);
}

static void swift_clock_drop_napi(struct swift_clock_napi *napi)
{
	hash_del_rcu(&napi->node);
	list_del(&napi->siblings);
	kfree_rcu(napi, rcu);
}

static void swift_clock_drop(struct swift_clock *clock)
{
	struct swift_clock_napi *napi, *next;

	list_for_each_entry_safe(napi, next, &clock->napis, siblings)
		swift_clock_drop_napi(napi);
	hash_del_rcu(&clock->node);
	call_rcu(&clock->rcu, swift_clock_free);
}

static struct swift_clock_napi *swift_clock_napi_of(const struct swift_clock *clock,
						    unsigned int id)
{
	struct swift_clock_napi *napi;

	hash_for_each_possible(swift_clock_napis, napi, node, id)
		if (napi->id == id && napi->clock == clock)
			return napi;
	return NULL;
}

/* One that found no memory is found again by the next CLOCK_SET. */
static void swift_clock_find_napis(struct swift_clock *clock)
{
	struct swift_clock_napi *napi, *next;
	struct napi_struct *n;
	unsigned int id;

	clock->sets++;
	rcu_read_lock();
	list_for_each_entry_rcu(n, &clock->dev->napi_list, dev_list) {
		id = READ_ONCE(n->napi_id);
		if (!id)
			continue;
		napi = swift_clock_napi_of(clock, id);
		if (!napi) {
			napi = kmalloc(sizeof(*napi), GFP_ATOMIC | __GFP_NOWARN);
			if (!napi)
				continue;
			napi->clock = clock;
			napi->id = id;
			list_add(&napi->siblings, &clock->napis);
			hash_add_rcu(swift_clock_napis, &napi->node, id);
		}
		napi->seen = clock->sets;
	}
	rcu_read_unlock();

	list_for_each_entry_safe(napi, next, &clock->napis, siblings)
		if (napi->seen != clock->sets)
			swift_clock_drop_napi(napi);
}

/* With @line, which it consumes if it succeeds. */
static struct swift_clock *swift_clock_create(struct net *net, int ifindex,
					      struct swift_clock_line *line)
{
	struct swift_clock *clock = kzalloc(sizeof(*clock), GFP_KERNEL_ACCOUNT);
	struct net_device *dev;

	if (!clock)
		return ERR_PTR(-ENOMEM);
	clock->counters = alloc_percpu_gfp(struct swift_clock_counters, GFP_KERNEL_ACCOUNT);
	if (!clock->counters) {
		kfree(clock);
		return ERR_PTR(-ENOMEM);
	}
	INIT_LIST_HEAD(&clock->napis);

	rcu_read_lock();
	dev = dev_get_by_index_rcu(net, ifindex);
	if (dev) {
		clock->dev = dev;
		RCU_INIT_POINTER(clock->line, line);
		hash_add_rcu(swift_clocks, &clock->node, ifindex);
	}
	rcu_read_unlock();
	if (!dev) {
		free_percpu(clock->counters);
		kfree(clock);
		return ERR_PTR(-ENODEV);
	}
	return clock;
}

/* --- Netlink -------------------------------------------------------------------------------- */

/* Ranges are checked against the core's, which says in words what is allowed. */
static const struct nla_policy swift_clock_set_policy[TCP_SWIFT_A_VALID_MS + 1] = {
	[TCP_SWIFT_A_IFINDEX] = { .type = NLA_U32 },
	[TCP_SWIFT_A_NIC_NS] = { .type = NLA_U64 },
	[TCP_SWIFT_A_HOST_NS] = { .type = NLA_U64 },
	[TCP_SWIFT_A_RATIO_Q32] = { .type = NLA_U64 },
	[TCP_SWIFT_A_ERROR_NS] = { .type = NLA_U32 },
	[TCP_SWIFT_A_VALID_MS] = { .type = NLA_U32 },
};

static const struct nla_policy swift_clock_index_policy[TCP_SWIFT_A_IFINDEX + 1] = {
	[TCP_SWIFT_A_IFINDEX] = { .type = NLA_U32 },
};

#define SWIFT_CLOCK_REQUIRE(info, name)                                                     \
	({                                                                                  \
		bool missing = GENL_REQ_ATTR_CHECK(info, TCP_SWIFT_A_##name);               \
											    \
		if (missing)                                                                \
			GENL_SET_ERR_MSG(info, #name " is missing");                        \
		missing;                                                                    \
	})

static void swift_clock_refuse(struct genl_info *info, enum swift_clock_field field,
			       const struct swift_clock_setting *setting)
{
#define SWIFT_X(member, name, lo, hi, words)                                                \
	if (field == SWIFT_CLOCK_F_##name)                                                  \
		SWIFT_NL_REFUSE(info->extack, info->attrs[TCP_SWIFT_A_##name],              \
				#name ": allowed: " words, #name " is %llu, allowed: %s",   \
				(unsigned long long)setting->member, words);
	SWIFT_CLOCK_FIELDS(SWIFT_X)
#undef SWIFT_X
}

/* While the line of a sender who is there is valid, it is nobody else's. */
static int swift_clock_claim(const struct swift_clock *clock, struct genl_info *info, u64 now_ns)
{
	const struct swift_clock_map *map = swift_clock_map_of(clock);

	if (!clock->owner || clock->owner == info->snd_portid || !swift_clock_left_ns(map, now_ns))
		return 0;
	SWIFT_NL_REFUSE(info->extack, info->attrs[TCP_SWIFT_A_IFINDEX],
			"the line of another sender is valid still",
			"the line of netlink port %u is valid for %u ms more", clock->owner,
			swift_clock_left_ms(map, now_ns));
	return -EBUSY;
}

static int swift_clock_no_device(struct genl_info *info, u32 ifindex)
{
	SWIFT_NL_REFUSE(info->extack, info->attrs[TCP_SWIFT_A_IFINDEX],
			"no device of this namespace has this IFINDEX",
			"no device of this namespace has the IFINDEX %u", ifindex);
	return -ENODEV;
}

static int swift_clock_no_line(struct genl_info *info, u32 ifindex)
{
	SWIFT_NL_REFUSE(info->extack, info->attrs[TCP_SWIFT_A_IFINDEX],
			"no clock is set for this IFINDEX",
			"no clock is set for the IFINDEX %u", ifindex);
	return -ENOENT;
}

static int swift_clock_set(struct sk_buff *skb, struct genl_info *info)
{
	struct net *net = genl_info_net(info);
	struct swift_clock_setting setting;
	struct swift_clock_line *line, *old;
	struct nlattr **attrs = info->attrs;
	enum swift_clock_field field;
	struct swift_clock *clock;
	u32 ifindex;
	u64 now_ns;
	int err = 0;

	if (SWIFT_CLOCK_REQUIRE(info, IFINDEX) || SWIFT_CLOCK_REQUIRE(info, NIC_NS) ||
	    SWIFT_CLOCK_REQUIRE(info, HOST_NS) || SWIFT_CLOCK_REQUIRE(info, RATIO_Q32) ||
	    SWIFT_CLOCK_REQUIRE(info, ERROR_NS) || SWIFT_CLOCK_REQUIRE(info, VALID_MS))
		return -EINVAL;
	ifindex = nla_get_u32(attrs[TCP_SWIFT_A_IFINDEX]);
	setting.nic_ns = nla_get_u64(attrs[TCP_SWIFT_A_NIC_NS]);
	setting.host_ns = nla_get_u64(attrs[TCP_SWIFT_A_HOST_NS]);
	setting.ratio_q32 = nla_get_u64(attrs[TCP_SWIFT_A_RATIO_Q32]);
	setting.error_ns = nla_get_u32(attrs[TCP_SWIFT_A_ERROR_NS]);
	setting.valid_ms = nla_get_u32(attrs[TCP_SWIFT_A_VALID_MS]);

	line = kmalloc(sizeof(*line), GFP_KERNEL_ACCOUNT);
	if (!line)
		return -ENOMEM;

	mutex_lock(&swift_clock_lock);
	now_ns = ktime_get_ns();
	field = swift_clock_prepare(&line->map, &setting, now_ns);
	if (field != SWIFT_CLOCK_F_NONE) {
		swift_clock_refuse(info, field, &setting);
		err = -ERANGE;
		goto out_unlock;
	}

	clock = swift_clock_by_index(net, ifindex);
	if (clock) {
		err = swift_clock_claim(clock, info, now_ns);
		if (err)
			goto out_unlock;
		old = rcu_replace_pointer(clock->line, line, lockdep_is_held(&swift_clock_lock));
		kfree_rcu(old, rcu);
	} else {
		clock = swift_clock_create(net, ifindex, line);
		if (IS_ERR(clock)) {
			err = PTR_ERR(clock);
			if (err == -ENODEV)
				swift_clock_no_device(info, ifindex);
			goto out_unlock;
		}
	}
	clock->owner = info->snd_portid;
	swift_clock_find_napis(clock);
	line = NULL; /* the clock's now */
out_unlock:
	mutex_unlock(&swift_clock_lock);
	kfree(line);
	return err;
}

static int swift_clock_del(struct sk_buff *skb, struct genl_info *info)
{
	struct swift_clock *clock;
	u32 ifindex;
	int err;

	if (SWIFT_CLOCK_REQUIRE(info, IFINDEX))
		return -EINVAL;
	ifindex = nla_get_u32(info->attrs[TCP_SWIFT_A_IFINDEX]);

	mutex_lock(&swift_clock_lock);
	clock = swift_clock_by_index(genl_info_net(info), ifindex);
	if (!clock)
		err = swift_clock_no_line(info, ifindex);
	else
		err = swift_clock_claim(clock, info, ktime_get_ns());
	if (!err)
		swift_clock_drop(clock);
	mutex_unlock(&swift_clock_lock);
	return err;
}

static int swift_clock_fill(struct sk_buff *skb, const struct swift_clock *clock, u32 portid,
			    u32 seq, int flags)
{
	const struct swift_clock_map *map = swift_clock_map_of(clock);
	u64 now_ns = ktime_get_ns(), used = 0, stale = 0, future = 0, old = 0;
	const struct swift_clock_counters *counters;
	void *header;
	int cpu;

	header = genlmsg_put(skb, portid, seq, &swift_genl_family, flags,
			     TCP_SWIFT_CMD_CLOCK_GET);
	if (!header)
		return -EMSGSIZE;

	for_each_possible_cpu(cpu) {
		counters = per_cpu_ptr(clock->counters, cpu);
		used += READ_ONCE(counters->used);
		stale += READ_ONCE(counters->stale);
		future += READ_ONCE(counters->future);
		old += READ_ONCE(counters->old);
	}
	if (nla_put_u32(skb, TCP_SWIFT_A_IFINDEX, clock->dev->ifindex) ||
	    nla_put_u64_64bit(skb, TCP_SWIFT_A_NIC_NS, map->nic_ns, TCP_SWIFT_A_PAD) ||
	    nla_put_u64_64bit(skb, TCP_SWIFT_A_HOST_NS, map->host_ns, TCP_SWIFT_A_PAD) ||
	    nla_put_u64_64bit(skb, TCP_SWIFT_A_RATIO_Q32, map->ratio_q32, TCP_SWIFT_A_PAD) ||
	    nla_put_u32(skb, TCP_SWIFT_A_ERROR_NS, map->error_ns) ||
	    nla_put_u32(skb, TCP_SWIFT_A_VALID_MS, swift_clock_left_ms(map, now_ns)) ||
	    nla_put_u32(skb, TCP_SWIFT_A_OWNER, clock->owner) ||
	    nla_put_u64_64bit(skb, TCP_SWIFT_A_USED, used, TCP_SWIFT_A_PAD) ||
	    nla_put_u64_64bit(skb, TCP_SWIFT_A_STALE, stale, TCP_SWIFT_A_PAD) ||
	    nla_put_u64_64bit(skb, TCP_SWIFT_A_FUTURE, future, TCP_SWIFT_A_PAD) ||
	    nla_put_u64_64bit(skb, TCP_SWIFT_A_OLD, old, TCP_SWIFT_A_PAD)) {
		genlmsg_cancel(skb, header);
		return -EMSGSIZE;
	}
	genlmsg_end(skb, header);
	return 0;
}

static int swift_clock_get(struct sk_buff *skb, struct genl_info *info)
{
	const struct swift_clock *clock;
	struct sk_buff *reply;
	u32 ifindex;
	int err;

	if (SWIFT_CLOCK_REQUIRE(info, IFINDEX))
		return -EINVAL;
	ifindex = nla_get_u32(info->attrs[TCP_SWIFT_A_IFINDEX]);
	reply = genlmsg_new(GENLMSG_DEFAULT_SIZE, GFP_KERNEL);
	if (!reply)
		return -ENOMEM;

	mutex_lock(&swift_clock_lock);
	clock = swift_clock_by_index(genl_info_net(info), ifindex);
	err = clock ? swift_clock_fill(reply, clock, info->snd_portid, info->snd_seq, 0) :
		      swift_clock_no_line(info, ifindex);
	mutex_unlock(&swift_clock_lock);
	if (err) {
		nlmsg_free(reply);
		return err;
	}
	return genlmsg_reply(reply, info);
}

static int swift_clock_dump_start(struct netlink_callback *cb)
{
	if (!nlmsg_find_attr(cb->nlh, GENL_HDRLEN, TCP_SWIFT_A_IFINDEX))
		return 0;
	NL_SET_ERR_MSG(cb->extack, "a dump is of all devices: IFINDEX is not allowed");
	return -EINVAL;
}

/* In the order of ifindex, of which args[0] is the last one sent: nothing twice or missed. */
static int swift_clock_dump(struct sk_buff *skb, struct netlink_callback *cb)
{
	const struct swift_clock *clock, *next;
	int bucket, err = 0;

	mutex_lock(&swift_clock_lock);
	for (;;) {
		next = NULL;
		hash_for_each(swift_clocks, bucket, clock, node)
			if (net_eq(dev_net(clock->dev), sock_net(skb->sk)) &&
			    clock->dev->ifindex > cb->args[0] &&
			    (!next || clock->dev->ifindex < next->dev->ifindex))
				next = clock;
		if (!next)
			break;
		err = swift_clock_fill(skb, next, NETLINK_CB(cb->skb).portid, cb->nlh->nlmsg_seq,
				       NLM_F_MULTI);
		if (err)
			break;
		cb->args[0] = next->dev->ifindex;
	}
	mutex_unlock(&swift_clock_lock);
	return skb->len ? skb->len : err;
}

static const struct genl_ops swift_genl_ops[] = {
	{
		.cmd = TCP_SWIFT_CMD_CLOCK_SET,
		.flags = GENL_UNS_ADMIN_PERM,
		.policy = swift_clock_set_policy,
		.maxattr = ARRAY_SIZE(swift_clock_set_policy) - 1,
		.doit = swift_clock_set,
	},
	{
		.cmd = TCP_SWIFT_CMD_CLOCK_DEL,
		.flags = GENL_UNS_ADMIN_PERM,
		.policy = swift_clock_index_policy,
		.maxattr = ARRAY_SIZE(swift_clock_index_policy) - 1,
		.doit = swift_clock_del,
	},
	{
		.cmd = TCP_SWIFT_CMD_CLOCK_GET,
		.policy = swift_clock_index_policy,
		.maxattr = ARRAY_SIZE(swift_clock_index_policy) - 1,
		.doit = swift_clock_get,
		.start = swift_clock_dump_start,
		.dumpit = swift_clock_dump,
	},
	{
		.cmd = TCP_SWIFT_CMD_CREDIT_GET,
		.start = swift_book_start,
		.dumpit = swift_book_dump,
		.done = swift_book_done,
	},
};

struct genl_family swift_genl_family __ro_after_init = {
	.name = TCP_SWIFT_GENL_NAME,
	.version = TCP_SWIFT_GENL_VERSION,
	.maxattr = __TCP_SWIFT_A_MAX - 1,
	.netnsok = true,
	.parallel_ops = true, /* the mutex is enough */
	.module = THIS_MODULE,
	.ops = swift_genl_ops,
	.n_ops = ARRAY_SIZE(swift_genl_ops),
};

/* --- Senders and devices that go -------------------------------------------------------------- */

static int swift_clock_on_netlink(struct notifier_block *nb, unsigned long event, void *data)
{
	const struct netlink_notify *sender = data;
	struct swift_clock *clock;
	int bucket;

	if (event != NETLINK_URELEASE || sender->protocol != NETLINK_GENERIC)
		return NOTIFY_DONE;
	mutex_lock(&swift_clock_lock);
	hash_for_each(swift_clocks, bucket, clock, node)
		if (clock->owner == sender->portid && net_eq(dev_net(clock->dev), sender->net))
			clock->owner = 0;
	mutex_unlock(&swift_clock_lock);
	return NOTIFY_DONE;
}

static int swift_clock_on_netdev(struct notifier_block *nb, unsigned long event, void *data)
{
	const struct net_device *dev = netdev_notifier_info_to_dev(data);
	struct swift_clock *clock;

	if (event != NETDEV_UNREGISTER)
		return NOTIFY_DONE;
	mutex_lock(&swift_clock_lock);
	clock = swift_clock_by_index(dev_net(dev), dev->ifindex);
	if (clock)
		swift_clock_drop(clock);
	mutex_unlock(&swift_clock_lock);
	return NOTIFY_DONE;
}

static struct notifier_block swift_clock_netlink_nb = { .notifier_call = swift_clock_on_netlink };
static struct notifier_block swift_clock_netdev_nb = { .notifier_call = swift_clock_on_netdev };

int swift_clock_register(void)
{
	int err;

	err = register_netdevice_notifier(&swift_clock_netdev_nb);
	if (err)
		return err;
	err = netlink_register_notifier(&swift_clock_netlink_nb);
	if (err)
		goto out_netdev;
	err = genl_register_family(&swift_genl_family);
	if (err)
		goto out_netlink;
	return 0;

out_netlink:
	netlink_unregister_notifier(&swift_clock_netlink_nb);
out_netdev:
	unregister_netdevice_notifier(&swift_clock_netdev_nb);
	return err;
}

void swift_clock_unregister(void)
{
	genl_unregister_family(&swift_genl_family);
	netlink_unregister_notifier(&swift_clock_netlink_nb);
	/* Tells the notifier once more that each device goes: that empties the table. */
	unregister_netdevice_notifier(&swift_clock_netdev_nb);
	WARN_ON(!hash_empty(swift_clocks) || !hash_empty(swift_clock_napis));
	rcu_barrier(); /* swift_clock_free() */
}
