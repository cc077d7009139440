// SPDX-License-Identifier: MIT
// The words of `swiftctl enable` and `disable`: options, actions, help.
#include <CLI/CLI.hpp>

#include "enable.h"

namespace swift {

namespace {

constexpr const char *enable_footer =
	"Every value is remembered before it is changed (/var/lib/tcp_swift/enable.json, and\n"
	"enable-COOKIE.json of another network namespace than the initial one), and a failure\n"
	"half-way puts everything back.\n"
	"\n"
	"--netns changes what is that network namespace's alone: its default, its settings\n"
	"(net.ipv4.tcp_swift), qdiscs of interfaces in it. The module is the host's: it is loaded,\n"
	"and stays. So are net.core.default_qdisc and net.ipv4.tcp_allowed_congestion_control, which\n"
	"it leaves alone, and what --persist writes, which it refuses.\n"
	"\n"
	"Examples:\n"
	"  swiftctl enable --dry-run --iface eth0\n"
	"  swiftctl enable --no-default --qdisc keep --set base_target_ns=60000\n"
	"  swiftctl enable --module ./tcp_swift.ko --echo\n"
	"  swiftctl enable --netns /proc/PID/ns/net --echo";

constexpr const char *disable_footer =
	"A value that somebody else has changed meanwhile is left alone, reported, and forgotten: --force\n"
	"puts it back, too; afterwards the command does that is reported with it.";

} // namespace

void add_options(CLI::App &verb, EnableOptions &o)
{
	verb.footer(enable_footer);
	verb.add_flag("--no-default", o.no_default, "Only allow swift: sockets have to ask for it")
		->excludes(verb.add_flag("--default", o.default_too, "Make swift the default (so it is)"));
	verb.add_option("--qdisc", o.qdisc, "Default queueing discipline: fq (the default), keep")
		->type_name("KIND");
	add_iface(verb, o.ifaces, "Also replace the root qdisc of DEV; repeatable");
	verb.add_flag("--echo", o.echo, "Negotiate the delay echo; both ends need it");
	verb.add_option("--set", o.set, "Set net.ipv4.tcp_swift.NAME; repeatable")
		->type_name("NAME=VALUE");
	verb.add_option("--module", o.module_file, "Load this file instead of the installed module")
		->type_name("FILE");
	verb.add_flag("--persist", o.persist, "After a reboot too (/etc/sysctl.d, /etc/modules-load.d)");
	add_netns(verb, o.netns);
	verb.add_flag("--dry-run", o.dry_run, "Print the commands instead; needs no root");
	add_json(verb, o.json);
	add_root(verb, o.root);
}

void add_options(CLI::App &verb, DisableOptions &o)
{
	verb.footer(disable_footer);
	verb.add_flag("--force", o.force, "Put back also what somebody else has changed meanwhile");
	add_netns(verb, o.netns);
	verb.add_flag("--dry-run", o.dry_run, "Print the commands instead");
	add_json(verb, o.json);
	add_root(verb, o.root);
}

const Verb enable_verb = {"enable", "Load swift and make this host use it", add_verb<EnableOptions, run_enable>};
const Verb disable_verb = {"disable", "Put back what enable changed", add_verb<DisableOptions, run_disable>};

} // namespace swift
