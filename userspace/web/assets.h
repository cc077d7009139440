// SPDX-License-Identifier: MIT
// The dashboard's files, and the report's page, as they are built into a program.
// Plain data: who serves or writes them is somebody else's business.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace swift {

struct WebAsset {
	std::string_view path; // "/app.js"; the page itself is "/index.html"
	std::string_view content_type; // "text/javascript; charset=utf-8"
	std::string_view bytes;
};

// Empty in a build without the dashboard (-DSWIFT_WEB=OFF).
[[nodiscard]] std::span<const WebAsset> web_assets();

// All that the dashboard needs: it loads nothing from elsewhere, runs no inline script.
inline constexpr std::string_view web_content_security_policy =
	"default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'";

// The report on a result (runs, or the lab's experiments), one page that needs no other
// file. RESULT_JSON has to be valid JSON; nothing in it can end the script it stands in.
// Empty in a build without the dashboard.
[[nodiscard]] std::string report_page(std::string_view result_json);

} // namespace swift
