// SPDX-License-Identifier: MIT
// The words of `swiftctl credit`: options, help.
#include <CLI/CLI.hpp>

#include "credit.h"

namespace swift {

namespace {

constexpr const char *credit_footer =
	"Devices: B = what the link lends at most, lent = under way, or may be at once, of all network\n"
	"namespaces; loop = until credit comes back as data. Peers: wanted = what they told to have and\n"
	"have no credit for; bucket = what one peer is lent at most. Standing = why there is no more:\n"
	"  idle, served   nothing more is wanted\n"
	"  link           the link has lent B, or a BDP to that peer: it is this host's link that is full\n"
	"  sender         the peer's own link is congested (csn)     network   marks (ECN) say that it is\n"
	"  late           what it was lent comes late: a slow core here, or the peer's own window\n"
	"  buffer         the application here does not read         silent    nothing comes any more\n"
	"  no_rate        the device's rate is not known: sysctl -w net.ipv4.tcp_swift.link_mbps=N\n"
	"\n"
	"Examples:\n"
	"  swiftctl credit --watch\n"
	"  swiftctl credit --flows --peer 10.1.0.0/16 --top 20";

} // namespace

void add_options(CLI::App &verb, CreditOptions &o)
{
	verb.footer(credit_footer);
	verb.add_flag("--flows", o.flows, "By flow, not by peer");
	verb.add_option("--peer", o.peers, "Of this address or prefix; repeated: any of them")
		->type_name("PREFIX")
		->allow_extra_args(false);
	verb.add_option("--top", o.top, "The first N peers or flows only")->type_name("N");
	add_watch(verb, o.watch);
	add_netns(verb, o.netns);
	add_wide(verb, o.wide);
	add_json(verb, o.json, json_lines_help);
	add_root(verb, o.root);
}

const Verb credit_verb = {"credit", "What this host lends those that send to it", add_verb<CreditOptions, run_credit>};

} // namespace swift
