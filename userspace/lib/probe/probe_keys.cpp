// SPDX-License-Identifier: MIT
#include "probe_keys.h"

#include <nettle/hmac.h>
#include <nettle/memops.h>
#include <nettle/version.h>

#include <algorithm>
#include <array>

#include "text.h"

namespace swift {

namespace {

constexpr std::size_t flags_at = 7;
constexpr std::byte signed_flag{1};
constexpr std::size_t time_at = probe_min_bytes;
constexpr std::size_t signature_at = time_at + 8;

using Digest = std::array<std::uint8_t, SHA256_DIGEST_SIZE>;

static_assert(signature_at + sizeof(Digest) == probe_signed_min_bytes);

const std::uint8_t *octets(std::span<const std::byte> bytes)
{
	return reinterpret_cast<const std::uint8_t *>(bytes.data());
}

// Of all bytes, but for those of the signature itself.
Digest digest_of(const std::string &key, std::span<const std::byte> packet)
{
	const auto before = packet.first(signature_at);
	const auto behind = packet.subspan(probe_signed_min_bytes);
	hmac_sha256_ctx state{};
	Digest digest{};

	hmac_sha256_set_key(&state, key.size(), reinterpret_cast<const std::uint8_t *>(key.data()));
	hmac_sha256_update(&state, before.size(), octets(before));
	hmac_sha256_update(&state, behind.size(), octets(behind));
#if NETTLE_VERSION_MAJOR >= 4
	hmac_sha256_digest(&state, digest.data());
#else
	hmac_sha256_digest(&state, digest.size(), digest.data());
#endif
	return digest;
}

} // namespace

Result<ProbeKeys> ProbeKeys::parse(std::string_view name, std::string_view content)
{
	ProbeKeys keys;
	std::size_t number = 0;

	for (const std::string &line : split(content, '\n')) {
		const std::string_view key = trim(std::string_view(line).substr(0, line.find('#')));
		const std::string where = std::string(name) + ":" + std::to_string(++number);

		if (key.empty())
			continue;
		if (key.size() < shortest || key.size() > longest)
			return Error{where + ": a key of " + std::to_string(key.size()) + " characters", {},
				     std::to_string(shortest) + " to " + std::to_string(longest)};
		if (std::any_of(key.begin(), key.end(), [](char c) { return c <= ' ' || c > '~'; }))
			return Error{where + ": not a key", {}, "printable ASCII without blanks"};
		if (keys.keys_.size() == most)
			return Error{where + ": too many keys", {}, "at most " + std::to_string(most)};
		keys.keys_.emplace_back(key);
	}
	if (keys.empty())
		return Error{"no key in " + std::string(name)};
	return keys;
}

void ProbeKeys::sign(std::span<std::byte> packet, const ProbeSignature &by) const
{
	const auto time = static_cast<std::uint64_t>(by.time_ns);

	packet[flags_at] |= signed_flag;
	for (std::size_t i = 0; i < 8; i++)
		packet[time_at + i] = static_cast<std::byte>(time >> 8 * (7 - i));

	const Digest digest = digest_of(keys_[by.key], packet);

	std::transform(digest.begin(), digest.end(), packet.begin() + signature_at,
		       [](std::uint8_t b) { return static_cast<std::byte>(b); });
}

std::variant<ProbeSignature, SignatureDefect> ProbeKeys::check(std::span<const std::byte> packet) const
{
	if (packet.size() < probe_signed_min_bytes || (packet[flags_at] & signed_flag) == std::byte{0})
		return SignatureDefect::missing;
	for (std::size_t i = 0; i < keys_.size(); i++) {
		const Digest digest = digest_of(keys_[i], packet);
		std::uint64_t time = 0;

		// Its time tells nothing of where they differ.
		if (!memeql_sec(digest.data(), packet.data() + signature_at, digest.size()))
			continue;
		for (std::size_t at = 0; at < 8; at++)
			time = time << 8 | std::to_integer<std::uint64_t>(packet[time_at + at]);
		return ProbeSignature{i, static_cast<std::int64_t>(time)};
	}
	return SignatureDefect::wrong;
}

} // namespace swift
