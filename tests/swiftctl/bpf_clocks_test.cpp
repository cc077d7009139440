// SPDX-License-Identifier: MIT
// NIC clocks in the maps of BPF variants, on a made-up kernel.
#include "bpf_clocks.h"

#include <gtest/gtest.h>
#include <net/if.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "fake_bpf_host.h"
#include "maps.h"
#include "napi_ids.h"

using namespace swift;
using swift_test::FakeBpfHost;

namespace {

constexpr std::int64_t now_ns = 1000000000000;
constexpr std::uint64_t netns = 7;
const ClockLine good = {5000, 999999999999, 1ULL << 32, 100};

template <typename T> BpfBytes bytes_of(const T &value)
{
	BpfBytes bytes(sizeof(value));

	std::memcpy(bytes.data(), &value, sizeof(value));
	return bytes;
}

class ClocksOfVariants : public testing::Test {
protected:
	FakeBpfHost host_;
	BpfClocks clocks_{host_, netns};

	void add(const std::string &name)
	{
		for (const BpfMap &map : {BpfMap{"swift_clocks", 1, sizeof(bpf_swift_clock_key), sizeof(bpf_swift_clock), 2},
					  BpfMap{"swift_clock_napis", 1, sizeof(std::uint32_t), sizeof(bpf_swift_clock_key), 3}}) {
			auto thing = std::make_shared<FakeBpfHost::Thing>();

			thing->map = map;
			host_.dirs.insert("/sys/fs/bpf/tcp_swift/" + name);
			host_.pinned["/sys/fs/bpf/tcp_swift/" + name + "/" + map.name] = thing;
		}
	}
	const auto &content(const std::string &map, const std::string &name = "bpf_swift") const
	{
		return host_.pinned.at("/sys/fs/bpf/tcp_swift/" + name + "/" + map)->content;
	}
	std::vector<std::string> set(std::uint32_t ifindex,
				     const std::optional<std::vector<std::uint32_t>> &napis = std::nullopt)
	{
		const auto fed = clocks_.set(ifindex, good, 750, now_ns);

		EXPECT_FALSE(fed.error) << fed.error->text();
		if (napis) {
			const auto told = clocks_.set_napis(ifindex, *napis);

			EXPECT_TRUE(told) << told.error().text();
		}
		return fed.variants;
	}
	std::vector<std::uint32_t> napis() const
	{
		std::vector<std::uint32_t> ids;

		for (const auto &[key, value] : content("swift_clock_napis")) {
			std::uint32_t id = 0;

			std::memcpy(&id, key.data(), sizeof(id));
			ids.push_back(id);
		}
		std::sort(ids.begin(), ids.end());
		return ids;
	}
};

} // namespace

TEST_F(ClocksOfVariants, none_is_loaded)
{
	EXPECT_TRUE(set(2).empty());
	clocks_.remove(2);
	EXPECT_TRUE(clocks_.all(now_ns)->variants.empty());
}

TEST_F(ClocksOfVariants, what_the_programs_read)
{
	add("bpf_swift");
	EXPECT_EQ(set(2), std::vector<std::string>{"bpf_swift"});

	const bpf_swift_clock_key key = {netns, 2, 0};
	const auto &value = content("swift_clocks").at(bytes_of(key));
	bpf_swift_clock clock;

	ASSERT_EQ(value.size(), sizeof(clock));
	std::memcpy(&clock, value.data(), sizeof(clock));
	EXPECT_EQ(clock.line.nic_ns, good.nic_ns);
	EXPECT_EQ(clock.line.host_ns, good.host_ns);
	EXPECT_EQ(clock.line.ratio_q32, good.ratio_q32);
	EXPECT_EQ(clock.line.error_ns, good.error_ns);
	EXPECT_EQ(clock.line.valid_until_ns, static_cast<std::uint64_t>(now_ns) + 750000000U);
	EXPECT_EQ(clock.check, bpf_swift_clock_check(&key, &clock.line));

	// Of another device, namespace or line it is not.
	for (const bpf_swift_clock_key &other : {bpf_swift_clock_key{netns, 3, 0}, bpf_swift_clock_key{8, 2, 0}})
		EXPECT_NE(clock.check, bpf_swift_clock_check(&other, &clock.line));
	for (std::uint64_t swift_clock_map::*field :
	     {&swift_clock_map::nic_ns, &swift_clock_map::host_ns, &swift_clock_map::ratio_q32,
	      &swift_clock_map::valid_until_ns}) {
		swift_clock_map half = clock.line;

		half.*field += 1000;
		EXPECT_NE(clock.check, bpf_swift_clock_check(&key, &half));
	}
	// The memory that is there before anything was written.
	const bpf_swift_clock_key no_key{};
	const bpf_swift_clock nothing{};

	EXPECT_NE(nothing.check, bpf_swift_clock_check(&no_key, &nothing.line));
}

