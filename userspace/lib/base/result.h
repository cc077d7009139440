// SPDX-License-Identifier: MIT
// How every function of libswift that can fail says so: a value, or an Error that
// names the thing, the offending value and what would have been allowed.
#pragma once

#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

namespace swift {

struct Error {
	std::string what; // "cannot write net.ipv4.tcp_swift.ai_milli"
	std::string value = {}; // what was given, if a value is to blame
	std::string allowed = {}; // what would do
	int code = 0; // errno, if the kernel said no

	[[nodiscard]] std::string text() const;
};

// "what: strerror(code)"
[[nodiscard]] Error errno_error(std::string what, int code);

template <typename T> class [[nodiscard]] Result {
public:
	Result(T value) : v_(std::in_place_index<0>, std::move(value)) {}
	Result(Error error) : v_(std::in_place_index<1>, std::move(error)) {}

	explicit operator bool() const { return v_.index() == 0; }
	T &operator*() { return std::get<0>(v_); }
	const T &operator*() const { return std::get<0>(v_); }
	T *operator->() { return &std::get<0>(v_); }
	const T *operator->() const { return &std::get<0>(v_); }
	[[nodiscard]] const Error &error() const { return std::get<1>(v_); }
	// What @next makes of the value, or the Error.
	template <typename Next> auto and_then(Next next) -> std::invoke_result_t<Next, T &>
	{
		return *this ? next(**this) : std::invoke_result_t<Next, T &>(error());
	}

private:
	std::variant<T, Error> v_;
};

template <> class [[nodiscard]] Result<void> {
public:
	Result() = default;
	Result(Error error) : error_(std::move(error)) {}

	explicit operator bool() const { return !error_; }
	[[nodiscard]] const Error &error() const { return *error_; }

private:
	std::optional<Error> error_;
};

// @result with another beginning of its Error's text.
template <typename T> Result<T> prefixed(const std::string &beginning, Result<T> result)
{
	return result ? std::move(result) : Result<T>(Error{beginning + result.error().text(), {}, {}, result.error().code});
}

} // namespace swift

// For functions that return a Result themselves; the Error goes on to the caller as it is:
//
//	RETURN_IF_ERROR(write(path, text));
//	ASSIGN_OR_RETURN(const auto text, read(path)); // or, of a variable that is there: (text, read(path))
//
// The second is several statements: what it declares is there until the block ends, and where it is
// all that an `if` does it wants braces.
#define RETURN_IF_ERROR(...) \
	do { \
		if (const auto &tried = (__VA_ARGS__); !tried) \
			return tried.error(); \
	} while (false)
#define ASSIGN_OR_RETURN(variable, ...) \
	RESULT_ASSIGN_OR_RETURN(RESULT_NAME(tried_in_line_, __LINE__), variable, __VA_ARGS__)
#define RESULT_ASSIGN_OR_RETURN(tried, variable, ...) \
	auto tried = (__VA_ARGS__); \
	if (!tried) \
		return tried.error(); \
	variable = std::move(*tried)
#define RESULT_NAME(name, line) RESULT_NAME_OF(name, line)
#define RESULT_NAME_OF(name, line) name##line
