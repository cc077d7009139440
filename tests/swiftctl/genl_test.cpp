// SPDX-License-Identifier: MIT
// Bytes of netlink: the module's clocks, the controller's family, the kernel's errors,
// interfaces; whole, cut, and wrong. And the real sockets, as far as any kernel has them.
#include <gtest/gtest.h>

#include <linux/genetlink.h>
#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sched.h>

#include <cerrno>
#include <cstring>
#include <functional>
#include <random>
#include <thread>

#include "bpf_clocks.h"
#include "clock_client.h"
#include "clock_host.h"
#include "genl.h"
#include "genl_messages.h"
#include "netns.h"
#include "route.h"
#include "system.h"
#include "uapi/tcp_swift.h"

using namespace swift;
using swift_test::Messages;

namespace {

constexpr std::uint16_t family = swift_test::module_family;

} // namespace

TEST(genl, clocks)
{
	Messages m;
	std::vector<NicClock> clocks;

	m.clock(2).attribute(99, std::uint32_t{1}).clock(3).end(NLMSG_DONE, 0);
	const auto status = parse_nic_clocks(m.bytes, family, clocks, 7);

	EXPECT_TRUE(status.done);
	EXPECT_EQ(status.error, 0);
	EXPECT_EQ(status.malformed, 0U);
	ASSERT_EQ(clocks.size(), 2U);
	EXPECT_EQ(clocks[0].ifindex, 2U);
	EXPECT_EQ(clocks[1].ifindex, 3U);
	EXPECT_EQ(clocks[0].line.nic_ns, std::uint64_t{1} << 62);
	EXPECT_EQ(clocks[0].line.host_ns, 5000000000U);
	EXPECT_NEAR(clocks[0].line.drift_ppm(), -50, 0.01);
	EXPECT_EQ(clocks[0].line.error_ns, 120U);
	EXPECT_EQ(clocks[0].valid_ms, 700U);
	EXPECT_EQ(clocks[0].owner, 4711U);
	EXPECT_EQ(clocks[0].used, std::uint64_t{1} << 40);
	EXPECT_EQ(clocks[0].stale, 2U);
	EXPECT_EQ(clocks[0].future, 3U);
	EXPECT_EQ(clocks[0].old, 4U);
}

TEST(genl, what_is_of_others_is_passed_over)
{
	Messages m;
	std::vector<NicClock> clocks;

	m.clock(2);
	m.sequence = 8;
	m.clock(3).generic(family + 1).attribute(TCP_SWIFT_A_IFINDEX, std::uint32_t{4});
	EXPECT_EQ(parse_nic_clocks(m.bytes, family, clocks, 8).malformed, 0U);
	ASSERT_EQ(clocks.size(), 1U);
	EXPECT_EQ(clocks[0].ifindex, 3U);
}

TEST(genl, what_makes_no_sense_is_counted)
{
	const std::vector<std::function<void(Messages &)>> rows = {
		[](Messages &m) { m.generic(family); }, // nothing in it
		[](Messages &m) { m.begin(family); },
		[](Messages &m) { m.clock(0); }, // no interface
		[](Messages &m) { m.clock(2).attribute(TCP_SWIFT_A_NIC_NS, std::uint32_t{1}); },
		[](Messages &m) { m.clock(2).attribute(TCP_SWIFT_A_ERROR_NS, std::uint64_t{1}); },
		[](Messages &m) { m.clock(2).attribute(TCP_SWIFT_A_RATIO_Q32, std::uint64_t{0}); },
		[](Messages &m) { m.clock(2).put(std::uint32_t{0x00010002}); }, // an attribute of 2 bytes
		[](Messages &m) { m.clock(2).put(std::uint32_t{0x00020400}); }, // one beyond the end
		[](Messages &m) { m.clock(2).bytes[0] = std::byte{8}; }, // a message of 8 bytes
		[](Messages &m) { m.clock(2).bytes.pop_back(); },
	};

	for (std::size_t i = 0; i < rows.size(); i++) {
		Messages m;
		std::vector<NicClock> clocks;

		rows[i](m);
		EXPECT_EQ(parse_nic_clocks(m.bytes, family, clocks).malformed, 1U) << i;
		EXPECT_TRUE(clocks.empty()) << i;
	}
}

