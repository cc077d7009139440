// SPDX-License-Identifier: MIT
// What this host lends: the module's messages, whole, cut and wrong; what is asked of it, with a made-up
// module and with the real kernel; sums by peer, tables, notes, JSON.
#include <gtest/gtest.h>

#include <cerrno>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>

#include "credit.h"
#include "credit_book.h"
#include "fake_system.h"
#include "genl_messages.h"
#include "netlink_kernel.h"
#include "schema.h"

using namespace swift;
using swift_test::FakeSystem;

namespace {

constexpr std::uint16_t credit_family = swift_test::module_family;
using Ipv6Bytes = std::array<std::uint8_t, 16>;

Ipv6Bytes mapped(std::uint8_t last)
{
	return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 1, 0, last};
}

struct CreditMessages : swift_test::Messages {
	CreditMessages &link(std::uint32_t ifindex)
	{
		generic(credit_family, TCP_SWIFT_CMD_CREDIT_GET)
			.attribute(TCP_SWIFT_A_IFINDEX, ifindex)
			.attribute(TCP_SWIFT_A_LINK_MBPS, std::uint32_t{100000})
			.attribute(TCP_SWIFT_A_LINK_BDP, std::uint32_t{122000})
			.attribute(TCP_SWIFT_A_LINK_B, std::uint32_t{183000})
			.attribute(TCP_SWIFT_A_LINK_UNSCHED, std::uint32_t{110000})
			.attribute(TCP_SWIFT_A_LINK_LENT, std::uint32_t{180000})
			.attribute(TCP_SWIFT_A_LINK_RTT_NS, std::uint32_t{8800})
			.attribute(TCP_SWIFT_A_LINK_LOOP_NS, std::uint32_t{9760});
		return *this;
	}
	CreditMessages &flow(std::uint8_t peer, std::uint16_t port, std::uint32_t standing)
	{
		generic(credit_family, TCP_SWIFT_CMD_CREDIT_GET)
			.attribute(TCP_SWIFT_A_IFINDEX, std::uint32_t{2})
			.attribute(TCP_SWIFT_A_LOCAL, mapped(1))
			.attribute(TCP_SWIFT_A_REMOTE, mapped(peer))
			.attribute(TCP_SWIFT_A_LOCAL_PORT, std::uint16_t{5201})
			.attribute(TCP_SWIFT_A_REMOTE_PORT, port)
			.attribute(TCP_SWIFT_A_COOKIE, std::uint64_t{0x1000} + port)
			.attribute(TCP_SWIFT_A_STANDING, standing)
			.attribute(TCP_SWIFT_A_WANTED, std::uint32_t{20000})
			.attribute(TCP_SWIFT_A_LENT, std::uint32_t{4000})
			.attribute(TCP_SWIFT_A_SENDER_LENT, std::uint32_t{8000})
			.attribute(TCP_SWIFT_A_SENDER_MOST, std::uint32_t{61000})
			.attribute(TCP_SWIFT_A_SENDER_HOST, std::uint32_t{61000})
			.attribute(TCP_SWIFT_A_SENDER_NET, std::uint32_t{122000});
		return *this;
	}
};

// A module that has @book, or says why not.
struct FakeCreditHost : CreditHost {
	Result<CreditBook> has = CreditBook();
	std::map<std::uint32_t, std::string> names = {{1, "lo"}, {2, "eth0"}, {3, "eth\x1b[31m"}};

	Result<CreditBook> book() override { return has; }
	Result<std::map<std::uint32_t, std::string>> devices() override { return names; }
};

CreditFlow credit_flow(const char *peer, std::uint16_t port, Standing standing, std::uint32_t wanted_bytes)
{
	CreditFlow f;

	f.ifindex = 2;
	f.local = {*Address::parse("10.1.0.1"), 5201};
	f.remote = {*Address::parse(peer), port};
	f.cookie = port;
	f.standing = standing;
	f.wanted_bytes = wanted_bytes;
	f.lent_bytes = 4000;
	f.sender_most_bytes = f.sender_host_bytes = 61000;
	f.sender_net_bytes = 122000;
	return f;
}

