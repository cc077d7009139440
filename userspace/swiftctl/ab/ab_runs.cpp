// SPDX-License-Identifier: MIT
// The runs of `swiftctl ab`, one after the other.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "ab.h"
#include "process.h"

namespace swift {

namespace {

constexpr unsigned attempts = 2;
constexpr double grace_s = 15; // for connecting, and for ssh
constexpr double between_s = 0.2; // until the servers listen again
constexpr double before_retry_s = 2;
constexpr double beside_least = 0.95; // of the time of questions: so much of it all flows run

// A host whose flows are looked at while a run is on.
struct Watched {
	std::string host; // empty: this one
	bool client = false;
	std::size_t server = 0; // if it is one
	std::size_t command = 0; // of a host over ssh: where its output is
	AbSamples samples;
	std::string why_not;
};

std::set<std::uint16_t> ports_of(const std::vector<AbLeg> &legs)
{
	std::set<std::uint16_t> ports;

	for (const AbLeg &leg : legs)
		ports.insert(leg.port);
	return ports;
}

class OneRun {
public:
	OneRun(const AbPlan &plan, const AbTurn &turn, AbHosts &hosts)
		: plan_(plan), turn_(turn), hosts_(hosts), legs_(ab_legs(plan))
	{
		for (const AbLeg &leg : legs_)
			if (plan.parallel > 0)
				commands_.push_back({leg.client, ab_iperf_command(plan, leg, turn.cc)});
		for (const AbLeg &leg : legs_)
			if (plan.askers > 0)
				commands_.push_back({leg.client, ab_ask_command(plan, leg, turn.cc, hosts.self())});
		// Bulk flows alone last for long enough to be looked at.
		for (std::size_t i = 0; plan.parallel > 0 && i < plan.senders(); i++)
			watch(i ? plan.clients[i - 1] : "", true, 0);
		for (std::size_t i = 0; plan.parallel > 0 && i < plan.server_ssh.size(); i++)
			watch(plan.server_ssh[i], false, i);
	}

	Result<AbRun> go(const AbHosts::Tick &tick)
	{
		const auto outputs = hosts_.run(commands_, plan_.run_seconds() + grace_s, [&](double elapsed_s) {
			sample_here();
			tick(elapsed_s);
		});
		std::vector<IperfRun> runs;
		std::vector<RrRun> answers;
		std::size_t at = 0;

		for (std::size_t i = 0; plan_.parallel > 0 && i < legs_.size(); i++) {
			ASSIGN_OR_RETURN(auto run, iperf_of(outputs[at++], legs_[i]));

			runs.push_back(std::move(run));
		}
		for (std::size_t i = 0; plan_.askers > 0 && i < legs_.size(); i++) {
			ASSIGN_OR_RETURN(auto run, answers_of(outputs[at++], legs_[i]));

			answers.push_back(std::move(run));
		}
		RETURN_IF_ERROR(check_beside(answers, outputs));
		AbRun run = ab_run(turn_, runs);

		ab_add_answers(run, answers, plan_);
		if (!runs.empty())
			iperf_ = runs.front().version;
		put_ends(run, runs, outputs);
		return run;
	}

	[[nodiscard]] const std::string &iperf() const { return iperf_; }

private:
	void watch(const std::string &host, bool client, std::size_t server)
	{
		Watched w{host, client, server, commands_.size(), AbSamples(ports_of(legs_)), {}};

		if (!host.empty())
			commands_.push_back({host, {"swiftctl", "flows", "--all", "--json", "--watch", "0.1"}, true});
		watched_.push_back(std::move(w));
	}

	void sample_here()
	{
		if (watched_.empty())
			return;
		const auto flows = hosts_.flows();

		if (flows)
			watched_.front().samples.add(hosts_.now_s(), *flows);
		else
			watched_.front().why_not = flows.error().text();
	}

	Result<IperfRun> iperf_of(const AbOutput &output, const AbLeg &leg) const
	{
		const auto named = [&](const std::string &reason) {
			return Error{fmt::format("{} to {}: {}", leg.client_text(), leg.server, reason)};
		};

		if (output.end != AbOutput::End::exited)
			return named(output.complaint("not started"));
		auto run = parse_iperf(output.out);

		if (!run)
			return named(output.out.empty() ?
					     output.complaint(fmt::format("exit status {}", output.status)) :
					     run.error().text());
		if (output.status != 0)
			return named(output.complaint(fmt::format("exit status {}", output.status)));
		if (run->cc != turn_.cc)
			return named(fmt::format("asked for {}, got {}", turn_.cc, run->cc));
		if (run->streams.size() != plan_.parallel)
			return named(fmt::format("{} of {} flows", run->streams.size(), plan_.parallel));
		return run;
	}

