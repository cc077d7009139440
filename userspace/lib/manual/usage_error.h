// SPDX-License-Identifier: MIT
// A wrong command line, in one line.
#pragma once

#include <optional>
#include <string>

namespace CLI {
class App;
class ParseError;
}

namespace swift {

// What is wrong, without the program's name: an option or argument that nobody wants before what is missing, or one
// who mistypes an option is told of another.
[[nodiscard]] std::string usage_error(const CLI::ParseError &error, const CLI::App &program);

// --name= of a script whose variable is not set: CLI11 takes the next word for its value. None: there is no such word.
[[nodiscard]] std::optional<std::string> option_without_value(int argc, const char *const *argv);

} // namespace swift
