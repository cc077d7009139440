// SPDX-License-Identifier: MIT
// JSON in: what `tc -j` and `ip -j` say, and the state file. JSON out: the state file.

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "changes.h"
#include "json.h"
#include "netns.h"
#include "netns_visit.h"
#include "text.h"
#include "tunables.h"

namespace swift {

namespace {

constexpr int schema = 1;

Json json_of(const Value &v)
{
	return v ? Json(*v) : Json(nullptr);
}

std::optional<Kind> kind_of(const std::string &name)
{
	for (const Kind k : {Kind::module, Kind::sysctl, Kind::qdisc, Kind::file})
		if (name == kind_name(k))
			return k;
	return std::nullopt;
}

std::optional<Change> change_of(const Json &j)
{
	const auto kind = kind_of(text_member(j, "kind").value_or(""));
	const auto key = text_member(j, "key");

	if (!kind || !key || !j.contains("before") || !j.contains("written") || !j["written"].is_array())
		return std::nullopt;

	const Json &before = j["before"];

	if (!(before.is_null() || before.is_string()))
		return std::nullopt;

	Change c{{*kind, *key}, {}, {}};

	if (!is_ours(c.item))
		return std::nullopt;
	if (before.is_string())
		c.before = before.get<std::string>();
	for (const Json &w : j["written"]) {
		if (!w.is_string())
			return std::nullopt;
		c.written.push_back(w.get<std::string>());
	}
	c.left_as = text_member(j, "left_as").value_or("");
	return c;
}

std::optional<std::vector<Change>> changes_of(const Json &j)
{
	std::vector<Change> changes;

	if (!j.is_object() || j.value("schema", Json()) != schema || !j.contains("changes") ||
	    !j["changes"].is_array())
		return std::nullopt;
	for (const Json &entry : j["changes"]) {
		auto change = change_of(entry);

		if (!change)
			return std::nullopt;
		changes.push_back(std::move(*change));
	}
	return changes;
}

bool lasts(const std::vector<Change> &changes)
{
	return std::any_of(changes.begin(), changes.end(),
			   [](const Change &c) { return c.item.kind == Kind::file; });
}

bool is_cookie(std::string_view s)
{
	return !s.empty() && s.size() <= 20 && s.find_first_not_of("0123456789") == std::string_view::npos;
}

} // namespace

Result<RootQdisc> root_qdisc(System &system, const std::string &dev)
{
	auto result = system.run({"tc", "-j", "qdisc", "show", "dev", dev});

	if (!result)
		return Error{result.error().text() + " (package iproute2)"};

	const Json list = Json::parse(result->out, nullptr, false);

	if (result->status != 0 || !list.is_array())
		return Error{"cannot read the qdisc of " + dev + ": " +
			     (result->err.empty() ? "tc said nothing usable" : result->err)};

	RootQdisc root;
	std::set<std::string> below, details;

	for (const Json &q : list) {
		if (!q.is_object())
			continue;
		const std::string kind = text_member(q, "kind").value_or("");
		const std::string handle = text_member(q, "handle").value_or("");
		const std::string detail = fmt::format("{} {} {}", kind, handle, q.value("options", Json::object()).dump());

		if (q.contains("root")) {
			root.value = kind;
			// Handle 0 is what only the kernel's own default has.
			root.by_hand = handle != "0:";
			root.detail = detail;
		} else if (kind != "ingress" && kind != "clsact") {
			below.insert(kind);
			details.insert(detail);
		}
	}
	if (root.value.empty())
		root.value = "noqueue";
	if (root.value == "mq") {
		std::string kinds;

		for (const std::string &kind : below)
			kinds += (kinds.empty() ? "" : "+") + kind;
		root.value += "(" + kinds + ")";
	}
	// However many queues there are.
	for (const std::string &detail : details)
		root.detail += "; " + detail;
	return root;
}

Result<std::uint64_t> gso_max_size(System &system, const std::string &dev)
{
	ASSIGN_OR_RETURN(auto result, system.run({"ip", "-j", "-d", "link", "show", "dev", dev}));

	const Json list = Json::parse(result.out, nullptr, false);

	if (list.is_array() && !list.empty() && list[0].is_object()) {
		const auto size = list[0].find("gso_max_size");

		if (size != list[0].end() && size->is_number_unsigned())
			return size->get<std::uint64_t>();
	}
	return Error{"cannot read gso_max_size of " + dev};
}

bool is_ours(const Item &item)
{
	const std::string &key = item.key;

	switch (item.kind) {
	case Kind::module:
		return key == "tcp_swift";
	case Kind::sysctl:
		return key == allowed_cc_sysctl || key == default_cc_sysctl || key == default_qdisc_sysctl ||
		       (key.starts_with(sysctl_prefix) && find_tunable(key.substr(sysctl_prefix.size())));
	case Kind::qdisc:
		return !key.empty() && key.size() < 16 && key[0] != '-' && key.find('/') == std::string::npos &&
		       words(key).size() == 1;
	case Kind::file:
		break;
	}
	return key == modules_file || key == sysctl_file;
}

std::optional<std::set<std::string>> live_netns()
{
	NetnsList list;
	std::set<std::string> cookies = {this_netns()};
	const NetnsVisit visit = visit_netns(list.scan(), [&](const Netns &, int) { cookies.insert(this_netns()); });

	if (visit.trouble || list.silent_processes() > 0 || cookies.contains("0"))
		return std::nullopt;
	return cookies;
}

struct StateFile::Content {
	std::string text;
	std::string boot_id;
	std::string netns; // its cookie
	std::string name;
	std::vector<Change> changes;
};

StateFile::StateFile(System &system, Place place)
	: system_(system), place_(std::move(place)), initial_(in_initial_netns(system))
{
}

std::string StateFile::path_of(const std::string &cookie)
{
	return fmt::format("{}/enable-{}.json", state_dir(Keeper::tools), cookie);
}

Result<std::optional<StateFile::Content>> StateFile::read(const std::string &file) const
{
	if (!system_.exists(file))
		return std::optional<Content>();
	ASSIGN_OR_RETURN(auto text, system_.read_file(file));
	const Json j = Json::parse(text, nullptr, false);
	auto changes = changes_of(j);

	if (!changes)
		return Error{"cannot make sense of " + file +
			     ", which remembers what was changed; move it away to start anew"};
	return std::optional(Content{std::move(text), text_member(j, "boot_id").value_or(""),
				     text_member(j, "netns").value_or(""), text_member(j, "name").value_or(""),
				     std::move(*changes)});
}

std::vector<std::string> StateFile::other_cookies() const
{
	static constexpr std::string_view begin = "enable-", end = ".json";
	const auto files = system_.list_dir(state_dir(Keeper::tools));
	std::vector<std::string> cookies;

	for (const std::string &file : files ? *files : std::vector<std::string>{}) {
		if (!file.starts_with(begin) || !file.ends_with(end) || file.size() < begin.size() + end.size())
			continue;
		std::string cookie = file.substr(begin.size(), file.size() - begin.size() - end.size());

		if (is_cookie(cookie) && path_of(cookie) != own_path())
			cookies.push_back(std::move(cookie));
	}
	return cookies;
}

std::vector<std::string> StateFile::others() const
{
	std::vector<std::string> names;

	for (const std::string &cookie : other_cookies()) {
		const auto content = read(path_of(cookie));

		names.push_back(content && *content && !(*content)->name.empty() ? (*content)->name :
										    "with cookie " + cookie);
	}
	return names;
}

// There was one file for all, of whichever came first.
Result<void> StateFile::move_old()
{
	const auto old = read(path);

	// What makes no sense is load()'s to refuse; of an earlier boot, the initial namespace's to undo.
	if (!old || !*old || (*old)->boot_id != boot_id(system_) || !is_cookie((*old)->netns))
		return {};
	const bool mine = (*old)->netns == place_.cookie;

	if (mine == initial_) // it is where it belongs, or that cannot be told from here
		return {};
	if (const std::string file = path_of((*old)->netns); !system_.exists(file))
		RETURN_IF_ERROR(system_.replace_file(file, (*old)->text, 0600));
	return system_.remove_file(path);
}

// What is the host's in @changes of a namespace that is gone; true: there is nothing else to keep of them.
Result<bool> StateFile::take_over(const std::vector<Change> &changes)
{
	if (std::none_of(changes.begin(), changes.end(), [](const Change &c) { return of_host(c.item); }))
		return true;
	if (!initial_)
		return false;
	ASSIGN_OR_RETURN(auto mine, load());
	for (const Change &c : changes)
		if (of_host(c.item) &&
		    std::none_of(mine.begin(), mine.end(), [&](const Change &m) { return m.item == c.item; }))
			mine.push_back(c);
	RETURN_IF_ERROR(save(mine));
	return true;
}

Result<std::vector<std::string>> StateFile::settle()
{
	std::vector<std::string> said;

	RETURN_IF_ERROR(move_old());
	auto cookies = other_cookies();

	std::erase_if(cookies, [&](const std::string &cookie) { return place_.known_live.contains(cookie); });
	if (cookies.empty())
		return said;
	const auto live = place_.live();

	for (const std::string &cookie : cookies) {
		const auto content = read(path_of(cookie));
		const bool known = content && *content;
		const bool earlier = known && (*content)->boot_id != boot_id(system_);

		if (!earlier && (!live || live->contains(cookie)))
			continue;
		if (known) {
			ASSIGN_OR_RETURN(const bool all, take_over((*content)->changes));
			if (!all)
				continue;
		}
		RETURN_IF_ERROR(system_.remove_file(path_of(cookie)));
		said.push_back(fmt::format("network namespace {} is gone{}: what swiftctl enable had changed there is forgotten",
					   known && !(*content)->name.empty() ? (*content)->name : "with cookie " + cookie,
					   earlier ? " with an earlier boot" : ""));
	}
	return said;
}

Result<std::vector<Change>> StateFile::load() const
{
	ASSIGN_OR_RETURN(auto own, read(own_path()));
	if (own && own->boot_id != boot_id(system_)) { // all but files went with the boot
		if (initial_ && lasts(own->changes)) {
			for (Change &c : own->changes)
				c.left_as.clear(); // that qdisc, too: the kernel's default is one of ours now
			return std::move(own->changes);
		}
		own.reset();
	}
	if (own && own->netns == place_.cookie)
		return std::move(own->changes);
	if (!initial_) { // of an older version, which settle() has not moved yet
		if (auto old = read(path); old && *old && (*old)->boot_id == boot_id(system_) &&
					   (*old)->netns == place_.cookie)
			return std::move((*old)->changes);
	}
	return std::vector<Change>{};
}

Result<void> StateFile::save(const std::vector<Change> &changes)
{
	Json j;

	if (changes.empty())
		return remove();
	j["schema"] = schema;
	j["what"] = "what swiftctl enable changed; swiftctl disable reads it";
	j["boot_id"] = boot_id(system_);
	j["netns"] = place_.cookie;
	if (!initial_ && !place_.name.empty())
		j["name"] = place_.name;
	j["changes"] = Json::array();
	for (const Change &c : changes) {
		Json entry = {{"kind", kind_name(c.item.kind)},
			      {"key", c.item.key},
			      {"before", json_of(c.before)},
			      {"written", c.written}};

		if (!c.left_as.empty())
			entry["left_as"] = c.left_as;
		j["changes"].push_back(std::move(entry));
	}
	return system_.replace_file(own_path(), json_text(j), 0600);
}

Result<void> StateFile::remove()
{
	return system_.remove_file(own_path());
}

} // namespace swift
