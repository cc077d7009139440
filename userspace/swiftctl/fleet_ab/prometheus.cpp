// SPDX-License-Identifier: MIT
#include "prometheus.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "ab_json.h"
#include "printable.h"
#include "text.h"

namespace swift {

namespace {

constexpr std::size_t said_max = 300; // of somebody else's words in ours

std::string percent_encoded(std::string_view text)
{
	std::string out;

	for (const char c : text)
		if (all_plain({&c, 1}, "-_."))
			out += c;
		else
			out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
	return out;
}

// Others' words, on one line.
std::string quoted_line(std::string_view text)
{
	std::string line(text.substr(0, said_max));

	std::replace(line.begin(), line.end(), '\n', ' ');
	return printable(line);
}

std::optional<double> sample_value(std::string_view text)
{
	double v = 0;
	const auto r = std::from_chars(text.data(), text.data() + text.size(), v);

	// NaN: no such thing there then; an infinite one compares with nothing.
	if (r.ec != std::errc() || r.ptr != text.data() + text.size() || !std::isfinite(v))
		return std::nullopt;
	return v;
}

class Prometheus final : public MetricSource {
public:
	Prometheus(PrometheusAccess access, HttpPost post, std::vector<std::string> &warnings)
		: access_(std::move(access)), post_(std::move(post)), warnings_(warnings)
	{
		while (access_.url.ends_with('/'))
			access_.url.pop_back();
	}

	Result<std::vector<PromSeries>> range(const RangeQuery &q) override
	{
		HttpRequest request{access_.url + "/api/v1/query_range", {"Content-Type: application/x-www-form-urlencoded"}};

		request.ca_file = access_.ca_file;
		if (!access_.authorization.empty())
			request.headers.push_back(access_.authorization);
		request.body = fmt::format("query={}&start={}&end={}&step={}", percent_encoded(q.query), q.start_s, q.end_s, q.step_s);

		ASSIGN_OR_RETURN(const auto reply, post_(request));
		return answer_of(reply, q);
	}

private:
	Result<std::vector<PromSeries>> answer_of(const HttpReply &reply, const RangeQuery &q)
	{
		const auto json = parse_json(reply.body);

		// Refusals have JSON as well, unless they are a proxy's.
		if (json && json->is_object() && json->contains("error") && (*json)["error"].is_string())
			return Error{fmt::format("{}: {} {}: {} (of the query {})", access_.url, reply.status,
						 quoted_line(json->contains("errorType") && (*json)["errorType"].is_string() ?
								     (*json)["errorType"].get<std::string>() :
								     "error"),
						 quoted_line((*json)["error"].get<std::string>()), q.query)};
		if (reply.status != 200)
			return Error{fmt::format("{}: HTTP status {}{}", access_.url, reply.status,
						 reply.status == 401 || reply.status == 403 ? ": it wants another token (--token-file)" :
						 reply.status == 404 ? ": is it a Prometheus?" :
						 reply.status / 100 == 3 ? ": it is somewhere else" : "")};
		if (!json)
			return Error{access_.url + ": " + json.error().text()};
		if (!json->is_object() || !json->contains("data"))
			return Error{access_.url + ": not an answer of Prometheus' API: no data in it"};
		if (json->contains("warnings") && (*json)["warnings"].is_array())
			for (const Json &w : (*json)["warnings"])
				if (w.is_string())
					warn(access_.url + " warns: " + quoted_line(w.get<std::string>()));
		return prefixed(access_.url + ": ", parse_matrix((*json)["data"]));
	}
	void warn(const std::string &text)
	{
		if (std::find(warnings_.begin(), warnings_.end(), text) == warnings_.end())
			warnings_.push_back(text);
	}

	PrometheusAccess access_;
	HttpPost post_;
	std::vector<std::string> &warnings_;
};

class Dump final : public MetricSource {
public:
	Dump(std::string name, Json answers) : name_(std::move(name)), answers_(std::move(answers)) {}

