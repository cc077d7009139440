// SPDX-License-Identifier: MIT
#include "bpf_clocks.h"

#include <cerrno>
#include <cstring>
#include <set>

#include "bpf_variant.h"
#include "clock_ns.h"
#include "maps.h"
#include "netns.h"

namespace swift {

namespace {

constexpr const char *clocks_map = "/swift_clocks";
constexpr const char *napis_map = "/swift_clock_napis";

template <typename T> std::optional<T> value_of(const BpfBytes &bytes)
{
	T value;

	if (bytes.size() != sizeof(value))
		return std::nullopt;
	std::memcpy(&value, bytes.data(), sizeof(value));
	return value;
}

bpf_swift_clock_key key_of(std::uint64_t netns, std::uint32_t ifindex)
{
	return {netns, ifindex, 0};
}

// Of a map: no room for another key.
bool is_full(const Error &e)
{
	return e.code == E2BIG || e.code == ENOSPC;
}

// As the module checks a line, and refuses it.
Result<swift_clock_map> prepare(const ClockLine &line, std::uint32_t valid_ms, std::int64_t now)
{
	const auto now_ns = static_cast<std::uint64_t>(now);
	const swift_clock_setting setting = {line.nic_ns, line.host_ns, line.ratio_q32, line.error_ns, valid_ms};
	swift_clock_map map{}; // its padding goes to the kernel too

	switch (swift_clock_prepare(&map, &setting, now_ns)) {
#define SWIFT_X(field, name, lo, hi, words)                                                            \
	case SWIFT_CLOCK_F_##name:                                                                     \
		return Error{"a line of a clock that BPF variants do not take: " #field,               \
			     std::to_string(setting.field), words, ERANGE};
		SWIFT_CLOCK_FIELDS(SWIFT_X)
#undef SWIFT_X
	case SWIFT_CLOCK_F_NONE:
		break;
	}
	return map;
}

} // namespace

// Those that are being loaded or swapped have it with the next line.
Result<std::vector<std::string>> BpfClocks::variants() const
{
	auto names = host_.pins(bpf_pin_dir);

	if (names)
		std::erase_if(*names, [&](const std::string &name) {
			return name.ends_with("~new") ||
			       !host_.exists(bpf_dir(name) + clocks_map);
		});
	return names;
}

// Dead lines, of devices that nobody feeds any more, and NAPIs that lead to no line, make room.
void BpfClocks::reclaim(const std::string &dir, std::int64_t now_ns)
{
	const auto clocks = host_.entries(dir + clocks_map);
	const auto napis = host_.entries(dir + napis_map);
	std::set<BpfBytes> alive;

	if (!clocks || !napis)
		return;
	for (const auto &[key, value] : *clocks) {
		const auto clock = value_of<bpf_swift_clock>(value);

		if (clock && swift_clock_left_ns(&clock->line, static_cast<std::uint64_t>(now_ns)) > 0)
			alive.insert(key);
		else
			(void)!host_.erase(dir + clocks_map, key);
	}
	for (const auto &[napi, leads_to] : *napis)
		if (!alive.contains(leads_to))
			(void)!host_.erase(dir + napis_map, napi);
}

Result<void> BpfClocks::write(const std::string &dir, const BpfBytes &key, const BpfBytes &clock,
			      std::int64_t now_ns)
{
	auto ok = host_.write(dir + clocks_map, key, clock);

	if (ok || !is_full(ok.error()))
		return ok;
	reclaim(dir, now_ns);
	ok = host_.write(dir + clocks_map, key, clock);
	if (!ok && is_full(ok.error()))
		return Error{"cannot write " + dir + clocks_map + ": " +
			     std::to_string(BPF_SWIFT_MAX_CLOCKS) + " clocks are all that fit"};
	return ok;
}

VariantsFed BpfClocks::set(std::uint32_t ifindex, const ClockLine &line, std::uint32_t valid_ms,
			   std::int64_t now_ns)
{
	const auto names = variants();
	VariantsFed fed;

	if (!names)
		fed.error = names.error();
	if (!names || names->empty())
		return fed;

	const auto map = prepare(line, valid_ms, now_ns);
	const bpf_swift_clock_key key = key_of(netns_, ifindex);

	if (!map) {
		fed.error = map.error();
		return fed;
	}
	const bpf_swift_clock clock = {*map, bpf_swift_clock_check(&key, &*map)};

	for (const std::string &name : *names) {
		const std::string dir = bpf_dir(name);

		if (auto ok = write(dir, bpf_bytes(key), bpf_bytes(clock), now_ns); ok)
			fed.variants.push_back(name);
		else if (!fed.error && host_.exists(dir)) // not unloaded meanwhile
			fed.error = ok.error();
	}
	return fed;
}

Result<void> BpfClocks::set_napis(const std::string &pin, const BpfBytes &device,
				  const std::vector<std::uint32_t> &napis)
{
	std::set<std::uint32_t> missing(napis.begin(), napis.end());
	ASSIGN_OR_RETURN(auto known, host_.entries(pin));

	for (const auto &[napi, leads_to] : known) {
		const auto id = value_of<std::uint32_t>(napi);

		if (!id || leads_to != device)
			continue;
		if (missing.erase(*id) == 0)
			RETURN_IF_ERROR(host_.erase(pin, napi));
	}
	for (const std::uint32_t id : missing)
		// Where there is no room packets are known by the device that they came by.
		if (auto ok = host_.write(pin, bpf_bytes(id), device); !ok && !is_full(ok.error()))
			return ok;
	return {};
}

Result<void> BpfClocks::set_napis(std::uint32_t ifindex, const std::vector<std::uint32_t> &napis)
{
	ASSIGN_OR_RETURN(const auto names, variants());
	Result<void> result;

	for (const std::string &name : names) {
		const std::string dir = bpf_dir(name);

		if (auto ok = set_napis(dir + napis_map, bpf_bytes(key_of(netns_, ifindex)), napis);
		    !ok && result && host_.exists(dir))
			result = ok;
	}
	return result;
}

void BpfClocks::remove(std::uint32_t ifindex)
{
	const auto names = variants();
	const BpfBytes key = bpf_bytes(key_of(netns_, ifindex));

	for (const std::string &name : names ? *names : std::vector<std::string>())
		(void)!host_.erase(bpf_dir(name) + clocks_map, key);
	(void)!set_napis(ifindex, {});
}

Result<BpfClockTable> BpfClocks::all(std::int64_t now_ns) const
{
	ASSIGN_OR_RETURN(const auto names, variants());
	BpfClockTable table;

	for (const std::string &name : names) {
		const auto entries = host_.entries(bpf_dir(name) + clocks_map);

		if (!entries && !host_.exists(bpf_dir(name))) // unloaded meanwhile
			continue;
		if (!entries)
			return entries.error();
		table.variants.push_back(name);
		for (const auto &[k, v] : *entries) {
			const auto key = value_of<bpf_swift_clock_key>(k);
			const auto clock = value_of<bpf_swift_clock>(v);

			if (!key || !clock || key->netns != netns_)
				continue;
			const std::uint64_t left_ns =
				swift_clock_left_ns(&clock->line, static_cast<std::uint64_t>(now_ns));

			BpfClock &c = table.clocks.emplace_back();

			c.variant = name;
			c.clock.ifindex = key->ifindex;
			c.clock.line = {clock->line.nic_ns, clock->line.host_ns, clock->line.ratio_q32,
					clock->line.error_ns};
			// A millisecond that has begun counts: 0 is said of stale lines alone.
			c.clock.valid_ms = static_cast<std::uint32_t>((left_ns + ns_per_ms - 1) / ns_per_ms);
		}
	}
	return table;
}

namespace {

struct OwnBpfHost {
	std::unique_ptr<BpfHost> own = real_bpf_host();
};

class RealVariantClocks final : OwnBpfHost, public BpfClocks {
public:
	explicit RealVariantClocks(std::uint64_t netns) : BpfClocks(*own, netns) {}
};

} // namespace

Result<std::unique_ptr<ClockHost>> real_clock_host()
{
	const auto netns = netns_cookie();

	return netns ? clock_host(std::make_unique<RealVariantClocks>(*netns)) : netns.error();
}

BpfClockTable bpf_clocks_now(std::int64_t now_ns)
{
	const auto host = real_bpf_host();
	const auto netns = netns_cookie();
	const auto all = netns ? BpfClocks(*host, *netns).all(now_ns) : Result<BpfClockTable>(Error{});

	return all ? *all : BpfClockTable();
}

} // namespace swift
