// SPDX-License-Identifier: MIT
// libswift's clock feeder in a thread of its own, so that neither a slow collection nor a
// slow NIC driver keeps the other waiting.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "clock_feeder.h"
#include "fd.h"
#include "options.h"
#include "store.h"

namespace swift {

[[nodiscard]] ClockRow clock_row(const FeedStatus &status, std::int64_t now_ns);

class ClockThread {
public:
	// @tell is called from that thread.
	static Result<std::unique_ptr<ClockThread>> start(const Config::Clocks &config,
							  ClockFeeder::Tell tell);
	ClockThread(const ClockThread &) = delete;
	ClockThread &operator=(const ClockThread &) = delete;
	// Puts the NICs back.
	~ClockThread();

	[[nodiscard]] std::vector<ClockRow> rows() const;

private:
	explicit ClockThread(Fd stop) : stop_(std::move(stop)) {}
	void run(const Config::Clocks &config, const ClockFeeder::Tell &tell);
	void begun(Result<void> how);

	Fd stop_; // eventfd
	mutable std::mutex mutex_;
	std::condition_variable begun_condition_;
	std::optional<Result<void>> begun_;
	std::vector<ClockRow> rows_;
	std::thread thread_;
};

} // namespace swift
