// SPDX-License-Identifier: MIT
// One run out of its parts, and the JSON of all.
#include "ab_result.h"

#include <algorithm>
#include <numeric>

#include "ab_json.h"

namespace swift {

namespace {

template <typename T> Json maybe(const std::optional<T> &v)
{
	return v ? Json(*v) : Json(nullptr);
}

Json json_of(const DelayPercentiles &p)
{
	return {{"avg", p.avg}, {"p50", maybe(p.p50)}, {"p99", maybe(p.p99)}};
}

Json json_of(const std::optional<AbRtt> &r)
{
	if (!r)
		return nullptr;
	return {{"avg", r->avg},	   {"p50", maybe(r->p50)}, {"p99", maybe(r->p99)},
		{"p999", maybe(r->p999)}, {"count", r->count}};
}

Json answers_json(const AbRun &r)
{
	if (!r.rr_ns)
		return nullptr;
	Json j = json_of(r.rr_ns);

	j["p90"] = maybe(r.rr_ns->p90);
	return j;
}

Json json_of(const std::optional<AbLaw> &l)
{
	if (!l)
		return nullptr;
	return {{"fabric_ns", json_of(l->fabric_ns)},
		{"endpoint_ns", json_of(l->endpoint_ns)},
		{"target_ns", {{"p50", l->target_ns}}},
		{"fcwnd", {{"p50", l->fcwnd}}},
		{"ecwnd", {{"p50", l->ecwnd}}},
		{"endpoint_limited", l->endpoint_limited},
		{"samples", l->samples}};
}

Json json_of(const AbEnd &e)
{
	Json j = {{"host", e.host.empty() ? Json(nullptr) : Json(e.host)},
		  {"role", e.sender ? "sender" : "receiver"},
		  {"samples", e.samples},
		  {"srtt_ns", e.srtt_ns ? json_of(*e.srtt_ns) : Json(nullptr)},
		  {"law", json_of(e.law)}};

	if (!e.why_not.empty())
		j["why_not"] = e.why_not;
	return j;
}

Json json_of(const AbRun &r)
{
	return {{"cc", r.cc},
		{"block", r.block},
		{"position", r.position},
		{"attempts", r.attempts},
		{"n", r.flows},
		{"goodput_bps", r.goodput_bps},
		{"rtt_ns", json_of(r.rtt_ns)},
		{"loss_ratio", r.loss_ratio},
		{"retransmits", r.retransmits},
		{"jain", r.jain},
		{"law", json_of(r.law)},
		{"rr_ns", answers_json(r)},
		{"rr_per_s", r.rr_ns ? Json(r.rr_per_s) : Json(nullptr)},
		{"ends", json_list(r.ends, [](const AbEnd &e) { return json_of(e); })}};
}

Json json_of(const AbPlan &p)
{
	return {{"ccs", p.ccs},
		{"runs", p.runs},
		{"parallel", p.parallel},
		{"duration_s", p.duration_s},
		{"warmup_s", p.warmup_s},
		{"servers", p.servers},
		{"clients", p.clients},
		{"server_ssh", p.server_ssh},
		{"port", p.port},
		{"reverse", p.reverse},
		{"dscp", maybe(p.dscp)},
		{"rr", p.askers},
		{"rr_bytes", {p.ask_bytes, p.answer_bytes}},
		{"rr_new", p.ask_anew},
		{"rr_every_ms", p.ask_every_ms},
		{"rr_port", p.rr_port},
		{"looks", p.looks},
		// Not a number: of 2^64, programs keep 2^53.
		{"seed", std::to_string(p.seed)}};
}

void put_interval(Json &j, const std::optional<ConfidenceInterval> &ci)
{
	if (ci) {
		j["ci95"] = {ci->low, ci->high};
		j["ci_coverage"] = ci->coverage;
	}
}

Json json_of(const AbSummary &s)
{
	Json j = {{"cc", s.cc}, {"n", s.n}, {"failed", s.failed}, {"metrics", Json::object()}};

	for (const auto &[name, f] : s.metrics) {
		Json m = {{"n", f.n}, {"median", f.median}, {"min", f.min}, {"max", f.max}};

		put_interval(m, f.ci95);
		j["metrics"][name] = m;
	}
	return j;
}

Json json_of(const Estimate &e)
{
	Json j = {{"value", e.value}};

	put_interval(j, e.ci95);
	return j;
}

Json json_of(const AbComparison &c)
{
	return {{"a", c.a},
		{"b", c.b},
		{"metric", c.metric},
		{"pairs", c.pairs},
		{"shift", json_of(c.shift)},
		{"ratio", c.ratio ? json_of(*c.ratio) : Json(nullptr)},
		{"cliffs_delta", c.cliffs_delta},
		{"effect", cliffs_word(c.cliffs_delta)},
		{"p", c.p},
		{"p_holm", c.p_holm},
		{"shown", c.shown},
		{"detectable", maybe(c.detectable)},
		{"text", c.text}};
}

std::string title_of(const AbPlan &plan)
{
	std::string text;

	for (const std::string &cc : plan.ccs)
		text += (text.empty() ? "" : ", ") + cc;
	return "A/B test: " + text;
}

} // namespace

AbRun ab_run(const AbTurn &turn, const std::vector<IperfRun> &legs)
{
	AbRun run;
	std::vector<double> rates;
	std::vector<double> rtt_ns;
	double segments = 0;

	run.block = turn.block;
	run.cc = turn.cc;
	for (const IperfRun &leg : legs) {
		run.goodput_bps += leg.goodput_bps;
		run.retransmits += leg.retransmits;
		segments += leg.sent_bytes / std::max(leg.mss_bytes, 1U);
		for (const IperfStream &s : leg.streams) {
			rates.push_back(s.received_bps);
			rtt_ns.insert(rtt_ns.end(), s.rtt_ns.begin(), s.rtt_ns.end());
		}
	}
	run.flows = rates.size();
	run.jain = jain_index(rates);
	run.loss_ratio = segments > 0 ? std::min(1.0, static_cast<double>(run.retransmits) / segments) : 0;
	if (!rtt_ns.empty()) {
		const DelayPercentiles p = percentiles_of(rtt_ns);

		run.rtt_ns = AbRtt{p.avg, p.p50, p.p99, percentile(rtt_ns, 0.999), rtt_ns.size()};
	}
	return run;
}

void ab_add_answers(AbRun &run, const std::vector<RrRun> &legs, const AbPlan &plan)
{
	double time_ns = 0, moments = 0, seconds = 0, segments = 0;
	std::uint64_t count = 0, retransmits = 0;
	std::vector<double> each;
	AbRtt times;

	for (const RrRun &leg : legs) {
		each.insert(each.end(), leg.of_each.begin(), leg.of_each.end());
		time_ns += leg.moments_of_each() * std::accumulate(leg.times_ns.begin(), leg.times_ns.end(), 0.0);
		moments += static_cast<double>(leg.moments);
		seconds = std::max(seconds, leg.seconds);
		segments += static_cast<double>(leg.segments);
		count += leg.count;
		retransmits += leg.retransmits;
	}
	if (count == 0 || seconds <= 0)
		return;
	times.avg = moments > 0 ? time_ns / moments : 0;
	times.p50 = rr_quantile(legs, 0.5);
	times.p90 = rr_quantile(legs, 0.9);
	times.p99 = rr_quantile(legs, 0.99);
	times.p999 = rr_quantile(legs, 0.999);
	times.count = count;
	run.rr_ns = times;
	run.rr_per_s = static_cast<double>(count) / seconds;
	if (plan.parallel > 0)
		return;
	// Nothing else was sent: these are the run's.
	run.flows = each.size();
	run.goodput_bps = run.rr_per_s * 8 * (static_cast<double>(plan.ask_bytes) + plan.answer_bytes);
	run.retransmits = retransmits;
	run.loss_ratio = segments > 0 ? std::min(1.0, static_cast<double>(retransmits) / segments) : 0;
	run.jain = jain_index(each);
}

std::string ab_json(const AbResult &result)
{
	const auto comparisons = ab_comparisons(result);
	Json j;

	j["schema"] = 1;
	j["kind"] = "ab";
	j["title"] = title_of(result.plan);
	j["complete"] = result.complete;
	j["looks"] = {{"made", result.looks_made}, {"factor", ab_look_factor(result)}};
	j["parameters"] = json_of(result.plan);
	j["runs"] = json_list(result.runs, [&](const AbRun &r) { return json_of(r); });
	j["failed"] = Json::array();
	for (const AbFailure &f : result.failed)
		j["failed"].push_back({{"cc", f.cc}, {"block", f.block}, {"attempts", f.attempts}, {"reason", f.reason}});
	j["summary"] = json_list(ab_summary(result), [&](const AbSummary &s) { return json_of(s); });
	j["comparisons"] = json_list(comparisons, [&](const AbComparison &c) { return json_of(c); });
	j["verdicts"] = ab_verdicts(comparisons);
	j["notes"] = result.notes;
	j["started"] = result.started;
	j["host"] = {{"name", result.host}, {"kernel", result.kernel}, {"iperf3", result.iperf}};
	return j.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

} // namespace swift
