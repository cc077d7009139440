// SPDX-License-Identifier: MIT
// A fleet's experiment: its statistics against known values, its plans, what Prometheus may answer, and
// whether its intervals cover what they should, in hundreds of experiments on a made-up fleet.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <set>

#include "ab_json.h"
#include "clustered.h"
#include "fleet_plan.h"
#include "fleet_result.h"
#include "prometheus.h"
#include "sanitized.h"
#include "text.h"

using namespace swift;

namespace {

constexpr std::int64_t hour_s = 3600;
constexpr std::int64_t start_s = 1764000000 / hour_s * hour_s;

bool has_text(const std::string &text, const std::string &part)
{
	return text.find(part) != std::string::npos;
}

FleetPlan small_plan(FleetDesign design, std::size_t racks, std::size_t periods, std::uint64_t seed)
{
	FleetPlan plan;

	plan.name = "test";
	plan.design = design;
	plan.seed = seed;
	plan.arms = {{"old", "true"}, {"new", "true"}};
	plan.start_s = start_s;
	plan.periods = periods;
	plan.carry_over_s = 600;
	plan.match = "job=\"x\"";
	plan.metrics = {{"m", "avg by ($by) (avg_over_time(m{$match}[$range]))", FleetRole::primary, FleetScale::ratio, true, 0}};
	for (std::size_t r = 0; r < racks; r++) {
		FleetRack rack{"r" + std::to_string(100 + r), {}, 0, 0};

		for (std::size_t h = 0; h < 5; h++)
			rack.hosts.push_back(rack.name + "-h" + std::to_string(h));
		plan.racks.push_back(std::move(rack));
	}
	fleet_draw(plan, fleet_order_by_size(plan));
	return plan;
}

// 50 hosts whose values go together within racks and from hour to hour, and an arm that changes them.
class FleetWorld final : public MetricSource {
public:
	static constexpr std::int64_t step_s = 300;

	struct Size {
		double rack = 0.3; // standard deviations, of logarithms
		double rack_drift = 0.1;
		double fleet_drift = 0.1;
		double host = 0.1;
		double noise = 0.05;
	};

	FleetWorld(const FleetPlan &plan, double effect, const Size &size, std::uint64_t seed) : plan_(plan), effect_(effect)
	{
		std::mt19937_64 random(seed);
		std::normal_distribution<double> normal;
		const auto steps = static_cast<std::size_t>((plan.end_s() - begin_s()) / step_s);
		constexpr double stays = 0.97; // from step to step
		const double moves = std::sqrt(1 - stays * stays);
		std::vector<double> fleet(steps);
		double drift = normal(random);

		for (double &f : fleet) {
			drift = stays * drift + moves * normal(random);
			f = size.fleet_drift * drift;
		}
		for (std::size_t r = 0; r < plan.racks.size(); r++) {
			const double rack = size.rack * normal(random);

			drift = normal(random);
			hosts_.emplace_back();
			for (std::size_t h = 0; h < plan.racks[r].hosts.size(); h++)
				hosts_[r].emplace_back(steps, rack + size.host * normal(random));
			for (std::size_t s = 0; s < steps; s++) {
				drift = stays * drift + moves * normal(random);
				for (auto &host : hosts_[r])
					host[s] += fleet[s] + size.rack_drift * drift + size.noise * normal(random);
			}
		}
	}

	// The plan as it is now: arms are drawn after a look at the past.
	void follow(const FleetPlan &plan) { plan_ = plan; }
	void set_gap(std::function<bool(std::size_t rack, std::int64_t time_s)> gap) { gap_ = std::move(gap); }

	[[nodiscard]] double host_mean(std::size_t rack, std::size_t host) const
	{
		return window(rack, host, host + 1, plan_.end_s(), static_cast<std::int64_t>(plan_.periods) * plan_.period_s);
	}

	Result<std::vector<PromSeries>> range(const RangeQuery &q) override
	{
		std::vector<PromSeries> all;

		asked.push_back(q);
		if (has_text(q.query, "up{"))
			return all;
		for (std::size_t r = 0; r < plan_.racks.size(); r++) {
			PromSeries series{{{"rack", plan_.racks[r].name}}, {}};

			for (std::int64_t t = q.start_s; t <= q.end_s; t += q.step_s)
				if (!gap_ || !gap_(r, t))
					series.values.emplace_back(static_cast<double>(t), window(r, 0, hosts_[r].size(), t, range_of(q.query)));
			all.push_back(std::move(series));
		}
		return all;
	}

	std::vector<RangeQuery> asked;

private:
	[[nodiscard]] std::int64_t begin_s() const { return plan_.start_s - static_cast<std::int64_t>(plan_.periods) * plan_.period_s; }
	static std::int64_t range_of(const std::string &query) { return std::stol(query.substr(query.find('[') + 1)); }

