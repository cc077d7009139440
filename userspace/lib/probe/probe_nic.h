// SPDX-License-Identifier: MIT
// What the prober asks of a NIC: to stamp packets for a while, and where its clock stands
// beside the host's.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "nics.h"

namespace swift {

// The module's lines of NIC clocks, turned to CLOCK_REALTIME, in which the kernel stamps.
class NicLines {
public:
	// @real_minus_mono_ns: the difference of the host's two clocks now.
	void update(const std::vector<NicClock> &clocks, std::int64_t real_minus_mono_ns);
	[[nodiscard]] std::optional<std::int64_t> to_host(unsigned ifindex, std::int64_t nic_ns) const;

private:
	std::map<unsigned, ClockLine> lines_;
	std::int64_t real_minus_mono_ns_ = 0;
};

// Makes a NIC stamp all packets for as long as it lives; then it is as it was, unless
// somebody else has changed it meanwhile.
class BorrowedStamping {
public:
	static Result<BorrowedStamping> take(Nics &nics, const std::string &dev);
	BorrowedStamping(BorrowedStamping &&other) noexcept;
	BorrowedStamping &operator=(BorrowedStamping &&) = delete;
	BorrowedStamping(const BorrowedStamping &) = delete;
	BorrowedStamping &operator=(const BorrowedStamping &) = delete;
	~BorrowedStamping();

private:
	BorrowedStamping(Nics &nics, std::string dev) : nics_(&nics), dev_(std::move(dev)) {}

	Nics *nics_;
	std::string dev_;
	std::optional<Stamping> before_; // none: nothing to put back
	Stamping written_;
};

} // namespace swift
