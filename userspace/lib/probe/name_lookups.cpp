// SPDX-License-Identifier: MIT
#include "name_lookups.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <iterator>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace swift {

struct NameLookups::Shared {
	std::mutex mutex;
	std::condition_variable changed;
	std::deque<std::pair<std::size_t, std::string>> questions;
	std::vector<Answer> answers;
	bool ended = false;
};

NameLookups::~NameLookups()
{
	if (!shared_)
		return;
	const std::scoped_lock lock(shared_->mutex);

	shared_->ended = true;
	shared_->changed.notify_one();
}

void NameLookups::work(const std::shared_ptr<Shared> &shared, const Ask &ask)
{
	std::unique_lock lock(shared->mutex);

	for (;;) {
		shared->changed.wait(lock, [&] { return shared->ended || !shared->questions.empty(); });
		if (shared->ended)
			return;
		const auto [id, name] = std::move(shared->questions.front());

		shared->questions.pop_front();
		lock.unlock();

		auto address = ask(name);

		lock.lock();
		shared->answers.push_back({id, std::move(address)});
	}
}

void NameLookups::ask(std::size_t id, const std::string &name, std::int64_t now_ns)
{
	Question &q = questions_[id];

	if (q.under_way || now_ns < q.due_ns)
		return;
	q.under_way = true;
	if (!shared_) {
		shared_ = std::make_shared<Shared>();
		try {
			std::thread([shared = shared_, ask = ask_] { work(shared, ask); }).detach();
		} catch (const std::system_error &e) {
			shared_.reset(); // the next question tries again
			not_asked_.push_back({id, Error{"cannot look up '" + name + "': no thread: " + e.what()}});
			return;
		}
	}
	const std::scoped_lock lock(shared_->mutex);

	shared_->questions.emplace_back(id, name);
	shared_->changed.notify_one();
}

std::vector<NameLookups::Answer> NameLookups::take(std::int64_t now_ns)
{
	std::vector<Answer> answers = std::exchange(not_asked_, {});

	if (shared_) {
		const std::scoped_lock lock(shared_->mutex);

		std::move(shared_->answers.begin(), shared_->answers.end(), std::back_inserter(answers));
		shared_->answers.clear();
	}
	for (const Answer &a : answers) {
		Question &q = questions_[a.id];

		q.under_way = false;
		q.wait_ns = a.address ? 0 : std::clamp(q.wait_ns * 2, least_wait_ns, most_wait_ns);
		q.due_ns = now_ns + q.wait_ns;
	}
	return answers;
}

} // namespace swift
