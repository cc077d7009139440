// SPDX-License-Identifier: MIT
// The only file that knows CLI11, but for manual.cpp, which walks what is built here.
#include "cli.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <utility>

#include "manual.h"
#include "say.h"

namespace swift {

namespace {

constexpr const char *examples =
	"Examples:\n"
	"  swiftctl enable --iface eth0      load swift, make it the default, fq on eth0\n"
	"  swiftctl flows --watch            where each flow's delay comes from, every second\n"
	"  swiftctl doctor --peer 10.0.0.2   is this host fit for it?\n"
	"  swiftctl disable                  put everything back\n"
	"\n"
	"swiftctl VERB --help says more. Exit status: 0 done, 1 failed, 2 wrong usage.";

constexpr const char *flows_footer =
	"Columns: window = min(fabric window, host window) in packets, limit = which of the two it\n"
	"is; fabric, host = the two parts of the RTT; target = what fabric is steered to; stamps =\n"
	"receive stamps here/echoed by the peer (hw, sw, none); cc if there is more than one. Flows of\n"
	"bpf_timely and bpf_gcn have what TCP has: srtt, rate, cwnd.\n"
	"\n"
	"Examples:\n"
	"  swiftctl flows --sort fabric:desc --top 10\n"
	"  swiftctl flows --dst 10.1.0.0/16 --dport 443 --limit-by host\n"
	"  swiftctl flows --watch 0.5 --json | jq .flows[].fabric_ns";

constexpr const char *enable_footer =
	"Every value is remembered before it is changed (/run/tcp_swift/enable.json), and a failure\n"
	"half-way puts everything back.\n"
	"\n"
	"Examples:\n"
	"  swiftctl enable --dry-run --iface eth0\n"
	"  swiftctl enable --no-default --qdisc keep --set base_target_ns=60000\n"
	"  swiftctl enable --module ./tcp_swift.ko --echo";

constexpr const char *disable_footer =
	"A value that somebody else has changed meanwhile is left alone and reported.";

constexpr const char *doctor_footer =
	"Exit status 1 if a finding is a failure.\n"
	"\n"
	"Examples:\n"
	"  swiftctl doctor --iface eth0 --peer 10.0.0.2:443\n"
	"  swiftctl doctor --target-ns 25000 --json";

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

constexpr const char *ab_footer =
	"Each round runs every congestion control once, in random order. With further clients, each\n"
	"has a port of its own at every server: iperf3 -s -p 5201, -p 5202, ... See Documentation/ab.md.\n"
	"\n"
	"Examples:\n"
	"  swiftctl ab 10.0.0.2 --cc swift,cubic --dry-run\n"
	"  swiftctl ab 10.0.0.2 --client c2 --client c3 --parallel 8 --json ab.json --html ab.html";

constexpr const char *report_footer =
	"Reads what `swiftctl ab`, `scripts/lab run` and the demo write with --json.\n"
	"\n"
	"Examples:\n"
	"  swiftctl report ab.json\n"
	"  swiftctl report monday.json tuesday.json --html both.html";

constexpr const char *delays_footer =
	"Columns: samples = window decisions; fabric, remote, local, target, rtt, tx, nic = p50/p90/p99 of the\n"
	"delay in the network, in the peer's host, in ours, of what fabric is steered to, of the whole,\n"
	"of packets between TCP and the driver, and from there until it lets go of them; window = its\n"
	"median, in packets; cuts = decisions that cut the window for the fabric/for the hosts; lost =\n"
	"packets. See Documentation/delays.md.\n"
	"\n"
	"Examples:\n"
	"  swiftctl bpf load telemetry\n"
	"  swiftctl delays --interval 10 --hist\n"
	"  swiftctl delays --by flow --dst 10.1.0.0/16 --json | jq .flows[].fabric_ns.p99";

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

constexpr const char *top_footer =
	"A bar is the fabric's delay (=) and the hosts' (#) on one scale with the fabric's target (|), at\n"
	"two thirds; it ends in > where there is more. Keys: q quit, s sort, f filter, arrows and pages,\n"
	"space stand still, ? help.\n"
	"\n"
	"Examples:\n"
	"  swiftctl top --all --sort rate           every TCP flow of this host\n"
	"  swiftctl top --filter 10.1. --interval 0.5\n"
	"  swiftctl top --once                      one interval, as text";

constexpr const char *tune_footer =
	"Each value is compared with the one before it in turns, so that demand which changes by itself\n"
	"misleads nobody; a step that costs throughput is taken back. What it ends with stays; a tuning\n"
	"that was killed is put right by the next one. Tune one host of a rack and give all the result:\n"
	"hosts that tune against each other would compete. See Documentation/tune.md.\n"
	"\n"
	"Examples:\n"
	"  swiftctl tune                            what the paths suggest\n"
	"  swiftctl tune --apply --min-us 20 --max-us 200\n"
	"  swiftctl tune --bpf bpf_swift --dst 10.1.0.0/16 --apply\n"
	"  swiftctl tune --undo";

constexpr const char *clock_footer =
	"Columns: stamps = which packets the NIC stamps; line = from its clock to the host's, as the\n"
	"module has it, or else a BPF variant; offset = NIC minus wall clock; drift above 0 = the\n"
	"NIC's clock is the faster one; used, stale, future, old = stamps that the module converted,\n"
	"or not, because the line was too old or the time impossible. See Documentation/clocks.md.\n"
	"\n"
	"Examples:\n"
	"  swiftctl clock run --dry-run          what would be changed\n"
	"  swiftctl clock run                    feed the clocks of all NICs that can, until stopped\n"
	"  swiftctl clock --watch                how they do";

constexpr const char *clock_run_footer =
	"Turns hardware stamping of all packets on, and back at the end (SIGTERM, SIGINT). After a\n"
	"SIGKILL the next run or `swiftctl clock restore` puts it back (/run/tcp_swift/clock-*.json).";

// CLI11's own group of options that --help does not show.
constexpr const char *hidden = "";

class Usage : public CLI::Formatter {
public:
	std::string make_usage(const CLI::App *app, std::string) const override
	{
		std::string words;

		if (app->get_name() == "swiftctl")
			return "Usage: swiftctl VERB [OPTIONS]\n";
		for (const CLI::App *a = app; a->get_parent(); a = a->get_parent())
			words = " " + a->get_name() + words;
		if (!app->get_subcommands([](const CLI::App *) { return true; }).empty())
			words += " [ACTION]";
		return "Usage: swiftctl" + words + " [OPTIONS]\n";
	}
	// Releases of CLI11 differ in the empty lines around the footer.
	std::string make_footer(const CLI::App *) const override
	{
		return "";
	}
	std::string make_help(const CLI::App *app, std::string name, CLI::AppFormatMode mode) const override
	{
		std::string text = CLI::Formatter::make_help(app, std::move(name), mode);

		if (mode == CLI::AppFormatMode::Sub)
			return text;
		text.erase(text.find_last_not_of('\n') + 1);
		return text + "\n\n" + app->get_footer() + "\n";
	}
	// Types and counts are in the option's own words.
	std::string make_option_opts(const CLI::Option *option) const override
	{
		return option->get_type_size() != 0 && !option->get_type_name().empty() ?
			       " " + option->get_type_name() :
			       "";
	}
};

void add_flows(CLI::App &verb, FlowsOptions &o)
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
	verb.add_option("--limit-by", o.limit_by, "Limited by: fabric, host")->type_name("WINDOW");
	verb.add_option("--sort", o.sort, "By a column; with :desc, downwards")
		->type_name("COLUMN[:desc]");
	verb.add_option("--top", o.top, "The first N only")->type_name("N");
	verb.add_option("--watch", o.watch, "Again and again, each second or SECONDS")
		->type_name("[SECONDS]")
		->expected(0, 1)
		->default_str("1");
	verb.add_option("--netns", o.netns, "In the network namespace NAME")->type_name("NAME");
	verb.add_flag("--all", o.all, "Guarded flows too (too long an RTT: they run Reno)");
	verb.add_flag("--wide", o.wide, "All columns, however narrow the terminal");
	verb.add_flag("--json", o.json, "JSON; with --watch one object per line");
	verb.add_option("--root", o.root)->group(hidden);
	verb.add_option("--dump", o.dump)->group(hidden);
}

void add_enable(CLI::App &verb, EnableOptions &o)
{
	verb.footer(enable_footer);
	verb.add_flag("--no-default", o.no_default, "Only allow swift: sockets have to ask for it")
		->excludes(verb.add_flag("--default", o.default_too, "Make swift the default (so it is)"));
	verb.add_option("--qdisc", o.qdisc, "Default queueing discipline: fq (the default), keep")
		->type_name("KIND");
	verb.add_option("--iface", o.ifaces, "Also replace the root qdisc of DEV; repeatable")
		->type_name("DEV");
	verb.add_flag("--echo", o.echo, "Negotiate the delay echo; both ends need it");
	verb.add_option("--set", o.set, "Set net.ipv4.tcp_swift.NAME; repeatable")
		->type_name("NAME=VALUE");
	verb.add_option("--module", o.module_file, "Load this file instead of the installed module")
		->type_name("FILE");
	verb.add_flag("--persist", o.persist, "After a reboot too (/etc/sysctl.d, /etc/modules-load.d)");
	verb.add_flag("--dry-run", o.dry_run, "Print the commands instead; needs no root");
	verb.add_flag("--json", o.json, "JSON");
	verb.add_option("--root", o.root)->group(hidden);
}

void add_disable(CLI::App &verb, DisableOptions &o)
{
	verb.footer(disable_footer);
	verb.add_flag("--force", o.force, "Put back also what somebody else has changed meanwhile");
	verb.add_flag("--dry-run", o.dry_run, "Print the commands instead");
	verb.add_flag("--json", o.json, "JSON");
	verb.add_option("--root", o.root)->group(hidden);
}

void add_doctor(CLI::App &verb, DoctorOptions &o)
{
	verb.footer(doctor_footer);
	verb.add_option("--iface", o.ifaces, "Look at DEV only; repeatable")->type_name("DEV");
	verb.add_option("--peer", o.peer, "Measure the idle RTT to ADDR (port 22 unless given)")
		->type_name("ADDR[:PORT]");
	verb.add_option("--target-ns", o.target_ns, "Judge this static target instead of the host's")
		->type_name("N");
	verb.add_flag("--json", o.json, "JSON");
	verb.add_option("--root", o.root)->group(hidden);
}

void add_probe(CLI::App &verb, ProbeOptions &o)
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
	verb.add_option("--watch", o.watch, "Again and again, each second or SECONDS")
		->type_name("[SECONDS]")
		->expected(0, 1)
		->default_str("1");
	verb.add_flag("--wide", o.wide, "All columns, however narrow the terminal");
	verb.add_flag("--json", o.json, "JSON; with --watch one object per line");
	verb.add_flag("--respond", o.respond, "Answer probes instead; needs no root");
	verb.add_option("--bind", o.bind, "With --respond: on this address only")->type_name("ADDR");
	verb.add_option("--port", o.port, "With --respond: on this port (21335)")->type_name("N");
}

