// SPDX-License-Identifier: MIT
// Reading JSON of others: every complaint says where in the file and what was expected. The
// first one is kept; a reader goes on with zeros and empty texts and asks at the end.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "json.h"
#include "result.h"

namespace swift {

// No deeper than 64: what walks over it may recurse.
Result<Json> parse_json(std::string_view text);

class JsonNode {
public:
	// @wrong outlives all nodes below.
	JsonNode(const Json &value, std::optional<Error> &wrong) : value_(&value), wrong_(&wrong) {}

	// Null is the same as not there.
	[[nodiscard]] bool exists() const { return value_ && !value_->is_null(); }
	[[nodiscard]] bool is_object() const { return value_ && value_->is_object(); }
	[[nodiscard]] const std::string &path() const { return path_; }
	[[nodiscard]] const Json &json() const { return *value_; } // where exists()

	// Members: nothing there is a node without a value. Of what is no object: a complaint.
	[[nodiscard]] JsonNode operator[](const std::string &key) const;
	[[nodiscard]] std::vector<JsonNode> list() const; // empty where there is nothing
	[[nodiscard]] std::vector<std::pair<std::string, JsonNode>> members() const;

	// Has to be there.
	[[nodiscard]] double number() const;
	[[nodiscard]] double number(double min, double max) const;
	[[nodiscard]] std::string text() const;
	[[nodiscard]] const JsonNode &required(const char *what) const; // "a list"
	// May be missing, but not of another type.
	[[nodiscard]] std::optional<double> maybe_number() const;
	[[nodiscard]] std::string maybe_text() const;

	void complain(const std::string &expected) const;

private:
	JsonNode(const Json *value, std::string path, std::optional<Error> *wrong)
		: value_(value), path_(std::move(path)), wrong_(wrong)
	{
	}

	const Json *value_ = nullptr;
	std::string path_; // "runs[3].rtt_ns.p99"; empty: the whole
	std::optional<Error> *wrong_;
};

} // namespace swift
