// SPDX-License-Identifier: MIT
// A responder's sockets: takes what comes, answers what the gate lets pass, gathers the stamps of its replies.
// Who waits for the sockets is not here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "probe_gate.h"
#include "probe_socket.h"

namespace swift {

struct ProbeServerOptions {
	std::vector<ProbeAddress> bind;
	std::string iface; // empty: any
	GateLimits limits;
};

// IPv4 and IPv6, all addresses of this host.
[[nodiscard]] std::vector<ProbeAddress> any_address(std::uint16_t port);

class ProbeServer {
public:
	// Of several addresses those count that this host has a family for; none at all is an Error.
	static Result<ProbeServer> open(const ProbeServerOptions &options, ProbeKeys keys);

	[[nodiscard]] const std::vector<ProbeSocket> &sockets() const { return sockets_; }
	[[nodiscard]] const std::vector<std::string> &places() const { return places_; } // it listens there
	void serve();
	void set_keys(ProbeKeys keys) { gate_.set_keys(std::move(keys)); }

	[[nodiscard]] std::uint64_t answered() const { return answered_; }
	[[nodiscard]] const RefusalCounts &refused() const { return refused_; }
	[[nodiscard]] const Endpoint &newest_refused() const { return newest_refused_; }

private:
	struct SentReply {
		ProbePeer peer;
		std::uint32_t seq = 0;
	};

	ProbeServer(std::vector<ProbeSocket> sockets, std::vector<std::string> places, ProbeGate gate, std::uint64_t salt);
	void serve(ProbeSocket &s, SentPackets<SentReply> &sent);
	void take_stamps(ProbeSocket &s, const SentPackets<SentReply> &sent);
	std::optional<Refusal> answer(ProbeSocket &s, SentPackets<SentReply> &sent, const Datagram &d);

	std::vector<ProbeSocket> sockets_;
	std::vector<std::string> places_;
	std::vector<SentPackets<SentReply>> sent_;
	ProbeGate gate_;
	ProbeMemory memory_;
	std::vector<std::byte> reply_;
	std::uint64_t answered_ = 0;
	RefusalCounts refused_{};
	Endpoint newest_refused_;
};

} // namespace swift
