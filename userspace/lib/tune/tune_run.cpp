// SPDX-License-Identifier: MIT
#include "tune_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "json.h"
#include "text.h"
#include "tunables.h"
#include "verdict.h"

namespace swift {

namespace {

constexpr int run_schema = 1;

Json json_of(const TargetSettings &s)
{
	return {{"target_policy", s.policy},
		{"base_target_ns", s.base_target_ns},
		{"hop_target_ns", s.hop_target_ns},
		{"rtt_epsilon_ns", s.rtt_epsilon_ns}};
}

std::optional<TargetSettings> settings_of(const Json &j)
{
	TargetSettings s;

	s.policy = text_member(j, "target_policy").value_or(""); // which is none
	for (const auto &[key, value] :
	     {std::pair<const char *, std::uint32_t *>{"base_target_ns", &s.base_target_ns},
	      {"hop_target_ns", &s.hop_target_ns},
	      {"rtt_epsilon_ns", &s.rtt_epsilon_ns}}) {
		if (!j.contains(key) || !j[key].is_number_unsigned() ||
		    j[key].get<std::uint64_t>() > 0xffffffffU)
			return std::nullopt;
		*value = j[key].get<std::uint32_t>();
	}
	// What root obeys, and swiftd's record is in a folder that it can write when it is not itself any more:
	// nothing that a tuning could not set.
	if (!find_tunable("target_policy")->check(s.policy) ||
	    !find_tunable("base_target_ns")->check(std::to_string(s.base_target_ns)) ||
	    !find_tunable("hop_target_ns")->check(std::to_string(s.hop_target_ns)))
		return std::nullopt;
	return s;
}

struct State {
	TargetSettings before;
	TargetSettings kept;
	// What was in force then, and what was to follow: after a kill, or when it could not be
	// written, it is one of the two.
	TargetSettings from;
	TargetSettings trial;
	bool running = false; // or it was killed
	std::uint64_t serial = 0; // of the records of a target

