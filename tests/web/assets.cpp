// SPDX-License-Identifier: MIT
// For the tests: `assets` lists the files, `assets PATH` writes one to stdout,
// `assets --report` fills stdin, a result, into the report's page.
#include <iostream>
#include <iterator>
#include <string>
#include <string_view>

#include "assets.h"

int main(int argc, char **argv)
{
	const std::string_view what = argc > 1 ? argv[1] : "";

	if (what == "--report") {
		const std::string result(std::istreambuf_iterator<char>(std::cin), {});
		std::cout << swift::report_page(result);
		return 0;
	}
	for (const swift::WebAsset &a : swift::web_assets())
		if (what.empty())
			std::cout << a.path << '\t' << a.content_type << '\n';
		else if (a.path == what)
			std::cout << a.bytes;
	return 0;
}
