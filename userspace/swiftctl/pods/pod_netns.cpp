// SPDX-License-Identifier: MIT
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <optional>
#include <system_error>

#include "owner.h"
#include "pods.h"
#include "printable.h"
#include "text.h"

namespace swift {

namespace {

namespace fs = std::filesystem;

constexpr int deepest = 16; // of control groups

using Found = std::optional<Netns>;

// Whether, by this errno, there is nothing to look at: processes and control groups end at any time, and a
// container can make groups so deep that no path leads there. Of any other it is not known what is there,
// and who is not seen for that reason is not gone.
bool is_nothing_there(int code)
{
	return code == ENOENT || code == ENOTDIR || code == ENODEV || code == ESRCH || code == ENAMETOOLONG;
}

// The lines of @path; none, if it is not there, or is cgroup.procs of a group that has threads alone.
Result<std::vector<std::string>> lines_in_file(const std::string &path)
{
	const auto text = real_system()->read_file(path);
	const int wrong = text ? 0 : text.error().code;

	if (wrong != 0 && wrong != EOPNOTSUPP && !is_nothing_there(wrong))
		return errno_error("cannot look for the pods' processes in " + printable(path), wrong);
	if (!text || trim(*text).empty())
		return std::vector<std::string>();
	return split(trim(*text), '\n');
}

// The control groups right below @group; none, if it has gone.
Result<std::vector<fs::path>> groups_below(const fs::path &group)
{
	std::vector<fs::path> below;
	std::error_code error;

	for (auto at = fs::directory_iterator(group, error); !error && at != fs::directory_iterator(); at.increment(error)) {
		std::error_code gone;

		if (at->is_directory(gone) && !at->is_symlink(gone))
			below.push_back(at->path());
	}
	if (error && !is_nothing_there(error.value()))
		return errno_error("cannot look for the pods' processes in " + printable(group.string()), error.value());
	return below;
}

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
		if (!is_nothing_there(errno))
			return errno_error("cannot ask process " + pid + " for its network namespace", errno);
		return Found();
	}
	n.inode = static_cast<std::uint32_t>(s.st_ino);
	n.name = std::to_string(n.inode);
	// Not of another process, that has got its number.
	ASSIGN_OR_RETURN(const auto groups, lines_in_file(proc + "/" + pid + "/cgroup"));
	for (const std::string &line : groups)
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
			ASSIGN_OR_RETURN(const auto processes, lines_in_file(at / "cgroup.procs"));
			for (const std::string &pid : processes) {
				ASSIGN_OR_RETURN(auto n, netns_of(proc, pid, uid));
				if (n)
					return Found(std::move(n));
			}
			ASSIGN_OR_RETURN(const auto groups, groups_below(at));
			below.insert(below.end(), groups.begin(), groups.end());
		}
		level = std::move(below);
	}
	return Found();
}

} // namespace

Result<std::map<std::string, Netns>> pod_netns(const std::set<std::string> &uids, const std::string &cgroups,
					       const std::string &proc)
{
	struct Group {
		fs::path path;
		int depth;
	};
	std::map<std::string, Netns> found;
	std::vector<Group> left = {{cgroups, 0}};
	std::error_code error;

	if (uids.empty())
		return found;
	if (cgroups.empty() || !fs::is_directory(cgroups, error))
		return Error{"cannot find the pods' processes: no cgroup2 is mounted here"};
	while (!left.empty()) {
		const Group group = std::move(left.back());

		left.pop_back();
		ASSIGN_OR_RETURN(const auto groups, groups_below(group.path));
		for (const fs::path &at : groups) {
			const std::string uid = owner_of(at.string().substr(cgroups.size())).pod_uid;

			if (uid.empty()) {
				if (group.depth < deepest)
					left.push_back({at, group.depth + 1});
				continue;
			}
			if (!uids.contains(uid))
				continue;
			ASSIGN_OR_RETURN(auto n, first_in(at, proc, uid));
			if (n)
				found.emplace(uid, std::move(*n));
		}
	}
	return found;
}

} // namespace swift