// Three peers: one waits for its own link, one for this one, one has said nothing.
CreditBook three_peers()
{
	CreditBook b;

	b.links = {{2, 100000, 122000, 183000, 110000, 180000, 8800, 9760}, {3, 0, 0, 0, 0, 0, 0, 0}};
	b.flows = {credit_flow("10.1.0.2", 1, Standing::sender, 20000), credit_flow("10.1.0.2", 2, Standing::sender, 30000),
		   credit_flow("10.1.0.2", 3, Standing::idle, 0),	credit_flow("10.1.0.3", 1, Standing::link, 90000),
		   credit_flow("fd00::7", 1, Standing::served, 0)};
	return b;
}

struct CreditSystem : FakeSystem {
	explicit CreditSystem(const std::string &on = "1")
	{
		load();
		files["/proc/sys/net/ipv4/tcp_swift/credit"] = on + "\n";
	}
};

CreditSnapshot snapshot_of(const CreditBook &book, const CreditOptions &options = {}, const char *on = "1")
{
	FakeCreditHost host;
	const CreditSystem system(on);
	const auto query = CreditQuery::from(options);

	host.has = book;
	EXPECT_TRUE(query) << query.error().text();
	auto s = take_credit(host, system, *query);

	EXPECT_TRUE(s) << s.error().text();
	return *s;
}

std::string row_text(const Table &table, std::size_t row)
{
	std::string text;

	for (const Cell &c : table.rows.at(row))
		text += c.text + "|";
	return text;
}

using Answers = std::vector<std::vector<std::vector<std::byte>>>;

// What @ask makes of @answers, one after the other.
template <typename Ask> auto made_of(const Answers &answers, int *asked, Ask ask)
{
	std::size_t dumps = 0;
	swift_test::Kernel kernel([&](int, const nlmsghdr &r) {
		if (r.nlmsg_type != credit_family)
			return swift_test::name_family(r, credit_family);
		auto parts = answers.at(std::min(dumps++, answers.size() - 1));

		// As if each had been made for this request.
		for (auto &part : parts)
			for (std::size_t at = 0; at + sizeof(nlmsghdr) <= part.size();) {
				nlmsghdr head{};

				std::memcpy(&head, &part[at], sizeof(head));
				head.nlmsg_seq = r.nlmsg_seq;
				std::memcpy(&part[at], &head, sizeof(head));
				at += align4(head.nlmsg_len);
			}
		return parts;
	});
	auto made = ask(GenlClient(Conversation(kernel.end(), "credit", 5), "tcp_swift", 1));

	if (asked)
		*asked = static_cast<int>(dumps);
	return made;
}

Result<CreditBook> book_from(const Answers &answers, int *asked = nullptr)
{
	return made_of(answers, asked, [](GenlClient genl) {
		CreditClient client(std::move(genl));

		return client.book();
	});
}

Result<std::vector<CreditLink>> links_from(const Answers &answers, int *asked = nullptr)
{
	return made_of(answers, asked, [](GenlClient genl) { return credit_links(std::move(genl)); });
}

} // namespace

TEST(credit_book, links_and_flows)
{
	CreditMessages m;
	CreditBook book;

	m.link(2).attribute(99, std::uint32_t{1});
	m.flow(9, 4711, TCP_SWIFT_STANDING_SENDER).end(NLMSG_DONE, 0);
	const auto status = parse_credit_book(m.bytes, credit_family, book, 7);

	EXPECT_TRUE(status.done);
	EXPECT_EQ(status.malformed, 0U);
	ASSERT_EQ(book.links.size(), 1U);
	ASSERT_EQ(book.flows.size(), 1U);
	EXPECT_EQ(book.links[0].ifindex, 2U);
	EXPECT_EQ(book.links[0].mbps, 100000U);
	EXPECT_EQ(book.links[0].bdp_bytes, 122000U);
	EXPECT_EQ(book.links[0].most_bytes, 183000U);
	EXPECT_EQ(book.links[0].unasked_bytes, 110000U);
	EXPECT_EQ(book.links[0].lent_bytes, 180000U);
	EXPECT_EQ(book.links[0].rtt_ns, 8800U);
	EXPECT_EQ(book.links[0].loop_ns, 9760U);
	EXPECT_EQ(book.flows[0].local.text(), "10.1.0.1:5201");
	EXPECT_EQ(book.flows[0].remote.text(), "10.1.0.9:4711");
	EXPECT_EQ(book.flows[0].ifindex, 2U);
	EXPECT_EQ(book.flows[0].cookie, 0x1000U + 4711);
	EXPECT_EQ(book.flows[0].standing, Standing::sender);
	EXPECT_EQ(book.flows[0].wanted_bytes, 20000U);
	EXPECT_EQ(book.flows[0].lent_bytes, 4000U);
	EXPECT_EQ(book.flows[0].sender_lent_bytes, 8000U);
	EXPECT_EQ(book.flows[0].sender_most_bytes, 61000U);
	EXPECT_EQ(book.flows[0].sender_host_bytes, 61000U);
	EXPECT_EQ(book.flows[0].sender_net_bytes, 122000U);
}

