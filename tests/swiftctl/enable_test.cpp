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

TEST(disable, after_a_reboot_there_is_nothing_to_undo_of_what_did_not_persist)
{
	FakeSystem s;

	ASSERT_FALSE(enable(s, {}).error);
	s.files[boot_id_file] = "another\n";
	s.files[cc_path] = "bbr\n";
	ASSERT_FALSE(disable(s, s, {}).error);
	EXPECT_EQ(value(s, cc_path), "bbr");
}

// Neither undoes what was done in the other.
TEST(disable, keeps_network_namespaces_apart)
{
	FakeSystem s;

	ASSERT_FALSE(enable(s, everything()).error);
	const auto at = s.files[StateFile::path].find("\"netns\": \"");

	ASSERT_NE(at, std::string::npos);
	s.files[StateFile::path].insert(at + 10, "9");
	const auto before = s.world();
	const Outcome o = disable(s, s, {});

	ASSERT_TRUE(o.error);
	EXPECT_NE(o.error->text().find("another network namespace"), std::string::npos);
	EXPECT_TRUE(enable(s, everything()).error);
	EXPECT_EQ(s.world(), before);
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
	     {"", "[]", "{}", "null", R"({"schema":2,"changes":[]})", R"({"schema":1})",
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
