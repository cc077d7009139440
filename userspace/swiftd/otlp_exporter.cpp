// SPDX-License-Identifier: MIT
#include "otlp_exporter.h"

#include <fmt/format.h>
#include <prometheus/metric_family.h>
#include <spdlog/spdlog.h>
#include <time.h>

#include <algorithm>
#include <cstdlib>

#include <nlohmann/json.hpp>

#include "clock_ns.h"
#include "metrics.h"
#include "system.h"

namespace swift {

namespace {

constexpr double timeout_s = 10;
constexpr std::size_t reply_max = 1 << 20;

double now_s()
{
	return static_cast<double>(clock_ns(CLOCK_REALTIME)) / real_ns_per_s;
}

// "rejectedLogRecords" of a partial success, and the collector's words on it.
std::pair<std::uint64_t, std::string> rejected(const std::string &reply)
{
	const auto json = nlohmann::json::parse(reply, nullptr, false);

	if (!json.is_object() || !json.contains("partialSuccess") || !json["partialSuccess"].is_object())
		return {0, ""};
	std::uint64_t n = 0;

	for (const char *what : {"rejectedLogRecords", "rejectedDataPoints"}) {
		const auto it = json["partialSuccess"].find(what);

		if (it == json["partialSuccess"].end())
			continue;
		if (it->is_number_unsigned())
			n = it->get<std::uint64_t>();
		else if (it->is_string())
			n = std::strtoull(it->get<std::string>().c_str(), nullptr, 10);
	}
	const auto words = json["partialSuccess"].find("errorMessage");

	return {n, words != json["partialSuccess"].end() && words->is_string() ? words->get<std::string>().substr(0, 200) : ""};
}

} // namespace

Result<std::string> OtlpExporter::read_authorization(const Config::Otlp &config)
{
	if (config.token_file.empty())
		return std::string();
	const auto text = real_system()->read_file(config.token_file);

	if (!text)
		return Error{"otlp.token_file: " + text.error().text()};
	return bearer_header("otlp.token_file", *text);
}

Result<std::unique_ptr<OtlpExporter>> OtlpExporter::start(const Config::Otlp &config, HostFacts facts, HttpStats &stats)
{
	ASSIGN_OR_RETURN(auto authorization, read_authorization(config));
	ASSIGN_OR_RETURN(auto post, http_client());
	return std::make_unique<OtlpExporter>(config, std::move(facts), stats, std::move(post), std::move(authorization));
}

OtlpExporter::OtlpExporter(const Config::Otlp &config, HostFacts facts, HttpStats &stats, HttpPost post, std::string authorization)
	: config_(config), facts_(std::move(facts)), stats_(stats), post_(std::move(post)), authorization_(std::move(authorization)),
	  starts_(now_s()), thread_([this] { run(); })
{
}

OtlpExporter::~OtlpExporter()
{
	{
		const std::lock_guard lock(mutex_);

		stopping_ = true;
	}
	news_.notify_all();
	thread_.join();
}

void OtlpExporter::offer(std::shared_ptr<const Snapshot> snapshot)
{
	{
		const std::lock_guard lock(mutex_);

		snapshots_.push_back(std::move(snapshot));
		// The oldest goes. Flows that ended in it are found by the next: they are gone there as well.
		if (snapshots_.size() > most_snapshots)
			snapshots_.pop_front();
	}
	news_.notify_all();
}

void OtlpExporter::run()
{
	std::unique_lock lock(mutex_);

	for (;;) {
		news_.wait(lock, [this] { return stopping_ || !snapshots_.empty(); });
		if (stopping_)
			return;
		const std::shared_ptr<const Snapshot> snapshot = std::move(snapshots_.front());

		snapshots_.pop_front();
		const bool newest = snapshots_.empty();

		lock.unlock();
		if (config_.flow_log)
			note_ended(*snapshot);
		// On the grid of looks: none is waited for.
		if (const std::int64_t now = clock_ns(CLOCK_MONOTONIC); newest && now >= due_ns_) {
			due_ns_ = now + config_.interval_s * ns_per_s - snapshot->interval_ms * 500'000;
			deliver(*snapshot);
		}
		lock.lock();
	}
}

void OtlpExporter::note_ended(const Snapshot &snapshot)
{
	std::uint64_t left_out = 0;

	if (before_)
		for (GoneFlow &f : ended_flows(*before_, *snapshot.flows, snapshot.time_s, most_flows - flows_.size(), left_out))
			flows_.push_back(std::move(f));
	for (GoneFlow &f : short_flows(snapshot.short_flows, snapshot.time_s, most_flows - flows_.size(), left_out))
		flows_.push_back(std::move(f));
	left_out += snapshot.short_flows_left_out;
	before_ = snapshot.flows;
	stats_.otlp.lost_flows += left_out;
}

void OtlpExporter::deliver(const Snapshot &snapshot)
{
	const std::vector<MetricFamily> families = metric_families(snapshot, snapshot.collect, stats_, now_s() - snapshot.time_s);

	if (send("metrics", otlp_metrics(families, facts_, starts_, snapshot.time_s)) == Outcome::taken)
		stats_.otlp.deliveries++;
	else
		stats_.otlp.lost_deliveries++;
	while (!flows_.empty() && !stopping_) {
		const std::vector<GoneFlow> some(flows_.begin(), flows_.begin() + static_cast<std::ptrdiff_t>(std::min(batch, flows_.size())));
		const Outcome outcome = send("logs", otlp_logs(some, facts_, now_s()));

		if (outcome == Outcome::unreachable)
			return; // they wait for the next turn
		(outcome == Outcome::taken ? stats_.otlp.flows : stats_.otlp.lost_flows) += some.size();
		flows_.erase(flows_.begin(), flows_.begin() + static_cast<std::ptrdiff_t>(some.size()));
	}
}

OtlpExporter::Outcome OtlpExporter::send(const std::string &signal, std::string body)
{
	HttpRequest request{config_.endpoint + (config_.endpoint.ends_with('/') ? "v1/" : "/v1/") + signal, {"Content-Type: application/json"}};

	if (!authorization_.empty())
		request.headers.push_back(authorization_);
	request.body = std::move(body);
	request.ca_file = config_.ca_file;
	request.timeout_s = timeout_s;
	request.most_bytes = reply_max;
	request.cancelled = [this] { return stopping_.load(); };

	const auto reply = post_(request);

	if (stopping_)
		return Outcome::unreachable;
	if (!reply) {
		say(signal, reply.error().text());
		return Outcome::unreachable;
	}
	if (reply->status / 100 == 2) {
		const auto &[n, words] = rejected(reply->body);

		say(signal, n > 0 ? fmt::format("{}: it takes only a part of what it gets: {}", request.url, words) : "");
		return Outcome::taken;
	}
	say(signal, fmt::format("{}: HTTP status {}", request.url, reply->status));
	// Those that the protocol says to try again.
	return reply->status == 429 || reply->status == 502 || reply->status == 503 || reply->status == 504 ? Outcome::unreachable : Outcome::refused;
}

// Once, whatever the words; and once more when it is over.
void OtlpExporter::say(const std::string &signal, const std::string &trouble)
{
	std::string &before = trouble_[signal];

	if (before.empty() && !trouble.empty())
		spdlog::warn("otlp: {}; what is not delivered is lost, but for {} ended flows", trouble, most_flows);
	else if (!before.empty() && trouble.empty())
		spdlog::info("otlp: deliveries of {} go on", signal);
	before = trouble;
}

} // namespace swift
