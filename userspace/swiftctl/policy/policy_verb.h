// SPDX-License-Identifier: MIT
// `swiftctl policy`: whether a file of targets will do, what of it is in force here, and what was there before.
// What a policy is, and how it is set, is libswift's (policy.h, policy_run.h); swiftd sets it.
#pragma once

#include <string>

#include "policy_record.h"
#include "policy_run.h"
#include "verb.h"

namespace swift {

// As the command line gave them.
struct PolicyOptions {
	enum class Action { show, check, undo };

	Action action = Action::show;
	std::string file;
	bool here = false; // whether this host can have it
	bool json = false;
	std::string netns;
	std::string root; // for tests
};

// Of a policy that may be in force: its place as it is now.
struct PolicyTarget {
	PolicyRecord::Place place;
	std::string name;
	Result<PlaceValues> now = Error{};
};

// What would be set on this host, or why it cannot be; none: it was not asked.
using PolicyHere = std::optional<Result<std::vector<PolicyRule>>>;

[[nodiscard]] std::string check_text(const std::string &file, const Policy &policy, const PolicyHere &here);
[[nodiscard]] std::string check_json(const PolicyFile &read, const std::string &file, const PolicyHere &here);
[[nodiscard]] std::string show_text(const PolicyRecord &record, const std::vector<PolicyTarget> &targets,
				    double now_s);
[[nodiscard]] std::string show_json(const std::optional<PolicyRecord> &record,
				    const std::vector<PolicyTarget> &targets);

void add_options(CLI::App &verb, PolicyOptions &o);
Result<int> run_policy(const PolicyOptions &options);
extern const Verb policy_verb;

} // namespace swift
