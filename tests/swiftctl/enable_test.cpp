// SPDX-License-Identifier: MIT
// enable and disable on a made-up host: everything comes back, whatever goes wrong.
#include <gtest/gtest.h>

#include "enable.h"
#include "fake_system.h"

using namespace swift;
using swift_test::FakeSystem;

namespace {

EnableOptions everything()
{
	EnableOptions o;

	o.ifaces = {"eth0", "eth1"};
	o.echo = true;
	o.set = {"base_target_ns=60000", "net.ipv4.tcp_swift.target_policy=static"};
	o.persist = true;
	return o;
}

std::string value(const FakeSystem &s, const std::string &path)
{
	const auto text = s.read_file(path);

	return text ? std::string(trim(*text)) : "(absent)";
}

bool any_note(const Outcome &o, const std::string &part)
{
	return std::any_of(o.notes.begin(), o.notes.end(), [&](const std::string &n) {
		return n.find(part) != std::string::npos;
	});
}

constexpr const char *boot_id_file = "/proc/sys/kernel/random/boot_id";
constexpr const char *cc_path = "/proc/sys/net/ipv4/tcp_congestion_control";
constexpr const char *echo_path = "/proc/sys/net/ipv4/tcp_swift/echo";

// One more network namespace, "blue", beside the initial one.
constexpr const char *blue = "4711";

std::set<std::string> all_live()
{
	return {this_netns(), blue};
}

Place initial_place(std::optional<std::set<std::string>> live = all_live())
{
	return {.live = [live] { return live; }};
}

Place blue_place(std::optional<std::set<std::string>> live = all_live())
{
	return {.cookie = blue, .name = "blue", .live = [live] { return live; }};
}

EnableOptions for_blue()
{
	EnableOptions o;

	o.netns = "blue";
	o.ifaces = {"eth0"};
	o.echo = true;
	return o;
}

void enable_blue(FakeSystem &s)
{
	s.enter(blue);
	const Outcome o = enable(s, for_blue(), blue_place());

	EXPECT_FALSE(o.error) << o.error->text();
	s.enter("");
}

// The one file that an older version had, of whichever namespace came first.
void make_old(FakeSystem &s)
{
	s.files[StateFile::path] = s.files.extract(StateFile::path_of(blue)).mapped();
}

} // namespace

TEST(enable, changes_what_it_says)
{
	FakeSystem s;
	const Outcome o = enable(s, everything());

	ASSERT_FALSE(o.error) << o.error->text();
	EXPECT_TRUE(s.loaded());
	EXPECT_EQ(value(s, cc_path), "swift");
	EXPECT_EQ(value(s, "/proc/sys/net/ipv4/tcp_allowed_congestion_control"), "cubic reno swift");
	EXPECT_EQ(value(s, "/proc/sys/net/core/default_qdisc"), "fq");
	EXPECT_EQ(value(s, "/proc/sys/net/ipv4/tcp_swift/base_target_ns"), "60000");
	EXPECT_EQ(value(s, "/proc/sys/net/ipv4/tcp_swift/target_policy"), "static");
	EXPECT_EQ(value(s, "/proc/sys/net/ipv4/tcp_swift/echo"), "1");
	EXPECT_EQ(s.devs["eth0"].kind, "fq");
	EXPECT_EQ(s.devs["eth1"].kind, "fq");
	EXPECT_EQ(value(s, "/etc/modules-load.d/tcp_swift.conf"), "tcp_swift");
	EXPECT_NE(value(s, "/etc/sysctl.d/90-tcp_swift.conf")
			  .find("net.ipv4.tcp_congestion_control = swift"),
		  std::string::npos);
	EXPECT_TRUE(s.exists(StateFile::path));
}

// Each change is in the state file before it happens.
TEST(enable, remembers_before_it_changes)
{
	FakeSystem s;

	ASSERT_FALSE(enable(s, everything()).error);
	bool saved = false;

	for (const std::string &line : s.log) {
		if (line == std::string("replace ") + StateFile::path) {
			saved = true;
		} else {
			EXPECT_TRUE(saved) << line;
			saved = false;
		}
	}
}

TEST(disable, restores_exactly)
{
	FakeSystem s;
	const auto before = s.world();

	ASSERT_FALSE(enable(s, everything()).error);
	const Outcome o = disable(s, s, {});

	ASSERT_FALSE(o.error) << o.error->text();
	EXPECT_TRUE(o.notes.empty());
	EXPECT_EQ(s.world(), before);
}

TEST(disable, a_second_time_has_nothing_to_do)
{
	FakeSystem s;

	ASSERT_FALSE(enable(s, everything()).error);
	ASSERT_FALSE(disable(s, s, {}).error);
	const Outcome o = disable(s, s, {});

	EXPECT_FALSE(o.error);
	EXPECT_TRUE(any_note(o, "nothing to undo"));
}

TEST(enable, twice_keeps_the_first_originals)
{
	FakeSystem s;
	const auto before = s.world();
	EnableOptions again = everything();

	ASSERT_FALSE(enable(s, everything()).error);
	again.set = {"base_target_ns=70000"};
	ASSERT_FALSE(enable(s, again).error);
	EXPECT_EQ(value(s, "/proc/sys/net/ipv4/tcp_swift/base_target_ns"), "70000");
	ASSERT_FALSE(disable(s, s, {}).error);
	EXPECT_EQ(s.world(), before);
}

