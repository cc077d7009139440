// SPDX-License-Identifier: MIT
// The words of `swiftctl pods`: options, help.
#include <CLI/CLI.hpp>

#include "pods.h"

namespace swift {

namespace {

constexpr const char *pods_footer =
	"A pod asks by the annotation tcp-swift/enable: \"true\". In its network namespace swift becomes the\n"
	"default of new connections, with the settings that are given here; what was there before is\n"
	"remembered (/var/lib/tcp_swift), and comes back when the pod asks no more. With --watch all of it\n"
	"comes back when swiftctl is told to end (SIGTERM). A list that cannot be had changes nothing.\n"
	"\n"
	"It needs root, the node's processes (hostPID) and control groups, and a /proc/sys that can be\n"
	"written; the module has to be there. See Documentation/fleet.md.\n"
	"\n"
	"Examples:\n"
	"  kubectl get pods -A -o json --field-selector spec.nodeName=$(hostname) >pods.json\n"
	"  swiftctl pods --list pods.json --echo --dry-run\n"
	"  swiftctl pods --watch 10 --echo --token-file TOKEN --ca-file CA --list \\\n"
	"    'https://SERVER/api/v1/pods?fieldSelector=spec.nodeName%3DNODE&resourceVersion=0'";

} // namespace

void add_options(CLI::App &verb, PodsOptions &o)
{
	verb.footer(pods_footer);
	verb.add_option("--list", o.list, "The node's pods, as Kubernetes tells them in JSON")->type_name("FILE|URL")->required();
	verb.add_option("--token-file", o.token_file, "With the bearer token in it")->type_name("FILE");
	verb.add_option("--ca-file", o.ca_file, "Authorities of the URL's certificate; default: the system's")->type_name("FILE");
	verb.add_flag("--no-default", o.give.no_default, "Only what --echo and --set say: sockets have to ask for swift");
	verb.add_flag("--echo", o.give.echo, "Negotiate the delay echo; both ends need it");
	verb.add_option("--set", o.give.set, "Set net.ipv4.tcp_swift.NAME; repeatable")->type_name("NAME=VALUE");
	add_watch(verb, o.watch);
	verb.add_flag("--keep", o.keep, "At the end of --watch, take nothing back");
	verb.add_flag("--dry-run", o.give.dry_run, "Print the commands instead");
	add_json(verb, o.json, json_lines_help);
	add_root(verb, o.root);
}

const Verb pods_verb = {"pods", "Give swift to the pods of this node that ask for it", add_verb<PodsOptions, run_pods>};

} // namespace swift