TEST(genl, errors_and_the_kernels_words_for_them)
{
	Messages request;

	request.clock(2);
	for (const bool capped : {false, true}) {
		Messages m;
		nlmsghdr quoted{};
		std::vector<NicClock> clocks;

		std::memcpy(&quoted, request.bytes.data(), sizeof(quoted));
		m.flags = static_cast<std::uint16_t>(NLM_F_ACK_TLVS | (capped ? NLM_F_CAPPED : 0));
		m.end(NLMSG_ERROR, -EINVAL).put(quoted);
		if (!capped)
			m.raw(std::span(request.bytes).subspan(sizeof(quoted)));
		m.text(NLMSGERR_ATTR_MSG, "host_ns is in the future\x1b[31m");
		const auto status = parse_nic_clocks(m.bytes, family, clocks);

		EXPECT_TRUE(status.done);
		EXPECT_EQ(status.error, EINVAL);
		EXPECT_EQ(status.message, "host_ns is in the future?[31m") << capped;
		EXPECT_EQ(status.malformed, 0U) << capped;
	}

	Messages bare;
	std::vector<NicClock> clocks;

	EXPECT_EQ(parse_nic_clocks(bare.end(NLMSG_ERROR, -EBUSY).bytes, family, clocks).error, EBUSY);
	EXPECT_EQ(parse_nic_clocks(Messages().end(NLMSG_ERROR, INT32_MIN).bytes, family, clocks).error, EPROTO);
	EXPECT_EQ(parse_nic_clocks(Messages().begin(NLMSG_ERROR).bytes, family, clocks).malformed, 1U);

	Messages cut;

	cut.flags = NLM_F_ACK_TLVS;
	EXPECT_EQ(parse_nic_clocks(cut.end(NLMSG_ERROR, -EBUSY).bytes, family, clocks).malformed, 1U);
}

TEST(genl, the_family)
{
	Messages m;
	std::optional<std::uint16_t> found;

	m.generic(GENL_ID_CTRL, CTRL_CMD_NEWFAMILY)
		.text(CTRL_ATTR_FAMILY_NAME, TCP_SWIFT_GENL_NAME)
		.attribute(CTRL_ATTR_FAMILY_ID, family)
		.end(NLMSG_ERROR, 0);
	EXPECT_EQ(parse_family(m.bytes, found, 7).malformed, 0U);
	EXPECT_EQ(found, family);

	// A number that no family has.
	Messages reserved;

	found.reset();
	reserved.generic(GENL_ID_CTRL).attribute(CTRL_ATTR_FAMILY_ID, std::uint16_t{2});
	parse_family(reserved.bytes, found);
	EXPECT_FALSE(found);
}

TEST(genl, any_cut_and_any_flipped_bit_is_survived)
{
	Messages m;
	std::mt19937 random(1);

	m.flags = NLM_F_ACK_TLVS;
	m.clock(2).clock(3).end(NLMSG_ERROR, -EINVAL).put(nlmsghdr{}).text(NLMSGERR_ATTR_MSG, "no");
	for (std::size_t n = 0; n < m.bytes.size(); n++) {
		std::vector<NicClock> clocks;

		parse_nic_clocks(std::span(m.bytes).first(n), family, clocks);
		EXPECT_LE(clocks.size(), 2U);
	}
	for (int i = 0; i < 20000; i++) {
		auto bytes = m.bytes;
		std::vector<NicClock> clocks;
		std::vector<Link> links;
		std::optional<std::uint16_t> found;

		for (int flips = 0; flips < 4; flips++)
			bytes[random() % bytes.size()] ^= static_cast<std::byte>(1U << random() % 8);
		parse_nic_clocks(bytes, family, clocks);
		parse_family(bytes, found);
		parse_links(bytes, links);
	}
}

