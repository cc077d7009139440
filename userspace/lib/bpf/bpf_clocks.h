// SPDX-License-Identifier: MIT
// The NIC clocks of BPF variants: what the module's table is for the module, a variant's pinned
// maps are for it (bpf/maps.h), in every variant that has them. How the kernel is told is
// bpf_host.h's, where the lines come from clock_feeder.h's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bpf_host.h"
#include "clock_fit.h"
#include "genl.h"
#include "result.h"

namespace swift {

struct BpfClock {
	std::string variant;
	NicClock clock; // without an owner and counts
};

// Which variants have a line now; the first error of the others.
struct BpfFed {
	std::vector<std::string> variants;
	std::optional<Error> error;
};

// All that there is.
struct BpfClockTable {
	std::vector<std::string> variants; // that take clocks, with a line or without
	std::vector<BpfClock> clocks;
};

class BpfClocks {
public:
	// @netns: the cookie of the namespace that the devices are in.
	BpfClocks(BpfHost &host, std::uint64_t netns) : host_(host), netns_(netns) {}

	// In none if no variant that takes clocks is loaded. @now_ns: CLOCK_MONOTONIC.
	BpfFed set(std::uint32_t ifindex, const ClockLine &line, std::uint32_t valid_ms,
		   std::int64_t now_ns);
	// Exactly those lead to the device, in all variants that can have it; the first error.
	Result<void> set_napis(std::uint32_t ifindex, const std::vector<std::uint32_t> &napis);
	// From all; what cannot be removed dies by itself, soon.
	void remove(std::uint32_t ifindex);
	// Of this namespace.
	[[nodiscard]] Result<BpfClockTable> all(std::int64_t now_ns) const;

private:
	[[nodiscard]] Result<std::vector<std::string>> variants() const;
	Result<void> write(const std::string &dir, const BpfBytes &key, const BpfBytes &clock,
			   std::int64_t now_ns);
	void reclaim(const std::string &dir, std::int64_t now_ns);
	Result<void> set_napis(const std::string &pin, const BpfBytes &device,
			       const std::vector<std::uint32_t> &napis);

	BpfHost &host_;
	std::uint64_t netns_;
};

// Asks the kernel for a device's NAPIs. It looks them up under its lock of all network
// configuration, which others may hold for long.
class NapiIds {
public:
	// None before Linux 6.8, which does not tell.
	std::optional<std::vector<std::uint32_t>> of(std::uint32_t ifindex);

private:
	// Of generic netlink; 0: this kernel has none. It is no module, and so it stays that way,
	// but the kernel would look for a module each time.
	std::optional<std::uint16_t> family_;
};

// What `swiftctl clock` shows; nothing without the rights to see the pins.
[[nodiscard]] BpfClockTable bpf_clocks_now(std::int64_t now_ns);

} // namespace swift
