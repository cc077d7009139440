// SPDX-License-Identifier: MIT
#include "watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <ctime>

#include "say.h"

namespace swift {

StopSignals::StopSignals()
{
	sigemptyset(&set_);
	sigaddset(&set_, SIGINT);
	sigaddset(&set_, SIGTERM);
	sigaddset(&set_, SIGHUP); // the terminal went
	sigprocmask(SIG_BLOCK, &set_, &before_);
	signal(SIGPIPE, SIG_IGN); // print() tells of it
}

StopSignals::~StopSignals()
{
	// Ignoring also drops what is pending.
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	sigprocmask(SIG_SETMASK, &before_, nullptr);
}

bool StopSignals::sleep(double seconds) const
{
	using namespace std::chrono;
	const auto until =
		steady_clock::now() + duration_cast<steady_clock::duration>(duration<double>(seconds));

	for (;;) {
		const auto left = std::max<std::int64_t>(
			duration_cast<nanoseconds>(until - steady_clock::now()).count(), 0);
		const timespec wait = {static_cast<time_t>(left / 1000000000),
				       static_cast<long>(left % 1000000000)};

		if (const int taken = sigtimedwait(&set_, nullptr, &wait); taken >= 0) {
			raise(taken); // print() is to see it, too
			return true;
		}
		if (errno == EAGAIN)
			return false;
	}
}

std::string local_time(std::int64_t time_ns)
{
	const auto seconds = static_cast<std::time_t>(time_ns / 1000000000);

	std::array<char, 32> day{};
	std::array<char, 8> zone{};
	std::tm parts{};

	localtime_r(&seconds, &parts);
	std::strftime(day.data(), day.size(), "%Y-%m-%d %H:%M:%S", &parts);
	std::strftime(zone.data(), zone.size(), "%z", &parts);
	return fmt::format("{}.{:03} {}", day.data(), time_ns / 1000000 % 1000, zone.data());
}

std::string redraw(std::vector<std::string> lines, const Terminal &terminal, const std::string &more)
{
	// What is wider than the screen would scroll its top away.
	std::string out = "\x1b[?7l\x1b[H";

	if (terminal.rows > 1 && lines.size() > terminal.rows - 1) {
		const std::size_t kept = terminal.rows - 2;

		lines.resize(kept);
		lines.push_back(terminal.paint(more, Colour::dim));
	}
	for (const std::string &line : lines)
		out += line + "\x1b[K\n";
	return out + "\x1b[J\x1b[?7h";
}

Result<int> watch(double every_s, bool json, const std::string &more, const Draw &draw)
{
	const StopSignals stop;

	for (bool first = true;; first = false) {
		const Terminal terminal = standard_output();
		ASSIGN_OR_RETURN(auto lines, draw(terminal));

		if (!print(json ? fmt::format("{}", fmt::join(lines, "")) :
			   terminal.is_terminal ? (first ? "\x1b[2J" : "") + redraw(std::move(lines), terminal, more) :
						  fmt::format("{}\n\n", fmt::join(lines, "\n"))))
			return exit_failed;
		if (stop.sleep(every_s))
			return exit_ok;
	}
}

} // namespace swift
