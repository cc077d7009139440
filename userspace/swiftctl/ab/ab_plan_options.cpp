// SPDX-License-Identifier: MIT
// From the options of `swiftctl ab` to a plan, and the plan in words.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "ab.h"
#include "ab_rr.h"
#include "shell_word.h"
#include "text.h"

namespace swift {

namespace {

constexpr unsigned least_moments = 20; // of a run
constexpr unsigned beside_flows_ms = 5; // two thousand answers of a connection in 10 s

Result<void> take_names(const AbOptions &options, AbPlan &plan)
{
	for (const auto &[what, names] : {std::pair{"SERVER", &options.servers}, {"--client", &options.clients},
					  {"--server-ssh", &options.server_ssh}})
		for (auto name = names->begin(); name != names->end(); ++name) {
			RETURN_IF_ERROR(check_host_name(what, *name));
			if (std::find(names->begin(), name, *name) != name)
				return Error{std::string(what) + " given twice", *name};
		}
	for (const std::string &cc : split(options.cc, ',')) {
		RETURN_IF_ERROR(check_cc_name(cc));
		if (std::find(plan.ccs.begin(), plan.ccs.end(), cc) != plan.ccs.end())
			return Error{"--cc: given twice", cc, "each congestion control once"};
		plan.ccs.push_back(cc);
	}
	if (!options.server_ssh.empty() && options.server_ssh.size() != options.servers.size())
		return Error{"--server-ssh", std::to_string(options.server_ssh.size()) + " given",
			     "one for each SERVER: " + std::to_string(options.servers.size())};
	plan.servers = options.servers;
	plan.clients = options.clients;
	plan.server_ssh = options.server_ssh;
	return {};
}

} // namespace

Result<AbPlan> ab_plan(const AbOptions &options, std::uint64_t random_seed)
{
	AbPlan plan;

	if (options.servers.empty() && !options.serve)
		return Error{"which SERVER? (a host on which `iperf3 -s` runs)"};
	if (options.serve && (!options.servers.empty() || !options.clients.empty()))
		return Error{"--serve goes with --rr-port alone: it answers whoever asks"};
	RETURN_IF_ERROR(take_names(options, plan));
	for (const auto &taken :
	     {take_int(plan.runs, "--runs", options.runs, 1, static_cast<std::int64_t>(exact_max)),
	      take_int(plan.parallel, "--parallel", options.parallel, options.rr.empty() || options.rr == "0" ? 1 : 0, 128),
	      take_int(plan.askers, "--rr", options.rr, 0, 512),
	      take_int(plan.rr_port, "--rr-port", options.rr_port, 1, 65535),
	      take_int(plan.looks, "--looks", options.looks, 1, 10),
	      take_int(plan.duration_s, "--duration", options.duration, options.ask ? 0 : 1, 3600),
	      take_int(plan.warmup_s, "--warmup", options.warmup, 0, 60),
	      take_int(plan.port, "--port", options.port, 1,
		       65535 - static_cast<std::int64_t>(options.clients.size())),
	      take_int(plan.dscp, "--dscp", options.dscp, 0, 63)})
		RETURN_IF_ERROR(taken);
	plan.seed = random_seed;
	RETURN_IF_ERROR(take_int(plan.seed, "--seed", options.seed, 0, INT64_MAX));
	plan.reverse = options.reverse;
	plan.ask_anew = options.rr_new;
	plan.ask_every_ms = plan.parallel > 0 && !options.ask ? beside_flows_ms : 0;
	RETURN_IF_ERROR(take_int(plan.ask_every_ms, "--rr-every", options.rr_every, 0, 1000));
	// By chance none would be due in a run.
	if (const std::uint64_t most = std::uint64_t{plan.askers} * plan.duration_s * 1000 / least_moments;
	    plan.askers > 0 && plan.duration_s > 0 && plan.ask_every_ms > most)
		return Error{"--rr-every", std::to_string(plan.ask_every_ms),
			     fmt::format("0 to {} with --rr {} and --duration {}", most, plan.askers, plan.duration_s)};
	if (!options.rr_bytes.empty()) {
		const auto both = split(options.rr_bytes, ',');

		if (both.size() != 2)
			return Error{"--rr-bytes", options.rr_bytes, "bytes of a question and of its answer, such as 1,1"};
		RETURN_IF_ERROR(take_int(plan.ask_bytes, "--rr-bytes, question", both[0], 1, rr_most_bytes));
		RETURN_IF_ERROR(take_int(plan.answer_bytes, "--rr-bytes, answer", both[1], 1, rr_most_bytes));
	}
	return plan;
}

std::string duration_text(double seconds)
{
	const auto s = std::llround(std::max(0.0, seconds));

	if (s < 60)
		return fmt::format("{} s", s);
	if (s < 3600)
		return fmt::format("{} min {} s", s / 60, s % 60);
	return fmt::format("{} h {} min", s / 3600, s / 60 % 60);
}

std::string ab_plan_text(const AbPlan &plan)
{
	const std::size_t runs = ab_looks(plan).front() * plan.ccs.size();
	const std::size_t askers = plan.senders() * plan.servers.size() * plan.askers;
	std::string traffic;

	if (plan.parallel > 0)
		traffic = fmt::format("{} flow{} {} {}", plan.flows(), plan.flows() == 1 ? "" : "s", plan.reverse ? "from" : "to",
				      fmt::join(plan.servers, ", "));
	if (plan.askers > 0)
		traffic += fmt::format("{}{} connection{} that ask{} {} {} bytes for {}{}", traffic.empty() ? "" : " and ", askers,
				       askers == 1 ? "" : "s", askers == 1 ? "s" : "", fmt::join(plan.servers, ", "),
				       plan.ask_bytes, plan.answer_bytes, plan.ask_anew ? ", each time anew" : "") +
			   (plan.ask_every_ms > 0 ? fmt::format(", {} ms apart on average", plan.ask_every_ms) : "");
	std::string text = fmt::format(
		"{}: {} runs each in random order (seed {}), {} s after {} s of warm-up, {}; {} at least\n",
		fmt::join(plan.ccs, ", "), plan.runs, plan.seed, plan.duration_s, plan.warmup_s, traffic,
		duration_text(static_cast<double>(runs) * plan.run_seconds()));

	if (plan.ccs.size() > 1 && plan.runs < ab_least_runs(plan))
		text += fmt::format("no difference can be shown by {} runs of {} congestion controls{}: --runs {} is the "
				    "least\n",
				    plan.runs, plan.ccs.size(),
				    plan.looks > 1 ? fmt::format(" and {} looks", plan.looks) : "", ab_least_runs(plan));
	return text;
}

} // namespace swift
