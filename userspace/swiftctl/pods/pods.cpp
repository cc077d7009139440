// SPDX-License-Identifier: MIT
// A pass:  for each pod that asks: remember -> enable in its namespace, once a namespace
//          for each that is remembered and does not ask: disable there -> forget
// A list that cannot be had changes nothing.
#include "pods.h"

#include "cgroups.h"
#include "json.h"
#include "netns.h"
#include "netns_visit.h"
#include "printable.h"

namespace swift {

namespace {

constexpr int pods_schema = 1;

class RealPodNode final : public PodNode {
public:
	RealPodNode(System &system, std::string root) : system_(system), root_(std::move(root)) {}

	Result<std::map<std::string, PodNetns>> find(const std::set<std::string> &uids) override
	{
		known_live_.clear(); // a pass begins
		ASSIGN_OR_RETURN(const auto netns, pod_netns(uids, Cgroups::find_mount()));
		std::vector<Netns> all;
		std::map<std::string, std::uint64_t> cookies; // by the path, which is of a process of one pod
		std::map<std::string, PodNetns> found;

		for (const auto &[uid, n] : netns)
			all.push_back(n);
		visit_netns(all, [&](const Netns &n, int) {
			const auto cookie = netns_cookie();

			cookies[n.paths.front()] = cookie ? *cookie : 0;
		});
		for (const auto &[uid, n] : netns)
			found[uid] = {n, cookies[n.paths.front()]};
		return found;
	}
	std::uint32_t own_inode() const override { return this_netns_inode(); }
	Result<Outcome> give(const Netns &netns, const std::string &pod, const EnableOptions &options) override
	{
		EnableOptions there = options;

		there.netns = netns.paths.front(); // of the commands that --dry-run prints
		return in(netns, pod, [&](const Place &place) { return enable(system_, there, place); });
	}
	Result<Outcome> take_back(const Netns &netns, const std::string &pod, const DisableOptions &options) override
	{
		DisableOptions there = options;

		there.netns = netns.paths.front();
		return in(netns, pod, [&](const Place &place) { return disable(system_, *real_sockets(root_), there, place); });
	}

private:
	Result<Outcome> in(const Netns &netns, const std::string &pod, const std::function<Outcome(const Place &)> &act)
	{
		std::optional<Outcome> outcome;
		const NetnsVisit visit = visit_netns({netns}, [&](const Netns &, int) {
			Place place;

			place.name = "of pod " + pod;
			place.known_live = known_live_;
			place.live = [this] {
				auto live = live_netns();

				if (live)
					known_live_ = *live;
				return live;
			};
			outcome = act(place);
		});

		if (outcome)
			return std::move(*outcome);
		return visit.trouble ? *visit.trouble : Error{"its network namespace has gone", {}, {}, ENOENT};
	}

