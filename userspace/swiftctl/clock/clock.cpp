// SPDX-License-Identifier: MIT
// `swiftctl clock`: collects what its views show, and runs the feeder.
#include "clock.h"

#include <fmt/format.h>
#include <linux/net_tstamp.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "clock_host.h"
#include "clock_ns.h"
#include "fd.h"
#include "phc.h"
#include "printable.h"
#include "say.h"
#include "system.h"
#include "text.h"
#include "watch.h"

namespace swift {

namespace {

constexpr const char *net_dir = "/sys/class/net";
constexpr int readings = 11;
constexpr std::int64_t reading_gap_ns = 100000000; // a second in all

// Its PHC and stamping are those of the device below.
bool is_stacked(const Files &files, const std::string &dev)
{
	const auto entries = files.list_dir(std::string(net_dir) + "/" + dev);

	return entries && std::any_of(entries->begin(), entries->end(), [](const std::string &e) {
		       return e.starts_with("lower_");
	       });
}

Result<std::vector<std::string>> devices(const Files &files, const std::vector<std::string> &ifaces)
{
	for (const std::string &dev : ifaces) {
		if (dev.empty() || dev.find('/') != std::string::npos)
			return Error{"--iface: not an interface's name", dev};
		if (!files.exists(std::string(net_dir) + "/" + dev))
			return Error{"--iface: no such interface", dev};
	}
	if (!ifaces.empty())
		return ifaces;
	return files.list_dir(net_dir);
}

std::uint32_t ifindex_of(const Files &files, const std::string &dev)
{
	const auto text = files.read_file(std::string(net_dir) + "/" + dev + "/ifindex");
	const auto v = text ? parse_int("", trim(*text), 1, 2147483647) : Result<std::int64_t>(Error{});

	return v ? static_cast<std::uint32_t>(*v) : 0;
}

std::vector<std::string> lines_of(const ClockSnapshot &snapshot, bool wide, const Terminal &terminal)
{
	return screen(clock_table(snapshot), clock_notes(snapshot), wide, terminal);
}

Result<ClockSnapshot> look(const Files &files, Nics &nics, const ClockOptions &options)
{
	const HostNow now = host_now();

	return take_clocks(files, nics, options.ifaces, now, bpf_clocks_now(now.monotonic_ns));
}

Result<int> watch_clocks(const Files &files, Nics &nics, const ClockOptions &options, double watch_s)
{
	return watch(watch_s, options.json, "... more below: --iface shortens the list",
		     [&](const Terminal &terminal) -> Result<Lines> {
			     ASSIGN_OR_RETURN(const auto s, look(files, nics, options));
			     if (options.json)
				     return Lines{clocks_json(s, true)};
			     auto lines = lines_of(s, options.wide, terminal);

			     lines.insert(lines.begin(), terminal.paint(local_time(s.now.realtime_ns), Colour::dim));
			     return lines;
		     });
}

Result<int> show(System &system, Nics &nics, const ClockOptions &options)
{
	double watch_s = 0;

	RETURN_IF_ERROR(as_usage(take_watch(watch_s, options.watch)));
	if (auto known = devices(system, options.ifaces); !known && !options.ifaces.empty())
		return known.error();
	if (watch_s > 0)
		return watch_clocks(system, nics, options, watch_s);

	ASSIGN_OR_RETURN(auto snapshot, look(system, nics, options));

	const int status = options.json ? leave(clocks_json(snapshot, false)) :
					  leave(lines_of(snapshot, options.wide, standard_output()));

	if (status == exit_ok && snapshot.error)
		return with_module_hint(system, *snapshot.error);
	return status;
}

ClockMeasurement measured(const std::string &iface, const NicTimestamps &t, ClockHost &host,
			  std::unique_ptr<PhcReader> &reader)
{
	ClockMeasurement m;

	m.iface = iface;
	m.phc_index = t.phc_index;
	auto device = host.open_phc(t.phc_index);

	if (device)
		reader = std::make_unique<PhcReader>(std::move(*device));
	else
		m.error = device.error();
	return m;
}

Result<int> read_clocks(const Files &files, Nics &nics, const ClockOptions &options)
{
	ASSIGN_OR_RETURN(auto known, devices(files, options.ifaces));
	ASSIGN_OR_RETURN(auto host, real_clock_host());
	std::vector<ClockMeasurement> all;
	std::vector<std::unique_ptr<PhcReader>> readers;

	for (const std::string &dev : known) {
		const auto t = nics.timestamps(dev);

		if (t && t->phc_index >= 0 && (!options.ifaces.empty() || !is_stacked(files, dev)))
			all.push_back(measured(dev, *t, *host, readers.emplace_back()));
		else if (!options.ifaces.empty())
			return Error{dev + ": " + (t ? "it has no clock of its own (PHC)" : t.error().text())};
	}
	if (all.empty())
		return Error{"no NIC here has a clock of its own (PHC)"};

	std::vector<ClockFit> fits(all.size());
	const std::int64_t start = host->now_ns();

	for (int n = 0; n < readings; n++) {
		const std::int64_t until = start + n * reading_gap_ns;
		const timespec when = {until / 1000000000, until % 1000000000};

		while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, nullptr) == EINTR)
			continue;
		for (std::size_t i = 0; i < all.size(); i++) {
			if (!readers[i] || all[i].error)
				continue;
			auto reading = readers[i]->read();

			if (!reading) {
				all[i].error = reading.error();
				continue;
			}
			fits[i].add(*reading);
			all[i].window_ns = n ? std::min(all[i].window_ns, reading->window_ns) :
					       reading->window_ns;
		}
	}

