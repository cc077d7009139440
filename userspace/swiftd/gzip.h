// SPDX-License-Identifier: MIT
// gzip, for answers that are large and much the same.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace swift {

// Of the header Accept-Encoding.
[[nodiscard]] bool accepts_gzip(std::string_view accept_encoding);
// nullopt: there was no memory for it.
[[nodiscard]] std::optional<std::string> gzip(std::string_view text);

} // namespace swift
