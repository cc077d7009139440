// SPDX-License-Identifier: MIT
#include "assets.h"

#include <array>

#ifdef SWIFT_WEB_DIST

// The bytes of a file of the bundle, in read-only memory.
#define EMBED(symbol, file)                                                                  \
	asm(".pushsection .rodata\n"                                                         \
	    ".global swift_web_" #symbol "\n"                                                \
	    "swift_web_" #symbol ":\n"                                                       \
	    ".incbin \"" SWIFT_WEB_DIST "/" file "\"\n"                                      \
	    ".global swift_web_" #symbol "_end\n"                                            \
	    "swift_web_" #symbol "_end:\n"                                                   \
	    ".popsection\n");                                                                \
	extern "C" const char swift_web_##symbol[];                                          \
	extern "C" const char swift_web_##symbol##_end[];
#define BYTES(symbol)                                                                        \
	std::string_view(swift_web_##symbol,                                                 \
			 static_cast<std::size_t>(swift_web_##symbol##_end - swift_web_##symbol))

EMBED(index_html, "index.html")
EMBED(app_js, "app.js")
EMBED(app_css, "app.css")
EMBED(favicon_svg, "favicon.svg")
EMBED(report_html, "report.html")

namespace swift {

std::span<const WebAsset> web_assets()
{
	static const std::array<WebAsset, 4> assets{{
		{"/index.html", "text/html; charset=utf-8", BYTES(index_html)},
		{"/app.js", "text/javascript; charset=utf-8", BYTES(app_js)},
		{"/app.css", "text/css; charset=utf-8", BYTES(app_css)},
		{"/favicon.svg", "image/svg+xml", BYTES(favicon_svg)},
	}};
	return assets;
}

std::string report_page(std::string_view result_json)
{
	constexpr std::string_view slot = "\"SWIFT_RESULT\"";
	const std::string_view page = BYTES(report_html);
	const std::size_t at = page.find(slot);
	std::string filled(page.substr(0, at));

	filled.reserve(page.size() + result_json.size());
	// In JSON '<' stands inside strings alone, where this spelling means the same.
	for (char c : result_json)
		if (c == '<')
			filled += "\\u003c";
		else
			filled += c;
	filled += page.substr(at + slot.size());
	return filled;
}

} // namespace swift

#else

namespace swift {

std::span<const WebAsset> web_assets()
{
	return {};
}

std::string report_page(std::string_view)
{
	return {};
}

} // namespace swift

#endif
