// SPDX-License-Identifier: MIT
// `swiftctl ab`: from the options to the files, with somebody watching.
#include "ab.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <ctime>
#include <iostream>
#include <random>

#include <fmt/format.h>

#include "ab_rr.h"
#include "report.h"
#include "say.h"
#include "watch.h"

namespace swift {

namespace {

class Progress final : public AbListener {
public:
	explicit Progress(bool live) : live_(live) {}

	void progress(const AbProgress &p) override
	{
		if (live_)
			show(fmt::format("run {} of {}: {}, {}; {} left", p.run, p.runs, p.turn->cc,
					 duration_text(p.elapsed_s), duration_text(p.left_s)));
	}
	void done(const AbProgress &p, const AbRun &run) override
	{
		const auto us = [](const std::optional<double> &ns) {
			return ns ? fmt::format("{:.0f} us", *ns / 1000) : std::string("-");
		};

		std::string text = fmt::format("run {:>{}} of {}: {:<8} {:>9.1f} Mbit/s", p.run, std::to_string(p.runs).size(), p.runs,
					       run.cc, run.goodput_bps / 1e6);

		if (run.rtt_ns || !run.rr_ns)
			text += fmt::format(", median RTT {}, p99 {}", us(run.rtt_ns ? run.rtt_ns->p50 : std::nullopt),
					    us(run.rtt_ns ? run.rtt_ns->p99 : std::nullopt));
		if (run.rr_ns)
			text += fmt::format(", {:.0f} answers/s, median {}, p99 {}, p99.9 {}", run.rr_per_s, us(run.rr_ns->p50),
					    us(run.rr_ns->p99), us(run.rr_ns->p999));
		line(text + fmt::format(", {} retransmits", run.retransmits));
	}
	void failed(const AbProgress &p, const std::string &reason, bool again) override
	{
		line(fmt::format("run {:>{}} of {}: {:<8} failed: {}{}", p.run, std::to_string(p.runs).size(), p.runs,
				 p.turn->cc, reason, again ? "; once more" : "; left out"));
	}
	void clear()
	{
		if (shown_)
			show("");
		shown_ = false;
	}

private:
	void show(const std::string &text)
	{
		std::fprintf(stderr, "\r%s\x1b[K", text.c_str());
		std::fflush(stderr);
		shown_ = true;
	}
	void line(const std::string &text)
	{
		clear();
		std::fprintf(stderr, "%s\n", text.c_str());
	}

	bool live_;
	bool shown_ = false;
};

std::string now_text()
{
	const std::time_t now = std::time(nullptr);
	std::array<char, 32> text{};
	std::tm parts{};

	gmtime_r(&now, &parts);
	std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
	return text.data();
}

bool agreed()
{
	std::string answer;

	std::fprintf(stderr, "This sends traffic as fast as it goes. Start? [y/N] ");
	return std::getline(std::cin, answer) && (answer == "y" || answer == "Y" || answer == "yes");
}

int print_dry_run(const AbPlan &plan)
{
	std::string text = ab_plan_text(plan);
	unsigned block = 0;

	for (const AbTurn &turn : ab_order(plan)) {
		if (turn.block != block)
			text += fmt::format("# block {}\n", turn.block);
		block = turn.block;
		const auto add = [&](const AbLeg &leg, const std::vector<std::string> &command) {
			text += (leg.client.empty() ? "" : "ssh " + leg.client + " ") + shell_text(command) + "\n";
		};

		for (const AbLeg &leg : ab_legs(plan)) {
			if (plan.parallel > 0)
				add(leg, ab_iperf_command(plan, leg, turn.cc));
			if (plan.askers > 0)
				add(leg, ab_ask_command(plan, leg, turn.cc, "swiftctl"));
		}
	}
	return leave(text);
}

// Files that cannot be written are found now, not after an hour.
Result<void> check_files(const AbOptions &options)
{
	RETURN_IF_ERROR(as_usage(two_files("--json", options.json_file, "--html", options.html_file)));
	for (const std::string *path : {&options.json_file, &options.html_file})
		if (!path->empty())
			RETURN_IF_ERROR(can_write_report(*path));
	return {};
}

Result<int> finish(const AbOptions &options, const AbResult &result)
{
	const std::string json = ab_json(result);
	ASSIGN_OR_RETURN(const auto report, read_report("the result", json));

	if (!options.json_file.empty())
		RETURN_IF_ERROR(write_report(options.json_file, json));
	if (!options.html_file.empty())
		RETURN_IF_ERROR(write_report(options.html_file, report_html({report})));
	if (!print(report_text(report, standard_output())))
		return exit_failed;
	if (!result.complete)
		return Error{fmt::format("stopped after {} of {} runs{}", result.runs.size() + result.failed.size(),
					 result.plan.runs * result.plan.ccs.size(),
					 options.json_file.empty() ? "" : "; what there is, is in " + options.json_file)};
	if (result.runs.empty())
		return Error{"all runs failed: " + result.failed.back().reason};
	return exit_ok;
}

Result<int> serve(const AbPlan &plan)
{
	const StopSignals stop;

	RETURN_IF_ERROR(rr_serve(plan.rr_port, stop.set(), [](std::uint16_t port) {
		std::fprintf(stderr, "answering on port %u\n", static_cast<unsigned>(port));
	}));
	return exit_ok;
}

Result<int> ask(const AbPlan &plan)
{
	ASSIGN_OR_RETURN(const auto run, rr_ask(plan, plan.servers.front(), plan.ccs.front()));

	return leave(rr_json(run));
}

} // namespace

Result<int> run_ab(const AbOptions &options)
{
	std::random_device random;
	// 32 bits: somebody may have to type it.
	const std::uint64_t seed = random();

	if (!options.fleet.action.empty()) {
		FleetOptions fleet = options.fleet;

		if (!options.servers.empty())
			return usage_error("--fleet takes no SERVER: it runs no iperf3");
		fleet.seed = options.seed;
		fleet.json_file = options.json_file;
		return run_fleet_ab(fleet, seed, ab_verb);
	}
	ASSIGN_OR_RETURN(auto plan, as_usage(ab_plan(options, seed)));
	if (options.serve)
		return serve(plan);
	if (options.ask)
		return ask(plan);
	if (options.dry_run)
		return print_dry_run(plan);

	const bool can_ask = isatty(STDIN_FILENO) == 1 && isatty(STDERR_FILENO) == 1;

	if (!options.yes && !can_ask)
		return usage_error("it sends traffic as fast as it goes, and nobody is here to be asked: --yes starts it");
	RETURN_IF_ERROR(check_files(options));
	std::fputs(ab_plan_text(plan).c_str(), stderr);
	if (!options.yes && !agreed())
		return Error{"not started"};

	const StopSignals stop;
	const auto hosts = real_ab_hosts(stop.set());
	const auto wrong = ab_check(plan, *hosts);

	if (hosts->stopped())
		return Error{"stopped before the first run"};
	for (const std::string &text : wrong)
		note(ab_verb, text);
	if (!wrong.empty())
		return exit_failed;

	AbResult result;
	utsname host{};
	Progress screen(isatty(STDERR_FILENO) == 1);

	uname(&host);
	result.plan = std::move(plan);
	result.started = now_text();
	result.host = host.nodename;
	result.kernel = host.release;
	ab_run_all(result, *hosts, screen);
	screen.clear();
	return finish(options, result);
}

} // namespace swift
