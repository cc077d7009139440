// SPDX-License-Identifier: GPL-2.0
/*
 * Kernel sockets at both ends. What a packet brings is read in softirq, where it came;
 * sending, accepting, and reading when the socket is owned are the worker's.
 *
 * sk_user_data and the callbacks change with the socket locked and sk_callback_lock
 * written: TCP's paths hold the one, a listener's callback the other.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/bvec.h>
#include <linux/uio.h>
#include <net/ip.h>

#include "labload.h"

#define LOAD_SERVER_PORT 5000 /* one more for each further law */
#define LOAD_BACKLOG 4096
#define LOAD_CONNECT_TIMEOUT_NS (30 * NSEC_PER_SEC)
/* As many handshakes at once drop nothing, and overflow no queue. */
#define LOAD_HANDSHAKES_MAX 64

#define LOAD_BUFFER_BYTES SZ_64K
#define LOAD_SEND_BYTES SZ_256K

struct load_listener {
	struct socket *sock;
	struct kthread_work work;
};

enum load_family { LOAD_IPV4, LOAD_IPV6, LOAD_FAMILIES };

struct load_host {
	struct net *net; /* held */
	u32 next_port;
	struct load_listener *listener[LOAD_FAMILIES][LOAD_LAWS_MAX];
};

/* What is sent: byte n of a stream is byte n % LOAD_BUFFER_BYTES here. */
static struct page *load_buffer;
static struct bio_vec load_buffers[LOAD_SEND_BYTES / LOAD_BUFFER_BYTES + 1];

/* The callbacks that a TCP socket comes with. */
static void (*load_plain_data_ready)(struct sock *sk);
static void (*load_plain_write_space)(struct sock *sk);
static void (*load_plain_state_change)(struct sock *sk);

static int load_address(struct sockaddr_storage *to, u32 host, u16 port, bool ipv6)
{
	struct sockaddr_in6 *sin6 = (struct sockaddr_in6 *)to;
	struct sockaddr_in *sin = (struct sockaddr_in *)to;

	memset(to, 0, sizeof(*to));
	if (ipv6) {
		sin6->sin6_family = AF_INET6;
		sin6->sin6_addr = labfab_host_addr6(host);
		sin6->sin6_port = htons(port);
		return sizeof(*sin6);
	}
	sin->sin_family = AF_INET;
	sin->sin_addr.s_addr = labfab_host_addr(host);
	sin->sin_port = htons(port);
	return sizeof(*sin);
}

static unsigned long load_port_key(u32 host, u16 port)
{
	return (unsigned long)host << 16 | port;
}

/* --- Receiving ----------------------------------------------------------------------- */

static int load_discard(read_descriptor_t *desc, struct sk_buff *skb, unsigned int offset,
			size_t len)
{
	return len;
}

/* With the socket locked, one way or the other. */
static void load_read(struct load_end *end, struct sock *sk)
{
	read_descriptor_t desc = { .count = 1 };
	int bytes = tcp_read_sock(sk, &desc, load_discard);

	if (bytes > 0)
		load_received(end, bytes);
}

void load_data_ready(struct sock *sk)
{
	struct load_end *end;

	read_lock_bh(&sk->sk_callback_lock);
	end = sk->sk_user_data;
	if (end && sock_owned_by_user_nocheck(sk))
		kthread_queue_work(load.worker, &end->work);
	else if (end)
		load_read(end, sk);
	read_unlock_bh(&sk->sk_callback_lock);
}

/* --- Sending ------------------------------------------------------------------------- */

static void load_write_space(struct sock *sk)
{
	struct load_end *end;

	read_lock_bh(&sk->sk_callback_lock);
	end = sk->sk_user_data;
	if (end && __sk_stream_is_writeable(sk, 1)) {
		clear_bit(SOCK_NOSPACE, &sk->sk_socket->flags);
		kthread_queue_work(load.worker, &end->work);
	}
	read_unlock_bh(&sk->sk_callback_lock);
}

