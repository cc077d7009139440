// SPDX-License-Identifier: MIT
// A target that nobody steers by, and flows that are all alike, for tests of tunings.
#pragma once

#include <cstdint>

#include "flow_table.h"
#include "target_knob.h"

namespace swift_test {

class FakeKnob : public swift::TargetKnob {
public:
	swift::TargetSettings settings = {"static", 100'000, 0, 0};
	bool fails = false; // to be written
	int fails_with = 0; // errno
	bool gone = false; // to be read as well
	mutable unsigned failing_reads = 0; // the next ones
	unsigned writes = 0;

	std::string name() const override { return "fake"; }
	std::string cc() const override { return "swift"; }
	std::string key() const override { return "fake"; }
	swift::Result<swift::TargetSettings> read() const override
	{
		if (gone || failing_reads > 0) {
			failing_reads -= !gone;
			return swift::Error{"the knob is gone"};
		}
		return settings;
	}
	swift::Result<void> write(const swift::TargetSettings &s) override
	{
		if (fails || gone)
			return swift::Error{"the knob is stuck", {}, {}, fails_with};
		writes++;
		settings = s;
		return {};
	}
	std::string command(const swift::TargetSettings &) const override { return "turn it"; }
};

// Four flows to 10.0.0.0/24 that always have data, over a path of @path_ns; a second apart.
inline swift::FlowSet flows(std::uint32_t path_ns, float rate_Bps = 1e6F)
{
	swift::FlowSet set;

	set.interval_s = 1;
	set.ccs = {"swift"};
	set.ifaces = {"eth0"};
	set.groups = {{"10.0.0.0/24", "swift", "eth0"}};
	for (std::uint8_t i = 1; i <= 4; i++) {
		swift::FlowRow row;

		row.cookie = i;
		row.rate_Bps = rate_Bps;
		row.srtt_us = path_ns / 1000;
		row.min_rtt_us = path_ns / 1000;
		row.measured = true;
		row.sender = {true, false, true, true, 1, 0, 0};
		row.swift.fabric_ns = path_ns;
		row.swift.target_ns = path_ns;
		row.swift.fcwnd_q16 = 5 << 16;
		row.swift.ecwnd_q16 = 50 << 16;
		row.remote_bytes = {10, 0, 0, i};
		set.rows.push_back(row);
	}
	return set;
}

} // namespace swift_test
