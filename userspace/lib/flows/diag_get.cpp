// SPDX-License-Identifier: MIT
#include "diag_get.h"

#include <linux/inet_diag.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <iterator>

#include "diag_request.h"
#include "netlink_request.h"
#include "text.h"

namespace swift {

namespace {

constexpr std::size_t at_once = 32; // requests, whose answers fit into a socket's queue
constexpr int patience_s = 10;

void put_address(const Address &a, void *to)
{
	std::memcpy(to, a.bytes.data(), a.v6 ? 16 : 4);
}

void put_request(const FlowId &f, std::vector<std::byte> &out)
{
	NetlinkRequest request(SOCK_DIAG_BY_FAMILY, 0);
	inet_diag_req_v2 body{};

	body.sdiag_family = f.local.address.v6 ? AF_INET6 : AF_INET;
	body.sdiag_protocol = IPPROTO_TCP;
	body.idiag_ext = diag_extensions;
	body.idiag_states = ~0U;
	put_address(f.local.address, body.id.idiag_src);
	put_address(f.remote.address, body.id.idiag_dst);
	body.id.idiag_sport = htons(f.local.port);
	body.id.idiag_dport = htons(f.remote.port);
	body.id.idiag_cookie[0] = static_cast<std::uint32_t>(f.cookie);
	body.id.idiag_cookie[1] = static_cast<std::uint32_t>(f.cookie >> 32);
	request.put_body(body);

	const auto *bytes = reinterpret_cast<const std::byte *>(&request.head());

	out.insert(out.end(), bytes, bytes + align4(request.head().nlmsg_len));
}

} // namespace

Result<DiagGetter> DiagGetter::open()
{
	ASSIGN_OR_RETURN(auto socket, netlink_socket(NETLINK_SOCK_DIAG));
	const timeval patience = {patience_s, 0};

	setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	return DiagGetter(std::move(socket));
}

Result<bool> DiagGetter::get_some(std::span<const FlowId> flows, const FlowVisitor &visit, DiagStatus &status)
{
	std::vector<std::byte> requests;
	bool all = true;

	for (const FlowId &f : flows)
		put_request(f, requests);
	if (send(socket_.get(), requests.data(), requests.size(), 0) < 0)
		return errno_error("cannot ask the kernel for single flows", errno);
	// One message for each, in any case.
	for (std::size_t i = 0; i < flows.size();) {
		const ssize_t n = recv(socket_.get(), buffer_.data(), buffer_.size(), 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return errno_error("cannot read single flows", n < 0 ? errno : EIO);
		const DiagStatus one = visit_diag({buffer_.data(), static_cast<std::size_t>(n)}, visit);

		status.bad_records += one.bad_records;
		status.malformed += one.malformed;
		all &= one.error == 0; // it has gone, or another has its place
		i++;
	}
	return all;
}

Result<bool> DiagGetter::get(std::span<const FlowId> flows, const FlowVisitor &visit, DiagStatus &status)
{
	bool all = true;

	while (!flows.empty()) {
		const std::size_t n = std::min(flows.size(), at_once);
		ASSIGN_OR_RETURN(auto some, get_some(flows.first(n), visit, status));

		all &= some;
		flows = flows.subspan(n);
	}
	return all;
}

std::optional<std::uint64_t> parse_established(std::string_view snmp)
{
	std::vector<std::string> names;

	for (const std::string &line : split(snmp, '\n')) {
		if (!line.starts_with("Tcp: "))
			continue;
		std::vector<std::string> parts = words(line);

		if (names.empty()) {
			names = std::move(parts);
			continue;
		}
		const auto at = std::find(names.begin(), names.end(), "CurrEstab") - names.begin();
		std::uint64_t n = 0;

		if (static_cast<std::size_t>(at) >= std::min(names.size(), parts.size()))
			return std::nullopt;
		const std::string &number = parts[static_cast<std::size_t>(at)];
		const auto r = std::from_chars(number.data(), number.data() + number.size(), n);

		return r.ec == std::errc() && r.ptr == number.data() + number.size() ? std::optional(n) : std::nullopt;
	}
	return std::nullopt;
}

std::optional<std::uint64_t> established_here()
{
	std::ifstream file("/proc/thread-self/net/snmp");

	return parse_established(std::string(std::istreambuf_iterator<char>(file), {}));
}

} // namespace swift
