// SPDX-License-Identifier: MIT
// JSON as we write it: units in the keys, absent numbers left out, members in their order.
#pragma once

#include <nlohmann/json.hpp>

#include <optional>
#include <string>

namespace swift {

using Json = nlohmann::ordered_json;

// On one line, or as people read it; what is no UTF-8 is replaced.
inline std::string json_text(const Json &j, bool one_line = false)
{
	return j.dump(one_line ? -1 : 2, ' ', false, Json::error_handler_t::replace) + "\n";
}

// Would json_text() keep it as it is?
inline bool is_utf8(const std::string &text)
{
	const Json j = text;

	return j.dump(-1, ' ', false, Json::error_handler_t::ignore) == j.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Of an object, if it has a text there.
inline std::optional<std::string> text_member(const Json &j, const char *key)
{
	const auto at = j.find(key);

	return at != j.end() && at->is_string() ? std::optional(at->get<std::string>()) : std::nullopt;
}

// A list of what @one makes of each of @all.
template <typename All, typename One> Json json_list(const All &all, One one)
{
	Json list = Json::array();

	for (const auto &each : all)
		list.push_back(one(each));
	return list;
}

} // namespace swift
