// SPDX-License-Identifier: MIT
// What the two loops of `swiftctl probe` share: the signals that end them, and waiting.
#pragma once

#include <poll.h>
#include <sys/signalfd.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "clock_ns.h"
#include "fd.h"
#include "probe_socket.h"
#include "watch.h"

namespace swift {

// SIGINT and SIGTERM as a descriptor.
class StopFd {
public:
	StopFd() : fd_(signalfd(-1, &signals_.set(), SFD_NONBLOCK | SFD_CLOEXEC)) {}

	[[nodiscard]] int fd() const { return fd_.get(); }
	// The signal stays: print() is to see it, too.
	[[nodiscard]] bool asked() const
	{
		pollfd signal = {fd_.get(), POLLIN, 0};

		return poll(&signal, 1, 0) > 0;
	}

private:
	StopSignals signals_;
	Fd fd_;
};

// Until there is something to read, @until_ns of CLOCK_MONOTONIC, or a signal.
inline void wait_readable(const std::vector<ProbeSocket> &sockets, int stop_fd, std::int64_t until_ns)
{
	const std::int64_t left_ns = std::max<std::int64_t>(until_ns - clock_ns(CLOCK_MONOTONIC), 0);
	const timespec wait = {static_cast<time_t>(left_ns / 1000000000),
			       static_cast<long>(left_ns % 1000000000)};
	std::vector<pollfd> fds = {{stop_fd, POLLIN, 0}};

	for (const ProbeSocket &s : sockets)
		fds.push_back({s.fd(), POLLIN, 0}); // POLLERR, for stamps, comes unasked
	ppoll(fds.data(), fds.size(), &wait, nullptr);
}

} // namespace swift
