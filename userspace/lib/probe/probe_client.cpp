// SPDX-License-Identifier: MIT
#include "probe_client.h"

#include <sys/random.h>

#include <cerrno>
#include <cstring>

#include "clock_ns.h"

namespace swift {

namespace {

constexpr std::int64_t lines_every_ns = 500000000;
constexpr int most_at_once = 64; // no more replies than let the next probe leave in time

} // namespace

std::string probe_failure_text(int code)
{
	if (code == ECONNREFUSED)
		return "nobody listens there: start `swiftctl probe --respond` on that host";
	return std::strerror(code);
}

Result<ProbeClient> ProbeClient::open(const ProbeClientOptions &options, ProbeKeys keys, Nics &nics)
{
	std::uint64_t cookie = 0;

	if (getrandom(&cookie, sizeof(cookie), 0) != sizeof(cookie))
		return errno_error("no random number", errno);
	return ProbeClient(options, std::move(keys), nics, cookie);
}

Result<std::size_t> ProbeClient::socket_for(bool v6)
{
	auto &index = v6 ? v6_socket_ : v4_socket_;

	if (!index) {
		ProbeAddress any;

		any.endpoint.address.v6 = v6;
		auto socket = ProbeSocket::open({any, options_.iface, options_.dscp});

		if (!socket)
			return socket.error();
		index = sockets_.size();
		sockets_.push_back(std::move(*socket));
		sent_.emplace_back();
	}
	return *index;
}

Result<std::size_t> ProbeClient::add(const ProbeAddress &address)
{
	auto socket = socket_for(address.endpoint.address.v6);

	if (!socket)
		return socket.error();
	by_endpoint_.emplace(address.endpoint, targets_.size());
	targets_.push_back({address, ProbeTrack(options_.timeout_ns, options_.grace_ns), *socket, false});
	return targets_.size() - 1;
}

Result<void> ProbeClient::send(std::size_t target, bool counts)
{
	Target &t = targets_[target];
	ProbePacket probe;
	const std::int64_t now_ns = clock_ns(CLOCK_REALTIME);

	probe.cookie = cookie_;
	probe.target = static_cast<std::uint32_t>(target);
	probe.seq = t.track.sent(clock_ns(CLOCK_MONOTONIC), now_ns, counts);
	write_probe(probe, packet_);
	if (!keys_.empty())
		keys_.sign(packet_, {0, now_ns});

	const auto id = sockets_[t.socket].send(packet_, t.address);

	if (!id) {
		t.track.unsent();
		return id.error();
	}
	sent_[t.socket].add(*id, {probe.target, probe.seq});
	return {};
}

void ProbeClient::take(Prober &prober)
{
	for (std::size_t i = 0; i < sockets_.size(); i++)
		take(prober, i);
}

void ProbeClient::take(Prober &prober, std::size_t socket)
{
	while (const auto event = sockets_[socket].read_errors()) {
		if (const auto *stamp = std::get_if<TxStamp>(&*event)) {
			if (const SentProbe *p = sent_[socket].find(stamp->id))
				targets_[p->target].track.tx_stamp(p->seq, stamp->point, stamp->ns);
		} else if (const auto *failure = std::get_if<SendFailure>(&*event)) {
			const auto known = by_endpoint_.find(failure->to);

			if (known != by_endpoint_.end())
				prober.failed(known->second, failure->code);
		}
	}
	for (int n = 0; n < most_at_once; n++) {
		const auto d = sockets_[socket].receive();

		if (!d)
			return;
		take_reply(prober, *d);
	}
}

void ProbeClient::take_reply(Prober &prober, const Datagram &d)
{
	const auto parsed = parse_probe(d.bytes);
	const auto *reply = std::get_if<ProbePacket>(&parsed);

	if (d.cut || !reply || reply->type != ProbeType::reply || reply->cookie != cookie_ ||
	    reply->target >= targets_.size() || targets_[reply->target].address.endpoint != d.from.endpoint) {
		strangers_++;
		return;
	}
	if (!keys_.empty())
		if (const auto checked = keys_.check(d.bytes); const auto *defect = std::get_if<SignatureDefect>(&checked)) {
			refused_[static_cast<std::size_t>(refusal_of(*defect))]++;
			return;
		}

	Target &t = targets_[reply->target];
	const ReplyKind kind = t.track.reply(*reply, d.rx);

	if (kind == ReplyKind::unknown) {
		strangers_++;
		return;
	}
	t.answered |= kind == ReplyKind::fresh;
	prober.replied(reply->target, kind, d.rx.ifindex);
}

void ProbeClient::refresh_lines()
{
	const std::int64_t now_ns = clock_ns(CLOCK_MONOTONIC);

	if (now_ns < next_lines_ns_)
		return;
	const auto clocks = nics_->nic_clocks();

	// Without the module there are none.
	lines_.update(clocks ? *clocks : std::vector<NicClock>(), clock_ns(CLOCK_REALTIME) - clock_ns(CLOCK_MONOTONIC));
	next_lines_ns_ = now_ns + lines_every_ns;
}

void ProbeClient::hand_over(Prober &prober, std::size_t target, const Exchange &e)
{
	if (e.rx.wire_ns || e.tx.wire_ns)
		refresh_lines();
	prober.settled(target, e, measure(e, [this](unsigned ifindex, std::int64_t nic_ns) {
			       return lines_.to_host(ifindex, nic_ns);
		       }));
}

void ProbeClient::settle(Prober &prober, std::int64_t now_ns)
{
	for (std::size_t i = 0; i < targets_.size(); i++)
		targets_[i].track.settle(now_ns, [&](const Exchange &e) { hand_over(prober, i, e); });
}

std::size_t ProbeClient::finish(Prober &prober, std::size_t target, std::int64_t now_ns)
{
	return targets_[target].track.finish(now_ns, [&](const Exchange &e) { hand_over(prober, target, e); });
}

} // namespace swift
