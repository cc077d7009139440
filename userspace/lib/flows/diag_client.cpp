// SPDX-License-Identifier: MIT
// The conversation with the kernel: requests, retries, namespaces. What the answers mean
// is diag_parse.cpp's.
#include <fcntl.h>
#include <libmnl/libmnl.h>
#include <linux/inet_diag.h>
#include <linux/sock_diag.h>
#include <sched.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "diag.h"
#include "fd.h"
#include "netlink_bytes.h"

namespace swift {

namespace {

constexpr int dump_attempts = 5; // of a dump that the kernel says was interrupted
constexpr std::size_t storages_max = 16; // in one request

constexpr time_t answer_patience_s = 10; // for each part of the answer
#ifndef SO_NETNS_COOKIE // 5.14
#define SO_NETNS_COOKIE 71
#endif

constexpr std::uint8_t extension(int attribute)
{
	return static_cast<std::uint8_t>(1U << (attribute - 1));
}

} // namespace

void DiagClient::Close::operator()(mnl_socket *s) const
{
	mnl_socket_close(s);
}

DiagClient::DiagClient(Socket socket) : socket_(std::move(socket)), buffer_(netlink_receive_bytes)
{
}

Result<DiagClient> DiagClient::open()
{
	Socket socket(mnl_socket_open2(NETLINK_SOCK_DIAG, SOCK_CLOEXEC));

	if (!socket)
		return errno_error("cannot open a sock_diag socket", errno);
	if (mnl_socket_bind(socket.get(), 0, MNL_SOCKET_AUTOPID) < 0)
		return errno_error("cannot bind a sock_diag socket", errno);

	const timeval patience = {answer_patience_s, 0};

	setsockopt(mnl_socket_get_fd(socket.get()), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	return DiagClient(std::move(socket));
}

Result<DiagStatus> DiagClient::dump_once(std::uint8_t family, std::uint32_t states,
					 std::span<const Fd> storages, const FlowVisitor &visit)
{
	alignas(nlmsghdr) std::array<char, MNL_NLMSG_HDRLEN + MNL_ALIGN(sizeof(inet_diag_req_v2)) +
						   MNL_ATTR_HDRLEN + storages_max * 2 * MNL_ATTR_HDRLEN>
		request{};
	nlmsghdr *head = mnl_nlmsg_put_header(request.data());

	constexpr std::uint8_t wanted = extension(INET_DIAG_INFO) | extension(INET_DIAG_CONG) |
					extension(INET_DIAG_VEGASINFO);

	head->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	head->nlmsg_seq = ++sequence_;
	if (family == AF_UNSPEC) {
		auto *body = static_cast<inet_diag_req *>(mnl_nlmsg_put_extra_header(head, sizeof(inet_diag_req)));

		head->nlmsg_type = TCPDIAG_GETSOCK;
		body->idiag_ext = wanted;
		body->idiag_states = states;
	} else {
		auto *body = static_cast<inet_diag_req_v2 *>(
			mnl_nlmsg_put_extra_header(head, sizeof(inet_diag_req_v2)));

		head->nlmsg_type = SOCK_DIAG_BY_FAMILY;
		body->sdiag_family = family;
		body->sdiag_protocol = IPPROTO_TCP;
		body->idiag_ext = wanted;
		body->idiag_states = states;
	}
	if (!storages.empty()) {
		nlattr *list = mnl_attr_nest_start(head, INET_DIAG_REQ_SK_BPF_STORAGES);

		for (const Fd &map : storages.first(std::min(storages.size(), storages_max)))
			mnl_attr_put_u32(head, SK_DIAG_BPF_STORAGE_REQ_MAP_FD,
					 static_cast<std::uint32_t>(map.get()));
		mnl_attr_nest_end(head, list);
	}
	if (mnl_socket_sendto(socket_.get(), head, head->nlmsg_len) < 0)
		return errno_error("cannot ask the kernel for its TCP sockets", errno);

	DiagStatus sum;

	while (!sum.done) {
		const ssize_t n = mnl_socket_recvfrom(socket_.get(), buffer_.data(), buffer_.size());

		if (n < 0) {
			if (errno == EINTR)
				continue;
			if (errno == EAGAIN)
				return Error{"the kernel has not gone on with its list of TCP sockets for " +
						     std::to_string(answer_patience_s) + " s",
					     {}, {}, EAGAIN};
			return errno_error("cannot read the kernel's list of TCP sockets", errno);
		}
		if (n == 0)
			return Error{"the kernel's list of TCP sockets ended too early"};

		const DiagStatus part = visit_diag({buffer_.data(), static_cast<std::size_t>(n)},
						   visit, sequence_);

		sum.done = part.done;
		sum.interrupted |= part.interrupted;
		sum.error = part.error;
		sum.bad_records += part.bad_records;
		sum.malformed += part.malformed;
	}
	return sum;
}

Result<DiagStatus> DiagClient::dump_families(std::uint32_t states, std::span<const Fd> storages,
					     const Begin &begin, const FlowVisitor &visit)
{
	// A request of the old kind is for both families: the kernel goes through all of its sockets
	// once, not twice.
	static constexpr std::array<std::uint8_t, 3> families = {AF_UNSPEC, AF_INET, AF_INET6};
	DiagStatus sum;

	for (const std::uint8_t family : families) {
		DiagStatus status;

		if (family == AF_UNSPEC && !both_at_once_)
			continue;

		for (int attempt = 1; attempt <= dump_attempts; attempt++) {
			begin(family);
			auto tried = dump_once(family, states, storages, visit);

			if (!tried)
				return tried.error();
			status = *tried;
			if (!status.interrupted)
				break;
		}
		if (family == AF_UNSPEC && status.error) {
			both_at_once_ = false;
			continue;
		}
		// A kernel without IPv6 has no IPv6 sockets either.
		if (status.error == ENOENT && family == AF_INET6)
			continue;
		if (status.error == ENOENT)
			return Error{"this kernel cannot list TCP sockets: modprobe tcp_diag inet_diag",
				     {}, {}, ENOENT};
		if (status.error)
			return errno_error("the kernel refused to list its TCP sockets",
					   status.error);
		sum.interrupted |= status.interrupted;
		sum.bad_records += status.bad_records;
		sum.malformed += status.malformed;
		if (family == AF_UNSPEC)
			break;
	}
	sum.done = true;
	return sum;
}

Result<DiagDump> DiagClient::dump(std::uint32_t states, std::span<const Fd> storages)
{
	DiagDump out;
	std::uint8_t family = 0;
	std::size_t before = 0;
	const auto status = dump_families(
		states, storages,
		[&](std::uint8_t begun) {
			if (begun == family)
				out.flows.resize(before);
			family = begun;
			before = out.flows.size();
		},
		[&](const Flow &flow) { out.flows.push_back(flow); });

	if (!status)
		return status.error();
	out.interrupted = status->interrupted;
	out.bad_records = status->bad_records;
	out.malformed = status->malformed;
	return out;
}

Result<DiagStatus> DiagClient::visit(std::uint32_t states, const FlowVisitor &visit,
				     std::span<const Fd> storages)
{
	return dump_families(states, storages, [](std::uint8_t) {}, visit);
}

Result<void> enter_netns(const std::string &name)
{
	if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos)
		return Error{"not a name of a network namespace", name, "a name that `ip netns` lists"};

	const std::string path = "/run/netns/" + name;
	const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));

	if (!fd)
		return errno_error("cannot open network namespace " + path, errno);
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

} // namespace swift
