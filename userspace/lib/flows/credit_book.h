// SPDX-License-Identifier: MIT
// What this host lends those that send to it (Documentation/credit.md): its links and its flows, as they
// stand in the module's books. A parser that is a pure function of bytes, and the client that asks.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "address.h"
#include "module_genl.h"
#include "netlink_bytes.h"
#include "result.h"

namespace swift {

// enum tcp_swift_standing: what keeps a flow from more credit.
enum class Standing : std::uint8_t { idle, served, link, sender, network, late, buffer, silent, no_rate, unknown };
inline constexpr std::size_t standings = 10;

// A device, and the link below it, which all that stands on it shares, in every network namespace.
struct CreditLink {
	std::uint32_t ifindex = 0;
	std::uint32_t mbps = 0; // 0: not known, nothing is lent
	std::uint32_t bdp_bytes = 0; // 0: nothing has come yet
	std::uint32_t most_bytes = 0; // B
	std::uint32_t unasked_bytes = 0;
	std::uint32_t lent_bytes = 0;
	std::uint32_t rtt_ns = 0;
	std::uint32_t loop_ns = 0;
};

struct CreditFlow {
	std::uint32_t ifindex = 0; // 0: nothing has come yet
	Endpoint local;
	Endpoint remote; // the sender
	std::uint64_t cookie = 0;
	Standing standing = Standing::idle;
	std::uint32_t wanted_bytes = 0; // and not granted
	std::uint32_t lent_bytes = 0; // granted, and not come
	// Of all flows of the link from that sender: what they were lent, and may be; the buckets by which.
	std::uint32_t sender_lent_bytes = 0;
	std::uint32_t sender_most_bytes = 0;
	std::uint32_t sender_host_bytes = 0;
	std::uint32_t sender_net_bytes = 0;
};

struct CreditBook {
	std::vector<CreditLink> links;
	std::vector<CreditFlow> flows; // none twice
	bool interrupted = false; // flows came or went meanwhile: one may be missing
};

// Appends what is in @bytes; messages of another family or, unless 0, another sequence number are passed
// over. Never fails: what cannot be read is counted.
NetlinkStatus parse_credit_book(Bytes bytes, std::uint16_t family, CreditBook &book, std::uint32_t sequence = 0);

class CreditClient {
public:
	static Result<CreditClient> open();
	explicit CreditClient(GenlClient genl) : genl_(std::move(genl)) {}

	// Of this network namespace. Errors carry the kernel's errno; error_no_module without the module.
	Result<CreditBook> book();

private:
	GenlClient genl_;
};

// The links alone: the dump begins with them, and is read no further, however many flows there are. @genl is of no use for
// anything else afterwards. Errors are as book()'s.
Result<std::vector<CreditLink>> credit_links(GenlClient genl);

[[nodiscard]] std::string_view standing_text(Standing s); // idle, served, link, ..., no_rate, unknown
[[nodiscard]] bool waits(Standing s); // its sender has told of more than it was lent

} // namespace swift
