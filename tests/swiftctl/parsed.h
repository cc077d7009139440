// SPDX-License-Identifier: MIT
// What a verb makes of a command line, without running it.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <vector>

namespace swift_test {

// None: it is refused.
template <typename Options> std::optional<Options> parsed(std::vector<const char *> words)
{
	CLI::App verb;
	Options options;

	add_options(verb, options);
	words.insert(words.begin(), "verb");
	try {
		verb.parse(static_cast<int>(words.size()), words.data());
	} catch (const CLI::ParseError &) {
		return std::nullopt;
	}
	return options;
}

} // namespace swift_test
