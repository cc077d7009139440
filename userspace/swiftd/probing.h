// SPDX-License-Identifier: MIT
// [probe]: answers probes of others on one thread, so that nothing else makes them wait, and probes peers on another,
// which tells what has come of it. A peer that cannot be probed costs its own row.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "fd.h"
#include "name_lookups.h"
#include "nics.h"
#include "options.h"
#include "probe_client.h"
#include "probe_peers.h"
#include "probe_rounds.h"
#include "probe_server.h"
#include "store.h"

namespace swift {

// What [probe] has from files, and its list of peers, each once.
struct ProbeInputs {
	std::vector<ProbedPeer> peers;
	ProbeKeys keys;

	static Result<ProbeInputs> read(const Config::Probe &config);
	bool operator==(const ProbeInputs &) const = default;
};

// What is known of the peers: their newest probes, and what these say by peer and by rack. No thread, no socket.
class ProbeBook {
public:
	ProbeBook(const Config::Probe &config, const std::vector<ProbedPeer> &peers);

	void set_rack(std::string rack) { rack_ = std::move(rack); }
	void is_self(std::size_t peer); // it is not probed, nor shown
	void set_trouble(std::size_t peer, std::string trouble) { peers_[peer].row.trouble = std::move(trouble); }
	void add(std::size_t peer, const ProbeSample &sample);
	// What @before knows of peers and racks that are still there; it is of no use after that.
	void go_on_from(ProbeBook &before);
	// Peers, pairs and counters of @out.
	void tell(std::int64_t now_ns, ProbeNews &out);
	[[nodiscard]] const std::string &rack() const { return rack_; }
	[[nodiscard]] const std::string &rack_of(std::size_t peer) const { return peers_[peer].given_rack; }

private:
	struct Peer {
		ProbePeerRow row;
		std::string given_rack;
		std::size_t rack = 0;
		bool self = false;
		bool changed = true;
		PeerSamples samples;
	};
	struct Rack {
		ProbePairRow row;
		ProbeCounters counters;
		bool changed = true;
	};

	std::size_t place_of(const std::string &rack, std::size_t most);

	ProbeLimits limits_;
	std::int64_t window_ns_;
	std::string rack_;
	std::vector<Peer> peers_;
	std::vector<Rack> racks_;
	std::int64_t all_told_ns_ = 0;
};

class Probing {
public:
	using Tell = std::function<void(std::shared_ptr<const ProbeNews>)>;

	// @tell: from a thread of its own, about once a second. @ask: for the address of a peer's name.
	explicit Probing(Tell tell, NameLookups::Ask ask = [](const std::string &name) { return resolve_probe(name, probe_port); })
		: tell_(std::move(tell)), ask_(std::move(ask))
	{
	}
	Probing(const Probing &) = delete;
	Probing &operator=(const Probing &) = delete;
	~Probing();

	struct Change;

	// Nothing is started if nothing is configured.
	Result<void> start(const Config::Probe &config, ProbeInputs inputs);
	// A reload: what can fail, which changes nothing; then the rest. False: nothing that is new.
	[[nodiscard]] Result<Change> prepare(const Config::Probe &config, ProbeInputs inputs) const;
	bool apply(Change change);

	[[nodiscard]] const std::vector<std::string> &places() const { return places_; }

private:
	struct Order {
		Config::Probe config;
		ProbeInputs inputs;

		bool operator==(const Order &) const = default;
	};
	class Mesh;

	void answer();
	void probe();
	void begin();
	[[nodiscard]] bool answers() const { return server_ && !server_->sockets().empty(); }

	const Tell tell_;
	const NameLookups::Ask ask_;
	const std::unique_ptr<Nics> nics_ = real_nics();
	Fd stop_; // eventfd of the probing thread
	Fd stop_answering_;
	std::optional<ProbeServer> server_; // the answering thread's, while it runs

	std::mutex mutex_; // of what follows
	Order order_;
	std::vector<std::string> places_;
	std::uint64_t orders_ = 0;
	std::uint64_t answered_ = 0;
	RefusalCounts refused_{};

	std::thread answering_; // the last: they use all above
	std::thread probing_;
};

struct Probing::Change {
	Order order;
	std::optional<std::vector<ProbeServer::Bound>> bound; // other addresses
	std::optional<ProbeServer> server; // the first ones
};

} // namespace swift
