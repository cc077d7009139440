// SPDX-License-Identifier: MIT
// What `swiftctl ab` asks of all hosts before the first run.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ab.h"
#include "process.h"
#include "text.h"

namespace swift {

namespace {

constexpr double command_s = 15; // longer than ssh takes to give up
constexpr double trial_s = 15;
constexpr int busy_tries = 10;
constexpr int refused_tries = 4;
constexpr double busy_pause_s = 0.5;
constexpr int ssh_failed = 255;

AbOutput run_one(AbHosts &hosts, const std::string &host, std::vector<std::string> argv, double timeout_s)
{
	return hosts.run({{host, std::move(argv)}}, timeout_s, {}).front();
}

std::string on(const std::string &client)
{
	return client.empty() ? "this host" : client;
}

std::string how_to_get(const std::string &cc)
{
	if (cc == "swift")
		return "swiftctl enable --no-default";
	if (cc.starts_with("bpf_"))
		return "swiftctl bpf load " + cc;
	return "modprobe tcp_" + cc;
}

// What is wrong with @client alone.
std::vector<std::string> check_client(const AbPlan &plan, AbHosts &hosts, const std::string &client)
{
	const bool bulk = plan.parallel > 0;
	const AbOutput version = run_one(hosts, client,
					 bulk ? std::vector<std::string>{"iperf3", "--version"} : std::vector<std::string>{"true"},
					 command_s);

	if (!client.empty() && (version.status == ssh_failed || version.end == AbOutput::End::too_late))
		return {fmt::format("{}: ssh does not get there without a question: {} (try: ssh -o BatchMode=yes {} true)",
				    client, version.complaint("no reason given"), client)};
	if (!client.empty() && version.status == status_not_found && version.err.empty() && version.out.empty())
		return {fmt::format("{}: ssh is not installed here (apt-get install openssh-client)", client)};
	if (version.status != 0 || version.end != AbOutput::End::exited)
		return {fmt::format("{}: iperf3 does not run: {} (apt-get install iperf3)", on(client),
				    version.complaint("not installed"))};

	const std::string ipv4 = "/proc/sys/net/ipv4/tcp_";
	const AbOutput said = run_one(hosts, client,
				      {"sh", "-c",
				       "id -u; cat " + ipv4 + "available_congestion_control " + ipv4 +
					       "allowed_congestion_control"},
				      command_s);
	const auto lines = split(said.out, '\n');

	if (said.status != 0 || lines.size() < 3)
		return {fmt::format("{}: cannot tell its congestion controls: {}", on(client),
				    said.complaint("no answer"))};

	const bool root = lines[0] == "0";
	const auto available = words(lines[1]);
	const auto allowed = words(lines[2]);
	const auto has = [](const std::vector<std::string> &list, const std::string &name) {
		return std::find(list.begin(), list.end(), name) != list.end();
	};
	std::vector<std::string> wrong;

	for (const std::string &cc : plan.ccs)
		if (!has(available, cc))
			wrong.push_back(fmt::format("{}: congestion control {} is not available (there: {}; to get it: {})",
						    on(client), cc, lines[1], how_to_get(cc)));
		else if (!root && !has(allowed, cc))
			wrong.push_back(fmt::format("{}: congestion control {} is for root only (sysctl -w "
						    "net.ipv4.tcp_allowed_congestion_control='{} {}')",
						    on(client), cc, lines[2], cc));
	return wrong;
}

// "" if a test of one byte works.
std::string try_leg(const AbPlan &plan, AbHosts &hosts, const AbLeg &leg, const std::string &cc)
{
	std::string error;

	for (int i = 0; i < busy_tries && !hosts.stopped(); i++) {
		const AbOutput said = run_one(hosts, leg.client, ab_trial_command(plan, leg, cc), trial_s);

		if (said.end != AbOutput::End::exited)
			return said.complaint("");
		const auto run = parse_iperf(said.out);

		if (run && run->cc == cc)
			return {};
		error = run ? fmt::format("asked for {}, got {}", cc, run->cc) :
			said.out.empty() ? said.complaint("iperf3 said nothing") :
					   run.error().text();
		// It may be our own last one, of which it is not rid yet; then it listens again.
		if (!iperf_busy(error) && !(iperf_not_listening(error) && i + 1 < refused_tries))
			break;
		hosts.pause(busy_pause_s);
	}
	return error;
}

// "" if a question of one byte is answered.
std::string try_asking(AbPlan plan, AbHosts &hosts, const AbLeg &leg, const std::string &cc)
{
	plan.askers = plan.ask_bytes = plan.answer_bytes = 1;
	plan.warmup_s = plan.duration_s = 0;
	plan.ask_anew = false;
	const AbOutput said = run_one(hosts, leg.client, ab_ask_command(plan, leg, cc, hosts.self()), trial_s);

	if (said.status == status_not_found)
		return "swiftctl is not installed there";
	if (said.end != AbOutput::End::exited || said.status != 0)
		return said.complaint("no answer");
	const auto run = parse_rr(said.out);

	return !run ? run.error().text() : run->cc == cc ? "" : fmt::format("asked for {}, got {}", cc, run->cc);
}

} // namespace

std::vector<std::string> ab_check(const AbPlan &plan, AbHosts &hosts)
{
	std::vector<std::string> wrong;
	std::set<std::string> unfit;

	for (std::size_t i = 0; i < plan.senders() && !hosts.stopped(); i++) {
		const std::string client = i ? plan.clients[i - 1] : "";

		for (std::string &line : check_client(plan, hosts, client)) {
			unfit.insert(client);
			wrong.push_back(std::move(line));
		}
	}
	for (const std::string &server : plan.server_ssh) {
		if (hosts.stopped())
			break;
		const AbOutput said = run_one(hosts, server, {"true"}, command_s);

		if (said.status != 0 || said.end != AbOutput::End::exited)
			wrong.push_back(fmt::format("{}: ssh does not get there without a question: {} (try: ssh -o "
						    "BatchMode=yes {} true)",
						    server, said.complaint("no reason given"), server));
	}
	for (const AbLeg &leg : ab_legs(plan)) {
		if (unfit.contains(leg.client))
			continue;
		for (const std::string &cc : plan.ccs) {
			if (hosts.stopped() || plan.askers == 0)
				break;
			if (const std::string error = try_asking(plan, hosts, leg, cc); !error.empty()) {
				wrong.push_back(fmt::format("{} port {}, from {}, with {}: {} (there: swiftctl ab --serve{})",
							    leg.server, plan.rr_port, on(leg.client), cc, error,
							    plan.rr_port == AbPlan().rr_port ?
								    "" :
								    fmt::format(" --rr-port {}", plan.rr_port)));
				break;
			}
		}
		for (const std::string &cc : plan.ccs) {
			if (plan.parallel == 0)
				break;
			if (hosts.stopped())
				return wrong;
			if (const std::string error = try_leg(plan, hosts, leg, cc); !error.empty()) {
				wrong.push_back(fmt::format("{} port {}, from {}, with {}: {} (there: iperf3 -s -p {})",
							    leg.server, leg.port, on(leg.client), cc, error,
							    leg.port));
				break;
			}
		}
	}
	return wrong;
}

} // namespace swift
