// SPDX-License-Identifier: MIT
// Made-up files, as of /proc and /sys/fs/cgroup.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace swift_test {

// A folder that goes with the test.
class Tree {
public:
	Tree()
	{
		std::string name = (std::filesystem::temp_directory_path() / "tree-XXXXXX").string();

		path = mkdtemp(name.data());
	}
	Tree(const Tree &) = delete;
	Tree &operator=(const Tree &) = delete;
	~Tree() { std::filesystem::remove_all(path); }

	void file(const std::string &name, const std::string &content = {}) const
	{
		std::filesystem::create_directories(std::filesystem::path(path + "/" + name).parent_path());
		std::ofstream(path + "/" + name) << content;
	}
	[[nodiscard]] std::uint64_t inode(const std::string &name) const
	{
		struct stat s {};

		return stat((path + "/" + name).c_str(), &s) == 0 ? s.st_ino : 0;
	}

	std::string path;
};

} // namespace swift_test
