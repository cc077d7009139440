// SPDX-License-Identifier: MIT
// [probe]: its options and files, the book of what peers answered, how that is told; and two services that probe each
// other over loopback.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <fstream>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "api.h"
#include "config.h"
#include "mesh_reader.h"
#include "metrics.h"
#include "probing.h"

using namespace swift;
using nlohmann::json;

namespace {

constexpr std::int64_t probing_s = 1'000'000'000;
constexpr const char *probing_key = "0123456789abcdef";

std::string wrong_probe(const std::string &toml)
{
	const auto c = parse_config("[probe]\n" + toml, "f");

	return c ? "" : c.error().text();
}

class File {
public:
	explicit File(const std::string &content) { write(content); }
	File(const File &) = delete;
	File &operator=(const File &) = delete;
	~File() { std::remove(path.c_str()); }
	void write(const std::string &content) const { std::ofstream(path) << content; }

	const std::string path = testing::TempDir() + "probing_test_" + std::to_string(getpid()) + "_" + std::to_string(++number);

private:
	static inline int number = 0;
};

ProbeSample probing_sample(std::int64_t at_ns, std::int32_t fabric_ns = 30'000, std::int32_t host_ns = 20'000)
{
	return {at_ns, fabric_ns, host_ns / 2, host_ns / 2, Stamp::hardware, Stamp::hardware, false};
}

ProbeSample probing_loss(std::int64_t at_ns)
{
	ProbeSample s;

	s.at_ns = at_ns;
	s.lost = true;
	return s;
}

ProbeNews told_by(ProbeBook &book, std::int64_t now_ns)
{
	ProbeNews news;

	book.tell(now_ns, news);
	return news;
}

const ProbePeerRow &row_of(const ProbeNews &news, const std::string &name)
{
	for (const ProbePeerRow &row : news.peers)
		if (row.name == name)
			return row;
	static const ProbePeerRow none;

	ADD_FAILURE() << "no peer " << name;
	return none;
}

const ProbePairRow &pair_with(const ProbeNews &news, const std::string &rack)
{
	for (const ProbePairRow &row : news.pairs)
		if (row.peer_rack == rack)
			return row;
	static const ProbePairRow none;

	ADD_FAILURE() << "no rack " << rack;
	return none;
}

// A rack each of peers that are good, behind a slow network, slow themselves, and gone.
ProbeNews four_racks()
{
	ProbeBook book({}, {{"10.0.0.1", "a"}, {"10.0.1.1", "b"}, {"10.0.1.2", "b"}, {"10.0.2.1", "c"}, {"10.0.3.1", "none"}, {"10.0.0.9", "a"}});

	book.is_self(5);
	for (int i = 0; i < 10; i++) {
		book.add(0, probing_sample(i));
		book.add(1, probing_sample(i, 800'000));
		book.add(2, probing_sample(i, 900'000));
		book.add(3, probing_sample(i, 30'000, 5'000'000));
		book.add(4, probing_loss(i));
	}
	book.set_trouble(4, "Network is unreachable");
	auto news = told_by(book, probing_s);

	news.places = {"10.0.0.9:21335"};
	news.answered = 7;
	news.refused[static_cast<std::size_t>(Refusal::foreign)] = 1;
	news.refused[static_cast<std::size_t>(Refusal::too_short)] = 2;
	news.unbelieved[static_cast<std::size_t>(Refusal::wrong_signature)] = 3;
	news.cycle_s = 4;
	return news;
}

// What a prober tells, and waiting for it.
class Told {
public:
	Probing::Tell tell()
	{
		return [this](std::shared_ptr<const ProbeNews> news) {
			const std::scoped_lock lock(mutex_);

			newest_ = std::move(news);
			changed_.notify_all();
		};
	}
	template <typename Holds> std::shared_ptr<const ProbeNews> until(Holds holds)
	{
		std::unique_lock lock(mutex_);

		EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(120), [&] { return newest_ && holds(*newest_); }));
		return newest_;
	}

private:
	std::mutex mutex_;
	std::condition_variable changed_;
	std::shared_ptr<const ProbeNews> newest_;
};

class Pair : public testing::Test {
protected:
	// One answers, the other probes it, quickly.
	void start(const std::string &answering_key, const std::string &probing_with)
	{
		a_.listen = {"127.0.0.1:0"};
		a_.answers_pps = 100000;
		a_.key_file = answering_key;
		auto inputs = ProbeInputs::read(a_);

		ASSERT_TRUE(inputs);
		ASSERT_TRUE(answers_.start(a_, *inputs));
		ASSERT_EQ(answers_.places().size(), 1U);
		b_.peers = {answers_.places()[0] + " rack-a"};
		b_.rack = "rack-b";
		b_.rate_pps = 1000;
		b_.sample = 1;
		b_.timeout_ms = 2000;
		b_.key_file = probing_with;
		inputs = ProbeInputs::read(b_);
		ASSERT_TRUE(inputs);
		ASSERT_TRUE(probes_.start(b_, *inputs));
	}

	static bool reload(Probing &probing, const Config::Probe &config)
	{
		auto change = probing.prepare(config, *ProbeInputs::read(config));

		EXPECT_TRUE(change) << change.error().text();
		return change && probing.apply(std::move(*change));
	}
	static std::string refused(const Probing &probing, const Config::Probe &config)
	{
		const auto change = probing.prepare(config, *ProbeInputs::read(config));

		return change ? "" : change.error().text();
	}
	// More probes of the one peer come back from now on.
	void expect_answers()
	{
		std::uint64_t before = 0;

		told_b_.until([&](const ProbeNews &n) {
			before = n.counters.empty() ? 0 : n.counters[0].answered;
			return true;
		});
		told_b_.until([&](const ProbeNews &n) { return !n.counters.empty() && n.counters[0].answered >= before + 16; });
	}
	void expect_silence()
	{
		told_b_.until([](const ProbeNews &n) {
			return n.peers.size() == 1 && n.peers[0].trouble == "nobody answers on that port (probe.listen of its swiftd)";
		});
	}

	Config::Probe a_, b_;
	Told told_a_, told_b_;
	Probing answers_{told_a_.tell()};
	Probing probes_{told_b_.tell()};
};

// A UDP socket of somebody else, if the address is free.
class OthersSocket {
public:
	explicit OthersSocket(const std::string &place, bool shared)
	{
		const auto at = parse_listen("", place);
		const int on = shared;
		sockaddr_in a{};

		a.sin_family = AF_INET;
		a.sin_port = htons(at->port);
		inet_pton(AF_INET, at->host.c_str(), &a.sin_addr);
		setsockopt(fd_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
		bound = bind(fd_.get(), reinterpret_cast<sockaddr *>(&a), sizeof(a)) == 0;
	}
	bool bound = false;

private:
	Fd fd_{socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
};

std::uint64_t count_of(const RefusalCounts &counts, Refusal why)
{
	return counts[static_cast<std::size_t>(why)];
}

} // namespace

TEST(ProbeConfig, SaysWhatIsWrong)
{
	EXPECT_EQ(wrong_probe("listen = [\"0.0.0.0:21335\", \"[::]:21335\"]\npeers = [\"10.0.0.2\", \"h:9 a1\"]\n"), "");
	EXPECT_EQ(wrong_probe("listen = [\"host:1\"]\n"),
		  "f: probe.listen = \"host:1\": allowed are ADDRESS:PORT and [ADDRESS]:PORT, addresses in numbers");
	EXPECT_EQ(wrong_probe("peers = [\"a b c\"]\n"),
		  "f: probe.peers = \"a b c\": not a peer (allowed: HOST, HOST:PORT, [ADDRESS]:PORT, and a rack behind it)");
	EXPECT_EQ(wrong_probe("peers_file = \"p\"\n"), "f: probe.peers_file = \"p\": allowed are absolute paths");
	EXPECT_EQ(wrong_probe("key_file = \"p\"\n"), "f: probe.key_file = \"p\": allowed are absolute paths");
	EXPECT_EQ(wrong_probe("rack = \"a b\"\n"),
		  "f: probe.rack = \"a b\": allowed are up to 64 letters, digits and - _ . / :, but for \"other\"");
	EXPECT_EQ(wrong_probe("sample = 256\nrate_pps = 1\n"),
		  "f: probe.sample = 256 with probe.rate_pps = 1: a peer would be probed every 256 s of its round; allowed is up "
		  "to 30 s");
	EXPECT_EQ(wrong_probe("mesh = [\"https://b-1:9464\"]\nmesh_token_file = \"t\"\n"), "");
	EXPECT_EQ(wrong_probe("mesh = [\"http://b-1:9464\"]\nmesh_token_file = \"t\"\n"),
		  "f: probe.mesh_token_file: http://b-1:9464 of probe.mesh has to be an https:// URL, or the token would be sent in clear");
	EXPECT_NE(wrong_probe("mesh = [\"b-1\"]\n"), "");
	EXPECT_NE(wrong_probe("rate_pps = 1001\n"), "");
	EXPECT_NE(wrong_probe("timeout_ms = 2001\n"), "");
}

TEST(ProbeConfig, FilesAreReadWholeOrNotAtAll)
{
	const File peers("10.0.0.1 a\n10.0.0.2:9 b\n10.0.0.1 c\n"), keys(probing_key);
	Config::Probe c;

	EXPECT_EQ(*ProbeInputs::read(c), ProbeInputs());
	c.peers = {"10.0.0.9 x", "10.0.0.2:9 y"};
	c.peers_file = peers.path;
	c.key_file = keys.path;
	const auto got = ProbeInputs::read(c);

	ASSERT_TRUE(got) << got.error().text();
	EXPECT_EQ(got->peers, (std::vector<ProbedPeer>{{"10.0.0.9", "x"}, {"10.0.0.2:9", "y"}, {"10.0.0.1", "a"}})); // each once
	EXPECT_FALSE(got->keys.empty());
	peers.write("10.0.0.1 a\n10.0.0.2 b b\n");
	EXPECT_EQ(ProbeInputs::read(c).error().text(),
		  "probe.peers_file: " + peers.path + ":2: not a peer (allowed: HOST, HOST:PORT, [ADDRESS]:PORT, and a rack behind it)");
	peers.write("");
	keys.write("short");
	EXPECT_EQ(ProbeInputs::read(c).error().text(), "probe.key_file: " + keys.path + ":1: a key of 5 characters (allowed: 16 to 256)");
	c.peers_file = "/no/such/file";
	EXPECT_NE(ProbeInputs::read(c).error().text().find("probe.peers_file: "), std::string::npos);
}

TEST(ProbeBook, TellsOfPeersAndRacks)
{
	const ProbeNews news = four_racks();

	EXPECT_EQ(news.rack, "a"); // by its own line
	ASSERT_EQ(news.peers.size(), 5U); // without itself
	EXPECT_EQ(news.peers.front().name, "10.0.2.1"); // the slowest first, then who is silent
	EXPECT_EQ(news.peers[3].name, "10.0.3.1");
	EXPECT_EQ(row_of(news, "10.0.3.1").trouble, "Network is unreachable");
	EXPECT_EQ(row_of(news, "10.0.3.1").verdict.state, PeerState::silent);
	EXPECT_EQ(row_of(news, "10.0.0.1").verdict.state, PeerState::good);
	ASSERT_EQ(news.pairs.size(), 4U);
	EXPECT_EQ(pair_with(news, "b").peers, 2U);
	EXPECT_EQ(pair_with(news, "b").summary.fabric.n, 20U);
	EXPECT_EQ(pair_with(news, "b").states[static_cast<std::size_t>(PeerState::slow)], 2U);
	EXPECT_EQ(pair_with(news, "b").verdict.text, "fabric-bound: the path to rack b takes 900.0 us (more than 500.0 us)");
	EXPECT_EQ(pair_with(news, "c").verdict.text,
		  "host-bound: this host and hosts in rack c add 5.00 ms (more than 1.00 ms)");
	EXPECT_EQ(pair_with(news, "none").verdict.text, "none of 10 probes to peers without a rack is answered");
	EXPECT_EQ(news.counters.size(), 4U);
}

TEST(ProbeBook, OldProbesAreForgotten)
{
	Config::Probe c;
	ProbeBook book(c, {{"p", "a"}});

	for (int i = 0; i < 10; i++)
		book.add(0, probing_sample(1000 * probing_s));
	EXPECT_EQ(row_of(told_by(book, 1001 * probing_s), "p").verdict.state, PeerState::good);
	const ProbeNews later = told_by(book, (1001 + c.window_s) * probing_s);

	EXPECT_EQ(row_of(later, "p").verdict.state, PeerState::unmeasured);
	EXPECT_EQ(pair_with(later, "a").summary.sent, 0U);
	EXPECT_EQ(later.counters[0].answered, 10U); // counters only grow
	// A reload counts on, of racks that stay.
	ProbeBook next(c, {{"q", "a"}, {"r", "z"}});

	next.go_on_from(book);
	EXPECT_EQ(told_by(next, 0).counters[0].answered, 10U);
	EXPECT_EQ(told_by(next, 0).counters[1].answered, 0U);
}

TEST(ProbeBook, RacksAreBounded)
{
	Config::Probe c;
	std::vector<ProbedPeer> peers;

	c.max_racks = 3;
	for (int i = 0; i < 100; i++)
		peers.push_back({"p" + std::to_string(i), "r" + std::to_string(i % 10)});
	ProbeBook book(c, peers);
	const ProbeNews news = told_by(book, 0);

	ASSERT_EQ(news.pairs.size(), 4U);
	EXPECT_EQ(pair_with(news, "other").peers, 70U);
	EXPECT_EQ(pair_with(news, "r2").peers, 10U);
}

TEST(ProbesServed, AsJson)
{
	Store store;
	const HostFacts facts{"host", "6.12"};
	const auto get = [&](const std::string &target) { return respond({"GET", target}, {store, facts, {}, 0, 0}); };
	json j = json::parse(*get("/api/v1/probes").body);

	EXPECT_EQ(j["pairs"], json::array()); // nothing is configured
	EXPECT_EQ(j["rack"], "none");
	store.put(std::make_shared<const ProbeNews>(four_racks()));
	j = json::parse(*get("/api/v1/probes").body);
	EXPECT_EQ(j["version"], 1);
	EXPECT_EQ(j["rack"], "a");
	EXPECT_EQ(j["answering"], json::array({"10.0.0.9:21335"}));
	EXPECT_EQ(j["refused"]["malformed"], 3);
	EXPECT_EQ(j["unbelieved"]["signature"], 3);
	EXPECT_EQ(j["total"], 5);
	EXPECT_EQ(j["limits"], (json{{"fabric_ns", 500000}, {"host_ns", 1000000}}));
	const json &b = j["pairs"][1];

	EXPECT_EQ(b["rack"], "a");
	EXPECT_EQ(b["peer_rack"], "b");
	EXPECT_EQ(b["peers"], 2);
	EXPECT_EQ(b["states"], (json{{"unmeasured", 0}, {"silent", 0}, {"slow", 2}, {"lossy", 0}, {"good", 0}}));
	EXPECT_EQ(b["stamps"], (json{{"local", "hardware"}, {"remote", "hardware"}}));
	EXPECT_EQ(b["fabric_ns"], (json{{"n", 20}, {"min", 800000}, {"p50", 800000}, {"p90", 900000}, {"p99", 900000}}));
	EXPECT_EQ(b["verdict"]["state"], "slow");
	EXPECT_EQ(b["verdict"]["limit"], "fabric");
	EXPECT_EQ(j["peers"][3]["fabric_ns"], json());
	EXPECT_EQ(j["peers"][3]["trouble"], "Network is unreachable");
	EXPECT_EQ(json::parse(*get("/api/v1/probes?limit=2").body)["peers"].size(), 2U);
	for (const char *bad : {"/api/v1/probes?limit=-1", "/api/v1/probes?limit=1001", "/api/v1/probes?x=1"})
		EXPECT_EQ(get(bad).status, 400U) << bad;
}

TEST(ProbesServed, AsMetricsOfRacksAlone)
{
	Snapshot s;
	HttpStats http;

	s.flows = std::make_shared<FlowSet>();
	const std::string none = write_metrics(metric_families(s, {}, http, 0), MetricsForm::text, true);

	EXPECT_EQ(none.find("swift_probe"), std::string::npos);
	s.probes = std::make_shared<const ProbeNews>(four_racks());
	const std::string text = write_metrics(metric_families(s, {}, http, 0), MetricsForm::text, true);

	for (const char *line : {"swift_probes_total{rack=\"a\",peer_rack=\"b\",result=\"answered\"} 20\n",
				 "swift_probes_total{rack=\"a\",peer_rack=\"none\",result=\"lost\"} 10\n",
				 "swift_probe_fabric_seconds_count{rack=\"a\",peer_rack=\"b\",stamps=\"hardware\"} 20\n",
				 "swift_probe_host_seconds_count{rack=\"a\",peer_rack=\"c\",stamps=\"hardware\"} 10\n",
				 "swift_probe_peers{rack=\"a\",peer_rack=\"b\",state=\"slow\"} 2\n",
				 "swift_probe_slow{rack=\"a\",peer_rack=\"b\",by=\"fabric\"} 1\n",
				 "swift_probe_slow{rack=\"a\",peer_rack=\"b\",by=\"host\"} 0\n",
				 "swift_probe_slow{rack=\"a\",peer_rack=\"c\",by=\"host\"} 1\n", "swift_probes_answered_total 7\n",
				 "swift_probes_refused_total{side=\"responder\",why=\"malformed\"} 3\n",
				 "swift_probes_refused_total{side=\"prober\",why=\"signature\"} 3\n", "swift_probe_cycle_seconds 4\n"})
		EXPECT_NE(text.find(line), std::string::npos) << line << text;
	EXPECT_EQ(text.find("10.0.1.1"), std::string::npos) << "no peer has a series";
}

// --- The rest of the mesh

TEST(MeshPairs, AreWhatAnotherSwiftdTells)
{
	Store store;

	store.put(std::make_shared<const ProbeNews>(four_racks()));
	store.put_mesh({{"a", "b", "https://a-2:9464", 1, {}, {}, {}}, {"z", "a", "https://z-1:9464", 3, {}, {}, {}}});
	const std::string answer = *respond({"GET", "/api/v1/probes?limit=0"}, {store, {"host", "6.12"}, {}, 0, 0}).body;
	const json j = json::parse(answer);

	// Its own go before what others say of the same; theirs are not told on.
	ASSERT_EQ(j["pairs"].size(), 5U);
	EXPECT_EQ(j["pairs"][1]["told_by"], json());
	EXPECT_EQ(j["pairs"][4]["rack"], "z");
	EXPECT_EQ(j["pairs"][4]["told_by"], "https://z-1:9464");
	const auto read = parse_probe_pairs("https://a-9:9464", answer);

	ASSERT_TRUE(read) << read.error().text();
	ASSERT_EQ(read->size(), 4U);
	const ProbePairRow &b = read->at(1);

	EXPECT_EQ(b.rack, "a");
	EXPECT_EQ(b.peer_rack, "b");
	EXPECT_EQ(b.told_by, "https://a-9:9464");
	EXPECT_EQ(b.peers, 2U);
	EXPECT_EQ(b.states[static_cast<std::size_t>(PeerState::slow)], 2U);
	EXPECT_EQ(b.summary.sent, 20U);
	EXPECT_EQ(b.summary.local, Stamp::hardware);
	EXPECT_EQ(b.summary.fabric.p90_ns, 900'000);
	EXPECT_EQ(b.summary.host.n, 20U);
	EXPECT_EQ(b.verdict.state, PeerState::slow);
	EXPECT_EQ(b.verdict.bound, Bound::fabric);
	EXPECT_EQ(b.verdict.text, "fabric-bound: the path to rack b takes 900.0 us (more than 500.0 us)");
	EXPECT_EQ(read->at(3).summary.fabric.n, 0U); // null: nothing was measured
}

TEST(MeshPairs, WhatIsNotAsItShouldBeIsRefused)
{
	Store store;

	store.put(std::make_shared<const ProbeNews>(four_racks()));
	const json good = json::parse(*respond({"GET", "/api/v1/probes"}, {store, {"host", "6.12"}, {}, 0, 0}).body);
	const auto with = [&](const char *pointer, const json &value) {
		json j = good;

		j[json::json_pointer(pointer)] = value;
		return parse_probe_pairs("u", j.dump());
	};

	EXPECT_TRUE(with("/pairs/0/peers", 1));
	for (const auto &[pointer, value] : std::vector<std::pair<const char *, json>>{
		     {"/version", 2}, {"/pairs", 7}, {"/pairs", "x"}, {"/pairs/0", json::array()}, {"/pairs/0/rack", "a b"},
		     {"/pairs/0/rack", 7}, {"/pairs/0/peer_rack", std::string(65, 'a')}, {"/pairs/0/peers", -1}, {"/pairs/0/peers", 1.5},
		     {"/pairs/0/sent", json()}, {"/pairs/0/fabric_ns", 5}, {"/pairs/0/fabric_ns/p50", "x"}, {"/pairs/0/fabric_ns/p50", 1e300},
		     {"/pairs/0/verdict/state", "odd"}, {"/pairs/0/verdict/limit", "moon"}, {"/pairs/0/verdict/text", 5},
		     {"/pairs/0/stamps/local", "x"}, {"/pairs/0/states", json()}})
		EXPECT_FALSE(with(pointer, value)) << pointer << " = " << value;
	EXPECT_FALSE(parse_probe_pairs("u", "no JSON"));
	EXPECT_FALSE(parse_probe_pairs("u", ""));
	EXPECT_FALSE(parse_probe_pairs("u", "[]"));
	json many = good;

	for (int i = 0; i < 1200; i++)
		many["pairs"].push_back(good["pairs"][0]);
	EXPECT_FALSE(parse_probe_pairs("u", many.dump()));
	// Nothing that a terminal would obey, nor a book.
	const auto text = with("/pairs/0/verdict/text", "\x1b[2J" + std::string(5000, 'x'));

	ASSERT_TRUE(text);
	EXPECT_EQ(text->at(0).verdict.text.find('\x1b'), std::string::npos);
	EXPECT_LT(text->at(0).verdict.text.size(), 320U);
}

TEST(MeshThread, OneThatDoesNotAnswerCostsItsOwnRows)
{
	Store store;
	std::mutex mutex;
	std::condition_variable news;
	std::optional<std::vector<ProbePairRow>> told;
	std::vector<HttpRequest> asked;
	Config::Probe c;

	store.put(std::make_shared<const ProbeNews>(four_racks()));
	const std::string answer = *respond({"GET", "/api/v1/probes"}, {store, {"host", "6.12"}, {}, 0, 0}).body;

	c.mesh = {"https://down:9464", "https://odd:9464/", "https://good:9464/", "https://same:9464"};
	{
		MeshReader reader(
			c,
			[&](const HttpRequest &r) -> Result<HttpReply> {
				const std::scoped_lock lock(mutex);

				asked.push_back(r);
				if (r.url.find("down") != std::string::npos)
					return Error{"connection refused"};
				return HttpReply{r.url.find("odd") != std::string::npos ? 401 : 200, answer};
			},
			"Authorization: Bearer t",
			[&](std::vector<ProbePairRow> rows) {
				const std::scoped_lock lock(mutex);

				told = std::move(rows);
				news.notify_all();
			});
		std::unique_lock lock(mutex);

		ASSERT_TRUE(news.wait_for(lock, std::chrono::seconds(120), [&] { return told.has_value(); }));
	} // and it leaves at once, in the middle of its rest
	ASSERT_EQ(told->size(), 4U);
	EXPECT_EQ(told->at(0).told_by, "https://good:9464/"); // of a pair that two tell of, the first one's
	ASSERT_EQ(asked.size(), 4U);
	EXPECT_EQ(asked[0].url, "https://down:9464/api/v1/probes?limit=0");
	EXPECT_EQ(asked[1].url, "https://odd:9464/api/v1/probes?limit=0");
	EXPECT_TRUE(asked[0].get);
	EXPECT_EQ(asked[0].headers, std::vector<std::string>{"Authorization: Bearer t"});
}

TEST_F(Pair, ProbesAndAnswersOverLoopback)
{
	start("", "");
	const auto news = told_b_.until([](const ProbeNews &n) { return n.pairs.size() == 1 && n.pairs[0].summary.fabric.n >= 16; });

	ASSERT_TRUE(news);
	EXPECT_EQ(news->rack, "rack-b");
	EXPECT_EQ(news->pairs[0].peer_rack, "rack-a");
	EXPECT_EQ(news->pairs[0].summary.local, Stamp::software);
	EXPECT_GT(news->pairs[0].summary.remote_host.p50_ns, 0);
	EXPECT_GT(news->pairs[0].summary.local_host.p50_ns, 0);
	EXPECT_NE(news->pairs[0].verdict.state, PeerState::unmeasured);
	EXPECT_EQ(news->peers[0].trouble, "");
	told_a_.until([](const ProbeNews &n) { return n.answered >= 16; });
}

TEST_F(Pair, AKeyOpensTheDoor)
{
	const File keys(probing_key);

	start(keys.path, keys.path);
	const auto news = told_b_.until([](const ProbeNews &n) { return n.pairs.size() == 1 && n.pairs[0].summary.fabric.n >= 16; });

	EXPECT_TRUE(news->is_signed);
	const auto other = told_a_.until([](const ProbeNews &n) { return n.answered >= 16; });

	EXPECT_EQ(sum_of(other->refused), 0U);
}

TEST_F(Pair, WithoutTheKeyNothingIsAnswered)
{
	const File keys(probing_key);

	start(keys.path, "");
	const auto news = told_b_.until([](const ProbeNews &n) { return !n.pairs.empty() && n.pairs[0].summary.lost >= 8; });

	EXPECT_EQ(news->pairs[0].verdict.state, PeerState::silent);
	const auto other = told_a_.until([](const ProbeNews &n) { return count_of(n.refused, Refusal::not_signed) >= 8; });

	EXPECT_EQ(other->answered, 0U);
}

TEST_F(Pair, AnswersWithoutTheKeyAreNotBelieved)
{
	const File keys(probing_key);

	start("", keys.path);
	const auto news = told_b_.until([](const ProbeNews &n) { return count_of(n.unbelieved, Refusal::not_signed) >= 8; });

	EXPECT_EQ(news->counters.empty() ? 0 : news->counters[0].answered, 0U);
}

TEST_F(Pair, AReloadChangesKeysAndPeers)
{
	const File keys(probing_key);

	start(keys.path, keys.path);
	const std::uint64_t before =
		told_b_.until([](const ProbeNews &n) { return n.pairs.size() == 1 && n.pairs[0].summary.fabric.n >= 8; })
			->pairs[0]
			.summary.fabric.n;
	EXPECT_FALSE(reload(probes_, b_));
	// The new one first where it is taken, then where it signs.
	keys.write("0123456789abcdef\nfedcba9876543210\n");
	EXPECT_TRUE(reload(answers_, a_));
	keys.write("fedcba9876543210\n");
	EXPECT_TRUE(reload(probes_, b_));
	expect_answers();
	told_b_.until([&](const ProbeNews &n) { // and nothing of before is forgotten
		EXPECT_GE(n.pairs[0].summary.fabric.n, before);
		return true;
	});
	b_.peers = {};
	EXPECT_TRUE(reload(probes_, b_));
	told_b_.until([](const ProbeNews &n) { return n.pairs.empty(); });
}

TEST_F(Pair, AReloadMovesWhereItAnswers)
{
	start("", "");
	expect_answers();
	const std::string first = answers_.places()[0];

	// One more: the first is the same socket.
	a_.listen = {"127.0.0.2:0", "127.0.0.1:0"};
	EXPECT_TRUE(reload(answers_, a_));
	ASSERT_EQ(answers_.places().size(), 2U);
	EXPECT_EQ(answers_.places()[1], first);
	told_a_.until([](const ProbeNews &n) { return n.places.size() == 2; });
	expect_answers();
	const std::uint64_t so_far = told_a_.until([](const ProbeNews &n) { return n.answered > 0; })->answered;

	// The first goes; what was counted stays.
	a_.listen = {"127.0.0.2:0"};
	EXPECT_TRUE(reload(answers_, a_));
	expect_silence();
	EXPECT_GE(told_a_.until([](const ProbeNews &n) { return n.places.size() == 1; })->answered, so_far);
	// None at all, and the first again.
	a_.listen = {};
	EXPECT_TRUE(reload(answers_, a_));
	EXPECT_TRUE(answers_.places().empty());
	told_a_.until([](const ProbeNews &n) { return n.places.empty(); });
	a_.listen = {first};
	EXPECT_TRUE(reload(answers_, a_));
	expect_answers();
	EXPECT_GE(told_a_.until([](const ProbeNews &n) { return n.places.size() == 1; })->answered, so_far);
	EXPECT_FALSE(reload(answers_, a_));
}

TEST_F(Pair, AReloadMovesFromOneAddressToAllAndBack)
{
	start("", "");
	const std::string one = answers_.places()[0];
	const std::string all = "0.0.0.0" + one.substr(one.find(':'));

	for (const std::string &place : {all, one, all}) {
		a_.listen = {place};
		EXPECT_TRUE(reload(answers_, a_)) << place;
		EXPECT_EQ(answers_.places(), std::vector<std::string>{place});
		expect_answers();
		// Nobody else may have it, not even who would share.
		EXPECT_FALSE(OthersSocket(one, true).bound);
	}
	// Both at once is as wrong as at a start.
	a_.listen = {all, one};
	EXPECT_EQ(refused(answers_, a_), "probe.listen: cannot use " + one + ": Address already in use");
}

TEST_F(Pair, AReloadThatCannotAnswerThereChangesNothing)
{
	start("", "");
	const Config::Probe was = a_;
	const std::string place = answers_.places()[0];

	a_.listen = {"192.0.2.1:21335"}; // not ours
	EXPECT_EQ(refused(answers_, a_), "probe.listen: cannot use 192.0.2.1:21335: Cannot assign requested address");
	const std::string other = "127.0.0.3" + place.substr(place.find(':'));
	const OthersSocket taken(other, false);

	ASSERT_TRUE(taken.bound);
	a_.listen = {"127.0.0.4:0", other};
	EXPECT_EQ(refused(answers_, a_), "probe.listen: cannot use " + other + ": Address already in use");
	EXPECT_EQ(answers_.places(), std::vector<std::string>{place});
	expect_answers();
	EXPECT_FALSE(OthersSocket(place, true).bound);
	EXPECT_FALSE(reload(answers_, was));
}

TEST_F(Pair, AReloadBoundsWhatIsAnswered)
{
	start("", "");
	expect_answers();
	a_.answers_pps = 1;
	EXPECT_TRUE(reload(answers_, a_));
	told_a_.until([](const ProbeNews &n) { return count_of(n.refused, Refusal::source_rate) >= 8; });
	a_.answers_pps = 100000;
	EXPECT_TRUE(reload(answers_, a_));
	expect_answers();
}

TEST(ProbingThread, AReloadBeginsToAnswer)
{
	Told told;
	Probing probing(told.tell());
	Config::Probe c;

	ASSERT_TRUE(probing.start(c, {}));
	c.listen = {"127.0.0.1:0"};
	auto change = probing.prepare(c, {});

	ASSERT_TRUE(change);
	EXPECT_TRUE(probing.places().empty()); // not before it is meant
	EXPECT_TRUE(probing.apply(std::move(*change)));
	EXPECT_EQ(told.until([](const ProbeNews &n) { return !n.places.empty(); })->places, probing.places());
}

TEST(MeshInputs, AreReadWholeOrNotAtAll)
{
	const File token("a-token-of-the-mesh\n");
	Config::Probe c;

	EXPECT_FALSE(MeshReader::read(c)->post); // nobody is to be asked
	c.mesh = {"https://b-1:9464"};
	c.mesh_token_file = "/no/such/file";
	EXPECT_NE(MeshReader::read(c).error().text().find("probe.mesh_token_file: "), std::string::npos);
	c.mesh_token_file = token.path;
	auto inputs = MeshReader::read(c);

	ASSERT_TRUE(inputs) << inputs.error().text();
	EXPECT_EQ(inputs->authorization, "Authorization: Bearer a-token-of-the-mesh");
	const auto post = [](const HttpRequest &) -> Result<HttpReply> { return Error{"nobody"}; };
	const MeshReader reader(c, post, inputs->authorization, [](std::vector<ProbePairRow>) {});

	EXPECT_TRUE(reader.does(c, *inputs));
	inputs->authorization = "Authorization: Bearer another-token-of-it";
	EXPECT_FALSE(reader.does(c, *inputs));
	inputs = MeshReader::read(c);
	c.mesh.emplace_back("https://c-1:9464");
	EXPECT_FALSE(reader.does(c, *inputs));
}

TEST(ProbingThread, NothingIsStartedForNothing)
{
	Told told;
	Probing probing(told.tell());

	ASSERT_TRUE(probing.start({}, {}));
	EXPECT_TRUE(probing.places().empty());
	Config::Probe c;

	c.listen = {"192.0.2.1:21335"}; // not ours
	Probing other(told.tell());

	EXPECT_EQ(other.start(c, {}).error().text(), "probe.listen: cannot use 192.0.2.1:21335: Cannot assign requested address");
}

namespace {

// Does not answer before it is let go; but it knows one name.
class SlowServer {
public:
	NameLookups::Ask ask()
	{
		return [shared = shared_](const std::string &name) -> Result<ProbeAddress> {
			if (name == "known:1")
				return resolve_probe("127.0.0.1:1", probe_port);
			std::unique_lock lock(shared->mutex);

			shared->asked++;
			shared->changed.notify_all();
			shared->changed.wait(lock, [&] { return shared->open; });
			return Error{"cannot look up '" + name + "': it is gone"};
		};
	}
	void until_asked(int times)
	{
		std::unique_lock lock(shared_->mutex);

		EXPECT_TRUE(shared_->changed.wait_for(lock, std::chrono::seconds(120), [&] { return shared_->asked >= times; }));
	}
	int asked()
	{
		const std::scoped_lock lock(shared_->mutex);

		return shared_->asked;
	}
	void open()
	{
		const std::scoped_lock lock(shared_->mutex);

		shared_->open = true;
		shared_->changed.notify_all();
	}

private:
	struct Shared {
		std::mutex mutex;
		std::condition_variable changed;
		int asked = 0;
		bool open = false;
	};

	const std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
};

} // namespace

TEST(ProbingThread, ANameServerThatDoesNotAnswerKeepsNobodyElse)
{
	SlowServer server;
	Told told;
	{
		Probing probing(told.tell(), server.ask());
		Config::Probe c;

		c.peers = {"known:1 a", "unknown:1 b", "127.0.0.1:2 c"};
		c.rate_pps = 1000;
		c.timeout_ms = 10;
		ASSERT_TRUE(probing.start(c, *ProbeInputs::read(c)));
		server.until_asked(1);
		told.until([](const ProbeNews &n) {
			return n.peers.size() == 3 && row_of(n, "127.0.0.1:2").summary.lost >= 16 && row_of(n, "unknown:1").summary.sent == 0;
		});
	} // and it ends
	EXPECT_EQ(server.asked(), 1);
	server.open();
}

TEST(NameLookups, AskAgainLaterAndLater)
{
	SlowServer server;
	NameLookups lookups(server.ask());
	std::int64_t now_ns = probing_s;
	const auto answer = [&] {
		for (;;)
			if (auto some = lookups.take(now_ns); !some.empty())
				return some;
			else
				std::this_thread::yield();
	};

	server.open();
	lookups.ask(7, "known:1", now_ns);
	auto known = answer();

	EXPECT_EQ(known[0].id, 7U);
	EXPECT_EQ(known[0].address->endpoint.text(), "127.0.0.1:1");
	for (const std::int64_t wait_ns : {NameLookups::least_wait_ns, 2 * NameLookups::least_wait_ns}) {
		lookups.ask(8, "unknown:1", now_ns);
		lookups.ask(8, "unknown:1", now_ns); // it is under way
		const int asked_then = server.asked();

		EXPECT_FALSE(answer()[0].address);
		lookups.ask(8, "unknown:1", now_ns + wait_ns - 1);
		EXPECT_LE(server.asked(), asked_then + 1);
		now_ns += wait_ns;
	}
	lookups.ask(8, "unknown:1", now_ns);
	answer();
	EXPECT_EQ(server.asked(), 3);
}

TEST(ProbeBook, GoesOnFromWhatWasKnown)
{
	ProbeBook before({}, {{"10.0.0.1", "a"}, {"10.0.1.1", "b"}});

	for (int i = 0; i < 10; i++)
		before.add(0, probing_sample(i));
	before.add(1, probing_loss(3));
	ProbeBook book({}, {{"10.0.2.1", "b"}, {"10.0.0.1", "a"}});

	book.go_on_from(before);
	const auto news = told_by(book, probing_s);

	EXPECT_EQ(row_of(news, "10.0.0.1").summary.sent, 10U);
	EXPECT_EQ(row_of(news, "10.0.0.1").verdict.state, PeerState::good);
	EXPECT_EQ(row_of(news, "10.0.2.1").summary.sent, 0U);
	ASSERT_EQ(news.counters.size(), 2U);
	EXPECT_EQ(news.counters[0].lost, 1U); // b
	EXPECT_EQ(news.counters[1].answered, 10U);
}

TEST(ProbingThread, APeerThatCannotBeProbedCostsItsOwnRow)
{
	Told told;
	Probing probing(told.tell());
	Config::Probe c;

	const std::string no_host(70, 'x'); // longer than a name may be: no server is asked

	c.peers = {no_host + " a", "127.0.0.1:1 b"};
	c.rate_pps = 1000;
	c.timeout_ms = 10;
	ASSERT_TRUE(probing.start(c, *ProbeInputs::read(c)));
	const auto news = told.until([&](const ProbeNews &n) {
		return n.peers.size() == 2 && row_of(n, "127.0.0.1:1").summary.lost >= 8 && !row_of(n, no_host).trouble.empty();
	});

	EXPECT_NE(row_of(*news, no_host).trouble.find("cannot look up"), std::string::npos);
	EXPECT_EQ(row_of(*news, "127.0.0.1:1").trouble, "nobody answers on that port (probe.listen of its swiftd)");
	EXPECT_EQ(row_of(*news, "127.0.0.1:1").verdict.state, PeerState::silent);
}
