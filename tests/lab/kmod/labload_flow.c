// SPDX-License-Identifier: GPL-2.0
/*
 * What is to be sent when: streams, requests and their responses, messages that arrive
 * as a Poisson process. Integers only, and the same for the same seed.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/int_log.h>
#include <linux/math64.h>

#include "labload.h"

#define LOAD_PROBABILITY_ONE 1000000U
/* ln(2), in ns thousandths of a message each second. */
#define LOAD_LN2_NS_MPS 693147180560ULL

/* --- Messages: all under load.lock ----------------------------------------------------- */

static struct load_message *load_message(u32 number)
{
	return records_at(&load.messages, number - 1);
}

static void load_want(struct load_end *end, u64 goal)
{
	WRITE_ONCE(end->goal, goal);
	kthread_queue_work(load.worker, &end->work);
}

/* The client has @size more bytes to send. */
static void load_generate(struct load_flow *flow, u32 size, u64 now_ns)
{
	struct load_message *message = records_add(&load.messages);
	u32 number = load.messages.count;

	if (!message) {
		load.messages_lost = true;
		return;
	}
	*message = (struct load_message){ .flow = flow->id, .size = size, .start_ns = now_ns };
	if (flow->oldest)
		load_message(flow->newest)->next = number;
	else
		flow->oldest = number;
	flow->newest = number;
	load_want(&flow->end[LOAD_CLIENT], flow->end[LOAD_CLIENT].goal + size);
}

static void load_complete(struct load_flow *flow, u64 now_ns)
{
	struct load_message *message = load_message(flow->oldest);

	flow->oldest = message->next;
	message->next = 0;
	message->done_ns = now_ns;
	flow->messages++;
	if (load.window == LOAD_WINDOW_OPEN)
		hist_add(&flow->group->fct, now_ns - message->start_ns);
}

/* One way: complete with the last byte read. */
static void load_messages_arrived(struct load_flow *flow, struct load_end *server, u64 now_ns)
{
	while (flow->oldest && server->received >= server->boundary) {
		load_complete(flow, now_ns);
		if (flow->oldest)
			server->boundary += load_message(flow->oldest)->size;
		else
			server->boundary = U64_MAX;
	}
}

static void load_requests_arrived(struct load_flow *flow, struct load_end *server)
{
	while (server->received >= server->boundary) {
		server->boundary += flow->size;
		load_want(server, server->goal + flow->resp);
	}
}

static void load_responses_arrived(struct load_flow *flow, struct load_end *client, u64 now_ns)
{
	while (flow->oldest && client->received >= client->boundary) {
		client->boundary += flow->resp;
		load_complete(flow, now_ns);
		if (flow->running)
			load_generate(flow, flow->size, now_ns);
	}
}

/* @bytes were read. From softirqs, with the socket locked. */
void load_received(struct load_end *end, u32 bytes)
{
	struct load_flow *flow = end->flow;

	spin_lock_bh(&load.lock);
	end->received += bytes;
	if (end->received >= end->boundary) {
		if (flow->mode == LOAD_IDLE)
			load_messages_arrived(flow, end, load_now_ns());
		else if (end == &flow->end[LOAD_SERVER])
			load_requests_arrived(flow, end);
		else
			load_responses_arrived(flow, end, load_now_ns());
	}
	spin_unlock_bh(&load.lock);
}

/* --- Streams and requests ---------------------------------------------------------------- */

/* How many more requests may be outstanding: some of an earlier start may be under way. */
static u32 load_room(const struct load_flow *flow)
{
	u32 number, room = flow->depth;

	for (number = flow->oldest; number && room; number = load_message(number)->next)
		room--;
	return room;
}

static void load_flow_start(struct load_flow *flow)
{
	u32 room;

	flow->running = true;
	if (flow->late)
		kthread_queue_work(load.worker, &flow->open);
	if (flow->mode == LOAD_STREAM)
		load_want(&flow->end[LOAD_CLIENT], U64_MAX);
	for (room = flow->mode == LOAD_RPC ? load_room(flow) : 0; room; room--)
		load_generate(flow, flow->size, load_now_ns());
}

/* What TCP has taken, or was requested, is still delivered. */
static void load_flow_stop(struct load_flow *flow)
{
	flow->running = false;
	if (flow->mode == LOAD_STREAM)
		WRITE_ONCE(flow->end[LOAD_CLIENT].goal, 0);
}

