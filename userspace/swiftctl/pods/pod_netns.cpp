// SPDX-License-Identifier: MIT
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>

#include "owner.h"
#include "pods.h"

namespace swift {

namespace {

namespace fs = std::filesystem;

constexpr int deepest = 16; // of control groups

using Found = std::optional<Netns>;

// The namespace of a process that is in the pod's control group.
Result<Found> netns_of(const std::string &proc, const std::string &pid, const std::string &uid)
{
	Netns n{0, {}, {proc + "/" + pid + "/ns/net"}};
	struct stat s {};

	if (pid == "0") // it has no number in our PID namespace
		return Error{"cannot see the processes of pods: hostPID is missing"};
	if (stat(n.paths.front().c_str(), &s) < 0) {
		if (errno == EACCES || errno == EPERM)
			return errno_error("cannot ask process " + pid + " for its network namespace (CAP_SYS_PTRACE)", errno);
		return Found();
	}
	n.inode = static_cast<std::uint32_t>(s.st_ino);
	n.name = std::to_string(n.inode);
	// Not of another process, that has got its number.
	std::ifstream groups(proc + "/" + pid + "/cgroup");

	for (std::string line; std::getline(groups, line);)
		if (line.starts_with("0::") && owner_of(std::string_view(line).substr(3)).pod_uid == uid)
			return Found(std::move(n));
	return Found();
}

// The first process below @group that tells; those of the groups above come first, as what a container
// makes for itself is below it.
Result<Found> first_in(const fs::path &group, const std::string &proc, const std::string &uid)
{
	std::vector<fs::path> level = {group};

	for (int depth = 0; depth < deepest && !level.empty(); depth++) {
		std::vector<fs::path> below;

		for (const fs::path &at : level) {
			std::ifstream processes(at / "cgroup.procs");

			for (std::string pid; std::getline(processes, pid);) {
				ASSIGN_OR_RETURN(auto n, netns_of(proc, pid, uid));
				if (n)
					return Found(std::move(n));
			}
			std::error_code error;

			for (const auto &e : fs::directory_iterator(at, error))
				if (e.is_directory(error) && !e.is_symlink(error))
					below.push_back(e.path());
		}
		level = std::move(below);
	}
	return Found();
}

} // namespace

Result<std::map<std::string, Netns>> pod_netns(const std::set<std::string> &uids, const std::string &cgroups,
					       const std::string &proc)
{
	std::map<std::string, Netns> found;
	std::error_code error;

	if (uids.empty())
		return found;
	if (cgroups.empty() || !fs::is_directory(cgroups, error))
		return Error{"cannot find the pods' processes: no cgroup2 is mounted here"};
	for (auto at = fs::recursive_directory_iterator(cgroups, error); !error && at != fs::recursive_directory_iterator();
	     at.increment(error)) {
		std::error_code gone;

		if (!at->is_directory(gone) || at->is_symlink(gone))
			continue;
		const std::string path = at->path().string().substr(cgroups.size());
		const std::string uid = owner_of(path).pod_uid;

		if (at.depth() >= deepest || !uid.empty())
			at.disable_recursion_pending();
		if (!uids.contains(uid))
			continue;
		ASSIGN_OR_RETURN(auto n, first_in(at->path(), proc, uid));
		if (n)
			found.emplace(uid, std::move(*n));
	}
	return found;
}

} // namespace swift
