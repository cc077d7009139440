// SPDX-License-Identifier: MIT
#include "probe_nic.h"

#include <linux/net_tstamp.h>

#include <cerrno>
#include <utility>

namespace swift {

void NicLines::update(const std::vector<NicClock> &clocks, std::int64_t real_minus_mono_ns)
{
	lines_.clear();
	for (const NicClock &c : clocks)
		if (c.valid_ms > 0)
			lines_[c.ifindex] = c.line;
	real_minus_mono_ns_ = real_minus_mono_ns;
}

std::optional<std::int64_t> NicLines::to_host(unsigned ifindex, std::int64_t nic_ns) const
{
	const auto known = lines_.find(ifindex);

	if (known == lines_.end())
		return std::nullopt;

	const ClockLine &line = known->second;
	const std::int64_t since_ns = nic_ns - static_cast<std::int64_t>(line.nic_ns);
	// Apart from 1, so that a double is exact enough.
	const double excess = static_cast<double>(line.ratio_q32) / 4294967296.0 - 1;

	return static_cast<std::int64_t>(line.host_ns) + since_ns +
	       static_cast<std::int64_t>(static_cast<double>(since_ns) * excess) + real_minus_mono_ns_;
}

Result<BorrowedStamping> BorrowedStamping::take(Nics &nics, const std::string &dev)
{
	BorrowedStamping b(nics, dev);
	const Stamping wanted = {HWTSTAMP_TX_ON, HWTSTAMP_FILTER_ALL};
	const auto can = nics.timestamps(dev);

	if (!can)
		return can.error().code == ENODEV ? Error{"no such interface", dev} : can.error();
	if (!can->can_hw_rx_all || !can->now)
		return Error{dev + " cannot stamp all packets in hardware"};
	if (*can->now == wanted)
		return b;

	const auto made = nics.set_stamping(dev, wanted);

	if (!made)
		return errno_error("cannot make " + dev + " stamp packets", made.error().code);
	b.before_ = can->now;
	b.written_ = *made;
	return b;
}

BorrowedStamping::BorrowedStamping(BorrowedStamping &&other) noexcept
	: nics_(other.nics_), dev_(std::move(other.dev_)),
	  before_(std::exchange(other.before_, std::nullopt)), written_(other.written_)
{
}

BorrowedStamping::~BorrowedStamping()
{
	if (!before_)
		return;
	const auto now = nics_->timestamps(dev_);

	// On the way out: nobody is left to be told of an error.
	if (now && now->now == written_)
		(void)static_cast<bool>(nics_->set_stamping(dev_, *before_));
}

} // namespace swift
