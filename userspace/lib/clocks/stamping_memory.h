// SPDX-License-Identifier: MIT
// What NICs' stamping was before the clock feeder changed it: a file, so that a
// feeder that was killed is put right by the next one of its kind or by `swiftctl clock restore`. One
// per network namespace and kind of feeder, tool or service; held by one process at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "files.h"
#include "nics.h"
#include "stamping.h"

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
	StampingMemory(Files &files, const std::string &netns, Keeper keeper);

	// Until the object goes; an Error names who holds it.
	Result<void> hold();
	void release() { lock_.reset(); }
	[[nodiscard]] bool exists() const { return files_.exists(path_); }

	// Nothing remembered, or before this boot: empty.
	Result<std::vector<RememberedStamping>> load() const;
	Result<void> save(const std::vector<RememberedStamping> &all);

private:
	Files &files_;
	std::string path_;
	std::string lock_path_;
	std::shared_ptr<void> lock_;
};

enum class PutBack { done, already, left, gone };

// Puts one NIC's stamping back, unless somebody else has changed it meanwhile (left).
Result<PutBack> put_back(Nics &nics, const RememberedStamping &remembered);

} // namespace swift
