// SPDX-License-Identifier: MIT
// libswift's clock feeder in a thread of its own, so that neither a slow collection nor a
// slow NIC driver keeps the other waiting.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "clock_feeder.h"
#include "fd.h"
#include "interface.h"
#include "options.h"
#include "store.h"

namespace swift {

[[nodiscard]] ClockRow clock_row(const FeedStatus &status, std::int64_t now_ns);

class ClockThread : NonCopyable {
public:
	// While it cannot feed, because another feeder runs, say, it tries again: that costs the clocks, and
	// nothing else. @tell is called from that thread.
	ClockThread(Config::Clocks config, ClockFeeder::Tell tell,
		    std::chrono::milliseconds retry = std::chrono::seconds(5));
	// Puts the NICs back.
	~ClockThread();

	[[nodiscard]] std::vector<ClockRow> rows() const;

private:
	void run();
	Result<void> feed();
	void set_rows(std::vector<ClockRow> rows);

	const Config::Clocks config_;
	const ClockFeeder::Tell tell_;
	const std::chrono::milliseconds retry_;
	Fd stop_; // eventfd
	mutable std::mutex mutex_;
	std::vector<ClockRow> rows_;
	std::thread thread_; // the last: it uses all above
};

} // namespace swift
