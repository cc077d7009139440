// SPDX-License-Identifier: MIT
// JSON in: what `tc -j` and `ip -j` say, and the state file. JSON out: the state file.

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "changes.h"
#include "json.h"
#include "netns.h"
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

	if (!j.is_object() || j.value("schema", 0) != schema || !j.contains("changes") ||
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

Result<std::vector<Change>> StateFile::load() const
{
	if (!system_.exists(path))
		return std::vector<Change>{};
	ASSIGN_OR_RETURN(auto text, system_.read_file(path));
	const Json j = Json::parse(text, nullptr, false);
	auto changes = changes_of(j);

	if (!changes)
		return Error{std::string("cannot make sense of ") + path +
			     ", which remembers what was changed; move it away to start anew"};
	if (text_member(j, "boot_id").value_or("") != boot_id(system_)) // all but files went with the boot
		return lasts(*changes) ? std::move(*changes) : std::vector<Change>{};
	if (text_member(j, "netns").value_or("") != this_netns())
		return Error{std::string("what ") + path +
			     " remembers was changed in another network namespace: swiftctl disable in that one "
			     "puts it back"};
	return std::move(*changes);
}

Result<void> StateFile::save(const std::vector<Change> &changes)
{
	Json j;

	if (changes.empty())
		return remove();
	j["schema"] = schema;
	j["what"] = "what swiftctl enable changed; swiftctl disable reads it";
	j["boot_id"] = boot_id(system_);
	j["netns"] = this_netns();
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
	return system_.replace_file(path, json_text(j), 0600);
}

Result<void> StateFile::remove()
{
	return system_.remove_file(path);
}

} // namespace swift
