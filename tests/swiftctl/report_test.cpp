// SPDX-License-Identifier: MIT
// `swiftctl report`: every form of result, damaged ones, and text that would like to be more.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "report.h"

using namespace swift;

namespace {

constexpr const char *demo = R"({
 "schema": 1, "kernel": "6.12", "unloaded_rtt_ns": 366500,
 "runs": [
  {"cc": "swift", "n": 3, "goodput_bps": 95824894, "rtt_ns": {"avg": 2976510, "p50": 2910000, "p99": 5930000, "p999": 9160000},
   "retransmits": 0, "loss_ratio": 0.0, "jain": 0.891,
   "spread": {"goodput_bps": {"min": 95592734, "max": 95854652}, "rtt_p99_ns": {"min": 5480000, "max": 6470000}}},
  {"cc": "cubic", "n": 3, "goodput_bps": 96909515, "rtt_ns": {"avg": 15235445, "p50": 15300000, "p99": 19200000, "p999": 20800000},
   "retransmits": 476, "loss_ratio": 0.0364, "jain": 0.9889,
   "spread": {"goodput_bps": {"min": 96624582, "max": 97807146}, "rtt_p99_ns": {"min": 17400000, "max": 20300000}}}],
 "splits": {}})";

constexpr const char *lab = R"({
 "version": 1,
 "experiments": [
  {"experiment": "incast", "title": "Incast", "notes": "100 to 1", "runs": [],
   "summary": [{"cc": "swift", "case": "100 flows", "seeds": 3, "metrics": {
     "goodput_bps": {"median": 97e9, "min": 96e9, "max": 98e9},
     "rtt_ns.p99": {"median": 53375.0, "min": 50000, "max": 60000},
     "law.fabric_ns.p50": {"median": 41036.0, "min": 41000, "max": 41100},
     "law.endpoint_ns.p50": {"median": 0.0, "min": 0, "max": 0}}}],
   "expectations": [{"what": "p99 below 60 us", "verdict": "met"}]}]})";

Report read(const std::string &text)
{
	auto report = read_report("x.json", text);

	EXPECT_TRUE(report) << report.error().text();
	return report ? std::move(*report) : Report();
}

std::string report_error(const std::string &text)
{
	const auto report = read_report("x.json", text);

	return report ? "" : report.error().text();
}

bool contains(const std::string &text, const std::string &part)
{
	return text.find(part) != std::string::npos;
}

std::size_t count(const std::string &text, const std::string &part)
{
	std::size_t n = 0;

	for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
		n++;
	return n;
}

} // namespace

TEST(report, the_demo)
{
	EXPECT_EQ(report_text(read(demo), {}),
		  "swift, cubic\n"
		  "\n"
		  "cc     n       goodput Mbit/s  RTT mean ms  p50 ms               p99 ms  p99.9 ms  retransmits    loss  fairness\n"
		  "swift  3  95.8 (95.6 to 95.9)         2.98    2.91  5.93 (5.48 to 6.47)      9.16            0       0     0.891\n"
		  "cubic  3  96.9 (96.6 to 97.8)         15.2    15.3  19.2 (17.4 to 20.3)      20.8          476  0.0364     0.989\n"
		  "\n"
		  "in brackets: smallest to largest run\n");
}

TEST(report, the_lab)
{
	EXPECT_EQ(report_text(read(lab), {}),
		  "Incast\n"
		  "\n"
		  "cc                n       goodput Gbit/s               p99 us            fabric us  host ns\n"
		  "swift, 100 flows  3  97.0 (96.0 to 98.0)  53.4 (50.0 to 60.0)  41.0 (41.0 to 41.1)        0\n"
		  "\n"
		  "met: p99 below 60 us\n"
		  "\n"
		  "in brackets: smallest to largest run\n"
		  "100 to 1\n");
}

