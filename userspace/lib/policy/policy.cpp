// SPDX-License-Identifier: MIT
#include "policy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <toml++/toml.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <set>
#include <tuple>

#include "bpf_law.h"
#include "tunables.h"
#include "text.h"
#include "toml_depth.h"

namespace swift {

namespace {

constexpr std::size_t longest_label = 64; // of a metric
constexpr std::array<std::string_view, 3> places = {"module", "bpf_swift", "bpf_swift_v0"};

unsigned line_of(const toml::node &node)
{
	return node.source().begin.line;
}

// As the file has it, as far as one word can say.
std::string value_text(const toml::node &node)
{
	if (const auto *s = node.as_string())
		return s->get();
	if (const auto *i = node.as_integer())
		return std::to_string(i->get());
	if (const auto *f = node.as_floating_point())
		return fmt::format("{}", f->get());
	if (const auto *b = node.as_boolean())
		return b->get() ? "true" : "false";
	return node.is_table() ? "a table" : node.is_array() ? "a list" : "a date or time";
}

// One reading. The first mistake ends it.
class Reader
{
public:
	explicit Reader(std::int64_t now_s) : now_s_(now_s) {}

	bool read(const toml::table &file)
	{
		for (const auto &[key, node] : in_order(file)) {
			bool ok = true;

			if (*key == "version")
				ok = label(
					*node, "version",
					"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:+-",
					"1 to 64 of A-Z a-z 0-9 . _ : + -", policy.version);
			else if (*key == "author")
				ok = label(*node, "author", "", "1 to 64 printable characters of ASCII",
					   policy.author);
			else if (*key == "expires")
				ok = expires(*node);
			else if (*key == "guard")
				ok = guard(*node);
			else if (*key == "target")
				ok = targets(*node);
			else
				ok = unknown(*key, "version, author, expires, [guard], [[target]]");
			if (!ok)
				return false;
		}
		for (const auto &[field, there] : {std::pair("version", !policy.version.empty()),
						   {"author", !policy.author.empty()},
						   {"expires", policy.expires_s != 0},
						   {"[[target]]", !policy.rules.empty()}})
			if (!there)
				return fail({0, field, "", "", fmt::format("{} is missing", field)});
		return true;
	}

	Policy policy;
	PolicyError error;

private:
	using Item = std::pair<const toml::key *, const toml::node *>;

	// As they stand in the file: toml++ sorts them by name.
	static std::vector<Item> in_order(const toml::table &table)
	{
		std::vector<Item> items;

		for (const auto &[key, node] : table)
			items.emplace_back(&key, &node);
		std::stable_sort(items.begin(), items.end(), [](const Item &a, const Item &b) {
			return a.first->source().begin.line < b.first->source().begin.line;
		});
		return items;
	}

	bool fail(PolicyError e)
	{
		error = std::move(e);
		return false;
	}
	bool wrong(const toml::node &node, const std::string &field, const std::string &allowed)
	{
		return fail({line_of(node), field, value_text(node), allowed, ""});
	}
	bool unknown(const toml::key &key, const std::string &allowed, const std::string &table = "")
	{
		return fail({key.source().begin.line, table + std::string(key.str()), "", allowed,
			     fmt::format("unknown field {}{}", table, key.str())});
	}

	// @letters: "" for all that are printed.
	bool label(const toml::node &node, const std::string &field, std::string_view letters,
		   const std::string &allowed, std::string &to)
	{
		const auto *s = node.as_string();
		const auto fits = [&](char c) {
			return letters.empty() ? c >= ' ' && c <= '~' :
						 letters.find(c) != std::string_view::npos;
		};

		if (!s || s->get().empty() || s->get().size() > longest_label ||
		    !std::all_of(s->get().begin(), s->get().end(), fits))
			return wrong(node, field, allowed);
		to = s->get();
		return true;
	}

