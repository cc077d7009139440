// SPDX-License-Identifier: MIT
#include "netns.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include <cerrno>

#include "fd.h"

namespace swift {

namespace {

#ifndef SO_NETNS_COOKIE // 5.14
#define SO_NETNS_COOKIE 71
#endif

Result<Fd> open_netns(const std::string &path)
{
	struct statfs fs {};

	if (statfs(path.c_str(), &fs) < 0)
		return errno == ENOENT || errno == ENOTDIR ?
			       Error{"no such network namespace", path, netns_allowed, errno} :
			       errno_error("cannot open network namespace " + path, errno);
	// Before it is opened: of a device, that may do something.
	if (fs.f_type != NSFS_MAGIC)
		return Error{"not a network namespace", path, netns_allowed};

	Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));

	if (!fd)
		return errno_error("cannot open network namespace " + path, errno);
	if (ioctl(fd.get(), NS_GET_NSTYPE) != CLONE_NEWNET)
		return Error{"not a network namespace", path, netns_allowed};
	return fd;
}

} // namespace

Result<void> enter_netns(const std::string &name)
{
	const bool is_path = name.starts_with('/');

	if (!is_path && (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos))
		return Error{"not a name of a network namespace", name, netns_allowed};
	ASSIGN_OR_RETURN(const auto fd, open_netns(is_path ? name : "/run/netns/" + name));
	if (setns(fd.get(), CLONE_NEWNET) < 0)
		return errno_error("cannot enter network namespace " + name, errno);
	return {};
}

Result<std::uint64_t> netns_cookie()
{
	const Fd fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
	std::uint64_t cookie = 0;
	socklen_t size = sizeof(cookie);

	if (!fd || getsockopt(fd.get(), SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &size) < 0)
		return errno_error("cannot ask for the cookie of the network namespace", errno);
	return cookie;
}

std::string this_netns()
{
	const auto cookie = netns_cookie();

	return cookie ? std::to_string(*cookie) : "0";
}

std::uint32_t this_netns_inode()
{
	struct stat s {};

	return stat("/proc/thread-self/ns/net", &s) == 0 ? static_cast<std::uint32_t>(s.st_ino) : 0;
}

} // namespace swift
