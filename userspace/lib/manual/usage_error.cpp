// SPDX-License-Identifier: MIT
#include "usage_error.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <string_view>
#include <vector>

namespace swift {

std::string usage_error(const CLI::ParseError &error, const CLI::App &program)
{
	// Of "--tpo 3" the option is what is wrong.
	const std::vector<std::string> unwanted = program.remaining(true);
	const auto option = std::find_if(unwanted.begin(), unwanted.end(), [](const auto &s) { return s.starts_with('-'); });

	if (option != unwanted.end())
		return "unknown option " + option->substr(0, option->find('='));
	if (!unwanted.empty())
		return "unexpected argument " + unwanted.front();

	// CLI11's "--cc: 1 required NAME,... missing"
	const std::string_view text = error.what();
	constexpr std::string_view required = ": 1 required ";
	constexpr std::string_view missing = " missing";
	const std::size_t lack = text.find(required);

	if (lack == std::string_view::npos || !text.ends_with(missing))
		return std::string(text);
	const std::string_view value = text.substr(lack + required.size());

	return fmt::format("{}: a value is missing ({})", text.substr(0, lack), value.substr(0, value.size() - missing.size()));
}

std::optional<std::string> option_without_value(int argc, const char *const *argv)
{
	for (int i = 1; i < argc; i++)
		if (const std::string_view word = argv[i]; word.starts_with("--") && word.ends_with('='))
			return fmt::format("{} without a value", word.substr(0, word.size() - 1));
	return std::nullopt;
}

} // namespace swift
