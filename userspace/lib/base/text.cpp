// SPDX-License-Identifier: MIT
#include "text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <ctime>

namespace swift {

namespace {

constexpr std::string_view blanks = " \t\r\n\v\f";

std::string fixed(double v, int decimals)
{
	char buf[64];
	const auto r = std::to_chars(buf, buf + sizeof(buf), v, std::chars_format::fixed, decimals);

	return {buf, r.ptr};
}

std::string shortest(double v)
{
	char buf[32];
	const auto r = std::to_chars(buf, buf + sizeof(buf), v);

	return {buf, r.ptr};
}

} // namespace

std::string_view trim(std::string_view s)
{
	const auto first = s.find_first_not_of(blanks);

	if (first == std::string_view::npos)
		return {};
	return s.substr(first, s.find_last_not_of(blanks) - first + 1);
}

bool all_plain(std::string_view s, std::string_view more)
{
	return std::all_of(s.begin(), s.end(), [&](char c) {
		return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
		       more.find(c) != std::string_view::npos;
	});
}

std::vector<std::string> words(std::string_view s)
{
	std::vector<std::string> out;

	for (;;) {
		const auto first = s.find_first_not_of(blanks);

		if (first == std::string_view::npos)
			return out;
		s.remove_prefix(first);
		const auto length = std::min(s.find_first_of(blanks), s.size());

		out.emplace_back(s.substr(0, length));
		s.remove_prefix(length);
	}
}

std::vector<std::string> split(std::string_view s, char separator)
{
	std::vector<std::string> out;

	for (;;) {
		const auto at = s.find(separator);

		out.emplace_back(s.substr(0, at));
		if (at == std::string_view::npos)
			return out;
		s.remove_prefix(at + 1);
	}
}

Result<std::int64_t> parse_int(std::string_view name, std::string_view value, std::int64_t min,
			       std::int64_t max)
{
	std::int64_t v = 0;
	const char *end = value.data() + value.size();
	const auto r = std::from_chars(value.data(), end, v);

	if (r.ec != std::errc() || r.ptr != end || v < min || v > max)
		return Error{std::string(name), value.empty() ? "(empty)" : std::string(value),
			     std::to_string(min) + " to " + std::to_string(max)};
	return v;
}

Result<double> parse_decimal(std::string_view name, std::string_view value, double min, double max)
{
	double v = 0;
	const char *end = value.data() + value.size();
	const auto r = std::from_chars(value.data(), end, v, std::chars_format::fixed);

	if (r.ec != std::errc() || r.ptr != end || !std::isfinite(v) || v < min || v > max)
		return Error{std::string(name), value.empty() ? "(empty)" : std::string(value),
			     shortest(min) + " to " + shortest(max)};
	return v;
}

std::string span_text(std::int64_t ns, bool with_sign)
{
	const double a = std::abs(static_cast<double>(ns));
	const std::string sign = ns < 0 ? "-" : with_sign ? "+" : "";

	if (a < 1e3)
		return sign + fixed(a, 0) + " ns";
	for (const auto &[unit, name] : {std::pair(1e3, " us"), std::pair(1e6, " ms"), std::pair(1e9, " s")})
		if (a < unit * 999.95)
			return sign + fixed(a / unit, a < unit * 9.995 ? 2 : 1) + name;
	if (a < 86400e9 * 2)
		return sign + fixed(a / 1e9, 0) + " s";
	return sign + fixed(a / 86400e9, 0) + " days";
}

std::string utc_text(std::int64_t time_s)
{
	const auto time = static_cast<std::time_t>(time_s);
	std::array<char, 32> text{};
	std::tm parts{};

	gmtime_r(&time, &parts);
	std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
	return text.data();
}

} // namespace swift