void add_clock_show(CLI::App &verb, ClockOptions &o)
{
	verb.add_option("--iface", o.ifaces, "DEV only; repeatable")->type_name("DEV");
	verb.add_option("--watch", o.watch, "Again and again, each second or SECONDS")
		->type_name("[SECONDS]")
		->expected(0, 1)
		->default_str("1");
	verb.add_flag("--wide", o.wide, "All columns, however narrow the terminal");
	verb.add_flag("--json", o.json, "JSON; with --watch one object per line");
	verb.add_option("--root", o.root)->group(hidden);
}

void add_clock(CLI::App &verb, ClockOptions &o)
{
	using Action = ClockOptions::Action;

	verb.footer(clock_footer);
	verb.require_subcommand(0, 1);
	add_clock_show(verb, o);
	add_clock_show(*verb.add_subcommand("show", "The NICs' clocks, as the module and BPF variants have them (default)"), o);

	CLI::App *run = verb.add_subcommand("run", "Feed the NICs' clocks to the module and BPF variants, until stopped");
	CLI::App *read = verb.add_subcommand("read", "Measure the clocks for a second, feed nothing");
	CLI::App *restore =
		verb.add_subcommand("restore", "Put back the stamping that a killed run left changed");

	run->footer(clock_run_footer);
	run->add_option("--iface", o.ifaces, "DEV only; repeatable")->type_name("DEV");
	run->add_option("--interval", o.interval_ms, "Between two readings: 10 to 10000 (250)")
		->type_name("MS");
	run->add_flag("--dry-run", o.dry_run, "Say what would be changed instead; needs no root");
	read->add_option("--iface", o.ifaces, "DEV only; repeatable")->type_name("DEV");
	for (CLI::App *action : {run, read, restore}) {
		action->add_flag("--json", o.json, "JSON; one object per line for each event");
		action->add_option("--root", o.root)->group(hidden);
	}
	run->callback([&o] { o.action = Action::run; });
	read->callback([&o] { o.action = Action::read; });
	restore->callback([&o] { o.action = Action::restore; });
}

