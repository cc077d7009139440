// SPDX-License-Identifier: GPL-2.0
/*
 * labfab: NICs and switches of a datacenter, for a kernel whose time is virtual. This
 * file holds hosts, switches and links, takes the control lines (Documentation/lab.md
 * lists them) and prints the statistics.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/debugfs.h>
#include <linux/module.h>
#include <linux/nsproxy.h>
#include <linux/rtnetlink.h>
#include <linux/sched.h>
#include <linux/seq_file.h>

#include "args.h"
#include "fab.h"

struct fab_link {
	struct fab_port *port[2];
};

/* Grows only, under control_lock; what the data path reads is complete before `start`. */
static DEFINE_MUTEX(control_lock);
static struct fab_host *hosts[LABFAB_HOSTS_MAX];
static struct fab_switch *switches[FAB_SWITCHES_MAX];
static struct fab_link links[FAB_LINKS_MAX];
static u32 n_links;
static bool started;
static struct dentry *debugfs;

bool labfab_truth;
EXPORT_SYMBOL_GPL(labfab_truth);
module_param_named(truth, labfab_truth, bool, 0444);
MODULE_PARM_DESC(truth, "frames tell when they arrived (labfab.h)");

struct fab_host *fab_host(u32 id)
{
	return id < LABFAB_HOSTS_MAX ? hosts[id] : NULL;
}

struct net *labfab_host_net(u32 id)
{
	struct fab_host *host = fab_host(id);
	struct net *net;

	rcu_read_lock();
	net = host ? maybe_get_net(dev_net(host->dev)) : NULL; /* unless it is on its way out */
	rcu_read_unlock();
	return net;
}
EXPORT_SYMBOL_GPL(labfab_host_net);

/* --- Hosts and switches ------------------------------------------------------------- */

/* Signed numbers come as text: the rest are u64. */
static int fab_signed(const char *key, const char *text, s64 limit, s64 *to)
{
	if (!text)
		return 0;
	if (kstrtos64(text, 10, to) || *to > limit || *to < -limit) {
		pr_err("%s=%s: expected -%lld to %lld\n", key, text, limit, limit);
		return -EINVAL;
	}
	return 0;
}

/* What cores alone have needs some; a gap between bursts of noise is longer than nothing. */
static int fab_check_cores(const struct fab_host_config *c, const struct lab_arg *args, int n)
{
	static const char * const needs_cores[] = {
		"gro", "rx_usecs", "rx_frames", "irq_ns", "seg_ns", "ack_ns", "timer_ns",
		"timer_slack_ns", "noise_ns", "noise_every_ns",
	};
	int i;

	for (i = 0; i < n && !c->cores; i++) {
		if (args[i].given &&
		    match_string(needs_cores, ARRAY_SIZE(needs_cores), args[i].name) >= 0) {
			pr_err("%s: expected cores of 1 or more\n", args[i].name);
			return -EINVAL;
		}
	}
	if (c->noise_ns && c->noise_every_ns < 1000) {
		pr_err("noise_every_ns=%llu: expected 1000 to 1000000000 with noise_ns\n",
		       c->noise_every_ns);
		return -EINVAL;
	}
	return 0;
}

