// SPDX-License-Identifier: MIT
// The sockets of questions and answers.
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <netdb.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <tuple>

#include "ab_rr.h"
#include "clock_ns.h"
#include "fd.h"

namespace swift {

namespace {

constexpr std::int64_t patience_ns = 10 * ns_per_s; // for one answer, and for a connection
constexpr std::int64_t most_wait_ns = 100'000'000;
constexpr std::size_t most_clients = 4096;
constexpr int backlog = 1024;
constexpr int dscp_shift = 2;
constexpr int idle_s = 30, again_s = 10, again_times = 3; // until a client that says nothing is gone

const std::string &zeros()
{
	static const std::string all(65536, '\0');

	return all;
}

// Bytes that are to go, or to come, of which it matters only how many.
bool would_block()
{
	return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

std::string cc_of(int fd)
{
	std::array<char, 16> name{};
	socklen_t size = name.size();

	return getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.data(), &size) == 0 ?
		       std::string(name.data(), strnlen(name.data(), name.size())) :
		       std::string();
}

// --- The client ---------------------------------------------------------------------------------

struct Target {
	sockaddr_storage address{};
	socklen_t size = 0;
	int family = AF_INET;
};

Result<Target> look_up(const std::string &server, std::uint16_t port)
{
	addrinfo hints{}, *found = nullptr;
	Target target;

	hints.ai_socktype = SOCK_STREAM;
	if (const int wrong = getaddrinfo(server.c_str(), std::to_string(port).c_str(), &hints, &found); wrong != 0)
		return Error{server + ": " + gai_strerror(wrong)};
	const std::unique_ptr<addrinfo, void (*)(addrinfo *)> owner(found, freeaddrinfo);

	std::memcpy(&target.address, found->ai_addr, found->ai_addrlen);
	target.size = found->ai_addrlen;
	target.family = found->ai_family;
	return target;
}

class Asker {
public:
	Asker(const AbPlan &plan, const Target &target, const std::string &cc, RrRun &run, RrTimes &times, std::uint64_t seed)
		: plan_(plan), target_(target), cc_(cc), head_(rr_head({cc, plan.ask_bytes, plan.answer_bytes})), run_(run), times_(times)
	{
		if (plan.ask_every_ms > 0)
			moments_.emplace(plan.ask_every_ms, seed, clock_ns(CLOCK_MONOTONIC));
	}

	[[nodiscard]] int fd() const { return socket_.get(); }
	[[nodiscard]] short wants() const { return to_send() > 0 || connecting_ ? POLLOUT : POLLIN; }
	[[nodiscard]] std::int64_t since_ns() const { return began_ns_; }
	// When the next question is due; empty: an answer is awaited.
	[[nodiscard]] std::optional<std::int64_t> due_ns() const
	{
		return resting_ ? std::optional(moments_->next_ns()) : std::nullopt;
	}
	[[nodiscard]] bool done() const { return done_; }
	[[nodiscard]] double count() const { return count_; }

	// The question that was due.
	Result<void> ask(std::int64_t from_ns, std::int64_t until_ns)
	{
		resting_ = false;
		began_ns_ = clock_ns(CLOCK_MONOTONIC);
		due_ = moments_->pass(began_ns_, from_ns, until_ns).size();
		if (plan_.ask_anew)
			return connect();
		sent_ = got_ = 0;
		return go_on(from_ns, until_ns);
	}

