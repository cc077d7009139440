// SPDX-License-Identifier: MIT
// Reading a PHC: which of the kernel's ways, the best of several samples, CLOCK_MONOTONIC
// whatever happens to the wall clock.
#include <gtest/gtest.h>

#include <cerrno>
#include <functional>
#include <set>

#include "phc.h"

using namespace swift;

namespace {

constexpr std::int64_t boot = 1700000000000000000; // CLOCK_REALTIME - CLOCK_MONOTONIC
constexpr std::int64_t tai = 37000000000; // NIC - CLOCK_REALTIME

struct FakePhc : PhcDevice {
	struct World {
		std::int64_t mono = 5000000000;
		std::int64_t wall = boot;
		std::int64_t nic_minus_mono = boot + tai;
		std::set<PhcMethod> can = {PhcMethod::precise, PhcMethod::extended_monotonic,
					   PhcMethod::extended, PhcMethod::basic};
		int cannot_with = EOPNOTSUPP;
		std::vector<std::int64_t> widths = {900, 300, 2000};
		int calls = 0;
		std::function<void(World &)> during = {}; // between before and after
	};

	explicit FakePhc(World &w) : world(w) {}
	World &world;

	Result<std::vector<PhcSample>> samples(PhcMethod method, unsigned count) override
	{
		World &w = world;
		std::vector<PhcSample> out;

		w.calls++;
		if (!w.can.contains(method))
			return errno_error("no", w.cannot_with);
		EXPECT_EQ(count, method == PhcMethod::precise ? 1U : 10U);
		const auto host = [&] { return w.mono + (method == PhcMethod::extended_monotonic ? 0 : w.wall); };

		for (const std::int64_t width : w.widths) {
			PhcSample s;

			s.before_ns = host();
			w.mono += method == PhcMethod::precise ? 0 : width / 2;
			s.nic_ns = w.mono + w.nic_minus_mono;
			if (w.during)
				w.during(w);
			w.mono += method == PhcMethod::precise ? 0 : width - width / 2;
			s.after_ns = host();
			out.push_back(s);
			if (method == PhcMethod::precise)
				break;
		}
		return out;
	}
	HostClocks host_clocks() override
	{
		World &w = world;
		HostClocks c;

		c.mono_before_ns = w.mono;
		w.mono += 15;
		c.real_ns = w.mono + w.wall;
		w.mono += 15;
		c.mono_after_ns = w.mono;
		return c;
	}
};

PhcReader reader(FakePhc::World &w)
{
	return PhcReader(std::make_unique<FakePhc>(w));
}

} // namespace

TEST(phc, takes_the_best_way_that_there_is)
{
	std::set<PhcMethod> can = {PhcMethod::precise, PhcMethod::extended_monotonic, PhcMethod::extended,
				   PhcMethod::basic};

	for (const PhcMethod best : {PhcMethod::precise, PhcMethod::extended_monotonic, PhcMethod::extended,
				     PhcMethod::basic}) {
		for (const int code : {EOPNOTSUPP, EINVAL, ENOTTY}) {
			FakePhc::World w;
			auto r = reader(w);

			w.can = can;
			w.cannot_with = code;
			const auto reading = r.read();

			ASSERT_TRUE(reading);
			EXPECT_EQ(r.method(), best);
			EXPECT_LE(std::abs(reading->nic_ns - reading->host_ns - w.nic_minus_mono),
				  reading->window_ns / 2);
			EXPECT_LE(reading->window_ns, 330);
			EXPECT_GE(reading->window_ns, best == PhcMethod::precise ? 100 : 300);
			// And remembers it.
			w.calls = 0;
			ASSERT_TRUE(r.read());
			EXPECT_EQ(w.calls, 1);
		}
		can.erase(best);
	}
}

TEST(phc, a_precise_way_that_fails_for_any_reason_has_others)
{
	FakePhc::World w;
	auto r = reader(w);

	w.can.erase(PhcMethod::precise);
	w.cannot_with = ETIMEDOUT;
	EXPECT_TRUE(r.read());
	EXPECT_EQ(r.method(), PhcMethod::extended_monotonic);
	// One that fails later is not worth giving up for.
	w.can.clear();
	w.cannot_with = EIO;
	EXPECT_EQ(r.read().error().code, EIO);
	EXPECT_EQ(r.method(), PhcMethod::extended_monotonic);
	w.cannot_with = ENODEV;
	EXPECT_EQ(r.read().error().code, ENODEV);
}

TEST(phc, no_way_at_all)
{
	FakePhc::World w;
	auto r = reader(w);

	w.can.clear();
	EXPECT_EQ(r.read().error().code, EOPNOTSUPP);
}

TEST(phc, a_step_of_the_wall_clock_during_a_reading_does_no_harm)
{
	for (const PhcMethod method : {PhcMethod::precise, PhcMethod::extended_monotonic,
				       PhcMethod::extended, PhcMethod::basic})
		for (const std::int64_t step : {std::int64_t{400}, std::int64_t{-400}, std::int64_t{1000000000},
						std::int64_t{-3600000000000}}) {
			FakePhc::World w;
			auto r = reader(w);
			int steps = 1;

			w.can = {method};
			w.during = [&](FakePhc::World &world) {
				if (steps-- > 0)
					world.wall += step;
			};
			const auto reading = r.read();

			ASSERT_TRUE(reading) << step;
			EXPECT_LE(std::abs(reading->nic_ns - reading->host_ns - w.nic_minus_mono),
				  reading->window_ns / 2)
				<< static_cast<int>(method) << " " << step;
		}
}

TEST(phc, a_wall_clock_that_is_stepped_all_the_time)
{
	FakePhc::World w;
	auto r = reader(w);

	w.can = {PhcMethod::extended};
	w.during = [](FakePhc::World &world) { world.wall += 1000000; };
	const auto reading = r.read();

	ASSERT_FALSE(reading);
	EXPECT_NE(reading.error().text().find("stepped"), std::string::npos);
	// Not when it is not asked for.
	w.can = {PhcMethod::extended, PhcMethod::extended_monotonic};
	auto other = reader(w);

	EXPECT_TRUE(other.read());
}

TEST(phc, a_clock_before_1970)
{
	FakePhc::World w;
	auto r = reader(w);

	w.nic_minus_mono = -6000000000;
	EXPECT_NE(r.read().error().text().find("before 1970"), std::string::npos);
}

TEST(phc, a_device_that_is_not_there)
{
	const auto device = open_phc(9999);

	ASSERT_FALSE(device);
	EXPECT_EQ(device.error().code, ENOENT);
	EXPECT_NE(device.error().text().find("/dev/ptp9999"), std::string::npos);
}
