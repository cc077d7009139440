/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The TCP option that reflects remote delay and hop count: bytes to values and
 * back (paper, appendix B; RFC 6994 for the shared kind and the ExID). Whether
 * an option may be sent is the business of the shells.
 *
 *   offer, on SYN and SYN-ACK        echo, on pure ACKs
 *   +------+-----+-----------+       +------+-----+-----------+-------+-----------+
 *   | 253  |  4  |  0x5357   |       | 253  |  8  |  0x5357   | flags | delay, in |
 *   +------+-----+-----------+       |      |     |           | hops  |  64 ns    |
 *                                    +------+-----+-----------+-------+-----------+
 *                                      1      1        2          1        3 bytes
 */
#ifndef SWIFT_CORE_OPTION_H
#define SWIFT_CORE_OPTION_H

#include "types.h"

#define SWIFT_OPT_KIND 253
#define SWIFT_OPT_EXID 0x5357 /* "SW" */
#define SWIFT_OPT_OFFER_LEN 4
#define SWIFT_OPT_ECHO_LEN 8
#define SWIFT_OPT_SPACE 40 /* all options of one TCP header, bytes */

#define SWIFT_OPT_FLAG_HW 0x80 /* the receive stamp (t2) came from the NIC */
#define SWIFT_OPT_FLAG_RESERVED 0x40 /* sent as 0, ignored on receipt */
#define SWIFT_OPT_HOPS_MASK 0x3f

#define SWIFT_OPT_DELAY_SHIFT 6 /* 64 ns */
#define SWIFT_OPT_DELAY_MAX 0xffffffU /* 1.07 s: "that much or more" */

enum swift_opt_kind {
	SWIFT_OPT_NONE,
	SWIFT_OPT_OFFER,
	SWIFT_OPT_ECHO,
	SWIFT_OPT_MALFORMED, /* ours, but truncated, of a wrong length, or twice */
};

struct swift_opt {
	u32 remote_ns; /* 0 .. 1.07e9, in steps of 64 */
	u8 hops; /* 0 .. 63, as the peer claims */
	bool hw; /* the peer's receive stamp was hardware's */
};

static inline void swift_opt_put_offer(u8 *p)
{
	p[0] = SWIFT_OPT_KIND;
	p[1] = SWIFT_OPT_OFFER_LEN;
	p[2] = SWIFT_OPT_EXID >> 8;
	p[3] = SWIFT_OPT_EXID & 0xff;
}

static inline void swift_opt_put_echo(u8 *p, const struct swift_opt *opt)
{
	u32 units = swift_min_u32(opt->remote_ns >> SWIFT_OPT_DELAY_SHIFT,
				  SWIFT_OPT_DELAY_MAX);

	p[0] = SWIFT_OPT_KIND;
	p[1] = SWIFT_OPT_ECHO_LEN;
	p[2] = SWIFT_OPT_EXID >> 8;
	p[3] = SWIFT_OPT_EXID & 0xff;
	p[4] = (u8)swift_min_u32(opt->hops, SWIFT_OPT_HOPS_MASK) |
	       (opt->hw ? SWIFT_OPT_FLAG_HW : 0);
	p[5] = (u8)(units >> 16);
	p[6] = (u8)(units >> 8);
	p[7] = (u8)units;
}

/* Of an option that is known to be an echo. */
static inline void swift_opt_get_echo(const u8 *p, struct swift_opt *opt)
{
	opt->hw = p[4] & SWIFT_OPT_FLAG_HW;
	opt->hops = p[4] & SWIFT_OPT_HOPS_MASK;
	opt->remote_ns = ((u32)p[5] << 16 | (u32)p[6] << 8 | (u32)p[7]) << SWIFT_OPT_DELAY_SHIFT;
}

/*
 * Find our option among the @len bytes of options at @p (the TCP header behind
 * its fixed 20 bytes). @opt is only valid for SWIFT_OPT_ECHO. Options of other
 * kinds and other ExIDs are stepped over; a list that is broken elsewhere ends
 * the search, as it ends TCP's own.
 */
static inline enum swift_opt_kind swift_opt_parse(const u8 *p, u32 len,
						  struct swift_opt *opt)
{
	enum swift_opt_kind found = SWIFT_OPT_NONE;
	u32 at = 0, step;

	if (len > SWIFT_OPT_SPACE)
		len = SWIFT_OPT_SPACE;

	for (step = 0; step < SWIFT_OPT_SPACE && at < len; step++) {
		u32 olen;

		if (p[at] == 0) /* end of options */
			break;
		if (p[at] == 1) { /* no-operation */
			at++;
			continue;
		}
		if (at + 1 >= len)
			break;
		olen = p[at + 1];
		if (olen < 2 || at + olen > len) {
			if (p[at] == SWIFT_OPT_KIND && at + 4 <= len &&
			    p[at + 2] == SWIFT_OPT_EXID >> 8 &&
			    p[at + 3] == (SWIFT_OPT_EXID & 0xff))
				return SWIFT_OPT_MALFORMED;
			break;
		}
		if (p[at] == SWIFT_OPT_KIND && olen >= 4 &&
		    p[at + 2] == SWIFT_OPT_EXID >> 8 &&
		    p[at + 3] == (SWIFT_OPT_EXID & 0xff)) {
			if (found != SWIFT_OPT_NONE)
				return SWIFT_OPT_MALFORMED;
			if (olen == SWIFT_OPT_OFFER_LEN) {
				found = SWIFT_OPT_OFFER;
			} else if (olen == SWIFT_OPT_ECHO_LEN) {
				found = SWIFT_OPT_ECHO;
				swift_opt_get_echo(p + at, opt);
			} else {
				return SWIFT_OPT_MALFORMED;
			}
		}
		at += olen;
	}
	return found;
}

/* Does the header carry a signature (TCP-MD5, TCP-AO) that an added option would break? */
static inline bool swift_opt_is_signed(const u8 *p, u32 len)
{
	u32 at = 0, step;

	for (step = 0; step < SWIFT_OPT_SPACE && at < len; step++) {
		if (p[at] == 19 || p[at] == 29)
			return true;
		if (p[at] == 0)
			break;
		if (p[at] == 1) {
			at++;
			continue;
		}
		if (at + 1 >= len || p[at + 1] < 2)
			break;
		at += p[at + 1];
	}
	return false;
}

/*
 * Routers passed (paper 3.5): senders start the TTL (hop limit) at 64, 128 or
 * 255, and each router takes one.
 */
static inline u8 swift_hops_from_ttl(u8 ttl)
{
	u8 start = ttl <= 64 ? 64 : ttl <= 128 ? 128 : 255;

	return (u8)swift_min_u32((u32)(start - ttl), SWIFT_OPT_HOPS_MASK);
}

#endif /* SWIFT_CORE_OPTION_H */
