// SPDX-License-Identifier: MIT
// What has been written out of the newest snapshot, so that many clients who ask for the same
// cost as much as one. Any thread may use it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace swift {

using SharedText = std::shared_ptr<const std::string>;

class TextCache {
public:
	static constexpr std::size_t most_texts = 32; // of a snapshot; more are not kept

	// What @make returned for @key when it was first asked for with this @number; numbers only
	// grow. Who asks meanwhile waits for it.
	template <typename Make> SharedText get(std::uint64_t number, const std::string &key, Make make)
	{
		const std::scoped_lock lock(mutex_);

		if (number > number_) {
			texts_.clear();
			number_ = number;
		}
		if (const auto at = texts_.find(key); number == number_ && at != texts_.end())
			return at->second;

		auto text = std::make_shared<const std::string>(make());

		made_++;
		if (number == number_ && texts_.size() < most_texts)
			texts_.emplace(key, text);
		return text;
	}
	[[nodiscard]] std::uint64_t made() const
	{
		const std::scoped_lock lock(mutex_);

		return made_;
	}

private:
	mutable std::mutex mutex_;
	std::uint64_t number_ = 0;
	std::uint64_t made_ = 0;
	std::map<std::string, SharedText> texts_;
};

} // namespace swift
