// SPDX-License-Identifier: MIT
// A snapshot as Prometheus reads it. Labels are those of groups, which are bounded; no flow
// has a time series of its own.
#pragma once

#include <string>

#include "store.h"

namespace swift {

[[nodiscard]] std::string metrics_text(const Snapshot &snapshot, const HttpStats &http);

} // namespace swift