static int fab_control_host(char *line)
{
	struct fab_host_config c = {
		.mtu = 1500, .txq_pkts = 1024, .ring_pkts = 1024, .gro = 1, .stamps = 1, .seed = 1,
	};
	char *offset = NULL, *drift = NULL, *stage = NULL;
	struct lab_arg args[] = {
		LAB_NEEDED("id", 0, LABFAB_HOSTS_MAX - 1, &c.id),
		LAB_NUMBER("mtu", 1280, 9216, &c.mtu),
		LAB_NUMBER("txq_pkts", 64, 65536, &c.txq_pkts),
		LAB_NUMBER("ring_pkts", 1, 1 << 20, &c.ring_pkts),
		LAB_NUMBER("rx_pkt_ns", 0, 1000000, &c.rx_pkt_ns),
		LAB_NUMBER("rx_kb_ns", 0, 1000000, &c.rx_kb_ns),
		LAB_NUMBER("rx_wake_ns", 0, 1000000, &c.rx_wake_ns),
		LAB_NUMBER("cores", 0, 256, &c.cores),
		LAB_NUMBER("gro", 0, 1, &c.gro),
		LAB_NUMBER("rx_usecs", 0, 10000, &c.rx_usecs),
		LAB_NUMBER("rx_frames", 0, 65536, &c.rx_frames),
		LAB_NUMBER("irq_ns", 0, 1000000, &c.irq_ns),
		LAB_NUMBER("seg_ns", 0, 1000000, &c.seg_ns),
		LAB_NUMBER("ack_ns", 0, 1000000, &c.ack_ns),
		LAB_NUMBER("timer_ns", 0, 1000000, &c.timer_ns),
		LAB_NUMBER("timer_slack_ns", 0, 1000000, &c.timer_slack_ns),
		LAB_NUMBER("noise_ns", 0, 1000000000, &c.noise_ns),
		LAB_NUMBER("noise_every_ns", 0, 1000000000, &c.noise_every_ns),
		LAB_NUMBER("stamps", 0, 1, &c.stamps),
		LAB_NUMBER("netdev_stamps", 0, 1, &c.netdev_stamps),
		LAB_NUMBER("phc", 0, 1, &c.phc),
		LAB_NUMBER("seed", 0, U32_MAX, &c.seed),
		LAB_TEXT("rx_stage", &stage),
		LAB_TEXT("phc_offset_ns", &offset),
		LAB_TEXT("phc_drift_ppb", &drift),
	};
	struct fab_host *host;
	int err = lab_parse(line, args, ARRAY_SIZE(args));

	if (!stage)
		stage = c.cores ? "ring" : "stack";
	err = err ?: fab_check_cores(&c, args, ARRAY_SIZE(args));
	err = err ?: fab_signed("phc_offset_ns", offset, S64_MAX / 4, &c.phc_offset_ns);
	err = err ?: fab_signed("phc_drift_ppb", drift, 1000000, &c.phc_drift_ppb);
	if (err)
		return err;
	c.ring_stage = !strcmp(stage, "ring");
	if (!c.ring_stage && strcmp(stage, "stack")) {
		pr_err("rx_stage=%s: expected ring or stack\n", stage);
		return -EINVAL;
	}
	if (hosts[c.id])
		return -EEXIST;
	host = fab_nic_create(&c, current->nsproxy->net_ns);
	if (IS_ERR(host))
		return PTR_ERR(host);
	hosts[c.id] = host;
	return 0;
}

static int fab_parse_weights(char *text, u16 *weights)
{
	char *one, *all = text;
	int class;

	for (class = 0; class < FAB_CLASSES; class++) {
		one = strsep(&text, ",");
		if (!one || kstrtou16(one, 10, &weights[class]) || weights[class] > 1000)
			break;
	}
	if (class == FAB_CLASSES && !text)
		return 0;
	pr_err("weights=%s: expected 8 numbers of 0 to 1000\n", all);
	return -EINVAL;
}

