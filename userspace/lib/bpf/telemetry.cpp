// SPDX-License-Identifier: MIT
#include "telemetry.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <tuple>

#include "bpf_variant.h"
#include "clock_ns.h"
#include "printable.h"
#include "telemetry_maps.h"

namespace swift {

static_assert(LogHistogram::bucket_count == TELEMETRY_BUCKETS);
static_assert(LogHistogram::unit_shift == TELEMETRY_UNIT_SHIFT);
static_assert(LogHistogram::sub_bits == TELEMETRY_SUB_BITS);
static_assert(telemetered_count == TELEMETRY_VALUES);
static_assert(static_cast<int>(Telemetered::tx_host) == TELEMETRY_TX);
static_assert(static_cast<int>(Telemetered::tx_nic) == TELEMETRY_TX_NIC);
static_assert(decision_count == TELEMETRY_DECISIONS);
static_assert(static_cast<int>(Decision::decrease_both) == TCP_SWIFT_DECREASE_BOTH);

namespace {

bool is_mapped(const std::array<std::uint8_t, 16> &a)
{
	static constexpr std::array<std::uint8_t, 12> start = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

	return std::equal(start.begin(), start.end(), a.begin());
}

Address unmapped(const std::array<std::uint8_t, 16> &bytes)
{
	Address a;

	a.v6 = !is_mapped(bytes);
	if (a.v6)
		a.bytes = bytes;
	else
		std::copy(bytes.begin() + 12, bytes.end(), a.bytes.begin());
	return a;
}

std::array<std::uint8_t, 16> array_of(const std::uint8_t (&bytes)[16])
{
	return std::to_array(bytes);
}

std::optional<Prefix> prefix_of(const telemetry_prefix_key &key)
{
	if (key.prefix_len == TELEMETRY_OTHER)
		return std::nullopt;
	return unmapped_prefix(array_of(key.addr), key.prefix_len);
}

std::string cc_of(const telemetry_prefix_key &key)
{
	return printable({key.cc, strnlen(key.cc, sizeof(key.cc))});
}

// Of one CPU, or of a flow.
template <typename Counts> void add_counts(TelemetryCounts &to, const Counts &from)
{
	for (std::size_t v = 0; v < telemetered_count; v++)
		to.histograms[v].add(std::span(from.buckets[v]), from.sums[v]);
	for (std::size_t i = 0; i < decision_count; i++)
		to.decisions[i] += from.decisions[i];
	to.losses += from.losses;
}

// Most CPUs never see most prefixes. (Packets are timed where they are sent, decisions made where ACKs
// arrive.)
bool counted_nothing(const telemetry_prefix &p)
{
	const auto none = [](const auto &values) {
		return std::all_of(std::begin(values), std::end(values), [](std::uint64_t v) { return v == 0; });
	};

	return p.losses == 0 && none(p.decisions) && none(p.sums) && p.buckets[TELEMETRY_TX][0] == 0 &&
	       p.buckets[TELEMETRY_TX_NIC][0] == 0;
}

using Bytes = std::span<const std::byte>;

template <typename T> T copied(Bytes bytes, std::size_t at = 0)
{
	T out{};

	std::memcpy(&out, bytes.data() + at, sizeof(out));
	return out;
}

auto order(const TelemetryPrefix &p)
{
	// "Other" comes last.
	return std::tuple(!p.prefix, p.prefix ? p.prefix->address : Address(), p.prefix ? p.prefix->length : 0,
			  p.cc, p.netns);
}

auto order(const TelemetryFlow &f)
{
	return std::tie(f.remote, f.local, f.net, f.cc, f.first_ns);
}

template <typename T> void sort(std::vector<T> &all)
{
	std::sort(all.begin(), all.end(), [](const T &a, const T &b) { return order(a) < order(b); });
}

bool nothing_in(const TelemetryCounts &c)
{
	return c.samples() == 0 && c.losses == 0 && c.of(Telemetered::tx_host).empty() && c.of(Telemetered::tx_nic).empty();
}

// Both are sorted.
template <typename T> std::vector<T> since(const std::vector<T> &now, const std::vector<T> &earlier)
{
	std::vector<T> out;

	for (const T &each : now) {
		const auto at = std::lower_bound(earlier.begin(), earlier.end(), each, [](const T &a, const T &b) {
			return order(a) < order(b);
		});
		T d = each;

		if (at != earlier.end() && order(*at) == order(each))
			d.counts = each.counts.since(at->counts);
		if (!nothing_in(d.counts))
			out.push_back(std::move(d));
	}
	return out;
}

std::uint64_t less(std::uint64_t now, std::uint64_t earlier)
{
	return now >= earlier ? now - earlier : now;
}

Result<BpfMap> checked_map(const BpfHost &host, const std::string &name, std::size_t key_bytes,
			   std::size_t value_bytes)
{
	ASSIGN_OR_RETURN(auto map, host.map(telemetry_dir() + "/" + name));

	if (map.key_bytes != key_bytes || map.value_bytes != value_bytes)
		return Error{"the telemetry was loaded by a swiftctl of another version (map " + name +
			     "): unload it and load it again"};
	return map;
}

} // namespace

std::string telemetry_dir()
{
	return std::string(bpf_pin_dir) + "/" + telemetry_name;
}

Prefix unmapped_prefix(const std::array<std::uint8_t, 16> &address, unsigned length)
{
	if (is_mapped(address) && length >= mapped_bits)
		return {unmapped(address), length - mapped_bits};
	return {Address{true, address}, length};
}

std::string_view telemetered_name(Telemetered what)
{
	static constexpr std::array<std::string_view, telemetered_count> names = {
		"fabric_ns", "remote_ns", "local_ns", "endpoint_ns", "rtt_ns", "target_ns", "window_q16",
		"tx_host_ns", "tx_nic_ns"};

	return names[static_cast<std::size_t>(what)];
}

std::string_view decision_name(Decision d)
{
	static constexpr std::array<std::string_view, decision_count> names = {
		"untold", "hold", "increase", "decrease_fabric", "decrease_endpoint", "decrease_both"};

	return names[static_cast<std::size_t>(d)];
}

std::uint64_t TelemetryCounts::samples() const
{
	std::uint64_t sum = 0;

	for (const std::uint64_t n : decisions)
		sum += n;
	return sum;
}

TelemetryCounts &TelemetryCounts::operator+=(const TelemetryCounts &other)
{
	for (std::size_t i = 0; i < telemetered_count; i++)
		histograms[i] += other.histograms[i];
	for (std::size_t i = 0; i < decision_count; i++)
		decisions[i] += other.decisions[i];
	losses += other.losses;
	return *this;
}

TelemetryCounts TelemetryCounts::since(const TelemetryCounts &earlier) const
{
	TelemetryCounts d;

	if (samples() < earlier.samples())
		return *this;
	for (std::size_t i = 0; i < telemetered_count; i++)
		d.histograms[i] = histograms[i].since(earlier.histograms[i]);
	for (std::size_t i = 0; i < decision_count; i++)
		d.decisions[i] = less(decisions[i], earlier.decisions[i]);
	d.losses = less(losses, earlier.losses);
	return d;
}

TelemetryReading TelemetryReading::since(const TelemetryReading &earlier) const
{
	TelemetryReading d;

	static_cast<TelemetryTotals &>(d) = *this;
	d.interval_ns = time_ns - earlier.time_ns;
	d.prefixes = swift::since(prefixes, earlier.prefixes);
	d.flows = swift::since(flows, earlier.flows);
	d.samples = less(samples, earlier.samples);
	d.missed = less(missed, earlier.missed);
	d.flows_evicted = less(flows_evicted, earlier.flows_evicted);
	d.without_flow = less(without_flow, earlier.without_flow);
	d.in_other = less(in_other, earlier.in_other);
	d.without_prefix = less(without_prefix, earlier.without_prefix);
	return d;
}

Result<Telemetry> Telemetry::open(const BpfHost &host)
{
	if (!host.exists(telemetry_dir()))
		return Error{"the telemetry is not loaded: swiftctl bpf load telemetry", {}, {}, ENOENT};
	for (const auto &[name, key, value] :
	     {std::tuple("flows", sizeof(telemetry_flow_key), sizeof(telemetry_flow)),
	      std::tuple("prefixes", sizeof(telemetry_prefix_key), sizeof(telemetry_prefix)),
	      std::tuple("counters", sizeof(std::uint32_t), sizeof(std::uint64_t)),
	      std::tuple("settings", sizeof(std::uint32_t), sizeof(telemetry_settings))})
		RETURN_IF_ERROR(checked_map(host, name, key, value));
	return Telemetry(host);
}

Result<TelemetryReading> Telemetry::read_prefixes(std::optional<std::uint32_t> netns) const
{
	const std::string dir = telemetry_dir() + "/";
	const auto flow_map = host_->map(dir + "flows");
	const auto prefix_map = host_->map(dir + "prefixes");
	const auto settings = host_->read(dir + "settings", bpf_first_key());
	TelemetryReading out;
	std::array<std::uint64_t, TELEMETRY_COUNTERS> sums{};

	for (const auto *map : {&flow_map, &prefix_map})
		if (!*map)
			return map->error();
	if (!settings)
		return settings.error();
	out.time_ns = static_cast<std::uint64_t>(clock_ns(CLOCK_MONOTONIC));
	out.max_flows = flow_map->max_entries;
	out.max_prefixes = prefix_map->max_entries - telemetry_spare_prefixes;
	out.module_attached = host_->exists(dir + telemetry_module_link);
	out.tx_nic_attached = host_->exists(dir + telemetry_tx_nic_link);
	if (*settings && (*settings)->size() == sizeof(telemetry_settings))
		out.tx_one_in = copied<telemetry_settings>(**settings).tx_one_in;

	auto done = host_->visit(dir + "counters", [&](Bytes key, Bytes value) {
		for (std::size_t at = 0; at + sizeof(std::uint64_t) <= value.size(); at += sizeof(std::uint64_t))
			if (const auto i = copied<std::uint32_t>(key); i < sums.size())
				sums[i] += copied<std::uint64_t>(value, at);
	});

	out.prefixes.reserve(prefix_map->max_entries);
	if (done)
		done = host_->visit(dir + "prefixes", [&](Bytes key, Bytes value) {
			const auto k = copied<telemetry_prefix_key>(key);
			const auto prefix = prefix_of(k);

			if (prefix && netns && k.netns != *netns)
				return;
			TelemetryPrefix &p = out.prefixes.emplace_back(TelemetryPrefix{prefix, cc_of(k), {}, k.netns});

			for (std::size_t at = 0; at + sizeof(telemetry_prefix) <= value.size(); at += sizeof(telemetry_prefix))
				if (const auto of_cpu = copied<telemetry_prefix>(value, at); !counted_nothing(of_cpu))
					add_counts(p.counts, of_cpu);
			if (!p.prefix && nothing_in(p.counts))
				out.prefixes.pop_back();
		});
	if (!done)
		return done.error();
	sort(out.prefixes);
	out.samples = sums[TELEMETRY_SAMPLES];
	out.flows_made = sums[TELEMETRY_FLOWS];
	out.without_flow = sums[TELEMETRY_NO_FLOW];
	out.in_other = sums[TELEMETRY_IN_OTHER];
	out.without_prefix = sums[TELEMETRY_NO_PREFIX];
	out.missed = missed();
	return out;
}

Result<TelemetryReading> Telemetry::read(std::optional<std::uint32_t> netns, const Wanted &wanted) const
{
	ASSIGN_OR_RETURN(auto out, read_prefixes(netns));
	std::uint64_t there = 0;

	RETURN_IF_ERROR(visit_flows(
		std::nullopt,
		[&](const TelemetryFlow &f) {
			there++;
			return (!netns || f.netns == *netns) && (!wanted || wanted(f));
		},
		[&](TelemetryFlow &&f) { out.flows.push_back(std::move(f)); }));
	sort(out.flows);
	out.flows_evicted = less(out.flows_made, std::min(there, out.flows_made));
	return out;
}

Result<void> Telemetry::visit_flows(std::optional<std::uint32_t> netns, const Wanted &wanted,
				    const ShowFlow &show) const
{
	return host_->visit(telemetry_dir() + "/flows", [&](Bytes key, Bytes value) {
		const auto k = copied<telemetry_flow_key>(key);
		const auto v = copied<telemetry_flow>(value);
		TelemetryFlow f = {{unmapped(array_of(k.local)), k.local_port},
				   {unmapped(array_of(k.remote)), k.remote_port},
				   cc_of(v.prefix), prefix_of(v.prefix), k.net, v.prefix.netns, v.cookie, v.first_ns,
				   v.last_ns, v.hops, {}};

		if (v.last_ns == 0 || (netns && f.netns != *netns) || (wanted && !wanted(f))) // 0: it is just being made
			return;
		add_counts(f.counts, v);
		show(std::move(f));
	});
}

// Of programs that see decisions; the others see packets.
std::uint64_t Telemetry::missed() const
{
	const auto pins = host_->pins(telemetry_dir());
	std::uint64_t n = 0;

	for (const std::string &pin : pins ? *pins : std::vector<std::string>())
		if (pin.starts_with("prog_") && !pin.starts_with("prog_telemetry_tx"))
			if (const auto program = host_->program(telemetry_dir() + "/" + pin))
				n += program->misses;
	return n;
}

} // namespace swift