TEST(report, single_runs_are_gathered_by_name)
{
	const Report r = read(R"({"runs": [{"cc": "a", "goodput_bps": 3e6}, {"cc": "b", "goodput_bps": 9e6},
		{"cc": "a", "goodput_bps": 1e6}, {"cc": "a", "goodput_bps": 8e6}]})");

	ASSERT_EQ(r.sections.at(0).rows.size(), 2U);
	EXPECT_EQ(r.sections[0].rows[0].n, 3U);
	EXPECT_EQ(r.sections[0].rows[0].figures[0]->mid, 3e6);
	EXPECT_EQ(r.sections[0].rows[0].figures[0]->low, 1e6);
	EXPECT_EQ(r.sections[0].rows[0].figures[0]->high, 8e6);
	EXPECT_EQ(r.sections[0].rows[1].n, 1U);
	EXPECT_FALSE(r.sections[0].rows[1].figures[0]->low);
}

TEST(report, damage_is_one_line_with_file_path_and_expectation)
{
	struct {
		const char *text;
		const char *error;
	} const rows[] = {
		{"", "x.json: not JSON: parse error at line 1, column 1"},
		{"{\"runs\": [", "x.json: not JSON: parse error at line 1, column "},
		{"[]", "x.json: the whole: expected an object with runs or experiments, found array"},
		{"{}", "x.json: the whole: expected runs or experiments, found neither"},
		{R"({"schema": 2, "runs": []})", "x.json: schema: '2' (allowed: 1 to 1)"},
		{R"({"version": "1", "experiments": []})", "x.json: version: expected a number, found string"},
		{R"({"runs": {}})", "x.json: runs: expected a list, found object"},
		{R"({"runs": [{"cc": "a"}, {}]})", "x.json: runs[1].cc: expected a string, found nothing"},
		{R"({"runs": [{"cc": "a", "goodput_bps": "fast"}]})",
		 "x.json: runs[0].goodput_bps: expected a number, found string"},
		{R"({"runs": [{"cc": "a", "rtt_ns": 5}]})", "x.json: runs[0].rtt_ns: expected an object, found number"},
		{R"({"runs": [], "summary": [{"cc": "a"}]})",
		 "x.json: summary[0].metrics: expected an object, found nothing"},
		{R"({"runs": [], "summary": [{"cc": "a", "metrics": {"jain": {"median": 1, "ci95": [1]}}}]})",
		 "x.json: summary[0].metrics.jain.ci95: expected [low, high], found array"},
		{R"({"experiments": [{"summary": [{"cc": "a", "seeds": -1, "metrics": {}}]}]})",
		 "x.json: experiments[0].summary[0].seeds: '-1' (allowed: 0 to 1000000000)"},
		{R"({"runs": [], "verdicts": [7]})", "x.json: verdicts[0]: expected a string, found number"},
		{R"({"runs": [{"cc": "a", "jain": 1e999}]})", "x.json: not JSON: "},
	};

	for (const auto &r : rows) {
		EXPECT_EQ(report_error(r.text).find(r.error), 0U) << r.error << "\n" << report_error(r.text);
		EXPECT_FALSE(contains(report_error(r.text), "\n"));
	}
	EXPECT_EQ(report_error("{\"runs\":" + std::string(1000000, '[')), "x.json: nested deeper than 64");
	EXPECT_TRUE(contains(report_error("{\"runs\": [{\"cc\": \"\xff\"}]}"), "ill-formed UTF-8"));
}

TEST(report, nothing_in_a_result_becomes_markup)
{
	const std::string evil = R"({"title": "</title></script><script>alert(1)</script><!-- & \"'",
		"runs": [{"cc": "<img src=x onerror=alert(1)>", "case": "</SCRIPT><b>", "goodput_bps": 1}],
		"verdicts": ["<svg onload=alert(1)>"], "notes": ["</script>"], "x</script>": "<!--<script>"})";
	const std::vector<Report> reports = {read(evil)};

	for (const std::string &page : {plain_report_html(reports), report_html(reports)}) {
		EXPECT_FALSE(contains(page, "<img"));
		EXPECT_FALSE(contains(page, "<svg onload"));
		EXPECT_FALSE(contains(page, "</SCRIPT>"));
		EXPECT_FALSE(contains(page, "<script>alert"));
		EXPECT_FALSE(contains(page, "<!--"));
		// As many ends as beginnings: none was smuggled in.
		EXPECT_EQ(count(page, "</script>"), count(page, "<script"));
		EXPECT_TRUE(contains(page, "\\u003c/script>"));
		EXPECT_TRUE(contains(page, "default-src 'none'"));
		EXPECT_FALSE(contains(page, "src=\"http"));
	}
	EXPECT_TRUE(contains(plain_report_html(reports), "&lt;img src=x onerror=alert(1)&gt;"));

	const std::string markdown = report_markdown(reports);

	EXPECT_FALSE(contains(markdown, "<"));
	EXPECT_TRUE(contains(markdown, "&lt;img src=x onerror=alert\\(1\\)&gt;"));
}

