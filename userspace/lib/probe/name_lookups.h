// SPDX-License-Identifier: MIT
// Asks for the addresses of names without making the caller wait: a name server that does not answer takes the time of
// many probes, and nothing can end such a question early.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "probe_socket.h"
#include "result.h"

namespace swift {

class NameLookups {
public:
	using Ask = std::function<Result<ProbeAddress>(const std::string &name)>;
	struct Answer {
		std::size_t id = 0;
		Result<ProbeAddress> address;
	};

	// After an answer that was none the next question waits for twice as long each time.
	static constexpr std::int64_t least_wait_ns = 5'000'000'000;
	static constexpr std::int64_t most_wait_ns = 300'000'000'000;

	// @ask: on a thread that may outlive this: what it needs it holds.
	explicit NameLookups(Ask ask) : ask_(std::move(ask)) {}
	NameLookups(const NameLookups &) = delete;
	NameLookups &operator=(const NameLookups &) = delete;
	~NameLookups(); // waits for nobody

	// @name is @id's. Nothing, if that is asked for already, or has to wait.
	void ask(std::size_t id, const std::string &name, std::int64_t now_ns);
	// What has come since.
	std::vector<Answer> take(std::int64_t now_ns);

private:
	struct Shared;
	struct Question {
		bool under_way = false;
		std::int64_t wait_ns = 0;
		std::int64_t due_ns = 0;
	};

	static void work(const std::shared_ptr<Shared> &shared, const Ask &ask);

	Ask ask_;
	std::shared_ptr<Shared> shared_; // with the thread
	std::vector<Answer> not_asked_; // for want of a thread
	std::unordered_map<std::size_t, Question> questions_;
};

} // namespace swift
