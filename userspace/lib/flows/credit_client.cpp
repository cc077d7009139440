// SPDX-License-Identifier: MIT
// What is asked of the module. What its answers mean is credit_parse.cpp's.
#include <linux/netlink.h>

#include <algorithm>
#include <tuple>

#include "credit_book.h"
#include "uapi/tcp_swift.h"

namespace swift {

Result<CreditClient> CreditClient::open()
{
	ASSIGN_OR_RETURN(auto genl, open_module_genl());

	return CreditClient(std::move(genl));
}

Result<CreditBook> CreditClient::book()
{
	CreditBook book;
	const auto status = genl_.ask(TCP_SWIFT_CMD_CREDIT_GET, NLM_F_DUMP, [](NetlinkRequest &) {}, [&] { book = {}; },
				      [&](Bytes b, std::uint16_t family, std::uint32_t sequence) {
					      return parse_credit_book(b, family, book, sequence);
				      });

	RETURN_IF_ERROR(module_answered(status));
	book.interrupted = status->interrupted;

	// Where the module's table was resized meanwhile it has told some flows twice.
	const auto key = [](const CreditFlow &f) { return std::tie(f.remote, f.local, f.cookie); };

	std::sort(book.flows.begin(), book.flows.end(),
		  [&](const CreditFlow &a, const CreditFlow &b) { return key(a) < key(b); });
	book.flows.erase(std::unique(book.flows.begin(), book.flows.end(),
				     [&](const CreditFlow &a, const CreditFlow &b) { return key(a) == key(b); }),
			 book.flows.end());
	return book;
}

Result<std::vector<CreditLink>> credit_links(GenlClient genl)
{
	CreditBook book;
	const auto status = genl.ask(TCP_SWIFT_CMD_CREDIT_GET, NLM_F_DUMP, [](NetlinkRequest &) {}, [&] { book = {}; },
				     [&](Bytes b, std::uint16_t family, std::uint32_t sequence) {
					     NetlinkStatus part = parse_credit_book(b, family, book, sequence);

					     // What else comes, and whether it is whole, is of flows.
					     if (!book.flows.empty()) {
						     part.done = true;
						     part.interrupted = false;
					     }
					     return part;
				     });

	if (auto answered = module_answered(status); !answered)
		return answered.error();
	return std::move(book.links);
}

} // namespace swift
