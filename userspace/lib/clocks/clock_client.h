// SPDX-License-Identifier: MIT
// The module's table of NIC clocks, told and asked over generic netlink. A parser that is a pure
// function of bytes, and the client that talks to the kernel.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "clock_fit.h"
#include "files.h"
#include "genl.h"
#include "module_genl.h"
#include "netlink_bytes.h"
#include "result.h"

namespace swift {

// As the module knows it.
struct NicClock {
	std::uint32_t ifindex = 0;
	ClockLine line;
	std::uint32_t valid_ms = 0; // left; 0: stale
	std::uint32_t owner = 0; // netlink port of the feeder; 0: gone
	std::uint64_t used = 0; // stamps
	std::uint64_t stale = 0;
	std::uint64_t future = 0;
	std::uint64_t old = 0;
};

// Appends every clock in @bytes; messages of another family or, unless 0, another
// sequence number are passed over. Never fails: what cannot be read is counted.
NetlinkStatus parse_nic_clocks(Bytes bytes, std::uint16_t family, std::vector<NicClock> &clocks,
			       std::uint32_t sequence = 0);

class ClockClient {
public:
	static Result<ClockClient> open();
	explicit ClockClient(GenlClient genl) : genl_(std::move(genl)) {}

	// Errors carry the kernel's errno; error_no_module without the module.
	Result<void> set(std::uint32_t ifindex, const ClockLine &line, std::uint32_t valid_ms);
	Result<void> remove(std::uint32_t ifindex);
	Result<std::vector<NicClock>> all();

	[[nodiscard]] std::uint32_t port() const { return genl_.port(); }

private:
	Result<void> request(std::uint8_t command, std::uint16_t flags, const GenlClient::Put &put,
			     std::vector<NicClock> &clocks);

	GenlClient genl_;
};

// Who is behind a netlink port, as far as can be told.
[[nodiscard]] std::string netlink_port_text(const Files &files, std::uint32_t port);

} // namespace swift
