// SPDX-License-Identifier: MIT
// What one interval of swiftd's collection costs on a host with very many flows: CPU time in
// user space and in the kernel, and memory. The flows are real TCP sockets over loopback in a
// network namespace of their own, held by a child process, which needs root; or those of a
// recorded dump, which leaves the kernel's own work out.
//
//	bench_collect [--flows 100000] [--intervals 10] [--churn 0] [--max-ms M --max-mb M]
//		[--record FILE]
//	bench_collect --replay FILE [--intervals 10] [--max-ms M --max-mb M]
//
// --churn: connections made anew before each interval. --record: the dump that --replay takes,
// written by `ss -tin --diag=FILE`. Over a limit: exit status 1.
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "diag.h"
#include "flow_table.h"
#include "iface_map.h"
#include "summary.h"

namespace {

using swift::Fd;

constexpr int listeners = 8; // of a process: 127.1.N.1, so that no port range is the limit

[[noreturn]] void die(const std::string &what)
{
	std::fprintf(stderr, "bench_collect: %s: %s\n", what.c_str(), std::strerror(errno));
	std::exit(1);
}

sockaddr_in address(int listener)
{
	sockaddr_in a{};

	a.sin_family = AF_INET;
	a.sin_port = htons(5001);
	a.sin_addr.s_addr = htonl(0x7f010001U + (static_cast<unsigned>(listener) << 8));
	return a;
}

class Connections {
public:
	Connections(int process, std::size_t pairs) : first_(process * listeners)
	{
		for (int i = 0; i < listeners; i++) {
			Fd s(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
			const sockaddr_in a = address(first_ + i);
			const int on = 1;

			setsockopt(s.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
			if (bind(s.get(), reinterpret_cast<const sockaddr *>(&a), sizeof(a)) < 0 ||
			    listen(s.get(), 128) < 0)
				die("listen");
			listeners_.push_back(std::move(s));
		}
		for (std::size_t i = 0; i < pairs; i++)
			all_.push_back(make(static_cast<int>(i % listeners)));
	}
	void churn(std::size_t n)
	{
		for (std::size_t i = 0; i < n; i++, at_ = (at_ + 1) % all_.size())
			all_[at_] = make(static_cast<int>(at_ % listeners));
	}

private:
	struct Pair {
		Fd client;
		Fd server;
	};
	Pair make(int listener)
	{
		const sockaddr_in a = address(first_ + listener);
		Pair p{Fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), Fd()};
		char byte = 1;

		if (connect(p.client.get(), reinterpret_cast<const sockaddr *>(&a), sizeof(a)) < 0)
			die("connect");
		p.server = Fd(accept4(listeners_[static_cast<std::size_t>(listener)].get(), nullptr,
				      nullptr, SOCK_CLOEXEC));
		if (!p.server || send(p.client.get(), &byte, 1, 0) != 1 ||
		    recv(p.server.get(), &byte, 1, 0) != 1)
			die("accept");
		// Left as a reset, not as thousands of TIME_WAITs.
		const linger now{1, 0};

		setsockopt(p.client.get(), SOL_SOCKET, SO_LINGER, &now, sizeof(now));
		setsockopt(p.server.get(), SOL_SOCKET, SO_LINGER, &now, sizeof(now));
		return p;
	}

	int first_;
	std::vector<Fd> listeners_;
	std::vector<Pair> all_;
	std::size_t at_ = 0;
};

void own_namespace()
{
	ifreq r{};

	if (unshare(CLONE_NEWNET) < 0)
		die("unshare");
	const Fd s(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));

	std::strcpy(r.ifr_name, "lo");
	r.ifr_flags = IFF_UP;
	if (ioctl(s.get(), SIOCSIFFLAGS, &r) < 0)
		die("ifup lo");
	std::ofstream("/proc/sys/net/ipv4/ip_local_port_range") << "1024 65000";
}

// A process that holds connections: as many as it may have files.
class Holder {
public:
	Holder(int number, std::size_t pairs, std::size_t churn)
	{
		int to_child[2];
		int to_parent[2];

		if (pipe2(to_child, O_CLOEXEC) < 0 || pipe2(to_parent, O_CLOEXEC) < 0)
			die("pipe");
		pid_ = fork();
		if (pid_ < 0)
			die("fork");
		if (pid_ == 0) {
			char byte = 0;

			prctl(PR_SET_PDEATHSIG, SIGKILL);
			Connections connections(number, pairs);

			do {
				if (byte == 'c')
					connections.churn(churn);
				if (write(to_parent[1], "r", 1) != 1)
					break;
			} while (read(to_child[0], &byte, 1) == 1);
			_exit(0);
		}
		close(to_child[0]);
		close(to_parent[1]);
		ask_ = Fd(to_child[1]);
		answer_ = Fd(to_parent[0]);
	}
	Holder(Holder &&other) noexcept
		: pid_(std::exchange(other.pid_, -1)), ask_(std::move(other.ask_)),
		  answer_(std::move(other.answer_))
	{
	}
	Holder &operator=(Holder &&) = delete;
	~Holder()
	{
		if (pid_ <= 0)
			return;
		kill(pid_, SIGKILL);
		waitpid(pid_, nullptr, 0);
	}