static int fab_control_switch(char *line)
{
	u64 id = 0, buffer = 8 << 20, shared = 0, alpha = 1000, ecn = 0, latency = 0, spray = 0;
	u64 seed = 1, xoff = 0, xon = 0;
	char *weights = NULL;
	struct lab_arg args[] = {
		LAB_NEEDED("id", 0, FAB_SWITCHES_MAX - 1, &id),
		LAB_NUMBER("buffer_bytes", 16384, U32_MAX, &buffer),
		LAB_NUMBER("shared", 0, 1, &shared),
		LAB_NUMBER("alpha_milli", 1, 1000000, &alpha),
		LAB_NUMBER("ecn_bytes", 0, U32_MAX, &ecn),
		LAB_NUMBER("pfc_xoff_bytes", 0, U32_MAX, &xoff),
		LAB_NUMBER("pfc_xon_bytes", 0, U32_MAX, &xon),
		LAB_NUMBER("latency_ns", 0, 1000000, &latency),
		LAB_NUMBER("spray", 0, 1, &spray),
		LAB_NUMBER("seed", 0, U32_MAX, &seed),
		LAB_TEXT("weights", &weights),
	};
	int err = lab_parse(line, args, ARRAY_SIZE(args));
	struct fab_switch *sw;

	if (err)
		return err;
	if (xon > xoff) {
		pr_err("pfc_xon_bytes=%llu: expected 0 to %llu, pfc_xoff_bytes\n", xon, xoff);
		return -EINVAL;
	}
	if (switches[id])
		return -EEXIST;
	sw = kzalloc(sizeof(*sw), GFP_KERNEL);
	if (!sw)
		return -ENOMEM;
	err = weights ? fab_parse_weights(weights, sw->weights) : 0;
	if (err) {
		kfree(sw);
		return err;
	}
	sw->id = id;
	sw->buffer_bytes = buffer;
	sw->shared = shared;
	sw->alpha_milli = alpha;
	sw->ecn_bytes = ecn;
	sw->pfc_xoff_bytes = xoff;
	sw->pfc_xon_bytes = xon;
	sw->latency_ps = latency * FAB_PS_PER_NS;
	sw->spray = spray;
	sw->seed = seed;
	fab_seed(&sw->rnd, seed, id, FAB_OF_SWITCH);
	sw->salt = prandom_u32_state(&sw->rnd);
	switches[id] = sw;
	return 0;
}

/* --- Links -------------------------------------------------------------------------- */

struct fab_end {
	struct fab_host *host;
	struct fab_switch *sw;
};

static int fab_parse_end(const char *key, const char *text, struct fab_end *end)
{
	u32 id;

	if (!text || (*text != 'h' && *text != 's') || kstrtou32(text + 1, 10, &id)) {
		pr_err("%s=%s: expected hN or sN\n", key, text ?: "");
		return -EINVAL;
	}
	if (*text == 'h')
		end->host = fab_host(id);
	else if (id < FAB_SWITCHES_MAX)
		end->sw = switches[id];
	if (!end->host && !end->sw) {
		pr_err("%s=%s: no such host or switch\n", key, text);
		return -ENOENT;
	}
	if (end->host && end->host->port.peer) {
		pr_err("%s=%s: has a link\n", key, text);
		return -EEXIST;
	}
	return 0;
}

static struct fab_port *fab_end_port(struct fab_end *end)
{
	struct fab_port **ports, *port;

	if (end->host)
		return &end->host->port;
	port = kzalloc(sizeof(*port), GFP_KERNEL);
	ports = krealloc_array(end->sw->ports, end->sw->n_ports + 1, sizeof(*ports), GFP_KERNEL);
	if (ports)
		end->sw->ports = ports;
	if (!port || !ports) {
		kfree(port);
		return NULL;
	}
	port->sw = end->sw;
	ports[end->sw->n_ports++] = port;
	return port;
}

static int fab_control_link(char *line)
{
	u64 rate_bps = 0, prop_ns = 0;
	struct fab_end a = {}, b = {};
	char *a_text = NULL, *b_text = NULL;
	struct lab_arg args[] = {
		LAB_TEXT("a", &a_text),
		LAB_TEXT("b", &b_text),
		LAB_NEEDED("rate_bps", 1000000, 1600000000000ULL, &rate_bps),
		LAB_NUMBER("prop_ns", 0, 1000000000, &prop_ns),
	};
	struct fab_port *pa, *pb;
	int err = lab_parse(line, args, ARRAY_SIZE(args));

	err = err ?: fab_parse_end("a", a_text, &a);
	err = err ?: fab_parse_end("b", b_text, &b);
	if (err)
		return err;
	if ((a.host && a.host == b.host) || (a.sw && a.sw == b.sw)) {
		pr_err("b=%s: a link has two ends\n", b_text);
		return -EINVAL;
	}
	if (started)
		return -EBUSY;
	if (n_links == FAB_LINKS_MAX)
		return -ENOSPC;
	pa = fab_end_port(&a);
	pb = fab_end_port(&b);
	if (!pa || !pb)
		return -ENOMEM; /* a port without a link carries nothing */
	/* Never nothing: a frame arrives after its sender is done with it. */
	prop_ns = max(prop_ns, 1ULL);
	fab_port_init(pa, rate_bps, prop_ns, n_links);
	fab_port_init(pb, rate_bps, prop_ns, n_links);
	if (b.sw)
		pa->prop_ps += b.sw->latency_ps;
	if (a.sw)
		pb->prop_ps += a.sw->latency_ps;
	fab_port_seed(pa, 2 * n_links);
	fab_port_seed(pb, 2 * n_links + 1);
	pa->peer = pb;
	pb->peer = pa;
	links[n_links].port[0] = pa;
	links[n_links].port[1] = pb;
	n_links++;
	return 0;
}