static enum hrtimer_restart load_flow_timer(struct hrtimer *timer)
{
	struct load_flow *flow = container_of(timer, struct load_flow, timer);
	u64 next_ns = 0; /* from `go`; 0 = never */

	spin_lock_bh(&load.lock);
	if (flow->running) {
		load_flow_stop(flow);
		if (flow->every_ns)
			next_ns = flow->begin_ns += flow->every_ns;
	} else {
		load_flow_start(flow);
		if (flow->stop_ns)
			next_ns = flow->begin_ns + flow->stop_ns - flow->start_ns;
	}
	spin_unlock_bh(&load.lock);
	if (!next_ns)
		return HRTIMER_NORESTART;
	hrtimer_set_expires(timer, ns_to_ktime(load.go_ns + next_ns));
	return HRTIMER_RESTART;
}

/* --- Poisson arrivals ------------------------------------------------------------------------ */

static u32 load_below(struct rnd_state *rnd, u32 limit)
{
	return ((u64)prandom_u32_state(rnd) * limit) >> 32;
}

/* Exponential: -log2(U), U uniform in (0, 1), has the mean 1 / ln(2). */
static void load_next_arrival(struct load_source *source)
{
	u64 log_q24 = (32ULL << 24) - intlog2(prandom_u32_state(&source->rnd) ?: 1);
	u64 step_q24 = source->next_q24 +
		       mul_u64_u64_div_u64(log_q24, LOAD_LN2_NS_MPS, source->rate_mps);

	source->next_ns += step_q24 >> 24;
	source->next_q24 = step_q24 & GENMASK(23, 0);
}

/* The CDF's inverse, in millionths of 2^-32. */
static u32 load_draw_size(struct load_source *source)
{
	u64 p = (u64)prandom_u32_state(&source->rnd) * LOAD_PROBABILITY_ONE;
	u64 low, high;
	u32 i;

	for (i = 0; p >= (u64)source->cdf[i].probability << 32; i++)
		;
	if (!i)
		return max(source->cdf[0].size, 1U);
	low = (u64)source->cdf[i - 1].probability << 32;
	high = (u64)source->cdf[i].probability << 32;
	return max_t(u32, source->cdf[i - 1].size +
		     mul_u64_u64_div_u64(source->cdf[i].size - source->cdf[i - 1].size, p - low,
					 high - low), 1);
}

/* Another connection like @first, which opens now. Under load.lock. */
static struct load_flow *load_grow(struct load_flow *first)
{
	struct load_flow *flow = kzalloc(sizeof(*flow), GFP_ATOMIC);

	if (!flow)
		return NULL;
	flow->group = first->group;
	flow->mode = LOAD_IDLE;
	flow->src = first->src;
	flow->dst = first->dst;
	flow->sndbuf = first->sndbuf;
	flow->notsent = first->notsent;
	flow->ipv6 = first->ipv6;
	flow->dscp = first->dscp;
	flow->law = first->law;
	flow->late = true;
	if (load_flow_add(flow)) {
		kfree(flow);
		return NULL;
	}
	flow->pair = first->pair;
	first->pair = flow;
	kthread_queue_work(load.worker, &flow->open);
	return flow;
}

static u64 load_unread(const struct load_flow *flow)
{
	return flow->end[LOAD_CLIENT].goal - flow->end[LOAD_SERVER].received;
}

/*
 * One of a pair's connections that has nothing to do; else a new one, while the pool has
 * room; else the one with the least before it. Under load.lock.
 */
static struct load_flow *load_take(struct load_flow *first, u64 pool)
{
	struct load_flow *flow, *least = first;
	u64 n = 0;

	for (flow = first; flow; flow = flow->pair) {
		if (!flow->oldest)
			return flow;
		if (load_unread(flow) < load_unread(least))
			least = flow;
		n++;
	}
	return (n < pool ? load_grow(first) : NULL) ?: least;
}

static void load_source_arrival(struct load_source *source)
{
	u32 choice = load_below(&source->rnd, source->group->n_idle);
	struct load_flow *flow = xa_load(&source->group->idle, choice);
	u32 size = load_draw_size(source);

	spin_lock_bh(&load.lock);
	flow = load_take(flow, source->pool);
	/* All before this one has arrived: it ends where the flow's bytes end. */
	if (!flow->oldest)
		flow->end[LOAD_SERVER].boundary = flow->end[LOAD_CLIENT].goal + size;
	load_generate(flow, size, source->next_ns);
	spin_unlock_bh(&load.lock);
}

