// SPDX-License-Identifier: GPL-2.0
/*
 * What the flows of this host know together: the smallest fabric delay to a destination
 * (D10 of Documentation/paper.md). One table for all namespaces, of a fixed size, a slot a
 * destination. Who finds his slot taken goes by what his own flow saw; a slot whose base
 * was not turned for a window is free.
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

#define SWIFT_PATHS 4096

struct swift_path {
	spinlock_t lock; /* of what follows, for writers */
	u32 key;
	struct swift_base base;
};

static struct swift_path *swift_paths __read_mostly;
static u32 swift_paths_seed __read_mostly;

/*
 * A destination of a namespace; never 0. Flows with an echo are apart from those without,
 * whose fabric delay has the other host's in it.
 */
u32 swift_path_key(const struct sock *sk, bool echo_on)
{
	u32 seed = swift_paths_seed ^ net_hash_mix(sock_net(sk)) ^ echo_on;
	u32 key;

#if IS_ENABLED(CONFIG_IPV6)
	if (sk->sk_family == AF_INET6 && !ipv6_addr_v4mapped(&sk->sk_v6_daddr))
		key = jhash2((const u32 *)sk->sk_v6_daddr.s6_addr32, 4, seed);
	else
#endif
		key = jhash_1word((__force u32)sk->sk_daddr, seed);
	return key ?: 1;
}

/* The smallest delay that this host saw there, when it last heard; 0 = unknown. */
u32 swift_path_base_of(u32 key)
{
	const struct swift_path *path = &swift_paths[key % SWIFT_PATHS];
	u32 base_ns;

	if (smp_load_acquire(&path->key) != key) /* before the base that came with it */
		return 0;
	base_ns = min(READ_ONCE(path->base.delay_ns[0]), READ_ONCE(path->base.delay_ns[1]));
	return base_ns == SWIFT_U32_MAX ? 0 : base_ns;
}

static noinline void swift_path_tell(struct swift_path *path, u32 key,
				     const struct swift_params *p, u64 now_ns, u32 delay_ns)
{
	if (!spin_trylock_bh(&path->lock))
		return;
	if (path->key != key &&
	    (!path->key || swift_base_age_ns(&path->base, now_ns) >= p->rtt_window_ns)) {
		/*
		 * Nobody's while it changes hands. A reader that saw the old key may find
		 * the new base for one ACK, which it could as well have measured.
		 */
		WRITE_ONCE(path->key, 0);
		swift_base_init(&path->base);
		smp_store_release(&path->key, key); /* after the base is empty */
	}
	if (path->key == key)
		swift_base_feed(&path->base, p, now_ns, delay_ns);
	spin_unlock_bh(&path->lock);
}

void swift_path_learn(u32 key, const struct swift_params *p, u64 now_ns, u32 delay_ns)
{
	struct swift_path *path = &swift_paths[key % SWIFT_PATHS];
	u32 owner = READ_ONCE(path->key);
	/* Torn or old, it costs no more than a lock taken in vain, or an ACK later. */
	u64 age_ns = data_race(swift_base_age_ns(&path->base, now_ns));

	/* As most are: nothing that is not known. */
	if (owner == key && delay_ns >= READ_ONCE(path->base.delay_ns[0]) &&
	    age_ns < p->rtt_window_ns / 2)
		return;
	if (owner && owner != key && age_ns < p->rtt_window_ns)
		return;
	swift_path_tell(path, key, p, now_ns, delay_ns);
}

int swift_paths_create(void)
{
	int i;

	swift_paths = kvcalloc(SWIFT_PATHS, sizeof(*swift_paths), GFP_KERNEL);
	if (!swift_paths)
		return -ENOMEM;
	for (i = 0; i < SWIFT_PATHS; i++) {
		spin_lock_init(&swift_paths[i].lock);
		swift_base_init(&swift_paths[i].base);
	}
	swift_paths_seed = get_random_u32();
	return 0;
}

void swift_paths_destroy(void)
{
	kvfree(swift_paths);
}
