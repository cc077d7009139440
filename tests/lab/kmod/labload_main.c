// SPDX-License-Identifier: GPL-2.0
/*
 * labload.ko: load for the lab from kernel sockets, and what became of it. Control lines
 * and result files are described in Documentation/lab.md.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/debugfs.h>
#include <linux/module.h>
#include <linux/seq_file.h>

#include "args.h"
#include "labload.h"

struct load load;

static struct dentry *load_dir;

/* --- Groups, laws, forgetting ------------------------------------------------------------- */

static void load_forget(void)
{
	struct load_source *source, *next;
	u32 i;

	list_for_each_entry_safe(source, next, &load.sources, list)
		kfree(source);
	INIT_LIST_HEAD(&load.sources);
	for (i = 0; i < load.n_flows; i++)
		kfree(load.flows[i]);
	load.n_flows = 0;
	for (i = 0; i < LOAD_GROUPS_MAX; i++) {
		if (!load.groups[i])
			continue;
		xa_destroy(&load.groups[i]->idle);
		xa_destroy(&load.groups[i]->pairs);
		kvfree(load.groups[i]);
		load.groups[i] = NULL;
	}
	load.n_laws = 1;
	records_clear(&load.messages);
	records_clear(&load.samples);
	load.messages_lost = false;
	load.open_error = 0;
	load.window = LOAD_WINDOW_NONE;
	load.state = LOAD_NEW;
}

static struct load_group *load_group(u32 id)
{
	struct load_group *group = load.groups[id];

	if (group)
		return group;
	group = kvzalloc(sizeof(*group), GFP_KERNEL);
	if (!group)
		return NULL;
	group->id = id;
	xa_init(&group->idle);
	xa_init(&group->pairs);
	load.groups[id] = group;
	return group;
}

/* The number of @name among the laws; a new one gets the next. */
static int load_law(const char *name)
{
	u32 i;

	if (!name)
		return 0;
	for (i = 1; i < load.n_laws; i++) {
		if (!strcmp(name, load.laws[i]))
			return i;
	}
	if (i == LOAD_LAWS_MAX || strscpy(load.laws[i], name) < 0) {
		pr_err("cc=%s: too long, or one too many\n", name);
		return -ENOSPC;
	}
	return load.n_laws++;
}

/* --- Control lines ------------------------------------------------------------------------ */

static int load_refuse(int err, const char *why)
{
	pr_err("%s\n", why);
	return err;
}

static int load_check_times(u64 start_ns, u64 stop_ns)
{
	if (!stop_ns || stop_ns > start_ns)
		return 0;
	pr_err("stop_ns=%llu: not after start_ns\n", stop_ns);
	return -EINVAL;
}

/* Again before it has stopped, or without end, is not again. */
static int load_check_every(const struct load_flow *flow)
{
	if (!flow->every_ns)
		return 0;
	if (flow->late)
		return load_refuse(-EINVAL, "every_ns: of a connection that opens at start_ns");
	if (flow->stop_ns && flow->every_ns > flow->stop_ns - flow->start_ns)
		return 0;
	pr_err("every_ns=%llu: expected stop_ns, less than that after start_ns\n", flow->every_ns);
	return -EINVAL;
}

static int load_check_host(const char *key, u32 id)
{
	struct net *net = labfab_host_net(id);

	if (!net) {
		pr_err("%s=%u: no such host\n", key, id);
		return -ENOENT;
	}
	put_net(net);
	return 0;
}

static int load_parse_mode(const char *text, int *mode)
{
	static const char * const modes[] = {
		[LOAD_STREAM] = "stream", [LOAD_RPC] = "rpc", [LOAD_IDLE] = "idle",
	};

	*mode = text ? match_string(modes, ARRAY_SIZE(modes), text) : -EINVAL;
	if (*mode >= 0)
		return 0;
	pr_err("mode=%s: expected stream, rpc or idle\n", text ?: "");
	return -EINVAL;
}

static int load_parse_open(const char *text, struct load_flow *flow)
{
	flow->late = text && !strcmp(text, "start");
	if (!text || flow->late || !strcmp(text, "connect"))
		return 0;
	pr_err("open=%s: expected connect or start\n", text);
	return -EINVAL;
}

static int load_parse_dscp(const char *text, int *dscp)
{
	*dscp = -1;
	if (!text || (!kstrtoint(text, 10, dscp) && *dscp >= -1 && *dscp <= 63))
		return 0;
	pr_err("dscp=%s: expected -1 to 63\n", text);
	return -EINVAL;
}