TEST(credit_book, what_makes_no_sense_is_counted)
{
	const std::vector<std::function<void(CreditMessages &)>> rows = {
		[](CreditMessages &m) { m.generic(credit_family); }, // nothing in it
		[](CreditMessages &m) { m.begin(credit_family); },
		[](CreditMessages &m) { m.link(0); }, // no interface
		[](CreditMessages &m) { m.link(2).attribute(TCP_SWIFT_A_LINK_B, std::uint64_t{1}); },
		[](CreditMessages &m) { m.link(2).attribute(TCP_SWIFT_A_LOCAL, mapped(1)).attribute(TCP_SWIFT_A_REMOTE, mapped(2)); },
		[](CreditMessages &m) { m.generic(credit_family).attribute(TCP_SWIFT_A_REMOTE, mapped(2)); }, // one end
		[](CreditMessages &m) { m.flow(2, 1, 0).attribute(TCP_SWIFT_A_REMOTE, std::uint32_t{1}); },
		[](CreditMessages &m) { m.flow(2, 1, 0).attribute(TCP_SWIFT_A_LOCAL_PORT, std::uint32_t{1}); },
		[](CreditMessages &m) { m.flow(2, 1, 0).put(std::uint32_t{0x00020400}); }, // one beyond the end
		[](CreditMessages &m) { m.flow(2, 1, 0).bytes.pop_back(); },
	};

	for (std::size_t i = 0; i < rows.size(); i++) {
		CreditMessages m;
		CreditBook book;

		rows[i](m);
		EXPECT_EQ(parse_credit_book(m.bytes, credit_family, book).malformed, 1U) << i;
		EXPECT_TRUE(book.links.empty() && book.flows.empty()) << i;
	}
}

TEST(credit_book, what_a_newer_module_says_is_unknown)
{
	CreditMessages m;
	CreditBook book;

	m.flow(2, 1, 77);
	EXPECT_EQ(parse_credit_book(m.bytes, credit_family, book).malformed, 0U);
	EXPECT_EQ(book.flows.at(0).standing, Standing::unknown);
	EXPECT_EQ(standing_text(Standing::unknown), "unknown");
	EXPECT_FALSE(waits(Standing::unknown));
	EXPECT_FALSE(waits(Standing::served));
	EXPECT_TRUE(waits(Standing::link));
	EXPECT_TRUE(waits(Standing::buffer));
	EXPECT_FALSE(waits(Standing::silent));
}

TEST(credit_book, any_cut_and_any_flipped_bit_is_survived)
{
	CreditMessages m;
	std::mt19937 random(1);

	m.link(2);
	m.flow(2, 1, 3);
	m.flow(2, 2, 3).end(NLMSG_DONE, 0);
	for (std::size_t n = 0; n < m.bytes.size(); n++) {
		CreditBook book;

		parse_credit_book(std::span(m.bytes).first(n), credit_family, book);
		EXPECT_LE(book.flows.size(), 2U);
	}
	for (int i = 0; i < 20000; i++) {
		auto bytes = m.bytes;
		CreditBook book;

		for (int flips = 0; flips < 4; flips++)
			bytes[random() % bytes.size()] ^= static_cast<std::byte>(1U << random() % 8);
		parse_credit_book(bytes, credit_family, book);
		for (const CreditFlow &f : book.flows)
			EXPECT_LE(f.standing, Standing::unknown);
	}
}

