// SPDX-License-Identifier: MIT
#include "policy_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <utility>

#include "tune_run.h"

namespace swift {

namespace {

std::string target_text(const PolicyRule &r)
{
	return fmt::format("target of {}{} (line {})", r.of, r.prefix.empty() ? "" : " to " + r.prefix,
			   r.line);
}

} // namespace

PolicyRun::PolicyRun(Files &files, MakePlace make_place, std::string netns)
	: files_(files), make_place_(std::move(make_place)), netns_(std::move(netns))
{
}

Result<std::unique_ptr<PolicyRun>> PolicyRun::begin(Files &files, MakePlace make_place, std::string netns,
						    bool resume)
{
	auto run = std::unique_ptr<PolicyRun>(new PolicyRun(files, std::move(make_place), std::move(netns)));
	const std::string lock_path = std::string(state_dir(Keeper::service)) + "/policy-" + run->netns_ + ".lock";

	ASSIGN_OR_RETURN(run->lock_, prefixed("the policy of this network namespace: ", files.lock(lock_path)));
	ASSIGN_OR_RETURN(auto record, load_policy_record(files, run->netns_));
	if (!record)
		return run;
	run->take(std::move(*record));
	run->recall();
	if (resume)
		RETURN_IF_ERROR(run->write(run->record_, &PolicyRecord::Place::now));
	return run;
}

void PolicyRun::take(PolicyRecord next)
{
	record_ = std::move(next);
	policy_ = record_.current.empty() ? std::nullopt : parse_policy(record_.current, 0).policy;
}

// A tuning of the same target wants the same lock.
Result<PolicyRun::Held> PolicyRun::hold(const std::string &of, const std::string &prefix) const
{
	Held held;

	held.place = make_place_(of, prefix);
	ASSIGN_OR_RETURN(held.lock,
			 files_.lock(std::string(state_dir(Keeper::service)) + "/tune-" + held.place->key() + ".lock"));
	ASSIGN_OR_RETURN(held.expected, held.place->read());
	return held;
}

void PolicyRun::recall()
{
	for (const PolicyRecord::Place &p : record_.places) {
		auto held = hold(p.of, p.prefix);

		if (!held) {
			Held gone;

			gone.place = make_place_(p.of, p.prefix);
			gone.lost = held.error().text();
			if (held.error().code == EWOULDBLOCK)
				gone.busy = prefixed(gone.place->name() + ": ", Result<void>(held.error())).error();
			held_.push_back(std::move(gone));
			continue;
		}
		if (held->expected != p.now && held->expected != p.old && held->expected != p.base)
			held->lost =
				fmt::format("it is {}, which somebody else has set", held->expected.text());
		held_.push_back(std::move(*held));
	}
}

bool PolicyRun::still_ours(Held &held)
{
	if (!held.lost.empty())
		return false;
	const auto there = held.place->read();

	if (!there)
		held.lost = there.error().text();
	else if (*there != held.expected)
		held.lost = fmt::format("it is {}, which somebody else has set", there->text());
	return held.lost.empty();
}

void PolicyRun::check()
{
	for (Held &h : held_)
		(void)still_ours(h);
}

std::vector<std::string> PolicyRun::lost() const
{
	std::vector<std::string> all;

	for (std::size_t i = 0; i < held_.size(); i++)
		if (record_.places[i].ruled && !held_[i].lost.empty())
			all.push_back(held_[i].place->name() + ": " + held_[i].lost);
	return all;
}

Result<std::vector<PolicyRule>> PolicyRun::fitting(const Policy &policy, const MakePlace &make_place)
{
	std::map<std::pair<std::string, std::string>, std::vector<const PolicyRule *>> places;
	std::vector<PolicyRule> all;
	std::vector<std::string> classes;

	for (const PolicyRule &r : policy.rules)
		places[{r.of, r.prefix}].push_back(&r);
	for (const auto &[where, rules] : places) {
		const bool by_class = std::any_of(rules.begin(), rules.end(),
						  [](const PolicyRule *r) { return r->dscp.has_value(); });
		const PolicyRule *best = nullptr;
		const auto place = make_place(where.first, where.second);
		const std::string which = target_text(*rules[0]) + ": ";
		int dscp = -1;

		RETURN_IF_ERROR(prefixed(which, place->read()));
		if (by_class) {
			ASSIGN_OR_RETURN(dscp, prefixed(which, place->dscp()));
			classes.push_back(fmt::format("{} gives its flows class {}", place->name(), class_text(dscp)));
		}
		for (const PolicyRule *r : rules)
			if (r->dscp ? *r->dscp == dscp : !best)
				best = r;
		if (best)
			all.push_back(*best);
	}
	if (all.empty())
		return Error{fmt::format("no target is for this host: {}", fmt::join(classes, ", "))};
	return all;
}

// The place of @rule, as it is.
Result<void> PolicyRun::add(const PolicyRule &rule)
{
	auto at = std::find_if(record_.places.begin(), record_.places.end(),
			       [&](const auto &p) { return p.of == rule.of && p.prefix == rule.prefix; });
	const auto i = static_cast<std::size_t>(at - record_.places.begin());

	if (at != record_.places.end() && held_[i].lost.empty())
		return {};
	// A lost one is somebody else's until here: it begins from what that has set.
	if (at != record_.places.end()) {
		record_.places.erase(at);
		held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(i));
	}
	ASSIGN_OR_RETURN(auto held, prefixed(target_text(rule) + ": ", hold(rule.of, rule.prefix)));
	// A variant's own before its profiles, which are made of it.
	const auto before = std::find_if(record_.places.begin(), record_.places.end(), [&](const auto &p) {
		return std::pair(p.of, p.prefix) > std::pair(rule.of, rule.prefix);
	});
	const auto to = before - record_.places.begin();
	const PlaceValues now = held.expected;

