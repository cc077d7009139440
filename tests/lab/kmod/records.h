/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A growing table of 32-byte records, for user space to read as one blob. It is made of
 * pages, so that it can grow where nobody may sleep. Its user has a lock around it.
 */
#ifndef LAB_RECORDS_H
#define LAB_RECORDS_H

#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/uaccess.h>

#define RECORD_BYTES 32
#define RECORDS_A_PAGE (PAGE_SIZE / RECORD_BYTES)
#define RECORDS_PAGES (SZ_256M / PAGE_SIZE)
#define RECORDS_MAX (RECORDS_PAGES * RECORDS_A_PAGE)

struct records {
	void **pages; /* RECORDS_PAGES of them, NULL until needed */
	u64 count;
};

static inline int records_init(struct records *r)
{
	r->pages = kvcalloc(RECORDS_PAGES, sizeof(*r->pages), GFP_KERNEL);
	return r->pages ? 0 : -ENOMEM;
}

static inline void records_clear(struct records *r)
{
	unsigned long i;

	for (i = 0; i < RECORDS_PAGES && r->pages[i]; i++) {
		free_page((unsigned long)r->pages[i]);
		r->pages[i] = NULL;
	}
	r->count = 0;
}

static inline void records_free(struct records *r)
{
	if (r->pages)
		records_clear(r);
	kvfree(r->pages);
}

static inline void *records_at(const struct records *r, u64 i)
{
	return r->pages[i / RECORDS_A_PAGE] + i % RECORDS_A_PAGE * RECORD_BYTES;
}

/* Room for @n in all: later no allocation can fail. */
static inline int records_reserve(struct records *r, u64 n)
{
	u64 i;

	if (n > RECORDS_MAX)
		return -ENOSPC;
	for (i = 0; i < DIV_ROUND_UP_ULL(n, RECORDS_A_PAGE); i++) {
		if (r->pages[i])
			continue;
		r->pages[i] = (void *)get_zeroed_page(GFP_KERNEL);
		if (!r->pages[i])
			return -ENOMEM;
	}
	return 0;
}

/* A new record, zeroed or with what was there before records_reserve(); NULL if full. */
static inline void *records_add(struct records *r)
{
	u64 page = r->count / RECORDS_A_PAGE;

	if (page >= RECORDS_PAGES)
		return NULL;
	if (!r->pages[page])
		r->pages[page] = (void *)get_zeroed_page(GFP_ATOMIC | __GFP_NOWARN);
	return r->pages[page] ? records_at(r, r->count++) : NULL;
}

/* For read(2), of the first @count records. */
static inline ssize_t records_read(const struct records *r, u64 count, char __user *buf,
				   size_t len, loff_t *pos)
{
	u64 size = count * RECORD_BYTES;
	size_t done = 0, n;

	if (*pos < 0 || *pos >= size)
		return 0;
	for (len = min_t(u64, len, size - *pos); done < len; done += n, *pos += n) {
		n = min_t(size_t, len - done, PAGE_SIZE - offset_in_page(*pos));
		if (copy_to_user(buf + done, r->pages[*pos / PAGE_SIZE] + offset_in_page(*pos), n))
			return done ?: -EFAULT;
	}
	return done;
}

#endif /* LAB_RECORDS_H */