/* Of a client that opened late: what it was to send meanwhile it sends now. */
static void load_state_change(struct sock *sk)
{
	struct load_end *end;

	read_lock_bh(&sk->sk_callback_lock);
	end = sk->sk_user_data;
	if (end && sk->sk_state == TCP_ESTABLISHED)
		kthread_queue_work(load.worker, &end->work);
	read_unlock_bh(&sk->sk_callback_lock);
	load_plain_state_change(sk);
}

static int load_send_some(struct load_end *end, u32 bytes)
{
	struct msghdr msg = {
		.msg_flags = MSG_DONTWAIT | MSG_NOSIGNAL | MSG_SPLICE_PAGES | MSG_NO_SHARED_FRAGS,
	};
	u32 offset = end->sent % LOAD_BUFFER_BYTES;

	iov_iter_bvec(&msg.msg_iter, ITER_SOURCE, load_buffers, ARRAY_SIZE(load_buffers),
		      offset + bytes);
	iov_iter_advance(&msg.msg_iter, offset);
	return sock_sendmsg(end->sock, &msg);
}

/* What TCP does not take now it will ask for: load_write_space(). */
static void load_send(struct load_end *end)
{
	u64 goal;
	u32 bytes;
	int sent;

	while (end->sent < (goal = READ_ONCE(end->goal))) {
		bytes = min_t(u64, goal - end->sent, LOAD_SEND_BYTES);
		sent = load_send_some(end, bytes);
		if (sent > 0)
			end->sent += sent;
		if (sent != bytes)
			break;
	}
}

void load_end_work(struct kthread_work *work)
{
	struct load_end *end = container_of(work, struct load_end, work);
	struct sock *sk;

	if (!end->sock) /* it opens late */
		return;
	sk = end->sock->sk;
	if (!skb_queue_empty_lockless(&sk->sk_receive_queue)) {
		lock_sock(sk);
		load_read(end, sk);
		release_sock(sk);
	}
	load_send(end);
}

/* As a process that is in the middle of something: what comes meanwhile waits. */
void load_own(struct load_end *end, u64 for_ns)
{
	ktime_t until = ktime_add_ns(ktime_get(), for_ns);

	lock_sock(end->sock->sk);
	set_current_state(TASK_UNINTERRUPTIBLE);
	schedule_hrtimeout_range(&until, 0, HRTIMER_MODE_ABS);
	release_sock(end->sock->sk);
}

/* --- Taking sockets, and giving them back -------------------------------------------------- */

static int load_option(struct socket *sock, int level, int name, void *value, int len)
{
	return do_sock_setsockopt(sock, false, level, name, KERNEL_SOCKPTR(value), len);
}

static int load_set_law(struct socket *sock, u32 law)
{
	char *name = load.laws[law];
	int err;

	if (!law)
		return 0;
	err = load_option(sock, SOL_TCP, TCP_CONGESTION, name, strlen(name));
	if (err)
		pr_err("cc=%s: cannot be set (%d)\n", name, err);
	return err;
}

/* A stream leaves Nagle on: it sends full segments. */
static int load_set_options(const struct load_flow *flow, struct socket *sock)
{
	int notsent = flow->notsent, sndbuf = flow->sndbuf, tos = flow->dscp << 2;
	int err;

	err = load_option(sock, SOL_TCP, TCP_NOTSENT_LOWAT, &notsent, sizeof(notsent));
	if (!err && flow->mode != LOAD_STREAM)
		tcp_sock_set_nodelay(sock->sk);
	if (!err && sndbuf)
		err = load_option(sock, SOL_SOCKET, SO_SNDBUFFORCE, &sndbuf, sizeof(sndbuf));
	if (!err && tos >= 0 && flow->ipv6)
		err = load_option(sock, SOL_IPV6, IPV6_TCLASS, &tos, sizeof(tos));
	else if (!err && tos >= 0)
		ip_sock_set_tos(sock->sk, tos);
	return err;
}