	record_.places.insert(before, {rule.of, rule.prefix, now, now, now, false});
	held_.insert(held_.begin() + to, std::move(held));
	return {};
}

Result<PlaceValues> PolicyRun::ruled_values(const PolicyRecord &next, const PolicyRecord::Place &place,
					    const Targets &set) const
{
	PlaceValues values = place.base;

	if (!values.there) {
		const auto own = std::find_if(next.places.begin(), next.places.end(), [&](const auto &p) {
			return p.of == place.of && p.prefix.empty();
		});

		values.there = true;
		if (own != next.places.end()) {
			values.targets = own->now.targets;
		} else {
			ASSIGN_OR_RETURN(values.targets, make_place_(place.of, "")->in_effect());
		}
	}
	for (const auto &[name, value] : set)
		values.targets[name] = value;
	return values;
}

Result<void> PolicyRun::apply(const std::string &text, const Policy &policy, double now_s)
{
	ASSIGN_OR_RETURN(const auto rules, fitting(policy, make_place_));

	for (const PolicyRule &r : rules)
		if (auto added = add(r); !added) {
			forget_spent();
			return added.error();
		}

	PolicyRecord next = record_;
	const bool again = text == record_.current;

	if (!again)
		next.previous = record_.current;
	next.current = text;
	next.since_s = now_s;
	next.acquitted = false;
	next.ended.clear();
	next.ended_by.clear();
	next.ended_why.clear();
	next.ended_s = 0;
	for (auto &p : next.places) {
		const auto rule = std::find_if(rules.begin(), rules.end(), [&](const PolicyRule &r) {
			return r.of == p.of && r.prefix == p.prefix;
		});

		if (!again)
			p.old = p.now;
		p.ruled = rule != rules.end();
		p.now = p.base;
		if (!p.ruled)
			continue;
		auto values = ruled_values(next, p, rule->set);

		if (!values) {
			forget_spent();
			return prefixed(target_text(*rule) + ": ", values).error();
		}
		p.now = std::move(*values);
	}
	// Before anything is changed, so that it can be put back whatever comes.
	auto ok = save_policy_record(files_, netns_, next);

	if (ok)
		ok = write(next, &PolicyRecord::Place::now);
	if (!ok) {
		(void)!save_policy_record(files_, netns_, record_);
		forget_spent();
		return ok;
	}
	take(std::move(next));
	forget_spent();
	return {};
}

Result<void> PolicyRun::write(const PolicyRecord &record, PlaceValues PolicyRecord::Place::*wanted)
{
	std::vector<std::pair<std::size_t, PlaceValues>> written;

	for (std::size_t i = 0; i < held_.size(); i++) {
		Held &h = held_[i];
		const PlaceValues &to = record.places[i].*wanted;

		if (!still_ours(h) || h.expected == to)
			continue;
		auto ok = h.place->write(to);

		if (ok) {
			written.emplace_back(i, std::exchange(h.expected, to));
			continue;
		}
		Error why = prefixed(h.place->name() + ": ", ok).error();

		for (auto at = written.rbegin(); at != written.rend(); ++at) {
			Held &done = held_[at->first];

			if (auto back = done.place->write(at->second); back)
				done.expected = at->second;
			else
				why.what += fmt::format("; and {} stays as it was set: {}",
							done.place->name(), back.error().text());
		}
		return why;
	}
	return {};
}

// Places that are as they were before any policy, and that none is about.
void PolicyRun::forget_spent()
{
	for (std::size_t i = record_.places.size(); i-- > 0;) {
		const auto &p = record_.places[i];

		if (p.ruled || held_[i].busy || (p.now != p.base && held_[i].lost.empty()) || p.old != p.base)
			continue;
		record_.places.erase(record_.places.begin() + static_cast<std::ptrdiff_t>(i));
		held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(i));
	}
}

