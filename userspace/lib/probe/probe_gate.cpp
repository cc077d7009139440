// SPDX-License-Identifier: MIT
#include "probe_gate.h"

#include <algorithm>
#include <numeric>

namespace swift {

namespace {

// Replies to a second of probes at once, but no fewer than a handful.
constexpr std::int64_t least_burst_pkts = 16;

std::int64_t burst_of(std::int64_t rate_pps)
{
	return std::max(rate_pps / 10, least_burst_pkts);
}

// All that a host of IPv6 can call itself is one source.
Address source_of(const Address &a)
{
	return a.v6 ? Prefix::around(a, 64).address : a;
}

} // namespace

Refusal refusal_of(ProbeDefect d)
{
	switch (d) {
	case ProbeDefect::too_short:
		return Refusal::too_short;
	case ProbeDefect::foreign:
		return Refusal::foreign;
	case ProbeDefect::version:
		return Refusal::version;
	case ProbeDefect::type:
		return Refusal::type;
	case ProbeDefect::records:
		break;
	}
	return Refusal::records;
}

Refusal refusal_of(SignatureDefect d)
{
	return d == SignatureDefect::missing ? Refusal::not_signed : Refusal::wrong_signature;
}

std::string_view refusal_text(Refusal r)
{
	static constexpr std::array<std::string_view, refusals> texts = {
		"too short",	    "not a probe",		 "of another version",	"of an unexpected type",
		"with too many records", "too long",		 "not signed",		"signed by another key",
		"seen before",	    "of another time",		 "from too many probers", "too many of a source",
		"too many",	    "that could not be answered"};

	return texts[static_cast<std::size_t>(r)];
}

std::string_view refusal_name(Refusal r)
{
	static constexpr std::array<std::string_view, refusals> names = {
		"malformed", "malformed", "malformed", "malformed", "malformed", "malformed",	"unsigned",
		"signature", "replay",	  "time",      "crowded",   "source_rate", "rate", "not_sent"};

	return names[static_cast<std::size_t>(r)];
}

std::uint64_t sum_of(const RefusalCounts &counts)
{
	return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
}

// A replay may come from any address: the prober's run and its number for us say whose it is.
std::optional<Refusal> ReplayGuard::check(const ProbePacket &probe, std::int64_t signed_ns, std::int64_t now_ns)
{
	// Set back to before we began: what was signed by that clock is refused, what is signed from now on is not.
	start_ns_ = std::min(start_ns_, now_ns);
	if (signed_ns < start_ns_ || signed_ns < now_ns - window_ns || signed_ns > now_ns + window_ns)
		return Refusal::out_of_time;

	const std::uint64_t key = probe.cookie ^ (salt_ + probe.target) * 0x9e3779b97f4a7c15;
	const auto known = runs_.find(key);

	if (known == runs_.end()) {
		// What was answered longer ago than this is refused by its time.
		while (!by_use_.empty() && by_use_.back().used_ns < now_ns - 2 * window_ns) {
			runs_.erase(by_use_.back().key);
			by_use_.pop_back();
		}
		if (by_use_.size() == most)
			return Refusal::crowded;
		by_use_.push_front({key, now_ns, probe.seq, 1});
		runs_[key] = by_use_.begin();
		return std::nullopt;
	}

	Run &run = *known->second;
	const auto ahead = static_cast<std::int32_t>(probe.seq - run.newest);

	if (ahead > 0) {
		run.seen = ahead < static_cast<std::int32_t>(bits) ? run.seen << ahead | 1 : 1;
		run.newest = probe.seq;
	} else {
		const std::uint32_t behind = run.newest - probe.seq;

		if (behind >= bits || run.seen >> behind & 1)
			return Refusal::replayed;
		run.seen |= std::uint64_t{1} << behind;
	}
	run.used_ns = now_ns;
	by_use_.splice(by_use_.begin(), by_use_, known->second);
	return std::nullopt;
}

std::size_t SourceLimit::Hash::operator()(const Address &a) const
{
	std::uint64_t h = salt ^ (a.v6 ? 1 : 0);

	for (const std::uint8_t b : a.bytes) {
		h = (h ^ b) * 0x100000001b3;
		h ^= h >> 29;
	}
	return static_cast<std::size_t>(h ^ h >> 32);
}

bool SourceLimit::take(const Address &from, std::int64_t now_ns)
{
	if (rate_pps_ == 0)
		return true;

	const Address source = source_of(from);

	if (const auto known = sources_.find(source); known != sources_.end()) {
		by_use_.splice(by_use_.begin(), by_use_, known->second);
		return by_use_.front().limit.take(now_ns);
	}
	if (by_use_.size() == most) {
		sources_.erase(by_use_.back().address);
		by_use_.pop_back();
	}
	by_use_.push_front({source, RateLimit(rate_pps_, burst_of(rate_pps_))});
	sources_[source] = by_use_.begin();
	return by_use_.front().limit.take(now_ns);
}

ProbeGate::ProbeGate(ProbeKeys keys, const GateLimits &limits, std::uint64_t salt, std::int64_t start_ns)
	: keys_(std::move(keys)), salt_(salt), replays_(start_ns, salt), sources_(limits.source_pps, salt),
	  limit_(limits.rate_pps, burst_of(limits.rate_pps))
{
}

void ProbeGate::set_limits(const GateLimits &limits)
{
	sources_ = SourceLimit(limits.source_pps, salt_);
	limit_ = RateLimit(limits.rate_pps, burst_of(limits.rate_pps));
}

// What costs most last, but for the rates: what nobody here has signed takes nothing from who may ask.
std::variant<ProbeGate::Passed, Refusal> ProbeGate::check(const Packet &packet, std::int64_t mono_ns, std::int64_t real_ns)
{
	if (packet.cut)
		return Refusal::too_long;

	const auto parsed = parse_probe(packet.bytes);

	if (const auto *defect = std::get_if<ProbeDefect>(&parsed))
		return refusal_of(*defect);

	Passed passed{std::get<ProbePacket>(parsed), {}};

	if (passed.probe.type != ProbeType::probe)
		return Refusal::type;
	if (!keys_.empty()) {
		const auto checked = keys_.check(packet.bytes);

		if (const auto *defect = std::get_if<SignatureDefect>(&checked))
			return refusal_of(*defect);
		passed.signature = std::get<ProbeSignature>(checked);
		if (const auto why = replays_.check(passed.probe, passed.signature.time_ns, real_ns))
			return *why;
	}
	if (!sources_.take(packet.from, mono_ns))
		return Refusal::source_rate;
	if (!limit_.take(mono_ns))
		return Refusal::rate;
	return passed;
}

} // namespace swift