TEST(credit_client, a_flow_that_is_told_twice_counts_once)
{
	CreditMessages first;
	CreditMessages last;

	first.link(2);
	first.flow(3, 1, TCP_SWIFT_STANDING_LINK);
	last.flow(2, 1, TCP_SWIFT_STANDING_LINK);
	last.flow(3, 1, TCP_SWIFT_STANDING_SERVED).end(NLMSG_DONE, 0);
	const auto book = book_from({{first.bytes, last.bytes}});

	ASSERT_TRUE(book) << book.error().text();
	EXPECT_EQ(book->links.size(), 1U);
	ASSERT_EQ(book->flows.size(), 2U);
	EXPECT_EQ(book->flows[0].remote.text(), "10.1.0.2:1");
	EXPECT_EQ(book->flows[1].remote.text(), "10.1.0.3:1");
	EXPECT_FALSE(book->interrupted);
}

TEST(credit_client, an_interrupted_dump_is_asked_for_again_and_then_taken_as_it_is)
{
	CreditMessages part;
	CreditMessages whole;
	int asked = 0;

	part.flags = NLM_F_DUMP_INTR;
	part.flow(2, 1, 0).end(NLMSG_DONE, 0);
	whole.flow(2, 1, 0);
	whole.flow(2, 2, 0).end(NLMSG_DONE, 0);
	auto book = book_from({{part.bytes}, {whole.bytes}}, &asked);
	ASSERT_TRUE(book);
	EXPECT_EQ(book->flows.size(), 2U);
	EXPECT_FALSE(book->interrupted);
	EXPECT_EQ(asked, 2);
	book = book_from({{part.bytes}}, &asked);
	ASSERT_TRUE(book);
	EXPECT_EQ(book->flows.size(), 1U);
	EXPECT_TRUE(book->interrupted);
	EXPECT_EQ(asked, 5);
}

TEST(credit_links, nothing_is_read_behind_the_first_flow)
{
	CreditMessages first;
	CreditMessages then;
	int asked = 0;

	first.link(2).link(3);
	then.flags = NLM_F_DUMP_INTR; // of the flows
	then.flow(2, 1, TCP_SWIFT_STANDING_LINK); // and no end
	const auto links = links_from({{first.bytes, then.bytes}}, &asked);

	ASSERT_TRUE(links) << links.error().text();
	ASSERT_EQ(links->size(), 2U);
	EXPECT_EQ(links->at(1).ifindex, 3U);
	EXPECT_EQ(links->at(1).lent_bytes, 180000U);
	EXPECT_EQ(links->at(1).most_bytes, 183000U);
	EXPECT_EQ(asked, 1);
}

TEST(credit_links, without_flows_the_list_ends)
{
	CreditMessages none;
	CreditMessages one;
	CreditMessages refusal;

	none.end(NLMSG_DONE, 0);
	EXPECT_TRUE(links_from({{none.bytes}})->empty());
	one.link(2).end(NLMSG_DONE, 0);
	EXPECT_EQ(links_from({{one.bytes}})->size(), 1U);
	refusal.end(NLMSG_ERROR, -EOPNOTSUPP);
	EXPECT_EQ(links_from({{refusal.bytes}}).error().text(), "the module that is loaded cannot tell: it is older than swiftctl");
}

TEST(credit_client, refusals_in_words)
{
	const std::vector<std::pair<int, std::string>> rows = {
		{EOPNOTSUPP, "the module that is loaded cannot tell: it is older than swiftctl"},
		{EPROTONOSUPPORT, "the module tcp_swift is being unloaded"},
		{EPERM, "the module refused: Operation not permitted"},
	};

	for (const auto &[code, text] : rows) {
		CreditMessages m;

		m.end(NLMSG_ERROR, -code);
		const auto book = book_from({{m.bytes}});

		ASSERT_FALSE(book) << code;
		EXPECT_EQ(book.error().text(), text);
	}
}