static int load_parse_flow(char *line, struct load_flow *flow, u64 *group, char **cc)
{
	char *mode = NULL, *dscp = NULL, *open = NULL;
	struct lab_arg args[] = {
		LAB_NEEDED("group", 0, LOAD_GROUPS_MAX - 1, group),
		LAB_NEEDED("src", 0, LABFAB_HOSTS_MAX - 1, &flow->src),
		LAB_NEEDED("dst", 0, LABFAB_HOSTS_MAX - 1, &flow->dst),
		LAB_TEXT("mode", &mode),
		LAB_TEXT("open", &open),
		LAB_NUMBER("size", 1, LOAD_MESSAGE_BYTES_MAX, &flow->size),
		LAB_NUMBER("resp", 1, LOAD_MESSAGE_BYTES_MAX, &flow->resp),
		LAB_NUMBER("depth", 1, 65536, &flow->depth),
		LAB_NUMBER("start_ns", 0, LOAD_TIME_NS_MAX, &flow->start_ns),
		LAB_NUMBER("stop_ns", 0, LOAD_TIME_NS_MAX, &flow->stop_ns),
		LAB_NUMBER("every_ns", 0, LOAD_TIME_NS_MAX, &flow->every_ns),
		LAB_TEXT("cc", cc),
		LAB_TEXT("dscp", &dscp),
		LAB_NUMBER("sndbuf", 0, INT_MAX / 2, &flow->sndbuf),
		LAB_NUMBER("notsent", 1, INT_MAX, &flow->notsent),
		LAB_NUMBER("ipv6", 0, 1, &flow->ipv6),
	};
	int err = lab_parse(line, args, ARRAY_SIZE(args)) ?:
		  load_check_times(flow->start_ns, flow->stop_ns) ?:
		  load_parse_mode(mode, &flow->mode) ?: load_parse_dscp(dscp, &flow->dscp) ?:
		  load_parse_open(open, flow) ?: load_check_every(flow);

	if (err)
		return err;
	if (flow->src == flow->dst)
		return load_refuse(-EINVAL, "dst: is src");
	if (flow->late && flow->mode == LOAD_IDLE)
		return load_refuse(-EINVAL, "open=start: an idle flow has no start");
	return load_check_host("src", flow->src) ?: load_check_host("dst", flow->dst);
}

/* Behind the others of its pair of hosts; or it is the first, and stands for all. */
static int load_add_idle(struct load_group *group, struct load_flow *flow)
{
	unsigned long hosts = flow->src * LABFAB_HOSTS_MAX + flow->dst;
	struct load_flow *first = xa_load(&group->pairs, hosts);
	int err;

	if (first) {
		flow->pair = first->pair;
		first->pair = flow;
		return 0;
	}
	err = xa_err(xa_store(&group->pairs, hosts, flow, GFP_KERNEL)) ?:
	      xa_err(xa_store(&group->idle, group->n_idle, flow, GFP_KERNEL));
	if (!err)
		group->n_idle++;
	return err;
}

static int load_add_flow(struct load_flow *flow, u32 group_id, const char *cc)
{
	struct load_group *group;
	int law, err;

	if (load.state == LOAD_STOPPED)
		load_forget();
	if (load.state != LOAD_NEW)
		return load_refuse(-EEXIST, "flow: connected already");
	if (load.n_flows == LOAD_FLOWS_MAX)
		return load_refuse(-ENOSPC, "flow: too many");
	law = load_law(cc);
	if (law < 0)
		return law;
	group = load_group(group_id);
	if (!group)
		return -ENOMEM;
	if (flow->mode == LOAD_IDLE) {
		err = load_add_idle(group, flow);
		if (err)
			return err;
	}
	flow->group = group;
	flow->law = law;
	return load_flow_add(flow);
}

static int load_do_flow(char *line)
{
	struct load_flow *flow = kzalloc(sizeof(*flow), GFP_KERNEL);
	char *cc = NULL;
	u64 group;
	int err;

	if (!flow)
		return -ENOMEM;
	flow->size = 65536;
	flow->resp = 64;
	flow->depth = 1;
	flow->notsent = SZ_128K; /* two large segments at least are there when TCP may send */
	err = load_parse_flow(line, flow, &group, &cc) ?: load_add_flow(flow, group, cc);
	if (err)
		kfree(flow);
	return err;
}

