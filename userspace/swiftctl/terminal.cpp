// SPDX-License-Identifier: MIT
#include "terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

namespace swift {

namespace {

std::string_view code(Colour colour)
{
	static constexpr std::array<std::string_view, 7> codes = {"", "1", "2", "31", "32", "33", "35"};

	return codes[static_cast<std::size_t>(colour)];
}

bool is_set(const char *variable)
{
	const char *value = std::getenv(variable);

	return value && *value;
}

} // namespace

std::string Terminal::paint(std::string_view text, Colour colour) const
{
	if (!colours || colour == Colour::none)
		return std::string(text);
	return "\x1b[" + std::string(code(colour)) + "m" + std::string(text) + "\x1b[0m";
}

Terminal standard_output()
{
	Terminal t;
	winsize size{};
	const char *term = std::getenv("TERM");

	t.is_terminal = isatty(STDOUT_FILENO) == 1;
	t.colours = t.is_terminal && !is_set("NO_COLOR") && term && std::string_view(term) != "dumb";
	if (t.is_terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) {
		t.columns = size.ws_col;
		t.rows = size.ws_row;
	}
	return t;
}

} // namespace swift
