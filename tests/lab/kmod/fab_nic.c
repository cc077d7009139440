// SPDX-License-Identifier: GPL-2.0
/*
 * A host's NIC: a net_device whose TX queue empties at line rate (TSO cuts into frames
 * what the stack hands over, BQL bounds it) and whose RX ring is emptied by a host that
 * takes its time, if the experiment says so.
 */
#include <linux/etherdevice.h>
#include <linux/ethtool.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/rtnetlink.h>
#include <linux/tcp.h>
#include <net/busy_poll.h>
#include <net/gso.h>
#include <net/ip.h>
#include <net/ipv6.h>

#include "fab.h"

#define FAB_FEATURES (NETIF_F_SG | NETIF_F_HW_CSUM | NETIF_F_TSO | NETIF_F_TSO6 | \
		      NETIF_F_TSO_ECN | NETIF_F_HIGHDMA)

/* --- Transmission ------------------------------------------------------------------- */

/* What the fabric looks at and changes is there: a packet socket sends anything. */
static bool fab_has_header(struct sk_buff *skb)
{
	if (skb->protocol == htons(ETH_P_IP))
		return pskb_network_may_pull(skb, sizeof(struct iphdr));
	if (skb->protocol == htons(ETH_P_IPV6))
		return pskb_network_may_pull(skb, sizeof(struct ipv6hdr));
	return true;
}

/* Addresses, ports, IPv6's flow label (RFC 6438), as a switch takes them; 0 for what has none. */
static u32 fab_flow_hash(const struct sk_buff *skb)
{
	u32 addrs = 0, ports = 0;
	u8 proto = 0;

	if (skb->protocol == htons(ETH_P_IP)) {
		const struct iphdr *ip = ip_hdr(skb);

		addrs = jhash_2words((__force u32)ip->saddr, (__force u32)ip->daddr, 0);
		if (!ip_is_fragment(ip)) /* of which one alone has the ports */
			proto = ip->protocol;
	} else if (skb->protocol == htons(ETH_P_IPV6)) {
		addrs = jhash2((const u32 *)&ipv6_hdr(skb)->saddr, 8,
			       (__force u32)ip6_flowlabel(ipv6_hdr(skb)));
		proto = ipv6_hdr(skb)->nexthdr;
	}
	if ((proto == IPPROTO_TCP || proto == IPPROTO_UDP) &&
	    skb_transport_header_was_set(skb) &&
	    skb_transport_offset(skb) + sizeof(ports) <= skb_headlen(skb))
		memcpy(&ports, skb_transport_header(skb), sizeof(ports));
	return jhash_3words(addrs, ports, proto, 0);
}

static u8 fab_class(const struct sk_buff *skb)
{
	if (skb->protocol == htons(ETH_P_IP))
		return ip_hdr(skb)->tos >> 5;
	if (skb->protocol == htons(ETH_P_IPV6))
		return ipv6_hdr(skb)->priority >> 1;
	return 0;
}

static void fab_label_frame(struct sk_buff *skb, u32 hash, u8 class, bool data)
{
	struct fab_cb *cb = fab_cb(skb);

	memset(cb, 0, sizeof(*cb));
	cb->hash = hash;
	cb->class = class;
	cb->data = data;
	cb->truth = skb->mark;
	cb->wire_bytes = max_t(u32, skb->len, ETH_ZLEN) + FAB_WIRE_OVERHEAD_BYTES;
}

/* Into the NIC's queue. */
void fab_nic_send(struct fab_host *host, struct sk_buff *skb, u64 now_ps)
{
	host->tx_pkts++;
	host->tx_bytes += skb->len;
	fab.in_flight++;
	fab.data_sent += fab_cb(skb)->data;
	netdev_sent_queue(host->dev, skb->len);
	fab_port_send(&host->port, skb, now_ps);
}

/* To be stamped when it leaves, and is asked to be. */
static bool fab_wants_stamp(const struct fab_host *host, const struct sk_buff *skb)
{
	return unlikely(skb_shinfo(skb)->tx_flags & SKBTX_HW_TSTAMP) &&
	       host->stamping.tx_type == HWTSTAMP_TX_ON;
}

