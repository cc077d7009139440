// SPDX-License-Identifier: MIT
// What `swiftctl enable --json` and `disable --json` say.
#include "enable_json.h"

namespace swift {

namespace {

Json value_json(const Value &v)
{
	return v ? Json(*v) : Json(nullptr);
}

} // namespace

Json changes_json(const std::vector<Event> &events)
{
	return json_list(events, [](const Event &e) {
		return Json{{"kind", kind_name(e.item.kind)},
			    {"key", e.item.key},
			    {"before", value_json(e.before)},
			    {"after", value_json(e.after)},
			    {"result", e.what}};
	});
}

std::string outcome_json(const Outcome &outcome, bool dry_run)
{
	Json j;

	j["schema"] = 1;
	j["ok"] = !outcome.error;
	j["dry_run"] = dry_run;
	j["netns"] = outcome.netns.empty() ? Json(nullptr) : Json(outcome.netns);
	j["changes"] = changes_json(outcome.events);
	if (dry_run)
		j["commands"] = outcome.dry_lines;
	j["notes"] = outcome.notes;
	j["rolled_back"] = outcome.rolled_back;
	j["error"] = outcome.error ? Json(outcome.error->text()) : Json(nullptr);
	return json_text(j);
}

} // namespace swift
