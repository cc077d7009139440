// SPDX-License-Identifier: MIT
// Metrics as they go over the wire to Prometheus: which form a client takes, and both of them. What
// metrics there are is metrics.h's.
#pragma once

#include <cstdint>
#include <prometheus/metric_family.h>

#include <string>
#include <string_view>
#include <vector>

#include "native_histogram.h"

namespace swift {

// As Prometheus' library has it, which knows classic histograms only; those of @family.metric in their order.
struct MetricFamily {
	prometheus::MetricFamily family;
	std::vector<NativeHistogram> native; // of a histogram: one for each metric
};

enum class MetricsForm : std::uint8_t { text, protobuf };

// Of the header Accept: protobuf if it is named with at least the weight of text, as Prometheus does that
// takes native histograms.
[[nodiscard]] MetricsForm accepted_form(std::string_view accept);
[[nodiscard]] std::string_view content_type(MetricsForm form);

// @classic: histograms with buckets as series of their own. Without: in protobuf they are native ones, and
// the text, which has no word for these, has their sums and counts.
[[nodiscard]] std::string write_metrics(std::vector<MetricFamily> families, MetricsForm form, bool classic);

} // namespace swift
