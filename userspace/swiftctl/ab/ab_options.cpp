// SPDX-License-Identifier: MIT
// The words of `swiftctl ab`: options, actions, help.
#include <CLI/CLI.hpp>

#include "ab.h"

namespace swift {

namespace {

constexpr const char *ab_footer =
	"Each round runs every congestion control once, in random order. With further clients, each\n"
	"has a port of its own at every server: iperf3 -s -p 5201, -p 5202, ... See Documentation/ab.md.\n"
	"\n"
	"Examples:\n"
	"  swiftctl ab 10.0.0.2 --cc swift,cubic --dry-run\n"
	"  swiftctl ab 10.0.0.2 --client c2 --client c3 --parallel 8 --json ab.json --html ab.html\n"
	"  swiftctl ab 10.0.0.2 --rr 8 --rr-bytes 100,64000\n"
	"  swiftctl ab --fleet plan --inventory hosts.yml \\\n"
	"    --arm 'dctcp=sysctl -w net.ipv4.tcp_congestion_control=dctcp' \\\n"
	"    --arm 'swift=sysctl -w net.ipv4.tcp_congestion_control=swift' \\\n"
	"    --prometheus http://127.0.0.1:9090\n"
	"  swiftctl ab --fleet read --plan experiment/plan.json --prometheus http://127.0.0.1:9090";

} // namespace

void add_options(CLI::App &verb, AbOptions &o)
{
	verb.footer(ab_footer);
	verb.add_option("server", o.servers, "Where `iperf3 -s` runs; repeatable")->type_name("");
	verb.add_option("--cc", o.cc, "Congestion controls (swift,dctcp,cubic)")->type_name("NAME,...");
	verb.add_option("--runs", o.runs, "Of each: 1 to 200 (10)")->type_name("N");
	verb.add_option("--parallel", o.parallel, "Flows of each client to each server; 0: --rr alone (1)")->type_name("N");
	verb.add_option("--duration", o.duration, "Of a run, after the warm-up (10)")->type_name("SECONDS");
	verb.add_option("--warmup", o.warmup, "Left out of every run: 0 to 60 (2)")->type_name("SECONDS");
	verb.add_option("--port", o.port, "Of the servers (5201)")->type_name("PORT");
	verb.add_option("--client", o.clients, "A further client, over ssh; repeatable")
		->type_name("HOST")
		->allow_extra_args(false);
	verb.add_option("--server-ssh", o.server_ssh, "To see a server's side; for each SERVER")
		->type_name("HOST")
		->allow_extra_args(false);
	verb.add_flag("--reverse", o.reverse, "The servers send");
	verb.add_option("--rr", o.rr, "Connections of each client to each server that ask and wait (0)")->type_name("N");
	verb.add_option("--rr-bytes", o.rr_bytes, "Of a question and its answer (1,1)")->type_name("N,N");
	verb.add_flag("--rr-new", o.rr_new, "Each question over a new connection: completion times of flows");
	verb.add_option("--rr-every", o.rr_every,
			"From question to question, on average (5); 0: as netperf (0 alone)")
		->type_name("MS");
	verb.add_option("--rr-port", o.rr_port, "Of `swiftctl ab --serve` on the servers (5200)")->type_name("PORT");
	verb.add_flag("--serve", o.serve, "Answer the questions of --rr, until told to stop");
	verb.add_option("--looks", o.looks, "Stop at the first of so many looks at which any two differ: 1 to 10 (1)")
		->type_name("N");
	verb.add_flag("--ask", o.ask, "")->group(""); // what a run starts on its clients
	verb.add_option("--dscp", o.dscp, "Class of the traffic: 0 to 63")->type_name("N");
	verb.add_option("--seed", o.seed, "Of the order (random, and in the result)")->type_name("N");
	verb.add_option("--json", o.json_file, "Write the result")->type_name("FILE");
	verb.add_option("--html", o.html_file, "Write the report as a page")->type_name("FILE");
	verb.add_flag("--dry-run", o.dry_run, "Print the commands instead");
	verb.add_flag("--yes", o.yes, "Start without asking");
	add_fleet_options(verb, o.fleet);
}

const Verb ab_verb = {"ab", "Compare congestion controls by real runs", add_verb<AbOptions, run_ab>};

} // namespace swift