void add_bpf(CLI::App &verb, BpfOptions &o)
{
	using Action = BpfOptions::Action;

	verb.footer(bpf_footer);
	verb.require_subcommand(0, 1);
	verb.add_flag("--json", o.json, "JSON");

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
		auto *object = action->add_option("--object", o.object,
						  action == load ? "Instead of /usr/lib/tcp_swift/bpf/NAME.bpf.o" :
								   "The new one");

		object->type_name("FILE");
		if (action == swap)
			object->required();
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
		action->add_flag("--json", o.json, "JSON");

	load->callback([&o] { o.action = Action::load; });
	unload->callback([&o] { o.action = Action::unload; });
	set->callback([&o] { o.action = Action::set; });
	get->callback([&o] { o.action = Action::get; });
	swap->callback([&o] { o.action = Action::swap; });
}

void add_ab(CLI::App &verb, AbOptions &o)
{
	verb.footer(ab_footer);
	verb.add_option("server", o.servers, "Where `iperf3 -s` runs; repeatable")->type_name("");
	verb.add_option("--cc", o.cc, "Congestion controls (swift,dctcp,cubic)")->type_name("NAME,...");
	verb.add_option("--runs", o.runs, "Of each: 1 to 200 (10)")->type_name("N");
	verb.add_option("--parallel", o.parallel, "Flows of each client to each server (1)")->type_name("N");
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
	verb.add_option("--dscp", o.dscp, "Class of the traffic: 0 to 63")->type_name("N");
	verb.add_option("--seed", o.seed, "Of the order (random, and in the result)")->type_name("N");
	verb.add_option("--json", o.json_file, "Write the result")->type_name("FILE");
	verb.add_option("--html", o.html_file, "Write the report as a page")->type_name("FILE");
	verb.add_flag("--dry-run", o.dry_run, "Print the commands instead");
	verb.add_flag("--yes", o.yes, "Start without asking");
}

