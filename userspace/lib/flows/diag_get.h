// SPDX-License-Identifier: MIT
// Single flows from the kernel, by their addresses. Where there are few it is much cheaper than a list of all:
// for that the kernel goes through the table of all network namespaces, whatever is in this one.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "diag.h"
#include "fd.h"
#include "flow.h"
#include "result.h"

namespace swift {

struct FlowId {
	Endpoint local;
	Endpoint remote;
	std::uint64_t cookie = 0;
};

class DiagGetter {
public:
	// In the network namespace that it is opened in.
	static Result<DiagGetter> open();
	// Shows @visit those that are still there; true: all are. Without what BPF stores with a socket.
	Result<bool> get(std::span<const FlowId> flows, const FlowVisitor &visit, DiagStatus &status);

private:
	explicit DiagGetter(Fd socket) : socket_(std::move(socket)), buffer_(16384) {}
	Result<bool> get_some(std::span<const FlowId> flows, const FlowVisitor &visit, DiagStatus &status);

	Fd socket_;
	std::vector<std::byte> buffer_;
};

// CurrEstab of the thread's network namespace: established connections. nullopt: it is not told.
[[nodiscard]] std::optional<std::uint64_t> established_here();
// The same out of /proc/net/snmp.
[[nodiscard]] std::optional<std::uint64_t> parse_established(std::string_view snmp);

} // namespace swift