/* The rest of a `poisson` line; its CDF is cut to pieces. */
static int load_add_source(struct load_source *about, char *cdf, u64 seed)
{
	u32 n_points = load_count_points(cdf);
	struct load_source *source;
	int err;

	if (n_points > LOAD_CDF_POINTS_MAX)
		return load_refuse(-ENOSPC, "cdf: too many points");
	source = kzalloc(struct_size(source, cdf, n_points), GFP_KERNEL);
	if (!source)
		return -ENOMEM;
	*source = *about;
	source->n_points = n_points;
	err = load_parse_cdf(source, cdf);
	if (err) {
		kfree(source);
		return err;
	}
	load_source_init(source, seed);
	list_add_tail(&source->list, &load.sources);
	return 0;
}

static int load_do_poisson(char *line)
{
	struct load_source about = {};
	u64 group, seed = 1;
	char *cdf = NULL;
	struct lab_arg args[] = {
		LAB_NEEDED("group", 0, LOAD_GROUPS_MAX - 1, &group),
		LAB_NEEDED("rate_mps", 100, 1000000000000, &about.rate_mps),
		LAB_TEXT("cdf", &cdf),
		LAB_NUMBER("pool", 1, LOAD_POOL_MAX, &about.pool),
		LAB_NUMBER("start_ns", 0, LOAD_TIME_NS_MAX, &about.start_ns),
		LAB_NUMBER("stop_ns", 0, LOAD_TIME_NS_MAX, &about.stop_ns),
		LAB_NUMBER("seed", 0, U64_MAX, &seed),
	};
	int err = lab_parse(line, args, ARRAY_SIZE(args)) ?:
		  load_check_times(about.start_ns, about.stop_ns);

	if (err)
		return err;
	if (load.state == LOAD_GOING || load.state == LOAD_STOPPED)
		return load_refuse(-EEXIST, "poisson: the load goes, or went");
	about.group = load.groups[group];
	if (!about.group || !about.group->n_idle)
		return load_refuse(-ENOENT, "group: has no idle flows");
	return cdf ? load_add_source(&about, cdf, seed) : load_refuse(-EINVAL, "cdf: missing");
}

static int load_do_connect(char *line)
{
	u64 port = LOAD_FIRST_PORT;
	struct lab_arg args[] = { LAB_NUMBER("port", 1024, U16_MAX, &port) };
	int err = lab_parse(line, args, ARRAY_SIZE(args));

	if (err)
		return err;
	if (load.state != LOAD_NEW)
		return load_refuse(-EEXIST, "connect: has been");
	if (!load.n_flows)
		return load_refuse(-ENOENT, "connect: no flows");
	load.first_port = port;
	err = load_connect();
	if (!err)
		load.state = LOAD_CONNECTED;
	return err;
}

static int load_do_go(char *line)
{
	u64 at_ns;
	struct lab_arg args[] = { LAB_NEEDED("at_ns", 1, S64_MAX - LOAD_TIME_NS_MAX, &at_ns) };
	int err = lab_parse(line, args, ARRAY_SIZE(args));

	if (err)
		return err;
	if (load.state != LOAD_CONNECTED)
		return load_refuse(load.state == LOAD_GOING ? -EEXIST : -ENOENT,
				   "go: once, after connect");
	if (at_ns < ktime_get_ns())
		return load_refuse(-EINVAL, "at_ns: past");
	load.go_ns = at_ns;
	load.state = LOAD_GOING;
	load_window_start();
	load_flows_start();
	return 0;
}

static int load_do_measure(char *line)
{
	u64 start, end, sample = 0;
	struct lab_arg args[] = {
		LAB_NEEDED("start_ns", 0, LOAD_TIME_NS_MAX, &start),
		LAB_NEEDED("stop_ns", 1, LOAD_TIME_NS_MAX, &end),
		LAB_NUMBER("sample_ns", 0, LOAD_TIME_NS_MAX, &sample),
	};
	int err = lab_parse(line, args, ARRAY_SIZE(args));

	if (err)
		return err;
	if (load.state != LOAD_CONNECTED && load.state != LOAD_GOING)
		return load_refuse(-ENOENT, "measure: not connected");
	return load_measure(start, end, sample);
}

/* Results stay until the next `flow`. */
static void load_stop(void)
{
	if (load.state != LOAD_CONNECTED && load.state != LOAD_GOING)
		return;
	load_flows_stop();
	load_window_stop();
	load_close();
	load.state = LOAD_STOPPED;
}

