// SPDX-License-Identifier: MIT
// Names of others, on their way to a terminal.
#include <gtest/gtest.h>

#include "iface_map.h"
#include "printable.h"
#include "table.h"

using namespace swift;

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
