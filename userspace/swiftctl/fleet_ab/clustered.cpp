// SPDX-License-Identifier: MIT
#include "clustered.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>

#include "statistics.h"

namespace swift {

namespace {

constexpr double tiny = 1e-9; // of a share
constexpr std::size_t draws = 4999;
constexpr double all_ways_max = 5000;
// Degrees of freedom that the values before have to leave: within blocks, and else among all clusters.
constexpr std::size_t before_room_in_blocks = 10;
constexpr std::size_t before_room = 4;

// The continued fraction of the incomplete beta function (Lentz's method; Numerical Recipes 6.4,
// formula of Abramowitz and Stegun 26.5.8). Debian's library for it, Boost, is 150 MB of headers.
double beta_fraction(double a, double b, double x)
{
	constexpr double smallest = 1e-300;
	constexpr unsigned terms = 10000;
	const auto away_from_0 = [](double v) { return std::abs(v) < smallest ? smallest : v; };
	double c = 1;
	double d = 1 / away_from_0(1 - (a + b) * x / (a + 1));
	double h = d;

	for (unsigned m = 1; m < terms; m++) {
		const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
		const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));

		for (const double term : {even, odd}) {
			d = 1 / away_from_0(1 + term * d);
			c = away_from_0(1 + term / c);
			h *= d * c;
		}
		if (std::abs(d * c - 1) < 1e-15)
			break;
	}
	return h;
}

double incomplete_beta(double a, double b, double x)
{
	if (x <= 0 || x >= 1)
		return x <= 0 ? 0 : 1;
	const double front = std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) + a * std::log(x) +
				      b * std::log1p(-x));

	return x < (a + 1) / (a + b + 2) ? front * beta_fraction(a, b, x) / a : 1 - front * beta_fraction(b, a, 1 - x) / b;
}

// The least squares of value = block + effect * treated (+ slope * before), by what is left of each
// within its block.
struct Fit {
	double effect = 0;
	double se = 0;
	std::vector<double> weight; // of each value in the effect
	std::vector<double> left; // 1 - leverage
	std::array<double, 3> inverse{}; // of X'X: 11, 12, 22
	std::vector<double> x;
	std::vector<double> z;
};

struct Blocks {
	std::vector<Cluster> clusters; // of blocks with both arms, a block's side by side
	std::vector<std::size_t> first; // and one past the end
	// Those whose levels are fitted: all of them; or one, of few clusters whose values before tell
	// the levels at a smaller price.
	std::vector<std::size_t> fitted;
	bool before_used = false;

	[[nodiscard]] std::size_t count() const { return first.size() - 1; }
	[[nodiscard]] std::size_t levels() const { return fitted.size() - 1; }
	[[nodiscard]] bool has_room() const { return clusters.size() >= count() + 2; }
};

Blocks blocks_of(std::span<const Cluster> clusters)
{
	std::map<std::size_t, std::vector<Cluster>> by_block;
	Blocks out;

	for (const Cluster &c : clusters)
		by_block[c.block].push_back(c);
	out.first.push_back(0);
	for (const auto &[block, members] : by_block) {
		const auto treated = std::count_if(members.begin(), members.end(), [](const Cluster &c) { return c.treated; });

		if (treated == 0 || treated == std::ssize(members))
			continue;
		out.clusters.insert(out.clusters.end(), members.begin(), members.end());
		out.first.push_back(out.clusters.size());
	}
	out.fitted = out.first;

	const std::size_t n = out.clusters.size();

	// By how many there are alone: what the values are has no say in how they are looked at.
	if (std::none_of(out.clusters.begin(), out.clusters.end(), [](const Cluster &c) { return c.before != 0; }))
		return out;
	out.before_used = n >= out.count() + 2 + before_room_in_blocks;
	if (!out.before_used && n >= 1 + 2 + before_room) {
		out.fitted = {0, n};
		out.before_used = true;
	}
	return out;
}

