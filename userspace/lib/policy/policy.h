// SPDX-License-Identifier: MIT
// A policy: targets that travel from host to host as a file, with who made it, how long it holds, and what it may
// cost. Reading it, and what of it is for which flows; pure. Where targets are set is policy_place.h's,
// whether it does harm policy_guard.h's.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "result.h"

namespace swift {

// By the names of tunables; words and numbers as their sysctls have them.
using Targets = std::map<std::string, std::string>;

// Those that a policy may set.
[[nodiscard]] const std::vector<std::string> &policy_tunables();

// What one [[target]] says.
struct PolicyRule {
	std::string of = "module"; // or a BPF variant
	std::string prefix; // of a variant: "10.2.0.0/16"; "": all destinations
	std::optional<int> dscp; // only where flows of that place have this class; -1: none was set
	Targets set;
	unsigned line = 0;

	[[nodiscard]] std::string cc() const { return of == "module" ? "swift" : of; }
};

struct PolicyGuardRules {
	bool enabled = true;
	double throughput = 0.05; // share of throughput that may be lost
	double tail = 0.3; // share by which the p99 RTT may grow
};

struct Policy {
	std::string version;
	std::string author;
	std::int64_t expires_s = 0; // since 1970
	PolicyGuardRules guard;
	std::vector<PolicyRule> rules;
};

// One that is set on a host.
struct PolicySetting {
	std::string place; // "net.ipv4.tcp_swift", "bpf_swift 10.2.0.0/16"
	std::string tunable;
	std::optional<std::string> before; // any policy; none: flows had the variant's own
	std::string value;
	std::string lost; // why it is not the policy's any more; "": it is
};

// What is wrong with a policy, and where.
struct PolicyError {
	unsigned line = 0; // 0: of the file as a whole
	std::string field; // "target.base_target_ns"; "" if it is no TOML
	std::string value;
	std::string allowed;
	std::string what; // instead of field and value, if it is about neither

	// "policy.toml:7: target.base_target_ns: '9' (allowed: 1000 to 1000000000)"
	[[nodiscard]] std::string text(std::string_view file) const;
};

struct PolicyFile {
	std::optional<Policy> policy; // or
	PolicyError error; // the first one in the file
};

// @now_s: a policy that has expired by then is an error; 0: none has.
[[nodiscard]] PolicyFile parse_policy(std::string_view toml, std::int64_t now_s);

// "default", "26"
[[nodiscard]] std::string class_text(int dscp);

inline constexpr std::size_t most_policy_bytes = 16 << 10;
inline constexpr std::size_t most_policy_rules = 64;

} // namespace swift