	// How much of the new arm there is: flows of the one before go on for a while.
	[[nodiscard]] double exposure(std::size_t rack, std::int64_t time_s) const
	{
		constexpr double stays_on[] = {0.3, 0.8};

		if (time_s < plan_.start_s || time_s >= plan_.end_s())
			return 0;
		if (plan_.design == FleetDesign::racks)
			return plan_.racks[rack].arm == 1 ? 1 : 0;
		const auto period = static_cast<std::size_t>((time_s - plan_.start_s) / plan_.period_s);
		const auto since = static_cast<std::size_t>((time_s - plan_.start_s) % plan_.period_s / step_s);
		const double now = plan_.turns[period].arm == 1 ? 1 : 0;
		const double before = period > 0 && plan_.turns[period - 1].arm == 1 ? 1 : 0;

		return since < std::size(stays_on) ? before + (now - before) * stays_on[since] : now;
	}

	[[nodiscard]] double window(std::size_t rack, std::size_t first, std::size_t last, std::int64_t end_s, std::int64_t range_s) const
	{
		double sum = 0;
		double n = 0;

		for (std::int64_t t = end_s - range_s; t < end_s; t += step_s)
			for (std::size_t h = first; h < last; h++) {
				sum += std::exp(hosts_[rack][h][static_cast<std::size_t>((t - begin_s()) / step_s)] + effect_ * exposure(rack, t));
				n++;
			}
		return sum / n;
	}

	FleetPlan plan_;
	double effect_;
	std::vector<std::vector<std::vector<double>>> hosts_; // rack, host, step
	std::function<bool(std::size_t, std::int64_t)> gap_;
};

struct Tally {
	unsigned covered = 0;
	unsigned alarms = 0; // intervals without 0
	unsigned naive_covered = 0; // of the t interval that takes hosts for independent
	double width = 0;
};

constexpr unsigned experiments = worlds_of(200);

Tally many(FleetDesign design, double effect, bool past)
{
	Tally tally;

	for (unsigned i = 0; i < experiments; i++) {
		FleetPlan plan = small_plan(design, 10, 12, 1000 + i);
		FleetWorld world(plan, effect, {}, 5000 + i);
		std::vector<std::string> notes;

		if (past) {
			EXPECT_TRUE(fleet_learn(plan, world, plan.start_s, notes));
			world.follow(plan);
		}

		const auto result = fleet_read(plan, world);

		if (!result || !result->comparisons[0].why_not.empty()) {
			ADD_FAILURE() << (result ? result->comparisons[0].why_not : result.error().text());
			continue;
		}
		const ClusterEffect &e = result->comparisons[0].effect;

		tally.covered += std::abs(e.effect - effect) <= e.half_width();
		tally.alarms += std::abs(e.effect) > e.half_width();
		tally.width += e.half_width() / experiments;
		if (design != FleetDesign::racks)
			continue;

		std::vector<Cluster> hosts;

		for (std::size_t r = 0; r < plan.racks.size(); r++)
			for (std::size_t h = 0; h < plan.racks[r].hosts.size(); h++)
				hosts.push_back({0, plan.racks[r].arm == 1, std::log(world.host_mean(r, h)), 0});
		const auto naive = cluster_effect(hosts);

		tally.naive_covered += std::abs(naive->effect - effect) <= naive->half_width();
	}
	std::printf("%u experiments: %u covered, %u with a difference, half width %.3f, hosts taken for independent: %u covered\n", experiments,
		    tally.covered, tally.alarms, tally.width, tally.naive_covered);
	return tally;
}

// Of 200 at 95 %, 99.9 % of all such counts are in here, and neither side is only luck.
constexpr unsigned covered_least = 179;
constexpr unsigned covered_most = 198;

HttpPost answers(long status, std::string body)
{
	return [status, body](const HttpRequest &) { return HttpReply{status, body}; };
}

std::string complaint_of(long status, const std::string &body)
{
	std::vector<std::string> warnings;
	const auto source = prometheus_source({"http://p:9090", "", ""}, answers(status, body), warnings);
	const auto series = source->range({"up", 0, 10, 5});

	return series ? "" : series.error().text();
}

} // namespace

TEST(Clustered, StudentsTIsThatOfTheTables)
{
	// NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2
	for (const auto &[p, df, t] : {std::tuple(0.975, 1.0, 12.706), {0.975, 2.0, 4.303}, {0.975, 10.0, 2.228}, {0.95, 5.0, 2.015},
				       {0.995, 3.0, 5.841}, {0.9, 30.0, 1.310}, {0.999, 100.0, 3.174}, {0.975, 1e6, 1.960}}) {
		EXPECT_NEAR(t_quantile(p, df), t, 6e-4) << p << " " << df;
		EXPECT_NEAR(t_quantile(1 - p, df), -t, 6e-4);
		EXPECT_NEAR(t_probability(t_quantile(p, df), df), p, 1e-9);
	}
	EXPECT_NEAR(t_probability(1, 1), 0.75, 1e-12); // Cauchy's
	EXPECT_NEAR(t_probability(0, 3.7), 0.5, 1e-12);
	EXPECT_NEAR(t_quantile(0.5, 4), 0, 1e-9);
}

