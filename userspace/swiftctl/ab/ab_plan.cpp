// SPDX-License-Identifier: MIT
#include "ab_plan.h"

#include <algorithm>

#include "statistics.h"
#include "text.h"

namespace swift {

namespace {

constexpr std::size_t cc_name_max = 15; // TCP_CA_NAME_MAX, without the final 0
constexpr double samples_max = 20000; // of one run: iperf3 keeps them all in memory

// Between two samples of the RTT: as dense as iperf3 has it, unless there are very many.
std::string interval_s(const AbPlan &plan)
{
	const double tenths = std::clamp(plan.run_seconds() * 10.0 * plan.parallel / samples_max, 1.0, 600.0);
	const auto whole = static_cast<unsigned>(tenths);

	return std::to_string(whole / 10) + "." + std::to_string(whole % 10);
}

std::vector<std::string> iperf(const AbPlan &plan, const AbLeg &leg, const std::string &cc)
{
	std::vector<std::string> argv = {"iperf3", "--json", "--connect-timeout", "5000",
					 "-c",	   leg.server, "-p", std::to_string(leg.port),
					 "-C",	   cc};

	if (plan.reverse)
		argv.emplace_back("-R");
	if (plan.dscp)
		argv.insert(argv.end(), {"--dscp", std::to_string(*plan.dscp)});
	return argv;
}

} // namespace

std::vector<AbLeg> ab_legs(const AbPlan &plan)
{
	std::vector<AbLeg> legs;

	for (std::size_t i = 0; i < plan.senders(); i++)
		for (const std::string &server : plan.servers)
			legs.push_back({i ? plan.clients[i - 1] : "", server,
					static_cast<std::uint16_t>(plan.port + i)});
	return legs;
}

std::vector<AbTurn> ab_order(const AbPlan &plan)
{
	Shuffler shuffler(plan.seed);
	std::vector<AbTurn> order;

	for (unsigned block = 1; block <= plan.runs; block++) {
		std::vector<std::string> ccs = plan.ccs;

		shuffler.shuffle(ccs);
		for (const std::string &cc : ccs)
			order.push_back({block, cc});
	}
	return order;
}

std::vector<std::string> ab_iperf_command(const AbPlan &plan, const AbLeg &leg, const std::string &cc)
{
	std::vector<std::string> argv = iperf(plan, leg, cc);

	argv.insert(argv.end(), {"-P", std::to_string(plan.parallel), "-t", std::to_string(plan.flows_s()),
				 "-O", std::to_string(plan.warmup_s), "-i", interval_s(plan)});
	return argv;
}

std::vector<std::string> ab_trial_command(const AbPlan &plan, const AbLeg &leg, const std::string &cc)
{
	std::vector<std::string> argv = iperf(plan, leg, cc);

	argv.insert(argv.end(), {"-n", "1"});
	return argv;
}

std::vector<std::string> ab_ask_command(const AbPlan &plan, const AbLeg &leg, const std::string &cc, const std::string &self)
{
	std::vector<std::string> argv = {leg.client.empty() ? self : "swiftctl",
					 "ab",
					 leg.server,
					 "--ask",
					 "--cc",
					 cc,
					 "--rr",
					 std::to_string(plan.askers),
					 "--rr-bytes",
					 std::to_string(plan.ask_bytes) + "," + std::to_string(plan.answer_bytes),
					 "--rr-port",
					 std::to_string(plan.rr_port),
					 "--duration",
					 std::to_string(plan.duration_s),
					 "--warmup",
					 std::to_string(plan.warmup_s)};

	if (plan.ask_anew)
		argv.emplace_back("--rr-new");
	if (plan.ask_every_ms > 0)
		argv.insert(argv.end(), {"--rr-every", std::to_string(plan.ask_every_ms)});
	if (plan.dscp)
		argv.insert(argv.end(), {"--dscp", std::to_string(*plan.dscp)});
	return argv;
}

std::vector<unsigned> ab_looks(const AbPlan &plan)
{
	std::vector<unsigned> after;

	for (unsigned k = 1; k <= plan.looks; k++)
		if (const unsigned n = (plan.runs * k + plan.looks - 1) / plan.looks; after.empty() || n > after.back())
			after.push_back(n);
	return after;
}

std::string shell_text(const std::vector<std::string> &argv)
{
	std::string text;

	for (const std::string &word : argv) {
		text += text.empty() ? "" : " ";
		if (!word.empty() && all_plain(word, "-_.,:=/@%+[]")) {
			text += word;
			continue;
		}
		text += '\'';
		for (const char c : word)
			text += c == '\'' ? std::string("'\\''") : std::string(1, c);
		text += '\'';
	}
	return text;
}

std::vector<std::string> ssh_command(const std::string &host, const std::vector<std::string> &argv)
{
	// ssh takes no signal to the other side, but it closes its standard input: there a
	// reader waits for that, and ends the command. swiftctl is in an sbin.
	const std::string there =
		"PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin; exec 3<&0; " + shell_text(argv) +
		" 3<&- </dev/null & p=$!; (read x <&3; kill $p) >/dev/null 2>&1 & w=$!; "
		"exec 3<&-; wait $p; s=$?; kill $w 2>/dev/null; exit $s";

	return {"ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5", "-o", "ServerAliveInterval=5", "--", host,
		"exec sh -c " + shell_text({there})};
}

Result<void> check_cc_name(const std::string &name)
{
	if (name.empty() || name.size() > cc_name_max || name.starts_with('-') || !all_plain(name, "-_"))
		return Error{"--cc", name, "names of congestion controls, separated by commas"};
	return {};
}

} // namespace swift
