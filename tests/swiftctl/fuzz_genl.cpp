// SPDX-License-Identifier: MIT
// libFuzzer: any bytes through the parsers of generic and route netlink.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "clock_client.h"
#include "credit_book.h"
#include "genl.h"
#include "route.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
	const auto bytes = std::as_bytes(std::span(data, size));
	std::vector<swift::NicClock> clocks;
	std::vector<swift::Link> links;
	std::optional<std::uint16_t> family;
	// The first message's own type, so that the fuzzer need not guess it.
	const auto type = size > 5 ? static_cast<std::uint16_t>(data[4] | data[5] << 8) : std::uint16_t{16};

	const auto status = swift::parse_nic_clocks(bytes, type, clocks);

	// A clock takes two headers, an interface and a rate.
	if (clocks.size() > size / 40 || status.error < 0 || status.message.size() > 200)
		std::abort();
	for (const swift::NicClock &c : clocks)
		if (c.ifindex == 0 || c.line.ratio_q32 == 0 || c.line.drift_ppm() <= -1e6)
			std::abort();
	swift::CreditBook book;

	swift::parse_credit_book(bytes, type, book);
	// A link takes two headers, an interface and a rate; a flow two addresses.
	if (book.links.size() > size / 36 || book.flows.size() > size / 60)
		std::abort();
	for (const swift::CreditLink &l : book.links)
		if (l.ifindex == 0)
			std::abort();
	for (const swift::CreditFlow &f : book.flows)
		if (f.standing > swift::Standing::unknown || f.local.text().empty())
			std::abort();
	swift::parse_family(bytes, family);
	if (family && *family < 16)
		std::abort();
	swift::parse_links(bytes, links);
	for (const swift::Link &l : links)
		if (l.ifindex == 0 || l.name.empty() || l.name.size() > 15)
			std::abort();
	return 0;
}