TEST_F(ClocksOfVariants, every_variant_that_takes_them)
{
	add("bpf_swift");
	add("mine");
	add("half~new"); // being loaded
	host_.dirs.insert("/sys/fs/bpf/tcp_swift/bpf_gcn");
	host_.dirs.insert("/sys/fs/bpf/tcp_swift/telemetry");
	EXPECT_EQ(set(2), (std::vector<std::string>{"bpf_swift", "mine"}));
	EXPECT_EQ(content("swift_clocks", "mine").size(), 1U);
	EXPECT_TRUE(content("swift_clocks", "half~new").empty());
	set(3);

	auto all = clocks_.all(now_ns + 100000000);

	ASSERT_TRUE(all);
	EXPECT_EQ(all->variants, (std::vector<std::string>{"bpf_swift", "mine"}));
	ASSERT_EQ(all->clocks.size(), 4U);
	EXPECT_EQ(all->clocks.front().variant, "bpf_swift");
	EXPECT_EQ(all->clocks.front().clock.ifindex, 2U);
	EXPECT_EQ(all->clocks.front().clock.line.nic_ns, good.nic_ns);
	EXPECT_EQ(all->clocks.front().clock.valid_ms, 650U);
	EXPECT_EQ(clocks_.all(now_ns + 749999999)->clocks.front().clock.valid_ms, 1U);
	EXPECT_EQ(clocks_.all(now_ns + 750000000)->clocks.front().clock.valid_ms, 0U);
	const auto elsewhere = BpfClocks(host_, 8).all(now_ns); // another namespace

	EXPECT_EQ(elsewhere->variants.size(), 2U);
	EXPECT_TRUE(elsewhere->clocks.empty());

	clocks_.remove(2);
	EXPECT_EQ(content("swift_clocks").size() + content("swift_clocks", "mine").size(), 2U);
}

TEST_F(ClocksOfVariants, napis_come_and_go)
{
	add("bpf_swift");
	host_.pinned["/sys/fs/bpf/tcp_swift/bpf_swift/swift_clock_napis"]->content[bytes_of(std::uint32_t{900})] =
		bytes_of(bpf_swift_clock_key{8, 2, 0}); // another namespace's
	set(2, {{101, 102}});
	EXPECT_EQ(napis(), (std::vector<std::uint32_t>{101, 102, 900}));
	EXPECT_EQ(content("swift_clock_napis").at(bytes_of(std::uint32_t{101})),
		  bytes_of(bpf_swift_clock_key{netns, 2, 0}));
	set(2, {{102, 103}});
	EXPECT_EQ(napis(), (std::vector<std::uint32_t>{102, 103, 900}));
	set(2); // the kernel does not tell: as they were
	EXPECT_EQ(napis(), (std::vector<std::uint32_t>{102, 103, 900}));
	set(3, {{104}}); // no room: that device is known by its number
	EXPECT_EQ(content("swift_clocks").size(), 2U);
	EXPECT_EQ(napis(), (std::vector<std::uint32_t>{102, 103, 900}));
	clocks_.remove(2);
	EXPECT_EQ(napis(), std::vector<std::uint32_t>{900});
}

TEST_F(ClocksOfVariants, a_napi_that_is_another_devices_now)
{
	add("bpf_swift");
	set(2, {{101}});
	set(3, {{101}});
	EXPECT_EQ(content("swift_clock_napis").at(bytes_of(std::uint32_t{101})),
		  bytes_of(bpf_swift_clock_key{netns, 3, 0}));
	clocks_.remove(2);
	EXPECT_EQ(napis(), std::vector<std::uint32_t>{101});
}

