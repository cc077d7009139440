// SPDX-License-Identifier: MIT
// What the runs of an A/B test say: a figure for each congestion control, and of each two
// whether they differ, by how much and how sure that is.
#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "ab_result.h"

namespace swift {

namespace {

constexpr double alpha = 0.05;
// From here on "1.5x", below "20 %".
constexpr double factor_from = 1.5;

using Value = std::optional<double>;

struct Metric {
	const char *name;
	Value (*of)(const AbRun &);
	const char *words = nullptr; // of those that are compared
	bool ratio = true;
	bool answers = false; // there only with --rr
};

constexpr auto metrics = std::to_array<Metric>({
	{"goodput_bps", [](const AbRun &r) { return Value(r.goodput_bps); }, "goodput"},
	{"rtt_ns.avg", [](const AbRun &r) { return r.rtt_ns ? Value(r.rtt_ns->avg) : Value(); }},
	{"rtt_ns.p50", [](const AbRun &r) { return r.rtt_ns ? r.rtt_ns->p50 : Value(); }, "median RTT"},
	{"rtt_ns.p99", [](const AbRun &r) { return r.rtt_ns ? r.rtt_ns->p99 : Value(); }, "p99 RTT"},
	{"rtt_ns.p999", [](const AbRun &r) { return r.rtt_ns ? r.rtt_ns->p999 : Value(); }},
	{"rr_per_s", [](const AbRun &r) { return r.rr_ns ? Value(r.rr_per_s) : Value(); }},
	{"rr_ns.avg", [](const AbRun &r) { return r.rr_ns ? Value(r.rr_ns->avg) : Value(); }},
	{"rr_ns.p50", [](const AbRun &r) { return r.rr_ns ? r.rr_ns->p50 : Value(); }, "median answer time", true, true},
	{"rr_ns.p90", [](const AbRun &r) { return r.rr_ns ? r.rr_ns->p90 : Value(); }},
	{"rr_ns.p99", [](const AbRun &r) { return r.rr_ns ? r.rr_ns->p99 : Value(); }, "p99 answer time", true, true},
	{"rr_ns.p999", [](const AbRun &r) { return r.rr_ns ? r.rr_ns->p999 : Value(); }, "p99.9 answer time", true, true},
	{"loss_ratio", [](const AbRun &r) { return Value(r.loss_ratio); }},
	{"retransmits", [](const AbRun &r) { return Value(static_cast<double>(r.retransmits)); },
	 "retransmits", false},
	{"jain", [](const AbRun &r) { return Value(r.jain); }},
	{"law.fabric_ns.p50", [](const AbRun &r) { return r.law ? r.law->fabric_ns.p50 : Value(); }},
	{"law.fabric_ns.p99", [](const AbRun &r) { return r.law ? r.law->fabric_ns.p99 : Value(); }},
	{"law.endpoint_ns.p50", [](const AbRun &r) { return r.law ? r.law->endpoint_ns.p50 : Value(); }},
	{"law.endpoint_ns.p99", [](const AbRun &r) { return r.law ? r.law->endpoint_ns.p99 : Value(); }},
	{"law.target_ns.p50", [](const AbRun &r) { return r.law ? Value(r.law->target_ns) : Value(); }},
	{"law.endpoint_limited", [](const AbRun &r) { return r.law ? Value(r.law->endpoint_limited) : Value(); }},
});

std::size_t compared(const AbPlan &plan)
{
	return static_cast<std::size_t>(std::count_if(metrics.begin(), metrics.end(), [&](const Metric &m) {
		return m.words && (!m.answers || plan.askers > 0);
	}));
}

std::map<unsigned, double> by_block(const AbResult &result, const std::string &cc, const Metric &metric)
{
	std::map<unsigned, double> values;

	for (const AbRun &r : result.runs)
		if (const Value v = metric.of(r); r.cc == cc && v)
			values[r.block] = *v;
	return values;
}

// With an interval that holds at all of @looks.
Estimate estimate(const std::vector<double> &differences, unsigned looks)
{
	return {hodges_lehmann(differences), hodges_lehmann_interval(differences, 1 - alpha / looks)};
}

std::string percent(double ratio, bool sign)
{
	const double p = (ratio - 1) * 100;
	const int digits = std::abs(p) < 10 ? 1 : 0;

	return sign ? fmt::format("{:+.{}f} %", p, digits) : fmt::format("{:.{}f} %", std::abs(p), digits);
}

// Of a count, or of the difference of two.
std::string count_text(double v, bool sign)
{
	const int digits = std::abs(v) < 10 && v != std::floor(v) ? 1 : 0;

	return sign ? fmt::format("{:+.{}f}", v, digits) : fmt::format("{:.{}f}", v, digits);
}

std::string interval_text(const AbComparison &c)
{
	const bool ratio = c.ratio.has_value();
	const auto &ci = ratio ? c.ratio->ci95 : c.shift.ci95;

	if (!ci)
		return {};
	return ratio ? fmt::format("95 % CI {} to {}", percent(ci->low, true), percent(ci->high, true)) :
		       fmt::format("95 % CI {} to {}", count_text(ci->low, true), count_text(ci->high, true));
}

std::string difference_text(const AbComparison &c, const char *words)
{
	const auto effect = cliffs_word(c.cliffs_delta);

	if (!c.ratio)
		return fmt::format("{} {} {} than {} ({}; {} effect)", count_text(std::abs(c.shift.value), false),
				   c.shift.value < 0 ? "fewer" : "more", words, c.b, interval_text(c), effect);

	const double r = c.ratio->value;
	const char *way = r < 1 ? "lower" : "higher";

	if (r < factor_from && r > 1 / factor_from)
		return fmt::format("{} {} {} than {} ({}; {} effect)", words, percent(r, false), way, c.b,
				   interval_text(c), effect);

	const auto &ci = *c.ratio->ci95;

	return fmt::format("{} {:.1f}x {} than {} (95 % CI {:.1f} to {:.1f}; {} effect)", words, r < 1 ? 1 / r : r, way,
			   c.b, r < 1 ? 1 / ci.high : ci.low, r < 1 ? 1 / ci.low : ci.high, effect);
}

std::string text_of(const AbComparison &c, const char *words, std::size_t family, unsigned looks)
{
	if (c.shown)
		return difference_text(c, words);

	const auto &ci = c.ratio ? c.ratio->ci95 : c.shift.ci95;

	if (!ci)
		return fmt::format("{}: no difference to {} can be shown by {} pairs of runs", words, c.b, c.pairs);
	if (signed_rank_least_p(c.pairs) * static_cast<double>(family) * looks >= alpha)
		return fmt::format("{}: no difference to {} can be shown by {} pairs of runs and {} comparisons{} ({})",
				   words, c.b, c.pairs, family, looks > 1 ? fmt::format(" at {} looks", looks) : "",
				   interval_text(c));

	std::string more;

	if (c.p < alpha)
		more = fmt::format("; p = {:.2g} after Holm's correction{}", c.p_holm, looks > 1 ? " and that for looks" : "");
	else if (c.detectable && c.ratio)
		more = fmt::format("; {} would have been", percent(1 + *c.detectable, false));
	else if (c.detectable)
		more = fmt::format("; {} would have been", count_text(*c.detectable, false));
	return fmt::format("{}: no difference to {} shown ({}{})", words, c.b, interval_text(c), more);
}

std::optional<AbComparison> compare(const AbResult &result, const std::string &a, const std::string &b,
				    const Metric &metric, unsigned looks)
{
	const auto of_a = by_block(result, a, metric);
	const auto of_b = by_block(result, b, metric);
	std::vector<double> x;
	std::vector<double> y;

	for (const auto &[block, value] : of_a)
		if (const auto found = of_b.find(block); found != of_b.end()) {
			x.push_back(value);
			y.push_back(found->second);
		}
	if (x.empty())
		return std::nullopt;

	const auto positive = [](double v) { return v > 0; };
	const bool logs = metric.ratio && std::all_of(x.begin(), x.end(), positive) &&
			  std::all_of(y.begin(), y.end(), positive);
	std::vector<double> differences(x.size());
	std::vector<double> log_ratios(x.size());
	AbComparison c;

	for (std::size_t i = 0; i < x.size(); i++) {
		differences[i] = x[i] - y[i];
		log_ratios[i] = logs ? std::log(x[i] / y[i]) : 0;
	}
	c.a = a;
	c.b = b;
	c.metric = metric.name;
	c.pairs = x.size();
	c.shift = estimate(differences, looks);
	c.cliffs_delta = cliffs_delta(x, y);
	c.p = signed_rank_p(logs ? log_ratios : differences);
	if (logs) {
		const Estimate e = estimate(log_ratios, looks);

		c.ratio = Estimate{std::exp(e.value), {}};
		if (e.ci95) {
			c.ratio->ci95 = ConfidenceInterval{std::exp(e.ci95->low), std::exp(e.ci95->high),
							   e.ci95->coverage};
			c.detectable = std::exp(detectable(*e.ci95)) - 1;
		}
	} else if (c.shift.ci95) {
		c.detectable = detectable(*c.shift.ci95);
	}
	return c;
}

} // namespace

std::vector<AbSummary> ab_summary(const AbResult &result)
{
	std::vector<AbSummary> rows;

	for (const std::string &cc : result.plan.ccs) {
		AbSummary row;

		row.cc = cc;
		row.n = static_cast<std::size_t>(std::count_if(result.runs.begin(), result.runs.end(),
							       [&](const AbRun &r) { return r.cc == cc; }));
		row.failed = static_cast<std::size_t>(
			std::count_if(result.failed.begin(), result.failed.end(),
				      [&](const AbFailure &f) { return f.cc == cc; }));
		for (const Metric &metric : metrics) {
			std::vector<double> values;

			for (const auto &[block, value] : by_block(result, cc, metric))
				values.push_back(value);
			if (values.empty())
				continue;
			const auto [min, max] = std::minmax_element(values.begin(), values.end());

			row.metrics.emplace_back(metric.name, AbFigure{values.size(), median(values), *min, *max,
								       median_interval(values)});
		}
		rows.push_back(std::move(row));
	}
	return rows;
}

std::vector<AbComparison> ab_comparisons(const AbResult &result)
{
	const auto &ccs = result.plan.ccs;
	const unsigned looks = ab_look_factor(result);
	std::vector<AbComparison> all;
	std::vector<const char *> words;
	std::vector<double> p;

	for (std::size_t i = 0; i < ccs.size(); i++)
		for (std::size_t j = i + 1; j < ccs.size(); j++)
			for (const Metric &metric : metrics)
				if (metric.words)
					if (auto c = compare(result, ccs[i], ccs[j], metric, looks)) {
						p.push_back(c->p);
						words.push_back(metric.words);
						all.push_back(std::move(*c));
					}

	const std::vector<double> adjusted = holm(p);

	for (std::size_t i = 0; i < all.size(); i++) {
		AbComparison &c = all[i];

		c.p_holm = std::min(1.0, adjusted[i] * looks);
		c.shown = c.p_holm < alpha && c.shift.ci95.has_value();
		c.text = text_of(c, words[i], all.size(), looks);
	}
	return all;
}

std::vector<std::string> ab_verdicts(const std::vector<AbComparison> &comparisons)
{
	std::vector<std::string> verdicts;
	const AbComparison *previous = nullptr;

	for (const AbComparison &c : comparisons) {
		if (previous && previous->a == c.a && previous->b == c.b)
			verdicts.back() += "; " + c.text;
		else
			verdicts.push_back(c.a + ": " + c.text);
		previous = &c;
	}
	return verdicts;
}

unsigned ab_look_factor(const AbResult &result)
{
	return result.complete ? static_cast<unsigned>(ab_looks(result.plan).size()) : std::max(result.plan.runs, result.plan.looks);
}

bool ab_decided(const AbResult &result)
{
	std::map<std::pair<std::string, std::string>, bool> shown;

	for (const AbComparison &c : ab_comparisons(result))
		shown[{c.a, c.b}] |= c.shown;
	return !shown.empty() && std::all_of(shown.begin(), shown.end(), [](const auto &pair) { return pair.second; });
}

unsigned ab_least_runs(const AbPlan &plan)
{
	const std::size_t ccs = plan.ccs.size();
	const double family = static_cast<double>(ccs * (ccs - 1) * compared(plan)) / 2 * plan.looks;
	unsigned n = 6; // as many as an interval takes

	while (signed_rank_least_p(n) * family >= alpha)
		n++;
	return n;
}

} // namespace swift
