// SPDX-License-Identifier: MIT
// The words of `swiftctl top`: options, actions, help.
#include <CLI/CLI.hpp>

#include "top.h"

namespace swift {

namespace {

constexpr const char *top_footer =
	"A bar is the fabric's delay (=) and the hosts' (#) on one scale with the fabric's target (|), at\n"
	"two thirds; it ends in > where there is more. Keys: q quit, s sort, f filter, arrows and pages,\n"
	"space stand still, ? help.\n"
	"\n"
	"Examples:\n"
	"  swiftctl top --all --sort rate           every TCP flow of this host\n"
	"  swiftctl top --filter 10.1. --interval 0.5\n"
	"  swiftctl top --once                      one interval, as text";

} // namespace

void add_options(CLI::App &verb, TopOptions &o)
{
	verb.footer(top_footer);
	verb.add_option("--interval", o.interval, "Between two looks (1)")->type_name("SECONDS");
	verb.add_option("--sort", o.sort, "Flows by delay (the default), fabric, host, rate, retrans")
		->type_name("WHAT");
	verb.add_option("--filter", o.filter, "With this in address, interface, congestion control, namespace or owner")
		->type_name("TEXT");
	add_netns(verb, o.netns);
	verb.add_flag("--all-netns", o.all_netns, "Of all network namespaces of this host");
	verb.add_flag("--processes", o.processes, "Which process has each flow's socket open");
	verb.add_flag("--all", o.all, "All TCP flows, whatever their congestion control");
	verb.add_flag("--once", o.once, "Print one look instead");
}

const Verb top_verb = {"top", "Destinations and flows, live", add_verb<TopOptions, run_top>};

} // namespace swift
