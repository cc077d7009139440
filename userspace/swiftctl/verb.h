// SPDX-License-Identifier: MIT
// A verb as swiftctl knows it: its name, what it is for, its options, and what runs it. Lists,
// help, completion and the manual are made of these; cli.cpp has the list of them.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "result.h"

namespace CLI {
class App;
}

namespace swift {

struct Verb {
	const char *name;
	const char *summary;
	// Gives @app the verb's options. What comes back runs the verb with what was parsed: say.h.
	std::function<Result<int>()> (*add)(CLI::App &app);
};

// Verb::add of a verb that has add_options(CLI::App &, Options &) and @run.
template <typename Options, Result<int> (*run)(const Options &)>
std::function<Result<int>()> add_verb(CLI::App &app)
{
	const auto options = std::make_shared<Options>();

	add_options(app, *options);
	return [options] { return run(*options); };
}

// Options that many verbs have.
void add_watch(CLI::App &verb, std::string &seconds); // empty: once
void add_wide(CLI::App &verb, bool &wide);
void add_json(CLI::App &verb, bool &json, const char *help = "JSON");
void add_netns(CLI::App &verb, std::string &name);
void add_iface(CLI::App &verb, std::vector<std::string> &ifaces, const char *help);
void add_root(CLI::App &verb, std::string &root); // for tests, and not in --help
// And what they come to; what was left out changes nothing.
Result<void> take_top(std::size_t &top, const std::string &text);
Result<void> take_watch(double &every_s, const std::string &text);
Result<void> take_netns(const std::string &name, bool all_netns = false); // enters it
inline constexpr const char *json_lines_help = "JSON; with --watch one object per line";

} // namespace swift
