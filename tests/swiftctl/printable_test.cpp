// SPDX-License-Identifier: MIT
// Names of others, on their way to a terminal.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>

#include "doctor.h"
#include "enable.h"
#include "fake_system.h"
#include "hostile_name.h"
#include "iface_map.h"
#include "printable.h"
#include "shell_word.h"
#include "table.h"

using namespace swift;
using swift_test::expect_printable;
using swift_test::hostile_name;
using swift_test::hostile_word;

TEST(printable, keeps_texts_and_takes_what_steers_a_terminal_or_is_no_utf8)
{
	for (const char *text : {"", "eth0", "enp3s0f0np0.100@x", "\xc3\xa9th0", "\xe2\x82\xac", "\xf0\x9f\x90\xa7", "\xc2\xa0"})
		EXPECT_EQ(printable(text), text);
	EXPECT_EQ(printable("\x1b[2Jx"), "?[2Jx");
	EXPECT_EQ(printable("a\nb\tc\x7f"), "a?b?c?");
	EXPECT_EQ(printable("\xff" "eth"), "?eth");
	EXPECT_EQ(printable("\xc2\x9b" "31m"), "??31m"); // a control sequence in one character
	EXPECT_EQ(printable("\xc3"), "?"); // cut off
	EXPECT_EQ(printable("\xc0\xaf"), "??"); // longer than need be
	EXPECT_EQ(printable("\xed\xa0\x80"), "???"); // half a pair
	EXPECT_EQ(printable("\xf4\x90\x80\x80"), "????"); // beyond the last
}

TEST(printable, a_table_and_the_labels_of_interfaces_are)
{
	const Table table{{{"dev"}}, {{{"\x1b]0;x\x07"}}}};
	const IfaceMap map({{2, "e\xffth\x1b"}}, {{*Address::parse("10.0.0.1"), 2}});

	EXPECT_EQ(render(table, {}).lines[1], "?]0;x?");
	EXPECT_EQ(map.find(*Address::parse("10.0.0.1")), "e?th?");
}

TEST(printable, a_shell_takes_a_word_for_what_it_was)
{
	EXPECT_EQ(shell_word("enp3s0f0np0.100@x"), "enp3s0f0np0.100@x");
	EXPECT_EQ(shell_word("a;b"), "'a;b'");
	EXPECT_EQ(shell_word(hostile_name), hostile_word);
	for (const std::string &name : {std::string(), hostile_name, std::string("$(id)"), std::string("it's"), std::string("\\'\x01" "7"),
				       std::string("*"), std::string("~"), std::string("#"), std::string("\xc3\xa9 th0"), std::string("\"!`")}) {
		const std::string word = shell_word(name);
		std::array<char, 100> out{};
		FILE *shell = popen(("exec bash <<'END'\nprintf %s " + word + "\nEND").c_str(), "r");

		EXPECT_EQ(word, printable(word));
		EXPECT_EQ(std::string(out.data(), fread(out.data(), 1, out.size(), shell)), name) << word;
		EXPECT_EQ(pclose(shell), 0);
	}
}

// Where a view names a device, and where it tells a command for it.
TEST(printable, views_are_and_their_commands_are_quoted)
{
	swift_test::FakeSystem s;
	const std::string dir = "/sys/class/net/" + hostile_name;

	s.load();
	s.files[dir] = "";
	s.files[dir + "/speed"] = "25000\n";
	s.files[dir + "/mtu"] = "1400\n";
	s.devs[hostile_name] = {false, "pfifo_fast"};
	s.coalesce[hostile_name] = {100, false};
	s.stamps[hostile_name] = {true, false, 0};
	s.outputs["ip -j -d link show dev " + hostile_name] = R"([{"gso_max_size":65536}])";

	DoctorOptions look;
	EnableOptions dry;

	look.ifaces = dry.ifaces = {hostile_name};
	dry.dry_run = true;
	const auto findings = examine({s, s, s}, look);
	const Outcome planned = enable(s, dry);

	ASSERT_TRUE(findings) << findings.error().text();
	ASSERT_FALSE(planned.error) << planned.error->text();
	std::string said = doctor_text(*findings, {}) + outcome_text(planned, true);

	expect_printable(said);
	for (const char *command : {"swiftctl enable --iface ", "ip link set dev ", "ethtool -C ", "swiftctl clock run --iface ",
				    "tc qdisc replace dev "})
		EXPECT_NE(said.find(command + hostile_word), std::string::npos) << command << "in\n" << said;
	EXPECT_NE(outcome_json(planned, true).find(R"(tc qdisc replace dev $'e\\033[31mx\\377' root)"), std::string::npos);

	s.devs[hostile_name].by_hand = true;
	said = doctor_text(*examine({s, s, s}, look), {});
	EXPECT_NE(said.find("tc qdisc replace dev " + hostile_word + " root fq"), std::string::npos) << said;

	s.devs[hostile_name].by_hand = false;
	dry.dry_run = false;
	said = outcome_text(enable(s, dry), false);
	expect_printable(said);
	EXPECT_NE(said.find("qdisc of e?[31mx?"), std::string::npos) << said;

	s.files.erase(dir);
	expect_printable(doctor_text(*examine({s, s, s}, look), {}));
}