void add_report(CLI::App &verb, ReportOptions &o)
{
	verb.footer(report_footer);
	verb.add_option("file", o.files, "Results; repeatable")->type_name("");
	verb.add_option("--html", o.html_file, "Write a page with charts")->type_name("FILE");
	verb.add_option("--markdown", o.markdown_file, "Write Markdown")->type_name("FILE");
	verb.add_flag("--text", o.text, "Print text (default, unless a file is written)");
}

void add_delays(CLI::App &verb, DelaysOptions &o)
{
	verb.footer(delays_footer);
	verb.add_option("--by", o.by, "A line for each: prefix (the default), flow")->type_name("WHAT");
	verb.add_option("--dst", o.dst, "To these destinations only; repeatable")
		->type_name("CIDR")
		->allow_extra_args(false);
	verb.add_option("--interval", o.interval, "Of so many seconds from now, not of all time")
		->type_name("SECONDS");
	verb.add_option("--netns", o.netns, "In the network namespace NAME")->type_name("NAME");
	verb.add_flag("--all-netns", o.all_netns, "In all network namespaces, each by itself");
	verb.add_flag("--hist", o.hist, "Histograms, too");
	verb.add_flag("--wide", o.wide, "All columns, however narrow the terminal");
	verb.add_flag("--json", o.json, "JSON: all of it, prefixes and flows");
}

void add_top(CLI::App &verb, TopOptions &o)
{
	verb.footer(top_footer);
	verb.add_option("--interval", o.interval, "Between two looks (1)")->type_name("SECONDS");
	verb.add_option("--sort", o.sort, "Flows by delay (the default), fabric, host, rate, retrans")
		->type_name("WHAT");
	verb.add_option("--filter", o.filter, "With this in address, interface or congestion control")
		->type_name("TEXT");
	verb.add_option("--netns", o.netns, "In the network namespace NAME")->type_name("NAME");
	verb.add_flag("--all", o.all, "All TCP flows, whatever their congestion control");
	verb.add_flag("--once", o.once, "Print one look instead");
}

