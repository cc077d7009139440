// SPDX-License-Identifier: MIT
// What `enable` and `disable` say when they are done: for people, in lines; the JSON is enable_json.cpp's.
#include <fmt/format.h>

#include <algorithm>

#include "enable.h"
#include "netns_list.h"
#include "printable.h"
#include "say.h"
#include "shell_word.h"

namespace swift {

namespace {

// For one line: a file's content is not shown.
std::string shown(const Item &item, const Value &v)
{
	if (!v)
		return "(absent)";
	if (item.kind == Kind::file)
		return "(written)";
	return v->empty() ? "(empty)" : printable(*v);
}

std::string event_line(const Event &e, std::size_t width)
{
	const std::string name = printable(item_name(e.item));

	if (e.what == "already" || e.what == "left")
		return fmt::format("  {:<11}  {:<{}}  {}\n", e.what, name, width, shown(e.item, e.after));
	if (e.what == "gone")
		return fmt::format("  {:<11}  {}\n", e.what, name);
	if (e.what == "failed")
		return fmt::format("  {:<11}  {}\n", "FAILED", name);
	return fmt::format("  {:<11}  {:<{}}  {} -> {}\n", e.what, name, width, shown(e.item, e.before),
			   shown(e.item, e.after));
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
	const Error unheard{fmt::format("cannot write to the standard output; {}",
					changed(outcome) ? "what was done stays done" : "nothing was changed")};

	if (json) {
		if (!print(outcome_json(outcome, dry_run)))
			return unheard;
	} else {
		std::string out = outcome_text(outcome, dry_run);

		if (!outcome.error && !dry_run && changed(outcome))
			out += success;
		if (!print(out))
			return unheard;
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

// The network namespace that we are in, which may have been entered as @netns.
Place place_of(const std::string &netns)
{
	Place place;
	NetnsList list;

	if (netns.empty())
		list.scan_own();
	place.name = netns.empty() ? list.own_name() : printable(netns);
	return place;
}

} // namespace

std::string outcome_text(const Outcome &outcome, bool dry_run)
{
	std::string out;
	std::size_t width = 0;

	if (dry_run) {
		for (const std::string &line : outcome.dry_lines)
			out += printable(line) + "\n";
		return out;
	}
	if (!outcome.netns.empty() && !outcome.events.empty())
		out += fmt::format("network namespace {}\n", outcome.netns);
	for (const Event &e : outcome.events)
		width = std::max(width, item_name(e.item).size());
	for (const Event &e : outcome.events)
		out += event_line(e, width);
	return out;
}

Result<int> run_enable(const EnableOptions &options)
{
	RETURN_IF_ERROR(take_netns(options.netns));
	const auto system = real_system(options.root);
	const std::string success = fmt::format(
		"{}Undo: swiftctl disable{}\n",
		!options.no_default ? "New connections use swift; those that exist keep what they have. " :
				      "Sockets may now ask for swift (TCP_CONGESTION). ",
		options.netns.empty() ? "" : " --netns " + shell_word(options.netns));

	return finish(enable_verb, enable(*system, options, place_of(options.netns)), options.dry_run, options.json, success);
}

Result<int> run_disable(const DisableOptions &options)
{
	RETURN_IF_ERROR(take_netns(options.netns));
	const auto system = real_system(options.root);

	return finish(disable_verb, disable(*system, *real_sockets(options.root), options, place_of(options.netns)),
		      options.dry_run, options.json, "What swiftctl enable changed is as it was before.\n");
}

} // namespace swift