static int load_do_own(char *line)
{
	char *end = NULL;
	u64 flow, for_ns;
	struct lab_arg args[] = {
		LAB_NEEDED("flow", 0, LOAD_FLOWS_MAX - 1, &flow),
		LAB_NEEDED("for_ns", 1, NSEC_PER_SEC, &for_ns),
		LAB_TEXT("end", &end),
	};
	int err = lab_parse(line, args, ARRAY_SIZE(args));
	int side = end && !strcmp(end, "src") ? LOAD_CLIENT :
		   end && !strcmp(end, "dst") ? LOAD_SERVER : -1;

	if (err)
		return err;
	if (side < 0) {
		pr_err("end=%s: expected src or dst\n", end ?: "");
		return -EINVAL;
	}
	if (flow >= load.n_flows || (load.state != LOAD_CONNECTED && load.state != LOAD_GOING))
		return load_refuse(-ENOENT, "flow: no such connection");
	if (!load.flows[flow]->end[side].sock)
		return load_refuse(-ENOENT, "flow: not open yet");
	load_own(&load.flows[flow]->end[side], for_ns);
	return 0;
}

static int load_do_stop(char *line)
{
	int err = lab_parse(line, NULL, 0);

	if (!err)
		load_stop();
	return err;
}

static const struct lab_verb load_verbs[] = {
	{ "flow", load_do_flow },
	{ "poisson", load_do_poisson },
	{ "connect", load_do_connect },
	{ "go", load_do_go },
	{ "measure", load_do_measure },
	{ "own", load_do_own },
	{ "stop", load_do_stop },
};

static ssize_t load_control_write(struct file *file, const char __user *buf, size_t count,
				  loff_t *pos)
{
	ssize_t done;

	mutex_lock(&load.mutex);
	done = lab_control(buf, count, load_verbs, ARRAY_SIZE(load_verbs));
	mutex_unlock(&load.mutex);
	return done;
}

static const struct file_operations load_control_fops = {
	.owner = THIS_MODULE,
	.write = load_control_write,
};

/* --- Result files ----------------------------------------------------------------------------- */

static void *load_seq_start(struct seq_file *m, loff_t *pos)
{
	mutex_lock(&load.mutex);
	return *pos < load.n_flows ? load.flows[*pos] : NULL;
}

static void *load_seq_next(struct seq_file *m, void *v, loff_t *pos)
{
	++*pos;
	return *pos < load.n_flows ? load.flows[*pos] : NULL;
}

static void load_seq_stop(struct seq_file *m, void *v)
{
	mutex_unlock(&load.mutex);
}

static int load_seq_show(struct seq_file *m, void *v)
{
	const struct load_flow *flow = v;
	struct load_counters c;

	load_counters(flow, &c);
	seq_printf(m, "flow=%u group=%u src=%llu dst=%llu sport=%u dport=%u connected=%u",
		   flow->id, flow->group->id, flow->src, flow->dst, flow->sport, flow->dport,
		   c.connected);
	seq_printf(m, " rx_bytes=%llu messages=%llu retrans=%u rtos=%u cwnd_pkts=%u srtt_us=%u",
		   c.received, c.messages, c.retrans, c.rtos, c.cwnd_pkts, c.srtt_us);
	seq_printf(m, " fabric_ns=%u endpoint_ns=%u target_ns=%u fcwnd_q16=%u ecwnd_q16=%u",
		   c.law.fabric_ns & ~TCP_SWIFT_SOURCE_MASK,
		   c.law.endpoint_ns & ~TCP_SWIFT_SOURCE_MASK,
		   c.law.target_ns & ~TCP_SWIFT_CREDIT_MASK, c.law.fcwnd_q16, c.law.ecwnd_q16);
	seq_printf(m, " local_source=%u remote_source=%u\n",
		   c.law.fabric_ns & TCP_SWIFT_SOURCE_MASK,
		   c.law.endpoint_ns & TCP_SWIFT_SOURCE_MASK);
	return 0;
}

static const struct seq_operations load_flows_sops = {
	.start = load_seq_start,
	.next = load_seq_next,
	.stop = load_seq_stop,
	.show = load_seq_show,
};
DEFINE_SEQ_ATTRIBUTE(load_flows);

static void load_group_show(struct seq_file *m, const struct load_group *group)
{
	const struct hist *rtt = &group->rtt, *fct = &group->fct;

	seq_printf(m, "group=%u rtt_count=%llu rtt_sum_ns=%llu rtt_min_ns=%llu rtt_max_ns=%llu",
		   group->id, rtt->count, rtt->sum, rtt->min, rtt->max);
	seq_puts(m, " rtt_hist=");
	hist_show(m, rtt);
	seq_printf(m, " fct_count=%llu fct_sum_ns=%llu fct_max_ns=%llu fct_hist=",
		   fct->count, fct->sum, fct->max);
	hist_show(m, fct);
	seq_putc(m, '\n');
}