	Result<std::vector<PromSeries>> range(const RangeQuery &q) override
	{
		for (const Json &a : answers_) {
			if (a.value("query", "") != q.query || a.value("start", std::int64_t{0}) != q.start_s ||
			    a.value("end", std::int64_t{0}) != q.end_s || a.value("step", std::int64_t{0}) != q.step_s)
				continue;
			auto series = a.contains("data") ? parse_matrix(a["data"]) : Error{"no data"};

			if (!series)
				return Error{name_ + ": " + series.error().text() + " (of the query " + q.query + ")"};
			return series;
		}
		return Error{fmt::format("{}: no answer to the query {} from {} to {} every {} s", name_, q.query, q.start_s, q.end_s, q.step_s)};
	}

private:
	std::string name_;
	Json answers_;
};

class Recording final : public MetricSource {
public:
	Recording(MetricSource &of, Json &dump) : of_(of), dump_(dump)
	{
		dump_ = {{"schema", 1}, {"kind", "prometheus-answers"}, {"answers", Json::array()}};
	}

	Result<std::vector<PromSeries>> range(const RangeQuery &q) override
	{
		ASSIGN_OR_RETURN(auto series, of_.range(q));

		Json result = Json::array();

		for (const PromSeries &s : series) {
			Json values = Json::array();

			for (const auto &[time, value] : s.values)
				values.push_back({time, Json(value).dump()});
			result.push_back({{"metric", s.labels}, {"values", values}});
		}
		dump_["answers"].push_back({{"query", q.query}, {"start", q.start_s}, {"end", q.end_s}, {"step", q.step_s},
					    {"data", {{"resultType", "matrix"}, {"result", result}}}});
		return series;
	}

private:
	MetricSource &of_;
	Json &dump_;
};

} // namespace

Result<std::vector<PromSeries>> parse_matrix(const Json &data)
{
	std::optional<Error> wrong;
	const JsonNode node(data, wrong);
	std::vector<PromSeries> all;

	if (const std::string type = node["resultType"].text(); !wrong && type != "matrix")
		return Error{"resultType: expected matrix, found " + quoted_line(type)};
	for (const JsonNode &s : node["result"].required("a list").list()) {
		PromSeries series;

		for (const auto &[name, value] : s["metric"].members())
			series.labels[name] = value.text();
		for (const JsonNode &pair : s["values"].required("a list").list()) {
			const auto parts = pair.list();

			if (parts.size() != 2) {
				pair.complain("a time and a value");
				continue;
			}
			const double time = parts[0].number();

			if (const auto value = sample_value(parts[1].text()))
				series.values.emplace_back(time, *value);
		}
		all.push_back(std::move(series));
	}
	if (wrong)
		return *wrong;
	return all;
}

std::unique_ptr<MetricSource> prometheus_source(PrometheusAccess access, HttpPost post, std::vector<std::string> &warnings)
{
	return std::make_unique<Prometheus>(std::move(access), std::move(post), warnings);
}

Result<std::unique_ptr<MetricSource>> dump_source(const std::string &name, std::string_view text)
{
	ASSIGN_OR_RETURN(auto json, prefixed(name + ": ", parse_json(text)));
	std::optional<Error> wrong;
	const JsonNode node(json, wrong);

	if (const std::string kind = node["kind"].text(); !wrong && kind != "prometheus-answers")
		return Error{name + ": kind: expected prometheus-answers, found " + quoted_line(kind)};
	for (const JsonNode &answer : node["answers"].required("a list").list()) {
		(void)answer["query"].text();
		for (const char *number : {"start", "end", "step"})
			(void)answer[number].number(0, 1e12);
	}
	if (wrong)
		return Error{name + ": " + wrong->text()};
	return std::unique_ptr<MetricSource>(std::make_unique<Dump>(name, json["answers"]));
}

std::unique_ptr<MetricSource> recording_source(MetricSource &of, Json &dump)
{
	return std::make_unique<Recording>(of, dump);
}

} // namespace swift
