/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Golden traces: each file of golden/ tells a story, event by event, with the
 * windows that it leads to. A change of the law shows here as a change of text.
 *
 *   # comment                      name=value of a tunable, defaults otherwise
 *   <event> <name>=<value>... -> fcwnd=<packets> ecwnd=<packets> target_us=<us>
 *
 * Events: ack, loss, timeout, undo, idle, and note, the start of a loss episode.
 * What stands behind the arrow is expected; SWIFT_GOLDEN_UPDATE=1 rewrites it,
 * to be reviewed as a diff before it is committed.
 */
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <vector>

#include "flow.hpp"

namespace {

struct Line {
	std::string event; /* empty: not an event, kept as it is */
	std::map<std::string, double> values;
	std::string text; /* up to the arrow */
};

Line parse_line(const std::string &raw)
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

/* Takes a value out, so that what is left over at the end is a misspelling. */
double take(Line &line, const char *name, double otherwise)
{
	auto it = line.values.find(name);
	double value = it == line.values.end() ? otherwise : it->second;

	if (it != line.values.end())
		line.values.erase(it);
	return value;
}

void apply(Flow &flow, Line &line)
{
	flow.now_ns = u64(take(line, "now_us", 0)) * 1000 + seconds(1000);

	if (line.event == "ack") {
		flow.ack({.rtt_ns = us(take(line, "rtt_us", 0)),
			  .remote_ns = us(take(line, "remote_us", 0)),
			  .local_ns = us(take(line, "local_us", 0)),
			  .acked_pkts = u32(take(line, "acked", 1)),
			  .hops = u8(take(line, "hops", 0)),
			  .has_echo = take(line, "echo", 1) != 0,
			  .cwnd_limited = take(line, "limited", 1) != 0});
	} else if (line.event == "note") {
		swift_note_undo(&flow.s);
	} else if (line.event == "loss") {
		flow.loss(us(take(line, "rtt_us", 0)));
	} else if (line.event == "timeout") {
		flow.timeout(us(take(line, "rtt_us", 0)));
	} else if (line.event == "undo") {
		swift_undo(&flow.s, &flow.p);
	} else if (line.event == "idle") {
		swift_on_idle_restart(&flow.s, &flow.p, u32(take(line, "rtos", 1)));
	} else {
		ADD_FAILURE() << "no such event: " << line.text;
	}
	EXPECT_TRUE(line.values.empty()) << "unknown value in: " << line.text;
}

std::string outcome(const Flow &flow)
{
	char text[100];

	std::snprintf(text, sizeof(text), " -> fcwnd=%.4f ecwnd=%.4f target_us=%.1f", flow.fcwnd(),
		      flow.ecwnd(), flow.v.fabric_target_ns / 1000.0);
	return text;
}

class golden : public testing::TestWithParam<std::string> {};

TEST_P(golden, trace)
{
	const std::string path = std::string(SWIFT_GOLDEN_DIR) + "/" + GetParam() + ".txt";
	swift_tunables t = tunables();
	std::vector<Line> lines;
	std::vector<std::string> expected;
	std::string raw, actual;
	size_t events = 0;

	std::ifstream in(path);
	while (std::getline(in, raw)) {
		lines.push_back(parse_line(raw));
		expected.push_back(raw);
		if (!lines.back().event.empty())
			continue;
		for (auto &[name, value] : lines.back().values)
			EXPECT_TRUE(set_tunable(t, name, u32(value))) << name;
	}

	Flow flow(t);

	for (size_t i = 0; i < lines.size(); i++) {
		std::string line = lines[i].text;

		if (!lines[i].event.empty()) {
			apply(flow, lines[i]);
			line += outcome(flow);
			events++;
		}
		actual += line + "\n";
		if (!std::getenv("SWIFT_GOLDEN_UPDATE")) {
			EXPECT_EQ(line, expected[i]) << path << ":" << i + 1;
		}
	}
	EXPECT_GT(events, 0U) << path;
	if (std::getenv("SWIFT_GOLDEN_UPDATE"))
		std::ofstream(path) << actual;
}

std::vector<std::string> traces()
{
	std::vector<std::string> names;

	for (auto &entry : std::filesystem::directory_iterator(SWIFT_GOLDEN_DIR))
		if (entry.path().extension() == ".txt")
			names.push_back(entry.path().stem());
	std::sort(names.begin(), names.end());
	return names;
}

INSTANTIATE_TEST_SUITE_P(traces, golden, testing::ValuesIn(traces()),
			 [](const auto &test) { return test.param; });

} /* namespace */
