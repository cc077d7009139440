// SPDX-License-Identifier: MIT
#include "socket_processes.h"

#include <dirent.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <fstream>
#include <memory>

#include "clock_ns.h"
#include "printable.h"
#include "text.h"

namespace swift {

namespace {

constexpr std::size_t most_places = 1 << 17;
constexpr std::int64_t walk_every_ns = 2'000'000'000; // for sockets that no process has, orphans

using Directory = std::unique_ptr<DIR, int (*)(DIR *)>;

// Of a link "socket:[4711]"; 0: it is none.
std::uint32_t socket_inode(const std::string &link)
{
	std::array<char, 64> text{};
	const ssize_t n = readlink(link.c_str(), text.data(), text.size() - 1);
	std::uint32_t inode = 0;

	if (n > 9 && std::string_view(text.data(), 8) == "socket:[")
		std::from_chars(text.data() + 8, text.data() + n, inode);
	return inode;
}

} // namespace

bool SocketProcesses::is_at(const Place &place, std::uint32_t inode) const
{
	return socket_inode(proc_ + "/" + place.pid + "/fd/" + place.fd) == inode;
}

// Remembers all the sockets of @pid; where @inode is, if it is one of them: what is remembered may be forgotten at once.
std::optional<SocketProcesses::Place> SocketProcesses::look(const std::string &pid, std::uint32_t inode)
{
	const std::string path = proc_ + "/" + pid + "/fd";
	const Directory directory(opendir(path.c_str()), closedir);
	std::optional<Place> found;

	for (const dirent *e = directory ? readdir(directory.get()) : nullptr; e; e = readdir(directory.get())) {
		const std::uint32_t each = e->d_name[0] == '.' ? 0 : socket_inode(path + "/" + e->d_name);

		if (each == 0)
			continue;
		if (places_.size() >= most_places)
			places_.clear();
		// Of several that have it, the one that had it first.
		if (!places_.contains(each) || each == inode)
			places_[each] = {pid, e->d_name};
		if (each == inode)
			found = Place{pid, e->d_name};
	}
	return found;
}

std::optional<SocketProcesses::Place> SocketProcesses::look_in_group(const std::string &cgroup, std::uint32_t inode)
{
	std::ifstream pids(cgroups_ + cgroup + "/cgroup.procs");

	for (std::string pid; std::getline(pids, pid);)
		if (pid != "0") // of another PID namespace
			if (auto found = look(pid, inode))
				return found;
	return std::nullopt;
}

std::optional<SocketProcesses::Place> SocketProcesses::look_everywhere(std::uint32_t inode)
{
	const std::int64_t now_ns = clock_ns(CLOCK_MONOTONIC);

	if (walked_ns_ != 0 && now_ns - walked_ns_ < walk_every_ns)
		return std::nullopt;
	const Directory directory(opendir(proc_.c_str()), closedir);
	std::optional<Place> found;

	walked_ns_ = now_ns;
	walks_++;
	for (const dirent *e = directory ? readdir(directory.get()) : nullptr; e; e = readdir(directory.get()))
		if (e->d_name[0] >= '1' && e->d_name[0] <= '9')
			if (auto here = look(e->d_name, inode))
				found = std::move(here);
	return found;
}

std::optional<Process> SocketProcesses::find(std::uint32_t inode, const std::string &cgroup)
{
	const std::scoped_lock lock(mutex_);

	if (inode == 0) // nobody has it any more
		return std::nullopt;
	std::optional<Place> place;

	if (const auto at = places_.find(inode); at != places_.end() && is_at(at->second, inode))
		place = at->second;
	else if (at != places_.end())
		places_.erase(at);
	if (!place && !cgroup.empty() && cgroup != "/")
		place = look_in_group(cgroup, inode);
	if (!place)
		place = look_everywhere(inode);
	if (!place)
		return std::nullopt;
	const std::string &pid = place->pid;
	std::ifstream comm(proc_ + "/" + pid + "/comm");
	Process out;

	if (std::getline(comm, out.program))
		out.program = printable(out.program);
	std::from_chars(pid.data(), pid.data() + pid.size(), out.pid);
	return out;
}

} // namespace swift