	System &system_;
	std::string root_;
	std::set<std::string> known_live_; // or each pod would have all namespaces looked through
};

// A sandbox that is made anew soon has the inode's number of the one before. One that cannot be entered now
// could not be given anything either, and is asked at the next pass.
bool is_same(const PodNetns &before, const PodNetns &now)
{
	return before.inode == now.inode && (before.cookie == now.cookie || now.cookie == 0);
}

} // namespace

std::unique_ptr<PodNode> real_pod_node(System &system, const std::string &root)
{
	return std::make_unique<RealPodNode>(system, root);
}

Result<void> PodKeeper::load()
{
	if (std::exchange(loaded_, true) || !system_.exists(path))
		return {};
	loaded_ = false;
	ASSIGN_OR_RETURN(const auto text, system_.read_file(path));
	const Json j = Json::parse(text, nullptr, false);

	if (!j.is_object() || j.value("schema", Json()) != pods_schema || !j.contains("pods") || !j["pods"].is_array())
		return Error{std::string("cannot make sense of ") + path +
			     ", which remembers which pods were given swift; move it away to start anew"};
	loaded_ = true;
	if (text_member(j, "boot_id").value_or("") != boot_id(system_)) // their namespaces went with it
		return {};
	for (const Json &pod : j["pods"])
		if (const auto uid = pod.is_object() ? text_member(pod, "uid") : std::nullopt; uid)
			remembered_[*uid] = printable(text_member(pod, "pod").value_or(""));
	return {};
}

Result<void> PodKeeper::save()
{
	Json j;

	if (remembered_.empty())
		return system_.remove_file(path);
	j["schema"] = pods_schema;
	j["what"] = "pods that swiftctl pods has given swift; it takes it back from those that ask no more";
	j["boot_id"] = boot_id(system_);
	j["pods"] = json_list(remembered_, [](const auto &pod) { return Json{{"uid", pod.first}, {"pod", pod.second}}; });
	return system_.replace_file(path, json_text(j), 0600);
}

PodRow PodKeeper::give(const Pod &pod, const PodNetns *netns)
{
	PodRow row{pod.name, pod.uid, netns ? netns->name : "", "swift"};

	if (!netns) {
		row.state = "waiting";
		row.why = "it has no process on this node yet";
		return row;
	}
	if (netns->inode == node_.own_inode()) {
		row.state = "refused";
		row.why = "it has the node's own network namespace (hostNetwork): swiftctl enable is for that one";
		return row;
	}
	row.cookie = netns->cookie;
	if (const auto had = has_.find(pod.uid); had != has_.end() && is_same(had->second, *netns)) {
		row.cookie = had->second.cookie;
		return row;
	}
	if (!give_.dry_run && remembered_.try_emplace(pod.uid, pod.name).second) {
		if (const auto saved = save(); !saved) {
			remembered_.erase(pod.uid);
			row.state = "failed";
			row.why = saved.error().text();
			return row;
		}
	}
	auto outcome = node_.give(*netns, pod.name, give_);

	if (!outcome || outcome->error) {
		row.state = "failed";
		row.why = outcome ? outcome->error->text() : outcome.error().text();
	} else if (give_.dry_run) {
		row.state = outcome->dry_lines.empty() ? "swift" : "would change";
	} else {
		has_[pod.uid] = *netns;
	}
	if (outcome) {
		row.events = std::move(outcome->events);
		row.notes = std::move(outcome->notes);
		row.dry_lines = std::move(outcome->dry_lines);
	}
	return row;
}

PodRow PodKeeper::take_back(const std::string &uid, const Netns *netns)
{
	PodRow row{remembered_.at(uid), uid, netns ? netns->name : "", "taken back"};
	DisableOptions options;

	options.dry_run = give_.dry_run;
	if (!netns || netns->inode == node_.own_inode()) {
		row.state = "gone"; // and its settings with it
	} else if (auto outcome = node_.take_back(*netns, row.pod, options); !outcome || outcome->error) {
		const Error &why = outcome ? *outcome->error : outcome.error();

		row.state = !outcome && why.code == ENOENT ? "gone" : "failed";
		row.why = row.state == "gone" ? "" : why.text();
	} else {
		if (give_.dry_run)
			row.state = "would change";
		row.events = std::move(outcome->events);
		row.notes = std::move(outcome->notes);
		row.dry_lines = std::move(outcome->dry_lines);
	}
	return row;
}

Result<std::vector<PodRow>> PodKeeper::pass(const std::vector<Pod> &pods)
{
	std::vector<PodRow> rows;
	std::set<std::string> uids, asking;

	RETURN_IF_ERROR(load());
	for (const Pod &pod : pods)
		if (pod.asks)
			asking.insert(pod.uid);
	uids = asking;
	for (const auto &[uid, name] : remembered_)
		uids.insert(uid);

	ASSIGN_OR_RETURN(const auto found, node_.find(uids));
	const auto netns = [&](const std::string &uid) {
		const auto at = found.find(uid);

		return at != found.end() ? &at->second : nullptr;
	};

	for (const Pod &pod : pods) {
		if (pod.asks)
			rows.push_back(give(pod, netns(pod.uid)));
		else if (!pod.wrong.empty())
			rows.push_back({pod.name, pod.uid, "", "refused", pod.wrong});
	}

	const auto before = remembered_;

	for (const auto &[uid, name] : before) {
		if (asking.contains(uid))
			continue;
		rows.push_back(take_back(uid, netns(uid)));
		if (rows.back().state != "failed" && !give_.dry_run) {
			remembered_.erase(uid);
			has_.erase(uid);
		}
	}
	if (remembered_ != before && !give_.dry_run)
		RETURN_IF_ERROR(save());
	return rows;
}

} // namespace swift
