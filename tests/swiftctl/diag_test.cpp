// SPDX-License-Identifier: MIT
// The parser of sock_diag dumps on good, cut, and wrong bytes; the client on the live kernel.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>

#include <fstream>
#include <iterator>
#include <thread>

#include "diag.h"
#include "dump_builder.h"
#include "fd.h"
#include "netns.h"

using namespace swift;
using swift_test::DumpBuilder;

namespace {

std::vector<Flow> parsed(const DumpBuilder &b, DiagStatus *status = nullptr)
{
	std::vector<Flow> flows;
	const DiagStatus s = parse_diag(b.span(), flows);

	if (status)
		*status = s;
	return flows;
}

} // namespace

TEST(diag, reads_every_field_of_an_ipv4_flow)
{
	DiagStatus status;
	const auto flows = parsed(swift_test::six_flows(), &status);

	ASSERT_EQ(flows.size(), 6U);
	EXPECT_TRUE(status.done);
	EXPECT_EQ(status.error, 0);
	EXPECT_EQ(status.malformed, 0U);
	EXPECT_EQ(status.bad_records, 0U);

	const Flow &f = flows[0];

	EXPECT_EQ(f.local.text(), "10.1.0.1:40000");
	EXPECT_EQ(f.remote.text(), "10.1.0.9:443");
	EXPECT_EQ(f.state, 1);
	EXPECT_EQ(f.inode, 4711U);
	EXPECT_EQ(f.uid, 1000U);
	EXPECT_TRUE(f.is_swift());
	ASSERT_TRUE(f.tcp);
	EXPECT_EQ(f.tcp->srtt_us, 120U);
	EXPECT_EQ(f.tcp->min_rtt_us, 31U);
	EXPECT_EQ(f.tcp->snd_cwnd_pkts, 12U);
	EXPECT_EQ(f.tcp->delivery_rate_Bps, 1180000000U);
	ASSERT_TRUE(f.swift);
	EXPECT_EQ(f.swift->fabric_ns, 62000U);
	EXPECT_EQ(f.swift->endpoint_ns, 18400U);
	EXPECT_EQ(f.swift->target_ns, 81000U);
	EXPECT_NEAR(f.swift->window_pkts(), 12.34375, 1e-9);
	EXPECT_EQ(f.swift->limit(), Limit::fabric);
	EXPECT_EQ(f.swift->local_stamp, Stamp::software);
	EXPECT_EQ(f.swift->echo_stamp, Stamp::software);
}

TEST(diag, takes_the_stamp_sources_out_of_the_low_bits)
{
	const auto flows = parsed(swift_test::six_flows());

	EXPECT_EQ(flows[1].swift->local_stamp, Stamp::hardware);
	EXPECT_EQ(flows[1].swift->echo_stamp, Stamp::none);
	EXPECT_EQ(flows[1].swift->fabric_ns, 401200U);
	EXPECT_EQ(flows[2].swift->limit(), Limit::host);
}

TEST(diag, source_3_is_nobody)
{
	DumpBuilder b;

	b.socket("10.0.0.1", 1, "10.0.0.2", 2).cong("swift").record({4 | 3, 8 | 3, 1, 1, 1});
	EXPECT_EQ(parsed(b)[0].swift->local_stamp, Stamp::none);
	EXPECT_EQ(parsed(b)[0].swift->fabric_ns, 4U);
}

TEST(diag, reads_ipv6_and_mapped_ipv4)
{
	DumpBuilder b;

	b.socket("fd00::1", 1, "fd00::2", 65535).socket("::ffff:10.0.0.1", 3, "::ffff:10.0.0.2", 4);
	const auto flows = parsed(b);

	EXPECT_EQ(flows[0].remote.text(), "[fd00::2]:65535");
	EXPECT_EQ(flows[1].remote.text(), "10.0.0.2:4");
}

// Cut anywhere: no crash, no flow out of thin air, and the cut is counted.
TEST(diag, cut_at_every_byte)
{
	const DumpBuilder b = swift_test::six_flows();
	const std::size_t whole = b.bytes().size();

	for (std::size_t n = 0; n < whole; n++) {
		// A copy of its own, so that a sanitizer sees a read past the end.
		const std::vector<std::byte> cut(b.bytes().begin(),
						 b.bytes().begin() + static_cast<std::ptrdiff_t>(n));
		std::vector<Flow> flows;
		const DiagStatus status = parse_diag(cut, flows);

		EXPECT_LE(flows.size(), 6U);
		EXPECT_FALSE(status.done) << n;
	}
}