/* --- Routes ------------------------------------------------------------------------- */

static void fab_free_routes(struct fab_routes *routes)
{
	kvfree(routes->ports);
	kvfree(routes->counts);
	*routes = (struct fab_routes){};
}

static int fab_alloc_routes(struct fab_switch *sw)
{
	u32 i;

	fab_free_routes(&sw->next_routes);
	sw->next_routes.ports = kvcalloc(FAB_SWITCHES_MAX, sw->n_ports * sizeof(u16), GFP_KERNEL);
	sw->next_routes.counts = kvcalloc(FAB_SWITCHES_MAX, sizeof(u16), GFP_KERNEL);
	if (!sw->host_ports)
		sw->host_ports = kvcalloc(LABFAB_HOSTS_MAX, sizeof(u16), GFP_KERNEL);
	if (!sw->next_routes.ports || !sw->next_routes.counts || !sw->host_ports)
		return -ENOMEM;
	for (i = 0; i < sw->n_ports; i++) {
		struct fab_port *peer = sw->ports[i]->peer;

		if (peer && peer->host) {
			peer->host->sw = sw;
			sw->host_ports[peer->host->config.id] = i;
		}
	}
	return 0;
}

/* Breadth first from @to: whoever is a step further goes through whoever is nearer. */
static void fab_routes_to(struct fab_switch *to, u16 *distance, struct fab_switch **queue)
{
	u32 head = 0, tail = 0, i;

	memset(distance, 0xff, FAB_SWITCHES_MAX * sizeof(*distance));
	distance[to->id] = 0;
	queue[tail++] = to;
	while (head < tail) {
		struct fab_switch *sw = queue[head++];

		for (i = 0; i < sw->n_ports; i++) {
			struct fab_port *port = sw->ports[i];
			struct fab_switch *next = port->peer ? port->peer->sw : NULL;

			/* Only where it carries both ways: a fault is of both. */
			if (!next || port->down || port->avoid)
				continue;
			if (distance[next->id] == U16_MAX) {
				distance[next->id] = distance[sw->id] + 1;
				queue[tail++] = next;
			}
			if (distance[next->id] + 1 == distance[sw->id])
				sw->next_routes.ports[to->id * sw->n_ports +
						      sw->next_routes.counts[to->id]++] = i;
		}
	}
}

/* Over all links that are neither down nor to be avoided; in use from one moment on. */
static int fab_compute_routes(void)
{
	struct fab_switch **queue;
	u16 *distance;
	u32 i;
	int err = 0;

	queue = kvcalloc(FAB_SWITCHES_MAX, sizeof(*queue), GFP_KERNEL);
	distance = kvcalloc(FAB_SWITCHES_MAX, sizeof(*distance), GFP_KERNEL);
	if (!queue || !distance)
		err = -ENOMEM;
	for (i = 0; !err && i < FAB_SWITCHES_MAX; i++)
		if (switches[i])
			err = fab_alloc_routes(switches[i]);
	for (i = 0; !err && i < FAB_SWITCHES_MAX; i++)
		if (switches[i])
			fab_routes_to(switches[i], distance, queue);
	kvfree(distance);
	kvfree(queue);
	if (err)
		return err;
	spin_lock_bh(&fab.lock);
	for (i = 0; i < FAB_SWITCHES_MAX; i++)
		if (switches[i])
			swap(switches[i]->routes, switches[i]->next_routes);
	spin_unlock_bh(&fab.lock);
	for (i = 0; i < FAB_SWITCHES_MAX; i++)
		if (switches[i])
			fab_free_routes(&switches[i]->next_routes);
	return 0;
}

