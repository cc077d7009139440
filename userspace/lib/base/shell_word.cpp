// SPDX-License-Identifier: MIT
#include "shell_word.h"

#include "printable.h"
#include "text.h"

namespace swift {

namespace {

constexpr std::size_t host_name_max = 255;
constexpr std::string_view host_name_marks = "-_.:@%";

constexpr std::string_view shell_marks = "_-.,:/@+"; // what no shell takes for anything else

} // namespace

std::string shell_word(std::string_view text)
{
	if (!text.empty() && all_plain(text, shell_marks))
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

std::string netns_command(std::string_view netns, const std::string &command)
{
	if (netns.empty())
		return command;
	return (netns.starts_with('/') ? "nsenter --net=" : "ip netns exec ") + shell_word(netns) + " " + command;
}

Result<void> check_host_name(const std::string &what, const std::string &name)
{
	if (name.empty() || name.size() > host_name_max || name.starts_with('-') ||
	    !all_plain(name, host_name_marks))
		return Error{what, name, "a host name or an address"};
	return {};
}

} // namespace swift