static int load_groups_show(struct seq_file *m, void *v)
{
	u32 i;

	mutex_lock(&load.mutex);
	spin_lock_bh(&load.lock);
	for (i = 0; i < LOAD_GROUPS_MAX; i++) {
		if (load.groups[i])
			load_group_show(m, load.groups[i]);
	}
	spin_unlock_bh(&load.lock);
	mutex_unlock(&load.mutex);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(load_groups);

static int load_totals_show(struct seq_file *m)
{
	struct load_counters sum = {}, c;
	u32 i, connected = 0;

	for (i = 0; i < load.n_flows; i++) {
		load_counters(load.flows[i], &c);
		connected += c.connected;
		sum.received += c.received;
		sum.messages += c.messages;
		sum.retrans += c.retrans;
	}
	seq_printf(m, "time_ns=%llu flows=%u connected=%u rx_bytes=%llu messages=%llu retrans=%u late_ns=%llu\n",
		   load.end_ns - load.start_ns, load.n_flows, connected, sum.received,
		   sum.messages, sum.retrans, load.late_ns);
	return 0;
}

static int load_wait_show(struct seq_file *m, void *v)
{
	int err;

	if (READ_ONCE(load.window) == LOAD_WINDOW_NONE)
		return load_refuse(-ENOENT, "wait: nothing is measured");
	err = wait_event_interruptible(load.wait, READ_ONCE(load.window) >= LOAD_WINDOW_OVER);
	if (err)
		return err;
	mutex_lock(&load.mutex);
	if (load.window != LOAD_WINDOW_OVER)
		err = -ECANCELED;
	else if (load.messages_lost)
		err = load_refuse(-ENOSPC, "messages: too many, some were not sent");
	else if (load.open_error)
		err = load_refuse(load.open_error, "a connection could not be opened late");
	else
		err = load_totals_show(m);
	mutex_unlock(&load.mutex);
	return err;
}
DEFINE_SHOW_ATTRIBUTE(load_wait);

DEFINE_SHOW_ATTRIBUTE(load_truth);

static ssize_t load_records_read(struct file *file, char __user *buf, size_t len, loff_t *pos)
{
	const struct records *records = file->private_data;
	ssize_t done;
	u64 count;

	mutex_lock(&load.mutex);
	spin_lock_bh(&load.lock);
	count = records->count;
	spin_unlock_bh(&load.lock);
	done = records_read(records, count, buf, len, pos);
	mutex_unlock(&load.mutex);
	return done;
}

static const struct file_operations load_records_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.read = load_records_read,
	.llseek = default_llseek,
};

static void load_make_files(void)
{
	load_dir = debugfs_create_dir(KBUILD_MODNAME, NULL);
	debugfs_create_file("control", 0200, load_dir, NULL, &load_control_fops);
	debugfs_create_file("wait", 0400, load_dir, NULL, &load_wait_fops);
	debugfs_create_file("flows", 0400, load_dir, NULL, &load_flows_fops);
	debugfs_create_file("groups", 0400, load_dir, NULL, &load_groups_fops);
	debugfs_create_file("truth", 0400, load_dir, NULL, &load_truth_fops);
	debugfs_create_file("messages", 0400, load_dir, &load.messages, &load_records_fops);
	debugfs_create_file("samples", 0400, load_dir, &load.samples, &load_records_fops);
}

/* --- Module ------------------------------------------------------------------------------- */

static void load_free(void)
{
	kvfree(load.flows);
	records_free(&load.messages);
	records_free(&load.samples);
}

static int __init load_init(void)
{
	int err;

	mutex_init(&load.mutex);
	spin_lock_init(&load.lock);
	init_waitqueue_head(&load.wait);
	xa_init(&load.by_port);
	INIT_LIST_HEAD(&load.sources);
	load.n_laws = 1;
	load_window_init();
	load.flows = kvcalloc(LOAD_FLOWS_MAX, sizeof(*load.flows), GFP_KERNEL);
	err = load.flows ? 0 : -ENOMEM;
	err = err ?: records_init(&load.messages) ?: records_init(&load.samples) ?:
	      load_truth_start();
	if (!err) {
		err = load_probe_start();
		if (err)
			load_truth_stop();
	}
	if (err)
		load_free();
	else
		load_make_files();
	return err;
}

static void __exit load_exit(void)
{
	debugfs_remove_recursive(load_dir);
	load_stop();
	load_probe_stop();
	load_truth_stop();
	load_forget();
	load_free();
}

module_init(load_init);
module_exit(load_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Load for the lab: kernel sockets at both ends, completion times, round trips");
