// SPDX-License-Identifier: MIT
// The words of `swiftctl probe`: options, actions, help.
#include <CLI/CLI.hpp>

#include "probe.h"

namespace swift {

namespace {

constexpr const char *probe_footer =
	"Columns, in us: fabric = RTT between the NICs, without both hosts; remote = in the target's\n"
	"host; tx = from send() to the wire, of that qdisc and nic; rx = from the wire to us; stamps =\n"
	"here/at the target (hw, sw): with sw a host's driver and NIC count as fabric.\n"
	"Exit status 1 if a target never answered.\n"
	"\n"
	"Examples:\n"
	"  swiftctl probe --respond                     on the other hosts\n"
	"  swiftctl probe 10.0.0.2 [fd00::3]:21335      1000 probes each, 10 ms apart\n"
	"  swiftctl probe --targets hosts.txt --watch 5 --json | jq .targets[].fabric_rtt_ns.p99";

} // namespace

void add_options(CLI::App &verb, ProbeOptions &o)
{
	verb.footer(probe_footer);
	verb.add_option("target", o.targets, "HOST, HOST:PORT, [ADDRESS]:PORT; repeatable")
		->type_name("");
	verb.add_option("--targets", o.targets_file, "More of them, one a line of FILE; # begins a comment")
		->type_name("FILE");
	verb.add_option("--count", o.count, "Probes to each target (1000)")->type_name("N");
	verb.add_option("--interval", o.interval_ms, "Between two to one target (10)")->type_name("MS");
	verb.add_option("--timeout", o.timeout_ms, "Lost if not answered within (1000)")->type_name("MS");
	verb.add_option("--size", o.size, "Of the UDP payload, both ways (72)")->type_name("BYTES");
	verb.add_option("--dscp", o.dscp, "Class of probes and replies (0)")->type_name("N");
	verb.add_option("--iface", o.iface, "Through DEV only")->type_name("DEV");
	verb.add_flag("--stamp", o.stamp, "Make DEV stamp all packets meanwhile; needs root");
	add_watch(verb, o.watch);
	add_wide(verb, o.wide);
	add_json(verb, o.json, json_lines_help);
	verb.add_flag("--respond", o.respond, "Answer probes instead; needs no root");
	verb.add_option("--bind", o.bind, "With --respond: on this address only")->type_name("ADDR");
	verb.add_option("--port", o.port, "With --respond: on this port (21335)")->type_name("N");
	verb.add_option("--key-file", o.key_file, "Sign with the key in FILE, believe no others; both ends")->type_name("FILE");
}

const Verb probe_verb = {"probe", "RTT of the fabric alone, between NICs", add_verb<ProbeOptions, run_probe>};

} // namespace swift
