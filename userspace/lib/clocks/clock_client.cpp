// SPDX-License-Identifier: MIT
// What is asked of the module. What its answers mean is clock_client_parse.cpp's.
#include "clock_client.h"

#include <cerrno>

#include "text.h"
#include "uapi/tcp_swift.h"

namespace swift {

Result<ClockClient> ClockClient::open()
{
	ASSIGN_OR_RETURN(auto genl, open_module_genl());

	return ClockClient(std::move(genl));
}

Result<void> ClockClient::request(std::uint8_t command, std::uint16_t flags, const GenlClient::Put &put,
				  std::vector<NicClock> &clocks)
{
	const auto status = genl_.ask(command, flags, put, [&] { clocks.clear(); },
				      [&](Bytes b, std::uint16_t family, std::uint32_t sequence) {
					      return parse_nic_clocks(b, family, clocks, sequence);
				      });

	RETURN_IF_ERROR(module_answered(status));
	if (status->interrupted)
		return Error{"the module's clocks change faster than they can be read", {}, {}, EAGAIN};
	return {};
}

Result<void> ClockClient::set(std::uint32_t ifindex, const ClockLine &line, std::uint32_t valid_ms)
{
	std::vector<NicClock> none;

	return request(TCP_SWIFT_CMD_CLOCK_SET, NLM_F_ACK,
		       [&](NetlinkRequest &r) {
			       r.put(TCP_SWIFT_A_IFINDEX, ifindex);
			       r.put(TCP_SWIFT_A_NIC_NS, line.nic_ns);
			       r.put(TCP_SWIFT_A_HOST_NS, line.host_ns);
			       r.put(TCP_SWIFT_A_RATIO_Q32, line.ratio_q32);
			       r.put(TCP_SWIFT_A_ERROR_NS, line.error_ns);
			       r.put(TCP_SWIFT_A_VALID_MS, valid_ms);
		       },
		       none);
}

Result<void> ClockClient::remove(std::uint32_t ifindex)
{
	std::vector<NicClock> none;
	auto done = request(TCP_SWIFT_CMD_CLOCK_DEL, NLM_F_ACK,
			    [&](NetlinkRequest &r) { r.put(TCP_SWIFT_A_IFINDEX, ifindex); }, none);

	// No line, or no module any more: there is nothing left to remove.
	return done || done.error().code == ENOENT ? Result<void>() : done;
}

Result<std::vector<NicClock>> ClockClient::all()
{
	std::vector<NicClock> clocks;

	RETURN_IF_ERROR(request(TCP_SWIFT_CMD_CLOCK_GET, NLM_F_DUMP, [](NetlinkRequest &) {}, clocks));
	return clocks;
}

std::string netlink_port_text(const Files &files, std::uint32_t port)
{
	// By custom a process's first netlink socket has its pid as port.
	const auto name = files.read_file("/proc/" + std::to_string(port) + "/comm");

	return name ? std::string(trim(*name)) + " (pid " + std::to_string(port) + ")" :
		      "netlink port " + std::to_string(port);
}

} // namespace swift
