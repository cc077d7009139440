// SPDX-License-Identifier: MIT
// Where swiftd's log goes, and how much of it.
#pragma once

#include "options.h"

namespace swift {

// For spdlog's default logger, from now on.
void start_log(const Config::Log &config);
void set_log_level(const Config::Log &config);

} // namespace swift
