// SPDX-License-Identifier: MIT
// `swiftctl probe --respond`: answers probes, and says what it did not answer.
#include <fmt/format.h>

#include <optional>

#include "clock_ns.h"
#include "probe.h"
#include "probe_loop.h"
#include "probe_nic.h"
#include "probe_server.h"
#include "say.h"

namespace swift {

namespace {

// What was refused, and why; a line a second at most.
class Refusals {
public:
	void report(const ProbeServer &server, std::int64_t now_ns)
	{
		std::vector<std::string> parts;

		if (!pending(server) || now_ns - last_ns_ < ns_per_s)
			return;
		for (std::size_t i = 0; i < refusals; i++)
			if (const std::uint64_t fresh = server.refused()[i] - told_[i])
				parts.push_back(fmt::format("{} {}", fresh, refusal_text(static_cast<Refusal>(i))));
		note(probe_verb, fmt::format("refused: {} (the newest from {})", fmt::join(parts, ", "),
					     server.newest_refused().text()));
		told_ = server.refused();
		last_ns_ = now_ns;
	}
	[[nodiscard]] bool pending(const ProbeServer &server) const { return server.refused() != told_; }

private:
	RefusalCounts told_{};
	std::int64_t last_ns_ = 0;
};

} // namespace

Result<int> run_responder(const ProbePlan &plan)
{
	ASSIGN_OR_RETURN(auto server, ProbeServer::open({plan.bind, plan.iface, {}}, plan.keys));
	const auto nics = real_nics();
	std::optional<BorrowedStamping> stamping;
	Refusals told;

	const StopFd stop;

	if (plan.stamp) {
		ASSIGN_OR_RETURN(auto on, BorrowedStamping::take(*nics, plan.iface));

		stamping.emplace(std::move(on));
	}

	if (!print(fmt::format("responding on {}\n", fmt::join(server.places(), " and "))))
		return exit_failed;
	while (!stop.asked()) {
		// Something refused is told of within a second, traffic or not.
		wait_readable(server.sockets(), stop.fd(),
			      clock_ns(CLOCK_MONOTONIC) + (told.pending(server) ? ns_per_s : 3600 * ns_per_s));
		server.serve();
		told.report(server, clock_ns(CLOCK_MONOTONIC));
	}
	return leave(fmt::format("answered {} probes, refused {}\n", server.answered(), sum_of(server.refused())));
}

} // namespace swift
