// SPDX-License-Identifier: MIT
#include "verb.h"

#include <CLI/CLI.hpp>

#include "netns.h"
#include "say.h"
#include "text.h"

namespace swift {

namespace {

// CLI11's own group of options that --help does not show.
constexpr const char *hidden = "";

} // namespace

void add_watch(CLI::App &verb, std::string &seconds)
{
	verb.add_option_function<std::string>(
		    "--watch", [&seconds](const std::string &s) { seconds = s.empty() ? "1" : s; },
		    "Again and again, each second or SECONDS")
		->type_name("[SECONDS]")
		->expected(0, 1)
		->default_str("1");
}

void add_wide(CLI::App &verb, bool &wide)
{
	verb.add_flag("--wide", wide, "All columns, however narrow the terminal");
}

void add_json(CLI::App &verb, bool &json, const char *help)
{
	verb.add_flag("--json", json, help);
}

void add_netns(CLI::App &verb, std::string &name)
{
	verb.add_option("--netns", name, "In the network namespace NAME, or of that path (/proc/PID/ns/net)")
		->type_name("NAME")
		->check([](const std::string &given) {
			return given.empty() ? std::string("'' (allowed: ") + netns_allowed + ")" : std::string();
		});
}

void add_iface(CLI::App &verb, std::vector<std::string> &ifaces, const char *help)
{
	verb.add_option("--iface", ifaces, help)->type_name("DEV");
}

void add_root(CLI::App &verb, std::string &root)
{
	verb.add_option("--root", root)->group(hidden);
}

Result<void> take_top(std::size_t &top, const std::string &text)
{
	return take_int(top, "--top", text, 1, 1000000);
}

Result<void> take_watch(double &every_s, const std::string &text)
{
	return take_decimal(every_s, "--watch", text, 0.1, 3600);
}

Result<void> take_netns(const std::string &name, bool all_netns)
{
	if (!name.empty() && all_netns)
		return usage_error("--netns and --all-netns: allowed is one of them");
	return name.empty() ? Result<void>() : prefixed("--netns: ", enter_netns(name));
}

} // namespace swift