TEST(Clustered, PairsAreThePairedTest)
{
	const std::vector<double> old = {10, 12, 9, 14, 11};
	const std::vector<double> now = {9, 11.5, 9.5, 12, 10};
	std::vector<Cluster> clusters;

	for (std::size_t i = 0; i < old.size(); i++) {
		clusters.push_back({i, false, old[i], 0});
		clusters.push_back({i, true, now[i], 0});
	}
	// Differences -1, -0.5, 0.5, -2, -1: mean -0.8, standard deviation 0.908295.
	const auto e = cluster_effect(clusters);

	ASSERT_TRUE(e);
	EXPECT_NEAR(e->effect, -0.8, 1e-12);
	EXPECT_NEAR(e->se, 0.9082951 / std::sqrt(5), 1e-6);
	EXPECT_NEAR(e->df, 4, 1e-9);
	EXPECT_EQ(e->blocks, 5u);
	EXPECT_NEAR(e->p(), 2 * t_probability(-0.8 / e->se, 4), 1e-12);
	EXPECT_NEAR(e->p_above(0), 1 - e->p() / 2, 1e-12);

	// Of all 32 drawings, for each sign, as large or larger: all five alike, and either half the other way.
	const auto r = randomisation_p(clusters, 1);

	ASSERT_TRUE(r && r->exact);
	EXPECT_NEAR(r->p, 6.0 / 32, 1e-12);
	EXPECT_NEAR(r->least_p, 2.0 / 32, 1e-12);
}

TEST(Clustered, OneBlockIsWelchsError)
{
	std::vector<Cluster> clusters;

	for (const double v : {1.0, 2.0, 3.0, 4.0})
		clusters.push_back({0, false, v, 0});
	for (const double v : {6.0, 10.0, 5.0})
		clusters.push_back({0, true, v, 0});
	const auto e = cluster_effect(clusters);

	ASSERT_TRUE(e);
	EXPECT_NEAR(e->effect, 4.5, 1e-12);
	EXPECT_NEAR(e->se, std::sqrt(5.0 / 3 / 4 + 7.0 / 3), 1e-9);
	// Bell and McCaffrey's: (1/n + 1/m)^2 / (1/(n^2 (n-1)) + 1/(m^2 (m-1))).
	EXPECT_NEAR(e->df, std::pow(1.0 / 4 + 1.0 / 3, 2) / (1.0 / (16 * 3) + 1.0 / (9 * 2)), 1e-9);
}

TEST(Clustered, WhatWasBeforeIsTakenOut)
{
	std::vector<Cluster> clusters;
	std::mt19937_64 random(3);
	std::normal_distribution<double> normal;

	for (std::size_t i = 0; i < 16; i++) {
		const double before = 5 * normal(random);

		clusters.push_back({i / 2, i % 2 == 0, before + (i % 2 == 0 ? 2 : 0) + 0.1 * normal(random), before});
	}
	const auto e = cluster_effect(clusters);
	auto unknown = clusters;

	for (Cluster &c : unknown)
		c.before = 0;
	const auto without = cluster_effect(unknown);

	ASSERT_TRUE(e && without);
	EXPECT_TRUE(e->before_used);
	EXPECT_FALSE(without->before_used);
	EXPECT_NEAR(e->effect, 2, 0.3);
	EXPECT_LT(e->half_width(), without->half_width() / 10);
}

TEST(Clustered, TooLittleIsNoInterval)
{
	const std::vector<Cluster> pair = {{0, false, 1, 0}, {0, true, 2, 0}};
	const std::vector<Cluster> alone = {{0, false, 1, 0}, {1, true, 2, 0}, {2, true, 3, 0}};

	EXPECT_FALSE(cluster_effect(pair));
	EXPECT_FALSE(cluster_effect(alone)); // no block has both
	EXPECT_FALSE(cluster_effect({}));
	EXPECT_FALSE(randomisation_p(pair, 1));
}

TEST(Clustered, ManyBlocksAreDrawnAtRandom)
{
	std::vector<Cluster> clusters;
	std::mt19937_64 random(5);
	std::normal_distribution<double> normal;

	for (std::size_t i = 0; i < 80; i++)
		clusters.push_back({i / 2, i % 2 == 0, normal(random), 0});
	const auto none = randomisation_p(clusters, 7);

	ASSERT_TRUE(none);
	EXPECT_FALSE(none->exact);
	EXPECT_NEAR(none->p, cluster_effect(clusters)->p(), 0.03);
	EXPECT_EQ(none->p, randomisation_p(clusters, 7)->p);
	for (Cluster &c : clusters)
		c.value += c.treated ? 2 : 0;
	EXPECT_EQ(randomisation_p(clusters, 7)->p, 1.0 / 5000);
}

