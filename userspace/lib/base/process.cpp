// SPDX-License-Identifier: MIT
#include "process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "fd.h"

namespace swift {

namespace {

constexpr std::array<const char *, 6> command_dirs = {"/usr/local/sbin", "/usr/sbin", "/sbin",
						      "/usr/local/bin",	 "/usr/bin",  "/bin"};

struct SpawnActions {
	posix_spawn_file_actions_t actions;
	SpawnActions() { posix_spawn_file_actions_init(&actions); }
	SpawnActions(const SpawnActions &) = delete;
	SpawnActions &operator=(const SpawnActions &) = delete;
	~SpawnActions() { posix_spawn_file_actions_destroy(&actions); }
};

// Reads two pipes to their ends, whichever has something first.
void drain(Fd &out, Fd &err, CommandResult &result)
{
	std::array<char, 4096> buf;
	std::array<pollfd, 2> wait = {{{out.get(), POLLIN, 0}, {err.get(), POLLIN, 0}}};

	while (wait[0].fd >= 0 || wait[1].fd >= 0) {
		if (poll(wait.data(), wait.size(), -1) < 0 && errno != EINTR)
			return;
		for (std::size_t i = 0; i < wait.size(); i++) {
			if (wait[i].fd < 0 || wait[i].revents == 0)
				continue;
			const ssize_t n = ::read(wait[i].fd, buf.data(), buf.size());

			if (n > 0)
				(i == 0 ? result.out : result.err)
					.append(buf.data(), static_cast<std::size_t>(n));
			else if (n == 0 || errno != EINTR)
				wait[i].fd = -1;
		}
	}
}

} // namespace

Result<CommandResult> run_command(const std::vector<std::string> &argv)
{
	std::string file;

	for (const char *dir : command_dirs) {
		file = std::string(dir) + "/" + argv[0];
		if (access(file.c_str(), X_OK) == 0)
			break;
		file.clear();
	}
	if (file.empty())
		return Error{"cannot find the command " + argv[0], {}, {}, ENOENT};

	std::array<int, 2> pipe_out;
	std::array<int, 2> pipe_err;

	if (pipe2(pipe_out.data(), O_CLOEXEC) < 0)
		return errno_error("cannot run " + argv[0], errno);
	Fd out(pipe_out[0]);
	Fd out_end(pipe_out[1]);

	if (pipe2(pipe_err.data(), O_CLOEXEC) < 0)
		return errno_error("cannot run " + argv[0], errno);
	Fd err(pipe_err[0]);
	Fd err_end(pipe_err[1]);

	SpawnActions spawn;

	posix_spawn_file_actions_addopen(&spawn.actions, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&spawn.actions, out_end.get(), 1);
	posix_spawn_file_actions_adddup2(&spawn.actions, err_end.get(), 2);

	// posix_spawn wants char *const[]; it does not write through them.
	std::vector<std::string> copies = argv;
	std::vector<char *> args;

	for (std::string &s : copies)
		args.push_back(s.data());
	args.push_back(nullptr);

	std::string path = "PATH=/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin";
	std::string locale = "LC_ALL=C";
	std::array<char *, 3> env = {path.data(), locale.data(), nullptr};
	pid_t pid = -1;
	const int code = posix_spawn(&pid, file.c_str(), &spawn.actions, nullptr, args.data(),
				     env.data());

	if (code != 0)
		return errno_error("cannot run " + argv[0], code);
	out_end = Fd();
	err_end = Fd();

	CommandResult result;
	int status = 0;

	drain(out, err, result);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return errno_error("lost the command " + argv[0], errno);
	result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	return result;
}

} // namespace swift
