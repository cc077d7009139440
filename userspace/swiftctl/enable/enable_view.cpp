// SPDX-License-Identifier: MIT
// What `enable` and `disable` say when they are done: for people, in lines; the JSON is enable_json.cpp's.
#include <fmt/format.h>

#include <algorithm>

#include "enable.h"
#include "say.h"

namespace swift {

namespace {

// For one line: a file's content is not shown.
std::string shown(const Item &item, const Value &v)
{
	if (!v)
		return "(absent)";
	if (item.kind == Kind::file)
		return "(written)";
	return v->empty() ? "(empty)" : *v;
}

std::string event_line(const Event &e, std::size_t width)
{
	const std::string name = item_name(e.item);

	if (e.what == "already" || e.what == "left")
		return fmt::format("  {:<11}  {:<{}}  {}\n", e.what, name, width, shown(e.item, e.after));
	if (e.what == "gone")
		return fmt::format("  {:<11}  {}\n", e.what, name);
	if (e.what == "failed")
		return fmt::format("  {:<11}  {}\n", "FAILED", name);
	return fmt::format("  {:<11}  {:<{}}  {} -> {}\n", e.what, name, width, shown(e.item, e.before),
			   shown(e.item, e.after));
}

std::string text_of(const Outcome &outcome, bool dry_run)
{
	std::string out;
	std::size_t width = 0;

	if (dry_run) {
		for (const std::string &line : outcome.dry_lines)
			out += line + "\n";
		return out;
	}
	for (const Event &e : outcome.events)
		width = std::max(width, item_name(e.item).size());
	for (const Event &e : outcome.events)
		out += event_line(e, width);
	return out;
}

bool changed(const Outcome &outcome)
{
	return std::any_of(outcome.events.begin(), outcome.events.end(),
			   [](const Event &e) { return e.what == "set" || e.what == "restored"; });
}

Result<int> finish(const Verb &verb, const Outcome &outcome, bool dry_run, bool json,
	   std::string_view success)
{
	if (outcome.error && outcome.usage)
		return usage_error(*outcome.error);
	if (json) {
		if (!print(outcome_json(outcome, dry_run)))
			return exit_failed;
	} else {
		std::string out = text_of(outcome, dry_run);

		if (!outcome.error && !dry_run && changed(outcome))
			out += success;
		if (!print(out))
			return exit_failed;
		for (const std::string &text : outcome.notes)
			note(verb, text);
	}
	if (!outcome.error)
		return exit_ok;

	const bool tried = !outcome.events.empty() && !dry_run && &verb == &enable_verb;

	return Error{outcome.error->text() + (!tried		  ? "" :
					      outcome.rolled_back ? "; everything is as it was before" :
								    "; not everything could be put back, see above "
								    "(swiftctl disable tries again)")};
}

} // namespace

Result<int> run_enable(const EnableOptions &options)
{
	const auto system = real_system(options.root);
	const std::string_view success =
		!options.no_default ? "New connections use swift; those that exist keep what they have. "
				       "Undo: swiftctl disable\n" :
				       "Sockets may now ask for swift (TCP_CONGESTION). Undo: swiftctl "
				       "disable\n";

	return finish(enable_verb, enable(*system, options), options.dry_run, options.json, success);
}

Result<int> run_disable(const DisableOptions &options)
{
	const auto system = real_system(options.root);

	return finish(disable_verb, disable(*system, *real_sockets(options.root), options), options.dry_run, options.json,
		      "What swiftctl enable changed is as it was before.\n");
}

} // namespace swift