TEST(Clustered, RowsAndColumnsWithGaps)
{
	Cells cells(4, std::vector<std::optional<double>>(5));

	for (std::size_t r = 0; r < 4; r++)
		for (std::size_t c = 0; c < 5; c++)
			cells[r][c] = 10.0 * static_cast<double>(r) + static_cast<double>(c * c);
	const TwoWay whole = two_way(cells);

	cells[1][4] = cells[1][3] = cells[0][0] = cells[3][2] = std::nullopt;
	const TwoWay gaps = two_way(cells);

	for (std::size_t r = 1; r < 4; r++) {
		EXPECT_NEAR(*whole.rows[r] - *whole.rows[0], 10.0 * static_cast<double>(r), 1e-9);
		EXPECT_NEAR(*gaps.rows[r] - *gaps.rows[0], 10.0 * static_cast<double>(r), 1e-9);
	}
	for (std::size_t c = 0; c < 5; c++)
		EXPECT_NEAR(*gaps.columns[c], *whole.columns[c], 1e-9);
	EXPECT_NEAR(*whole.columns[0], 15, 1e-9); // the mean of the racks then
	for (auto &row : cells)
		row[2].reset();
	EXPECT_FALSE(two_way(cells).columns[2]);
}

TEST(FleetPlan, EachBlockHasEachArm)
{
	for (const std::size_t racks : {4, 5, 7, 10, 11}) {
		const FleetPlan plan = small_plan(FleetDesign::racks, racks, 12, 3);
		std::map<std::size_t, std::map<std::size_t, unsigned>> arms;

		for (const FleetRack &r : plan.racks)
			arms[r.block][r.arm]++;
		EXPECT_EQ(arms.size(), racks / 2);
		for (const auto &[block, of] : arms) {
			EXPECT_EQ(of.size(), 2u);
			EXPECT_LE(of.at(0) + of.at(1), 3u); // the one that is over
		}
	}
	const FleetPlan plan = small_plan(FleetDesign::time, 3, 12, 3);

	for (std::size_t i = 0; i < 12; i += 2) {
		EXPECT_EQ(plan.turns[i].block, i / 2);
		EXPECT_NE(plan.turns[i].arm, plan.turns[i + 1].arm);
	}
}

TEST(FleetPlan, TheSeedDrawsIt)
{
	std::set<std::string> drawn;

	for (std::uint64_t seed = 0; seed < 64; seed++) {
		const FleetPlan plan = small_plan(FleetDesign::time, 3, 6, seed);
		std::string arms;

		for (const FleetTurn &t : plan.turns)
			arms += plan.arms[t.arm].name;
		drawn.insert(arms);
		EXPECT_EQ(fleet_plan_json(plan), fleet_plan_json(small_plan(FleetDesign::time, 3, 6, seed)));
	}
	EXPECT_EQ(drawn.size(), 8u); // all that three pairs can have
}

TEST(FleetPlan, ComesBackAsItWas)
{
	for (const FleetDesign design : {FleetDesign::racks, FleetDesign::time}) {
		FleetPlan plan = small_plan(design, 6, 12, 9);

		plan.metrics.push_back({"g", "sum by ($by) (rate(g[$range]))", FleetRole::guardrail, FleetScale::difference, false, 0.5});
		if (design == FleetDesign::racks)
			plan.before["m"]["r100"] = -1.25;
		plan.detectable.push_back({"m", 0.04});

		const auto again = read_fleet_plan("plan.json", json_text(fleet_plan_json(plan)));

		ASSERT_TRUE(again) << again.error().text();
		auto want = fleet_plan_json(plan);

		want["detectable"] = Json::array(); // what it could have shown is not asked any more
		EXPECT_EQ(fleet_plan_json(*again), want);
	}
}

TEST(FleetPlan, ADamagedOneIsRefusedByItsField)
{
	const std::string text = json_text(fleet_plan_json(small_plan(FleetDesign::racks, 6, 12, 9)));
	const auto error = [&](const std::string &from, const std::string &to) {
		std::string changed = text;

		EXPECT_TRUE(has_text(changed, from)) << from;
		changed.replace(changed.find(from), from.size(), to);
		const auto plan = read_fleet_plan("p", changed);

		return plan ? std::string() : plan.error().text();
	};

	EXPECT_TRUE(has_text(error("\"racks\"", "\"hosts\""), "by: expected one of racks, time"));
	EXPECT_TRUE(has_text(error("\"arm\": \"new\"", "\"arm\": \"x\""), "].arm: expected the name of an arm"));
	EXPECT_TRUE(has_text(error("\"period_s\": 3600", "\"period_s\": 0"), "period_s"));
	EXPECT_TRUE(has_text(error("\"better\": \"lower\"", "\"better\": \"low\""), "lower or higher"));
	EXPECT_TRUE(has_text(error("fleet-plan", "ab"), "fleet-plan"));
	EXPECT_FALSE(read_fleet_plan("p", text.substr(0, text.size() / 2)));
	EXPECT_FALSE(read_fleet_plan("p", "[]"));
}

