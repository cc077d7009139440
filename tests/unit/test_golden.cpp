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

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "golden.hpp"

namespace {

void apply(Flow &flow, const golden::Event &e)
{
	flow.now_ns = e.now_ns;
	if (e.name == "ack")
		swift_on_ack(&flow.s, &flow.p, &e.sample, &flow.v);
	else if (e.name == "note")
		swift_note_undo(&flow.s);
	else if (e.name == "loss")
		flow.loss(e.rtt_ns);
	else if (e.name == "timeout")
		flow.timeout(e.rtt_ns);
	else if (e.name == "undo")
		swift_undo(&flow.s, &flow.p);
	else if (e.name == "idle")
		swift_on_idle_restart(&flow.s, &flow.p, e.idle_rtos);
}

std::string outcome(const Flow &flow)
{
	char text[100];

	std::snprintf(text, sizeof(text), " -> fcwnd=%.4f ecwnd=%.4f target_us=%.1f", flow.fcwnd(),
		      flow.ecwnd(), flow.v.fabric_target_ns / 1000.0);
	return text;
}

class golden_trace : public testing::TestWithParam<std::string> {};

TEST_P(golden_trace, leads_to_its_windows)
{
	const std::string path = std::string(SWIFT_GOLDEN_DIR) + "/" + GetParam() + ".txt";
	const golden::Trace trace = golden::read(path);
	std::string actual;
	size_t events = 0;
	Flow flow(trace.tunables);

	for (size_t i = 0; i < trace.lines.size(); i++) {
		std::string line = trace.lines[i].text;

		if (!trace.lines[i].event.empty()) {
			apply(flow, golden::event(trace.lines[i]));
			line += outcome(flow);
			events++;
		}
		actual += line + "\n";
		if (!std::getenv("SWIFT_GOLDEN_UPDATE")) {
			EXPECT_EQ(line, trace.raw[i]) << path << ":" << i + 1;
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

INSTANTIATE_TEST_SUITE_P(traces, golden_trace, testing::ValuesIn(traces()),
			 [](const auto &test) { return test.param; });

} /* namespace */
