// SPDX-License-Identifier: MIT
// The words of `swiftctl bpf`: options, actions, help.
#include <CLI/CLI.hpp>

#include "bpf.h"

namespace swift {

namespace {

constexpr const char *bpf_footer =
	"Columns: registered = link (a pin holds it, and swap is atomic; kernel 6.4), plain (until it is\n"
	"unloaded) or no; insns, verified = instructions of its programs, and how many the verifier\n"
	"went through. See Documentation/bpf.md.\n"
	"\n"
	"Examples:\n"
	"  swiftctl bpf load bpf_swift --set base_target_ns=60000 --default\n"
	"  swiftctl bpf set bpf_swift ai_milli=500\n"
	"  swiftctl bpf set bpf_swift --prefix 10.1.0.0/16 base_target_ns=120000\n"
	"  swiftctl bpf load telemetry           count delays and decisions: see swiftctl delays\n"
	"  swiftctl bpf unload bpf_swift";

constexpr const char *bpf_load_footer =
	"All or nothing. What is loaded stays when swiftctl ends: /sys/fs/bpf/tcp_swift/NAME holds it.\n"
	"The programs on the cgroup run beside those that others have attached.\n"
	"\n"
	"Examples:\n"
	"  swiftctl bpf load bpf_swift --dry-run\n"
	"  swiftctl bpf load bpf_swift --object ./bpf_swift.bpf.o --cgroup /sys/fs/cgroup/web.slice";

constexpr const char *bpf_set_footer =
	"Acts on running flows. A profile is for flows to a prefix, the longest that matches; a new one\n"
	"begins as a copy of what all others have.\n"
	"\n"
	"Examples:\n"
	"  swiftctl bpf set bpf_swift target_policy=static base_target_ns=40000\n"
	"  swiftctl bpf set bpf_swift --prefix fd00:1::/32 base_target_ns=120000\n"
	"  swiftctl bpf set bpf_swift --prefix fd00:1::/32 --delete";

} // namespace

void add_options(CLI::App &verb, BpfOptions &o)
{
	using Action = BpfOptions::Action;

	verb.footer(bpf_footer);
	verb.require_subcommand(0, 1);
	add_json(verb, o.json);

	CLI::App *load = verb.add_subcommand("load", "Load a congestion control and register it");
	CLI::App *unload = verb.add_subcommand("unload", "Unregister it; flows that use it go on");
	CLI::App *list = verb.add_subcommand("list", "What is loaded, and what could be (default)");
	CLI::App *set = verb.add_subcommand("set", "Change tunables, for all flows or for a prefix");
	CLI::App *get = verb.add_subcommand("get", "Show tunables and profiles");
	CLI::App *swap = verb.add_subcommand("swap", "Replace its programs, keep its settings");

	for (CLI::App *action : {load, unload, set, get, swap})
		action->add_option("name", o.name, "As flows will know it: bpf_swift, bpf_timely, ...; or telemetry")
			->type_name("")
			->required();
	for (CLI::App *action : {load, swap}) {
		action->add_option("--object", o.object, "Instead of the one that is built in")->type_name("FILE");
		action->add_flag("--verbose", o.verbose, "All that the verifier says of a program it refuses");
	}
	load->footer(bpf_load_footer);
	load->add_option("--set", o.set, "Begin with TUNABLE=VALUE; repeatable")
		->type_name("TUNABLE=VALUE")
		->allow_extra_args(false);
	load->add_option("--cgroup", o.cgroup, "Attach the echo to PATH (the root of cgroup2)")
		->type_name("PATH");
	load->add_flag("--no-echo", o.no_echo, "Without the delay echo");
	load->add_flag("--default", o.make_default, "Make it the default of new connections");
	load->add_flag("--plain", o.plain, "Register without a link, as kernels before 6.4 do");
	set->footer(bpf_set_footer);
	set->add_option("values", o.set, "TUNABLE=VALUE; repeatable")->type_name("");
	set->add_option("--prefix", o.prefix, "For flows to PREFIX only")->type_name("PREFIX");
	set->add_flag("--delete", o.erase, "Delete the profile of --prefix");
	get->add_option("tunables", o.set, "These only")->type_name("");
	load->add_option("--prefix", o.telemetry.prefixes, "telemetry: count this destination prefix as it is; repeatable")
		->type_name("CIDR")
		->allow_extra_args(false);
	load->add_option("--v4-len", o.telemetry.v4_len, "telemetry: length of all other IPv4 prefixes (24)")
		->type_name("N");
	load->add_option("--v6-len", o.telemetry.v6_len, "telemetry: and of IPv6 prefixes (64)")->type_name("N");
	load->add_option("--flows", o.telemetry.max_flows, "telemetry: flows that are remembered (16384)")
		->type_name("N");
	load->add_option("--prefixes", o.telemetry.max_prefixes, "telemetry: prefixes, by congestion control (256)")
		->type_name("N");
	load->add_option("--tx", o.telemetry.tx_one_in, "telemetry: time one packet in N from TCP to the driver and the NIC")
		->type_name("N");
	unload->add_flag("--module-only", o.module_only, "telemetry: let go of the module, keep the rest");
	for (CLI::App *action : {load, unload, swap, set})
		action->add_flag("--dry-run", o.dry_run, "Say what would be done instead");
	for (CLI::App *action : {load, unload, list, set, get, swap})
		add_json(*action, o.json);

	load->callback([&o] { o.action = Action::load; });
	unload->callback([&o] { o.action = Action::unload; });
	set->callback([&o] { o.action = Action::set; });
	get->callback([&o] { o.action = Action::get; });
	swap->callback([&o] { o.action = Action::swap; });
}

const Verb bpf_verb = {"bpf", "Congestion controls in BPF: load, tune, swap them", add_verb<BpfOptions, run_bpf>};

} // namespace swift