TEST(FleetPlan, RacksAreAVariableOfTheHosts)
{
	const std::string inventory = R"({"_meta": {"hostvars": {"a1": {"rack": "a"}, "a2": {"rack": "a"}, "b1": {"rack": 7}, "x": {}}},
		"all": {"children": ["ungrouped", "swift_hosts"]}, "swift_hosts": {"children": ["loop", "b"], "hosts": ["a1", "a2"]},
		"loop": {"children": ["swift_hosts"]}, "b": {"hosts": ["b1"]}, "other": {"hosts": ["x"]}})";
	const auto racks = read_fleet_racks("i", inventory, "swift_hosts", "rack");

	ASSERT_TRUE(racks) << racks.error().text();
	ASSERT_EQ(racks->size(), 2u);
	EXPECT_EQ((*racks)[0].name, "7");
	EXPECT_EQ((*racks)[1].hosts, (std::vector<std::string>{"a1", "a2"}));
	const auto no_rack = read_fleet_racks("i", inventory, "other", "rack");

	EXPECT_TRUE(has_text(no_rack.error().text(), "host x: variable rack"));
	EXPECT_TRUE(has_text(read_fleet_racks("i", inventory, "none", "rack").error().text(), "none"));
	EXPECT_TRUE(has_text(read_fleet_racks("i", R"({"a": {}})", "a", "rack").error().text(), "ansible-inventory --list"));
	const std::string quotes = R"({"_meta": {"hostvars": {"h": {"rack": "a\"b"}}}, "g": {"hosts": ["h"]}})";

	EXPECT_FALSE(read_fleet_racks("i", quotes, "g", "rack"));
	const std::string evil = R"({"_meta": {"hostvars": {"-o": {"rack": "a"}}}, "g": {"hosts": ["-o"]}})";

	EXPECT_FALSE(read_fleet_racks("i", evil, "g", "rack"));
}

TEST(FleetPlan, TooFewToTellAnErrorAreRefused)
{
	FleetPlan plan = small_plan(FleetDesign::racks, 4, 12, 1);

	EXPECT_TRUE(fleet_check(plan));
	plan.racks.pop_back();
	EXPECT_TRUE(has_text(fleet_check(plan).error().text(), "4 or more for 2 arms"));
	plan.design = FleetDesign::time;
	EXPECT_TRUE(fleet_check(plan));
	plan.periods = 3;
	EXPECT_FALSE(fleet_check(plan));
	plan.periods = 12;
	plan.carry_over_s = 1801;
	EXPECT_TRUE(has_text(fleet_check(plan).error().text(), "--carry-over"));
}

TEST(FleetPlan, MetricsInWords)
{
	const auto metric = [](const std::string &text, FleetRole role) { return parse_fleet_metric("--metric", text, role); };
	const auto m = metric("mine:higher:difference=sum by ($by) (rate(x:y{a=\"b\"}[$range]))", FleetRole::primary);

	ASSERT_TRUE(m) << m.error().text();
	EXPECT_EQ(m->query, "sum by ($by) (rate(x:y{a=\"b\"}[$range]))");
	EXPECT_FALSE(m->lower_is_better);
	EXPECT_EQ(m->scale, FleetScale::difference);
	EXPECT_NEAR(metric("goodput:5%", FleetRole::guardrail)->margin, 0.05, 1e-12);
	EXPECT_FALSE(metric("goodput", FleetRole::primary)->lower_is_better);
	for (const char *wrong : {"", ":lower", "unknown", "a b=x", "rtt_p99:up", "x=sum(rate(y[$range]))", "x=sum by ($by) (y)", "rtt_p99:5%"})
		EXPECT_FALSE(metric(wrong, FleetRole::primary)) << wrong;
	for (const char *wrong : {"goodput:-1", "goodput:101%", "goodput:1.5", "goodput:1:2", "goodput:x"})
		EXPECT_FALSE(metric(wrong, FleetRole::guardrail)) << wrong;
	EXPECT_EQ(*parse_span_s("--period", "15m", 60, 1000000), 900);
	for (const char *wrong : {"", "m", "1w", "-5m", "30", "1e3", "99999999999999999999d"})
		EXPECT_FALSE(parse_span_s("--period", wrong, 60, 1000000)) << wrong;
	EXPECT_EQ(*parse_utc("--start", "2025-11-24T16:00Z"), 1764000000);
	EXPECT_EQ(utc_text(1764000000), "2025-11-24T16:00:00Z");
	for (const char *wrong : {"", "tomorrow", "2025-11-24T16:00", "2025-13-24T16:00Z", "2025-11-24T16:00Zx"})
		EXPECT_FALSE(parse_utc("--start", wrong)) << wrong;
}