	bool any = false;

	for (std::size_t i = 0; i < all.size(); i++) {
		if (all[i].error)
			continue;
		all[i].method = phc_method_text(readers[i]->method());
		all[i].readings = fits[i].count();
		all[i].line = fits[i].line(0);
		if (!all[i].line)
			all[i].error = Error{"its clock and the host's do not run alike: no line fits them"};
		any |= all[i].line.has_value();
	}

	const HostNow now = host_now();

	if (!print(options.json ? measurements_json(all, now) :
				  table_text(measurement_table(all, now), standard_output())))
		return exit_failed;
	if (!options.json)
		for (const ClockMeasurement &m : all)
			if (m.error)
				note(clock_verb, m.iface + ": " + m.error->text());
	return any ? exit_ok : exit_failed;
}

// An Error: what could not be put back stays remembered.
Result<void> restore_from(StampingMemory &memory, Nics &nics, std::vector<FeedEvent> &events)
{
	ASSIGN_OR_RETURN(auto all, memory.load());
	std::vector<RememberedStamping> left;
	Result<void> result;

	if (!memory.exists())
		return {};
	for (const RememberedStamping &r : all) {
		const auto done = put_back(nics, r);
		const std::string was = stamping_text(r.before);

		if (!done) {
			left.push_back(r);
			result = Error{r.iface + ": " + done.error().text()};
			events.push_back({true, r.iface, "failed", "cannot put it back to " + was + ": " +
									  done.error().text()});
		} else if (*done == PutBack::left) {
			events.push_back({true, r.iface, "left",
					  "somebody else has changed it meanwhile: left alone; it was " + was});
		} else if (*done == PutBack::gone) {
			events.push_back({false, r.iface, "gone", "the interface is gone"});
		} else {
			events.push_back({false, r.iface, "restored", "stamping is back to " + was});
		}
	}
	if (auto saved = memory.save(left); !saved && result)
		result = saved;
	return result;
}

