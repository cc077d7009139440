// SPDX-License-Identifier: MIT
// Policies: files that are read or refused in one line, and what of them is set, and comes back, on made-up hosts.
#include <gtest/gtest.h>

#include "fake_bpf_host.h"
#include "fake_knob.h"
#include "policy_run.h"
#include "text.h"

using namespace swift;
using namespace swift_test;

namespace {

constexpr std::int64_t now_s = 1'790'000'000; // 2026-09-21
constexpr const char *good = R"(version = "2026-09-21.1"
author = "net-eng@example.com"
expires = 2026-10-21T12:00:00+02:00

[guard]
throughput_percent = 3
tail_percent = 50.5

[[target]]
base_target_ns = 25000
target_policy = "static"

[[target]]
of = "bpf_swift"
prefix = "10.2.0.0/16"
class = 26
base_target_ns = 60000
endpoint_target_ns = 100000
)";

std::string refusal(const std::string &toml)
{
	const auto read = parse_policy(toml, now_s);

	return read.policy ? "(taken)" : read.error.text("p.toml");
}

// @good with @line in the place of the line number @n.
std::string with(unsigned n, const std::string &line)
{
	std::string out;
	unsigned at = 0;

	for (const std::string &each : split(good, '\n'))
		out += (++at == n ? line : each) + "\n";
	return out;
}

TEST(PolicyFile, IsRead)
{
	const auto read = parse_policy(good, now_s);

	ASSERT_TRUE(read.policy) << read.error.text("p.toml");
	const Policy &p = *read.policy;

	EXPECT_EQ(p.version, "2026-09-21.1");
	EXPECT_EQ(p.author, "net-eng@example.com");
	EXPECT_EQ(utc_text(p.expires_s), "2026-10-21T10:00:00Z");
	EXPECT_TRUE(p.guard.enabled);
	EXPECT_DOUBLE_EQ(p.guard.throughput, 0.03);
	EXPECT_DOUBLE_EQ(p.guard.tail, 0.505);
	ASSERT_EQ(p.rules.size(), 2U);
	EXPECT_EQ(p.rules[0].of, "module");
	EXPECT_EQ(p.rules[0].cc(), "swift");
	EXPECT_FALSE(p.rules[0].dscp);
	EXPECT_EQ(p.rules[0].set, (Targets{{"base_target_ns", "25000"}, {"target_policy", "static"}}));
	EXPECT_EQ(p.rules[1].prefix, "10.2.0.0/16");
	EXPECT_EQ(p.rules[1].dscp, 26);
	EXPECT_EQ(p.rules[1].line, 13U);
	EXPECT_EQ(p.rules[1].set, (Targets{{"base_target_ns", "60000"}, {"endpoint_target_ns", "100000"}}));
}