static netdev_tx_t fab_xmit(struct sk_buff *skb, struct net_device *dev)
{
	struct fab_host *host = netdev_priv(dev);
	struct sk_buff *frames = skb, *next;
	u64 now_ps, for_ns = 0;
	bool data;
	u32 hash;
	u8 class;

	if (unlikely(!fab_has_header(skb)))
		goto drop;
	hash = fab_flow_hash(skb);
	class = fab_class(skb);
	data = !fab_is_ack(skb);
	if (host->cores)
		for_ns = fab_core_tx_ns(host, skb);
	if (fab_wants_stamp(host, skb))
		skb_shinfo(skb)->tx_flags |= SKBTX_IN_PROGRESS;
	skb_tx_timestamp(skb);
	if (skb_is_gso(skb)) {
		frames = skb_gso_segment(skb, dev->features & ~NETIF_F_GSO_MASK);
		if (IS_ERR_OR_NULL(frames))
			goto drop;
		consume_skb(skb);
	}

	spin_lock(&fab.lock);
	now_ps = fab_now_ps();
	if (frames->next)
		host->tso_pkts++;
	skb_list_walk_safe(frames, skb, next) {
		fab_label_frame(skb, hash, class, data);
		if (host->cores)
			continue;
		skb_mark_not_on_list(skb);
		fab_nic_send(host, skb, now_ps);
	}
	if (host->cores)
		fab_core_tx(host, frames, for_ns, now_ps);
	if (host->port.backlog_pkts >= host->config.txq_pkts)
		netif_stop_queue(dev);
	spin_unlock(&fab.lock);
	return NETDEV_TX_OK;

drop:
	dev_kfree_skb_any(skb);
	DEV_STATS_INC(dev, tx_dropped);
	return NETDEV_TX_OK;
}

/* The first bit is on the wire. */
void fab_nic_tx_start(struct fab_host *host, struct sk_buff *skb, u64 now_ps)
{
	struct skb_shared_hwtstamps stamp = {};

	if (!fab_wants_stamp(host, skb))
		return;
	stamp.hwtstamp = ns_to_ktime(fab_phc_ns(&host->phc, now_ps));
	skb_tstamp_tx(skb, &stamp);
	/* The sender got a clone, whose stamp the arrival of this frame would overwrite. */
	skb_unclone(skb, GFP_ATOMIC);
}

/* The last one is; the stack may have back what it counts as queued here. */
void fab_nic_tx_done(struct fab_host *host, struct sk_buff *skb)
{
	netdev_completed_queue(host->dev, 1, skb->len);
	skb_orphan(skb);
	if (netif_queue_stopped(host->dev) &&
	    host->port.backlog_pkts < host->config.txq_pkts / 2)
		netif_wake_queue(host->dev);
}

/* --- Reception ---------------------------------------------------------------------- */

void fab_nic_up(struct fab_host *host, struct sk_buff *skb)
{
	fab.in_flight--;
	host->rx_pkts++;
	host->rx_bytes += skb->len + ETH_HLEN;
	__skb_queue_tail(&fab.up, skb);
}

static u64 fab_service_ns(const struct fab_host *host, const struct sk_buff *skb)
{
	return host->config.rx_pkt_ns + (skb->len * host->config.rx_kb_ns >> 10);
}

static void fab_serve(struct fab_host *host, const struct sk_buff *skb, u64 now_ps)
{
	u64 for_ns = fab_service_ns(host, skb);

	host->service_ns += for_ns;
	fab_schedule(&host->service, now_ps + for_ns * FAB_PS_PER_NS);
}

/* A host without work sleeps, and takes its time to wake: uniform, up to rx_wake_ns. */
static u64 fab_wake_ps(struct fab_host *host)
{
	if (!host->config.rx_wake_ns)
		return 0;
	return prandom_u32_state(&host->rnd) * FAB_PS_PER_NS * host->config.rx_wake_ns >> 32;
}

static void fab_service_event(struct fab_event *event, u64 now_ps)
{
	struct fab_host *host = container_of(event, struct fab_host, service);

	fab_nic_up(host, __skb_dequeue(&host->ring));
	if (!skb_queue_empty(&host->ring))
		fab_serve(host, skb_peek(&host->ring), now_ps);
}

