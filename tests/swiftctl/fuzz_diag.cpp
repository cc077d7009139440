// SPDX-License-Identifier: MIT
// libFuzzer: any bytes through the sock_diag parser, and what comes out through the names
// that screens print.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "diag.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
	std::vector<swift::Flow> flows;
	const auto bytes = std::as_bytes(std::span(data, size));
	const swift::DiagStatus status = swift::parse_diag(bytes, flows);

	// A socket takes a netlink header and its own 72 bytes.
	if (flows.size() > size / 88 || status.error < 0)
		std::abort();
	for (const swift::Flow &f : flows) {
		if (f.local.text().empty() || f.remote.text().empty() || f.cc.size() > 15 ||
		    swift::tcp_state_text(f.state).empty())
			std::abort();
		if (f.swift && ((f.swift->fabric_ns | f.swift->endpoint_ns) & 3U))
			std::abort();
	}
	return 0;
}
