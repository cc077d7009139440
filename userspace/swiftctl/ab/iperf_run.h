// SPDX-License-Identifier: MIT
// What `iperf3 --json` says of one test, as its client wrote it: a pure function of bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "result.h"

namespace swift {

struct IperfStream {
	std::uint16_t local_port = 0; // at the client
	double received_bps = 0; // without the warm-up
	std::vector<double> rtt_ns; // the sender's smoothed RTT at the end of each interval
};

struct IperfRun {
	std::string version; // "iperf 3.12"
	std::string cc; // of the sender
	bool reverse = false; // the server sent
	double goodput_bps = 0; // at the receiver, without the warm-up
	double sent_bytes = 0;
	std::uint64_t retransmits = 0;
	std::uint32_t mss_bytes = 0;
	std::vector<IperfStream> streams;

	// All RTTs of all streams; none where the server was the sender.
	[[nodiscard]] std::vector<double> rtt_ns() const;
	// Segments sent again, of all that were sent.
	[[nodiscard]] double loss_ratio() const;
};

// An Error is iperf3's own, if it gave one.
Result<IperfRun> parse_iperf(std::string_view text);
// The error that iperf3 reports for a server that is in another test.
[[nodiscard]] bool iperf_busy(std::string_view error);
// Refused or reset: no server, or one that ends a test and is about to listen again.
[[nodiscard]] bool iperf_not_listening(std::string_view error);

} // namespace swift