TEST(enable, a_module_that_was_loaded_stays_loaded)
{
	FakeSystem s;

	s.load();
	const auto before = s.world();

	ASSERT_FALSE(enable(s, everything()).error);
	ASSERT_FALSE(disable(s, s, {}).error);
	EXPECT_EQ(s.world(), before);
	EXPECT_TRUE(s.loaded());
}

TEST(enable, a_fault_at_any_step_puts_everything_back)
{
	FakeSystem counting;

	ASSERT_FALSE(enable(counting, everything()).error);
	ASSERT_GT(counting.operations, 15);
	for (int n = 1; n <= counting.operations; n++) {
		FakeSystem s;
		const auto before = s.world();

		s.fail_at = n;
		const Outcome o = enable(s, everything());

		ASSERT_TRUE(o.error) << n;
		EXPECT_TRUE(o.rolled_back) << n;
		EXPECT_EQ(s.world(), before) << n;
	}
}

// A fault in a second enable goes back to the first one, not to the beginning.
TEST(enable, a_fault_in_the_second_keeps_the_first)
{
	EnableOptions again = everything();

	again.set = {"base_target_ns=70000", "ai_milli=500"};
	for (int n = 1; n < 40; n++) {
		FakeSystem s;
		const auto before = s.world();

		ASSERT_FALSE(enable(s, everything()).error);
		const auto first = s.world();

		s.operations = 0;
		s.fail_at = n;
		if (!enable(s, again).error)
			break;
		EXPECT_EQ(s.world(), first) << n;
		s.fail_at = 0;
		ASSERT_FALSE(disable(s, s, {}).error);
		EXPECT_EQ(s.world(), before) << n;
	}
}

TEST(disable, mends_what_a_power_cut_left_at_any_step)
{
	FakeSystem counting;

	ASSERT_FALSE(enable(counting, everything()).error);
	for (int n = 1; n <= counting.operations; n++) {
		FakeSystem s;
		const auto before = s.world();

		s.fail_at = n;
		s.dead_after = true;
		ASSERT_TRUE(enable(s, everything()).error) << n;
		s.fail_at = 0;
		const Outcome o = disable(s, s, {});

		EXPECT_FALSE(o.error) << n;
		EXPECT_EQ(s.world(), before) << n;
	}
}

TEST(disable, a_fault_at_any_step_is_finished_by_the_next)
{
	for (int n = 1; n < 80; n++) {
		FakeSystem s;
		const auto before = s.world();

		ASSERT_FALSE(enable(s, everything()).error);
		s.operations = 0;
		s.fail_at = n;
		const Outcome first = disable(s, s, {});

		if (s.operations < n)
			break; // no n-th step any more
		s.fail_at = 0;
		if (first.error) {
			ASSERT_FALSE(disable(s, s, {}).error) << n;
		}
		EXPECT_EQ(s.world(), before) << n;
	}
}

TEST(disable, after_a_reboot_undoes_what_persisted)
{
	FakeSystem s;
	const auto before = s.world();

	ASSERT_FALSE(enable(s, everything()).error);
	s.files[boot_id_file] = "another\n";
	ASSERT_FALSE(disable(s, s, {}).error);
	s.files.erase(boot_id_file);
	EXPECT_EQ(s.world(), before);
}

// The kernel's own fq then, which has no handle, and cannot be deleted.
TEST(disable, after_a_reboot_has_the_qdisc_that_was_before)
{
	FakeSystem s;
	const auto before = s.world();

	ASSERT_FALSE(enable(s, everything()).error);
	s.files[boot_id_file] = "another\n";
	s.devs["eth0"] = {false, "fq", false, "{}"};
	s.devs["eth1"] = {true, "fq", false, "{}"};
	const Outcome o = disable(s, s, {});

	ASSERT_FALSE(o.error) << o.error->text();
	EXPECT_EQ(s.devs["eth0"].kind, before.second.at("eth0").kind);
	EXPECT_EQ(s.devs["eth1"].kind, before.second.at("eth1").kind);
	EXPECT_TRUE(o.notes.empty()) << o.notes.front();
}

// Tunables bind each other: what was set last goes first.
TEST(disable, puts_back_in_reverse)
{
	FakeSystem s;
	EnableOptions o;

	o.set = {"fs_max_cwnd_milli=10000000", "fs_min_cwnd_milli=1000000"};
	ASSERT_FALSE(enable(s, o).error);
	const Outcome undone = disable(s, s, {});
	std::vector<std::string> order;

	ASSERT_FALSE(undone.error);
	for (const Event &e : undone.events)
		if (e.item.key.find("fs_m") != std::string::npos)
			order.push_back(e.item.key.substr(e.item.key.rfind('.') + 1));
	EXPECT_EQ(order, (std::vector<std::string>{"fs_min_cwnd_milli", "fs_max_cwnd_milli"}));
}