// A message whose attributes are cut short by its own length.
TEST(diag, attributes_cut_at_every_byte)
{
	DumpBuilder b;

	b.socket("10.0.0.1", 1, "10.0.0.2", 2).info(1, 2, 3, 4).cong("swift").record({4, 4, 4, 4, 4});
	for (std::size_t n = sizeof(nlmsghdr) + sizeof(inet_diag_msg); n < b.bytes().size(); n++) {
		std::vector<std::byte> cut(b.bytes().begin(),
					   b.bytes().begin() + static_cast<std::ptrdiff_t>(n));
		std::vector<Flow> flows;
		const auto length = static_cast<std::uint32_t>(n);

		std::memcpy(cut.data(), &length, sizeof(length));
		parse_diag(cut, flows);
		ASSERT_EQ(flows.size(), 1U);
		EXPECT_FALSE(flows[0].swift) << n;
	}
}

TEST(diag, every_header_byte_set_to_extremes)
{
	const DumpBuilder b = swift_test::six_flows();

	for (std::size_t at = 0; at < b.bytes().size(); at++)
		for (const std::byte v : {std::byte{0}, std::byte{1}, std::byte{0x7f}, std::byte{0xff}}) {
			std::vector<std::byte> bytes = b.bytes();
			std::vector<Flow> flows;

			bytes[at] = v;
			parse_diag(bytes, flows);
			EXPECT_LE(flows.size(), 12U);
		}
}

TEST(diag, records_of_wrong_size_are_ignored_and_counted)
{
	for (const std::size_t size : {0U, 4U, 16U, 19U, 21U, 24U, 64U}) {
		DumpBuilder b;
		DiagStatus status;
		const std::vector<std::byte> payload(size);

		b.socket("10.0.0.1", 1, "10.0.0.2", 2)
			.attribute(TCP_SWIFT_DIAG_ATTR, payload.data(), size)
			.cong("swift")
			.done();
		const auto flows = parsed(b, &status);

		ASSERT_EQ(flows.size(), 1U);
		EXPECT_FALSE(flows[0].swift);
		EXPECT_TRUE(flows[0].is_swift());
		EXPECT_EQ(status.bad_records, 1U);
	}
}

TEST(diag, a_target_tells_what_credit_does_in_its_two_lowest_bits)
{
	for (std::uint32_t bits = 0; bits < 4; bits++) {
		DumpBuilder b;

		b.socket("10.0.0.1", 1, "10.0.0.2", 2).cong("swift").record({4, 4, 80000 | bits, 1 << 16, 1 << 16}).done();
		const auto flows = parsed(b);

		ASSERT_TRUE(flows.at(0).swift);
		EXPECT_EQ(flows[0].swift->target_ns, 80000U);
		EXPECT_EQ(credit_text(flows[0].swift->credit),
			  (std::array{"none", "enough", "waits", "congested"})[bits]);
	}
}

TEST(diag, tcp_info_of_older_and_newer_kernels)
{
	for (const std::size_t size : {0U, 8U, 104U, 192U, 232U, 400U}) {
		DumpBuilder b;
		const std::vector<std::byte> payload(size, std::byte{1});

		b.socket("10.0.0.1", 1, "10.0.0.2", 2).attribute(INET_DIAG_INFO, payload.data(), size);
		const auto flows = parsed(b);

		ASSERT_TRUE(flows[0].tcp) << size;
		EXPECT_EQ(flows[0].tcp->srtt_us, size >= 72 ? 0x01010101U : 0U);
	}
}

TEST(diag, unknown_attributes_messages_and_sequences_are_passed_over)
{
	DumpBuilder b;
	DiagStatus status;

	b.sequence = 1;
	b.socket("10.0.0.1", 9, "10.0.0.2", 9).cong("swift"); // of another request
	b.sequence = 7;
	b.socket("10.0.0.1", 1, "10.0.0.2", 2).attribute(999, "abc", 3).attribute(250, "", 0).cong("swift");
	b.done();

	std::vector<Flow> flows;

	status = parse_diag(b.span(), flows, 7);
	ASSERT_EQ(flows.size(), 1U);
	EXPECT_EQ(flows[0].local.port, 1);
	EXPECT_EQ(status.malformed, 0U);
	EXPECT_TRUE(status.done);
}

