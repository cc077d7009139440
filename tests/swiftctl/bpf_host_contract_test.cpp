// SPDX-License-Identifier: MIT
// What the kernel's pins and maps promise, held against the real thing (as root, in a mount namespace with a
// bpffs of its own) and the tests' made-up one: a fake that is kinder than what it stands for hides faults.
#include <gtest/gtest.h>

#include <linux/bpf.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <thread>

#include "bpf_host.h"
#include "fake_bpf_host.h"

using namespace swift;

namespace {

constexpr const char *dir = "/sys/fs/bpf/contract";
const std::string one = std::string(dir) + "/one";
const std::string two = std::string(dir) + "/two";
const std::string none = std::string(dir) + "/none";

// A mount namespace for this thread alone, in which bpffs is empty; errno if there can be none.
int enter_empty_bpffs()
{
	if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) < 0 ||
	    mount("bpf", "/sys/fs/bpf", "bpf", 0, "mode=0700") < 0)
		return errno;
	return 0;
}

class BpfHostContract : public testing::TestWithParam<const char *> {
protected:
	using Body = std::function<void(BpfHost &)>;

	// @body with a host on which nothing is pinned.
	static void on(const Body &body)
	{
		if (GetParam() == std::string_view("fake")) {
			swift_test::FakeBpfHost host;

			return body(host);
		}
		int code = 0;

		// What a thread mounts goes with it.
		std::thread([&] {
			code = enter_empty_bpffs();
			if (code == 0)
				body(*real_bpf_host());
		}).join();
		if (code != 0)
			GTEST_SKIP() << "needs root and a bpffs: " << std::strerror(code);
	}
	// The same, with a folder and a hash of two entries in it.
	static void on_hash(const Body &body)
	{
		on([&](BpfHost &host) {
			ASSERT_TRUE(host.make_dir(dir));
			const auto made = host.create_hash(hash(), one);

			ASSERT_TRUE(made) << made.error().text();
			body(host);
		});
	}
	static BpfMap hash()
	{
		BpfMap map;

		map.name = "contract";
		map.key_bytes = sizeof(std::uint32_t);
		map.value_bytes = sizeof(std::uint64_t);
		map.max_entries = 2;
		return map;
	}
	static BpfBytes key(std::uint32_t k) { return bpf_bytes(k); }
	static BpfBytes value(std::uint64_t v) { return bpf_bytes(v); }
};

} // namespace

TEST_P(BpfHostContract, folders_are_made_once_and_removed_when_they_are_empty)
{
	on([](BpfHost &host) {
		EXPECT_FALSE(host.exists(dir));
		EXPECT_EQ(*host.pins(dir), std::vector<std::string>());
		EXPECT_EQ(host.make_dir(std::string(dir) + "/below").error().code, ENOENT);
		ASSERT_TRUE(host.make_dir(dir));
		EXPECT_TRUE(host.make_dir(dir)) << "there already";
		EXPECT_TRUE(host.exists(dir));
		ASSERT_TRUE(host.make_dir(std::string(dir) + "/below"));
		EXPECT_EQ(*host.pins(dir), std::vector<std::string>{"below"});
		EXPECT_TRUE(host.remove_dir(dir)) << "with something in it: kept";
		EXPECT_TRUE(host.exists(dir));
		EXPECT_TRUE(host.remove_dir(std::string(dir) + "/below"));
		EXPECT_TRUE(host.remove_dir(dir));
		EXPECT_FALSE(host.exists(dir));
		EXPECT_TRUE(host.remove_dir(dir)) << "gone already";
	});
}

TEST_P(BpfHostContract, a_pin_is_where_it_was_put_and_nowhere_twice)
{
	on_hash([](BpfHost &host) {
		EXPECT_TRUE(host.exists(one));
		EXPECT_EQ(*host.pins(dir), std::vector<std::string>{"one"});
		EXPECT_EQ(host.create_hash(hash(), one).error().code, EEXIST);
		EXPECT_EQ(host.create_hash(hash(), "/sys/fs/bpf/nowhere/one").error().code, ENOENT);
		EXPECT_EQ(host.pin_again(none, two).error().code, ENOENT);
		ASSERT_TRUE(host.pin_again(one, two));
		EXPECT_EQ(host.pin_again(one, two).error().code, EEXIST);
		// The same map.
		ASSERT_TRUE(host.write(two, key(1), value(7)));
		EXPECT_EQ(**host.read(one, key(1)), value(7));
		EXPECT_TRUE(host.remove_pin(two));
		EXPECT_TRUE(host.remove_pin(two)) << "gone already";
		EXPECT_EQ(**host.read(one, key(1)), value(7));
	});
}