// What it remembers could not be written: no reason to leave the qdisc.
TEST(disable, of_a_full_disk_puts_all_back)
{
	struct Full : FakeSystem {
		bool full = false;

		Result<void> replace_file(const std::string &path, const std::string &content, unsigned mode) override
		{
			return full && path.starts_with("/var/lib") ? errno_error("cannot write " + path, ENOSPC) :
								      FakeSystem::replace_file(path, content, mode);
		}
	} s;
	const auto before = s.world();

	ASSERT_FALSE(enable(s, everything()).error);
	s.full = true;
	const Outcome undone = disable(s, s, {});

	EXPECT_EQ(s.world().second, before.second);
	EXPECT_EQ(value(s, "/proc/sys/net/core/default_qdisc"), "pfifo_fast");
	EXPECT_FALSE(s.exists(StateFile::path));
	EXPECT_FALSE(undone.error) << "all of it is back, and nothing remembered: " << undone.error->text();
}

// Each is in its range, and the kernel says no more than EINVAL.
TEST(enable, values_that_contradict_each_other_say_what_is_allowed)
{
	struct Refusing : FakeSystem {
		Result<void> write_file(const std::string &path, const std::string &content) override
		{
			return path.ends_with("_milli") ? errno_error("cannot write", EINVAL) :
							  FakeSystem::write_file(path, content);
		}
	};
	for (const auto &[set, says] :
	     {std::pair("fs_min_cwnd_milli=200000", "fs_min_cwnd_milli: '200000' (allowed: at most half of fs_max_cwnd_milli)"),
	      std::pair("fs_max_cwnd_milli=2", "fs_max_cwnd_milli: '2' (allowed: at least twice fs_min_cwnd_milli)"),
	      std::pair("ai_milli=2", "ai_milli to '2': cannot write: Invalid argument")}) {
		Refusing s;
		EnableOptions o;

		o.set = {set};
		const Outcome out = enable(s, o);

		ASSERT_TRUE(out.error) << set;
		EXPECT_EQ(out.error->text(), std::string("cannot set net.ipv4.tcp_swift.") + says);
		EXPECT_TRUE(out.rolled_back) << set;
	}
}

TEST(enable, of_a_disk_that_cannot_be_written_says_that_all_is_as_before)
{
	struct ReadOnly : FakeSystem {
		Result<void> replace_file(const std::string &path, const std::string &, unsigned) override
		{
			return errno_error("cannot write " + path, EROFS);
		}
	} s;
	const auto before = s.world();

	s.load();
	const Outcome o = enable(s, everything());

	ASSERT_TRUE(o.error);
	EXPECT_TRUE(o.rolled_back);
	EXPECT_EQ(s.devs, before.second);
}

TEST(enable, what_persists_is_what_is_set_by_any_run)
{
	constexpr const char *file = "/etc/sysctl.d/90-tcp_swift.conf";
	FakeSystem s;
	EnableOptions second;

	ASSERT_FALSE(enable(s, everything()).error);
	second.set = {"dscp=26"};
	second.qdisc = "keep";
	second.no_default = true;
	second.persist = true;
	ASSERT_FALSE(enable(s, second).error);
	const std::string text = s.files[file];

	for (const char *line : {"tcp_swift.echo = 1\n", "tcp_swift.base_target_ns = 60000\n", "tcp_swift.dscp = 26\n",
				 "default_qdisc = fq\n", "tcp_congestion_control = swift\n"})
		EXPECT_NE(text.find(line), std::string::npos) << line << text;
	// Not what somebody else has set since.
	s.files[echo_path] = "0\n";
	second.set = {"dscp=10"};
	ASSERT_FALSE(enable(s, second).error);
	EXPECT_EQ(s.files[file].find("echo"), std::string::npos) << s.files[file];
	EXPECT_NE(s.files[file].find("tcp_swift.dscp = 10\n"), std::string::npos);
	EXPECT_EQ(s.files[file].find("dscp = 26"), std::string::npos);

	// Nor in the place of what could not be put back.
	FakeSystem other;

	other.files[file] = "# f\374r uns\n";
	const Outcome o = enable(other, everything());
	ASSERT_TRUE(o.error);
	EXPECT_NE(o.error->text().find("is not UTF-8"), std::string::npos) << o.error->text();
	EXPECT_EQ(other.files[file], "# f\374r uns\n");
}

TEST(disable, after_a_reboot_there_is_nothing_to_undo_of_what_did_not_persist)
{
	FakeSystem s;

	ASSERT_FALSE(enable(s, {}).error);
	s.files[boot_id_file] = "another\n";
	s.files[cc_path] = "bbr\n";
	ASSERT_FALSE(disable(s, s, {}).error);
	EXPECT_EQ(value(s, cc_path), "bbr");
}

// --- Network namespaces

TEST(enable, of_a_network_namespace_changes_what_is_its_own)
{
	FakeSystem s;

	s.load();
	const auto initial = s.world();

	s.enter(blue);
	const Outcome o = enable(s, for_blue(), blue_place());

	ASSERT_FALSE(o.error) << o.error->text();
	EXPECT_EQ(o.netns, "blue");
	EXPECT_EQ(value(s, cc_path), "swift");
	EXPECT_EQ(value(s, echo_path), "1");
	EXPECT_EQ(s.devs["eth0"].kind, "fq");
	EXPECT_EQ(value(s, "/proc/sys/net/core/default_qdisc"), "(absent)");
	EXPECT_TRUE(s.exists(StateFile::path_of(blue)));
	EXPECT_FALSE(s.exists(StateFile::path));
	s.enter("");
	s.files.erase(StateFile::path_of(blue));
	EXPECT_EQ(s.world(), initial);
}