	void churn()
	{
		if (write(ask_.get(), "c", 1) != 1)
			die("churn");
	}
	void wait()
	{
		char byte = 0;

		if (read(answer_.get(), &byte, 1) != 1)
			die("a process could not make its connections");
	}

private:
	pid_t pid_ = -1;
	Fd ask_;
	Fd answer_;
};

std::vector<Holder> hold(std::size_t pairs, std::size_t churn)
{
	std::vector<Holder> all;
	rlimit files{};

	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	const std::size_t most = (std::min<rlim_t>(files.rlim_max, 1'000'000) - 100) / 2;
	const std::size_t n = (pairs + most - 1) / most;

	for (std::size_t i = 0; i < n; i++)
		all.emplace_back(static_cast<int>(i), pairs / n + (i < pairs % n), churn / n);
	return all;
}

struct Cpu {
	double user_ms = 0;
	double kernel_ms = 0;
};

Cpu cpu_now()
{
	rusage u{};

	getrusage(RUSAGE_SELF, &u);
	const auto ms = [](const timeval &t) {
		return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_usec) / 1e3;
	};

	return {ms(u.ru_utime), ms(u.ru_stime)};
}

double rss_mb()
{
	std::ifstream f("/proc/self/statm");
	double size = 0;
	double pages = 0;

	f >> size >> pages;
	return pages * static_cast<double>(sysconf(_SC_PAGESIZE)) / 1e6;
}

double median(std::vector<double> v)
{
	std::sort(v.begin(), v.end());
	return v.empty() ? 0 : v[v.size() / 2];
}

void record(const std::string &file)
{
	const Fd made(open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
	int status = 0;

	if (!made) // ss would list to its standard output
		die(file);
	const pid_t child = fork();

	if (child == 0) {
		execlp("ss", "ss", "-Htin", "--diag", file.c_str(), nullptr);
		_exit(127);
	}
	if (child < 0 || waitpid(child, &status, 0) != child)
		die("ss -tin --diag " + file);
	if (status != 0) {
		std::fprintf(stderr, "bench_collect: ss -tin --diag %s: wait status %d\n", file.c_str(),
			     status);
		std::exit(1);
	}
}

// Shows @visit the sockets of a recorded dump, a receive buffer's worth at a time.
bool replay(const std::string &file, const swift::FlowVisitor &visit)
{
	const Fd f(open(file.c_str(), O_RDONLY | O_CLOEXEC));
	std::vector<std::byte> buffer(32768);
	std::size_t kept = 0;
	bool any = false;

	if (!f)
		die(file);
	for (;;) {
		const ssize_t n = read(f.get(), buffer.data() + kept, buffer.size() - kept);
		std::size_t whole = 0;
		nlmsghdr h{};

		if (n < 0)
			return false;
		if (n == 0)
			return any && kept == 0;
		kept += static_cast<std::size_t>(n);
		while (kept - whole >= sizeof(h)) {
			std::memcpy(&h, buffer.data() + whole, sizeof(h));
			if (h.nlmsg_len < sizeof(h) || h.nlmsg_len > buffer.size())
				return false;
			if (NLMSG_ALIGN(h.nlmsg_len) > kept - whole)
				break;
			// One by one: there is a dump of each family, with an end of its own.
			const auto status = swift::visit_diag({buffer.data() + whole, h.nlmsg_len}, visit);

			if (status.error || status.malformed || status.bad_records)
				return false;
			any = true;
			whole += NLMSG_ALIGN(h.nlmsg_len);
		}
		kept -= whole;
		std::memmove(buffer.data(), buffer.data() + whole, kept);
	}
}

struct Arguments {
	std::string record;
	std::string replay;
	std::size_t flows = 100000;
	std::size_t intervals = 10;
	std::size_t churn = 0;
	std::size_t max_ms = 0;
	std::size_t max_mb = 0;
};

Arguments arguments(std::span<char *> argv)
{
	Arguments a;

	for (std::size_t i = 1; i + 1 < argv.size(); i += 2) {
		const std::string_view name = argv[i];
		const std::string_view value = argv[i + 1];

		if (name == "--record" || name == "--replay") {
			(name == "--record" ? a.record : a.replay) = value;
			continue;
		}
		std::size_t *to = name == "--flows"     ? &a.flows :
				  name == "--intervals" ? &a.intervals :
				  name == "--churn"     ? &a.churn :
				  name == "--max-ms"    ? &a.max_ms :
				  name == "--max-mb"    ? &a.max_mb :
							  nullptr;

		if (!to || std::from_chars(value.data(), value.data() + value.size(), *to).ptr !=
				   value.data() + value.size()) {
			std::fprintf(stderr, "bench_collect: %s %s?\n", argv[i], argv[i + 1]);
			std::exit(2);
		}
	}
	return a;
}

} // namespace

