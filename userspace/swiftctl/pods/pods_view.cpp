// SPDX-License-Identifier: MIT
// What `pods` says, once or whenever something has changed, and its loop.
#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "enable_json.h"
#include "pods.h"
#include "printable.h"
#include "say.h"
#include "watch.h"

namespace swift {

namespace {

std::string changes_text(const std::vector<Event> &events)
{
	std::string out;

	for (const Event &e : events)
		if (e.what == "set" || e.what == "restored" || e.what == "left")
			out += fmt::format("{}{} {}", out.empty() ? "" : ", ", item_name(e.item),
					   e.what == "left" ? "left as it is" : e.after.value_or("(absent)"));
	return printable(out);
}

// Of @now what @before did not say. Rows come in no order that lasts.
std::vector<PodRow> news(const std::vector<PodRow> &now, const std::vector<PodRow> &before)
{
	std::vector<PodRow> out;

	for (const PodRow &row : now)
		if (std::none_of(before.begin(), before.end(), [&](const PodRow &b) { return row.says_as(b); }))
			out.push_back(row);
	return out;
}

class Keeping {
public:
	Keeping(const PodsOptions &options, PodList list, PodKeeper &keeper)
		: options_(options), list_(std::move(list)), keeper_(keeper)
	{
	}

	// False: nobody takes what it says.
	bool pass()
	{
		auto rows = list_().and_then([&](const std::vector<Pod> &pods) { return keeper_.pass(pods); });

		if (!rows) {
			if (trouble_ != rows.error().text())
				note(pods_verb, rows.error().text() + "; nothing is changed meanwhile");
			trouble_ = rows.error().text();
			return true;
		}
		if (!trouble_.empty())
			note(pods_verb, "that is over");
		trouble_.clear();
		const bool said = say(news(*rows, before_));

		before_ = std::move(*rows);
		return said;
	}

	bool say(const std::vector<PodRow> &rows) const
	{
		if (rows.empty())
			return true;
		return print(options_.json ? rows_json(rows, options_.give.dry_run, !options_.watch.empty()) : rows_text(rows));
	}

private:
	const PodsOptions &options_;
	PodList list_;
	PodKeeper &keeper_;
	std::vector<PodRow> before_;
	std::string trouble_;
};

Result<int> status_of(const std::vector<PodRow> &rows)
{
	const auto n = std::count_if(rows.begin(), rows.end(), [](const PodRow &r) { return r.state == "failed" || r.state == "refused"; });

	if (n > 0)
		return Error{fmt::format("{} of {} pod{} could not be given what the annotation says, or be put back: see above", n, rows.size(),
					 rows.size() == 1 ? "" : "s")};
	return exit_ok;
}

} // namespace

std::string rows_text(const std::vector<PodRow> &rows)
{
	std::string out;
	std::size_t width = 0;

	for (const PodRow &row : rows)
		width = std::max(width, row.pod.size());
	for (const PodRow &row : rows) {
		const std::string why = row.why.empty() ? changes_text(row.events) : printable(row.why);

		if (!row.dry_lines.empty()) {
			out += fmt::format("# {}\n", row.pod);
			for (const std::string &line : row.dry_lines)
				out += printable(line) + "\n";
			continue;
		}
		out += fmt::format("{:<{}}  {}{}{}\n", row.pod, width, row.state, why.empty() ? "" : ": ", why);
		for (const std::string &text : row.notes)
			out += fmt::format("{:<{}}  {}\n", "", width, printable(text));
	}
	return out;
}

std::string rows_json(const std::vector<PodRow> &rows, bool dry_run, bool one_line)
{
	Json j;

	j["schema"] = 1;
	j["dry_run"] = dry_run;
	j["pods"] = json_list(rows, [&](const PodRow &row) {
		Json one = {{"pod", row.pod}, {"uid", row.uid}, {"netns", row.netns.empty() ? Json(nullptr) : Json(row.netns)},
			    {"state", row.state}};

		if (!row.why.empty())
			one["why"] = row.why;
		one["changes"] = changes_json(row.events);
		if (dry_run)
			one["commands"] = row.dry_lines;
		one["notes"] = row.notes;
		return one;
	});
	return json_text(j, one_line);
}

Result<int> run_pods(const PodsOptions &options)
{
	double every_s = 0;

	RETURN_IF_ERROR(as_usage(options.watch.empty() ? Result<void>() : take_watch(every_s, options.watch)));
	if (options.keep && options.watch.empty())
		return usage_error("--keep: goes with --watch, which takes everything back when it ends");
	if (options.give.dry_run && !options.watch.empty())
		return usage_error("--dry-run: not with --watch");
	if (auto fit = check_settings(options.give); !fit)
		return usage_error(fit.error());
	ASSIGN_OR_RETURN(auto list, as_usage(pod_list(options)));

	const auto system = real_system(options.root);
	const auto node = real_pod_node(*system, options.root);
	PodKeeper keeper(*system, *node, options.give);

	if (!options.give.dry_run && !system->is_root())
		return Error{"needs root: run it with sudo, or look at what it would do with --dry-run"};
	if (options.watch.empty()) {
		ASSIGN_OR_RETURN(const auto pods, list());
		ASSIGN_OR_RETURN(const auto rows, keeper.pass(pods));
		const bool said = print(options.json ? rows_json(rows, options.give.dry_run, false) :
					rows.empty() ? fmt::format("No pod on this node has the annotation {}.\n", pod_annotation) :
						       rows_text(rows));

		return said ? status_of(rows) : exit_failed;
	}

	const StopSignals stop;
	Keeping keeping(options, std::move(list), keeper);

	do {
		if (!keeping.pass())
			break;
	} while (!stop.sleep(every_s));
	if (options.keep)
		return exit_ok;
	ASSIGN_OR_RETURN(const auto rows, keeper.pass({}));
	return keeping.say(rows) ? status_of(rows) : exit_failed;
}

} // namespace swift
