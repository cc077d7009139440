// SPDX-License-Identifier: MIT
// Which process has a socket open. Asked one by one, and answered without a walk through all
// of /proc where it can be: what was seen is remembered and checked, and the socket's control group names
// the processes to ask first. Other users' processes tell who has CAP_SYS_PTRACE alone.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "result.h"

namespace swift {

struct Process {
	std::uint32_t pid = 0;
	std::string program; // its name, as the kernel has it
};

class SocketProcesses {
public:
	// @cgroups: where cgroup2 is mounted.
	explicit SocketProcesses(std::string cgroups, std::string proc = "/proc")
		: cgroups_(std::move(cgroups)), proc_(std::move(proc))
	{
	}

	// @cgroup: its path; empty: not known. From any thread.
	std::optional<Process> find(std::uint32_t inode, const std::string &cgroup);
	// Walks through all processes, so far.
	[[nodiscard]] std::uint64_t walks() const { return walks_; }

private:
	struct Place {
		std::string pid;
		std::string fd;
	};

	[[nodiscard]] bool is_at(const Place &place, std::uint32_t inode) const;
	std::optional<Place> look(const std::string &pid, std::uint32_t inode);
	std::optional<Place> look_in_group(const std::string &cgroup, std::uint32_t inode);
	std::optional<Place> look_everywhere(std::uint32_t inode);

	const std::string cgroups_;
	const std::string proc_;
	std::mutex mutex_;
	std::unordered_map<std::uint32_t, Place> places_; // by inode
	std::int64_t walked_ns_ = 0;
	std::uint64_t walks_ = 0;
};

} // namespace swift
