// SPDX-License-Identifier: MIT
// A flow that has more to send than its fabric window allows.
#pragma once

#include <cstdint>

#include "flow.h"

namespace swift_test {

inline swift::Flow busy_flow(std::uint64_t cookie, const swift::SenderTimes &times)
{
	swift::Flow f;

	f.cookie = cookie;
	f.cc = "swift";
	f.state = 1;
	f.local = {*swift::Address::parse("10.0.0.1"), 1000};
	f.remote = {*swift::Address::parse("10.0.0.2"), 80};
	f.tcp.emplace();
	f.tcp->notsent_bytes = 10'000;
	f.tcp->unacked_pkts = 5;
	f.tcp->times = times;
	f.swift = swift::SwiftRecord{90'000,	 20'000, 100'000, 5 << 16, 50 << 16, swift::Stamp::software,
				     swift::Stamp::software};
	return f;
}

} // namespace swift_test
