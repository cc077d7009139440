// SPDX-License-Identifier: MIT
// The conversation with the module over generic netlink. What its answers mean is
// genl_parse.cpp's.
#include <libmnl/libmnl.h>
#include <linux/genetlink.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "genl.h"
#include "netlink_bytes.h"
#include "uapi/tcp_swift.h"

namespace swift {

namespace {

static_assert(error_no_module == ENOENT);

constexpr std::uint8_t controller_version = 2;
constexpr int dump_attempts = 5;

template <typename T> void put(std::vector<std::byte> &to, std::uint16_t type, const T &value)
{
	nlattr head{};
	const auto *h = reinterpret_cast<const std::byte *>(&head);
	const auto *v = reinterpret_cast<const std::byte *>(&value);

	static_assert(sizeof(T) % 4 == 0);
	head.nla_len = static_cast<std::uint16_t>(sizeof(head) + sizeof(T));
	head.nla_type = type;
	to.insert(to.end(), h, h + sizeof(head));
	to.insert(to.end(), v, v + sizeof(T));
}

std::vector<std::byte> message(std::uint16_t type, std::uint16_t flags, std::uint32_t sequence,
			       genlmsghdr generic, const std::vector<std::byte> &attributes)
{
	nlmsghdr head{};
	std::vector<std::byte> out(sizeof(head) + sizeof(generic));

	head.nlmsg_len = static_cast<std::uint32_t>(out.size() + attributes.size());
	head.nlmsg_type = type;
	head.nlmsg_flags = static_cast<std::uint16_t>(NLM_F_REQUEST | flags);
	head.nlmsg_seq = sequence;
	std::memcpy(out.data(), &head, sizeof(head));
	std::memcpy(out.data() + sizeof(head), &generic, sizeof(generic));
	out.insert(out.end(), attributes.begin(), attributes.end());
	return out;
}

// Sends, and hands every answer to @parse until one says that it was the last.
template <typename Parse>
Result<NetlinkStatus> converse(mnl_socket *socket, const std::vector<std::byte> &request, Parse parse)
{
	std::vector<std::byte> buffer(netlink_receive_bytes);
	NetlinkStatus sum;

	if (mnl_socket_sendto(socket, request.data(), request.size()) < 0)
		return errno_error("cannot send over generic netlink", errno);
	while (!sum.done) {
		const ssize_t n = mnl_socket_recvfrom(socket, buffer.data(), buffer.size());

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno_error("cannot read from generic netlink", errno);

		NetlinkStatus part = parse(std::span(buffer.data(), static_cast<std::size_t>(n)));

		part.interrupted |= sum.interrupted;
		part.malformed += sum.malformed;
		sum = std::move(part);
	}
	return sum;
}

} // namespace

void ClockClient::Close::operator()(mnl_socket *s) const
{
	mnl_socket_close(s);
}

Result<ClockClient> ClockClient::open()
{
	Socket socket(mnl_socket_open2(NETLINK_GENERIC, SOCK_CLOEXEC));
	int on = 1;

	if (!socket)
		return errno_error("cannot open a generic netlink socket", errno);
	if (mnl_socket_bind(socket.get(), 0, MNL_SOCKET_AUTOPID) < 0)
		return errno_error("cannot bind a generic netlink socket", errno);
	// The kernel's own words for an error; without them its errno has to do.
	mnl_socket_setsockopt(socket.get(), NETLINK_EXT_ACK, &on, sizeof(on));
	mnl_socket_setsockopt(socket.get(), NETLINK_CAP_ACK, &on, sizeof(on));
	return ClockClient(std::move(socket));
}

std::uint32_t ClockClient::port() const
{
	return mnl_socket_get_portid(socket_.get());
}

Result<void> ClockClient::resolve()
{
	std::vector<std::byte> name;
	nlattr head{};
	constexpr std::size_t size = sizeof(TCP_SWIFT_GENL_NAME);

	head.nla_len = sizeof(head) + size;
	head.nla_type = CTRL_ATTR_FAMILY_NAME;
	name.resize(NLA_ALIGN(sizeof(head) + size));
	std::memcpy(name.data(), &head, sizeof(head));
	std::memcpy(name.data() + sizeof(head), TCP_SWIFT_GENL_NAME, size);

	std::optional<std::uint16_t> found;
	const std::uint32_t sequence = ++sequence_;

	family_.reset();
	auto status = converse(socket_.get(),
			       message(GENL_ID_CTRL, NLM_F_ACK, sequence,
				       {CTRL_CMD_GETFAMILY, controller_version, 0}, name),
			       [&](Bytes b) {
				       return parse_family(b, found, sequence);
			       });

	if (!status)
		return status.error();
	if (status->error == ENOENT)
		return Error{"the module tcp_swift is not loaded", {}, {}, ENOENT};
	if (status->error)
		return errno_error("cannot ask for the module's netlink family", status->error);
	if (!found)
		return Error{"the kernel did not name the module's netlink family"};
	family_ = found;
	return {};
}

Result<NetlinkStatus> ClockClient::ask(std::uint8_t command, std::uint16_t flags,
				    const std::vector<std::byte> &attributes,
				    std::vector<NicClock> *clocks)
{
	const std::uint32_t sequence = ++sequence_;
	std::vector<NicClock> unwanted;

	return converse(socket_.get(),
			message(*family_, flags, sequence, {command, TCP_SWIFT_GENL_VERSION, 0}, attributes),
			[&](Bytes b) {
				return parse_nic_clocks(b, *family_, clocks ? *clocks : unwanted, sequence);
			});
}

Result<void> ClockClient::request(std::uint8_t command, std::uint16_t flags,
				  const std::vector<std::byte> &attributes, std::vector<NicClock> *clocks)
{
	bool fresh = false;

	if (!family_) {
		if (auto done = resolve(); !done)
			return done;
		fresh = true;
	}
	for (int attempt = 1;; attempt++) {
		if (clocks)
			clocks->clear();
		auto status = ask(command, flags, attributes, clocks);

		if (!status)
			return status.error();
		// The number may be of a module that is no more; the answer may also be meant so.
		if (status->error == ENOENT && !fresh) {
			if (auto done = resolve(); !done)
				return done;
			fresh = true;
			continue;
		}
		if (status->interrupted && attempt < dump_attempts)
			continue;
		// The kernel's word for a family whose module is on its way out.
		if (status->error == EPROTONOSUPPORT)
			return Error{"the module tcp_swift is being unloaded", {}, {}, ENOENT};
		if (status->error)
			return status->message.empty() ?
				       errno_error("the module refused", status->error) :
				       Error{"the module refused: " + status->message, {}, {}, status->error};
		if (status->malformed)
			return Error{"the module's answer makes no sense: it and swiftctl are of different "
				     "versions"};
		return {};
	}
}

Result<void> ClockClient::set(std::uint32_t ifindex, const ClockLine &line, std::uint32_t valid_ms)
{
	std::vector<std::byte> attributes;

	put(attributes, TCP_SWIFT_A_IFINDEX, ifindex);
	put(attributes, TCP_SWIFT_A_NIC_NS, line.nic_ns);
	put(attributes, TCP_SWIFT_A_HOST_NS, line.host_ns);
	put(attributes, TCP_SWIFT_A_RATIO_Q32, line.ratio_q32);
	put(attributes, TCP_SWIFT_A_ERROR_NS, line.error_ns);
	put(attributes, TCP_SWIFT_A_VALID_MS, valid_ms);
	return request(TCP_SWIFT_CMD_CLOCK_SET, NLM_F_ACK, attributes, nullptr);
}

Result<void> ClockClient::remove(std::uint32_t ifindex)
{
	std::vector<std::byte> attributes;

	put(attributes, TCP_SWIFT_A_IFINDEX, ifindex);

	auto done = request(TCP_SWIFT_CMD_CLOCK_DEL, NLM_F_ACK, attributes, nullptr);

	// No line, or no module any more: there is nothing left to remove.
	return done || done.error().code == ENOENT ? Result<void>() : done;
}

Result<std::vector<NicClock>> ClockClient::all()
{
	std::vector<NicClock> clocks;

	if (auto done = request(TCP_SWIFT_CMD_CLOCK_GET, NLM_F_DUMP, {}, &clocks); !done)
		return done.error();
	return clocks;
}

} // namespace swift