void add_tune(CLI::App &verb, TuneVerbOptions &o)
{
	verb.footer(tune_footer);
	verb.add_flag("--apply", o.apply, "Look for the best target by trying; else only propose one");
	verb.add_option("--bpf", o.variant, "Of a BPF variant instead of the module's")->type_name("NAME");
	verb.add_option("--dst", o.dst, "With --bpf: of flows to this destination alone")->type_name("CIDR");
	verb.add_option("--learn", o.learn_s, "Watch the paths so long first (10)")->type_name("SECONDS");
	verb.add_option("--interval", o.interval_s, "Between two looks at the flows (1)")
		->type_name("SECONDS");
	verb.add_option("--measure", o.measure, "Looks at each value in a turn (3)")->type_name("N");
	verb.add_option("--duration", o.duration_s, "At most (until it has settled)")->type_name("SECONDS");
	verb.add_option("--min-us", o.min_us, "Never a base target below (5)")->type_name("US");
	verb.add_option("--max-us", o.max_us, "Never a base target above (1000)")->type_name("US");
	verb.add_option("--tolerance", o.tolerance_percent, "Throughput that it may cost, in all (1)")
		->type_name("PERCENT");
	verb.add_option("--step", o.step_percent, "Of the first steps; later ones are smaller (25)")
		->type_name("PERCENT");
	auto *keep_on = verb.add_flag("--keep-on", o.keep_on, "After it has settled look again every --hold");

	verb.add_option("--hold", o.hold_s, "Between two looks around (600)")
		->type_name("SECONDS")
		->needs(keep_on);
	verb.add_flag("--restore", o.restore, "At the end put back what was there before");
	verb.add_flag("--undo", o.undo, "Put back what was there before the last tuning");
	verb.add_option("--netns", o.netns, "In the network namespace NAME")->type_name("NAME");
	verb.add_flag("--json", o.json, "JSON; one object per line for each event");
}

// CLI11 is generous with blank lines, and its word for verbs is long.
std::string tidy(std::string text)
{
	for (std::size_t at; (at = text.find("\n\n\n")) != std::string::npos;)
		text.erase(at, 1);
	if (const auto at = text.find("Subcommands:"); at != std::string::npos)
		text.replace(at, 11, text.find("Usage: swiftctl VERB") != std::string::npos ? "Verbs" : "Actions");
	return text;
}

// CLI11's sentence about an argument that nobody wants, in fewer words.
std::string readable(std::string text)
{
	for (const std::string_view start : {"The following argument was not expected: ",
					     "The following arguments were not expected: "})
		if (text.starts_with(start)) {
			const std::string rest = text.substr(start.size());

			return (rest.starts_with('-') ? "unknown option " : "unexpected argument ") + rest;
		}
	return text;
}

// Builds the manual and the completion (CMakeLists.txt asks for it).
Leave write_manual(const CLI::App &app, const std::vector<std::string> &prose_and_out)
{
	const Manual manual(prose_and_out[0], prose_and_out[1]);
	auto done = manual.write_program(app);

	if (done)
		done = manual.write({"tcp_swift", 7, "Swift congestion control for TCP",
				     {{"SYSCTLS", mdoc_tunables()}}});
	return {{}, done ? exit_ok : fail("", done.error().text())};
}

} // namespace

