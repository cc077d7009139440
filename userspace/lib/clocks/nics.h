// SPDX-License-Identifier: MIT
// NICs of the host, as far as stamps are concerned: what a driver can and does, and the clocks
// that the module knows of. An interface, so that tests put made-up NICs in their place. It
// decides nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "clock_client.h"
#include "interface.h"
#include "result.h"
#include "stamping.h"

namespace swift {

struct Coalescing {
	std::uint32_t rx_usecs = 0;
	bool adaptive_rx = false;
};

class Nics : public Interface {
public:
	virtual Result<Coalescing> coalescing(const std::string &dev) = 0;
	virtual Result<NicTimestamps> timestamps(const std::string &dev) = 0;
	// What the driver has made of @wanted, which may be more.
	virtual Result<Stamping> set_stamping(const std::string &dev, const Stamping &wanted) = 0;
	// The lines of all NIC clocks that the module has.
	virtual Result<std::vector<NicClock>> nic_clocks() = 0;
};

// Those of the live host; of another root (tests, images) they are an Error.
std::unique_ptr<Nics> real_nics(const std::string &root = {});

} // namespace swift
