// SPDX-License-Identifier: MIT
// The flows of this host now, look after look: asks the kernel for its sockets and keeps the
// table of what each did meanwhile. Of the network namespace that it was opened in.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "diag.h"
#include "fd.h"
#include "flow_table.h"
#include "iface_map.h"
#include "files.h"
#include "result.h"
#include "verdict.h"

namespace swift {

struct FlowLook {
	std::shared_ptr<const FlowSet> flows;
	DiagStatus status; // of the kernel's list
	bool ifaces_known = true; // else interfaces are those of the look before
};

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

private:
	FlowObserver(FlowTableOptions options, Storages storages, std::int64_t storages_every_ns, IfaceMap ifaces)
		: find_storages_(std::move(storages)), storages_every_ns_(storages_every_ns),
		  ifaces_(std::move(ifaces)), table_(std::move(options))
	{
	}

	std::optional<DiagClient> diag_; // opened by the first look, and anew after one that failed
	Storages find_storages_;
	std::int64_t storages_every_ns_;
	std::vector<Fd> storages_;
	std::int64_t storages_ns_ = 0; // when they were looked for
	IfaceMap ifaces_;
	FlowTable table_;
};

} // namespace swift
