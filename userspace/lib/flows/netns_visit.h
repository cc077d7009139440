// SPDX-License-Identifier: MIT
// Being in other network namespaces for a while, without the program's own threads ever leaving theirs.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "netns_list.h"
#include "result.h"

namespace swift {

struct NetnsVisit {
	std::size_t entered = 0;
	std::vector<std::uint32_t> gone; // meanwhile, or their paths are others' now; by inode
	std::size_t refused = 0;
	std::optional<Error> trouble; // the first, in one line
	double cpu_s = 0; // that the thread took
};

// Calls @visit in each of @all, one after the other, on a thread that is there for nothing else and has
// ended when this returns. @ns: the namespace's descriptor, for as long as the call takes.
NetnsVisit visit_netns(const std::vector<Netns> &all, const std::function<void(const Netns &n, int ns)> &visit);

} // namespace swift