TEST(disable, puts_back_each_network_namespace_by_itself)
{
	for (const bool initial_first : {false, true}) {
		FakeSystem s;
		const auto initial = s.world();

		s.enter(blue);
		const auto before = s.devs;

		s.enter("");
		ASSERT_FALSE(enable(s, everything(), initial_place()).error);
		enable_blue(s);
		for (const bool of_initial : {initial_first, !initial_first}) {
			if (of_initial) {
				const Outcome o = disable(s, s, {}, initial_place());

				ASSERT_FALSE(o.error) << o.error->text();
				EXPECT_EQ(any_note(o, "other network namespaces as well: blue"), initial_first);
				EXPECT_EQ(value(s, cc_path), "cubic");
				EXPECT_EQ(s.loaded(), initial_first);
				EXPECT_EQ(s.devs["eth0"].kind, "pfifo_fast");
			} else {
				s.enter(blue);
				EXPECT_EQ(value(s, cc_path), "swift");
				EXPECT_EQ(value(s, echo_path), "1");
				const Outcome o = disable(s, s, {}, blue_place());

				ASSERT_FALSE(o.error) << o.error->text();
				EXPECT_EQ(o.netns, "blue");
				EXPECT_EQ(value(s, cc_path), "cubic");
				EXPECT_EQ(value(s, echo_path), "0");
				EXPECT_EQ(s.devs, before);
				EXPECT_TRUE(s.loaded());
				EXPECT_FALSE(s.exists(StateFile::path_of(blue)));
				s.enter("");
				EXPECT_EQ(value(s, cc_path), initial_first ? "cubic" : "swift");
			}
		}
		if (initial_first) {
			ASSERT_TRUE(s.run({"rmmod", "tcp_swift"}));
		}
		EXPECT_EQ(s.world(), initial);
	}
}

TEST(enable, a_fault_in_a_network_namespace_puts_everything_back)
{
	for (int n = 1; n < 30; n++) {
		FakeSystem s;

		s.enter(blue);
		const auto before = s.world();

		s.fail_at = n;
		const Outcome o = enable(s, for_blue(), blue_place());

		if (!o.error)
			break;
		EXPECT_TRUE(o.rolled_back) << n;
		EXPECT_EQ(s.world(), before) << n;
		ASSERT_LT(n, 29);
	}
}

TEST(enable, forgets_a_network_namespace_that_is_gone)
{
	for (const bool by_enable : {true, false}) {
		FakeSystem s;

		s.load();
		enable_blue(s);
		const Place gone = initial_place(std::set{this_netns()});
		const Outcome o = by_enable ? enable(s, everything(), gone) : disable(s, s, {}, gone);

		EXPECT_FALSE(o.error);
		EXPECT_TRUE(any_note(o, "network namespace blue is gone: what swiftctl enable had changed there is forgotten"));
		EXPECT_FALSE(s.exists(StateFile::path_of(blue)));
		EXPECT_EQ(value(s, cc_path), by_enable ? "swift" : "cubic");
	}
}

// A number means another namespace after each boot.
// Each looks through all namespaces of the host: who changes two hundred says which it has just seen.
TEST(enable, namespaces_that_were_alive_a_moment_ago_are_not_looked_for)
{
	FakeSystem s;
	int looks = 0;
	Place here = initial_place();

	s.load();
	enable_blue(s);
	here.live = [&looks] {
		looks++;
		return std::optional(std::set<std::string>{this_netns()});
	};
	here.known_live = all_live();
	EXPECT_FALSE(any_note(enable(s, everything(), here), "is gone"));
	EXPECT_EQ(looks, 0);
	here.known_live.clear();
	EXPECT_TRUE(any_note(enable(s, everything(), here), "network namespace blue is gone"));
	EXPECT_EQ(looks, 1);
}

TEST(enable, forgets_network_namespaces_of_an_earlier_boot)
{
	for (const auto &live : {std::optional(all_live()), std::optional<std::set<std::string>>()}) {
		FakeSystem s;

		s.load();
		enable_blue(s);
		s.files[boot_id_file] = "another\n";
		s.enter(blue);
		s.files[cc_path] = "bbr\n";
		const Outcome own = disable(s, s, {}, blue_place(live));

		EXPECT_FALSE(own.error);
		EXPECT_EQ(value(s, cc_path), "bbr");
		s.enter("");
		const Outcome o = enable(s, {}, initial_place(live));

		EXPECT_FALSE(o.error);
		EXPECT_TRUE(any_note(o, "network namespace blue is gone with an earlier boot"));
		EXPECT_FALSE(s.exists(StateFile::path_of(blue)));
	}
}

TEST(enable, keeps_what_it_cannot_tell_to_be_gone)
{
	FakeSystem s;

	enable_blue(s);
	ASSERT_FALSE(enable(s, {}, initial_place(std::nullopt)).error);
	EXPECT_TRUE(s.exists(StateFile::path_of(blue)));
}