static int fab_control_start(char *line)
{
	u32 i;
	int err;

	if (started)
		return -EBUSY;
	err = fab_compute_routes();
	if (err)
		return err;
	started = true;
	for (i = 0; i < LABFAB_HOSTS_MAX; i++)
		if (hosts[i] && hosts[i]->port.peer && !hosts[i]->port.down)
			netif_carrier_on(hosts[i]->dev);
	return 0;
}

static int fab_control_routes(char *line)
{
	if (!started)
		return -EBUSY;
	return fab_compute_routes();
}

/* --- Faults and the rest ------------------------------------------------------------ */

static void fab_carrier(struct fab_port *port, bool down)
{
	if (!port->host)
		return;
	if (down)
		netif_carrier_off(port->host->dev);
	else if (started)
		netif_carrier_on(port->host->dev);
}

static int fab_control_fault(char *line)
{
	u64 link = 0, loss = 0, corrupt = 0, reorder = 0, reorder_ns = 0, down = 0, avoid = 0;
	struct lab_arg args[] = {
		LAB_NEEDED("link", 0, FAB_LINKS_MAX - 1, &link),
		LAB_NUMBER("loss_ppm", 0, 1000000, &loss),
		LAB_NUMBER("corrupt_ppm", 0, 1000000, &corrupt),
		LAB_NUMBER("reorder_ppm", 0, 1000000, &reorder),
		LAB_NUMBER("reorder_ns", 0, 1000000000, &reorder_ns),
		LAB_NUMBER("down", 0, 1, &down),
		LAB_NUMBER("avoid", 0, 1, &avoid),
	};
	int err = lab_parse(line, args, ARRAY_SIZE(args));
	int i;

	if (err)
		return err;
	if (link >= n_links) {
		pr_err("link=%llu: there are %u\n", link, n_links);
		return -ENOENT;
	}
	for (i = 0; i < 2; i++) {
		struct fab_port *port = links[link].port[i];

		spin_lock_bh(&fab.lock);
		port->loss_ppm = loss;
		port->corrupt_ppm = corrupt;
		port->reorder_ppm = reorder;
		port->reorder_ps = reorder_ns * FAB_PS_PER_NS;
		if (down != port->down)
			fab_port_resume(port, fab_now_ps());
		port->down = down;
		port->avoid = avoid;
		spin_unlock_bh(&fab.lock);
		fab_carrier(port, down);
	}
	return 0;
}

static int fab_control_phc(char *line)
{
	char *step = NULL;
	s64 step_ns = 0;
	u64 id = 0;
	struct lab_arg args[] = {
		LAB_NEEDED("id", 0, LABFAB_HOSTS_MAX - 1, &id),
		LAB_TEXT("step_ns", &step),
	};
	int err = lab_parse(line, args, ARRAY_SIZE(args));

	if (!err && !step) {
		pr_err("step_ns: missing\n");
		err = -EINVAL;
	}
	err = err ?: fab_signed("step_ns", step, S64_MAX / 4, &step_ns);
	if (err)
		return err;
	if (!fab_host(id))
		return -ENOENT;
	fab_phc_step(&fab_host(id)->phc, step_ns);
	return 0;
}

static void fab_reset_host(struct fab_host *host)
{
	host->tx_pkts = 0;
	host->tx_bytes = 0;
	host->tso_pkts = 0;
	host->rx_pkts = 0;
	host->rx_bytes = 0;
	host->rx_missed = 0;
	host->rx_crc_errors = 0;
	host->ring_max_pkts = skb_queue_len(&host->ring);
	host->service_ns = 0;
	host->irqs = 0;
	host->segments = 0;
	host->noise_ns = 0;
}

