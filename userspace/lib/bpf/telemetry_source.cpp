// SPDX-License-Identifier: MIT
#include "telemetry_source.h"

#include <algorithm>
#include <array>
#include <optional>

namespace swift {

namespace {

// The group that all flows to @p are in, if one is.
std::optional<Prefix> group_prefix(const Prefix &p, const std::vector<Prefix> &prefixes)
{
	const Prefix group = prefix_of(p.address, prefixes);
	const bool divided = std::any_of(prefixes.begin(), prefixes.end(), [&](const Prefix &each) {
		return each.length > p.length && p.contains(each.address);
	});

	return divided || group.length > p.length ? std::nullopt : std::optional(group);
}

} // namespace

TelemetrySource::TelemetrySource(const TelemetryReading &since, const std::vector<Prefix> &prefixes)
{
	static constexpr std::array<std::pair<Part, Telemetered>, parts> which = {
		{{Part::rtt, Telemetered::rtt},
		 {Part::fabric, Telemetered::fabric},
		 {Part::host, Telemetered::endpoint},
		 {Part::remote_host, Telemetered::remote},
		 {Part::local_host, Telemetered::local},
		 {Part::tx_host, Telemetered::tx_host},
		 {Part::tx_nic, Telemetered::tx_nic},
		 {Part::target, Telemetered::target}}};

	for (const TelemetryPrefix &p : since.prefixes) {
		// Its "other" are other flows than those of the group of that name.
		const auto group = p.prefix ? group_prefix(*p.prefix, prefixes) : std::nullopt;

		if (!group)
			continue;
		GroupSamples &s = samples_[{group->text(), p.cc}];

		for (const auto &[part, value] : which)
			if (!p.counts.of(value).empty()) {
				auto &all = s.delays[static_cast<std::size_t>(part)];

				if (!all)
					all.emplace();
				*all += p.counts.of(value);
			}
		const std::array<std::uint64_t, causes> decreases = {
			p.counts.of(Decision::decrease_fabric), p.counts.of(Decision::decrease_endpoint),
			p.counts.of(Decision::decrease_both), p.counts.losses};

		for (std::size_t i = 0; i < causes; i++)
			s.decreases[i] += decreases[i];
	}
}

const GroupSamples *TelemetrySource::find(const FlowGroup &group) const
{
	const auto at = samples_.find({group.dst_prefix, group.cc});

	return !group.netns.empty() || at == samples_.end() ? nullptr : &at->second;
}

} // namespace swift
