// SPDX-License-Identifier: MIT
#include "probe_socket.h"

#include <linux/errqueue.h>
#include <linux/net_tstamp.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <ctime>

#include "address_list.h"
#include "clock_ns.h"
#include "text.h"

namespace swift {

namespace {

constexpr int buffer_bytes = 4 << 20; // stamps wait in the receive buffer as well
constexpr std::size_t control_bytes = 512;

constexpr unsigned stamping =
	SOF_TIMESTAMPING_TX_SCHED | SOF_TIMESTAMPING_TX_SOFTWARE | SOF_TIMESTAMPING_TX_HARDWARE |
	SOF_TIMESTAMPING_RX_SOFTWARE | SOF_TIMESTAMPING_RX_HARDWARE | SOF_TIMESTAMPING_SOFTWARE |
	SOF_TIMESTAMPING_RAW_HARDWARE | SOF_TIMESTAMPING_OPT_TSONLY | SOF_TIMESTAMPING_OPT_PKTINFO |
	SOF_TIMESTAMPING_OPT_TX_SWHW;

union SocketAddress {
	sockaddr any;
	sockaddr_in v4;
	sockaddr_in6 v6;
};

socklen_t to_kernel(const ProbeAddress &a, SocketAddress &out)
{
	out = {};
	if (a.endpoint.address.v6) {
		out.v6.sin6_family = AF_INET6;
		out.v6.sin6_port = htons(a.endpoint.port);
		out.v6.sin6_scope_id = a.scope;
		std::memcpy(&out.v6.sin6_addr, a.endpoint.address.bytes.data(), 16);
		return sizeof(out.v6);
	}
	out.v4.sin_family = AF_INET;
	out.v4.sin_port = htons(a.endpoint.port);
	std::memcpy(&out.v4.sin_addr, a.endpoint.address.bytes.data(), 4);
	return sizeof(out.v4);
}

Address address_of(const in_addr &a)
{
	Address out;

	std::memcpy(out.bytes.data(), &a, 4);
	return out;
}

Address address_of(const in6_addr &a)
{
	Address out;

	out.v6 = true;
	std::memcpy(out.bytes.data(), &a, 16);
	return out;
}

ProbeAddress from_kernel(const SocketAddress &a)
{
	if (a.any.sa_family == AF_INET6)
		return {{address_of(a.v6.sin6_addr), ntohs(a.v6.sin6_port)}, a.v6.sin6_scope_id};
	return {{address_of(a.v4.sin_addr), ntohs(a.v4.sin_port)}, 0};
}

std::int64_t ns_of(const timespec &t)
{
	return std::int64_t{t.tv_sec} * 1000000000 + t.tv_nsec;
}

template <typename T> T data_of(const cmsghdr *c)
{
	T v{};

	std::memcpy(&v, CMSG_DATA(c), sizeof(v));
	return v;
}

bool is(const cmsghdr *c, int level, int type, std::size_t size)
{
	return c->cmsg_level == level && c->cmsg_type == type && c->cmsg_len >= CMSG_LEN(size);
}

template <typename T> void append(msghdr &m, int level, int type, const T &v)
{
	auto *c = reinterpret_cast<cmsghdr *>(static_cast<char *>(m.msg_control) + m.msg_controllen);

	c->cmsg_level = level;
	c->cmsg_type = type;
	c->cmsg_len = CMSG_LEN(sizeof(T));
	std::memcpy(CMSG_DATA(c), &v, sizeof(T));
	m.msg_controllen += CMSG_SPACE(sizeof(T));
}

struct Target {
	std::string host;
	std::uint16_t port = 0;
};

Result<Target> split_target(std::string_view text, std::uint16_t default_port)
{
	const Error wrong{"not a target", std::string(text), "HOST, HOST:PORT, [ADDRESS]:PORT"};
	std::string_view host = text;
	std::optional<std::string_view> port;

	if (text.starts_with('[')) {
		const auto end = text.find(']');

		if (end == std::string_view::npos || (end + 1 < text.size() && text[end + 1] != ':'))
			return wrong;
		host = text.substr(1, end - 1);
		if (end + 1 < text.size())
			port = text.substr(end + 2);
	} else if (const auto colon = text.find(':'); colon != std::string_view::npos &&
						      text.find(':', colon + 1) == std::string_view::npos) {
		host = text.substr(0, colon);
		port = text.substr(colon + 1);
	}
	if (host.empty() || host.find('\0') != std::string_view::npos)
		return wrong;
	if (!port)
		return Target{std::string(host), default_port};

	auto number = parse_int("port of " + std::string(host), *port, 1, 65535);

	if (!number)
		return number.error();
	return Target{std::string(host), static_cast<std::uint16_t>(*number)};
}

} // namespace

Result<std::uint16_t> probe_port_of(std::string_view text, std::uint16_t default_port)
{
	auto target = split_target(text, default_port);

	if (!target)
		return target.error();
	return target->port;
}

Result<ProbeAddress> resolve_probe(std::string_view text, std::uint16_t default_port)
{
	auto target = split_target(text, default_port);

	if (!target)
		return target.error();

	addrinfo hints{};
	addrinfo *raw = nullptr;

	hints.ai_socktype = SOCK_DGRAM;
	const int code = getaddrinfo(target->host.c_str(), std::to_string(target->port).c_str(), &hints, &raw);
	const AddressList list(raw);

	if (code != 0)
		return Error{"cannot look up '" + target->host + "': " +
			     (code == EAI_SYSTEM ? std::strerror(errno) : gai_strerror(code))};

	SocketAddress found{};

	std::memcpy(&found, list->ai_addr, std::min<std::size_t>(list->ai_addrlen, sizeof(found)));
	return from_kernel(found);
}

Result<ProbeSocket> ProbeSocket::open(const ProbeSocketOptions &o)
{
	const bool v6 = o.bind.endpoint.address.v6;
	Fd fd(::socket(v6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
	const auto set = [&](int level, int name, int value) {
		return setsockopt(fd.get(), level, name, &value, sizeof(value)) == 0;
	};

	if (!fd)
		return errno_error(v6 ? "cannot open an IPv6 socket" : "cannot open an IPv4 socket", errno);
	set(SOL_SOCKET, SO_RCVBUF, buffer_bytes); // as much as the host allows
	if (!o.iface.empty()) {
		if (if_nametoindex(o.iface.c_str()) == 0)
			return Error{"no such interface", o.iface};
		if (setsockopt(fd.get(), SOL_SOCKET, SO_BINDTODEVICE, o.iface.c_str(),
			       static_cast<socklen_t>(o.iface.size())) < 0)
			return errno_error("cannot use interface " + o.iface, errno);
	}

	const int traffic_class = static_cast<int>(o.dscp << 2);
	const bool ready =
		v6 ? set(IPPROTO_IPV6, IPV6_V6ONLY, 1) && set(IPPROTO_IPV6, IPV6_RECVPKTINFO, 1) &&
			     set(IPPROTO_IPV6, IPV6_RECVTCLASS, 1) &&
			     set(IPPROTO_IPV6, IPV6_RECVERR, 1) &&
			     set(IPPROTO_IPV6, IPV6_TCLASS, traffic_class) &&
			     set(IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO) :
		     set(IPPROTO_IP, IP_PKTINFO, 1) && set(IPPROTO_IP, IP_RECVTOS, 1) &&
			     set(IPPROTO_IP, IP_RECVERR, 1) && set(IPPROTO_IP, IP_TOS, traffic_class) &&
			     set(IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);

	if (!ready)
		return errno_error("cannot set up a UDP socket", errno);

	SocketAddress local;
	const socklen_t size = to_kernel(o.bind, local);

	set(SOL_SOCKET, SO_REUSEADDR, o.shared);
	if (bind(fd.get(), &local.any, size) < 0)
		return errno_error("cannot use " + o.bind.endpoint.text(), errno);

	ProbeSocket s(std::move(fd), v6);

	if (!s.start_ids())
		return errno_error("cannot have packets stamped (SO_TIMESTAMPING)", errno);
	return s;
}

Endpoint ProbeSocket::local() const
{
	SocketAddress a{};
	socklen_t size = sizeof(a);

	getsockname(fd_.get(), &a.any, &size);
	return from_kernel(a).endpoint;
}

void ProbeSocket::share(bool shared) const
{
	const int value = shared;

	setsockopt(fd_.get(), SOL_SOCKET, SO_REUSEADDR, &value, sizeof(value));
}

// The kernel counts from 0 when OPT_ID is set anew.
bool ProbeSocket::start_ids()
{
	const unsigned without = stamping;
	const unsigned with = stamping | SOF_TIMESTAMPING_OPT_ID;

	epoch_++;
	next_id_ = 0;
	return setsockopt(fd_.get(), SOL_SOCKET, SO_TIMESTAMPING, &without, sizeof(without)) == 0 &&
	       setsockopt(fd_.get(), SOL_SOCKET, SO_TIMESTAMPING, &with, sizeof(with)) == 0;
}

Result<std::uint64_t> ProbeSocket::send(std::span<const std::byte> bytes, const ProbeAddress &to,
					const Reply *reply)
{
	SocketAddress peer;
	alignas(cmsghdr) std::array<char, control_bytes> control{};
	// The kernel only reads.
	iovec part = {const_cast<std::byte *>(bytes.data()), bytes.size()};
	msghdr m{};

	m.msg_name = &peer;
	m.msg_namelen = to_kernel(to, peer);
	m.msg_iov = &part;
	m.msg_iovlen = 1;
	if (reply) {
		const int traffic_class = reply->traffic_class & ~3; // its ECN bits are not ours

		m.msg_control = control.data();
		if (v6_) {
			in6_pktinfo from{};

			std::memcpy(&from.ipi6_addr, reply->from.bytes.data(), 16);
			from.ipi6_ifindex = to.scope;
			append(m, IPPROTO_IPV6, IPV6_PKTINFO, from);
			append(m, IPPROTO_IPV6, IPV6_TCLASS, traffic_class);
		} else {
			in_pktinfo from{};

			std::memcpy(&from.ipi_spec_dst, reply->from.bytes.data(), 4);
			append(m, IPPROTO_IP, IP_PKTINFO, from);
			append(m, IPPROTO_IP, IP_TOS, traffic_class);
		}
	}
	for (int attempt = 1;; attempt++) {
		if (sendmsg(fd_.get(), &m, MSG_DONTWAIT) >= 0)
			return epoch_ << 32 | next_id_++;

		const int code = errno;

		// The kernel may have counted it or not; and the error may be an earlier packet's.
		start_ids();
		if (attempt == 2 || code == EMSGSIZE || code == EAGAIN || code == ENOBUFS)
			return errno_error("cannot send to " + to.endpoint.text(), code);
	}
}

std::optional<Datagram> ProbeSocket::receive()
{
	SocketAddress from{};
	alignas(cmsghdr) std::array<char, control_bytes> control;
	iovec part = {buffer_->data(), buffer_->size()};
	msghdr m{};

	m.msg_name = &from;
	m.msg_namelen = sizeof(from);
	m.msg_iov = &part;
	m.msg_iovlen = 1;
	m.msg_control = control.data();
	m.msg_controllen = control.size();

	ssize_t n = recvmsg(fd_.get(), &m, MSG_DONTWAIT);

	// Anything else is the error of a packet that was sent; the error queue has it.
	for (int attempt = 0; n < 0 && errno != EAGAIN && attempt < 3; attempt++)
		n = recvmsg(fd_.get(), &m, MSG_DONTWAIT);
	if (n < 0)
		return std::nullopt;

	Datagram d;

	d.rx.app_ns = clock_ns(CLOCK_REALTIME);
	d.bytes = std::span(buffer_->data(), static_cast<std::size_t>(n));
	d.from = from_kernel(from);
	d.cut = (m.msg_flags & MSG_TRUNC) != 0;

	unsigned stamped_by = 0;

	for (cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
		if (is(c, SOL_SOCKET, SCM_TIMESTAMPING, sizeof(scm_timestamping))) {
			const auto t = data_of<scm_timestamping>(c);

			d.rx.stack_ns = ns_of(t.ts[0]);
			d.rx.wire_ns = ns_of(t.ts[2]);
		} else if (is(c, SOL_SOCKET, SCM_TIMESTAMPING_PKTINFO, sizeof(scm_ts_pktinfo))) {
			stamped_by = data_of<scm_ts_pktinfo>(c).if_index;
		} else if (is(c, IPPROTO_IP, IP_PKTINFO, sizeof(in_pktinfo))) {
			const auto info = data_of<in_pktinfo>(c);

			d.to = address_of(info.ipi_addr);
			d.rx.ifindex = static_cast<unsigned>(info.ipi_ifindex);
		} else if (is(c, IPPROTO_IPV6, IPV6_PKTINFO, sizeof(in6_pktinfo))) {
			const auto info = data_of<in6_pktinfo>(c);

			d.to = address_of(info.ipi6_addr);
			d.rx.ifindex = info.ipi6_ifindex;
		} else if (is(c, IPPROTO_IP, IP_TOS, 1)) {
			d.traffic_class = data_of<std::uint8_t>(c);
		} else if (is(c, IPPROTO_IPV6, IPV6_TCLASS, sizeof(int))) {
			d.traffic_class = static_cast<std::uint8_t>(data_of<int>(c));
		}
	}
	// Below a bond or a VLAN it is another device that has the clock.
	if (stamped_by)
		d.rx.ifindex = stamped_by;
	return d;
}

std::optional<std::variant<TxStamp, SendFailure>> ProbeSocket::read_errors()
{
	for (;;) {
		SocketAddress to{};
		alignas(cmsghdr) std::array<char, control_bytes> control;
		msghdr m{};

		m.msg_name = &to;
		m.msg_namelen = sizeof(to);
		m.msg_control = control.data();
		m.msg_controllen = control.size();
		if (recvmsg(fd_.get(), &m, MSG_ERRQUEUE | MSG_DONTWAIT) < 0)
			return std::nullopt;

		std::optional<scm_timestamping> times;
		std::optional<sock_extended_err> why;

		for (cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
			if (is(c, SOL_SOCKET, SCM_TIMESTAMPING, sizeof(scm_timestamping)))
				times = data_of<scm_timestamping>(c);
			else if (is(c, IPPROTO_IP, IP_RECVERR, sizeof(sock_extended_err)) ||
				 is(c, IPPROTO_IPV6, IPV6_RECVERR, sizeof(sock_extended_err)))
				why = data_of<sock_extended_err>(c);
		}
		if (!why)
			continue;
		if (why->ee_origin == SO_EE_ORIGIN_TIMESTAMPING && times) {
			const std::int64_t host_ns = ns_of(times->ts[0]);
			const std::int64_t nic_ns = ns_of(times->ts[2]);
			TxStamp s;

			s.id = epoch_ << 32 | why->ee_data;
			s.ns = nic_ns ? nic_ns : host_ns;
			s.point = why->ee_info == SCM_TSTAMP_SCHED ? TxPoint::sched :
				  nic_ns			   ? TxPoint::wire :
								     TxPoint::driver;
			return s;
		}
		if (why->ee_origin == SO_EE_ORIGIN_ICMP || why->ee_origin == SO_EE_ORIGIN_ICMP6 ||
		    why->ee_origin == SO_EE_ORIGIN_LOCAL) {
			int pending = 0;
			socklen_t size = sizeof(pending);

			// It would fail the next send, to whomever.
			getsockopt(fd_.get(), SOL_SOCKET, SO_ERROR, &pending, &size);
			return SendFailure{from_kernel(to).endpoint, static_cast<int>(why->ee_errno)};
		}
	}
}

} // namespace swift
