// SPDX-License-Identifier: MIT
#include "probe_packet.h"

#include <algorithm>
#include <array>

namespace swift {

namespace {

constexpr std::uint32_t magic = 0x53775072; // "SwPr"
constexpr std::uint8_t version = 1;
constexpr std::uint32_t no_ns = 0xffffffff;

constexpr std::size_t version_at = 4;
constexpr std::size_t type_at = 5;
constexpr std::size_t count_at = 6;
constexpr std::size_t cookie_at = 8;
constexpr std::size_t target_at = 16;
constexpr std::size_t seq_at = 20;
constexpr std::size_t records_at = 24;
constexpr std::size_t record_bytes = 12;

static_assert(records_at + probe_records * record_bytes == probe_min_bytes);

std::uint64_t get(std::span<const std::byte> bytes, std::size_t at, std::size_t length)
{
	std::uint64_t v = 0;

	for (const std::byte b : bytes.subspan(at, length))
		v = v << 8 | std::to_integer<std::uint64_t>(b);
	return v;
}

std::uint32_t get32(std::span<const std::byte> bytes, std::size_t at)
{
	return static_cast<std::uint32_t>(get(bytes, at, 4));
}

void put(std::span<std::byte> bytes, std::size_t at, std::size_t length, std::uint64_t v)
{
	for (std::size_t i = 0; i < length; i++)
		bytes[at + i] = static_cast<std::byte>(v >> 8 * (length - 1 - i));
}

std::optional<std::uint32_t> get_ns(std::span<const std::byte> bytes, std::size_t at)
{
	const std::uint32_t v = get32(bytes, at);

	return v == no_ns ? std::nullopt : std::optional(v);
}

} // namespace

std::string_view defect_text(ProbeDefect d)
{
	static constexpr std::array<std::string_view, 5> names = {"too short", "not a probe", "of another version",
								  "of an unexpected type", "with too many records"};

	return names[static_cast<std::size_t>(d)];
}

std::variant<ProbePacket, ProbeDefect> parse_probe(std::span<const std::byte> bytes)
{
	if (bytes.size() < records_at)
		return ProbeDefect::too_short;
	if (get32(bytes, 0) != magic)
		return ProbeDefect::foreign;
	if (get(bytes, version_at, 1) != version)
		return ProbeDefect::version;
	// After the version: another one may be shorter.
	if (bytes.size() < probe_min_bytes)
		return ProbeDefect::too_short;

	ProbePacket p;
	const std::uint64_t type = get(bytes, type_at, 1);

	if (type != static_cast<std::uint64_t>(ProbeType::probe) &&
	    type != static_cast<std::uint64_t>(ProbeType::reply))
		return ProbeDefect::type;
	p.type = static_cast<ProbeType>(type);
	p.record_count = get(bytes, count_at, 1);
	if (p.record_count > probe_records)
		return ProbeDefect::records;
	p.cookie = get(bytes, cookie_at, 8);
	p.target = get32(bytes, target_at);
	p.seq = get32(bytes, seq_at);
	for (std::size_t i = 0; i < p.record_count; i++) {
		const std::size_t at = records_at + i * record_bytes;

		p.records[i] = {get32(bytes, at), {get_ns(bytes, at + 4), get_ns(bytes, at + 8)}};
	}
	return p;
}

void write_probe(const ProbePacket &packet, std::span<std::byte> bytes)
{
	std::fill(bytes.begin(), bytes.end(), std::byte{0});
	put(bytes, 0, 4, magic);
	put(bytes, version_at, 1, version);
	put(bytes, type_at, 1, static_cast<std::uint64_t>(packet.type));
	put(bytes, count_at, 1, packet.record_count);
	put(bytes, cookie_at, 8, packet.cookie);
	put(bytes, target_at, 4, packet.target);
	put(bytes, seq_at, 4, packet.seq);
	for (std::size_t i = 0; i < packet.record_count; i++) {
		const std::size_t at = records_at + i * record_bytes;
		const ProbeRecord &r = packet.records[i];

		put(bytes, at, 4, r.seq);
		put(bytes, at + 4, 4, r.turnaround.hw_ns.value_or(no_ns));
		put(bytes, at + 8, 4, r.turnaround.sw_ns.value_or(no_ns));
	}
}

} // namespace swift