int main(int argc, char **argv)
{
	const Arguments args = arguments({argv, static_cast<std::size_t>(argc)});
	const auto begun_all = std::chrono::steady_clock::now();

	std::vector<Holder> holders;

	if (args.replay.empty()) {
		own_namespace();
		holders = hold(args.flows / 2, args.churn);
		for (Holder &h : holders)
			h.wait();
		std::printf("made in %.1f s by %zu processes\n",
			    std::chrono::duration<double>(std::chrono::steady_clock::now() - begun_all)
				    .count(),
			    holders.size());
		if (!args.record.empty())
			record(args.record);
	}

	auto client = swift::DiagClient::open();
	auto ifaces = swift::IfaceMap::open();

	if (!client || !ifaces)
		die("netlink");

	swift::FlowTable table({{"*"}, {}, 256});
	std::vector<double> user;
	std::vector<double> kernel;
	std::vector<double> wall;
	std::vector<double> summing;
	std::shared_ptr<const swift::FlowSet> set;
	std::shared_ptr<const swift::FlowSet> held; // as a slow client of the API may
	swift::Summary summary;

	for (std::size_t i = 0; i <= args.intervals; i++) {
		const auto begun = std::chrono::steady_clock::now();
		const Cpu before = cpu_now();

		held = set;
		table.begin(begun.time_since_epoch().count(), *ifaces);
		const auto add = [&](const swift::Flow &f) { table.add(f); };

		if (!args.replay.empty()) {
			if (!replay(args.replay, add)) {
				std::fprintf(stderr, "bench_collect: --replay %s: not a dump of ss --diag\n",
					     args.replay.c_str());
				return 1;
			}
		} else if (auto done = client->visit(swift::states_connected, add); !done) {
			std::fprintf(stderr, "bench_collect: %s\n", done.error().text().c_str());
			return 1;
		}
		set = table.end();
		const Cpu between = cpu_now();

		summary = swift::summarize(*set, {}, {});
		const Cpu after = cpu_now();

		if (i > 0) { // the first has all flows to come
			user.push_back(after.user_ms - before.user_ms);
			kernel.push_back(after.kernel_ms - before.kernel_ms);
			summing.push_back(after.user_ms - between.user_ms + after.kernel_ms -
					  between.kernel_ms);
			wall.push_back(std::chrono::duration<double, std::milli>(
					       std::chrono::steady_clock::now() - begun)
					       .count());
		}
		if (args.churn) {
			for (Holder &h : holders)
				h.churn();
			for (Holder &h : holders)
				h.wait();
		}
	}
	holders.clear();

	const double mb = rss_mb();
	const double cpu = median(user) + median(kernel);

	std::printf("flows %zu, groups %zu, joined %zu, left %zu, row %zu bytes\n", set->rows.size(),
		    summary.groups.size(), set->joined, set->left, sizeof(swift::FlowRow));
	std::printf("per interval (median of %zu): user %.1f ms, kernel %.1f ms, sum %.1f ms "
		    "(summary %.1f), wall %.1f ms\n",
		    user.size(), median(user), median(kernel), cpu, median(summing), median(wall));
	std::printf("resident %.1f MB\n", mb);
	if (args.replay.empty() && set->rows.size() != args.flows / 2 * 2) {
		std::fprintf(stderr, "bench_collect: not all flows were seen\n");
		return 1;
	}
	return (args.max_ms && cpu > static_cast<double>(args.max_ms)) ||
	       (args.max_mb && mb > static_cast<double>(args.max_mb));
}
