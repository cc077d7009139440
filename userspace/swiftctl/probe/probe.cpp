// SPDX-License-Identifier: MIT
// `swiftctl probe`: sends at its pace, takes replies and stamps as they come, prints.
#include "probe.h"

#include <fmt/format.h>
#include <net/if.h>
#include <sys/prctl.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "clock_ns.h"
#include "probe_client.h"
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
constexpr unsigned closing_rounds = 3;
constexpr std::int64_t stop_within_ns = 100000000;
constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();

class Run : public Prober {
public:
	static Result<std::unique_ptr<Run>> open(const ProbePlan &plan, Nics &nics)
	{
		ASSIGN_OR_RETURN(auto client, ProbeClient::open({plan.size_bytes, plan.iface, plan.dscp, plan.timeout_ns,
								 2 * plan.interval_ns},
								plan.keys, nics));
		auto run = std::make_unique<Run>(plan, nics, std::move(client));

		for (const std::string &name : plan.targets) {
			ASSIGN_OR_RETURN(auto address, resolve_probe(name, probe_port));

			RETURN_IF_ERROR(run->client_.add(address));
			run->targets_.push_back({name, address, {}, 0, {}, {}});
		}
		return run;
	}
	Run(const ProbePlan &plan, Nics &nics, ProbeClient client) : plan_(plan), nics_(&nics), client_(std::move(client)) {}

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
			wait_readable(client_.sockets(), stopped_ ? -1 : stop.fd(),
				      std::min({next_send_ns, next_settle_ns, next_screen_ns, end_ns}));
			if (!stopped_ && stop.asked()) {
				if (end_ns != never)
					return;
				// What is under way may still come; the last turnarounds are fetched.
				slot = slots ? slots : 1;
				end_ns = clock_ns(CLOCK_MONOTONIC) + stop_within_ns;
				next_send_ns = clock_ns(CLOCK_MONOTONIC);
				stopped_ = true;
			}
			client_.take(*this);

			const std::int64_t now_ns = clock_ns(CLOCK_MONOTONIC);
			const bool sending = !stopped_ && (slots == 0 || slot < slots);

			if (sending && now_ns >= next_send_ns) {
				send(slot % targets_.size(), true);
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
				client_.settle(*this, now_ns);
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
		for (std::size_t i = 0; i < targets_.size(); i++)
			targets_[i].in_flight = client_.finish(*this, i, clock_ns(CLOCK_MONOTONIC));
	}

	// Since the last period, or the start.
	[[nodiscard]] ProbeReport report() const
	{
		ProbeReport r;
		const std::uint64_t refused = sum_of(client_.refused());

		r.time_ns = clock_ns(CLOCK_REALTIME);
		r.duration_ns = clock_ns(CLOCK_MONOTONIC) - period_ns_;
		r.targets = targets_;
		r.notes = nic_notes();
		if (client_.strangers())
			r.notes.push_back(fmt::format("{} packets ignored that answer no probe of this run",
						      client_.strangers()));
		if (refused)
			r.notes.push_back(fmt::format("{} replies ignored that are not signed by a key of {}", refused, plan_.key_file));
		return r;
	}
	[[nodiscard]] std::string progress() const
	{
		ProbeProgress p;

		for (const TargetReport &t : targets_)
			p.add(t.stats);
		return p.text(clock_ns(CLOCK_MONOTONIC) - start_ns_);
	}
	void new_period()
	{
		period_ns_ = clock_ns(CLOCK_MONOTONIC);
		for (TargetReport &t : targets_) {
			t.stats = {};
			t.failure.clear();
		}
	}
	[[nodiscard]] std::vector<std::string> silent() const
	{
		std::vector<std::string> names;

		for (std::size_t i = 0; i < targets_.size(); i++)
			if (!client_.answered(i))
				names.push_back(targets_[i].name);
		return names;
	}

	void replied(std::size_t target, ReplyKind kind, unsigned ifindex) override
	{
		TargetReport &t = targets_[target];

		t.stats.duplicates += kind == ReplyKind::duplicate;
		t.stats.late += kind == ReplyKind::late;
		if (kind == ReplyKind::fresh)
			t.nic = name_of(ifindex);
	}
	void failed(std::size_t target, int code) override { targets_[target].failure = probe_failure_text(code); }
	void settled(std::size_t target, const Exchange &exchange, const Measured &measured) override
	{
		targets_[target].stats.add(exchange, measured);
	}

private:
	void send(std::size_t target, bool counts)
	{
		if (auto sent = client_.send(target, counts); !sent) {
			targets_[target].stats.send_failed += counts;
			targets_[target].failure = probe_failure_text(sent.error().code);
		}
	}

	// A probe whose reply nobody counts brings the t3 of the replies before.
	void fetch_turnarounds()
	{
		for (std::size_t i = 0; i < targets_.size(); i++)
			if (client_.answered(i) && !client_.idle(i))
				send(i, false);
	}