	Result<RrRun> answers_of(const AbOutput &output, const AbLeg &leg) const
	{
		const auto named = [&](const std::string &reason) {
			return Error{fmt::format("questions from {} to {}: {}", leg.client_text(), leg.server, reason)};
		};

		if (output.end != AbOutput::End::exited)
			return named(output.complaint("not started"));
		if (output.status != 0)
			return named(output.complaint(fmt::format("exit status {}", output.status)));
		auto run = parse_rr(output.out);

		if (!run)
			return named(run.error().text());
		if (run->cc != turn_.cc)
			return named(fmt::format("asked for {}, got {}", turn_.cc, run->cc));
		if (run->count == 0)
			return named("no answer came");
		return run;
	}

	// Answers that came before the flows began, or after they ended, are quick, and many: each flow has to
	// run for as good as all of the time of all questions. What begins when is known by when it ended.
	[[nodiscard]] Result<void> check_beside(const std::vector<RrRun> &answers, const std::vector<AbOutput> &outputs) const
	{
		const double asked_s = plan_.duration_s;

		for (std::size_t q = 0; plan_.parallel > 0 && q < answers.size(); q++) {
			const double until_s = outputs[legs_.size() + q].ended_s - answers[q].waited_s;
			const double began_s = until_s - asked_s - plan_.warmup_s;

			for (std::size_t f = 0; f < legs_.size(); f++) {
				const double to_s = outputs[f].ended_s;
				const double from_s = to_s - plan_.run_seconds();
				const double both_s = std::min(until_s, to_s) - std::max(until_s - asked_s, from_s);

				if (both_s < beside_least * asked_s)
					return Error{fmt::format(
						"the questions from {} to {} were asked for {:.1f} of their {} s beside the flows from "
						"{} to {}, which began {:.1f} s {} (a longer --warmup and --duration bear that)",
						legs_[q].client_text(), legs_[q].server, std::max(0.0, both_s), plan_.duration_s,
						legs_[f].client_text(), legs_[f].server,
						std::abs(from_s - began_s), from_s > began_s ? "later" : "earlier")};
			}
		}
		return {};
	}

	void put_ends(AbRun &run, const std::vector<IperfRun> &runs, const std::vector<AbOutput> &outputs)
	{
		AbSamples::Values pooled;

		for (Watched &w : watched_) {
			AbEnd end;
			AbSamples::Values values;

			end.host = w.host;
			end.sender = w.client != plan_.reverse;
			if (!w.host.empty())
				read_remote(w, outputs[w.command]);
			w.samples.collect(flows_of(w, runs), plan_.warmup_s, values);
			if (end.sender)
				w.samples.collect(flows_of(w, runs), plan_.warmup_s, pooled);
			end.samples = std::max(values.srtt_ns.size(), values.fabric_ns.size());
			if (!values.srtt_ns.empty())
				end.srtt_ns = percentiles_of(values.srtt_ns);
			end.law = values.law();
			end.why_not = end.samples	   ? "" :
				      !w.why_not.empty() ? w.why_not :
							   "none of its flows was seen";
			run.ends.push_back(std::move(end));
		}
		run.law = pooled.law();
	}

	static void read_remote(Watched &w, const AbOutput &output)
	{
		if (output.status == status_not_found)
			w.why_not = "swiftctl is not installed there";
		else if (auto read = w.samples.add_json_lines(output.out); !read)
			w.why_not = read.error().text();
		else if (!output.err.empty())
			w.why_not = output.complaint("");
	}

	[[nodiscard]] std::set<PortPair> flows_of(const Watched &w, const std::vector<IperfRun> &runs) const
	{
		std::set<PortPair> flows;

		for (std::size_t i = 0; i < runs.size(); i++)
			for (const IperfStream &s : runs[i].streams)
				if (w.client && legs_[i].client == w.host)
					flows.insert({s.local_port, legs_[i].port});
				else if (!w.client && legs_[i].server == plan_.servers[w.server])
					flows.insert({legs_[i].port, s.local_port});
		return flows;
	}

