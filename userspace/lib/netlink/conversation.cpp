// SPDX-License-Identifier: MIT
#include "conversation.h"

#include <linux/netlink.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <cerrno>

namespace swift {

namespace {

constexpr int dump_attempts = 5; // of a dump that the kernel says was interrupted

std::string socket_name(int protocol)
{
	return protocol == NETLINK_SOCK_DIAG ? "a sock_diag socket" : "a netlink socket";
}

} // namespace

Result<Fd> netlink_socket(int protocol, unsigned groups, int flags)
{
	Fd fd(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | flags, protocol));
	sockaddr_nl self{};

	self.nl_family = AF_NETLINK;
	self.nl_groups = groups;
	if (!fd)
		return errno_error("cannot open " + socket_name(protocol), errno);
	if (bind(fd.get(), reinterpret_cast<const sockaddr *>(&self), sizeof(self)) < 0)
		return errno_error("cannot bind " + socket_name(protocol), errno);
	return fd;
}

Conversation::Conversation(Fd socket, std::string subject, int patience_s)
	: socket_(std::move(socket)), subject_(std::move(subject)), patience_s_(patience_s),
	  buffer_(netlink_receive_bytes)
{
	const timeval patience = {patience_s, 0};
	const int on = 1;

	setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	// The kernel's own words for an error; without them its errno has to do.
	setsockopt(socket_.get(), SOL_NETLINK, NETLINK_EXT_ACK, &on, sizeof(on));
	setsockopt(socket_.get(), SOL_NETLINK, NETLINK_CAP_ACK, &on, sizeof(on));
}

Result<Conversation> Conversation::open(int protocol, std::string subject)
{
	ASSIGN_OR_RETURN(auto socket, netlink_socket(protocol));

	return Conversation(std::move(socket), std::move(subject));
}

Result<NetlinkStatus> Conversation::ask_once(NetlinkRequest &request, const Parse &parse)
{
	NetlinkStatus sum;
	nlmsghdr &head = request.head();

	head.nlmsg_seq = ++sequence_;
	if (send(socket_.get(), &head, head.nlmsg_len, 0) < 0)
		return errno_error("cannot ask the kernel for its " + subject_, errno);
	while (!sum.done) {
		const ssize_t n = recv(socket_.get(), buffer_.data(), buffer_.size(), MSG_TRUNC);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			return Error{"the kernel has not gone on with its list of " + subject_ + " for " +
					     std::to_string(patience_s_) + " s",
				     {}, {}, EAGAIN};
		if (n < 0)
			return errno_error("cannot read the kernel's list of " + subject_, errno);
		if (n == 0)
			return Error{"the kernel's list of " + subject_ + " ended too early"};
		if (static_cast<std::size_t>(n) > buffer_.size())
			return errno_error("cannot read the kernel's list of " + subject_, EMSGSIZE);

		NetlinkStatus part = parse({buffer_.data(), static_cast<std::size_t>(n)}, head.nlmsg_seq);

		part.interrupted |= sum.interrupted;
		part.malformed += sum.malformed;
		sum = std::move(part);
	}
	return sum;
}

Result<NetlinkStatus> Conversation::ask(NetlinkRequest &request, const Begin &begin, const Parse &parse)
{
	for (int attempt = 1;; attempt++) {
		begin();
		auto status = ask_once(request, parse);

		if (!status || !status->interrupted || attempt == dump_attempts)
			return status;
	}
}

std::uint32_t Conversation::port() const
{
	sockaddr_nl self{};
	socklen_t size = sizeof(self);

	return getsockname(socket_.get(), reinterpret_cast<sockaddr *>(&self), &size) == 0 ? self.nl_pid : 0;
}

Error netlink_refusal(const std::string &what, const NetlinkStatus &status)
{
	return status.message.empty() ? errno_error(what, status.error) :
					Error{what + ": " + status.message, {}, {}, status.error};
}

} // namespace swift