TEST_F(ClocksOfVariants, lines_that_the_module_would_refuse)
{
	add("bpf_swift");
	struct Case {
		ClockLine line;
		std::uint32_t valid_ms;
		const char *field;
	};
	const std::uint64_t one = 1ULL << 32;

	for (const Case &c : {Case{{1ULL << 63, 0, one, 0}, 1, "nic_ns"}, Case{{0, now_ns + 1, one, 0}, 1, "host_ns"},
			      Case{{0, 0, one + one / 99, 0}, 1, "ratio_q32"}, Case{{0, 0, one, 1000001}, 1, "error_ns"},
			      Case{{0, 0, one, 0}, 0, "valid_ms"}, Case{{0, 0, one, 0}, 60001, "valid_ms"}}) {
		const auto fed = clocks_.set(2, c.line, c.valid_ms, now_ns);

		ASSERT_TRUE(fed.error) << c.field;
		EXPECT_TRUE(fed.variants.empty());
		EXPECT_NE(fed.error->text().find(c.field), std::string::npos) << fed.error->text();
		EXPECT_FALSE(fed.error->allowed.empty());
		EXPECT_TRUE(content("swift_clocks").empty());
	}
}

TEST_F(ClocksOfVariants, a_map_that_cannot_be_written_starves_no_other)
{
	add("bpf_swift");
	add("mine");
	add("third");
	host_.fail_at = 2;
	const auto fed = clocks_.set(2, good, 750, now_ns);

	EXPECT_EQ(fed.variants, (std::vector<std::string>{"bpf_swift", "third"}));
	ASSERT_TRUE(fed.error);
	EXPECT_NE(fed.error->text().find("injected"), std::string::npos);

	host_.fail_at = host_.operations + 2;
	const auto told = clocks_.set_napis(2, {101});

	EXPECT_FALSE(told);
	EXPECT_EQ(content("swift_clock_napis", "bpf_swift").size(), 1U);
	EXPECT_TRUE(content("swift_clock_napis", "mine").empty());
	EXPECT_EQ(content("swift_clock_napis", "third").size(), 1U);
}

TEST_F(ClocksOfVariants, dead_lines_make_room)
{
	add("bpf_swift"); // of two lines and three NAPIs
	set(2, {{101, 102}});
	set(3, {{103}});
	const auto refused = clocks_.set(4, good, 750, now_ns + 1000000);

	EXPECT_TRUE(refused.variants.empty());
	ASSERT_TRUE(refused.error);
	EXPECT_NE(refused.error->text().find("256 clocks are all that fit"), std::string::npos)
		<< refused.error->text();
	EXPECT_EQ(napis(), (std::vector<std::uint32_t>{101, 102, 103}));

	EXPECT_FALSE(clocks_.set(3, good, 750, now_ns + 500000000).error); // fed on; 2 is not
	EXPECT_EQ(clocks_.set(4, good, 750, now_ns + 800000000).variants.size(), 1U);
	const auto all = clocks_.all(now_ns + 800000000);

	ASSERT_EQ(all->clocks.size(), 2U);
	EXPECT_EQ(all->clocks[0].clock.ifindex, 3U);
	EXPECT_EQ(all->clocks[1].clock.ifindex, 4U);
	EXPECT_EQ(napis(), std::vector<std::uint32_t>{103});
}

TEST_F(ClocksOfVariants, a_variant_that_is_unloaded_while_it_is_looked_at)
{
	struct Vanishing : FakeBpfHost {
		std::string dir;

		Result<void> visit(const std::string &pin, const ShowEntry &show) const override
		{
			if (!dir.empty() && pin.starts_with(dir))
				return errno_error("cannot open " + pin, ENOENT);
			return FakeBpfHost::visit(pin, show);
		}
		bool exists(const std::string &path) const override { return path != dir && FakeBpfHost::exists(path); }
	} host;

	add("bpf_swift");
	add("mine");
	set(2);
	host.pinned = host_.pinned;
	host.dirs = host_.dirs;
	host.dir = "/sys/fs/bpf/tcp_swift/bpf_swift";
	const auto all = BpfClocks(host, netns).all(now_ns);

	ASSERT_TRUE(all) << all.error().text();
	EXPECT_EQ(all->variants, std::vector<std::string>{"mine"});
	EXPECT_EQ(all->clocks.size(), 1U);
}