template <typename Of> std::vector<double> within_blocks(const Blocks &b, Of of)
{
	std::vector<double> v(b.clusters.size());

	for (std::size_t k = 0; k < b.levels(); k++) {
		double sum = 0;

		for (std::size_t i = b.fitted[k]; i < b.fitted[k + 1]; i++)
			sum += v[i] = of(b.clusters[i]);
		for (std::size_t i = b.fitted[k]; i < b.fitted[k + 1]; i++)
			v[i] -= sum / static_cast<double>(b.fitted[k + 1] - b.fitted[k]);
	}
	return v;
}

double dot(const std::vector<double> &a, const std::vector<double> &b)
{
	double sum = 0;

	for (std::size_t i = 0; i < a.size(); i++)
		sum += a[i] * b[i];
	return sum;
}

// What is left of the values before; empty: they are not used, or they are all the same.
std::vector<double> before_of(const Blocks &b)
{
	double most = 0;

	if (!b.before_used)
		return {};
	auto z = within_blocks(b, [](const Cluster &c) { return c.before; });

	for (const Cluster &c : b.clusters)
		most = std::max(most, std::abs(c.before));
	return dot(z, z) > most * most * tiny * tiny ? z : std::vector<double>();
}

// @z: what is left of the values before; empty: they are not used.
Fit fit_of(const Blocks &b, const std::vector<double> &y, const std::vector<double> &z)
{
	const std::size_t n = b.clusters.size();
	Fit f;

	f.x = within_blocks(b, [](const Cluster &c) { return c.treated ? 1.0 : 0.0; });
	f.z = z;

	const double xx = dot(f.x, f.x);
	const double xy = dot(f.x, y);
	double slope = 0;

	if (z.empty()) {
		f.inverse = {1 / xx, 0, 0};
		f.effect = xy / xx;
	} else {
		const double xz = dot(f.x, z);
		const double zz = dot(z, z);
		const double det = xx * zz - xz * xz;
		const double zy = dot(z, y);

		f.inverse = {zz / det, -xz / det, xx / det};
		f.effect = f.inverse[0] * xy + f.inverse[1] * zy;
		slope = f.inverse[1] * xy + f.inverse[2] * zy;
	}
	f.weight.resize(n);
	f.left.resize(n);

	double variance = 0;

	for (std::size_t k = 0; k < b.levels(); k++)
		for (std::size_t i = b.fitted[k]; i < b.fitted[k + 1]; i++) {
			const double zi = z.empty() ? 0 : z[i];
			const double error = y[i] - f.effect * f.x[i] - slope * zi;
			const double leverage = 1 / static_cast<double>(b.fitted[k + 1] - b.fitted[k]) +
						f.inverse[0] * f.x[i] * f.x[i] + 2 * f.inverse[1] * f.x[i] * zi +
						f.inverse[2] * zi * zi;

			f.weight[i] = f.inverse[0] * f.x[i] + f.inverse[1] * zi;
			f.left[i] = 1 - leverage;
			// A value that is fitted whatever it is tells of no error.
			if (f.left[i] > tiny)
				variance += f.weight[i] * f.weight[i] * error * error / f.left[i];
		}
	f.se = std::sqrt(variance);
	return f;
}

// (tr MDM)^2 / tr (MDM)^2 with M = I - H and D = weight^2 / (1 - leverage): the degrees of freedom of
// the chi-squared that has the mean and the variance of se^2, were the errors alike.
double satterthwaite(const Blocks &b, const Fit &f)
{
	const std::size_t n = b.clusters.size();
	std::vector<double> d(n);
	std::vector<std::size_t> block(n);
	double trace = 0;
	double squares = 0;

	for (std::size_t k = 0; k < b.levels(); k++)
		std::fill(block.begin() + static_cast<std::ptrdiff_t>(b.fitted[k]),
			  block.begin() + static_cast<std::ptrdiff_t>(b.fitted[k + 1]), k);
	for (std::size_t i = 0; i < n; i++) {
		d[i] = f.left[i] > tiny ? f.weight[i] * f.weight[i] / f.left[i] : 0;
		trace += d[i] * f.left[i];
	}
	for (std::size_t i = 0; i < n; i++)
		for (std::size_t j = 0; j < n; j++) {
			const double zi = f.z.empty() ? 0 : f.z[i];
			const double zj = f.z.empty() ? 0 : f.z[j];
			double m = i == j ? 1 : 0;

			if (block[i] == block[j])
				m -= 1 / static_cast<double>(b.fitted[block[i] + 1] - b.fitted[block[i]]);
			m -= f.inverse[0] * f.x[i] * f.x[j] + f.inverse[1] * (f.x[i] * zj + zi * f.x[j]) + f.inverse[2] * zi * zj;
			squares += d[i] * d[j] * m * m;
		}
	return squares > 0 ? trace * trace / squares : 0;
}

