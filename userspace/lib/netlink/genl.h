// SPDX-License-Identifier: MIT
// Generic netlink: a family by its name. Its number is another one after its module was loaded
// anew: it is asked for when it is not known, and when the kernel does not know it any more.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "conversation.h"

namespace swift {

// The number of a family, from the controller's answer.
NetlinkStatus parse_family(Bytes bytes, std::optional<std::uint16_t> &family,
			   std::uint32_t sequence = 0);

class GenlClient {
public:
	using Put = std::function<void(NetlinkRequest &)>; // attributes
	using Parse = std::function<NetlinkStatus(Bytes, std::uint16_t family, std::uint32_t sequence)>;

	static Result<GenlClient> open(std::string family, std::uint8_t version);
	GenlClient(Conversation conversation, std::string family, std::uint8_t version)
		: conversation_(std::move(conversation)), name_(std::move(family)), version_(version)
	{
	}

	// As Conversation::ask(). An Error's code is ENOENT if there is no such family.
	Result<NetlinkStatus> ask(std::uint8_t command, std::uint16_t flags, const Put &put,
				  const Conversation::Begin &begin, const Parse &parse);
	[[nodiscard]] std::uint32_t port() const { return conversation_.port(); }

private:
	Result<void> resolve();

	Conversation conversation_;
	std::string name_;
	std::uint8_t version_;
	std::optional<std::uint16_t> family_;
};

} // namespace swift
