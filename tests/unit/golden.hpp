/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Reads golden traces: golden/NAME.txt, whose format test_golden.cpp describes. What is
 * done with the events is the reader's business: test_golden.cpp, tests/bpf/equality.cpp.
 */
#pragma once

#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "flow.hpp"

namespace golden {

struct Line {
	std::string event; /* empty: not an event, kept as it is */
	std::map<std::string, double> values;
	std::string text; /* up to the arrow */

	/* Takes a value out, so that what is left over at the end is a misspelling. */
	double take(const char *name, double otherwise)
	{
		auto it = values.find(name);
		double value = it == values.end() ? otherwise : it->second;

		if (it != values.end())
			values.erase(it);
		return value;
	}
};

struct Event {
	std::string name; /* ack, loss, timeout, undo, idle, note */
	u64 now_ns = 0;
	u32 rtt_ns = 0; /* of a loss or timeout */
	u32 idle_rtos = 0;
	swift_sample sample{}; /* of an ack */
};

struct Trace {
	swift_tunables tunables;
	std::vector<Line> lines;
	std::vector<std::string> raw; /* the same, whole */
};

inline Line parse_line(const std::string &raw)
{
	Line line;
	std::string word;

	line.text = raw.substr(0, raw.find(" ->"));
	if (raw.empty() || raw[0] == '#')
		return line;

	std::istringstream in(line.text);

	while (in >> word) {
		size_t eq = word.find('=');

		if (eq == std::string::npos)
			line.event = word;
		else
			line.values[word.substr(0, eq)] = std::stod(word.substr(eq + 1));
	}
	return line;
}

/* Throws what is wrong with it. */
inline Trace read(const std::string &path)
{
	Trace trace{tunables(), {}, {}};
	std::ifstream in(path);
	std::string raw;

	while (std::getline(in, raw)) {
		trace.lines.push_back(parse_line(raw));
		trace.raw.push_back(raw);
		if (!trace.lines.back().event.empty())
			continue;
		for (auto &[name, value] : trace.lines.back().values)
			if (!set_tunable(trace.tunables, name, u32(value)))
				throw std::runtime_error(path + ": no such tunable: " + name);
	}
	return trace;
}

inline Event event(Line line)
{
	Event e;

	e.name = line.event;
	e.now_ns = u64(line.take("now_us", 0) * 1000 + 0.5) + seconds(1000);
	if (e.name == "ack")
		e.sample = {.now_ns = e.now_ns,
			    .rtt_ns = us(line.take("rtt_us", 0)),
			    .remote_ns = us(line.take("remote_us", 0)),
			    .local_ns = us(line.take("local_us", 0)),
			    .acked_pkts = u32(line.take("acked", 1)),
			    .hops = u8(line.take("hops", 0)),
			    .echo_expected = 1,
			    .has_echo = line.take("echo", 1) != 0,
			    .cwnd_limited = line.take("limited", 1) != 0,
			    .path_base_ns = us(line.take("path_us", 0)),
			    .path_least_ns = us(line.take("path_least_us", 0)),
			    .short_sized = line.take("short", 0) != 0,
			    .own_queue = line.take("own_queue", 0) != 0};
	else if (e.name == "loss" || e.name == "timeout")
		e.rtt_ns = us(line.take("rtt_us", 0));
	else if (e.name == "idle")
		e.idle_rtos = u32(line.take("rtos", 1));
	else if (e.name != "note" && e.name != "undo")
		throw std::runtime_error("no such event: " + line.text);
	if (!line.values.empty())
		throw std::runtime_error("unknown value in: " + line.text);
	return e;
}

} /* namespace golden */
