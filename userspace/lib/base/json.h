// SPDX-License-Identifier: MIT
// JSON as we write it: units in the keys, absent numbers left out, members in their order.
#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace swift {

using Json = nlohmann::ordered_json;

// On one line, or as people read it; what is no UTF-8 is replaced.
inline std::string json_text(const Json &j, bool one_line = false)
{
	return j.dump(one_line ? -1 : 2, ' ', false, Json::error_handler_t::replace) + "\n";
}

} // namespace swift
