// SPDX-License-Identifier: MIT
#include "toml_depth.h"

#include <algorithm>
#include <cstddef>

namespace swift {

namespace {

constexpr std::size_t deepest = 16; // brackets within brackets
constexpr std::size_t most_dots = 16; // of a key

// Where the string that begins at @at ends; one without an end, at its line's or the file's.
std::size_t behind_string(std::string_view toml, std::size_t at)
{
	const char quote = toml[at];
	const std::string_view three = quote == '"' ? R"(""")" : "'''";
	const bool lines = toml.substr(at).starts_with(three);

	for (at += lines ? 3 : 1; at < toml.size(); at++) {
		if (quote == '"' && toml[at] == '\\')
			at++;
		else if (lines && toml.substr(at).starts_with(three)) { // two more may be the string's own
			at += 3;
			for (int i = 0; i < 2 && at < toml.size() && toml[at] == quote; i++)
				at++;
			return at;
		} else if (!lines && (toml[at] == quote || toml[at] == '\n'))
			return at + 1;
	}
	return toml.size();
}

} // namespace

bool toml_is_deep(std::string_view toml)
{
	std::size_t depth = 0, dots = 0;

	for (std::size_t at = 0; at < toml.size();) {
		const char c = toml[at];

		if (c == '"' || c == '\'') {
			at = behind_string(toml, at);
			continue;
		}
		if (c == '#') {
			at = std::min(toml.find('\n', at), toml.size());
			continue;
		}
		if (c == '[' || c == '{')
			depth++;
		else if ((c == ']' || c == '}') && depth > 0)
			depth--;
		if (c == '.')
			dots++;
		else if (std::string_view("[]{}=,\n").find(c) != std::string_view::npos)
			dots = 0;
		if (c == '\n' && depth < 2) // a bracket without an end is the parser's to tell
			depth = 0;
		if (depth > deepest || dots > most_dots)
			return true;
		at++;
	}
	return false;
}

} // namespace swift
