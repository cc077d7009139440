// SPDX-License-Identifier: MIT
#include "tuner.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "text.h"

namespace swift {

namespace {

// A fall like this needs no second look, if it is this many times the noise, too.
constexpr double abort_below = 0.7;
constexpr double abort_noise = 4;
constexpr double least_abort_below = 0.1;
constexpr double most_noise = 0.5; // that one observation tells of
constexpr double noise_weight = 0.005;
// How fast the usual throughput follows what is seen.
constexpr double usual_weight = 0.1;
// Of an attempt whose loss is just the tolerance: how likely it is taken for none, for the first
// attempts_at_par; later ones share as much, as 1/n^2 of them. Of one that loses nothing: how likely it is not kept.
constexpr double most_wrong = 0.01;
constexpr double attempts_at_par = 8;
constexpr double most_missed = 0.02;
constexpr double of_few = 3; // standard errors: where Student's distribution is wider, so is the error of few
constexpr unsigned first_weight = 10; // observations that the first guess of the noise counts for
constexpr double most_of_base = 4; // times the candidate: above nothing is to be found
// Finer steps are worth it where noise lets them be told apart soon.
constexpr double fine_step = 1.15;
constexpr unsigned fine_pairs = 60;
constexpr double same_value = 1.03;

std::string us(double ns)
{
	return span_text(std::llround(ns), false);
}

std::string percent(double share)
{
	char text[32];

	std::snprintf(text, sizeof(text), "%+.1f %%", share * 100);
	return text;
}

std::string comparison_text(const TuneComparison &c)
{
	std::string text = "throughput " + percent(c.gain) + " (standard error " +
			   percent(c.error).substr(1) + ", n=" + std::to_string(c.pairs) + ")";

	if (c.old_rtt_p99_ns > 0 && c.new_rtt_p99_ns > 0)
		text += ", p99 RTT " + us(c.old_rtt_p99_ns) + " to " + us(c.new_rtt_p99_ns);
	return text;
}

std::uint64_t mixed(std::uint64_t v) // splitmix64
{
	v += 0x9e3779b97f4a7c15;
	v = (v ^ v >> 30) * 0xbf58476d1ce4e5b9;
	v = (v ^ v >> 27) * 0x94d049bb133111eb;
	return v ^ v >> 31;
}

Result<void> in_range(const char *name, double value, double lo, double hi)
{
	if (value >= lo && value <= hi)
		return {};
	char given[32], allowed[80];

	std::snprintf(given, sizeof(given), "%g", value);
	std::snprintf(allowed, sizeof(allowed), "%g to %g", lo, hi);
	return Error{ std::string("tune.") + name, given, allowed };
}

} // namespace

Result<void> TuneOptions::check() const
{
	struct {
		const char *name;
		double value, lo, hi;
	} const rows[] = {
		{ "min_ns", static_cast<double>(min_ns), 1'000, 1e9 },
		{ "max_ns", static_cast<double>(max_ns), static_cast<double>(min_ns), 1e9 },
		{ "tolerance", tolerance, 0.001, 0.2 },
		{ "step", step, 1.01, 4 },
		{ "last_step", last_step, 1.005, step },
		{ "settle", static_cast<double>(settle), 0, 1000 },
		{ "measure", static_cast<double>(measure), 1, 1000 },
		{ "min_pairs", static_cast<double>(min_pairs), 2, 100 },
		{ "max_pairs", static_cast<double>(max_pairs), static_cast<double>(min_pairs), 1e6 },
		{ "hold_s", hold_s, 0, 1e9 },
		{ "min_limited", min_limited, 0, 1 },
	};

	for (const auto &row : rows)
		RETURN_IF_ERROR(in_range(row.name, row.value, row.lo, row.hi));
	return {};
}

std::string_view tune_state_text(TuneState s)
{
	static constexpr std::array<std::string_view, 4> names = {"waiting", "trying", "holding", "rescuing"};

	return names[static_cast<std::size_t>(s)];
}

std::string_view tune_event_text(TuneEvent::Kind k)
{
	static constexpr std::array<std::string_view, 6> names = {"try",     "accepted", "rolled back",
								  "settled", "resumed",	 "rescue"};

	return names[static_cast<std::size_t>(k)];
}

Tuner::Tuner(const TuneOptions &options, std::uint32_t current_ns, std::uint32_t proposal_ns) :
	options_(options), kept_ns_(current_ns), set_ns_(current_ns),
	down_(!proposal_ns || proposal_ns <= current_ns), ratio_(options.step),
	reference_ns_(current_ns),
	ceiling_ns_(bounded(std::max(2.0 * (proposal_ns ? proposal_ns : current_ns), static_cast<double>(current_ns))))
{
}

std::uint32_t Tuner::bounded(double ns) const
{
	return static_cast<std::uint32_t>(
		std::clamp(std::round(ns), static_cast<double>(options_.min_ns),
			   static_cast<double>(options_.max_ns)));
}

void Tuner::set(std::uint32_t ns, TuneStep &step)
{
	seen_.clear();
	idle_ = 0;
	idle_bps_ = 0;
	low_ = 0;
	if (ns == set_ns_)
		return;
	to_settle_ = options_.settle;
	set_ns_ = ns;
	step.set_ns = ns;
}

// old new new old, or new old old new: a demand that rises or falls steadily favours neither, and chance which
// of the two it is, so that nobody who does the same in step is taken for the target's doing.
bool Tuner::trying_new() const
{
	const std::size_t turn = old_.size() + new_.size();
	const bool inner = turn % 4 == 1 || turn % 4 == 2;

	return inner != (turn >= 4 && (mixed(options_.seed + mixed(tried_) + turn / 4) & 1));
}

void Tuner::begin_turn(TuneStep &step)
{
	set(trying_new() ? candidate_ns_ : base_ns_, step);
}

void Tuner::begin_attempt(TuneStep &step)
{
	for (;;) {
		candidate_ns_ = bounded(down_ ? kept_ns_ / ratio_ : kept_ns_ * ratio_);
		if (down_ ? candidate_ns_ < kept_ns_ && candidate_ns_ > same_value * rejected_ns_ :
			    candidate_ns_ > kept_ns_ && candidate_ns_ <= ceiling_ns_)
			break;
		next_direction(); // at the bound
		if (state_ == TuneState::holding)
			return hold(step);
	}
	state_ = TuneState::trying;
	base_ns_ = down_ ? std::max(kept_ns_, std::min(reference_ns_, bounded(most_of_base * candidate_ns_))) : kept_ns_;
	attempts_++;
	tried_++;
	pairs_ = 0;
	old_.clear();
	new_.clear();
	fours_ = {};
	fallen_ = 0;
	step.events.push_back({ TuneEvent::Kind::attempt, kept_ns_, candidate_ns_,
				down_ ? "shorter queues, if it costs no throughput" :
					"more throughput, if the link runs dry" });
	begin_turn(step);
}

// After a value that was not better.
void Tuner::next_direction()
{
	if (!moved_ && !turned_) {
		turned_ = true;
		down_ = !down_;
		return;
	}
	ratio_ = std::sqrt(ratio_);
	down_ = true; // of values that do alike, the smallest
	if (ratio_ < options_.last_step || (ratio_ < fine_step && pairs_ > fine_pairs))
		state_ = TuneState::holding;
}

void Tuner::hold(TuneStep &step)
{
	state_ = TuneState::holding;
	held_s_ = 0;
	set(kept_ns_, step);
	step.events.push_back({ TuneEvent::Kind::settled, kept_ns_, kept_ns_,
				"no step in either direction is better" });
}

void Tuner::end_attempt(bool accept, const std::string &reason, TuneStep &step)
{
	const std::uint32_t from = kept_ns_;

	pairs_ = static_cast<unsigned>(new_.size());
	if (accept) {
		if (!down_) {
			reference_ns_ = candidate_ns_;
			attempts_ = 0;
		}
		kept_ns_ = candidate_ns_;
		moved_ = true;
		step.events.push_back({ TuneEvent::Kind::accepted, from, kept_ns_, reason });
	} else {
		if (down_)
			rejected_ns_ = std::max(rejected_ns_, candidate_ns_);
		step.events.push_back({ TuneEvent::Kind::rolled_back, candidate_ns_, kept_ns_,
					reason });
		next_direction();
	}
	if (state_ == TuneState::holding)
		hold(step);
	else
		begin_attempt(step);
}

std::optional<Tuner::Turn> Tuner::turn_done(const TuneObservation &seen)
{
	if (to_settle_) {
		to_settle_--;
		return std::nullopt;
	}
	seen_.push_back(seen);
	if (seen_.size() < options_.measure)
		return std::nullopt;

	Turn turn;
	double length_s = 0, bits = 0, p99 = 0, flows = 0;

	for (const auto &o : seen_) {
		length_s += o.length_s;
		bits += o.rate_bps * o.length_s;
		p99 += o.rtt_p99_ns * o.length_s;
		flows += o.flows * o.length_s;
	}
	turn.rate_bps = bits / length_s;
	turn.rtt_p99_ns = p99 / length_s;
	turn.flows = static_cast<unsigned>(std::lround(flows / length_s));
	return turn;
}

// In fours: noise that lasts for longer than a turn hits old and new alike.
void Tuner::add_four()
{
	const std::size_t i = old_.size() - 2;
	const double with_new = new_[i].rate_bps + new_[i + 1].rate_bps;
	const double with_old = old_[i].rate_bps + old_[i + 1].rate_bps;
	// Of their mean: the mean of a ratio to one of them would be above 1 by its variance.
	fours_.gain.add(2 * (with_new - with_old) / (with_new + with_old));
	fours_.old_rtt_p99_ns += (old_[i].rtt_p99_ns + old_[i + 1].rtt_p99_ns) / 2;
	fours_.new_rtt_p99_ns += (new_[i].rtt_p99_ns + new_[i + 1].rtt_p99_ns) / 2;
}

TuneComparison Tuner::compare() const
{
	TuneComparison c;
	const double count = fours_.gain.count();

	c.pairs = 2 * fours_.gain.count();
	c.gain = fours_.gain.mean();
	c.error = fours_.gain.error(of_few);
	c.old_rtt_p99_ns = fours_.old_rtt_p99_ns / count;
	c.new_rtt_p99_ns = fours_.new_rtt_p99_ns / count;
	return c;
}

/*
 * Down: is a loss of more than the tolerance ruled out? Up: does it bring more than that? Wald's sequential
 * test of the one (bar) against the other (a tolerance more): likelihoods' ratio, asked after every
 * four turns. By Ville's inequality it is wrong no more often than most_wrong however often it is asked.
 */
Tuner::Judgement Tuner::judge(const TuneComparison &c) const
{
	const double bar = down_ ? -options_.tolerance : options_.tolerance; // or the two would take turns
	const double middle = bar + options_.tolerance / 2;
	const double log_ratio = options_.tolerance * (c.gain - middle) / (c.error * c.error);
	const double later = std::max(1.0, attempts_ / attempts_at_par);
	const double wrong = most_wrong / (later * later);

	if (log_ratio >= std::log((1 - most_missed) / wrong))
		return Judgement::better;
	if (log_ratio <= std::log(most_missed / (1 - wrong)) || c.pairs >= options_.max_pairs)
		return Judgement::worse;
	return Judgement::unsure;
}

void Tuner::new_walk(double ratio)
{
	ratio_ = ratio;
	down_ = true;
	turned_ = false;
	moved_ = false;
	rejected_ns_ = 0;
	state_ = TuneState::waiting;
}

// Longer than whoever tunes beside us keeps a value in force that he tries.
unsigned Tuner::patience() const
{
	return 3 * (options_.settle + options_.measure);
}

// Much less than is usual with the kept value, and not because flows have gone.
bool Tuner::fell(const TuneObservation &seen) const
{
	return usual_bps_ > 0 && seen.flows && comparable(seen.flows, usual_flows_) &&
	       seen.rate_bps < hard_fall() * std::min(usual_bps_, long_bps_);
}

// Of what is usual: an observation below is no noise.
double Tuner::hard_fall() const
{
	return std::clamp(1 - abort_noise * noise_, least_abort_below, abort_below);
}

void Tuner::follow(const TuneObservation &seen)
{
	if (usual_bps_ > 0 && comparable(seen.flows, usual_flows_)) {
		const double off = std::min(std::abs(seen.rate_bps / long_bps_ - 1), most_noise);

		const double weight = std::max(noise_weight, 1.0 / ++followed_);

		noise_ = std::sqrt(noise_ * noise_ + weight * (off * off - noise_ * noise_));
		long_bps_ += weight * (seen.rate_bps - long_bps_);
		usual_bps_ += usual_weight * (seen.rate_bps - usual_bps_);
	} else {
		usual_bps_ = long_bps_ = seen.rate_bps;
		followed_ = first_weight;
	}
	usual_flows_ = seen.flows;
}

// With a new value flows have no more demand, or none of them is held back by it: either it
// is what frees them, or nobody can judge it, and it does not stay.
void Tuner::idle_while_trying(const TuneObservation &seen, TuneStep &step)
{
	idle_++;
	idle_bps_ += seen.rate_bps;
	if (idle_ < options_.settle + options_.measure)
		return;
	if (!down_ && !old_.empty() && comparable(seen.flows, old_.back().flows) &&
	    idle_bps_ / idle_ >= (1 + options_.tolerance) * old_.back().rate_bps) {
		remaining_ = 1;
		end_attempt(true, "the fabric window holds most flows back no more", step);
		return;
	}
	step.events.push_back({ TuneEvent::Kind::rolled_back, candidate_ns_, kept_ns_,
				"too few flows have anything to send: nothing to judge it by" });
	state_ = TuneState::waiting;
	set(kept_ns_, step);
}

void Tuner::begin_rescue(TuneStep &step)
{
	state_ = TuneState::rescuing;
	rescued_ns_ = kept_ns_;
	rescue_ns_ = 0;
	low_ = 0;
	step.events.push_back({ TuneEvent::Kind::rescue, kept_ns_, bounded(2.0 * kept_ns_),
				"throughput fell to less than " + percent(hard_fall()).substr(1) +
				" of what it was, with as many flows: the path may be longer now" });
	set(bounded(2.0 * kept_ns_), step);
}

void Tuner::rescue(const TuneObservation &seen, TuneStep &step)
{
	if (to_settle_) {
		to_settle_--;
		return;
	}
	low_ = fell(seen) ? low_ + 1 : 0;
	if (rescue_ns_) { // is it the target? Without it throughput falls again
		if (low_ >= options_.settle + options_.measure) {
			kept_ns_ = rescue_ns_;
			step.events.push_back({ TuneEvent::Kind::accepted, rescued_ns_, kept_ns_,
						"throughput is back, and falls again without it" });
			remaining_ = 1;
			reference_ns_ = kept_ns_;
			ceiling_ns_ = std::max(ceiling_ns_, kept_ns_);
			attempts_ = 0;
			set(kept_ns_, step);
			new_walk(options_.step);
		} else if (++again_ >= patience()) {
			step.events.push_back({ TuneEvent::Kind::rolled_back, rescue_ns_, rescued_ns_,
						"throughput is back without it, too: it was the demand" });
			state_ = TuneState::waiting;
		}
		return;
	}
	if (!low_) {
		rescue_ns_ = set_ns_;
		again_ = 0;
		set(rescued_ns_, step);
		return;
	}
	if (low_ < options_.measure)
		return;
	low_ = 0;
	if (set_ns_ < options_.max_ns) {
		set(bounded(2.0 * set_ns_), step);
		return;
	}
	step.events.push_back({ TuneEvent::Kind::rolled_back, set_ns_, rescued_ns_,
				"no target brings the throughput back: it is the demand" });
	usual_bps_ = 0; // what it is now is usual
	set(rescued_ns_, step);
	state_ = TuneState::holding;
	held_s_ = 0;
}

TuneStep Tuner::observe(const TuneObservation &seen)
{
	TuneStep step;

	if (seen.length_s <= 0)
		return step;
	if (state_ == TuneState::rescuing) {
		rescue(seen, step);
		return step;
	}

	const bool counts = seen.flows && seen.rate_bps > 0 &&
			    seen.fabric_limited >= options_.min_limited;
	const bool is_new = state_ == TuneState::trying && trying_new();

	// Before anything else: a value that starves flows makes them look idle.
	fallen_ = is_new && !old_.empty() && !to_settle_ && seen.flows &&
				  comparable(seen.flows, old_.back().flows) &&
				  seen.rate_bps < hard_fall() * old_.back().rate_bps ?
			  fallen_ + 1 :
			  0;
	if (fallen_ >= (hard_fall() < abort_below ? 2U : 1U)) {
		end_attempt(false, "throughput fell to " +
			    percent(seen.rate_bps / old_.back().rate_bps).substr(1) +
			    " of what it was", step);
		return step;
	}
	if (state_ != TuneState::trying && to_settle_) {
		to_settle_--;
	} else if (!is_new && !to_settle_) {
		low_ = fell(seen) && seen.fabric_limited >= options_.min_limited ? low_ + 1 : 0;
		if (low_ >= patience() && kept_ns_ < options_.max_ns) {
			begin_rescue(step);
			return step;
		}
		if (counts && !low_)
			follow(seen);
	}
	if (state_ == TuneState::holding) {
		held_s_ += seen.length_s;
		if (held_s_ < options_.hold_s)
			return step;
		/* The path may be another one by now: look around, in small steps. What was
		   lost so far stays lost, or each hold would cost the tolerance once more. */
		new_walk(std::sqrt(options_.step));
		step.events.push_back({ TuneEvent::Kind::resumed, kept_ns_, kept_ns_,
					"held for long enough" });
	}
	if (!counts) {
		seen_.clear(); // a turn is whole, or is begun again
		if (is_new)
			idle_while_trying(seen, step);
		return step;
	}
	idle_ = 0;
	idle_bps_ = 0;
	if (state_ == TuneState::waiting) {
		begin_attempt(step);
		return step;
	}
	if (low_)
		return step; // whatever it is, it is no time to compare

	const auto turn = turn_done(seen);

	if (!turn)
		return step;
	(is_new ? new_ : old_).push_back(*turn);
	if (old_.size() != new_.size()) {
		begin_turn(step);
		return step;
	}
	if (!comparable(old_.back().flows, new_.back().flows)) {
		old_.pop_back(); // the traffic is another one: this pair says nothing
		new_.pop_back();
		begin_turn(step);
		return step;
	}
	if (old_.size() % 2 == 0)
		add_four();
	if (old_.size() < options_.min_pairs || old_.size() % 2) {
		begin_turn(step);
		return step;
	}

	const auto c = compare();

	switch (judge(c)) {
	case Judgement::unsure:
		begin_turn(step);
		break;
	case Judgement::better:
		remaining_ = down_ ? std::min(1 + c.gain, 1.0) : 1;
		end_attempt(true, comparison_text(c), step);
		break;
	case Judgement::worse:
		end_attempt(false, comparison_text(c), step);
		break;
	}
	return step;
}

TuneStep Tuner::stop(const std::string &reason)
{
	TuneStep step;

	if (state_ == TuneState::trying || state_ == TuneState::rescuing) {
		step.events.push_back({ TuneEvent::Kind::rolled_back, set_ns_, kept_ns_, reason });
		set(kept_ns_, step);
	}
	state_ = TuneState::waiting;
	return step;
}

} // namespace swift
