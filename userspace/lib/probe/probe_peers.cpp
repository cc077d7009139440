// SPDX-License-Identifier: MIT
#include "probe_peers.h"

#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <memory>

#include "text.h"

namespace swift {

namespace {

constexpr std::size_t longest_rack = 64;

struct FreeInterfaces {
	void operator()(ifaddrs *list) const { freeifaddrs(list); }
};

Address address_in(const sockaddr *a)
{
	Address out;

	out.v6 = a->sa_family == AF_INET6;
	if (out.v6)
		std::memcpy(out.bytes.data(), &reinterpret_cast<const sockaddr_in6 *>(a)->sin6_addr, 16);
	else
		std::memcpy(out.bytes.data(), &reinterpret_cast<const sockaddr_in *>(a)->sin_addr, 4);
	return out;
}

} // namespace

bool is_rack(std::string_view name)
{
	return !name.empty() && name.size() <= longest_rack && name != other_racks && std::all_of(name.begin(), name.end(), [](unsigned char c) {
		return std::isalnum(c) || c == '-' || c == '_' || c == '.' || c == '/' || c == ':';
	});
}

Result<ProbedPeer> parse_peer(std::string_view where, std::string_view text)
{
	const auto parts = words(text);

	if (parts.empty() || parts.size() > 2 || std::any_of(parts[0].begin(), parts[0].end(), [](char c) {
		    return static_cast<unsigned char>(c) <= ' ' || static_cast<unsigned char>(c) >= 127;
	    }))
		return Error{std::string(where) + ": not a peer", {}, "HOST, HOST:PORT, [ADDRESS]:PORT, and a rack behind it"};
	if (auto port = probe_port_of(parts[0]); !port)
		return Error{std::string(where) + ": " + port.error().text()};
	if (parts.size() == 2 && !is_rack(parts[1]))
		return Error{std::string(where) + ": not a rack", {}, "up to 64 letters, digits and - _ . / :, but for \"other\""};
	return ProbedPeer{parts[0], parts.size() == 2 ? parts[1] : std::string(no_rack)};
}

Result<std::vector<ProbedPeer>> parse_peers(std::string_view name, std::string_view content)
{
	std::vector<ProbedPeer> peers;
	std::size_t number = 0;

	for (const std::string &line : split(content, '\n')) {
		const std::string_view text = trim(std::string_view(line).substr(0, line.find('#')));

		number++;
		if (text.empty())
			continue;
		auto peer = parse_peer(std::string(name) + ":" + std::to_string(number), text);

		if (!peer)
			return peer.error();
		peers.push_back(std::move(*peer));
	}
	if (peers.size() > most_probe_peers)
		return Error{"too many peers in " + std::string(name), std::to_string(peers.size()),
			     "at most " + std::to_string(most_probe_peers)};
	return peers;
}

std::vector<Address> own_addresses()
{
	std::vector<Address> own;
	ifaddrs *found = nullptr;

	if (getifaddrs(&found) < 0)
		return own;

	const std::unique_ptr<ifaddrs, FreeInterfaces> list(found);

	for (const ifaddrs *i = list.get(); i; i = i->ifa_next)
		if (i->ifa_addr && (i->ifa_addr->sa_family == AF_INET || i->ifa_addr->sa_family == AF_INET6))
			own.push_back(address_in(i->ifa_addr));
	return own;
}

} // namespace swift
