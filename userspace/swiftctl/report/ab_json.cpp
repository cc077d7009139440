// SPDX-License-Identifier: MIT
#include "ab_json.h"

#include <cmath>
#include <cstdint>

namespace swift {

namespace {

constexpr int depth_max = 64;

struct TooDeep {};

std::string without_tag(std::string text)
{
	// "[json.exception.parse_error.101] parse error at line 1, ..."
	if (const auto at = text.find("] "); text.starts_with('[') && at != std::string::npos)
		text.erase(0, at + 2);
	return text;
}

std::string number_text(double v)
{
	constexpr double whole_max = 1e15;

	return v == std::floor(v) && std::abs(v) < whole_max ? std::to_string(static_cast<std::int64_t>(v)) :
							      Json(v).dump();
}

} // namespace

Result<Json> parse_json(std::string_view text)
{
	try {
		return Json::parse(text, [](int depth, Json::parse_event_t, Json &) {
			if (depth > depth_max)
				throw TooDeep();
			return true;
		});
	} catch (const TooDeep &) {
		return Error{"nested deeper than " + std::to_string(depth_max)};
	} catch (const Json::exception &e) {
		return Error{"not JSON: " + without_tag(e.what())};
	}
}

void JsonNode::complain(const std::string &expected) const
{
	if (*wrong_)
		return;
	const std::string found = value_ ? value_->type_name() : "nothing";

	*wrong_ = Error{(path_.empty() ? "the whole" : path_) + ": expected " + expected + ", found " + found};
}

JsonNode JsonNode::operator[](const std::string &key) const
{
	const std::string path = path_.empty() ? key : path_ + "." + key;

	if (!exists())
		return {nullptr, path, wrong_};
	if (!value_->is_object()) {
		complain("an object");
		return {nullptr, path, wrong_};
	}
	const auto found = value_->find(key);

	return {found == value_->end() ? nullptr : &*found, path, wrong_};
}

std::vector<JsonNode> JsonNode::list() const
{
	std::vector<JsonNode> nodes;

	if (!exists())
		return nodes;
	if (!value_->is_array()) {
		complain("a list");
		return nodes;
	}
	for (std::size_t i = 0; i < value_->size(); i++)
		nodes.push_back({&(*value_)[i], path_ + "[" + std::to_string(i) + "]", wrong_});
	return nodes;
}

std::vector<std::pair<std::string, JsonNode>> JsonNode::members() const
{
	std::vector<std::pair<std::string, JsonNode>> nodes;

	if (!exists())
		return nodes;
	if (!value_->is_object()) {
		complain("an object");
		return nodes;
	}
	for (const auto &[key, value] : value_->items())
		nodes.emplace_back(key, JsonNode{&value, path_.empty() ? key : path_ + "." + key, wrong_});
	return nodes;
}

double JsonNode::number() const
{
	if (!value_ || !value_->is_number() || !std::isfinite(value_->get<double>())) {
		complain("a number");
		return 0;
	}
	return value_->get<double>();
}

double JsonNode::number(double min, double max) const
{
	const double v = number();

	if (!*wrong_ && (v < min || v > max))
		*wrong_ = Error{path_, number_text(v), number_text(min) + " to " + number_text(max)};
	return *wrong_ ? min : v;
}

std::string JsonNode::text() const
{
	if (!value_ || !value_->is_string()) {
		complain("a string");
		return {};
	}
	return value_->get<std::string>();
}

const JsonNode &JsonNode::required(const char *what) const
{
	if (!exists())
		complain(what);
	return *this;
}

std::optional<double> JsonNode::maybe_number() const
{
	if (!exists())
		return std::nullopt;
	return number();
}

std::string JsonNode::maybe_text() const
{
	return exists() ? text() : std::string();
}

} // namespace swift
