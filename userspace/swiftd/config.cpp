// SPDX-License-Identifier: MIT
#include "config.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "system.h"
#include "toml_depth.h"

namespace swift {

namespace {

constexpr std::size_t most_bytes = 1 << 20;

Error at(std::string_view file, const toml::source_region &where, const std::string &text)
{
	return Error{fmt::format("{}:{}: {}", file, where.begin.line, text)};
}

std::optional<OptionValue> value_of(const toml::node &node)
{
	if (const auto *v = node.as_boolean())
		return OptionValue(v->get());
	if (const auto *v = node.as_integer())
		return OptionValue(v->get());
	if (const auto *v = node.as_floating_point())
		return OptionValue(v->get());
	if (const auto *v = node.as_string())
		return OptionValue(v->get());
	if (const auto *a = node.as_array()) {
		std::vector<std::string> list;

		for (const toml::node &item : *a) {
			if (!item.is_string())
				return std::nullopt;
			list.push_back(item.as_string()->get());
		}
		return OptionValue(std::move(list));
	}
	return std::nullopt;
}

std::string_view kind_text(const toml::node &node)
{
	return node.is_table() ? "a table" : node.is_array() ? "a list with other things than strings" :
							       "a date or time";
}

// The name that most of @name's beginning is like.
std::string hint(const std::string &name)
{
	std::string_view best;
	std::size_t most = 3; // letters alike, or it is no help

	for (const Option &o : options()) {
		const auto key = o.name;
		const auto same = static_cast<std::size_t>(
			std::mismatch(key.begin(), key.end(), name.begin(), name.end()).first - key.begin());
		const auto start = key.find('.') + 1;

		if (same > start + most - 1 && same - start >= most) {
			most = same - start;
			best = key;
		}
	}
	return best.empty() ? "see swiftd --print-sample" : fmt::format("did you mean {}?", best);
}

Result<void> take_table(Config &config, const toml::table &section, std::string_view prefix,
			std::string_view file)
{
	for (const auto &[key, node] : section) {
		const std::string name = fmt::format("{}.{}", prefix, key.str());
		const Option *option = find_option(name);

		if (!option)
			return at(file, key.source(),
				  fmt::format("unknown option {} ({})", name, hint(name)));
		const auto value = value_of(node);

		if (!value)
			return at(file, node.source(), fmt::format("{} is {}: allowed are {}", name,
								   kind_text(node), allowed_text(*option)));
		if (auto done = set_option(config, *option, *value); !done)
			return at(file, node.source(), done.error().text());
	}
	return {};
}

} // namespace

Result<Config> parse_config(std::string_view toml, std::string_view file, const Overrides &overrides)
{
	Config config;

	if (toml.size() > most_bytes || toml_is_deep(toml))
		return Error{fmt::format("{}: too large for a configuration", file)};
	toml::table parsed;

	try {
		parsed = toml::parse(toml, file);
	} catch (const toml::parse_error &e) {
		return at(file, e.source(), std::string(e.description()));
	}
	for (const auto &[key, node] : parsed) {
		const toml::table *section = node.as_table();
		const std::string prefix = std::string(key.str()) + ".";
		const bool known = std::any_of(options().begin(), options().end(), [&](const Option &o) {
			return o.name.starts_with(prefix);
		});

		if (!known)
			return at(file, key.source(),
				  fmt::format("unknown {} '{}' (see swiftd --print-sample)",
					      section ? "table" : "option", key.str()));
		if (!section)
			return at(file, node.source(),
				  fmt::format("{} has to be a table: [{}]", key.str(), key.str()));
		if (auto done = take_table(config, *section, key.str(), file); !done)
			return done.error();
	}
	for (const auto &[name, text] : overrides) {
		const Option *option = find_option(name);

		if (!option)
			return Error{fmt::format("--{}: no such option ({})", name, hint(name))};
		if (auto done = set_option_text(config, *option, text); !done)
			return Error{"--" + done.error().text()};
	}
	if (auto done = check_config(config); !done)
		return toml.empty() ? done.error() :
				      Error{fmt::format("{}: {}", file, done.error().text())};
	return config;
}

Result<Config> load_config(const std::string &path, const Overrides &overrides, bool optional)
{
	if (path.empty())
		return parse_config({}, {}, overrides);

	auto text = real_system()->read_file(path);

	if (!text && optional && text.error().code == ENOENT)
		return parse_config({}, {}, overrides);
	if (!text)
		return text.error();
	return parse_config(*text, path, overrides);
}

Result<std::vector<std::string>> config_changes(const Config &from, const Config &to)
{
	std::vector<std::string> changes;

	for (const Option &o : options()) {
		if (o.get(from) == o.get(to))
			continue;
		if (!o.reloadable)
			return Error{fmt::format("{} cannot change while swiftd runs: it is {}, the new one is "
						 "{}; restart swiftd",
						 o.name, value_text(o.get(from)), value_text(o.get(to)))};
		changes.push_back(fmt::format("{}: {} -> {}", o.name, value_text(o.get(from)),
					      value_text(o.get(to))));
	}
	return changes;
}

} // namespace swift
