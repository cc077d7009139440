// SPDX-License-Identifier: MIT
// `swiftctl probe`: sends at its pace, takes replies and stamps as they come, prints.
#include "probe.h"

#include <fmt/format.h>
#include <net/if.h>
#include <sys/prctl.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "clock_ns.h"
#include "probe_loop.h"
#include "probe_nic.h"
#include "say.h"
#include "system.h"
#include "terminal.h"

namespace swift {

namespace {

constexpr std::int64_t settle_every_ns = 20000000;
constexpr std::int64_t progress_after_ns = 2 * ns_per_s; // shorter runs need none
constexpr std::int64_t closing_gap_ns = 10000000;
constexpr std::int64_t lines_every_ns = 500000000;
constexpr unsigned closing_rounds = 3;
constexpr std::int64_t stop_within_ns = 100000000;
constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();

struct SentProbe {
	std::uint32_t target = 0;
	std::uint32_t seq = 0;
};

struct ProbedTarget {
	TargetReport report;
	ProbeTrack track;
	std::size_t socket = 0;
	bool answered = false; // ever
};

std::string failure_text(int code)
{
	if (code == ECONNREFUSED)
		return "nobody listens there: start `swiftctl probe --respond` on that host";
	return std::strerror(code);
}

class Prober {
public:
	static Result<Prober> open(const ProbePlan &plan, Nics &nics)
	{
		Prober p(plan, nics);

		if (getrandom(&p.cookie_, sizeof(p.cookie_), 0) != sizeof(p.cookie_))
			return errno_error("no random number", errno);
		for (const std::string &name : plan.targets) {
			auto address = resolve_probe(name, probe_port);

			if (!address)
				return address.error();

			auto socket = p.socket_for(address->endpoint.address.v6);

			if (!socket)
				return socket.error();
			p.by_endpoint_.emplace(address->endpoint, p.targets_.size());
			p.targets_.push_back({{name, *address, {}, 0, {}, {}},
					      ProbeTrack(plan.timeout_ns, 2 * plan.interval_ns),
					      *socket,
					      false});
		}
		return p;
	}

	// Until all is done or somebody says stop. Calls @screen every @screen_ns; false from
	// it ends the run.
	template <typename Screen>
	void run(const StopFd &stop, std::int64_t screen_ns, const Screen &screen)
	{
		const std::int64_t gap_ns =
			std::max<std::int64_t>(plan_.interval_ns / static_cast<std::int64_t>(targets_.size()), 1);
		const std::uint64_t slots = plan_.count * targets_.size(); // 0: no end
		std::int64_t next_send_ns = clock_ns(CLOCK_MONOTONIC);
		std::int64_t next_settle_ns = next_send_ns + settle_every_ns;
		std::int64_t next_screen_ns = screen_ns ? next_send_ns + screen_ns : never;
		std::int64_t end_ns = never;
		unsigned rounds = 0;

		start_ns_ = period_ns_ = next_send_ns;
		for (std::uint64_t slot = 0;;) {
			wait_readable(sockets_, stop, std::min({next_send_ns, next_settle_ns, next_screen_ns, end_ns}));
			if (stop.take()) {
				if (end_ns != never)
					return;
				// What is under way may still come; the last turnarounds are fetched.
				slot = slots ? slots : 1;
				end_ns = clock_ns(CLOCK_MONOTONIC) + stop_within_ns;
				next_send_ns = clock_ns(CLOCK_MONOTONIC);
				stopped_ = true;
			}
			for (std::size_t i = 0; i < sockets_.size(); i++)
				take(i);

			const std::int64_t now_ns = clock_ns(CLOCK_MONOTONIC);
			const bool sending = !stopped_ && (slots == 0 || slot < slots);

			if (sending && now_ns >= next_send_ns) {
				send(targets_[slot % targets_.size()], slot % targets_.size(), true);
				slot++;
				// Late by more than an interval, there is no catching up in a burst.
				next_send_ns = now_ns - next_send_ns > plan_.interval_ns ? now_ns :
											   next_send_ns + gap_ns;
				if (slots && slot == slots) {
					end_ns = now_ns + plan_.timeout_ns;
					next_send_ns = now_ns + std::min(plan_.interval_ns, closing_gap_ns);
				}
			} else if (!sending && now_ns >= next_send_ns) {
				fetch_turnarounds();
				next_send_ns = ++rounds < closing_rounds ? now_ns + closing_gap_ns : never;
			}
			if (now_ns >= next_settle_ns || !sending) {
				settle(now_ns);
				next_settle_ns = now_ns + settle_every_ns;
			}
			if (now_ns >= end_ns || (!sending && rounds > 0 && idle()))
				return;
			if (now_ns >= next_screen_ns) {
				if (!screen(now_ns))
					return;
				next_screen_ns = now_ns + screen_ns;
			}
		}
	}

