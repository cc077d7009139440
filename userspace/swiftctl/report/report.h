// SPDX-License-Identifier: MIT
// `swiftctl report`: any result of this project, of the lab, of the demo or of `swiftctl ab`,
// as text, as Markdown or as a page. Reads and shows; computes nothing but medians.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ab_json.h"
#include "result.h"
#include "terminal.h"
#include "verb.h"

namespace swift {

struct ReportFigure {
	double mid = 0; // a median
	std::optional<double> low;
	std::optional<double> high;
};

struct ReportRow {
	std::string name; // "swift", "swift, 100 flows"
	std::size_t n = 0;
	std::size_t failed = 0;
	std::vector<std::optional<ReportFigure>> figures; // as report_columns()
};

struct ReportColumn {
	const char *title; // "p99"
	enum class Unit { bps, ns, ratio, index, count } unit;
};
[[nodiscard]] const std::vector<ReportColumn> &report_columns();

struct ReportSection {
	std::string title;
	std::string spread; // what low and high are; empty: there are none
	std::vector<ReportRow> rows;
	std::vector<std::string> verdicts;
	std::vector<std::string> notes;
};

struct Report {
	std::vector<ReportSection> sections;
	Json json; // as it was read
};

// @name is the file's, for errors.
Result<Report> read_report(const std::string &name, std::string_view text);

[[nodiscard]] std::string report_text(const Report &report, const Terminal &terminal);
[[nodiscard]] std::string report_markdown(const std::vector<Report> &reports);
// With charts; in a build without the dashboard a table. Needs no other file.
[[nodiscard]] std::string report_html(const std::vector<Report> &reports);
// The one without charts.
[[nodiscard]] std::string plain_report_html(const std::vector<Report> &reports);

// "95.8 Mbit/s", "2.91 ms"; in one unit for a whole column: @scale is its largest value.
[[nodiscard]] std::string figure_text(ReportColumn::Unit unit, double value, double scale);

// All or nothing; into a device or a pipe, as it comes.
// Of two options that each write one: an Error if they name the same.
Result<void> two_files(const std::string &one, const std::string &path, const std::string &other, const std::string &other_path);
[[nodiscard]] Result<void> can_write_report(const std::string &path);
Result<void> write_report(const std::string &path, const std::string &content);

// As the command line gave them.
struct ReportOptions {
	std::vector<std::string> files;
	std::string html_file;
	std::string markdown_file;
	bool text = false;
};

void add_options(CLI::App &verb, ReportOptions &o);
Result<int> run_report(const ReportOptions &options);
extern const Verb report_verb;

} // namespace swift