TEST(report, nothing_in_a_result_reaches_the_terminal_or_the_table)
{
	const Report r = read(R"({"title": "\u001b]0;x\u0007 a\nb", "runs": [{"cc": "c\u001b[31m|d\u009b", "goodput_bps": 1}]})");
	const std::string text = report_text(r, {});

	EXPECT_EQ(text.find("?]0;x? a b\n"), 0U) << text;
	EXPECT_TRUE(contains(text, "c?[31m|d?"));
	EXPECT_FALSE(contains(text, "\x1b"));
	EXPECT_TRUE(contains(report_markdown({r}), "| c?\\[31m\\|d?? |"));
}

TEST(report, several_files_are_one_page)
{
	const std::string page = report_html({read(demo), read(lab)});

	EXPECT_TRUE(contains(page, "\"experiments\""));
	EXPECT_TRUE(contains(page, "95824894"));
	EXPECT_TRUE(contains(page, "Incast"));
	EXPECT_EQ(count(report_markdown({read(demo), read(lab)}), "\n| --- |"), 2U);
}

TEST(report, markdown)
{
	EXPECT_EQ(report_markdown({read(lab)}),
		  "## Incast\n"
		  "\n"
		  "- met: p99 below 60 us\n"
		  "\n"
		  "| cc | n | goodput Gbit/s | p99 us | fabric us | host ns |\n"
		  "| --- | ---: | ---: | ---: | ---: | ---: |\n"
		  "| swift, 100 flows | 3 | 97.0 \\(96.0 to 98.0\\) | 53.4 \\(50.0 to 60.0\\) | 41.0 \\(41.0 to 41.1\\) | 0 |\n"
		  "\n"
		  "In brackets: smallest to largest run.\n"
		  "\n"
		  "100 to 1\n");
}

TEST(report, files_are_all_or_nothing_and_devices_stay_devices)
{
	const auto dir = std::filesystem::temp_directory_path() / ("swiftctl-report-" + std::to_string(getpid()));
	const std::string file = dir / "out.html";

	std::filesystem::create_directories(dir);
	ASSERT_TRUE(write_report(file, "first"));
	ASSERT_TRUE(write_report(file, "second"));
	std::ifstream in(file);
	EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), "second");
	EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir), {}), 1);
	ASSERT_TRUE(write_report("/dev/null", "x"));
	EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
	EXPECT_FALSE(write_report((dir / "none/out.html").string(), "x"));
	EXPECT_FALSE(can_write_report(dir.string()));
	std::filesystem::remove_all(dir);
}

TEST(report, figures)
{
	using Unit = ReportColumn::Unit;
	struct {
		Unit unit;
		double value;
		double scale;
		const char *text;
	} const rows[] = {{Unit::bps, 95824894, 96909515, "95.8"}, {Unit::bps, 97803700000, 97803700000, "97.8"},
			  {Unit::ns, 2910000, 5930000, "2910"},	   {Unit::ns, 15300000, 19200000, "15.3"},
			  {Unit::ns, 0, 500, "0"},		   {Unit::ratio, 0.0363655, 1, "0.0364"},
			  {Unit::ratio, 0.00001234, 1, "1.23e-05"}, {Unit::index, 0.95, 1, "0.950"},
			  {Unit::count, 3, 3, "3"},		   {Unit::count, 3.5, 3, "3.50"}};

	for (const auto &r : rows)
		EXPECT_EQ(figure_text(r.unit, r.value, r.scale), r.text);
}