/*
 * Some drivers leave in the frame what they can make a time of when asked. Ours is no
 * time by itself, so that whoever takes it for one is found out.
 */
static void *fab_pack_stamp(s64 ns)
{
	return (void *)~ns;
}

static ktime_t fab_get_tstamp(struct net_device *dev, const struct skb_shared_hwtstamps *stamps,
			      bool cycles)
{
	return ns_to_ktime(~(s64)stamps->netdev_data);
}

static void fab_stamp(struct fab_host *host, struct sk_buff *skb, u64 first_ps)
{
	s64 ns = fab_phc_ns(&host->phc, first_ps);

	if (!host->config.netdev_stamps) {
		skb_hwtstamps(skb)->hwtstamp = ns_to_ktime(ns);
	} else if (!skb_unclone(skb, GFP_ATOMIC)) { /* the flags are TCP's, too */
		skb_shinfo(skb)->tx_flags = SKBTX_HW_TSTAMP_NETDEV;
		skb_hwtstamps(skb)->netdev_data = fab_pack_stamp(ns);
	}
}

/* As another machine would see it: nothing of the sender's is left but the bits. */
static void fab_to_host(struct fab_host *host, struct sk_buff *skb, u64 now_ps)
{
	u64 first_ps = now_ps - (fab_cb(skb)->wire_bytes * host->port.ps_per_byte_q16 >> 16);

	skb_scrub_packet(skb, true);
	skb->protocol = eth_type_trans(skb, host->dev);
	skb->pkt_type = PACKET_HOST; /* routed by address: nobody asked for a MAC's */
	skb->priority = 0;
	skb_clear_hash(skb);
	skb->napi_id = 0;
	skb_mark_napi_id(skb, &host->napi);
	if (labfab_truth) {
		skb->mark = div64_u64(first_ps, FAB_PS_PER_NS);
		skb->priority = fab_cb(skb)->truth;
	}
	*skb_hwtstamps(skb) = (struct skb_shared_hwtstamps){};
	if (host->stamping.rx_filter == HWTSTAMP_FILTER_ALL)
		fab_stamp(host, skb, first_ps);
}

void fab_nic_rx(struct fab_host *host, struct sk_buff *skb, u64 now_ps)
{
	if (unlikely(fab_cb(skb)->corrupt)) {
		host->rx_crc_errors++;
		fab_drop(skb);
		return;
	}
	if (unlikely(!netif_running(host->dev)) ||
	    skb_queue_len(&host->ring) >= host->config.ring_pkts) {
		host->rx_missed++;
		fab_drop(skb);
		return;
	}
	fab_to_host(host, skb, now_ps);
	if (host->cores) {
		fab_core_rx(host, skb, now_ps);
		return;
	}
	if (!host->config.rx_pkt_ns && !host->config.rx_kb_ns && !host->config.rx_wake_ns) {
		fab_nic_up(host, skb);
		return;
	}
	/* The driver has seen it; what it waits for is the stack. */
	if (!host->config.ring_stage)
		__net_timestamp(skb);
	__skb_queue_tail(&host->ring, skb);
	host->ring_max_pkts = max(host->ring_max_pkts, skb_queue_len(&host->ring));
	if (!fab_is_scheduled(&host->service))
		fab_serve(host, skb, now_ps + fab_wake_ps(host));
}

/* --- The device --------------------------------------------------------------------- */

static int fab_hwtstamp_get(struct net_device *dev, struct kernel_hwtstamp_config *config)
{
	struct fab_host *host = netdev_priv(dev);

	if (!host->config.stamps)
		return -EOPNOTSUPP;
	*config = host->stamping;
	return 0;
}

/* It stamps all frames or none, as most fast NICs. */
static int fab_hwtstamp_set(struct net_device *dev, struct kernel_hwtstamp_config *config,
			    struct netlink_ext_ack *extack)
{
	struct fab_host *host = netdev_priv(dev);

	if (!host->config.stamps)
		return -EOPNOTSUPP;
	if (config->tx_type != HWTSTAMP_TX_OFF && config->tx_type != HWTSTAMP_TX_ON)
		return -ERANGE;
	if (config->rx_filter != HWTSTAMP_FILTER_NONE)
		config->rx_filter = HWTSTAMP_FILTER_ALL;
	spin_lock_bh(&fab.lock);
	host->stamping.tx_type = config->tx_type;
	host->stamping.rx_filter = config->rx_filter;
	spin_unlock_bh(&fab.lock);
	return 0;
}

