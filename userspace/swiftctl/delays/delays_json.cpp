// SPDX-License-Identifier: MIT
// What `swiftctl delays --json` says.
#include "delays.h"
#include "flow_json.h"
#include "json.h"

namespace swift {

namespace {

Json histogram_json(const LogHistogram &h)
{
	Json j = {{"count", h.count()}, {"sum", h.sum()}};

	if (h.empty())
		return j;
	j["mean"] = h.mean();
	j["p50"] = h.quantile(0.5);
	j["p90"] = h.quantile(0.9);
	j["p99"] = h.quantile(0.99);
	j["p999"] = h.quantile(0.999);
	j["buckets"] = Json::array();
	for (std::size_t i = 0; i < LogHistogram::bucket_count; i++)
		if (h.buckets()[i] > 0)
			j["buckets"].push_back({{"from", LogHistogram::lower(i)},
						{"below", LogHistogram::upper(i)},
						{"count", h.buckets()[i]}});
	return j;
}

void put_counts(Json &j, const TelemetryCounts &c)
{
	j["samples"] = c.samples();
	for (std::size_t i = 0; i < decision_count; i++)
		j["decisions"][std::string(decision_name(static_cast<Decision>(i)))] = c.decisions[i];
	j["lost_pkts"] = c.losses;
	for (std::size_t i = 0; i < telemetered_count; i++)
		j[std::string(telemetered_name(static_cast<Telemetered>(i)))] = histogram_json(c.histograms[i]);
}

} // namespace

std::string delays_json(const TelemetryReading &r, const DelaysQuery &query)
{
	Json j;

	j["schema"] = 1;
	j["monotonic_ns"] = r.time_ns;
	j["interval_s"] = r.interval_ns > 0 ? Json(static_cast<double>(r.interval_ns) / 1e9) : Json(nullptr);
	j["module_watched"] = r.module_attached;
	j["tx_one_in"] = r.tx_one_in ? Json(r.tx_one_in) : Json(nullptr);
	j["tx_nic_watched"] = r.tx_nic_attached;
	j["samples"] = r.samples;
	j["missed"] = r.missed;
	j["flows_evicted"] = r.flows_evicted;
	j["samples_without_flow"] = r.without_flow;
	j["samples_in_other_prefix"] = r.in_other;
	j["samples_without_prefix"] = r.without_prefix;
	j["max_flows"] = r.max_flows;
	j["max_prefixes"] = r.max_prefixes;
	j["relative_error"] = 0.125;
	j["prefixes"] = Json::array();
	for (const TelemetryPrefix &p : r.prefixes) {
		Json e = {{"dst_prefix", prefix_text(p.prefix)}, {"cc", p.cc}};

		e["netns"] = p.prefix ? Json(p.netns) : Json(nullptr);
		if (!query.wants(p.prefix))
			continue;
		put_counts(e, p.counts);
		j["prefixes"].push_back(std::move(e));
	}
	j["flows"] = Json::array();
	for (const TelemetryFlow &f : r.flows) {
		Json e = {{"local", f.local.text()},
			  {"remote", f.remote.text()},
			  {"local_addr", f.local.address.text()},
			  {"local_port", f.local.port},
			  {"remote_addr", f.remote.address.text()},
			  {"remote_port", f.remote.port},
			  {"cc", f.cc},
			  {"dst_prefix", prefix_text(f.prefix)},
			  {"netns", f.netns},
			  {"first_ns", f.first_ns},
			  {"last_ns", f.last_ns}};

		if (!query.wants(f.remote.address))
			continue;
		if (f.cookie)
			e["id"] = flow_id_text(f.cookie), e["cookie"] = f.cookie;
		put_counts(e, f.counts);
		j["flows"].push_back(std::move(e));
	}
	return json_text(j);
}

} // namespace swift