// The contract of CreditHost, as far as any kernel can keep it: without the module both say the same.
TEST(credit_host, the_real_one_says_that_the_module_is_not_loaded)
{
	const auto host = real_credit_host();
	const auto names = host->devices();

	ASSERT_TRUE(names) << names.error().text();
	EXPECT_EQ(names->at(1), "lo");
	if (module_loaded(*real_system())) {
		EXPECT_TRUE(host->book());
		return;
	}
	const auto book = host->book();

	ASSERT_FALSE(book);
	EXPECT_EQ(book.error().code, error_no_module);
	EXPECT_EQ(book.error().text(), "the module tcp_swift is not loaded");
	auto genl = open_module_genl();

	ASSERT_TRUE(genl) << genl.error().text();
	EXPECT_EQ(credit_links(std::move(*genl)).error().code, error_no_module);
	EXPECT_EQ(real_credit_host("/elsewhere")->book().error().text(), "only the live host can tell");
	EXPECT_FALSE(real_credit_host("/elsewhere")->devices());
}

TEST(credit, sums_up_by_peer_who_wants_most_first)
{
	const CreditSnapshot s = snapshot_of(three_peers());

	ASSERT_EQ(s.peers.size(), 3U);
	EXPECT_EQ(s.peers[0].address.text(), "10.1.0.3");
	EXPECT_EQ(s.peers[1].address.text(), "10.1.0.2");
	EXPECT_EQ(s.peers[1].flows, 3U);
	EXPECT_EQ(s.peers[1].waiting, 2U);
	EXPECT_EQ(s.peers[1].wanted_bytes, 50000U);
	EXPECT_EQ(s.peers[1].lent_bytes, 12000U);
	EXPECT_EQ(s.peers[1].standing, Standing::sender);
	EXPECT_EQ(s.peers[2].standing, Standing::served);
	EXPECT_EQ(s.flows.at(0).remote.text(), "10.1.0.3:1");
	EXPECT_TRUE(s.on);
}

TEST(credit, of_a_peer_the_standing_of_most_that_wait)
{
	CreditBook b;

	b.flows = {credit_flow("10.1.0.2", 1, Standing::buffer, 1), credit_flow("10.1.0.2", 2, Standing::link, 1),
		   credit_flow("10.1.0.2", 3, Standing::link, 1), credit_flow("10.1.0.2", 4, Standing::idle, 0)};
	EXPECT_EQ(snapshot_of(b).peers.at(0).standing, Standing::link);
	b.flows = {credit_flow("10.1.0.2", 1, Standing::idle, 0), credit_flow("10.1.0.2", 2, Standing::silent, 1)};
	EXPECT_EQ(snapshot_of(b).peers.at(0).standing, Standing::silent);
	EXPECT_EQ(snapshot_of(b).peers.at(0).waiting, 0U);
}

TEST(credit, tables)
{
	const CreditSnapshot s = snapshot_of(three_peers());
	const Table links = credit_links_table(s);
	const Table peers = credit_peers_table(s);
	const Table flows = credit_flows_table(s);

	for (const Table &t : {links, peers, flows})
		for (const auto &row : t.rows)
			EXPECT_EQ(row.size(), t.columns.size());
	EXPECT_EQ(row_text(links, 0), "eth0|100000|8.80 us|9.76 us|122k|110k|183k|180k (98 %)|");
	EXPECT_EQ(row_text(links, 1), "eth?[31m|unknown|-|-|-|-|-|-|") << "a name never reaches the terminal as it is";
	EXPECT_EQ(row_text(peers, 0), "10.1.0.3|eth0|1|1|90.0k|4.00k|61.0k|link|61.0k|122k|");
	EXPECT_EQ(row_text(peers, 2), "fd00::7|eth0|1|0|0|4.00k|61.0k|served|61.0k|122k|");
	EXPECT_EQ(row_text(flows, 0), "10.1.0.3:1|10.1.0.1:5201|eth0|90.0k|4.00k|link|");
}

