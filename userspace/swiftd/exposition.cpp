// SPDX-License-Identifier: MIT
#include "exposition.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <prometheus/text_serializer.h>

#include <algorithm>

#include "metrics.pb.h"
#include "text.h"

namespace swift {

namespace {

namespace wire = io::prometheus::client;

constexpr std::string_view protobuf_type = "application/vnd.google.protobuf";

// "a; q=0.5": 0.5; 0 of what is no number.
double weight_of(const std::vector<std::string> &parts)
{
	for (std::size_t i = 1; i < parts.size(); i++) {
		const std::string_view part = trim(parts[i]);

		if (!part.starts_with("q="))
			continue;
		const auto weight = parse_decimal("q", part.substr(2), 0, 1);

		return weight ? *weight : 0;
	}
	return 1;
}

bool has_parameter(const std::vector<std::string> &parts, std::string_view wanted)
{
	return std::any_of(parts.begin() + 1, parts.end(), [&](const std::string &part) { return trim(part) == wanted; });
}

wire::MetricType type_of(prometheus::MetricType type)
{
	switch (type) {
	case prometheus::MetricType::Counter:
		return wire::COUNTER;
	case prometheus::MetricType::Gauge:
		return wire::GAUGE;
	case prometheus::MetricType::Histogram:
		return wire::HISTOGRAM;
	default: // swiftd has no others
		return wire::UNTYPED;
	}
}

void write_native(const NativeHistogram &h, wire::Histogram &to)
{
	wire::BucketSpan *span = nullptr;
	std::int64_t before = 0;
	int next = 0; // index after the newest

	to.set_schema(NativeHistogram::schema);
	to.set_zero_threshold(NativeHistogram::zero_threshold);
	to.set_zero_count(h.zero());
	for (const auto &[index, n] : h.buckets()) {
		if (!span || index != next) {
			span = to.add_positive_span();
			span->set_offset(index - next);
		}
		span->set_length(span->length() + 1);
		to.add_positive_delta(static_cast<std::int64_t>(n) - before);
		before = static_cast<std::int64_t>(n);
		next = index + 1;
	}
}

void write_metric(const prometheus::ClientMetric &m, prometheus::MetricType type, const NativeHistogram *native, wire::Metric &to)
{
	for (const auto &label : m.label) {
		wire::LabelPair *pair = to.add_label();

		pair->set_name(label.name);
		pair->set_value(label.value);
	}
	switch (type) {
	case prometheus::MetricType::Counter:
		to.mutable_counter()->set_value(m.counter.value);
		return;
	case prometheus::MetricType::Gauge:
		to.mutable_gauge()->set_value(m.gauge.value);
		return;
	case prometheus::MetricType::Histogram:
		to.mutable_histogram()->set_sample_count(m.histogram.sample_count);
		to.mutable_histogram()->set_sample_sum(m.histogram.sample_sum);
		if (native)
			return write_native(*native, *to.mutable_histogram());
		for (const auto &bucket : m.histogram.bucket) {
			wire::Bucket *b = to.mutable_histogram()->add_bucket();

			b->set_cumulative_count(bucket.cumulative_count);
			b->set_upper_bound(bucket.upper_bound);
		}
		return;
	default:
		to.mutable_untyped()->set_value(m.untyped.value);
	}
}

// Each family with its length before it.
std::string write_protobuf(const std::vector<MetricFamily> &families, bool classic)
{
	std::string out;
	google::protobuf::io::StringOutputStream to(&out);
	google::protobuf::io::CodedOutputStream coded(&to);

	for (const MetricFamily &f : families) {
		wire::MetricFamily w;

		w.set_name(f.family.name);
		w.set_help(f.family.help);
		w.set_type(type_of(f.family.type));
		for (std::size_t i = 0; i < f.family.metric.size(); i++)
			write_metric(f.family.metric[i], f.family.type,
				     classic || i >= f.native.size() ? nullptr : &f.native[i], *w.add_metric());
		coded.WriteVarint64(w.ByteSizeLong());
		w.SerializeToCodedStream(&coded);
	}
	coded.Trim();
	return out;
}

} // namespace

MetricsForm accepted_form(std::string_view accept)
{
	double protobuf = 0;
	double text = 0;

	for (const std::string &item : split(accept, ',')) {
		const std::vector<std::string> parts = split(item, ';');
		const std::string_view type = trim(parts[0]);

		if (type == protobuf_type && has_parameter(parts, "proto=io.prometheus.client.MetricFamily") &&
		    has_parameter(parts, "encoding=delimited"))
			protobuf = std::max(protobuf, weight_of(parts));
		else if (type == "text/plain")
			text = std::max(text, weight_of(parts));
	}
	return protobuf > 0 && protobuf >= text ? MetricsForm::protobuf : MetricsForm::text;
}

std::string_view content_type(MetricsForm form)
{
	return form == MetricsForm::text ? "text/plain; version=0.0.4; charset=utf-8" :
					   "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited";
}

std::string write_metrics(std::vector<MetricFamily> families, MetricsForm form, bool classic)
{
	std::vector<prometheus::MetricFamily> all;

	if (form == MetricsForm::protobuf)
		return write_protobuf(families, classic);
	for (MetricFamily &f : families) {
		if (!classic && f.family.type == prometheus::MetricType::Histogram)
			for (auto &m : f.family.metric)
				m.histogram.bucket.erase(m.histogram.bucket.begin(), m.histogram.bucket.end() - 1);
		all.push_back(std::move(f.family));
	}
	return prometheus::TextSerializer().Serialize(all);
}

} // namespace swift
