// SPDX-License-Identifier: MIT
#include "shell_word.h"

#include <algorithm>

#include "printable.h"

namespace swift {

namespace {

constexpr std::size_t host_name_max = 255;
constexpr std::string_view host_name_marks = "-_.:@%";

bool ascii_alnum(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

// What no shell takes for anything else.
bool plain(char c)
{
	return ascii_alnum(c) || std::string_view("_-.,:/@+").find(c) != std::string_view::npos;
}

} // namespace

std::string shell_word(std::string_view text)
{
	if (!text.empty() && std::all_of(text.begin(), text.end(), plain))
		return std::string(text);

	const bool shown = printable(text) == text;
	const auto octal = [](int n) { return static_cast<char>('0' + (n & 7)); };
	std::string out = shown ? "'" : "$'";

	for (const char c : text) {
		const auto byte = static_cast<unsigned char>(c);

		if (shown)
			out += c == '\'' ? "'\\''" : std::string(1, c);
		else if (byte >= ' ' && byte < 0x7f && c != '\'' && c != '\\')
			out += c;
		else
			out += {'\\', octal(byte >> 6), octal(byte >> 3), octal(byte)};
	}
	return out + "'";
}

Result<void> check_host_name(const std::string &what, const std::string &name)
{
	if (name.empty() || name.size() > host_name_max || name.starts_with('-') ||
	    !std::all_of(name.begin(), name.end(), [](char c) { return ascii_alnum(c) || host_name_marks.find(c) != std::string_view::npos; }))
		return Error{what, name, "a host name or an address"};
	return {};
}

} // namespace swift
