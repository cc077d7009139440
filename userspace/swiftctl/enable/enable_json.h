// SPDX-License-Identifier: MIT
// What enable and disable have done, in the JSON of every verb that calls them.
#pragma once

#include <vector>

#include "enable.h"
#include "json.h"

namespace swift {

[[nodiscard]] Json changes_json(const std::vector<Event> &events);

} // namespace swift