	const std::string &name_of(unsigned ifindex)
	{
		const auto [known, fresh] = nic_names_.try_emplace(ifindex);
		char name[IF_NAMESIZE] = "";

		if (fresh && if_indextoname(ifindex, name))
			known->second = name;
		return known->second;
	}

	[[nodiscard]] bool idle() const
	{
		for (std::size_t i = 0; i < targets_.size(); i++)
			if (!client_.idle(i))
				return false;
		return true;
	}

	// NICs that could stamp and were not told to.
	[[nodiscard]] std::vector<std::string> nic_notes() const
	{
		std::set<std::string> software;
		std::set<std::string> unlined;
		std::vector<std::string> notes;

		for (const TargetReport &t : targets_) {
			const StampClass *c = t.stats.best();

			if (t.nic.empty() || !c)
				continue;
			if (c->local == Stamp::software)
				software.insert(t.nic);
			else if (t.stats.rx_stamp() != Stamp::hardware)
				unlined.insert(t.nic);
		}
		for (const std::string &nic : unlined)
			notes.push_back(fmt::format("tx and rx are without {}'s own share: its clock is not "
						    "tied to the host's (`swiftctl clock run` does it)",
						    nic));
		for (const std::string &nic : software) {
			const auto can = nics_->timestamps(nic);

			if (can && can->can_hw_rx_all && !can->hw_rx_all_on)
				notes.push_back(fmt::format("{} can stamp packets but is not told to: "
							    "`swiftctl clock run`, or --stamp",
							    nic));
		}
		return notes;
	}

	ProbePlan plan_;
	Nics *nics_;
	ProbeClient client_;
	std::vector<TargetReport> targets_; // by the client's numbers
	std::map<unsigned, std::string> nic_names_;
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

Result<int> probe(const ProbePlan &plan)
{
	const auto nics = real_nics();
	ASSIGN_OR_RETURN(const auto run, Run::open(plan, *nics));
	const StopFd stop;
	const Terminal terminal = standard_output();
	const auto expected_ns = static_cast<double>(plan.count) * static_cast<double>(plan.interval_ns);
	const bool live = terminal.is_terminal && !plan.json && plan.watch_s == 0 &&
			  expected_ns > static_cast<double>(progress_after_ns);
	const bool redraws = terminal.is_terminal && !plan.json && plan.watch_s > 0;
	std::optional<BorrowedStamping> stamping;

	if (plan.stamp) {
		ASSIGN_OR_RETURN(auto on, BorrowedStamping::take(*nics, plan.iface));

		stamping.emplace(std::move(on));
	}
	// Probes leave when they are due, not up to 50 us later.
	prctl(PR_SET_TIMERSLACK, 1UL);

	bool written = true;
	const auto show = [&](std::int64_t) {
		if (plan.watch_s > 0) {
			const Terminal now = standard_output(); // it may have been resized

			written = print(redraws ? redraw(screen_lines(run->report(), plan, now), now,
							 "... more below: fewer targets at a time fit") :
						  output_text(run->report(), plan, now));
			run->new_period();
		} else if (live) {
			const unsigned columns = standard_output().columns; // what wraps could not be written over
			const std::size_t width = columns ? columns : std::string::npos;

			written = print("\r" + run->progress().substr(0, width) + "\x1b[K");
		}
		return written;
	};

	if (redraws)
		print("\x1b[2J");
	run->run(stop, plan.watch_s > 0 ? static_cast<std::int64_t>(plan.watch_s * 1e9) :
			  live		   ? ns_per_s :
					     0,
		    show);
	run->finish();
	if (live)
		print("\r\x1b[K");
	if (written)
		written = print(output_text(run->report(), plan, terminal));

	auto silent = run->silent();

	if (!silent.empty()) {
		const std::size_t all = silent.size();

		silent.resize(std::min<std::size_t>(all, 5));
		return Error{fmt::format("no reply from {}{}", fmt::join(silent, ", "),
					 all > silent.size() ? fmt::format(" and {} more", all - silent.size()) : "")};
	}
	return written ? exit_ok : exit_failed;
}

} // namespace

Result<int> run_probe(const ProbeOptions &options)
{
	std::string file;

	if (!options.targets_file.empty()) {
		ASSIGN_OR_RETURN(file, real_system()->read_file(options.targets_file));
	}
	ASSIGN_OR_RETURN(auto plan, as_usage(ProbePlan::from(options, file)));
	if (!options.key_file.empty()) {
		ASSIGN_OR_RETURN(const auto content, real_system()->read_file(options.key_file));
		ASSIGN_OR_RETURN(plan.keys, ProbeKeys::parse(options.key_file, content));
	}
	return options.respond ? run_responder(plan) : probe(plan);
}

} // namespace swift
