// SPDX-License-Identifier: MIT
#include "gzip.h"

#include <zlib.h>

#include <memory>

#include "text.h"

namespace swift {

namespace {

constexpr int level = 4; // the last tenth of size costs more CPU than all before
constexpr int window_bits = 15 + 16; // + 16: gzip's header, not zlib's
constexpr int memory_level = 8;

} // namespace

bool accepts_gzip(std::string_view accept_encoding)
{
	for (const std::string &item : split(accept_encoding, ',')) {
		const std::vector<std::string> parts = split(item, ';');

		if (trim(parts[0]) != "gzip")
			continue;
		const std::string_view weight = parts.size() > 1 ? trim(parts[1]) : "q=1";
		const auto q = parse_decimal("q", weight.starts_with("q=") ? weight.substr(2) : weight, 0, 1);

		return q && *q > 0;
	}
	return false;
}

std::optional<std::string> gzip(std::string_view text)
{
	z_stream z{};

	if (deflateInit2(&z, level, Z_DEFLATED, window_bits, memory_level, Z_DEFAULT_STRATEGY) != Z_OK)
		return std::nullopt;
	const std::unique_ptr<z_stream, int (*)(z_stream *)> end(&z, [](z_stream *s) { return deflateEnd(s); });
	std::string out(deflateBound(&z, text.size()), '\0');

	z.next_in = reinterpret_cast<Bytef *>(const_cast<char *>(text.data()));
	z.avail_in = static_cast<uInt>(text.size());
	z.next_out = reinterpret_cast<Bytef *>(out.data());
	z.avail_out = static_cast<uInt>(out.size());
	if (deflate(&z, Z_FINISH) != Z_STREAM_END)
		return std::nullopt;
	out.resize(z.total_out);
	return out;
}

} // namespace swift
