// SPDX-License-Identifier: MIT
// The words of `swiftctl delays`: options, actions, help.
#include <CLI/CLI.hpp>

#include "delays.h"

namespace swift {

namespace {

constexpr const char *delays_footer =
	"Columns: samples = window decisions; fabric, remote, local, target, rtt, tx, nic = p50/p90/p99 of\n"
	"the delay in the network, in the peer's host, in ours, of what fabric is steered to, of the whole,\n"
	"of packets between TCP and the driver, and from there until it lets go of them; window = its\n"
	"median, in packets; cuts = decisions that cut the window for the fabric/for the hosts; lost =\n"
	"packets. See Documentation/delays.md.\n"
	"\n"
	"Examples:\n"
	"  swiftctl bpf load telemetry\n"
	"  swiftctl delays --interval 10 --hist\n"
	"  swiftctl delays --by flow --dst 10.1.0.0/16 --json | jq .flows[].fabric_ns.p99";

} // namespace

void add_options(CLI::App &verb, DelaysOptions &o)
{
	verb.footer(delays_footer);
	verb.add_option("--by", o.by, "A line for each: prefix (the default), flow")->type_name("WHAT");
	verb.add_option("--dst", o.dst, "To these destinations only; repeatable")
		->type_name("CIDR")
		->allow_extra_args(false);
	verb.add_option("--interval", o.interval, "Of so many seconds from now, not of all time")
		->type_name("SECONDS");
	add_netns(verb, o.netns);
	verb.add_flag("--all-netns", o.all_netns, "In all network namespaces, each by itself");
	verb.add_flag("--hist", o.hist, "Histograms, too");
	add_wide(verb, o.wide);
	add_json(verb, o.json, "JSON: all of it, prefixes and flows");
}

const Verb delays_verb = {"delays", "How delays are spread, by prefix or flow", add_verb<DelaysOptions, run_delays>};

} // namespace swift
