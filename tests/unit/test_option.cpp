/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The TCP option's codec: what is put can be parsed, what is broken is not
 * believed, what is not ours is stepped over. Arbitrary bytes are the business
 * of tests/fuzz.
 */
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "option.h"

namespace {

using Bytes = std::vector<u8>;

const Bytes kOffer = {253, 4, 0x53, 0x57};
const Bytes kEcho = {253, 8, 0x53, 0x57, 0x85, 0x00, 0x01, 0x02}; /* hw, 5 hops, 258 * 64 ns */
const Bytes kOtherExid = {253, 6, 0xf9, 0x89, 1, 2}; /* TCP Fast Open, experimental */
const Bytes kTimestamp = {8, 10, 1, 2, 3, 4, 5, 6, 7, 8};

Bytes operator+(Bytes a, const Bytes &b)
{
	a.insert(a.end(), b.begin(), b.end());
	return a;
}

/* From memory of the exact size, so that a sanitizer sees a read past it. */
swift_opt_kind parse(const Bytes &bytes, swift_opt *opt = nullptr)
{
	std::unique_ptr<u8[]> exact(new u8[bytes.size()]);
	swift_opt unused;

	std::copy(bytes.begin(), bytes.end(), exact.get());
	return swift_opt_parse(exact.get(), u32(bytes.size()), opt ? opt : &unused);
}

bool is_signed(const Bytes &bytes)
{
	std::unique_ptr<u8[]> exact(new u8[bytes.size()]);

	std::copy(bytes.begin(), bytes.end(), exact.get());
	return swift_opt_is_signed(exact.get(), u32(bytes.size()));
}

Bytes put_echo(const swift_opt &opt)
{
	Bytes bytes(SWIFT_OPT_ECHO_LEN);

	swift_opt_put_echo(bytes.data(), &opt);
	return bytes;
}

TEST(opt_put, offer_is_kind_length_and_exid)
{
	Bytes bytes(SWIFT_OPT_OFFER_LEN);

	swift_opt_put_offer(bytes.data());
	EXPECT_EQ(bytes, kOffer);
	EXPECT_EQ(parse(bytes), SWIFT_OPT_OFFER);
}

TEST(opt_put, echo_is_laid_out_as_documented)
{
	EXPECT_EQ(put_echo({258 * 64, 5, true}), kEcho);
	EXPECT_EQ(put_echo({0x123456U << 6, 63, false}),
		  Bytes({253, 8, 0x53, 0x57, 0x3f, 0x12, 0x34, 0x56}));
}

TEST(opt_put, echo_saturates)
{
	struct {
		u32 remote_ns;
		u8 hops;
		u32 want_ns;
		u8 want_hops;
	} cases[] = {
		{0, 0, 0, 0},
		{63, 63, 0, 63}, /* rounded down to 64 ns */
		{64, 64, 64, 63},
		{SWIFT_OPT_DELAY_MAX << 6, 255, SWIFT_OPT_DELAY_MAX << 6, 63},
		{SWIFT_U32_MAX, 200, SWIFT_OPT_DELAY_MAX << 6, 63},
	};

	for (auto &c : cases) {
		swift_opt got = {};

		ASSERT_EQ(parse(put_echo({c.remote_ns, c.hops, false}), &got), SWIFT_OPT_ECHO);
		EXPECT_EQ(got.remote_ns, c.want_ns);
		EXPECT_EQ(got.hops, c.want_hops);
		EXPECT_FALSE(got.hw); /* whatever hops was */
	}
}

TEST(opt_parse, gives_back_what_was_put)
{
	std::vector<u32> delays = {0, 1, SWIFT_OPT_DELAY_MAX - 1, SWIFT_OPT_DELAY_MAX};

	for (u32 bit = 0; bit < 24; bit++)
		delays.push_back(1U << bit);
	for (u32 units = 77; units < SWIFT_OPT_DELAY_MAX; units += 99991)
		delays.push_back(units);

	for (u32 hops = 0; hops <= SWIFT_OPT_HOPS_MASK; hops++)
		for (u32 units : delays)
			for (bool hw : {false, true}) {
				swift_opt put = {units << SWIFT_OPT_DELAY_SHIFT, u8(hops), hw};
				swift_opt got = {1, 1, !hw};

				ASSERT_EQ(parse(put_echo(put), &got), SWIFT_OPT_ECHO);
				ASSERT_EQ(got.remote_ns, put.remote_ns);
				ASSERT_EQ(got.hops, put.hops);
				ASSERT_EQ(got.hw, put.hw);
			}
}

TEST(opt_parse, ignores_the_reserved_flag)
{
	Bytes bytes = kEcho;
	swift_opt got = {};

	bytes[4] |= SWIFT_OPT_FLAG_RESERVED;
	ASSERT_EQ(parse(bytes, &got), SWIFT_OPT_ECHO);
	EXPECT_EQ(got.hops, 5);
	EXPECT_TRUE(got.hw);
}

TEST(opt_parse, writes_nothing_without_an_echo)
{
	for (const Bytes &bytes : {Bytes{}, kOffer, kOtherExid, Bytes{253, 8, 0x53, 0x57}}) {
		swift_opt got = {12345, 17, true};

		EXPECT_NE(parse(bytes, &got), SWIFT_OPT_ECHO);
		EXPECT_EQ(got.remote_ns, 12345U);
		EXPECT_EQ(got.hops, 17);
		EXPECT_TRUE(got.hw);
	}
}

TEST(opt_parse, of_a_list_cut_at_any_byte)
{
	/* Until the ExID is there, nobody knows that it was ours. */
	for (size_t len = 0; len < kEcho.size(); len++) {
		Bytes cut(kEcho.begin(), kEcho.begin() + long(len));

		EXPECT_EQ(parse(cut), len < 4 ? SWIFT_OPT_NONE : SWIFT_OPT_MALFORMED) << len;
		EXPECT_EQ(parse(kTimestamp + cut),
			  len < 4 ? SWIFT_OPT_NONE : SWIFT_OPT_MALFORMED) << len;
	}
	for (size_t len = 0; len < kOffer.size(); len++)
		EXPECT_EQ(parse(Bytes(kOffer.begin(), kOffer.begin() + long(len))),
			  SWIFT_OPT_NONE);
}

TEST(opt_parse, of_any_other_length_is_malformed)
{
	for (u32 olen = 0; olen < 256; olen++) {
		Bytes bytes = kEcho;
		swift_opt_kind want = SWIFT_OPT_MALFORMED;

		bytes.resize(SWIFT_OPT_SPACE);
		bytes[1] = u8(olen);
		if (olen == SWIFT_OPT_OFFER_LEN) {
			want = SWIFT_OPT_OFFER;
			bytes.resize(SWIFT_OPT_OFFER_LEN);
		} else if (olen == SWIFT_OPT_ECHO_LEN) {
			want = SWIFT_OPT_ECHO;
		} else if (olen == 2 || olen == 3) { /* too short for an ExID: not ours */
			want = SWIFT_OPT_NONE;
			bytes[olen] = 0;
			if (olen == 3)
				bytes[2] = 0x53;
		}
		EXPECT_EQ(parse(bytes), want) << olen;
	}
}

TEST(opt_parse, ours_twice_is_malformed)
{
	EXPECT_EQ(parse(kEcho + kEcho), SWIFT_OPT_MALFORMED);
	EXPECT_EQ(parse(kOffer + kOffer), SWIFT_OPT_MALFORMED);
	EXPECT_EQ(parse(kOffer + kEcho), SWIFT_OPT_MALFORMED);
	EXPECT_EQ(parse(kEcho + kTimestamp + kOffer), SWIFT_OPT_MALFORMED);
}

TEST(opt_parse, steps_over_other_options_and_other_exids)
{
	swift_opt got = {};

	EXPECT_EQ(parse(kOtherExid), SWIFT_OPT_NONE);
	EXPECT_EQ(parse(kTimestamp), SWIFT_OPT_NONE);
	EXPECT_EQ(parse(Bytes{1, 1} + kTimestamp + kOtherExid + Bytes{1} + kEcho, &got),
		  SWIFT_OPT_ECHO);
	EXPECT_EQ(got.remote_ns, 258U * 64);
	EXPECT_EQ(parse(kOtherExid + kOffer + kTimestamp), SWIFT_OPT_OFFER);
	/* RFC 6994's other shared kind is not ours, nor are our bytes in another's value. */
	EXPECT_EQ(parse({254, 4, 0x53, 0x57}), SWIFT_OPT_NONE);
	EXPECT_EQ(parse(Bytes{30, 10} + kEcho), SWIFT_OPT_NONE);
	EXPECT_EQ(parse({253, 4, 0x57, 0x53}), SWIFT_OPT_NONE);
	EXPECT_EQ(parse({253, 4, 0x53, 0x58}), SWIFT_OPT_NONE);
}

TEST(opt_parse, ends_at_the_end_of_options)
{
	EXPECT_EQ(parse(Bytes{0} + kEcho), SWIFT_OPT_NONE);
	EXPECT_EQ(parse(kEcho + Bytes{0} + kEcho), SWIFT_OPT_ECHO);
}

TEST(opt_parse, of_a_list_broken_before_ours_finds_nothing)
{
	EXPECT_EQ(parse(Bytes{8, 0} + kEcho), SWIFT_OPT_NONE); /* length 0: would not advance */
	EXPECT_EQ(parse(Bytes{8, 1} + kEcho), SWIFT_OPT_NONE);
	EXPECT_EQ(parse(Bytes{8, 30} + kEcho), SWIFT_OPT_NONE); /* beyond the end */
}

TEST(opt_parse, of_a_list_broken_after_ours_keeps_ours)
{
	for (const Bytes &tail : {Bytes{8, 0}, Bytes{8, 1}, Bytes{8, 30}, Bytes{8}, Bytes{253},
				  Bytes{253, 9, 0x53}})
		EXPECT_EQ(parse(kEcho + tail), SWIFT_OPT_ECHO);
}

TEST(opt_parse, of_a_full_header)
{
	/* 40 bytes: timestamps, three SACK blocks' worth of no-operations, and us at the end. */
	Bytes bytes = kTimestamp + Bytes(22, 1) + kEcho;

	ASSERT_EQ(bytes.size(), size_t(SWIFT_OPT_SPACE));
	EXPECT_EQ(parse(bytes), SWIFT_OPT_ECHO);
	EXPECT_EQ(parse(Bytes(32, 1) + kEcho), SWIFT_OPT_ECHO); /* as many steps as there can be */
	EXPECT_EQ(parse(Bytes(40, 1)), SWIFT_OPT_NONE);
	EXPECT_EQ(parse(Bytes(36, 1) + kOffer), SWIFT_OPT_OFFER);
}

TEST(opt_parse, looks_at_40_bytes_at_most)
{
	EXPECT_EQ(parse(Bytes(40, 1) + kEcho), SWIFT_OPT_NONE);
	EXPECT_EQ(parse(Bytes(36, 1) + kEcho), SWIFT_OPT_MALFORMED); /* cut by the header's end */
}

TEST(opt_is_signed, finds_md5_and_ao_wherever_they_stand)
{
	const Bytes md5 = Bytes{19, 18} + Bytes(16, 0xaa), ao = Bytes{29, 16} + Bytes(14, 0xbb);

	for (const Bytes &option : {md5, ao}) {
		EXPECT_TRUE(is_signed(option));
		EXPECT_TRUE(is_signed(Bytes{1, 1} + option));
		EXPECT_TRUE(is_signed(kTimestamp + Bytes{1, 1} + option));
		EXPECT_TRUE(is_signed(kEcho + option));
		EXPECT_FALSE(is_signed(Bytes{0} + option));
	}
}

TEST(opt_is_signed, is_not_misled)
{
	EXPECT_FALSE(is_signed({}));
	EXPECT_FALSE(is_signed(kTimestamp));
	EXPECT_FALSE(is_signed({8, 4, 19, 29})); /* in another option's value */
	EXPECT_FALSE(is_signed({8, 0, 19, 18}));
	EXPECT_FALSE(is_signed({8, 1, 19, 18}));
	EXPECT_FALSE(is_signed({8}));
	EXPECT_FALSE(is_signed({8, 200, 1, 1}));
	EXPECT_FALSE(is_signed(Bytes(40, 1)));
}

TEST(hops_from_ttl, of_every_ttl)
{
	for (u32 ttl = 0; ttl < 256; ttl++) {
		u32 want = ttl <= 64 ? 64 - ttl : ttl <= 128 ? 128 - ttl : 255 - ttl;

		EXPECT_EQ(swift_hops_from_ttl(u8(ttl)), std::min(want, 63U)) << ttl;
	}
	EXPECT_EQ(swift_hops_from_ttl(64), 0);
	EXPECT_EQ(swift_hops_from_ttl(61), 3);
	EXPECT_EQ(swift_hops_from_ttl(125), 3);
	EXPECT_EQ(swift_hops_from_ttl(252), 3);
	EXPECT_EQ(swift_hops_from_ttl(0), 63);
}

} /* namespace */
