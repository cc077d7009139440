// SPDX-License-Identifier: MIT
// What is asked of the kernel: TCP sockets of one family or of both. What the answers mean is
// diag_parse.cpp's.
#include <linux/inet_diag.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "diag.h"
#include "diag_request.h"

namespace swift {

namespace {

constexpr std::size_t storages_max = 16; // in one request

// A request of the old kind is for both families: the kernel goes through all of its sockets
// once, not twice.
NetlinkRequest request_for(std::uint8_t family, std::uint32_t states)
{
	if (family == AF_UNSPEC) {
		NetlinkRequest request(TCPDIAG_GETSOCK, NLM_F_DUMP);
		inet_diag_req body{};

		body.idiag_ext = diag_extensions;
		body.idiag_states = states;
		request.put_body(body);
		return request;
	}

	NetlinkRequest request(SOCK_DIAG_BY_FAMILY, NLM_F_DUMP);
	inet_diag_req_v2 body{};

	body.sdiag_family = family;
	body.sdiag_protocol = IPPROTO_TCP;
	body.idiag_ext = diag_extensions;
	body.idiag_states = states;
	request.put_body(body);
	return request;
}

} // namespace

Result<DiagClient> DiagClient::open()
{
	ASSIGN_OR_RETURN(auto conversation, Conversation::open(NETLINK_SOCK_DIAG, "TCP sockets"));

	return DiagClient(std::move(conversation));
}

Result<DiagStatus> DiagClient::dump_family(std::uint8_t family, std::uint32_t states,
					   std::span<const Fd> storages, const Conversation::Begin &begin,
					   const FlowVisitor &visit)
{
	NetlinkRequest request = request_for(family, states);
	DiagStatus sum;

	if (!storages.empty()) {
		nlattr *list = request.open(INET_DIAG_REQ_SK_BPF_STORAGES);

		for (const Fd &map : storages.first(std::min(storages.size(), storages_max)))
			request.put(SK_DIAG_BPF_STORAGE_REQ_MAP_FD, static_cast<std::uint32_t>(map.get()));
		request.close(list);
	}

	ASSIGN_OR_RETURN(const auto status, conversation_.ask(
		request,
		[&] {
			sum.bad_records = 0;
			begin();
		},
		[&](Bytes b, std::uint32_t sequence) {
			DiagStatus part = visit_diag(b, visit, sequence);

			sum.bad_records += part.bad_records;
			return part;
		}));
	static_cast<NetlinkStatus &>(sum) = status;
	return sum;
}

Result<DiagStatus> DiagClient::dump_families(std::uint32_t states, std::span<const Fd> storages,
					     const Begin &begin, const FlowVisitor &visit)
{
	static constexpr std::array<std::uint8_t, 3> families = {AF_UNSPEC, AF_INET, AF_INET6};
	DiagStatus sum;

	for (const std::uint8_t family : families) {
		if (family == AF_UNSPEC && !both_at_once_)
			continue;

		ASSIGN_OR_RETURN(const auto status,
				 dump_family(family, states, storages, [&] { begin(family); }, visit));
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
			return netlink_refusal("the kernel refused to list its TCP sockets", status);
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
	ASSIGN_OR_RETURN(const auto status, dump_families(
		states, storages,
		[&](std::uint8_t begun) {
			if (begun == family)
				out.flows.resize(before);
			family = begun;
			before = out.flows.size();
		},
		[&](const Flow &flow) { out.flows.push_back(flow); }));

	out.interrupted = status.interrupted;
	out.bad_records = status.bad_records;
	out.malformed = status.malformed;
	return out;
}

Result<DiagStatus> DiagClient::visit(std::uint32_t states, const FlowVisitor &visit,
				     std::span<const Fd> storages)
{
	return dump_families(states, storages, [](std::uint8_t) {}, visit);
}

} // namespace swift
