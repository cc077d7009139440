// SPDX-License-Identifier: MIT
// swiftd's HTTP interface without the HTTP: a request and what is known make a response. No
// socket, no library and no clock is in here.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "assets.h"
#include "flow_search.h"
#include "options.h"
#include "result.h"
#include "store.h"
#include "text_cache.h"

namespace swift {

struct Request {
	std::string_view method; // "GET"
	std::string_view target; // as the client sent it: "/api/v1/flows?limit=5"
	std::string_view accept = {}; // header Accept
};

struct Response {
	unsigned status = 200;
	std::string content_type;
	SharedText body;
	std::optional<std::uint64_t> watch; // keep a history of this flow from now on
	bool by_accept = false; // another Accept would have another answer, worth a gzip
};

struct HostFacts {
	std::string host;
	std::string kernel;
};

// All that a response is made of.
struct View {
	const Store &store;
	const HostFacts &facts;
	std::span<const WebAsset> assets; // of the dashboard, if it was built in
	std::int64_t now_ns = 0; // CLOCK_MONOTONIC
	double time_s = 0; // since 1970
	TextCache *cache = nullptr; // may be none
};

[[nodiscard]] Response respond(const Request &request, const View &view);

// A search through all flows, for whoever has the time.
struct Search {
	std::uint64_t number = 0; // of the snapshot
	std::string key; // of equal ones
	std::function<std::optional<std::string>(const Cancelled &cancelled)> make; // nullopt: it was cancelled
};
// What @request searches for; nullopt: nothing, respond() answers at once.
[[nodiscard]] std::optional<Search> search_of(const Request &request, const Store &store);
[[nodiscard]] Response found_response(SharedText text);
[[nodiscard]] Response error_response(unsigned status, std::string_view text);

// --- /api/v1/stream -------------------------------------------------------------------------

inline constexpr std::string_view stream_path = "/api/v1/stream";

struct StreamQuery {
	std::optional<FlowSelection> flows;

	// Equal for queries with equal events.
	[[nodiscard]] std::string key() const;
};
// Of a GET for stream_path; an Error is what the 400 says.
Result<StreamQuery> parse_stream(std::string_view target);
// The events of one snapshot, as they go over the wire.
// nullopt: they were cancelled.
[[nodiscard]] std::optional<std::string> stream_events(const Snapshot &snapshot, const StreamQuery &query,
						       const HostFacts &facts, const Cancelled &cancelled = {});
// That there is none, and why.
[[nodiscard]] std::string trouble_event(const Trouble &trouble);

// --- Parts, for --once and the tests ----------------------------------------------------------

// @trouble: why there has been no newer one, if there is anything.
[[nodiscard]] nlohmann::json summary_json(const Snapshot &snapshot, const HostFacts &facts,
					  const std::optional<Trouble> &trouble = {});

using QueryItems = std::vector<std::pair<std::string, std::string>>;
// Path and decoded parameters; an Error if it is not as a URL has to be.
Result<std::pair<std::string, QueryItems>> parse_target(std::string_view target);
Result<FlowSelection> parse_flow_selection(const QueryItems &items);

} // namespace swift
