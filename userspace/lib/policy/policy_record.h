// SPDX-License-Identifier: MIT
// What a policy has changed and how it was before, as a file: so that whoever comes after a kill, a restart or
// the service itself puts it right. Read by root's tools, and so believed in nothing that a policy could not set.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "files.h"
#include "policy_place.h"

namespace swift {

struct PolicyRecord {
	struct Place {
		std::string of; // as in a rule
		std::string prefix;
		PlaceValues base; // before any policy
		PlaceValues old; // before this one
		PlaceValues now;
		bool ruled = false; // a rule of the current policy is about it

		bool operator==(const Place &) const = default;
	};

	std::string current; // the file that is in force; "": none is
	double since_s = 0; // since 1970
	bool acquitted = false; // by its guard
	std::string previous; // the file before it; "": none was
	// The last one that is not in force any more, and is not to be again before it has changed.
	std::string ended;
	std::string ended_by; // guard, expiry, withdrawal
	std::string ended_why;
	double ended_s = 0;
	std::vector<Place> places; // the prefix "" of a variant before its others

	bool operator==(const PolicyRecord &) const = default;
};

[[nodiscard]] std::string policy_record_path(const std::string &netns);
// No file, or one of before the last boot, with which went what it had set: none.
Result<std::optional<PolicyRecord>> load_policy_record(const Files &files, const std::string &netns);
Result<void> save_policy_record(Files &files, const std::string &netns, const PolicyRecord &record);

} // namespace swift
