// SPDX-License-Identifier: MIT
// The configuration file (TOML) and the command line's --table.key=value, to a Config or one
// line that says what is wrong where. What options there are is options.h's.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "options.h"
#include "result.h"

namespace swift {

using Overrides = std::vector<std::pair<std::string, std::string>>; // option, value

// @file is for the messages. @overrides go over what the file says.
Result<Config> parse_config(std::string_view toml, std::string_view file,
			    const Overrides &overrides = {});
// An empty @path: no file; nor is there one if it is @optional and not there.
Result<Config> load_config(const std::string &path, const Overrides &overrides, bool optional = false);

// What changes from one to the other: "collect.interval_s: 1.0 -> 2.0". An Error if one of
// them cannot change while swiftd runs.
Result<std::vector<std::string>> config_changes(const Config &from, const Config &to);

} // namespace swift
