// SPDX-License-Identifier: MIT
// Reading the telemetry of a large host: what it allocates, and how often it looks at what. The host is
// made up, and so is its map: a value of 256 CPUs for each of 1,024 prefixes, 1.9 GB in all.
#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

#include "bpf_telemetry.h"
#include "fake_bpf_host.h"
#include "telemetry.h"
#include "telemetry_maps.h"

namespace {

std::atomic<std::size_t> allocated_bytes; // now
std::atomic<std::size_t> most_bytes;

} // namespace

void *operator new(std::size_t n)
{
	void *p = std::malloc(n);

	if (!p)
		throw std::bad_alloc();
	const std::size_t now = allocated_bytes += malloc_usable_size(p);
	std::size_t most = most_bytes;

	while (now > most && !most_bytes.compare_exchange_weak(most, now))
		continue;
	return p;
}

void operator delete(void *p) noexcept
{
	allocated_bytes -= malloc_usable_size(p);
	std::free(p);
}

void operator delete(void *p, std::size_t) noexcept
{
	operator delete(p);
}

using namespace swift;

namespace {

// Each CPU has counted one decision for each prefix; flows are there in any number.
class LargeHost final : public swift_test::FakeBpfHost {
public:
	LargeHost(std::size_t cpus, std::uint32_t prefixes, std::uint32_t flows)
		: value_(cpus * sizeof(telemetry_prefix)), prefixes_(prefixes), flows_(flows)
	{
		telemetry_prefix one{};

		one.decisions[TCP_SWIFT_INCREASE] = 1;
		one.buckets[TELEMETRY_FABRIC][9] = 1;
		one.sums[TELEMETRY_FABRIC] = 40000;
		for (std::size_t at = 0; at < value_.size(); at += sizeof(one))
			std::memcpy(value_.data() + at, &one, sizeof(one));
		for (const auto &[name, key, value, n] :
		     {std::tuple("flows", sizeof(telemetry_flow_key), sizeof(telemetry_flow), flows),
		      std::tuple("prefixes", sizeof(telemetry_prefix_key), sizeof(telemetry_prefix),
				 prefixes + telemetry_spare_prefixes),
		      std::tuple("counters", sizeof(std::uint32_t), sizeof(std::uint64_t), std::uint32_t{TELEMETRY_COUNTERS}),
		      std::tuple("settings", sizeof(std::uint32_t), sizeof(telemetry_settings), 1U)}) {
			auto &thing = pinned["/sys/fs/bpf/tcp_swift/telemetry/" + std::string(name)] =
				std::make_shared<Thing>();

			thing->map = {name, 0, static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(value), n, false, false};
		}
		dirs = {"/sys/fs/bpf/tcp_swift", "/sys/fs/bpf/tcp_swift/telemetry"};
	}
	Result<void> visit(const std::string &pin, const ShowEntry &show) const override
	{
		visits[pin.substr(pin.rfind('/') + 1)]++;
		if (pin.ends_with("/prefixes"))
			for (std::uint32_t i = 0; i < prefixes_; i++)
				show(std::as_bytes(std::span(&prefix_key(i), 1)), value_);
		if (pin.ends_with("/flows"))
			for (std::uint32_t i = 0; i < flows_; i++)
				show_flow(i, show);
		return {};
	}

	mutable std::map<std::string, int> visits;
	mutable std::size_t shown_bytes = 0;

private:
	const telemetry_prefix_key &prefix_key(std::uint32_t i) const
	{
		shown_bytes += value_.size();
		key_ = {};
		std::memcpy(key_.cc, "swift", 5);
		key_.addr[10] = key_.addr[11] = 0xff;
		std::memcpy(key_.addr + 12, &i, sizeof(i));
		key_.prefix_len = 128;
		return key_;
	}
	static void show_flow(std::uint32_t i, const ShowEntry &show)
	{
		telemetry_flow_key key{};
		telemetry_flow flow{};

		key.net = i;
		flow.last_ns = 1;
		flow.decisions[TCP_SWIFT_INCREASE] = 1;
		show(std::as_bytes(std::span(&key, 1)), std::as_bytes(std::span(&flow, 1)));
	}

	std::vector<std::byte> value_;
	std::uint32_t prefixes_;
	std::uint32_t flows_;
	mutable telemetry_prefix_key key_{};
};

// The most that is allocated during @work, beyond what was there before.
template <typename Work> std::size_t bytes_of(Work work)
{
	const std::size_t before = allocated_bytes;

	most_bytes = before;
	work();
	return most_bytes - before;
}

} // namespace

TEST(TelemetryBounds, WhatCpusHaveIsAddedUpAsItIsRead)
{
	std::map<std::size_t, std::size_t> most;

	for (const std::size_t cpus : {1, 256}) {
		const LargeHost host(cpus, 1024, 0);
		const auto telemetry = Telemetry::open(host);
		std::uint64_t samples = 0;
		std::size_t prefixes = 0;

		ASSERT_TRUE(telemetry) << telemetry.error().text();
		most[cpus] = bytes_of([&] {
			const auto earlier = telemetry->read_prefixes(std::nullopt);
			const auto now = telemetry->read_prefixes(std::nullopt);
			const TelemetryReading since = now->since(*earlier);

			prefixes = now->prefixes.size();
			for (const TelemetryPrefix &p : now->prefixes)
				samples += p.counts.samples();
			EXPECT_TRUE(since.prefixes.empty());
		});
		EXPECT_EQ(prefixes, 1024U);
		EXPECT_EQ(samples, 1024 * cpus);
		// Each value once a look, and no map besides.
		EXPECT_EQ(host.shown_bytes, 2 * 1024 * cpus * sizeof(telemetry_prefix));
		EXPECT_EQ(host.visits, (std::map<std::string, int>{{"counters", 2}, {"prefixes", 2}}));
	}
	// What two looks have to keep is two readings, however many CPUs there are.
	EXPECT_LT(most[256], 3 * 1024 * sizeof(TelemetryPrefix));
	EXPECT_LT(most[256], most[1] + 4096);
}

TEST(TelemetryBounds, FlowsThatNobodyWantsAreNotKept)
{
	const LargeHost host(1, 1, 100'000);
	const auto telemetry = Telemetry::open(host);
	std::size_t shown = 0;

	ASSERT_TRUE(telemetry);
	EXPECT_LT(bytes_of([&] {
			  (void)!telemetry->visit_flows(std::nullopt, {}, [&](TelemetryFlow &&f) { shown += f.counts.samples(); });
			  const auto none = telemetry->read(std::nullopt, [](const TelemetryFlow &) { return false; });

			  EXPECT_TRUE(none->flows.empty());
		  }),
		  std::size_t{1} << 18);
	EXPECT_EQ(shown, 100'000U);
}
