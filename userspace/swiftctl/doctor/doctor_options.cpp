// SPDX-License-Identifier: MIT
// The words of `swiftctl doctor`: options, actions, help.
#include <CLI/CLI.hpp>

#include "doctor.h"

namespace swift {

namespace {

constexpr const char *doctor_footer =
	"Exit status 1 if a finding is a failure.\n"
	"\n"
	"Examples:\n"
	"  swiftctl doctor --iface eth0 --peer 10.0.0.2:443\n"
	"  swiftctl doctor --target-ns 25000 --json";

} // namespace

void add_options(CLI::App &verb, DoctorOptions &o)
{
	verb.footer(doctor_footer);
	add_iface(verb, o.ifaces, "Look at DEV only; repeatable");
	verb.add_option("--peer", o.peer, "Measure the idle RTT to ADDR (port 22 unless given)")
		->type_name("ADDR[:PORT]");
	verb.add_option("--target-ns", o.target_ns, "Judge this static target instead of the host's")
		->type_name("N");
	add_json(verb, o.json);
	add_root(verb, o.root);
}

const Verb doctor_verb = {"doctor", "Judge this host's fitness for swift", add_verb<DoctorOptions, run_doctor>};

} // namespace swift