	bool expires(const toml::node &node)
	{
		const auto *d = node.as_date_time();
		const std::string form = "a date and time with its zone, such as 2027-01-31T12:00:00Z";

		if (!d || !d->get().offset)
			return wrong(node, "expires", form);
		const toml::date_time &t = d->get();
		const auto days =
			std::chrono::sys_days(std::chrono::year_month_day(std::chrono::year(t.date.year),
									  std::chrono::month(t.date.month),
									  std::chrono::day(t.date.day)));

		policy.expires_s = std::chrono::seconds(days.time_since_epoch()).count() +
				   t.time.hour * 3600 + t.time.minute * 60 + t.time.second -
				   t.offset->minutes * 60;
		if (policy.expires_s <= 0)
			return fail({line_of(node), "expires", utc_text(policy.expires_s), "times after 1970",
				     ""});
		if (now_s_ > 0 && policy.expires_s <= now_s_)
			return fail({line_of(node), "expires", utc_text(policy.expires_s),
				     "times after now, " + utc_text(now_s_), ""});
		return true;
	}

	bool percent(const toml::node &node, const std::string &field, double min, double max, double &to)
	{
		const auto *i = node.as_integer();
		const auto *f = node.as_floating_point();
		const double v = i ? static_cast<double>(i->get()) : f ? f->get() : std::nan("");

		if (!(v >= min && v <= max)) // nor NaN
			return wrong(node, field, fmt::format("{} to {}", min, max));
		to = v / 100;
		return true;
	}

	bool guard(const toml::node &node)
	{
		const toml::table *table = node.as_table();

		if (!table)
			return wrong(node, "guard", "a table: [guard]");
		for (const auto &[key, value] : in_order(*table)) {
			bool ok = true;

			if (*key == "enabled") {
				const auto *b = value->as_boolean();

				if (!b)
					return wrong(*value, "guard.enabled", "true and false");
				policy.guard.enabled = b->get();
			} else if (*key == "throughput_percent") {
				ok = percent(*value, "guard.throughput_percent", 1, 50,
					     policy.guard.throughput);
			} else if (*key == "tail_percent") {
				ok = percent(*value, "guard.tail_percent", 5, 1000, policy.guard.tail);
			} else {
				ok = unknown(*key, "enabled, throughput_percent, tail_percent", "guard.");
			}
			if (!ok)
				return false;
		}
		return true;
	}

	bool targets(const toml::node &node)
	{
		const toml::array *list = node.as_array();

		if (!list || !std::all_of(list->begin(), list->end(),
					  [](const toml::node &n) { return n.is_table(); }))
			return wrong(node, "target", "tables: [[target]]");
		for (const toml::node &each : *list) {
			if (policy.rules.size() == most_policy_rules)
				return fail({line_of(each), "[[target]]", "", "",
					     fmt::format("more targets than the {} that are allowed",
							 most_policy_rules)});
			if (!target(*each.as_table()))
				return false;
		}
		return true;
	}

	bool target(const toml::table &table)
	{
		PolicyRule rule;
		const toml::node *prefix = nullptr;

		rule.line = line_of(table);
		for (const auto &[key, node] : in_order(table)) {
			const std::string name(key->str());
			bool ok = true;

			if (name == "of") {
				const auto *s = node->as_string();

				if (!s || std::find(places.begin(), places.end(), s->get()) == places.end())
					return wrong(*node, "target.of",
						     fmt::format("{}", fmt::join(places, ", ")));
				rule.of = s->get();
			} else if (name == "prefix") {
				prefix = node;
			} else if (name == "class") {
				ok = dscp(*node, rule);
			} else if (std::find(policy_tunables().begin(), policy_tunables().end(), name) !=
				   policy_tunables().end()) {
				ok = value(*node, name, rule);
			} else {
				return unknown(*key,
					       fmt::format("of, prefix, class, {}",
							   fmt::join(policy_tunables(), ", ")),
					       "target.");
			}
			if (!ok)
				return false;
		}
		if (prefix && !to_prefix(*prefix, rule))
			return false;
		if (rule.set.empty())
			return fail({rule.line, "[[target]]", "",
				     fmt::format("one or more of {}", fmt::join(policy_tunables(), ", ")),
				     "[[target]] sets nothing"});
		if (!known_.insert({rule.of, rule.prefix, rule.dscp.value_or(-2)}).second)
			return fail({rule.line, "[[target]]", "", "",
				     fmt::format("another target of {}{}{}: allowed is one", rule.of,
						 rule.prefix.empty() ? "" : " to " + rule.prefix,
						 rule.dscp ? ", class " + class_text(*rule.dscp) : "")});
		policy.rules.push_back(std::move(rule));
		return true;
	}

