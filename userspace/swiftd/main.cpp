// SPDX-License-Identifier: MIT
// swiftd: parse the command line, run, leave. Nothing else belongs here.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <map>

#include "manual.h"
#include "service.h"
#include "usage_error.h"

namespace {

constexpr int exit_usage = 2;
constexpr const char *default_config = "/etc/swiftd.toml";

std::string options_mdoc()
{
	std::string text = ".Bl -tag -width Ds\n";

	for (const swift::Option &o : swift::options())
		text += fmt::format(".It Va {}\n{}Default: {}; allowed: {}{}.\n{}", o.name,
				    swift::mdoc_text(fmt::format("{}.", o.help)),
				    swift::value_text(o.get({})), swift::allowed_text(o),
				    o.unit.empty() ? "" : fmt::format(" (in {})", o.unit),
				    o.reloadable ? "A reload can change it.\n" : "");
	return text + ".El\n";
}

int write_manual(const CLI::App &app, const std::vector<std::string> &prose_and_out)
{
	const swift::Manual manual(prose_and_out[0], prose_and_out[1]);
	auto done = manual.write_program(app);

	if (done)
		done = manual.write({"swiftd.toml", 5, "configuration of swiftd",
				     {{"OPTIONS", options_mdoc()}}});
	if (!done)
		fmt::print(stderr, "swiftd: {}\n", done.error().text());
	return done ? 0 : 1;
}

int run(int argc, char **argv)
{
	CLI::App app("Shows where this host's TCP delay comes from, fabric or host, over HTTP.", "swiftd");
	swift::ServiceArguments arguments;
	std::map<std::string, std::string> given;
	bool check = false;
	bool once = false;
	bool sample = false;
	bool markdown = false;
	std::vector<std::string> manual;

	app.set_version_flag("--version", "swiftd " SWIFT_VERSION);
	app.add_option("--config", arguments.config_file,
		       fmt::format("configuration file (default: {}, if it exists)", default_config));
	app.add_flag("--check", check, "only check the configuration, and the files of probe's peers and keys");
	app.add_flag("--once", once, "print the summary of one interval as JSON, and leave");
	app.add_flag("--print-sample", sample, "print a configuration file with all defaults");
	app.add_flag("--print-options-markdown", markdown)->group("");
	app.add_option("--write-manual", manual)->expected(2)->group(""); // for CMakeLists.txt
	for (const swift::Option &o : swift::options())
		app.add_option("--" + std::string(o.name), given[std::string(o.name)],
			       fmt::format("{} [{}]", o.help, swift::value_text(o.get({}))))
			->group("Options, as in the configuration file (lists: a,b,c)");
	if (const auto wrong = swift::option_without_value(argc, argv)) {
		fmt::print(stderr, "swiftd: {} (an empty one is a word of its own: \"\"); see swiftd --help\n", *wrong);
		return exit_usage;
	}
	try {
		app.parse(argc, argv);
	} catch (const CLI::ParseError &e) {
		if (e.get_exit_code() == 0) // help, version
			return app.exit(e);
		fmt::print(stderr, "swiftd: {}; see swiftd --help\n", swift::usage_error(e, app));
		return exit_usage;
	}

	if (sample)
		return swift::say(swift::sample_toml());
	if (markdown)
		return swift::say(swift::options_markdown());
	if (!manual.empty())
		return write_manual(app, manual);
	for (const auto &[name, value] : given)
		if (app.count("--" + name))
			arguments.overrides.emplace_back(name, value);
	if (!app.count("--config")) {
		arguments.config_file = default_config;
		arguments.config_optional = true;
	}

	const auto config =
		swift::load_config(arguments.config_file, arguments.overrides, arguments.config_optional);

	if (!config) {
		fmt::print(stderr, "swiftd: {}\n", config.error().text());
		return exit_usage;
	}
	if (check) {
		const auto good = swift::check_files(*config);

		if (!good)
			fmt::print(stderr, "swiftd: {}\n", good.error().text());
		return good ? 0 : exit_usage;
	}
	return once ? swift::run_once(*config) : swift::run_service(arguments, *config);
}

} // namespace

int main(int argc, char **argv)
{
	try {
		return run(argc, argv);
	} catch (const std::exception &e) {
		fmt::print(stderr, "swiftd: {}\n", e.what());
		return 1;
	}
}