Result<void> PolicyRun::turn(bool old)
{
	return write(record_, old ? &PolicyRecord::Place::old : &PolicyRecord::Place::now);
}

Result<void> PolicyRun::acquit()
{
	record_.acquitted = true;
	return save_policy_record(files_, netns_, record_);
}

Result<void> PolicyRun::end(const std::string &by, const std::string &why, double now_s, bool to_base)
{
	PolicyRecord next = record_;
	const auto before =
		to_base || record_.previous.empty() ?
			PolicyFile() :
			parse_policy(record_.previous, static_cast<std::int64_t>(now_s)); // if it holds still

	next.ended = record_.current;
	next.ended_by = by;
	next.ended_why = why;
	next.ended_s = now_s;
	next.current = before.policy ? record_.previous : "";
	next.since_s = now_s;
	next.previous.clear();
	next.acquitted = true;
	for (std::size_t i = 0; i < next.places.size(); i++) {
		auto &p = next.places[i];

		p.ruled = false;
		if (held_[i].busy) // as it is, for undo()
			continue;
		p.now = before.policy ? p.old : p.base;
		p.old = p.base;
		p.ruled = p.now != p.base;
	}
	// What is in force first: if we are killed between the two, the record is of what was, and it is done again.
	RETURN_IF_ERROR(write(next, &PolicyRecord::Place::now));
	take(std::move(next));
	forget_spent();
	return save_policy_record(files_, netns_, record_);
}

Result<void> PolicyRun::undo()
{
	for (const Held &h : held_)
		if (h.busy)
			return *h.busy; // the record is all that knows what was before
	RETURN_IF_ERROR(write(record_, &PolicyRecord::Place::base));
	return files_.remove_file(policy_record_path(netns_));
}

std::vector<PolicyRun::Scope> PolicyRun::scopes() const
{
	std::vector<Scope> all;

	for (std::size_t i = 0; i < held_.size(); i++) {
		const auto &p = record_.places[i];

		if (!p.ruled || !held_[i].lost.empty())
			continue;
		auto prefix = p.prefix.empty() ? Result<Prefix>(Error{}) : Prefix::parse(p.prefix);

		all.push_back({held_[i].place->name(), p.of == "module" ? "swift" : p.of,
			       prefix ? std::optional(*prefix) : std::nullopt});
	}
	return all;
}

std::vector<PolicySetting> PolicyRun::targets() const
{
	std::vector<PolicySetting> all;

	for (std::size_t i = 0; policy_ && i < held_.size(); i++) {
		const auto &p = record_.places[i];
		// Of rules for several classes, the one that is set tells itself by its values.
		const auto named = [&](const std::string &tunable, const std::string &value) {
			return std::any_of(policy_->rules.begin(), policy_->rules.end(),
					   [&](const PolicyRule &r) {
						   const auto set = r.set.find(tunable);

						   return r.of == p.of && r.prefix == p.prefix &&
							  set != r.set.end() && set->second == value;
					   });
		};

		if (!p.ruled)
			continue;
		for (const auto &[tunable, value] : p.now.targets) {
			if (!named(tunable, value))
				continue;
			const auto before = p.base.targets.find(tunable);

			all.push_back({held_[i].place->name(), tunable,
				       before == p.base.targets.end() ? std::nullopt :
									std::optional(before->second),
				       value, held_[i].lost});
		}
	}
	return all;
}

std::vector<TuneObservation> observe_scopes(const FlowSet &set, const std::vector<PolicyRun::Scope> &scopes)
{
	std::vector<std::vector<std::uint32_t>> rows(scopes.size());
	std::vector<TuneObservation> all;
	const auto is_for = [&](const PolicyRun::Scope &scope, const FlowRow &row) {
		if (set.ccs[row.cc] != scope.cc)
			return false;
		// ::/0 is IPv4's as well.
		return !scope.prefix || (scope.prefix->address.v6 && scope.prefix->length == 0) ||
		       scope.prefix->contains(row.remote().address);
	};
	const auto bits =
		[](const PolicyRun::Scope &scope) { // of a profile's key, in which IPv4 is ::ffff:a.b.c.d
			return !scope.prefix ? 0 : scope.prefix->length + (scope.prefix->address.v6 ? 1 : 97);
		};

	for (std::size_t i = 0; i < set.rows.size(); i++) {
		std::optional<std::size_t> best;

		if (!set.rows[i].measured)
			continue;
		for (std::size_t s = 0; s < scopes.size(); s++)
			if (is_for(scopes[s], set.rows[i]) &&
			    (!best || bits(scopes[s]) > bits(scopes[*best])))
				best = s;
		if (best)
			rows[*best].push_back(static_cast<std::uint32_t>(i));
	}
	all.reserve(scopes.size());
	for (const auto &of_scope : rows)
		all.push_back(observe_rows(set, of_scope));
	return all;
}

} // namespace swift
