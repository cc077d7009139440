// SPDX-License-Identifier: MIT
// The texts that swiftd takes from others, by the first byte: an HTTP request's target, a configuration
// file, and what another swiftd says of its probes.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "api.h"
#include "config.h"
#include "mesh_reader.h"

namespace swift {

// Of the dashboard there is nothing to be found here.
std::span<const WebAsset> web_assets()
{
	return {};
}

} // namespace swift

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
	static swift::Store *store = [] {
		auto *s = new swift::Store;
		auto snapshot = std::make_shared<swift::Snapshot>();
		auto flows = std::make_shared<swift::FlowSet>();

		flows->groups.push_back({"10.0.0.0/24", "swift", "eth0"});
		flows->ccs = {"other", "swift"};
		flows->ifaces = {"other", "eth0"};
		for (unsigned i = 1; i < 4; i++) {
			swift::FlowRow row;

			row.cookie = i;
			row.cc = 1;
			row.iface = 1;
			row.measured = i > 1;
			flows->rows.push_back(row);
		}
		snapshot->summary = swift::summarize(*flows, nullptr, {});
		snapshot->flows = std::move(flows);
		s->put(std::move(snapshot));
		return s;
	}();
	static const swift::HostFacts facts{"host", "kernel"};

	if (size == 0)
		return 0;
	const std::string_view text(reinterpret_cast<const char *>(data + 1), size - 1);

	if (data[0] % 3 == 2) {
		const auto pairs = swift::parse_probe_pairs("f", std::string(text));

		if (!pairs)
			return 0;
		for (const swift::ProbePairRow &row : *pairs)
			if (row.rack.empty() || row.peer_rack.empty() || row.told_by != "f")
				std::abort();
		store->put_mesh(*pairs);
		if (swift::respond({"GET", "/api/v1/probes"}, {*store, facts, {}, 0, 0}).status != 200)
			std::abort();
		return 0;
	}
	if (data[0] % 3 == 1) {
		const auto config = swift::parse_config(text, "f");

		if (config && !swift::check_config(*config))
			std::abort();
		return 0;
	}
	const auto r = swift::respond({"GET", text}, {*store, facts, {}, 0, 0});

	if (r.status != 200 && r.status != 400 && r.status != 404 && r.status != 503)
		std::abort();
	if (auto q = swift::parse_stream(text); q && !swift::stream_events(*store->newest(), *q, facts))
		std::abort();
	return 0;
}
