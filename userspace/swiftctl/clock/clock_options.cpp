// SPDX-License-Identifier: MIT
// The words of `swiftctl clock`: options, actions, help.
#include <CLI/CLI.hpp>

#include "clock.h"
#include "say.h"

namespace swift {

namespace {

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
	"SIGKILL the next run or `swiftctl clock restore` puts it back (/var/lib/tcp_swift/clock-*.json).";

void add_clock_show(CLI::App &verb, ClockOptions &o)
{
	add_iface(verb, o.ifaces, "DEV only; repeatable");
	add_watch(verb, o.watch);
	add_wide(verb, o.wide);
	add_json(verb, o.json, json_lines_help);
	add_root(verb, o.root);
}

} // namespace

void add_options(CLI::App &verb, ClockOptions &o)
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
	add_iface(*run, o.ifaces, "DEV only; repeatable");
	run->add_option("--interval", o.interval_ms, "Between two readings: 10 to 10000 (250)")
		->type_name("MS");
	run->add_flag("--dry-run", o.dry_run, "Say what would be changed instead; needs no root");
	add_iface(*read, o.ifaces, "DEV only; repeatable");
	for (CLI::App *action : {run, read, restore}) {
		add_json(*action, o.json, "JSON; one object per line for each event");
		add_root(*action, o.root);
	}
	run->callback([&o] { o.action = Action::run; });
	read->callback([&o] { o.action = Action::read; });
	restore->callback([&o] { o.action = Action::restore; });
}

const Verb clock_verb = {"clock", "The NICs' clocks: see, feed, measure them", [](CLI::App &app) -> std::function<Result<int>()> {
	const auto options = std::make_shared<ClockOptions>();

	add_options(app, *options);
	return [options, &app]() -> Result<int> {
		if (options->action != ClockOptions::Action::show && (app.count("--watch") || app.count("--wide")))
			return usage_error("--watch and --wide are for `swiftctl clock show`");
		if (options->action == ClockOptions::Action::restore && !options->ifaces.empty())
			return usage_error("--iface: not with `swiftctl clock restore`, which puts all of them back");
		return run_clock(*options);
	};
}};

} // namespace swift