	bool dscp(const toml::node &node, PolicyRule &rule)
	{
		const auto *i = node.as_integer();
		const auto *s = node.as_string();

		if (i && i->get() >= 0 && i->get() <= 63)
			rule.dscp = static_cast<int>(i->get());
		else if (s && s->get() == "default")
			rule.dscp = -1;
		else
			return wrong(node, "target.class",
				     "0 to 63, a DSCP, and \"default\" for flows that are given none");
		return true;
	}

	bool to_prefix(const toml::node &node, PolicyRule &rule)
	{
		const auto *s = node.as_string();

		if (rule.of == "module")
			return wrong(
				node, "target.prefix",
				"none: the module has one target for all destinations of a network namespace; "
				"one for each has of = \"bpf_swift\" or \"bpf_swift_v0\"");
		auto prefix = BpfPrefix::parse(s ? s->get() : "");

		if (!prefix)
			return wrong(node, "target.prefix",
				     s && !prefix.error().allowed.empty() ?
					     prefix.error().allowed :
					     "prefixes such as \"10.2.0.0/16\" and \"fd00::/16\"");
		rule.prefix = prefix->text();
		return true;
	}

	bool value(const toml::node &node, const std::string &name, PolicyRule &rule)
	{
		const bool word = name == "target_policy";
		const Tunable &tunable = *find_tunable(name);
		const bool fits = word ? node.is_string() : node.is_integer();
		auto checked = fits ? tunable.check(value_text(node)) :
				      Result<std::string>(Error{"", "",
								word ? "static, base_rtt or base_rtt_plus" :
								       fmt::format("{} to {}", tunable.min,
										   tunable.max)});

		if (!checked)
			return wrong(node, "target." + name, checked.error().allowed);
		rule.set[name] = *checked;
		return true;
	}

	std::int64_t now_s_;
	std::set<std::tuple<std::string, std::string, int>> known_;
};

} // namespace

const std::vector<std::string> &policy_tunables()
{
	// The order in which they are set: until the policy is, the others are not what flows are steered by.
	static const std::vector<std::string> all = {"base_target_ns", "hop_target_ns", "rtt_epsilon_ns",
						     "endpoint_target_ns", "target_policy"};

	return all;
}

std::string PolicyError::text(std::string_view file) const
{
	std::string said = what.empty() ? fmt::format("{}: '{}'", field, value) : what;

	if (!allowed.empty())
		said += fmt::format(" (allowed: {})", allowed);
	return line ? fmt::format("{}:{}: {}", file, line, said) : fmt::format("{}: {}", file, said);
}

PolicyFile parse_policy(std::string_view toml, std::int64_t now_s)
{
	if (toml.size() > most_policy_bytes || toml_is_deep(toml))
		return {{},
			{0, "", "", "",
			 fmt::format("too large for a policy: allowed are {} bytes", most_policy_bytes)}};
	toml::table parsed;

	try {
		parsed = toml::parse(toml);
	} catch (const toml::parse_error &e) {
		return {{}, {e.source().begin.line, "", "", "", std::string(e.description())}};
	}
	Reader reader(now_s);

	if (!reader.read(parsed))
		return {{}, reader.error};
	return {std::move(reader.policy), {}};
}

std::string class_text(int dscp)
{
	return dscp < 0 ? "default" : std::to_string(dscp);
}

} // namespace swift
