// SPDX-License-Identifier: MIT
// A snapshot as metrics. Labels are those of groups, which are bounded; no flow has a time series of its
// own. How they are written out: exposition.h.
#pragma once

#include <string>
#include <vector>

#include "exposition.h"
#include "store.h"

namespace swift {

// @collect: the newest, which may be newer than @snapshot. @age_s: of the snapshot.
[[nodiscard]] std::vector<MetricFamily> metric_families(const Snapshot &snapshot, const CollectStats &collect,
							const HttpStats &http, double age_s);

} // namespace swift
