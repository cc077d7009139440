// SPDX-License-Identifier: MIT
// How every verb speaks: text to standard output, one line to standard error, and the
// three exit statuses.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "result.h"
#include "verb.h"

namespace swift {

inline constexpr int exit_ok = 0;
inline constexpr int exit_failed = 1;
inline constexpr int exit_usage = 2;

// What no verb says.
inline constexpr Verb swiftctl_itself = {"", "", nullptr};

// False if nobody takes it any more (a full disk, a closed pipe), which exit_status() says; or if one of
// StopSignals' has come, and the reader stalls.
bool print(std::string_view text);
[[nodiscard]] Error unwritten(); // why it was false
// "swiftctl VERB: what went wrong", one line; returns exit_failed or exit_usage.
int fail(const Verb &verb, std::string_view why);
int fail_usage(const Verb &verb, std::string_view why);

// What a verb's run returns: its exit status, or the Error that is to be said in its place. One of
// wrong usage is marked by one of these.
[[nodiscard]] Error usage_error(Error error);
[[nodiscard]] Error usage_error(std::string_view what);
template <typename T> Result<T> as_usage(Result<T> result)
{
	return result ? std::move(result) : Result<T>(usage_error(result.error()));
}
// Says the Error, if it is one.
int exit_status(const Verb &verb, const Result<int> &run);
// Prints the last that a verb says.
[[nodiscard]] int leave(std::string_view text);
[[nodiscard]] int leave(const std::vector<std::string> &lines);
// A remark that is not part of the result.
void note(const Verb &verb, std::string_view text);

} // namespace swift
