// SPDX-License-Identifier: MIT
// A NIC's clock (PTP hardware clock, /dev/ptpN) read beside the host's: which of the
// kernel's ways is the best that the driver has, the best of several samples, and all of
// it brought to CLOCK_MONOTONIC, so that a step of the wall clock does no harm.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "clock_fit.h"
#include "interface.h"
#include "result.h"

namespace swift {

// Best first.
enum class PhcMethod {
	precise, // PTP_SYS_OFFSET_PRECISE: the hardware latches both at once
	extended_monotonic, // PTP_SYS_OFFSET_EXTENDED against CLOCK_MONOTONIC, from Linux 6.12
	extended, // the same against CLOCK_REALTIME
	basic, // PTP_SYS_OFFSET
};
[[nodiscard]] std::string_view phc_method_text(PhcMethod m);

// The host's clock before and after, CLOCK_REALTIME but for extended_monotonic.
struct PhcSample {
	std::int64_t before_ns = 0;
	std::int64_t nic_ns = 0;
	std::int64_t after_ns = 0;
};

struct HostClocks {
	std::int64_t mono_before_ns = 0;
	std::int64_t real_ns = 0;
	std::int64_t mono_after_ns = 0;
};

// The system calls alone.
class PhcDevice : public Interface {
public:
	virtual Result<std::vector<PhcSample>> samples(PhcMethod method, unsigned count) = 0;
	virtual HostClocks host_clocks() = 0;
};

// /dev/ptp@index
Result<std::unique_ptr<PhcDevice>> open_phc(int index);

class PhcReader {
public:
	explicit PhcReader(std::unique_ptr<PhcDevice> device) : device_(std::move(device)) {}

	// An Error with ENODEV: the clock is gone.
	Result<ClockReading> read();
	[[nodiscard]] PhcMethod method() const { return method_; }

private:
	struct Offset { // CLOCK_REALTIME - CLOCK_MONOTONIC
		std::int64_t ns;
		std::int64_t width_ns;
	};

	Result<PhcSample> best_sample();
	Offset offset();

	std::unique_ptr<PhcDevice> device_;
	PhcMethod method_ = PhcMethod::precise;
};

} // namespace swift
