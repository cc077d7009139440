// SPDX-License-Identifier: MIT
// [policy]: a PolicyRun and its guard in the rhythm of the collector. What keeps a policy from being in force is a
// state; what cannot be read or set changes nothing.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "files.h"
#include "flow_table.h"
#include "interface.h"
#include "options.h"
#include "policy_guard.h"
#include "policy_run.h"
#include "store.h"

namespace swift {

class Policing : NonCopyable {
public:
	Policing(Files &files, MakePlace make_place, std::string netns, const Config &config);
	~Policing() { leave(); }

	// Once per collection.
	void observe(const FlowSet &set, double time_s);
	// Instead of observe(), when there was nothing to see.
	void cannot_look(double time_s);
	// Reads the file anew, at the next look.
	void reconfigure(const Config &config);
	// What is in force stays so, for whoever comes next.
	void leave();

	[[nodiscard]] const PolicyRow &row() const { return row_; }

	static constexpr double retry_s = 10; // after what this host could not do
	static constexpr double check_s = 60; // whether somebody else has set a target

private:
	void load();
	Result<void> begin();
	void take(const std::string &text);
	void enter(const std::string &state, const std::string &reason);
	void trouble(const std::string &state, const std::string &reason, const Policy *of = nullptr,
		     const std::string &event = "");
	void note(const std::string &event, const Policy *of, const std::string &reason);
	void remember();
	void in_force();
	void end(const std::string &by, const std::string &why, bool to_base);
	void keep(const FlowSet *set, double interval_s);
	void guard(const FlowSet &set);
	void turn(bool old);
	void look_for_others();
	void show();

	Files &files_;
	MakePlace make_place_;
	std::string netns_;
	Config::PolicyFrom config_;
	std::vector<std::string> ccs_; // that are collected
	std::unique_ptr<PolicyRun> run_;
	std::optional<Guard> guard_;
	std::vector<PolicyRun::Scope> scopes_; // that it judges
	std::string convicted_; // why it put the policy back
	bool remembered_ = false; // what was before this swiftd is among the events
	bool reloaded_ = true; // somebody asks for the file to be read
	std::optional<double> rest_s_; // until it is tried again
	double unchecked_s_ = 0;
	double time_s_ = 0;
	PolicyRow row_;
};

} // namespace swift
