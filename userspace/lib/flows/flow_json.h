// SPDX-License-Identifier: MIT
// One vocabulary for a flow, wherever it is said in JSON: names and units are those of flow_row in
// Documentation/api/v1.schema.json.
#pragma once

#include <cstdint>
#include <string>

#include "flow_table.h"
#include "json.h"
#include "verdict.h"

namespace swift {

// All that one look at a flow tells; null: the kernel does not tell. What takes a second look, and
// what it counts under, is to be added by who knows it.
[[nodiscard]] Json flow_json(const FlowRow &row, const SummaryOptions &verdicts);
[[nodiscard]] Json flow_json(const Flow &flow, const SummaryOptions &verdicts);

// Whose it is, by the same vocabulary: added to @flow.
void add_owner_json(Json &flow, const std::string &netns, const Owner &owner);
// {"pid", "program"}, or null.
[[nodiscard]] Json process_json(const std::optional<Process> &process);

[[nodiscard]] std::string flow_id_text(std::uint64_t cookie);
[[nodiscard]] std::string_view source_text(Stamp s); // hardware, software, none

// What a look tells of a flow, without its congestion control and its group.
[[nodiscard]] FlowRow row_of(const Flow &flow);

} // namespace swift
