// SPDX-License-Identifier: MIT
// A wrong command line, in one line.
#pragma once

#include <string>

namespace CLI {
class App;
class ParseError;
}

namespace swift {

// What is wrong, without the program's name: an option or argument that nobody wants before what is missing, or one
// who mistypes an option is told of another.
[[nodiscard]] std::string usage_error(const CLI::ParseError &error, const CLI::App &program);

} // namespace swift
