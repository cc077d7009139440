// SPDX-License-Identifier: MIT
#include "table.h"

#include <fmt/format.h>

#include <algorithm>

#include "printable.h"

namespace swift {

namespace {

constexpr std::size_t gap = 2;

std::size_t width_of(const std::vector<std::size_t> &shown, const std::vector<std::size_t> &widths)
{
	std::size_t sum = 0;

	for (const std::size_t i : shown)
		sum += widths[i] + gap;
	return sum ? sum - gap : 0;
}

} // namespace

RenderedTable render(const Table &given, const Terminal &terminal)
{
	Table table = given;
	std::vector<std::size_t> widths;
	std::vector<std::size_t> shown;
	RenderedTable out;

	for (auto &row : table.rows)
		for (Cell &cell : row)
			cell.text = printable(cell.text);
	for (std::size_t i = 0; i < table.columns.size(); i++) {
		std::size_t width = table.columns[i].title.size();

		for (const auto &row : table.rows)
			width = std::max(width, row[i].text.size());
		widths.push_back(width);
		shown.push_back(i);
	}
	while (terminal.columns && width_of(shown, widths) > terminal.columns) {
		const auto least = std::max_element(
			shown.begin(), shown.end(), [&](std::size_t a, std::size_t b) {
				return table.columns[a].rank < table.columns[b].rank;
			});

		if (least == shown.end() || table.columns[*least].rank == 0)
			break;
		out.left_out.push_back(table.columns[*least].title);
		shown.erase(least);
	}

	const auto line = [&](auto &&cell_of) {
		std::string text;

		for (std::size_t n = 0; n < shown.size(); n++) {
			const std::size_t i = shown[n];
			const Cell cell = cell_of(i);
			const std::string pad(widths[i] - cell.text.size(), ' ');
			const std::string painted = terminal.paint(cell.text, cell.colour);
			const bool last = n + 1 == shown.size();

			if (table.columns[i].right)
				text += pad + painted;
			else
				text += painted + (last ? "" : pad);
			if (!last)
				text += std::string(gap, ' ');
		}
		return text;
	};

	out.lines.push_back(line(
		[&](std::size_t i) { return Cell{table.columns[i].title, Colour::bold}; }));
	for (const auto &row : table.rows)
		out.lines.push_back(line([&](std::size_t i) { return row[i]; }));
	return out;
}

std::string table_text(const Table &table, const Terminal &terminal)
{
	return fmt::format("{}\n", fmt::join(render(table, terminal).lines, "\n"));
}

std::vector<std::string> screen(const Table &table, std::vector<std::string> notes, bool wide,
				Terminal terminal, const std::vector<std::string> &between)
{
	std::vector<std::string> lines;

	if (wide)
		terminal.columns = 0;
	if (!table.rows.empty()) {
		RenderedTable rendered = render(table, terminal);

		lines = std::move(rendered.lines);
		if (!rendered.left_out.empty())
			notes.push_back(fmt::format("left out to fit: {}; --wide shows them",
						    fmt::join(rendered.left_out, ", ")));
	}
	lines.insert(lines.end(), between.begin(), between.end());
	for (const std::string &text : notes)
		lines.push_back(terminal.paint(text, Colour::dim));
	return lines;
}

} // namespace swift