TEST(disable, of_a_network_namespace_that_an_older_version_enabled)
{
	FakeSystem s;

	s.load();
	enable_blue(s);
	make_old(s);
	s.enter(blue);
	DisableOptions dry;

	dry.dry_run = true;
	const auto before = s.world();

	EXPECT_EQ(disable(s, s, dry, blue_place()).dry_lines.size(), 3U);
	EXPECT_EQ(s.world(), before);
	ASSERT_FALSE(disable(s, s, {}, blue_place()).error);
	EXPECT_EQ(value(s, cc_path), "cubic");
	EXPECT_EQ(value(s, echo_path), "0");
	EXPECT_FALSE(s.exists(StateFile::path));
	EXPECT_FALSE(s.exists(StateFile::path_of(blue)));
}

// And at whatever step the power goes.
TEST(enable, beside_a_network_namespace_that_an_older_version_enabled)
{
	for (int n = 0; n < 60; n++) {
		FakeSystem s;

		s.load();
		const auto initial = s.world();

		enable_blue(s);
		make_old(s);
		s.operations = 0;
		s.fail_at = n;
		s.dead_after = true;
		const bool failed = bool(enable(s, everything(), initial_place()).error);

		s.fail_at = 0;
		EXPECT_TRUE(s.exists(StateFile::path_of(blue)) || n == 1) << n;
		ASSERT_FALSE(disable(s, s, {}, initial_place()).error) << n;
		s.enter(blue);
		EXPECT_EQ(value(s, cc_path), "swift") << n;
		ASSERT_FALSE(disable(s, s, {}, blue_place()).error) << n;
		EXPECT_EQ(value(s, cc_path), "cubic") << n;
		s.enter("");
		EXPECT_EQ(s.world(), initial) << n;
		if (n > 0 && !failed)
			return;
	}
	ADD_FAILURE() << "always failed";
}

TEST(enable, a_gone_network_namespace_of_an_older_version_is_no_obstacle)
{
	FakeSystem s;

	s.load();
	enable_blue(s);
	make_old(s);
	const Place gone = initial_place(std::set{this_netns()});
	const Outcome o = enable(s, everything(), gone);

	ASSERT_FALSE(o.error) << o.error->text();
	EXPECT_TRUE(any_note(o, "network namespace blue is gone"));
	EXPECT_FALSE(s.exists(StateFile::path_of(blue)));
	ASSERT_FALSE(disable(s, s, {}, gone).error);
	EXPECT_EQ(value(s, cc_path), "cubic");
}

// It wrote the host's files from any namespace.
TEST(disable, of_the_host_has_what_an_older_version_persisted_in_a_namespace_that_is_gone)
{
	FakeSystem s;
	const auto initial = s.world();

	ASSERT_FALSE(enable(s, everything(), initial_place()).error);
	std::string &text = s.files[StateFile::path];
	const std::string own = "\"netns\": \"" + this_netns();

	ASSERT_NE(text.find(own), std::string::npos);
	text.replace(text.find(own), own.size(), std::string("\"netns\": \"") + blue);
	const Outcome o = disable(s, s, {}, initial_place(std::set{this_netns()}));

	ASSERT_FALSE(o.error) << o.error->text();
	EXPECT_FALSE(s.exists(modules_file));
	EXPECT_FALSE(s.exists(sysctl_file));
	EXPECT_FALSE(s.loaded());
	EXPECT_FALSE(s.exists(StateFile::path));
	EXPECT_FALSE(s.exists(StateFile::path_of(blue)));
}

// What is remembered of one does not stop another.
TEST(disable, is_not_stopped_by_what_another_namespaces_file_says)
{
	FakeSystem s;

	s.load();
	enable_blue(s);
	s.files[StateFile::path] = "{broken";
	s.enter(blue);
	EXPECT_FALSE(disable(s, s, {}, blue_place()).error);
	s.enter("");
	s.files[StateFile::path_of(blue)] = "{broken";
	EXPECT_TRUE(disable(s, s, {}, initial_place()).error);
	s.files.erase(StateFile::path);
	EXPECT_FALSE(disable(s, s, {}, initial_place()).error);
}

TEST(enable, dry_run_in_a_network_namespace_says_how_to_get_there)
{
	for (const auto &[netns, there] : {std::pair("blue", "ip netns exec blue "),
					   std::pair("/proc/7/ns/net", "nsenter --net=/proc/7/ns/net ")}) {
		FakeSystem s;
		EnableOptions o = for_blue();

		o.dry_run = true;
		o.netns = netns;
		s.load();
		s.enter(blue);
		const auto before = s.world();
		const Outcome out = enable(s, o, blue_place());
		const std::string begin = there;

		EXPECT_FALSE(out.error);
		EXPECT_EQ(s.world(), before);
		EXPECT_EQ(out.dry_lines,
			  (std::vector<std::string>{begin + "sysctl -w net.ipv4.tcp_swift.echo=1",
						    begin + "tc qdisc replace dev eth0 root fq",
						    begin + "sysctl -w net.ipv4.tcp_congestion_control=swift"}));
		EXPECT_TRUE(any_note(out, "the module tcp_swift is the host's"));
	}
}

