// SPDX-License-Identifier: MIT
// swiftd: parse the command line, run, leave. Nothing else belongs here.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <map>

#include "service.h"

namespace {

constexpr int exit_usage = 2;
constexpr const char *default_config = "/etc/swiftd.toml";

int say(const std::string &text)
{
	return std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0;
}

int run(int argc, char **argv)
{
	CLI::App app("swiftd: shows where this host's TCP delay comes from, fabric or host, over HTTP.");
	swift::ServiceArguments arguments;
	std::map<std::string, std::string> given;
	bool check = false;
	bool once = false;
	bool sample = false;
	bool markdown = false;

	app.set_version_flag("--version", "swiftd " SWIFT_VERSION);
	app.add_option("--config", arguments.config_file,
		       fmt::format("configuration file (default: {}, if it exists)", default_config));
	app.add_flag("--check", check, "only check the configuration");
	app.add_flag("--once", once, "print the summary of one interval as JSON, and leave");
	app.add_flag("--print-sample", sample, "print a configuration file with all defaults");
	app.add_flag("--print-options-markdown", markdown)->group("");
	for (const swift::Option &o : swift::options())
		app.add_option("--" + std::string(o.name), given[std::string(o.name)],
			       fmt::format("{} [{}]", o.help, swift::value_text(o.get({}))))
			->group("Options, as in the configuration file (lists: a,b,c)");
	try {
		app.parse(argc, argv);
	} catch (const CLI::ParseError &e) {
		return app.exit(e) == 0 ? 0 : exit_usage;
	}

	if (sample)
		return say(swift::sample_toml());
	if (markdown)
		return say(swift::options_markdown());
	for (const auto &[name, value] : given)
		if (app.count("--" + name))
			arguments.overrides.emplace_back(name, value);
	if (!app.count("--config") && access(default_config, F_OK) == 0)
		arguments.config_file = default_config;

	const auto config = swift::load_config(arguments.config_file, arguments.overrides);

	if (!config) {
		fmt::print(stderr, "swiftd: {}\n", config.error().text());
		return exit_usage;
	}
	if (check)
		return 0;
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
