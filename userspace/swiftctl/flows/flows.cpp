// SPDX-License-Identifier: MIT
// `swiftctl flows`: asks the kernel, once or again and again, and prints.
#include "flows.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "bpf_host.h"
#include "clock_ns.h"
#include "diag.h"
#include "flow_observer.h"
#include "netns.h"
#include "say.h"
#include "system.h"
#include "text.h"
#include "watch.h"

namespace swift {

namespace {

Result<DiagDump> recorded(const std::string &path)
{
	auto bytes = real_system()->read_file(path);
	DiagDump dump;

	if (!bytes)
		return bytes.error();
	const DiagStatus status = parse_diag(std::as_bytes(std::span(*bytes)), dump.flows);

	dump.interrupted = status.interrupted;
	dump.bad_records = status.bad_records;
	dump.malformed = status.malformed;
	return dump;
}

Result<DiagDump> all_flows(const FlowsOptions &options, std::span<const Fd> storages)
{
	if (!options.dump.empty())
		return recorded(options.dump);

	auto client = DiagClient::open();

	if (!client)
		return client.error();
	return client->dump(states_connected, storages);
}

// By the names that ours have: who has no rights to see BPF maps sees these.
bool bpf_registered(const System &system)
{
	const auto names = read_sysctl(system, "net.ipv4.tcp_available_congestion_control");
	const auto all = names ? words(*names) : std::vector<std::string>();

	return std::any_of(all.begin(), all.end(), [](const std::string &name) { return name.starts_with("bpf_"); });
}

Result<FlowSnapshot> take(const FlowsOptions &options, const FlowQuery &query, const System &system)
{
	FlowSnapshot snapshot;
	const bool live = options.root.empty() && options.dump.empty();
	const std::vector<Fd> storages = live ? bpf_flow_storages() : std::vector<Fd>();
	auto dump = all_flows(options, storages);

	if (!dump)
		return dump.error();
	snapshot.time_ns = clock_ns(CLOCK_REALTIME);
	snapshot.module_loaded = module_loaded(system);
	snapshot.bpf_loaded = !storages.empty() || bpf_registered(system);
	snapshot.records_readable = !storages.empty() || system.is_root();
	snapshot.interrupted = dump->interrupted;
	snapshot.bad_records = dump->bad_records;
	snapshot.malformed = dump->malformed;
	choose(std::move(dump->flows), query, snapshot, verdict_options(system));
	return snapshot;
}

std::vector<std::string> screen(const FlowSnapshot &snapshot, const FlowQuery &query, bool wide,
				Terminal terminal)
{
	std::vector<std::string> lines;
	std::vector<std::string> notes = flow_notes(snapshot, query);

	if (wide)
		terminal.columns = 0;
	if (!snapshot.flows.empty()) {
		RenderedTable table = render(flow_table(snapshot.flows), terminal);

		lines = std::move(table.lines);
		if (!table.left_out.empty())
			notes.push_back(fmt::format("left out to fit: {}; --wide shows them",
						    fmt::join(table.left_out, ", ")));
	}
	for (const std::string &text : notes)
		lines.push_back(terminal.paint(text, Colour::dim));
	return lines;
}

int watch(const FlowsOptions &options, const FlowQuery &query, const System &system)
{
	const StopSignals stop;
	bool first = true;

	for (;;) {
		const Terminal terminal = standard_output();
		const bool redraws = terminal.is_terminal && !options.json;
		auto snapshot = take(options, query, system);
		std::string out;

		if (!snapshot)
			return fail(flows_verb, snapshot.error().text());
		if (options.json) {
			out = flows_json(*snapshot, true);
		} else {
			auto lines = screen(*snapshot, query, options.wide, terminal);

			lines.insert(lines.begin(),
				     terminal.paint(fmt::format("{}  {} swift flows", local_time(snapshot->time_ns),
								snapshot->swift_count),
						    Colour::dim));
			if (redraws)
				out = (first ? "\x1b[2J" : "") +
				      redraw(std::move(lines), terminal,
					     "... more below: --top or a filter shortens the list");
			else
				out = fmt::format("{}\n\n", fmt::join(lines, "\n"));
		}
		first = false;
		if (!print(out))
			return exit_failed;
		if (stop.sleep(query.watch_s))
			return exit_ok;
	}
}

} // namespace

int run_flows(const FlowsOptions &options)
{
	auto query = FlowQuery::from(options);

	if (!query)
		return fail_usage(flows_verb, query.error().text());
	if (!options.netns.empty())
		if (auto entered = enter_netns(options.netns); !entered)
			return fail(flows_verb, entered.error().text());

	const auto system = real_system(options.root);
	auto snapshot = take(options, *query, *system);

	if (!snapshot)
		return fail(flows_verb, snapshot.error().text());
	if (!snapshot->module_loaded && !snapshot->bpf_loaded && snapshot->unread.empty() && !query->every_cc &&
	    snapshot->swift_count + snapshot->other_count + snapshot->guarded_count == 0) {
		if (options.json)
			print(flows_json(*snapshot, query->watch_s > 0));
		return fail(flows_verb, "no swift flows: the module tcp_swift is not loaded, and no BPF variant; " +
					  module_hint(*system));
	}
	if (query->watch_s > 0)
		return watch(options, *query, *system);
	if (options.json)
		return print(flows_json(*snapshot, false)) ? exit_ok : exit_failed;

	const auto lines = screen(*snapshot, *query, options.wide, standard_output());

	return print(fmt::format("{}\n", fmt::join(lines, "\n"))) ? exit_ok : exit_failed;
}

} // namespace swift
