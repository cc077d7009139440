// SPDX-License-Identifier: MIT
// `swiftctl probe --respond`: answers probes, and says what it did not answer.
#include <fmt/format.h>
#include <sys/random.h>

#include <cerrno>
#include <map>
#include <optional>

#include "clock_ns.h"
#include "probe.h"
#include "probe_loop.h"
#include "probe_nic.h"
#include "probe_responder.h"
#include "say.h"

namespace swift {

namespace {

constexpr std::int64_t rate_pps = 100000;
constexpr std::int64_t burst_pkts = 10000;

struct SentReply {
	ProbePeer peer;
	std::uint32_t seq = 0;
};

// What was refused, and why; a line a second at most.
class Refusals {
public:
	void add(std::string_view why, const Endpoint &from)
	{
		counts_[std::string(why)]++;
		from_ = from;
		total_++;
	}
	void report(std::int64_t now_ns)
	{
		if (counts_.empty() || now_ns - last_ns_ < ns_per_s)
			return;

		std::vector<std::string> parts;

		for (const auto &[why, count] : counts_)
			parts.push_back(fmt::format("{} {}", count, why));
		note(probe_verb, fmt::format("refused: {} (the newest from {})", fmt::join(parts, ", "), from_.text()));
		counts_.clear();
		last_ns_ = now_ns;
	}
	[[nodiscard]] std::uint64_t total() const { return total_; }
	[[nodiscard]] bool pending() const { return !counts_.empty(); }

private:
	std::map<std::string, std::uint64_t> counts_;
	Endpoint from_;
	std::uint64_t total_ = 0;
	std::int64_t last_ns_ = 0;
};

class Responder {
public:
	Responder(std::vector<ProbeSocket> sockets, std::uint64_t salt)
		: sockets_(std::move(sockets)), sent_(sockets_.size()), memory_(salt)
	{
	}

	void run(const StopFd &stop)
	{
		while (!stop.take()) {
			// Something refused is told of within a second, traffic or not.
			wait_readable(sockets_, stop,
				      clock_ns(CLOCK_MONOTONIC) + (refusals_.pending() ? ns_per_s : 3600 * ns_per_s));
			for (std::size_t i = 0; i < sockets_.size(); i++)
				serve(sockets_[i], sent_[i]);
			refusals_.report(clock_ns(CLOCK_MONOTONIC));
		}
	}
	[[nodiscard]] std::string summary() const
	{
		return fmt::format("answered {} probes, refused {}\n", answered_, refusals_.total());
	}

private:
	void take_stamps(ProbeSocket &s, const SentPackets<SentReply> &sent)
	{
		while (const auto event = s.read_errors())
			if (const auto *stamp = std::get_if<TxStamp>(&*event))
				if (const SentReply *r = sent.find(stamp->id))
					memory_.tx_stamp(r->peer, r->seq, stamp->point, stamp->ns);
	}

	void serve(ProbeSocket &s, SentPackets<SentReply> &sent)
	{
		// Stamps first, each time: the next probe asks for them.
		for (int n = 0; n < 64; n++) {
			take_stamps(s, sent);
			const auto d = s.receive();

			if (!d)
				return;
			if (const std::string_view why = answer(s, sent, *d); !why.empty())
				refusals_.add(why, d->from.endpoint);
		}
	}

	// Why not, if so.
	std::string_view answer(ProbeSocket &s, SentPackets<SentReply> &sent, const Datagram &d)
	{
		if (d.cut)
			return "too long";

		const auto parsed = parse_probe(d.bytes);

		if (const auto *defect = std::get_if<ProbeDefect>(&parsed))
			return defect_text(*defect);

		const auto &probe = std::get<ProbePacket>(parsed);

		if (probe.type != ProbeType::probe)
			return defect_text(ProbeDefect::type);
		if (!limit_.take(clock_ns(CLOCK_MONOTONIC)))
			return "above 100000 a second";

		const ProbePeer peer = {d.from.endpoint, probe.cookie, probe.target};
		const ProbeSocket::Reply how = {d.to, d.traffic_class};

		// As long as the probe: nobody gets more than he sends.
		reply_.resize(d.bytes.size());
		write_probe(memory_.answer(peer, probe, d.rx), reply_);

		const auto id = s.send(reply_, d.from, &how);

		if (!id)
			return "that could not be answered";
		sent.add(*id, {peer, probe.seq});
		answered_++;
		return {};
	}

	std::vector<ProbeSocket> sockets_;
	std::vector<SentPackets<SentReply>> sent_;
	ProbeMemory memory_;
	RateLimit limit_{rate_pps, burst_pkts};
	Refusals refusals_;
	std::vector<std::byte> reply_;
	std::uint64_t answered_ = 0;
};

} // namespace

int run_responder(const ProbePlan &plan)
{
	std::vector<ProbeSocket> sockets;
	std::vector<std::string> places;
	const auto nics = real_nics();
	std::optional<BorrowedStamping> stamping;
	std::uint64_t salt = 0;

	for (const ProbeAddress &at : plan.bind) {
		auto socket = ProbeSocket::open({at, plan.iface, 0});

		// Asked for everything, a host without IPv6 (or IPv4) has less of it.
		if (!socket && plan.bind.size() > 1 &&
		    (socket.error().code == EAFNOSUPPORT || socket.error().code == EADDRNOTAVAIL))
			continue;
		if (!socket)
			return fail(probe_verb, socket.error().text());
		places.push_back(socket->local().text());
		sockets.push_back(std::move(*socket));
	}
	if (sockets.empty())
		return fail(probe_verb, "this host has neither IPv4 nor IPv6");
	if (getrandom(&salt, sizeof(salt), 0) != sizeof(salt))
		return fail(probe_verb, errno_error("no random number", errno).text());

	const StopFd stop;

	if (plan.stamp) {
		auto on = BorrowedStamping::take(*nics, plan.iface);

		if (!on)
			return fail(probe_verb, on.error().text());
		stamping.emplace(std::move(*on));
	}

	Responder responder(std::move(sockets), salt);

	if (!print(fmt::format("responding on {}\n", fmt::join(places, " and "))))
		return exit_failed;
	responder.run(stop);
	return print(responder.summary()) ? exit_ok : exit_failed;
}

} // namespace swift
