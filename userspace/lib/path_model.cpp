// SPDX-License-Identifier: MIT
#include "path_model.h"

#include <algorithm>
#include <cmath>
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
	std::vector<double> slopes, intercepts;
	PathModel model;

	if (samples.empty())
		return Error{ "no path was measured yet" };
	const auto [fewest, most] = std::minmax_element(
		samples.begin(), samples.end(),
		[](const PathSample &a, const PathSample &b) { return a.hops < b.hops; });

	model.fewest_hops = fewest->hops;
	model.most_hops = most->hops;
	for (std::size_t i = 0; i < samples.size(); i++)
		for (std::size_t k = 0; k < i; k++)
			if (samples[i].hops != samples[k].hops)
				slopes.push_back((samples[i].unloaded_ns - samples[k].unloaded_ns) /
						 (static_cast<double>(samples[i].hops) -
						  static_cast<double>(samples[k].hops)));
	// A hop takes time: less than none is noise.
	if (!slopes.empty())
		model.hop_ns = std::max(0.0, median(std::move(slopes)));
	for (const auto &s : samples)
		intercepts.push_back(s.unloaded_ns - model.hop_ns.value_or(0) * s.hops);
	model.intercept_ns = std::max(0.0, median(std::move(intercepts)));
	return model;
}

TargetProposal propose_target(const PathModel &model, std::uint32_t hop_target_ns)
{
	const double shortest_ns = model.unloaded_ns(model.fewest_hops);
	TargetProposal p;

	p.hop_target_ns = model.hop_ns ? static_cast<std::uint32_t>(std::clamp(
						 std::round(*model.hop_ns), 0.0, 1e6)) :
					 hop_target_ns;
	const double hops_ns = static_cast<double>(p.hop_target_ns) * model.fewest_hops;

	p.base_target_ns = static_cast<std::uint32_t>(
		std::clamp(std::round(2 * shortest_ns - hops_ns), 1e3, 1e9));
	p.reason = "the shortest path (" + std::to_string(model.fewest_hops) +
		   (model.fewest_hops == 1 ? " hop" : " hops") + ") takes " + span_text(std::llround(shortest_ns), false) +
		   " unloaded, and gets as much again for a queue; ";
	p.reason += model.hop_ns ? "a hop adds " + span_text(std::llround(*model.hop_ns), false) :
				   "what a hop adds is not known: all paths have as many";
	return p;
}

} // namespace swift