static void fab_get_stats64(struct net_device *dev, struct rtnl_link_stats64 *to)
{
	const struct fab_host *host = netdev_priv(dev);

	spin_lock_bh(&fab.lock);
	to->tx_packets = host->tx_pkts;
	to->tx_bytes = host->tx_bytes;
	to->tx_dropped = atomic_long_read(&dev->stats.__tx_dropped);
	to->rx_packets = host->rx_pkts;
	to->rx_bytes = host->rx_bytes;
	to->rx_missed_errors = host->rx_missed;
	to->rx_crc_errors = host->rx_crc_errors;
	to->rx_errors = host->rx_crc_errors;
	spin_unlock_bh(&fab.lock);
}

/* For a socket that polls: its frames come without. */
int fab_nic_poll(struct napi_struct *napi, int budget)
{
	napi_complete_done(napi, 0);
	return 0;
}

static int fab_open(struct net_device *dev)
{
	struct fab_host *host = netdev_priv(dev);

	napi_enable(&host->napi);
	netif_start_queue(dev);
	return 0;
}

/* From here on nothing goes up; what is on its way out leaves. */
static int fab_stop(struct net_device *dev)
{
	struct fab_host *host = netdev_priv(dev);

	netif_stop_queue(dev);
	spin_lock_bh(&fab.lock);
	fab_cancel(&host->service);
	host->rx_missed += skb_queue_len(&host->ring);
	fab_drop_all(&host->ring);
	fab_cores_purge(host);
	spin_unlock_bh(&fab.lock);
	fab_cores_flush(host);
	napi_disable(&host->napi);
	return 0;
}

static const struct net_device_ops fab_netdev_ops = {
	.ndo_open = fab_open,
	.ndo_stop = fab_stop,
	.ndo_start_xmit = fab_xmit,
	.ndo_get_stats64 = fab_get_stats64,
	.ndo_set_mac_address = eth_mac_addr,
	.ndo_validate_addr = eth_validate_addr,
	.ndo_hwtstamp_get = fab_hwtstamp_get,
	.ndo_hwtstamp_set = fab_hwtstamp_set,
	.ndo_get_tstamp = fab_get_tstamp,
};

static void fab_get_drvinfo(struct net_device *dev, struct ethtool_drvinfo *info)
{
	strscpy(info->driver, "labfab", sizeof(info->driver));
}

static int fab_get_link_ksettings(struct net_device *dev, struct ethtool_link_ksettings *to)
{
	const struct fab_host *host = netdev_priv(dev);

	ethtool_link_ksettings_zero_link_mode(to, supported);
	to->base.duplex = DUPLEX_FULL;
	to->base.port = PORT_FIBRE;
	to->base.speed = SPEED_UNKNOWN;
	if (host->port.ps_per_byte_q16) /* Mb/s: 8e12 / 1e6 ps */
		to->base.speed = div64_u64(8000000ULL << 16, host->port.ps_per_byte_q16);
	return 0;
}

static void fab_get_ringparam(struct net_device *dev, struct ethtool_ringparam *ring,
			      struct kernel_ethtool_ringparam *kernel_ring,
			      struct netlink_ext_ack *extack)
{
	const struct fab_host *host = netdev_priv(dev);

	ring->rx_pending = host->config.ring_pkts;
	ring->rx_max_pending = host->config.ring_pkts;
	ring->tx_pending = host->config.txq_pkts;
	ring->tx_max_pending = host->config.txq_pkts;
}

static int fab_get_ts_info(struct net_device *dev, struct kernel_ethtool_ts_info *info)
{
	const struct fab_host *host = netdev_priv(dev);

	ethtool_op_get_ts_info(dev, info);
	if (host->phc.clock)
		info->phc_index = ptp_clock_index(host->phc.clock);
	if (!host->config.stamps)
		return 0;
	info->so_timestamping |= SOF_TIMESTAMPING_TX_HARDWARE | SOF_TIMESTAMPING_RX_HARDWARE |
				 SOF_TIMESTAMPING_RAW_HARDWARE;
	info->tx_types = BIT(HWTSTAMP_TX_OFF) | BIT(HWTSTAMP_TX_ON);
	info->rx_filters = BIT(HWTSTAMP_FILTER_NONE) | BIT(HWTSTAMP_FILTER_ALL);
	return 0;
}

