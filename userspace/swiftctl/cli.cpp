// SPDX-License-Identifier: MIT
// The only file that knows CLI11.
#include "cli.h"

#include <CLI/CLI.hpp>

#include <algorithm>

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
	"receive stamps here/echoed by the peer (hw, sw, none).\n"
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

// CLI11's own group of options that --help does not show.
constexpr const char *hidden = "";

class Usage : public CLI::Formatter {
public:
	std::string make_usage(const CLI::App *app, std::string) const override
	{
		if (app->get_name() == "swiftctl")
			return "Usage: swiftctl VERB [OPTIONS]\n";
		return "Usage: swiftctl " + app->get_name() + " [OPTIONS]\n";
	}
	std::string make_footer(const CLI::App *app) const override
	{
		return app->get_footer() + "\n";
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

// CLI11 is generous with blank lines, and its word for verbs is long.
std::string tidy(std::string text)
{
	for (std::size_t at; (at = text.find("\n\n\n")) != std::string::npos;)
		text.erase(at, 1);
	if (const auto at = text.find("Subcommands:"); at != std::string::npos)
		text.replace(at, 11, "Verbs");
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

} // namespace

Invocation parse_command_line(int argc, const char *const *argv)
{
	CLI::App app("Swift, delay-based congestion control for datacenters: see and steer it.",
		     "swiftctl");
	FlowsOptions flows;
	EnableOptions enabling;
	DisableOptions disabling;
	DoctorOptions doctor;

	app.formatter(std::make_shared<Usage>());
	app.get_formatter()->column_width(28);
	app.set_version_flag("--version", "swiftctl " SWIFT_VERSION);
	app.footer(examples);
	app.require_subcommand(0, 1);

	CLI::App *verb_flows = app.add_subcommand("flows", "Flows that run swift, and their delays");
	CLI::App *verb_enable = app.add_subcommand("enable", "Load swift and make this host use it");
	CLI::App *verb_disable = app.add_subcommand("disable", "Put back what enable changed");
	CLI::App *verb_doctor = app.add_subcommand("doctor", "Judge this host's fitness for swift");

	add_flows(*verb_flows, flows);
	add_enable(*verb_enable, enabling);
	add_disable(*verb_disable, disabling);
	add_doctor(*verb_doctor, doctor);

	// Which verb an error is about; CLI11 does not say.
	const std::string first = argc > 1 ? argv[1] : "";
	const auto verbs = app.get_subcommands([](CLI::App *) { return true; });
	const bool is_verb = std::any_of(verbs.begin(), verbs.end(), [&](const CLI::App *verb) {
		return verb->get_name() == first;
	});

	if (first.empty())
		return Leave{{}, fail_usage("", "which verb? (flows, enable, disable, doctor)")};
	if (!is_verb && first[0] != '-')
		return Leave{{}, fail_usage("", "unknown verb '" + first +
							"' (allowed: flows, enable, disable, doctor)")};
	try {
		app.parse(argc, argv);
	} catch (const CLI::CallForHelp &) {
		return Leave{tidy((is_verb ? app.get_subcommand(first) : &app)->help()), exit_ok};
	} catch (const CLI::CallForVersion &e) {
		return Leave{std::string(e.what()) + "\n", exit_ok};
	} catch (const CLI::ParseError &e) {
		return Leave{{}, fail_usage(is_verb ? first : "", readable(e.what()))};
	}

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
	return Leave{{}, fail_usage("", "which verb?")};
}

} // namespace swift
