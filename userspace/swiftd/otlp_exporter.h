// SPDX-License-Identifier: MIT
// Delivers snapshots to an OpenTelemetry collector, on a thread of its own: who makes them never
// waits. A collector that is down costs its samples, and a bounded number of log records that
// are kept for it; both are said once.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "http_client.h"
#include "interface.h"
#include "options.h"
#include "otlp.h"
#include "store.h"

namespace swift {

class OtlpExporter : NonCopyable {
public:
	static constexpr std::size_t most_snapshots = 8; // that wait for the thread
	static constexpr std::size_t most_flows = 10000; // log records that wait for the collector
	static constexpr std::size_t batch = 1000; // of them in a request

	// The header of otlp.token_file; empty without one.
	static Result<std::string> read_authorization(const Config::Otlp &config);
	// Reads the token. An Error if it cannot, or if there is no libcurl.
	static Result<std::unique_ptr<OtlpExporter>> start(const Config::Otlp &config, HostFacts facts, HttpStats &stats);
	// @post: by whom requests are made. @authorization: a header, or empty.
	OtlpExporter(const Config::Otlp &config, HostFacts facts, HttpStats &stats, HttpPost post, std::string authorization);
	// What waits is lost: the service leaves at once.
	~OtlpExporter();

	void offer(std::shared_ptr<const Snapshot> snapshot);

private:
	enum class Outcome { taken, refused, unreachable }; // refused: it is of no use to send that again

	void run();
	void note_ended(const Snapshot &snapshot);
	void deliver(const Snapshot &snapshot);
	Outcome send(const std::string &signal, std::string body);
	void say(const std::string &signal, const std::string &trouble); // empty: there is none any more

	Config::Otlp config_;
	HostFacts facts_;
	HttpStats &stats_;
	HttpPost post_;
	std::string authorization_;
	OtlpStarts starts_;

	// The thread's own.
	std::shared_ptr<const FlowSet> before_;
	std::deque<GoneFlow> flows_;
	std::int64_t due_ns_ = 0;
	std::map<std::string, std::string> trouble_; // by signal

	std::mutex mutex_;
	std::condition_variable news_;
	std::atomic<bool> stopping_ = false;
	std::deque<std::shared_ptr<const Snapshot>> snapshots_;
	std::thread thread_; // the last: it uses all above
};

} // namespace swift
