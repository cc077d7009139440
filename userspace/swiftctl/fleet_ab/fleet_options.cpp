// SPDX-License-Identifier: MIT
// The words of `swiftctl ab --fleet`.
#include <CLI/CLI.hpp>

#include "fleet_ab.h"

namespace swift {

void add_fleet_options(CLI::App &verb, FleetOptions &o)
{
	constexpr const char *group = "Over a fleet, instead (with --seed and --json)";
	const auto add = [&verb](const char *name, auto &value, const char *type, const char *help) {
		return verb.add_option(name, value, help)->type_name(type)->group(group);
	};

	add("--fleet", o.action, "plan|read", "plan an experiment over racks, or read what came of it");
	add("--inventory", o.inventory, "FILE", "Of Ansible, or what `ansible-inventory --list` says of it");
	add("--group", o.group, "NAME", "Of its hosts (swift_hosts)");
	add("--rack-var", o.rack_var, "NAME", "Their variable that names the rack (rack)");
	add("--arm", o.arms, "NAME=COMMAND", "An arm, and what makes a host one; repeatable, first the control")
		->allow_extra_args(false);
	add("--by", o.by, "racks|time", "Arms by rack, or all racks at once by time (racks)");
	add("--name", o.name, "NAME", "Of the experiment (experiment)");
	add("--start", o.start, "TIME", "In UTC, 2026-11-25T10:00Z (the next full hour)");
	add("--period", o.period, "SPAN", "Of one look, and between two switches: 90, 15m, 1h, 2d (1h)");
	add("--periods", o.periods, "N", "How many (24)");
	add("--carry-over", o.carry_over, "SPAN", "Dropped at the beginning of each period, by rack of the first (5m)");
	add("--metric", o.metrics, "NAME[:KIND][=QUERY]", "What it is about (rtt_p99); repeatable")->allow_extra_args(false);
	add("--guardrail", o.guardrails, "NAME[:KIND][:MARGIN][=QUERY]", "What must not worsen (goodput:2%, retransmits:0.001); repeatable")
		->allow_extra_args(false);
	add("--prometheus", o.prometheus, "URL|FILE", "Where the metrics are; a FILE has --save's answers. plan: the past");
	add("--token-file", o.token_file, "FILE", "With Prometheus' bearer token");
	add("--ca-file", o.ca_file, "FILE", "With the authorities of its certificate (the system's)");
	add("--rack-label", o.rack_label, "NAME", "Of its series (rack)");
	add("--match", o.match, "SELECTOR", "Of its series (job=\"swiftd\")");
	add("--out", o.out, "DIR", "plan: where plan.json and inventory.yml go (the experiment's name)");
	add("--plan", o.plan, "FILE", "read: the plan.json");
	add("--save", o.save, "FILE", "Keep Prometheus' answers");
}

} // namespace swift
