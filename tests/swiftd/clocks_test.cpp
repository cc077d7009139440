// SPDX-License-Identifier: MIT
// swiftd's clock thread on the real kernel, in a network namespace of its own: as root.
#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#include "clocks.h"
#include "netns.h"
#include "system.h"

namespace swift {
namespace {

using namespace std::chrono_literals;

// Looks until it is so, for as long as a busy machine may take.
template <typename Condition> bool soon(Condition condition)
{
	const auto end = std::chrono::steady_clock::now() + 60s;

	while (!condition())
		if (std::this_thread::sleep_for(10ms); std::chrono::steady_clock::now() > end)
			return false;
	return true;
}

void a_busy_lock()
{
	const std::string path = "/run/tcp_swift/clock-" + this_netns() + ".lock";
	const auto system = real_system();
	auto other = system->lock(path);
	Config::Clocks config;
	std::mutex mutex;
	std::vector<std::string> told;

	ASSERT_TRUE(other) << other.error().text();
	config.devices = {"none0"};
	{
		ClockThread clocks(
			config,
			[&](const FeedEvent &e) {
				const std::scoped_lock lock(mutex);

				told.push_back(e.text);
			},
			10ms);
		const auto state = [&] {
			const auto rows = clocks.rows();

			return rows.empty() ? "" : rows[0].state;
		};

		EXPECT_TRUE(soon([&] { return state() == "busy"; })) << state();
		{
			const std::scoped_lock lock(mutex);

			ASSERT_EQ(told.size(), 1U);
			// As far as this file system's locks name processes.
			EXPECT_NE(told[0].find("another clock feeder runs in this network namespace: swift"), std::string::npos)
				<< told[0];
		}
		// Once it is free it feeds.
		other = Error{};
		EXPECT_TRUE(soon([&] { return state() == "absent"; })) << state();
	}
	EXPECT_TRUE(system->remove_file(path));
}

} // namespace

TEST(ClockThread, ABusyLockCostsTheClocksAndNothingElse)
{
	std::atomic<bool> entered = false;

	std::thread([&] {
		entered = unshare(CLONE_NEWNET) == 0;
		if (entered)
			a_busy_lock();
	}).join();
	if (!entered)
		GTEST_SKIP() << "needs root";
}

} // namespace swift