TEST(enable, nothing_of_a_network_namespace_outlasts_a_boot)
{
	FakeSystem s;
	EnableOptions o;

	o.persist = true;
	s.enter(blue);
	const auto before = s.world();
	const Outcome out = enable(s, o, blue_place());

	ASSERT_TRUE(out.error);
	EXPECT_TRUE(out.usage);
	EXPECT_NE(out.error->text().find("--persist: not in a network namespace"), std::string::npos);
	EXPECT_EQ(s.world(), before);
}

TEST(enable, says_what_a_boot_sets_after_it)
{
	FakeSystem s;
	EnableOptions o;

	o.persist = true;
	s.files["/etc/sysctl.d/10-early.conf"] = "net.ipv4.tcp_congestion_control=bbr\n";
	s.files["/etc/sysctl.d/99-masked.conf"] = "";
	s.files["/usr/lib/sysctl.d/99-masked.conf"] = "net.ipv4.tcp_congestion_control=bbr\n";
	s.files["/usr/lib/sysctl.d/95-same.conf"] = "net.core.default_qdisc = fq\nnet.ipv4.ip_forward=1\n#net.ipv4.tcp_congestion_control=x\n";
	EXPECT_TRUE(enable(s, o).notes.empty());
	s.files["/etc/sysctl.d/99-sysctl.conf"] = "# mine\n-net/ipv4/tcp_congestion_control = bbr\n";
	for (const bool dry_run : {true, false}) {
		o.dry_run = dry_run;
		EXPECT_EQ(enable(s, o).notes,
			  std::vector<std::string>{"/etc/sysctl.d/99-sysctl.conf sets net.ipv4.tcp_congestion_control = bbr, and a boot reads it "
						   "after /etc/sysctl.d/90-tcp_swift.conf: take it out there, or it will not be swift"});
	}
	o.persist = false;
	EXPECT_TRUE(enable(s, o).notes.empty());
}

// A boot refuses a list as a whole of which one name is not there yet: none is written that is not needed.
TEST(enable, persists_who_is_allowed_only_where_a_boot_sets_it)
{
	FakeSystem s;
	EnableOptions o;
	const auto persisted = [&] {
		EXPECT_FALSE(enable(s, o).error);
		for (const std::string &line : split(s.files[sysctl_file], '\n'))
			if (line.starts_with(allowed_cc_sysctl))
				return line;
		return std::string();
	};

	s.files["/proc/sys/net/ipv4/tcp_allowed_congestion_control"] = "bbr cubic reno\n";
	o.persist = true;
	o.no_default = true;
	EXPECT_EQ(persisted(), "");
	s.files["/etc/sysctl.d/50-cc.conf"] = "net.ipv4.tcp_allowed_congestion_control = reno  dctcp\n";
	EXPECT_EQ(persisted(), "net.ipv4.tcp_allowed_congestion_control = reno dctcp swift");
	EXPECT_EQ(persisted(), "net.ipv4.tcp_allowed_congestion_control = reno dctcp swift");
	o.no_default = false; // what is the default is allowed
	EXPECT_EQ(persisted(), "");
}

TEST(disable, leaves_alone_what_somebody_else_changed)
{
	FakeSystem s;

	ASSERT_FALSE(enable(s, everything()).error);
	s.files[cc_path] = "bbr\n";
	s.devs["eth0"].kind = "cake";
	const Outcome o = disable(s, s, {});

	EXPECT_FALSE(o.error);
	EXPECT_TRUE(any_note(o, "net.ipv4.tcp_congestion_control is now 'bbr'"));
	EXPECT_TRUE(any_note(o, "qdisc of eth0 is now 'cake'"));
	EXPECT_TRUE(any_note(o, "sysctl -w net.ipv4.tcp_congestion_control=cubic"));
	EXPECT_EQ(value(s, cc_path), "bbr");
	EXPECT_EQ(s.devs["eth0"].kind, "cake");
	EXPECT_EQ(s.devs["eth1"].kind, "pfifo_fast");
	EXPECT_FALSE(s.exists(StateFile::path));
	// Which it says: there is no second chance.
	DisableOptions force;

	force.force = true;
	EXPECT_TRUE(any_note(o, "left alone, and forgotten"));
	EXPECT_TRUE(any_note(disable(s, s, force), "nothing to undo"));
	EXPECT_EQ(value(s, cc_path), "bbr");
}

// It has the same name, and is somebody else's all the same.
TEST(disable, leaves_alone_an_fq_of_somebody_else)
{
	for (const char *dev : {"eth0", "eth1"}) {
		FakeSystem s;

		ASSERT_FALSE(enable(s, everything()).error);
		s.devs[dev].options = R"({"limit":20000})";
		ASSERT_FALSE(enable(s, everything()).error) << "nor does enabling once more make it ours";
		const Outcome o = disable(s, s, {});

		EXPECT_FALSE(o.error);
		EXPECT_TRUE(any_note(o, "with other options: left alone")) << dev;
		EXPECT_EQ(s.devs[dev].kind, "fq");
		EXPECT_EQ(s.devs[dev].options, R"({"limit":20000})");
		EXPECT_EQ(s.devs[dev == std::string("eth0") ? "eth1" : "eth0"].kind, "pfifo_fast");
		EXPECT_FALSE(s.exists(StateFile::path));
	}
}

