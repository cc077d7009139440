// SPDX-License-Identifier: MIT
// The module's generic netlink family: NIC clocks told and asked. A parser that is a pure
// function of bytes, and the client that talks to the kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "clock_fit.h"
#include "netlink_bytes.h"
#include "result.h"

struct mnl_socket;

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
// The number of the family, from the controller's answer.
NetlinkStatus parse_family(Bytes bytes, std::optional<std::uint16_t> &family,
			   std::uint32_t sequence = 0);

// A family's number is another one after the module was loaded anew: it is asked for when
// it is not known, and when the kernel does not know it any more.
class ClockClient {
public:
	static Result<ClockClient> open();

	// Errors carry the kernel's errno; is_module_missing() for ENOENT.
	Result<void> set(std::uint32_t ifindex, const ClockLine &line, std::uint32_t valid_ms);
	Result<void> remove(std::uint32_t ifindex);
	Result<std::vector<NicClock>> all();

	[[nodiscard]] std::uint32_t port() const;

private:
	struct Close {
		void operator()(mnl_socket *s) const;
	};
	using Socket = std::unique_ptr<mnl_socket, Close>;

	explicit ClockClient(Socket socket) : socket_(std::move(socket)) {}

	Result<void> resolve();
	Result<void> request(std::uint8_t command, std::uint16_t flags,
			     const std::vector<std::byte> &attributes, std::vector<NicClock> *clocks);
	Result<NetlinkStatus> ask(std::uint8_t command, std::uint16_t flags,
				  const std::vector<std::byte> &attributes, std::vector<NicClock> *clocks);

	Socket socket_;
	std::optional<std::uint16_t> family_;
	std::uint32_t sequence_ = 0;
};

// An Error's code: the module is not loaded.
inline constexpr int error_no_module = 2; // ENOENT

} // namespace swift
