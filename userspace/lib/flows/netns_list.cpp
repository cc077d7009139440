// SPDX-License-Identifier: MIT
#include "netns_list.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <memory>

#include "printable.h"

namespace swift {

namespace {

constexpr std::size_t most_paths = 3; // of a namespace: others may be left when one has gone
constexpr std::uint32_t young_scans = 3; // a process that begins enters its namespace within these
constexpr std::uint32_t turns = 8; // of the others each this many scans

using Directory = std::unique_ptr<DIR, int (*)(DIR *)>;

Directory open_directory(const std::string &path)
{
	return {opendir(path.c_str()), closedir};
}

// Of "net:[4026531840]"; 0: it is not told, or, with ENOENT or ESRCH, the process has none any more.
std::uint32_t inode_of(const std::string &link)
{
	std::array<char, 64> text{};
	const ssize_t n = readlink(link.c_str(), text.data(), text.size() - 1);
	std::uint32_t inode = 0;

	if (n > 6 && std::string_view(text.data(), 5) == "net:[")
		std::from_chars(text.data() + 5, text.data() + n, inode);
	return inode;
}

} // namespace

Result<Fd> Netns::open() const
{
	Error why{"network namespace " + name + " has gone", {}, {}, ENOENT};

	for (const std::string &path : paths) {
		Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
		struct stat s {};

		if (!fd && errno != ENOENT && errno != ESRCH)
			why = errno_error("cannot open network namespace " + name, errno);
		// Of another process, or another namespace by that name, by now.
		if (fd && fstat(fd.get(), &s) == 0 && s.st_ino == inode)
			return fd;
	}
	return why;
}

std::vector<std::string> NetnsList::usual_directories()
{
	// iproute2, containerd and CRI-O; Docker. /var/run is another directory than /run in some images.
	return {"/run/netns", "/var/run/netns", "/run/docker/netns", "/var/run/docker/netns"};
}

void NetnsList::scan_directories(std::map<std::uint32_t, Netns> &found, dev_t device) const
{
	for (const std::string &path : directories_) {
		const Directory directory = open_directory(path);

		for (const dirent *e = directory ? readdir(directory.get()) : nullptr; e; e = readdir(directory.get())) {
			const std::string file = path + "/" + e->d_name;
			struct stat s {};

			// A name that nothing is mounted on is an empty file.
			if (e->d_name[0] == '.' || stat(file.c_str(), &s) < 0 || s.st_dev != device)
				continue;
			Netns &n = found[static_cast<std::uint32_t>(s.st_ino)];

			if (n.name.empty())
				n.name = printable(e->d_name);
			if (n.paths.size() < most_paths)
				n.paths.push_back(file);
		}
	}
}

void NetnsList::scan_processes(std::map<std::uint32_t, Netns> &found)
{
	const Directory directory = open_directory(proc_);
	std::unordered_map<std::string, Process> now;

	silent_ = 0;
	scans_++;
	now.reserve(processes_.size() + processes_.size() / 8);
	for (const dirent *e = directory ? readdir(directory.get()) : nullptr; e; e = readdir(directory.get())) {
		if (e->d_name[0] < '1' || e->d_name[0] > '9')
			continue;
		const std::string pid = e->d_name;
		const auto before = processes_.find(pid);
		const bool known = before != processes_.end() && before->second.entry == e->d_ino;
		Process p = known ? before->second : Process{.entry = e->d_ino};
		const std::string link = proc_ + "/" + pid + "/ns/net";

		// One that has been there for a while hardly ever changes; nor does whether it tells.
		if (p.scans < young_scans || (std::hash<std::string>()(pid) + scans_) % turns == 0) {
			p.inode = inode_of(link);
			p.silent = p.inode == 0 && errno != ENOENT && errno != ESRCH;
		}
		p.scans++;
		silent_ += p.silent;
		if (p.inode != 0) {
			Netns &n = found[p.inode];

			if (n.paths.size() < most_paths)
				n.paths.push_back(link);
		}
		now.emplace(pid, p);
	}
	processes_ = std::move(now);
}

void NetnsList::ask_again(std::uint32_t inode)
{
	for (auto &[pid, p] : processes_)
		if (p.inode == inode)
			p.scans = 0;
}

void NetnsList::scan_own()
{
	struct stat own {};
	std::map<std::uint32_t, Netns> found;

	if (stat((proc_ + "/thread-self/ns/net").c_str(), &own) < 0)
		return;
	scan_directories(found, own.st_dev);
	const auto at = found.find(static_cast<std::uint32_t>(own.st_ino));

	own_name_ = at != found.end() ? at->second.name : std::to_string(own.st_ino);
}

const std::vector<Netns> &NetnsList::scan()
{
	struct stat own {};
	std::map<std::uint32_t, Netns> found;

	all_.clear();
	if (stat((proc_ + "/thread-self/ns/net").c_str(), &own) < 0)
		return all_;
	scan_directories(found, own.st_dev);
	scan_processes(found);
	for (auto &[inode, n] : found) {
		n.inode = inode;
		if (n.name.empty())
			n.name = std::to_string(inode);
	}
	const auto at = found.find(static_cast<std::uint32_t>(own.st_ino));

	own_name_ = at != found.end() ? at->second.name : std::to_string(own.st_ino);
	for (auto &[inode, n] : found)
		if (inode != own.st_ino)
			all_.push_back(std::move(n));
	return all_;
}

} // namespace swift
