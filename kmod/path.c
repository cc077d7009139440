// SPDX-License-Identifier: GPL-2.0
/*
 * What the flows of this host know together: the smallest fabric delay to a destination
 * (D10 of Documentation/paper.md). One table for all namespaces, of a fixed size, four slots for
 * the destinations of a hash. Who finds them taken goes by what his own flow saw; a slot whose
 * base was not turned for a window is free.
 *
 * Called for each ACK, from softirq: readers take no lock, and a writer comes rarely, when
 * a delay is smaller or a half window over. One who finds the lock taken lets it be: a
 * later ACK or drain tells it again.
 */
#include <linux/jhash.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <net/ipv6.h>
#include <net/netns/hash.h>

#include "swift_sock.h"

#define SWIFT_PATH_SETS 1024
#define SWIFT_PATH_WAYS 4
#define SWIFT_PATH_MSS_SHIFT 8 /* 256 bytes: 4 us on two links of 1 Gb/s */

struct swift_path {
	struct swift_base base;
	u32 key; /* 0 = nobody's */
	u32 least_ns; /* of all since it is this key's (D22) */
};

struct swift_path_set {
	struct swift_path ways[SWIFT_PATH_WAYS];
	spinlock_t lock; /* of the ways, for writers */
};

static struct swift_path_set *swift_paths __read_mostly;
static u32 swift_paths_seed __read_mostly;

/*
 * A destination of a namespace; never 0. Flows with an echo are apart from those without,
 * whose fabric delay has the other host's in it; and those of longer packets from those of
 * shorter ones (TCP_MAXSEG; peers behind one address), which are on each link for less time.
 */
u32 swift_path_key(const struct sock *sk, bool echo_on)
{
	u32 mss_class = tcp_sk(sk)->mss_cache >> SWIFT_PATH_MSS_SHIFT;
	u32 seed = swift_paths_seed ^ net_hash_mix(sock_net(sk)) ^ (mss_class << 1 | echo_on);
	u32 key;

#if IS_ENABLED(CONFIG_IPV6)
	if (sk->sk_family == AF_INET6 && !ipv6_addr_v4mapped(&sk->sk_v6_daddr))
		key = jhash2((const u32 *)sk->sk_v6_daddr.s6_addr32, 4, seed);
	else
#endif
		key = jhash_1word((__force u32)sk->sk_daddr, seed);
	return key ?: 1;
}

static struct swift_path_set *swift_path_set(u32 key)
{
	return &swift_paths[key % SWIFT_PATH_SETS];
}

static struct swift_path *swift_path_find(struct swift_path_set *set, u32 key)
{
	int i;

	for (i = 0; i < SWIFT_PATH_WAYS; i++)
		/* before the base that came with it */
		if (smp_load_acquire(&set->ways[i].key) == key)
			return &set->ways[i];
	return NULL;
}

/*
 * The smallest delay that this host saw there, when it last heard; 0 = unknown. @least_ns: where
 * not NULL, set to the smallest ever.
 */
u32 swift_path_base_of(u32 key, u32 *least_ns)
{
	const struct swift_path *path = swift_path_find(swift_path_set(key), key);
	u32 base_ns;

	if (least_ns)
		*least_ns = path ? READ_ONCE(path->least_ns) : 0;
	if (!path)
		return 0;
	base_ns = min(READ_ONCE(path->base.delay_ns[0]), READ_ONCE(path->base.delay_ns[1]));
	return base_ns == SWIFT_U32_MAX ? 0 : base_ns;
}

static u64 swift_path_age_ns(const struct swift_path *path, u64 now_ns)
{
	/* Without the lock: torn or old, it costs a lock taken in vain, or an ACK. */
	return data_race(swift_base_age_ns(&path->base, now_ns));
}

/* The slot of @key, or one that it may have. */
static struct swift_path *swift_path_slot(struct swift_path_set *set, u32 key,
					  const struct swift_params *p, u64 now_ns)
{
	struct swift_path *path = swift_path_find(set, key);
	int i;

	for (i = 0; !path && i < SWIFT_PATH_WAYS; i++)
		if (!READ_ONCE(set->ways[i].key) ||
		    swift_path_age_ns(&set->ways[i], now_ns) >= p->rtt_window_ns)
			path = &set->ways[i];
	return path;
}

static noinline void swift_path_tell(struct swift_path_set *set, u32 key,
				     const struct swift_params *p, u64 now_ns, u32 delay_ns,
				     u32 luck_ns)
{
	struct swift_path *path;

	if (!spin_trylock_bh(&set->lock))
		return;
	path = swift_path_slot(set, key, p, now_ns);
	if (path && path->key != key) {
		/*
		 * Nobody's while it changes hands. A reader that saw the old key may find
		 * the new base for one ACK, which it could as well have measured.
		 */
		WRITE_ONCE(path->key, 0);
		swift_base_init(&path->base);
		WRITE_ONCE(path->least_ns, 0);
		smp_store_release(&path->key, key); /* after the base is empty */
	}
	if (path) {
		swift_base_feed(&path->base, p, now_ns, delay_ns, luck_ns);
		if (!path->least_ns || delay_ns < path->least_ns)
			WRITE_ONCE(path->least_ns, delay_ns);
	}
	spin_unlock_bh(&set->lock);
}

/* @luck_ns: what of a smaller delay may be luck, see swift_base_feed(). */
void swift_path_learn(u32 key, const struct swift_params *p, u64 now_ns, u32 delay_ns,
		      u32 luck_ns)
{
	struct swift_path_set *set = swift_path_set(key);
	const struct swift_path *path = swift_path_slot(set, key, p, now_ns);

	/* As most are: nothing that is not known. */
	if (!path || (READ_ONCE(path->key) == key &&
		      delay_ns >= READ_ONCE(path->base.delay_ns[0]) &&
		      swift_path_age_ns(path, now_ns) < p->rtt_window_ns / 2))
		return;
	swift_path_tell(set, key, p, now_ns, delay_ns, luck_ns);
}

int swift_paths_create(void)
{
	int i;

	swift_paths = kvcalloc(SWIFT_PATH_SETS, sizeof(*swift_paths), GFP_KERNEL);
	if (!swift_paths)
		return -ENOMEM;
	for (i = 0; i < SWIFT_PATH_SETS; i++)
		spin_lock_init(&swift_paths[i].lock);
	swift_paths_seed = get_random_u32();
	return 0;
}

void swift_paths_destroy(void)
{
	kvfree(swift_paths);
}