TEST(diag, interruption_and_errors_are_told)
{
	DumpBuilder b;
	DiagStatus status;

	b.flags = NLM_F_MULTI | NLM_F_DUMP_INTR;
	b.socket("10.0.0.1", 1, "10.0.0.2", 2).done();
	parsed(b, &status);
	EXPECT_TRUE(status.interrupted);

	DumpBuilder e;

	e.error(-ENOENT);
	parsed(e, &status);
	EXPECT_TRUE(status.done);
	EXPECT_EQ(status.error, ENOENT);

	DumpBuilder d;

	d.done(-EINVAL);
	parsed(d, &status);
	EXPECT_EQ(status.error, EINVAL);

	DumpBuilder lowest;

	lowest.done(INT32_MIN);
	parsed(lowest, &status);
	EXPECT_TRUE(status.done);
}

TEST(diag, names_are_bounded_and_safe_for_terminals)
{
	DumpBuilder b;

	b.socket("10.0.0.1", 1, "10.0.0.2", 2)
		.attribute(INET_DIAG_CONG, "\x1b[31mred and far too long", 24)
		.socket("10.0.0.1", 1, "10.0.0.2", 2)
		.attribute(INET_DIAG_CONG, "swift", 5); // no NUL
	const auto flows = parsed(b);

	EXPECT_EQ(flows[0].cc, "?[31mred?and?fa");
	EXPECT_EQ(flows[1].cc, "swift");
}

TEST(diag, sockets_of_other_families_are_refused)
{
	DumpBuilder b;
	DiagStatus status;

	b.socket("10.0.0.1", 1, "10.0.0.2", 2);
	std::vector<std::byte> bytes = b.bytes();
	std::vector<Flow> flows;

	bytes[sizeof(nlmsghdr)] = std::byte{1}; // AF_UNIX
	status = parse_diag(bytes, flows);
	EXPECT_TRUE(flows.empty());
	EXPECT_EQ(status.malformed, 1U);
}

TEST(diag, unaligned_bytes_are_fine)
{
	const DumpBuilder b = swift_test::six_flows();
	std::vector<std::byte> shifted(1);
	std::vector<Flow> flows;

	shifted.insert(shifted.end(), b.bytes().begin(), b.bytes().end());
	parse_diag(std::span<const std::byte>(shifted).subspan(1), flows);
	EXPECT_EQ(flows.size(), 6U);
}

// What a real kernel sent (loopback connections with cubic and reno, no swift).
TEST(diag, recorded_dump_of_linux_6_18)
{
	std::ifstream file(SWIFT_TEST_DATA "/linux-6.18-loopback.bin", std::ios::binary);
	const std::string text((std::istreambuf_iterator<char>(file)), {});
	std::vector<Flow> flows;

	ASSERT_FALSE(text.empty());
	const DiagStatus status = parse_diag(std::as_bytes(std::span(text)), flows);

	EXPECT_EQ(status.malformed, 0U);
	EXPECT_TRUE(status.done);
	ASSERT_EQ(flows.size(), 2U);
	for (const Flow &f : flows) {
		EXPECT_EQ(f.local.address.text(), "127.0.0.1");
		EXPECT_EQ(f.cc, "reno");
		EXPECT_EQ(f.state, 1);
		ASSERT_TRUE(f.tcp);
		EXPECT_GT(f.tcp->srtt_us, 0U);
		EXPECT_GT(f.tcp->snd_mss_bytes, 0U);
		EXPECT_FALSE(f.swift);
	}
}

