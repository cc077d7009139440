// SPDX-License-Identifier: MIT
// A table of text: aligned, painted, and narrowed to the terminal by leaving out the
// columns that matter least. What is in it is the verbs' business.
#pragma once

#include <string>
#include <vector>

#include "terminal.h"

namespace swift {

inline constexpr const char *no_value = "-"; // in a cell

struct TableColumn {
	std::string title;
	bool right = false; // numbers
	unsigned rank = 0; // 0 is never left out; the highest goes first
};

struct Cell {
	std::string text;
	Colour colour = Colour::none;
};

struct Table {
	std::vector<TableColumn> columns;
	std::vector<std::vector<Cell>> rows;
};

struct RenderedTable {
	std::vector<std::string> lines; // header first
	std::vector<std::string> left_out; // titles
};

[[nodiscard]] RenderedTable render(const Table &table, const Terminal &terminal);
[[nodiscard]] std::string table_text(const Table &table, const Terminal &terminal); // its lines
// What a verb shows: the table, if it has rows, what is @between, and notes, with one on columns that were
// left out. @wide: none is.
[[nodiscard]] std::vector<std::string> screen(const Table &table, std::vector<std::string> notes, bool wide,
					      Terminal terminal, const std::vector<std::string> &between = {});

} // namespace swift
