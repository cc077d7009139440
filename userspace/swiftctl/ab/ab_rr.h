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
#include <random>
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
	std::uint64_t moments = 0; // that times_ns stand for; RrMoments says what that is

	// Moments that one of times_ns stands for.
	[[nodiscard]] double moments_of_each() const
	{
		return times_ns.empty() ? 0 : static_cast<double>(moments) / static_cast<double>(times_ns.size());
	}
	bool operator==(const RrRun &) const = default;
};
inline constexpr std::size_t rr_most_times = 20'000;

[[nodiscard]] std::string rr_json(const RrRun &run);
Result<RrRun> parse_rr(std::string_view text);
// Each leg's times count for as many moments as it had. Empty where there are too few answers for that quantile.
[[nodiscard]] std::optional<double> rr_quantile(const std::vector<RrRun> &legs, double q);

/*
 * When a connection asks. Who asks again as soon as the answer has come asks a hundred times as often where the
 * queue is a hundredth: so the middle answer is one of the quick moments, however rare they are. Moments at random,
 * of an even rate, meet each state of the network for its part of the time.
 */
class RrMoments {
public:
	// From @now_ns on, @every_ms apart on average.
	RrMoments(unsigned every_ms, std::uint64_t seed, std::int64_t now_ns);
	[[nodiscard]] std::int64_t next_ns() const { return next_ns_; }
	// Leaves those until @now_ns behind; returns what of them was from @from_ns on, before @until_ns.
	std::vector<std::int64_t> pass(std::int64_t now_ns, std::int64_t from_ns, std::int64_t until_ns);

private:
	void draw();

	std::mt19937_64 random_;
	std::exponential_distribution<double> apart_ns_;
	std::int64_t next_ns_;
};

/*
 * What a question would have taken at the moment @at_ns, when one was out that took @took_ns, until @now_ns, and the
 * answer before it @before_ns. In a queue that stands each takes as long as the other. But of one lost packet the others
 * know nothing: over the same connection they would have waited for the rest of it, over one of their own (@anew) not.
 */
[[nodiscard]] std::int64_t rr_passed_ns(std::int64_t at_ns, std::int64_t now_ns, std::int64_t took_ns, std::int64_t before_ns, bool anew);

// Times as they come: all, or of very many a sample in which each has the same chance to be.
class RrTimes {
public:
	explicit RrTimes(std::uint64_t seed, std::size_t most = 1 << 20) : random_(seed), most_(most) {}
	void add(double time_ns);
	[[nodiscard]] std::uint64_t count() const { return count_; }
	// Ascending, no more than rr_most_times: of more, the middle of each of so many shares.
	[[nodiscard]] std::vector<double> taken() const;

private:
	std::mt19937_64 random_;
	std::size_t most_;
	std::uint64_t count_ = 0;
	std::vector<double> times_ns_;
};

// Asks @server for as long as @plan says; an Error names it.
Result<RrRun> rr_ask(const AbPlan &plan, const std::string &server, const std::string &cc);
// Answers all who come, until one of @stop comes; those have to be blocked. @bound is called once with the port.
Result<void> rr_serve(std::uint16_t port, const sigset_t &stop, void (*bound)(std::uint16_t port) = nullptr);

} // namespace swift