static void load_set_callbacks(struct sock *sk, void *user, void (*data_ready)(struct sock *sk),
			       void (*write_space)(struct sock *sk))
{
	lock_sock(sk);
	write_lock_bh(&sk->sk_callback_lock);
	sk->sk_user_data = user;
	WRITE_ONCE(sk->sk_data_ready, data_ready);
	WRITE_ONCE(sk->sk_write_space, write_space);
	write_unlock_bh(&sk->sk_callback_lock);
	release_sock(sk);
}

static void load_attach(struct load_end *end, struct socket *sock)
{
	end->sock = sock;
	load_set_callbacks(sock->sk, end, load_data_ready, load_write_space);
}

/*
 * Reset, not closed: nothing lingers, neither ports nor sockets, and a namespace can go
 * at once. No callback finds its way to the worker any more when it lets go of the work.
 */
static void load_drop(struct socket *sock, struct kthread_work *work)
{
	load_set_callbacks(sock->sk, NULL, load_plain_data_ready, load_plain_write_space);
	if (sock->sk->sk_state_change == load_state_change)
		WRITE_ONCE(sock->sk->sk_state_change, load_plain_state_change);
	if (work)
		kthread_cancel_work_sync(work);
	sock_no_linger(sock->sk);
	sock_release(sock);
}

/* --- Accepting -------------------------------------------------------------------------------- */

static struct load_flow *load_flow_of(struct socket *sock)
{
	struct sockaddr_storage peer;
	u32 host;
	u16 port;

	if (kernel_getpeername(sock, (struct sockaddr *)&peer) < 0)
		return NULL;
	if (peer.ss_family == AF_INET6) {
		const struct sockaddr_in6 *sin6 = (struct sockaddr_in6 *)&peer;

		host = ntohl(sin6->sin6_addr.s6_addr32[3]) - 1;
		port = ntohs(sin6->sin6_port);
	} else {
		const struct sockaddr_in *sin = (struct sockaddr_in *)&peer;

		host = ntohl(sin->sin_addr.s_addr) - ntohl(labfab_host_addr(0));
		port = ntohs(sin->sin_port);
	}
	return xa_load(&load.by_port, load_port_key(host, port));
}

static void load_accepted(struct socket *sock)
{
	struct load_flow *flow = load_flow_of(sock);

	if (!flow || flow->end[LOAD_SERVER].sock || load_set_options(flow, sock)) {
		load_drop(sock, NULL);
		return;
	}
	load_attach(&flow->end[LOAD_SERVER], sock);
	WRITE_ONCE(load.connected, load.connected + 1);
	wake_up(&load.wait);
}

static void load_listener_work(struct kthread_work *work)
{
	struct load_listener *listener = container_of(work, struct load_listener, work);
	struct socket *sock;

	while (!kernel_accept(listener->sock, &sock, O_NONBLOCK))
		load_accepted(sock);
}

/* Children inherit this until they are accepted: it means nothing to them. */
static void load_accept_ready(struct sock *sk)
{
	struct load_listener *listener;

	read_lock_bh(&sk->sk_callback_lock);
	listener = sk->sk_user_data;
	if (listener && sk->sk_state == TCP_LISTEN)
		kthread_queue_work(load.worker, &listener->work);
	read_unlock_bh(&sk->sk_callback_lock);
}

/*
 * A listener for each law: the children have its law from the start, and laws that
 * negotiate in the handshake find themselves there.
 */