// With the real kernel's maps, on a bpffs of its own.
TEST(RealBpfClocks, set_read_and_remove)
{
	const std::string dir = "/sys/fs/bpf/tcp_swift/clocks_test";
	std::optional<std::vector<BpfClock>> there, after;
	VariantsFed beside;
	std::vector<std::size_t> napis;
	std::string trouble = "no right to mount a bpffs";
	bool mounted = false;

	std::thread([&] {
		if (unshare(CLONE_NEWNS | CLONE_FS) != 0 ||
		    mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
		    mount("bpf", "/sys/fs/bpf", "bpf", 0, nullptr) != 0 ||
		    mkdir("/sys/fs/bpf/tcp_swift", 0700) != 0 || mkdir(dir.c_str(), 0700) != 0)
			return;
		mounted = true;
		const auto host = real_bpf_host();
		BpfClocks clocks(*host, netns);
		const BpfMap maps[] = {{"swift_clocks", 1, sizeof(bpf_swift_clock_key), sizeof(bpf_swift_clock),
					BPF_SWIFT_MAX_CLOCKS, false, false},
				       {"swift_clock_napis", 1, 4, sizeof(bpf_swift_clock_key), 3, false, false}};
		const auto take = [&](const Result<void> &ok) {
			trouble = ok ? "" : ok.error().text();
			return static_cast<bool>(ok);
		};

		for (const BpfMap &m : maps)
			if (!take(host->create_hash(m, dir + "/" + m.name)))
				return;
		for (const std::vector<std::uint32_t> &ids : {std::vector<std::uint32_t>{1, 2}, {2, 3}, {4, 5, 6, 7}}) {
			const auto fed = clocks.set(2, good, 750, now_ns);

			if (!take(fed.error ? *fed.error : Result<void>()) || !take(clocks.set_napis(2, ids)))
				return;
			napis.push_back(host->keys(dir + "/swift_clock_napis")->size());
		}
		if (auto all = clocks.all(now_ns))
			there = all->clocks;
		clocks.remove(2);
		if (auto all = clocks.all(now_ns))
			after = all->clocks;
		napis.push_back(host->keys(dir + "/swift_clock_napis")->size());
		// Of another version, and the first in order.
		const std::string old = "/sys/fs/bpf/tcp_swift/another";

		if (mkdir(old.c_str(), 0700) == 0 &&
		    take(host->create_hash({"swift_clocks", 1, sizeof(bpf_swift_clock_key), 8, 1, false, false},
					   old + "/swift_clocks")))
			beside = clocks.set(2, good, 750, now_ns);
	}).join();
	if (!mounted)
		GTEST_SKIP() << trouble;
	EXPECT_EQ(trouble, "");
	ASSERT_TRUE(there && after);
	ASSERT_EQ(there->size(), 1U);
	EXPECT_EQ(there->front().variant, "clocks_test");
	EXPECT_EQ(there->front().clock.line.nic_ns, good.nic_ns);
	EXPECT_EQ(there->front().clock.valid_ms, 750U);
	EXPECT_EQ(napis, (std::vector<std::size_t>{2, 2, 3, 0})); // no room for the fourth
	EXPECT_TRUE(after->empty());
	EXPECT_EQ(beside.variants, std::vector<std::string>{"clocks_test"});
	ASSERT_TRUE(beside.error);
	EXPECT_NE(beside.error->text().find("/another/swift_clocks: its values have another size: who loaded it is of "
					    "another version"),
		  std::string::npos)
		<< beside.error->text();
}

// On the real kernel, in a namespace of its own: with GRO a veth has NAPIs.
TEST(NapiIds, of_a_device)
{
	std::optional<std::vector<std::uint32_t>> without, with, anew;
	bool made = false;
	NapiIds napis;

	if (geteuid() != 0)
		GTEST_SKIP() << "needs root";
	std::thread([&] {
		if (unshare(CLONE_NEWNET) != 0 ||
		    std::system("{ ip link add nic0 type veth peer name nic1 && ip link set nic0 up && "
				"ip link set nic1 up; } 2>/dev/null") != 0)
			return;
		without = napis.of(if_nametoindex("nic0"));
		made = std::system("ethtool -K nic0 gro on >/dev/null 2>&1") == 0;
		with = napis.of(if_nametoindex("nic0"));
		made = made && std::system("ethtool -K nic0 gro off && ethtool -K nic0 gro on") == 0;
		anew = napis.of(if_nametoindex("nic0"));
	}).join();
	if (!made)
		GTEST_SKIP() << "cannot make a veth with NAPIs";
	if (!without)
		GTEST_SKIP() << "the kernel does not tell (before 6.8)";
	EXPECT_TRUE(without->empty());
	ASSERT_TRUE(with && anew);
	EXPECT_FALSE(with->empty());
	EXPECT_EQ(with->size(), anew->size());
	EXPECT_TRUE(napis.of(0x7fffffff).value_or(std::vector<std::uint32_t>()).empty()); // no such device
}