static enum hrtimer_restart load_source_timer(struct hrtimer *timer)
{
	struct load_source *source = container_of(timer, struct load_source, timer);

	load_source_arrival(source);
	load_next_arrival(source);
	if (source->stop_ns && source->next_ns >= source->stop_ns)
		return HRTIMER_NORESTART;
	hrtimer_set_expires(timer, ns_to_ktime(load.go_ns + source->next_ns));
	return HRTIMER_RESTART;
}

static void load_source_start(struct load_source *source)
{
	source->next_ns = source->start_ns;
	load_next_arrival(source);
	if (source->stop_ns && source->next_ns >= source->stop_ns)
		return;
	hrtimer_start(&source->timer, ns_to_ktime(load.go_ns + source->next_ns),
		      HRTIMER_MODE_ABS_SOFT);
}

/* --- Making them -------------------------------------------------------------------------- */

/* The next number is its. At run time under load.lock, as @flow's group is filled already. */
int load_flow_add(struct load_flow *flow)
{
	u32 id = load.n_flows;

	if (id == LOAD_FLOWS_MAX)
		return -ENOSPC;
	flow->id = id;
	load_flow_init(flow);
	load.flows[id] = flow;
	/* Whole before it is counted: readers take no lock. */
	smp_store_release(&load.n_flows, id + 1);
	return 0;
}

void load_flow_init(struct load_flow *flow)
{
	struct load_end *client = &flow->end[LOAD_CLIENT], *server = &flow->end[LOAD_SERVER];

	client->flow = flow;
	server->flow = flow;
	kthread_init_work(&client->work, load_end_work);
	kthread_init_work(&server->work, load_end_work);
	kthread_init_work(&flow->open, load_open_work);
	client->boundary = flow->mode == LOAD_RPC ? flow->resp : U64_MAX;
	server->boundary = flow->mode == LOAD_RPC ? flow->size : U64_MAX;
	hrtimer_init(&flow->timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
	flow->timer.function = load_flow_timer;
}

void load_source_init(struct load_source *source, u64 seed)
{
	int i;

	/* Seeds beside each other begin alike: draw some. */
	prandom_seed_state(&source->rnd, seed);
	for (i = 0; i < 32; i++)
		prandom_u32_state(&source->rnd);
	hrtimer_init(&source->timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
	source->timer.function = load_source_timer;
}

u32 load_count_points(const char *cdf)
{
	u32 n = 1;

	for (; *cdf; cdf++)
		n += *cdf == ',';
	return n;
}

/* "SIZE:PROB,..." with source->n_points points. */
int load_parse_cdf(struct load_source *source, char *text)
{
	u32 i, size, probability, last_size = 0, last_probability = 0;
	char *point, *first;

	for (i = 0; i < source->n_points; i++) {
		point = strsep(&text, ",");
		first = strsep(&point, ":");
		if (!point || kstrtou32(first, 10, &size) || kstrtou32(point, 10, &probability) ||
		    size < last_size || size > LOAD_MESSAGE_BYTES_MAX ||
		    probability < last_probability || probability > LOAD_PROBABILITY_ONE)
			goto bad;
		last_size = size;
		last_probability = probability;
		source->cdf[i].size = size;
		source->cdf[i].probability = probability;
	}
	if (last_probability == LOAD_PROBABILITY_ONE)
		return 0;
bad:
	pr_err("cdf: expected SIZE:PROB,..., both ascending, up to %u:%u\n",
	       LOAD_MESSAGE_BYTES_MAX, LOAD_PROBABILITY_ONE);
	return -EINVAL;
}

/* --- All together ----------------------------------------------------------------------------- */

void load_flows_start(void)
{
	struct load_source *source;
	struct load_flow *flow;
	u32 i;

	for (i = 0; i < load.n_flows; i++) {
		flow = load.flows[i];
		flow->begin_ns = flow->start_ns;
		if (flow->mode != LOAD_IDLE)
			hrtimer_start(&flow->timer, ns_to_ktime(load.go_ns + flow->start_ns),
				      HRTIMER_MODE_ABS_SOFT);
	}
	list_for_each_entry(source, &load.sources, list)
		load_source_start(source);
}

void load_flows_stop(void)
{
	struct load_source *source;
	u32 i;

	for (i = 0; i < load.n_flows; i++)
		hrtimer_cancel(&load.flows[i]->timer);
	list_for_each_entry(source, &load.sources, list)
		hrtimer_cancel(&source->timer);
}
