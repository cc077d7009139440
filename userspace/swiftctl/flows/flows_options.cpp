// SPDX-License-Identifier: MIT
// The words of `swiftctl flows`: options, actions, help.
#include <CLI/CLI.hpp>

#include "flows.h"

namespace swift {

namespace {

constexpr const char *flows_footer =
	"Columns: window = min(fabric window, host window) in packets, limit = which of the two it is;\n"
	"held_by = who holds the flow back, in its whole life or, with --watch, since the look before:\n"
	"fabric, host, both (mixed), the application (sends all it has), the receiver's window, the send\n"
	"buffer, its receiver's credit, this host's link (own_link: receivers lend it less); credit = what is\n"
	"lent: enough, or it waits, or waits since this host's link is congested; fabric, host = the parts of\n"
	"the RTT; target = what fabric is steered to; stamps = receive stamps here/of the peer (hw, sw,\n"
	"none); cc if there is more than one; netns = the network namespace; owner = the pod, container, unit\n"
	"or control group whose socket it is. Of bpf_timely and bpf_gcn: TCP's srtt, rate, cwnd.\n"
	"\n"
	"Examples:\n"
	"  swiftctl flows --sort fabric:desc --top 10\n"
	"  swiftctl flows --dst 10.1.0.0/16 --dport 443 --held-by host\n"
	"  swiftctl flows --all-netns --processes\n"
	"  swiftctl flows --watch 0.5 --json | jq .flows[].fabric_ns";

} // namespace

void add_options(CLI::App &verb, FlowsOptions &o)
{
	verb.footer(flows_footer);
	verb.add_option("--src", o.src, "Local address or prefix; repeated: any of them")
		->type_name("PREFIX")
		->allow_extra_args(false);
	verb.add_option("--dst", o.dst, "Remote address or prefix")
		->type_name("PREFIX")
		->allow_extra_args(false);
	verb.add_option("--sport", o.sport, "Local port")->type_name("PORT")->allow_extra_args(false);
	verb.add_option("--dport", o.dport, "Remote port")->type_name("PORT")->allow_extra_args(false);
	verb.add_option("--min-fabric-us", o.min_fabric_us, "At least this fabric delay")
		->type_name("N");
	verb.add_option("--limit-by", o.limit_by, "With this window the smaller: fabric, host")->type_name("WINDOW");
	verb.add_option("--held-by", o.held_by, "Held back by fabric, host, mixed, application, receiver, send_buffer,\ncredit, own_link")
		->type_name("WHO");
	verb.add_option("--sort", o.sort, "By a column; with :desc, downwards")
		->type_name("COLUMN[:desc]");
	verb.add_option("--top", o.top, "The first N only")->type_name("N");
	add_watch(verb, o.watch);
	add_netns(verb, o.netns);
	verb.add_flag("--all-netns", o.all_netns, "Of all network namespaces of this host");
	verb.add_flag("--processes", o.processes, "Which process has each flow's socket open");
	verb.add_flag("--all", o.all, "Flows of every congestion control, guarded ones (too long an RTT) too");
	add_wide(verb, o.wide);
	add_json(verb, o.json, json_lines_help);
	add_root(verb, o.root);
	verb.add_option("--dump", o.dump)->group("");
}

const Verb flows_verb = {"flows", "Flows that run swift, and their delays", add_verb<FlowsOptions, run_flows>};

} // namespace swift