TEST(credit, filters_and_the_first_n)
{
	CreditOptions o;

	o.peers = {"10.1.0.2", "fd00::/8"};
	CreditSnapshot s = snapshot_of(three_peers(), o);
	EXPECT_EQ(s.peers.size(), 2U);
	EXPECT_EQ(s.flows.size(), 4U);
	EXPECT_EQ(s.all_peers, 3U);
	EXPECT_EQ(credit_notes(s).at(0), "2 of 3 peers, 4 of 5 flows shown");
	o = {};
	o.top = "1";
	s = snapshot_of(three_peers(), o);
	ASSERT_EQ(s.peers.size(), 1U);
	EXPECT_EQ(s.peers[0].address.text(), "10.1.0.3");
	EXPECT_EQ(s.flows.size(), 1U);
	o.flows = true;
	o.top = "2";
	s = snapshot_of(three_peers(), o);
	EXPECT_EQ(s.flows.size(), 2U);
	EXPECT_EQ(s.flows[1].remote.text(), "10.1.0.2:2");
	for (const auto &[change, text] : std::vector<std::pair<void (*)(CreditOptions &), const char *>>{
		     {[](CreditOptions &c) { c.peers = {"host"}; }, "--peer: not a prefix: 'host'"},
		     {[](CreditOptions &c) { c.top = "0"; }, "--top: '0' (allowed: 1 to 1000000)"},
		     {[](CreditOptions &c) { c.watch = "x"; }, "--watch: 'x'"}}) {
		CreditOptions wrong;

		change(wrong);
		const auto query = CreditQuery::from(wrong);

		ASSERT_FALSE(query) << text;
		EXPECT_TRUE(query.error().text().starts_with(text)) << query.error().text();
	}
}

TEST(credit, notes_say_why_there_is_nothing)
{
	CreditBook b;

	EXPECT_TRUE(credit_notes(snapshot_of(three_peers())).empty());
	EXPECT_TRUE(credit_notes(snapshot_of(b, {}, "0")).at(0).starts_with("credit is off here: sysctl -w"));
	const auto none = credit_notes(snapshot_of(b));
	ASSERT_EQ(none.size(), 2U);
	EXPECT_TRUE(none[0].starts_with("no flow here has negotiated credit"));
	EXPECT_TRUE(none[1].starts_with("no device has a rate that is known"));
	b = three_peers();
	b.interrupted = true;
	EXPECT_EQ(credit_notes(snapshot_of(b)), std::vector<std::string>{"flows came and went while the list was read: one may be missing"});
	const auto screen = credit_screen(snapshot_of(three_peers()), false, true, {});
	EXPECT_TRUE(screen.at(0).starts_with("DEVICE"));
	EXPECT_EQ(screen.at(3), "");
	EXPECT_TRUE(screen.at(4).starts_with("PEER"));
}

TEST(credit, what_cannot_be_asked_is_an_error)
{
	FakeCreditHost host;
	const CreditSystem system;

	host.has = Error{"the module tcp_swift is not loaded", {}, {}, error_no_module};
	const auto s = take_credit(host, system, {});

	ASSERT_FALSE(s);
	EXPECT_EQ(s.error().code, error_no_module);
}

TEST(credit, json_is_what_the_schema_says)
{
	const CreditSnapshot s = snapshot_of(three_peers());
	const auto j = nlohmann::json::parse(credit_json(s, true));
	auto wrong = j;
	swift_test::SchemaClaims claims;

	EXPECT_EQ(j["credit"], true);
	EXPECT_EQ(j["links"][0]["rate_mbps"], 100000);
	EXPECT_EQ(j["links"][0]["lent_bytes"], 180000);
	EXPECT_EQ(j["peers"][1]["peer"], "10.1.0.2");
	EXPECT_EQ(j["peers"][1]["standing"], "sender");
	EXPECT_EQ(j["peers"][1]["bucket_bytes"], 61000);
	EXPECT_EQ(j["flows"][0]["iface"], "eth0");
	EXPECT_EQ(j["flows"][0]["id"], "1");
	EXPECT_EQ(std::ranges::count(credit_json(s, true), '\n'), 1);
	wrong["peers"][0]["standing"] = "poor";
	claims.claim("swiftctl_credit", j);
	claims.claim("swiftctl_credit", nlohmann::json::parse(credit_json(snapshot_of({}, {}, "0"), false)));
	claims.claim("swiftctl_credit", wrong, false);
	wrong = j;
	wrong["links"][0]["lent_bytes"] = -1;
	claims.claim("swiftctl_credit", wrong, false);
	wrong = j;
	wrong["more"] = 1;
	claims.claim("swiftctl_credit", wrong, false);
	EXPECT_TRUE(claims.hold());
}