	void finish()
	{
		for (ProbedTarget &t : targets_)
			t.report.in_flight = t.track.finish(clock_ns(CLOCK_MONOTONIC), [&](const Exchange &e) { count(t, e); });
	}

	// Since the last period, or the start.
	[[nodiscard]] ProbeReport report() const
	{
		ProbeReport r;

		r.time_ns = clock_ns(CLOCK_REALTIME);
		r.duration_ns = clock_ns(CLOCK_MONOTONIC) - period_ns_;
		for (const ProbedTarget &t : targets_)
			r.targets.push_back(t.report);
		r.notes = nic_notes();
		if (strangers_)
			r.notes.push_back(fmt::format("{} packets ignored that answer no probe of this run",
						      strangers_));
		return r;
	}
	[[nodiscard]] std::string progress() const
	{
		ProbeProgress p;

		for (const ProbedTarget &t : targets_)
			p.add(t.report.stats);
		return p.text(clock_ns(CLOCK_MONOTONIC) - start_ns_);
	}
	void new_period()
	{
		period_ns_ = clock_ns(CLOCK_MONOTONIC);
		for (ProbedTarget &t : targets_) {
			t.report.stats = {};
			t.report.failure.clear();
		}
	}
	[[nodiscard]] std::vector<std::string> silent() const
	{
		std::vector<std::string> names;

		for (const ProbedTarget &t : targets_)
			if (!t.answered)
				names.push_back(t.report.name);
		return names;
	}

private:
	Prober(const ProbePlan &plan, Nics &nics)
		: plan_(plan), stamping_(&nics), packet_(plan.size_bytes)
	{
	}

	Result<std::size_t> socket_for(bool v6)
	{
		auto &index = v6 ? v6_socket_ : v4_socket_;

		if (!index) {
			ProbeAddress any;

			any.endpoint.address.v6 = v6;
			auto socket = ProbeSocket::open({any, plan_.iface, plan_.dscp});

			if (!socket)
				return socket.error();
			index = sockets_.size();
			sockets_.push_back(std::move(*socket));
			sent_.emplace_back();
		}
		return *index;
	}

	void send(ProbedTarget &t, std::size_t number, bool counts)
	{
		ProbePacket probe;

		probe.cookie = cookie_;
		probe.target = static_cast<std::uint32_t>(number);
		probe.seq = t.track.sent(clock_ns(CLOCK_MONOTONIC), clock_ns(CLOCK_REALTIME), counts);
		write_probe(probe, packet_);

		const auto id = sockets_[t.socket].send(packet_, t.report.address);

		if (!id) {
			t.track.unsent();
			t.report.stats.send_failed += counts;
			t.report.failure = failure_text(id.error().code);
			return;
		}
		sent_[t.socket].add(*id, {probe.target, probe.seq});
	}

	// A probe whose reply nobody counts brings the t3 of the replies before.
	void fetch_turnarounds()
	{
		for (std::size_t i = 0; i < targets_.size(); i++)
			if (targets_[i].answered && !targets_[i].track.idle())
				send(targets_[i], i, false);
	}

