// SPDX-License-Identifier: MIT
// Answers to range queries: of a Prometheus, over its HTTP API, or of a file that has them. What is
// asked, and what it means, is somebody else's.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "http_client.h"
#include "interface.h"
#include "json.h"
#include "result.h"

namespace swift {

struct RangeQuery {
	std::string query; // PromQL
	std::int64_t start_s = 0; // Unix time
	std::int64_t end_s = 0;
	std::int64_t step_s = 1;
};

struct PromSeries {
	std::map<std::string, std::string> labels;
	std::vector<std::pair<double, double>> values; // time, value; finite ones
};

class MetricSource : public Interface {
public:
	virtual Result<std::vector<PromSeries>> range(const RangeQuery &query) = 0;
};

struct PrometheusAccess {
	std::string url; // "http://prometheus:9090"
	std::string authorization; // a header; empty: none
	std::string ca_file;
};

// @warnings: what Prometheus says beside its answers, each once.
std::unique_ptr<MetricSource> prometheus_source(PrometheusAccess access, HttpPost post, std::vector<std::string> &warnings);

// What @text, the content of the file @name, has.
Result<std::unique_ptr<MetricSource>> dump_source(const std::string &name, std::string_view text);
// Passes answers on, and keeps them in @dump, in the form that dump_source() takes.
std::unique_ptr<MetricSource> recording_source(MetricSource &of, Json &dump);

// "data" of an answer: resultType and result.
Result<std::vector<PromSeries>> parse_matrix(const Json &data);

} // namespace swift
