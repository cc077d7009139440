// SPDX-License-Identifier: MIT
// The world of the clock feeder beyond files and NICs' ioctls (files.h, nics.h): time, PHCs, link
// events, the clock tables of the module and of BPF variants. An interface, so that tests put a
// made-up one in its place. It decides nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "clock_fit.h"
#include "interface.h"
#include "phc.h"
#include "result.h"
#include "route.h"
#include "variant_clocks.h"

namespace swift {

class ClockHost : public Interface {
public:
	[[nodiscard]] virtual std::int64_t now_ns() const = 0; // CLOCK_MONOTONIC
	// The cookie of its network namespace, for a file's name.
	[[nodiscard]] virtual std::string netns() const = 0;

	virtual Result<std::unique_ptr<PhcDevice>> open_phc(int index) = 0;

	virtual Result<std::vector<Link>> links() = 0;
	// Since the last call. An Error: some were missed, ask links() for all.
	virtual Result<std::vector<Link>> link_changes() = 0;

	virtual Result<void> set_line(std::uint32_t ifindex, const ClockLine &line,
				      std::uint32_t valid_ms) = 0;
	virtual Result<void> remove_line(std::uint32_t ifindex) = 0;
	// The same in every BPF variant that takes clocks. @now_ns: when its validity begins.
	virtual VariantsFed set_bpf_line(std::uint32_t ifindex, const ClockLine &line,
					 std::uint32_t valid_ms, std::int64_t now_ns) = 0;
	// Which NAPIs are the device's, in every BPF variant that takes clocks. May take long.
	virtual Result<void> set_bpf_napis(std::uint32_t ifindex) = 0;
	virtual void remove_bpf_line(std::uint32_t ifindex) = 0;
	// Who has set a line: "swiftd (netlink port 812)".
	virtual std::string owner_of(std::uint32_t ifindex) = 0;

	// The moment at which fd() becomes readable, besides link changes.
	virtual void wake_at(std::int64_t host_ns) = 0;
	virtual void clear_wake() = 0;
	[[nodiscard]] virtual int fd() const = 0;
};

// The real one, of this network namespace. @variants: who tells its clocks to BPF variants.
Result<std::unique_ptr<ClockHost>> clock_host(std::unique_ptr<VariantClocks> variants);

} // namespace swift