TEST(FleetPrometheus, AsksForEachPeriodAtItsEnd)
{
	FleetPlan plan = small_plan(FleetDesign::time, 4, 6, 1);
	FleetWorld world(plan, 0, {}, 1);

	ASSERT_TRUE(fleet_read(plan, world));
	// The first ten minutes of each hour are dropped: a range of fifty, at the end of each.
	EXPECT_EQ(world.asked[0].query, "avg by (rack) (avg_over_time(m{job=\"x\"}[3000s]))");
	EXPECT_EQ(world.asked[0].start_s, start_s + hour_s);
	EXPECT_EQ(world.asked[0].end_s, start_s + 6 * hour_s);
	EXPECT_EQ(world.asked[0].step_s, hour_s);
}

TEST(FleetPrometheus, AnswersAndRefusals)
{
	std::vector<std::string> warnings;
	std::vector<HttpRequest> seen;
	const auto source = prometheus_source({"http://p:9090/prom/", "Authorization: Bearer t", "ca"},
					      [&](const HttpRequest &r) -> Result<HttpReply> {
						      seen.push_back(r);
						      return HttpReply{200, R"({"status": "success", "warnings": ["half\nof it"], "data": {"resultType": "matrix",
							      "result": [{"metric": {"rack": "a"}, "values": [[10.0, "1.5"], [15, "NaN"], [20, "+Inf"], [25, "2e-3"]]}]}})"};
					      },
					      warnings);
	const auto series = source->range({"a + b{c=\"d\"}", 10, 25, 5});

	ASSERT_TRUE(series) << series.error().text();
	ASSERT_EQ(series->size(), 1u);
	EXPECT_EQ((*series)[0].labels.at("rack"), "a");
	EXPECT_EQ((*series)[0].values, (std::vector<std::pair<double, double>>{{10, 1.5}, {25, 0.002}}));
	ASSERT_TRUE(source->range({"x", 10, 25, 5}));
	EXPECT_EQ(warnings, (std::vector<std::string>{"http://p:9090/prom warns: half of it"}));
	EXPECT_EQ(seen[0].url, "http://p:9090/prom/api/v1/query_range");
	EXPECT_EQ(seen[0].body, "query=a%20%2B%20b%7Bc%3D%22d%22%7D&start=10&end=25&step=5");
	EXPECT_EQ(seen[0].headers.back(), "Authorization: Bearer t");
	EXPECT_EQ(seen[0].ca_file, "ca");

	EXPECT_TRUE(has_text(complaint_of(400, R"({"status": "error", "errorType": "bad_data", "error": "parse\nerror"})"), "400 bad_data: parse error"));
	EXPECT_TRUE(has_text(complaint_of(401, "no"), "token"));
	EXPECT_TRUE(has_text(complaint_of(404, "<html>"), "is it a Prometheus?"));
	EXPECT_TRUE(has_text(complaint_of(302, ""), "somewhere else"));
	EXPECT_TRUE(has_text(complaint_of(502, "<html>"), "HTTP status 502"));
	EXPECT_TRUE(has_text(complaint_of(200, R"({"status": "succ)"), "not JSON"));
	EXPECT_TRUE(has_text(complaint_of(200, "[]"), "no data in it"));
	EXPECT_TRUE(has_text(complaint_of(200, R"({"data": {"resultType": "vector", "result": []}})"), "expected matrix"));
	EXPECT_TRUE(has_text(complaint_of(200, R"({"data": {"resultType": "matrix", "result": [{"metric": {}, "values": [[1]]}]}})"), "a time and a value"));
	EXPECT_TRUE(has_text(complaint_of(200, R"({"data": {"resultType": "matrix"}})"), "result: expected a list"));
	EXPECT_EQ(complaint_of(200, R"({"data": {"resultType": "matrix", "result": []}})"), "");
}

TEST(FleetPrometheus, AnswersAreKeptForAnotherTime)
{
	FleetPlan plan = small_plan(FleetDesign::racks, 6, 6, 1);
	FleetWorld world(plan, -0.1, {}, 4);
	Json dump;
	const auto recorded = recording_source(world, dump);
	const auto first = fleet_read(plan, *recorded);
	const auto again = dump_source("dump", json_text(dump));

	ASSERT_TRUE(first && again);
	const auto second = fleet_read(plan, **again);

	ASSERT_TRUE(second) << second.error().text();
	EXPECT_EQ(fleet_result_json(*first), fleet_result_json(*second));
	plan.period_s *= 2;
	EXPECT_TRUE(has_text(fleet_read(plan, **again).error().text(), "dump: no answer to the query avg by (rack)"));
	EXPECT_FALSE(dump_source("dump", R"({"kind": "prometheus-answers", "answers": [{"query": "x", "start": "then"}]})"));
	EXPECT_FALSE(dump_source("dump", R"({"kind": "ab"})"));
}

TEST(FleetPrometheus, TokensAndUrls)
{
	EXPECT_TRUE(check_url("u", "https://h:1/x"));
	for (const char *wrong : {"h:9090", "ftp://h", "http://", "http://a:b@h", "http://h/ x", "file:///etc/passwd"})
		EXPECT_FALSE(check_url("u", wrong)) << wrong;
	EXPECT_TRUE(is_loopback_url("http://127.0.0.1:9090/x"));
	EXPECT_TRUE(is_loopback_url("http://[::1]:9090"));
	for (const char *other : {"http://127.evil.example", "http://10.0.0.1", "http://localhost.example", "http://h/127.0.0.1"})
		EXPECT_FALSE(is_loopback_url(other)) << other;
	EXPECT_EQ(*bearer_header("f", "abc\n"), "Authorization: Bearer abc");
	EXPECT_FALSE(bearer_header("f", "a\r\nX: y"));
	EXPECT_FALSE(bearer_header("f", "\n"));
}

TEST(FleetResult, WhatIsLeftOfTheArmBeforeIsDropped)
{
	const FleetWorld::Size still = {0.3, 0, 0, 0.1, 0};
	FleetPlan plan = small_plan(FleetDesign::time, 5, 12, 4);
	FleetWorld world(plan, -0.2, still, 1);

	EXPECT_NEAR(fleet_read(plan, world)->comparisons[0].effect.effect, -0.2, 1e-9);
	plan.carry_over_s = 0;
	EXPECT_GT(fleet_read(plan, world)->comparisons[0].effect.effect, -0.195);
}

TEST(FleetResult, HostsThatAreDownAreNoDifference)
{
	const FleetWorld::Size still = {0.5, 0, 0.5, 0.1, 0};

	for (const FleetDesign design : {FleetDesign::racks, FleetDesign::time}) {
		FleetPlan plan = small_plan(design, 8, 12, 4);
		FleetWorld world(plan, -0.2, still, 2);
		std::vector<std::string> notes;

		ASSERT_TRUE(fleet_learn(plan, world, plan.start_s, notes));
		world.follow(plan);
		const double whole = fleet_read(plan, world)->comparisons[0].effect.effect;

		// The three racks of an arm, a third of the time, when the fleet is not as it is on average.
		world.set_gap([&](std::size_t r, std::int64_t t) { return r % 3 == 0 && t < start_s + 5 * hour_s; });
		const auto gaps = fleet_read(plan, world);

		ASSERT_TRUE(gaps) << gaps.error().text();
		EXPECT_NEAR(gaps->comparisons[0].effect.effect, whole, 1e-6);

		world.set_gap([](std::size_t r, std::int64_t t) { return r == 2 && t > start_s + 4 * hour_s; });
		EXPECT_TRUE(has_text(fleet_read(plan, world)->notes[0], "left out, with data of half of the periods or less: r102"));
	}
}

TEST(FleetResult, AnArmWithoutDataIsSaid)
{
	FleetPlan plan = small_plan(FleetDesign::racks, 6, 6, 1);
	FleetWorld world(plan, 0, {}, 4);

	world.set_gap([&](std::size_t r, std::int64_t) { return plan.racks[r].arm == 1; });
	const auto result = fleet_read(plan, world);

	ASSERT_TRUE(result);
	EXPECT_EQ(result->comparisons[0].why_not, "no data of new");
	EXPECT_FALSE(result->verdicts[0].known);
	EXPECT_TRUE(has_text(fleet_result_text(*result, {}), "not known (no data of new)"));
}

TEST(FleetResult, GuardrailsHaveTheirOwnTest)
{
	FleetPlan plan = small_plan(FleetDesign::racks, 20, 6, 1);
	const auto guard = [&](double effect, double margin, bool lower, double noise = 0.01) {
		plan.metrics[0].role = FleetRole::guardrail;
		plan.metrics[0].margin = margin;
		plan.metrics[0].lower_is_better = lower;
		FleetWorld world(plan, effect, {noise, 0.001, 0, 0.001, 0.001}, 9);

		return fleet_read(plan, world)->comparisons[0].guard;
	};

	EXPECT_EQ(guard(0, 0.05, true), FleetGuard::holds);
	EXPECT_EQ(guard(0, 0.05, true, 0.5), FleetGuard::open); // nothing is known of it
	EXPECT_EQ(guard(0.1, 0.05, true), FleetGuard::worsened);
	EXPECT_EQ(guard(0.1, 0.05, false), FleetGuard::holds); // more, and more is better
	EXPECT_EQ(guard(-0.1, 0.05, false), FleetGuard::worsened);
	EXPECT_EQ(guard(0.03, 0.2, true), FleetGuard::holds); // worse, but within the margin
}

TEST(FleetResult, RatiosOfNothingAreNone)
{
	FleetPlan plan = small_plan(FleetDesign::racks, 4, 6, 1);
	std::vector<std::string> warnings;
	std::string result;

	for (const FleetRack &r : plan.racks)
		result += std::string(result.empty() ? "" : ",") + R"({"metric": {"rack": ")" + r.name + R"("}, "values": [[)" +
			  std::to_string(plan.window_end_s(0)) + R"(, "0"]]})";
	const auto source = prometheus_source({"http://p", "", ""}, answers(200, R"({"data": {"resultType": "matrix", "result": [)" + result + "]}}"), warnings);
	const auto read = fleet_read(plan, *source);

	ASSERT_TRUE(read) << read.error().text();
	EXPECT_TRUE(has_text(read->comparisons[0].why_not, "4 of its values are not above 0"));
}

TEST(FleetResult, OtherArmsThanPlannedAreSaid)
{
	FleetPlan plan = small_plan(FleetDesign::racks, 4, 4, 1);

	class Labelled final : public MetricSource {
	public:
		explicit Labelled(const FleetPlan &p) : plan(p), world(p, 0, {}, 1) {}
		Result<std::vector<PromSeries>> range(const RangeQuery &q) override
		{
			if (!has_text(q.query, "up{"))
				return world.range(q);
			std::vector<PromSeries> all;

			for (const FleetRack &r : plan.racks)
				all.push_back({{{"rack", r.name}, {"arm", r.name == "r100" ? "other" : plan.arms[r.arm].name}},
					       {{static_cast<double>(q.start_s), 10}}});
			return all;
		}
		FleetPlan plan;
		FleetWorld world;
	} source(plan);

	const auto read = fleet_read(plan, source);

	ASSERT_TRUE(read);
	EXPECT_NEAR(*read->as_planned, 0.75, 1e-12);
	EXPECT_TRUE(has_text(fleet_result_text(*read, {}), "25.0 % of the looks"));
}

TEST(FleetCoverage, ByRack)
{
	const Tally t = many(FleetDesign::racks, std::log(0.9), false);
	const Tally at_before = many(FleetDesign::racks, std::log(0.9), true);

	if (sanitized)
		return;
	for (const Tally &each : {t, at_before}) {
		EXPECT_GE(each.covered, covered_least);
		EXPECT_LE(each.covered, covered_most);
	}
	EXPECT_LT(at_before.width, t.width / 2);
	// What the clusters are for: hosts of a rack go together.
	EXPECT_LT(t.naive_covered, 150u);
}

TEST(FleetCoverage, ByTime)
{
	const Tally t = many(FleetDesign::time, std::log(0.9), false);

	if (sanitized)
		return;
	EXPECT_GE(t.covered, covered_least);
	EXPECT_LE(t.covered, covered_most);
}

TEST(FleetCoverage, NoEffectIsFewAlarms)
{
	for (const FleetDesign design : {FleetDesign::racks, FleetDesign::time}) {
		const Tally t = many(design, 0, design == FleetDesign::racks);

		if (sanitized)
			continue;
		EXPECT_LE(t.alarms, experiments - covered_least);
		EXPECT_GE(t.alarms, experiments - covered_most);
	}
}

TEST(FleetCoverage, ThePastTellsWhatCanBeShown)
{
	// What it says would be shown 4 times in 5 is.
	for (const FleetDesign design : {FleetDesign::racks, FleetDesign::time}) {
		unsigned shown = 0;

		for (unsigned i = 0; i < experiments; i++) {
			FleetPlan plan = small_plan(design, 10, 12, 1000 + i);
			FleetWorld quiet(plan, 0, {}, 9000 + i);
			std::vector<std::string> notes;

			ASSERT_TRUE(fleet_learn(plan, quiet, plan.start_s, notes));
			ASSERT_EQ(plan.detectable.size(), 1u);
			FleetWorld world(plan, std::log1p(plan.detectable[0].effect), {}, 9000 + i);

			shown += fleet_read(plan, world)->comparisons[0].shown != FleetShown::nothing;
		}
		std::printf("%u of %u shown\n", shown, experiments);
		EXPECT_GE(shown, sanitized ? 1 : experiments * 65 / 100);
	}
}
