// SPDX-License-Identifier: MIT
// Sockets on the real host: system calls, and nothing that decides.
#include "sockets.h"

#include <linux/tcp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>

#include "address_list.h"
#include "diag.h"
#include "fd.h"

namespace swift {

namespace {

constexpr int handshakes = 7;
constexpr int handshake_timeout_ms = 1000;

// A refused connection has made its round trip as well.
Result<std::uint64_t> handshake_ns(const addrinfo &to)
{
	using Clock = std::chrono::steady_clock;
	const Fd fd(socket(to.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));

	if (!fd)
		return errno_error("cannot open a socket", errno);

	const auto start = Clock::now();
	int code = connect(fd.get(), to.ai_addr, to.ai_addrlen) < 0 ? errno : 0;

	if (code == EINPROGRESS) {
		pollfd wait = {fd.get(), POLLOUT, 0};

		if (poll(&wait, 1, handshake_timeout_ms) <= 0)
			return Error{"the peer does not answer within a second"};

		socklen_t size = sizeof(code);

		getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &code, &size);
	}

	const auto elapsed = Clock::now() - start;

	if (code != 0 && code != ECONNREFUSED)
		return errno_error("cannot connect to the peer", code);

	// The kernel's own measurement leaves out our wake-up.
	tcp_info info{};
	socklen_t size = sizeof(info);

	if (code == 0 &&
	    getsockopt(fd.get(), IPPROTO_TCP, TCP_INFO, &info, &size) == 0 &&
	    info.tcpi_min_rtt != 0 && info.tcpi_min_rtt != 0xffffffffU)
		return std::uint64_t{info.tcpi_min_rtt} * 1000;
	return static_cast<std::uint64_t>(
		std::chrono::duration_cast<std::chrono::nanoseconds>(elapsed).count());
}

class RealSockets final : public Sockets {
public:
	explicit RealSockets(bool live) : live_(live) {}

	Result<std::vector<Flow>> tcp_sockets(std::uint32_t states) override
	{
		if (!live_)
			return not_live();
		auto client = DiagClient::open();

		if (!client)
			return client.error();
		auto dump = client->dump(states);

		if (!dump)
			return dump.error();
		return std::move(dump->flows);
	}

	Result<std::uint64_t> handshake_rtt_ns(const std::string &host, std::uint16_t port) override
	{
		if (!live_)
			return not_live();

		addrinfo hints{};
		addrinfo *raw = nullptr;

		hints.ai_socktype = SOCK_STREAM;
		const int code =
			getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &raw);
		const AddressList list(raw);

		if (code != 0)
			return Error{std::string("cannot look up the peer: ") + gai_strerror(code), host};

		std::optional<std::uint64_t> best;

		for (int i = 0; i < handshakes; i++) {
			auto one = handshake_ns(*list);

			if (!one)
				return one;
			best = best ? std::min(*best, *one) : *one;
		}
		return *best;
	}

private:
	static Error not_live() { return Error{"only the live host can tell"}; }

	bool live_;
};

} // namespace

std::unique_ptr<Sockets> real_sockets(const std::string &root)
{
	return std::make_unique<RealSockets>(root.empty());
}

} // namespace swift