TEST(disable, force_puts_back_that_too)
{
	FakeSystem s;
	const auto before = s.world();
	DisableOptions force;

	ASSERT_FALSE(enable(s, everything()).error);
	s.files[cc_path] = "bbr\n";
	s.devs["eth0"].options = R"({"limit":20000})";
	force.force = true;
	ASSERT_FALSE(disable(s, s, force).error);
	EXPECT_EQ(s.world(), before);
}

TEST(enable, somebody_elses_value_becomes_the_one_to_go_back_to)
{
	FakeSystem s;

	ASSERT_FALSE(enable(s, {}).error);
	s.files[cc_path] = "bbr\n";
	ASSERT_FALSE(enable(s, {}).error);
	ASSERT_FALSE(disable(s, s, {}).error);
	EXPECT_EQ(value(s, cc_path), "bbr");
}

TEST(disable, a_module_in_use_stays_and_says_by_whom)
{
	FakeSystem s;
	Flow flow;
	Flow listener;

	ASSERT_FALSE(enable(s, everything()).error);
	flow.cc = "swift";
	flow.state = 1;
	listener.cc = "swift";
	listener.state = 10;
	s.sockets = {flow, flow, listener};
	s.files["/sys/module/tcp_swift/refcnt"] = "3\n";
	const Outcome o = disable(s, s, {});

	EXPECT_FALSE(o.error);
	EXPECT_TRUE(any_note(o, "stays loaded: 2 flows and 1 listening socket still use it"));
	EXPECT_TRUE(s.loaded());
	EXPECT_EQ(value(s, cc_path), "cubic");
	EXPECT_FALSE(s.exists(StateFile::path));
}

TEST(disable, an_interface_that_is_gone_is_no_error)
{
	FakeSystem s;

	ASSERT_FALSE(enable(s, everything()).error);
	s.files.erase("/sys/class/net/eth0");
	EXPECT_FALSE(disable(s, s, {}).error);
}

TEST(enable, no_default_only_allows)
{
	FakeSystem s;
	EnableOptions o;

	o.no_default = true;
	o.qdisc = "keep";
	ASSERT_FALSE(enable(s, o).error);
	EXPECT_EQ(value(s, cc_path), "cubic");
	EXPECT_EQ(value(s, "/proc/sys/net/ipv4/tcp_allowed_congestion_control"), "cubic reno swift");
	EXPECT_EQ(value(s, "/proc/sys/net/core/default_qdisc"), "pfifo_fast");
}

TEST(enable, leaves_a_qdisc_that_somebody_configured)
{
	FakeSystem s;
	EnableOptions o;

	s.devs["eth0"] = {false, "htb", true};
	o.ifaces = {"eth0"};
	const Outcome out = enable(s, o);

	EXPECT_FALSE(out.error);
	EXPECT_TRUE(any_note(out, "htb was set by hand"));
	EXPECT_EQ(s.devs["eth0"].kind, "htb");
}

// Before default_qdisc was fq, so that deleting the root qdisc alone would give fq again.
TEST(disable, restores_a_qdisc_that_is_not_the_default_kind)
{
	FakeSystem s;
	EnableOptions o;

	s.files["/proc/sys/net/core/default_qdisc"] = "fq\n";
	o.ifaces = {"eth0"};
	ASSERT_FALSE(enable(s, o).error);
	ASSERT_FALSE(disable(s, s, {}).error);
	EXPECT_EQ(s.devs["eth0"].kind, "pfifo_fast");
}

TEST(enable, dry_run_changes_nothing_and_needs_no_root)
{
	FakeSystem s;
	EnableOptions o = everything();
	const auto before = s.world();

	o.dry_run = true;
	s.root = false;
	const Outcome out = enable(s, o);

	EXPECT_FALSE(out.error);
	EXPECT_EQ(s.operations, 0);
	EXPECT_EQ(s.world(), before);

	const std::vector<std::string> head(out.dry_lines.begin(), out.dry_lines.begin() + 9);

	EXPECT_EQ(head, (std::vector<std::string>{
				"modprobe tcp_swift", "sysctl -w net.ipv4.tcp_swift.base_target_ns=60000",
				"sysctl -w net.ipv4.tcp_swift.target_policy=static",
				"sysctl -w net.ipv4.tcp_swift.echo=1",
				"sysctl -w net.core.default_qdisc=fq",
				"tc qdisc replace dev eth0 root fq", "tc qdisc replace dev eth1 root mq",
				"sysctl -w net.ipv4.tcp_allowed_congestion_control='cubic reno swift'",
				"sysctl -w net.ipv4.tcp_congestion_control=swift"}));
}

