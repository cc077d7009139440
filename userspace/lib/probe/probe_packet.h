// SPDX-License-Identifier: MIT
// The packet of probes, to and from bytes. Pure: any bytes may come in.
// Documentation/probe.md draws it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <variant>

namespace swift {

inline constexpr std::uint16_t probe_port = 21335; // 0x5357, "SW"
inline constexpr std::size_t probe_min_bytes = 72; // header and all records
inline constexpr std::size_t probe_max_bytes = 8972; // UDP payload of a jumbo frame
inline constexpr std::size_t probe_records = 4;

enum class ProbeType : std::uint8_t { probe = 1, reply = 2 };

// How long a reply was in the responder's host: t3 - t2, by the NIC's clock and by the host's.
struct Turnaround {
	std::optional<std::uint32_t> hw_ns;
	std::optional<std::uint32_t> sw_ns;

	[[nodiscard]] bool known() const { return hw_ns || sw_ns; }
	bool operator==(const Turnaround &) const = default;
};

// Of an earlier exchange: when a reply is written, its own t3 is not yet known.
struct ProbeRecord {
	std::uint32_t seq = 0;
	Turnaround turnaround;

	bool operator==(const ProbeRecord &) const = default;
};

struct ProbePacket {
	ProbeType type = ProbeType::probe;
	std::uint64_t cookie = 0; // of the prober's run
	std::uint32_t target = 0; // the prober's own number for this responder
	std::uint32_t seq = 0;
	std::size_t record_count = 0;
	std::array<ProbeRecord, probe_records> records{};

	bool operator==(const ProbePacket &) const = default;
};

enum class ProbeDefect : std::uint8_t { too_short, foreign, version, type, records };

[[nodiscard]] std::string_view defect_text(ProbeDefect d);

[[nodiscard]] std::variant<ProbePacket, ProbeDefect> parse_probe(std::span<const std::byte> bytes);
// Into at least probe_min_bytes; what is behind them becomes zero.
void write_probe(const ProbePacket &packet, std::span<std::byte> bytes);

} // namespace swift
