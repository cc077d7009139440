// SPDX-License-Identifier: MIT
#include "ended_flows.h"

#include <linux/net_namespace.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

#include "diag.h"
#include "netlink_request.h"

namespace swift {

namespace {

constexpr int queue_bytes = 2 << 20; // of the kernel's, which doubles it: 11,500 flows of 364 bytes on 6.18
constexpr int rest_ms = 10; // so that many flows are one wake-up
constexpr std::size_t message_bytes = 8192; // one socket's

constexpr unsigned group_bit(int group)
{
	return 1U << (group - 1);
}

// Whether a message came with the number of another namespace.
bool is_of_other_netns(msghdr &head)
{
	for (cmsghdr *c = CMSG_FIRSTHDR(&head); c; c = CMSG_NXTHDR(&head, c))
		if (c->cmsg_level == SOL_NETLINK && c->cmsg_type == NETLINK_LISTEN_ALL_NSID)
			return true;
	return false;
}

} // namespace

void parse_ended(Bytes bytes, bool other_netns, std::vector<EndedFlow> &ended)
{
	visit_diag(bytes, [&](const Flow &f) {
		// Else it listened, or was never connected. One that its own host has reset has lost its port.
		if (f.remote.address.bytes != decltype(Address::bytes){} && f.tcp)
			ended.push_back({f.cookie, f.local, f.remote, other_netns, f.tcp->bytes_acked, f.tcp->times.busy_us,
					 f.tcp->segments_sent, f.tcp->retrans_total});
	});
}

Result<std::unique_ptr<EndedFlows>> EndedFlows::start()
{
	auto socket = netlink_socket(NETLINK_SOCK_DIAG,
				     group_bit(SKNLGRP_INET_TCP_DESTROY) | group_bit(SKNLGRP_INET6_TCP_DESTROY),
				     SOCK_NONBLOCK);
	auto numbers = Conversation::open(NETLINK_ROUTE, "numbers of network namespaces");
	Fd stop(eventfd(0, EFD_CLOEXEC));
	const int on = 1;

	if (!socket || !numbers)
		return socket ? numbers.error() : socket.error();
	if (!stop)
		return errno_error("cannot make an eventfd", errno);
	// Beyond net.core.rmem_max if we may, else up to it.
	if (setsockopt(socket->get(), SOL_SOCKET, SO_RCVBUFFORCE, &queue_bytes, sizeof(queue_bytes)) < 0)
		setsockopt(socket->get(), SOL_SOCKET, SO_RCVBUF, &queue_bytes, sizeof(queue_bytes));
	const bool others = setsockopt(socket->get(), SOL_NETLINK, NETLINK_LISTEN_ALL_NSID, &on, sizeof(on)) == 0;

	try {
		return std::unique_ptr<EndedFlows>(
			new EndedFlows(std::move(*socket), std::move(stop), std::move(*numbers), others));
	} catch (const std::system_error &e) {
		return Error{std::string("no thread for flows that end: ") + e.what()};
	}
}

EndedFlows::EndedFlows(Fd socket, Fd stop, Conversation numbers, bool may_hear_others)
	: socket_(std::move(socket)), stop_(std::move(stop)), numbers_(std::move(numbers)),
	  may_hear_others_(may_hear_others), buffer_(message_bytes), thread_([this] { listen(); })
{
}

EndedFlows::~EndedFlows()
{
	const std::uint64_t one = 1;

	while (write(stop_.get(), &one, sizeof(one)) < 0 && errno == EINTR)
		continue;
	thread_.join();
}

Result<void> EndedFlows::hear(int netns)
{
	NetlinkRequest request(RTM_NEWNSID, NLM_F_ACK);
	rtgenmsg body{};

	body.rtgen_family = AF_UNSPEC;
	request.put_body(body);
	request.put(NETNSA_NSID, std::int32_t{-1}); // any
	request.put(NETNSA_FD, static_cast<std::uint32_t>(netns));
	ASSIGN_OR_RETURN(const auto status, numbers_.ask(
		request, [] {}, [](Bytes b, std::uint32_t sequence) {
			return for_messages(b, sequence, [](const nlmsghdr &, Bytes) { return true; });
		}));
	if (status.error && status.error != EEXIST)
		return netlink_refusal("cannot give a network namespace a number", status);
	return {};
}

bool EndedFlows::receive()
{
	iovec part = {buffer_.data(), buffer_.size()};
	std::array<char, 256> control{};
	msghdr head{};
	std::vector<EndedFlow> some;

	head.msg_iov = &part;
	head.msg_iovlen = 1;
	head.msg_control = control.data();
	head.msg_controllen = control.size();
	const ssize_t n = recvmsg(socket_.get(), &head, MSG_DONTWAIT);

	if (n < 0 && errno == ENOBUFS)
		overruns_++;
	if (n < 0)
		return errno == ENOBUFS || errno == EINTR;
	parse_ended({buffer_.data(), static_cast<std::size_t>(n)}, is_of_other_netns(head), some);

	const std::scoped_lock lock(mutex_);

	for (const EndedFlow &f : some) {
		if (waiting_.size() < most_waiting)
			waiting_.push_back(f);
		else
			dropped_++;
	}
	return true;
}

void EndedFlows::listen()
{
	std::array<pollfd, 2> wait = {{{stop_.get(), POLLIN, 0}, {socket_.get(), POLLIN, 0}}};

	for (;;) {
		if (poll(wait.data(), wait.size(), -1) < 0 && errno != EINTR)
			return;
		if (wait[0].revents)
			return;
		while (receive())
			continue;
		if (poll(wait.data(), 1, rest_ms) > 0)
			return;
	}
}

std::vector<EndedFlow> EndedFlows::take()
{
	const std::scoped_lock lock(mutex_);

	return std::exchange(waiting_, {});
}

EndedLosses EndedFlows::losses() const
{
	const std::scoped_lock lock(mutex_);

	return {overruns_, dropped_};
}

} // namespace swift
