// SPDX-License-Identifier: MIT
// A prober's sockets and its targets: sends when it is told to, takes replies and stamps as they come, hands over
// each exchange once its fate is known. When to send, and who waits for the sockets, is not here.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "probe_gate.h"
#include "probe_nic.h"
#include "probe_socket.h"

namespace swift {

struct ProbeClientOptions {
	std::size_t size_bytes = probe_min_bytes; // at least what the keys need
	std::string iface; // empty: any
	unsigned dscp = 0;
	std::int64_t timeout_ns = 1'000'000'000;
	std::int64_t grace_ns = 0; // so long after that a turnaround may still come
};

// Who probes. Targets go by the numbers that add() gave.
class Prober {
public:
	Prober() = default;
	Prober(const Prober &) = delete;
	Prober &operator=(const Prober &) = delete;
	virtual ~Prober() = default;

	virtual void replied(std::size_t target, ReplyKind kind, unsigned ifindex) = 0; // fresh, duplicate, late
	virtual void failed(std::size_t target, int code) = 0; // an ICMP error, or the like
	virtual void settled(std::size_t target, const Exchange &exchange, const Measured &measured) = 0;
};

// Of an errno that a target got: what to do about it, where that is known.
[[nodiscard]] std::string probe_failure_text(int code);

class ProbeClient {
public:
	// @nics: who has the lines of the NICs' clocks; it has to live as long.
	static Result<ProbeClient> open(const ProbeClientOptions &options, ProbeKeys keys, Nics &nics);

	Result<std::size_t> add(const ProbeAddress &address);
	[[nodiscard]] std::size_t targets() const { return targets_.size(); }
	[[nodiscard]] const std::vector<ProbeSocket> &sockets() const { return sockets_; }
	// An Error has its errno. @counts: false merely fetches the last turnarounds.
	Result<void> send(std::size_t target, bool counts = true);
	void take(Prober &prober);
	void settle(Prober &prober, std::int64_t now_ns);
	// No more is waited for. How many of @target's are neither answered nor lost.
	std::size_t finish(Prober &prober, std::size_t target, std::int64_t now_ns);
	[[nodiscard]] bool idle(std::size_t target) const { return targets_[target].track.idle(); }
	[[nodiscard]] bool answered(std::size_t target) const { return targets_[target].answered; } // ever
	// Packets that answer no probe of this run, and replies that were not believed.
	[[nodiscard]] std::uint64_t strangers() const { return strangers_; }
	[[nodiscard]] const RefusalCounts &refused() const { return refused_; }

private:
	struct SentProbe {
		std::uint32_t target = 0;
		std::uint32_t seq = 0;
	};
	struct Target {
		ProbeAddress address;
		ProbeTrack track;
		std::size_t socket = 0;
		bool answered = false;
	};

	ProbeClient(const ProbeClientOptions &options, ProbeKeys keys, Nics &nics, std::uint64_t cookie)
		: options_(options), keys_(std::move(keys)), nics_(&nics), cookie_(cookie), packet_(options.size_bytes)
	{
	}
	Result<std::size_t> socket_for(bool v6);
	void take(Prober &prober, std::size_t socket);
	void take_reply(Prober &prober, const Datagram &d);
	void hand_over(Prober &prober, std::size_t target, const Exchange &e);
	void refresh_lines();

	ProbeClientOptions options_;
	ProbeKeys keys_;
	Nics *nics_;
	std::uint64_t cookie_;
	std::vector<ProbeSocket> sockets_;
	std::vector<SentPackets<SentProbe>> sent_; // of each socket
	std::optional<std::size_t> v4_socket_;
	std::optional<std::size_t> v6_socket_;
	std::vector<Target> targets_;
	std::map<Endpoint, std::size_t> by_endpoint_;
	std::vector<std::byte> packet_;
	NicLines lines_;
	std::int64_t next_lines_ns_ = 0;
	std::uint64_t strangers_ = 0;
	RefusalCounts refused_{};
};

} // namespace swift