	void take(std::size_t socket)
	{
		while (const auto event = sockets_[socket].read_errors()) {
			if (const auto *stamp = std::get_if<TxStamp>(&*event)) {
				if (const SentProbe *p = sent_[socket].find(stamp->id))
					targets_[p->target].track.tx_stamp(p->seq, stamp->point, stamp->ns);
			} else if (const auto *failure = std::get_if<SendFailure>(&*event)) {
				const auto known = by_endpoint_.find(failure->to);

				if (known != by_endpoint_.end())
					targets_[known->second].report.failure = failure_text(failure->code);
			}
		}
		// No more at once than lets the next probe leave in time.
		for (int n = 0; n < 64; n++) {
			const auto d = sockets_[socket].receive();

			if (!d)
				return;
			take_reply(*d);
		}
	}

	void take_reply(const Datagram &d)
	{
		const auto parsed = parse_probe(d.bytes);
		const auto *reply = std::get_if<ProbePacket>(&parsed);

		if (d.cut || !reply || reply->type != ProbeType::reply || reply->cookie != cookie_ ||
		    reply->target >= targets_.size() ||
		    targets_[reply->target].report.address.endpoint != d.from.endpoint) {
			strangers_++;
			return;
		}

		ProbedTarget &t = targets_[reply->target];

		switch (t.track.reply(*reply, d.rx)) {
		case ReplyKind::fresh:
			t.answered = true;
			t.report.nic = name_of(d.rx.ifindex);
			break;
		case ReplyKind::duplicate:
			t.report.stats.duplicates++;
			break;
		case ReplyKind::late:
			t.report.stats.late++;
			break;
		case ReplyKind::unknown:
			strangers_++;
			break;
		}
	}

	const std::string &name_of(unsigned ifindex)
	{
		const auto [known, fresh] = nics_.try_emplace(ifindex);
		char name[IF_NAMESIZE] = "";

		if (fresh && if_indextoname(ifindex, name))
			known->second = name;
		return known->second;
	}

	void count(ProbedTarget &t, const Exchange &e)
	{
		if (e.rx.wire_ns || e.tx.wire_ns)
			refresh_lines();
		t.report.stats.add(e, measure(e, [this](unsigned ifindex, std::int64_t nic_ns) {
					   return lines_.to_host(ifindex, nic_ns);
				   }));
	}
	void refresh_lines()
	{
		const std::int64_t now_ns = clock_ns(CLOCK_MONOTONIC);

		if (now_ns < next_lines_ns_)
			return;
		const auto clocks = stamping_->nic_clocks();

		// Without the module there are none.
		lines_.update(clocks ? *clocks : std::vector<NicClock>(), clock_ns(CLOCK_REALTIME) - clock_ns(CLOCK_MONOTONIC));
		next_lines_ns_ = now_ns + lines_every_ns;
	}
	void settle(std::int64_t now_ns)
	{
		for (ProbedTarget &t : targets_)
			t.track.settle(now_ns, [&](const Exchange &e) { count(t, e); });
	}
	[[nodiscard]] bool idle() const
	{
		return std::all_of(targets_.begin(), targets_.end(),
				   [](const ProbedTarget &t) { return t.track.idle(); });
	}

	// NICs that could stamp and were not told to.
	[[nodiscard]] std::vector<std::string> nic_notes() const
	{
		std::set<std::string> software;
		std::set<std::string> unlined;
		std::vector<std::string> notes;

		for (const ProbedTarget &t : targets_) {
			const StampClass *c = t.report.stats.best();

			if (t.report.nic.empty() || !c)
				continue;
			if (c->local == Stamp::software)
				software.insert(t.report.nic);
			else if (t.report.stats.rx_stamp() != Stamp::hardware)
				unlined.insert(t.report.nic);
		}
		for (const std::string &nic : unlined)
			notes.push_back(fmt::format("tx and rx are without {}'s own share: its clock is not "
						    "tied to the host's (`swiftctl clock run` does it)",
						    nic));
		for (const std::string &nic : software) {
			const auto can = stamping_->timestamps(nic);

			if (can && can->can_hw_rx_all && !can->hw_rx_all_on)
				notes.push_back(fmt::format("{} can stamp packets but is not told to: "
							    "`swiftctl clock run`, or --stamp",
							    nic));
		}
		return notes;
	}

