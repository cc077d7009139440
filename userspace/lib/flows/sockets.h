// SPDX-License-Identifier: MIT
// TCP sockets of the host, and round trips to others. An interface, so that tests put made-up
// ones in their place. It decides nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "flow.h"
#include "interface.h"
#include "result.h"

namespace swift {

// A TCP connection that was made for this.
struct Handshake {
	std::uint64_t rtt_ns = 0; // the smallest of a few
	std::optional<Credit> credit; // none: refused, or not of Swift
};

class Sockets : public Interface {
public:
	virtual Result<std::vector<Flow>> tcp_sockets(std::uint32_t states) = 0;
	// Of Swift, if this host has it.
	virtual Result<Handshake> handshake(const std::string &host, std::uint16_t port) = 0;
};

// Those of the live host; of another root (tests, images) they are an Error.
std::unique_ptr<Sockets> real_sockets(const std::string &root = {});

} // namespace swift
