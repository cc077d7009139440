// SPDX-License-Identifier: MIT
// What follows from Files' primitives alone, real or not: sysctls, the module.
#include "files.h"

#include <algorithm>
#include <cstdio>

#include "text.h"

namespace swift {

namespace {

std::string sysctl_path(std::string_view name)
{
	std::string path = "/proc/sys/" + std::string(name);

	std::replace(path.begin(), path.end(), '.', '/');
	return path;
}

} // namespace

Result<std::string> read_sysctl(const Files &files, std::string_view name)
{
	auto text = files.read_file(sysctl_path(name));

	if (!text)
		return Error{"cannot read sysctl " + std::string(name) +
				     (text.error().code == 2 ? ": this kernel does not have it" : ""),
			     {}, {}, text.error().code};
	return std::string(trim(*text));
}

Result<void> write_sysctl(Files &files, std::string_view name, const std::string &value)
{
	auto done = files.write_file(sysctl_path(name), value);

	if (!done)
		return Error{"cannot set " + std::string(name) + " to '" + value +
				     "': " + done.error().text(),
			     {}, {}, done.error().code};
	return {};
}

bool has_sysctl(const Files &files, std::string_view name)
{
	return files.exists(sysctl_path(name));
}

bool module_loaded(const Files &files)
{
	return files.exists("/sys/module/tcp_swift");
}

std::string boot_id(const Files &files)
{
	const auto text = files.read_file("/proc/sys/kernel/random/boot_id");

	return text ? std::string(trim(*text)) : std::string();
}

std::optional<std::uint32_t> flock_holder(std::string_view locks, unsigned major, unsigned minor,
					  std::uint64_t inode)
{
	char id[64];

	std::snprintf(id, sizeof(id), "%02x:%02x:%llu", major, minor, static_cast<unsigned long long>(inode));
	for (const std::string &line : split(locks, '\n')) {
		// "3: FLOCK  ADVISORY  WRITE 1234 00:1a:5678 0 EOF"; those who wait have "->" first.
		const auto parts = words(line);

		if (parts.size() < 6 || parts[1] != "FLOCK" || parts[5] != id)
			continue;
		if (const auto pid = parse_int("", parts[4], 1, 0xffffffffLL))
			return static_cast<std::uint32_t>(*pid);
	}
	return std::nullopt;
}

} // namespace swift
