// SPDX-License-Identifier: MIT
// The HTTP server around api.h: sockets, limits, TLS, the token, event streams. Any number of
// clients, slow or hostile, may cost their own connections and nothing else. Its threads are
// libmicrohttpd's, one per address.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "api.h"
#include "interface.h"
#include "options.h"
#include "result.h"
#include "store.h"

namespace swift {

class HttpServer : public Interface {
public:
	// To be called after each snapshot, and each failure to get one: event streams go on.
	virtual void wake_streams() = 0;
	// To be called about once a second: ends connections that have had their time. @now_ns:
	// CLOCK_MONOTONIC.
	virtual void end_overdue(std::int64_t now_ns) = 0;
	// "127.0.0.1:9464", with the ports that were really taken.
	[[nodiscard]] virtual std::vector<std::string> addresses() const = 0;
	// If the files of certificate, key or token have another content by now: a server at the same
	// addresses that has it, and serves already; it is to take this one's place. nullptr: they
	// have not. An Error: they are of no use.
	[[nodiscard]] virtual Result<std::unique_ptr<HttpServer>> renewed() const = 0;
};

// While more than that of answers (other than streams) is on its way to their readers, those who ask
// for something else get a 503. What many read counts once.
inline constexpr std::size_t most_sending_bytes = 64 * 1024 * 1024;

// Whether certificate, key and token can be read, and are what they should be.
Result<void> check_http_files(const Config::Http &config);

// @store and @facts have to outlive it.
Result<std::unique_ptr<HttpServer>> start_http(const Config::Http &config, Store &store, const HostFacts &facts,
					       std::size_t most_bytes = most_sending_bytes);

} // namespace swift