	ProbePlan plan_;
	Nics *stamping_;
	std::uint64_t cookie_ = 0;
	std::vector<ProbeSocket> sockets_;
	std::vector<SentPackets<SentProbe>> sent_; // of each socket
	std::optional<std::size_t> v4_socket_;
	std::optional<std::size_t> v6_socket_;
	std::vector<ProbedTarget> targets_;
	std::map<Endpoint, std::size_t> by_endpoint_;
	std::map<unsigned, std::string> nics_;
	std::vector<std::byte> packet_;
	NicLines lines_;
	std::int64_t next_lines_ns_ = 0;
	std::uint64_t strangers_ = 0;
	std::int64_t start_ns_ = 0;
	std::int64_t period_ns_ = 0;
	bool stopped_ = false;
};

std::vector<std::string> screen_lines(const ProbeReport &report, const ProbePlan &plan, const Terminal &terminal)
{
	return screen(probe_table(report), probe_notes(report), plan.wide, terminal);
}

std::string output_text(const ProbeReport &report, const ProbePlan &plan, const Terminal &terminal)
{
	if (plan.json)
		return probe_json(report, plan, plan.watch_s > 0);
	return fmt::format("{}\n{}", fmt::join(screen_lines(report, plan, terminal), "\n"),
			   plan.watch_s > 0 ? "\n" : "");
}

int probe(const ProbePlan &plan)
{
	const auto nics = real_nics();
	auto prober = Prober::open(plan, *nics);

	if (!prober)
		return fail(probe_verb, prober.error().text());

	const StopFd stop;
	const Terminal terminal = standard_output();
	const auto expected_ns = static_cast<double>(plan.count) * static_cast<double>(plan.interval_ns);
	const bool live = terminal.is_terminal && !plan.json && plan.watch_s == 0 &&
			  expected_ns > static_cast<double>(progress_after_ns);
	const bool redraws = terminal.is_terminal && !plan.json && plan.watch_s > 0;
	std::optional<BorrowedStamping> stamping;

	if (plan.stamp) {
		auto on = BorrowedStamping::take(*nics, plan.iface);

		if (!on)
			return fail(probe_verb, on.error().text());
		stamping.emplace(std::move(*on));
	}
	// Probes leave when they are due, not up to 50 us later.
	prctl(PR_SET_TIMERSLACK, 1UL);

	bool written = true;
	const auto show = [&](std::int64_t) {
		if (plan.watch_s > 0) {
			const Terminal now = standard_output(); // it may have been resized

			written = print(redraws ? redraw(screen_lines(prober->report(), plan, now), now,
							 "... more below: fewer targets at a time fit") :
						  output_text(prober->report(), plan, now));
			prober->new_period();
		} else if (live) {
			written = print("\r" + prober->progress() + "\x1b[K");
		}
		return written;
	};

	if (redraws)
		print("\x1b[2J");
	prober->run(stop, plan.watch_s > 0 ? static_cast<std::int64_t>(plan.watch_s * 1e9) :
			  live		   ? ns_per_s :
					     0,
		    show);
	prober->finish();
	if (live)
		print("\r\x1b[K");
	if (written)
		written = print(output_text(prober->report(), plan, terminal));

	auto silent = prober->silent();

	if (!silent.empty()) {
		const std::size_t all = silent.size();

		silent.resize(std::min<std::size_t>(all, 5));
		return fail(probe_verb, fmt::format("no reply from {}{}", fmt::join(silent, ", "),
					      all > silent.size() ?
						      fmt::format(" and {} more", all - silent.size()) :
						      ""));
	}
	return written ? exit_ok : exit_failed;
}

} // namespace

int run_probe(const ProbeOptions &options)
{
	std::string file;

	if (!options.targets_file.empty()) {
		auto content = real_system()->read_file(options.targets_file);

		if (!content)
			return fail(probe_verb, content.error().text());
		file = std::move(*content);
	}

	auto plan = ProbePlan::from(options, file);

	if (!plan)
		return fail_usage(probe_verb, plan.error().text());
	return options.respond ? run_responder(*plan) : probe(*plan);
}

} // namespace swift