static int load_listen(const struct load_flow *flow, struct load_host *host)
{
	struct load_listener **slot = &host->listener[flow->ipv6][flow->law];
	struct load_listener *listener;
	struct sockaddr_storage addr;
	int len, err;

	if (*slot)
		return 0;
	listener = kzalloc(sizeof(*listener), GFP_KERNEL);
	if (!listener)
		return -ENOMEM;
	kthread_init_work(&listener->work, load_listener_work);
	err = sock_create_kern(host->net, flow->ipv6 ? AF_INET6 : AF_INET, SOCK_STREAM,
			       IPPROTO_TCP, &listener->sock);
	if (err) {
		kfree(listener);
		return err;
	}
	load_plain_data_ready = listener->sock->sk->sk_data_ready;
	load_plain_write_space = listener->sock->sk->sk_write_space;
	load_set_callbacks(listener->sock->sk, listener, load_accept_ready,
			   load_plain_write_space);
	*slot = listener;

	len = load_address(&addr, flow->dst, flow->dport, flow->ipv6);
	err = load_set_law(listener->sock, flow->law);
	if (!err)
		err = kernel_bind(listener->sock, (struct sockaddr *)&addr, len);
	if (!err)
		err = kernel_listen(listener->sock, LOAD_BACKLOG);
	return err;
}

/* --- Connecting ------------------------------------------------------------------------------- */

/* The fabric's ECMP hashes the source port: it is the same in each run of a seed. */
static int load_bind(struct load_flow *flow, struct socket *sock)
{
	struct load_host *host = &load.hosts[flow->src];
	struct sockaddr_storage addr;
	int len, err;

	do {
		if (host->next_port > U16_MAX)
			return -EADDRNOTAVAIL;
		flow->sport = host->next_port++;
		len = load_address(&addr, flow->src, flow->sport, flow->ipv6);
		err = kernel_bind(sock, (struct sockaddr *)&addr, len);
	} while (err == -EADDRINUSE);
	return err;
}

static struct load_host *load_host(u32 id)
{
	struct load_host *host = &load.hosts[id];

	int err;

	if (host->net)
		return host;
	host->net = labfab_host_net(id);
	if (!host->net)
		return ERR_PTR(-ENOENT);
	host->next_port = load.first_port;
	err = load_truth_host_start(host->net);
	if (err) {
		put_net(host->net);
		host->net = NULL;
		return ERR_PTR(err);
	}
	return host;
}

static int load_connect_flow(struct load_flow *flow)
{
	struct load_host *src = load_host(flow->src), *dst = load_host(flow->dst);
	struct sockaddr_storage addr;
	struct socket *sock;
	int len, err;

	if (IS_ERR(src) || IS_ERR(dst))
		return IS_ERR(src) ? PTR_ERR(src) : PTR_ERR(dst);
	flow->dport = LOAD_SERVER_PORT + flow->law;
	err = load_listen(flow, dst);
	if (err)
		return err;
	err = sock_create_kern(src->net, flow->ipv6 ? AF_INET6 : AF_INET, SOCK_STREAM,
			       IPPROTO_TCP, &sock);
	if (err)
		return err;
	load_attach(&flow->end[LOAD_CLIENT], sock);
	if (flow->late) {
		load_plain_state_change = sock->sk->sk_state_change;
		WRITE_ONCE(sock->sk->sk_state_change, load_state_change);
	}

	err = load_set_law(sock, flow->law) ?: load_set_options(flow, sock) ?:
	      load_bind(flow, sock);
	if (!err)
		err = xa_err(xa_store(&load.by_port, load_port_key(flow->src, flow->sport), flow,
				      GFP_KERNEL));
	if (err)
		return err;
	len = load_address(&addr, flow->dst, flow->dport, flow->ipv6);
	err = kernel_connect(sock, (struct sockaddr *)&addr, len, O_NONBLOCK);
	return err == -EINPROGRESS ? 0 : err;
}

/* While the load goes. */
void load_open_work(struct kthread_work *work)
{
	struct load_flow *flow = container_of(work, struct load_flow, open);
	int err = load_connect_flow(flow);

	if (!err)
		return;
	pr_err("flow %u: opened late: %d\n", flow->id, err);
	load.open_error = err;
}