	[[nodiscard]] bool left(const TargetSettings &now) const
	{
		return running && (now == trial || now == from) && !(now == kept);
	}
	// Or somebody else has set it since.
	[[nodiscard]] bool knows(const TargetSettings &now) const
	{
		return now == before || now == kept || now == from || now == trial;
	}
};

// Both want it, whoever keeps the records.
std::string lock_path(const TargetKnob &knob)
{
	return std::string(state_dir(Keeper::service)) + "/tune-" + knob.key() + ".lock";
}

std::string state_path(const TargetKnob &knob, Keeper keeper)
{
	return std::string(state_dir(keeper)) + "/tune-" + knob.key() + ".json";
}

// No file, or one of before the last boot, with which went what was set, and whose cookies of network
// namespaces are others: none.
Result<std::optional<State>> load_record(const Files &files, const std::string &path)
{
	if (!files.exists(path))
		return std::optional<State>();
	ASSIGN_OR_RETURN(auto text, files.read_record(path));
	const Json j = Json::parse(text, nullptr, false);

	if (j.is_object() && text_member(j, "boot_id").value_or("") != boot_id(files))
		return std::optional<State>();
	if (j.is_object() && j.value("schema", Json()) == run_schema && j.contains("before") &&
	    j.contains("kept") && j.contains("trial") && j.contains("running") && j["running"].is_boolean()) {
		auto before = settings_of(j["before"]), kept = settings_of(j["kept"]),
		     trial = settings_of(j["trial"]);
		auto from = j.contains("from") ? settings_of(j["from"]) : trial;
		const auto serial = j.find("serial");

		if (before && kept && from && trial)
			return std::optional<State>(State{*before, *kept, *from, *trial, j["running"].get<bool>(),
							  serial != j.end() && serial->is_number_unsigned() ?
								  serial->get<std::uint64_t>() : 0});
	}
	return Error{"cannot make sense of " + path + "; remove it to begin anew"};
}

// The newest, whoever keeps it: each run begins with what the one before has left.
Result<std::optional<State>> load_state(const Files &files, const TargetKnob &knob)
{
	ASSIGN_OR_RETURN(auto newest, load_record(files, state_path(knob, Keeper::tools)));
	auto other = load_record(files, state_path(knob, Keeper::service));

	if (!other || (*other && (!newest || (*other)->serial > newest->serial)))
		return other;
	return newest;
}

Result<void> forget(Files &files, const TargetKnob &knob)
{
	for (const Keeper k : {Keeper::tools, Keeper::service})
		RETURN_IF_ERROR(files.remove_file(state_path(knob, k)));
	return {};
}

bool counts(const FlowSet &set, const FlowRow &row, const std::string &cc,
	    const std::optional<Prefix> &prefix)
{
	return set.ccs[row.cc] == cc && row.measured &&
	       (!prefix || prefix->contains(row.remote().address));
}

// @held: what Files::lock() says.
Result<std::shared_ptr<void>> hold(Files &files, const TargetKnob &knob)
{
	auto held = files.lock(lock_path(knob));

	if (held)
		return held;
	std::string why = held.error().text();

	// A service is never done.
	if (why.starts_with("another swiftd "))
		why = why.substr(0, why.rfind("; ")) + "; switch [tune] and [policy] off in its configuration, or stop it";
	return Error{"cannot tune " + knob.name() + ": " + why, {}, {}, held.error().code};
}

} // namespace

TuneObservation observe_rows(const FlowSet &set, std::span<const std::uint32_t> rows)
{
	TuneObservation seen;
	std::vector<std::uint32_t> srtt_us;
	std::size_t limited = 0;

	seen.length_s = set.interval_s;
	srtt_us.reserve(rows.size());
	for (const std::uint32_t i : rows) {
		const FlowRow &row = set.rows[i];
		const Bound by = held_by(row, {});

		seen.flows++;
		seen.rate_bps += 8.0 * static_cast<double>(row.rate_Bps);
		srtt_us.push_back(row.srtt_us);
		limited += by == Bound::fabric || by == Bound::mixed;
	}
	if (!seen.flows)
		return seen;
	const auto rank = srtt_us.begin() + static_cast<std::ptrdiff_t>(srtt_us.size() * 99 / 100);

	std::nth_element(srtt_us.begin(), rank, srtt_us.end());
	seen.rtt_p99_ns = 1000.0 * *rank;
	seen.fabric_limited = static_cast<double>(limited) / seen.flows;
	return seen;
}

TuneObservation observe_flows(const FlowSet &set, const std::string &cc,
			      const std::optional<Prefix> &prefix)
{
	std::vector<std::uint32_t> rows;

	for (std::size_t i = 0; i < set.rows.size(); i++)
		if (counts(set, set.rows[i], cc, prefix))
			rows.push_back(static_cast<std::uint32_t>(i));
	return observe_rows(set, rows);
}

void PathLearner::add(const FlowSet &set, const std::string &cc, const std::optional<Prefix> &prefix)
{
	for (const FlowRow &row : set.rows) {
		if (!counts(set, row, cc, prefix) || row.swift.fabric_ns == 0)
			continue;
		// TCP's smallest RTT has both hosts in it, but goes back to when the flow began.
		double ns = row.swift.fabric_ns;

		if (row.has_min_rtt())
			ns = std::min(ns, 1000.0 * row.min_rtt_us);
		note({}, row.remote().address, ns);
	}
}

void PathLearner::add(const TelemetryFlow &flow, const std::string &cc, const std::optional<Prefix> &prefix,
		      std::uint32_t netns)
{
	const LogHistogram &fabric = flow.counts.of(Telemetered::fabric);

	if (flow.netns == netns && flow.cc == cc && (!prefix || prefix->contains(flow.remote.address)) && !fabric.empty())
		note(flow.hops, flow.remote.address, fabric.quantile(0));
}

void PathLearner::note(std::optional<unsigned> hops, const Address &to, double ns)
{
	const auto [at, is_new] = smallest_ns_.try_emplace(hops, ns);

	if (!is_new)
		at->second = std::min(at->second, ns);
	if (destinations_.size() >= most_destinations && !destinations_.contains(to))
		return;

	const auto [path, is_first] = destinations_.try_emplace(to, ns);

	if (!is_first)
		path->second = std::min(path->second, ns);
}

double PathLearner::longest_ns() const
{
	double longest = 0;

	for (const auto &[to, ns] : destinations_)
		longest = std::max(longest, ns);
	return longest;
}

std::vector<PathSample> PathLearner::samples() const
{
	std::vector<PathSample> out;

	for (const auto &[hops, ns] : smallest_ns_)
		out.push_back({hops, ns});
	return out;
}

TuneRun::TuneRun(Files &files, TargetKnob &knob, const TuneOptions &options,
		 std::optional<Prefix> prefix, Keeper keeper)
	: files_(files), knob_(knob), options_(options), prefix_(prefix), keeper_(keeper)
{
	options_.seed = std::hash<std::string>()(boot_id(files)); // no two hosts have the same
}

Result<std::unique_ptr<TuneRun>> TuneRun::begin(Files &files, TargetKnob &knob,
						const TuneOptions &options,
						std::optional<Prefix> prefix, bool apply, Keeper keeper)
{
	RETURN_IF_ERROR(options.check());
	auto run = std::unique_ptr<TuneRun>(new TuneRun(files, knob, options, prefix, keeper));

	if (apply) {
		ASSIGN_OR_RETURN(run->lock_, hold(files, knob));
	}
	ASSIGN_OR_RETURN(auto now, knob.read());
	run->now_ = run->before_ = now;
	if (!apply)
		return run;

	ASSIGN_OR_RETURN(auto state, load_state(files, knob));
	if (state) {
		if (state->knows(now))
			run->before_ = state->before;
		run->serial_ = state->serial + 1;
		// Not what somebody has set since.
		if (state->left(now)) {
			RETURN_IF_ERROR(knob.write(state->kept));
			run->mended_ = "a tuning was killed, or could not go back, at base_target_ns=" +
				       std::to_string(now.base_target_ns) + "; back to " +
				       std::to_string(state->kept.base_target_ns);
			run->now_ = state->kept;
		}
	}
	return run;
}

Result<TargetProposal> TuneRun::proposal() const
{
	const auto samples = learner_.samples();
	auto model = fit_paths(samples);

	if (!model)
		return Error{"no flow of " + knob_.cc() + (prefix_ ? " to " + prefix_->text() : "") +
			     " was seen: nothing to learn from"};
	TargetProposal p = propose_target(*model, now_.hop_target_ns);

	p.base_target_ns = std::clamp(p.base_target_ns, options_.min_ns, options_.max_ns);
	return p;
}

Result<void> TuneRun::save(bool running, const TargetSettings &trial) const
{
	TargetSettings kept = now_;

	if (tuner_)
		kept.base_target_ns = tuner_->kept_ns();
	return files_.replace_file(state_path(knob_, keeper_),
				    Json{{"schema", run_schema},
					 {"serial", serial_},
					 {"boot_id", boot_id(files_)},
					 {"running", running},
					 {"before", json_of(before_)},
					 {"kept", json_of(kept)},
					 {"from", json_of(now_)},
					 {"trial", json_of(trial)}}
						    .dump(1) +
					    "\n",
				    0644);
}

Result<void> TuneRun::set(std::uint32_t base_target_ns)
{
	TargetSettings wanted = now_;

	wanted.base_target_ns = base_target_ns;
	if (wanted == now_)
		return {};
	// What is kept is on disk before anything else is tried, and what is tried until it is gone.
	RETURN_IF_ERROR(save(true, wanted));
	auto ok = knob_.write(wanted);

	if (ok)
		now_ = wanted;
	return ok;
}

// Whether what is in force is what this run has set.
Result<void> TuneRun::still_ours() const
{
	ASSIGN_OR_RETURN(const auto there, knob_.read());

	if (there == now_)
		return {};
	return Error{knob_.name() + " is " + there.text() + ", but was " + now_.text() +
		     " for this tuning: it was changed by somebody else, and stays so"};
}

Result<std::vector<TuneEvent>> TuneRun::start()
{
	RETURN_IF_ERROR(still_ours());

	auto model = fit_paths(learner_.samples());
	ASSIGN_OR_RETURN(auto proposed, proposal());
	std::vector<TuneEvent> events;

	// With a target that the path alone takes, no window grows, and no comparison tells
	// anything: such values are not tried. One target is for the longest path, too.
	const double longest_ns = std::max(learner_.longest_ns(), model->shortest_ns());

	if (1.25 * longest_ns > options_.max_ns)
		return Error{fmt::format("max_us is less than the longest path needs, which takes {:.0f} us unloaded",
					 longest_ns / 1e3),
			     fmt::format("{}", options_.max_ns / 1e3),
			     fmt::format("{} or more; or a BPF variant's target for each destination",
					 std::ceil(1.25 * longest_ns / 1e3))};
	options_.min_ns = std::max(options_.min_ns, static_cast<std::uint32_t>(1.25 * longest_ns));

	TargetSettings wanted = now_;

	if (wanted.policy != "static") { // as near to what was in force as one number can be
		wanted.policy = "static";
		wanted.base_target_ns =
			std::max(now_.base_target_ns,
				 static_cast<std::uint32_t>(longest_ns) + now_.rtt_epsilon_ns);
		wanted.hop_target_ns = 0;
		events.push_back({TuneEvent::Kind::accepted, now_.base_target_ns, wanted.base_target_ns,
				  "target_policy was " + now_.policy +
					  ", and is static while and after it is tuned"});
	}
	if (wanted.base_target_ns < options_.min_ns) {
		const std::uint32_t low = wanted.base_target_ns;

		wanted.base_target_ns = std::max(proposed.base_target_ns, options_.min_ns);
		events.push_back({TuneEvent::Kind::accepted, low, wanted.base_target_ns,
				  "it was hardly more than the path takes unloaded"});
	}
	wanted.base_target_ns = std::min(wanted.base_target_ns, options_.max_ns);

	// Before anything is changed, so that it can be put back whatever comes.
	RETURN_IF_ERROR(save(true, wanted));
	if (!(wanted == now_)) {
		if (auto ok = knob_.write(wanted); !ok) {
			(void)!save(false, now_);
			return ok.error();
		}
		now_ = wanted;
	}
	tuner_.emplace(options_, now_.base_target_ns, proposed.base_target_ns);
	if (auto ok = save(true, now_); !ok) {
		(void)!knob_.write(before_);
		tuner_.reset();
		return ok.error();
	}
	return events;
}

Result<std::vector<TuneEvent>> TuneRun::step(const FlowSet &set_of_flows)
{
	if (auto ok = still_ours(); !ok) {
		let_go();
		return ok.error();
	}
	learner_.add(set_of_flows, knob_.cc(), prefix_);
	seen_ = observe_flows(set_of_flows, knob_.cc(), prefix_);

	const std::uint32_t kept = tuner_->kept_ns();
	TuneStep step = tuner_->observe(seen_);

	if (tuner_->kept_ns() != kept)
		RETURN_IF_ERROR(save(true, now_));
	if (step.set_ns) {
		auto ok = set(*step.set_ns);

		if (!ok) {
			(void)tuner_->stop("it could not be set");
			(void)!set(tuner_->kept_ns());
			return ok.error();
		}
	}
	return std::move(step.events);
}

Result<std::vector<TuneEvent>> TuneRun::end(const std::string &reason, bool restore)
{
	std::vector<TuneEvent> events;

	if (!tuner_)
		return events;
	if (auto ok = still_ours(); !ok) {
		let_go();
		return ok.error();
	}
	TuneStep last = tuner_->stop(reason);

	events = std::move(last.events);
	if (restore) {
		RETURN_IF_ERROR(knob_.write(before_));
		now_ = before_;
		RETURN_IF_ERROR(forget(files_, knob_));
	} else {
		RETURN_IF_ERROR(set(tuner_->kept_ns()));
		RETURN_IF_ERROR(save(false, now_));
	}
	return events;
}

void TuneRun::let_go()
{
	if (!tuner_)
		return;
	const auto there = knob_.read();

	// If it cannot be read, or could not for a moment: what is tried is in force, for all that
	// is known, and the next run puts back what was kept.
	if (there && *there != now_) {
		(void)!save(false, now_); // a next run would put back what it takes for a killed one's
		now_ = *there;
	}
	tuner_.reset();
}

Result<TuneRun::Undone> TuneRun::undo(Files &files, TargetKnob &knob)
{
	ASSIGN_OR_RETURN(const auto lock, hold(files, knob));
	ASSIGN_OR_RETURN(auto state, load_state(files, knob));
	if (!state)
		return Error{"no tuning of " + knob.name() + " has changed anything"};
	ASSIGN_OR_RETURN(const auto there, knob.read());
	if (!state->knows(there)) {
		RETURN_IF_ERROR(forget(files, knob));
		return Undone{there, true};
	}
	RETURN_IF_ERROR(knob.write(state->before));
	RETURN_IF_ERROR(forget(files, knob));
	return Undone{state->before, false};
}

} // namespace swift
