// SPDX-License-Identifier: MIT
// Whose a flow is: systemd unit, container and pod, out of the path of its control group, as systemd,
// containerd, CRI-O, Docker and Podman make them; and the names that the kubelet has for them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>

#include "cgroups.h"

namespace swift {

// Empty: not known, or there is none.
struct Owner {
	std::string cgroup; // path
	std::string unit; // "nginx.service", "session-3.scope"
	std::string container; // its name; else the first 12 digits of its id
	std::string pod; // "namespace/name"; else its uid
	std::string container_id;
	std::string pod_uid;

	// In one word, the most telling: pod, container, unit, cgroup.
	[[nodiscard]] const std::string &name() const;
	bool operator==(const Owner &) const = default;
};

// What the path alone tells.
[[nodiscard]] Owner owner_of(std::string_view cgroup);

// Names of pods and containers by the kubelet's own folders of logs, which it makes whatever the
// runtime: /var/log/pods/NAMESPACE_POD_UID, /var/log/containers/POD_NAMESPACE_CONTAINER-ID.log.
class KubeletNames {
public:
	explicit KubeletNames(std::string logs = "/var/log") : logs_(std::move(logs)) {}
	void refresh();
	void name(Owner &owner) const;

private:
	std::string logs_;
	std::map<std::string, std::string, std::less<>> pods_; // by uid
	std::map<std::string, std::string, std::less<>> containers_; // by id
};

// Owners by the numbers of their control groups, remembered.
class Owners {
public:
	explicit Owners(Cgroups cgroups = Cgroups(), KubeletNames names = KubeletNames())
		: cgroups_(std::move(cgroups)), names_(std::move(names))
	{
	}
	// @now_ns: names that were not there are looked for again some seconds later.
	const Owner &find(std::uint64_t cgroup_id, std::int64_t now_ns);
	[[nodiscard]] const Cgroups &cgroups() const { return cgroups_; }

private:
	Cgroups cgroups_;
	KubeletNames names_;
	std::unordered_map<std::uint64_t, Owner> owners_;
	std::int64_t refreshed_ns_ = 0;
};

} // namespace swift
