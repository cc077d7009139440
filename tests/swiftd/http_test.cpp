// SPDX-License-Identifier: MIT
// The HTTP server in this process, over loopback: event streams, slow readers, secrets that
// are renewed, and its end.
#include "http.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <iostream>
#include <list>
#include <thread>

#include "clock_ns.h"
#include "fd.h"
#include "summary.h"
#include "worker.h"

namespace {

std::atomic<unsigned> closed_in_vain = 0; // what was not open (any more)

} // namespace

// Instead of close() in swiftd's own code, by the linker (--wrap); libraries have theirs.
extern "C" int __real_close(int fd);
extern "C" int __wrap_close(int fd)
{
	const int done = __real_close(fd);

	closed_in_vain += done < 0 && errno == EBADF;
	return done;
}

namespace swift {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto patience = std::chrono::seconds(60);

template <typename Ask> bool until(Ask ask)
{
	const auto end = Clock::now() + patience;

	while (!ask()) {
		if (Clock::now() > end)
			return false;
		std::this_thread::sleep_for(std::chrono::milliseconds(2));
	}
	return true;
}

class Client {
public:
	// @receive_bytes: as much as the kernel keeps for us, at most; 0: as usual.
	Client(const std::string &address, const std::string &target, const std::string &headers = {},
	       int receive_bytes = 0, const std::string &host = "localhost")
		: socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0))
	{
		const timeval wait = {std::chrono::seconds(patience).count(), 0};
		sockaddr_in at{};

		if (receive_bytes)
			setsockopt(socket_.get(), SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof(receive_bytes));
		setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
		at.sin_family = AF_INET;
		at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		at.sin_port = htons(static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
		EXPECT_EQ(connect(socket_.get(), reinterpret_cast<sockaddr *>(&at), sizeof(at)), 0);
		const std::string request =
			"GET " + target + " HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n" + headers + "\r\n";

		EXPECT_EQ(send(socket_.get(), request.data(), request.size(), MSG_NOSIGNAL),
			  static_cast<ssize_t>(request.size()));
	}

	// Whether @what has come, all in all.
	bool reads(const std::string &what)
	{
		for (std::size_t from = 0; got_.find(what, from) == std::string::npos;) {
			from = got_.size() - std::min(got_.size(), what.size());
			if (!more())
				return false;
		}
		return true;
	}
	std::string all()
	{
		while (more())
			continue;
		return got_;
	}
	// Whether something has come, of which nothing is taken.
	[[nodiscard]] bool answered() const
	{
		char c = 0;

		return recv(socket_.get(), &c, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
	}
	bool more()
	{
		char part[8192];
		const ssize_t n = recv(socket_.get(), part, sizeof(part), 0);

		if (n > 0)
			got_.append(part, static_cast<std::size_t>(n));
		return n > 0;
	}

private:
	Fd socket_;
	std::string got_;
};

class Http : public testing::Test {
protected:
	Http() { config_.listen = {"127.0.0.1:0"}; }

	void start()
	{
		store_.set_config({});
		put();
		auto server = start_http(config_, store_, facts_, most_bytes_);

		ASSERT_TRUE(server) << server.error().text();
		server_ = std::move(*server);
	}
	[[nodiscard]] std::string address() const { return server_->addresses().at(0); }
	// A snapshot with so much text in its summary; "END" comes last in it.
	void put(std::size_t bytes = 0)
	{
		GroupSummary g;
		auto s = std::make_shared<Snapshot>();
		auto set = std::make_shared<FlowSet>();

		set->now_ns = s->summary.now_ns = static_cast<std::int64_t>(++number_) * 1'000'000'000;
		s->number = number_;
		s->flows = set;
		g.labels = {"10.0.0.0/24", "swift", "eth0"};
		g.verdict.text = std::string(bytes, 'x') + "END";
		s->summary.groups.push_back(std::move(g));
		store_.put(std::move(s));
		if (server_)
			server_->wake_streams();
	}

	// A snapshot of so many flows, each to another address.
	void put_flows(std::uint32_t flows)
	{
		auto s = std::make_shared<Snapshot>();
		auto set = std::make_shared<FlowSet>();

		set->ccs = {"other", "swift"};
		set->ifaces = {"other", "eth0"};
		set->groups = {{"10.0.0.0/8", "swift", "eth0"}};
		for (std::uint32_t i = 1; i <= flows; i++) {
			FlowRow row;

			row.cookie = i;
			row.cc = 1;
			row.iface = 1;
			row.local_bytes = {10, 0, 0, 1};
			row.remote_bytes = {10, static_cast<std::uint8_t>(i >> 16), static_cast<std::uint8_t>(i >> 8 & 0xff),
					    static_cast<std::uint8_t>(i & 0xff)};
			row.local_port = static_cast<std::uint16_t>(i);
			row.remote_port = 80;
			row.sender.known = row.measured = true;
			set->rows.push_back(row);
		}
		set->now_ns = s->summary.now_ns = clock_ns(CLOCK_MONOTONIC);
		s->number = ++number_;
		s->summary = summarize(*set, nullptr, {});
		s->summary.now_ns = set->now_ns;
		s->flows = set;
		store_.put(std::move(s));
		server_->wake_streams();
	}

	Config::Http config_;
	std::size_t most_bytes_ = most_sending_bytes;
	Store store_;
	HostFacts facts_{"host", "6.12"};
	std::uint64_t number_ = 0;
	std::unique_ptr<HttpServer> server_;
};

TEST_F(Http, StreamsTellOfSnapshotsAndOfTrouble)
{
	start();
	Client stream(address(), "/api/v1/stream");

	ASSERT_TRUE(stream.reads("X-Accel-Buffering: no"));
	ASSERT_TRUE(stream.reads("id: 1\nevent: summary"));
	store_.fail({"the kernel refused", 1.7e9});
	server_->wake_streams();
	ASSERT_TRUE(stream.reads("event: state"));
	ASSERT_TRUE(stream.reads("the kernel refused"));
	put();
	ASSERT_TRUE(stream.reads("id: 2\nevent: summary"));
	// Who comes while it fails gets what there is, and why there is no more.
	store_.fail({"it refused again", 1.7e9});
	Client late(address(), "/api/v1/stream");

	EXPECT_TRUE(late.reads("id: 2\nevent: summary"));
	EXPECT_TRUE(late.reads("it refused again"));
}

TEST_F(Http, StreamsBeforeTheFirstSnapshot)
{
	auto server = start_http(config_, store_, facts_);

	ASSERT_TRUE(server);
	server_ = std::move(*server);
	Client stream(address(), "/api/v1/stream");

	ASSERT_TRUE(stream.reads("text/event-stream"));
	store_.fail({"the kernel refused", 1.7e9});
	server_->wake_streams();
	EXPECT_TRUE(stream.reads("the kernel refused"));
	put();
	EXPECT_TRUE(stream.reads("id: 1\nevent: summary"));
}

// With a name of his own somebody else's page would be let in by the browser of whoever may see this.
TEST_F(Http, TheHostIsCheckedInEveryMode)
{
	const std::string token = "0123456789abcdef", path = testing::TempDir() + "swiftd_http_test_token";
	const std::string shown = "Authorization: Bearer " + token + "\r\n";
	const auto status = [&](const char *target, const std::string &host) {
		return Client(address(), target, shown, 0, host).all().substr(9, 3);
	};

	std::ofstream(path) << token;
	config_.names = {"swift.example.com", "*.rack1.example.com"};
	for (const bool anonymous : {false, true}) {
		for (const bool with_token : {false, true}) {
			config_.allow_anonymous = anonymous;
			config_.token_file = with_token ? path : "";
			start();
			for (const char *target : {"/", "/metrics", "/api/v1/summary"}) {
				for (const char *name : {"evil.example", "localhost.evil.example", "host.evil.example", "",
							 "rack1.example.com", "xrack1.example.com"})
					EXPECT_EQ(status(target, name), "421") << target << " of " << name << anonymous << with_token;
				for (const char *name : {"localhost", "LocalHost:9464", "127.0.0.1", "[::1]:9464", "host:9464",
							 "Swift.example.com:1", "h1.rack1.example.com"})
					EXPECT_EQ(status(target, name), "200") << target << " of " << name << anonymous << with_token;
			}
			EXPECT_NE(status("/healthz", "any.name"), "421");
		}
	}
	std::remove(path.c_str());
}

// Each costs a look through all flows.
TEST_F(Http, DifferentStreamQueriesAreBounded)
{
	start();
	std::list<Client> open;

	for (int i = 1; i <= 16; i++) {
		open.emplace_back(address(), "/api/v1/stream?flows=" + std::to_string(i));
		ASSERT_TRUE(open.back().reads("event: flows"));
	}
	EXPECT_NE(Client(address(), "/api/v1/stream?flows=17").all().find("503"), std::string::npos);
	open.emplace_back(address(), "/api/v1/stream?flows=16");
	EXPECT_TRUE(open.back().reads("event: flows")) << "the same as others";
	open.clear();
	// They are gone once the server has tried to tell them something.
	EXPECT_TRUE(until([&] {
		put();
		return Client(address(), "/api/v1/flows").all().find("200 OK") != std::string::npos &&
		       store_.http.connections <= 1;
	}));
	Client again(address(), "/api/v1/stream?flows=17");

	EXPECT_TRUE(again.reads("event: flows"));
}

TEST_F(Http, AReaderThatIsTooSlowIsSentAway)
{
	start();
	Client fast(address(), "/api/v1/stream");
	Client slow(address(), "/api/v1/stream", {}, 4096);

	ASSERT_TRUE(fast.reads("id: 1\n"));
	ASSERT_TRUE(slow.reads("id: 1\n"));
	put(5'000'000);
	ASSERT_TRUE(fast.reads("id: 2\n"));
	ASSERT_TRUE(slow.reads("id: 2\n")); // it has begun, and is not read on
	EXPECT_EQ(store_.http.sse_ended, 0U);
	ASSERT_TRUE(fast.reads("xEND"));
	put();
	EXPECT_EQ(store_.http.sse_ended, 1U);
	EXPECT_EQ(slow.all().find("id: 3\n"), std::string::npos);
	EXPECT_TRUE(fast.reads("id: 3\n"));
}

TEST_F(Http, AnEventThatIsNotReadEndsInTime)
{
	start();
	Client slow(address(), "/api/v1/stream", {}, 4096);

	ASSERT_TRUE(slow.reads("id: 1\n"));
	put(900'000); // less than what ends it once there are news
	ASSERT_TRUE(slow.reads("id: 2\n"));
	put();
	const std::int64_t now_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(
					    Clock::now().time_since_epoch()).count(); // CLOCK_MONOTONIC
	const std::int64_t second_ns = 1'000'000'000;

	server_->end_overdue(now_ns);
	EXPECT_EQ(store_.http.sse_ended, 0U);
	server_->end_overdue(now_ns + (3 * config_.timeout_s + 1) * second_ns);
	EXPECT_EQ(store_.http.sse_ended, 1U);
	EXPECT_EQ(slow.all().find("id: 3\n"), std::string::npos);
}

// Ordinary answers: their readers take as long as they may.
TEST_F(Http, AnswersOnTheirWayAreBoundedInBytes)
{
	const auto status = [&](const char *target) { return Client(address(), target).all().substr(9, 3); };
	const std::size_t bytes = 5'000'000; // more than the kernel keeps for a reader
	std::list<Client> slow;

	most_bytes_ = bytes - 1;
	start();
	put(bytes);
	EXPECT_EQ(status("/api/v1/summary"), "200") << "nothing else is on its way";
	for (int i = 0; i < 2; i++) {
		slow.emplace_back(address(), "/api/v1/summary", "", 4096);
		ASSERT_TRUE(slow.back().reads("200 OK")) << "the same for both";
	}
	EXPECT_EQ(status("/api/v1/summary"), "200") << "what is on its way already";
	put();
	Client refused(address(), "/api/v1/config");

	EXPECT_TRUE(refused.reads("503")) << "something else";
	EXPECT_TRUE(refused.reads("too many answers are on their way to slow readers"));
	EXPECT_EQ(status("/nope"), "404") << "what is small is answered";
	slow.pop_back();
	EXPECT_TRUE(slow.back().reads("xEND")) << "the text stays for who is left";
	slow.clear();
	EXPECT_TRUE(until([&] { return status("/api/v1/config") == "200"; }));
}

// libmicrohttpd closes the socket that it was given; once more would be another thread's file.
TEST_F(Http, ABadCertificateClosesNothingTwice)
{
	const std::string path = testing::TempDir() + "swiftd_http_test_pem";

	std::ofstream(path) << "no certificate\n";
	config_.tls_certificate = config_.tls_key = path;
	closed_in_vain = 0;
	const auto server = start_http(config_, store_, facts_);

	EXPECT_EQ(closed_in_vain, 0U);
	ASSERT_FALSE(server);
	EXPECT_NE(server.error().text().find(": are http.tls_certificate, " + path + ", and http.tls_key, " + path +
					     ", a certificate in PEM and its key?"),
		  std::string::npos)
		<< server.error().text();
	std::remove(path.c_str());
}

// A stream that goes to sleep while the server leaves was an abort of libmicrohttpd's.
TEST_F(Http, LeavesAtAnyTime)
{
	for (int round = 0; round < 60; round++) {
		start();
		std::list<Client> clients;

		for (int i = 0; i < 50; i++)
			clients.emplace_back(address(), "/api/v1/stream");
		for (Client &c : clients)
			ASSERT_TRUE(c.reads("END"));
		put(); // all of them wake up, and go to sleep again one after the other
		std::this_thread::sleep_for(std::chrono::microseconds(50 * round));
		server_.reset();
	}
}

// --- The worker ------------------------------------------------------------------------------

// Counts how often it is woken; alive until it is told otherwise.
struct Waiting {
	std::atomic<bool> alive = true;
	std::atomic<unsigned> woken = 0;

	Worker::Waiter waiter()
	{
		return {[this] { return alive.load(); }, [this] { woken++; }};
	}
};

const auto made_of = [](const char *text) { return [text](const Cancelled &) { return std::optional<std::string>(text); }; };

// Until @go, and then says who it was cancelled by.
struct Gate {
	std::atomic<bool> begun = false;
	std::atomic<bool> go = false;

	Worker::Make make()
	{
		return [this](const Cancelled &cancelled) -> std::optional<std::string> {
			begun = true;
			while (!go)
				if (cancelled())
					return std::nullopt;
			return "made";
		};
	}
};

TEST(Worker, WhatIsAskedForTwiceIsMadeOnce)
{
	WorkerStats stats;
	Worker worker(stats, 4, 0);
	Gate gate;
	Waiting one, two;
	const auto first = worker.ask(1, "a", gate.make(), one.waiter());

	ASSERT_TRUE(first);
	const auto second = worker.ask(1, "a", made_of("not me"), two.waiter());

	gate.go = true;
	ASSERT_TRUE(until([&] { return one.woken && two.woken; }));
	EXPECT_EQ(first, second);
	EXPECT_EQ(*first->text(), "made");
	EXPECT_EQ(stats.made, 1U);
	EXPECT_EQ(*worker.find(1, "a"), "made");
	EXPECT_FALSE(worker.find(2, "a"));
	EXPECT_FALSE(worker.find(1, "b"));
}

TEST(Worker, WhatNobodyWaitsForStopsOrIsNotBegun)
{
	WorkerStats stats;
	Worker worker(stats, 4, 0);
	Gate gate;
	Waiting gone, left, stays;
	const auto running = worker.ask(1, "a", gate.make(), gone.waiter());
	const auto waiting = worker.ask(1, "b", made_of("b"), left.waiter());
	const auto last = worker.ask(1, "c", made_of("c"), stays.waiter());

	ASSERT_TRUE(running && waiting && last);
	ASSERT_TRUE(until([&] { return gate.begun.load(); }));
	left.alive = gone.alive = false;
	ASSERT_TRUE(until([&] { return stays.woken.load() > 0; }));
	EXPECT_EQ(gone.woken, 1U);
	EXPECT_EQ(left.woken, 1U);
	EXPECT_FALSE(running->text());
	EXPECT_FALSE(waiting->text());
	EXPECT_EQ(*last->text(), "c");
	EXPECT_EQ(stats.made, 2U) << "b was not begun";
	EXPECT_EQ(stats.cancelled, 1U);
}

TEST(Worker, TooManyAreRefusedAndAnEndWakesAll)
{
	WorkerStats stats;
	Gate gate;
	Waiting all;
	std::vector<std::shared_ptr<Worker::Turn>> turns;
	Worker worker(stats, 3, 0);

	for (const char *key : {"a", "b", "c"})
		turns.push_back(worker.ask(1, key, gate.make(), all.waiter()));
	EXPECT_FALSE(worker.ask(1, "d", made_of("d"), all.waiter()));
	EXPECT_EQ(stats.refused, 1U);
	worker.stop();
	EXPECT_EQ(all.woken, 3U);
	for (const auto &turn : turns)
		EXPECT_TRUE(turn && turn->done() && !turn->text());
	EXPECT_FALSE(worker.ask(1, "a", made_of("a"), all.waiter()));
}

constexpr unsigned searchers = 8;

// The one that runs, and those that wait.
TEST_F(Http, SearchesOfClientsThatHaveGoneAreCancelled)
{
	start();
	put_flows(30'000);
	{
		std::list<Client> searches;

		for (unsigned i = 0; i < searchers; i++)
			searches.emplace_back(address(), "/api/v1/flows?q=gone" + std::to_string(i));
		ASSERT_TRUE(until([&] { return store_.http.searches.made > 0; }));
	}
	EXPECT_NE(Client(address(), "/api/v1/flows?q=here").all().find("\"matched\":0"), std::string::npos);
	EXPECT_LT(store_.http.searches.made, searchers);
}

TEST_F(Http, TooManySearchesAreRefused)
{
	config_.per_ip = 64;
	start();
	put_flows(30'000);
	std::list<Client> searches;
	unsigned refused = 0;

	for (unsigned i = 0; i < 40; i++)
		searches.emplace_back(address(), "/api/v1/flows?q=many" + std::to_string(i));
	for (Client &c : searches)
		refused += c.all().find("503") != std::string::npos;
	EXPECT_EQ(refused, store_.http.searches.refused);
	EXPECT_GT(refused, 0U);
	EXPECT_LT(refused, 30U);
}


// They are answered one after the other; who asks for something else is not behind them.
TEST_F(Http, NobodyWaitsForOthersSearches)
{
	start();
	put_flows(30'000);
	unsigned n = 0; // each search another one

	for (const char *other : {"/healthz", "/metrics", "/api/v1/summary", "/api/v1/stream?flows=1"}) {
		std::list<Client> searches;

		for (unsigned i = 0; i < searchers; i++)
			searches.emplace_back(address(), fmt::format("/api/v1/flows?q=wanted{}", n++));
		EXPECT_TRUE(Client(address(), other).reads("\r\n\r\n")) << other;
		EXPECT_FALSE(std::all_of(searches.begin(), searches.end(), [](const Client &c) { return c.answered(); }))
			<< other;
		for (Client &c : searches)
			EXPECT_NE(c.all().find("\"matched\":0"), std::string::npos);
	}
}

// What they cost others, in figures.
TEST_F(Http, OthersAreAnsweredSoonWhileEightSearch)
{
	start();
	put_flows(100'000);
	std::atomic<bool> enough = false;
	std::atomic<unsigned> searched = 0;
	std::vector<std::jthread> threads;

	for (unsigned n = 0; n < searchers; n++)
		threads.emplace_back([&, n] {
			for (unsigned i = 0; !enough; i++, searched++)
				Client(address(), "/api/v1/flows?q=none" + std::to_string(n) + "." + std::to_string(i)).all();
		});
	ASSERT_TRUE(until([&] { return searched >= searchers; }));
	for (const auto &[other, awaited] : {std::pair("/healthz", "ok"), {"/metrics", "swift_flows"},
					     {"/api/v1/stream", "event: summary"}}) {
		std::vector<double> took_ms;

		for (unsigned i = 0; i < 21; i++) {
			const auto begun = Clock::now();

			EXPECT_TRUE(Client(address(), other).reads(awaited)) << other;
			took_ms.push_back(std::chrono::duration<double, std::milli>(Clock::now() - begun).count());
		}
		std::sort(took_ms.begin(), took_ms.end());
		std::cout << other << ": median " << took_ms[took_ms.size() / 2] << " ms, worst " << took_ms.back() << " ms\n";
		EXPECT_LT(took_ms[took_ms.size() / 2], 50) << other;
	}
	enough = true;
	threads.clear();
	std::cout << searched << " searches\n";
}

// However a path is written: what answers it decodes it first.
TEST_F(Http, TheTokenIsAskedForByEachFormOfAPath)
{
	const std::string token = "0123456789abcdef", path = testing::TempDir() + "swiftd_http_test_token";
	const std::string shown = "Authorization: Bearer " + token + "\r\n";
	const auto status = [&](const char *target, const std::string &headers) {
		return Client(address(), target, headers).all().substr(9, 3);
	};

	std::ofstream(path) << token;
	config_.token_file = path;
	start();
	for (const char *target : {"/metrics", "/%6detrics", "/%6Detrics?", "/api/v1/summary", "/%61pi/v1/summary", "/api%2fv1%2Fsummary",
				   "/%61%70%69/v1/flows", "/api/v1/flows?q=%"}) {
		EXPECT_EQ(status(target, ""), "401") << target;
		EXPECT_NE(status(target, shown), "401") << target;
	}
	EXPECT_EQ(status("/%6detrics", shown), "200");
	EXPECT_EQ(status("/%", ""), "400") << "nothing is told";
	EXPECT_EQ(status("/", ""), "200");
	std::remove(path.c_str());
}

TEST_F(Http, ANewTokenIsTakenUpAndAWrongOneIsNot)
{
	const std::string path = testing::TempDir() + "swiftd_http_test_token";
	const auto status = [&](const std::string &token) {
		return Client(address(), "/api/v1/flows", "Authorization: Bearer " + token + "\r\n").all().substr(9, 3);
	};

	config_.token_file = path;
	std::ofstream(path) << "0123456789abcdef\n";
	start();
	EXPECT_EQ(status("0123456789abcdef"), "200");
	auto same = server_->renewed();

	ASSERT_TRUE(same);
	EXPECT_FALSE(*same);
	std::ofstream(path) << "short\n";
	EXPECT_FALSE(server_->renewed());
	EXPECT_EQ(status("0123456789abcdef"), "200");

	const std::string before = address();
	Client stream(address(), "/api/v1/stream", "Authorization: Bearer 0123456789abcdef\r\n");

	ASSERT_TRUE(stream.reads("id: "));
	std::ofstream(path) << "fedcba9876543210\n";
	auto renewed = server_->renewed();

	ASSERT_TRUE(renewed) << renewed.error().text();
	ASSERT_TRUE(*renewed);
	server_ = std::move(*renewed);
	EXPECT_EQ(address(), before);
	EXPECT_EQ(status("0123456789abcdef"), "401");
	EXPECT_EQ(status("fedcba9876543210"), "200");
	stream.all(); // has ended: its token is no more
	std::remove(path.c_str());
}

} // namespace
} // namespace swift