double statistic(const Fit &f)
{
	return f.se > 0 ? std::abs(f.effect) / f.se : f.effect == 0 ? 0 : std::numeric_limits<double>::infinity();
}

// In how many ways the arms can be drawn.
double ways(const Blocks &b)
{
	double n = 1;

	for (std::size_t k = 0; k < b.count(); k++) {
		double treated = 0;
		double done = 0;

		for (std::size_t i = b.first[k]; i < b.first[k + 1]; i++) {
			done += 1;
			if (b.clusters[i].treated)
				n *= done / ++treated;
			else
				n *= done / (done - treated);
		}
	}
	return std::round(n);
}

// The next of all ways, as an odometer turns; false when it is at the first again.
bool next_way(const Blocks &b, std::vector<char> &treated)
{
	for (std::size_t k = 0; k < b.count(); k++)
		if (std::next_permutation(treated.begin() + static_cast<std::ptrdiff_t>(b.first[k]),
					  treated.begin() + static_cast<std::ptrdiff_t>(b.first[k + 1])))
			return true;
	return false;
}

} // namespace

double t_probability(double t, double df)
{
	const double tail = incomplete_beta(df / 2, 0.5, df / (df + t * t)) / 2;

	return t > 0 ? 1 - tail : tail;
}

double t_quantile(double probability, double df)
{
	if (probability < 0.5)
		return -t_quantile(1 - probability, df);

	double low = 0;
	double high = 1;

	while (t_probability(high, df) < probability && high < 1e12)
		high *= 2;
	for (unsigned i = 0; i < 200 && high - low > 1e-12 * high; i++) {
		const double middle = (low + high) / 2;

		(t_probability(middle, df) < probability ? low : high) = middle;
	}
	return (low + high) / 2;
}

TwoWay two_way(const Cells &cells)
{
	const std::size_t rows = cells.size();
	const std::size_t columns = rows ? cells[0].size() : 0;
	TwoWay out{std::vector<std::optional<double>>(rows), std::vector<std::optional<double>>(columns)};
	std::vector<double> row(rows, 0);
	std::vector<double> column(columns, 0);
	double scale = 0;

	for (const auto &r : cells)
		for (const auto &c : r)
			scale = std::max(scale, c ? std::abs(*c) : 0);
	// Each in turn fits what the other has left: least squares, once nothing moves any more.
	for (unsigned turn = 0; turn < 1000; turn++) {
		double moved = 0;
		double level = 0;
		double present = 0;

		for (std::size_t r = 0; r < rows; r++) {
			double sum = 0;
			double n = 0;

			for (std::size_t c = 0; c < columns; c++)
				if (cells[r][c])
					sum += *cells[r][c] - column[c], n++;
			if (n == 0)
				continue;
			moved = std::max(moved, std::abs(sum / n - row[r]));
			row[r] = sum / n;
			out.rows[r] = row[r];
		}
		for (std::size_t c = 0; c < columns; c++) {
			double sum = 0;
			double n = 0;

			for (std::size_t r = 0; r < rows; r++)
				if (cells[r][c])
					sum += *cells[r][c] - row[r], n++;
			if (n == 0)
				continue;
			column[c] = sum / n;
			out.columns[c] = column[c];
			level += column[c];
			present++;
		}
		// What all columns share is the rows'.
		for (std::size_t c = 0; c < columns && present > 0; c++)
			column[c] -= level / present;
		if (moved <= scale * 1e-13)
			break;
	}

	double rows_level = 0;
	double rows_present = 0;

	for (const auto &r : out.rows)
		if (r)
			rows_level += *r, rows_present++;
	for (std::size_t c = 0; c < columns; c++)
		if (out.columns[c])
			out.columns[c] = column[c] + rows_level / rows_present;
	return out;
}

