// SPDX-License-Identifier: MIT
#include "probe_server.h"

#include <sys/random.h>

#include <cerrno>

#include "clock_ns.h"

namespace swift {

std::vector<ProbeAddress> any_address(std::uint16_t port)
{
	Address v6;

	v6.v6 = true;
	return {{{Address{}, port}, 0}, {{v6, port}, 0}};
}

Result<ProbeServer> ProbeServer::open(const ProbeServerOptions &options, ProbeKeys keys)
{
	std::vector<ProbeAddress> asked;
	std::vector<ProbeSocket> sockets;
	std::vector<std::string> places;
	std::uint64_t salt = 0;

	for (const ProbeAddress &at : options.bind) {
		auto socket = ProbeSocket::open({at, options.iface, 0});

		// Asked for everything, a host without IPv6 (or IPv4) has less of it.
		if (!socket && options.bind.size() > 1 &&
		    (socket.error().code == EAFNOSUPPORT || socket.error().code == EADDRNOTAVAIL))
			continue;
		if (!socket)
			return socket.error();
		asked.push_back(at);
		places.push_back(socket->local().text());
		sockets.push_back(std::move(*socket));
	}
	if (sockets.empty())
		return Error{"this host has neither IPv4 nor IPv6"};
	if (getrandom(&salt, sizeof(salt), 0) != sizeof(salt))
		return errno_error("no random number", errno);
	ProbeServer server(std::move(sockets), std::move(places),
			   ProbeGate(std::move(keys), options.limits, salt, clock_ns(CLOCK_REALTIME)), salt);

	server.asked_ = std::move(asked);
	return server;
}

ProbeServer::ProbeServer(std::vector<ProbeSocket> sockets, std::vector<std::string> places, ProbeGate gate, std::uint64_t salt)
	: sockets_(std::move(sockets)), places_(std::move(places)), sent_(sockets_.size()), gate_(std::move(gate)), memory_(salt)
{
}

Result<std::vector<ProbeServer::Bound>> ProbeServer::open_for(const std::vector<ProbeAddress> &bind) const
{
	std::vector<bool> kept(sockets_.size());
	std::vector<Bound> out;

	for (const ProbeAddress &at : bind) {
		out.push_back({at, {}, {}});
		for (std::size_t i = 0; i < kept.size() && !out.back().kept; i++)
			if (!kept[i] && asked_[i] == at) {
				kept[i] = true;
				out.back().kept = i;
			}
	}
	// What comes may overlap with what goes, as an address does with all of them.
	const auto share_what_goes = [&](bool shared) {
		for (std::size_t i = 0; i < kept.size(); i++)
			if (!kept[i])
				sockets_[i].share(shared);
	};

	for (Bound &b : out) {
		if (b.kept)
			continue;
		auto socket = ProbeSocket::open({b.asked, {}, 0});

		if (!socket && socket.error().code == EADDRINUSE) {
			share_what_goes(true);
			socket = ProbeSocket::open({b.asked, {}, 0, true});
			share_what_goes(false);
			if (socket)
				socket->share(false);
		}
		// As at the start.
		if (!socket && bind.size() > 1 && (socket.error().code == EAFNOSUPPORT || socket.error().code == EADDRNOTAVAIL))
			continue;
		if (!socket)
			return socket.error();
		b.opened = std::move(*socket);
	}
	std::erase_if(out, [](const Bound &b) { return !b.kept && !b.opened; });
	if (out.empty() && !bind.empty())
		return Error{"this host has neither IPv4 nor IPv6"};
	return out;
}

void ProbeServer::take(std::vector<Bound> bound)
{
	std::vector<ProbeSocket> sockets;
	std::vector<SentPackets<SentReply>> sent(bound.size());

	asked_.clear();
	places_.clear();
	for (Bound &b : bound) {
		if (b.kept)
			sent[sockets.size()] = std::move(sent_[*b.kept]);
		sockets.push_back(b.kept ? std::move(sockets_[*b.kept]) : std::move(*b.opened));
		places_.push_back(sockets.back().local().text());
		asked_.push_back(b.asked);
	}
	sockets_ = std::move(sockets);
	sent_ = std::move(sent);
}

void ProbeServer::take_stamps(ProbeSocket &s, const SentPackets<SentReply> &sent)
{
	while (const auto event = s.read_errors())
		if (const auto *stamp = std::get_if<TxStamp>(&*event))
			if (const SentReply *r = sent.find(stamp->id))
				memory_.tx_stamp(r->peer, r->seq, stamp->point, stamp->ns);
}

void ProbeServer::serve()
{
	for (std::size_t i = 0; i < sockets_.size(); i++)
		serve(sockets_[i], sent_[i]);
}

void ProbeServer::serve(ProbeSocket &s, SentPackets<SentReply> &sent)
{
	// Stamps first, each time: the next probe asks for them.
	for (int n = 0; n < 64; n++) {
		take_stamps(s, sent);
		const auto d = s.receive();

		if (!d)
			return;
		if (const auto why = answer(s, sent, *d)) {
			refused_[static_cast<std::size_t>(*why)]++;
			newest_refused_ = d->from.endpoint;
		}
	}
}

std::optional<Refusal> ProbeServer::answer(ProbeSocket &s, SentPackets<SentReply> &sent, const Datagram &d)
{
	const auto checked = gate_.check({d.bytes, d.cut, d.from.endpoint.address}, clock_ns(CLOCK_MONOTONIC), d.rx.app_ns);

	if (const auto *why = std::get_if<Refusal>(&checked))
		return *why;

	const auto &[probe, signature] = std::get<ProbeGate::Passed>(checked);
	const ProbePeer peer = {d.from.endpoint, probe.cookie, probe.target};
	const ProbeSocket::Reply how = {d.to, d.traffic_class};

	// As long as the probe: nobody gets more than he sends.
	reply_.resize(d.bytes.size());
	write_probe(memory_.answer(peer, probe, d.rx), reply_);
	if (!gate_.keys().empty())
		gate_.keys().sign(reply_, signature);

	const auto id = s.send(reply_, d.from, &how);

	if (!id)
		return Refusal::not_sent;
	sent.add(*id, {peer, probe.seq});
	answered_++;
	return std::nullopt;
}

} // namespace swift
