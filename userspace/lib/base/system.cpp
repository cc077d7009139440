// SPDX-License-Identifier: MIT
// What follows from System's primitives alone, real or not: sysctls, the module.
#include "system.h"

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

Result<std::string> read_sysctl(const System &system, std::string_view name)
{
	auto text = system.read_file(sysctl_path(name));

	if (!text)
		return Error{"cannot read sysctl " + std::string(name) +
				     (text.error().code == 2 ? ": this kernel does not have it" : ""),
			     {}, {}, text.error().code};
	return std::string(trim(*text));
}

Result<void> write_sysctl(System &system, std::string_view name, const std::string &value)
{
	auto done = system.write_file(sysctl_path(name), value);

	if (!done)
		return Error{"cannot set " + std::string(name) + " to '" + value +
				     "': " + done.error().text(),
			     {}, {}, done.error().code};
	return {};
}

bool has_sysctl(const System &system, std::string_view name)
{
	return system.exists(sysctl_path(name));
}

bool module_loaded(const System &system)
{
	return system.exists("/sys/module/tcp_swift");
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

std::string netlink_port_text(const System &system, std::uint32_t port)
{
	// By custom a process's first netlink socket has its pid as port.
	const auto name = system.read_file("/proc/" + std::to_string(port) + "/comm");

	return name ? std::string(trim(*name)) + " (pid " + std::to_string(port) + ")" :
		      "netlink port " + std::to_string(port);
}

std::string module_hint(System &system)
{
	const auto found = system.run({"modinfo", "-n", "tcp_swift"});

	if (found && found->status == 0)
		return "load it with `modprobe tcp_swift`, or `swiftctl enable`";
	return "it is not installed for this kernel: install the tcp_swift package, or give a "
	       "built one to `swiftctl enable --module tcp_swift.ko`";
}

} // namespace swift
