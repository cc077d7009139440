// SPDX-License-Identifier: MIT
// What `swiftctl top` draws, and what its keys do.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fake_knob.h"
#include "parsed.h"
#include "say.h"
#include "top.h"

using namespace swift;

namespace {

// Flow i of 1 to n takes i * 10 us of fabric, hosts take 5 us, the target is 100 us.
TopShot shot_of(std::size_t n)
{
	TopShot shot;
	FlowSet set = swift_test::flows(10'000);
	const FlowRow row = set.rows[0];

	set.rows.clear();
	for (std::uint32_t i = 1; i <= n; i++) {
		FlowRow r = row;

		r.cookie = i;
		r.swift.fabric_ns = i * 10'000;
		r.swift.endpoint_ns = 5'000;
		r.swift.target_ns = 100'000;
		r.local_port = static_cast<std::uint16_t>(1000 + i);
		r.remote_port = 80;
		set.rows.push_back(r);
	}
	shot.flows = std::make_shared<const FlowSet>(std::move(set));
	shot.summary = summarize(*shot.flows, nullptr, {});
	shot.module_loaded = true;
	return shot;
}

std::vector<std::string> drawn(const TopShot &shot, TopView &view, std::size_t columns = 160, std::size_t rows = 24)
{
	std::vector<std::string> out;

	for (const TopLine &line : top_screen(shot, view, columns, rows))
		out.push_back(plain_text(line));
	return out;
}

std::string all(const std::vector<std::string> &lines)
{
	std::string out;

	for (const std::string &line : lines)
		out += line + "\n";
	return out;
}

void type(TopView &view, std::string_view text)
{
	for (const char c : text)
		press(view, TopKey::character, c);
}

std::string bar(double fabric, double host, double target, std::size_t width = 12)
{
	return plain_text(delay_bar(fabric, host, target, width));
}

TEST(TopBar, IsOnOneScaleWithTheTarget)
{
	EXPECT_EQ(bar(0, 0, 100), "........|...");
	EXPECT_EQ(bar(50, 0, 100), "====....|...");
	EXPECT_EQ(bar(50, 25, 100), "====##..|...");
	EXPECT_EQ(bar(125, 0, 100), "========|=..");
	EXPECT_EQ(bar(1000, 0, 100), "========|==>");
	EXPECT_EQ(bar(50, 1e12, 100), "====####|##>");
	EXPECT_EQ(bar(30, 10, 0), "=========###") << "no target: the parts alone";
	EXPECT_EQ(bar(0, 0, 0), "............");
	EXPECT_EQ(bar(50, 50, 100, 0), "");
	EXPECT_EQ(delay_bar(150, 0, 100, 12)[0].colour, Colour::red);
	EXPECT_EQ(delay_bar(50, 0, 100, 12)[0].colour, Colour::green);
}

TEST(TopScreen, FillsExactlyTheTerminal)
{
	const TopShot shot = shot_of(50);

	for (const std::size_t rows : {2U, 3U, 5U, 10U, 24U, 100U})
		for (const std::size_t columns : {1U, 20U, 80U, 119U, 120U, 200U}) {
			TopView view;
			const auto lines = drawn(shot, view, columns, rows);

			EXPECT_EQ(lines.size(), rows);
			for (const std::string &line : lines)
				ASSERT_LE(line.size(), columns) << rows << " rows: " << line;
		}
}

TEST(TopScreen, WhatDiffersInThePortOnlyCanBeTold)
{
	TopShot shot = shot_of(2);
	FlowSet set = *shot.flows;

	for (FlowRow &r : set.rows) {
		r.local_v6 = true;
		r.local_bytes = r.remote_bytes = {0x20, 1, 0x0d, 0xb8, 0x11, 0x11, 0x22, 0x22, 0x33, 0x33, 0x44, 0x44, 0x55, 0x55, 0x66, 0x66};
		r.remote_port = static_cast<std::uint16_t>(50'000 + r.cookie);
	}
	shot.flows = std::make_shared<const FlowSet>(std::move(set));
	for (const std::size_t columns : {0U, 80U, 120U, 160U, 200U}) {
		TopView view;
		const std::string screen = all(drawn(shot, view, columns));
		const bool whole = columns == 0 || columns == 200;

		for (const char *end : {"6666]:50001 ", "6666]:50002 "})
			EXPECT_NE(screen.find(end), std::string::npos) << columns << "\n" << screen;
		EXPECT_EQ(screen.find("[2001:db8:1111:2222:3333:4444:5555:6666]:50001") != std::string::npos, whole) << screen;
	}
}

TEST(TopScreen, TotalsVerdictsAndTheLongestDelayFirst)
{
	TopView view;
	const auto lines = drawn(shot_of(4), view);

	EXPECT_NE(lines[1].find("4 flows, 4 of swift's, 0 guarded; 32.0Mb/s"), std::string::npos) << lines[1];
	EXPECT_NE(lines[3].find("10.0.0.0/24"), std::string::npos);
	EXPECT_NE(lines[3].find("| host 4.48 us |"), std::string::npos) << lines[3];
	EXPECT_NE(lines[4].find("fabric-bound: the path to 10.0.0.0/24 takes"), std::string::npos) << lines[4];
	EXPECT_NE(lines[6].find(":1004 "), std::string::npos) << lines[6];
	EXPECT_NE(lines[6].find("40.0 us"), std::string::npos) << lines[6];
	EXPECT_NE(lines[9].find(":1001 "), std::string::npos) << lines[9];
	EXPECT_NE(lines.back().find("1 to 4 of 4 flows by delay"), std::string::npos);
}

TEST(TopScreen, WithoutRowsAllOfIt)
{
	TopView view;

	EXPECT_EQ(drawn(shot_of(300), view, 0, 0).size(), 306U);
}

TEST(TopScreen, WithoutFlows)
{
	TopView view;
	TopShot shot = shot_of(0);

	shot.module_loaded = false;
	const std::string text = all(drawn(shot, view));

	EXPECT_NE(text.find("0 flows, 0 of swift's"), std::string::npos);
	EXPECT_NE(text.find("the module is not loaded"), std::string::npos);
	EXPECT_NE(text.find("0 to 0 of 0 flows"), std::string::npos);
}

TEST(TopScreen, ANarrowOneKeepsTheDelays)
{
	TopView view;
	const std::string text = all(drawn(shot_of(4), view, 80));

	EXPECT_EQ(text.find(":1004"), std::string::npos);
	EXPECT_NE(text.find("40.0 us"), std::string::npos);
	EXPECT_NE(text.find("===="), std::string::npos);
}

TEST(TopKeys, Scroll)
{
	const TopShot shot = shot_of(50);
	TopView view;

	(void)drawn(shot, view);
	const std::size_t page = view.page;

	ASSERT_GT(page, 5U);
	press(view, TopKey::up);
	EXPECT_EQ(view.first, 0U);
	press(view, TopKey::down);
	EXPECT_EQ(view.first, 1U);
	press(view, TopKey::page_down);
	EXPECT_EQ(view.first, 1 + page);
	press(view, TopKey::end);
	const auto lines = drawn(shot, view);

	EXPECT_EQ(view.first, 50 - page);
	EXPECT_NE(all(lines).find(":1001 "), std::string::npos) << "the last is seen";
	press(view, TopKey::page_up);
	EXPECT_EQ(view.first, 50 - 2 * page);
	press(view, TopKey::home);
	EXPECT_EQ(view.first, 0U);
	(void)drawn(shot_of(2), view);
	EXPECT_EQ(view.first, 0U);
}

TEST(TopKeys, SortGoesRound)
{
	TopView view;

	for (const char *name : {"fabric", "host", "rate", "retrans", "delay"}) {
		type(view, "s");
		EXPECT_EQ(top_sort_text(view.sort), name);
		EXPECT_EQ(parse_top_sort(name), view.sort);
	}
	EXPECT_FALSE(parse_top_sort("age"));
}

TEST(TopKeys, Filter)
{
	const TopShot shot = shot_of(50);
	TopView view;

	view.first = 7;
	type(view, "f:1042q s");
	EXPECT_FALSE(view.leave) << "what is typed is text";
	EXPECT_NE(drawn(shot, view).back().find(":1042q s_"), std::string::npos);
	for (int i = 0; i < 3; i++)
		press(view, TopKey::erase);
	press(view, TopKey::enter);
	EXPECT_EQ(view.filter, ":1042");
	const auto lines = drawn(shot, view);

	EXPECT_NE(lines.back().find("1 to 1 of 1 flows by delay, with ':1042'"), std::string::npos) << lines.back();
	type(view, "fxyz");
	press(view, TopKey::escape);
	EXPECT_EQ(view.filter, ":1042") << "as before";
	press(view, TopKey::escape);
	EXPECT_EQ(view.filter, "");
	type(view, "f" + std::string(1000, 'x'));
	EXPECT_LE(view.typing->size(), 100U);
}

TEST(TopKeys, PauseHelpQuit)
{
	const TopShot shot = shot_of(3);
	TopView view;

	type(view, " ");
	EXPECT_TRUE(view.paused);
	EXPECT_NE(drawn(shot, view)[0].find("stands still"), std::string::npos);
	type(view, " ?");
	EXPECT_FALSE(view.paused);
	EXPECT_NE(all(drawn(shot, view)).find("the hosts' (#)"), std::string::npos);
	type(view, "x");
	EXPECT_FALSE(view.help);
	EXPECT_FALSE(view.leave);
	type(view, "?q");
	EXPECT_TRUE(view.leave);
}

TEST(TopCommand, Line)
{
	const auto o = swift_test::parsed<TopOptions>(
		{"--all", "--once", "--interval", "0.5", "--sort", "rate", "--filter", "10."});

	ASSERT_TRUE(o);
	EXPECT_TRUE(o->all && o->once);
	EXPECT_EQ(o->interval + " " + o->sort + " " + o->filter, "0.5 rate 10.");
	TopOptions wrong;

	wrong.sort = "age";
	EXPECT_EQ(exit_status(top_verb, run_top(wrong)), 2);
	wrong = {};
	wrong.interval = "0";
	EXPECT_EQ(exit_status(top_verb, run_top(wrong)), 2);
}

// On a terminal of its own.
class TopOnATerminal : public testing::Test {
protected:
	void SetUp() override
	{
		winsize size = {24, 100, 0, 0};

		pid = forkpty(&fd, nullptr, nullptr, &size);
		ASSERT_GE(pid, 0);
		if (pid == 0) {
			setenv("TERM", "xterm", 1);
			execl(SWIFTCTL, SWIFTCTL, "top", "--all", "--interval", "0.2", nullptr);
			_exit(127);
		}
	}
	void TearDown() override
	{
		if (pid > 0)
			kill(pid, SIGKILL);
		close(fd);
	}
	// True once it has drawn @text.
	bool shows(const std::string &text)
	{
		while (seen.find(text) == std::string::npos) {
			pollfd wait = {fd, POLLIN, 0};
			char bytes[4096];

			if (poll(&wait, 1, 30'000) <= 0)
				return false;
			const ssize_t n = ::read(fd, bytes, sizeof(bytes));

			if (n <= 0)
				return false;
			seen.append(bytes, static_cast<std::size_t>(n));
		}
		seen.clear();
		return true;
	}
	void type(const std::string &text) { ASSERT_EQ(write(fd, text.data(), text.size()), ssize_t(text.size())); }
	int status()
	{
		int s = 0;

		while (shows("nothing that it says: only until it ends"))
			continue;
		waitpid(pid, &s, 0);
		pid = -1;
		return s;
	}

	int fd = -1;
	pid_t pid = -1;
	std::string seen;
};

TEST_F(TopOnATerminal, DrawsAnswersKeysAndLeaves)
{
	ASSERT_TRUE(shows("flows by delay")) << seen;
	type("?");
	ASSERT_TRUE(shows("stand still; again: go on")) << seen;
	type("x");
	ASSERT_TRUE(shows("flows by delay")) << seen;
	const winsize size = {10, 60, 0, 0};

	ASSERT_EQ(ioctl(fd, TIOCSWINSZ, &size), 0);
	ASSERT_TRUE(shows("swift top")) << "drawn anew at the new size";
	type("q");
	EXPECT_EQ(status(), 0);
}

// Ctrl-S: nothing that is written gets through.
TEST_F(TopOnATerminal, EndsOnASignalThoughTheTerminalIsStopped)
{
	ASSERT_TRUE(shows("flows by delay")) << seen;
	pollfd slave = {open(ptsname(fd), O_WRONLY | O_NOCTTY), POLLOUT, 0};

	type("\x13");
	while (poll(&slave, 1, 10) > 0)
		usleep(1000);
	close(slave.fd);
	kill(pid, SIGTERM);
	EXPECT_EQ(status(), 0);
}

TEST_F(TopOnATerminal, EndsOnASignal)
{
	ASSERT_TRUE(shows("flows by delay")) << seen;
	kill(pid, SIGTERM);
	EXPECT_EQ(status(), 0);
}

} // namespace
