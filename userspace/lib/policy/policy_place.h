// SPDX-License-Identifier: MIT
// Where a policy's targets are set: the module's sysctls, for all of a network namespace, or a BPF variant's
// values, for all flows or for one destination prefix. More places the kernel side does not have. Which
// values is policy_run.h's business.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "bpf_variant.h"
#include "files.h"
#include "interface.h"
#include "policy.h"
#include "result.h"

namespace swift {

struct PlaceValues {
	bool there = true; // false: there is no profile, and flows have the variant's own values
	Targets targets; // all of policy_tunables(), if it is there

	bool operator==(const PlaceValues &) const = default;
	[[nodiscard]] std::string text() const;
};

class PolicyPlace : public Interface {
public:
	[[nodiscard]] virtual std::string name() const = 0; // "net.ipv4.tcp_swift", "bpf_swift 10.2.0.0/16"
	// Of a file's name: a tuning of the same target has the same (target_knob.h).
	[[nodiscard]] virtual std::string key() const = 0;
	virtual Result<PlaceValues> read() const = 0;
	// What flows have there now: with no profile, the variant's own.
	virtual Result<Targets> in_effect() const = 0;
	// The class that flows there are given; -1: none.
	virtual Result<int> dscp() const = 0;
	// Whole, or an Error and what was there before.
	virtual Result<void> write(const PlaceValues &values) = 0;
};

using MakePlace =
	std::function<std::unique_ptr<PolicyPlace>(const std::string &of, const std::string &prefix)>;

// @netns: what this_netns() says. @patience_s: for others who change BPF variants.
[[nodiscard]] MakePlace real_places(Files &files, BpfVariants &variants, std::string netns,
				    double patience_s);

} // namespace swift
