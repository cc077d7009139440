// SPDX-License-Identifier: MIT
// One page of those flows that somebody asks for, out of all of a look.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "address.h"
#include "flow_table.h"
#include "verdict.h"

namespace swift {

enum class FlowSort : std::uint8_t { rate, fabric, host, rtt, window, retrans, age };

struct FlowSelection {
	FlowSort sort = FlowSort::rate;
	bool descending = true;
	std::size_t limit = 50;
	std::size_t offset = 0;
	std::string cc; // empty: any
	std::optional<Prefix> prefix;
	std::optional<Limit> limit_by;
	std::optional<Bound> held_by;
	std::optional<std::string> iface;
	std::optional<std::string> netns; // its name; or own, or others: as groups have it
	std::optional<std::string> owner; // its name
	std::string q; // part of an address, of the interface's, namespace's, owner's name; or the whole id

	[[nodiscard]] std::string key() const; // equal for equal ones
};

struct FoundFlows {
	std::vector<std::uint32_t> rows; // of the page, in order
	std::size_t matched = 0; // in all
};

// Whether nobody wants it any more; asked again and again while it is searched.
using Cancelled = std::function<bool()>;

// nullopt: it was cancelled.
[[nodiscard]] std::optional<FoundFlows> find_flows(const FlowSet &set, const SummaryOptions &verdicts,
						   const FlowSelection &q, const Cancelled &cancelled = {});

} // namespace swift
