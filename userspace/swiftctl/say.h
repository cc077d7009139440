// SPDX-License-Identifier: MIT
// How every verb speaks: text to standard output, one line to standard error, and the
// three exit statuses.
#pragma once

#include <string_view>

#include "result.h"
#include "verb.h"

namespace swift {

inline constexpr int exit_ok = 0;
inline constexpr int exit_failed = 1;
inline constexpr int exit_usage = 2;

// What no verb says.
inline constexpr Verb swiftctl_itself = {"", "", nullptr};

// False if nobody takes it any more (a full disk, a closed pipe).
bool print(std::string_view text);
// "swiftctl VERB: what went wrong", one line; returns exit_failed or exit_usage.
int fail(const Verb &verb, std::string_view why);
int fail_usage(const Verb &verb, std::string_view why);
// A remark that is not part of the result.
void note(const Verb &verb, std::string_view text);

} // namespace swift
