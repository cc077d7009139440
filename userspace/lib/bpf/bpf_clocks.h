// SPDX-License-Identifier: MIT
// The NIC clocks of BPF variants: what the module's table is for the module, a variant's pinned
// maps are for it (bpf/maps.h), in every variant that has them. How the kernel is told is
// bpf_host.h's, where the lines come from clock_feeder.h's.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bpf_host.h"
#include "clock_client.h"
#include "clock_fit.h"
#include "clock_host.h"
#include "result.h"
#include "variant_clocks.h"

namespace swift {

struct BpfClock {
	std::string variant;
	NicClock clock; // without an owner and counts
};

// All that there is.
struct BpfClockTable {
	std::vector<std::string> variants; // that take clocks, with a line or without
	std::vector<BpfClock> clocks;
};

class BpfClocks : public VariantClocks {
public:
	// @netns: the cookie of the namespace that the devices are in.
	BpfClocks(BpfHost &host, std::uint64_t netns) : host_(host), netns_(netns) {}

	VariantsFed set(std::uint32_t ifindex, const ClockLine &line, std::uint32_t valid_ms,
			std::int64_t now_ns) override;
	Result<void> set_napis(std::uint32_t ifindex, const std::vector<std::uint32_t> &napis) override;
	void remove(std::uint32_t ifindex) override;
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

// The clock feeder's world, of this network namespace, with the variants in it.
Result<std::unique_ptr<ClockHost>> real_clock_host();
// What `swiftctl clock` shows; nothing without the rights to see the pins.
[[nodiscard]] BpfClockTable bpf_clocks_now(std::int64_t now_ns);

} // namespace swift