double ClusterEffect::half_width(double level) const
{
	return t_quantile(0.5 + level / 2, df) * se;
}

double ClusterEffect::p() const
{
	if (se <= 0)
		return effect == 0 ? 1 : 0;
	return 2 * (1 - t_probability(std::abs(effect) / se, df));
}

double ClusterEffect::p_above(double limit) const
{
	if (se <= 0)
		return effect > limit ? 0 : 1;
	return 1 - t_probability((effect - limit) / se, df);
}

double ClusterEffect::detectable() const
{
	return (t_quantile(0.975, df) + t_quantile(0.8, df)) * se;
}

std::optional<ClusterEffect> cluster_effect(std::span<const Cluster> clusters)
{
	const Blocks b = blocks_of(clusters);
	const std::size_t n = b.clusters.size();

	if (!b.has_room())
		return std::nullopt;

	const Fit f = fit_of(b, within_blocks(b, [](const Cluster &c) { return c.value; }), before_of(b));
	ClusterEffect e;

	e.effect = f.effect;
	e.se = f.se;
	e.df = satterthwaite(b, f);
	e.treated = static_cast<std::size_t>(std::count_if(b.clusters.begin(), b.clusters.end(), [](const Cluster &c) { return c.treated; }));
	e.untreated = n - e.treated;
	e.blocks = b.count();
	e.before_used = !f.z.empty();
	if (!(e.df > tiny) || !std::isfinite(e.se))
		return std::nullopt;
	return e;
}

std::optional<Randomisation> randomisation_p(std::span<const Cluster> clusters, std::uint64_t seed)
{
	Blocks b = blocks_of(clusters);

	if (!b.has_room())
		return std::nullopt;

	const auto y = within_blocks(b, [](const Cluster &c) { return c.value; });
	const auto z = before_of(b);
	// Of the same drawing, computed another way, the last digits may differ.
	const double observed = statistic(fit_of(b, y, z)) * (1 - tiny);
	const double all = ways(b);
	Randomisation r;
	double above = 0;
	double looked = 0;
	std::vector<char> treated;

	r.exact = all <= all_ways_max;
	for (const Cluster &c : b.clusters)
		treated.push_back(c.treated);

	const auto look = [&] {
		for (std::size_t i = 0; i < treated.size(); i++)
			b.clusters[i].treated = treated[i];
		above += statistic(fit_of(b, y, z)) >= observed;
		looked++;
	};

	if (r.exact) {
		for (std::size_t k = 0; k < b.count(); k++)
			std::sort(treated.begin() + static_cast<std::ptrdiff_t>(b.first[k]),
				  treated.begin() + static_cast<std::ptrdiff_t>(b.first[k + 1]));
		do
			look();
		while (next_way(b, treated));
		// A drawing's mirror image, where there is one, has the same statistic.
		bool mirrored = true;

		for (std::size_t k = 0; k < b.count(); k++)
			mirrored &= 2 * std::count(treated.begin() + static_cast<std::ptrdiff_t>(b.first[k]),
						   treated.begin() + static_cast<std::ptrdiff_t>(b.first[k + 1]), 1) ==
				    static_cast<std::ptrdiff_t>(b.first[k + 1] - b.first[k]);
		r.least_p = (mirrored ? 2 : 1) / all;
	} else {
		Shuffler shuffler(seed);

		above = looked = 1; // what was drawn is one of them
		for (std::size_t i = 0; i < draws; i++) {
			for (std::size_t k = 0; k < b.count(); k++)
				for (std::size_t m = b.first[k + 1] - b.first[k]; m > 1; m--)
					std::swap(treated[b.first[k] + m - 1], treated[b.first[k] + shuffler.below(m)]);
			look();
		}
		r.least_p = 1.0 / (draws + 1);
	}
	r.p = above / looked;
	return r;
}

} // namespace swift
