// SPDX-License-Identifier: MIT
// The words of `swiftctl tune`: options, actions, help.
#include <CLI/CLI.hpp>

#include "tune.h"

namespace swift {

namespace {

constexpr const char *tune_footer =
	"Each value is compared with the one before it in turns, so that demand which changes by itself\n"
	"misleads nobody; a step that costs throughput is taken back. What it ends with stays; a tuning\n"
	"that was killed is put right by the next one. Tune one host of a rack and give all the result:\n"
	"hosts that tune against each other would compete. See Documentation/tune.md.\n"
	"\n"
	"Examples:\n"
	"  swiftctl tune                            what the paths suggest\n"
	"  swiftctl tune --apply --min-us 20 --max-us 200\n"
	"  swiftctl tune --bpf bpf_swift --dst 10.1.0.0/16 --apply\n"
	"  swiftctl tune --undo";

} // namespace

void add_options(CLI::App &verb, TuneVerbOptions &o)
{
	verb.footer(tune_footer);
	verb.add_flag("--apply", o.apply, "Look for the best target by trying; else only propose one");
	verb.add_option("--bpf", o.variant, "Of a BPF variant instead of the module's")->type_name("NAME");
	verb.add_option("--dst", o.dst, "With --bpf: of flows to this destination alone")->type_name("CIDR");
	verb.add_option("--learn", o.learn_s, "Watch the paths so long first (10)")->type_name("SECONDS");
	verb.add_option("--interval", o.interval_s, "Between two looks at the flows (1)")
		->type_name("SECONDS");
	verb.add_option("--measure", o.measure, "Looks at each value in a turn (3)")->type_name("N");
	verb.add_option("--duration", o.duration_s, "At most (until it has settled)")->type_name("SECONDS");
	verb.add_option("--min-us", o.min_us, "Never a base target below (5)")->type_name("US");
	verb.add_option("--max-us", o.max_us, "Never a base target above (1000)")->type_name("US");
	verb.add_option("--tolerance", o.tolerance_percent, "Throughput that it may cost, in all (1)")
		->type_name("PERCENT");
	verb.add_option("--step", o.step_percent, "Of the first steps; later ones are smaller (100)")
		->type_name("PERCENT");
	auto *keep_on = verb.add_flag("--keep-on", o.keep_on, "After it has settled look again every --hold");

	verb.add_option("--hold", o.hold_s, "Between two looks around (600)")
		->type_name("SECONDS")
		->needs(keep_on);
	verb.add_flag("--restore", o.restore, "At the end put back what was there before");
	verb.add_flag("--undo", o.undo, "Put back what was there before tuning");
	add_netns(verb, o.netns);
	add_json(verb, o.json, "JSON; one object per line for each event");
}

const Verb tune_verb = {"tune", "Find the best base target for this host's paths", add_verb<TuneVerbOptions, run_tune>};

} // namespace swift
