// SPDX-License-Identifier: MIT
// A device's NAPIs, from the kernel's generic netlink family "netdev" (6.8).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace swift {

// Asks the kernel for a device's NAPIs. It looks them up under its lock of all network
// configuration, which others may hold for long.
class NapiIds {
public:
	// None before Linux 6.8, which does not tell.
	std::optional<std::vector<std::uint32_t>> of(std::uint32_t ifindex);

private:
	// This kernel has no such family. It is no module, and so it stays that way, but the
	// kernel would look for a module each time.
	bool untold_ = false;
};

} // namespace swift
