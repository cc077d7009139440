// SPDX-License-Identifier: MIT
// What a mesh of probes is made of, but for its sockets: whom to probe when, who may ask, how often, and only once;
// what the answers say of a peer.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "probe_gate.h"
#include "probe_keys.h"
#include "probe_peers.h"
#include "probe_results.h"
#include "probe_rounds.h"
#include "units.h"

using namespace swift;
using swift_test::ms;

namespace {

constexpr std::int64_t mesh_now_ns = 1'700'000'000'000'000'000; // of CLOCK_REALTIME
constexpr const char *good_key = "0123456789abcdef";

ProbeKeys keys_of(const std::string &content)
{
	auto keys = ProbeKeys::parse("k", content);

	EXPECT_TRUE(keys) << keys.error().text();
	return keys ? *keys : ProbeKeys();
}

// A probe as it goes over the wire.
std::vector<std::byte> mesh_probe(std::uint32_t seq, const ProbeKeys *keys = nullptr, std::int64_t time_ns = mesh_now_ns,
				  std::size_t size = probe_signed_min_bytes)
{
	ProbePacket p;
	std::vector<std::byte> bytes(size);

	p.cookie = 0x1234;
	p.target = 3;
	p.seq = seq;
	write_probe(p, bytes);
	if (keys)
		keys->sign(bytes, {0, time_ns});
	return bytes;
}

std::vector<ProbeSample> mesh_samples(std::size_t n, std::int32_t fabric_ns, std::int32_t remote_ns, std::int32_t local_ns)
{
	return std::vector<ProbeSample>(n, {0, fabric_ns, remote_ns, local_ns, Stamp::software, Stamp::software, false});
}

ProbeVerdict mesh_verdict(const std::vector<ProbeSample> &samples)
{
	return probe_verdict(summarize_probes(samples), {500'000, 1'000'000}, {"the path to b", "b"});
}

class Gate : public testing::Test {
protected:
	std::optional<Refusal> refused(const std::vector<std::byte> &bytes, std::int64_t at_ns = mesh_now_ns, const char *from = "10.0.0.9")
	{
		const auto checked = gate_->check({bytes, false, *Address::parse(from)}, at_ns - mesh_now_ns + 1000 * ms, at_ns);
		const auto *why = std::get_if<Refusal>(&checked);

		return why ? std::optional(*why) : std::nullopt;
	}
	void open(const ProbeKeys &keys, const GateLimits &limits = {})
	{
		gate_.emplace(keys, limits, 7, mesh_now_ns - 5000 * ms);
	}

	std::optional<ProbeGate> gate_;
};

} // namespace

// --- Whom to probe when

TEST(probe_rounds, all_peers_have_had_their_turn_before_one_has_a_second)
{
	for (const auto &[peers, sample] : {std::pair<std::size_t, std::size_t>{100, 8}, {7, 3}, {5, 5}, {3, 8}, {1, 1}, {256, 1}}) {
		PeerChoice choice(peers, sample, 1);
		std::map<std::size_t, int> turns;

		for (int round = 0; round < 500; round++) {
			const auto chosen = choice.next();

			ASSERT_EQ(chosen.size(), std::min(peers, sample));
			ASSERT_EQ(std::set<std::size_t>(chosen.begin(), chosen.end()).size(), chosen.size()) << "twice in a round";
			for (const std::size_t peer : chosen) {
				ASSERT_LT(peer, peers);
				turns[peer]++;
			}
			const auto by_turns = [](const auto &a, const auto &b) { return a.second < b.second; };
			const int most = std::max_element(turns.begin(), turns.end(), by_turns)->second;
			const int fewest = turns.size() < peers ? 0 : std::min_element(turns.begin(), turns.end(), by_turns)->second;

			ASSERT_LE(most - fewest, 1) << peers << " peers, round " << round;
		}
	}
}

TEST(probe_rounds, a_seed_says_the_order_and_rounds_differ)
{
	PeerChoice a(64, 8, 1), b(64, 8, 1), c(64, 8, 2);
	std::vector<std::size_t> one, same, other;

	for (int round = 0; round < 16; round++) { // two turns of all
		for (const auto &[choice, out] : {std::pair(&a, &one), {&b, &same}, {&c, &other}})
			for (const std::size_t peer : choice->next())
				out->push_back(peer);
	}
	EXPECT_EQ(one, same);
	EXPECT_NE(one, other);
	// The second turn is in another order.
	EXPECT_NE(std::vector(one.begin(), one.begin() + 64), std::vector(one.begin() + 64, one.end()));
	EXPECT_EQ(PeerChoice(0, 8, 1).next(), std::vector<std::size_t>());
}

TEST(probe_rounds, each_peer_gets_its_probes_and_one_more_for_the_last_turnaround)
{
	ProbeRounds rounds({10, 4, 3, 100 * ms}, 1);
	std::map<std::size_t, int> counted, all;
	int firsts = 0;

	for (int i = 0; i < 4 * (3 + 1); i++) {
		const auto turn = rounds.take(i * 100 * ms);

		ASSERT_TRUE(turn);
		firsts += turn->first;
		counted[turn->peer] += turn->counts;
		all[turn->peer]++;
	}
	EXPECT_EQ(firsts, 1);
	EXPECT_EQ(rounds.rounds(), 1U);
	EXPECT_EQ(all.size(), 4U);
	for (const auto &[peer, n] : all) {
		EXPECT_EQ(n, 4);
		EXPECT_EQ(counted[peer], 3);
	}
	EXPECT_TRUE(rounds.take(1600 * ms)->first);
	EXPECT_EQ(rounds.cycle_ns(), 10 * 4 * 100 * ms);
	EXPECT_FALSE(ProbeRounds({0, 4, 3, 1}, 1).take(0)); // nobody
}

TEST(probe_rounds, never_more_a_second_than_allowed)
{
	constexpr std::int64_t gap_ns = 100 * ms;
	ProbeRounds rounds({100, 8, 4, gap_ns}, 1);
	std::vector<std::int64_t> sent;
	std::int64_t now_ns = 1000 * ms;

	// Who asks does so in bursts, and is away for a while now and then.
	for (int i = 0; i < 20000; i++) {
		now_ns += i % 1000 == 0 ? 5000 * ms : i % 7 * ms;
		if (rounds.take(now_ns))
			sent.push_back(now_ns);
	}
	ASSERT_GT(sent.size(), 400U);
	for (std::size_t i = 1; i < sent.size(); i++)
		ASSERT_GE(sent[i] - sent[i - 1], gap_ns) << i;
}

// --- Peers

TEST(probe_peers, a_file_of_hosts_and_their_racks)
{
	const auto good = parse_peers("f", "# all\n10.0.0.1 a1\n\n [fd00::3]:9  eu1/b.2 # two\r\nhost:7\n");

	ASSERT_TRUE(good) << good.error().text();
	EXPECT_EQ(*good, (std::vector<ProbedPeer>{{"10.0.0.1", "a1"}, {"[fd00::3]:9", "eu1/b.2"}, {"host:7", "none"}}));
	EXPECT_TRUE(parse_peers("f", "")->empty());
	for (const auto &[text, said] : std::map<std::string, std::string>{
		     {"a\nb c d\n", "f:2: not a peer (allowed: HOST, HOST:PORT, [ADDRESS]:PORT, and a rack behind it)"},
		     {"a\n\nb:99999 r\n", "f:3: port of b: '99999' (allowed: 1 to 65535)"},
		     {"a r!\n", "f:1: not a rack (allowed: up to 64 letters, digits and - _ . / :, but for \"other\")"},
		     {"a other\n", "f:1: not a rack (allowed: up to 64 letters, digits and - _ . / :, but for \"other\")"}}) {
		const auto bad = parse_peers("f", text);

		ASSERT_FALSE(bad) << text;
		EXPECT_EQ(bad.error().text(), said);
	}
	EXPECT_FALSE(parse_peers("f", std::string("a\0b", 3)));
	EXPECT_FALSE(is_rack(std::string(65, 'a')));
	std::string many;

	for (std::size_t i = 0; i <= most_probe_peers; i++)
		many += "10.0.0.1\n";
	EXPECT_FALSE(parse_peers("f", many));
	const auto own = own_addresses();

	EXPECT_NE(std::find(own.begin(), own.end(), *Address::parse("127.0.0.1")), own.end());
}

// --- Who may ask

TEST(probe_keys, a_file_of_keys)
{
	EXPECT_EQ(keys_of("# ours\n0123456789abcdef\n"), keys_of(good_key));
	EXPECT_TRUE(ProbeKeys().empty());
	EXPECT_EQ(ProbeKeys().least_bytes(), probe_min_bytes);
	EXPECT_EQ(keys_of(good_key).least_bytes(), probe_signed_min_bytes);
	for (const auto &[text, said] : std::map<std::string, std::string>{
		     {"", "no key in k"},
		     {"# none\n\n", "no key in k"},
		     {"\n0123456789abcde\n", "k:2: a key of 15 characters (allowed: 16 to 256)"},
		     {std::string(257, 'a'), "k:1: a key of 257 characters (allowed: 16 to 256)"},
		     {"0123456789 abcdefg", "k:1: not a key (allowed: printable ASCII without blanks)"}}) {
		const auto bad = ProbeKeys::parse("k", text);

		ASSERT_FALSE(bad) << text;
		EXPECT_EQ(bad.error().text(), said);
	}
	std::string five;

	for (char c = 'a'; c < 'f'; c++)
		five += std::string(16, c) + "\n";
	EXPECT_EQ(ProbeKeys::parse("k", five).error().text(), "k:5: too many keys (allowed: at most 4)");
}

TEST(probe_keys, the_signature_is_hmac_sha256_of_all_bytes)
{
	const ProbeKeys keys = keys_of(good_key);
	const auto packet = mesh_probe(5, &keys, 0x0102030405060708, 120);
	// python3: hmac.new(b"0123456789abcdef", packet[:80] + packet[112:], "sha256").hexdigest()
	std::string hex;

	for (std::size_t i = 80; i < 112; i++) {
		char digits[3];

		std::snprintf(digits, sizeof(digits), "%02x", std::to_integer<unsigned>(packet[i]));
		hex += digits;
	}
	EXPECT_EQ(hex, "3b651bd99b75c585eae5daf66ded4d2422cc3defb8030946251f9364bc480bba");
	EXPECT_EQ(std::to_integer<int>(packet[7]), 1);
	EXPECT_EQ(std::to_integer<int>(packet[72]), 1);
	EXPECT_EQ(std::to_integer<int>(packet[79]), 8);
}

TEST(probe_keys, accepts_what_one_of_them_signed_and_nothing_else)
{
	const ProbeKeys old_one = keys_of(good_key);
	const ProbeKeys both = keys_of("fedcba9876543210\n0123456789abcdef\n");
	const ProbeKeys stranger = keys_of("0123456789abcdeg");
	const auto packet = mesh_probe(5, &old_one, 42, 200);
	const auto checked = both.check(packet);

	ASSERT_TRUE(std::holds_alternative<ProbeSignature>(checked));
	EXPECT_EQ(std::get<ProbeSignature>(checked).key, 1U);
	EXPECT_EQ(std::get<ProbeSignature>(checked).time_ns, 42);
	EXPECT_EQ(std::get<SignatureDefect>(stranger.check(packet)), SignatureDefect::wrong);
	EXPECT_EQ(std::get<SignatureDefect>(old_one.check(mesh_probe(5))), SignatureDefect::missing);
	EXPECT_EQ(std::get<SignatureDefect>(old_one.check(mesh_probe(5, nullptr, 0, probe_min_bytes))), SignatureDefect::missing);
	EXPECT_EQ(std::get<SignatureDefect>(old_one.check({})), SignatureDefect::missing);
	// No bit of it may change, nor its length.
	for (std::size_t i = 0; i < packet.size() * 8; i++) {
		auto changed = packet;

		changed[i / 8] ^= std::byte{1} << i % 8;
		ASSERT_TRUE(std::holds_alternative<SignatureDefect>(old_one.check(changed))) << "bit " << i;
	}
	for (std::size_t size = 0; size < packet.size(); size++)
		ASSERT_TRUE(std::holds_alternative<SignatureDefect>(old_one.check(std::span(packet).first(size)))) << size;
}

TEST_F(Gate, without_keys_everybody_may_ask)
{
	open({});
	EXPECT_FALSE(refused(mesh_probe(1)));
	EXPECT_FALSE(refused(mesh_probe(1))); // a second time, too
	EXPECT_FALSE(refused(mesh_probe(1, nullptr, 0, probe_min_bytes)));
	EXPECT_EQ(refused(std::vector<std::byte>(100)), Refusal::foreign);
	EXPECT_EQ(refused({}), Refusal::too_short);
	ProbePacket reply;
	std::vector<std::byte> bytes(probe_min_bytes);

	reply.type = ProbeType::reply;
	write_probe(reply, bytes);
	EXPECT_EQ(refused(bytes), Refusal::type); // no two responders answer each other
	const auto checked = gate_->check({bytes, true, {}}, 0, 0);

	EXPECT_EQ(std::get<Refusal>(checked), Refusal::too_long);
}

TEST_F(Gate, with_keys_it_wants_a_signature_of_one_of_them)
{
	const ProbeKeys keys = keys_of(good_key), others = keys_of("fedcba9876543210");

	open(keys);
	EXPECT_EQ(refused(mesh_probe(1)), Refusal::not_signed);
	EXPECT_EQ(refused(mesh_probe(1, &others)), Refusal::wrong_signature);
	EXPECT_FALSE(refused(mesh_probe(1, &keys)));
	gate_->set_keys(others);
	EXPECT_EQ(refused(mesh_probe(2, &keys)), Refusal::wrong_signature);
	EXPECT_FALSE(refused(mesh_probe(3, &others)));
}

TEST_F(Gate, a_signed_probe_is_good_once_and_for_a_while)
{
	const ProbeKeys keys = keys_of(good_key);

	open(keys);
	EXPECT_FALSE(refused(mesh_probe(100, &keys)));
	EXPECT_EQ(refused(mesh_probe(100, &keys)), Refusal::replayed);
	EXPECT_EQ(refused(mesh_probe(100, &keys), mesh_now_ns, "10.0.0.200"), Refusal::replayed); // from elsewhere
	// Packets may overtake each other, but not by more than it remembers.
	EXPECT_FALSE(refused(mesh_probe(110, &keys)));
	EXPECT_FALSE(refused(mesh_probe(105, &keys)));
	EXPECT_EQ(refused(mesh_probe(105, &keys)), Refusal::replayed);
	EXPECT_EQ(refused(mesh_probe(100, &keys)), Refusal::replayed);
	EXPECT_FALSE(refused(mesh_probe(110 - 63, &keys)));
	EXPECT_EQ(refused(mesh_probe(110 - 64, &keys)), Refusal::replayed);
	EXPECT_FALSE(refused(mesh_probe(10000, &keys)));
	EXPECT_EQ(refused(mesh_probe(110, &keys)), Refusal::replayed);
	// Its time has to be now, by both hosts' clocks.
	EXPECT_EQ(refused(mesh_probe(10001, &keys), mesh_now_ns + ReplayGuard::window_ns + 1), Refusal::out_of_time);
	EXPECT_EQ(refused(mesh_probe(10001, &keys, mesh_now_ns + ReplayGuard::window_ns + 1)), Refusal::out_of_time);
	EXPECT_FALSE(refused(mesh_probe(10001, &keys, mesh_now_ns + ReplayGuard::window_ns)));
	// What was signed before this responder began, the one before it may have answered.
	EXPECT_EQ(refused(mesh_probe(10002, &keys, mesh_now_ns - 5001 * ms)), Refusal::out_of_time);
	EXPECT_FALSE(refused(mesh_probe(10002, &keys, mesh_now_ns - 5000 * ms)));
}

TEST(probe_replays, a_clock_that_is_set_back_is_a_new_beginning)
{
	constexpr std::int64_t ahead_ns = 600'000'000'000;
	ReplayGuard guard(mesh_now_ns + ahead_ns, 1);
	ProbePacket p;

	EXPECT_FALSE(guard.check(p, mesh_now_ns + ahead_ns + 1, mesh_now_ns + ahead_ns + 1));
	p.seq++;
	EXPECT_EQ(guard.check(p, mesh_now_ns - 1, mesh_now_ns), Refusal::out_of_time);
	EXPECT_FALSE(guard.check(p, mesh_now_ns + 1, mesh_now_ns + 1));
	EXPECT_EQ(guard.check(p, mesh_now_ns - 1, mesh_now_ns + 2), Refusal::out_of_time);
}

TEST(probe_replays, numbers_go_round)
{
	ReplayGuard guard(0, 1);
	ProbePacket p;

	for (std::uint32_t i = 0; i < 200; i++) {
		p.seq = 0xffffff9cU + i; // through 0
		ASSERT_FALSE(guard.check(p, mesh_now_ns, mesh_now_ns)) << i;
		ASSERT_EQ(guard.check(p, mesh_now_ns, mesh_now_ns), Refusal::replayed) << i;
	}
}

TEST(probe_replays, what_it_remembers_is_bounded_and_nothing_is_forgotten_too_early)
{
	ReplayGuard guard(0, 1);
	ProbePacket p;

	for (std::uint64_t i = 0; i < ReplayGuard::most; i++) {
		p.cookie = i;
		ASSERT_FALSE(guard.check(p, mesh_now_ns, mesh_now_ns));
	}
	p.cookie = ReplayGuard::most;
	EXPECT_EQ(guard.check(p, mesh_now_ns, mesh_now_ns), Refusal::crowded);
	p.cookie = 0;
	EXPECT_EQ(guard.check(p, mesh_now_ns, mesh_now_ns), Refusal::replayed);
	// A probe may have been signed by a clock that is ahead: as long as its time is good, it is known.
	const std::int64_t later_ns = mesh_now_ns + 2 * ReplayGuard::window_ns;

	EXPECT_EQ(guard.check(p, mesh_now_ns + ReplayGuard::window_ns, later_ns), Refusal::replayed);
	p.cookie = ReplayGuard::most;
	EXPECT_EQ(guard.check(p, later_ns, later_ns), Refusal::crowded);
	EXPECT_FALSE(guard.check(p, later_ns + 1, later_ns + 1)); // now the others' time is over
	EXPECT_EQ(guard.size(), 1U);
}

TEST_F(Gate, each_source_has_its_bound_and_all_have_one)
{
	open({}, {1000, 100});
	const auto passed = [&](const char *from, int n, std::int64_t at_ns = mesh_now_ns) {
		int count = 0;

		for (int i = 0; i < n; i++)
			count += !refused(mesh_probe(1), at_ns, from);
		return count;
	};

	EXPECT_EQ(passed("10.0.0.1", 100), 16);
	EXPECT_EQ(refused(mesh_probe(1), mesh_now_ns, "10.0.0.1"), Refusal::source_rate);
	EXPECT_EQ(passed("10.0.0.2", 100), 16); // not the other's fault
	EXPECT_EQ(passed("fd00::1", 100), 16);
	EXPECT_EQ(passed("fd00::2", 100), 0); // the same /64
	EXPECT_EQ(passed("fd00:0:0:1::1", 100), 16);
	EXPECT_EQ(passed("10.0.0.1", 1000, mesh_now_ns + 100 * ms), 10);
	int all = 0;

	for (int i = 0; i < 200; i++)
		all += passed(("10.1.0." + std::to_string(i)).c_str(), 16, mesh_now_ns + 100 * ms);
	EXPECT_LE(all, 100); // of all together
	EXPECT_EQ(refused(mesh_probe(1), mesh_now_ns + 100 * ms, "10.2.0.1"), Refusal::rate);
}

TEST(probe_sources, a_bounded_number_is_remembered)
{
	SourceLimit limit(1, 1);

	for (unsigned i = 0; i < 2 * SourceLimit::most; i++) {
		Address a;

		a.bytes[0] = 10;
		a.bytes[2] = static_cast<std::uint8_t>(i >> 8);
		a.bytes[3] = static_cast<std::uint8_t>(i);
		EXPECT_TRUE(limit.take(a, 1000 * ms));
	}
	EXPECT_EQ(limit.size(), SourceLimit::most);
	SourceLimit none(0, 1);

	for (int i = 0; i < 1000; i++)
		EXPECT_TRUE(none.take({}, 0));
	EXPECT_EQ(none.size(), 0U);
}

TEST(probe_refusals, each_has_a_text_and_a_name)
{
	std::set<std::string_view> texts;

	for (std::size_t i = 0; i < refusals; i++) {
		EXPECT_FALSE(refusal_name(static_cast<Refusal>(i)).empty());
		texts.insert(refusal_text(static_cast<Refusal>(i)));
	}
	EXPECT_EQ(texts.size(), refusals);
	EXPECT_EQ(refusal_text(Refusal::not_sent), "that could not be answered");
	EXPECT_EQ(refusal_name(Refusal::not_sent), "not_sent");
}

// --- What the answers say

TEST(probe_results, an_exchange_becomes_a_sample)
{
	Exchange e;
	Measured m;

	EXPECT_TRUE(probe_sample(7, e, m).lost);
	e.replied = true;
	EXPECT_FALSE(probe_sample(7, e, m).lost);
	EXPECT_FALSE(probe_sample(7, e, m).measured());
	m.local = m.remote = Stamp::software;
	m.fabric_ns = 30000;
	m.turnaround_ns = 20000;
	m.tx_ns = 5000;
	EXPECT_FALSE(probe_sample(7, e, m).measured()); // how it came in is missing
	m.rx_ns = 4000;
	const ProbeSample s = probe_sample(7, e, m);

	EXPECT_TRUE(s.measured());
	EXPECT_EQ(s.at_ns, 7);
	EXPECT_EQ(s.fabric_ns, 30000);
	EXPECT_EQ(s.host_ns(), 29000);
	m.implausible = true;
	EXPECT_FALSE(probe_sample(7, e, m).measured());
}

TEST(probe_results, a_peer_keeps_the_newest_of_a_window)
{
	PeerSamples samples;
	std::vector<ProbeSample> out;

	for (int i = 0; i < 100; i++) {
		ProbeSample s;

		s.at_ns = i;
		samples.add(s);
	}
	samples.collect(0, out);
	EXPECT_EQ(out.size(), PeerSamples::most);
	EXPECT_EQ(std::min_element(out.begin(), out.end(), [](auto &a, auto &b) { return a.at_ns < b.at_ns; })->at_ns, 36);
	out.clear();
	samples.collect(90, out);
	EXPECT_EQ(out.size(), 10U);
}

TEST(probe_results, quantiles_of_each_part)
{
	std::vector<ProbeSample> samples;

	for (std::int32_t i = 100; i > 0; i--)
		samples.push_back({0, i * 10, i * 2, i, Stamp::software, Stamp::hardware, false});
	samples.push_back({});
	samples.back().lost = true;
	// Otherwise stamped: another part of the hosts is in its fabric.
	samples.push_back({0, 999999, 1, 1, Stamp::hardware, Stamp::hardware, false});

	const ProbeSummary s = summarize_probes(samples);

	EXPECT_EQ(s.sent, 102U);
	EXPECT_EQ(s.lost, 1U);
	EXPECT_EQ(s.other_stamps, 1U);
	EXPECT_EQ(s.local, Stamp::software);
	EXPECT_EQ(s.remote, Stamp::hardware);
	EXPECT_EQ(s.fabric.n, 100U);
	EXPECT_EQ(s.fabric.min_ns, 10);
	EXPECT_EQ(s.fabric.p50_ns, 500);
	EXPECT_EQ(s.fabric.p90_ns, 900);
	EXPECT_EQ(s.fabric.p99_ns, 990);
	EXPECT_EQ(s.host.p50_ns, 150);
	EXPECT_EQ(s.remote_host.p99_ns, 198);
	EXPECT_EQ(s.local_host.min_ns, 1);
	EXPECT_EQ(summarize_probes({}).fabric.n, 0U);
	// As many of both kinds: the better one.
	samples = mesh_samples(2, 1, 1, 1);
	samples.push_back({0, 5, 1, 1, Stamp::hardware, Stamp::hardware, false});
	samples.push_back({0, 5, 1, 1, Stamp::hardware, Stamp::hardware, false});
	EXPECT_EQ(summarize_probes(samples).local, Stamp::hardware);
}

TEST(probe_results, verdicts_name_who_is_slow)
{
	const auto slow = [](std::int32_t fabric_ns, std::int32_t remote_ns, std::int32_t local_ns) {
		return mesh_verdict(mesh_samples(10, fabric_ns, remote_ns, local_ns));
	};
	ProbeVerdict v = slow(30'000, 20'000, 9'000);

	EXPECT_EQ(v.state, PeerState::good);
	EXPECT_EQ(v.bound, Bound::none);
	EXPECT_EQ(v.text, "good: the path to b takes 30.0 us, b adds 29.0 us");
	v = slow(600'000, 20'000, 20'000);
	EXPECT_EQ(v.state, PeerState::slow);
	EXPECT_EQ(v.bound, Bound::fabric);
	EXPECT_EQ(v.text, "fabric-bound: the path to b takes 600.0 us (more than 500.0 us)");
	v = slow(30'000, 1'500'000, 20'000);
	EXPECT_EQ(v.bound, Bound::host);
	EXPECT_EQ(v.text, "host-bound: b adds 1.52 ms (more than 1.00 ms)");
	EXPECT_EQ(slow(30'000, 20'000, 1'500'000).text, "host-bound: this host adds 1.52 ms (more than 1.00 ms)");
	EXPECT_EQ(slow(30'000, 700'000, 500'000).text, "host-bound: this host and b add 1.20 ms (more than 1.00 ms)");
	v = slow(600'000, 1'500'000, 20'000);
	EXPECT_EQ(v.bound, Bound::mixed);
	EXPECT_EQ(v.text, "mixed: the path to b takes 600.0 us (more than 500.0 us), b adds 1.52 ms (more than 1.00 ms)");
}

TEST(probe_results, one_slow_probe_of_many_is_no_verdict)
{
	auto samples = mesh_samples(19, 30'000, 20'000, 9'000);

	samples[3].fabric_ns = 50'000'000;
	EXPECT_EQ(mesh_verdict(samples).state, PeerState::good);
	samples[4].fabric_ns = 50'000'000;
	EXPECT_EQ(mesh_verdict(samples).state, PeerState::slow); // more than a tenth
}

TEST(probe_results, loss_and_silence)
{
	auto samples = mesh_samples(100, 30'000, 20'000, 9'000);
	const auto lose = [&](std::size_t n) {
		for (std::size_t i = 0; i < n; i++) {
			samples[i] = {};
			samples[i].lost = true;
		}
	};

	lose(1);
	EXPECT_EQ(mesh_verdict(samples).state, PeerState::good);
	lose(2);
	EXPECT_EQ(mesh_verdict(samples).state, PeerState::lossy);
	EXPECT_EQ(mesh_verdict(samples).text, "lossy: 2 of 100 probes to b are lost");
	for (ProbeSample &s : samples)
		s.fabric_ns = 600'000;
	EXPECT_EQ(mesh_verdict(samples).text,
		  "fabric-bound: the path to b takes 600.0 us (more than 500.0 us); 2 of 100 probes are lost");
	lose(100);
	EXPECT_EQ(mesh_verdict(samples).state, PeerState::silent);
	EXPECT_EQ(mesh_verdict(samples).text, "none of 100 probes to b is answered");
	EXPECT_EQ(mesh_verdict(mesh_samples(7, 1, 1, 1)).text, "not measured: 7 probes are too few");
	EXPECT_EQ(mesh_verdict(std::vector<ProbeSample>(20)).text, "not measured: stamps are missing");
	EXPECT_EQ(mesh_verdict(std::vector<ProbeSample>(20)).state, PeerState::unmeasured);
}