// Field, value, what is allowed, and the line: of each kind of mistake.
TEST(PolicyFile, OneWrongLineIsNamed)
{
	EXPECT_EQ(refusal(with(1, "version = 7")),
		  "p.toml:1: version: '7' (allowed: 1 to 64 of A-Z a-z 0-9 . _ : + -)");
	EXPECT_EQ(refusal(with(1, "version = \"a b\"")),
		  "p.toml:1: version: 'a b' (allowed: 1 to 64 of A-Z a-z 0-9 . _ : + -)");
	EXPECT_EQ(refusal(with(1, "")), "p.toml: version is missing");
	EXPECT_EQ(refusal(with(2, "author = \"\"")),
		  "p.toml:2: author: '' (allowed: 1 to 64 printable characters of ASCII)");
	EXPECT_EQ(refusal(with(2, "author = \"" + std::string(65, 'a') + "\"")).substr(0, 18),
		  "p.toml:2: author: ");
	EXPECT_EQ(refusal(with(2, "author = \"a\\nb\"")).substr(0, 18), "p.toml:2: author: ");
	EXPECT_EQ(
		refusal(with(3, "expires = 2026-10-21")),
		"p.toml:3: expires: 'a date or time' (allowed: a date and time with its zone, such as 2027-01-31T12:00:00Z)");
	EXPECT_EQ(refusal(with(3, "expires = 2026-10-21T12:00:00")).substr(0, 19), "p.toml:3: expires: ");
	EXPECT_EQ(
		refusal(with(3, "expires = 2026-09-01T00:00:00Z")),
		"p.toml:3: expires: '2026-09-01T00:00:00Z' (allowed: times after now, 2026-09-21T14:13:20Z)");
	EXPECT_EQ(refusal(with(3, "")), "p.toml: expires is missing");
	EXPECT_EQ(refusal(with(5, "guard = 1\n[other]")), "p.toml:5: guard: '1' (allowed: a table: [guard])");
	EXPECT_EQ(refusal(with(6, "throughput_percent = 0.5")),
		  "p.toml:6: guard.throughput_percent: '0.5' (allowed: 1 to 50)");
	EXPECT_EQ(refusal(with(6, "throughput_percent = nan")).substr(0, 36),
		  "p.toml:6: guard.throughput_percent: ");
	EXPECT_EQ(refusal(with(7, "tail_percent = \"50\"")),
		  "p.toml:7: guard.tail_percent: '50' (allowed: 5 to 1000)");
	EXPECT_EQ(refusal(with(7, "enabled = 1")), "p.toml:7: guard.enabled: '1' (allowed: true and false)");
	EXPECT_EQ(refusal(with(7, "tails = 5")),
		  "p.toml:7: unknown field guard.tails (allowed: enabled, throughput_percent, tail_percent)");
	EXPECT_EQ(refusal(with(10, "base_target_ns = 9")),
		  "p.toml:10: target.base_target_ns: '9' (allowed: 1000 to 1000000000)");
	EXPECT_EQ(refusal(with(10, "base_target_ns = \"25000\"")),
		  "p.toml:10: target.base_target_ns: '25000' (allowed: 1000 to 1000000000)");
	EXPECT_EQ(refusal(with(11, "target_policy = \"fixed\"")),
		  "p.toml:11: target.target_policy: 'fixed' (allowed: static, base_rtt or base_rtt_plus)");
	EXPECT_EQ(
		refusal(with(11, "ai_milli = 1000")),
		"p.toml:11: unknown field target.ai_milli (allowed: of, prefix, class, base_target_ns, hop_target_ns, rtt_epsilon_ns, "
		"endpoint_target_ns, target_policy)");
	EXPECT_EQ(
		refusal(with(11, "prefix = \"10.0.0.0/8\"")),
		"p.toml:11: target.prefix: '10.0.0.0/8' (allowed: none: the module has one target for all destinations of a network "
		"namespace; one for each has of = \"bpf_swift\" or \"bpf_swift_v0\")");
	EXPECT_EQ(refusal(with(14, "of = \"bpf_timely\"")),
		  "p.toml:14: target.of: 'bpf_timely' (allowed: module, bpf_swift, bpf_swift_v0)");
	EXPECT_EQ(refusal(with(15, "prefix = \"10.2.3.0/16\"")),
		  "p.toml:15: target.prefix: '10.2.3.0/16' (allowed: 10.2.0.0/16)");
	EXPECT_EQ(refusal(with(15, "prefix = 10")).substr(0, 26), "p.toml:15: target.prefix: ");
	EXPECT_EQ(
		refusal(with(16, "class = 64")),
		"p.toml:16: target.class: '64' (allowed: 0 to 63, a DSCP, and \"default\" for flows that are given none)");
	EXPECT_EQ(refusal(with(4, "colour = 1")),
		  "p.toml:4: unknown field colour (allowed: version, author, expires, [guard], [[target]])");
	EXPECT_EQ(refusal(with(9, "[target]")).substr(0, 10), "p.toml:13:");
	EXPECT_EQ(
		refusal(good +
			std::string(
				"[[target]]\nof = \"bpf_swift\"\nhop_target_ns = 1\nclass = 26\nprefix = \"10.2.0.0/16\"\n")),
		"p.toml:19: another target of bpf_swift to 10.2.0.0/16, class 26: allowed is one");
	EXPECT_EQ(refusal(good + std::string("[[target]]\nof = \"bpf_swift\"\n")).substr(0, 38),
		  "p.toml:19: [[target]] sets nothing (al");
	EXPECT_EQ(refusal("version = \"1\"\nauthor = \"a\"\nexpires = 2026-10-21T12:00:00Z\n"),
		  "p.toml: [[target]] is missing");
	EXPECT_EQ(refusal(good + std::string("= 5\n")).substr(0, 10), "p.toml:19:");
	// The first in the file, not in the alphabet.
	EXPECT_EQ(refusal("version = 1\nauthor = 2\n").substr(0, 17), "p.toml:1: version");
}

