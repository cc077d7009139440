// SPDX-License-Identifier: MIT
#include "ab_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <span>

#include "ab_plan.h"
#include "bpf_host.h"
#include "diag.h"
#include "fd.h"
#include "printable.h"
#include "text.h"

namespace swift {

namespace {

using Clock = std::chrono::steady_clock;

constexpr double tick_s = 0.1;
constexpr double term_patience_s = 3; // between SIGTERM and SIGKILL
constexpr std::size_t output_max = std::size_t{256} << 20; // of one command

double seconds(Clock::duration d)
{
	return std::chrono::duration<double>(d).count();
}

struct Child {
	pid_t pid = -1;
	bool companion = false;
	bool remote = false;
	bool asked = false; // to end
	AbOutput *output = nullptr;
	std::array<Fd, 2> pipes; // of its output and its errors
	Fd input; // of ssh: closing it ends the command over there

	[[nodiscard]] bool running() const { return pid > 0; }
};

// The child side of fork(): async-signal-safe calls only.
[[noreturn]] void become(const std::vector<char *> &argv, int in, int out, int err, pid_t parent)
{
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, nullptr);
	signal(SIGPIPE, SIG_DFL);
	// The terminal's Ctrl-C is for us alone; and should we be killed, so is the child.
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent || dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(err, 2) < 0)
		_exit(126);
	execvp(argv[0], argv.data());
	_exit(errno == ENOENT ? 127 : 126);
}

bool make_pipe(Fd &reader, Fd &writer)
{
	std::array<int, 2> ends;

	if (pipe2(ends.data(), O_CLOEXEC) < 0)
		return false;
	reader = Fd(ends[0]);
	writer = Fd(ends[1]);
	return true;
}

void start(const AbCommand &command, Child &child)
{
	std::vector<std::string> words =
		command.host.empty() ? command.argv : ssh_command(command.host, command.argv);
	std::vector<char *> argv;
	Fd in;
	Fd out;
	Fd err;

	for (std::string &word : words)
		argv.push_back(word.data());
	argv.push_back(nullptr);
	child.companion = command.companion;
	child.remote = !command.host.empty();

	const bool ready = make_pipe(in, child.input) && make_pipe(child.pipes[0], out) &&
			   make_pipe(child.pipes[1], err);
	const pid_t parent = getpid();
	const pid_t pid = ready ? fork() : -1;

	if (pid == 0)
		become(argv, in.get(), out.get(), err.get(), parent);
	if (pid < 0) {
		child.output->end = AbOutput::End::not_started;
		child.output->err = std::strerror(errno);
		child.pipes[0] = Fd();
		child.pipes[1] = Fd();
		return;
	}
	child.pid = pid;
	for (const Fd &p : child.pipes)
		fcntl(p.get(), F_SETFL, O_NONBLOCK);
}

void ask_to_end(Child &child, AbOutput::End why)
{
	if (!child.running() || child.asked)
		return;
	child.asked = true;
	child.output->end = why;
	child.input = Fd();
	// ssh leaves when the command over there has.
	if (!child.remote)
		kill(child.pid, SIGTERM);
}

void reap(Child &child, Clock::time_point began)
{
	int status = 0;

	if (!child.running() || waitpid(child.pid, &status, WNOHANG) != child.pid)
		return;
	child.pid = -1;
	child.output->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	child.output->ended_s = seconds(Clock::now() - began);
}

void read_from(Fd &pipe, std::string &text)
{
	std::array<char, 65536> buf;

	for (;;) {
		const ssize_t n = ::read(pipe.get(), buf.data(), buf.size());

		if (n > 0) {
			if (text.size() + static_cast<std::size_t>(n) <= output_max)
				text.append(buf.data(), static_cast<std::size_t>(n));
			continue;
		}
		if (n < 0 && errno == EINTR)
			continue;
		if (n == 0 || errno != EAGAIN)
			pipe = Fd();
		return;
	}
}

class RealAbHosts final : public AbHosts {
public:
	explicit RealAbHosts(const sigset_t &stop) : stop_(signalfd(-1, &stop, SFD_CLOEXEC | SFD_NONBLOCK)) {}

