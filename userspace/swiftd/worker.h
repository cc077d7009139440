// SPDX-License-Identifier: MIT
// Texts that take too long to make for a thread that serves others meanwhile. A worker makes one
// after the other on a thread of its own. Who asks for the same text waits for the same making,
// and what nobody waits for any more is not made.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "flow_search.h"
#include "interface.h"
#include "store.h"
#include "text_cache.h"

namespace swift {

class Worker : NonCopyable {
public:
	static constexpr std::size_t most_texts = 32; // kept, of the newest number

	// What somebody waits for.
	class Turn {
	public:
		[[nodiscard]] bool done() const { return done_.load(std::memory_order_acquire); }
		// Once it is done. nullptr: it was not made, the worker has stopped.
		[[nodiscard]] const SharedText &text() const { return text_; }

	private:
		friend Worker;
		SharedText text_;
		std::atomic<bool> done_ = false;
	};
	// nullopt: it was cancelled.
	using Make = std::function<std::optional<std::string>(const Cancelled &cancelled)>;

	// Who waits: alive() says whether he still does, wake() is called once, when his turn is done. Both
	// from the worker's thread.
	struct Waiter {
		std::function<bool()> alive;
		std::function<void()> wake;
	};

	// @nice: of its thread, above that of the process.
	Worker(WorkerStats &stats, std::size_t most_waiting, int nice);
	~Worker() { stop(); }

	// If it was made already; numbers only grow.
	[[nodiscard]] SharedText find(std::uint64_t number, const std::string &key) const;
	// nullptr: so many different texts are waited for that this one is refused, and the waiter is
	// forgotten.
	std::shared_ptr<Turn> ask(std::uint64_t number, const std::string &key, Make make, Waiter waiter);
	// All who wait are woken, with nothing; whoever asks from here on is refused.
	void stop();

private:
	struct Piece {
		std::uint64_t number = 0;
		std::string key;
		Make make;
		std::shared_ptr<Turn> turn;
		std::vector<Waiter> waiters;
	};

	void run();
	void finish(Piece &piece, SharedText text);
	[[nodiscard]] bool is_wanted(const Piece &piece) const;
	void keep(const Piece &piece, const SharedText &text);

	WorkerStats &stats_;
	const std::size_t most_waiting_;
	const int nice_;

	mutable std::mutex mutex_;
	std::condition_variable news_;
	bool stopping_ = false;
	std::list<Piece> pieces_; // the first is being made
	std::uint64_t newest_ = 0;
	std::map<std::string, SharedText> texts_; // of it
	std::thread thread_; // the last: it uses all above
};

} // namespace swift
