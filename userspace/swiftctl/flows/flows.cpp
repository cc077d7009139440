// SPDX-License-Identifier: MIT
// `swiftctl flows`: asks the kernel, once or again and again, and prints.
#include "flows.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <span>

#include "bpf_host.h"
#include "clock_ns.h"
#include "diag.h"
#include "flow_observer.h"
#include "flow_table.h"
#include "netns_list.h"
#include "netns_visit.h"
#include "owner.h"
#include "say.h"
#include "socket_processes.h"
#include "system.h"
#include "text.h"
#include "watch.h"

namespace swift {

namespace {

Result<DiagDump> recorded(const std::string &path)
{
	ASSIGN_OR_RETURN(auto bytes, real_system()->read_file(path));
	DiagDump dump;
	const DiagStatus status = parse_diag(std::as_bytes(std::span(bytes)), dump.flows);

	dump.interrupted = status.interrupted;
	dump.bad_records = status.bad_records;
	dump.malformed = status.malformed;
	return dump;
}

Result<DiagDump> all_flows(const FlowsOptions &options, std::span<const Fd> storages)
{
	if (!options.dump.empty())
		return recorded(options.dump);

	ASSIGN_OR_RETURN(auto client, DiagClient::open());
	return client.dump(states_connected, storages);
}

// By the names that ours have: who has no rights to see BPF maps sees these.
bool bpf_registered(const System &system)
{
	const auto names = read_sysctl(system, "net.ipv4.tcp_available_congestion_control");
	const auto all = names ? words(*names) : std::vector<std::string>();

	return std::any_of(all.begin(), all.end(), [](const std::string &name) { return name.starts_with("bpf_"); });
}

// Of whom flows are, from look to look.
struct Whereabouts {
	NetnsList netns;
	Owners owners;
	SocketProcesses processes{owners.cgroups().mount()};
};

void tell_whose(std::span<Flow> flows, const std::string &netns, const FlowsOptions &options, Whereabouts &where)
{
	const std::int64_t now_ns = clock_ns(CLOCK_MONOTONIC);

	for (Flow &f : flows) {
		auto whose = std::make_shared<Whose>();

		whose->netns = netns;
		whose->owner = where.owners.find(f.cgroup_id, now_ns);
		// Of those that may be shown.
		if (options.processes && (options.all || f.runs_swift() || f.is_bpf()))
			whose->process = where.processes.find(f.inode, whose->owner.cgroup);
		f.whose = std::move(whose);
	}
}

// Adds the flows of all network namespaces but our own.
void add_other_netns(DiagDump &dump, FlowSnapshot &snapshot, std::span<const Fd> storages,
		     const FlowsOptions &options, Whereabouts &where)
{
	std::size_t looked_at = 0;
	const NetnsVisit visit = visit_netns(where.netns.scan(), [&](const Netns &n, int) {
		auto client = DiagClient::open();
		auto more = client ? client->dump(states_connected, storages) : client.error();

		if (!more) {
			snapshot.netns_trouble = n.name + ": " + more.error().text();
			return;
		}
		looked_at++;
		tell_whose(more->flows, n.name, options, where);
		std::move(more->flows.begin(), more->flows.end(), std::back_inserter(dump.flows));
		dump.interrupted |= more->interrupted;
		dump.bad_records += more->bad_records;
		dump.malformed += more->malformed;
	});

	snapshot.netns_count = looked_at;
	snapshot.silent_processes = where.netns.silent_processes();
	if (visit.trouble)
		snapshot.netns_trouble = visit.trouble->text();
}

// As swiftd has them, but for their labels.
std::shared_ptr<const FlowSet> look_of(std::span<const Flow> flows, FlowTable &looks)
{
	const IfaceMap nowhere;

	looks.begin(clock_ns(CLOCK_MONOTONIC), nowhere);
	for (const Flow &f : flows)
		looks.add(f);
	return looks.end();
}

// @looks: those before, if flows are watched.
Result<FlowSnapshot> take(const FlowsOptions &options, const FlowQuery &query, const System &system,
			  Whereabouts &where, FlowTable *looks = nullptr)
{
	FlowSnapshot snapshot;
	const bool live = options.root.empty() && options.dump.empty();
	const std::vector<Fd> storages = live ? bpf_flow_storages() : std::vector<Fd>();
	ASSIGN_OR_RETURN(auto dump, all_flows(options, storages));

	if (live) {
		where.netns.scan_own();
		tell_whose(dump.flows, where.netns.own_name(), options, where);
	}
	if (live && options.all_netns)
		add_other_netns(dump, snapshot, storages, options, where);
	snapshot.time_ns = clock_ns(CLOCK_REALTIME);
	snapshot.module_loaded = module_loaded(system);
	snapshot.bpf_loaded = !storages.empty() || bpf_registered(system);
	snapshot.records_readable = !storages.empty() || system.is_root();
	snapshot.interrupted = dump.interrupted;
	snapshot.bad_records = dump.bad_records;
	snapshot.malformed = dump.malformed;

	const auto look = looks ? look_of(dump.flows, *looks) : nullptr;

	choose(std::move(dump.flows), query, snapshot, verdict_options(system), look.get());
	return snapshot;
}

std::vector<std::string> lines_of(const FlowSnapshot &snapshot, const FlowQuery &query, bool wide,
				  const Terminal &terminal)
{
	return screen(flow_table(snapshot.flows), flow_notes(snapshot, query), wide, terminal);
}

Result<int> watch_flows(const FlowsOptions &options, const FlowQuery &query, const System &system, Whereabouts &where)
{
	FlowTable looks({});

	return watch(query.watch_s, options.json, "... more below: --top or a filter shortens the list",
		     [&](const Terminal &terminal) -> Result<Lines> {
			     ASSIGN_OR_RETURN(const auto s, take(options, query, system, where, &looks));
			     if (options.json)
				     return Lines{flows_json(s, true)};
			     auto lines = lines_of(s, query, options.wide, terminal);

			     lines.insert(lines.begin(),
					  terminal.paint(fmt::format("{}  {} swift flows", local_time(s.time_ns),
								     s.swift_count),
							 Colour::dim));
			     return lines;
		     });
}

} // namespace

Result<int> run_flows(const FlowsOptions &options)
{
	ASSIGN_OR_RETURN(auto query, as_usage(FlowQuery::from(options)));

	RETURN_IF_ERROR(take_netns(options.netns, options.all_netns));

	const auto system = real_system(options.root);
	Whereabouts where;
	ASSIGN_OR_RETURN(auto snapshot, take(options, query, *system, where));

	if (!snapshot.module_loaded && !snapshot.bpf_loaded && snapshot.unread.empty() && !query.every_cc &&
	    snapshot.swift_count + snapshot.other_count + snapshot.guarded_count == 0) {
		if (options.json)
			print(flows_json(snapshot, query.watch_s > 0));
		return Error{"no swift flows: the module tcp_swift is not loaded, and no BPF variant; " +
			     module_hint(*system)};
	}
	if (query.watch_s > 0)
		return watch_flows(options, query, *system, where);
	if (options.json)
		return leave(flows_json(snapshot, false));
	return leave(lines_of(snapshot, query, options.wide, standard_output()));
}

} // namespace swift
