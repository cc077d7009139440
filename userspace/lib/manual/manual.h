// SPDX-License-Identifier: MIT
// Man pages (mdoc) and completion for bash and zsh, out of the table that --help shows: names,
// options and examples are walked, and what a table cannot say comes from
// Documentation/man/PAGE.mdoc, section by section.
#pragma once

#include <map>
#include <string>

#include "result.h"

namespace CLI {
class App;
}

namespace swift {

struct ManualPage {
	std::string name; // "swiftctl-flows"
	int section = 8;
	std::string summary; // after the name
	std::map<std::string, std::string> generated = {}; // section -> mdoc, after the prose's
};

class Manual {
public:
	// @prose_dir: Documentation/man; writes @out_dir/man/manN/PAGE.N, bash/PROGRAM, zsh/_PROGRAM.
	Manual(std::string prose_dir, std::string out_dir);

	Result<void> write(const ManualPage &page) const;
	// Pages of @app and of each of its verbs, and its completion.
	Result<void> write_program(const CLI::App &app) const;

private:
	std::string prose_dir_;
	std::string out_dir_;
};

// A text as mdoc has it: nothing in it is taken for a request or an escape.
[[nodiscard]] std::string mdoc_text(const std::string &text);
} // namespace swift
