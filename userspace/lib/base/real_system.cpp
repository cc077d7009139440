// SPDX-License-Identifier: MIT
// System on the real host: system calls, and nothing that decides.
#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "fd.h"
#include "system.h"
#include "text.h"

namespace swift {

namespace {

constexpr off_t most_record_bytes = 1 << 20;

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

// False: errno tells why.
bool write_all(int fd, std::string_view content)
{
	while (!content.empty()) {
		const ssize_t n = ::write(fd, content.data(), content.size());

		if (n >= 0)
			content.remove_prefix(static_cast<std::size_t>(n));
		else if (errno != EINTR)
			return false;
	}
	return true;
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

	Result<std::string> read_record(const std::string &path) const override
	{
		// Neither a link to elsewhere nor a pipe that nobody writes to.
		const Fd fd(::open((root_ + path).c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
		struct stat s {};

		if (!fd || fstat(fd.get(), &s) < 0)
			return errno_error("cannot open " + path, errno);
		if (!S_ISREG(s.st_mode) || s.st_size > most_record_bytes)
			return Error{path + " is no plain file of up to " + std::to_string(most_record_bytes) + " bytes"};
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
		// At once: what a sysctl gets in parts is no value.
		const ssize_t n = ::write(fd.get(), content.data(), content.size());

		if (n == static_cast<ssize_t>(content.size()))
			return {};
		return errno_error("cannot write", n < 0 ? errno : EIO);
	}

	Result<void> replace_file(const std::string &path, const std::string &content,
				  unsigned mode) override
	{
		const std::string real = root_ + path;
		const std::string scratch = real + ".new";

		RETURN_IF_ERROR(make_dirs(parent_of(real)));
		unlink(scratch.c_str());

		const Fd fd(::open(scratch.c_str(),
				   O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode));

		if (!fd)
			return errno_error("cannot write " + path, errno);
		if (fchmod(fd.get(), mode) < 0 || !write_all(fd.get(), content) || fsync(fd.get()) < 0 ||
		    rename(scratch.c_str(), real.c_str()) < 0) {
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
		return run_command(argv);
	}

	Result<std::shared_ptr<void>> lock(const std::string &path) override
	{
		RETURN_IF_ERROR(make_dirs(parent_of(root_ + path)));

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

	bool is_root() const override { return geteuid() == 0; }

private:
	// So that a rename survives a power cut; a file system that cannot do it (/run) is fine.
	static void sync_dir(const std::string &dir)
	{
		const Fd fd(::open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));

		if (fd)
			fsync(fd.get());
	}

	std::string root_;
};

} // namespace

std::unique_ptr<System> real_system(std::string root)
{
	return std::make_unique<RealSystem>(std::move(root));
}

Result<std::shared_ptr<void>> hold_changes(System &system, bool dry_run)
{
	if (dry_run)
		return std::shared_ptr<void>();
	if (!system.is_root())
		return Error{"needs root (--dry-run does not)"};
	return system.lock(changes_lock_path);
}

std::string module_hint(System &system)
{
	const auto found = system.run({"modinfo", "-n", "tcp_swift"});

	if (found && found->status == 0)
		return "load it with `modprobe tcp_swift`, or `swiftctl enable`";
	return "it is not installed for this kernel: install the tcp_swift package, or give a "
	       "built one to `swiftctl enable --module tcp_swift.ko`";
}

} // namespace swift