TEST_P(BpfHostContract, what_is_renamed_replaces_nothing_and_what_is_exchanged_is_there)
{
	on_hash([](BpfHost &host) {
		ASSERT_TRUE(host.create_hash(hash(), two));
		ASSERT_TRUE(host.write(one, key(1), value(1)));
		ASSERT_TRUE(host.write(two, key(1), value(2)));
		EXPECT_EQ(host.rename(none, std::string(dir) + "/three").error().code, ENOENT);
		EXPECT_EQ(host.rename(one, two).error().code, EEXIST);
		EXPECT_EQ(**host.read(two, key(1)), value(2));
		EXPECT_EQ(host.exchange(one, none).error().code, ENOENT);
		ASSERT_TRUE(host.exchange(one, two));
		EXPECT_EQ(**host.read(one, key(1)), value(2));
		EXPECT_EQ(**host.read(two, key(1)), value(1));
		ASSERT_TRUE(host.rename(dir, "/sys/fs/bpf/elsewhere"));
		EXPECT_FALSE(host.exists(one));
		EXPECT_EQ(**host.read("/sys/fs/bpf/elsewhere/one", key(1)), value(2));
	});
}

TEST_P(BpfHostContract, a_map_tells_what_it_is_and_what_is_in_it)
{
	on_hash([](BpfHost &host) {
		const auto map = host.map(one);

		ASSERT_TRUE(map) << map.error().text();
		EXPECT_EQ(map->name, "contract");
		EXPECT_EQ(map->type, BPF_MAP_TYPE_HASH);
		EXPECT_EQ(map->max_entries, 2U);
		EXPECT_TRUE(map->same_layout(*host.map(one)));
		EXPECT_FALSE(host.ops(one)) << "no struct_ops";
		EXPECT_EQ(*host.read(one, key(1)), std::nullopt);
		EXPECT_TRUE(host.keys(one)->empty());
		EXPECT_TRUE(host.erase(one, key(1))) << "there is none";
		ASSERT_TRUE(host.write(one, key(1), value(10)));
		ASSERT_TRUE(host.write(one, key(2), value(20)));
		ASSERT_TRUE(host.write(one, key(2), value(21)));
		EXPECT_EQ(host.write(one, key(3), value(30)).error().code, E2BIG);
		EXPECT_TRUE(host.write(one, key(1), value(11))) << "full, but it is there";
		auto keys = *host.keys(one);
		auto entries = *host.entries(one);

		std::sort(keys.begin(), keys.end());
		std::sort(entries.begin(), entries.end());
		EXPECT_EQ(keys, (std::vector<BpfBytes>{key(1), key(2)}));
		ASSERT_EQ(entries.size(), 2U);
		EXPECT_EQ(entries[0], std::pair(key(1), value(11)));
		EXPECT_EQ(entries[1], std::pair(key(2), value(21)));
		EXPECT_TRUE(host.erase(one, key(1)));
		EXPECT_EQ(*host.read(one, key(1)), std::nullopt);
		EXPECT_FALSE(host.write(one, key(1), bpf_bytes(std::uint32_t{1}))) << "a value of another size";
	});
}

TEST_P(BpfHostContract, what_is_not_there_is_an_error_that_says_so)
{
	on([](BpfHost &host) {
		EXPECT_EQ(host.map(none).error().code, ENOENT);
		EXPECT_EQ(host.keys(none).error().code, ENOENT);
		EXPECT_EQ(host.read(none, key(1)).error().code, ENOENT);
		EXPECT_EQ(host.entries(none).error().code, ENOENT);
		EXPECT_EQ(host.write(none, key(1), value(1)).error().code, ENOENT);
		EXPECT_EQ(host.erase(none, key(1)).error().code, ENOENT);
		EXPECT_EQ(host.ops(none).error().code, ENOENT);
		EXPECT_EQ(host.program(none).error().code, ENOENT);
		EXPECT_EQ(host.cgroup_of(none).error().code, ENOENT);
		EXPECT_EQ(host.replace_program(none, one).error().code, ENOENT);
		EXPECT_EQ(host.replace_ops(none, one).error().code, ENOENT);
		EXPECT_EQ(host.register_copy(none, one).error().code, ENOENT);
		EXPECT_EQ(host.attach_raw_tracepoint(none, "swift_sample", one).error().code, ENOENT);
		EXPECT_EQ(host.open("/nowhere/swift.bpf.o").error().code, ENOENT);
		EXPECT_EQ(host.open_built_in("nobody").error().code, ENOENT);
		host.detach(none); // nothing
	});
}

INSTANTIATE_TEST_SUITE_P(Hosts, BpfHostContract, testing::Values("real", "fake"),
			 [](const auto &of) { return std::string(of.param); });
