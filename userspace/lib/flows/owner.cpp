// SPDX-License-Identifier: MIT
#include "owner.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

#include "printable.h"
#include "text.h"

namespace swift {

namespace {

constexpr std::size_t id_digits = 64;
constexpr std::size_t short_id_digits = 12; // as people see them
constexpr std::size_t uid_digits = 36;
constexpr std::int64_t refresh_every_ns = 5'000'000'000;
constexpr std::size_t most_remembered = 1 << 16;

bool is_hex(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

bool is_id(std::string_view s)
{
	return s.size() == id_digits && std::all_of(s.begin(), s.end(), is_hex);
}

// @text without @end, if it ends so.
bool cut_end(std::string_view &text, std::string_view end)
{
	if (!text.ends_with(end))
		return false;
	text.remove_suffix(end.size());
	return true;
}

// "cri-containerd-ID.scope", "crio-ID.scope", "docker-ID.scope", "libpod-ID.scope", "ID": the ID.
std::string_view container_id(std::string_view part)
{
	cut_end(part, ".scope");
	const auto dash = part.rfind('-');
	const std::string_view id = dash == std::string_view::npos ? part : part.substr(dash + 1);

	return is_id(id) ? id : std::string_view();
}

// "pod0d2f...": the cgroupfs driver's; "kubepods-burstable-pod0d2f_....slice": systemd's, which has no
// dash to spare. A static pod's uid is a hash without dashes.
std::string pod_uid(std::string_view part)
{
	cut_end(part, ".slice");
	const auto at = part.rfind("pod");

	if (at == std::string_view::npos || (at != 0 && part[at - 1] != '-'))
		return {};
	std::string uid(part.substr(at + 3));

	std::replace(uid.begin(), uid.end(), '_', '-');
	const bool good = (uid.size() == uid_digits || uid.size() == 32) &&
			  std::all_of(uid.begin(), uid.end(), [](char c) { return is_hex(c) || c == '-'; });

	return good ? uid : std::string();
}

std::vector<std::string> file_names(const std::string &directory)
{
	std::vector<std::string> out;
	std::error_code error;

	for (auto at = std::filesystem::directory_iterator(directory, error);
	     !error && at != std::filesystem::directory_iterator(); at.increment(error))
		out.push_back(at->path().filename().string());
	return out;
}

} // namespace

const std::string &Owner::name() const
{
	for (const std::string *s : {&pod, &container, &unit})
		if (!s->empty())
			return *s;
	return cgroup;
}

Owner owner_of(std::string_view cgroup)
{
	Owner out;
	const bool kubernetes = cgroup.find("kubepods") != std::string_view::npos;

	out.cgroup = cgroup;
	for (const std::string &part : split(cgroup, '/')) {
		if (const auto id = container_id(part); !id.empty()) {
			// The innermost: nodes may themselves be containers. What runs in it has units of its own.
			out.container_id = id;
			out.container = id.substr(0, short_id_digits);
			out.unit.clear();
		} else if (part.ends_with(".service") || (part.ends_with(".scope") && part != "init.scope")) {
			out.unit = part;
		}
		if (std::string uid = kubernetes ? pod_uid(part) : std::string(); !uid.empty())
			out.pod = out.pod_uid = std::move(uid);
	}
	return out;
}

// --- Names -----------------------------------------------------------------------------

void KubeletNames::refresh()
{
	pods_.clear();
	containers_.clear();
	// Names of namespaces, pods and containers have no underscore.
	for (const std::string &file : file_names(logs_ + "/pods")) {
		const auto parts = split(file, '_');

		if (parts.size() == 3)
			pods_[parts[2]] = printable(parts[0] + "/" + parts[1]);
	}
	for (const std::string &file : file_names(logs_ + "/containers")) {
		std::string_view text = file;
		const auto dash = text.rfind('-');

		if (!cut_end(text, ".log") || dash == std::string_view::npos || !is_id(text.substr(dash + 1)))
			continue;
		const auto parts = split(text.substr(0, dash), '_');

		if (parts.size() == 3)
			containers_[std::string(text.substr(dash + 1))] = printable(parts[2]);
	}
}

void KubeletNames::name(Owner &owner) const
{
	const auto pod = pods_.find(owner.pod_uid);
	const auto container = containers_.find(owner.container_id);

	if (pod != pods_.end())
		owner.pod = pod->second;
	if (container != containers_.end())
		owner.container = container->second;
}

const Owner &Owners::find(std::uint64_t cgroup_id, std::int64_t now_ns)
{
	auto at = owners_.find(cgroup_id);

	if (at == owners_.end()) {
		if (owners_.size() >= most_remembered)
			owners_.clear();
		at = owners_.emplace(cgroup_id, owner_of(cgroups_.path(cgroup_id))).first;
		names_.name(at->second);
	}
	Owner &o = at->second;
	const bool nameless = !o.pod_uid.empty() && o.pod == o.pod_uid;

	if (nameless && (refreshed_ns_ == 0 || now_ns - refreshed_ns_ >= refresh_every_ns)) {
		refreshed_ns_ = now_ns;
		names_.refresh();
		for (auto &[id, each] : owners_)
			names_.name(each);
	}
	return o;
}

} // namespace swift
