// SPDX-License-Identifier: MIT
// `swiftctl flows`: asks the kernel, once or again and again, and prints.
#include "flows.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <span>

#include "diag.h"
#include "say.h"
#include "system.h"

namespace swift {

namespace {

constexpr const char *verb = "flows";

// Blocks the signals that end a watch, so that they end it between two screens. On the way
// out they are ignored: a second one must not spoil the exit status.
class StopSignals {
public:
	StopSignals()
	{
		sigemptyset(&set_);
		sigaddset(&set_, SIGINT);
		sigaddset(&set_, SIGTERM);
		sigprocmask(SIG_BLOCK, &set_, &before_);
	}
	StopSignals(const StopSignals &) = delete;
	StopSignals &operator=(const StopSignals &) = delete;
	~StopSignals()
	{
		// Ignoring also drops what is pending.
		signal(SIGINT, SIG_IGN);
		signal(SIGTERM, SIG_IGN);
		sigprocmask(SIG_SETMASK, &before_, nullptr);
	}

	// True if it is time to stop.
	[[nodiscard]] bool sleep(double seconds) const
	{
		using namespace std::chrono;
		const auto until = steady_clock::now() + duration_cast<steady_clock::duration>(
								 duration<double>(seconds));

		for (;;) {
			const auto left = std::max<std::int64_t>(
				duration_cast<nanoseconds>(until - steady_clock::now()).count(), 0);
			const timespec wait = {static_cast<time_t>(left / 1000000000),
					       static_cast<long>(left % 1000000000)};

			if (sigtimedwait(&set_, nullptr, &wait) >= 0)
				return true;
			if (errno == EAGAIN)
				return false;
		}
	}

private:
	sigset_t set_{};
	sigset_t before_{};
};

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

Result<DiagDump> all_flows(const FlowsOptions &options)
{
	if (!options.dump.empty())
		return recorded(options.dump);

	auto client = DiagClient::open();

	if (!client)
		return client.error();
	return client->dump(states_connected);
}

Result<FlowSnapshot> take(const FlowsOptions &options, const FlowQuery &query, const System &system)
{
	FlowSnapshot snapshot;
	auto dump = all_flows(options);

	if (!dump)
		return dump.error();
	snapshot.time_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(
				   std::chrono::system_clock::now().time_since_epoch())
				   .count();
	snapshot.module_loaded = module_loaded(system);
	snapshot.interrupted = dump->interrupted;
	snapshot.bad_records = dump->bad_records;
	snapshot.malformed = dump->malformed;
	choose(std::move(dump->flows), query, snapshot);
	return snapshot;
}

std::string local_time(std::int64_t time_ns)
{
	const auto seconds = static_cast<std::time_t>(time_ns / 1000000000);

	std::array<char, 32> day{};
	std::array<char, 8> zone{};
	std::tm parts{};

	localtime_r(&seconds, &parts);
	std::strftime(day.data(), day.size(), "%Y-%m-%d %H:%M:%S", &parts);
	std::strftime(zone.data(), zone.size(), "%z", &parts);
	return fmt::format("{}.{:03} {}", day.data(), time_ns / 1000000 % 1000, zone.data());
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

// Over the last screen, without clearing first: no flicker.
std::string redraw(std::vector<std::string> lines, const Terminal &terminal)
{
	std::string out = "\x1b[H";

	if (terminal.rows > 1 && lines.size() > terminal.rows - 1) {
		const std::size_t kept = terminal.rows - 2;

		lines.resize(kept);
		lines.push_back(terminal.paint("... more below: --top or a filter shortens the list",
					       Colour::dim));
	}
	for (const std::string &line : lines)
		out += line + "\x1b[K\n";
	return out + "\x1b[J";
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
			return fail(verb, snapshot.error().text());
		if (options.json) {
			out = flows_json(*snapshot, true);
		} else {
			auto lines = screen(*snapshot, query, options.wide, terminal);

			lines.insert(lines.begin(),
				     terminal.paint(fmt::format("{}  {} swift flows", local_time(snapshot->time_ns),
								snapshot->swift_count),
						    Colour::dim));
			if (redraws)
				out = (first ? "\x1b[2J" : "") + redraw(std::move(lines), terminal);
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
		return fail_usage(verb, query.error().text());
	if (!options.netns.empty())
		if (auto entered = enter_netns(options.netns); !entered)
			return fail(verb, entered.error().text());

	const auto system = real_system(options.root);
	auto snapshot = take(options, *query, *system);

	if (!snapshot)
		return fail(verb, snapshot.error().text());
	if (!snapshot->module_loaded && snapshot->swift_count + snapshot->guarded_count == 0) {
		if (options.json)
			print(flows_json(*snapshot, query->watch_s > 0));
		return fail(verb, "no swift flows: the module tcp_swift is not loaded; " +
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
