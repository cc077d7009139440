// SPDX-License-Identifier: MIT
// Questions and answers over TCP, in the spirit of netperf's TCP_RR and TCP_CRR: a client that asks and waits, over
// connections that stay or over a new one each time, and the server that answers. What the times say of a
// congestion control is ab_result.h's.
#pragma once

#include <signal.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ab_plan.h"
#include "result.h"

namespace swift {

inline constexpr std::uint32_t rr_most_bytes = 64 << 20; // of a question, of an answer

// What a connection begins with: "swiftrr1", the congestion control of the answers, and how long both are.
inline constexpr std::size_t rr_head_bytes = 32;

struct RrHead {
	std::string cc;
	std::uint32_t ask_bytes = 1;
	std::uint32_t answer_bytes = 1;

	bool operator==(const RrHead &) const = default;
};
[[nodiscard]] std::array<char, rr_head_bytes> rr_head(const RrHead &head);
Result<RrHead> parse_rr_head(std::string_view bytes);

// What a client says of its questions, as JSON on one line.
struct RrRun {
	std::string cc; // that the kernel says of its sockets
	std::uint64_t count = 0; // answers, of questions that were asked after the warm-up
	std::vector<double> of_each; // connection
	double seconds = 0; // for so long
	std::vector<double> times_ns; // ascending; of very many, as many as rr_most_times evenly spread ranks
	std::uint64_t retransmits = 0;
	std::uint64_t segments = 0; // with data
	double waited_s = 0; // for the last answers, after the last question that counts

	bool operator==(const RrRun &) const = default;
};
inline constexpr std::size_t rr_most_times = 20'000;

[[nodiscard]] std::string rr_json(const RrRun &run);
Result<RrRun> parse_rr(std::string_view text);
// Each leg's times count for as many answers as it had. Empty where there are too few for that quantile.
[[nodiscard]] std::optional<double> rr_quantile(const std::vector<RrRun> &legs, double q);

// Asks @server for as long as @plan says; an Error names it.
Result<RrRun> rr_ask(const AbPlan &plan, const std::string &server, const std::string &cc);
// Answers all who come, until one of @stop comes; those have to be blocked. @bound is called once with the port.
Result<void> rr_serve(std::uint16_t port, const sigset_t &stop, void (*bound)(std::uint16_t port) = nullptr);

} // namespace swift
