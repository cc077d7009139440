// SPDX-License-Identifier: MIT
// Loading and unloading the BPF telemetry, and letting it watch: the module's tracepoint, and
// each congestion control in BPF that bpf_variant.h has loaded. What it counts is read by
// telemetry.h.
//
// Its pins, in /sys/fs/bpf/tcp_swift/telemetry: its maps by their names, prog_PROGRAM and
// link_PROGRAM, and for each variant that it watches prog_NAME~ID and link_NAME~ID, where ID
// is the kernel's of the program that it is attached to. While it is made it is telemetry~new.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bpf_host.h"
#include "flow.h"
#include "result.h"
#include "system.h"

namespace swift {

struct BpfReport;

struct TelemetryRequest {
	std::string file; // "": the built-in one
	std::vector<std::string> prefixes; // CIDR: counted as they are, not by length
	std::string v4_len; // 0 .. 32; "": 24
	std::string v6_len; // 0 .. 128; "": 64
	std::string max_flows; // "": 16384
	std::string max_prefixes; // "": 256
	std::string tx_one_in; // "": no transmit shares
	bool dry_run = false;
};

struct TelemetryStatus {
	bool leftover = false; // of a killed loader
	bool module_attached = false;
	std::vector<std::string> watched; // variants
	std::vector<BpfProgramStatus> programs;
	std::uint32_t max_flows = 0;
	std::uint32_t max_prefixes = 0;
	std::uint32_t tx_one_in = 0;
	bool tx_nic_attached = false;
	std::int64_t since_ns = 0; // CLOCK_REALTIME; 0: not known
};

class BpfTelemetry {
public:
	BpfTelemetry(System &system, BpfHost &host) : system_(system), host_(host) {}

	// If it is loaded and the module has come meanwhile, that is attached.
	[[nodiscard]] BpfReport load(const TelemetryRequest &request);
	// @module_only: let the module go, which otherwise cannot be unloaded; keep the rest.
	[[nodiscard]] BpfReport unload(bool module_only, bool dry_run);
	[[nodiscard]] std::optional<TelemetryStatus> status() const;

	// For bpf_variant.h, once the variant @name is loaded or swapped; nothing if there is no
	// telemetry. Of programs before the last but one, flows are no longer watched.
	Result<void> watch(const std::string &name);
	void forget(const std::string &name);

private:
	struct Plan;

	Result<Plan> plan(const TelemetryRequest &request, BpfReport &report) const;
	Result<void> build(Plan &plan, bool &module_attached, std::optional<Error> &no_nic);
	// The file of @dir's programs once more: @program alone, with the maps that are in @dir.
	Result<std::unique_ptr<BpfObject>> open_again(const std::string &dir, const std::string &program);
	Result<void> start(BpfObject &object, const std::string &program, const std::string &dir,
			   const std::string &pin);
	Result<void> watch_releases(const std::string &dir);
	Result<void> watch_program(const std::string &dir, const std::string &name, const std::string &pin,
				   std::uint32_t id);
	Result<void> watch_in(const std::string &dir, const std::string &name);
	Result<void> make_other(const std::string &dir, const std::string &cc);
	Result<bool> attach_module(const std::string &dir); // false: it is not there
	Result<void> take_down(const std::string &dir);
	[[nodiscard]] std::vector<std::string> variants() const; // that could be watched
	[[nodiscard]] std::vector<std::string> pins_of(const std::string &dir, const std::string &start) const;

	System &system_;
	BpfHost &host_;
};

} // namespace swift
