// SPDX-License-Identifier: MIT
// System on the real host: system calls, and nothing that decides.
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <linux/ethtool.h>
#include <linux/net_tstamp.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "address_list.h"
#include "diag.h"
#include "fd.h"
#include "system.h"
#include "text.h"

namespace swift {

namespace {

constexpr std::array<const char *, 6> command_dirs = {"/usr/local/sbin", "/usr/sbin", "/sbin",
						      "/usr/local/bin",	 "/usr/bin",  "/bin"};
constexpr int handshakes = 7;
constexpr int handshake_timeout_ms = 1000;

std::string parent_of(const std::string &path)
{
	const auto slash = path.rfind('/');

	return slash == std::string::npos || slash == 0 ? "/" : path.substr(0, slash);
}

Result<std::string> read_all(int fd, const std::string &what)
{
	std::string out;
	std::array<char, 16384> buf;

	for (;;) {
		const ssize_t n = ::read(fd, buf.data(), buf.size());

		if (n == 0)
			return out;
		if (n > 0)
			out.append(buf.data(), static_cast<std::size_t>(n));
		else if (errno != EINTR)
			return errno_error("cannot read " + what, errno);
	}
}

Result<void> make_dirs(const std::string &path)
{
	for (std::size_t at = 1; at != std::string::npos; ) {
		at = path.find('/', at);
		const std::string part = path.substr(0, at);

		if (mkdir(part.c_str(), 0755) < 0 && errno != EEXIST)
			return errno_error("cannot make " + part, errno);
		if (at != std::string::npos)
			at++;
	}
	return {};
}

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

// "swiftctl (pid 1234)": who keeps us from locking @fd.
std::string holder_of(int fd)
{
	const auto text_of = [](const std::string &path) {
		const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
		auto text = file ? read_all(file.get(), path) : Result<std::string>(std::string());

		return text ? *text : std::string();
	};
	struct stat s {};
	std::optional<std::uint32_t> pid;

	if (fstat(fd, &s) == 0)
		pid = flock_holder(text_of("/proc/locks"), major(s.st_dev), minor(s.st_dev), s.st_ino);
	if (!pid)
		return "swiftctl";

	const std::string name(trim(text_of("/proc/" + std::to_string(*pid) + "/comm")));

	return (name.empty() ? "swiftctl" : name) + " (pid " + std::to_string(*pid) + ")";
}

class RealSystem final : public System {
public:
	explicit RealSystem(std::string root) : root_(std::move(root))
	{
		while (!root_.empty() && root_.back() == '/')
			root_.pop_back();
	}

	bool exists(const std::string &path) const override
	{
		return access((root_ + path).c_str(), F_OK) == 0;
	}

	Result<std::string> read_file(const std::string &path) const override
	{
		const Fd fd(::open((root_ + path).c_str(), O_RDONLY | O_CLOEXEC));

		if (!fd)
			return errno_error("cannot open " + path, errno);
		return read_all(fd.get(), path);
	}

	Result<std::vector<std::string>> list_dir(const std::string &path) const override
	{
		const std::unique_ptr<DIR, int (*)(DIR *)> dir(opendir((root_ + path).c_str()),
							       closedir);
		std::vector<std::string> names;

		if (!dir)
			return errno_error("cannot list " + path, errno);
		while (const dirent *entry = readdir(dir.get()))
			if (entry->d_name[0] != '.')
				names.emplace_back(entry->d_name);
		std::sort(names.begin(), names.end());
		return names;
	}

	Result<void> write_file(const std::string &path, const std::string &content) override
	{
		const Fd fd(::open((root_ + path).c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC));

		if (!fd)
			return errno_error("cannot open " + path, errno);
		if (::write(fd.get(), content.data(), content.size()) !=
		    static_cast<ssize_t>(content.size()))
			return errno_error("cannot write", errno);
		return {};
	}

	Result<void> replace_file(const std::string &path, const std::string &content,
				  unsigned mode) override
	{
		const std::string real = root_ + path;
		const std::string scratch = real + ".new";

		if (auto made = make_dirs(parent_of(real)); !made)
			return made;
		unlink(scratch.c_str());

		const Fd fd(::open(scratch.c_str(),
				   O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode));

		if (!fd)
			return errno_error("cannot write " + path, errno);
		if (fchmod(fd.get(), mode) < 0 ||
		    ::write(fd.get(), content.data(), content.size()) !=
			    static_cast<ssize_t>(content.size()) ||
		    fsync(fd.get()) < 0 || rename(scratch.c_str(), real.c_str()) < 0) {
			const int code = errno;

			unlink(scratch.c_str());
			return errno_error("cannot write " + path, code);
		}
		sync_dir(parent_of(real));
		return {};
	}

	Result<void> remove_file(const std::string &path) override
	{
		const std::string real = root_ + path;

		if (unlink(real.c_str()) < 0 && errno != ENOENT)
			return errno_error("cannot remove " + path, errno);
		sync_dir(parent_of(real));
		return {};
	}

	Result<CommandResult> run(const std::vector<std::string> &argv) override
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

	Result<std::shared_ptr<void>> lock(const std::string &path) override
	{
		if (auto made = make_dirs(parent_of(root_ + path)); !made)
			return made.error();

		auto fd = std::make_shared<Fd>(
			::open((root_ + path).c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));

		if (!*fd)
			return errno_error("cannot open " + path, errno);
		if (flock(fd->get(), LOCK_EX | LOCK_NB) < 0)
			return Error{"another " + holder_of(fd->get()) + " is changing this host (it holds " + path +
					     "); try again when it is done",
				     {}, {}, EWOULDBLOCK};
		return std::shared_ptr<void>(fd);
	}

