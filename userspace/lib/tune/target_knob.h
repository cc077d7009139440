// SPDX-License-Identifier: MIT
// Where the fabric target of a set of flows is set: the module's sysctls, for all of a
// network namespace, or a BPF variant's profile, for one destination prefix. Which value is
// right is the tuner's business.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bpf_variant.h"
#include "files.h"
#include "interface.h"
#include "result.h"

namespace swift {

struct TargetSettings {
	std::string policy; // "static", "base_rtt", "base_rtt_plus"
	std::uint32_t base_target_ns = 0;
	std::uint32_t hop_target_ns = 0;
	std::uint32_t rtt_epsilon_ns = 0; // what base_rtt_plus adds; never written

	bool operator==(const TargetSettings &) const = default;
	// "target_policy=static base_target_ns=25000 hop_target_ns=0 rtt_epsilon_ns=5000"
	[[nodiscard]] std::string text() const;
};

// Of the module, by their names below net.ipv4.tcp_swift.
using TunableValues = std::vector<std::pair<std::string, std::string>>;
// In this order; whole, or an Error and @old.
Result<void> write_tunables(Files &files, const TunableValues &values, const TunableValues &old);

class TargetKnob : public Interface {
public:
	[[nodiscard]] virtual std::string name() const = 0; // "net.ipv4.tcp_swift", "bpf_swift 10.0.0.0/8"
	[[nodiscard]] virtual std::string cc() const = 0; // whose flows
	// For a file name; tells apart what is set apart.
	[[nodiscard]] virtual std::string key() const = 0;
	virtual Result<TargetSettings> read() const = 0;
	// Whole, or an Error and what was there before.
	virtual Result<void> write(const TargetSettings &settings) = 0;
	// What a person would type for write().
	[[nodiscard]] virtual std::string command(const TargetSettings &settings) const = 0;
};

// @netns: what this_netns() says.
std::unique_ptr<TargetKnob> sysctl_knob(Files &files, std::string netns);
// @prefix: "" for all flows without a profile. A profile that is not there yet is made. While
// somebody else changes BPF variants, write() tries again, for @patience_s.
std::unique_ptr<TargetKnob> bpf_knob(BpfVariants &variants, std::string name, std::string prefix,
				     double patience_s);

} // namespace swift
