// SPDX-License-Identifier: MIT
// A snapshot as Prometheus reads it. Labels are those of groups, which are bounded; no flow
// has a time series of its own.
#pragma once

#include <string>
#include <vector>

#include "store.h"

namespace prometheus {
struct MetricFamily;
}

namespace swift {

// As Prometheus' library has them, for other forms (otlp.h).
[[nodiscard]] std::vector<prometheus::MetricFamily> metric_families(const Snapshot &snapshot, const CollectStats &collect,
								    const HttpStats &http, double age_s);
// @collect: the newest, which may be newer than @snapshot. @age_s: of the snapshot.
[[nodiscard]] std::string metrics_text(const Snapshot &snapshot, const CollectStats &collect, const HttpStats &http,
				       double age_s);

} // namespace swift