	std::vector<AbOutput> run(const std::vector<AbCommand> &commands, double timeout_s,
				  const Tick &tick) override
	{
		std::vector<AbOutput> outputs(commands.size());
		std::vector<Child> children(commands.size());
		const auto began = Clock::now();

		for (std::size_t i = 0; i < commands.size() && !stopped_; i++) {
			children[i].output = &outputs[i];
			start(commands[i], children[i]);
		}
		attend(children, began, timeout_s, tick);
		for (std::size_t i = 0; i < commands.size(); i++)
			if (!children[i].output)
				outputs[i].end = AbOutput::End::stopped;
		return outputs;
	}

	Result<std::vector<Flow>> flows() override
	{
		if (!client_) {
			ASSIGN_OR_RETURN(auto opened, DiagClient::open());

			client_ = std::make_unique<DiagClient>(std::move(opened));
			storages_ = bpf_flow_storages();
		}
		ASSIGN_OR_RETURN(auto dump, client_->dump(states_connected, storages_));
		return std::move(dump.flows);
	}

	bool pause(double s) override
	{
		const auto began = Clock::now();

		while (!stopped_) {
			const double left = s - seconds(Clock::now() - began);

			if (left <= 0)
				break;
			wait({}, left);
		}
		return !stopped_;
	}

	bool stopped() const override { return stopped_; }

	std::string self() const override { return "/proc/self/exe"; }

	double now_s() const override { return seconds(Clock::now().time_since_epoch()); }

private:
	void attend(std::vector<Child> &children, Clock::time_point began, double timeout_s, const Tick &tick)
	{
		double next_tick = 0;
		double kill_at = 0; // 0: nobody is asked to end

		for (;;) {
			const double now = seconds(Clock::now() - began);
			const auto busy = [](const Child &c) { return c.running() && !c.companion; };
			const bool main_done = std::none_of(children.begin(), children.end(), busy);
			const bool all_done =
				std::none_of(children.begin(), children.end(), [](const Child &c) { return c.running(); });

			if (all_done)
				break;
			if (stopped_ || now > timeout_s || main_done)
				for (Child &c : children)
					ask_to_end(c, stopped_	     ? AbOutput::End::stopped :
						      main_done && c.companion ? AbOutput::End::exited :
									 AbOutput::End::too_late);
			if (std::any_of(children.begin(), children.end(),
					[](const Child &c) { return c.running() && c.asked; })) {
				if (kill_at == 0)
					kill_at = now + term_patience_s;
				if (now > kill_at)
					for (const Child &c : children)
						if (c.running() && c.asked)
							kill(c.pid, SIGKILL);
			}
			if (now >= next_tick) {
				if (tick && !stopped_)
					tick(now);
				next_tick = now + tick_s;
			}
			wait(children, std::min(tick_s / 2, std::max(0.0, next_tick - now)));
			for (Child &c : children)
				reap(c, began);
		}
		// What was written before the end; a grandchild that holds a pipe does not hold us.
		for (Child &c : children)
			take_output(c);
	}

	static void take_output(Child &c)
	{
		if (c.pipes[0])
			read_from(c.pipes[0], c.output->out);
		if (c.pipes[1])
			read_from(c.pipes[1], c.output->err);
	}

	// For output, a signal that says stop, or a while.
	void wait(std::span<Child> children, double s)
	{
		std::vector<pollfd> fds = {{stop_.get(), POLLIN, 0}};
		const timespec until = {static_cast<time_t>(s),
					static_cast<long>((s - static_cast<double>(static_cast<time_t>(s))) * 1e9)};

		for (const Child &c : children)
			for (const Fd &p : c.pipes)
				if (p)
					fds.push_back({p.get(), POLLIN, 0});
		ppoll(fds.data(), fds.size(), &until, nullptr);

		signalfd_siginfo info{};

		if (::read(stop_.get(), &info, sizeof(info)) == sizeof(info))
			stopped_ = true;
		for (Child &c : children)
			if (c.output)
				take_output(c);
	}

	Fd stop_;
	bool stopped_ = false;
	std::unique_ptr<DiagClient> client_;
	std::vector<Fd> storages_;
};

} // namespace

std::string AbOutput::complaint(const std::string &fallback) const
{
	std::string last;

	if (end == End::too_late)
		return "it did not end in time";
	if (end == End::stopped)
		return "stopped";
	// What ssh and iperf3 have to say comes last.
	for (const std::string &line : split(err, '\n'))
		if (!trim(line).empty())
			last = std::string(trim(line));
	return last.empty() ? fallback : printable(last);
}

std::unique_ptr<AbHosts> real_ab_hosts(const sigset_t &stop)
{
	return std::make_unique<RealAbHosts>(stop);
}

} // namespace swift
