// SPDX-License-Identifier: MIT
// The words of `swiftctl report`: options, actions, help.
#include <CLI/CLI.hpp>

#include "report.h"

namespace swift {

namespace {

constexpr const char *report_footer =
	"Reads what `swiftctl ab` and `scripts/lab run` write with --json, and the demo to result.json.\n"
	"\n"
	"Examples:\n"
	"  swiftctl report ab.json\n"
	"  swiftctl report monday.json tuesday.json --html both.html";

} // namespace

void add_options(CLI::App &verb, ReportOptions &o)
{
	verb.footer(report_footer);
	verb.add_option("file", o.files, "Results; repeatable")->type_name("");
	verb.add_option("--html", o.html_file, "Write a page with charts")->type_name("FILE");
	verb.add_option("--markdown", o.markdown_file, "Write Markdown")->type_name("FILE");
	verb.add_flag("--text", o.text, "Print text (default, unless a file is written)");
}

const Verb report_verb = {"report", "A result as text, Markdown or a page", add_verb<ReportOptions, run_report>};

} // namespace swift