	Result<void> connect()
	{
		socket_ = Fd(::socket(target_.family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
		if (!socket_)
			return errno_error("cannot make a socket", errno);
		const int on = 1;

		setsockopt(fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
		if (setsockopt(fd(), IPPROTO_TCP, TCP_CONGESTION, cc_.data(), static_cast<socklen_t>(cc_.size())) < 0)
			return errno_error("congestion control " + cc_, errno);
		if (plan_.dscp) {
			const int tos = static_cast<int>(*plan_.dscp) << dscp_shift;

			setsockopt(fd(), IPPROTO_IP, IP_TOS, &tos, sizeof(tos));
			setsockopt(fd(), IPPROTO_IPV6, IPV6_TCLASS, &tos, sizeof(tos));
		}
		began_ns_ = clock_ns(CLOCK_MONOTONIC);
		connecting_ = true;
		first_ = true;
		sent_ = got_ = 0;
		if (::connect(fd(), reinterpret_cast<const sockaddr *>(&target_.address), target_.size) < 0 && errno != EINPROGRESS)
			return errno_error("cannot connect", errno);
		return {};
	}

	// Goes on as far as the socket lets it. @from_ns: what began before it is the warm-up's.
	Result<void> go_on(std::int64_t from_ns, std::int64_t until_ns)
	{
		if (connecting_) {
			int error = 0;
			socklen_t size = sizeof(error);

			getsockopt(fd(), SOL_SOCKET, SO_ERROR, &error, &size);
			if (error != 0)
				return errno_error("cannot connect", error);
			connecting_ = false;
			if (run_.cc.empty())
				run_.cc = cc_of(fd());
		}
		while (to_send() > 0) {
			const bool in_head = first_ && sent_ < rr_head_bytes;
			const char *from = in_head ? head_.data() + sent_ : zeros().data();
			const std::size_t most = in_head ? rr_head_bytes - sent_ : std::min(to_send(), zeros().size());
			// The head goes with the question, not before it.
			const ssize_t n = send(fd(), from, most, MSG_NOSIGNAL | (in_head ? MSG_MORE : 0));

			if (n < 0)
				return would_block() ? Result<void>() : errno_error("cannot ask", errno);
			sent_ += static_cast<std::size_t>(n);
		}
		std::array<char, 65536> buffer;

		while (got_ < plan_.answer_bytes) {
			const ssize_t n = recv(fd(), buffer.data(), std::min<std::size_t>(buffer.size(), plan_.answer_bytes - got_), 0);

			if (n < 0)
				return would_block() ? Result<void>() : errno_error("no answer", errno);
			if (n == 0)
				return Error{"it ended the connection: has it " + cc_ + ", and may who serves there use it?"};
			got_ += static_cast<std::size_t>(n);
		}
		return answered(from_ns, until_ns);
	}

	// Of a connection at its end.
	void count_segments()
	{
		tcp_info info{};
		socklen_t size = sizeof(info);

		if (!socket_ || getsockopt(fd(), IPPROTO_TCP, TCP_INFO, &info, &size) < 0)
			return;
		run_.retransmits += info.tcpi_total_retrans;
		run_.segments += info.tcpi_data_segs_out;
	}

private:
	[[nodiscard]] std::size_t to_send() const { return (first_ ? rr_head_bytes : 0) + plan_.ask_bytes - sent_; }

	Result<void> answered(std::int64_t from_ns, std::int64_t until_ns)
	{
		const std::int64_t now = clock_ns(CLOCK_MONOTONIC);
		const bool in_time = began_ns_ >= from_ns && began_ns_ < until_ns;
		const std::int64_t took_ns = now - began_ns_;

		run_.count += in_time;
		count_ += in_time;
		for (std::size_t i = moments_ ? due_ : in_time; i > 0; i--)
			times_.add(static_cast<double>(took_ns));
		if (moments_)
			for (const std::int64_t at : moments_->pass(now, from_ns, until_ns))
				times_.add(static_cast<double>(rr_passed_ns(at, now, took_ns, before_ns_, plan_.ask_anew)));
		before_ns_ = took_ns;
		due_ = 0;
		// What was asked in time is waited for: without the slowest the others would look better.
		done_ = (moments_ ? moments_->next_ns() : now) >= until_ns;
		if (done_)
			return {};
		resting_ = moments_.has_value();
		if (!plan_.ask_anew) {
			began_ns_ = now;
			first_ = false;
			sent_ = got_ = 0;
			return {};
		}
		// All has come: no TIME_WAIT is needed, and so many would use up all ports.
		const linger at_once = {1, 0};

		count_segments();
		setsockopt(fd(), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
		socket_ = Fd();
		return resting_ ? Result<void>() : connect();
	}

	const AbPlan &plan_;
	const Target &target_;
	const std::string cc_;
	const std::array<char, rr_head_bytes> head_;
	RrRun &run_;
	RrTimes &times_;
	Fd socket_;
	bool connecting_ = false;
	bool first_ = true; // the head is still to go
	std::size_t sent_ = 0;
	std::size_t got_ = 0;
	std::int64_t began_ns_ = 0;
	std::optional<RrMoments> moments_;
	std::size_t due_ = 0; // of them, when it asked
	std::int64_t before_ns_ = 0; // what the answer before took
	bool resting_ = false; // until the next of them
	bool done_ = false;
	double count_ = 0;
};

// --- The server ---------------------------------------------------------------------------------

struct Client {
	Fd socket;
	std::string head; // until it is whole
	RrHead what;
	std::uint32_t asked = 0; // bytes of the question that is coming
	std::uint64_t owed = 0; // bytes of answers
	bool ready = false; // to be written to is waited for
};

class Server {
public:
	explicit Server(Fd listener)
		: listener_(std::move(listener)), spare_(spare()), epoll_(epoll_create1(EPOLL_CLOEXEC))
	{
	}

	Result<void> serve(const sigset_t &stop)
	{
		const Fd signals(signalfd(-1, &stop, SFD_CLOEXEC | SFD_NONBLOCK));

		if (!epoll_ || !signals)
			return errno_error("cannot wait", errno);
		watch(EPOLL_CTL_ADD, listener_.get(), EPOLLIN);
		watch(EPOLL_CTL_ADD, signals.get(), EPOLLIN);
		for (;;) {
			std::array<epoll_event, 64> events;
			const int n = epoll_wait(epoll_.get(), events.data(), events.size(), -1);

			if (n < 0 && errno != EINTR)
				return errno_error("cannot wait", errno);
			for (int i = 0; i < n; i++) {
				const int fd = events[static_cast<std::size_t>(i)].data.fd;

				if (fd == signals.get())
					return {};
				if (fd == listener_.get())
					accept_one();
				else if (const auto at = clients_.find(fd); at != clients_.end() && !go_on(at->second))
					clients_.erase(at);
			}
		}
	}

private:
	void watch(int how, int fd, std::uint32_t for_what)
	{
		epoll_event e{};

		e.events = for_what;
		e.data.fd = fd;
		epoll_ctl(epoll_.get(), how, fd, &e);
	}

	void accept_one()
	{
		Fd fd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));

		// Who comes too late sees his connection end; also where we may have no further file, and
		// would be told for ever that somebody waits.
		if (!fd && (errno == EMFILE || errno == ENFILE)) {
			spare_ = Fd();
			fd = Fd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
			fd = Fd();
			spare_ = spare();
		}
		if (!fd || clients_.size() >= most_clients)
			return;
		// A client that is gone, or whose RST got lost, is not waited for for ever.
		for (const auto &[level, name, value] :
		     {std::tuple<int, int, int>{IPPROTO_TCP, TCP_NODELAY, 1}, {IPPROTO_TCP, TCP_KEEPIDLE, idle_s}, {IPPROTO_TCP, TCP_KEEPINTVL, again_s},
		      {IPPROTO_TCP, TCP_KEEPCNT, again_times}, {SOL_SOCKET, SO_KEEPALIVE, 1}})
			setsockopt(fd.get(), level, name, &value, sizeof(value));
		watch(EPOLL_CTL_ADD, fd.get(), EPOLLIN);
		const int number = fd.get();

		clients_[number].socket = std::move(fd);
	}

	static Fd spare() { return Fd(open("/dev/null", O_RDONLY | O_CLOEXEC)); }

	// False: it is over.
	bool go_on(Client &c)
	{
		std::array<char, 65536> buffer;
		const int fd = c.socket.get();

		// Not more questions than answers have gone: nobody makes us owe without bound.
		while (c.owed == 0) {
			const bool in_head = c.head.size() < rr_head_bytes;
			const std::size_t most = in_head ? rr_head_bytes - c.head.size() :
							   std::min<std::size_t>(buffer.size(), c.what.ask_bytes - c.asked);
			const ssize_t n = recv(fd, buffer.data(), most, 0);

			if (n == 0 || (n < 0 && !would_block()))
				return false;
			if (n < 0)
				break;
			if (in_head) {
				c.head.append(buffer.data(), static_cast<std::size_t>(n));
				if (c.head.size() == rr_head_bytes && !begin(c))
					return false;
				continue;
			}
			c.asked += static_cast<std::uint32_t>(n);
			if (c.asked < c.what.ask_bytes)
				continue;
			c.asked = 0;
			c.owed = c.what.answer_bytes;
			if (!pay(c))
				return false;
		}
		if (c.owed > 0 && !pay(c))
			return false;
		if (c.ready != (c.owed > 0)) {
			c.ready = c.owed > 0;
			watch(EPOLL_CTL_MOD, fd, c.ready ? EPOLLOUT : EPOLLIN);
		}
		return true;
	}

	static bool begin(Client &c)
	{
		auto head = parse_rr_head(c.head);

		if (!head)
			return false;
		c.what = std::move(*head);
		return setsockopt(c.socket.get(), IPPROTO_TCP, TCP_CONGESTION, c.what.cc.data(),
				  static_cast<socklen_t>(c.what.cc.size())) == 0;
	}

	static bool pay(Client &c)
	{
		while (c.owed > 0) {
			const ssize_t n = send(c.socket.get(), zeros().data(), std::min<std::uint64_t>(zeros().size(), c.owed),
					       MSG_NOSIGNAL);

			if (n < 0)
				return would_block();
			c.owed -= static_cast<std::uint64_t>(n);
		}
		return true;
	}

	Fd listener_;
	Fd spare_; // a file that can be given up
	Fd epoll_;
	std::map<int, Client> clients_;
};

} // namespace

Result<RrRun> rr_ask(const AbPlan &plan, const std::string &server, const std::string &cc)
{
	RrRun run;
	ASSIGN_OR_RETURN(auto target, look_up(server, plan.rr_port));
	std::vector<std::unique_ptr<Asker>> askers;
	std::random_device chance;
	RrTimes times(chance());
	const auto named = [&](const Error &e) { return Error{server + ": " + e.text()}; };

	for (unsigned i = 0; i < plan.askers; i++) {
		askers.push_back(std::make_unique<Asker>(plan, target, cc, run, times, chance()));
		if (auto begun = askers.back()->connect(); !begun)
			return named(begun.error());
	}
	const std::int64_t from_ns = clock_ns(CLOCK_MONOTONIC) + plan.warmup_s * ns_per_s;
	const std::int64_t until_ns = from_ns + plan.duration_s * ns_per_s;
	std::vector<pollfd> wait(askers.size());

	const auto done = [](const auto &asker) { return asker->done(); };

	// Not before its time, either: by when it ended it is known when it asked.
	while (clock_ns(CLOCK_MONOTONIC) < until_ns || !std::all_of(askers.begin(), askers.end(), done)) {
		const std::int64_t now = clock_ns(CLOCK_MONOTONIC);
		std::int64_t wait_ns = most_wait_ns;

		for (std::size_t i = 0; i < askers.size(); i++) {
			const bool idle = askers[i]->done() || askers[i]->due_ns();

			if (!idle && now - askers[i]->since_ns() > patience_ns)
				return Error{server + ": no answer for 10 s"};
			if (!askers[i]->done() && idle)
				wait_ns = std::clamp<std::int64_t>(*askers[i]->due_ns() - now, 0, wait_ns);
			wait[i] = {idle ? -1 : askers[i]->fd(), askers[i]->wants(), 0};
		}
		const timespec most = {0, wait_ns};

		if (ppoll(wait.data(), wait.size(), &most, nullptr) < 0 && errno != EINTR)
			return errno_error("cannot wait", errno);
		for (std::size_t i = 0; i < askers.size(); i++) {
			Result<void> gone_on;

			if (wait[i].fd >= 0 && wait[i].revents)
				gone_on = askers[i]->go_on(from_ns, until_ns);
			else if (!askers[i]->done() && askers[i]->due_ns() && *askers[i]->due_ns() <= clock_ns(CLOCK_MONOTONIC))
				gone_on = askers[i]->ask(from_ns, until_ns);
			if (!gone_on)
				return named(gone_on.error());
		}
	}
	for (const auto &asker : askers) {
		asker->count_segments();
		run.of_each.push_back(asker->count());
	}
	run.seconds = plan.duration_s;
	run.moments = times.count();
	run.times_ns = times.taken();
	run.waited_s = static_cast<double>(clock_ns(CLOCK_MONOTONIC) - until_ns) / ns_per_s;
	return run;
}

Result<void> rr_serve(std::uint16_t port, const sigset_t &stop, void (*bound)(std::uint16_t port))
{
	Fd fd(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	const bool v6 = static_cast<bool>(fd);
	sockaddr_in6 at6{};
	sockaddr_in at4{};
	const int on = 1, off = 0;

	if (!v6) // a kernel without IPv6
		fd = Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	if (!fd)
		return errno_error("cannot make a socket", errno);
	at6.sin6_family = AF_INET6;
	at6.sin6_port = at4.sin_port = htons(port);
	at4.sin_family = AF_INET;
	setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	auto *at = v6 ? reinterpret_cast<sockaddr *>(&at6) : reinterpret_cast<sockaddr *>(&at4);
	socklen_t size = v6 ? sizeof(at6) : sizeof(at4);

	if (bind(fd.get(), at, size) < 0 || listen(fd.get(), backlog) < 0 || getsockname(fd.get(), at, &size) < 0)
		return errno_error("cannot serve on port " + std::to_string(port), errno);
	rlimit files{};

	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	if (bound)
		bound(ntohs(v6 ? at6.sin6_port : at4.sin_port));
	return Server(std::move(fd)).serve(stop);
}

} // namespace swift
