// SPDX-License-Identifier: MIT
// Paths of control groups by the numbers that the kernel gives with sockets. Learnt by a walk through
// the cgroup2 file system, which takes no rights; walked again only for a number that is new.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

namespace swift {

class Cgroups {
public:
	static constexpr std::size_t most = 1 << 16;

	// Where cgroup2 is mounted: /sys/fs/cgroup, or a folder of it; empty: nowhere.
	static std::string find_mount(const std::string &mounts = "/proc/self/mounts");

	explicit Cgroups(std::string mount = find_mount()) : mount_(std::move(mount)) {}

	// "/system.slice/ssh.service"; empty: it has gone, or is not below what is mounted here.
	[[nodiscard]] const std::string &path(std::uint64_t id);
	[[nodiscard]] const std::string &mount() const { return mount_; }
	[[nodiscard]] std::uint64_t walks() const { return walks_; }

private:
	void walk();

	std::string mount_;
	std::unordered_map<std::uint64_t, std::string> paths_; // empty: looked for, and not found
	std::uint64_t walks_ = 0;
};

} // namespace swift
