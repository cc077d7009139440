// SPDX-License-Identifier: MIT
// A policy on this host: set whole or not at all, remembered before it is set, and taken back. What somebody else
// has set meanwhile stays, and is named. When that is to be done is the service's business.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "files.h"
#include "flow_table.h"
#include "policy_record.h"
#include "tuner.h"

namespace swift {

class PolicyRun
{
public:
	// @resume: what was in force is again, whatever a kill has left. An Error: another process has it, its
	// record makes no sense, or it cannot be set.
	static Result<std::unique_ptr<PolicyRun>> begin(Files &files, MakePlace make_place, std::string netns,
							bool resume);

	[[nodiscard]] const PolicyRecord &record() const { return record_; }
	// In force; none: none is.
	[[nodiscard]] const std::optional<Policy> &policy() const { return policy_; }
	// Its rules that are for this host; an Error if there is none, or one that this host cannot have.
	static Result<std::vector<PolicyRule>> fitting(const Policy &policy, const MakePlace &make_place);

	// At once or not at all.
	Result<void> apply(const std::string &text, const Policy &policy, double now_s);
	// In its trial: the targets of before, or the policy's.
	Result<void> turn(bool old);
	Result<void> acquit();
	// What comes back is the policy before it (@to_base: what was there before any), as long as that holds.
	Result<void> end(const std::string &by, const std::string &why, double now_s, bool to_base);

	// For root's tools: as before any policy, and forgotten.
	Result<void> undo();

	// Whether somebody else has set what is in force. That stays so from here on, and is told by lost().
	void check();
	[[nodiscard]] std::vector<std::string> lost() const; // a line each
	// Of the policy's rules that are in force.
	struct Scope {
		std::string name;
		std::string cc;
		std::optional<Prefix> prefix;
	};
	[[nodiscard]] std::vector<Scope> scopes() const;
	// Of all its rules that are for this host.
	[[nodiscard]] std::vector<PolicySetting> targets() const;

private:
	struct Held {
		std::unique_ptr<PolicyPlace> place;
		std::shared_ptr<void> lock;
		PlaceValues expected; // what was last seen or set
		std::string lost; // why it is not the policy's any more
		std::optional<Error> busy; // or only for now: somebody holds it
	};

	PolicyRun(Files &files, MakePlace make_place, std::string netns);
	Result<Held> hold(const std::string &of, const std::string &prefix) const;
	void recall();
	Result<void> add(const PolicyRule &rule);
	Result<PlaceValues> ruled_values(const PolicyRecord &next, const PolicyRecord::Place &place,
					 const Targets &set) const;
	static bool still_ours(Held &held);
	// All of @wanted (one for each place), or an Error and what was there before.
	Result<void> write(const PolicyRecord &record, PlaceValues PolicyRecord::Place::*wanted);
	void forget_spent();
	void take(PolicyRecord next);

	Files &files_;
	MakePlace make_place_;
	std::string netns_;
	std::shared_ptr<void> lock_;
	PolicyRecord record_;
	std::vector<Held> held_; // as record_.places
	std::optional<Policy> policy_;
};

// An observation of the flows of each scope: of the prefixes that contain a flow's destination the longest
// counts, as in the kernel.
[[nodiscard]] std::vector<TuneObservation> observe_scopes(const FlowSet &set,
							  const std::vector<PolicyRun::Scope> &scopes);

} // namespace swift