Result<int> restore(Files &files, Nics &nics, const ClockOptions &options)
{
	ASSIGN_OR_RETURN(auto host, real_clock_host());

	// Of whichever feeder: swiftd's is confined, and its memory is checked as it is read.
	std::array<StampingMemory, 2> memories = {StampingMemory(files, host->netns(), Keeper::tools),
						  StampingMemory(files, host->netns(), Keeper::service)};
	std::vector<FeedEvent> events;
	std::optional<Error> error;

	if (!memories[0].exists() && !memories[1].exists()) {
		if (options.json)
			return leave("");
		return leave("nothing to put back: no clock feeder has left a NIC changed\n");
	}
	if (auto held = memories[0].hold(); !held)
		return Error{held.error().text() +
			     (held.error().code == EBUSY ? ": it puts back what it changed when it ends" : "")};
	for (StampingMemory &memory : memories)
		if (auto done = restore_from(memory, nics, events); !done && !error)
			error = done.error();
	for (const FeedEvent &e : events)
		if (!print(options.json ? feed_event_json(e, clock_ns(CLOCK_REALTIME)) :
					  printable(fmt::format("{}: {}", e.iface, e.text)) + "\n"))
			return exit_failed;
	if (error)
		return *error;
	return exit_ok;
}

Result<int> dry_run(const Files &files, Nics &nics, const ClockOptions &options, std::uint32_t interval_ms)
{
	ASSIGN_OR_RETURN(auto plans, plan_clocks(files, nics, options.ifaces));
	std::string out;

	if (options.json) {
		out = plans_json(plans, interval_ms);
	} else {
		for (const ClockPlan &p : plans)
			if (p.fit || !options.ifaces.empty())
				out += printable(plan_text(p, interval_ms)) + "\n";
	}
	if (!print(out))
		return exit_failed;
	if (std::any_of(plans.begin(), plans.end(), [](const ClockPlan &p) { return p.fit; }))
		return exit_ok;
	return Error{"no NIC here can stamp all packets in hardware"};
}

// Why nothing can be fed, if that is so and will not change by itself.
std::optional<std::string> hopeless(const std::vector<FeedStatus> &all)
{
	std::string reasons;

	for (const FeedStatus &s : all) {
		if (s.state == FeedState::fed || s.state == FeedState::measuring ||
		    s.state == FeedState::busy || s.state == FeedState::no_module ||
		    s.state == FeedState::yielded)
			return std::nullopt;
		reasons += (reasons.empty() ? "" : "; ") + s.iface + ": " + s.trouble;
	}
	return all.empty() ? "no NIC here can stamp all packets in hardware (swiftctl clock shows them)" :
			     reasons;
}

Result<int> feed(Files &files, Nics &nics, const ClockOptions &options, std::uint32_t interval_ms)
{
	const StopSignals stop;
	const Fd signals(signalfd(-1, &stop.set(), SFD_NONBLOCK | SFD_CLOEXEC));
	bool reader_gone = false;

	if (!signals)
		return errno_error("cannot wait for signals", errno);
	ASSIGN_OR_RETURN(auto host, real_clock_host());
	RETURN_IF_ERROR(devices(files, options.ifaces));

	ClockFeeder feeder(files, nics, *host, {options.ifaces, interval_ms}, [&](const FeedEvent &e) {
		if (options.json)
			reader_gone |= !print(feed_event_json(e, clock_ns(CLOCK_REALTIME)));
		else if (e.trouble)
			note(clock_verb, e.iface + ": " + e.text);
		else
			reader_gone |= !print(printable(fmt::format("{}: {}", e.iface, e.text)) + "\n");
	});

	RETURN_IF_ERROR(feeder.start());
	if (const auto why = hopeless(feeder.status()))
		return Error{*why};

	std::array<pollfd, 2> wait = {{{feeder.fd(), POLLIN, 0}, {signals.get(), POLLIN, 0}}};

	while (!reader_gone) {
		if (poll(wait.data(), wait.size(), -1) < 0 && errno != EINTR)
			return errno_error("cannot wait for events", errno);
		if (wait[1].revents)
			break;
		if (wait[0].revents)
			feeder.dispatch();
	}
	const Error why{unwritten().text() + "; no clock is fed any more"};

	feeder.stop();
	return reader_gone ? Result<int>(why) : exit_ok;
}

} // namespace

