// SPDX-License-Identifier: MIT
// `swiftctl top`: destinations and flows, live. What is on the screen, and what a key does to
// it, are pure functions (top_view.cpp); the terminal and the looks at the host are top.cpp's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "socket_processes.h"
#include "summary.h"
#include "terminal.h"
#include "verb.h"

namespace swift {

// As the command line gave them.
struct TopOptions {
	std::string interval = "1"; // seconds
	std::string sort = "delay";
	std::string filter;
	std::string netns;
	bool all = false;
	bool all_netns = false;
	bool processes = false;
	bool once = false;
};

enum class TopSort : std::uint8_t { delay, fabric, host, rate, retrans };
inline constexpr std::size_t top_sorts = 5;
[[nodiscard]] std::string_view top_sort_text(TopSort s);
[[nodiscard]] std::optional<TopSort> parse_top_sort(std::string_view text);

using ProcessOf = std::function<std::optional<Process>(std::uint32_t inode, const std::string &cgroup)>;

// What is looked at.
struct TopShot {
	std::shared_ptr<const FlowSet> flows;
	Summary summary;
	std::int64_t time_ns = 0; // CLOCK_REALTIME
	bool module_loaded = false;
	ProcessOf process_of; // none: it is not asked for
	std::string netns_trouble; // why not all network namespaces are in it
};

// How it is looked at.
struct TopView {
	TopSort sort = TopSort::delay;
	std::string filter; // text in addresses, interface or congestion control
	std::optional<std::string> typing; // a new filter
	std::size_t first = 0; // flow in the list's first line
	std::size_t page = 1; // flows that fit, as of the last screen
	bool paused = false;
	bool help = false;
	bool leave = false;
};

enum class TopKey : std::uint8_t { character, enter, escape, erase, up, down, page_up, page_down, home, end };
void press(TopView &view, TopKey key, char character = 0);

struct TopSpan {
	std::string text;
	Colour colour = Colour::none;
	bool reverse = false;
};
using TopLine = std::vector<TopSpan>;
[[nodiscard]] std::string plain_text(const TopLine &line);

// Fabric '=' and hosts '#' on one scale with the target '|', which stands at two thirds.
[[nodiscard]] TopLine delay_bar(double fabric_ns, double host_ns, double target_ns, std::size_t width);

// At most @rows lines of @columns characters; 0 rows: all flows. Puts @view's list back where
// there is something to see.
[[nodiscard]] std::vector<TopLine> top_screen(const TopShot &shot, TopView &view, std::size_t columns,
					      std::size_t rows);

void add_options(CLI::App &verb, TopOptions &o);
Result<int> run_top(const TopOptions &options);
extern const Verb top_verb;

} // namespace swift