TEST(links, names_numbers_and_what_is_below)
{
	Messages m;
	std::vector<Link> links;
	const auto link = [&](std::uint16_t type, int ifindex, const std::string &name) -> Messages & {
		ifinfomsg body{};

		body.ifi_index = ifindex;
		return m.begin(type).put(body).text(IFLA_IFNAME, name);
	};
	const auto kind = [](const char *k) {
		struct {
			nlattr head{};
			std::array<char, 8> name{};
		} nested;

		nested.head.nla_len = sizeof(nested);
		nested.head.nla_type = IFLA_INFO_KIND;
		std::strncpy(nested.name.data(), k, nested.name.size() - 1);
		return nested;
	};

	link(RTM_NEWLINK, 2, "eth0").attribute(IFLA_LINK, std::uint32_t{2});
	link(RTM_NEWLINK, 7, "eth0.5").attribute(IFLA_LINK, std::uint32_t{2});
	link(RTM_NEWLINK, 8, "bond0").attribute(IFLA_LINKINFO, kind("bond"));
	link(RTM_NEWLINK, 9, "dummy0").attribute(IFLA_LINKINFO, kind("dummy"));
	link(RTM_DELLINK, 3, "eth1");
	EXPECT_EQ(parse_links(m.bytes, links).malformed, 0U);
	ASSERT_EQ(links.size(), 5U);
	EXPECT_EQ(links[0].name, "eth0");
	EXPECT_EQ(links[0].ifindex, 2U);
	EXPECT_FALSE(links[0].stacked);
	EXPECT_TRUE(links[1].stacked);
	EXPECT_TRUE(links[2].stacked);
	EXPECT_FALSE(links[3].stacked);
	EXPECT_TRUE(links[4].gone);
	EXPECT_FALSE(links[0].gone);
}

TEST(real_clock_host, knows_the_loopback_and_wakes_up)
{
	const auto host = real_clock_host();

	ASSERT_TRUE(host) << host.error().text();
	const auto links = (*host)->links();

	ASSERT_TRUE(links) << links.error().text();
	EXPECT_TRUE(std::any_of(links->begin(), links->end(), [](const Link &l) {
		return l.name == "lo" && l.ifindex == 1 && !l.stacked && !l.gone;
	}));
	const auto changes = (*host)->link_changes();

	EXPECT_TRUE(changes);
	EXPECT_GE((*host)->fd(), 0);
	EXPECT_GT((*host)->now_ns(), 0);
	EXPECT_EQ((*host)->netns(), std::to_string(*netns_cookie()));
}

// What is remembered of NICs is one namespace's, whatever number its inode has.
TEST(real_clock_host, remembers_by_the_cookie_of_the_namespace)
{
	std::string there;

	std::thread([&] {
		if (unshare(CLONE_NEWNET) != 0)
			return;
		const auto host = real_clock_host();

		ASSERT_TRUE(host) << host.error().text();
		there = (*host)->netns();
		EXPECT_EQ(there, std::to_string(*netns_cookie()));
	}).join();
	if (there.empty())
		GTEST_SKIP() << "cannot make a network namespace";
	EXPECT_NE(there, std::to_string(*netns_cookie()));
}

TEST(real_genl, says_that_the_module_is_not_loaded)
{
	if (module_loaded(*real_system()))
		GTEST_SKIP() << "it is";
	auto client = ClockClient::open();

	ASSERT_TRUE(client);
	EXPECT_NE(client->port(), 0U);
	const auto all = client->all();
	const auto set = client->set(1, {1, 1, std::uint64_t{1} << 32, 1}, 100);

	ASSERT_FALSE(all);
	EXPECT_EQ(all.error().code, error_no_module);
	EXPECT_EQ(all.error().text(), "the module tcp_swift is not loaded");
	ASSERT_FALSE(set);
	EXPECT_EQ(set.error().code, error_no_module);
	EXPECT_TRUE(client->remove(1)); // there is nothing to remove
}
