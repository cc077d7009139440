// SPDX-License-Identifier: MIT
// What getaddrinfo() found, freed with its owner.
#pragma once

#include <netdb.h>

#include <memory>

namespace swift {

struct FreeAddresses {
	void operator()(addrinfo *list) const { freeaddrinfo(list); }
};
using AddressList = std::unique_ptr<addrinfo, FreeAddresses>;

} // namespace swift
