// SPDX-License-Identifier: MIT
#include "probe_exchange.h"

#include <algorithm>
#include <limits>

namespace swift {

namespace {

constexpr std::int64_t max_turnaround_ns = 1000000000;

std::optional<std::int64_t> between(std::int64_t from_ns, std::int64_t to_ns)
{
	if (from_ns == 0 || to_ns == 0)
		return std::nullopt;
	return to_ns - from_ns;
}

void add(Samples &s, const std::optional<std::int64_t> &v)
{
	if (v)
		s.add(*v);
}

Stamp majority(const std::array<Samples, 2> &by)
{
	if (by[0].count() + by[1].count() == 0)
		return Stamp::none;
	return by[1].count() >= by[0].count() ? Stamp::hardware : Stamp::software;
}

} // namespace

void TxStamps::set(TxPoint point, std::int64_t ns)
{
	switch (point) {
	case TxPoint::sched:
		sched_ns = ns;
		break;
	case TxPoint::driver:
		driver_ns = ns;
		break;
	case TxPoint::wire:
		wire_ns = ns;
		break;
	}
}

bool Exchange::complete() const
{
	return replied && remote.known() && tx.driver_ns != 0 && (tx.wire_ns != 0 || rx.wire_ns == 0);
}

std::optional<std::uint32_t> turnaround_ns(std::int64_t t2_ns, std::int64_t t3_ns)
{
	const auto d = between(t2_ns, t3_ns);

	if (!d || *d < 0 || *d > max_turnaround_ns)
		return std::nullopt;
	return static_cast<std::uint32_t>(*d);
}

Measured measure(const Exchange &e, const NicToHost &to_host)
{
	Measured m;
	const auto host = [&](std::int64_t nic_ns) {
		const auto at = nic_ns && to_host ? to_host(e.rx.ifindex, nic_ns) : std::nullopt;

		return at.value_or(0);
	};
	const std::int64_t left_ns = host(e.tx.wire_ns);
	const std::int64_t came_ns = host(e.rx.wire_ns);
	std::optional<std::int64_t> outside; // t4 - t1

	if (e.tx.wire_ns && e.rx.wire_ns) {
		m.local = Stamp::hardware;
		outside = e.rx.wire_ns - e.tx.wire_ns;
	} else if (e.tx.driver_ns && e.rx.stack_ns) {
		m.local = Stamp::software;
		outside = e.rx.stack_ns - e.tx.driver_ns;
	}
	if (e.remote.known()) {
		m.remote = e.remote.hw_ns ? Stamp::hardware : Stamp::software;
		m.turnaround_ns = e.remote.hw_ns ? *e.remote.hw_ns : *e.remote.sw_ns;
	}

	m.tx_stack_ns = between(e.tx.app_ns, e.tx.sched_ns);
	m.tx_qdisc_ns = between(e.tx.sched_ns, e.tx.driver_ns);
	m.tx_nic_ns = between(e.tx.driver_ns, left_ns);
	m.tx_ns = between(e.tx.app_ns, left_ns ? left_ns : e.tx.driver_ns);
	m.rx_nic_ns = between(came_ns, e.rx.stack_ns);
	m.rx_stack_ns = between(e.rx.stack_ns, e.rx.app_ns);
	m.rx_ns = between(came_ns ? came_ns : e.rx.stack_ns, e.rx.app_ns);
	// Backwards: somebody set the clock.
	for (auto *part : {&m.tx_stack_ns, &m.tx_qdisc_ns, &m.tx_ns, &m.rx_stack_ns, &m.rx_ns})
		if (*part && **part < 0) {
			m.implausible = true;
			part->reset();
		}
	if (outside && m.turnaround_ns) {
		if (*outside >= *m.turnaround_ns)
			m.fabric_ns = *outside - *m.turnaround_ns;
		else
			m.implausible = true;
	}
	return m;
}

void Samples::add(std::int64_t v_ns)
{
	using Kept = std::numeric_limits<std::int32_t>;
	const auto kept = static_cast<std::int32_t>(
		std::clamp<std::int64_t>(v_ns, Kept::min(), Kept::max()));

	min_ns_ = count_ ? std::min<std::int64_t>(min_ns_, kept) : kept;
	max_ns_ = count_ ? std::max<std::int64_t>(max_ns_, kept) : kept;
	if (newest_.size() < cap)
		newest_.push_back(kept);
	else
		newest_[count_ % cap] = kept;
	count_++;
}

std::vector<std::int64_t> Samples::quantiles_ns(std::span<const unsigned> permille) const
{
	std::vector<std::int32_t> sorted = newest_;
	std::vector<std::int64_t> out;

	std::sort(sorted.begin(), sorted.end());
	for (const unsigned p : permille) {
		const std::size_t rank = (sorted.size() * p + 999) / 1000;

		out.push_back(sorted.empty() ? 0 : sorted[std::max<std::size_t>(rank, 1) - 1]);
	}
	return out;
}

void ProbeStats::add(const Exchange &e, const Measured &m)
{
	if (!e.counts)
		return;
	sent++;
	// How a probe leaves is known of lost ones as well.
	swift::add(tx_stack, m.tx_stack_ns);
	swift::add(tx_qdisc, m.tx_qdisc_ns);
	swift::add(tx_nic, m.tx_nic_ns);
	swift::add(tx[!!m.tx_nic_ns], m.tx_ns);
	if (!e.replied) {
		lost++;
		return;
	}
	swift::add(rx_nic, m.rx_nic_ns);
	swift::add(rx_stack, m.rx_stack_ns);
	swift::add(rx[!!m.rx_nic_ns], m.rx_ns);
	if (m.implausible)
		implausible++;
	else if (!m.fabric_ns)
		unstamped++;
	if (!m.fabric_ns)
		return;
	for (StampClass &c : classes)
		if (c.local == m.local && c.remote == m.remote) {
			c.fabric.add(*m.fabric_ns);
			c.turnaround.add(*m.turnaround_ns);
		}
}

const StampClass *ProbeStats::best() const
{
	const auto most = std::max_element(
		classes.begin(), classes.end(), [](const StampClass &a, const StampClass &b) {
			return a.fabric.count() < b.fabric.count();
		});

	return most->fabric.count() ? &*most : nullptr;
}

Stamp ProbeStats::tx_stamp() const
{
	return majority(tx);
}

Stamp ProbeStats::rx_stamp() const
{
	return majority(rx);
}

std::uint32_t ProbeTrack::sent(std::int64_t now_ns, std::int64_t app_ns, bool counts)
{
	Exchange &e = open_.emplace_back();

	e.seq = next_seq_++;
	e.sent_ns = now_ns;
	e.tx.app_ns = app_ns;
	e.counts = counts;
	return e.seq;
}

void ProbeTrack::unsent()
{
	open_.pop_back();
	next_seq_--;
}

Exchange *ProbeTrack::find(std::uint32_t seq)
{
	if (open_.empty())
		return nullptr;

	const std::uint32_t index = seq - open_.front().seq;

	return index < open_.size() ? &open_[index] : nullptr;
}

void ProbeTrack::tx_stamp(std::uint32_t seq, TxPoint point, std::int64_t ns)
{
	Exchange *e = find(seq);

	// The host's clock cannot have stamped it before it was sent: another packet's.
	if (e && (point == TxPoint::wire || ns >= e->tx.app_ns))
		e->tx.set(point, ns);
}

ReplyKind ProbeTrack::reply(const ProbePacket &reply, const RxStamps &rx)
{
	for (std::size_t i = 0; i < reply.record_count; i++) {
		Exchange *earlier = find(reply.records[i].seq);
		const Turnaround &told = reply.records[i].turnaround;

		if (!earlier)
			continue;
		if (told.hw_ns)
			earlier->remote.hw_ns = told.hw_ns;
		if (told.sw_ns)
			earlier->remote.sw_ns = told.sw_ns;
	}

	Exchange *e = find(reply.seq);

	if (!e) {
		// Half of the numbers lie behind us, half ahead.
		return static_cast<std::int32_t>(reply.seq - next_seq_) < 0 ? ReplyKind::late :
									      ReplyKind::unknown;
	}
	if (e->replied)
		return ReplyKind::duplicate;
	if (e->settled)
		return ReplyKind::late;
	e->replied = true;
	e->rx = rx;
	return ReplyKind::fresh;
}

// Settled ones stay as long as any, so that a second reply is known for one.
void ProbeTrack::forget(std::int64_t now_ns)
{
	while (!open_.empty() && open_.front().settled &&
	       now_ns - open_.front().sent_ns >= timeout_ns_ + grace_ns_)
		open_.pop_front();
}

void ProbeTrack::settle(std::int64_t now_ns, const std::function<void(const Exchange &)> &sink)
{
	for (Exchange &e : open_) {
		const std::int64_t age_ns = now_ns - e.sent_ns;

		if (e.settled)
			continue;
		if (e.complete() || age_ns >= timeout_ns_ + grace_ns_ ||
		    (!e.replied && age_ns >= timeout_ns_)) {
			e.settled = true;
			sink(e);
		}
	}
	forget(now_ns);
}

std::size_t ProbeTrack::finish(std::int64_t now_ns, const std::function<void(const Exchange &)> &sink)
{
	std::size_t in_flight = 0;

	settle(now_ns, sink);
	for (Exchange &e : open_) {
		if (e.settled)
			continue;
		if (e.replied)
			sink(e);
		else
			in_flight += e.counts;
	}
	open_.clear();
	return in_flight;
}

bool ProbeTrack::idle() const
{
	return std::none_of(open_.begin(), open_.end(),
			    [](const Exchange &e) { return e.counts && !e.settled; });
}

} // namespace swift
