// SPDX-License-Identifier: MIT
#include "mesh_reader.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <set>

#include "clock_ns.h"
#include "flow_json.h"
#include "printable.h"
#include "probe_peers.h"
#include "system.h"

namespace swift {

namespace {

using nlohmann::json;

constexpr double ask_timeout_s = 5;
constexpr std::size_t longest_answer = 4 << 20;
constexpr std::size_t most_pairs = 1100; // probe.max_racks at its most
constexpr std::size_t longest_verdict = 300;

// Throws json::exception, as do these, if it is not there or something else.
std::uint64_t count_in(const json &j, const char *name)
{
	return j.at(name).get_ref<const json::number_unsigned_t &>();
}

ProbeTimes times_in(const json &j, const char *name)
{
	const json &t = j.at(name);
	const auto ns = [&](const char *which) { return t.at(which).get_ref<const json::number_integer_t &>(); };

	if (t.is_null())
		return {};
	return {count_in(t, "n"), ns("min"), ns("p50"), ns("p90"), ns("p99")};
}

template <typename T, typename Text> std::optional<T> named(const json &j, std::size_t n, Text text)
{
	for (std::size_t i = 0; i < n; i++)
		if (j == text(static_cast<T>(i)))
			return static_cast<T>(i);
	return std::nullopt;
}

std::optional<std::string> rack_in(const json &j)
{
	const auto *rack = j.get_ptr<const std::string *>();

	return rack && (is_rack(*rack) || *rack == other_racks) ? std::optional(*rack) : std::nullopt;
}

std::optional<ProbePairRow> pair_in(const json &j)
{
	const json &verdict = j.at("verdict");
	const json &stamps = j.at("stamps");
	const auto rack = rack_in(j.at("rack"));
	const auto peer_rack = rack_in(j.at("peer_rack"));
	const auto state = named<PeerState>(verdict.at("state"), peer_states, state_text);
	const auto bound = named<Bound>(verdict.at("limit"), bounds, bound_text);
	const auto local = named<Stamp>(stamps.at("local"), 3, source_text);
	const auto remote = named<Stamp>(stamps.at("remote"), 3, source_text);
	ProbePairRow row;

	if (!rack || !peer_rack || !state || !bound || !local || !remote)
		return std::nullopt;
	row.rack = *rack;
	row.peer_rack = *peer_rack;
	row.peers = count_in(j, "peers");
	for (std::size_t i = 0; i < peer_states; i++)
		row.states[i] = count_in(j.at("states"), std::string(state_text(static_cast<PeerState>(i))).c_str());
	row.summary = {count_in(j, "sent"),	   count_in(j, "lost"),		count_in(j, "other_stamps"),
		       *local,			   *remote,			times_in(j, "fabric_ns"),
		       times_in(j, "host_ns"),	   times_in(j, "remote_host_ns"), times_in(j, "local_host_ns")};
	row.verdict = {*state, *bound, printable(verdict.at("text").get_ref<const std::string &>().substr(0, longest_verdict))};
	return row;
}

} // namespace

Result<std::vector<ProbePairRow>> parse_probe_pairs(const std::string &by, const std::string &answer)
{
	const auto j = json::parse(answer, nullptr, false);
	std::vector<ProbePairRow> out;

	try {
		if (j.at("version") != 1)
			return Error{by + " speaks another version of the API"};
		for (const json &pair : j.at("pairs")) {
			auto row = pair_in(pair);

			if (!row || out.size() == most_pairs)
				return Error{by + " says what swiftd does not know of probes"};
			// What it has from others is theirs to tell.
			if (!pair.at("told_by").is_null())
				continue;
			row->told_by = by;
			out.push_back(std::move(*row));
		}
	} catch (const json::exception &) {
		return Error{by + " says what swiftd does not know of probes"};
	}
	return out;
}

Result<MeshReader::Inputs> MeshReader::read(const Config::Probe &config)
{
	Inputs inputs;

	if (config.mesh.empty())
		return inputs;
	if (!config.mesh_token_file.empty()) {
		const auto text = real_system()->read_file(config.mesh_token_file);

		if (!text)
			return Error{"probe.mesh_token_file: " + text.error().text()};
		auto header = bearer_header("probe.mesh_token_file", *text);

		if (!header)
			return header.error();
		inputs.authorization = std::move(*header);
	}
	auto post = http_client();

	if (!post)
		return Error{"probe.mesh: " + post.error().text()};
	inputs.post = std::move(*post);
	return inputs;
}

bool MeshReader::does(const Config::Probe &config, const Inputs &inputs) const
{
	return config.mesh == config_.mesh && config.mesh_ca_file == config_.mesh_ca_file && inputs.authorization == authorization_;
}

MeshReader::MeshReader(const Config::Probe &config, HttpPost post, std::string authorization, Tell tell)
	: config_(config), post_(std::move(post)), authorization_(std::move(authorization)), tell_(std::move(tell)),
	  thread_([this] { run(); })
{
}

MeshReader::~MeshReader()
{
	{
		const std::scoped_lock lock(mutex_);

		stopping_ = true;
	}
	end_.notify_all();
	thread_.join();
}

void MeshReader::ask(const std::string &url)
{
	HttpRequest request{url + (url.ends_with('/') ? "" : "/") + "api/v1/probes?limit=0"};

	request.get = true;
	if (!authorization_.empty())
		request.headers.push_back(authorization_);
	request.ca_file = config_.mesh_ca_file;
	request.timeout_s = ask_timeout_s;
	request.most_bytes = longest_answer;
	request.cancelled = [this] { return stopping_.load(); };

	const auto reply = post_(request);
	auto pairs = !reply		   ? Result<std::vector<ProbePairRow>>(reply.error()) :
		     reply->status != 200 ? Error{fmt::format("{}: HTTP status {}", request.url, reply->status)} :
					    parse_probe_pairs(url, reply->body);
	const std::string now = pairs ? "" : pairs.error().text();

	if (stopping_)
		return;
	if (std::string &before = trouble_[url]; before != now) {
		if (!now.empty())
			spdlog::warn("probe.mesh: {}", now);
		else
			spdlog::info("probe.mesh: {} answers", url);
		before = now;
	}
	if (pairs)
		told_[url] = {clock_ns(CLOCK_MONOTONIC), std::move(*pairs)};
}

void MeshReader::run()
{
	std::unique_lock lock(mutex_);

	while (!stopping_) {
		lock.unlock();
		for (const std::string &url : config_.mesh) {
			if (stopping_)
				return;
			ask(url);
		}

		// Of a pair that several tell of, the first one's.
		const std::int64_t since_ns = clock_ns(CLOCK_MONOTONIC) - good_for_s * ns_per_s;
		std::set<std::pair<std::string, std::string>> known;
		std::vector<ProbePairRow> all;

		for (const std::string &url : config_.mesh)
			if (const Told &told = told_[url]; told.at_ns >= since_ns)
				for (const ProbePairRow &row : told.pairs)
					if (known.emplace(row.rack, row.peer_rack).second)
						all.push_back(row);
		tell_(std::move(all));
		lock.lock();
		end_.wait_for(lock, std::chrono::seconds(every_s), [this] { return stopping_.load(); });
	}
}

} // namespace swift