static int fab_control_reset(char *line)
{
	u64 now_ns;
	u32 i;

	spin_lock_bh(&fab.lock);
	now_ns = ktime_get_ns();
	for (i = 0; i < n_links; i++) {
		fab_port_stats_reset(links[i].port[0], now_ns);
		fab_port_stats_reset(links[i].port[1], now_ns);
	}
	for (i = 0; i < LABFAB_HOSTS_MAX; i++)
		if (hosts[i])
			fab_reset_host(hosts[i]);
	for (i = 0; i < FAB_SWITCHES_MAX; i++) {
		if (switches[i]) {
			switches[i]->ttl_expired = 0;
			switches[i]->no_route = 0;
			switches[i]->used_max_bytes = switches[i]->used_bytes;
		}
	}
	fab.events = 0;
	fab.hops = 0;
	fab.data_sent = 0;
	fab.data_lost = 0;
	spin_unlock_bh(&fab.lock);
	return 0;
}

static const struct lab_verb fab_verbs[] = {
	{ "host", fab_control_host },
	{ "switch", fab_control_switch },
	{ "link", fab_control_link },
	{ "start", fab_control_start },
	{ "routes", fab_control_routes },
	{ "fault", fab_control_fault },
	{ "phc", fab_control_phc },
	{ "reset", fab_control_reset },
};

static ssize_t fab_control_write(struct file *file, const char __user *buf, size_t count,
				 loff_t *pos)
{
	ssize_t ret;

	mutex_lock(&control_lock);
	ret = lab_control(buf, count, fab_verbs, ARRAY_SIZE(fab_verbs));
	mutex_unlock(&control_lock);
	return ret;
}

static const struct file_operations fab_control_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = fab_control_write,
};

/* --- Statistics --------------------------------------------------------------------- */

static void fab_show_end(struct seq_file *m, const struct fab_port *port)
{
	if (port->host)
		seq_printf(m, "h%llu", port->host->config.id);
	else
		seq_printf(m, "s%u", port->sw->id);
}

static void fab_show_port(struct seq_file *m, struct fab_port *port, u64 now_ns)
{
	const struct fab_port_stats *stats = &port->stats;
	const char *comma = "";
	u64 time_ns;
	int i;

	fab_port_account(port, now_ns);
	fab_port_account_pause(port, now_ns);
	time_ns = now_ns - stats->since_ns;
	seq_puts(m, "port=");
	fab_show_end(m, port);
	seq_puts(m, " to=");
	fab_show_end(m, port->peer);
	seq_printf(m, " link=%u tx_pkts=%llu tx_bytes=%llu drops=%llu drop_bytes=%llu marks=%llu",
		   port->link, stats->tx_pkts, stats->tx_bytes, stats->drops, stats->drop_bytes,
		   stats->marks);
	seq_printf(m, " lost=%llu corrupted=%llu rx_crc_errors=%llu reordered=%llu",
		   stats->lost, stats->corrupted, stats->rx_crc_errors, stats->reordered);
	seq_printf(m, " pauses=%llu paused_ns=%llu", stats->pauses, stats->paused_ns);
	seq_printf(m, " qlen_bytes=%u qmax_bytes=%u", port->backlog_bytes, stats->q_max_bytes);
	seq_printf(m, " qmean_bytes=%llu time_ns=%llu hist=",
		   time_ns ? div64_u64(stats->q_byte_ns, time_ns) : 0, time_ns);
	for (i = 0; i < FAB_HIST_BUCKETS; i++) {
		if (stats->hist_ns[i]) {
			seq_printf(m, "%s%u:%llu", comma, fab_hist_low_bytes(i),
				   stats->hist_ns[i]);
			comma = ",";
		}
	}
	seq_putc(m, '\n');
}

