// SPDX-License-Identifier: MIT
// The NIC clocks of BPF variants, as the clock feeder tells them: what the module's table is for
// the module. How a variant is told is bpf_clocks.h's, which is above.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "clock_fit.h"
#include "interface.h"
#include "result.h"

namespace swift {

// Which variants have a line now; the first error of the others.
struct VariantsFed {
	std::vector<std::string> variants;
	std::optional<Error> error;
};

class VariantClocks : public Interface {
public:
	// In none if no variant that takes clocks is loaded. @now_ns: CLOCK_MONOTONIC.
	virtual VariantsFed set(std::uint32_t ifindex, const ClockLine &line, std::uint32_t valid_ms,
				std::int64_t now_ns) = 0;
	// Exactly those lead to the device, in all variants that can have it; the first error.
	virtual Result<void> set_napis(std::uint32_t ifindex, const std::vector<std::uint32_t> &napis) = 0;
	// From all; what cannot be removed dies by itself, soon.
	virtual void remove(std::uint32_t ifindex) = 0;
};

} // namespace swift
