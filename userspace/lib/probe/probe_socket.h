// SPDX-License-Identifier: MIT
// A UDP socket whose packets are stamped on both ways (SO_TIMESTAMPING). What
// stamps mean is probe_exchange.h's.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>

#include "fd.h"
#include "address.h"
#include "probe_exchange.h"
#include "result.h"

namespace swift {

struct ProbeAddress {
	Endpoint endpoint;
	std::uint32_t scope = 0; // interface of a link-local address

	bool operator==(const ProbeAddress &) const = default;
};

// Of HOST, HOST:PORT, ADDRESS, [ADDRESS]:PORT. Looks up no name.
Result<std::uint16_t> probe_port_of(std::string_view text, std::uint16_t default_port = probe_port);
// Looks up the name.
Result<ProbeAddress> resolve_probe(std::string_view text, std::uint16_t default_port);

struct ProbeSocketOptions {
	ProbeAddress bind; // of the socket's family; all zero: any
	std::string iface; // empty: any
	unsigned dscp = 0;
	bool shared = false; // its address with those that are shared as well
};

struct Datagram {
	std::span<const std::byte> bytes;
	ProbeAddress from;
	Address to; // of this host
	std::uint8_t traffic_class = 0;
	RxStamps rx; // ifindex is there even without stamps
	bool cut = false; // longer than any of ours
};

struct TxStamp {
	std::uint64_t id = 0;
	TxPoint point = TxPoint::sched;
	std::int64_t ns = 0;
};

// An ICMP error, or the like, about something that was sent.
struct SendFailure {
	Endpoint to;
	int code = 0; // errno
};

class ProbeSocket {
public:
	static Result<ProbeSocket> open(const ProbeSocketOptions &options);

	[[nodiscard]] int fd() const { return fd_.get(); }
	[[nodiscard]] Endpoint local() const;
	// Whether another shared socket may have the same address.
	void share(bool shared) const;
	// The id under which its stamps will come. A failure starts new ids: stamps still on
	// their way are lost.
	struct Reply {
		Address from; // the address that was asked
		std::uint8_t traffic_class = 0;
	};
	Result<std::uint64_t> send(std::span<const std::byte> bytes, const ProbeAddress &to,
				   const Reply *reply = nullptr);
	// Nothing if there is nothing. The bytes are valid until the next call.
	std::optional<Datagram> receive();
	std::optional<std::variant<TxStamp, SendFailure>> read_errors();

private:
	ProbeSocket(Fd fd, bool v6) : fd_(std::move(fd)), v6_(v6) {}
	bool start_ids();

	Fd fd_;
	bool v6_;
	std::uint32_t next_id_ = 0;
	std::uint64_t epoch_ = 0; // upper half of ids
	std::unique_ptr<std::array<std::byte, probe_max_bytes>> buffer_ =
		std::make_unique<std::array<std::byte, probe_max_bytes>>();
};

} // namespace swift