	const AbPlan &plan_;
	const AbTurn &turn_;
	AbHosts &hosts_;
	std::vector<AbLeg> legs_;
	std::vector<AbCommand> commands_;
	std::vector<Watched> watched_;
	std::string iperf_;
};

// What the reader of the result has to know of how it came to be.
void add_notes(AbResult &result)
{
	const AbPlan &plan = result.plan;
	std::set<std::string> unseen;
	bool law = false;

	for (const AbRun &r : result.runs) {
		law |= r.law.has_value();
		for (const AbEnd &e : r.ends)
			if (!e.why_not.empty())
				unseen.insert(fmt::format("no view from {}: {}", e.host.empty() ? "this host" : e.host,
							  e.why_not));
	}
	if (plan.parallel > 0)
		result.notes.emplace_back("RTTs are the sender's smoothed RTT, sampled: single packets took longer");
	if (plan.askers > 0)
		result.notes.emplace_back(fmt::format(
			"answer times: from a question of {} byte{} to the end of its answer of {}{}; {}", plan.ask_bytes,
			plan.ask_bytes == 1 ? "" : "s", plan.answer_bytes,
			plan.ask_anew ? ", with the connection made for it" : "",
			plan.ask_every_ms > 0 ?
				fmt::format("asked at random moments, {} ms apart on average", plan.ask_every_ms) :
				"each asked when the answer before had come: quick moments have more of them"));
	result.notes.emplace_back(
		"intervals of medians are exact, between order statistics; of differences, those of the signed-rank test");
	if (plan.runs < 6)
		result.notes.emplace_back("below 6 runs there are no 95 % confidence intervals");
	if (plan.reverse)
		result.notes.emplace_back("the servers sent: iperf3 has no RTTs of them");
	if (!plan.clients.empty())
		result.notes.emplace_back("clients begin as fast as ssh lets them: goodput adds up what each had in its own time");
	if (!law && !result.runs.empty() && plan.parallel > 0)
		result.notes.emplace_back("no split into fabric and host delay: no sender that we could see ran Swift");
	for (const std::string &text : unseen)
		result.notes.push_back(text);
	if (const unsigned looks = ab_look_factor(result); looks > 1 && result.complete)
		result.notes.emplace_back(fmt::format("p and intervals of differences are corrected for {} looks, of which {} "
						      "{} made",
						      looks, result.looks_made, result.looks_made == 1 ? "was" : "were"));
	if (!result.complete)
		result.notes.emplace_back(fmt::format("stopped after {} of {} runs: p and intervals of differences are corrected for "
						      "{} looks, one after each round, at which it might have been stopped",
						      result.runs.size() + result.failed.size(),
						      plan.runs * plan.ccs.size(), ab_look_factor(result)));
}

} // namespace

void ab_run_all(AbResult &result, AbHosts &hosts, AbListener &listener)
{
	const auto order = ab_order(result.plan);
	const double began_s = hosts.now_s();
	AbProgress progress;

	const std::vector<unsigned> looks = ab_looks(result.plan);
	bool decided = false;

	progress.runs = order.size();
	for (const AbTurn &turn : order) {
		// A block is whole: is it enough?
		if (result.looks_made < looks.size() && turn.block > looks[result.looks_made]) {
			result.looks_made++;
			decided = ab_decided(result);
			if (decided)
				break;
		}
		progress.turn = &turn;
		progress.run++;
		if (hosts.stopped())
			break;

		const double run_began_s = hosts.now_s();
		// Those to come take as long as those before did; the first, as long as it should.
		const double each_s =
			progress.run > 1 ? (run_began_s - began_s) / static_cast<double>(progress.run - 1) :
					   result.plan.run_seconds() + 1;
		const auto tick = [&](double elapsed_s) {
			const double rest_s = each_s * static_cast<double>(progress.runs - progress.run + 1);

			progress.elapsed_s = elapsed_s;
			progress.left_s = std::max(0.0, rest_s - (hosts.now_s() - run_began_s));
			listener.progress(progress);
		};

		for (unsigned attempt = 1; attempt <= attempts; attempt++) {
			hosts.pause(attempt > 1 ? before_retry_s : between_s);
			OneRun one(result.plan, turn, hosts);
			auto run = one.go(tick);

			if (hosts.stopped())
				break;
			if (run) {
				run->position = static_cast<unsigned>(progress.run);
				run->attempts = attempt;
				result.iperf = one.iperf();
				listener.done(progress, *run);
				result.runs.push_back(std::move(*run));
				break;
			}
			listener.failed(progress, run.error().text(), attempt < attempts);
			if (attempt == attempts)
				result.failed.push_back({turn.block, turn.cc, run.error().text(), attempt});
		}
	}
	result.complete = decided || result.runs.size() + result.failed.size() == order.size();
	if (result.complete && !decided)
		result.looks_made = static_cast<unsigned>(looks.size());
	add_notes(result);
}

} // namespace swift
