// SPDX-License-Identifier: MIT
// Conversations over netlink with a made-up kernel at the other end.
#include <gtest/gtest.h>

#include <linux/genetlink.h>
#include <linux/netlink.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <functional>
#include <thread>

#include "clock_client.h"
#include "conversation.h"
#include "netlink_kernel.h"

using namespace swift;
using swift_test::Kernel;
using swift_test::message;
using swift_test::name_family;

namespace {

constexpr std::uint16_t item = NLMSG_MIN_TYPE + 4; // a message that has a number
constexpr int one_second = 1;

struct Asked {
	std::vector<std::int32_t> numbers;
	int begun = 0;
	Result<NetlinkStatus> status = Error{};
};

// All numbers that a dump of items comes to.
Asked ask(Kernel &kernel)
{
	Conversation conversation(kernel.end(), "items", one_second);
	NetlinkRequest request(item, NLM_F_DUMP);
	Asked asked;

	asked.status = conversation.ask(
		request,
		[&] {
			asked.begun++;
			asked.numbers.clear();
		},
		[&](Bytes bytes, std::uint32_t sequence) {
			return for_messages(bytes, sequence, [&](const nlmsghdr &, Bytes payload) {
				asked.numbers.push_back(read_whole<std::int32_t>(payload).value_or(-1));
				return true;
			});
		});
	return asked;
}

} // namespace

TEST(conversation, an_interrupted_dump_is_asked_for_again_and_counts_once)
{
	Kernel kernel([](int attempt, const nlmsghdr &r) -> std::vector<std::vector<std::byte>> {
		if (attempt == 1)
			return {message(r, item, 0, 1), message(r, item, NLM_F_DUMP_INTR, 2),
				message(r, NLMSG_DONE, 0, 0)};
		return {message(r, item, 0, 3), message(r, item, 0, 4), message(r, NLMSG_DONE, 0, 0)};
	});
	const Asked asked = ask(kernel);

	ASSERT_TRUE(asked.status) << asked.status.error().text();
	EXPECT_FALSE(asked.status->interrupted);
	EXPECT_EQ(asked.numbers, (std::vector<std::int32_t>{3, 4}));
	EXPECT_EQ(asked.begun, 2);
}

TEST(conversation, a_dump_that_is_interrupted_again_and_again_says_so)
{
	Kernel kernel([](int attempt, const nlmsghdr &r) -> std::vector<std::vector<std::byte>> {
		return {message(r, item, 0, attempt), message(r, NLMSG_DONE, NLM_F_DUMP_INTR, 0)};
	});
	const Asked asked = ask(kernel);

	ASSERT_TRUE(asked.status);
	EXPECT_TRUE(asked.status->interrupted);
	EXPECT_EQ(asked.begun, 5);
	EXPECT_EQ(asked.numbers, std::vector<std::int32_t>{5});
}

// A dump of the module's clocks is whole, or none.
TEST(conversation, clocks_that_change_faster_than_they_can_be_read_are_no_table)
{
	constexpr std::uint16_t family = 40;
	int dumps = 0;
	Kernel kernel([&](int, const nlmsghdr &r) -> std::vector<std::vector<std::byte>> {
		if (r.nlmsg_type == family) {
			dumps++;
			return {message(r, NLMSG_DONE, NLM_F_DUMP_INTR, 0)};
		}
		return name_family(r, family);
	});
	const auto clocks = [&] {
		ClockClient client(GenlClient(Conversation(kernel.end(), "clocks", one_second), "tcp_swift", 1));

		return client.all();
	}();

	ASSERT_FALSE(clocks);
	EXPECT_EQ(clocks.error().code, EAGAIN);
	EXPECT_EQ(dumps, 5);
}

TEST(conversation, what_was_said_to_others_is_passed_over)
{
	Kernel kernel([](int, const nlmsghdr &r) -> std::vector<std::vector<std::byte>> {
		nlmsghdr other = r;

		other.nlmsg_seq += 7;
		return {message(other, item, 0, 1), message(other, NLMSG_DONE, 0, 0), message(r, item, 0, 2),
			message(r, NLMSG_DONE, 0, 0)};
	});

	EXPECT_EQ(ask(kernel).numbers, std::vector<std::int32_t>{2});
}

TEST(conversation, the_kernels_no_is_an_answer)
{
	Kernel kernel([](int, const nlmsghdr &r) -> std::vector<std::vector<std::byte>> {
		return {message(r, NLMSG_ERROR, 0, -EPERM)};
	});
	const Asked asked = ask(kernel);

	ASSERT_TRUE(asked.status);
	EXPECT_EQ(asked.status->error, EPERM);
	EXPECT_EQ(netlink_refusal("no list", *asked.status).text(), "no list: Operation not permitted");
}

TEST(conversation, a_kernel_that_falls_silent_or_leaves_is_an_error)
{
	Kernel silent([](int, const nlmsghdr &r) -> std::vector<std::vector<std::byte>> {
		return {message(r, item, 0, 1)};
	});
	const Asked waited = ask(silent);

	ASSERT_FALSE(waited.status);
	EXPECT_EQ(waited.status.error().code, EAGAIN);
	EXPECT_EQ(waited.status.error().text(), "the kernel has not gone on with its list of items for 1 s");

	Kernel leaving([](int, const nlmsghdr &r) -> std::vector<std::vector<std::byte>> {
		return {message(r, item, 0, 1), {}}; // nothing more
	});
	const Asked left = ask(leaving);

	ASSERT_FALSE(left.status);
	EXPECT_EQ(left.status.error().text(), "the kernel's list of items ended too early");
}