/* Until @n are connected. */
static int load_wait_connected(u32 n, ktime_t deadline)
{
	ktime_t left = max(ktime_sub(deadline, ktime_get()), 1);
	int err = wait_event_interruptible_hrtimeout(load.wait, READ_ONCE(load.connected) >= n,
						     left);

	return err == -ETIME ? -ETIMEDOUT : err;
}

static int load_connect_all(void)
{
	ktime_t deadline = ktime_add_ns(ktime_get(), LOAD_CONNECT_TIMEOUT_NS);
	u32 i, n = 0;
	int err = 0;

	for (i = 0; i < load.n_flows && !err; i++) {
		if (load.flows[i]->late)
			continue;
		if (n >= LOAD_HANDSHAKES_MAX)
			err = load_wait_connected(n - LOAD_HANDSHAKES_MAX + 1, deadline);
		err = err ?: load_connect_flow(load.flows[i]);
		n++;
	}
	err = err ?: load_wait_connected(n, deadline);
	if (err)
		pr_err("connect: flow %u: %d, %u of %u connected\n", i - 1, err, load.connected,
		       load.n_flows);
	return err;
}

static int load_prepare(void)
{
	int i;

	load.hosts = kvcalloc(LABFAB_HOSTS_MAX, sizeof(*load.hosts), GFP_KERNEL);
	load_buffer = alloc_pages(GFP_KERNEL | __GFP_COMP | __GFP_ZERO,
				  get_order(LOAD_BUFFER_BYTES));
	load.worker = kthread_create_worker(0, KBUILD_MODNAME);
	if (!load.hosts || !load_buffer || IS_ERR(load.worker))
		return -ENOMEM;
	for (i = 0; i < ARRAY_SIZE(load_buffers); i++)
		bvec_set_page(&load_buffers[i], load_buffer, LOAD_BUFFER_BYTES, 0);
	return 0;
}

/* All or nothing. */
int load_connect(void)
{
	int err = load_prepare() ?: load_connect_all();

	if (err)
		load_close();
	return err;
}

static void load_close_host(struct load_host *host)
{
	struct load_listener *listener;
	int i;

	for (i = 0; i < LOAD_FAMILIES * LOAD_LAWS_MAX; i++) {
		listener = host->listener[i / LOAD_LAWS_MAX][i % LOAD_LAWS_MAX];
		if (!listener)
			continue;
		load_drop(listener->sock, &listener->work);
		kfree(listener);
	}
}

/* Listeners first, so that no socket comes after. The timers are still already. */
void load_close(void)
{
	struct load_end *end;
	u32 i;

	for (i = 0; i < load.n_flows; i++)
		kthread_cancel_work_sync(&load.flows[i]->open);
	for (i = 0; load.hosts && i < LABFAB_HOSTS_MAX; i++)
		load_close_host(&load.hosts[i]);
	for (i = 0; i < load.n_flows * LOAD_SIDES; i++) {
		end = &load.flows[i / LOAD_SIDES]->end[i % LOAD_SIDES];
		kthread_cancel_work_sync(&end->work);
		if (end->sock)
			load_drop(end->sock, &end->work);
		end->sock = NULL;
	}
	load.connected = 0;
	xa_destroy(&load.by_port);
	if (!IS_ERR_OR_NULL(load.worker))
		kthread_destroy_worker(load.worker);
	load.worker = NULL;
	for (i = 0; load.hosts && i < LABFAB_HOSTS_MAX; i++) {
		if (!load.hosts[i].net)
			continue;
		load_truth_host_stop(load.hosts[i].net);
		put_net(load.hosts[i].net);
	}
	kvfree(load.hosts);
	load.hosts = NULL;
	if (load_buffer)
		__free_pages(load_buffer, get_order(LOAD_BUFFER_BYTES));
	load_buffer = NULL;
}