Invocation parse_command_line(int argc, const char *const *argv)
{
	CLI::App app("Swift, delay-based congestion control for datacenters: see and steer it.",
		     "swiftctl");
	FlowsOptions flows;
	EnableOptions enabling;
	DisableOptions disabling;
	DoctorOptions doctor;
	ProbeOptions probing;
	ClockOptions clock;
	BpfOptions bpf;
	DelaysOptions delays;
	AbOptions ab;
	ReportOptions report;
	TopOptions top;
	TuneVerbOptions tune;
	std::vector<std::string> manual;

	app.formatter(std::make_shared<Usage>());
	app.get_formatter()->column_width(28);
	app.set_version_flag("--version", "swiftctl " SWIFT_VERSION);
	app.add_option("--write-manual", manual)->expected(2)->group(hidden);
	app.footer(examples);
	app.require_subcommand(0, 1);

	CLI::App *verb_flows = app.add_subcommand("flows", "Flows that run swift, and their delays");
	CLI::App *verb_enable = app.add_subcommand("enable", "Load swift and make this host use it");
	CLI::App *verb_disable = app.add_subcommand("disable", "Put back what enable changed");
	CLI::App *verb_doctor = app.add_subcommand("doctor", "Judge this host's fitness for swift");
	CLI::App *verb_probe = app.add_subcommand("probe", "RTT of the fabric alone, between NICs");
	CLI::App *verb_clock = app.add_subcommand("clock", "The NICs' clocks: see, feed, measure them");

	CLI::App *verb_bpf = app.add_subcommand("bpf", "Congestion controls in BPF: load, tune, swap them");

	CLI::App *verb_delays = app.add_subcommand("delays", "How delays are spread, by prefix or flow");

	CLI::App *verb_ab = app.add_subcommand("ab", "Compare congestion controls by real runs");
	CLI::App *verb_report = app.add_subcommand("report", "A result as text, Markdown or a page");

	CLI::App *verb_top = app.add_subcommand("top", "Destinations and flows, live");

	CLI::App *verb_tune = app.add_subcommand("tune", "Find the best base target for this host's paths");

	add_top(*verb_top, top);
	add_tune(*verb_tune, tune);
	add_delays(*verb_delays, delays);
	add_ab(*verb_ab, ab);
	add_report(*verb_report, report);
	add_flows(*verb_flows, flows);
	add_enable(*verb_enable, enabling);
	add_disable(*verb_disable, disabling);
	add_doctor(*verb_doctor, doctor);
	add_probe(*verb_probe, probing);
	add_clock(*verb_clock, clock);
	add_bpf(*verb_bpf, bpf);

	// Which verb an error is about; CLI11 does not say.
	const std::string first = argc > 1 ? argv[1] : "";
	const auto verbs = app.get_subcommands([](CLI::App *) { return true; });
	const bool is_verb = std::any_of(verbs.begin(), verbs.end(), [&](const CLI::App *verb) {
		return verb->get_name() == first;
	});

	if (first.empty())
		return Leave{{}, fail_usage("", "which verb? (flows, enable, disable, doctor, probe, clock, bpf, delays, ab, report, top, tune)")};
	if (!is_verb && first[0] != '-')
		return Leave{{}, fail_usage("", "unknown verb '" + first +
							"' (allowed: flows, enable, disable, doctor, probe, clock, bpf, delays, ab, report, top, tune)")};
	try {
		app.parse(argc, argv);
	} catch (const CLI::CallForHelp &) {
		return Leave{tidy((is_verb ? app.get_subcommand(first) : &app)->help()), exit_ok};
	} catch (const CLI::CallForVersion &e) {
		return Leave{std::string(e.what()) + "\n", exit_ok};
	} catch (const CLI::ParseError &e) {
		return Leave{{}, fail_usage(is_verb ? first : "", readable(e.what()))};
	}

	if (!manual.empty())
		return write_manual(app, manual);
	if (app.got_subcommand(verb_flows)) {
		if (verb_flows->count("--watch") && flows.watch.empty())
			flows.watch = "1";
		return flows;
	}
	if (app.got_subcommand(verb_enable))
		return enabling;
	if (app.got_subcommand(verb_disable))
		return disabling;
	if (app.got_subcommand(verb_doctor))
		return doctor;
	if (app.got_subcommand(verb_probe)) {
		if (verb_probe->count("--watch") && probing.watch.empty())
			probing.watch = "1";
		return probing;
	}
	if (app.got_subcommand(verb_bpf))
		return bpf;
	if (app.got_subcommand(verb_delays))
		return delays;
	if (app.got_subcommand(verb_ab))
		return ab;
	if (app.got_subcommand(verb_report))
		return report;
	if (app.got_subcommand(verb_top))
		return top;
	if (app.got_subcommand(verb_tune))
		return tune;
	if (app.got_subcommand(verb_clock)) {
		const bool shows = clock.action == ClockOptions::Action::show;
		const bool watches = [&] {
			for (const CLI::App *a : {verb_clock, verb_clock->get_subcommand("show")})
				if (a->count("--watch"))
					return true;
			return false;
		}();

		if (!shows && (verb_clock->count("--watch") || verb_clock->count("--wide")))
			return Leave{{}, fail_usage("clock", "--watch and --wide are for `swiftctl clock show`")};
		if (watches && clock.watch.empty())
			clock.watch = "1";
		return clock;
	}
	return Leave{{}, fail_usage("", "which verb?")};
}

} // namespace swift
