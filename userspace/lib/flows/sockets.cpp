// SPDX-License-Identifier: MIT
// Sockets on the real host: system calls, and nothing that decides.
#include "sockets.h"

#include <linux/tcp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <optional>

#include "address_list.h"
#include "diag.h"
#include "fd.h"
#include "uapi/tcp_swift.h"

namespace swift {

namespace {

constexpr int handshakes = 7;
constexpr std::size_t cc_name_bytes = 17; // the kernel's TCP_CA_NAME_MAX, and an end
constexpr int handshake_timeout_ms = 1000;

// As sock_diag would tell it; none if another congestion control runs.
std::optional<Credit> credit_of(int fd)
{
	tcp_swift_info raw{};
	socklen_t size = sizeof(raw);
	std::array<char, cc_name_bytes> cc{};
	socklen_t cc_size = cc.size() - 1;

	if (getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, cc.data(), &cc_size) < 0 || cc.data() != cc_name ||
	    getsockopt(fd, IPPROTO_TCP, TCP_CC_INFO, &raw, &size) < 0 || size != sizeof(raw))
		return std::nullopt;
	return static_cast<Credit>(raw.target_ns & TCP_SWIFT_CREDIT_MASK);
}

// A refused connection has made its round trip as well.
Result<Handshake> one_handshake(const addrinfo &to)
{
	using Clock = std::chrono::steady_clock;
	const Fd fd(socket(to.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
	Handshake h;

	if (!fd)
		return errno_error("cannot open a socket", errno);
	// Where it is not there, the default will do.
	setsockopt(fd.get(), IPPROTO_TCP, TCP_CONGESTION, cc_name.data(), static_cast<socklen_t>(cc_name.size()));

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

	if (code == 0)
		h.credit = credit_of(fd.get());
	if (code == 0 &&
	    getsockopt(fd.get(), IPPROTO_TCP, TCP_INFO, &info, &size) == 0 &&
	    info.tcpi_min_rtt != 0 && info.tcpi_min_rtt != 0xffffffffU)
		h.rtt_ns = std::uint64_t{info.tcpi_min_rtt} * 1000;
	else
		h.rtt_ns = static_cast<std::uint64_t>(
			std::chrono::duration_cast<std::chrono::nanoseconds>(elapsed).count());
	return h;
}

class RealSockets final : public Sockets {
public:
	explicit RealSockets(bool live) : live_(live) {}

	Result<std::vector<Flow>> tcp_sockets(std::uint32_t states) override
	{
		if (!live_)
			return not_live();
		ASSIGN_OR_RETURN(auto client, DiagClient::open());
		ASSIGN_OR_RETURN(auto dump, client.dump(states));

		return std::move(dump.flows);
	}

	Result<Handshake> handshake(const std::string &host, std::uint16_t port) override
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

		std::optional<Handshake> best;

		for (int i = 0; i < handshakes; i++) {
			ASSIGN_OR_RETURN(auto one, one_handshake(*list));

			if (best)
				one.rtt_ns = std::min(best->rtt_ns, one.rtt_ns);
			best = one;
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
