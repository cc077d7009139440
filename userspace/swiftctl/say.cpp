// SPDX-License-Identifier: MIT
#include "say.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <string>
#include <utility>

#include "fd.h"
#include "printable.h"

namespace swift {

namespace {

constexpr int error_usage = -1; // of no errno
constexpr int look_ms = 100; // for a signal, while nobody reads
constexpr int looks_then = 10; // looks, once there is one

int write_error = 0; // an errno of print(); EINTR: it was told to stop

std::string who(const Verb &verb)
{
	const std::string name = verb.name;

	return name.empty() ? "swiftctl" : "swiftctl " + name;
}

void complain(const std::string &line)
{
	std::string one = line;

	std::replace(one.begin(), one.end(), '\n', ' ');
	std::fprintf(stderr, "%s\n", printable(one).c_str());
}

// Who blocks the signals (watch.h) has them wait.
bool told_to_stop()
{
	sigset_t waiting;

	sigemptyset(&waiting);
	sigpending(&waiting);
	return sigismember(&waiting, SIGINT) == 1 || sigismember(&waiting, SIGTERM) == 1 ||
	       sigismember(&waiting, SIGHUP) == 1;
}

// False: it is time to stop, and nobody reads.
bool is_taken(int out)
{
	pollfd wait = {out, POLLOUT, 0};

	for (int left = looks_then; left > 0; left -= told_to_stop())
		if (poll(&wait, 1, look_ms) > 0)
			return true;
	return false;
}

} // namespace

bool print(std::string_view text)
{
	// A terminal that takes a part only would have us wait with the rest.
	constexpr int flags = O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
	const Fd own(isatty(STDOUT_FILENO) == 1 ? open("/proc/self/fd/1", flags) : -1);
	const int out = own ? own.get() : STDOUT_FILENO;

	while (!text.empty()) {
		if (!is_taken(out)) {
			write_error = EINTR;
			return false;
		}
		// What is no longer than this a pipe takes as a whole.
		const ssize_t n = write(out, text.data(), std::min<std::size_t>(text.size(), PIPE_BUF));

		if (n >= 0) {
			text.remove_prefix(static_cast<std::size_t>(n));
		} else if (errno != EINTR && errno != EAGAIN) {
			write_error = errno;
			return false;
		}
	}
	return true;
}

Error unwritten()
{
	return errno_error("cannot write to the standard output", write_error);
}

int fail(const Verb &verb, std::string_view why)
{
	complain(who(verb) + ": " + std::string(why));
	return exit_failed;
}

int fail_usage(const Verb &verb, std::string_view why)
{
	complain(who(verb) + ": " + std::string(why) + "; see " + who(verb) + " --help");
	return exit_usage;
}

Error usage_error(Error error)
{
	error.code = error_usage;
	return error;
}

Error usage_error(std::string_view what)
{
	return usage_error(Error{std::string(what)});
}

int exit_status(const Verb &verb, const Result<int> &run)
{
	// A reader that goes is in the right, and so is who says stop.
	if (run && *run == exit_failed && write_error != EPIPE && write_error != EINTR)
		if (const Error why = unwritten(); std::exchange(write_error, 0) != 0)
			return fail(verb, why.text());
	return run ? *run : run.error().code == error_usage ? fail_usage(verb, run.error().text()) :
							      fail(verb, run.error().text());
}

int leave(std::string_view text)
{
	return print(text) ? exit_ok : exit_failed;
}

int leave(const std::vector<std::string> &lines)
{
	return leave(fmt::format("{}\n", fmt::join(lines, "\n")));
}

void note(const Verb &verb, std::string_view text)
{
	complain(who(verb) + ": " + std::string(text));
}

} // namespace swift
