// SPDX-License-Identifier: MIT
// The rest of the mesh: what swiftds in other racks say of theirs (probe.mesh), asked for now and then on a thread of its
// own. One that does not answer costs its own rows, and is said once.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "http_client.h"
#include "options.h"
#include "store.h"

namespace swift {

// The pairs that an answer of /api/v1/probes has, told by @by. What comes from another host is not trusted: an Error if it
// is not as it should be.
Result<std::vector<ProbePairRow>> parse_probe_pairs(const std::string &by, const std::string &answer);

class MeshReader {
public:
	using Tell = std::function<void(std::vector<ProbePairRow>)>;
	static constexpr std::int64_t every_s = 15;
	static constexpr std::int64_t good_for_s = 60; // what was told, while there is nothing newer

	struct Inputs {
		HttpPost post; // by whom requests are made
		std::string authorization; // a header, or empty
	};
	// Reads the token. An Error if it cannot, or if there is no libcurl; nothing, if nobody is to be asked.
	static Result<Inputs> read(const Config::Probe &config);
	MeshReader(const Config::Probe &config, HttpPost post, std::string authorization, Tell tell);
	// Whether one with these would do the same.
	[[nodiscard]] bool does(const Config::Probe &config, const Inputs &inputs) const;
	MeshReader(const MeshReader &) = delete;
	MeshReader &operator=(const MeshReader &) = delete;
	~MeshReader();

private:
	struct Told {
		std::int64_t at_ns = 0;
		std::vector<ProbePairRow> pairs;
	};

	void run();
	void ask(const std::string &url);

	const Config::Probe config_;
	const HttpPost post_;
	const std::string authorization_;
	const Tell tell_;

	// The thread's own.
	std::map<std::string, Told> told_; // by URL
	std::map<std::string, std::string> trouble_;

	std::mutex mutex_;
	std::condition_variable end_;
	std::atomic<bool> stopping_ = false;
	std::thread thread_; // the last: it uses all above
};

} // namespace swift
