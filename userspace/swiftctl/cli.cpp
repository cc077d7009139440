// SPDX-License-Identifier: MIT
#include "cli.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include <array>
#include <functional>
#include <map>
#include <utility>

#include "ab.h"
#include "bpf.h"
#include "clock.h"
#include "credit.h"
#include "delays.h"
#include "doctor.h"
#include "enable.h"
#include "flows.h"
#include "manual.h"
#include "pods.h"
#include "policy_verb.h"
#include "probe.h"
#include "report.h"
#include "say.h"
#include "top.h"
#include "tunables.h"
#include "tune.h"
#include "usage_error.h"

namespace swift {

namespace {

// In the order of --help.
constexpr std::array verbs = {&flows_verb, &enable_verb, &disable_verb, &doctor_verb, &probe_verb, &clock_verb,
			      &bpf_verb,   &delays_verb, &credit_verb,	&ab_verb,     &report_verb, &top_verb,
			      &tune_verb,  &policy_verb, &pods_verb};

constexpr const char *examples =
	"Examples:\n"
	"  swiftctl enable --iface eth0      load swift, make it the default, fq on eth0\n"
	"  swiftctl flows --watch            where each flow's delay comes from, every second\n"
	"  swiftctl doctor --peer 10.0.0.2   is this host fit for it?\n"
	"  swiftctl disable                  put everything back\n"
	"\n"
	"swiftctl VERB --help says more. Exit status: 0 done, 1 failed, 2 wrong usage.";

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

// CLI11 is generous with blank lines, and its word for verbs is long.
std::string tidy(std::string text)
{
	for (std::size_t at; (at = text.find("\n\n\n")) != std::string::npos;)
		text.erase(at, 1);
	if (const auto at = text.find("Subcommands:"); at != std::string::npos)
		text.replace(at, 11, text.find("Usage: swiftctl VERB") != std::string::npos ? "Verbs" : "Actions");
	return text;
}

// A tagged list of all sysctls.
std::string mdoc_tunables()
{
	std::string text = ".Bl -tag -width Ds\n";

	for (const Tunable &t : tunables()) {
		const bool words = t.name == "target_policy";

		text += fmt::format(".It Va {}\n{}", t.name, mdoc_text(std::string(t.meaning) + "."));
		text += words ? "The default is base_rtt_plus.\n" :
				fmt::format("The default is {}, the range {} to {}.\n", t.fallback, t.min, t.max);
	}
	return text + ".El\n";
}

// Builds the manual and the completion (CMakeLists.txt asks for it).
Result<int> write_manual(const CLI::App &app, const std::vector<std::string> &prose_and_out)
{
	const Manual manual(prose_and_out[0], prose_and_out[1]);

	RETURN_IF_ERROR(manual.write_program(app));
	RETURN_IF_ERROR(manual.write({"tcp_swift", 7, "Swift congestion control for TCP",
				      {{"SYSCTLS", mdoc_tunables()}}}));
	return exit_ok;
}

} // namespace

int run_command_line(int argc, const char *const *argv)
{
	CLI::App app("Swift, delay-based congestion control for datacenters: see and steer it.",
		     "swiftctl");
	std::vector<std::string> manual;
	std::map<const CLI::App *, std::function<Result<int>()>> runs;
	std::vector<std::string> names;
	// Which verb an error is about; CLI11 does not say.
	const std::string first = argc > 1 ? argv[1] : "";
	const Verb *named = &swiftctl_itself;

	app.formatter(std::make_shared<Usage>());
	app.get_formatter()->column_width(28);
	app.set_version_flag("--version", "swiftctl " SWIFT_VERSION);
	app.add_option("--write-manual", manual)->expected(2)->group(""); // not in --help
	app.footer(examples);
	app.require_subcommand(0, 1);
	for (const Verb *verb : verbs) {
		CLI::App *part = app.add_subcommand(verb->name, verb->summary);

		runs[part] = verb->add(*part);
		names.emplace_back(verb->name);
		if (first == verb->name)
			named = verb;
	}

	const std::string which = fmt::format("{}", fmt::join(names, ", "));

	if (first.empty())
		return fail_usage(swiftctl_itself, "which verb? (" + which + ")");
	if (named == &swiftctl_itself && first[0] != '-')
		return fail_usage(swiftctl_itself, "unknown verb '" + first + "' (allowed: " + which + ")");
	if (const auto wrong = option_without_value(argc, argv))
		return fail_usage(*named, *wrong);
	for (int i = 1; i < argc; i++)
		if (argv[i][0] == '\0') // of --netns and its like it would be another scope
			return fail_usage(*named, fmt::format("an empty word after {} (allowed: none)", argv[i - 1]));
	try {
		app.parse(argc, argv);
	} catch (const CLI::CallForHelp &) {
		const CLI::App *about = named == &swiftctl_itself ? &app : app.get_subcommand(first);

		return exit_status(*named, leave(tidy(about->help())));
	} catch (const CLI::CallForVersion &e) {
		return exit_status(*named, leave(std::string(e.what()) + "\n"));
	} catch (const CLI::ParseError &e) {
		return fail_usage(*named, usage_error(e, app));
	}

	if (!manual.empty())
		return exit_status(swiftctl_itself, write_manual(app, manual));
	for (const auto &[part, run] : runs)
		if (app.got_subcommand(part))
			return exit_status(*named, run());
	return fail_usage(swiftctl_itself, "which verb?");
}

} // namespace swift
