// SPDX-License-Identifier: MIT
#include "path_model.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "text.h"

namespace swift {

namespace {

double median(std::vector<double> values)
{
	const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);

	std::nth_element(values.begin(), middle, values.end());
	if (values.size() % 2)
		return *middle;
	return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

} // namespace

Result<PathModel> fit_paths(std::span<const PathSample> samples)
{
	std::vector<std::pair<double, double>> known; // hops, ns
	std::vector<double> slopes, intercepts;
	PathModel model;

	if (samples.empty())
		return Error{"no path was measured yet"};
	for (const auto &s : samples) {
		if (!s.hops)
			continue;
		known.emplace_back(*s.hops, s.unloaded_ns);
		model.fewest_hops = std::min(model.fewest_hops.value_or(*s.hops), *s.hops);
	}
	if (known.empty())
		for (const auto &s : samples)
			known.emplace_back(0, s.unloaded_ns);
	for (std::size_t i = 0; i < known.size(); i++)
		for (std::size_t k = 0; k < i; k++)
			if (known[i].first != known[k].first)
				slopes.push_back((known[i].second - known[k].second) /
						 (known[i].first - known[k].first));
	// A hop takes time: less than none is noise.
	if (!slopes.empty())
		model.hop_ns = std::max(0.0, median(std::move(slopes)));
	for (const auto &[hops, ns] : known)
		intercepts.push_back(ns - model.hop_ns.value_or(0) * hops);
	model.intercept_ns = std::max(0.0, median(std::move(intercepts)));
	return model;
}

TargetProposal propose_target(const PathModel &model, std::uint32_t hop_target_ns)
{
	const double shortest_ns = model.shortest_ns();
	TargetProposal p;

	p.hop_target_ns = model.hop_ns ? static_cast<std::uint32_t>(std::clamp(
						 std::round(*model.hop_ns), 0.0, 1e6)) :
					 hop_target_ns;
	const double hops_ns = static_cast<double>(p.hop_target_ns) * model.fewest_hops.value_or(0);

	p.base_target_ns = static_cast<std::uint32_t>(
		std::clamp(std::round(2 * shortest_ns - hops_ns), 1e3, 1e9));
	p.reason = "the shortest path";
	if (model.fewest_hops)
		p.reason += " (" + std::to_string(*model.fewest_hops) +
			    (*model.fewest_hops == 1 ? " hop)" : " hops)");
	p.reason += " takes " + span_text(std::llround(shortest_ns), false) +
		    " unloaded, and gets as much again for a queue";
	if (model.hop_ns)
		p.reason += "; a hop adds " + span_text(std::llround(*model.hop_ns), false);
	else if (model.fewest_hops)
		p.reason += "; what a hop adds is not known: all paths have as many";
	return p;
}

} // namespace swift