static void fab_show_host(struct seq_file *m, const struct fab_host *host)
{
	seq_printf(m, "host=%llu tx_pkts=%llu tx_bytes=%llu tso_pkts=%llu rx_pkts=%llu",
		   host->config.id, host->tx_pkts, host->tx_bytes, host->tso_pkts, host->rx_pkts);
	seq_printf(m, " rx_bytes=%llu rx_missed=%llu rx_crc_errors=%llu ring_max_pkts=%u",
		   host->rx_bytes, host->rx_missed, host->rx_crc_errors, host->ring_max_pkts);
	seq_printf(m, " service_ns=%llu", host->service_ns);
	if (host->cores)
		seq_printf(m, " cores=%llu irqs=%llu segments=%llu noise_ns=%llu",
			   host->config.cores, host->irqs, host->segments, host->noise_ns);
	seq_putc(m, '\n');
}

static void fab_show_switch(struct seq_file *m, const struct fab_switch *sw)
{
	seq_printf(m, "switch=%u used_bytes=%u used_max_bytes=%u ttl_expired=%llu no_route=%llu\n",
		   sw->id, sw->used_bytes, sw->used_max_bytes, sw->ttl_expired, sw->no_route);
}

/* All of one instant. */
static int fab_stats_show(struct seq_file *m, void *v)
{
	u64 now_ns;
	u32 i;

	mutex_lock(&control_lock);
	spin_lock_bh(&fab.lock);
	now_ns = ktime_get_ns();
	for (i = 0; i < n_links; i++) {
		fab_show_port(m, links[i].port[0], now_ns);
		fab_show_port(m, links[i].port[1], now_ns);
	}
	for (i = 0; i < FAB_SWITCHES_MAX; i++)
		if (switches[i])
			fab_show_switch(m, switches[i]);
	for (i = 0; i < LABFAB_HOSTS_MAX; i++)
		if (hosts[i])
			fab_show_host(m, hosts[i]);
	seq_printf(m, "fabric events=%llu hops=%llu in_flight=%llu data_sent=%llu data_lost=%llu",
		   fab.events, fab.hops, fab.in_flight, fab.data_sent, fab.data_lost);
	seq_printf(m, " time_ns=%llu\n", now_ns);
	spin_unlock_bh(&fab.lock);
	mutex_unlock(&control_lock);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(fab_stats);

/* --- Coming and going --------------------------------------------------------------- */

static int __init labfab_init(void)
{
	int err = fab_cores_init();

	if (err)
		return err;
	fab_engine_init();
	debugfs = debugfs_create_dir("labfab", NULL);
	debugfs_create_file("control", 0200, debugfs, NULL, &fab_control_fops);
	debugfs_create_file("stats", 0400, debugfs, NULL, &fab_stats_fops);
	return 0;
}

static void __exit labfab_exit(void)
{
	struct fab_switch *sw;
	u32 i, p;

	debugfs_remove(debugfs);
	spin_lock_bh(&fab.lock);
	for (i = 0; i < n_links; i++) {
		fab_port_purge(links[i].port[0]);
		fab_port_purge(links[i].port[1]);
		/* Until the last NIC is gone, what others still send ends here. */
		links[i].port[0]->down = true;
		links[i].port[1]->down = true;
	}
	spin_unlock_bh(&fab.lock);
	for (i = 0; i < LABFAB_HOSTS_MAX; i++) {
		if (hosts[i]) {
			fab_nic_destroy(hosts[i]);
			hosts[i] = NULL;
		}
	}
	fab_engine_exit();
	fab_cores_exit();
	for (i = 0; i < FAB_SWITCHES_MAX; i++) {
		sw = switches[i];
		if (!sw)
			continue;
		for (p = 0; p < sw->n_ports; p++)
			kfree(sw->ports[p]);
		kfree(sw->ports);
		fab_free_routes(&sw->routes);
		fab_free_routes(&sw->next_routes);
		kvfree(sw->host_ports);
		kfree(sw);
	}
}

module_init(labfab_init);
module_exit(labfab_exit);
MODULE_DESCRIPTION("Fabric of NICs and switches in virtual time");
MODULE_LICENSE("GPL");