HostNow host_now()
{
	return {clock_ns(CLOCK_MONOTONIC), clock_ns(CLOCK_REALTIME)};
}

Result<ClockSnapshot> take_clocks(const Files &files, Nics &nics, const std::vector<std::string> &ifaces,
				  const HostNow &now, const BpfClockTable &bpf)
{
	ClockSnapshot snapshot;
	ASSIGN_OR_RETURN(const auto known, devices(files, ifaces));
	auto clocks = nics.nic_clocks();

	snapshot.now = now;
	// Without the module, but with a variant that takes clocks, all is well.
	if (!clocks && (clocks.error().code != error_no_module || bpf.variants.empty()))
		snapshot.error = clocks.error();
	for (const std::string &dev : known) {
		ClockRow row;
		const auto t = nics.timestamps(dev);

		row.iface = dev;
		row.ifindex = ifindex_of(files, dev);
		if (t)
			row.stamps = *t;
		if (clocks)
			for (const NicClock &c : *clocks)
				if (c.ifindex == row.ifindex)
					row.clock = c;
		std::copy_if(bpf.clocks.begin(), bpf.clocks.end(), std::back_inserter(row.bpf),
			     [&](const BpfClock &c) { return c.clock.ifindex == row.ifindex; });
		if (row.clock && row.clock->owner)
			row.owner = netlink_port_text(files, row.clock->owner);
		if (row.line() || !ifaces.empty() ||
		    (t && t->phc_index >= 0 && !is_stacked(files, dev)))
			snapshot.rows.push_back(std::move(row));
	}
	return snapshot;
}

Result<std::vector<ClockPlan>> plan_clocks(const Files &files, Nics &nics, const std::vector<std::string> &ifaces)
{
	ASSIGN_OR_RETURN(auto known, devices(files, ifaces));
	std::vector<ClockPlan> plans;

	for (const std::string &dev : known) {
		const auto t = nics.timestamps(dev);
		ClockPlan p;

		p.iface = dev;
		if (!t)
			p.why_not = "cannot ask for its time stamping: " + t.error().text();
		else if (is_stacked(files, dev))
			p.why_not = "it is on top of another interface: give the NIC itself";
		else if (t->phc_index < 0)
			p.why_not = "it has no clock of its own (PHC)";
		else if (!t->can_hw_rx_all)
			p.why_not = "it cannot stamp all packets; its filters: " +
				    rx_filters_text(t->rx_filters);
		else
			p.fit = true;
		if (t) {
			p.phc_index = t->phc_index;
			p.now = t->now;
			p.wanted = {t->now ? t->now->tx_type : HWTSTAMP_TX_OFF, HWTSTAMP_FILTER_ALL};
			if (p.wanted.tx_type == HWTSTAMP_TX_OFF && (t->tx_types & 1U << HWTSTAMP_TX_ON))
				p.wanted.tx_type = HWTSTAMP_TX_ON;
		}
		plans.push_back(std::move(p));
	}
	return plans;
}

Result<int> run_clock(const ClockOptions &options)
{
	const auto system = real_system(options.root);
	const auto nics = real_nics(options.root);
	ASSIGN_OR_RETURN(auto interval, as_usage(parse_int("--interval", options.interval_ms, 10, 10000)));

	const auto interval_ms = static_cast<std::uint32_t>(interval);

	switch (options.action) {
	case ClockOptions::Action::show:
		break;
	case ClockOptions::Action::run:
		return options.dry_run ? dry_run(*system, *nics, options, interval_ms) :
					 feed(*system, *nics, options, interval_ms);
	case ClockOptions::Action::read:
		return read_clocks(*system, *nics, options);
	case ClockOptions::Action::restore:
		return restore(*system, *nics, options);
	}
	return show(*system, *nics, options);
}

} // namespace swift
