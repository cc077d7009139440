// SPDX-License-Identifier: MIT
// A socket of libmnl's that is closed with its owner.
#pragma once

#include <libmnl/libmnl.h>

#include <memory>

namespace swift {

struct CloseMnlSocket {
	void operator()(mnl_socket *s) const { mnl_socket_close(s); }
};
using MnlSocket = std::unique_ptr<mnl_socket, CloseMnlSocket>;

} // namespace swift
