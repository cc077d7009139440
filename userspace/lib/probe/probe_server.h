// SPDX-License-Identifier: MIT
// A responder's sockets: takes what comes, answers what the gate lets pass, gathers the stamps of its replies.
// Who waits for the sockets is not here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
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
	void set_limits(const GateLimits &limits) { gate_.set_limits(limits); }

	// Other addresses, while it runs: first they are opened, which may fail and changes nothing, also while another
	// thread is in serve(); then they are taken, and what is not among them is closed.
	struct Bound {
		ProbeAddress asked;
		std::optional<std::size_t> kept; // of sockets()
		std::optional<ProbeSocket> opened;
	};
	[[nodiscard]] Result<std::vector<Bound>> open_for(const std::vector<ProbeAddress> &bind) const; // none will do
	void take(std::vector<Bound> bound);

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

	std::vector<ProbeAddress> asked_; // of each socket
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
