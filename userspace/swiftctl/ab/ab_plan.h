// SPDX-License-Identifier: MIT
// An A/B test before it starts: who sends to whom, in which order, by which commands. Pure
// functions; nothing is run here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "result.h"

namespace swift {

struct AbPlan {
	std::vector<std::string> servers;
	std::vector<std::string> clients; // beside this host, over ssh
	std::vector<std::string> server_ssh; // how to look into the servers, in their order
	std::vector<std::string> ccs;
	unsigned runs = 10; // of each congestion control
	unsigned parallel = 1; // flows of each client to each server; 0: questions alone
	unsigned askers = 0; // connections of each client to each server that ask and wait
	std::uint32_t ask_bytes = 1;
	std::uint32_t answer_bytes = 1;
	bool ask_anew = false; // each question over a connection of its own
	unsigned ask_every_ms = 0; // of a connection, on average; 0: as soon as the answer has come
	std::uint16_t rr_port = 5200; // of the servers' `swiftctl ab --serve`
	unsigned looks = 1; // at the result: it may end at one of them
	unsigned duration_s = 10;
	unsigned warmup_s = 2;
	std::uint16_t port = 5201; // of the first client's servers; one more for each further one
	std::optional<unsigned> dscp;
	std::uint64_t seed = 0;
	bool reverse = false;

	[[nodiscard]] std::size_t senders() const { return clients.size() + 1; } // client hosts
	[[nodiscard]] std::size_t flows() const { return senders() * servers.size() * parallel; }
	[[nodiscard]] unsigned run_seconds() const { return warmup_s + flows_s(); }
	// Beside questions a second more: those that begin later than the flows end no later.
	[[nodiscard]] unsigned flows_s() const { return duration_s + (askers > 0 && parallel > 0 ? 1 : 0); }
};

// One client's iperf3 to one server.
struct AbLeg {
	std::string client; // empty: this host
	std::string server;
	std::uint16_t port = 0;

	[[nodiscard]] std::string client_text() const { return client.empty() ? "this host" : client; }
};

struct AbTurn {
	unsigned block = 0; // from 1; has every congestion control once
	std::string cc;
};

[[nodiscard]] std::vector<AbLeg> ab_legs(const AbPlan &plan);
// Randomised complete blocks.
[[nodiscard]] std::vector<AbTurn> ab_order(const AbPlan &plan);
[[nodiscard]] std::vector<std::string> ab_iperf_command(const AbPlan &plan, const AbLeg &leg,
						       const std::string &cc);
// The shortest test that has all that a real one needs: client, server, congestion control.
[[nodiscard]] std::vector<std::string> ab_trial_command(const AbPlan &plan, const AbLeg &leg,
						       const std::string &cc);

// @self: this program, where it asks from this host.
[[nodiscard]] std::vector<std::string> ab_ask_command(const AbPlan &plan, const AbLeg &leg, const std::string &cc,
						     const std::string &self);
// After how many blocks it is looked at, ascending; the last is the end.
[[nodiscard]] std::vector<unsigned> ab_looks(const AbPlan &plan);

// One command line for a shell.
[[nodiscard]] std::string shell_text(const std::vector<std::string> &argv);
// @argv on @host, without ever asking for a password; there it ends when ssh does.
[[nodiscard]] std::vector<std::string> ssh_command(const std::string &host,
						  const std::vector<std::string> &argv);

// A name that goes into commands: nothing that looks like an option, nothing for a shell.
Result<void> check_cc_name(const std::string &name);

} // namespace swift
