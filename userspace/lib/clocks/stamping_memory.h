// SPDX-License-Identifier: MIT
// What NICs' stamping was before the clock feeder changed it: a file in /run, so that a
// feeder that was killed is put right by the next one or by `swiftctl clock restore`. One
// per network namespace, held by one process at a time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "stamping.h"
#include "system.h"

namespace swift {

struct RememberedStamping {
	std::string iface;
	std::uint32_t ifindex = 0;
	Stamping before;
	Stamping written;
};

class StampingMemory {
public:
	// @netns: its cookie, which no namespace after it has.
	StampingMemory(System &system, const std::string &netns);

	// Until the object goes; an Error names who holds it.
	Result<void> hold();
	void release() { lock_.reset(); }
	[[nodiscard]] bool exists() const { return system_.exists(path_); }

	Result<std::vector<RememberedStamping>> load() const; // nothing remembered: empty
	Result<void> save(const std::vector<RememberedStamping> &all);

private:
	System &system_;
	std::string path_;
	std::string lock_path_;
	std::shared_ptr<void> lock_;
};

enum class PutBack { done, already, left, gone };

// Puts one NIC's stamping back, unless somebody else has changed it meanwhile (left).
Result<PutBack> put_back(System &system, const RememberedStamping &remembered);

} // namespace swift
