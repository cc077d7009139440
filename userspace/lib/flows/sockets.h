// SPDX-License-Identifier: MIT
// TCP sockets of the host, and round trips to others. An interface, so that tests put made-up
// ones in their place. It decides nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "flow.h"
#include "result.h"

namespace swift {

class Sockets {
public:
	Sockets() = default;
	Sockets(const Sockets &) = delete;
	Sockets &operator=(const Sockets &) = delete;
	virtual ~Sockets() = default;

	virtual Result<std::vector<Flow>> tcp_sockets(std::uint32_t states) = 0;
	// The smallest RTT of a few TCP handshakes.
	virtual Result<std::uint64_t> handshake_rtt_ns(const std::string &host, std::uint16_t port) = 0;
};

// Those of the live host; of another root (tests, images) they are an Error.
std::unique_ptr<Sockets> real_sockets(const std::string &root = {});

} // namespace swift
