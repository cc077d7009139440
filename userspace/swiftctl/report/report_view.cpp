// SPDX-License-Identifier: MIT
// A report as text, as Markdown, and as a page. What comes from a file is text and nothing
// else: no terminal's commands, no Markdown, no markup.
#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "assets.h"
#include "printable.h"
#include "report.h"
#include "table.h"

namespace swift {

namespace {

struct Scale {
	double from;
	double unit;
	const char *name;
};

constexpr Scale rates[] = {{1e9, 1e9, "Gbit/s"}, {1e6, 1e6, "Mbit/s"}, {1e3, 1e3, "kbit/s"}, {0, 1, "bit/s"}};
constexpr Scale times[] = {{1e9, 1e9, "s"}, {1e7, 1e6, "ms"}, {1e3, 1e3, "us"}, {0, 1, "ns"}};

template <std::size_t N> const Scale &fitting(const Scale (&scales)[N], double value)
{
	for (const Scale &s : scales)
		if (std::abs(value) >= s.from)
			return s;
	return scales[N - 1];
}

const char *unit_name(ReportColumn::Unit unit, double scale)
{
	switch (unit) {
	case ReportColumn::Unit::bps:
		return fitting(rates, scale).name;
	case ReportColumn::Unit::ns:
		return fitting(times, scale).name;
	default:
		return "";
	}
}

// Three digits are all that such figures are worth; of whole numbers, all.
std::string digits(double v)
{
	const double size = std::abs(v);

	if (size == 0)
		return "0";
	if (size >= 1e6 || size < 1e-3)
		return fmt::format("{:.3g}", v);
	return fmt::format("{:.{}f}", v, size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 4);
}

// Nothing that a terminal would obey.
std::string harmless(std::string text)
{
	std::replace_if(text.begin(), text.end(), [](char c) { return c == '\n' || c == '\t'; }, ' ');
	return printable(text);
}

std::string escaped(const std::string &text, bool markdown)
{
	static constexpr std::array<std::pair<char, std::string_view>, 5> entities = {
		{{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&#39;"}}};
	std::string out;

	for (const char c : harmless(text)) {
		const auto *entity = std::find_if(entities.begin(), entities.end(), [&](const auto &e) { return e.first == c; });

		if (markdown && std::string_view("\\|`*_[]()#!~").find(c) != std::string_view::npos)
			out += '\\';
		out += entity != entities.end() ? std::string(entity->second) : std::string(1, c);
	}
	return out;
}

struct View {
	std::vector<std::string> titles;
	std::vector<std::vector<std::string>> rows;
};

bool has_spread(const std::optional<ReportFigure> &f)
{
	return f && f->low && f->high && *f->low != *f->high;
}

// The figures of one section as words; a column in which there is nothing is left out.
View view_of(const ReportSection &section)
{
	View view;

	view.titles = {"cc", "n"};
	for (const ReportRow &row : section.rows)
		view.rows.push_back({row.name, row.failed ? fmt::format("{} ({} failed)", row.n, row.failed) :
							    std::to_string(row.n)});
	for (std::size_t i = 0; i < report_columns().size(); i++) {
		const ReportColumn &column = report_columns()[i];
		double scale = 0;
		bool any = false;

		for (const ReportRow &row : section.rows)
			if (row.figures[i]) {
				any = true;
				scale = std::max(scale, std::abs(row.figures[i]->mid));
			}
		if (!any)
			continue;
		const std::string unit = unit_name(column.unit, scale);

		view.titles.push_back(column.title + (unit.empty() ? "" : " " + unit));
		for (std::size_t r = 0; r < section.rows.size(); r++) {
			const auto &f = section.rows[r].figures[i];

			view.rows[r].push_back(
				!f	      ? "-" :
				has_spread(f) ? fmt::format("{} ({} to {})", figure_text(column.unit, f->mid, scale),
							    figure_text(column.unit, *f->low, scale),
							    figure_text(column.unit, *f->high, scale)) :
						figure_text(column.unit, f->mid, scale));
		}
	}
	return view;
}

// In JSON '<' stands inside strings alone, where this spelling means the same.
std::string script_safe(const std::string &json)
{
	std::string out;

	for (const char c : json)
		if (c == '<')
			out += "\\u003c";
		else
			out += c;
	return out;
}

std::string json_text(const std::vector<Report> &reports)
{
	if (reports.size() == 1)
		return reports.front().json.dump(1, ' ', true, Json::error_handler_t::replace);

	Json all = {{"experiments", Json::array()}};

	for (const Report &report : reports)
		if (const auto inner = report.json.find("experiments"); inner != report.json.end())
			for (const Json &one : *inner)
				all["experiments"].push_back(one);
		else
			all["experiments"].push_back(report.json);
	return all.dump(1, ' ', true, Json::error_handler_t::replace);
}

} // namespace

std::string figure_text(ReportColumn::Unit unit, double value, double scale)
{
	switch (unit) {
	case ReportColumn::Unit::bps:
		return digits(value / fitting(rates, scale).unit);
	case ReportColumn::Unit::ns:
		return digits(value / fitting(times, scale).unit);
	case ReportColumn::Unit::index:
		return fmt::format("{:.3f}", value);
	case ReportColumn::Unit::count:
		return value == std::floor(value) ? fmt::format("{:.0f}", value) : digits(value);
	default:
		return digits(value);
	}
}

std::string report_text(const Report &report, const Terminal &terminal)
{
	std::string text;

	for (const ReportSection &section : report.sections) {
		const View view = view_of(section);
		Table table;
		std::vector<std::string> after;

		for (std::size_t i = 0; i < view.titles.size(); i++)
			table.columns.push_back({view.titles[i], i > 0, 0});
		for (const auto &row : view.rows) {
			table.rows.emplace_back();
			for (const std::string &cell : row)
				table.rows.back().push_back({harmless(cell)});
		}
		text += (text.empty() ? "" : "\n") + terminal.paint(harmless(section.title), Colour::bold) + "\n\n";

		Terminal wide = terminal;

		wide.columns = 0;
		text += table_text(table, wide);
		if (!section.spread.empty())
			after.push_back("in brackets: " + section.spread);
		if (!section.verdicts.empty())
			text += "\n";
		for (const std::string &verdict : section.verdicts)
			text += harmless(verdict) + "\n";
		after.insert(after.end(), section.notes.begin(), section.notes.end());
		if (!after.empty())
			text += "\n";
		for (const std::string &line : after)
			text += terminal.paint(harmless(line), Colour::dim) + "\n";
	}
	return text;
}

std::string report_markdown(const std::vector<Report> &reports)
{
	std::string text;
	const auto cells = [](const std::vector<std::string> &row) {
		std::string line = "|";

		for (const std::string &cell : row)
			line += " " + escaped(cell, true) + " |";
		return line + "\n";
	};

	for (const Report &report : reports)
		for (const ReportSection &section : report.sections) {
			const View view = view_of(section);

			text += (text.empty() ? "" : "\n") + ("## " + escaped(section.title, true)) + "\n\n";
			for (const std::string &verdict : section.verdicts)
				text += "- " + escaped(verdict, true) + "\n";
			text += (section.verdicts.empty() ? "" : "\n") + cells(view.titles);
			text += "| --- |";
			for (std::size_t i = 1; i < view.titles.size(); i++)
				text += " ---: |";
			text += "\n";
			for (const auto &row : view.rows)
				text += cells(row);
			if (!section.spread.empty())
				text += std::string("\n") + "In brackets: " + section.spread + ".\n";
			for (const std::string &note : section.notes)
				text += "\n" + escaped(note, true) + "\n";
		}
	return text;
}

std::string plain_report_html(const std::vector<Report> &reports)
{
	std::string body;
	std::string title;
	const auto cells = [](const char *tag, const std::vector<std::string> &row) {
		std::string line = "<tr>";

		for (const std::string &cell : row)
			line += fmt::format("<{0}>{1}</{0}>", tag, escaped(cell, false));
		return line + "</tr>\n";
	};

	for (const Report &report : reports)
		for (const ReportSection &section : report.sections) {
			const View view = view_of(section);

			title = title.empty() ? section.title : title;
			body += "<h1>" + escaped(section.title, false) + "</h1>\n";
			for (const std::string &verdict : section.verdicts)
				body += "<p><b>" + escaped(verdict, false) + "</b></p>\n";
			body += "<table>\n" + cells("th", view.titles);
			for (const auto &row : view.rows)
				body += cells("td", row);
			body += "</table>\n";
			if (!section.spread.empty())
				body += "<p>In brackets: " + section.spread + ".</p>\n";
			for (const std::string &note : section.notes)
				body += "<p>" + escaped(note, false) + "</p>\n";
		}
	return "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
	       "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
	       "<title>" +
	       escaped(title, false) +
	       "</title>\n<style>body{font:14px sans-serif;max-width:70em;margin:2em auto}"
	       "table{border-collapse:collapse}td,th{padding:.3em .8em;border-bottom:1px solid #ccc;text-align:right}"
	       "td:first-child,th:first-child{text-align:left}</style>\n</head>\n<body>\n" +
	       body + "<script type=\"application/json\" id=\"result\">" + script_safe(json_text(reports)) +
	       "</script>\n</body>\n</html>\n";
}

std::string report_html(const std::vector<Report> &reports)
{
	const std::string page = report_page(json_text(reports));

	return page.empty() ? plain_report_html(reports) : page;
}

} // namespace swift
