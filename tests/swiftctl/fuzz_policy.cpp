// SPDX-License-Identifier: MIT
// A policy's file: whatever it is, it is refused in one line, or holds nothing that could not be set.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "bpf_law.h"
#include "policy.h"
#include "tunables.h"
#include "text.h"

namespace {

void demand(bool what)
{
	if (!what)
		std::abort();
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
	const auto read = swift::parse_policy({reinterpret_cast<const char *>(data), size}, 1'790'000'000);

	if (!read.policy) {
		const std::string text = read.error.text("p.toml");

		demand(text.size() > 8);
		return 0;
	}
	const swift::Policy &p = *read.policy;

	demand(!p.version.empty() && p.version.size() <= 64 && !p.author.empty() && p.author.size() <= 64);
	demand(std::all_of(p.author.begin(), p.author.end(), [](char c) { return c >= ' ' && c <= '~'; }));
	demand(p.expires_s > 1'790'000'000 && swift::utc_text(p.expires_s).size() == 20);
	demand(p.guard.throughput >= 0.01 && p.guard.throughput <= 0.5 && p.guard.tail >= 0.05 && p.guard.tail <= 10);
	demand(!p.rules.empty() && p.rules.size() <= swift::most_policy_rules);
	for (const swift::PolicyRule &r : p.rules) {
		demand(!r.set.empty() && (r.prefix.empty() || (r.of != "module" && swift::BpfPrefix::parse(r.prefix))));
		demand(!r.dscp || (*r.dscp >= -1 && *r.dscp <= 63));
		for (const auto &[name, value] : r.set)
			demand(static_cast<bool>(swift::find_tunable(name)->check(value)));
	}
	return 0;
}
