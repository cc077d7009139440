// SPDX-License-Identifier: MIT
// A snapshot as Prometheus reads it. Labels are those of groups, which are bounded; no flow
// has a time series of its own.
#pragma once

#include <string>

#include "store.h"

namespace swift {

// @collect: the newest, which may be newer than @snapshot. @age_s: of the snapshot.
[[nodiscard]] std::string metrics_text(const Snapshot &snapshot, const CollectStats &collect, const HttpStats &http,
				       double age_s);

} // namespace swift
