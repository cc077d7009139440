// SPDX-License-Identifier: MIT
#include "statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace swift {

namespace {

std::vector<double> sorted(std::span<const double> values)
{
	std::vector<double> s(values.begin(), values.end());

	std::sort(s.begin(), s.end());
	return s;
}

double median_of_sorted(const std::vector<double> &s)
{
	const std::size_t half = s.size() / 2;

	return s.size() % 2 ? s[half] : (s[half - 1] + s[half]) / 2;
}

// P(sum = k) where each of @weights counts with probability 1/2.
std::vector<double> sum_distribution(const std::vector<std::size_t> &weights)
{
	std::vector<double> p(std::accumulate(weights.begin(), weights.end(), std::size_t{0}) + 1, 0.0);
	std::size_t most = 0;

	p[0] = 1;
	for (const std::size_t w : weights) {
		most += w;
		for (std::size_t k = most + 1; k-- > 0;)
			p[k] = (p[k] + (k >= w ? p[k - w] : 0)) / 2;
	}
	return p;
}

// The interval between the k-th smallest and the k-th largest of @s, for the largest k with
// P(statistic < k) <= (1 - level) / 2.
std::optional<ConfidenceInterval> between(const std::vector<double> &s, const std::vector<double> &p,
					  double level)
{
	const double each = (1 - level) / 2;
	double outside = 0;
	std::size_t k = 0;

	while (k < s.size() / 2 && outside + p[k] <= each)
		outside += p[k++];
	if (k == 0)
		return std::nullopt;
	return ConfidenceInterval{s[k - 1], s[s.size() - k], 1 - 2 * outside};
}

std::vector<double> walsh_averages(std::span<const double> d)
{
	std::vector<double> w;

	w.reserve(d.size() * (d.size() + 1) / 2);
	for (std::size_t i = 0; i < d.size(); i++)
		for (std::size_t j = i; j < d.size(); j++)
			w.push_back((d[i] + d[j]) / 2);
	std::sort(w.begin(), w.end());
	return w;
}

std::vector<std::size_t> ranks(std::size_t n)
{
	std::vector<std::size_t> r(n);

	std::iota(r.begin(), r.end(), std::size_t{1});
	return r;
}

} // namespace

double median(std::span<const double> values)
{
	return median_of_sorted(sorted(values));
}

std::optional<double> percentile(std::span<const double> values, double q)
{
	const auto s = sorted(values);
	const auto n = static_cast<double>(s.size());

	// The share that is above has to be one value at least.
	if (s.empty() || n * (1 - q) < 1 - 1e-9)
		return std::nullopt;
	const double rank = std::ceil(n * q - 1e-9);

	return s[static_cast<std::size_t>(std::max(rank, 1.0)) - 1];
}

double jain_index(std::span<const double> values)
{
	double sum = 0;
	double squares = 0;

	for (const double v : values) {
		sum += v;
		squares += v * v;
	}
	// All the same is fair, even if it is nothing.
	return squares > 0 ? sum * sum / (static_cast<double>(values.size()) * squares) : 1;
}

std::optional<ConfidenceInterval> median_interval(std::span<const double> values, double level)
{
	// How many values are below the median: heads of n coins.
	return between(sorted(values), sum_distribution(std::vector<std::size_t>(values.size(), 1)), level);
}

double hodges_lehmann(std::span<const double> differences)
{
	return median_of_sorted(walsh_averages(differences));
}

std::optional<ConfidenceInterval> hodges_lehmann_interval(std::span<const double> differences,
							 double level)
{
	return between(walsh_averages(differences), sum_distribution(ranks(differences.size())), level);
}

double signed_rank_p(std::span<const double> differences)
{
	std::vector<double> d;

	std::copy_if(differences.begin(), differences.end(), std::back_inserter(d),
		     [](double v) { return v != 0; });
	if (d.empty())
		return 1;
	std::sort(d.begin(), d.end(), [](double a, double b) { return std::abs(a) < std::abs(b); });

	// Twice the rank, so that the mean rank of ties is whole.
	std::vector<std::size_t> twice(d.size());
	std::size_t observed = 0;

	for (std::size_t i = 0; i < d.size();) {
		std::size_t end = i;

		while (end < d.size() && std::abs(d[end]) == std::abs(d[i]))
			end++;
		for (std::size_t j = i; j < end; j++) {
			twice[j] = i + 1 + end;
			if (d[j] > 0)
				observed += twice[j];
		}
		i = end;
	}

	const auto p = sum_distribution(twice);
	// The distribution is symmetric: the smaller tail is the one that counts.
	const std::size_t tail = std::min(observed, p.size() - 1 - observed);
	double sum = 0;

	for (std::size_t k = 0; k <= tail; k++)
		sum += p[k];
	return std::min(1.0, 2 * sum);
}

double signed_rank_least_p(std::size_t n)
{
	return std::min(1.0, std::exp2(1 - static_cast<double>(n)));
}

double cliffs_delta(std::span<const double> x, std::span<const double> y)
{
	std::int64_t more = 0;

	for (const double a : x)
		for (const double b : y)
			more += (a > b) - (a < b);
	return static_cast<double>(more) / static_cast<double>(x.size() * y.size());
}

std::string_view cliffs_word(double delta)
{
	const double size = std::abs(delta);

	return size < 0.147 ? "negligible" : size < 0.33 ? "small" : size < 0.474 ? "medium" : "large";
}

std::vector<double> holm(std::span<const double> p)
{
	std::vector<std::size_t> order(p.size());
	std::vector<double> adjusted(p.size());
	double least = 0;

	std::iota(order.begin(), order.end(), std::size_t{0});
	std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return p[a] < p[b]; });
	for (std::size_t i = 0; i < order.size(); i++) {
		least = std::max(least, std::min(1.0, p[order[i]] * static_cast<double>(p.size() - i)));
		adjusted[order[i]] = least;
	}
	return adjusted;
}

double detectable(const ConfidenceInterval &interval)
{
	constexpr double z_two_sided = 1.959964; // 97.5 %
	constexpr double z_power = 0.841621; // 80 %

	return (interval.high - interval.low) / 2 * (z_two_sided + z_power) / z_two_sided;
}

// splitmix64
std::uint64_t Shuffler::next()
{
	std::uint64_t z = state_ += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

std::uint64_t Shuffler::below(std::uint64_t limit)
{
	const std::uint64_t unfair = UINT64_MAX - UINT64_MAX % limit;
	std::uint64_t v = next();

	while (v >= unfair)
		v = next();
	return v % limit;
}

} // namespace swift