	Result<std::vector<Flow>> tcp_sockets(std::uint32_t states) override
	{
		if (!root_.empty())
			return not_live();
		auto client = DiagClient::open();

		if (!client)
			return client.error();
		auto dump = client->dump(states);

		if (!dump)
			return dump.error();
		return std::move(dump->flows);
	}

	Result<Coalescing> coalescing(const std::string &dev) override
	{
		ethtool_coalesce request{};

		request.cmd = ETHTOOL_GCOALESCE;
		if (auto done = nic_ioctl(dev, SIOCETHTOOL, &request); !done)
			return done.error();
		return Coalescing{request.rx_coalesce_usecs, request.use_adaptive_rx_coalesce != 0};
	}

	Result<NicTimestamps> timestamps(const std::string &dev) override
	{
		ethtool_ts_info info{};
		hwtstamp_config config{};

		info.cmd = ETHTOOL_GET_TS_INFO;
		if (auto done = nic_ioctl(dev, SIOCETHTOOL, &info); !done)
			return done.error();

		NicTimestamps t;

		t.phc_index = info.phc_index;
		t.can_hw_rx_all = (info.so_timestamping & SOF_TIMESTAMPING_RX_HARDWARE) != 0 &&
				  (info.rx_filters & 1U << HWTSTAMP_FILTER_ALL) != 0;
		t.rx_filters = info.rx_filters;
		t.tx_types = info.tx_types;
		if (nic_ioctl(dev, SIOCGHWTSTAMP, &config)) {
			t.hw_rx_all_on = config.rx_filter == HWTSTAMP_FILTER_ALL;
			t.now = Stamping{config.tx_type, config.rx_filter};
		}
		return t;
	}

	Result<Stamping> set_stamping(const std::string &dev, const Stamping &wanted) override
	{
		hwtstamp_config config{};

		config.tx_type = wanted.tx_type;
		config.rx_filter = wanted.rx_filter;
		if (auto done = nic_ioctl(dev, SIOCSHWTSTAMP, &config); !done)
			return done.error();
		return Stamping{config.tx_type, config.rx_filter};
	}

	Result<std::vector<NicClock>> nic_clocks() override
	{
		if (!root_.empty())
			return not_live();
		auto client = ClockClient::open();

		return client ? client->all() : client.error();
	}

	Result<std::uint64_t> handshake_rtt_ns(const std::string &host, std::uint16_t port) override
	{
		if (!root_.empty())
			return not_live();

		addrinfo hints{};
		addrinfo *raw = nullptr;

		hints.ai_socktype = SOCK_STREAM;
		const int code =
			getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &raw);
		const AddressList list(raw);

		if (code != 0)
			return Error{std::string("cannot look up the peer: ") + gai_strerror(code), host};

		std::optional<std::uint64_t> best;

		for (int i = 0; i < handshakes; i++) {
			auto one = handshake_ns(*list);

			if (!one)
				return one;
			best = best ? std::min(*best, *one) : *one;
		}
		return *best;
	}

	bool is_root() const override { return geteuid() == 0; }

private:
	static Error not_live() { return Error{"only the live host can tell"}; }

	// So that a rename survives a power cut; a file system that cannot do it (/run) is fine.
	static void sync_dir(const std::string &dir)
	{
		const Fd fd(::open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));

		if (fd)
			fsync(fd.get());
	}

	Result<void> nic_ioctl(const std::string &dev, unsigned long code, void *data) const
	{
		if (!root_.empty())
			return not_live();

		const Fd fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
		ifreq request{};

		if (!fd)
			return errno_error("cannot open a socket", errno);
		if (dev.size() >= sizeof(request.ifr_name))
			return Error{"not an interface", dev};
		std::memcpy(request.ifr_name, dev.data(), dev.size());
		request.ifr_data = static_cast<char *>(data);
		if (ioctl(fd.get(), code, &request) < 0)
			return errno_error(dev, errno);
		return {};
	}

	// A refused connection has made its round trip as well.
	static Result<std::uint64_t> handshake_ns(const addrinfo &to)
	{
		using Clock = std::chrono::steady_clock;
		const Fd fd(socket(to.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));

		if (!fd)
			return errno_error("cannot open a socket", errno);

		const auto start = Clock::now();
		int code = connect(fd.get(), to.ai_addr, to.ai_addrlen) < 0 ? errno : 0;

		if (code == EINPROGRESS) {
			pollfd wait = {fd.get(), POLLOUT, 0};

			if (poll(&wait, 1, handshake_timeout_ms) <= 0)
				return Error{"the peer does not answer within a second"};

			socklen_t size = sizeof(code);

			getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &code, &size);
		}

		const auto elapsed = Clock::now() - start;

		if (code != 0 && code != ECONNREFUSED)
			return errno_error("cannot connect to the peer", code);

		// The kernel's own measurement leaves out our wake-up.
		tcp_info info{};
		socklen_t size = sizeof(info);

		if (code == 0 &&
		    getsockopt(fd.get(), IPPROTO_TCP, TCP_INFO, &info, &size) == 0 &&
		    info.tcpi_min_rtt != 0 && info.tcpi_min_rtt != 0xffffffffU)
			return std::uint64_t{info.tcpi_min_rtt} * 1000;
		return static_cast<std::uint64_t>(
			std::chrono::duration_cast<std::chrono::nanoseconds>(elapsed).count());
	}

	std::string root_;
};

} // namespace

std::unique_ptr<System> real_system(std::string root)
{
	return std::make_unique<RealSystem>(std::move(root));
}

} // namespace swift