TEST(diag, the_live_kernel_lists_our_own_connection)
{
	const Fd listener(socket(AF_INET, SOCK_STREAM, 0));
	const Fd client(socket(AF_INET, SOCK_STREAM, 0));
	sockaddr_in at{};
	socklen_t size = sizeof(at);

	at.sin_family = AF_INET;
	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	ASSERT_EQ(bind(listener.get(), reinterpret_cast<sockaddr *>(&at), size), 0);
	ASSERT_EQ(listen(listener.get(), 1), 0);
	ASSERT_EQ(getsockname(listener.get(), reinterpret_cast<sockaddr *>(&at), &size), 0);
	ASSERT_EQ(setsockopt(client.get(), IPPROTO_TCP, TCP_CONGESTION, "reno", 4), 0);
	ASSERT_EQ(connect(client.get(), reinterpret_cast<sockaddr *>(&at), size), 0);

	auto diag = DiagClient::open();

	ASSERT_TRUE(diag) << diag.error().text();
	auto dump = diag->dump(states_connected);

	ASSERT_TRUE(dump) << dump.error().text();

	bool found = false;

	for (const Flow &f : dump->flows)
		if (f.remote.port == ntohs(at.sin_port) && f.remote.address.text() == "127.0.0.1") {
			found = true;
			EXPECT_EQ(f.cc, "reno");
			EXPECT_TRUE(f.tcp);
		}
	EXPECT_TRUE(found);
}

// One request is for both families.
TEST(diag, the_live_kernel_lists_ipv6_as_well_and_each_flow_once)
{
	const Fd listener(socket(AF_INET6, SOCK_STREAM, 0));
	const Fd client(socket(AF_INET6, SOCK_STREAM, 0));
	sockaddr_in6 at{};
	socklen_t size = sizeof(at);

	at.sin6_family = AF_INET6;
	at.sin6_addr = in6addr_loopback;
	if (bind(listener.get(), reinterpret_cast<sockaddr *>(&at), size) < 0)
		GTEST_SKIP() << "no IPv6 loopback here";
	ASSERT_EQ(listen(listener.get(), 1), 0);
	ASSERT_EQ(getsockname(listener.get(), reinterpret_cast<sockaddr *>(&at), &size), 0);
	ASSERT_EQ(connect(client.get(), reinterpret_cast<sockaddr *>(&at), size), 0);

	auto diag = DiagClient::open();

	ASSERT_TRUE(diag) << diag.error().text();
	auto dump = diag->dump(states_connected);

	ASSERT_TRUE(dump) << dump.error().text();
	const auto to_it = std::count_if(dump->flows.begin(), dump->flows.end(), [&](const Flow &f) {
		return f.remote.port == ntohs(at.sin6_port) && f.remote.address.text() == "::1";
	});

	EXPECT_EQ(to_it, 1);
}

TEST(diag, answers_to_requests_of_the_old_kind_are_the_same)
{
	std::vector<std::byte> bytes = swift_test::six_flows().bytes();
	nlmsghdr head{};

	for (std::size_t at = 0; at < bytes.size(); at += (head.nlmsg_len + 3U) & ~3U) {
		std::memcpy(&head, &bytes[at], sizeof(head));
		if (head.nlmsg_type != SOCK_DIAG_BY_FAMILY)
			continue;
		head.nlmsg_type = TCPDIAG_GETSOCK;
		std::memcpy(&bytes[at], &head, sizeof(head));
	}
	std::vector<Flow> flows;

	EXPECT_TRUE(parse_diag(bytes, flows).done);
	ASSERT_EQ(flows.size(), 6U);
	EXPECT_EQ(flows[0].local.text(), "10.1.0.1:40000");
	EXPECT_TRUE(flows[0].swift);
}

TEST(diag, names_of_namespaces_are_no_paths)
{
	for (const char *name : {"", ".", "..", "../x", "a/b"})
		EXPECT_FALSE(enter_netns(name)) << name;
	const auto missing = enter_netns("no-such-namespace");

	ASSERT_FALSE(missing);
	EXPECT_NE(missing.error().text().find("/run/netns/no-such-namespace"), std::string::npos);
}

TEST(diag, a_network_namespace_has_a_cookie_of_its_own)
{
	const auto here = netns_cookie();
	Result<std::uint64_t> there = Error{"no right to make namespaces"};

	ASSERT_TRUE(here);
	EXPECT_EQ(*here, *netns_cookie());
	std::thread([&] {
		if (unshare(CLONE_NEWNET) == 0)
			there = netns_cookie();
	}).join();
	if (!there)
		GTEST_SKIP() << there.error().text();
	EXPECT_NE(*there, *here);
}

TEST(diag, an_error_beyond_all_errnos)
{
	DumpBuilder b;
	std::vector<Flow> flows;

	b.error(INT32_MIN);
	EXPECT_EQ(parse_diag(b.span(), flows).error, EPROTO);
}
