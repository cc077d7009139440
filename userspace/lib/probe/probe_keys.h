// SPDX-License-Identifier: MIT
// Who may probe whom: packets that carry a time and an HMAC-SHA256 of all their bytes, by a key that
// both ends have. Pure: any bytes may come in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "probe_packet.h"
#include "result.h"

namespace swift {

inline constexpr std::size_t probe_signed_min_bytes = probe_min_bytes + 40; // time and signature

enum class SignatureDefect : std::uint8_t { missing, wrong };

// What a packet's signature says.
struct ProbeSignature {
	std::size_t key = 0; // which of the keys
	std::int64_t time_ns = 0; // CLOCK_REALTIME of the prober when it sent the probe
};

class ProbeKeys {
public:
	static constexpr std::size_t most = 4; // one that goes, one that comes, and some to spare
	static constexpr std::size_t shortest = 16; // characters
	static constexpr std::size_t longest = 256;

	ProbeKeys() = default; // none: nothing is signed, and nothing checked
	// One a line of a file, # begins a comment: the first signs, all of them are taken. @name is for errors,
	// which tell nothing of a key.
	static Result<ProbeKeys> parse(std::string_view name, std::string_view content);

	[[nodiscard]] bool empty() const { return keys_.empty(); }
	[[nodiscard]] std::size_t least_bytes() const { return empty() ? probe_min_bytes : probe_signed_min_bytes; }
	// @packet: as write_probe() wrote it, of at least probe_signed_min_bytes.
	void sign(std::span<std::byte> packet, const ProbeSignature &by) const;
	[[nodiscard]] std::variant<ProbeSignature, SignatureDefect> check(std::span<const std::byte> packet) const;

	bool operator==(const ProbeKeys &) const = default;

private:
	std::vector<std::string> keys_;
};

} // namespace swift
