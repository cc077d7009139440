// SPDX-License-Identifier: MIT
#include "cgroups.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <fstream>
#include <memory>
#include <utility>
#include <vector>

#include "printable.h"
#include "text.h"

namespace swift {

namespace {

constexpr std::size_t deepest = 64; // the kernel's own limit is far more, and nobody's

} // namespace

std::string Cgroups::find_mount(const std::string &mounts)
{
	std::ifstream file(mounts);

	for (std::string line; std::getline(file, line);) {
		const auto parts = words(line);

		if (parts.size() > 2 && parts[2] == "cgroup2")
			return parts[1];
	}
	return {};
}

const std::string &Cgroups::path(std::uint64_t id)
{
	static const std::string none;

	if (id == 0 || mount_.empty())
		return none;
	auto at = paths_.find(id);

	if (at == paths_.end()) {
		if (paths_.size() >= 2 * most) // those that were not found, most of all
			paths_.clear();
		walk();
		// A socket's group is there before the socket: what is not found now never will be.
		at = paths_.try_emplace(id).first;
	}
	return at->second;
}

void Cgroups::walk()
{
	struct stat root {};
	std::vector<std::pair<std::string, std::size_t>> todo = {{"", 0}}; // path, depth
	std::size_t n = 0;

	walks_++;
	if (stat(mount_.c_str(), &root) < 0)
		return;
	paths_[root.st_ino] = "/";
	while (!todo.empty() && n < most) {
		const auto [path, depth] = std::move(todo.back());

		todo.pop_back();
		const std::unique_ptr<DIR, int (*)(DIR *)> directory(opendir((mount_ + path).c_str()), closedir);

		for (const dirent *e = directory ? readdir(directory.get()) : nullptr; e; e = readdir(directory.get())) {
			if (e->d_type != DT_DIR || e->d_name[0] == '.')
				continue;
			std::string child = path + "/" + e->d_name;

			// The number of the directory is the group's.
			paths_[e->d_ino] = printable(child);
			n++;
			if (depth < deepest)
				todo.emplace_back(std::move(child), depth + 1);
		}
	}
}

} // namespace swift
