// SPDX-License-Identifier: MIT
// The flows of this host now, look after look: asks the kernel for its sockets and keeps the
// table of what each did meanwhile. Of the network namespace that it was opened in, and of all others
// of the host if it is told to.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "diag.h"
#include "diag_get.h"
#include "fd.h"
#include "files.h"
#include "flow_table.h"
#include "iface_map.h"
#include "netns_list.h"
#include "owner.h"
#include "result.h"
#include "verdict.h"

namespace swift {

struct FlowLook {
	std::shared_ptr<const FlowSet> flows;
	DiagStatus status; // of the kernel's list
	bool ifaces_known = true; // else interfaces are those of the look before
	// Of other network namespaces.
	std::size_t netns = 0; // that were looked at
	std::size_t silent_processes = 0; // whose namespaces are not known
	std::optional<Error> netns_trouble; // why not all were
	double others_cpu_s = 0; // that they took, on another thread
};

enum class NetnsScope : std::uint8_t { own, all };

// What verdicts depend on, as the module has it now; else its defaults.
[[nodiscard]] SummaryOptions verdict_options(const Files &files);

class FlowObserver {
public:
	// Finds the socket storages of BPF variants, without which their flows have no record.
	using Storages = std::function<std::vector<Fd>()>;

	// @storages is called at most each @storages_every_ns.
	static Result<FlowObserver> open(FlowTableOptions options, Storages storages,
					 std::int64_t storages_every_ns = 0);

	// @alive is called now and then while the kernel lists many flows.
	Result<FlowLook> look(const std::function<void()> &alive = {});
	// For the looks to come; groups begin anew.
	void reconfigure(FlowTableOptions options) { table_.reconfigure(std::move(options)); }
	// Of our own namespace.
	[[nodiscard]] const IfaceMap &ifaces() const { return ifaces_; }
	void look_at(NetnsScope scope) { scope_ = scope; }
	// Called once for each other namespace that was found, with its descriptor; from another thread,
	// which is in that namespace, while look() waits for it.
	using NewNetns = std::function<void(const Netns &netns, int fd)>;
	void on_new_netns(NewNetns new_netns) { new_netns_ = std::move(new_netns); }
	// And once more, of all.
	void forget_netns() { places_.clear(); }

private:
	FlowObserver(FlowTableOptions options, Storages storages, std::int64_t storages_every_ns, IfaceMap ifaces)
		: find_storages_(std::move(storages)), storages_every_ns_(storages_every_ns),
		  ifaces_(std::move(ifaces)), table_(std::move(options))
	{
	}

	// What is known of another namespace.
	struct Place {
		std::uint64_t cookie = 0;
		IfaceMap ifaces;
		std::int64_t ifaces_ns = 0; // when they were read
		bool seen = false; // in this look
		std::vector<FlowId> flows; // of the look before, if they can be asked for one by one
		bool one_by_one = false;
	};
	// Whether @place's flows are all that there are, shown one by one; else it takes a list.
	static bool look_one_by_one(Place &place, const FlowVisitor &add, DiagStatus &status);
	void look_at_others(const std::vector<Netns> &others, std::int64_t now_ns, const FlowVisitor &add, FlowLook &out);
	Result<DiagStatus> look_inside(const Netns &netns, int fd, std::int64_t now_ns, const FlowVisitor &add);

	std::optional<DiagClient> diag_; // opened by the first look, and anew after one that failed
	Storages find_storages_;
	std::int64_t storages_every_ns_;
	std::vector<Fd> storages_;
	std::int64_t storages_ns_ = 0; // when they were looked for
	IfaceMap ifaces_;
	FlowTable table_;
	NetnsScope scope_ = NetnsScope::own;
	NetnsList netns_;
	NewNetns new_netns_;
	std::map<std::uint32_t, Place> places_; // by inode
	std::unique_ptr<Owners> owners_ = std::make_unique<Owners>();
};

} // namespace swift