static const char fab_stat_names[][ETH_GSTRING_LEN] = {
	"tx_tso_packets", "tx_backlog_packets", "tx_lost", "rx_ring_max_packets", "rx_service_ns",
};

static int fab_get_sset_count(struct net_device *dev, int sset)
{
	return sset == ETH_SS_STATS ? ARRAY_SIZE(fab_stat_names) : -EOPNOTSUPP;
}

static void fab_get_strings(struct net_device *dev, u32 sset, u8 *to)
{
	if (sset == ETH_SS_STATS)
		memcpy(to, fab_stat_names, sizeof(fab_stat_names));
}

static void fab_get_ethtool_stats(struct net_device *dev, struct ethtool_stats *stats, u64 *to)
{
	const struct fab_host *host = netdev_priv(dev);

	spin_lock_bh(&fab.lock);
	to[0] = host->tso_pkts;
	to[1] = host->port.backlog_pkts;
	to[2] = host->port.stats.lost;
	to[3] = host->ring_max_pkts;
	to[4] = host->service_ns;
	spin_unlock_bh(&fab.lock);
}

static const struct ethtool_ops fab_ethtool_ops = {
	.get_drvinfo = fab_get_drvinfo,
	.get_link = ethtool_op_get_link,
	.get_link_ksettings = fab_get_link_ksettings,
	.get_ringparam = fab_get_ringparam,
	.get_ts_info = fab_get_ts_info,
	.get_sset_count = fab_get_sset_count,
	.get_strings = fab_get_strings,
	.get_ethtool_stats = fab_get_ethtool_stats,
};

struct fab_host *fab_nic_create(const struct fab_host_config *config, struct net *net)
{
	struct net_device *dev = alloc_etherdev(sizeof(struct fab_host));
	u8 mac[ETH_ALEN] = { 0x02, 0, 0, 0, config->id >> 8, config->id & 0xff };
	struct fab_host *host;
	int err;

	if (!dev)
		return ERR_PTR(-ENOMEM);
	host = netdev_priv(dev);
	host->dev = dev;
	host->config = *config;
	host->port.host = host;
	__skb_queue_head_init(&host->ring);
	fab_event_init(&host->service, fab_service_event);
	fab_seed(&host->rnd, config->seed, config->id, FAB_OF_HOST);

	dev_net_set(dev, net);
	strscpy(dev->name, "eth0", sizeof(dev->name));
	eth_hw_addr_set(dev, mac);
	dev->netdev_ops = &fab_netdev_ops;
	dev->ethtool_ops = &fab_ethtool_ops;
	dev->flags |= IFF_NOARP;
	dev->priv_flags &= ~IFF_TX_SKB_SHARING; /* frames are queued, and written to */
	dev->hw_features = FAB_FEATURES;
	dev->features = FAB_FEATURES;
	dev->mtu = config->mtu;
	dev->max_mtu = 9216;
	netif_napi_add(dev, &host->napi, fab_nic_poll);

	err = fab_phc_init(host);
	if (err)
		goto free;
	if (config->cores)
		err = fab_cores_create(host);
	if (err)
		goto exit_phc;
	netif_carrier_off(dev);
	err = register_netdev(dev);
	if (err)
		goto free_cores;
	if (config->cores && !config->gro) {
		rtnl_lock();
		dev->wanted_features &= ~NETIF_F_GRO;
		netdev_update_features(dev);
		rtnl_unlock();
	}
	return host;

free_cores:
	fab_cores_destroy(host);
exit_phc:
	fab_phc_exit(host);
free:
	free_netdev(dev);
	return ERR_PTR(err);
}

void fab_nic_destroy(struct fab_host *host)
{
	unregister_netdev(host->dev);
	spin_lock_bh(&fab.lock);
	if (host->port.peer)
		fab_port_purge(&host->port);
	spin_unlock_bh(&fab.lock);
	fab_cores_destroy(host);
	fab_phc_exit(host);
	free_netdev(host->dev);
}