TEST(enable, dry_run_tells_of_a_module_that_is_not_there)
{
	FakeSystem s;
	EnableOptions o;

	o.dry_run = true;
	EXPECT_EQ(enable(s, o).notes, std::vector<std::string>{});
	o.module_file = "/x.ko";
	const Outcome no_file = enable(s, o);

	EXPECT_FALSE(no_file.error);
	EXPECT_EQ(no_file.dry_lines.front(), "insmod /x.ko");
	EXPECT_TRUE(any_note(no_file, "it would fail here: --module: no such file: '/x.ko'"));
	s.files["/x.ko"] = "";
	EXPECT_EQ(enable(s, o).notes, std::vector<std::string>{});
	s.installed = false;
	o.module_file.clear();
	EXPECT_TRUE(any_note(enable(s, o), "it would fail here: the module tcp_swift is not loaded; it is not"));
	s.files["/sys/module/tcp_swift/refcnt"] = "0\n";
	EXPECT_EQ(enable(s, o).notes, std::vector<std::string>{}) << "it is loaded";
}

TEST(disable, dry_run_changes_nothing)
{
	FakeSystem s;
	DisableOptions o;

	ASSERT_FALSE(enable(s, everything()).error);
	const auto before = s.world();

	o.dry_run = true;
	const Outcome out = disable(s, s, o);

	EXPECT_EQ(s.world(), before);
	ASSERT_FALSE(out.dry_lines.empty());
	EXPECT_EQ(out.dry_lines.front(), "sysctl -w net.ipv4.tcp_congestion_control=cubic");
	EXPECT_EQ(out.dry_lines.back(), "rmmod tcp_swift");
}

TEST(enable, refusals_name_the_reason)
{
	struct {
		void (*change)(FakeSystem &, EnableOptions &);
		bool usage;
		const char *text;
	} const rows[] = {
		{[](auto &, auto &o) { o.qdisc = "cake"; }, true, "--qdisc: 'cake' (allowed: fq, keep)"},
		{[](auto &, auto &o) { o.set = {"ai_milli"}; }, true, "--set: 'ai_milli'"},
		{[](auto &, auto &o) { o.set = {"nope=1"}; }, true, "--set: no such setting: 'nope'"},
		{[](auto &, auto &o) { o.set = {"ai_milli=0"}; }, true,
		 "--set ai_milli: '0' (allowed: 1 to 100000)"},
		{[](auto &, auto &o) { o.ifaces = {"../x"}; }, true, "--iface"},
		{[](auto &, auto &o) { o.ifaces = {"-x"}; }, true, "--iface"},
		{[](auto &, auto &o) { o.ifaces = {"eth9"}; }, false, "no such interface: 'eth9'"},
		{[](auto &s, auto &) { s.root = false; }, false, "needs root"},
		{[](auto &s, auto &) { s.installed = false; }, false, "the module tcp_swift is not loaded"},
		{[](auto &, auto &o) { o.module_file = "/x.ko"; }, false, "--module: no such file: '/x.ko'"},
		{[](auto &s, auto &) { s.has_fq = false; }, false, "this kernel has no fq"},
		{[](auto &s, auto &) { s.files[StateFile::path] = "{broken"; }, false,
		 "cannot make sense of /var/lib/tcp_swift/enable.json"},
	};

	for (const auto &r : rows) {
		FakeSystem s;
		EnableOptions o;

		r.change(s, o);
		const auto before = s.world();
		const Outcome out = enable(s, o);

		ASSERT_TRUE(out.error) << r.text;
		EXPECT_EQ(out.error->text().find(r.text), 0U) << out.error->text();
		EXPECT_EQ(out.usage, r.usage) << r.text;
		EXPECT_EQ(s.world(), before) << r.text;
	}
}

// Root obeys what it says: nothing but what enable itself can have changed.
TEST(state_file, of_other_things_than_ours_is_refused)
{
	for (const auto &[kind, key] : {std::pair("sysctl", "kernel.core_pattern"),
					{"sysctl", "net.ipv4.tcp_swift.nope"},
					{"sysctl", "net.ipv4.tcp_swift.ai_milli/../../../kernel/core_pattern"},
					{"file", "/etc/passwd"},
					{"file", "/etc/sysctl.d/90-tcp_swift.conf/../passwd"},
					{"module", "evil"},
					{"qdisc", "../x"},
					{"qdisc", "-batch"}}) {
		FakeSystem s;

		s.files[StateFile::path] = std::string(R"({"schema":1,"changes":[{"kind":")") + kind + R"(","key":")" +
					   key + R"(","before":"|/tmp/x","written":["core"]}]})";
		EXPECT_FALSE(StateFile(s).load()) << key;
		EXPECT_TRUE(disable(s, s, {}).error) << key;
	}
}

TEST(state_file, strange_contents_are_errors_not_crashes)
{
	for (const char *text :
	     {"", "[]", "{}", "null", R"({"schema":2,"changes":[]})", R"({"schema":"1","changes":[]})", R"({"schema":1})",
	      R"({"schema":1,"changes":{}})", R"({"schema":1,"changes":[1]})",
	      R"({"schema":1,"changes":[{"kind":"x","key":"y","before":null,"written":[]}]})",
	      R"({"schema":1,"changes":[{"kind":"sysctl","key":"y","before":1,"written":[]}]})",
	      R"({"schema":1,"changes":[{"kind":"sysctl","key":"y","before":null,"written":[1]}]})"}) {
		FakeSystem s;

		s.files[StateFile::path] = text;
		EXPECT_FALSE(StateFile(s).load()) << text;
		EXPECT_TRUE(disable(s, s, {}).error) << text;
	}
}
