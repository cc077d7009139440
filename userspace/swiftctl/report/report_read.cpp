// SPDX-License-Identifier: MIT
// The forms that results have: runs[] alone (the demo), runs[] with summary[] (A/B tests),
// and experiments[] of those (the lab).
#include <algorithm>

#include "report.h"
#include "statistics.h"

namespace swift {

namespace {

constexpr double any = 1e300;

struct Source {
	ReportColumn column;
	std::vector<std::string> paths; // the first that is there
};

const std::vector<Source> &sources()
{
	using Unit = ReportColumn::Unit;
	static const std::vector<Source> all = {
		{{"goodput", Unit::bps}, {"goodput_bps"}},
		{{"RTT mean", Unit::ns}, {"rtt_ns.avg"}},
		{{"p50", Unit::ns}, {"rtt_ns.p50"}},
		{{"p99", Unit::ns}, {"rtt_ns.p99"}},
		{{"p99.9", Unit::ns}, {"rtt_ns.p999"}},
		{{"answers/s", Unit::count}, {"rr_per_s"}},
		{{"answer p50", Unit::ns}, {"rr_ns.p50"}},
		{{"answer p90", Unit::ns}, {"rr_ns.p90"}},
		{{"answer p99", Unit::ns}, {"rr_ns.p99"}},
		{{"answer p99.9", Unit::ns}, {"rr_ns.p999"}},
		{{"fabric", Unit::ns}, {"law.fabric_ns.p50", "fabric_ns"}},
		{{"host", Unit::ns}, {"law.endpoint_ns.p50", "endpoint_ns"}},
		{{"retransmits", Unit::count}, {"retransmits", "counters.retrans"}},
		{{"loss", Unit::ratio}, {"loss_ratio"}},
		{{"fairness", Unit::index}, {"jain"}},
	};

	return all;
}

// A member of a member: "rtt_ns.p99".
JsonNode at(const JsonNode &node, const std::string &path)
{
	const auto dot = path.find('.');

	return dot == std::string::npos ? node[path] : at(node[path.substr(0, dot)], path.substr(dot + 1));
}

std::string name_of(const JsonNode &row)
{
	const std::string cc = row["cc"].text();
	const std::string kase = row["case"].maybe_text();

	return kase.empty() ? cc : cc + ", " + kase;
}

std::size_t count_of(const JsonNode &node)
{
	return node.exists() ? static_cast<std::size_t>(node.number(0, 1e9)) : 0;
}

// Lists may hold anything that is text, or has one.
std::vector<std::string> texts(const JsonNode &node)
{
	std::vector<std::string> found;

	if (node.exists() && node.json().is_string())
		return {node.text()};
	for (const JsonNode &one : node.list())
		found.push_back(one.is_object() ? one["text"].text() : one.text());
	return found;
}

// {median, ci95: [low, high]} or {median, min, max}
ReportFigure summarised(const JsonNode &metric)
{
	ReportFigure f;

	f.mid = metric["median"].number(-any, any);
	if (const JsonNode ci = metric["ci95"]; ci.exists()) {
		const auto ends = ci.list();

		if (ends.size() != 2) {
			ci.complain("[low, high]");
			return f;
		}
		f.low = ends[0].number();
		f.high = ends[1].number();
	} else {
		f.low = metric["min"].maybe_number();
		f.high = metric["max"].maybe_number();
	}
	return f;
}

ReportRow summary_row(const JsonNode &node)
{
	ReportRow row;
	const JsonNode metrics = node["metrics"].required("an object");

	row.name = name_of(node);
	row.n = count_of(node["n"].exists() ? node["n"] : node["seeds"]);
	row.failed = count_of(node["failed"]);
	for (const Source &source : sources()) {
		std::optional<ReportFigure> figure;

		for (const std::string &path : source.paths)
			if (const JsonNode metric = metrics[path]; !figure && metric.exists())
				figure = summarised(metric);
		row.figures.push_back(figure);
	}
	return row;
}

// Rows out of single runs: the median of those with the same name, and how far they go.
std::vector<ReportRow> rows_of(const std::vector<JsonNode> &runs)
{
	std::vector<ReportRow> rows;
	std::vector<std::vector<JsonNode>> same;

	for (const JsonNode &run : runs) {
		const std::string name = name_of(run);
		const auto found =
			std::find_if(rows.begin(), rows.end(), [&](const ReportRow &r) { return r.name == name; });

		if (found == rows.end()) {
			rows.push_back({name, 0, 0, {}});
			same.push_back({run});
		} else {
			same[static_cast<std::size_t>(found - rows.begin())].push_back(run);
		}
	}
	for (std::size_t i = 0; i < rows.size(); i++) {
		// The demo's are summaries of n runs already, with the spread beside.
		const JsonNode spread = same[i].front()["spread"];

		rows[i].n = same[i].size() == 1 && spread.exists() ? count_of(same[i].front()["n"]) : same[i].size();
		for (const Source &source : sources()) {
			std::vector<double> values;

			for (const JsonNode &run : same[i])
				for (const std::string &path : source.paths)
					if (const auto v = at(run, path).maybe_number()) {
						values.push_back(*v);
						break;
					}
			if (values.empty()) {
				rows[i].figures.emplace_back();
				continue;
			}
			ReportFigure f{median(values), {}, {}};

			if (values.size() > 1) {
				f.low = *std::min_element(values.begin(), values.end());
				f.high = *std::max_element(values.begin(), values.end());
			} else if (spread.exists()) {
				const std::string beside =
					source.paths[0] == "rtt_ns.p99" ? "rtt_p99_ns" : source.paths[0];

				if (const JsonNode s = spread[beside]; s.exists()) {
					f.low = s["min"].maybe_number();
					f.high = s["max"].maybe_number();
				}
			}
			rows[i].figures.push_back(f);
		}
	}
	return rows;
}

ReportSection section_of(const JsonNode &node)
{
	ReportSection s;
	const JsonNode summary = node["summary"];
	bool ci = false;
	bool spread = false;

	s.title = node["title"].maybe_text();
	if (s.title.empty())
		s.title = node["experiment"].maybe_text();
	if (summary.exists())
		for (const JsonNode &one : summary.list()) {
			s.rows.push_back(summary_row(one));
			for (const auto &[name, metric] : one["metrics"].members())
				ci |= metric.is_object() && metric["ci95"].exists();
		}
	else
		s.rows = rows_of(node["runs"].required("a list of runs").list());
	for (const ReportRow &row : s.rows)
		for (const auto &figure : row.figures)
			spread |= figure && figure->low && figure->low != figure->high;
	if (spread)
		s.spread = ci ? "95 % confidence interval of the median" : "smallest to largest run";
	if (s.title.empty())
		for (const ReportRow &row : s.rows)
			s.title += (s.title.empty() ? "" : ", ") + row.name;
	for (const char *key : {"verdict", "verdicts"})
		for (std::string &text : texts(node[key]))
			s.verdicts.push_back(std::move(text));
	// The lab's: what the paper said, and whether it came out so.
	for (const JsonNode &one : node["expectations"].list())
		s.verdicts.push_back(one["verdict"].text() + ": " + one["what"].text());
	for (std::string &text : texts(node["notes"]))
		if (!text.empty())
			s.notes.push_back(std::move(text));
	for (const JsonNode &one : node["failed"].list())
		s.notes.push_back("left out: " + one["cc"].text() + ", block " +
				  std::to_string(count_of(one["block"])) + ": " + one["reason"].text());
	return s;
}

} // namespace

const std::vector<ReportColumn> &report_columns()
{
	static const std::vector<ReportColumn> columns = [] {
		std::vector<ReportColumn> c;

		for (const Source &s : sources())
			c.push_back(s.column);
		return c;
	}();

	return columns;
}

Result<Report> read_report(const std::string &name, std::string_view text)
{
	ASSIGN_OR_RETURN(auto json, prefixed(name + ": ", parse_json(text)));

	Report report;
	std::optional<Error> wrong;
	const JsonNode root(json, wrong);

	if (!root.is_object())
		root.complain("an object with runs or experiments");
	else if (!root["runs"].exists() && !root["experiments"].exists())
		wrong = Error{"the whole: expected runs or experiments, found neither"};
	for (const char *key : {"schema", "version"})
		if (!wrong && root[key].exists() && root[key].number(1, 1) != 1)
			break; // another than ours: it has complained
	if (!wrong && root["experiments"].exists())
		for (const JsonNode &one : root["experiments"].list())
			report.sections.push_back(section_of(one));
	else if (!wrong)
		report.sections.push_back(section_of(root));
	if (wrong)
		return Error{name + ": " + wrong->text()};
	report.json = std::move(json);
	return report;
}

} // namespace swift
