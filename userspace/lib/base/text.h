// SPDX-License-Identifier: MIT
// Strict reading of small texts: whole string, in range, or an Error. Nothing here
// knows about files, sockets or Swift.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "result.h"

namespace swift {

[[nodiscard]] std::string_view trim(std::string_view s);
// Letters and digits of ASCII, whatever the locale, and what of @more.
[[nodiscard]] bool all_plain(std::string_view s, std::string_view more = "");
// At any run of blanks; no empty words.
[[nodiscard]] std::vector<std::string> words(std::string_view s);
// At each separator; empty parts are kept.
[[nodiscard]] std::vector<std::string> split(std::string_view s, char separator);

// @name says in an Error which setting the value was meant for.
Result<std::int64_t> parse_int(std::string_view name, std::string_view value, std::int64_t min,
			       std::int64_t max);
Result<double> parse_decimal(std::string_view name, std::string_view value, double min, double max);
// The same for an option that may be left out: @field stays as it is where @value is empty.
template <typename T>
Result<void> take_int(T &field, std::string_view name, std::string_view value, std::int64_t min, std::int64_t max)
{
	if (value.empty())
		return {};
	ASSIGN_OR_RETURN(const auto number, parse_int(name, value, min, max));
	field = static_cast<T>(number);
	return {};
}
// @scale: how many of @field's units are one of @value's.
template <typename T>
Result<void> take_decimal(T &field, std::string_view name, std::string_view value, double min, double max,
			  double scale = 1)
{
	if (value.empty())
		return {};
	ASSIGN_OR_RETURN(const double number, parse_decimal(name, value, min, max));
	if constexpr (std::is_integral_v<T>)
		field = static_cast<T>(std::llround(number * scale));
	else
		field = number * scale;
	return {};
}

// A time or a difference of two, in a unit that people read: "12 ns", "-1.23 us", "+37.0 s".
[[nodiscard]] std::string span_text(std::int64_t ns, bool with_sign);

// A time since 1970, as "2026-11-24T21:36:00Z".
[[nodiscard]] std::string utc_text(std::int64_t time_s);

} // namespace swift
