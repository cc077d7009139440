// SPDX-License-Identifier: MIT
// The words of `swiftctl policy`: options, actions, help.
#include <CLI/CLI.hpp>

#include "policy_verb.h"

namespace swift {

namespace {

constexpr const char *policy_footer =
	"A policy is a file of targets, by BPF variant and destination prefix or for all flows of the\n"
	"module in a network namespace, with a version, an author and an expiry. swiftd sets it, whole or\n"
	"not at all (policy.file in its configuration), guards it, and takes it back when it expires.\n"
	"See Documentation/policy.md.\n"
	"\n"
	"Examples:\n"
	"  swiftctl policy check policy.toml         is it right? one line says what is not\n"
	"  swiftctl policy check --here policy.toml  and what of it this host would set\n"
	"  swiftctl policy show                      what is in force\n"
	"  swiftctl policy undo                      what was there before, once swiftd is stopped";

void add_show(CLI::App &verb, PolicyOptions &o)
{
	add_netns(verb, o.netns);
	add_json(verb, o.json);
	add_root(verb, o.root);
}

} // namespace

void add_options(CLI::App &verb, PolicyOptions &o)
{
	using Action = PolicyOptions::Action;

	verb.footer(policy_footer);
	verb.require_subcommand(0, 1);
	add_show(verb, o);
	add_show(*verb.add_subcommand("show", "What is in force, and what was there before (default)"), o);

	CLI::App *check =
		verb.add_subcommand("check", "Whether a file is a policy; exit status 1 if it is not");
	CLI::App *undo =
		verb.add_subcommand("undo", "Put back what was there before, when swiftd does not run");

	check->add_option("FILE", o.file, "The policy")->required()->type_name("FILE");
	check->add_flag("--here", o.here, "And whether this host can have it; needs root for BPF variants");
	add_show(*check, o);
	add_show(*undo, o);
	check->callback([&o] { o.action = Action::check; });
	undo->callback([&o] { o.action = Action::undo; });
}

const Verb policy_verb = {"policy", "Targets that travel as a file: check, see, take back",
			  add_verb<PolicyOptions, run_policy>};

} // namespace swift
