// SPDX-License-Identifier: MIT
// Whether JSON is what Documentation/api/v1.schema.json says; who judges is Debian's python3-jsonschema, which takes
// a while to start: it is asked once, about all that a test claims.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

namespace swift_test {

class SchemaClaims {
public:
	// @definition: one of the schema's $defs.
	void claim(const std::string &definition, nlohmann::json value, bool fits = true)
	{
		all_.push_back({{"of", definition}, {"fits", fits}, {"value", std::move(value)}});
	}
	// Those that are wrong are told on standard error.
	[[nodiscard]] bool hold() const
	{
		const std::string file = std::filesystem::temp_directory_path() / ("swift-schema-" + std::to_string(getpid()) + ".json");

		std::ofstream(file) << all_;
		const bool right = !all_.empty() && std::system(("python3 " SWIFT_TEST_DATA "/../validate.py " + file).c_str()) == 0;

		std::filesystem::remove(file);
		return right;
	}

private:
	nlohmann::json all_ = nlohmann::json::array();
};

} // namespace swift_test