TEST(PolicyFile, TooLargeOrTooDeepIsRefused)
{
	std::string many = good, deep = "a = ", dotted = "a";

	for (int i = 0; i < 70; i++)
		many += "[[target]]\nof = \"bpf_swift\"\nprefix = \"10." + std::to_string(i) +
			".0.0/16\"\nhop_target_ns = 1\n";
	EXPECT_NE(refusal(many).find("more targets than the 64 that are allowed"), std::string::npos);
	EXPECT_NE(refusal(good + std::string(20'000, '#')).find("too large"), std::string::npos);
	for (int i = 0; i < 5000; i++)
		deep += "[";
	EXPECT_NE(refusal(deep).find("too large"), std::string::npos);
	for (int i = 0; i < 5000; i++)
		dotted += ".a";
	EXPECT_NE(refusal(dotted + " = 1").find("too large"), std::string::npos);
	EXPECT_NE(refusal("\"#\"" + dotted.substr(1) + " = 1").find("too large"), std::string::npos);
	EXPECT_EQ(refusal("# ....................................................\n" + std::string(good)),
		  "(taken)");
	EXPECT_EQ(refusal("").substr(0, 7), "p.toml:");
}

// --- On a host ----------------------------------------------------------------------------------

class PolicyRunTest : public testing::Test
{
protected:
	PolicyRunTest()
	{
		system.load();
		system.files["/proc/sys/kernel/random/boot_id"] = "boot-1\n";
		begin();
	}

	void load_bpf()
	{
		const auto done = variants.load(
			{.name = "bpf_swift", .file = "", .set = {}, .cgroup = "/sys/fs/cgroup"});

		ASSERT_FALSE(done.error) << error_of(done);
	}
	// As a new process would.
	void begin()
	{
		run.reset();
		auto begun = PolicyRun::begin(system, real_places(system, variants, "7", 0), "7", true);

		ASSERT_TRUE(begun) << begun.error().text();
		run = std::move(*begun);
	}
	Result<void> apply(const std::string &toml, double at_s = now_s)
	{
		const auto read = parse_policy(toml, static_cast<std::int64_t>(at_s));

		if (!read.policy)
			return Error{read.error.text("p.toml")};
		return run->apply(toml, *read.policy, at_s);
	}
	std::string sysctl(const std::string &name)
	{
		return std::string(trim(system.files["/proc/sys/net/ipv4/tcp_swift/" + name]));
	}
	void set_sysctl(const std::string &name, const std::string &value)
	{
		system.files["/proc/sys/net/ipv4/tcp_swift/" + name] = value + "\n";
	}
	// "" : of all others; "none": no such profile
	std::string bpf(const std::string &prefix, const std::string &name)
	{
		const auto settings = variants.get("bpf_swift");
		const BpfValues *values = prefix.empty() ? &settings->values : nullptr;

		for (const auto &[p, own] : settings->profiles)
			if (p.text() == prefix)
				values = &own;
		if (!values)
			return "none";
		for (std::size_t i = 0; i < settings->law->tunables.size(); i++)
			if (settings->law->tunables[i].name == name)
				return settings->law->tunables[i].text((*values)[i]);
		return "?";
	}
	// All that is steered by, in one text.
	std::string world()
	{
		std::string all = host.world();

		for (const auto &[path, content] : system.files)
			if (path.starts_with("/proc/sys/"))
				all += path + "=" + content;
		return all;
	}
	static std::string policy(const std::string &targets, const std::string &version = "1",
				  const std::string &expires = "2026-10-21T00:00:00Z")
	{
		return "version = \"" + version + "\"\nauthor = \"me\"\nexpires = " + expires + "\n" +
		       targets;
	}
	static std::string module_rule(int ns)
	{
		return "[[target]]\nbase_target_ns = " + std::to_string(ns) + "\n";
	}
	static std::string bpf_rule(const std::string &prefix, int ns)
	{
		return "[[target]]\nof = \"bpf_swift\"\n" +
		       (prefix.empty() ? "" : "prefix = \"" + prefix + "\"\n") +
		       "base_target_ns = " + std::to_string(ns) + "\n";
	}

	FakeSystem system;
	FakeBpfHost host;
	BpfVariants variants{system, system, host};
	std::unique_ptr<PolicyRun> run;
};

TEST_F(PolicyRunTest, IsSetAndTakenBack)
{
	load_bpf();
	const std::string before = world();

	ASSERT_TRUE(apply(policy(module_rule(30000) + bpf_rule("", 40000) + bpf_rule("10.2.0.0/16", 50000))));
	EXPECT_EQ(sysctl("base_target_ns"), "30000");
	EXPECT_EQ(sysctl("hop_target_ns"), std::to_string(find_tunable("hop_target_ns")->fallback));
	EXPECT_EQ(bpf("", "base_target_ns"), "40000");
	EXPECT_EQ(bpf("10.2.0.0/16", "base_target_ns"), "50000");
	EXPECT_EQ(run->policy()->version, "1");
	EXPECT_EQ(run->scopes().size(), 3U);
	EXPECT_EQ(run->scopes()[0].name, "bpf_swift");
	EXPECT_EQ(run->scopes()[1].name, "bpf_swift 10.2.0.0/16");
	EXPECT_EQ(run->scopes()[2].cc, "swift");

	ASSERT_TRUE(run->end("withdrawal", "it is gone", now_s + 1, true));
	EXPECT_EQ(world(), before);
	EXPECT_FALSE(run->policy());
	EXPECT_TRUE(run->scopes().empty());
	EXPECT_EQ(run->record().ended_by, "withdrawal");
}

TEST_F(PolicyRunTest, ANewProfileBeginsAsThePolicyHasItsVariant)
{
	load_bpf();
	ASSERT_TRUE(apply(policy("[[target]]\nof = \"bpf_swift\"\nendpoint_target_ns = 77000\n" +
				 bpf_rule("10.2.0.0/16", 50000))));
	EXPECT_EQ(bpf("10.2.0.0/16", "endpoint_target_ns"), "77000");
	EXPECT_EQ(bpf("10.2.0.0/16", "base_target_ns"), "50000");
}

// Whatever fails, and wherever: it is all there, or all as before.
TEST_F(PolicyRunTest, AtOnceOrNotAtAll)
{
	load_bpf();
	const std::string toml =
		policy(module_rule(30000) + bpf_rule("", 40000) + bpf_rule("10.2.0.0/16", 50000));
	const std::string before = world();
	bool succeeded = false;

	for (int n = 1; n < 60 && !succeeded; n++) {
		host.operations = system.operations = 0;
		system.fail_at = n;
		const auto ok = apply(toml);

		system.fail_at = 0;
		succeeded = static_cast<bool>(ok);
		if (!succeeded) {
			EXPECT_EQ(world(), before) << "failed at " << n;
			EXPECT_FALSE(run->policy());
			// A process that comes after it finds nothing in force.
			begin();
			EXPECT_EQ(world(), before) << "failed at " << n;
		}
	}
	EXPECT_TRUE(succeeded);
	ASSERT_TRUE(run->end("withdrawal", "", now_s, true));
	succeeded = false;
	for (int n = 1; n < 60 && !succeeded; n++) {
		host.operations = 0;
		host.fail_at = n;
		const auto ok = apply(toml);

		host.fail_at = 0;
		succeeded = static_cast<bool>(ok);
		EXPECT_TRUE(succeeded || world() == before) << "failed at " << n;
	}
	EXPECT_TRUE(succeeded);
}

// Killed at any operation: who comes next has the policy whole, or nothing of it.
TEST_F(PolicyRunTest, AKillIsPutRight)
{
	load_bpf();
	const std::string toml = policy(module_rule(30000) + bpf_rule("10.2.0.0/16", 50000));
	const std::string before = world();
	unsigned whole = 0, none = 0;

	for (int n = 1; n < 20; n++) {
		system.operations = 0;
		system.fail_at = n;
		system.dead_after = true;
		(void)!apply(toml);
		system.fail_at = 0;
		system.dead_after = false;
		begin();
		if (run->policy()) {
			whole++;
			EXPECT_EQ(sysctl("base_target_ns"), "30000") << n;
			EXPECT_EQ(bpf("10.2.0.0/16", "base_target_ns"), "50000") << n;
			ASSERT_TRUE(run->end("withdrawal", "", now_s, true));
		} else {
			none++;
		}
		EXPECT_EQ(world(), before) << n;
	}
	EXPECT_GT(whole, 0U);
	EXPECT_GT(none, 0U);
}

TEST_F(PolicyRunTest, ARestartKeepsItAndABootDoesNot)
{
	ASSERT_TRUE(apply(policy(module_rule(30000))));
	ASSERT_TRUE(run->turn(true)); // killed in a turn of the old targets
	EXPECT_NE(sysctl("base_target_ns"), "30000");
	begin();
	EXPECT_EQ(sysctl("base_target_ns"), "30000");
	EXPECT_EQ(run->policy()->version, "1");

	system.files["/proc/sys/kernel/random/boot_id"] = "boot-2\n";
	set_sysctl("base_target_ns", "25000");
	begin();
	EXPECT_FALSE(run->policy());
	EXPECT_EQ(sysctl("base_target_ns"), "25000");
}

TEST_F(PolicyRunTest, WhatSomebodyElseHasSetStays)
{
	load_bpf();
	ASSERT_TRUE(apply(policy(module_rule(30000) + bpf_rule("", 40000))));
	set_sysctl("base_target_ns", "31000");
	run->check();
	ASSERT_EQ(run->lost().size(), 1U);
	EXPECT_NE(run->lost()[0].find("net.ipv4.tcp_swift: it is base_target_ns=31000 "), std::string::npos)
		<< run->lost()[0];
	EXPECT_EQ(run->scopes().size(), 1U);
	ASSERT_TRUE(run->turn(true));
	ASSERT_TRUE(run->turn(false));
	EXPECT_EQ(sysctl("base_target_ns"), "31000");
	begin();
	EXPECT_EQ(sysctl("base_target_ns"), "31000");
	ASSERT_TRUE(run->end("expiry", "", now_s, true));
	EXPECT_EQ(sysctl("base_target_ns"), "31000");
	EXPECT_EQ(bpf("", "base_target_ns"), std::to_string(find_tunable("base_target_ns")->fallback));

	// Asked for again, it is set, and what comes back is what somebody else has set.
	ASSERT_TRUE(apply(policy(module_rule(30000), "2")));
	EXPECT_EQ(sysctl("base_target_ns"), "30000");
	ASSERT_TRUE(run->end("withdrawal", "", now_s, true));
	EXPECT_EQ(sysctl("base_target_ns"), "31000");
}

TEST_F(PolicyRunTest, TheOneBeforeComesBack)
{
	const std::string before = world();

	ASSERT_TRUE(apply(policy(module_rule(30000), "1", "2026-10-01T00:00:00Z")));
	ASSERT_TRUE(apply(policy("[[target]]\nhop_target_ns = 2000\n", "2")));
	EXPECT_EQ(sysctl("base_target_ns"), "25000"); // it is not in the new one
	EXPECT_EQ(sysctl("hop_target_ns"), "2000");
	ASSERT_TRUE(run->turn(true));
	EXPECT_EQ(sysctl("base_target_ns"), "30000");
	ASSERT_TRUE(run->end("guard", "it was bad", now_s, false));
	EXPECT_EQ(run->policy()->version, "1");
	EXPECT_EQ(sysctl("base_target_ns"), "30000");
	EXPECT_NE(sysctl("hop_target_ns"), "2000");
	begin();
	EXPECT_EQ(run->policy()->version, "1");
	EXPECT_EQ(run->record().ended_why, "it was bad");
	ASSERT_TRUE(run->end("expiry", "", now_s, true));
	EXPECT_EQ(world(), before);

	// Unless it has expired since.
	ASSERT_TRUE(apply(policy(module_rule(30000), "3", "2026-10-01T00:00:00Z")));
	ASSERT_TRUE(apply(policy(module_rule(40000), "4")));
	ASSERT_TRUE(run->end("guard", "", now_s + 86400 * 20, false));
	EXPECT_FALSE(run->policy());
	EXPECT_EQ(world(), before);
}

TEST_F(PolicyRunTest, TheClassChoosesTheTarget)
{
	const std::string rules =
		"[[target]]\nclass = 26\nbase_target_ns = 26000\n[[target]]\nclass = \"default\"\nbase_target_ns = 99000\n";

	ASSERT_TRUE(apply(policy(rules)));
	EXPECT_EQ(sysctl("base_target_ns"), "99000");
	set_sysctl("dscp", "26");
	ASSERT_TRUE(apply(policy(rules, "2")));
	EXPECT_EQ(sysctl("base_target_ns"), "26000");
	set_sysctl("dscp", "10");
	ASSERT_TRUE(apply(policy(rules + module_rule(11000), "3")));
	EXPECT_EQ(sysctl("base_target_ns"), "11000");

	const auto none = apply(policy(rules, "4"));

	ASSERT_FALSE(none);
	EXPECT_EQ(none.error().text(),
		  "no target is for this host: net.ipv4.tcp_swift gives its flows class 10");
	EXPECT_EQ(sysctl("base_target_ns"), "11000");
	EXPECT_EQ(run->policy()->version, "3");
}

TEST_F(PolicyRunTest, WhatThisHostCannotHaveIsRefused)
{
	const std::string before = world();
	auto refused = apply(policy(module_rule(30000) + bpf_rule("10.2.0.0/16", 50000)));

	ASSERT_FALSE(refused);
	EXPECT_EQ(refused.error().text(),
		  "target of bpf_swift to 10.2.0.0/16 (line 6): not loaded: 'bpf_swift'");
	EXPECT_EQ(world(), before);
	std::erase_if(system.files,
		      [](const auto &f) { return f.first.starts_with("/sys/module/tcp_swift"); });
	refused = apply(policy(module_rule(30000)));
	ASSERT_FALSE(refused);
	EXPECT_EQ(refused.error().text(), "target of module (line 4): the module tcp_swift is not loaded");
}

TEST_F(PolicyRunTest, ARecordThatNobodyCouldHaveWrittenIsNotObeyed)
{
	ASSERT_TRUE(apply(policy(module_rule(30000))));
	const std::string path = policy_record_path("7"), record = system.files[path];
	const auto swapped = [&](const std::string &from, const std::string &to) {
		std::string text = record;

		text.replace(text.find(from), from.size(), to);
		system.files[path] = text;
		run.reset();
		const auto begun = PolicyRun::begin(system, real_places(system, variants, "7", 0), "7", true);

		return begun ? std::string("obeyed") : begun.error().text();
	};

	EXPECT_EQ(swapped("\"30000\"", "\"30000\""), "obeyed");
	for (const auto &[from, to] : {std::pair("\"30000\"", "\"1\""),
				       {"\"30000\"", "30000"},
				       {"\"module\"", "\"../etc\""},
				       {"\"of\"", "\"off\""},
				       {"version = ", "ersion = "},
				       {"\"places\": [", "\"places\": [1, "}})
		EXPECT_NE(swapped(from, to).find("cannot make sense of " + path), std::string::npos) << from;
}

TEST_F(PolicyRunTest, RootsToolsUndoIt)
{
	load_bpf();
	const std::string before = world();

	ASSERT_TRUE(apply(policy(module_rule(30000), "1")));
	ASSERT_TRUE(apply(policy(module_rule(40000) + bpf_rule("10.2.0.0/16", 50000), "2")));
	run.reset();
	auto undone = PolicyRun::begin(system, real_places(system, variants, "7", 0), "7", false);

	ASSERT_TRUE(undone);
	ASSERT_TRUE((*undone)->undo());
	EXPECT_EQ(world(), before);
	EXPECT_FALSE(system.files.contains(policy_record_path("7")));
}

// Who tunes meanwhile holds the target's lock: nothing is forgotten.
TEST_F(PolicyRunTest, UndoneWhileSomebodyHoldsATargetIsAnErrorAndCanBeTriedAgain)
{
	const std::string before = world();

	ASSERT_TRUE(apply(policy(module_rule(30000))));
	const std::string set = world();

	run.reset();
	auto held = system.lock("/run/tcp_swift/tune-sysctl-7.lock");
	ASSERT_TRUE(held);
	auto busy = PolicyRun::begin(system, real_places(system, variants, "7", 0), "7", false);

	ASSERT_TRUE(busy);
	const auto done = (*busy)->undo();
	ASSERT_FALSE(done);
	EXPECT_NE(done.error().text().find("try again"), std::string::npos) << done.error().text();
	EXPECT_EQ(world(), set);
	// swiftd, which began while it was held, ends it: what was before is not forgotten either.
	ASSERT_TRUE((*busy)->end("guard", "worse", now_s + 1, true));
	busy->reset();
	*held = nullptr;
	auto again = PolicyRun::begin(system, real_places(system, variants, "7", 0), "7", false);

	ASSERT_TRUE(again);
	ASSERT_TRUE((*again)->undo());
	EXPECT_EQ(world(), before);
}

TEST(PolicyScopes, TheLongestPrefixCounts)
{
	FlowSet set = flows(20'000);
	const std::vector<PolicyRun::Scope> scopes = {
		{"all", "swift", std::nullopt},
		{"v4", "swift", *Prefix::parse("0.0.0.0/0")},
		{"one", "swift", *Prefix::parse("10.0.0.2/32")},
		{"other", "bpf_swift", std::nullopt},
		{"any", "swift", *Prefix::parse("::/0")},
	};
	const auto seen = observe_scopes(set, scopes);

	EXPECT_EQ(seen[0].flows, 0U);
	EXPECT_EQ(seen[1].flows, 3U);
	EXPECT_EQ(seen[2].flows, 1U);
	EXPECT_EQ(seen[3].flows, 0U);
	EXPECT_EQ(seen[4].flows, 0U);
	EXPECT_GT(seen[1].rtt_p99_ns, 0);
	EXPECT_DOUBLE_EQ(seen[2].rate_bps, 8e6);
	EXPECT_DOUBLE_EQ(seen[2].length_s, 1);
}

} // namespace
