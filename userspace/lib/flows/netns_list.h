// SPDX-License-Identifier: MIT
// The network namespaces of this host: who they are, what they are called, where they can be opened.
// Nothing is held open, as that would keep a namespace alive; entering them is netns_visit.h's.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "fd.h"
#include "result.h"

namespace swift {

struct Netns {
	std::uint32_t inode = 0;
	std::string name; // that `ip netns` or the containers' runtime gave it; else its inode number
	std::vector<std::string> paths; // where it can be opened; some may have gone

	// The namespace itself, whatever its paths have become; ENOENT: it has gone.
	[[nodiscard]] Result<Fd> open() const;
};

class NetnsList {
public:
	// Bind mounts of namespaces, of the runtimes that make them.
	static std::vector<std::string> usual_directories();

	explicit NetnsList(std::string proc = "/proc", std::vector<std::string> directories = usual_directories())
		: proc_(std::move(proc)), directories_(std::move(directories))
	{
	}

	// All that there are now, but for the one of the calling thread; in the order of their inodes.
	// Those that neither a process that we may ask is in nor a bind mount names are not found.
	const std::vector<Netns> &scan();
	// It could not be opened: the next scan asks the processes again that were in it.
	void ask_again(std::uint32_t inode);
	// The name of the calling thread's alone; scan() finds it as well.
	void scan_own();
	[[nodiscard]] const std::string &own_name() const { return own_name_; }
	// Processes that did not tell their namespace, at the last scan(): it takes CAP_SYS_PTRACE.
	[[nodiscard]] std::size_t silent_processes() const { return silent_; }

private:
	struct Process {
		ino_t entry = 0; // of its directory: another process may have the pid by now
		std::uint32_t inode = 0; // 0: not told, or it has none any more
		bool silent = false;
		std::uint32_t scans = 0; // that it was there
	};

	void scan_directories(std::map<std::uint32_t, Netns> &found, dev_t device) const;
	void scan_processes(std::map<std::uint32_t, Netns> &found);

	std::string proc_;
	std::vector<std::string> directories_;
	std::unordered_map<std::string, Process> processes_; // by pid
	std::uint32_t scans_ = 0;
	std::vector<Netns> all_;
	std::string own_name_;
	std::size_t silent_ = 0;
};

} // namespace swift
