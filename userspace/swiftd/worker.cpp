// SPDX-License-Identifier: MIT
#include "worker.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <new>

namespace swift {

Worker::Worker(WorkerStats &stats, std::size_t most_waiting, int nice)
	: stats_(stats), most_waiting_(most_waiting), nice_(nice), thread_([this] { run(); })
{
}

SharedText Worker::find(std::uint64_t number, const std::string &key) const
{
	const std::scoped_lock lock(mutex_);
	const auto at = texts_.find(key);

	return number == newest_ && at != texts_.end() ? at->second : nullptr;
}

std::shared_ptr<Worker::Turn> Worker::ask(std::uint64_t number, const std::string &key, Make make, Waiter waiter)
{
	const std::scoped_lock lock(mutex_);

	if (stopping_)
		return nullptr;
	for (Piece &p : pieces_) {
		if (p.number != number || p.key != key)
			continue;
		p.waiters.push_back(std::move(waiter));
		return p.turn;
	}
	if (pieces_.size() >= most_waiting_) {
		stats_.refused++;
		return nullptr;
	}
	pieces_.push_back({number, key, std::move(make), std::make_shared<Turn>(), {}});
	pieces_.back().waiters.push_back(std::move(waiter));
	news_.notify_one();
	return pieces_.back().turn;
}

void Worker::stop()
{
	{
		const std::scoped_lock lock(mutex_);

		stopping_ = true;
		news_.notify_one();
	}
	if (thread_.joinable())
		thread_.join();
}

bool Worker::is_wanted(const Piece &piece) const
{
	return !stopping_ &&
	       std::any_of(piece.waiters.begin(), piece.waiters.end(), [](const Waiter &w) { return w.alive(); });
}

void Worker::keep(const Piece &piece, const SharedText &text)
{
	if (piece.number > newest_) {
		texts_.clear();
		newest_ = piece.number;
	}
	if (piece.number == newest_ && texts_.size() < most_texts)
		texts_.emplace(piece.key, text);
}

void Worker::finish(Piece &piece, SharedText text)
{
	piece.turn->text_ = std::move(text);
	piece.turn->done_.store(true, std::memory_order_release);
	for (const Waiter &w : piece.waiters)
		w.wake();
}

void Worker::run()
{
	// Of this thread alone, in Linux. If it is not allowed, it goes on as it is.
	if (nice_ > 0)
		(void)!setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), getpriority(PRIO_PROCESS, 0) + nice_);

	std::unique_lock lock(mutex_);

	for (;;) {
		news_.wait(lock, [&] { return stopping_ || !pieces_.empty(); });
		if (pieces_.empty())
			return;

		// It stays in the list, so that more can wait for it; nobody else takes it out.
		Piece &piece = pieces_.front();
		const Cancelled cancelled = [&] {
			const std::scoped_lock again(mutex_);

			return !is_wanted(piece);
		};
		std::optional<std::string> text;

		while (is_wanted(piece) && !text) {
			const Make &make = piece.make;

			stats_.made++;
			lock.unlock();
			try {
				text = make(cancelled);
			} catch (const std::bad_alloc &) { // those who wait are sent away
				lock.lock();
				break;
			}
			lock.lock();
			stats_.cancelled += !text;
		}

		SharedText shared = text ? std::make_shared<const std::string>(std::move(*text)) : nullptr;

		if (shared)
			keep(piece, shared);
		Piece done = std::move(piece);

		pieces_.pop_front();
		lock.unlock();
		finish(done, std::move(shared));
		lock.lock();
	}
}

} // namespace swift
